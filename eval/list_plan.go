package eval

import (
	"slices"

	"github.com/ostiary/ostiary/graph"
	"github.com/ostiary/ostiary/schema"
)

// plan is a schema read backwards, for lists of one relation's objects and
// subjects of one kind: from what a subject stands in, over the uses, to the
// target. It depends on the schema alone.
type plan struct {
	// relations are what the subject can be a member of on its way. The target
	// is the first of them; the others are named by their index.
	relations []planned
	index     map[schema.RelationID]int32
	// starts are the tuples that name the subject itself, or its wildcard.
	starts []start
	// everything are the rules and attributes by which a relation may hold for
	// everybody on any object of its type.
	everything []everybody
	// scans says that one of them is about the target's own objects.
	scans bool
}

// planned is a relation and what membership in it leads to. One without uses
// that is not the target leads nowhere.
type planned struct {
	id   schema.RelationID
	kind graph.Kind // of its nodes; 0 for a hidden one
	ends ending
	uses []use
}

// start is a restriction of a relation that admits the subject as it is, or
// its wildcard.
type start struct {
	to   int32
	by   *schema.Restriction
	open bool
}

// everybody is a rule or an attribute.
type everybody struct {
	to   int32
	expr *schema.Expr
	open bool
}

// use is one step towards the target.
type use struct {
	op schema.Op // OpComputed, OpDirect (a userset in a tuple) or OpArrow
	to int32
	// reads is the kind of the nodes whose tuples join both: of to itself for
	// OpDirect, of the arrow's first relation for OpArrow. by is what those
	// tuples have to be, and from are the kinds of their subjects.
	reads graph.Kind
	from  []graph.Kind
	by    *schema.Restriction
	// open says that the step stands under an intersection or an exclusion, so
	// that what it reaches is no more than a candidate.
	open bool
}

// planner builds a plan.
type planner struct {
	b        *Binding
	kind     schema.KindID // the subject's
	wildcard schema.KindID // its type's wildcard, or None
	// whole follows every operand: also what is subtracted, and all of an
	// intersection.
	whole bool
	plan  *plan
}

// planFor reads the schema backwards from what makes a member of target; or,
// whole, from everything that membership in target depends on.
func (b *Binding) planFor(target schema.RelationID, kind schema.KindID, whole bool) *plan {
	p := b.planner(kind)
	p.whole = whole
	if _, ok := p.need(target); ok {
		p.plan.relations[0].ends = endsSure
	}
	return p.finish(0)
}

// planOf is planFor for a part of a rewrite alone, one without operators. Its
// target is no relation of the schema.
func (b *Binding) planOf(e *schema.Expr, kind schema.KindID) *plan {
	p := b.planner(kind)
	target := planned{id: schema.None, ends: endsSure}
	if e.Op == schema.OpDirect {
		target.kind = b.kind(b.s.Relations[e.Relation].Kind)
	}
	p.plan.relations = append(p.plan.relations, target)
	p.read(0, e, false)
	return p.finish(1)
}

func (b *Binding) planner(kind schema.KindID) *planner {
	p := &planner{b: b, kind: kind, wildcard: schema.None, plan: &plan{index: map[schema.RelationID]int32{}}}
	if kind != schema.None && b.s.Kinds[kind].Relation == "" {
		p.wildcard = b.types[b.typeNamed(b.s.Kinds[kind].Type)].wild
	}
	return p
}

// finish reads what is needed, from the i-th relation on.
func (p *planner) finish(i int) *plan {
	b := p.b
	for ; i < len(p.plan.relations); i++ { // grows while it is read
		p.read(int32(i), b.s.Relations[p.plan.relations[i].id].Expr, false)
	}
	for _, e := range p.plan.everything {
		p.plan.scans = p.plan.scans || p.plan.same(e.to, make([]bool, len(p.plan.relations)))
	}
	return p.plan
}

// same says whether relation i leads to the target on the same object.
func (p *plan) same(i int32, seen []bool) bool {
	if i == 0 || seen[i] {
		return i == 0
	}
	seen[i] = true
	return slices.ContainsFunc(p.relations[i].uses, func(u use) bool { return u.op == schema.OpComputed && p.same(u.to, seen) })
}

func (p *planner) reaches(id schema.RelationID) bool { return p.b.s.Relations[id].Reaches(p.kind) }

// need numbers a relation, if it can hold the subject.
func (p *planner) need(id schema.RelationID) (int32, bool) {
	i, ok := p.plan.index[id]
	if ok || !p.reaches(id) {
		return i, ok
	}
	i = int32(len(p.plan.relations))
	p.plan.index[id] = i
	p.plan.relations = append(p.plan.relations, planned{id: id, kind: p.b.kind(p.b.s.Relations[id].Kind)})
	return i, true
}

func (p *planner) use(from schema.RelationID, u use) {
	if i, ok := p.need(from); ok {
		r := &p.plan.relations[i]
		r.uses = append(r.uses, u)
	}
}

// read collects what leads into relation to through the expression e.
func (p *planner) read(to int32, e *schema.Expr, open bool) {
	switch e.Op {
	case schema.OpDirect, schema.OpComputed, schema.OpArrow:
		for s := range e.Steps() {
			p.step(to, s, open)
		}
	case schema.OpUnion:
		p.readAll(to, e.Children, open)
	case schema.OpIntersection, schema.OpExclusion:
		// The list checks each of these candidates.
		open = true
		switch {
		case p.whole:
			p.readAll(to, e.Children, open)
		case e.Op == schema.OpIntersection:
			// A member of all is a member of any one of them.
			p.read(to, p.narrowest(e.Children), open)
		default:
			p.read(to, e.Children[0], open)
		}
	case schema.OpAttribute, schema.OpRule:
		p.plan.everything = append(p.plan.everything, everybody{to, e, open})
	}
}

func (p *planner) readAll(to int32, children []*schema.Expr, open bool) {
	for _, ch := range children {
		p.read(to, ch, open)
	}
}

// step adds one step into relation to: a start if tuples of the step may name
// the subject itself, and a use if the step reads another relation.
func (p *planner) step(to int32, s schema.Step, open bool) {
	x := s.Restriction
	if s.Op == schema.OpDirect && (x.Kind == p.kind || x.Kind == p.wildcard) {
		p.plan.starts = append(p.plan.starts, start{to, x, open})
	}
	if s.From == schema.None {
		return
	}
	u := use{op: s.Op, to: to, by: x, open: open}
	if x != nil {
		u.reads, u.from = p.b.kind(p.b.s.Relations[s.Tupleset].Kind), p.b.plainKinds(x.Kind)
	}
	p.use(s.From, u)
}

// narrowest picks the operand of an intersection that candidates are taken
// from: one that cannot hold the subject at all, else one that tuples decide,
// the simplest first.
func (p *planner) narrowest(children []*schema.Expr) *schema.Expr {
	best, least := children[0], p.width(children[0])
	for _, ch := range children[1:] {
		if w := p.width(ch); w < least {
			best, least = ch, w
		}
	}
	return best
}

// Widths of expressions, as far as the schema tells: the number of steps to a
// tuple, about.
const (
	widthStep = 4
	widthMany = 64      // recursive: any number of steps
	widthAll  = 1 << 20 // a rule or an attribute
)

func (p *planner) width(e *schema.Expr) int {
	switch e.Op {
	case schema.OpDirect:
		w := 0
		for i := range e.Direct {
			x := &e.Direct[i]
			switch {
			case x.Relation != schema.None && p.reaches(x.Relation):
				w += widthStep + p.relationWidth(x.Relation)
			case x.Kind == p.kind:
				w++
			case x.Kind == p.wildcard:
				w += widthStep // whole types are shared by wildcards
			}
		}
		return min(w, widthAll)
	case schema.OpComputed:
		return p.relationWidth(e.Relation)
	case schema.OpArrow:
		w := 0
		for i := range e.Via {
			w += widthStep + p.relationWidth(e.Via[i].Target)
		}
		return min(w, widthAll)
	case schema.OpUnion:
		w := 0
		for _, ch := range e.Children {
			w += p.width(ch)
		}
		return min(w, widthAll)
	case schema.OpIntersection:
		w := widthAll
		for _, ch := range e.Children {
			w = min(w, p.width(ch))
		}
		return w
	case schema.OpExclusion:
		return p.width(e.Children[0])
	}
	return widthAll
}

// relationWidth looks no further than one relation, so that planning costs no
// more than the schema's size.
func (p *planner) relationWidth(id schema.RelationID) int {
	r := &p.b.s.Relations[id]
	switch {
	case !r.Reaches(p.kind):
		return 0
	case r.ReachAny:
		return widthAll
	case r.Probe:
		return 1
	case r.Recursive:
		return widthMany
	}
	return widthStep
}
