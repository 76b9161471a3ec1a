package ostiary

import (
	"github.com/ostiary/ostiary/authz"
)

// Types of errors.
type (
	// Error is the type of every error of this package: Op is the call, Kind is one
	// of the Err variables, Store is the store, and Err is the cause. Callers test
	// the kind with errors.Is; they never compare texts.
	Error = authz.Error
	// BoundError is an [ErrBound] that names the bound.
	BoundError = authz.BoundError
	// TupleError is an [ErrTupleExists] or [ErrTupleMissing] that names the tuple.
	TupleError = authz.TupleError
	// ImportError is the error of one tuple of an import. It has the number of the
	// tuple.
	ImportError = authz.ImportError
)

// The kinds of errors.
var (
	// ErrNoStore means that no store has the id or alias. A handle of a deleted
	// store returns it as well.
	ErrNoStore = authz.ErrNoStore
	// ErrStoreExists means that another store has the id or one of the aliases.
	ErrStoreExists = authz.ErrStoreExists
	// ErrForbidden means that the caller lacks a right on the store; see [Access].
	ErrForbidden = authz.ErrForbidden
	// ErrNoSchema means that the store has no schema, or none with the id or in
	// the namespace.
	ErrNoSchema = authz.ErrNoSchema
	// ErrInvalidSchema means that the model is wrong; schema.Error has the details.
	ErrInvalidSchema = authz.ErrInvalidSchema
	// ErrInvalidName means that a type, id, relation or other name is malformed or
	// too long.
	ErrInvalidName = authz.ErrInvalidName
	// ErrInvalidTuple means that the schema does not admit the tuple or attribute.
	ErrInvalidTuple = authz.ErrInvalidTuple
	// ErrInvalidRequest means that the request is malformed or contradicts itself.
	ErrInvalidRequest = authz.ErrInvalidRequest
	// ErrTupleExists means that a write adds a key that exists, under OnDuplicate
	// Fail. The cause is a [TupleError].
	ErrTupleExists = authz.ErrTupleExists
	// ErrTupleMissing means that a write removes a key that does not exist, under
	// OnMissing Fail. The cause is a [TupleError].
	ErrTupleMissing = authz.ErrTupleMissing
	// ErrPrecondition means that a precondition of a write does not hold.
	ErrPrecondition = authz.ErrPrecondition
	// ErrConflict means that other processes wrote to the store before each of many
	// attempts. The write had no effect and can be repeated.
	ErrConflict = authz.ErrConflict
	// ErrUncertain means that the driver failed during an append, and that the log
	// could not be read afterwards. The write is applied as a whole or not at all;
	// a later read shows which.
	ErrUncertain = authz.ErrUncertain
	// ErrNoHolder means that another node of the cluster writes, or none at the moment. The
	// write had no effect and can be repeated.
	ErrNoHolder = authz.ErrNoHolder
	// ErrNoLease means that this node of a cluster may lack acknowledged writes, because it
	// has no read lease and reaches neither the node that writes nor the log. A
	// request with [MinimizeLatency] is answered nevertheless.
	ErrNoLease = authz.ErrNoLease
	// ErrNoType means that the schema lacks a type that the request names.
	ErrNoType = authz.ErrNoType
	// ErrNoRelation means that the type lacks a relation that the request names.
	ErrNoRelation = authz.ErrNoRelation
	// ErrNoDocument means that no document or secret has the kind and key.
	ErrNoDocument = authz.ErrNoDocument
	// ErrNoSecretKey means that [Options].SecretKey is not set, or is not the key
	// that encrypted the secret.
	ErrNoSecretKey = authz.ErrNoSecretKey
	// ErrToken means that a token is malformed or does not belong to this store and
	// its history.
	ErrToken = authz.ErrToken
	// ErrCursor means that a cursor is malformed or belongs to another request or
	// store.
	ErrCursor = authz.ErrCursor
	// ErrTooOld means that the revision is below the window, or that its log
	// entries were trimmed.
	ErrTooOld = authz.ErrTooOld
	// ErrFuture means that the revision did not arrive here within the waiting time.
	ErrFuture = authz.ErrFuture
	// ErrBound means that the request exceeds a bound; [BoundError] names it.
	ErrBound = authz.ErrBound
	// ErrMemory means that the write would exceed [Options].MemoryMax.
	ErrMemory = authz.ErrMemory
	// ErrLoading means that the caller's context ended while the store was loading.
	// The load goes on, so the call can be repeated.
	ErrLoading = authz.ErrLoading
	// ErrImporting means that an import into the store has not ended, so that the
	// store could give wrong answers. Continue the import, or delete the store.
	ErrImporting = authz.ErrImporting
	// ErrBusy means that a prepared write holds the store's write lock.
	ErrBusy = authz.ErrBusy
	// ErrPending means that a prepared write is already finished or has expired.
	ErrPending = authz.ErrPending
	// ErrTransaction means that the driver cannot join the transaction.
	ErrTransaction = authz.ErrTransaction
	// ErrWatchBehind means that a watcher was too slow; [WatchError] has the token to
	// resume from.
	ErrWatchBehind = authz.ErrWatchBehind
	// ErrDamaged means that stored data is damaged.
	ErrDamaged = authz.ErrDamaged
	// ErrHistory means that the log does not continue what was served: it went back, or
	// an entry has another hash. A backup was restored while the engine ran, or
	// acknowledged writes were lost. The store is not served until the engine is opened
	// again.
	ErrHistory = authz.ErrHistory
	// ErrFormat means that stored data has a newer or unknown format.
	ErrFormat = authz.ErrFormat
	// ErrLocked means that the data is open already, in another process or in this one.
	ErrLocked = authz.ErrLocked
	// ErrCanceled means that the caller's context ended. errors.Is also matches the
	// context's own error.
	ErrCanceled = authz.ErrCanceled
	// ErrStorage means that the driver failed in a way that has no kind here.
	ErrStorage = authz.ErrStorage
	// ErrClosed means that the engine is closed.
	ErrClosed = authz.ErrClosed
)

// Reason returns the text of an error without the operation and the store, which
// the caller knows, if err is or wraps an [Error]. Otherwise it returns the whole
// text; "" for nil.
func Reason(err error) string { return authz.Reason(err) }
