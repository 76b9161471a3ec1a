package eval

import (
	"context"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/internal/engine/graph"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/schema"
)

// Check answers a question. A decision is never an error. The errors are about
// the question ([ErrNoType], [ErrNoRelation], [ErrTuple]), the context's own,
// or the Reader's. Check is safe for concurrent use if r is.
//
// A search from the object decides nearly every question (see search). Where
// the search cannot decide, the question becomes a system of equations (see
// system).
func (b *Binding) Check(ctx context.Context, r Reader, question authz.Question, env *Env) (authz.Answer, error) {
	id, err := b.relation(question.Object.Type, question.Relation)
	if err != nil {
		return authz.Answer{}, err
	}
	if err := ctx.Err(); err != nil {
		return authz.Answer{}, err
	}
	if len(env.Tuples)+len(env.Attributes) != 0 && !isOverlayOf(r, env) {
		return b.checkOver(ctx, r, question, env)
	}
	var q query // stays on the stack; solveEquations copies it
	defer q.finish()
	own := q.prepare(ctx, b, r, &question.Subject, env)
	if q.b.usesSearch(&q) {
		route := q.b.route(int32(id), q.kind)
		out := q.searchObject(route, q.findEnds(own, route.kinds, question.Object.ID), question.Object.ID)
		if out.truth != expr.Unknown || q.unrecoverable() {
			q.stats.Depth = int(out.height)
			return q.answer(authz.Answer{Decision: out.truth, Reasons: q.boundReasons(), Stats: q.stats})
		}
	}
	if q.node == 0 && own != 0 {
		q.node, _ = q.r.Node(own, q.subject.ID)
	}
	n := q.anchor(question.Object)
	truth, reasons := q.solveEquations(id, n, question.Object)
	if truth == expr.Unknown && q.certainAllow(id, n, question.Object) {
		truth, reasons = expr.True, nil
	}
	return q.answer(authz.Answer{Decision: truth, Reasons: reasons, Stats: q.stats})
}

// answer returns a, or the error of the question without a decision: what was
// decided before the error counts for nothing.
func (q *query) answer(a authz.Answer) (authz.Answer, error) {
	if err := q.failed(); err != nil {
		return authz.Answer{}, err
	}
	return a, nil
}

// checkOver answers a question that has contextual tuples or attributes.
func (b *Binding) checkOver(ctx context.Context, r Reader, question authz.Question, env *Env) (authz.Answer, error) {
	o, err := b.contextualOverlay(r, env)
	if err != nil {
		return authz.Answer{}, err
	}
	a, err := b.Check(ctx, o, question, env)
	o.release()
	return a, err
}

// usesSearch reports whether a question is searched before it is solved by
// equations.
func (b *Binding) usesSearch(q *query) bool {
	return b.mode != ModeSolver && !(b.s.Options.StarIsOrdinary && q.subject.ID == rel.Wildcard)
}

// unrecoverable reports whether a search stopped for a reason that equations
// cannot help with: one of the question's own bounds, or an error.
func (q *query) unrecoverable() bool {
	return q.stopped && (q.nodesLimit == q.nodesMax || q.err != nil || q.exhausted())
}

// resetNodes starts the count of visited nodes again, for another way of
// evaluation.
func (q *query) resetNodes() { q.visited, q.nodesLimit, q.stopped = 0, q.nodesMax, false }

// boundReasons returns why a search that was stopped is unknown; nil if it was
// not stopped.
func (q *query) boundReasons() *authz.Reasons {
	if !q.stopped {
		return nil
	}
	return &authz.Reasons{Bound: q.boundReached()}
}

// firstNode finds an object's node of the first of kinds that has one; 0 if
// none has.
func (q *query) firstNode(kinds []graph.Kind, id string) graph.Node {
	for _, k := range kinds {
		if n, ok := q.r.Node(k, id); ok {
			return n
		}
	}
	return 0
}

// reader returns r with the contextual tuples and attributes of env in front
// of it. It fails with [ErrTuple] if the schema does not admit one of them.
func (b *Binding) reader(r Reader, env *Env) (Reader, error) {
	if len(env.Tuples) == 0 && len(env.Attributes) == 0 {
		return r, nil
	}
	return overlaid(b.s, b, r, env.Tuples, env.Attributes)
}

// member answers whether the subject has a relation of an object. n is any
// node of the object, or 0 if it has none. The caller checks q.failed before
// it uses the answer.
func (q *query) member(id schema.RelationID, n graph.Node, object rel.Object) authz.Answer {
	before, used := q.stats, q.memory.used
	a := q.decide(id, n, object)
	if a.Decision == expr.Unknown && q.certainAllow(id, n, object) {
		a = authz.Answer{Decision: expr.True}
	}
	q.resetNodes()
	q.memory.used = used
	a.Stats = authz.Stats{Probes: q.stats.Probes - before.Probes, Nodes: q.stats.Nodes - before.Nodes, Conditions: q.stats.Conditions - before.Conditions,
		ConditionCost: q.stats.ConditionCost - before.ConditionCost}
	return a
}

// certainAllow reports whether an answer that is unknown under
// schema.Options.MissingContextFails is True without that option. The option
// only turns decisions into unknown, so such an answer is a certain allow: no
// value of the missing context changes it.
func (q *query) certainAllow(id schema.RelationID, n graph.Node, object rel.Object) bool {
	b := q.b
	if b.certain == nil || q.failed() != nil {
		return false
	}
	q.b = b.certain
	a := q.decide(id, n, object)
	q.b = b
	return a.Decision == expr.True
}

// decide searches, and solves the equations where the search cannot decide.
func (q *query) decide(id schema.RelationID, n graph.Node, object rel.Object) authz.Answer {
	if q.b.usesSearch(q) {
		q.resetNodes()
		out := q.searchObject(q.b.route(int32(id), q.kind), n, object.ID)
		if out.truth != expr.Unknown || q.unrecoverable() {
			return authz.Answer{Decision: out.truth, Reasons: q.boundReasons()}
		}
	}
	truth, reasons := q.solveEquations(id, n, object)
	return authz.Answer{Decision: truth, Reasons: reasons}
}

// solveEquations decides by equations. It works on a copy of the query,
// because the equations keep a pointer to it and q must stay on the stack.
func (q *query) solveEquations(id schema.RelationID, n graph.Node, object rel.Object) (expr.Tristate, *authz.Reasons) {
	own := new(query)
	*own = *q
	defer q.takeOver(own)
	a, ok := own.solveMixed(id, n, object)
	if !ok {
		a = own.solveAll(id, n, object)
	}
	return a.Decision, a.Reasons
}

// solveMixed builds equations only for relations in cycles, and searches
// everything outside of those cycles. It returns false where that leaves the
// answer unknown; then solveAll decides and finds the reasons.
func (q *query) solveMixed(id schema.RelationID, n graph.Node, object rel.Object) (authz.Answer, bool) {
	if !q.b.cyclic || !q.b.usesSearch(q) {
		return authz.Answer{}, false
	}
	q.resetNodes()
	s := q.newSystem(id, n, object.ID)
	s.mixed = true
	used := q.memory.used
	defer func() { s.release(); q.memory.used = used }()
	ok := s.build() && s.solve(q.depthMax) && s.truth(s.root()) != expr.Unknown
	q.releaseScratch()
	if !ok {
		return authz.Answer{}, false
	}
	return authz.Answer{Decision: s.truth(s.root())}, true
}

// solveAll decides by the equations of everything that the question depends
// on.
func (q *query) solveAll(id schema.RelationID, n graph.Node, object rel.Object) authz.Answer {
	s := q.buildAndSolve(id, n, object)
	defer s.release()
	switch {
	case q.failed() != nil:
		return authz.Answer{}
	case !s.complete:
		return authz.Answer{Decision: expr.Unknown, Reasons: &authz.Reasons{Bound: q.boundReached()}}
	case s.truth(s.root()) != expr.Unknown:
		return authz.Answer{Decision: s.truth(s.root())}
	}
	return authz.Answer{Decision: expr.Unknown, Reasons: s.reasons()}
}

// buildAndSolve builds and solves the question's equations. The system is not
// complete if the bound of nodes was reached or the question failed.
func (q *query) buildAndSolve(id schema.RelationID, n graph.Node, object rel.Object) *system {
	q.resetNodes()
	s := q.newSystem(id, n, object.ID)
	s.complete = s.build() && s.solve(q.depthMax)
	return s
}

// failed returns the error that ended the question early: the context's or the
// Reader's; nil if there is none.
func (q *query) failed() error {
	if q.err != nil || q.view != nil { // a view never fails
		return q.err
	}
	return q.r.Err()
}
