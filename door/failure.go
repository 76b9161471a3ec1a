package door

import (
	"context"
	"errors"
	"net/http"

	"google.golang.org/grpc/codes"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/internal/tool/jsonread"
)

// Failure is what a door answers to an error. A protocol with codes of its own replaces
// a part of it.
type Failure struct {
	// Kind is a word for machines, for example "busy".
	Kind string
	// Status is the HTTP status. It is 500 if the error is not one of the table.
	Status int
	// Code is the gRPC code.
	Code codes.Code
	// Text is for people. It lacks the cause of an error whose text could contain
	// internals.
	Text string
	// Bound is the bound that the request exceeds; nil if it exceeds none.
	Bound *authz.BoundError
	// refused is true for a [Refusal].
	refused bool
}

// row is an entry of the table of failures.
type row struct {
	err    error
	kind   string
	status int
	code   codes.Code
	// hidden errors are described by their kind alone: their cause can be the text of a
	// driver.
	hidden bool
}

// failures has a row for each kind of the engine's errors, and for errors of bodies. The
// first match counts. A door must not answer another status, unless its protocol
// demands it.
var failures = [...]row{
	{authz.ErrNoStore, "no_store", http.StatusNotFound, codes.NotFound, false},
	{authz.ErrStoreExists, "store_exists", http.StatusConflict, codes.AlreadyExists, false},
	{authz.ErrForbidden, "forbidden", http.StatusForbidden, codes.PermissionDenied, false},
	{authz.ErrNoSchema, "no_schema", http.StatusNotFound, codes.NotFound, false},
	{authz.ErrInvalidSchema, "invalid_schema", http.StatusBadRequest, codes.InvalidArgument, false},
	{authz.ErrInvalidName, "invalid_name", http.StatusBadRequest, codes.InvalidArgument, false},
	{authz.ErrInvalidTuple, "not_admitted", http.StatusBadRequest, codes.InvalidArgument, false},
	{authz.ErrInvalidRequest, "invalid_request", http.StatusBadRequest, codes.InvalidArgument, false},
	{authz.ErrTupleExists, "tuple_exists", http.StatusConflict, codes.AlreadyExists, false},
	{authz.ErrTupleMissing, "tuple_missing", http.StatusConflict, codes.FailedPrecondition, false},
	{authz.ErrPrecondition, "precondition", http.StatusPreconditionFailed, codes.FailedPrecondition, false},
	{authz.ErrConflict, "conflict", http.StatusConflict, codes.Aborted, false},
	{authz.ErrUncertain, "uncertain", http.StatusInternalServerError, codes.Internal, true},
	{authz.ErrNoHolder, "no_holder", http.StatusServiceUnavailable, codes.Unavailable, true},
	{authz.ErrNoLease, "no_lease", http.StatusServiceUnavailable, codes.Unavailable, true},
	{authz.ErrHistory, "history", http.StatusServiceUnavailable, codes.Unavailable, true},
	{authz.ErrNoType, "no_type", http.StatusBadRequest, codes.InvalidArgument, false},
	{authz.ErrNoRelation, "no_relation", http.StatusBadRequest, codes.InvalidArgument, false},
	{authz.ErrNoDocument, "no_document", http.StatusNotFound, codes.NotFound, false},
	{authz.ErrNoSecretKey, "no_secret_key", http.StatusInternalServerError, codes.Internal, true},
	{authz.ErrToken, "token", http.StatusBadRequest, codes.InvalidArgument, false},
	{authz.ErrCursor, "cursor", http.StatusBadRequest, codes.InvalidArgument, false},
	{authz.ErrTooOld, "too_old", http.StatusGone, codes.InvalidArgument, false},
	{authz.ErrFuture, "future", http.StatusConflict, codes.Unavailable, false},
	{authz.ErrBound, "bound", http.StatusBadRequest, codes.InvalidArgument, false},
	{authz.ErrMemory, "memory", http.StatusInsufficientStorage, codes.ResourceExhausted, false},
	{authz.ErrDisk, "disk_full", http.StatusInsufficientStorage, codes.ResourceExhausted, false},
	{authz.ErrLoading, "loading", http.StatusServiceUnavailable, codes.Unavailable, false},
	{authz.ErrImporting, "importing", http.StatusServiceUnavailable, codes.Unavailable, false},
	{authz.ErrBusy, "busy", http.StatusServiceUnavailable, codes.Unavailable, false},
	{authz.ErrPending, "busy", http.StatusServiceUnavailable, codes.Unavailable, false},
	{authz.ErrTransaction, "internal", http.StatusInternalServerError, codes.Internal, true},
	{authz.ErrWatchBehind, "behind", http.StatusGone, codes.DataLoss, false},
	{authz.ErrDamaged, "damaged", http.StatusInternalServerError, codes.Internal, true},
	{authz.ErrFormat, "format", http.StatusInternalServerError, codes.Internal, true},
	{authz.ErrLocked, "locked", http.StatusServiceUnavailable, codes.Unavailable, true},
	{authz.ErrCanceled, "canceled", http.StatusServiceUnavailable, codes.Canceled, false},
	{authz.ErrStorage, "storage", http.StatusInternalServerError, codes.Internal, true},
	{authz.ErrClosed, "closed", http.StatusServiceUnavailable, codes.Unavailable, true},
	{context.DeadlineExceeded, "timed_out", http.StatusGatewayTimeout, codes.DeadlineExceeded, false},
	{context.Canceled, "canceled", http.StatusServiceUnavailable, codes.Canceled, false},
	{jsonread.ErrSyntax, "malformed", http.StatusBadRequest, codes.InvalidArgument, false},
}

// internal is what a door answers to an error that is none of the table.
var internal = Failure{Kind: "internal", Status: http.StatusInternalServerError, Code: codes.Internal, Text: "the server failed"}

// KindOf returns the kind of an error of the engine: one of the Err variables of package
// ostiary. It returns any other error as it is.
func KindOf(err error) error {
	if e, ok := errors.AsType[*authz.Error](err); ok {
		return e.Kind
	}
	return err
}

// RefusalOf returns the server's refusal that err is, or that ended its request. An error
// of the engine other than ErrCanceled keeps its kind even if the cause is a refusal: a
// store that was still loading at the deadline is loading.
func RefusalOf(err error) (*Refusal, bool) {
	why, ok := errors.AsType[*Refusal](err)
	if e, engine := errors.AsType[*authz.Error](err); ok && engine && !errors.Is(e.Kind, authz.ErrCanceled) {
		return nil, false
	}
	return why, ok
}

// Describe returns what a door answers to an error: to a [Refusal], to an error of the
// engine, or to one of package jsonread. Every other error is an internal one, whose text
// is not sent.
func Describe(err error) Failure {
	if why, ok := RefusalOf(err); ok {
		f := Failure{Kind: "refused", Status: why.Status(), Code: why.Code(), Text: why.Error(), refused: true}
		switch {
		case why.Bound != "":
			f.Kind, f.Bound = "bound", &authz.BoundError{Name: why.Bound, Max: why.Limit, Got: why.Got}
		case f.Status == http.StatusBadRequest:
			f.Kind = "invalid_request"
		}
		return f
	}
	kind := KindOf(err)
	if errors.Is(kind, authz.ErrCanceled) && errors.Is(err, context.DeadlineExceeded) {
		kind = context.DeadlineExceeded
	}
	for i := range failures {
		r := &failures[i]
		if !errors.Is(kind, r.err) {
			continue
		}
		f := Failure{Kind: r.kind, Status: r.status, Code: r.code, Text: r.err.Error()}
		if !r.hidden {
			f.Text = authz.Reason(err)
		}
		f.Bound, _ = errors.AsType[*authz.BoundError](err)
		return f
	}
	return internal
}

// OfOwnStore returns f for a door whose requests name neither a store nor what is in it,
// as an identity service. What its store lacks is then no mistake of the client: 4xx
// becomes 500, but for a request that is too large or malformed, or whose caller lacks a
// right. A conflict
// with another process becomes 503, because the request can be repeated.
func (f Failure) OfOwnStore() Failure {
	switch {
	case f.Kind == "conflict":
		f.Status, f.Code = http.StatusServiceUnavailable, codes.Unavailable
	case f.Status < http.StatusInternalServerError && !f.refused && f.Kind != "malformed" && f.Kind != "bound" && f.Kind != "forbidden":
		return internal
	}
	return f
}

// ErrorOf returns the engine's error of a kind of [Failure], for clients of a door, or
// nil if no error has the kind.
func ErrorOf(kind string) error {
	for i := range failures {
		if failures[i].kind == kind {
			return failures[i].err
		}
	}
	return nil
}
