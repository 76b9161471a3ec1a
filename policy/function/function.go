// Package function implements the functions of XACML 3.0 (appendix A.3) and
// those of 1.0 and 2.0 that later versions kept or deprecated. Its main types
// are [Set], which finds a function by its id, and [Function]. It uses no
// policy and no request.
package function

import (
	"context"
	"time"

	"github.com/ostiary/ostiary/policy/content"
	"github.com/ostiary/ostiary/policy/value"
)

// Env holds the inputs of functions other than their arguments. It belongs to one
// request. A nil field, and a nil *Env, are valid: see each field.
type Env struct {
	// Context ends the evaluation when the request's deadline passes or the
	// client leaves. Long functions check it. Nil means no end.
	Context context.Context
	// Zone is the time zone of values that have none. Nil means UTC.
	Zone *time.Location
	// Content returns the root of the Content of a category, or nil if the request
	// has none. The error is a *status.Error if the content is malformed. Nil means
	// that no category has content.
	Content func(category string) (*content.Node, error)
	// Related asks the relation graph whether the subject ("user:anne") has the
	// relation to the object ("document:1"). It is nil if the policy domain has no
	// relation store.
	Related func(object, relation, subject string) (bool, error)
}

// Operand is an evaluated argument or a result: a single value or a bag. Values
// is shared, so callers must not change it.
type Operand struct {
	Shape  Shape         // type of the operand
	Value  value.Value   // the value, if Shape.Bag is false
	Values []value.Value // the values of the bag, in any order, with duplicates
}

// Single returns the operand that holds a single value.
func Single(v value.Value) Operand {
	return Operand{Shape: Shape{Type: v.Type()}, Value: v}
}

// Bag returns the operand that holds a bag of values of the type. It keeps
// values, which must not change afterwards.
func Bag(t value.Type, values []value.Value) Operand {
	return Operand{Shape: Shape{Type: t, Bag: true}, Values: values}
}

// Call computes the result of arguments whose shapes match the signature. Its
// error is a *status.Error. Calls may run concurrently. A Call keeps neither env
// nor args; it may return a bag that it got.
type Call func(env *Env, args []Operand) (Operand, error)

// Test is a function of two single values with a boolean result, in the form
// that is fastest to call. Its error is a *status.Error.
type Test func(env *Env, a, b value.Value) (bool, error)

// Arguments are the arguments of a lazy function, which evaluates only those
// that it needs.
type Arguments interface {
	// Len returns the number of arguments.
	Len() int
	// Argument evaluates an argument, counted from 0. Its error is the reason why
	// the argument is Indeterminate.
	Argument(index int) (Operand, error)
}

// Function is a function of XACML. It is immutable and may be called
// concurrently. Exactly one of Call, Lazy and Bind is set:
//
//   - Call: the function gets its evaluated arguments. An argument that is an
//     error makes the result that error.
//   - Lazy: the function evaluates its arguments itself (or, and, n-of).
//   - Bind: the first argument is a function (higher-order functions).
type Function struct {
	// ID is the identifier.
	ID string
	// Signature is the type of the function. If Bind is set, it has no parameters,
	// and its result is invalid if the result depends on the arguments.
	Signature Signature
	// Call computes the result of evaluated arguments.
	Call Call
	// Test equals Call for a function of two single values with a boolean result.
	// It is nil for every other function, and may be nil for these.
	Test Test
	// Lazy computes the result of arguments that it evaluates itself, from the
	// first to the last. An error of an argument matters only if the other
	// arguments do not decide.
	Lazy func(args Arguments) (Operand, error)
	// Bind applies a higher-order function to the function that is its first
	// argument. It gets the shapes of the other arguments and those that are
	// literals: literals[i] is nil for an argument that is none. It fails if the
	// shapes do not fit. The error is for people.
	Bind func(inner *Function, args []Shape, literals []*value.Value) (Bound, error)
	// CheckLiterals rejects arguments that can never be valid, for example a
	// negative beginning of substring. literals[i] is nil where an argument is not
	// a literal. It is nil if every literal of the right type is valid. The error
	// is for people.
	CheckLiterals func(literals []*value.Value) error
	// Prepare does once what all calls with the same literals repeat, for example
	// compiling a pattern. It may return nil for either form if there is nothing to
	// prepare; the other arguments are passed at their places as before. It is
	// called with literals that CheckLiterals accepted. It is nil if no literal of
	// the function needs work.
	Prepare func(literals []*value.Value) (Call, Test)
}

// Bound is a higher-order function with its first argument.
type Bound struct {
	Result Shape // type of the result
	Call   Call  // computes the result of the other arguments
}

// Specialize returns the forms of the function that are fastest for arguments
// of which some are literals: literals[i] is nil for an argument that is none,
// and literals has an entry for each argument. All arguments are passed to the
// returned forms at their places, also the literals. Test is nil if the function
// has no such form. Specialize fails if a literal can never be valid; the error
// is for people. Both forms are nil for a function with Lazy or Bind.
func (f *Function) Specialize(literals []*value.Value) (Call, Test, error) {
	if f.CheckLiterals != nil {
		if err := f.CheckLiterals(literals); err != nil {
			return nil, nil, err
		}
	}
	call, test := f.Call, f.Test
	if f.Prepare != nil {
		preparedCall, preparedTest := f.Prepare(literals)
		if preparedCall != nil {
			call = preparedCall
		}
		if preparedTest != nil {
			test = preparedTest
		}
	}
	return call, test, nil
}
