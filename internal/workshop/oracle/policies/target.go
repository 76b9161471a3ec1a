package policies

import (
	"github.com/ostiary/ostiary/policy"
	"github.com/ostiary/ostiary/policy/function"
	"github.com/ostiary/ostiary/policy/status"
	"github.com/ostiary/ostiary/policy/value"
)

// truth is the value of a target or of a part of one.
type truth int

const (
	no     truth = iota // no match
	yes                 // match
	failed              // Indeterminate
)

// all returns the value of a conjunction: no match if a part does not match, else
// Indeterminate if a part is, with the first status.
func all(count int, part func(i int) (truth, *status.Error)) (truth, *status.Error) {
	result, why := yes, (*status.Error)(nil)
	for i := range count {
		t, err := part(i)
		switch {
		case t == no:
			return no, nil
		case t == failed && result == yes:
			result, why = failed, err
		}
	}
	return result, why
}

// anyOf returns the value of a disjunction: match if a part matches, else
// Indeterminate if a part is, with the first status.
func anyOf(count int, part func(i int) (truth, *status.Error)) (truth, *status.Error) {
	result, why := no, (*status.Error)(nil)
	for i := range count {
		t, err := part(i)
		switch {
		case t == yes:
			return yes, nil
		case t == failed && result == no:
			result, why = failed, err
		}
	}
	return result, why
}

// target returns the value of a target (section 7.7).
func (d *decision) target(t policy.Target) (truth, *status.Error) {
	return all(len(t), func(i int) (truth, *status.Error) {
		return anyOf(len(t[i]), func(j int) (truth, *status.Error) {
			return all(len(t[i][j]), func(k int) (truth, *status.Error) { return d.match(&t[i][j][k]) })
		})
	})
}

// match returns the value of a match (section 7.6): the function is true for one
// value of the bag.
func (d *decision) match(m *policy.Match) (truth, *status.Error) {
	bag, err := d.expression(m.Bag)
	if err != nil {
		return failed, err
	}
	return anyOf(len(bag.Values), func(i int) (truth, *status.Error) {
		v, err := d.call(m.Function, operands([]value.Value{m.Literal, bag.Values[i]}))
		switch {
		case err != nil:
			return failed, err
		case v.Value.Bool():
			return yes, nil
		}
		return no, nil
	})
}

// operands returns values as arguments.
func operands(values []value.Value) (out []function.Operand) {
	for _, v := range values {
		out = append(out, function.Single(v))
	}
	return out
}
