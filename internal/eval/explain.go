package eval

import (
	"context"
	"slices"
	"strconv"

	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/schema"
)

// ExplainOptions bound an explanation. The zero value is useful.
type ExplainOptions struct {
	// FrontierMax bounds the steps of an explanation, and the memberships that
	// it names; 0 or less means [FrontierMaxDefault]. What is left out is
	// counted.
	FrontierMax int
}

// FrontierMaxDefault is the default of [ExplainOptions.FrontierMax].
const FrontierMaxDefault = 100

// Explanation is an answer and why it is so.
type Explanation struct {
	// Question is the question.
	Question Question
	// Answer is the answer of Check.
	Answer Answer
	// Now is the time at which the question was asked.
	Now rel.Time
	// Because is the question's own step: for an allow the proof, for a denial
	// what failed, for unknown what could not be decided. It is nil if a bound
	// of nodes stopped the evaluation.
	Because *Step
	// Memberships are given for a denial whose subject has fewer memberships
	// than the object's side has tuples. They are all certain or possible
	// memberships that could have led to an allow, sorted by their text. Nil
	// otherwise.
	Memberships *Memberships
	// LeftOut counts the steps beyond FrontierMax.
	LeftOut int
}

// Memberships are what a subject is a member of.
type Memberships struct {
	// In are the usersets of which the subject is, or may be, a member.
	In []rel.Subject
	// LeftOut counts those beyond FrontierMax.
	LeftOut int
	// Expired are the usersets of which the subject would be, or might be, a
	// member if no tuple had expired, at most FrontierMax. Nil if a bound
	// stopped the search for them.
	Expired []rel.Subject
}

// StepKind is the kind of a [Step].
type StepKind string

const (
	// StepRelation is membership in Relation of Object. Its one child, if any,
	// is the part of the rewrite that decided.
	StepRelation StepKind = "relation"
	// StepTuple is Tuple, under Condition if it has one. Its child is what the
	// tuple leads to: the relation of a userset or of a related object.
	StepTuple StepKind = "tuple"
	// StepItself means that a userset is a member of itself.
	StepItself StepKind = "itself"
	// StepUnion, StepIntersection and StepExclusion are operators. Their
	// children are the operands that decided.
	StepUnion        StepKind = "union"
	StepIntersection StepKind = "intersection"
	StepExclusion    StepKind = "exclusion"
	// StepArrow is "target from relation".
	StepArrow StepKind = "arrow"
	// StepTuples are tuples that were searched. Searched counts them.
	StepTuples StepKind = "tuples"
	// StepAttribute and StepRule are values of an object.
	StepAttribute StepKind = "attribute"
	StepRule      StepKind = "rule"
	// StepUnreachable means that no tuple that the schema admits could lead
	// from Relation to a subject of that kind.
	StepUnreachable StepKind = "unreachable"
	// StepSeen refers to an earlier step with the same Object and Relation.
	StepSeen StepKind = "seen"
)

// Step is one step of an explanation.
type Step struct {
	// Kind is the kind of the step.
	Kind StepKind
	// Decision is the step's value.
	Decision expr.Tristate
	// Object and Relation name the membership that the step is about.
	Object   rel.Object
	Relation string
	// Rewrite is the part of the schema that was evaluated, as text.
	Rewrite string
	// Tuple is the tuple of StepTuple; nil for others.
	Tuple *rel.Tuple
	// Condition is the tuple's condition; nil if it has none or the tuple does
	// not count.
	Condition *ConditionStep
	// Searched counts, for a denial, the tuples that were searched.
	Searched []Searched
	// Expired marks a tuple that has expired, Refused one that the schema does
	// not admit.
	Expired, Refused bool
	// Reasons explain an unknown attribute or rule, or that the tuple leads
	// beyond the depth bound.
	Reasons *Reasons
	// Written is when and by whom Tuple was written. [Binding.Explain] leaves it nil,
	// because a Reader does not know it; the engine sets it on request.
	Written *Written
	// Steps are the steps below.
	Steps []*Step
}

// Written is the entry of the log that a stored tuple comes from.
type Written struct {
	// Revision is the revision of the entry.
	Revision uint64
	// Time is the commit time of the entry.
	Time rel.Time
	// Caller is who made the write, and Reason why. "" means that the entry has none,
	// or is no longer in the log.
	Caller, Reason string
}

// String returns the fields that are set, in the form in which they end a line.
func (w *Written) String() string {
	s := "revision " + strconv.FormatUint(w.Revision, 10) + "  " + timeText(w.Time)
	if w.Caller != "" {
		s += "  by " + w.Caller
	}
	if w.Reason != "" {
		s += "  reason: " + w.Reason
	}
	return s
}

// ConditionStep is a condition as it was evaluated.
type ConditionStep struct {
	// Name is the condition's name.
	Name string
	// Decision is the condition's value.
	Decision expr.Tristate
	// Values are the given parameters. The tuple's own values take precedence
	// over the question's context.
	Values expr.Values
	// Missing are the parameters that were needed and not given.
	Missing []string
	// Err is the error of the evaluation, if any.
	Err error
}

// Searched counts the subjects of one kind in searched tuples.
type Searched struct {
	// Subjects is the kind as text: "user", "user:*" or "group#member".
	Subjects string
	// Count is their number.
	Count int
	// First are the first of them, at most SearchedNamesMax.
	First []rel.Subject
}

// SearchedNamesMax bounds the subjects that a [Searched] names.
const SearchedNamesMax = 3

// Explain answers a question as Check does, with the same errors, and explains
// the answer. It evaluates everything that the question depends on, so it
// costs more than a check: as much as the smaller one of the object's side and
// the subject's side. A nil env means the zero Env.
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
func (p *explainer) run(x *Explanation, id schema.RelationID) {
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
	if !p.listsOmitted && x.Because.decidedElsewhere() {
		x.Memberships = nil // the memberships did not decide
	}
}

// decidedElsewhere reports whether a denial was decided by something else than
// the subject's missing memberships: by something that is true, or by the
// schema.
func (s *Step) decidedElsewhere() bool {
	if s == nil {
		return false
	}
	return s.Decision == expr.True || s.Kind == StepUnreachable || slices.ContainsFunc(s.Steps, (*Step).decidedElsewhere)
}
