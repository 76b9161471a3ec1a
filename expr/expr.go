// Package expr defines conditions: expressions over named, typed parameters
// whose result is true, false or unknown. Its main types are [Definition],
// [Compiler], [Program] and [Tristate]. The package does not evaluate
// expressions. The package expr/cel implements [Compiler]; a program passes it
// to the engine, so a program without conditions does not link an expression
// library.
package expr

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/ostiary/ostiary/rel"
)

// Tristate is a truth value of Kleene's strong three-valued logic. The zero value
// is False, so a value that is not set denies. The values are ordered: And is
// the minimum of two values, Or is the maximum.
type Tristate uint8

// The truth values.
const (
	False   Tristate = iota // certainly false
	Unknown                 // cannot be decided
	True                    // certainly true
)

// String returns "false", "unknown" or "true".
func (t Tristate) String() string { return [...]string{"false", "unknown", "true"}[min(t, True)] }

// Not returns the negation of t. The negation of Unknown is Unknown.
func (t Tristate) Not() Tristate { return True - t }

// Kind is the base type of a parameter or attribute.
type Kind uint8

// The base types.
const (
	Any       Kind = iota // any JSON value
	Bool                  // true or false
	String                // a string
	Int                   // a signed integer of 64 bits
	Uint                  // an unsigned integer of 64 bits
	Double                // a floating point number of 64 bits
	Duration              // a length of time, for example "1h30m"
	Timestamp             // a time in the format of RFC 3339
	IPAddress             // an IPv4 or IPv6 address
	List                  // a list of Type.Elem
	Map                   // a map from string to Type.Elem
)

var kindNames = [...]string{"any", "bool", "string", "int", "uint", "double", "duration", "timestamp", "ipaddress", "list", "map"}

// String returns the name of k, for example "ipaddress".
func (k Kind) String() string {
	if int(k) >= len(kindNames) {
		return "unknown"
	}
	return kindNames[k]
}

// ParseKind returns the kind with a name that [Kind.String] returns. It returns
// false if there is none.
func ParseKind(s string) (Kind, bool) {
	for i, n := range kindNames {
		if n == s {
			return Kind(i), true
		}
	}
	return 0, false
}

// Type is the type of a parameter or attribute.
type Type struct {
	// Kind is the base type.
	Kind Kind
	// Elem is the type of the elements of a List or the values of a Map; nil for
	// other kinds.
	Elem *Type
}

// String returns the name of t, for example "list<string>".
func (t Type) String() string {
	if t.Elem == nil {
		return t.Kind.String()
	}
	return t.Kind.String() + "<" + t.Elem.String() + ">"
}

// Form describes the JSON form of a value of the type, for error texts: "a
// whole number", "a list".
func (t Type) Form() string { return kindForms[t.Kind] }

var kindForms = [...]string{
	Any:       "a value",
	Bool:      "true or false",
	String:    "a string",
	Int:       "a whole number",
	Uint:      "a whole number that is not negative",
	Double:    "a number",
	Duration:  `a duration such as "1h30m"`,
	Timestamp: `a time such as "2026-01-02T15:04:05Z"`,
	IPAddress: `an IP address such as "192.0.2.1"`,
	List:      "a list",
	Map:       "an object",
}

// Mismatch describes, for error texts, a value that has not the form of the type.
func (t Type) Mismatch(v any) string {
	if s, ok := v.(string); ok {
		return fmt.Sprintf("%.60q is not %s", s, t.Form())
	}
	return fmt.Sprintf("expected %s, got %s", t.Form(), JSONKind(v))
}

// JSONKind names the kind of a decoded JSON value, for error texts: "a number",
// "an object". A value that cannot come from JSON has the name of its Go type.
func JSONKind(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case bool:
		return "true or false"
	case string:
		return "a string"
	case []any:
		return "a list"
	case map[string]any:
		return "an object"
	case json.Number, float64, int, int64, uint64:
		return "a number"
	}
	return fmt.Sprintf("a %T", v)
}

// Param is a named, typed parameter.
type Param struct {
	// Name is the name that the expression uses.
	Name string
	// Type is the type that a value must have.
	Type Type
}

// Definition is a condition as the author of the model wrote it.
type Definition struct {
	// Name is the name of the condition.
	Name string
	// Params are the parameters. Their names are unique.
	Params []Param
	// Source is the text of the expression. Its result must be a bool.
	Source string
	// Module and File are the module and the file of a modular model that define
	// the condition; "" for other models.
	Module, File string
	// Strict makes the result unknown unless every parameter has a value, even one
	// that the expression does not read. If the condition has no parameters, any
	// value makes the result unknown (OpenFGA).
	Strict bool `json:",omitempty"`
}

// Values are the values of parameters by name. A value is decoded JSON (nil,
// bool, float64, json.Number, string, []any or map[string]any) or a Go scalar.
type Values = map[string]any

// Result is the result of [Program.Eval].
type Result struct {
	// Value is Unknown if and only if Missing is not empty or Err is not nil.
	Value Tristate
	// Missing are the names of the parameters that the expression needs but that
	// have no value. They are sorted.
	Missing []string
	// Err is the error that stopped the evaluation: [ErrType], [ErrCost] or an
	// error of the expression, for example a division by zero.
	Err error
	// Cost is the cost of the evaluation, in units of the compiler: about one for
	// each step. It includes the cost of converting values.
	Cost uint64
}

// Program is a compiled condition. It is safe for concurrent use.
type Program interface {
	// Eval evaluates the condition. stored are the values in the tuple; they take
	// precedence over request, the values in the request. now is the time of the
	// request. Eval does not change the maps, stops at the cost limit of the
	// compiler and does not panic, whatever the values are.
	Eval(stored, request Values, now rel.Time) Result
}

// Preparer is an optional interface of a [Program]. A caller that evaluates a
// program for many tuples of one request prepares it once.
type Preparer interface {
	// Prepare returns the program with the values of a request. Evaluations end
	// with the error of ctx soon after ctx has ended.
	Prepare(ctx context.Context, request Values) Prepared
}

// Prepared is a [Program] with the values of one request. It converts these
// values once, however many tuples are evaluated. It is not safe for
// concurrent use.
type Prepared interface {
	// Eval evaluates the condition; see [Program].
	Eval(stored Values, now rel.Time) Result
}

// Compiler compiles conditions. It is safe for concurrent use.
type Compiler interface {
	// Compile compiles def. Errors wrap [ErrCompile].
	Compile(def Definition) (Program, error)
}

// The bounds of one evaluation, as [BoundError] names them.
const (
	BoundCost       = "cost of a condition"          // all steps and function calls
	BoundRegexSize  = "size of a regular expression" // its text and its instructions
	BoundRegexInput = "input of a regular expression"
	BoundListLen    = "length of a list in a condition"
)

// BoundError is the error of an evaluation that stopped at a bound. For errors.Is
// it is also [ErrCost].
type BoundError struct {
	// Bound is the name of the bound, for example [BoundCost].
	Bound string
	// Text is the whole message.
	Text string
}

// Error returns the message.
func (e *BoundError) Error() string { return e.Text }

// Is reports whether target is ErrCost.
func (e *BoundError) Is(target error) bool { return target == ErrCost }

// Errors about conditions, for use with errors.Is.
var (
	// ErrCompile is wrapped by every error about a [Definition].
	ErrCompile = errors.New("invalid condition")
	// ErrCost means that the evaluation stopped at a bound; see [BoundError].
	ErrCost = errors.New("condition cost bound reached")
	// ErrType means that the value of a parameter does not have the type of the
	// parameter.
	ErrType = errors.New("condition parameter of wrong type")
)
