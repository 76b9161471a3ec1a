package snapshot

import (
	"bytes"
	"container/list"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/internal/engine/errs"
	"github.com/ostiary/ostiary/internal/tool/turns"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/schema"
	"github.com/ostiary/ostiary/storage"
)

// SchemaKind is the kind of the documents that hold schemas.
const SchemaKind = "schema"

// schemaDocument is the JSON form of a schema on disk.
type schemaDocument struct {
	Version int           `json:"version"`
	Dialect string        `json:"dialect,omitempty"`
	Source  []byte        `json:"source,omitempty"`
	Model   *schema.Model `json:"model"`
}

const schemaDocumentVersion = 1

func readSchemaDocument(body []byte) (authz.SchemaSource, error) {
	var doc schemaDocument
	if err := json.NewDecoder(bytes.NewReader(body)).Decode(&doc); err != nil {
		return authz.SchemaSource{}, fmt.Errorf("%w: invalid schema document: %v", storage.ErrDamaged, err)
	}
	if doc.Version != schemaDocumentVersion || doc.Model == nil {
		return authz.SchemaSource{}, fmt.Errorf("%w: schema document of version %d, expected version %d with a model",
			storage.ErrFormat, doc.Version, schemaDocumentVersion)
	}
	return authz.SchemaSource{Model: doc.Model, Dialect: doc.Dialect, Source: doc.Source}, nil
}

// PreparedSchema is a schema that is checked, compiled and ready to be stored.
type PreparedSchema struct {
	// ID is the id of the schema.
	ID string
	// Namespace is the namespace of the model.
	Namespace string
	// Body is the document that stores the schema.
	Body []byte
	// Compiled is the compiled form.
	Compiled *schema.Schema
}

// CompilationFactor estimates the memory that a compilation needs, and that of the
// compiled schema, as a multiple of the stored size of the schema.
const CompilationFactor = 16

// Compilation runs task, which parses or compiles a schema, when fewer than
// Bounds.Compilations are running, and with that much memory in bytes of the budget
// of questions. It fails with [authz.ErrBound] if the memory is not free in time, and
// with the error of ctx if ctx ends before. task must not call Compilation.
func (r *Runtime) Compilation(ctx context.Context, memory int, task func() error) error {
	turns.Pause(ctx)
	select {
	case r.compilations <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-r.compilations }()
	memory = min(memory, r.Bounds.QuestionsMemory)
	release, ok := r.QuestionsMemory.Take(ctx, memory)
	if !ok {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return fmt.Errorf("%w: the compilation of a schema needs %d bytes of QuestionsMemory, and questions in progress use them", authz.ErrBound, memory)
	}
	defer release()
	return task()
}

// PrepareSchema checks and compiles a schema. It stores nothing. It may wait for
// other compilations, and ends with the error of ctx.
func (r *Runtime) PrepareSchema(ctx context.Context, src *authz.SchemaSource) (PreparedSchema, error) {
	if src.Model == nil {
		return PreparedSchema{}, fmt.Errorf("%w: the request has no model", authz.ErrInvalidRequest)
	}
	if ns := src.Model.Namespace; strings.ContainsAny(ns, "/:#@ ") || len(ns) > rel.TypeBytesMax {
		return PreparedSchema{}, fmt.Errorf("%w: invalid namespace %q", rel.ErrName, ns)
	}
	if _, err := storage.ParseStoreID(src.WithID); src.WithID != "" && err != nil {
		return PreparedSchema{}, fmt.Errorf("%w: invalid schema id %q: expected a ULID", authz.ErrInvalidRequest, src.WithID)
	}
	// json.Marshal recurses, so the depth is checked before.
	if err := src.Model.CheckSize(); err != nil {
		return PreparedSchema{}, err
	}
	body, err := json.Marshal(schemaDocument{schemaDocumentVersion, src.Dialect, src.Source, src.Model})
	if err != nil {
		return PreparedSchema{}, fmt.Errorf("%w: %w", authz.ErrInvalidSchema, err)
	}
	if err := errs.CheckBound("SchemaBytes", len(body), r.Bounds.SchemaBytes); err != nil {
		return PreparedSchema{}, err
	}
	p := PreparedSchema{ID: src.WithID, Namespace: src.Model.Namespace, Body: body}
	err = r.Compilation(ctx, len(body)*CompilationFactor, func() error {
		// The compiled form refers to a copy of the model, as it will be read back, so
		// that the caller may change its own.
		stored, err := readSchemaDocument(body)
		if err == nil {
			p.Compiled, err = schema.CompileContext(ctx, stored.Model, r.Conditions)
		}
		return err
	})
	if err != nil {
		return PreparedSchema{}, err
	}
	if p.ID == "" {
		p.ID = storage.NewID(r.Now()).String()
	}
	return p, nil
}

// schemaKey names a schema among those of all stores.
type schemaKey struct {
	store       storage.StoreID
	incarnation storage.Incarnation
	id          string
}

func (t *Timeline) schemaKey(id string) schemaKey { return schemaKey{t.ID, t.Incarnation, id} }

// schemaCache keeps the compiled schemas that were used last. It refers to no
// lineage, so it does not keep the memory of dropped stores alive.
type schemaCache struct {
	max      int // of schemas
	bytesMax int
	mu       sync.Mutex
	bytes    int       // of all schemas in the cache
	order    list.List // of cachedSchema, the last used first
	at       map[schemaKey]*list.Element
}

type cachedSchema struct {
	key    schemaKey
	schema *schema.Schema
}

func (c *schemaCache) get(k schemaKey) *schema.Schema {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.at[k]
	if e == nil {
		return nil
	}
	c.order.MoveToFront(e)
	return e.Value.(cachedSchema).schema
}

func (c *schemaCache) put(k schemaKey, compiled *schema.Schema) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.at == nil {
		c.at = map[schemaKey]*list.Element{}
	}
	if e := c.at[k]; e != nil {
		c.order.MoveToFront(e)
		return
	}
	c.at[k] = c.order.PushFront(cachedSchema{k, compiled})
	c.bytes += compiled.Bytes()
	for c.order.Len() > c.max || c.bytes > c.bytesMax {
		old := c.order.Remove(c.order.Back()).(cachedSchema)
		delete(c.at, old.key)
		c.bytes -= old.schema.Bytes()
	}
}
