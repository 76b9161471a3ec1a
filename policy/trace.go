package policy

import "github.com/ostiary/ostiary/policy/status"

// Trace records how decisions come about. The zero Trace is ready. It must not
// be used by two requests at once.
type Trace struct {
	// Decisions has one step for each decision of the request: the root.
	Decisions []*TraceStep
	// Steps is the number of steps that were recorded.
	Steps int
	// Cut is true if the bound [TraceStepsMax] was reached, so that steps are
	// missing.
	Cut bool
}

// TraceStepsMax is the largest number of steps that a trace records.
const TraceStepsMax = 10_000

// TargetValue is the value of a target.
type TargetValue uint8

// The values of a target.
const (
	TargetNoMatch       TargetValue = iota // the target does not match
	TargetMatch                            // the target matches
	TargetIndeterminate                    // an error prevents that the target is known
)

// String returns "no match", "match" or "indeterminate".
func (v TargetValue) String() string {
	return [...]string{"no match", "match", "indeterminate"}[v]
}

// TraceStep is the evaluation of a policy set, a policy or a rule.
type TraceStep struct {
	Kind     string        // "policy set", "policy" or "rule"
	ID       string        // id of the element
	Version  string        // version; "" for a rule
	Position Position      // place of the element
	Target   TargetValue   // value of the target
	Decision Decision      // decision of the element
	Status   *status.Error // why the decision is Indeterminate, with the missing attributes; otherwise nil
	// Skipped is the number of children that the index left out, because their
	// targets cannot match.
	Skipped int
	// Decided is the number of the child in Children whose decision ended the
	// evaluation of this element, or the first one with the same decision; -1 if
	// there is none.
	Decided  int
	Children []*TraceStep // evaluated children in order
}

// tracer records the steps of one request.
type tracer struct {
	trace *Trace
	at    *TraceStep // the element whose children are evaluated; nil at the root
}

// enter adds a step below the current one. It returns nil if the trace is full.
func (t *tracer) enter(step TraceStep) *TraceStep {
	if t.trace.Steps >= TraceStepsMax {
		t.trace.Cut = true
		return nil
	}
	t.trace.Steps++
	step.Decided = -1
	s := &step
	if t.at == nil {
		t.trace.Decisions = append(t.trace.Decisions, s)
	} else {
		t.at.Children = append(t.at.Children, s)
	}
	return s
}

// end completes a step.
func (s *TraceStep) end(o outcome, v verdict) {
	s.Target, s.Decision, s.Status = TargetValue(o), v.decision, v.status
	for i, child := range s.Children {
		if child.Decision == v.decision && v.decision != NotApplicable {
			s.Decided = i
			break
		}
	}
}

// rule evaluates a rule and records it.
func (t *tracer) rule(r *run, x *rule) verdict {
	step := t.enter(TraceStep{Kind: "rule", ID: x.id, Position: x.position})
	o, err := x.target.eval(r)
	v := r.ruleWithTarget(x, o, err)
	if step != nil {
		step.end(o, v)
	}
	return v
}

// node evaluates a policy or a policy set and records it.
func (t *tracer) node(r *run, n *node) verdict {
	step := t.enter(n.traceStep())
	o, err := n.target.eval(r)
	if step == nil {
		return r.nodeWithTarget(n, o, err)
	}
	parent := t.at
	t.at = step
	v := r.nodeWithTarget(n, o, err)
	t.at = parent
	step.end(o, v)
	return v
}

// traceStep returns the step of a node before its evaluation.
func (n *node) traceStep() TraceStep {
	kind := "policy"
	if n.id.Set {
		kind = "policy set"
	}
	return TraceStep{Kind: kind, ID: n.id.ID, Version: n.id.Version, Position: n.position}
}

// indeterminate records a member whose target is Indeterminate, and which is
// therefore not evaluated. It does nothing if t is nil.
func (t *tracer) indeterminate(n *node, why *status.Error) {
	if t == nil {
		return
	}
	if step := t.enter(n.traceStep()); step != nil {
		step.end(failed, verdict{IndeterminateDP, why})
	}
}

// skipped records that an index left children out.
func (t *tracer) skipped(n int) {
	if t.at != nil {
		t.at.Skipped = n
	}
}
