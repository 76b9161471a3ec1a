// Package wire holds the requests of OpenFGA's data calls and reads and writes
// their messages: Check, BatchCheck, ListObjects, ListUsers, Write, Read and
// Expand. Its main types are the request structs, such as [CheckRequest]. Parse
// fills a request from JSON and FromProto fills it from a protobuf message, so
// both encodings lead to the same struct. The Append functions write the
// responses.
//
// Parse accepts what the protocol's own libraries accept, with the same meaning:
// the text is JSON (encoding/json) and a message (protojson, unknown fields
// discarded), and an empty body is an empty message. It refuses two things beyond
// that: data after the message, and nesting beyond [DepthMax].
//
// Messages that are often large are read from protobuf by hand too (ParseProto),
// where they hold nothing rare; protobuf's library reads all others.
//
// The package checks only whether a message can be read, never its contents.
package wire

import "github.com/ostiary/ostiary/expr"

// DepthMax bounds objects and arrays inside each other in a body. One more is
// refused with [ErrDepth].
const DepthMax = 500

// Key is a tuple without its condition.
type Key struct {
	// User, Relation and Object are the texts of the request. Any of them may be "".
	User, Relation, Object string
}

// Tuple is a tuple of a request.
type Tuple struct {
	Key
	// Condition is nil for a tuple without one.
	Condition *Condition
}

// Condition is the condition of a tuple.
type Condition struct {
	// Name is the condition's name in the model.
	Name string
	// Context holds values of the condition's parameters; nil is none.
	Context expr.Values
}

// Object is an object in two parts.
type Object struct {
	// Type and ID are the parts before and after the colon.
	Type, ID string
}

// UserFilter selects the users of a list.
type UserFilter struct {
	// Type is the type of the users.
	Type string
	// Relation makes them usersets of that relation; "" selects plain users.
	Relation string
}

// The protocol's numbers of consistency preferences. A request may hold others.
const (
	ConsistencyUnspecified     int32 = 0
	ConsistencyMinimizeLatency int32 = 100
	ConsistencyHigher          int32 = 200
)

// CheckRequest asks whether a user has a relation on an object.
//
// After Parse, its ids and its key are parts of the body, valid as long as the body
// does not change. Tuples and context are copies.
type CheckRequest struct {
	// StoreID is the store of the body; the path of an HTTP request replaces it.
	StoreID string
	// ModelID is the model's id; "" means the newest model.
	ModelID string
	// HasKey is set if the request has a tuple key, which may be empty.
	HasKey bool
	// Key is the question: does User have Relation on Object?
	Key Key
	// Tuples are the contextual tuples.
	Tuples []Tuple
	// Context holds values of conditions' parameters; nil is none.
	Context expr.Values
	// Consistency is the number of a consistency preference.
	Consistency int32
	// Trace is accepted and ignored, as by OpenFGA.
	Trace bool
}

// BatchCheckRequest asks many questions. After Parse and ParseProto, its ids and
// the ids and keys of its items are parts of the body, as in [CheckRequest].
type BatchCheckRequest struct {
	// StoreID, ModelID and Consistency are as in [CheckRequest].
	StoreID, ModelID string
	// Checks are the questions in their order.
	Checks      []BatchItem
	Consistency int32
}

// BatchItem is one question of a batch.
type BatchItem struct {
	// CorrelationID names the item in the response.
	CorrelationID string
	// HasKey, Key, Tuples and Context are as in [CheckRequest].
	HasKey  bool
	Key     Key
	Tuples  []Tuple
	Context expr.Values
}

// ListObjectsRequest asks on which objects of a type a user has a relation. It
// serves ListObjects and StreamedListObjects. It has its own memory.
type ListObjectsRequest struct {
	// StoreID and ModelID are as in [CheckRequest].
	StoreID, ModelID string
	// Type, Relation and User are the texts of the request.
	Type, Relation, User string
	// Tuples, Context and Consistency are as in [CheckRequest].
	Tuples      []Tuple
	Context     expr.Values
	Consistency int32
}

// ListUsersRequest asks which users have a relation on an object. Its strings
// are copies, independent of the body.
type ListUsersRequest struct {
	// StoreID and ModelID are as in [CheckRequest].
	StoreID, ModelID string
	// HasObject is set if the request has an object, which may be empty.
	HasObject bool
	// Object and Relation select the users: those who have Relation on Object.
	Object   Object
	Relation string
	// Filters select the users. The protocol admits exactly one.
	Filters []UserFilter
	// Tuples, Context and Consistency are as in [CheckRequest].
	Tuples      []Tuple
	Context     expr.Values
	Consistency int32
}

// WriteRequest adds and removes tuples. Its strings are copies, independent of the body.
type WriteRequest struct {
	// StoreID and ModelID are as in [CheckRequest].
	StoreID, ModelID string
	// HasWrites is set if the request has a part of writes, which may be empty.
	HasWrites bool
	// Writes are the tuples to add.
	Writes []Tuple
	// OnDuplicate selects what happens to a tuple that exists: "error" or "" fails,
	// "ignore" skips it.
	OnDuplicate string
	// HasDeletes is set if the request has a part of deletes, which may be empty.
	HasDeletes bool
	// Deletes are the tuples to remove.
	Deletes []Key
	// OnMissing selects what happens to a tuple to remove that does not exist: "error"
	// or "" fails, "ignore" skips it.
	OnMissing string
}

// ReadRequest asks for stored tuples. Its strings are copies, independent of the body.
type ReadRequest struct {
	// StoreID is as in [CheckRequest].
	StoreID string
	// HasKey is set if the request has a tuple key; without one it reads all
	// tuples.
	HasKey bool
	// Key selects tuples. An empty field selects all.
	Key Key
	// HasPageSize is set if the request has a page size.
	HasPageSize bool
	// PageSize is the maximum number of tuples in the response.
	PageSize int32
	// Token is the continuation token of the page before; "" starts.
	Token string
	// Consistency is as in [CheckRequest].
	Consistency int32
}

// ExpandRequest asks for the users of a relation, one level deep. Its strings
// are copies, independent of the body.
type ExpandRequest struct {
	// StoreID and ModelID are as in [CheckRequest].
	StoreID, ModelID string
	// HasKey is set if the request has a tuple key, which may be empty.
	HasKey bool
	// Relation and Object are the texts of the key.
	Relation, Object string
	// Tuples and Consistency are as in [CheckRequest].
	Tuples      []Tuple
	Consistency int32
}
