package catalog

import "fmt"

// Kind is the kind of an [Error].
type Kind uint8

// The kinds of errors.
const (
	Invalid       Kind = iota + 1 // the request is malformed
	NotFound                      // what the request names does not exist
	NotAcceptable                 // the change contradicts what is stored
	Full                          // the change exceeds a bound
)

// Error is an error of a request to the catalog.
type Error struct {
	Kind Kind   // kind, for machines
	Text string // what is wrong and what was expected
}

// Error returns the text.
func (e *Error) Error() string { return e.Text }

// failf returns an error of a kind.
func failf(k Kind, format string, args ...any) error {
	return &Error{k, fmt.Sprintf(format, args...)}
}
