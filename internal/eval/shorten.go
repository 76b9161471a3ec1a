package eval

import (
	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/rel"
)

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
