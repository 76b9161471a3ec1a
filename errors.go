package ostiary

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/ostiary/ostiary/eval"
	"github.com/ostiary/ostiary/graph"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/schema"
	"github.com/ostiary/ostiary/storage"
)

// Error is every error that this package returns: where it happened, what kind
// it is (one of the Err sentinels, for errors.Is), of which store, and what was
// below it. Callers branch on the kind, never on the text.
type Error struct {
	// Op is the call: "check", "write", …
	Op string
	// Kind is the sentinel.
	Kind error
	// Store is the zero id where no store was meant.
	Store storage.StoreID
	// Err is the cause; it may be nil.
	Err error
}

func (e *Error) Error() string {
	s := "ostiary: " + e.Op
	if e.Store != (storage.StoreID{}) {
		s += " in store " + e.Store.String()
	}
	if e.Err == nil {
		return s + ": " + e.Kind.Error()
	}
	// A room below may have said the kind already, in a kind of its own.
	if cause := e.Err.Error(); errors.Is(e.Err, e.Kind) || strings.HasPrefix(cause, e.Kind.Error()) {
		return s + ": " + cause
	}
	return s + ": " + e.Kind.Error() + ": " + e.Err.Error()
}

// Unwrap returns the kind and the cause.
func (e *Error) Unwrap() []error {
	if e.Err == nil {
		return []error{e.Kind}
	}
	return []error{e.Kind, e.Err}
}

// The kinds of errors.
var (
	// ErrNoStore: there is no store of that id or alias; also one that was
	// deleted while its handle was held.
	ErrNoStore = errors.New("no such store")
	// ErrStoreExists: the id or an alias is taken.
	ErrStoreExists = errors.New("store or alias exists already")
	// ErrNoSchema: the store has no schema, or none of that id or namespace.
	ErrNoSchema = errors.New("no such schema")
	// ErrInvalidSchema: the model is wrong; schema.Error tells what.
	ErrInvalidSchema = errors.New("invalid schema")
	// ErrInvalidName: a type, id, relation or other name is malformed or longer
	// than its bound.
	ErrInvalidName = errors.New("invalid name")
	// ErrInvalidTuple: the schema does not admit the tuple or attribute.
	ErrInvalidTuple = errors.New("not admitted by the schema")
	// ErrInvalidRequest: the request contradicts itself.
	ErrInvalidRequest = errors.New("invalid request")
	// ErrTupleExists: an Add of a key that is live, under OnDuplicate Fail.
	ErrTupleExists = errors.New("tuple exists already")
	// ErrTupleMissing: a Remove of a key that is not live, under OnMissing Fail.
	ErrTupleMissing = errors.New("no such tuple")
	// ErrPrecondition: a precondition of a write does not hold.
	ErrPrecondition = errors.New("precondition does not hold")
	// ErrConflict: other writers on the same database won again and again.
	ErrConflict = errors.New("other writers won")
	// ErrUncertain: the driver's answer was lost, and so was the way to find out.
	// The write is applied whole or not at all; a read will tell.
	ErrUncertain = errors.New("the outcome of the write is not known")
	// ErrNoType and ErrNoRelation: the question names what the schema lacks.
	ErrNoType     = errors.New("type not in the schema")
	ErrNoRelation = errors.New("relation not in the schema")
	// ErrNoDocument: no document or secret of that kind and key.
	ErrNoDocument = errors.New("no such document")
	// ErrNoSecretKey: secrets need Options.SecretKey, the one they were put with.
	ErrNoSecretKey = errors.New("no key for secrets, or another one")
	// ErrToken: a token that is malformed, of another store, of another
	// incarnation, or of a history that this store no longer has.
	ErrToken = errors.New("token is not one of this store")
	// ErrCursor: a cursor that is malformed or of another question or store.
	ErrCursor = errors.New("cursor is not one of this question")
	// ErrTooOld: the revision is below the window, or its entries were trimmed.
	ErrTooOld = errors.New("revision is no longer kept")
	// ErrFuture: the revision has not been seen here within the time given.
	ErrFuture = errors.New("revision has not arrived yet")
	// ErrBound: a bound was passed; *BoundError names it.
	ErrBound = errors.New("bound passed")
	// ErrMemory: the write would pass Options.MemoryMax.
	ErrMemory = errors.New("memory budget reached")
	// ErrLoading: the store is being loaded; ask again.
	ErrLoading = errors.New("store is loading")
	// ErrBusy: a prepared write holds the store's turn.
	ErrBusy = errors.New("store is held by a prepared write")
	// ErrPending: the prepared write is finished, or its time is up.
	ErrPending = errors.New("prepared write is over")
	// ErrTransaction: the driver cannot join that transaction.
	ErrTransaction = errors.New("transaction is not one of this driver's")
	// ErrWatchBehind: a watcher was too slow; *WatchError tells where to resume.
	ErrWatchBehind = errors.New("watcher fell behind")
	// ErrDamaged: stored data is damaged.
	ErrDamaged = errors.New("data is damaged")
	// ErrFormat: the data is of a newer or unknown format.
	ErrFormat = errors.New("unknown format")
	// ErrLocked: another process uses the data.
	ErrLocked = errors.New("data is in use by another process")
	// ErrCanceled: the caller's context ended; so do errors.Is with the
	// context's own errors.
	ErrCanceled = errors.New("the caller gave up")
	// ErrStorage: any other failure of the driver.
	ErrStorage = errors.New("storage failed")
	// ErrClosed: the engine was closed.
	ErrClosed = errors.New("engine is closed")
)

// BoundError is an ErrBound that says which.
type BoundError struct {
	// Name is the bound's: a field of Bounds, or of the room that has it.
	Name string
	// Max is the bound, Got what was asked for.
	Max, Got int64
}

func (e *BoundError) Error() string {
	return fmt.Sprintf("bound %s is %d, here are %d", e.Name, e.Max, e.Got)
}

// Is makes a BoundError an ErrBound.
func (e *BoundError) Is(target error) bool { return target == ErrBound }

// TupleError is an ErrTupleExists or ErrTupleMissing that says of which tuple.
type TupleError struct {
	Kind error
	Key  rel.Key
}

func (e *TupleError) Error() string { return e.Kind.Error() + ": " + e.Key.String() }

// Unwrap returns the kind.
func (e *TupleError) Unwrap() error { return e.Kind }

// over returns a BoundError where got is above most.
func over(name string, got, most int) error {
	if got <= most {
		return nil
	}
	return &BoundError{name, int64(most), int64(got)}
}

// kinds maps what the rooms below return to this package's kinds, the first
// match counting.
var kinds = [...]struct{ below, kind error }{
	{ErrBound, ErrBound},
	{ErrTupleExists, ErrTupleExists}, {ErrTupleMissing, ErrTupleMissing}, {ErrInvalidTuple, ErrInvalidTuple},
	{ErrPrecondition, ErrPrecondition}, {ErrInvalidRequest, ErrInvalidRequest}, {ErrConflict, ErrConflict},
	{ErrNoSchema, ErrNoSchema}, {ErrToken, ErrToken}, {ErrCursor, ErrCursor}, {ErrTooOld, ErrTooOld},
	{ErrFuture, ErrFuture}, {ErrMemory, ErrMemory}, {ErrLoading, ErrLoading}, {ErrBusy, ErrBusy},
	{ErrPending, ErrPending}, {ErrWatchBehind, ErrWatchBehind}, {ErrUncertain, ErrUncertain},
	{ErrNoSecretKey, ErrNoSecretKey}, {ErrClosed, ErrClosed}, {ErrNoStore, ErrNoStore},
	{context.Canceled, ErrCanceled}, {context.DeadlineExceeded, ErrCanceled},
	{schema.ErrModel, ErrInvalidSchema},
	{rel.ErrName, ErrInvalidName},
	{eval.ErrNoType, ErrNoType}, {eval.ErrNoRelation, ErrNoRelation}, {eval.ErrTuple, ErrInvalidTuple},
	{eval.ErrCursor, ErrCursor},
	{graph.ErrFull, ErrMemory}, {graph.ErrContext, ErrInvalidTuple},
	{storage.ErrNoStore, ErrNoStore}, {storage.ErrExists, ErrStoreExists}, {storage.ErrNoDocument, ErrNoDocument},
	{storage.ErrTrimmed, ErrTooOld}, {storage.ErrFormat, ErrFormat}, {storage.ErrDamaged, ErrDamaged},
	{storage.ErrLocked, ErrLocked}, {storage.ErrTransaction, ErrTransaction}, {storage.ErrClosed, ErrClosed},
}

// failed wraps err once for the call; nil stays nil.
func failed(op string, id storage.StoreID, err error) error {
	if err == nil {
		return nil
	}
	var done *Error
	if errors.As(err, &done) {
		if done.Op == op {
			return err
		}
		return &Error{op, done.Kind, id, done.Err}
	}
	e := &Error{op, ErrStorage, id, err}
	var tooLarge *BoundError
	if errors.Is(err, storage.ErrTooLarge) && !errors.As(err, &tooLarge) {
		e.Kind = ErrBound
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
