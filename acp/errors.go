package acp

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/ostiary/ostiary"
)

// The kinds of errors. Each of the second group is also one of the first:
// errors.Is finds both, through any wrapping.
var (
	// ErrInput: what was handed in is malformed or contradicts the policy.
	ErrInput = errors.New("bad input")
	// ErrUnauthenticated: the call needs an identity and has none.
	ErrUnauthenticated = errors.New("unauthenticated")
	// ErrUnauthorized: the identity may not do this.
	ErrUnauthorized = errors.New("unauthorized")
	// ErrForbidden: nobody may do this, in this state.
	ErrForbidden = errors.New("operation forbidden")
	// ErrNotFound: what the call names is not there.
	ErrNotFound = errors.New("not found")
	// ErrUndecided: a bound of the evaluator was reached before there was an
	// answer.
	ErrUndecided = errors.New("undecided")
	// ErrInternal: the store below failed; it is in the error's chain.
	ErrInternal = errors.New("internal error")
	// ErrState: the engine is not started, or started already.
	ErrState = errors.New("wrong state")
)

var (
	ErrPolicyNotFound     = fmt.Errorf("policy %w", ErrNotFound)
	ErrResourceNotFound   = fmt.Errorf("resource %w in the policy", ErrNotFound)
	ErrRelationNotFound   = fmt.Errorf("relation %w in the resource", ErrNotFound)
	ErrPermissionNotFound = fmt.Errorf("permission %w in the resource", ErrNotFound)
	ErrObjectNotFound     = fmt.Errorf("registered object %w", ErrNotFound)

	// ErrInvalidPolicy is the kind of every error in a policy's text; *PolicyError
	// has its place. The nine below are its kinds.
	ErrInvalidPolicy = fmt.Errorf("%w: invalid policy", ErrInput)
	ErrSyntax        = fmt.Errorf("%w: malformed", ErrInvalidPolicy)
	ErrField         = fmt.Errorf("%w: unknown or repeated field", ErrInvalidPolicy)
	ErrMissing       = fmt.Errorf("%w: something required is missing", ErrInvalidPolicy)
	ErrName          = fmt.Errorf("%w: invalid name", ErrInvalidPolicy)
	ErrDuplicate     = fmt.Errorf("%w: name used twice", ErrInvalidPolicy)
	ErrReserved      = fmt.Errorf("%w: reserved name", ErrInvalidPolicy)
	ErrUndefined     = fmt.Errorf("%w: undefined name", ErrInvalidPolicy)
	ErrExpression    = fmt.Errorf("%w: invalid expression", ErrInvalidPolicy)
	ErrSpecification = fmt.Errorf("%w: specification not met", ErrInvalidPolicy)

	// ErrEdit: an edit would remove a resource, or change specification or
	// dialect.
	ErrEdit = fmt.Errorf("%w: not a permitted edit", ErrInput)
	// ErrRequiredPermission: a resource lacks a permission that the database
	// needs, or its owner could be kept from it.
	ErrRequiredPermission = fmt.Errorf("%w: required permission", ErrInput)
	// ErrInvalidDID: an identity is no DID, or a did:key without a sound key.
	ErrInvalidDID = fmt.Errorf("%w: invalid DID", ErrInput)
	// ErrInvalidID: an object's id is empty, too long, or has a '#', a blank or a
	// control character.
	ErrInvalidID = fmt.Errorf("%w: invalid object id", ErrInput)
	// ErrRestriction: the relation's types do not admit the subject.
	ErrRestriction = fmt.Errorf("%w: subject not admitted by the relation's types", ErrInput)
	// ErrTheorem: a theorem's text is malformed; *PolicyError has the place.
	ErrTheorem = fmt.Errorf("%w: malformed theorem", ErrInput)
	// ErrBound: a bound was passed; the text names it.
	ErrBound = fmt.Errorf("%w: bound passed", ErrInput)
	// ErrBatch: an operation that cannot stand behind an earlier one in a batch.
	ErrBatch = fmt.Errorf("%w: not possible in this batch", ErrInput)

	// ErrRegistered: the object is registered already, by whomever.
	ErrRegistered = fmt.Errorf("%w: object is registered already", ErrForbidden)
	// ErrArchived: the object is archived.
	ErrArchived = fmt.Errorf("%w: object is archived", ErrForbidden)
	// ErrOwnerRelation: the relation owner is set by registering, transferring
	// and archiving alone.
	ErrOwnerRelation = fmt.Errorf("%w: the relation owner is not set or removed", ErrForbidden)

	// ErrClosed: the engine is closed or was not started.
	ErrClosed = fmt.Errorf("%w: not started, or closed", ErrState)
	// ErrStarted: the engine is started already.
	ErrStarted = fmt.Errorf("%w: started already", ErrState)

	// ErrToken is the kind of every refusal of a bearer token; the five below are
	// its kinds.
	ErrToken          = fmt.Errorf("%w: invalid bearer token", ErrUnauthenticated)
	ErrTokenMalformed = fmt.Errorf("%w: malformed", ErrToken)
	ErrTokenSignature = fmt.Errorf("%w: signature", ErrToken)
	ErrTokenTime      = fmt.Errorf("%w: expired, or not valid yet", ErrToken)
	ErrTokenAudience  = fmt.Errorf("%w: audience", ErrToken)
	ErrTokenIdentity  = fmt.Errorf("%w: subject, issuer and key do not agree", ErrToken)
)

// Error is every error that an Engine returns: the call, and the cause, whose
// kind errors.Is finds.
type Error struct {
	// Op is the call: "register", "check", …
	Op  string
	Err error
}

func (e *Error) Error() string { return "acp: " + e.Op + ": " + e.Err.Error() }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// PolicyError is one thing wrong in a policy's or a theorem's text.
type PolicyError struct {
	// Line and Column count from 1; 0 is unknown.
	Line, Column int
	// Kind is a sentinel of this package.
	Kind error
	Text string
}

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

// failed wraps err once for the call. What the store says is given a kind of
// this package, with the store's own error kept in the chain.
func failed(op string, err error) error {
	if err == nil {
		return nil
	}
	var done *Error
	if errors.As(err, &done) {
		return err
	}
	var below *ostiary.Error
	if errors.As(err, &below) && !known(err) {
		err = fmt.Errorf("%w: %w", kindOf(below), err)
	}
	return &Error{op, err}
}

// known says whether an error has a kind of this package already.
func known(err error) bool {
	for _, k := range [...]error{ErrInput, ErrUnauthenticated, ErrUnauthorized, ErrForbidden, ErrNotFound, ErrUndecided, ErrInternal, ErrState} {
		if errors.Is(err, k) {
			return true
		}
	}
	return false
}

func kindOf(err error) error {
	switch {
	case errors.Is(err, ostiary.ErrBound):
		return ErrBound
	case errors.Is(err, ostiary.ErrInvalidName):
		return ErrInvalidID
	case errors.Is(err, ostiary.ErrClosed), errors.Is(err, ostiary.ErrNoStore):
		return ErrClosed
	}
	return ErrInternal
}
