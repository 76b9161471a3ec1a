package authz

import (
	"time"

	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/storage"
)

// ReadRequest asks for the tuples that a filter selects.
type ReadRequest struct {
	// Filter selects the tuples.
	Filter rel.Filter
	// Limit is the largest number of tuples; 0 means 100.
	Limit int
	// Cursor is the Next of the page before; "" asks for the first page. A cursor
	// replaces Consistency.
	Cursor string
	// Consistency chooses the revision.
	Consistency Consistency
}

// StoredTuple is a tuple and the time when it was written.
type StoredTuple struct {
	rel.Tuple
	// Created is the commit time of the tuple's log entry. It is zero if a past
	// revision is read and the tuple was removed later.
	Created time.Time
}

// TuplePage is a page of tuples. They are ordered by object type, relation,
// object id, and the type, id and relation of the subject, each by its bytes.
type TuplePage struct {
	// Tuples are the tuples.
	Tuples []StoredTuple
	// Next is the cursor of the next page; "" on the last one.
	Next string
	// Revision is that of the view that was read.
	Revision storage.Revision
}

// ReadAttributesRequest asks for attributes. An empty ObjectType, ObjectID or
// Name selects all.
type ReadAttributesRequest struct {
	// ObjectType is the type of the objects.
	ObjectType string
	// ObjectID is the id of the objects.
	ObjectID string
	// Name is the name of the attributes.
	Name string
	// Limit is the largest number of attributes; 0 means 100.
	Limit int
	// Cursor is as in [ReadRequest].
	Cursor string
	// Consistency chooses the revision.
	Consistency Consistency
}

// AttributePage is a page of attributes, ordered by object type, object id and
// name.
type AttributePage struct {
	// Attributes are the attributes.
	Attributes []rel.Attribute
	// Next is the cursor of the next page; "" on the last one.
	Next string
	// Revision is that of the view that was read.
	Revision storage.Revision
}
