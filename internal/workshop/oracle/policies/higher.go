package policies

import (
	"strings"

	"github.com/ostiary/ostiary/policy/function"
	"github.com/ostiary/ostiary/policy/status"
	"github.com/ostiary/ostiary/policy/value"
)

// higher returns the value of a higher-order function (appendix A.3.12): a
// function over all combinations of one value of each argument.
func (d *decision) higher(id, inner string, arguments []function.Operand) (function.Operand, *status.Error) {
	switch id[strings.LastIndex(id, ":")+1:] {
	case "any-of", "any-of-any":
		return d.over(or, inner, product(arguments))
	case "all-of", "all-of-all":
		return d.over(and, inner, product(arguments))
	case "all-of-any":
		return d.nested(inner, arguments, 0)
	case "any-of-all":
		return d.nested(inner, arguments, 1)
	case "map":
		return d.mapped(inner, product(arguments))
	}
	panic("unknown higher-order function " + id)
}

// product returns all combinations of one value of each argument. The last bag
// changes first.
func product(arguments []function.Operand) [][]function.Operand {
	out := [][]function.Operand{nil}
	for _, a := range arguments {
		values := a.Values
		if !a.Shape.Bag {
			values = []value.Value{a.Value}
		}
		var longer [][]function.Operand
		for _, combination := range out {
			for _, v := range values {
				longer = append(longer, append(combination[:len(combination):len(combination)], function.Single(v)))
			}
		}
		out = longer
	}
	return out
}

// over joins the results of a function for all combinations with or or and.
func (d *decision) over(join, inner string, combinations [][]function.Operand) (function.Operand, *status.Error) {
	var results []function.Operand
	var problems []*status.Error
	for _, c := range combinations {
		v, err := d.call(inner, c)
		results, problems = append(results, v), append(problems, err)
	}
	return logic(join, results, problems)
}

// nested demands that for each value of the bag at a place, the function is true
// for at least one value of the other bag.
func (d *decision) nested(inner string, arguments []function.Operand, each int) (function.Operand, *status.Error) {
	var results []function.Operand
	var problems []*status.Error
	for _, v := range arguments[each].Values {
		pair := []function.Operand{arguments[0], arguments[1]}
		pair[each] = function.Single(v)
		result, err := d.over(or, inner, product(pair))
		results, problems = append(results, result), append(problems, err)
	}
	return logic(and, results, problems)
}

// mapped returns the bag of the results, or the first error.
func (d *decision) mapped(inner string, combinations [][]function.Operand) (function.Operand, *status.Error) {
	f, _ := function.Standard().Find(inner)
	out := function.Bag(f.Signature.Result.Type, nil)
	for _, c := range combinations {
		v, err := d.call(inner, c)
		if err != nil {
			return function.Operand{}, err
		}
		out.Values = append(out.Values, v.Value)
	}
	return out, nil
}
