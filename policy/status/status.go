// Package status defines the status of an XACML result: why a decision is
// Indeterminate. Its main type is [Error]. It evaluates nothing.
package status

import (
	"fmt"

	"github.com/ostiary/ostiary/policy/value"
)

// Code is a status code of XACML 3.0, appendix B.8.
type Code string

// The status codes.
const (
	// OK means that the decision was made without an error.
	OK Code = "urn:oasis:names:tc:xacml:1.0:status:ok"
	// MissingAttribute means that the request lacks an attribute.
	MissingAttribute Code = "urn:oasis:names:tc:xacml:1.0:status:missing-attribute"
	// SyntaxError means that a value is not of its data type, or that a request
	// is malformed.
	SyntaxError Code = "urn:oasis:names:tc:xacml:1.0:status:syntax-error"
	// ProcessingError means that an evaluation failed, for example a division by
	// zero, or that a bound was reached.
	ProcessingError Code = "urn:oasis:names:tc:xacml:1.0:status:processing-error"
)

// Missing describes an attribute that an evaluation needed and the request
// lacks. It is the MissingAttributeDetail of a missing-attribute status.
type Missing struct {
	Category string     // category of the attribute
	ID       string     // id of the attribute
	Type     value.Type // data type of the attribute
	Issuer   string     // issuer, if the policy names one; otherwise ""
}

// Error is the reason why a result is Indeterminate, or a remark on another result.
type Error struct {
	// Code is the status code for machines. It is OK for a remark.
	Code Code
	// Message is for people: what was wrong, the value, and what was expected.
	Message string
	// Missing lists the missing attributes if Code is MissingAttribute.
	Missing []Missing
	// Bound names the bound that was reached, for example "policy depth"; "" if
	// none was.
	Bound string
}

// Error returns the message.
func (e *Error) Error() string { return e.Message }

// Errorf returns an error with a formatted message.
func Errorf(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// Reached returns the error of a bound that was reached: its name, and the
// largest value that is allowed.
func Reached(code Code, bound string, most int) *Error {
	e := Errorf(code, "the bound %s is reached: expected at most %d", bound, most)
	e.Bound = bound
	return e
}
