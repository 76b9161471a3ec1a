package eval

import (
	"context"
	"slices"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/schema"
)

// Explain answers a question as Check does, with the same errors, and explains
// the answer. It evaluates everything that the question depends on, so it
// costs more than a check: as much as the smaller one of the object's side and
// the subject's side. A nil env means the zero Env.
func (b *Binding) Explain(ctx context.Context, r Reader, question authz.Question, env *Env, opts authz.ExplainOptions) (authz.Explanation, error) {
	if env == nil {
		env = &Env{}
	}
	if opts.FrontierMax <= 0 {
		opts.FrontierMax = authz.FrontierMaxDefault
	}
	x := authz.Explanation{Question: question, Now: env.Now}
	id, err := b.relation(question.Object.Type, question.Relation)
	if err != nil {
		return x, err
	}
	if err := ctx.Err(); err != nil {
		return x, err
	}
	o, err := b.reader(r, env)
	if err != nil {
		return x, err
	}
	b = b.rebound(o)
	var q query
	q.start(ctx, b, o, question.Subject, env)
	defer q.finish()
	n := q.anchor(question.Object)
	x.Answer = q.member(id, n, question.Object)
	if err := q.failed(); err != nil {
		return x, err
	}
	if q.b.certain != nil && x.Answer.Decision == expr.True {
		q.b = q.b.certain // the allow may hold only by the plain rules
	}
	p := &explainer{q: &q, r: newRelevantReader(&q, id), stepsLeft: opts.FrontierMax, frontierMax: opts.FrontierMax}
	q.r = p.r
	if p.s = q.buildAndSolve(id, n, question.Object); p.s.complete {
		p.run(&x, id)
	}
	p.s.release()
	return x, q.failed()
}

// run fills in what a solved system shows.
func (p *explainer) run(x *authz.Explanation, id schema.RelationID) {
	switch x.Answer.Decision {
	case expr.True:
		p.rank()
	case expr.False:
		x.Memberships = p.memberships(id)
		p.withoutLists = x.Memberships != nil
	}
	p.explained = make([]bool, len(p.s.states))
	x.Because = p.explainGate(p.s.root(), x.Answer.Decision)
	x.LeftOut = p.stepsCut
	if !p.listsOmitted && decidedElsewhere(x.Because) {
		x.Memberships = nil // the memberships did not decide
	}
}

// decidedElsewhere reports whether a denial was decided by something else than
// the subject's missing memberships: by something that is true, or by the
// schema.
func decidedElsewhere(s *authz.Step) bool {
	if s == nil {
		return false
	}
	return s.Decision == expr.True || s.Kind == authz.StepUnreachable || slices.ContainsFunc(s.Steps, decidedElsewhere)
}
