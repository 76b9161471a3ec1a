package policies

import (
	"errors"

	"github.com/ostiary/ostiary/policy"
	"github.com/ostiary/ostiary/policy/function"
	"github.com/ostiary/ostiary/policy/status"
	"github.com/ostiary/ostiary/policy/value"
)

// expression returns the value of an expression.
func (d *decision) expression(e policy.Expression) (function.Operand, *status.Error) {
	switch e := e.(type) {
	case *policy.Literal:
		return function.Single(e.Value), nil
	case *policy.Designator:
		return d.bag(e)
	case *policy.Selector:
		return d.selector(e)
	case *policy.VariableReference:
		for _, v := range d.variables {
			if v.ID == e.ID {
				return d.expression(v.Expression)
			}
		}
	case *policy.Apply:
		return d.apply(e)
	}
	panic("an expression that the random worlds do not have")
}

// apply returns the value of a call. The logical functions get their arguments
// with the errors; every other function fails with the first error.
func (d *decision) apply(a *policy.Apply) (function.Operand, *status.Error) {
	arguments := a.Arguments
	inner, higher := arguments, false
	if len(arguments) > 0 {
		if _, ok := arguments[0].(*policy.FunctionReference); ok {
			inner, higher = arguments[1:], true
		}
	}
	var values []function.Operand
	var problems []*status.Error
	for _, x := range inner {
		v, err := d.expression(x)
		values, problems = append(values, v), append(problems, err)
	}
	if logical(a.Function) {
		return logic(a.Function, values, problems)
	}
	for _, err := range problems {
		if err != nil {
			return function.Operand{}, err
		}
	}
	if higher {
		return d.higher(a.Function, arguments[0].(*policy.FunctionReference).ID, values)
	}
	return d.call(a.Function, values)
}

// call returns the value of a function of values.
func (d *decision) call(id string, arguments []function.Operand) (function.Operand, *status.Error) {
	if logical(id) {
		return logic(id, arguments, make([]*status.Error, len(arguments)))
	}
	if id == standard3+"xpath-node-count" {
		return d.countNodes(arguments[0].Value)
	}
	f, ok := function.Standard().Find(id)
	if !ok {
		panic("unknown function " + id)
	}
	v, err := f.Call(&function.Env{Zone: d.policies.Zone}, arguments)
	if err != nil {
		return function.Operand{}, statusOf(err)
	}
	return v, nil
}

// statusOf returns the status of an error.
func statusOf(err error) *status.Error {
	var s *status.Error
	if errors.As(err, &s) {
		return s
	}
	return fail(status.ProcessingError)
}

// The functions that accept errors among their arguments (appendix A.3.5).
const (
	standard1 = "urn:oasis:names:tc:xacml:1.0:function:"
	standard3 = "urn:oasis:names:tc:xacml:3.0:function:"
	or        = standard1 + "or"
	and       = standard1 + "and"
	nOf       = standard1 + "n-of"
)

// logical reports whether a function is or, and or n-of.
func logical(id string) bool { return id == or || id == and || id == nOf }

// logic returns the value of or, and and n-of, some of whose arguments may be
// errors: or is at least one true argument, and is no false argument.
func logic(id string, values []function.Operand, problems []*status.Error) (function.Operand, *status.Error) {
	least := int64(1)
	switch id {
	case and:
		least = int64(len(values))
	case nOf:
		if problems[0] != nil {
			return function.Operand{}, problems[0]
		}
		n, ok := values[0].Value.Int64()
		values, problems = values[1:], problems[1:]
		if !ok || n < 0 || n > int64(len(values)) {
			return function.Operand{}, fail(status.ProcessingError)
		}
		least = n
	}
	var first *status.Error
	sure, possible := int64(0), int64(0)
	for i, v := range values {
		switch {
		case problems[i] != nil:
			possible++
			if first == nil {
				first = problems[i]
			}
		case v.Value.Bool():
			sure++
			possible++
		}
	}
	switch {
	case sure >= least:
		return boolean(true), nil
	case possible < least:
		return boolean(false), nil
	}
	return function.Operand{}, first
}

// boolean returns a boolean operand.
func boolean(b bool) function.Operand { return function.Single(value.NewBoolean(b)) }
