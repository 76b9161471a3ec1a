package domain

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/policy"
	"github.com/ostiary/ostiary/policy/value"
)

// The kinds of errors of this package. The errors of the store pass through.
var (
	// ErrNoDomain means that the store is not a policy domain, or that a relation
	// store has no policy domain yet.
	ErrNoDomain = errors.New("no such policy domain")
	// ErrNoPolicy means that the domain has no policy with the name, or no root.
	ErrNoPolicy = errors.New("no such policy")
	// ErrInvalid means that a policy must be rejected; [InvalidError] has the
	// reasons.
	ErrInvalid = errors.New("invalid policy")
	// ErrBinding means that a domain exists already and is bound to another relation
	// store than the caller expects.
	ErrBinding = errors.New("the policy domain is bound to another relation store")
	// ErrReserved means that a request has an attribute whose id is reserved for
	// attributes of the store.
	ErrReserved = errors.New("reserved attribute id")
	// ErrName means that the name of a policy or the alias of a domain is malformed.
	ErrName = errors.New("invalid name")
)

// InvalidError is an [ErrInvalid]: the reasons why a policy is rejected.
type InvalidError struct {
	// Name is the name of the policy that the change puts; "" if the change as a
	// whole is rejected, for example because a reference is missing.
	Name string
	// Reasons are the mistakes with their positions. There is at least one.
	Reasons policy.Errors
}

// Error returns the reasons, one a line.
func (e *InvalidError) Error() string {
	text := ErrInvalid.Error()
	if e.Name != "" {
		text += " " + value.Quote(e.Name)
	}
	lines := make([]string, len(e.Reasons))
	for i, r := range e.Reasons {
		lines[i] = r.Error()
	}
	return text + ": " + strings.Join(lines, "\n")
}

// Is reports whether target is [ErrInvalid].
func (e *InvalidError) Is(target error) bool { return target == ErrInvalid }

// invalid returns an InvalidError with the reasons of err. If err is that of a context
// that has ended, it returns authz.ErrCanceled.
func invalid(name string, err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%w: reading a policy: %w", authz.ErrCanceled, err)
	}
	var many policy.Errors
	if errors.As(err, &many) {
		return &InvalidError{name, many}
	}
	var one *policy.Error
	if errors.As(err, &one) {
		return &InvalidError{name, policy.Errors{one}}
	}
	return &InvalidError{name, policy.Errors{{Text: err.Error()}}}
}
