package identity

import (
	"fmt"
	"strings"
)

// Reason classifies an [Error] for machines.
type Reason uint8

// The reasons.
const (
	NotFound     Reason = iota + 1 // a record does not exist
	Conflict                       // a name or an id is in use
	Forbidden                      // the state of a record forbids the change
	Invalid                        // a value is malformed
	Unauthorized                   // a login fails; the text is for logs only
	PasswordAge                    // the password has expired, or must be changed
	MoreFactors                    // the methods of a login are right, but the user needs further ones
	Unavailable                    // the service does not offer what is asked for, by its settings
	Busy                           // too many password hashes wait; the call may be repeated later
)

// Error is the error of every method of [Service] that fails because of its
// input. Failures of the store are other errors.
type Error struct {
	Reason Reason // the class of the error
	Text   string // for people; it contains no secret
	// Field is the member of a record that is malformed, if Reason is Invalid and
	// one member is the cause; otherwise "".
	Field string
	// UserID is the user who logs in, if Reason is PasswordAge or MoreFactors.
	UserID string
}

// Error returns the text.
func (e *Error) Error() string { return e.Text }

// Is returns whether target is an [Error] with the same reason.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Reason == e.Reason
}

func failf(r Reason, format string, args ...any) *Error {
	return &Error{Reason: r, Text: fmt.Sprintf(format, args...)}
}

// label returns the name of a kind in texts of Keystone.
func (k Kind) label() string {
	switch k {
	case ApplicationCredential:
		return "Application Credential"
	case AccessRule:
		return "Access Rule"
	case EndpointGroup:
		return "Endpoint Group"
	case ServiceProvider:
		return "Service Provider"
	}
	return string(k)
}

// missing returns the error of a record that does not exist. The text is that of
// Keystone.
func missing(k Kind, id string) *Error {
	switch k {
	case Consumer:
		return failf(NotFound, "Consumer not found")
	case RequestToken:
		return failf(NotFound, "Request token not found")
	case AccessToken:
		return failf(NotFound, "Access token not found")
	}
	if k == RegisteredLimit || k == Limit {
		return failf(NotFound, "Could not find %s for %.255s.", strings.ReplaceAll(string(k), "_", " "), id)
	}
	return failf(NotFound, "Could not find %s: %.255s.", k.label(), id)
}
