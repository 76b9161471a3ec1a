package eval

import (
	"context"
	"slices"

	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/schema"
)

// ExplainOptions bound an explanation. The zero value is useful.
type ExplainOptions struct {
	// FrontierMax bounds the steps of an explanation, and the memberships it
	// names; 0 means FrontierMaxDefault. What is left out is counted.
	FrontierMax int
}

// FrontierMaxDefault is the default of ExplainOptions.FrontierMax.
const FrontierMaxDefault = 100

// Explanation is an answer and why it is so.
type Explanation struct {
	Question Question
	Answer   Answer
	// Now is the time that the question was asked at.
	Now rel.Time
	// Because is the question's own step: for an allow the proof, for a denial
	// what failed, for unknown what could not be decided. It is nil where a
	// bound of nodes stopped the evaluation.
	Because *Step
	// Memberships are, for a denial whose subject stands in less than the object
	// side holds, all that the subject is, or might be, a member of and that
	// could have led to an allow, in the order of their text. Nil elsewhere.
	Memberships *Memberships
	// LeftOut counts the steps that FrontierMax cut.
	LeftOut int
}

// Memberships are what a subject is a member of.
type Memberships struct {
	In []rel.Subject
	// LeftOut counts those beyond FrontierMax.
	LeftOut int
}

// StepKind says what a Step is about.
type StepKind string

const (
	// StepRelation is membership in Relation of Object; its one child, if any, is
	// the part of the rewrite that decided.
	StepRelation StepKind = "relation"
	// StepTuple is Tuple: under Condition, if it has one. Its child is what the
	// tuple leads to, a userset's or a related object's relation.
	StepTuple StepKind = "tuple"
	// StepItself: a userset is a member of itself.
	StepItself StepKind = "itself"
	// StepUnion, StepIntersection and StepExclusion are operators, with those
	// operands as children that decided.
	StepUnion        StepKind = "union"
	StepIntersection StepKind = "intersection"
	StepExclusion    StepKind = "exclusion"
	// StepArrow is "target from relation".
	StepArrow StepKind = "arrow"
	// StepTuples are tuples that were searched; Searched says how many.
	StepTuples StepKind = "tuples"
	// StepAttribute and StepRule are values of an object.
	StepAttribute StepKind = "attribute"
	StepRule      StepKind = "rule"
	// StepUnreachable: no tuple that the schema admits could lead from Relation to
	// a subject of that kind.
	StepUnreachable StepKind = "unreachable"
	// StepSeen refers to the step of the same Object and Relation further up.
	StepSeen StepKind = "seen"
)

// Step is one step of an explanation.
type Step struct {
	Kind     StepKind
	Decision expr.Tristate
	// Object and Relation are whose members the step is about.
	Object   rel.Object
	Relation string
	// Rewrite is the part of the schema that was read, as text.
	Rewrite   string
	Tuple     *rel.Tuple
	Condition *ConditionStep
	// Searched say, for a search in vain, what was there.
	Searched []Searched
	// Expired marks a tuple that no longer counts, Refused one that the schema
	// does not admit.
	Expired, Refused bool
	// Reasons say why an attribute or a rule is unknown, or that the tuple leads
	// beyond the bound on hops.
	Reasons *Reasons
	Steps   []*Step
}

// ConditionStep is a condition as it was evaluated.
type ConditionStep struct {
	Name     string
	Decision expr.Tristate
	// Values are those of its parameters that were given: by the tuple, or else by
	// the question's context.
	Values expr.Values
	// Missing are those that were needed and not given.
	Missing []string
	Err     error
}

// Searched counts the subjects of a kind ("user", "user:*", "group#member") in
// tuples that were searched.
type Searched struct {
	Subjects string
	Count    int
}

// Explain answers a question as Check does, with the same errors, and says why.
// It evaluates what the question depends on as a whole, so that it costs more
// than a check: as much as the smaller one of the object's side and the
// subject's holds.
func (b *Binding) Explain(ctx context.Context, r Reader, question Question, env *Env, opts ExplainOptions) (Explanation, error) {
	if env == nil {
		env = &Env{}
	}
	if opts.FrontierMax <= 0 {
		opts.FrontierMax = FrontierMaxDefault
	}
	x := Explanation{Question: question, Now: env.Now}
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
	b = b.bound(o)
	var q query
	q.start(ctx, b, o, question.Subject, env)
	n := q.anchor(question.Object)
	x.Answer = q.member(id, n, question.Object)
	if err := q.failed(); err != nil {
		return x, err
	}
	p := &prover{q: &q, r: narrow(&q, id), left: opts.FrontierMax, most: opts.FrontierMax}
	q.r = p.r
	if p.s = q.solve(id, n, question.Object); p.s.full {
		p.explain(&x, id)
	}
	p.s.release()
	return x, q.failed()
}

// explain fills in what a solved system says.
func (p *prover) explain(x *Explanation, id schema.RelationID) {
	switch x.Answer.Decision {
	case expr.True:
		p.rank()
	case expr.False:
		x.Memberships = p.memberships(id)
		p.short = x.Memberships != nil
	}
	p.open = make([]bool, len(p.s.states))
	x.Because = p.gate(p.s.root(), x.Answer.Decision)
	x.LeftOut = p.over
	if !p.cut && x.Because.aside() {
		x.Memberships = nil // they did not decide
	}
}

// aside says whether a denial was decided by something else than what the
// subject is not in: by what is true, or by the schema.
func (s *Step) aside() bool {
	if s == nil {
		return false
	}
	return s.Decision == expr.True || s.Kind == StepUnreachable || slices.ContainsFunc(s.Steps, (*Step).aside)
}
