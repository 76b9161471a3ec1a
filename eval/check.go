package eval

import (
	"context"

	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/graph"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/schema"
)

// Check answers a question. Errors are about the question (ErrNoType,
// ErrNoRelation, ErrTuple), the context's own, or the Reader's; a decision is
// never an error. A subject that the schema does not know is no member.
// Check is safe for concurrent use as far as r is.
func (b *Binding) Check(ctx context.Context, r Reader, question Question, env *Env) (Answer, error) {
	id, err := b.relation(question.Object.Type, question.Relation)
	if err != nil {
		return Answer{}, err
	}
	if err := ctx.Err(); err != nil {
		return Answer{}, err
	}
	if len(env.Tuples)+len(env.Attributes) != 0 && !overlaidBy(r, env) {
		return b.checkOver(ctx, r, question, env)
	}
	var q query // on the stack, unless the equations need it
	own := q.prepare(ctx, b, r, &question.Subject, env)
	if q.b.walks(&q) {
		route := q.b.route(int32(id), q.kind)
		out := q.walked(int32(id), route, q.ends(own, route.kinds, question.Object.ID), question.Object.ID)
		if out.truth != expr.Unknown || q.ended() {
			return Answer{out.truth, q.bounded(), q.stats}, q.failed()
		}
	}
	if q.node == 0 && own != 0 {
		q.node, _ = q.r.Node(own, q.subject.ID)
	}
	truth, reasons := q.solved(id, q.anchor(question.Object), question.Object)
	return Answer{truth, reasons, q.stats}, q.failed()
}

// checkOver is Check with what env brings laid over r.
func (b *Binding) checkOver(ctx context.Context, r Reader, question Question, env *Env) (Answer, error) {
	o, err := b.over(r, env)
	if err != nil {
		return Answer{}, err
	}
	a, err := b.Check(ctx, o, question, env)
	o.release()
	return a, err
}

// walks says whether questions of q are walked before they are solved.
func (b *Binding) walks(q *query) bool {
	return b.mode != ModeSolver && !(b.s.Options.StarIsOrdinary && q.subject.ID == rel.Wildcard)
}

// ended says whether a walk met what no equations could mend: the question's
// own bound of nodes, or an error.
func (q *query) ended() bool { return q.over && (q.limit == q.nodesMax || q.err != nil) }

// again begins to count nodes anew, for another way of evaluation.
func (q *query) again() { q.visited, q.limit, q.over = 0, q.nodesMax, false }

// bounded is why a walk that ended early is unknown.
func (q *query) bounded() *Reasons {
	if !q.over {
		return nil
	}
	return &Reasons{Bound: BoundNodes}
}

// first finds an object's node of the first kind that it has one of.
func (q *query) first(kinds []graph.Kind, id string) graph.Node {
	for _, k := range kinds {
		if n, ok := q.r.Node(k, id); ok {
			return n
		}
	}
	return 0
}

// reader is what a question is asked of: r, with the contextual tuples and
// attributes of env before it. It fails where one of these is not admitted.
func (b *Binding) reader(r Reader, env *Env) (Reader, error) {
	if len(env.Tuples) == 0 && len(env.Attributes) == 0 {
		return r, nil
	}
	return overlaid(b.s, b, r, env.Tuples, env.Attributes)
}

// member answers whether the subject has a relation of an object. n is any
// node of the object, or 0 if it has none. The answer means nothing where
// failed returns an error.
func (q *query) member(id schema.RelationID, n graph.Node, object rel.Object) Answer {
	before := q.stats
	a := q.decide(id, n, object)
	q.again()
	a.Stats = Stats{q.stats.Probes - before.Probes, q.stats.Nodes - before.Nodes, q.stats.Conditions - before.Conditions}
	return a
}

// decide walks, and solves the equations where the walk cannot tell.
func (q *query) decide(id schema.RelationID, n graph.Node, object rel.Object) Answer {
	if q.b.walks(q) {
		q.again()
		out := q.walked(int32(id), q.b.route(int32(id), q.kind), n, object.ID)
		if out.truth != expr.Unknown || q.ended() {
			return Answer{Decision: out.truth, Reasons: q.bounded()}
		}
	}
	truth, reasons := q.solved(id, n, object)
	return Answer{Decision: truth, Reasons: reasons}
}

// solved answers by the equations.
func (q *query) solved(id schema.RelationID, n graph.Node, object rel.Object) (expr.Tristate, *Reasons) {
	own := new(query)
	*own = *q
	a, ok := own.mixed(id, n, object)
	if !ok {
		a = own.solution(id, n, object)
	}
	q.stats, q.err = own.stats, own.err
	return a.Decision, a.Reasons
}

// mixed answers by the equations of what stands in cycles alone, and walks
// for all else. It returns false where that does not tell.
func (q *query) mixed(id schema.RelationID, n graph.Node, object rel.Object) (Answer, bool) {
	if !q.b.cyclic || !q.b.walks(q) {
		return Answer{}, false
	}
	q.again()
	s := q.newSystem(id, n, object.ID)
	s.walks = true
	defer s.release()
	ok := s.build() && s.solve(q.depthMax) && s.truth(s.root()) != expr.Unknown
	q.release()
	if !ok {
		return Answer{}, false
	}
	return Answer{Decision: s.truth(s.root())}, true
}

func (q *query) solution(id schema.RelationID, n graph.Node, object rel.Object) Answer {
	s := q.solve(id, n, object)
	defer s.release()
	switch {
	case q.failed() != nil:
		return Answer{}
	case !s.full:
		return Answer{Decision: expr.Unknown, Reasons: &Reasons{Bound: BoundNodes}}
	case s.truth(s.root()) != expr.Unknown:
		return Answer{Decision: s.truth(s.root())}
	}
	return Answer{Decision: expr.Unknown, Reasons: s.reasons()}
}

// solve builds and solves the question's equations. The system is not full
// where the bound of nodes was reached or the question failed.
func (q *query) solve(id schema.RelationID, n graph.Node, object rel.Object) *system {
	q.again()
	s := q.newSystem(id, n, object.ID)
	s.full = s.build() && s.solve(q.depthMax)
	return s
}

// failed returns what ended the question before its time, if anything did.
func (q *query) failed() error {
	if q.err != nil || q.view != nil { // a view has no errors
		return q.err
	}
	return q.r.Err()
}
