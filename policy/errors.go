package policy

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Error is one reason why a policy is rejected.
type Error struct {
	Position Position // place of the mistake
	Text     string   // what is wrong, the value, and what was expected
}

// Error returns the text after the position, if there is one.
func (e *Error) Error() string {
	if at := e.Position.String(); at != "" {
		return at + ": " + e.Text
	}
	return e.Text
}

// Errors are all reasons why [Compile] or [Check] rejects policies, at most
// [ErrorsMax] of them. It is never empty.
type Errors []*Error

// ErrorsMax is the largest number of errors that one compilation reports.
const ErrorsMax = 100

// Error returns the texts of the errors, one a line.
func (e Errors) Error() string {
	texts := make([]string, len(e))
	for i, one := range e {
		texts[i] = one.Error()
	}
	return strings.Join(texts, "\n")
}

// Unwrap returns the errors one by one, for [errors.As].
func (e Errors) Unwrap() []error {
	out := make([]error, len(e))
	for i, one := range e {
		out[i] = one
	}
	return out
}

// String returns the position as "source:line:column". It leaves out what is
// not known, and returns "" for the zero Position.
func (p Position) String() string {
	at := p.Source
	if p.Line > 0 {
		if at != "" {
			at += ":"
		}
		at += strconv.Itoa(p.Line)
		if p.Column > 0 {
			at += ":" + strconv.Itoa(p.Column)
		}
	}
	return at
}

// report collects the errors of one compilation.
type report struct{ errors Errors }

// add records an error. It does nothing when the report is full.
func (r *report) add(at Position, format string, args ...any) {
	if len(r.errors) < ErrorsMax {
		r.errors = append(r.errors, &Error{Position: at, Text: fmt.Sprintf(format, args...)})
	}
}

// err returns the collected errors in the order of their places, or nil if there
// are none.
func (r *report) err() error {
	if len(r.errors) == 0 {
		return nil
	}
	slices.SortStableFunc(r.errors, func(a, b *Error) int {
		p, q := a.Position, b.Position
		return cmp.Or(strings.Compare(p.Source, q.Source), p.Line-q.Line, p.Column-q.Column)
	})
	return r.errors
}
