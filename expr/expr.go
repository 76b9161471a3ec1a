// Package expr says what a condition is: a bounded expression over named,
// typed parameters whose result has three values. Its main types are
// Definition, Compiler and Program. It never evaluates anything itself:
// expr/cel implements Compiler with cel-go and is handed in from outside, so
// that a program without conditions does not carry an expression library.
package expr

import (
	"errors"

	"github.com/ostiary/ostiary/rel"
)

// Tristate is a value of Kleene's strong three-valued logic. The zero value is
// False: in doubt, deny.
type Tristate uint8

const (
	False Tristate = iota
	Unknown
	True
)

func (t Tristate) String() string { return [...]string{"false", "unknown", "true"}[min(t, True)] }

// Not is Kleene's negation. False < Unknown < True, so And is min and Or max.
func (t Tristate) Not() Tristate { return True - t }

// Kind is a parameter's or attribute's base type.
type Kind uint8

const (
	Any Kind = iota
	Bool
	String
	Int
	Uint
	Double
	Duration
	Timestamp
	IPAddress
	List // of Elem
	Map  // from string to Elem
)

var kindNames = [...]string{"any", "bool", "string", "int", "uint", "double", "duration", "timestamp", "ipaddress", "list", "map"}

func (k Kind) String() string {
	if int(k) >= len(kindNames) {
		return "unknown"
	}
	return kindNames[k]
}

// ParseKind reads what Kind.String prints.
func ParseKind(s string) (Kind, bool) {
	for i, n := range kindNames {
		if n == s {
			return Kind(i), true
		}
	}
	return 0, false
}

// Type is a parameter's or attribute's type. Elem is set for List and Map.
type Type struct {
	Kind Kind
	Elem *Type
}

func (t Type) String() string {
	if t.Elem == nil {
		return t.Kind.String()
	}
	return t.Kind.String() + "<" + t.Elem.String() + ">"
}

// Param is a named, typed parameter.
type Param struct {
	Name string
	Type Type
}

// Definition is a condition as the schema's author wrote it.
type Definition struct {
	Name   string
	Params []Param
	Source string
	// Module and File say where a modular model defines it; "" elsewhere.
	Module, File string
	// Strict wants every parameter given, also one that the expression would not
	// come to read, and none given where none is declared (OpenFGA).
	Strict bool `json:",omitempty"`
}

// Values are a condition's parameters by name: decoded JSON (nil, bool,
// float64, json.Number, string, []any, map[string]any) or Go scalars.
type Values = map[string]any

// Result is what evaluating a Program gave. Truth is Unknown exactly when
// Missing is not empty or Err is not nil.
type Result struct {
	Value Tristate
	// Missing names the parameters that were needed and absent, sorted.
	Missing []string
	// Err is an evaluation error: a value of the wrong type, a cost above the
	// bound (ErrCost), an error of the expression itself.
	Err error
	// Cost is the evaluation's cost in the compiler's own units.
	Cost uint64
}

// Program is a compiled condition, safe for concurrent use.
type Program interface {
	// Eval evaluates under stored, the tuple's own parameters, which win over
	// request, those of the question. now is the question's time. It changes
	// neither map, terminates within the compiler's cost bound and does not
	// panic whatever the values are.
	Eval(stored, request Values, now rel.Time) Result
}

// Compiler turns definitions into programs. Errors wrap ErrCompile.
type Compiler interface {
	Compile(def Definition) (Program, error)
}

var (
	// ErrCompile is the kind of every error about a definition.
	ErrCompile = errors.New("invalid condition")
	// ErrCost marks an evaluation that was stopped at its cost bound.
	ErrCost = errors.New("condition cost bound reached")
	// ErrType marks a parameter value that is not of its declared type.
	ErrType = errors.New("condition parameter of wrong type")
)
