package ostiary

import (
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/rel"
)

// Names of package authz and package rel that a first program needs, so that it imports
// this package alone. All others are only in their own packages.
type (
	// Object is a type and an id, for example document:1.
	Object = rel.Object
	// Subject is an object, a userset (group:1#member) or a wildcard (user:*).
	Subject = rel.Subject
	// Tuple states that a subject has a relation on an object.
	Tuple = rel.Tuple
	// SchemaSource is a model, with the text that it was made from.
	SchemaSource = authz.SchemaSource
	// WriteRequest is one atomic change of a store: Add and Remove tuples, set and
	// remove attributes, documents, secrets and schemas.
	WriteRequest = authz.WriteRequest
	// CheckRequest asks whether Subject has Relation on Object.
	CheckRequest = authz.CheckRequest
	// ListObjectsRequest asks for the objects of Type that Subject has Relation on.
	ListObjectsRequest = authz.ListObjectsRequest
)

// ParseTuple reads a tuple in its text form, for example
// "document:1#viewer@user:anne". It fails with [authz.ErrInvalidName].
func ParseTuple(text string) (rel.Tuple, error) { return rel.Parse(text) }
