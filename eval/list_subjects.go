package eval

import (
	"context"
	"slices"

	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/graph"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/schema"
)

// ListSubjectsQuestion asks who has Relation on Object: plain subjects of
// SubjectType, or its usersets SubjectType#SubjectRelation.
type ListSubjectsQuestion struct {
	Object          rel.Object
	Relation        string
	SubjectType     string
	SubjectRelation string
	// Named asks for everybody by name: where strangers have the relation (see
	// SubjectList), IDs are also those strangers who stand as a subject of the
	// wanted kind in any tuple, stored or contextual, and Excluded stays empty.
	Named bool
	Page
}

// SubjectList is who has a relation on an object, or a page of it.
//
// The candidates are the subjects that are named in a tuple which the relation
// may depend on, also on a subtracted side, and whose condition is not false;
// of usersets also those that the relation reads (doc:1#viewer reads
// doc:1#editor, whose members are the userset itself and others). Anybody else
// is a stranger, and all strangers get the same answer: Wildcard. So
//
//	check(s) is true     if s is in IDs, or is a stranger and Wildcard is True;
//	check(s) is unknown  if s is in Unknown, or is a stranger and Wildcard is Unknown;
//	check(s) is false    otherwise.
//
// With "viewer: [user:*] but not banned" and user:1 banned, Wildcard is True
// and Excluded is user:1.
type SubjectList struct {
	// IDs are the ids of the candidates for which check is true, in the order of
	// OrderHash; the question has their type and relation.
	IDs []string
	// Wildcard is what a stranger's check is, of whom nothing is known. It is True
	// where the wildcard SubjectType:* contributes (its own check is the same),
	// or where a rule or an attribute lets everybody in; only the latter can let
	// in usersets that are strangers.
	Wildcard expr.Tristate
	// Excluded are, where Wildcard is not False, the candidates for which check
	// is false, in the same order.
	Excluded []string
	// More says that the list goes on: ask again after Next. A page's Limit
	// counts IDs and Excluded together; Wildcard is on every page.
	More bool
	Next Position

	// Unknown, UnknownCount and Reasons tell of the candidates for which check is
	// unknown, as in ObjectList, and Reasons also why Wildcard is. Where the
	// schema says MissingContextFails, Reasons tell besides of every condition
	// that the walk met and that could not be evaluated.
	Unknown      []string
	UnknownCount int
	Reasons      *Reasons

	// Bound names the bound that stopped the search; "" says that the list is
	// complete. What is in IDs is right in any case.
	Bound string
	Stats Stats
}

// ListSubjects lists who has a relation on an object. It walks from the object
// to all subjects at once; what the walk leaves open is checked. The errors are
// those of Check; a SubjectType or SubjectRelation that the schema does not
// have is one of them. Named needs a graph: over other data it is ErrEnumerate
// where strangers are in.
func (b *Binding) ListSubjects(ctx context.Context, r Reader, lq ListSubjectsQuestion, env *Env) (SubjectList, error) {
	if env == nil {
		env = &Env{}
	}
	target, err := b.relation(lq.Object.Type, lq.Relation)
	if err != nil {
		return SubjectList{}, err
	}
	if err := ctx.Err(); err != nil {
		return SubjectList{}, err
	}
	b, r, o, err := b.listReader(r, env)
	if err != nil {
		return SubjectList{}, err
	}
	if o != nil {
		defer o.release()
	}
	w := subjectWalk{target: target, object: lq.Object}
	if err := w.wants(b, &lq); err != nil {
		return SubjectList{}, err
	}
	if !b.s.Relations[target].Reaches(w.wanted) {
		return SubjectList{}, nil
	}
	w.q.start(ctx, b, r, rel.Subject{Type: lq.SubjectType, ID: rel.Wildcard, Relation: lq.SubjectRelation}, env)
	w.listScratch = borrowList()
	defer w.release()
	w.run()
	if err := w.q.failed(); err != nil {
		return SubjectList{}, err
	}
	return w.list(&lq)
}

// subjectWalk goes from an object's relation to every subject of one kind
// that its formula names, hop by hop. What is reached only through tuples that
// hold, unions alone and no more hops than the bound is sure.
type subjectWalk struct {
	q      query
	target schema.RelationID
	object rel.Object
	anchor graph.Node
	wanted schema.KindID
	wild   schema.KindID // the wildcard that covers wanted; None for usersets

	// The scratch's steps are goals: relations, by their number in the schema, of
	// objects, whose members are wanted. Its sure and open are nodes of the
	// candidates' objects; 0 is the question's own.
	*listScratch
	hops    int
	deep    map[schema.RelationID]bool // see leads
	star    expr.Tristate              // how the wildcard was reached
	anybody bool                       // a rule or an attribute may hold for everybody
	bound   string
	// met are the conditions of schema.Options.MissingContextFails; nil without.
	met *Reasons
}

// wants resolves the kind that is asked for.
func (w *subjectWalk) wants(b *Binding, lq *ListSubjectsQuestion) error {
	t := b.typeNamed(lq.SubjectType)
	if t == schema.None {
		return &NameError{ErrNoType, lq.SubjectType, ""}
	}
	w.wanted, w.wild = b.s.Types[t].Plain, schema.None
	if lq.SubjectRelation == "" {
		w.wild = b.s.Types[t].Wildcard
		return nil
	}
	id, err := b.relation(lq.SubjectType, lq.SubjectRelation)
	if err == nil {
		w.wanted = b.s.Relations[id].Kind
	}
	return err
}

func (w *subjectWalk) run() {
	w.anchor = w.q.anchor(w.object)
	if w.q.b.s.Options.MissingContextFails {
		w.met = &Reasons{}
	}
	w.reach(step{relation: int32(w.target), node: w.anchor})
	w.follow()
}

// follow walks on from what was reached until nothing new is found.
func (w *subjectWalk) follow() {
	for w.bound == "" && w.q.err == nil && (len(w.level) > 0 || len(w.next) > 0) {
		for i := 0; i < len(w.level); i++ { // grows while it is read
			g := w.level[i]
			w.read(w.q.b.s.Relations[g.relation].Expr, g)
		}
		w.level, w.next = w.next, w.level[:0]
		w.hops++
	}
}

func (w *subjectWalk) visit(n int) bool {
	if w.bound == "" && w.q.visit(n) {
		return true
	}
	if w.q.err == nil {
		w.bound = BoundNodes
	}
	return false
}

// reach takes a goal that costs no hop. The userset that the goal itself is
// may be wanted.
func (w *subjectWalk) reach(g step) {
	if w.q.b.s.Relations[g.relation].Kind == w.wanted {
		w.candidate(g.node, g.open)
	}
	if w.fresh(g) {
		w.level = append(w.level, g)
	}
}

// fresh says whether a goal is new and could have members that are wanted,
// besides the userset that it is.
func (w *subjectWalk) fresh(g step) bool {
	if !w.leads(schema.RelationID(g.relation)) {
		return false
	}
	key := uint64(g.relation)<<32 | uint64(g.node)<<1
	if g.open {
		return !w.seen.has(key) && w.seen.add(key|1)
	}
	return w.seen.add(key)
}

// reaches says whether a relation is worth a look: it could hold who is
// wanted, or every condition matters.
func (w *subjectWalk) reaches(id schema.RelationID) bool {
	return w.met != nil || w.q.b.s.Relations[id].Reaches(w.wanted)
}

// leads says whether a relation's rewrite is worth a look: a userset reaches
// its own relation, though its rewrite may lead nowhere.
func (w *subjectWalk) leads(id schema.RelationID) bool {
	if w.wild != schema.None || !w.reaches(id) {
		return w.reaches(id)
	}
	deep, known := w.deep[id]
	if !known {
		if w.deep == nil {
			w.deep = map[schema.RelationID]bool{}
		}
		deep = w.met != nil || w.leadsBy(w.q.b.s.Relations[id].Expr)
		w.deep[id] = deep
	}
	return deep
}

func (w *subjectWalk) leadsBy(e *schema.Expr) bool {
	if e.Op == schema.OpAttribute || e.Op == schema.OpRule {
		return true
	}
	for s := range e.Steps() {
		if s.Op == schema.OpDirect && s.Restriction.Kind == w.wanted || s.From != schema.None && w.reaches(s.From) {
			return true
		}
	}
	return slices.ContainsFunc(e.Children, w.leadsBy)
}

func (w *subjectWalk) candidate(n graph.Node, open bool) {
	if open {
		w.open = append(w.open, n)
	} else {
		w.sure = append(w.sure, n)
	}
}

// read goes through an expression of a goal.
func (w *subjectWalk) read(e *schema.Expr, g step) {
	switch e.Op {
	case schema.OpDirect:
		w.direct(e, g)
		return
	case schema.OpComputed:
		w.reach(step{int32(e.Relation), g.open, g.node})
		return
	case schema.OpArrow:
		w.arrow(e, g)
		return
	case schema.OpAttribute, schema.OpRule:
		w.anybody = true
		return
	case schema.OpIntersection, schema.OpExclusion:
		g.open = true
	}
	for _, ch := range e.Children {
		w.read(ch, g)
	}
}

func (w *subjectWalk) direct(e *schema.Expr, g step) {
	b := w.q.b
	from := w.q.at(g.node, b.kind(b.s.Relations[e.Relation].Kind))
	if from == 0 {
		return
	}
	for i := range e.Direct {
		x := &e.Direct[i]
		switch {
		case x.Kind == w.wanted, x.Kind == w.wild && b.s.Options.StarIsOrdinary:
			for _, k := range b.plainKinds(x.Kind) {
				w.each(from, k, x, g.open, w.candidate)
			}
		case x.Kind == w.wild:
			w.each(from, b.kinds[x.Kind], x, g.open, func(_ graph.Node, open bool) {
				if w.star = max(w.star, expr.Unknown); !open {
					w.star = expr.True
				}
			})
		case w.met != nil && x.Relation == schema.None && len(x.Conditions) > 0:
			w.each(from, b.kinds[x.Kind], x, g.open, func(graph.Node, bool) {})
		}
		if x.Relation != schema.None {
			w.hop(from, b.kinds[x.Kind], x, x.Relation, g, x.Kind == w.wanted)
		}
	}
}

func (w *subjectWalk) arrow(e *schema.Expr, g step) {
	b := w.q.b
	from := w.q.at(g.node, b.kind(b.s.Relations[e.Relation].Kind))
	if from == 0 {
		return
	}
	for i := range e.Via {
		v := &e.Via[i]
		for _, k := range b.plainKinds(v.Kind) {
			w.hop(from, k, &v.Restriction, v.Target, g, false)
		}
	}
}

// hop takes the subjects of a node's tuples as the objects of a relation. Where
// they are candidates already (taken), their own usersets are not once more.
func (w *subjectWalk) hop(from graph.Node, k graph.Kind, x *schema.Restriction, to schema.RelationID, g step, taken bool) {
	far := w.hops >= w.q.depthMax
	self := w.q.b.s.Relations[to].Kind == w.wanted && !taken
	if !self && !w.leads(to) {
		return
	}
	w.each(from, k, x, g.open || far, func(n graph.Node, open bool) {
		if self {
			w.candidate(n, open)
		}
		if g := (step{int32(to), open, n}); w.fresh(g) {
			w.next = append(w.next, g)
		}
	})
}

// each calls yield for the subjects of a kind in a node's tuples, and whether
// they are open.
func (w *subjectWalk) each(from graph.Node, k graph.Kind, x *schema.Restriction, open bool, yield func(graph.Node, bool)) {
	if k == 0 {
		return
	}
	l := w.q.r.Forward(from, k)
	for c := range l.Chunks() {
		edges := l.Chunk(c)
		if !w.visit(len(edges)) {
			return
		}
		for _, e := range edges {
			t := w.q.edge(x, from, e)
			if t == expr.Unknown && w.met != nil {
				v := w.q.tuple(x, from, e)
				w.met.merge(conditionReasons(v.result, v.detail.Condition, w.q.key(from, e)))
			}
			if t != expr.False {
				yield(e.Node(), open || t == expr.Unknown)
			}
		}
	}
}

// stranger is an id that no name can be, so that nothing is known of it.
const stranger = "\x7f"

// wildcard answers for strangers.
func (w *subjectWalk) wildcard(l *SubjectList, lq *ListSubjectsQuestion) {
	if w.met != nil && (len(w.met.Missing) > 0 || len(w.met.Errors) > 0) {
		l.why(w.met)
	}
	switch {
	case w.star == expr.True:
		l.Wildcard = expr.True
	case w.star == expr.Unknown || w.anybody || w.q.b.fails:
		sub := rel.Subject{Type: lq.SubjectType, ID: stranger, Relation: lq.SubjectRelation}
		if w.wild != schema.None && !w.q.b.s.Options.StarIsOrdinary {
			sub.ID = rel.Wildcard // the same, and known to the data
		}
		a := w.check(sub)
		if l.Wildcard = a.Decision; a.Decision == expr.Unknown {
			l.why(a.Reasons)
		}
	}
}

// check decides one candidate.
func (w *subjectWalk) check(sub rel.Subject) Answer {
	w.q.start(w.q.ctx, w.q.b, w.q.r, sub, w.q.env)
	return w.q.member(w.target, w.anchor, w.object)
}

// found names and orders the candidates.
func (w *subjectWalk) found() found {
	s := w.listScratch
	name := func(nodes []graph.Node) {
		s.ids = slices.Grow(s.ids, len(nodes))
		for _, n := range nodes {
			id := w.object.ID
			if n != 0 {
				id = w.q.r.ID(n)
			}
			s.ids = append(s.ids, id)
		}
	}
	name(s.sure)
	sure := len(s.ids)
	name(s.open)
	return found{s.ids, s.sorted(), sure}
}

func (l *SubjectList) unknown(id string, why *Reasons) {
	l.UnknownCount++
	if len(l.Unknown) < UnknownMax {
		l.Unknown = append(l.Unknown, id)
	}
	l.why(why)
}

func (l *SubjectList) why(r *Reasons) {
	if l.Reasons == nil {
		l.Reasons = &Reasons{}
	}
	l.Reasons.merge(r)
}
