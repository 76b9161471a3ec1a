// Package errs makes the errors that the engine returns: it maps the errors of the
// packages below to the kinds of an [authz.Error]. It also gives [authz.Bounds] their
// defaults, cuts a request to them, and makes the error of one that is exceeded. It never
// logs and never decides whether a call is retried.
package errs

import (
	"context"
	"errors"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/internal/engine/eval"
	"github.com/ostiary/ostiary/internal/engine/graph"
	"github.com/ostiary/ostiary/schema"
	"github.com/ostiary/ostiary/storage"
)

// CheckBound returns a [authz.BoundError] if got exceeds limit, otherwise nil.
func CheckBound(name string, got, limit int) error {
	if got <= limit {
		return nil
	}
	return &authz.BoundError{Name: name, Max: int64(limit), Got: int64(got)}
}

// kinds maps an error of a lower package to a kind. The first match counts.
var kinds = [...]struct{ below, kind error }{
	{authz.ErrForbidden, authz.ErrForbidden}, {authz.ErrBound, authz.ErrBound},
	{authz.ErrTupleExists, authz.ErrTupleExists}, {authz.ErrTupleMissing, authz.ErrTupleMissing}, {authz.ErrInvalidTuple, authz.ErrInvalidTuple},
	{authz.ErrPrecondition, authz.ErrPrecondition}, {authz.ErrInvalidRequest, authz.ErrInvalidRequest}, {authz.ErrConflict, authz.ErrConflict},
	{authz.ErrNoSchema, authz.ErrNoSchema}, {authz.ErrToken, authz.ErrToken}, {authz.ErrCursor, authz.ErrCursor}, {authz.ErrTooOld, authz.ErrTooOld},
	{authz.ErrFuture, authz.ErrFuture}, {authz.ErrMemory, authz.ErrMemory}, {authz.ErrDisk, authz.ErrDisk}, {authz.ErrLoading, authz.ErrLoading}, {authz.ErrImporting, authz.ErrImporting}, {authz.ErrBusy, authz.ErrBusy},
	{authz.ErrPending, authz.ErrPending}, {authz.ErrWatchBehind, authz.ErrWatchBehind}, {authz.ErrUncertain, authz.ErrUncertain}, {storage.ErrUncertain, authz.ErrUncertain},
	{authz.ErrNoHolder, authz.ErrNoHolder}, {storage.ErrNotHolder, authz.ErrNoHolder},
	{authz.ErrNoLease, authz.ErrNoLease}, {storage.ErrNoLease, authz.ErrNoLease},
	{authz.ErrHistory, authz.ErrHistory}, {storage.ErrHistory, authz.ErrHistory}, {storage.ErrSecretReplaced, authz.ErrLoading},
	{authz.ErrNoSecretKey, authz.ErrNoSecretKey}, {authz.ErrClosed, authz.ErrClosed}, {authz.ErrNoStore, authz.ErrNoStore},
	{context.Canceled, authz.ErrCanceled}, {context.DeadlineExceeded, authz.ErrCanceled},
	{authz.ErrInvalidName, authz.ErrInvalidName}, {schema.ErrModel, authz.ErrInvalidSchema},
	{eval.ErrNoType, authz.ErrNoType}, {eval.ErrNoRelation, authz.ErrNoRelation}, {eval.ErrTuple, authz.ErrInvalidTuple},
	{graph.ErrFull, authz.ErrMemory}, {graph.ErrContext, authz.ErrInvalidTuple},
	{storage.ErrNoStore, authz.ErrNoStore}, {storage.ErrExists, authz.ErrStoreExists}, {storage.ErrNoDocument, authz.ErrNoDocument},
	{storage.ErrTrimmed, authz.ErrTooOld}, {storage.ErrFormat, authz.ErrFormat}, {storage.ErrDamaged, authz.ErrDamaged},
	{storage.ErrLocked, authz.ErrLocked}, {storage.ErrTransaction, authz.ErrTransaction}, {storage.ErrClosed, authz.ErrClosed},
}

// Wrap returns err as an [authz.Error] of the call op on the store. An err that
// already is an Error keeps its kind and cause. A nil err stays nil.
func Wrap(op string, id storage.StoreID, err error) error {
	if err == nil {
		return nil
	}
	var done *authz.Error
	if errors.As(err, &done) {
		if done.Op == op {
			return err
		}
		return &authz.Error{Op: op, Kind: done.Kind, Store: id, Err: done.Err}
	}
	e := &authz.Error{Op: op, Kind: authz.ErrStorage, Store: id, Err: err}
	var tooLarge *authz.BoundError
	if errors.Is(err, storage.ErrTooLarge) && !errors.As(err, &tooLarge) {
		e.Kind = authz.ErrBound
		return e
	}
	for _, k := range kinds {
		if errors.Is(err, k.below) {
			e.Kind = k.kind
			break
		}
	}
	if err == e.Kind {
		e.Err = nil
	}
	return e
}
