package ostiary

import (
	"time"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/schema"
	"github.com/ostiary/ostiary/storage"
)

// Types of other packages that callers have to name.
type (
	// Object is a type and an id, for example document:1.
	Object = rel.Object
	// Subject is an object, a userset (group:1#member) or a wildcard (user:*).
	Subject = rel.Subject
	// Tuple states that a subject has a relation on an object.
	Tuple = rel.Tuple
	// Key is a tuple without its condition, context and expiry.
	Key = rel.Key
	// Filter selects tuples.
	Filter = rel.Filter
	// Attribute is a named value of an object.
	Attribute = rel.Attribute
	// Tristate is [False], [True] or [Unknown].
	Tristate = expr.Tristate
	// Values are the parameters of conditions, by their names.
	Values = expr.Values
	// Reasons explain why an answer is unknown.
	Reasons = authz.Reasons
	// Model is a schema before it is compiled.
	Model = schema.Model
	// Driver keeps the data of an engine.
	Driver = storage.Driver
	// StoreID names a store.
	StoreID = storage.StoreID
	// Revision is a place in the log of a store.
	Revision = storage.Revision
)

// The decisions of a check.
const (
	// False is a denial.
	False = expr.False
	// True is an allow.
	True = expr.True
	// Unknown means that there is no decision; [Reasons] explain why.
	Unknown = expr.Unknown
)

// Types of revisions and schemas.
type (
	// Token names a revision of one store as opaque text. Writes and answers return
	// tokens; [AtLeast] and [AtExactly] take them.
	Token = authz.Token
	// Consistency chooses the revision that a request reads. The zero value is
	// [Acknowledged].
	Consistency = authz.Consistency
	// SchemaInfo describes a schema without its content.
	SchemaInfo = authz.SchemaInfo
	// SchemaSource is a model, with the text that it was made from.
	SchemaSource = authz.SchemaSource
)

// ParseTuple reads a tuple in its text form, for example
// "document:1#viewer@user:anne". It fails with [ErrInvalidName].
func ParseTuple(text string) (Tuple, error) { return rel.Parse(text) }

// Acknowledged reads a view that has every write that was acknowledged before the
// question arrived, on whichever node. It is the default. On one node, and on a node
// that has a read lease, it is the newest view in memory, and the question does not
// wait. It fails with [ErrNoLease] if the node can neither get a lease nor reach the log.
func Acknowledged() Consistency { return authz.Acknowledged() }

// MinimizeLatency reads the newest view in memory, without waiting. On one node it
// contains every acknowledged write. Another node may answer from an older state.
func MinimizeLatency() Consistency { return authz.MinimizeLatency() }

// AtLeast reads a view that is not older than the token. It waits for such a
// view until the deadline of the context, or for Bounds.FutureWait without one;
// then the request fails with [ErrFuture].
func AtLeast(t Token) Consistency { return authz.AtLeast(t) }

// AtExactly reads the view at the token, at its commit time.
func AtExactly(t Token) Consistency { return authz.AtExactly(t) }

// AtRevision reads the view at a revision, at its commit time.
func AtRevision(r Revision) Consistency { return authz.AtRevision(r) }

// AtTime reads the view that was the newest at a time, at that time: a tuple that had
// expired by then is absent. For a time in the future it is the newest view, at the
// current time.
func AtTime(t time.Time) Consistency { return authz.AtTime(t) }

// FullyConsistent asks the driver for the newest revision and waits for it.
func FullyConsistent() Consistency { return authz.FullyConsistent() }
