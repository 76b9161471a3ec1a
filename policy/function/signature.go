package function

import (
	"fmt"
	"strings"

	"github.com/ostiary/ostiary/policy/value"
)

// Shape is the type of a parameter or a result: a single value or a bag.
type Shape struct {
	Type value.Type // data type of the value, or of the values of the bag
	Bag  bool       // true for a bag
}

// String returns the shape for people, for example "integer" or "bag of integer".
func (s Shape) String() string {
	if s.Bag {
		return "bag of " + s.Type.String()
	}
	return s.Type.String()
}

// Signature is the type of a function.
type Signature struct {
	Params []Shape // parameters
	// Repeat is the number of parameters at the end of Params that may be repeated
	// any number of times beyond their first use; 0 if the number of arguments is
	// fixed.
	Repeat int
	// Optional is the number of parameters at the end of Params that may be left
	// out; 0 if all are required.
	Optional int
	Result   Shape // type of the result
}

// String returns the signature for people, for example
// "(integer, integer...) integer". A parameter in brackets is optional.
func (s Signature) String() string {
	var b strings.Builder
	b.WriteByte('(')
	for i, p := range s.Params {
		if i > 0 {
			b.WriteString(", ")
		}
		text := p.String()
		if i >= len(s.Params)-s.Repeat {
			text += "..."
		}
		if i >= len(s.Params)-s.Optional {
			text = "[" + text + "]"
		}
		b.WriteString(text)
	}
	b.WriteString(") ")
	b.WriteString(s.Result.String())
	return b.String()
}

// Check fails if arguments of the shapes do not fit the signature. The error
// names the argument, its shape and the expected one.
func (s Signature) Check(args []Shape) error {
	least, most := len(s.Params)-s.Optional, len(s.Params)
	switch {
	case len(args) < least && (s.Repeat > 0 || s.Optional > 0):
		return fmt.Errorf("number of arguments %d: expected at least %d", len(args), least)
	case len(args) > most && s.Repeat == 0, len(args) < least:
		return fmt.Errorf("number of arguments %d: expected %d", len(args), most)
	case len(args) > most && (len(args)-most)%s.Repeat != 0:
		return fmt.Errorf("number of arguments %d: expected %d and a multiple of %d more", len(args), most, s.Repeat)
	}
	for i, arg := range args {
		if want := s.Param(i); arg != want {
			return fmt.Errorf("argument %d has the type %s: expected %s", i+1, arg, want)
		}
	}
	return nil
}

// Param returns the shape of an argument, counted from 0, that
// [Signature.Check] accepts at that place.
func (s Signature) Param(index int) Shape {
	if n := len(s.Params); index >= n {
		index = n - s.Repeat + (index-n)%s.Repeat
	}
	return s.Params[index]
}
