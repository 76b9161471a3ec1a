// Package storage is the contract between the engine and what keeps its data:
// an ordered log of entries per store, and the state that follows from it,
// in one transaction. Its main type is Driver. Nothing here knows a rule of
// authorization. The contract's page is docs/format.md.
package storage

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"iter"

	"github.com/ostiary/ostiary/rel"
)

// Revision numbers a store's entries, gapless from 1; 0 is the empty store.
type Revision uint64

// Hash is SHA-256 over an entry's canonical bytes. The zero Hash precedes the
// first entry.
type Hash [32]byte

// Incarnation is random and new at each creation of a store, so that tokens of
// a store that was deleted and created again under the same alias fail.
type Incarnation [16]byte

// WriterID is random and new for each process that writes.
type WriterID [16]byte

// StoreInfo is what is known of a store without loading it.
type StoreInfo struct {
	ID          StoreID
	Incarnation Incarnation
	// Name is for people; it need not be unique.
	Name string
	// Aliases maps a door's name to the id by which that door knows the store;
	// (door, id) is unique in a driver.
	Aliases map[string]string
	Created rel.Time
}

// Head is the newest entry of a store's log; the zero Head is the empty log.
type Head struct {
	Revision Revision
	Hash     Hash
	Time     rel.Time
}

// ChangeKind says what a Change does. The numbers are on disk: none is ever
// reused, and an unknown one stops replay with ErrFormat.
type ChangeKind uint8

const (
	TupleAdd ChangeKind = iota + 1
	TupleRemove
	AttributeSet
	AttributeRemove
	DocumentPut
	DocumentRemove
	SecretPut
	SecretRemove
	RemoveByFilter
)

// Change is one step of an entry. Kind says which other fields are set:
// Tuple for TupleAdd, and for TupleRemove (its Key alone); Attribute for
// AttributeSet, and for AttributeRemove (Object and Name alone); Document for
// the Document and Secret kinds (Kind and Key alone for the removals);
// Filter for RemoveByFilter.
//
// TupleAdd of a live key replaces that row. TupleRemove of an absent key does
// nothing. It is the engine that refuses either where a caller should know.
type Change struct {
	Kind ChangeKind
	// Fresh is a hint on a TupleAdd: the caller knows, from its view at the head
	// it appends after and from this call's earlier changes, that the key is not
	// live, so the driver need not look for a row to replace. The compare-and-swap
	// makes the knowledge exact; a wrong hint loses the replaced row from the
	// past. It is not part of the entry: it is neither hashed nor kept.
	Fresh     bool
	Tuple     rel.Tuple
	Attribute rel.Attribute
	Document  Document
	Filter    Filter
}

// Document is a record with a kind and a key that is unique in its kind:
// schemas, later policies, users, projects. As a secret, Body is ciphertext:
// drivers never see a key or a plain text.
type Document struct {
	Kind string
	Key  string
	// Secondary are further keys under which DocumentsBy finds the document.
	Secondary []string
	Body      []byte
	// Digest is the SHA-256 of Body in a SecretPut that was read from the log,
	// whose Body is nil: a secret's ciphertext is hashed by the chain but never
	// kept in history. On other changes, and where Body is set, it is ignored.
	Digest Hash
}

// FilterTarget says what a Filter removes.
type FilterTarget uint8

const (
	FilterTuples FilterTarget = iota + 1
	FilterAttributes
	FilterDocuments
)

// Filter selects state rows, applied by the driver in the same transaction as
// the entry, however many rows it takes.
type Filter struct {
	Target FilterTarget
	// Tuple selects tuples.
	Tuple rel.Filter
	// ObjectType, ObjectID and Name select attributes; "" is any.
	ObjectType, ObjectID, Name string
	// DocumentKind (required) and DocumentKeyPrefix select documents, never
	// secrets.
	DocumentKind, DocumentKeyPrefix string
}

// Entry is one accepted write.
type Entry struct {
	Incarnation Incarnation
	Revision    Revision
	Previous    Hash
	Writer      WriterID
	// Sequence counts this writer's entries from 1.
	Sequence uint64
	// Time never decreases along a log.
	Time    rel.Time
	Changes []Change
}

// Bounds of the format.
const (
	// EntryBytesMax bounds an entry's canonical bytes: 16 MiB.
	EntryBytesMax = 16 << 20
	// ChangesMax bounds the changes of an entry.
	ChangesMax = 100_000
	// FiltersMax bounds the RemoveByFilter changes of an entry, each of which may
	// read the whole state.
	FiltersMax = 100
)

// TupleRow is a tuple of the state with the revisions between which it lives:
// at R if Created <= R and (Removed == 0 or R < Removed).
type TupleRow struct {
	Tuple            rel.Tuple
	Created, Removed Revision
	// CreatedAt is the commit time of Created.
	CreatedAt rel.Time
}

// AttributeRow is an attribute of the state, likewise.
type AttributeRow struct {
	Attribute        rel.Attribute
	Created, Removed Revision
}

// DocumentRow is a document of the state without its body, likewise. Secrets
// have no rows.
type DocumentRow struct {
	Kind, Key        string
	Secondary        []string
	Created, Removed Revision
	CreatedAt        rel.Time
	BodyBytes        int
}

// State is a consistent picture of a store at Head. Each sequence may be read
// once, in any order of the three; an error ends it. Live rows come first, in
// order of key; removed ones follow in order of removal. Close must be called.
type State struct {
	Head Head
	// Oldest is the highest revision whose removed rows were trimmed: with
	// LoadOptions.RemovedAfter <= Oldest the past is complete from Oldest on.
	Oldest     Revision
	Tuples     iter.Seq2[TupleRow, error]
	Attributes iter.Seq2[AttributeRow, error]
	Documents  iter.Seq2[DocumentRow, error]
	Close      func() error
}

// LoadOptions choose what Load streams.
type LoadOptions struct {
	// RemovedAfter adds rows with Removed > RemovedAfter to the live ones. Nil
	// streams live rows only.
	RemovedAfter *Revision
	// RemovedOnly leaves the live ones out (with RemovedAfter).
	RemovedOnly bool
}

// Driver keeps stores. All methods are safe for concurrent use; calls on
// different stores do not wait for each other longer than the medium demands.
// A context that ends makes a read return its error; an Append either commits
// whole or not at all, and a caller that lost the answer finds its entry by
// (Writer, Sequence) at the log's end.
//
// Every method after Close returns ErrClosed. Unknown stores are ErrNoStore.
// Damaged data is ErrDamaged, never an answer.
type Driver interface {
	// Format returns the version of the data's layout and upgrades an older one
	// in place. A newer one is ErrFormat.
	Format(ctx context.Context) (int, error)

	// CreateStore adds an empty store. An id or alias in use is ErrExists.
	CreateStore(ctx context.Context, info StoreInfo) error
	// UpdateStore replaces Name and Aliases; the incarnation must be the same.
	UpdateStore(ctx context.Context, info StoreInfo) error
	// DeleteStore removes a store with all its data.
	DeleteStore(ctx context.Context, id StoreID) error
	// Store returns one store.
	Store(ctx context.Context, id StoreID) (StoreInfo, error)
	// StoreByAlias finds a store by a door's name for it.
	StoreByAlias(ctx context.Context, door, alias string) (StoreInfo, error)
	// Stores yields stores in order of id, beginning after the given one.
	Stores(ctx context.Context, after StoreID) iter.Seq2[StoreInfo, error]

	// Head returns the newest entry's place.
	Head(ctx context.Context, id StoreID) (Head, error)
	// Append adds entries, which follow each other and the head `after`, and
	// applies them to the state, in one durable transaction. It succeeds only if
	// the store's head has after's revision and hash; else *ConflictError. Entries
	// that Chain refuses, or of another incarnation, are ErrEntry or ErrTooLarge.
	Append(ctx context.Context, id StoreID, after Head, entries []Entry) (Head, error)
	// Entries yields entries from the given revision on (0 is 1), in order, up to
	// the head of the moment it is called. From below the trim is ErrTrimmed.
	// Secrets come without their bodies.
	Entries(ctx context.Context, id StoreID, from Revision) iter.Seq2[Entry, error]
	// Load returns the state.
	Load(ctx context.Context, id StoreID, opts LoadOptions) (State, error)
	// Rows returns the live rows of keys, in their order; an absent one is the
	// zero row.
	Rows(ctx context.Context, id StoreID, keys []rel.Key) ([]TupleRow, error)
	// Document returns the live document with its body, or ErrNoDocument.
	Document(ctx context.Context, id StoreID, kind, key string) (Document, error)
	// DocumentsBy yields the live documents of a kind that have the secondary
	// key, in order of key, with bodies.
	DocumentsBy(ctx context.Context, id StoreID, kind, secondary string) iter.Seq2[Document, error]
	// Secret returns the newest ciphertext, or ErrNoDocument.
	Secret(ctx context.Context, id StoreID, kind, key string) (Document, error)
	// Trim drops entries with a revision below `log` and removed rows with
	// Removed <= `rows`. What was trimmed stays trimmed; Oldest tells.
	Trim(ctx context.Context, id StoreID, log, rows Revision) error
	// Oldest returns the oldest entry still kept (1 if none was trimmed) and the
	// highest `rows` trimmed (the past is complete from there on).
	Oldest(ctx context.Context, id StoreID) (log, rows Revision, err error)
	// Changed yields stores whose head moved after the moment that the opaque
	// mark stands for, and the next mark. An empty mark is now-or-earlier. It may
	// name stores that did not move (after a mark of an earlier process it names
	// all), but never misses one. A mark that is none is ErrFormat.
	Changed(ctx context.Context, mark string) (stores []StoreID, next string, err error)

	Close() error
}

// Notifier is an optional power: a channel that receives (without blocking
// the writer) when any store's head moved.
type Notifier interface {
	Notify(ctx context.Context) <-chan StoreID
}

// Backuper is an optional power: a consistent copy into an empty folder while
// the driver runs.
type Backuper interface {
	Backup(ctx context.Context, dir string) error
}

// Joiner is an optional power: an append that commits with the embedder's own
// transaction. tx is of a type that the driver's documentation names; another
// type is ErrTransaction. The entries become visible, and the head moves, when
// the embedder commits tx; Head says whether it did. Until then no other
// Append to the store may be started (the engine holds the store's turn).
type Joiner interface {
	AppendTo(ctx context.Context, tx any, id StoreID, after Head, entries []Entry) (Head, error)
}

// SealedAppender is what a Driver may be besides: it takes over the canonical
// bytes and hashes of entries, as Seal returns them, from a caller who has them,
// and does not make them again. Otherwise AppendSealed is Append. Bytes that are
// not the entries' would be kept as the log. The driver may write behind the
// length of a Bytes up to its capacity, and keeps no Bytes: the memory is the
// caller's again when AppendSealed returns.
type SealedAppender interface {
	AppendSealed(ctx context.Context, id StoreID, after Head, entries []Entry, sealed []Sealed) (Head, error)
}

// ConflictError says that the head had moved.
type ConflictError struct{ Head Head }

func (e *ConflictError) Error() string {
	return fmt.Sprintf("append conflict: the head is at revision %d", e.Head.Revision)
}

// The kinds of errors that drivers return, to be found with errors.Is.
var (
	ErrClosed      = errors.New("storage is closed")
	ErrNoStore     = errors.New("no such store")
	ErrExists      = errors.New("store or alias exists already")
	ErrNoDocument  = errors.New("no such document")
	ErrTrimmed     = errors.New("revision is no longer kept")
	ErrFormat      = errors.New("unknown format")
	ErrDamaged     = errors.New("data is damaged")
	ErrLocked      = errors.New("data is in use by another process")
	ErrTooLarge    = errors.New("entry too large")
	ErrTransaction = errors.New("transaction is not one of this driver's")
	ErrEntry       = errors.New("entries do not follow the head")
)

// NewIncarnation returns a random incarnation.
func NewIncarnation() (i Incarnation) { rand.Read(i[:]); return i }

// NewWriterID returns a random writer id.
func NewWriterID() (w WriterID) { rand.Read(w[:]); return w }

func (h Hash) String() string { return hex.EncodeToString(h[:]) }
