package authz

import (
	"errors"
	"fmt"
	"strings"

	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/storage"
)

// Error is the type of every error that the engine returns. Callers test the
// kind with errors.Is; they never compare texts.
type Error struct {
	// Op names the call that failed, for example "check" or "write".
	Op string
	// Kind is one of the Err variables of this package.
	Kind error
	// Store is the store of the call. It is the zero id where the call concerns
	// no single store.
	Store storage.StoreID
	// Err is the cause. It is nil if the kind is the whole message.
	Err error
}

// Error returns the call, the store, the kind and the cause in one line.
func (e *Error) Error() string {
	s := "ostiary: " + e.Op
	if e.Store != (storage.StoreID{}) {
		s += " in store " + e.Store.String()
	}
	if e.Err == nil {
		return s + ": " + e.Kind.Error()
	}
	// The text of the cause may already begin with the kind.
	if cause := e.Err.Error(); errors.Is(e.Err, e.Kind) || strings.HasPrefix(cause, e.Kind.Error()) {
		return s + ": " + cause
	}
	return s + ": " + e.Kind.Error() + ": " + e.Err.Error()
}

// Reason returns the text of the cause, or of the kind where there is no cause:
// the error without the operation and the store, which a caller knows.
func (e *Error) Reason() string {
	if e.Err != nil {
		return e.Err.Error()
	}
	return e.Kind.Error()
}

// Reason returns the text of err without the operation and the store, if err is
// or wraps an [Error]. Otherwise it returns the whole text; "" for nil.
func Reason(err error) string {
	if err == nil {
		return ""
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Reason()
	}
	return err.Error()
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
	// ErrNoStore means that no store has the id or alias. A handle of a deleted
	// store returns it as well.
	ErrNoStore = errors.New("no such store")
	// ErrStoreExists means that another store has the id or one of the aliases.
	ErrStoreExists = errors.New("store or alias already exists")
	// ErrForbidden means that the caller lacks a right on the store; see [Access].
	ErrForbidden = errors.New("the caller may not do this")
	// ErrNoSchema means that the store has no schema, or none with the id or in
	// the namespace.
	ErrNoSchema = errors.New("no such schema")
	// ErrInvalidSchema means that the model is wrong; schema.Error has the details.
	ErrInvalidSchema = errors.New("invalid schema")
	// ErrInvalidName means that a type, id, relation or other name is malformed or
	// too long. It is [rel.ErrName], so errors of ParseTuple are this error too.
	ErrInvalidName = rel.ErrName
	// ErrInvalidTuple means that the schema does not admit the tuple or attribute.
	ErrInvalidTuple = errors.New("not admitted by the schema")
	// ErrInvalidRequest means that the request is malformed or contradicts itself.
	ErrInvalidRequest = errors.New("invalid request")
	// ErrTupleExists means that a write adds a key that exists, under OnDuplicate
	// Fail. The cause is a [TupleError].
	ErrTupleExists = errors.New("tuple already exists")
	// ErrTupleMissing means that a write removes a key that does not exist, under
	// OnMissing Fail. The cause is a [TupleError].
	ErrTupleMissing = errors.New("no such tuple")
	// ErrPrecondition means that a precondition of a write does not hold.
	ErrPrecondition = errors.New("precondition does not hold")
	// ErrConflict means that other processes wrote to the store before each of many
	// attempts. The write had no effect and can be repeated.
	ErrConflict = errors.New("conflict with writes of other processes")
	// ErrUncertain means that the driver failed during an append, and that the log
	// could not be read afterwards. The write is applied as a whole or not at all;
	// a later read shows which.
	ErrUncertain = errors.New("outcome of the write is unknown")
	// ErrNoHolder means that another node of the cluster writes, or none at the moment. The
	// write had no effect and can be repeated.
	ErrNoHolder = errors.New("no node takes this write at the moment")
	// ErrNoLease means that this node of a cluster may lack acknowledged writes, because it
	// has no read lease and reaches neither the node that writes nor the log. A
	// request with [MinimizeLatency] is answered nevertheless.
	ErrNoLease = errors.New("it is not certain that this node has every acknowledged write")
	// ErrNoType means that the schema lacks a type that the request names.
	ErrNoType = errors.New("type not in the schema")
	// ErrNoRelation means that the type lacks a relation that the request names.
	ErrNoRelation = errors.New("relation not in the schema")
	// ErrNoDocument means that no document or secret has the kind and key.
	ErrNoDocument = errors.New("no such document")
	// ErrNoSecretKey means that Options.SecretKey is not set, or is not the key
	// that encrypted the secret.
	ErrNoSecretKey = errors.New("missing or wrong key for secrets")
	// ErrToken means that a token is malformed or does not belong to this store and
	// its history.
	ErrToken = errors.New("invalid token")
	// ErrCursor means that a cursor is malformed or belongs to another request or
	// store.
	ErrCursor = errors.New("invalid cursor")
	// ErrTooOld means that the revision is below the window, or that its log
	// entries were trimmed.
	ErrTooOld = errors.New("revision is no longer kept")
	// ErrFuture means that the revision did not arrive here within the waiting time.
	ErrFuture = errors.New("revision is not available yet")
	// ErrBound means that the request exceeds a bound; [BoundError] names it.
	ErrBound = errors.New("bound exceeded")
	// ErrMemory means that the write would exceed Options.MemoryMax.
	ErrMemory = errors.New("memory budget exceeded")
	// ErrDisk means that the disk has less free space than its reserve, so that the write,
	// which was not made, could have failed.
	ErrDisk = errors.New("disk reserve reached")
	// ErrLoading means that the store was still loading when the caller's context
	// ended or Bounds.LoadWait had passed. The load continues, so the call can be
	// repeated.
	ErrLoading = errors.New("store is loading")
	// ErrImporting means that an import into the store has not ended, so that the
	// store could give wrong answers. Continue the import, or delete the store.
	ErrImporting = errors.New("the import into the store is not complete: continue it, or delete the store")
	// ErrBusy means that a prepared write holds the store's write lock.
	ErrBusy = errors.New("store is locked by a prepared write")
	// ErrPending means that a prepared write is already finished or has expired.
	ErrPending = errors.New("prepared write is already finished")
	// ErrTransaction means that the driver cannot join the transaction.
	ErrTransaction = errors.New("driver cannot join the transaction")
	// ErrWatchBehind means that a watcher was too slow; WatchError has the token to
	// resume from.
	ErrWatchBehind = errors.New("watcher fell behind")
	// ErrDamaged means that stored data is damaged.
	ErrDamaged = errors.New("data is damaged")
	// ErrHistory means that the log does not continue what was served: it went back, or
	// an entry has another hash. A backup was restored while the engine ran, or
	// acknowledged writes were lost. The store is not served until the engine is opened
	// again.
	ErrHistory = errors.New("store has another history")
	// ErrFormat means that stored data has a newer or unknown format.
	ErrFormat = errors.New("unknown data format")
	// ErrLocked means that the data is open already, in another process or in this one.
	ErrLocked = errors.New("data is in use")
	// ErrCanceled means that the caller's context ended. errors.Is also matches the
	// context's own error.
	ErrCanceled = errors.New("request canceled")
	// ErrStorage means that the driver failed in a way that has no kind here.
	ErrStorage = errors.New("storage failed")
	// ErrClosed means that the engine is closed.
	ErrClosed = errors.New("engine is closed")
)

// BoundError is an [ErrBound] that names the bound.
type BoundError struct {
	// Name is the bound: a field of Bounds, or a constant of the package that
	// checks it.
	Name string
	// Max is the bound.
	Max int64
	// Got is the value of the request.
	Got int64
}

// Error returns the name, the bound and the value.
func (e *BoundError) Error() string {
	return fmt.Sprintf("bound %s exceeded: got %d, expected at most %d", e.Name, e.Got, e.Max)
}

// Is reports whether target is [ErrBound].
func (e *BoundError) Is(target error) bool { return target == ErrBound }

// TupleError is an [ErrTupleExists] or [ErrTupleMissing] that names the tuple.
type TupleError struct {
	// Kind is ErrTupleExists or ErrTupleMissing.
	Kind error
	// Key is the key of the tuple.
	Key rel.Key
}

// Error returns the kind and the key.
func (e *TupleError) Error() string { return e.Kind.Error() + ": " + e.Key.String() }

// Unwrap returns the kind.
func (e *TupleError) Unwrap() error { return e.Kind }

// ImportError is the error of one tuple of an import.
type ImportError struct {
	// Tuple is the number of the tuple in the import, from 1.
	Tuple int
	// Err is the cause.
	Err error
}

// Error returns the number and the cause.
func (e *ImportError) Error() string { return fmt.Sprintf("tuple %d: %v", e.Tuple, e.Err) }

// Unwrap returns the cause.
func (e *ImportError) Unwrap() error { return e.Err }
