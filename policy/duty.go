package policy

import (
	"fmt"

	"github.com/ostiary/ostiary/policy/function"
	"github.com/ostiary/ostiary/policy/status"
	"github.com/ostiary/ostiary/policy/value"
)

// fulfil evaluates obligations and advice, and adds them to those of the
// decision (section 7.18). It stops at the first error, and then adds none.
func (r *run) fulfil(duties []duty, effect Decision) *status.Error {
	before := len(r.duties)
	for i := range duties {
		d := &duties[i]
		arguments, err := r.assign(d.assignments)
		if err == nil {
			err = r.count(1 + len(arguments))
		}
		if err != nil {
			r.duties = r.duties[:before]
			return err
		}
		r.duties = append(r.duties, pendingDuty{Duty{d.id, arguments}, d.advice, effect})
	}
	return nil
}

// count adds to the size of the duties. It ends the request at the bound.
func (r *run) count(n int) *status.Error {
	r.arguments += n
	if most := r.options.Bounds.Duties; r.arguments > most {
		return r.abort(reached(BoundDuties, fmt.Sprintf("the obligations and advice have more than %d parts", most)))
	}
	return nil
}

// assign evaluates assignments: a bag of n values makes n arguments.
func (r *run) assign(assignments []assignment) ([]Argument, *status.Error) {
	var out []Argument
	for i := range assignments {
		a := &assignments[i]
		v, err := a.expression.eval(r)
		if err == nil {
			err = r.step(1 + len(v.Values))
		}
		if err != nil {
			return nil, err
		}
		for _, one := range valuesOf(&v) {
			argument := a.argument
			argument.Value = one
			out = append(out, argument)
		}
	}
	return out, nil
}

// valuesOf returns the values of a bag, or a single value as a bag.
func valuesOf(v *function.Operand) []value.Value {
	if v.Shape.Bag {
		return v.Values
	}
	return []value.Value{v.Value}
}

// keep drops the duties since from that are not those of the decision.
func (r *run) keep(from int, decision Decision) {
	if len(r.duties) == from {
		return
	}
	kept := r.duties[:from]
	for _, d := range r.duties[from:] {
		if d.effect == decision {
			kept = append(kept, d)
		}
	}
	r.duties = kept
}

// result returns the obligations or the advice of the decision.
func (r *run) dutiesOf(advice bool) []Duty {
	var out []Duty
	for i := range r.duties {
		if r.duties[i].advice == advice {
			out = append(out, r.duties[i].Duty)
		}
	}
	return out
}
