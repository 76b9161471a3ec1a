package acp

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/storage"
)

// The general kinds of errors. [errors.Is] finds them in every error that this
// package returns.
var (
	// ErrInput means that an argument is malformed or contradicts the policy.
	ErrInput = errors.New("bad input")
	// ErrUnauthenticated means that the call needs an identity and has none.
	ErrUnauthenticated = errors.New("unauthenticated")
	// ErrUnauthorized means that the identity lacks the authority for the call.
	ErrUnauthorized = errors.New("unauthorized")
	// ErrForbidden means that no identity can make the call in this state.
	ErrForbidden = errors.New("operation forbidden")
	// ErrNotFound means that something that the call names does not exist.
	ErrNotFound = errors.New("not found")
	// ErrUndecided means that the evaluator reached a bound before it had a
	// decision.
	ErrUndecided = errors.New("undecided")
	// ErrInternal means that the store failed. The store's error is in the chain.
	ErrInternal = errors.New("internal error")
	// ErrCanceled means that the caller's context ended before the call did. The
	// context's own error is in the chain.
	ErrCanceled = errors.New("canceled")
	// ErrState means that the engine is not started, or that it is started already.
	ErrState = errors.New("wrong state")
)

// The specific kinds of errors. Each is also one of the general kinds.
var (
	// ErrPolicyNotFound means that no policy has the id.
	ErrPolicyNotFound = fmt.Errorf("policy %w", ErrNotFound)
	// ErrResourceNotFound means that the policy has no such resource.
	ErrResourceNotFound = fmt.Errorf("resource %w in the policy", ErrNotFound)
	// ErrRelationNotFound means that the resource has no such relation.
	ErrRelationNotFound = fmt.Errorf("relation %w in the resource", ErrNotFound)
	// ErrPermissionNotFound means that the resource has no such permission.
	ErrPermissionNotFound = fmt.Errorf("permission %w in the resource", ErrNotFound)
	// ErrObjectNotFound means that the object is not registered.
	ErrObjectNotFound = fmt.Errorf("registered object %w", ErrNotFound)

	// ErrInvalidPolicy is the kind of every error in a policy's text. It comes in a
	// [*PolicyError] with one of the next nine kinds.
	ErrInvalidPolicy = fmt.Errorf("%w: invalid policy", ErrInput)
	// ErrSyntax means that the text is not valid YAML or JSON of a policy.
	ErrSyntax = fmt.Errorf("%w: malformed", ErrInvalidPolicy)
	// ErrField means that a field is unknown or repeated.
	ErrField = fmt.Errorf("%w: unknown or repeated field", ErrInvalidPolicy)
	// ErrMissing means that a required field or relation is missing.
	ErrMissing = fmt.Errorf("%w: required element is missing", ErrInvalidPolicy)
	// ErrName means that a name is too long or has a forbidden character.
	ErrName = fmt.Errorf("%w: invalid name", ErrInvalidPolicy)
	// ErrDuplicate means that two elements have the same name.
	ErrDuplicate = fmt.Errorf("%w: name used twice", ErrInvalidPolicy)
	// ErrReserved means that a name is reserved.
	ErrReserved = fmt.Errorf("%w: reserved name", ErrInvalidPolicy)
	// ErrUndefined means that a name refers to nothing.
	ErrUndefined = fmt.Errorf("%w: undefined name", ErrInvalidPolicy)
	// ErrExpression means that a permission's expression has a syntax error.
	ErrExpression = fmt.Errorf("%w: invalid expression", ErrInvalidPolicy)
	// ErrSpecification means that the policy does not meet its specification, or that
	// PolicySource.Specification does not permit the text's own.
	ErrSpecification = fmt.Errorf("%w: specification not met", ErrInvalidPolicy)

	// ErrEdit means that an edit would remove a resource, or change the
	// specification, the dialect or the actor's name.
	ErrEdit = fmt.Errorf("%w: not a permitted edit", ErrInput)
	// ErrRequiredPermission means that a resource lacks a permission that the
	// database needs, or that the permission can exclude the owner.
	ErrRequiredPermission = fmt.Errorf("%w: required permission", ErrInput)
	// ErrInvalidDID means that an identity is not a DID, or a did:key without a
	// valid key.
	ErrInvalidDID = fmt.Errorf("%w: invalid DID", ErrInput)
	// ErrInvalidID means that an object's id is empty or too long; see [StoredID].
	ErrInvalidID = fmt.Errorf("%w: invalid object id", ErrInput)
	// ErrInvalidTime means that a registration cannot have the given time.
	ErrInvalidTime = fmt.Errorf("%w: invalid time", ErrInput)
	// ErrRestriction means that the relation's types do not admit the subject.
	ErrRestriction = fmt.Errorf("%w: subject not admitted by the relation's types", ErrInput)
	// ErrTheorem means that a theorem has a syntax error. It comes in a
	// [*PolicyError].
	ErrTheorem = fmt.Errorf("%w: malformed theorem", ErrInput)
	// ErrBound means that a bound was exceeded. The text names the bound.
	ErrBound = fmt.Errorf("%w: bound exceeded", ErrInput)
	// ErrBatch means that an operation cannot follow an earlier one in a batch.
	ErrBatch = fmt.Errorf("%w: not possible in this batch", ErrInput)

	// ErrRegistered means that the object is already registered.
	ErrRegistered = fmt.Errorf("%w: object is registered already", ErrForbidden)
	// ErrArchived means that the object is archived.
	ErrArchived = fmt.Errorf("%w: object is archived", ErrForbidden)
	// ErrOwnerRelation means that a call tried to set the relation owner, which only
	// registration and transfer change.
	ErrOwnerRelation = fmt.Errorf("%w: the relation owner cannot be set or deleted", ErrForbidden)

	// ErrClosed means that the engine is not started or was closed.
	ErrClosed = fmt.Errorf("%w: not started, or closed", ErrState)
	// ErrStarted means that the engine is already started.
	ErrStarted = fmt.Errorf("%w: started already", ErrState)

	// ErrToken is the kind of every error of [VerifyToken]. The next five are its
	// kinds.
	ErrToken = fmt.Errorf("%w: invalid bearer token", ErrUnauthenticated)
	// ErrTokenMalformed means that the token is not a JWT of the expected form.
	ErrTokenMalformed = fmt.Errorf("%w: malformed", ErrToken)
	// ErrTokenSignature means that the signature does not match the token.
	ErrTokenSignature = fmt.Errorf("%w: wrong signature", ErrToken)
	// ErrTokenTime means that the token has expired or is not valid yet.
	ErrTokenTime = fmt.Errorf("%w: expired, or not valid yet", ErrToken)
	// ErrTokenAudience means that the token is for another server.
	ErrTokenAudience = fmt.Errorf("%w: wrong audience", ErrToken)
	// ErrTokenIdentity means that subject, issuer, key and algorithm do not match.
	ErrTokenIdentity = fmt.Errorf("%w: subject, issuer and key do not agree", ErrToken)
)

// Error is the type of every error that an [Engine] returns.
type Error struct {
	// Op is the call that failed, such as "register" or "check".
	Op string
	// Err is the cause; errors.Is finds its kind.
	Err error
}

// Error returns "acp: ", the call and the cause.
func (e *Error) Error() string { return "acp: " + e.Op + ": " + e.Err.Error() }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// PolicyError is one error in the text of a policy or a theorem.
type PolicyError struct {
	// Line and Column count from 1. They are 0 if the place is unknown.
	Line, Column int
	// Kind is one of this package's Err variables.
	Kind error
	// Text describes the error.
	Text string
}

// Error returns the place, the kind and the text.
func (e *PolicyError) Error() string {
	var b strings.Builder
	if e.Line > 0 {
		b.WriteString(strconv.Itoa(e.Line) + ":" + strconv.Itoa(e.Column) + ": ")
	}
	b.WriteString(e.Kind.Error())
	if e.Text != "" {
		b.WriteString(": " + e.Text)
	}
	return b.String()
}

// Unwrap returns the kind.
func (e *PolicyError) Unwrap() error { return e.Kind }

// failed wraps err in an [Error] for the call op, unless it already is one. It adds
// the kind as withKind does.
func failed(op string, err error) error {
	if err == nil {
		return nil
	}
	var done *Error
	if errors.As(err, &done) {
		return err
	}
	return &Error{op, withKind(err)}
}

// withKind gives a kind of this package to an error of the store or of a context.
// The error remains in the chain. Its text does not name the store, whose id is
// internal to this package. Other errors are returned as they are.
func withKind(err error) error {
	if err == nil || known(err) {
		return err
	}
	var below *authz.Error
	if errors.As(err, &below) {
		unnamed := *below
		unnamed.Store = storage.StoreID{}
		if below.Kind == authz.ErrNoStore {
			unnamed.Err = nil // its text names the store too
		}
		return fmt.Errorf("%w: %w", kindOf(below), &unnamed)
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%w: %w", ErrCanceled, err)
	}
	return err
}

// known reports whether an error has a kind of this package.
func known(err error) bool {
	for _, k := range [...]error{ErrInput, ErrUnauthenticated, ErrUnauthorized, ErrForbidden, ErrNotFound, ErrUndecided, ErrInternal, ErrCanceled, ErrState} {
		if errors.Is(err, k) {
			return true
		}
	}
	return false
}

// kindOf returns this package's kind for an error of the store.
func kindOf(err error) error {
	switch {
	case errors.Is(err, authz.ErrBound):
		return ErrBound
	case errors.Is(err, authz.ErrInvalidName):
		return ErrInvalidID
	case errors.Is(err, authz.ErrClosed), errors.Is(err, authz.ErrNoStore):
		return ErrClosed
	case errors.Is(err, authz.ErrCanceled), errors.Is(err, authz.ErrLoading):
		return ErrCanceled
	}
	return ErrInternal
}
