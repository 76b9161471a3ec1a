package eval

import (
	"context"
	"slices"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/internal/engine/graph"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/schema"
)

// ListSubjectsQuestion asks who has a relation on an object: plain subjects of
// a type, or its usersets SubjectType#SubjectRelation.
type ListSubjectsQuestion struct {
	// Object is the object.
	Object rel.Object
	// Relation is a relation of Object's type.
	Relation string
	// SubjectType is the type of the subjects.
	SubjectType string
	// SubjectRelation is the usersets' relation; "" for plain subjects.
	SubjectRelation string
	// Named asks for all subjects by name. If strangers have the relation (see
	// [SubjectList]), IDs then also holds every stranger that is a subject of
	// any tuple, stored or contextual, and Excluded stays empty.
	Named bool
	// Page selects a part of the list.
	Page
}

// SubjectList is a list of the subjects that have a relation on an object, or
// a page of it.
//
// The candidates are the subjects that are named in a tuple on which the
// relation may depend, including subtracted sides, and whose condition is not
// false. For usersets, those that the relation reads are candidates too:
// doc:1#viewer reads doc:1#editor, whose members are the userset itself and
// others. Any other subject is a stranger, and all strangers get the same
// answer: Wildcard. So
//
//	check(s) is true     if s is in IDs, or is a stranger and Wildcard is True;
//	check(s) is unknown  if s is in Unknown, or is a stranger and Wildcard is Unknown;
//	check(s) is false    otherwise.
//
// With "viewer: [user:*] but not banned" and user:1 banned, Wildcard is True
// and Excluded is user:1.
type SubjectList struct {
	// IDs are the ids of the candidates for which check is true, in the order
	// of [OrderHash]. Their type and relation are the question's.
	IDs []string
	// Wildcard is the answer of check for every stranger. It is True if the
	// wildcard SubjectType:* contributes (its own check is then the same), or
	// if a rule or an attribute holds for every subject. Only the latter can
	// hold for usersets that are strangers.
	Wildcard expr.Tristate
	// Excluded are, where Wildcard is not False, the candidates for which
	// check is false, in the same order.
	Excluded []string
	// More is true if the list continues. The next page has Next as its After.
	// A page's Limit counts IDs and Excluded together; Wildcard is on every
	// page.
	More bool
	// Next is the position of the last entry of the page.
	Next Position

	// Unknown, UnknownCount and Reasons report the candidates for which check
	// is unknown, as in [ObjectList]. Reasons also explain an unknown
	// Wildcard. With schema.Options.MissingContextFails, Reasons also hold
	// every condition on the walk's way that could not be evaluated.
	Unknown []string
	// UnknownCount is as in [ObjectList].
	UnknownCount int
	// Reasons are nil if there are none.
	Reasons *authz.Reasons

	// Bound names the bound that stopped the search; "" means that the list is
	// complete. Every subject in IDs is right in both cases.
	Bound string
	// Stats count the work that the list took.
	Stats authz.Stats
}

// ListSubjects lists who has a relation on an object. It walks from the object
// to all subjects at once, and checks the candidates that the walk leaves
// uncertain. The errors are those of Check; a SubjectType or SubjectRelation
// that the schema does not have is one of them. Named needs a graph: over
// other data it is [ErrEnumerate] where strangers have the relation. A nil env
// means the zero Env.
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
	if err := w.resolveSubjectKind(b, &lq); err != nil {
		return SubjectList{}, err
	}
	if !b.s.Relations[target].Reaches(w.subjectKind) {
		return SubjectList{}, nil
	}
	w.q.start(ctx, b, r, rel.Subject{Type: lq.SubjectType, ID: rel.Wildcard, Relation: lq.SubjectRelation}, env)
	defer w.q.finish()
	w.listScratch = borrowList()
	defer w.releaseScratch()
	w.run()
	if err := w.q.failed(); err != nil {
		return SubjectList{}, err
	}
	return w.page(&lq)
}

// subjectWalk walks from a relation of an object to every subject of one kind
// that the relation depends on. See [listWalk] for certain and uncertain
// steps.
type subjectWalk struct {
	listWalk
	// target is the question's relation, and object its object.
	target schema.RelationID
	// object is the question's object.
	object rel.Object
	// anchor is any node of object, or 0.
	anchor graph.Node
	// subjectKind is the kind of subjects to list.
	subjectKind schema.KindID
	// wildcardKind is the kind of the wildcard that covers them; schema.None
	// for usersets.
	wildcardKind schema.KindID

	// leadsFurther caches leadsToSubjects.
	leadsFurther map[schema.RelationID]bool
	// wildcardReached is True if the wildcard was reached with certainty,
	// Unknown if it was reached otherwise, and False if it was not.
	wildcardReached expr.Tristate
	// anybody is true if a rule or an attribute may hold for every subject.
	anybody bool
	// metReasons collects the conditions that could not be evaluated, with
	// schema.Options.MissingContextFails; nil without that option.
	metReasons *authz.Reasons
}

// resolveSubjectKind sets the kinds to list. It fails with a [NameError].
func (w *subjectWalk) resolveSubjectKind(b *Binding, lq *ListSubjectsQuestion) error {
	t := b.typeNamed(lq.SubjectType)
	if t == schema.None {
		return &NameError{Err: ErrNoType, Type: lq.SubjectType, Schema: b.s}
	}
	w.subjectKind, w.wildcardKind = b.s.Types[t].Plain, schema.None
	if lq.SubjectRelation == "" {
		w.wildcardKind = b.s.Types[t].Wildcard
		return nil
	}
	id, err := b.relation(lq.SubjectType, lq.SubjectRelation)
	if err == nil {
		w.subjectKind = b.s.Relations[id].Kind
	}
	return err
}

// run walks from the question's object.
func (w *subjectWalk) run() {
	w.anchor = w.q.anchor(w.object)
	if w.q.b.s.Options.MissingContextFails {
		w.metReasons = &authz.Reasons{}
	}
	w.reach(step{relation: int32(w.target), node: w.anchor})
	w.levels(w.expand)
}

// expand reads the rewrite of a step's relation.
func (w *subjectWalk) expand(s step) { w.read(w.q.b.s.Relations[s.relation].Expr, s) }

// reach adds a step without a hop. The userset that the step itself is may be
// a candidate.
func (w *subjectWalk) reach(s step) {
	if w.q.b.s.Relations[s.relation].Kind == w.subjectKind {
		w.candidate(s.node, s.uncertain)
	}
	if w.isNew(s) {
		w.level = append(w.level, s)
	}
}

// isNew reports whether a step is new and leads to subjects other than its own
// userset.
func (w *subjectWalk) isNew(s step) bool {
	if !w.leadsToSubjects(schema.RelationID(s.relation)) {
		return false
	}
	return w.firstTime(s)
}

// reaches reports whether a relation must be read: it can hold a subject of
// the kind, or every condition matters.
func (w *subjectWalk) reaches(id schema.RelationID) bool {
	return w.metReasons != nil || w.q.b.s.Relations[id].Reaches(w.subjectKind)
}

// leadsToSubjects reports whether a relation's rewrite must be read. For
// usersets that is not the same as reaches: a userset is a member of its own
// relation, although the rewrite may lead to no other.
func (w *subjectWalk) leadsToSubjects(id schema.RelationID) bool {
	if w.wildcardKind != schema.None || !w.reaches(id) {
		return w.reaches(id)
	}
	leads, known := w.leadsFurther[id]
	if !known {
		if w.leadsFurther == nil {
			w.leadsFurther = map[schema.RelationID]bool{}
		}
		leads = w.metReasons != nil || w.rewriteLeads(w.q.b.s.Relations[id].Expr)
		w.leadsFurther[id] = leads
	}
	return leads
}

// rewriteLeads reports whether an expression leads to subjects of the kind.
func (w *subjectWalk) rewriteLeads(e *schema.Expr) bool {
	if e.Op == schema.OpAttribute || e.Op == schema.OpRule {
		return true
	}
	for st := range e.Steps() {
		if st.Op == schema.OpDirect && st.Restriction.Kind == w.subjectKind || st.From != schema.None && w.reaches(st.From) {
			return true
		}
	}
	return slices.ContainsFunc(e.Children, w.rewriteLeads)
}

// candidate adds a candidate.
func (w *subjectWalk) candidate(n graph.Node, uncertain bool) {
	w.q.hold(1, bytesPerCandidate)
	if uncertain {
		w.uncertain = append(w.uncertain, n)
	} else {
		w.certain = append(w.certain, n)
	}
}

// read follows an expression of a step's relation.
func (w *subjectWalk) read(e *schema.Expr, s step) {
	switch e.Op {
	case schema.OpDirect:
		w.direct(e, s)
		return
	case schema.OpComputed:
		w.reach(step{int32(e.Relation), s.uncertain, s.node})
		return
	case schema.OpArrow:
		w.arrow(e, s)
		return
	case schema.OpAttribute, schema.OpRule:
		w.anybody = true
		return
	case schema.OpIntersection, schema.OpExclusion:
		s.uncertain = true
	}
	for _, ch := range e.Children {
		w.read(ch, s)
	}
}

// direct reads a relation's own tuples.
func (w *subjectWalk) direct(e *schema.Expr, s step) {
	b := w.q.b
	from := w.q.relationNode(s.node, b.kind(b.s.Relations[e.Relation].Kind))
	if from == 0 {
		return
	}
	for i := range e.Direct {
		x := &e.Direct[i]
		switch {
		case x.Kind == w.subjectKind, x.Kind == w.wildcardKind && b.s.Options.StarIsOrdinary:
			for _, k := range b.plainKinds(x.Kind) {
				w.eachSubject(from, k, x, s.uncertain, w.candidate)
			}
		case x.Kind == w.wildcardKind:
			w.eachSubject(from, b.kinds[x.Kind], x, s.uncertain, func(_ graph.Node, uncertain bool) {
				if w.wildcardReached = max(w.wildcardReached, expr.Unknown); !uncertain {
					w.wildcardReached = expr.True
				}
			})
		case w.metReasons != nil && x.Relation == schema.None && len(x.Conditions) > 0:
			w.eachSubject(from, b.kinds[x.Kind], x, s.uncertain, func(graph.Node, bool) {})
		}
		if x.Relation != schema.None {
			w.followUsersets(from, b.kinds[x.Kind], x, x.Relation, s, x.Kind == w.subjectKind)
		}
	}
}

// arrow follows an arrow.
func (w *subjectWalk) arrow(e *schema.Expr, s step) {
	b := w.q.b
	from := w.q.relationNode(s.node, b.kind(b.s.Relations[e.Relation].Kind))
	if from == 0 {
		return
	}
	for i := range e.Via {
		v := &e.Via[i]
		for _, k := range b.plainKinds(v.Kind) {
			w.followUsersets(from, k, &v.Restriction, v.Target, s, false)
		}
	}
}

// followUsersets follows the subjects of a node's tuples to their relation to.
// taken is true if the subjects' own usersets are candidates already.
func (w *subjectWalk) followUsersets(from graph.Node, k graph.Kind, x *schema.Restriction, to schema.RelationID, s step, taken bool) {
	beyondDepth := w.hops >= w.q.depthMax
	self := w.q.b.s.Relations[to].Kind == w.subjectKind && !taken
	if !self && !w.leadsToSubjects(to) {
		return
	}
	w.eachSubject(from, k, x, s.uncertain || beyondDepth, func(n graph.Node, uncertain bool) {
		if self {
			w.candidate(n, uncertain)
		}
		if s := (step{int32(to), uncertain, n}); w.isNew(s) {
			w.next = append(w.next, s)
		}
	})
}

// eachSubject calls yield for the subjects of one kind in a node's tuples, and
// whether they are uncertain.
func (w *subjectWalk) eachSubject(from graph.Node, k graph.Kind, x *schema.Restriction, uncertain bool, yield func(graph.Node, bool)) {
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
			if t == expr.Unknown && w.metReasons != nil {
				v := w.q.tuple(x, from, e)
				mergeReasons(w.metReasons, conditionReasons(v.result, v.detail.Condition, w.q.key(from, e)))
			}
			if t != expr.False {
				yield(e.Node(), uncertain || t == expr.Unknown)
			}
		}
	}
}

// stranger is an id that no name can be. No tuple names it.
const stranger = "\x7f"

// decideStrangers sets the Wildcard of a list.
func (w *subjectWalk) decideStrangers(l *SubjectList, lq *ListSubjectsQuestion) {
	if w.metReasons != nil && (len(w.metReasons.Missing) > 0 || len(w.metReasons.Errors) > 0) {
		l.why(w.metReasons)
	}
	switch {
	case w.wildcardReached == expr.True:
		l.Wildcard = expr.True
	case w.wildcardReached == expr.Unknown || w.anybody || w.q.b.missingFails:
		sub := rel.Subject{Type: lq.SubjectType, ID: stranger, Relation: lq.SubjectRelation}
		if w.wildcardKind != schema.None && !w.q.b.s.Options.StarIsOrdinary {
			sub.ID = rel.Wildcard // the same answer, by a node that exists
		}
		a := w.check(sub)
		if l.Wildcard = a.Decision; a.Decision == expr.Unknown {
			l.why(a.Reasons)
		}
	}
}

// check decides one candidate.
func (w *subjectWalk) check(sub rel.Subject) authz.Answer {
	w.q.start(w.q.ctx, w.q.b, w.q.r, sub, w.q.env)
	return w.q.member(w.target, w.anchor, w.object)
}

// found returns the candidates.
func (w *subjectWalk) found() listEntries {
	w.addNames(w.certain, w.object.ID)
	certain := len(w.ids)
	w.addNames(w.uncertain, w.object.ID)
	return w.entries(certain)
}

// unknown adds a subject for which check is unknown.
func (l *SubjectList) unknown(id string, why *authz.Reasons) {
	l.UnknownCount++
	if len(l.Unknown) < authz.UnknownMax {
		l.Unknown = append(l.Unknown, id)
	}
	l.why(why)
}

// why adds reasons.
func (l *SubjectList) why(r *authz.Reasons) {
	if l.Reasons == nil {
		l.Reasons = &authz.Reasons{}
	}
	mergeReasons(l.Reasons, r)
}
