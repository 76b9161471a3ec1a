package policy

import (
	"github.com/ostiary/ostiary/policy/status"
	"github.com/ostiary/ostiary/policy/value"
)

// outcome is the value of a target or a part of one.
type outcome uint8

const (
	noMatch outcome = iota
	matched
	failed // Indeterminate
)

// eval returns the value of the target (table 3 of section 7.7): no match if a
// part does not match; otherwise Indeterminate if a part is. The status is that
// of the first part that is Indeterminate.
func (t target) eval(r *run) (outcome, *status.Error) {
	var why *status.Error
	for _, any := range t {
		o, err := evalAnyOf(any, r)
		switch {
		case o == noMatch:
			return noMatch, nil
		case o == failed && why == nil:
			why = err
		}
	}
	if why != nil {
		return failed, why
	}
	return matched, nil
}

// evalAnyOf returns the value of a disjunction (section 7.6): match if a part
// matches; otherwise Indeterminate if a part is.
func evalAnyOf(parts [][]match, r *run) (outcome, *status.Error) {
	var why *status.Error
	for _, part := range parts {
		o, err := evalAllOf(part, r)
		switch {
		case o == matched:
			return matched, nil
		case o == failed && why == nil:
			why = err
		}
	}
	if why != nil {
		return failed, why
	}
	return noMatch, nil
}

// evalAllOf returns the value of a conjunction, like [target.eval].
func evalAllOf(parts []match, r *run) (outcome, *status.Error) {
	var why *status.Error
	for i := range parts {
		o, err := parts[i].eval(r)
		switch {
		case o == noMatch:
			return noMatch, nil
		case o == failed && why == nil:
			why = err
		}
	}
	if why != nil {
		return failed, why
	}
	return matched, nil
}

// eval returns whether the literal matches a value of the bag: match if one
// does; otherwise Indeterminate if a comparison is.
func (m *match) eval(r *run) (outcome, *status.Error) {
	values, err := m.bag.bag(r)
	if err != nil {
		return failed, err
	}
	if err := r.step(1 + len(values)); err != nil {
		return failed, err
	}
	if m.equal {
		for i := range values {
			if m.equals(&values[i]) {
				return matched, nil
			}
		}
		return noMatch, nil
	}
	return m.try(values, r)
}

// equals reports whether the literal equals a value of its type.
func (m *match) equals(v *value.Value) bool {
	if m.text {
		return v.Text() == m.literal.Text()
	}
	return v.Key() == m.key
}

// try calls the function of the match with each value.
func (m *match) try(values []value.Value, r *run) (outcome, *status.Error) {
	var why *status.Error
	for _, v := range values {
		ok, err := m.test(&r.env, m.literal, v)
		switch {
		case err != nil && why == nil:
			why = asStatus(err)
		case err == nil && ok:
			return matched, nil
		}
	}
	if why != nil {
		return failed, why
	}
	return noMatch, nil
}
