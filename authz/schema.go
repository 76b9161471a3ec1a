package authz

import (
	"time"

	"github.com/ostiary/ostiary/schema"
	"github.com/ostiary/ostiary/storage"
)

// SchemaSource is the content of a schema.
type SchemaSource struct {
	// Model is the schema; a language package makes it from text. A write copies
	// it.
	Model *schema.Model
	// Dialect names the language of Source, for example "openfga". The engine only
	// stores it.
	Dialect string
	// Source is the text that the model was made from. The engine only stores it.
	Source []byte
	// WithID is the id that a write gives the schema, a ULID, for copies that keep
	// their ids. The write fails if the store has it already. The default "" makes a
	// new id. It is "" in a schema that is read.
	WithID string
}

// SchemaInfo describes a schema without its content.
type SchemaInfo struct {
	// ID is the schema's id, a ULID.
	ID string
	// Namespace is the namespace of the model; "" is the default one.
	Namespace string
	// Created is the commit time of the write that stored the schema.
	Created time.Time
	// Revision is the revision of that write.
	Revision storage.Revision
}
