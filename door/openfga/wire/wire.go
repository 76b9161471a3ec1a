// Package wire reads the bodies of OpenFGA's frequent calls and writes their
// answers, byte by byte: Check, BatchCheck, ListObjects, ListUsers, Write, Read
// and Expand. Its main types are the request structs, one a call, which also
// take a protobuf message, so that a request has one form whichever way it
// came.
//
// What it accepts is what the protocol's own libraries accept, with the same
// meaning: the text is JSON (encoding/json) and a message (protojson, unknown
// fields discarded), an empty body is an empty message. Two things are refused
// beyond that: text after the message, and nesting beyond DepthMax.
//
// The most frequent messages can be read from protobuf by hand, too, where they
// hold nothing rare; for all else protobuf's library is the reader.
//
// It never judges what a request says, only whether it can be read.
package wire

import "github.com/ostiary/ostiary/expr"

// DepthMax bounds objects and lists in each other in a body. One more is
// refused with ErrDepth.
const DepthMax = 500

// Key is a tuple without its condition; any field may be "".
type Key struct{ User, Relation, Object string }

// Tuple is a tuple of a request.
type Tuple struct {
	Key
	// Condition is nil where the tuple has none.
	Condition *Condition
}

// Condition names a tuple's condition. Context is nil where it has none.
type Condition struct {
	Name    string
	Context expr.Values
}

// Object is an object by its two parts.
type Object struct{ Type, ID string }

// UserFilter says which users a list is to have. Relation is "" for plain ones.
type UserFilter struct{ Type, Relation string }

// Consistency values, as the protocol numbers them; a request may hold others.
const (
	ConsistencyUnspecified     int32 = 0
	ConsistencyMinimizeLatency int32 = 100
	ConsistencyHigher          int32 = 200
)

// CheckRequest asks one question. HasKey tells an empty tuple from none.
//
// After Parse its ids and its key are views of the body, valid as long as that
// is; tuples and context own their memory.
type CheckRequest struct {
	StoreID, ModelID string
	HasKey           bool
	Key              Key
	Tuples           []Tuple
	Context          expr.Values
	Consistency      int32
	Trace            bool
}

// BatchCheckRequest asks many questions. After Parse its ids and its items'
// ids and keys are views of the body, as CheckRequest's.
type BatchCheckRequest struct {
	StoreID, ModelID string
	Checks           []BatchItem
	Consistency      int32
}

// BatchItem is one question of a batch.
type BatchItem struct {
	CorrelationID string
	HasKey        bool
	Key           Key
	Tuples        []Tuple
	Context       expr.Values
}

// ListObjectsRequest asks which objects of a type a user has a relation on,
// whole or streamed. It owns its memory.
type ListObjectsRequest struct {
	StoreID, ModelID     string
	Type, Relation, User string
	Tuples               []Tuple
	Context              expr.Values
	Consistency          int32
}

// ListUsersRequest asks which users have a relation on an object. It owns its
// memory.
type ListUsersRequest struct {
	StoreID, ModelID string
	HasObject        bool
	Object           Object
	Relation         string
	Filters          []UserFilter
	Tuples           []Tuple
	Context          expr.Values
	Consistency      int32
}

// WriteRequest adds and removes tuples. HasWrites and HasDeletes tell an empty
// part from none. It owns its memory.
type WriteRequest struct {
	StoreID, ModelID string
	HasWrites        bool
	Writes           []Tuple
	OnDuplicate      string
	HasDeletes       bool
	Deletes          []Key
	OnMissing        string
}

// ReadRequest asks for stored tuples. It owns its memory.
type ReadRequest struct {
	StoreID     string
	HasKey      bool
	Key         Key
	HasPageSize bool
	PageSize    int32
	Token       string
	Consistency int32
}

// ExpandRequest asks for the users of a relation, one level deep. It owns its
// memory.
type ExpandRequest struct {
	StoreID, ModelID string
	HasKey           bool
	Relation, Object string
	Tuples           []Tuple
	Consistency      int32
}
