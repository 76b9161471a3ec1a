// Package language reads and prints policies of XACML 3.0: as XML, as JSON and
// as a readable text. All three have the same meaning, the tree of package
// policy; its main functions are [ParseXML], [ParseJSON] and [ParseText]. The
// package checks the form of a policy and its literals. It never evaluates a
// policy and never reads a file.
package language

import (
	"errors"
	"fmt"

	"github.com/ostiary/ostiary/internal/tool/xmlread"
	"github.com/ostiary/ostiary/policy"
)

// TextBytesMax is the largest length of the text of one policy.
const TextBytesMax = 16 << 20

// BoundError is the error of a text that exceeds a bound.
type BoundError struct {
	Err   *policy.Error // place and text
	Bound string        // name of the bound, for example "element depth"
}

// Error returns the place and the text.
func (e *BoundError) Error() string { return e.Err.Error() }

// Unwrap returns the error without the name of the bound.
func (e *BoundError) Unwrap() error { return e.Err }

func checkLength(text []byte, source string) error {
	if len(text) <= TextBytesMax {
		return nil
	}
	return boundError(policy.Position{Source: source}, "policy bytes", TextBytesMax)
}

func boundError(at policy.Position, bound string, largest int) error {
	return &BoundError{&policy.Error{Position: at, Text: fmt.Sprintf("the text exceeds the bound %q: expected at most %d", bound, largest)}, bound}
}

// located returns an error of the XML reader as one of this package.
func located(err error, source string) error {
	var e *xmlread.Error
	if !errors.As(err, &e) {
		return err
	}
	out := &policy.Error{Position: policy.Position{Source: source, Line: e.Line, Column: e.Column}, Text: e.Text}
	if e.Bound != "" {
		return &BoundError{out, e.Bound}
	}
	return out
}
