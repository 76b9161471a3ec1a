// Package function implements the functions of XACML 3.0 (appendix A.3) and
// those of 1.0 and 2.0 that later versions kept or deprecated. Its main types
// are [Set], which finds a function by its id, and [Function]. It knows no
// policy and no request.
package function

import (
	"context"
	"time"

	"github.com/ostiary/ostiary/policy/content"
	"github.com/ostiary/ostiary/policy/value"
)

// Shape is the type of a parameter or a result: a single value or a bag.
type Shape struct {
	Type value.Type // data type of the value, or of the values of the bag
	Bag  bool       // true for a bag
}

// Operand is an evaluated argument or a result: a single value or a bag. Values
// is shared, so callers must not change it.
type Operand struct {
	Shape  Shape         // type of the operand
	Value  value.Value   // the value, if Shape.Bag is false
	Values []value.Value // the values of the bag, in any order, with duplicates
}

// Env is what functions may use apart from their arguments. It belongs to one
// request.
type Env struct {
	// Context ends the evaluation when the request's deadline passes or the
	// client leaves. Long functions look at it.
	Context context.Context
	// Zone is the time zone of values that have none.
	Zone *time.Location
	// Content returns the root of the Content of a category, or nil if the request
	// has none. The error is a *status.Error if the content is malformed.
	Content func(category string) (*content.Node, error)
	// Related asks the relation graph whether the subject ("user:anne") has the
	// relation to the object ("document:1"). It is nil if the policy domain has no
	// relation store.
	Related func(object, relation, subject string) (bool, error)
}

// Signature is the type of a function.
type Signature struct {
	Params []Shape // parameters
	// Repeat is the number of parameters at the end of Params that may be repeated
	// any number of times beyond their first use; 0 if the number of arguments is
	// fixed.
	Repeat int
	Result Shape // type of the result
}

// Function is a function of XACML. It is immutable and may be called
// concurrently.
type Function struct {
	ID        string // the identifier
	Signature Signature
	// Call computes the result of arguments whose shapes match the signature. Its
	// error is a *status.Error.
	Call func(env *Env, args []Operand) (Operand, error)
	// CheckLiterals rejects arguments that can never be valid, for example a
	// negative beginning of substring. literals[i] is nil where an argument is not
	// a literal. It is nil if every literal of the right type is valid.
	CheckLiterals func(literals []*value.Value) error
}
