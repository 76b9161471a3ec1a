package authz

import (
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/storage"
)

// ImportOptions are the settings of an import. The zero value is ready to use.
type ImportOptions struct {
	// SchemaID is as in [WriteRequest].
	SchemaID string
	// OnDuplicate is as in [WriteRequest]. [Fail] ends the import at the first log
	// entry that would have a duplicate; the entries before it stay.
	OnDuplicate ConflictAction
	// EntryTuples is how many tuples one log entry holds. Default 20,000, at most
	// storage.ChangesMax.
	EntryTuples int
	// Origin is as in [WriteRequest], of each entry. Without a caller it is "import".
	Origin storage.Origin
	// Progress, if set, is called after each entry with the number of tuples that
	// are read and durable.
	Progress func(tuples int)
}

// ImportResult counts what an import wrote. It is valid even if the import returns an error.
type ImportResult struct {
	// Read is the number of tuples that are durable or were ignored as duplicates.
	Read int
	// Written is the number of those tuples that changed the store: new ones, and
	// existing ones that [Replace] changed.
	Written int
	// Token is the token of the last entry, or "" if the import wrote no entry.
	Token Token
}

// Update is a write that is decided when the writes before it are known, but may
// not be durable yet. So many updates that depend on one another share one append.
type Update struct {
	// Build returns the change of the state whose token is head. It is called again,
	// with another head, if writes before this one fail. Calls of one store do not
	// overlap, unless an append failed. Build must be quick, and must not use the
	// store: no other write proceeds meanwhile, and readers do not see head before it
	// is durable. An error of Build rejects the update.
	Build func(head Token) (WriteRequest, error)
	// Accepted, if not nil, is called after each successful Build with the token of
	// the state after the change, under the same rules. The change is not durable yet.
	Accepted func(head Token)
}

// WriteRequest is one atomic change of a store: all of it takes effect, at one
// revision, or nothing. RemoveMatching acts first, then the other removals, then
// what is added or set. All of it is checked against the state before the write.
// Expired tuples count as absent.
type WriteRequest struct {
	// Add are the tuples to add.
	Add []rel.Tuple
	// Remove are the keys of the tuples to remove.
	Remove []rel.Key
	// RemoveMatching removes all tuples, attributes or documents that a filter
	// selects. The log entry contains the filter, not what it selects.
	RemoveMatching []storage.Filter

	// SetAttributes sets or replaces attributes.
	SetAttributes []rel.Attribute
	// RemoveAttributes removes attributes by their object and name.
	RemoveAttributes []rel.Attribute

	// Documents are stored, and replace documents with the same key.
	Documents []Document
	// RemoveDocuments are the keys of the documents to remove.
	RemoveDocuments []DocumentKey
	// Secrets are encrypted and stored.
	Secrets []Document
	// RemoveSecrets are the keys of the secrets to remove.
	RemoveSecrets []DocumentKey

	// Schemas become the current ones of their namespaces, as by WriteSchema. The
	// schemas before the write admit what the same write adds.
	Schemas []SchemaSource
	// RemoveSchemas are the ids of the schemas to remove, as by RemoveSchema.
	RemoveSchemas []string

	// OnDuplicate is what an Add of an existing key does. The default is [Fail].
	OnDuplicate ConflictAction
	// OnMissing is what a Remove of an absent key does. The default is [Fail].
	OnMissing ConflictAction
	// Preconditions must all hold in the state before the write.
	Preconditions []Precondition
	// After, if not "", is the token of the revision that the write must follow. If
	// the store has changed since, the write fails with ErrPrecondition.
	After Token
	// SchemaID names the schema that admits what is added; "" means the current one
	// of each type's namespace.
	SchemaID string
	// Origin is who makes the write and why. Empty fields are those of the [Author]
	// of the context. Without a caller there either, the caller is "library".
	Origin storage.Origin
}

// ConflictAction decides what a write does if a key that it adds already exists,
// or if a key that it removes is absent.
type ConflictAction uint8

const (
	// Fail rejects the write with ErrTupleExists or ErrTupleMissing.
	Fail ConflictAction = iota
	// Ignore leaves the key as it is. An existing tuple with another condition,
	// context or expiry rejects the write nevertheless.
	Ignore
	// Replace stores the new condition, context and expiry. As OnMissing it is the
	// same as Ignore.
	Replace
)

// Precondition requires that a tuple exists, or that none does.
type Precondition struct {
	// Filter selects tuples. A filter that names an object or a subject is cheap;
	// any other may read the whole store.
	Filter rel.Filter
	// Absent requires that no tuple is selected, instead of at least one.
	Absent bool
}

// Document is a record of a store. Its key is unique within its kind. Kinds
// that begin with "schema" are reserved for the engine.
type Document struct {
	// Kind groups documents, for example by the program that wrote them.
	Kind string
	// Key names the document within its kind.
	Key string
	// Secondary are further keys that Store.DocumentsBy finds the document by. A secret
	// has none, because they are stored in plain text.
	Secondary []string
	// Body is the content. A secret's body is encrypted before the driver gets it.
	Body []byte
}

// Key names a document or secret.
type DocumentKey struct {
	// Kind is the kind of the document.
	Kind string
	// Key is its key within the kind.
	Key string
}

// String returns the kind and the key. It omits the body, which may be a secret.
func (d Document) String() string { return d.Kind + "/" + d.Key + " [body not shown]" }

// ImportKind and ImportKey name the document that marks a store as incomplete,
// because an import into it has not ended. A view with this document answers no
// question: [Timeline.At] fails with ErrImporting. The body of the document has no
// meaning.
const (
	ImportKind = "importing"
	ImportKey  = "store"
)
