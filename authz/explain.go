package authz

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/storage"
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

// Explanation is an answer and why it is so. The same question at the same
// revision, schema and time has the same explanation.
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

	// Revision is that of the view that was read.
	Revision storage.Revision
	// Token names the revision, to ask again with [AtExactly].
	Token Token
	// Schema is the schema that was used.
	Schema SchemaInfo
	// Asked is Now as a time.
	Asked time.Time
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
	// Written is when and by whom Tuple was written. It is nil unless
	// [ExplainRequest].Origins asks for it.
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

// MarshalJSON returns the explanation with names and values as text, without
// members that are not set.
func (x Explanation) MarshalJSON() ([]byte, error) { return x.AppendJSON(nil) }

// AppendJSON appends what MarshalJSON returns. It fails if JSON cannot hold
// the value of a condition's parameter.
func (x *Explanation) AppendJSON(dst []byte) ([]byte, error) {
	w := jsonWriter{dst: dst}
	w.raw('{')
	w.text("object", x.Question.Object.String())
	w.text("relation", x.Question.Relation)
	w.text("subject", x.Question.Subject.String())
	w.text("decision", x.Answer.Decision.String())
	if x.Now != 0 {
		w.text("now", timeText(x.Now))
	}
	w.reasons(x.Answer.Reasons)
	if x.Because != nil {
		w.name("because")
		x.Because.json(&w)
	}
	w.count("leftOut", x.LeftOut)
	if m := x.Memberships; m != nil {
		w.name("memberships")
		w.raw('{')
		w.subjects("in", m.In)
		w.count("leftOut", m.LeftOut)
		if len(m.Expired) > 0 {
			w.subjects("expired", m.Expired)
		}
		w.raw('}')
	}
	w.raw('}')
	return w.dst, w.err
}

// MarshalJSON returns the step in the same form as [Explanation.MarshalJSON].
func (s *Step) MarshalJSON() ([]byte, error) {
	w := jsonWriter{}
	s.json(&w)
	return w.dst, w.err
}

func (s *Step) json(w *jsonWriter) {
	w.raw('{')
	w.text("kind", string(s.Kind))
	w.text("result", s.Decision.String())
	w.optionalText("object", s.Object.String())
	w.optionalText("relation", s.Relation)
	w.optionalText("rewrite", s.Rewrite)
	if s.Tuple != nil {
		w.optionalText("tuple", s.Tuple.String())
	}
	if s.Written != nil {
		w.name("written")
		w.raw('{')
		w.name("revision")
		w.dst = strconv.AppendUint(w.dst, s.Written.Revision, 10)
		w.text("time", timeText(s.Written.Time))
		w.optionalText("caller", s.Written.Caller)
		w.optionalText("reason", s.Written.Reason)
		w.raw('}')
	}
	if s.Condition != nil {
		w.name("condition")
		s.Condition.json(w)
	}
	if len(s.Searched) > 0 {
		w.name("searched")
		w.raw('[')
		for _, f := range s.Searched {
			w.next()
			w.raw('{')
			w.text("subjects", f.Subjects)
			w.name("count")
			w.dst = strconv.AppendInt(w.dst, int64(f.Count), 10)
			w.subjects("first", f.First)
			w.raw('}')
		}
		w.raw(']')
	}
	w.flag("expired", s.Expired)
	w.flag("refused", s.Refused)
	w.reasons(s.Reasons)
	if len(s.Steps) > 0 {
		w.name("steps")
		w.raw('[')
		for _, ch := range s.Steps {
			w.next()
			ch.json(w)
		}
		w.raw(']')
	}
	w.raw('}')
}

func (c *ConditionStep) json(w *jsonWriter) {
	w.raw('{')
	w.text("name", c.Name)
	w.text("result", c.Decision.String())
	if len(c.Values) > 0 {
		w.name("values")
		w.value(c.Values)
	}
	w.list("missing", c.Missing)
	if c.Err != nil {
		w.optionalText("error", c.Err.Error())
	}
	w.raw('}')
}

// String returns the explanation in indented lines.
func (x Explanation) String() string {
	var sb strings.Builder
	word := map[expr.Tristate]string{expr.True: "allowed", expr.False: "denied", expr.Unknown: "undecided"}[x.Answer.Decision]
	fmt.Fprintf(&sb, "%s: %s %s %s\n", word, x.Question.Subject, x.Question.Relation, x.Question.Object)
	if x.Answer.Reasons != nil {
		fmt.Fprintf(&sb, "  %s\n", x.Answer.Reasons)
	}
	if x.Because != nil {
		x.Because.write(&sb, 1)
	}
	switch {
	case x.LeftOut == 1:
		sb.WriteString("  1 more step is left out\n")
	case x.LeftOut > 1:
		fmt.Fprintf(&sb, "  %d more steps are left out\n", x.LeftOut)
	}
	if x.Memberships != nil {
		fmt.Fprintf(&sb, "  %s is %s\n", x.Question.Subject, x.Memberships)
	}
	return sb.String()
}

// String returns the memberships in one line.
func (m *Memberships) String() string {
	line := "in nothing that could grant this"
	if len(m.In) > 0 {
		line = "only in " + joinSubjects(m.In)
	}
	if m.LeftOut > 0 {
		line += fmt.Sprintf(" and %d more", m.LeftOut)
	}
	if len(m.Expired) > 0 {
		line += "; if no tuple had expired, also in " + joinSubjects(m.Expired)
	}
	return line
}

// write prints a step and the steps below it.
func (s *Step) write(sb *strings.Builder, depth int) {
	fmt.Fprintf(sb, "%s%s\n", strings.Repeat("  ", depth), s.line())
	for _, ch := range s.Steps {
		ch.write(sb, depth+1)
	}
}

// line returns a step alone as text.
func (s *Step) line() string {
	mark := marks[s.Decision] + " "
	on := s.Object.String() + "#" + s.Relation
	switch s.Kind {
	case StepTuple:
		return mark + s.tupleLine()
	case StepItself:
		return mark + on + " is a member of itself"
	case StepUnreachable:
		return mark + on + ": the schema has no path to this kind of subject"
	case StepSeen:
		return mark + on + ": as above"
	case StepRelation:
		return mark + on
	}
	line := mark + s.Rewrite
	if s.Kind == StepTuples || s.Kind == StepArrow {
		if s.Decision == expr.False {
			line += ": " + searchedText(s.Searched)
		}
	}
	if s.Reasons != nil {
		line += ": " + s.Reasons.String()
	}
	return line
}

func (s *Step) tupleLine() string {
	line := s.Tuple.String()
	if s.Expired {
		line += " (expired)"
	}
	if s.Refused {
		line += " (not admitted by the schema)"
	}
	if s.Condition != nil {
		line += " (" + s.Condition.String() + ")"
	}
	if s.Reasons != nil {
		line += " (" + s.Reasons.String() + ")"
	}
	if s.Written != nil {
		line += "  " + s.Written.String()
	}
	return line
}

// String returns the condition's name, value and parameters.
func (c *ConditionStep) String() string {
	line := c.Name + " is " + c.Decision.String()
	names := make([]string, 0, len(c.Values))
	for name := range c.Values {
		names = append(names, name)
	}
	slices.Sort(names)
	var parts []string
	for _, name := range names {
		parts = append(parts, name+"="+valueText(c.Values[name]))
	}
	for _, m := range c.Missing {
		parts = append(parts, m+" is missing")
	}
	if c.Err != nil {
		parts = append(parts, c.Err.Error())
	}
	if len(parts) > 0 {
		line += ": " + strings.Join(parts, ", ")
	}
	return line
}

// Shorten removes true steps that only lead to the next step: operators with one
// deciding operand, and the relation step below a tuple whose userset names the
// same relation.
func (x *Explanation) Shorten() {
	if x.Because != nil {
		x.Because = x.Because.shortened()[0]
	}
}

// shortened returns the steps that replace s: s itself, shortened, or its children.
func (s *Step) shortened() []*Step {
	var below []*Step
	for _, child := range s.Steps {
		below = append(below, child.shortened()...)
	}
	if s.Decision == expr.True && len(s.Steps) == 1 {
		switch s.Kind {
		case StepUnion, StepArrow, StepTuples:
			return below
		case StepTuple:
			r := s.Steps[0]
			if r.Kind == StepRelation && len(r.Steps) > 0 &&
				s.Tuple.Subject == (rel.Subject{Type: r.Object.Type, ID: r.Object.ID, Relation: r.Relation}) {
				below = below[0].Steps
			}
		}
	}
	out := *s
	out.Steps = below
	return []*Step{&out}
}

// ExplainRequest is a check whose answer is explained.
type ExplainRequest struct {
	CheckRequest
	// Options bound the explanation.
	Options ExplainOptions
	// Origins makes the steps of stored tuples name the entries that wrote them: their
	// revision, time, caller and reason. At a past revision this reads all tuples that
	// were removed since, as the first read of that revision does.
	Origins bool
}
