package ostiary

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/ostiary/ostiary/eval"
	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/graph"
	"github.com/ostiary/ostiary/internal/errs"
	"github.com/ostiary/ostiary/internal/query"
	"github.com/ostiary/ostiary/internal/snapshot"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/schema"
)

var noPosition graph.Position

// differing is what both sides of a comparison are asked under.
type differing struct {
	schemaID string
	context  expr.Values
	bounds   eval.Bounds
}

// side is one of the two views that are compared.
type side struct {
	view  *snapshot.View
	ready *snapshot.BoundSchema
	env   eval.Env
}

// comparison finds what a permission gained and lost between two views of a
// lineage. The evaluator answers at both; what follows here only finds out
// whom it is worth to ask about.
//
// An answer can differ only if some tuple that one side lacks (or that counts on
// one side only) leads to it: there is a way from the tuple's object and
// relation to the object that is asked, over tuples of either side, and the
// subject that is asked is a member of the tuple's subject on a side that has
// the tuple. So: walk from each changed tuple to the objects, take the members
// of its subject, and ask these pairs.
type comparison struct {
	s          *Store
	p          PermissionSelector
	a, b       side
	relation   *schema.Relation
	narrow     map[string]bool // p.Objects
	wanted     map[string]bool // p.Subjects
	everything bool            // all objects may have changed

	// cause are, by object, the groups of changed tuples that reach it.
	causes map[string][]int
	groups []cause

	limit, left, checked int
	after, last          differencePlace
	moved, more          bool
	changes              []PermissionChange
	undecided            int
}

// cause is the changed tuples of one relation of one object, or its changed
// attributes: the subjects that they bring.
type cause struct {
	tuples    []changedTuple
	everybody bool
	found     bool
	subjects  map[string]struct{}
}

// changedTuple is a tuple as each side has it.
type changedTuple struct {
	before, after rel.Tuple
	inA, inB      bool
}

func (s *Store) newComparison(ctx context.Context, p *PermissionSelector, a, b *snapshot.View, d *differing) (*comparison, error) {
	c := &comparison{s: s, p: *p, causes: map[string][]int{}}
	later, err := s.timeline.Schema(ctx, b, p.ObjectType, d.schemaID)
	if err != nil {
		return nil, err
	}
	earlier := later
	if d.schemaID == "" {
		earlier, err = s.timeline.Schema(ctx, a, p.ObjectType, "")
		if errors.Is(err, ErrNoSchema) {
			earlier, err = nil, nil // before the first schema nobody had anything
		}
		if err != nil {
			return nil, err
		}
	}
	bounds := s.timeline.Runtime.Bounds.Query(d.bounds)
	c.a = side{a, earlier, eval.Env{Now: a.Head.Time, Context: d.context, Bounds: bounds}}
	c.b = side{b, later, eval.Env{Now: b.Head.Time, Context: d.context, Bounds: bounds}}
	if err := query.ValidInput(&s.timeline.Runtime.Bounds, c.b.ready, &QueryOptions{Context: d.context}); err != nil {
		return nil, err
	}
	c.narrow, c.wanted = setOf(p.Objects), setOf(p.Subjects)
	c.everything = c.a.ready == nil || c.a.ready.Info.ID != c.b.ready.Info.ID
	return c, c.names()
}

// setOf is a list for lookups; nil stays nil.
func setOf(ids []string) map[string]bool {
	if ids == nil {
		return nil
	}
	out := make(map[string]bool, len(ids))
	for _, id := range ids {
		out[id] = true
	}
	return out
}

// names finds the permission in the later schema, whose words the question is
// asked in.
func (c *comparison) names() error {
	sc := c.b.ready.Schema
	if _, ok := sc.Type(c.p.ObjectType); !ok {
		return &eval.NameError{Err: eval.ErrNoType, Type: c.p.ObjectType}
	}
	rd, ok := sc.Relation(c.p.ObjectType, c.p.Relation)
	if !ok {
		return &eval.NameError{Err: eval.ErrNoRelation, Type: c.p.ObjectType, Relation: c.p.Relation}
	}
	c.relation = rd
	if _, ok := sc.Type(c.p.SubjectType); !ok {
		return &eval.NameError{Err: eval.ErrNoType, Type: c.p.SubjectType}
	}
	if c.p.SubjectRelation == "" {
		return nil
	}
	if _, ok := sc.Relation(c.p.SubjectType, c.p.SubjectRelation); !ok {
		return &eval.NameError{Err: eval.ErrNoRelation, Type: c.p.SubjectType, Relation: c.p.SubjectRelation}
	}
	return nil
}

// between finds the objects that the changes between the two views reach.
func (c *comparison) between(ctx context.Context) error {
	if c.everything {
		return c.all()
	}
	keys, attributes, err := c.s.keysBetween(ctx, c.a.view, c.b.view)
	if err != nil {
		return err
	}
	return c.reached(keys, attributes)
}

// all takes every object of the type that either side knows.
func (c *comparison) all() error {
	c.groups = append(c.groups, cause{everybody: true})
	for _, v := range []*snapshot.View{c.a.view, c.b.view} {
		for n := range v.Graph.Objects(c.p.ObjectType) {
			if err := c.caused(v.Graph.ID(n), 0); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *comparison) caused(id string, group int) error {
	if c.narrow != nil && !c.narrow[id] {
		return nil
	}
	if list := c.causes[id]; len(list) == 0 || list[len(list)-1] != group {
		c.causes[id] = append(list, group)
	}
	return errs.CheckBound("DifferencePlaces", len(c.causes), c.s.timeline.Runtime.Bounds.DifferencePlaces)
}

// reached walks from what changed to the objects of the permission.
func (c *comparison) reached(keys map[rel.Key]struct{}, attributes map[rel.Attribute]struct{}) error {
	if c.s.timeline.HasExpiring() {
		keys = maps.Clone(keys) // which several may share
		for _, v := range []*snapshot.View{c.a.view, c.b.view} {
			for t := range v.Graph.Expiring() {
				if t.Expires > c.a.env.Now && t.Expires <= c.b.env.Now {
					keys[t.Key()] = struct{}{}
				}
			}
		}
	}
	left := c.s.timeline.Runtime.Bounds.DifferencePlaces
	for at, tuples := range c.changed(keys) {
		rd, ok := c.b.ready.Schema.Relation(at.typ, at.relation)
		if !ok {
			continue // the schema, the same on both sides, does not know it
		}
		if err := c.from(rel.Object{Type: at.typ, ID: at.id}, []schema.RelationID{rd.ID}, cause{tuples: tuples}, &left); err != nil {
			return err
		}
	}
	d, err := dependentsFor(c.b.ready, c.b.view.Graph.Lineage())
	if err != nil {
		return err
	}
	seen := map[rel.Object]bool{}
	for at := range attributes {
		if seen[at.Object] || !c.differs(at) {
			continue
		}
		seen[at.Object] = true
		var starts []schema.RelationID
		for _, id := range d.valued {
			if r := &c.b.ready.Schema.Relations[id]; c.b.ready.Schema.Types[r.Type].Name == at.Object.Type {
				starts = append(starts, id)
			}
		}
		if err := c.from(at.Object, starts, cause{everybody: true}, &left); err != nil {
			return err
		}
	}
	return nil
}

// relationOf is a relation of an object, as a key.
type relationOf struct{ typ, id, relation string }

// changed leaves of the keys what is not the same on both sides, by the relation
// it stands in.
func (c *comparison) changed(keys map[rel.Key]struct{}) map[relationOf][]changedTuple {
	out := map[relationOf][]changedTuple{}
	for k := range keys {
		var t changedTuple
		t.before, t.inA = c.a.view.Graph.Get(k)
		t.after, t.inB = c.b.view.Graph.Get(k)
		t.inA = t.inA && !t.before.Expired(c.a.env.Now)
		t.inB = t.inB && !t.after.Expired(c.b.env.Now)
		if t.inA != t.inB || t.inA && (t.before.Condition != t.after.Condition || t.before.Context != t.after.Context) {
			at := relationOf{k.Object.Type, k.Object.ID, k.Relation}
			out[at] = append(out[at], t)
		}
	}
	return out
}

// differs says whether an attribute has another value.
func (c *comparison) differs(at rel.Attribute) bool {
	var values [2]string
	for i, v := range []*snapshot.View{c.a.view, c.b.view} {
		for a := range v.Graph.Attributes(at.Object.Type, at.Object.ID, at.Name) {
			values[i] = a.Value
		}
	}
	return values[0] != values[1]
}

// from walks from relations of an object that changed.
func (c *comparison) from(o rel.Object, starts []schema.RelationID, why cause, left *int) error {
	r, err := newReach(c.b.ready, *left, c.a.view.Graph, c.b.view.Graph)
	if err != nil {
		return err
	}
	n := r.node(o)
	for _, id := range starts {
		r.add(place{id, o.ID}, n)
		for _, arrow := range r.d.over[id] {
			r.add(place{arrow, o.ID}, n)
		}
	}
	r.run()
	if *left -= len(r.seen); r.full {
		most := c.s.timeline.Runtime.Bounds.DifferencePlaces
		return errs.CheckBound("DifferencePlaces", most+1, most)
	}
	group := -1
	for _, p := range r.queue {
		if p.relation != c.relation.ID {
			continue
		}
		if group < 0 {
			group = len(c.groups)
			c.groups = append(c.groups, why)
		}
		if err := c.caused(p.id, group); err != nil {
			return err
		}
	}
	return nil
}

// compare asks about the objects that were reached, in order, until the page
// is full.
func (c *comparison) compare(ctx context.Context) error {
	ids := slices.SortedFunc(maps.Keys(c.causes), compareIDs)
	for _, id := range ids {
		if c.after.set {
			if o := compareIDs(id, c.after.object); o < 0 || o == 0 && c.after.subject == "" {
				continue
			}
		}
		if err := c.object(ctx, id); err != nil || c.more {
			return err
		}
		c.last, c.moved = differencePlace{id, "", true}, true
	}
	return nil
}

// full says whether the page ends here. Every page gets on by a subject or an
// object.
func (c *comparison) full() bool {
	c.more = c.moved && (len(c.changes) >= c.limit || c.left <= 0)
	return c.more
}

// object compares one object's subjects.
func (c *comparison) object(ctx context.Context, id string) error {
	if c.full() {
		return nil
	}
	subjects, everybody := map[string]struct{}{}, false
	for _, i := range c.causes[id] {
		g := &c.groups[i]
		if err := c.bring(ctx, g); err != nil {
			return err
		}
		everybody = everybody || g.everybody
		maps.Copy(subjects, g.subjects)
	}
	o := rel.Object{Type: c.p.ObjectType, ID: id}
	var all *strangers
	switch {
	case c.p.Subjects != nil:
		maps.DeleteFunc(subjects, func(s string, _ struct{}) bool { return !c.wanted[s] })
		if everybody {
			for _, s := range c.p.Subjects {
				subjects[s] = struct{}{}
			}
		}
	case everybody:
		var err error
		if all, err = c.strangers(ctx, o, subjects); err != nil {
			return err
		}
	}
	return c.pairs(ctx, o, slices.SortedFunc(maps.Keys(subjects), compareIDs), all)
}

// pairs asks about each subject of an object on both sides.
func (c *comparison) pairs(ctx context.Context, o rel.Object, subjects []string, all *strangers) error {
	resume := c.after.set && c.after.object == o.ID
	if all != nil && all.line.Before != all.line.After && !resume {
		all.excepted(subjects)
		c.changes = append(c.changes, all.line)
		c.last, c.moved = differencePlace{o.ID, placeEverybody, true}, true
	}
	for _, id := range subjects {
		if resume && c.after.subject != placeEverybody && compareIDs(id, c.after.subject) <= 0 {
			continue
		}
		if c.full() {
			return nil
		}
		change, known := all.change(o, id)
		if !known {
			var err error
			if change, err = c.pair(ctx, o, id); err != nil {
				return err
			}
		}
		c.last, c.moved = differencePlace{o.ID, id, true}, true
		if change.Before != change.After {
			c.changes = append(c.changes, change)
		} else if change.Before == expr.Unknown {
			c.undecided++
		}
	}
	return nil
}

// strangers are the answers for one object of all that lists name, on both
// sides, and of everybody else.
type strangers struct {
	line   PermissionChange
	named  [2]map[string]expr.Tristate
	capped bool // a list left out some that are unknown
}

// change is a subject's where the lists tell, which are the evaluator's own
// answers; what is unknown is asked again, for its reasons.
func (x *strangers) change(o rel.Object, id string) (PermissionChange, bool) {
	if x == nil || x.capped {
		return PermissionChange{}, false
	}
	p := x.line
	p.Object, p.Subject.ID, p.Everybody, p.Reasons, p.Except, p.ExceptCount = o, id, false, nil, nil, 0
	if t, ok := x.named[0][id]; ok {
		p.Before = t
	}
	if t, ok := x.named[1][id]; ok {
		p.After = t
	}
	return p, p.Before != expr.Unknown && p.After != expr.Unknown
}

// excepted names those for whom the line does not speak.
func (x *strangers) excepted(subjects []string) {
	for _, id := range subjects {
		p, _ := x.change(x.line.Object, id)
		if p.Before == x.line.Before && p.After == x.line.After {
			continue
		}
		if x.line.ExceptCount++; len(x.line.Except) < exceptMax {
			x.line.Except = append(x.line.Except, id)
		}
	}
}

func (c *comparison) pair(ctx context.Context, o rel.Object, id string) (p PermissionChange, err error) {
	p = PermissionChange{Object: o, Subject: rel.Subject{Type: c.p.SubjectType, ID: id, Relation: c.p.SubjectRelation}}
	q := eval.Question{Object: o, Relation: c.p.Relation, Subject: p.Subject}
	var why *eval.Reasons
	if p.Before, p.Reasons, err = c.ask(ctx, &c.a, q); err != nil {
		return p, err
	}
	if p.After, why, err = c.ask(ctx, &c.b, q); why != nil {
		p.Reasons = why
	}
	return p, err
}

// ask checks on one side. What its schema did not know yet was nobody's.
func (c *comparison) ask(ctx context.Context, s *side, q eval.Question) (expr.Tristate, *eval.Reasons, error) {
	if s.ready == nil {
		return expr.False, nil, nil
	}
	c.left--
	c.checked++
	answer, err := s.ready.Binding.Check(ctx, s.view.Graph, q, &s.env)
	if errors.Is(err, eval.ErrNoType) || errors.Is(err, eval.ErrNoRelation) {
		return expr.False, nil, nil
	}
	return answer.Decision, answer.Reasons, err
}

// strangers lists who has the permission on both sides, and adds to subjects
// those that are named on either.
func (c *comparison) strangers(ctx context.Context, o rel.Object, subjects map[string]struct{}) (*strangers, error) {
	x := &strangers{line: PermissionChange{Object: o, Everybody: true,
		Subject: rel.Subject{Type: c.p.SubjectType, ID: rel.Wildcard, Relation: c.p.SubjectRelation}}}
	for i, side := range []*side{&c.a, &c.b} {
		l, err := c.list(ctx, side, eval.ListSubjectsQuestion{Object: o, Relation: c.p.Relation,
			SubjectType: c.p.SubjectType, SubjectRelation: c.p.SubjectRelation})
		if err != nil {
			return nil, err
		}
		x.named[i] = map[string]expr.Tristate{}
		for truth, ids := range map[expr.Tristate][]string{expr.True: l.IDs, expr.False: l.Excluded, expr.Unknown: l.Unknown} {
			for _, id := range ids {
				subjects[id] = struct{}{}
				x.named[i][id] = truth
			}
		}
		if missed := l.UnknownCount - len(l.Unknown); missed > 0 {
			x.capped = true
			c.undecided += missed
		}
		if l.Wildcard == expr.Unknown {
			x.line.Reasons = l.Reasons
		}
		*[]*expr.Tristate{&x.line.Before, &x.line.After}[i] = l.Wildcard
	}
	return x, nil
}

func (c *comparison) list(ctx context.Context, s *side, q eval.ListSubjectsQuestion) (eval.SubjectList, error) {
	if s.ready == nil {
		return eval.SubjectList{}, nil
	}
	c.left--
	c.checked++
	l, err := s.ready.Binding.ListSubjects(ctx, s.view.Graph, q, &s.env)
	if errors.Is(err, eval.ErrNoType) || errors.Is(err, eval.ErrNoRelation) {
		return eval.SubjectList{}, nil
	}
	if err == nil && l.Bound != "" {
		err = &BoundError{Name: l.Bound, Max: int64(s.env.Bounds.Nodes), Got: int64(s.env.Bounds.Nodes) + 1}
	}
	return l, err
}

// bring finds the subjects that a group of changed tuples brings, once.
func (c *comparison) bring(ctx context.Context, g *cause) error {
	if g.found || g.everybody {
		return nil
	}
	g.found, g.subjects = true, map[string]struct{}{}
	if c.p.Subjects != nil {
		// Few are asked for: they are asked, whoever the tuples name.
		for _, id := range c.p.Subjects {
			g.subjects[id] = struct{}{}
		}
		return nil
	}
	for i := range g.tuples {
		t := &g.tuples[i]
		if t.inA {
			if err := c.brings(ctx, g, &t.before, &c.a); err != nil {
				return err
			}
		}
		if t.inB {
			if err := c.brings(ctx, g, &t.after, &c.b); err != nil {
				return err
			}
		}
		if g.everybody {
			return nil
		}
	}
	return nil
}

// brings adds the members of a tuple's subject, as a member of its relation and
// over the arrows that go through it.
func (c *comparison) brings(ctx context.Context, g *cause, t *rel.Tuple, s *side) error {
	sub := t.Subject
	switch {
	case sub.IsWildcard():
		g.everybody = g.everybody || sub.Type == c.p.SubjectType
	case sub.Type == c.p.SubjectType && sub.Relation == c.p.SubjectRelation:
		g.subjects[sub.ID] = struct{}{}
	}
	if sub.Relation != "" {
		if err := c.members(ctx, g, sub.Object(), sub.Relation, s); err != nil {
			return err
		}
	}
	rd, ok := s.ready.Schema.Relation(t.Object.Type, t.Relation)
	if !ok {
		return nil
	}
	d, err := dependentsFor(s.ready, s.view.Graph.Lineage())
	if err != nil {
		return err
	}
	targets := map[schema.RelationID]bool{}
	for _, over := range d.over[rd.ID] {
		arrowTargets(s.ready.Schema.Relations[over].Expr, rd.ID, kindOf(s.ready.Schema, sub), targets)
	}
	for id := range targets {
		target := &s.ready.Schema.Relations[id]
		if target.Hidden {
			g.everybody = true // an expression, which no list can be asked for
			return nil
		}
		if err := c.members(ctx, g, sub.Object(), target.Name, s); err != nil {
			return err
		}
	}
	return nil
}

// arrowTargets adds where the arrows of an expression lead over a tupleset
// from a kind of subject.
func arrowTargets(e *schema.Expr, tupleset schema.RelationID, kind schema.KindID, out map[schema.RelationID]bool) {
	if e == nil {
		return
	}
	if e.Op == schema.OpArrow {
		if e.Relation == tupleset {
			for i := range e.Via {
				if v := &e.Via[i]; v.Kind == kind && v.Target != schema.None {
					out[v.Target] = true
				}
			}
		}
		return
	}
	for _, child := range e.Children {
		arrowTargets(child, tupleset, kind, out)
	}
}

// members adds who is, or may be, in a relation of an object.
func (c *comparison) members(ctx context.Context, g *cause, o rel.Object, relation string, s *side) error {
	l, err := c.list(ctx, s, eval.ListSubjectsQuestion{Object: o, Relation: relation,
		SubjectType: c.p.SubjectType, SubjectRelation: c.p.SubjectRelation})
	if err != nil {
		return err
	}
	if l.Wildcard != expr.False || l.UnknownCount > len(l.Unknown) {
		g.everybody = true
		return nil
	}
	for _, ids := range [...][]string{l.IDs, l.Unknown} {
		for _, id := range ids {
			g.subjects[id] = struct{}{}
		}
	}
	return nil
}
