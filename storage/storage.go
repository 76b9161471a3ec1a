// Package storage is the contract between the engine and the drivers that keep
// its data. A driver keeps stores. A store has a log, which is a sequence of
// entries, and a state, which follows from the log. The driver changes both in
// one transaction.
//
// The main types are [Driver], [Entry] and [State]. docs/format.md describes the
// bytes; the package storagetest tests a driver against this contract. The
// package contains no authorization rules, and a driver must not contain any.
package storage

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"iter"
	"sync/atomic"

	"github.com/ostiary/ostiary/rel"
)

// Revision is the number of an entry in a store's log. Revisions start at 1 and
// have no gaps. 0 is the revision of an empty store.
type Revision uint64

// Hash is the SHA-256 of an entry's canonical bytes. The zero Hash is the
// predecessor of the first entry.
type Hash [32]byte

// Incarnation is a value that each new store gets, and that no other store has. It makes
// tokens of a deleted store invalid, even if a new store has the same alias.
type Incarnation [16]byte

// WriterID identifies a process that writes. Each process chooses a random one.
type WriterID [16]byte

// StoreInfo describes a store. A driver returns it without loading the store.
type StoreInfo struct {
	// ID identifies the store. It never changes.
	ID StoreID
	// Incarnation is chosen when the store is created. It never changes.
	Incarnation Incarnation
	// Name is a name for people. Several stores may have the same name.
	Name string
	// Aliases are the ids by which doors know the store: at most one for each
	// door, by the name of the door. No two stores of a driver have the same alias
	// for the same door.
	Aliases map[string]string
	// Created is the time at which the store was created. It never changes.
	Created rel.Time
}

// Head describes the newest entry of a log. The zero Head is the head of an
// empty log.
type Head struct {
	Revision Revision // revision of the entry
	Hash     Hash     // hash of the entry
	Time     rel.Time // commit time of the entry
}

// ChangeKind is the kind of a [Change]. Logs on disk contain the numbers, so a
// number is never used again for another kind. Reading a change of an unknown
// kind fails with [ErrFormat].
type ChangeKind uint8

// The kinds of changes.
const (
	TupleAdd        ChangeKind = iota + 1 // add a tuple or replace it
	TupleRemove                           // remove a tuple
	AttributeSet                          // set or replace an attribute
	AttributeRemove                       // remove an attribute
	DocumentPut                           // add or replace a document
	DocumentRemove                        // remove a document
	SecretPut                             // add or replace a secret
	SecretRemove                          // remove a secret
	RemoveByFilter                        // remove all rows that a filter selects
)

// Change is one step of an [Entry]. Adding a row that exists replaces it.
// Removing a row that does not exist does nothing. A driver reports neither;
// the engine checks preconditions before it appends.
type Change struct {
	// Kind is the kind of the change. It decides which of the fields Tuple,
	// Attribute, Document and Filter are used.
	Kind ChangeKind
	// Fresh is a hint on a TupleAdd: the tuple is not in the state, so the driver
	// need not search for a row to replace. The caller may set it only if neither
	// its view at the head nor an earlier change of the same call has the tuple. If
	// the hint is wrong, the replaced row is missing from the past. Fresh is not
	// part of the entry: it is neither hashed nor stored.
	Fresh bool
	// Tuple is the tuple of TupleAdd. TupleRemove uses its key only.
	Tuple rel.Tuple
	// Attribute is the attribute of AttributeSet. AttributeRemove uses its Object
	// and Name only.
	Attribute rel.Attribute
	// Document is the document of DocumentPut or the secret of SecretPut.
	// DocumentRemove and SecretRemove use its Kind and Key only.
	Document Document
	// Filter is the filter of RemoveByFilter.
	Filter Filter
}

// Document is a record of the engine, for example a schema. A secret is a
// document whose body is encrypted: drivers never see the encryption key or the
// plain text.
type Document struct {
	// Kind is the kind of the document, for example "schema". It must not be empty.
	Kind string
	// Key identifies the document within its kind.
	Key string
	// Secondary are additional keys, which [Driver.DocumentsBy] finds the document
	// by. Several documents may have the same secondary key.
	Secondary []string
	// Body is the content. For a secret it is the ciphertext.
	Body []byte
	// Digest is the SHA-256 of Body. It is set only in a SecretPut that was read
	// from the log, where Body is nil: the log contains the digest of a ciphertext,
	// not the ciphertext. If Body is set, Digest is ignored.
	Digest Hash
}

// FilterTarget is the kind of rows that a [Filter] selects.
type FilterTarget uint8

// The targets of a filter.
const (
	FilterTuples     FilterTarget = iota + 1 // tuples
	FilterAttributes                         // attributes
	FilterDocuments                          // documents, but never secrets
)

// Filter selects rows of the state. The driver removes them in the transaction
// of the entry, however many there are.
type Filter struct {
	// Target decides which of the other fields are used.
	Target FilterTarget
	// Tuple selects tuples.
	Tuple rel.Filter
	// ObjectType selects attributes by the type of the object; "" selects any.
	ObjectType string
	// ObjectID selects attributes by the id of the object; "" selects any.
	ObjectID string
	// Name selects attributes by name; "" selects any.
	Name string
	// DocumentKind selects documents by kind. It must not be empty.
	DocumentKind string
	// DocumentKeyPrefix selects documents whose key has this prefix.
	DocumentKeyPrefix string
}

// Entry is one accepted write. Either all of its changes happen or none.
type Entry struct {
	Incarnation Incarnation // incarnation of the store
	Revision    Revision    // one more than the predecessor's
	Previous    Hash        // hash of the predecessor
	Writer      WriterID    // the process that wrote the entry
	Sequence    uint64      // number of the entry among those of Writer, from 1
	Time        rel.Time    // commit time; never lower than the predecessor's
	Origin      Origin      // who made the write and why; zero in entries of version 1
	Changes     []Change    // the changes, in order
}

// Limits of the format. An entry that exceeds one is rejected with
// [ErrTooLarge].
const (
	// EntryBytesMax is the maximum size of an entry in bytes, 16 MiB. It is the
	// length of the canonical bytes plus the length of the ciphertexts.
	EntryBytesMax = 16 << 20
	// ChangesMax is the maximum number of changes in an entry.
	ChangesMax = 100_000
	// FiltersMax is the maximum number of RemoveByFilter changes in an entry. Each
	// of them may read the whole state.
	FiltersMax = 100
)

// TupleRow is a tuple of the state, or one that was removed. It is live at
// revision R if Created <= R and (Removed == 0 or R < Removed).
type TupleRow struct {
	Tuple     rel.Tuple // the tuple
	Created   Revision  // the revision that added it
	Removed   Revision  // the revision that removed or replaced it; 0 if it is live
	CreatedAt rel.Time  // commit time of Created
}

// AttributeRow is an attribute of the state, or one that was removed, like
// [TupleRow].
type AttributeRow struct {
	Attribute rel.Attribute // the attribute
	Created   Revision      // the revision that set it
	Removed   Revision      // the revision that removed or replaced it; 0 if it is live
}

// DocumentRow is a document of the state, or one that was removed, like
// [TupleRow]. It has no body. Secrets have no rows.
type DocumentRow struct {
	Kind      string   // kind of the document
	Key       string   // key within the kind
	Secondary []string // secondary keys
	Created   Revision // the revision that put it
	Removed   Revision // the revision that removed or replaced it; 0 if it is live
	CreatedAt rel.Time // commit time of Created
	BodyBytes int      // length of the body in bytes
}

// State is the state of a store at one revision. The sequences of rows may be
// read in any order, each at most once. Such a sequence yields the live rows in
// ascending order of their keys, and then the removed rows in order of removal.
// It ends after an error.
type State struct {
	// Head is the head of the log that the state follows from.
	Head Head
	// Oldest is the oldest revision whose state is complete: rows that were removed
	// at a higher revision have not been trimmed.
	Oldest Revision
	// Tuples yields the tuples.
	Tuples iter.Seq2[TupleRow, error]
	// Attributes yields the attributes.
	Attributes iter.Seq2[AttributeRow, error]
	// Documents yields the documents.
	Documents iter.Seq2[DocumentRow, error]
	// Bodies yields the live documents of a kind with their bodies, in ascending
	// order of their keys, and never a secret. It may be called for several kinds,
	// and again for the same one. It must not be read during or after Close.
	Bodies func(kind string) iter.Seq2[Document, error]
	// Close frees the resources of the state. The caller must call it; a second
	// call does nothing. A sequence must not be read during or after Close.
	Close func() error
}

// LoadOptions select the rows that [Driver.Load] yields. The zero value selects
// the live rows.
type LoadOptions struct {
	// RemovedAfter also selects removed rows with a Removed above *RemovedAfter.
	// nil selects no removed rows.
	RemovedAfter *Revision
	// RemovedOnly leaves out the live rows. It is ignored if RemovedAfter is nil.
	RemovedOnly bool
}

// Driver keeps stores.
//
// Concurrency: all methods are safe for concurrent use. A call on one store
// waits for calls on other stores only where the medium makes it wait.
//
// Contexts: a call whose context has ended returns the context's error. An
// Append whose context ends either commits completely or has no effect.
//
// Outcomes: if Append fails with an error that does not wrap [ErrUncertain], its
// entries never appear in the log after it has returned. A driver that cannot be sure
// of that first settles the outcome, and returns ErrUncertain only if it cannot reach
// its medium before the context ends. Some drivers fail although the entries are in
// the log already; a writer finds them there by their (Writer, Sequence).
//
// Errors: a call that names an unknown store fails with [ErrNoStore]. A call
// that meets damaged data fails with [ErrDamaged] and never returns the data.
// After Close, every method except Close fails with [ErrClosed].
//
// Sequences: a sequence that the driver returns reports its first error as its
// last element.
type Driver interface {
	// Format returns the version of the layout of the data. It first upgrades an
	// older layout in place. A newer layout fails with ErrFormat.
	Format(ctx context.Context) (int, error)

	// CreateStore adds an empty store. It fails with ErrExists if another store has
	// the id or one of the aliases.
	CreateStore(ctx context.Context, info StoreInfo) error
	// UpdateStore replaces the Name and the Aliases of a store, which are those of
	// old, by those of info. It fails with ErrChanged if the store has another name
	// or other aliases than old, with ErrNoStore if the incarnation of info is not
	// that of the store, and with ErrExists if another store has one of the aliases.
	// It does not change Created.
	UpdateStore(ctx context.Context, old, info StoreInfo) error
	// DeleteStore removes a store with its log, its state and its aliases.
	DeleteStore(ctx context.Context, id StoreID) error
	// Store returns the description of a store.
	Store(ctx context.Context, id StoreID) (StoreInfo, error)
	// StoreByAlias returns the description of the store with an alias. It fails with
	// ErrNoStore if no store has the alias for that door.
	StoreByAlias(ctx context.Context, door, alias string) (StoreInfo, error)
	// Stores yields the stores in ascending order of their ids, each once. It starts
	// after the given id; the zero id starts at the first store.
	Stores(ctx context.Context, after StoreID) iter.Seq2[StoreInfo, error]
	// StoresByAlias yields the stores that have an alias for a door, in ascending
	// order of the bytes of these aliases. It starts after the given alias; ""
	// starts at the first alias that is not empty. It reads only the stores that it
	// yields, all as of one moment.
	StoresByAlias(ctx context.Context, door, after string) iter.Seq2[StoreInfo, error]
	// StoresByName yields the stores with a name, in ascending order of their ids. It
	// starts after the given id; the zero id starts at the first store. It reads only
	// the stores that it yields, all as of one moment.
	StoresByName(ctx context.Context, name string, after StoreID) iter.Seq2[StoreInfo, error]

	// Head returns the head of a store's log.
	Head(ctx context.Context, id StoreID) (Head, error)
	// Append appends entries to the log and applies their changes to the state, in
	// one transaction. The transaction is durable when Append returns. The result is
	// the new head.
	//
	// Append fails with a *ConflictError unless the revision and the hash of the
	// store's head are those of after. It fails with ErrEntry, ErrFormat or
	// ErrTooLarge if Chain rejects the entries, and with ErrEntry if they have
	// another incarnation than the store. A failed call changes nothing. Without
	// entries, Append only compares the heads.
	//
	// sealed is nil, or what Seal returns for the entries: the driver then stores these
	// bytes as the log without checking them. It may overwrite the memory between the
	// length and the capacity of each Bytes. It keeps no reference to them, so the caller
	// may reuse the memory afterwards.
	Append(ctx context.Context, id StoreID, after Head, entries []Entry, sealed []Sealed) (Head, error)
	// EntryHead returns the entry of a revision without its changes, of which an entry may
	// have 16 MiB. It fails with ErrTrimmed if the entry has been trimmed, and with
	// ErrNoEntry if the revision is 0 or above the head.
	EntryHead(ctx context.Context, id StoreID, r Revision) (Entry, error)
	// Entries yields the entries of the log in ascending order of their revisions,
	// from the given revision (0 means 1) up to the head at the time of the call; a
	// revision above the head yields nothing. It
	// fails with ErrTrimmed if entries from that revision on have been trimmed.
	// Secrets have a digest instead of a body.
	Entries(ctx context.Context, id StoreID, from Revision) iter.Seq2[Entry, error]
	// Load returns the state at the head. Later calls of Append do not change what
	// the State yields.
	Load(ctx context.Context, id StoreID, opts LoadOptions) (State, error)
	// Rows returns the live rows of keys, all at one revision: result i belongs to
	// key i. The row of a key that is not live is the zero row.
	Rows(ctx context.Context, id StoreID, keys []rel.Key) ([]TupleRow, error)
	// Document returns a live document with its body. It fails with ErrNoDocument if
	// there is none.
	Document(ctx context.Context, id StoreID, kind, key string) (Document, error)
	// DocumentsBy yields the live documents of a kind that have a secondary key,
	// with their bodies, in ascending order of their keys.
	DocumentsBy(ctx context.Context, id StoreID, kind, secondary string) iter.Seq2[Document, error]
	// Secret returns the newest ciphertext of a secret. It fails with ErrNoDocument
	// if there is none.
	Secret(ctx context.Context, id StoreID, kind, key string) (Document, error)
	// Trim drops the entries with a revision below log, and the removed rows whose
	// Removed is at most rows. It does not affect entries that are appended later. A
	// lower revision than in an earlier call has no effect.
	Trim(ctx context.Context, id StoreID, log, rows Revision) error
	// Oldest returns the revision of the oldest entry in the log (1 if none has been
	// trimmed) and the oldest revision whose state is complete, as State.Oldest.
	Oldest(ctx context.Context, id StoreID) (log, rows Revision, err error)
	// Notify returns a channel that receives the id of a store when its head was moved by
	// another writer than own, and when it was updated or deleted: by another process, or
	// by another engine of this one. The driver never waits for the receiver: it drops ids
	// while the channel is full, and the receiver should then look at every store. The
	// channel is closed when ctx ends or the driver is closed.
	Notify(ctx context.Context, own WriterID) <-chan StoreID
	// CatalogChanges returns a number, always the same one. Its value changes when a store
	// is updated or deleted, by any caller, before that call returns.
	// While the value stays the same, a caller may use the stores and aliases that it has
	// read. A new store does not change it, because it changes nothing that a caller can
	// have read. Callers only read the number, some of them with every request.
	CatalogChanges() *atomic.Uint64
	// Creations returns a number, always the same one, whose value changes when a store
	// is created, before the call that does it returns. While it and CatalogChanges stay
	// the same, a caller may go on taking a store for missing.
	Creations() *atomic.Uint64
	// CountStores returns the number of stores.
	CountStores(ctx context.Context) (int, error)

	// Close frees the resources of the driver. It ends sequences that are being
	// read, waits for running calls, and closes States that are still open. A second
	// call does nothing.
	Close() error
}

// Copy is an optional interface of a [Driver] that reads from a copy of a log. Several
// processes share the log, and agree on who writes and on what a read sees.
type Copy interface {
	// Confirm returns when the copy has everything that was durable at the time of the
	// call, whoever wrote it. It fails with ErrNoLease if it cannot find that out.
	Confirm(ctx context.Context) error
	// FindRequest returns what the log has of a request of a node, in the order of the
	// log, from the segment after a sequence on. It has everything that was durable at the
	// time of the call. It fails if the log no longer has these segments.
	FindRequest(ctx context.Context, request RequestID, after uint64) (RequestTrace, error)
	// Acknowledge returns when readers in other processes see everything that the copy
	// shows at the time of the call, as a change of the driver does for what it changes.
	// Callers use it before they report entries as written that they found in the log.
	Acknowledge(ctx context.Context) error
	// AppendAhead is Append in three steps, so that the caller may append those that follow
	// after the first one: it returns when the entries have their place, made when they are
	// durable and in the copy, and acknowledge, which is called after that, when readers in
	// other processes see these entries and all before them. Only then the entries are
	// written. AppendAhead and made fail as Append does; then entries that follow these fail
	// with a *ConflictError, unless the outcome is uncertain. acknowledge fails with ErrUncertain.
	AppendAhead(ctx context.Context, id StoreID, after Head, entries []Entry, sealed []Sealed) (made func(context.Context) (Head, error), acknowledge func(context.Context) error, err error)
	// BeforeRead returns when the copy and the engines that have called OnApplied show
	// every write that was acknowledged before the call, whoever made it. An engine calls
	// it when a request has arrived, before it chooses what the request sees; so it costs
	// little while nothing has to be waited for. It fails with ErrNoLease.
	BeforeRead(ctx context.Context) error
	// BeforeWrite returns when this process may write, and the engines show every write
	// that was acknowledged before the call. It fails with ErrNotHolder if another process
	// writes, or if ctx ends before.
	BeforeWrite(ctx context.Context) error
	// Leads reports whether this process writes now, so that it does what one of them has
	// to do.
	Leads() bool
	// OnApplied makes the driver call show when another process has changed stores: after
	// the copy has the changes, and before the driver tells the other process that they
	// are shown. show returns when the engine shows the changes; after an error it is
	// called again. Calls do not overlap. detach ends that; a call of show may still run.
	OnApplied(show func(ctx context.Context, stores []StoreID) error) (detach func())
}

// Backuper is an optional interface of a [Driver] that can copy its data while
// it is in use.
type Backuper interface {
	// Backup writes a consistent copy of all stores into dir, which must be empty or
	// missing.
	Backup(ctx context.Context, dir string) error
}

// Joiner is an optional interface of a [Driver] whose data can be changed in a
// transaction of the embedding program.
type Joiner interface {
	// AppendTo is like Append, but adds the changes to the transaction tx. The
	// entries become visible, and the head moves, when the embedding program commits
	// tx; afterwards Head shows whether it did. Until then nothing else may be
	// appended to the store; the engine makes sure of this. The type of tx depends
	// on the driver; another type fails with ErrTransaction.
	AppendTo(ctx context.Context, tx any, id StoreID, after Head, entries []Entry) (Head, error)
}

// ConflictError is the error of an Append after a head that is no longer the
// head of the store.
type ConflictError struct {
	// Head is the current head.
	Head Head
}

// Error returns the text of the error with the revision of the current head.
func (e *ConflictError) Error() string {
	return fmt.Sprintf("append conflict: the head is at revision %d", e.Head.Revision)
}

// Errors that drivers return, for use with errors.Is.
var (
	// ErrClosed means that the driver is closed.
	ErrClosed = errors.New("storage is closed")
	// ErrNoStore means that no store has the id or alias.
	ErrNoStore = errors.New("no such store")
	// ErrExists means that another store has the id or alias.
	ErrExists = errors.New("store or alias exists already")
	// ErrChanged means that a store is not as the caller of UpdateStore has read it.
	ErrChanged = errors.New("store was changed meanwhile")
	// ErrNoDocument means that no live document or secret has the key.
	ErrNoDocument = errors.New("no such document")
	// ErrSecretReplaced means that a secret was replaced or removed by an entry that
	// this node has not applied yet. The node cannot say whether the secret is live.
	ErrSecretReplaced = errors.New("secret was replaced by a later entry")
	// ErrNoEntry means that the log has not reached a revision.
	ErrNoEntry = errors.New("no such entry")
	// ErrTrimmed means that the log no longer has the entries.
	ErrTrimmed = errors.New("revision is no longer kept")
	// ErrFormat means that the data has a layout that this version does not know.
	ErrFormat = errors.New("unknown format")
	// ErrDamaged means that the data is not what a driver wrote.
	ErrDamaged = errors.New("data is damaged")
	// ErrLocked means that the data is open already, in another process or in this one.
	ErrLocked = errors.New("data is in use")
	// ErrTooLarge means that an entry exceeds a limit of the format.
	ErrTooLarge = errors.New("entry too large")
	// ErrUncertain means that the outcome of an append is open: the entries may be in
	// the log, or may still appear in it after the call.
	ErrUncertain = errors.New("outcome of the append is unknown")
	// ErrHistory means that the data does not continue the history that the caller
	// knows: a backup was restored, or acknowledged entries were lost.
	ErrHistory = errors.New("data has another history")
	// ErrTransaction means that a driver cannot use a transaction.
	ErrTransaction = errors.New("transaction cannot be used by this driver")
	// ErrEntry means that entries do not follow the head or each other.
	ErrEntry = errors.New("entries do not follow the head")
	// ErrNotHolder means that another node writes the shared log, or none at the moment.
	// The change has no effect.
	ErrNotHolder = errors.New("this node does not write the log")
	// ErrNoLease means that it is not certain that this node has every acknowledged write:
	// it has no read lease, and reaches neither the node that writes nor the log.
	ErrNoLease = errors.New("it is not certain that this node has every acknowledged write")
)

// NewIncarnation returns a random incarnation. See [RequestID.Incarnation] for that of a
// store which a request creates.
func NewIncarnation() (i Incarnation) { rand.Read(i[:]); return i }

// NewWriterID returns a random writer id.
func NewWriterID() (w WriterID) { rand.Read(w[:]); return w }

// String returns the hash in hexadecimal.
func (h Hash) String() string { return hex.EncodeToString(h[:]) }
