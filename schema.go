package ostiary

import (
	"bytes"
	"cmp"
	"container/list"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ostiary/ostiary/eval"
	"github.com/ostiary/ostiary/graph"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/schema"
	"github.com/ostiary/ostiary/storage"
)

// schemaKind is the kind of the documents that hold schemas: key is the
// schema's id, the one secondary key its namespace.
const schemaKind = "schema"

// SchemaSource is a schema to write.
type SchemaSource struct {
	// Model is what a dialect's reader made, and what is compiled. It is copied.
	Model *schema.Model
	// Dialect names the language of Source; both are kept as they are, for
	// reading back.
	Dialect string
	Source  []byte
}

// SchemaInfo is what is known of a schema without compiling it.
type SchemaInfo struct {
	// ID is a ULID.
	ID        string
	Namespace string
	Created   time.Time
	Revision  storage.Revision
}

// Schema is a schema as it was written, and its compiled form.
type Schema struct {
	SchemaInfo
	SchemaSource
	Compiled *schema.Schema
}

// schemaDocument is a schema's body on disk.
type schemaDocument struct {
	Version int           `json:"version"`
	Dialect string        `json:"dialect,omitempty"`
	Source  []byte        `json:"source,omitempty"`
	Model   *schema.Model `json:"model"`
}

const schemaDocumentVersion = 1

// schemaRow is one schema of a view.
type schemaRow struct {
	id        string
	namespace string
	created   storage.Revision
	at        rel.Time
}

func schemaRowOf(r storage.DocumentRow) schemaRow {
	row := schemaRow{id: r.Key, created: r.Created, at: r.CreatedAt}
	if len(r.Secondary) > 0 {
		row.namespace = r.Secondary[0]
	}
	return row
}

func (r schemaRow) info() SchemaInfo {
	return SchemaInfo{ID: r.id, Namespace: r.namespace, Created: r.at.Time(), Revision: r.created}
}

// schemaSet is the schemas of a view, in the order they were written; of each
// namespace the newest is current. It never changes but for what is compiled
// on demand. Successive views share it.
type schemaSet struct {
	lineage *graph.Graph
	rows    []schemaRow
	current map[string]*boundSchema
	// only is current[""] where there is no other namespace: what almost every
	// question finds.
	only *boundSchema

	mu     sync.Mutex
	others map[string]*readySchema // by id, of those that are not current
}

// othersMax is how many schemas that are not current a set keeps bound.
const othersMax = 32

// boundSchema is a schema bound to a lineage, once somebody asks.
type boundSchema struct {
	row   schemaRow
	ready atomic.Pointer[readySchema]
	mu    sync.Mutex
}

// readySchema is what evaluation needs.
type readySchema struct {
	info    schemaRow
	schema  *schema.Schema
	binding *eval.Binding
	// timed says that answers may depend on the time even where no tuple expires.
	timed bool
	// backwards are its rewrites read backwards, once somebody asks.
	backwards atomic.Pointer[dependents]
}

// add puts a row that may be there already; set is not shared yet.
func (set *schemaSet) add(r schemaRow) {
	for _, old := range set.rows {
		if old.id == r.id {
			return
		}
	}
	set.rows = append(set.rows, r)
}

// sort brings the rows into the order they were written in.
func (set *schemaSet) sort() {
	slices.SortFunc(set.rows, func(a, b schemaRow) int { return cmp.Compare(a.created, b.created) })
}

// settle works out what is current, taking over from an earlier set what is
// ready already.
func (set *schemaSet) settle(earlier *schemaSet) {
	set.current = map[string]*boundSchema{}
	newest := map[string]schemaRow{}
	for _, r := range set.rows {
		if old, ok := newest[r.namespace]; !ok || r.created >= old.created {
			newest[r.namespace] = r
		}
	}
	for ns, r := range newest {
		b := &boundSchema{row: r}
		if earlier != nil {
			if old := earlier.current[ns]; old != nil && old.row.id == r.id {
				if earlier.lineage == set.lineage {
					b = old
				} else if ready := old.ready.Load(); ready != nil {
					// The compiled form outlives the lineage, the binding does not.
					if again, err := bindSchema(r, ready.schema, set.lineage); err == nil {
						b.ready.Store(again)
					}
				}
			}
		}
		set.current[ns] = b
	}
	if len(set.current) == 1 {
		set.only = set.current[""]
	}
}

// with returns a set with one schema more.
func (set *schemaSet) with(r schemaRow) *schemaSet {
	next := &schemaSet{lineage: set.lineage, rows: append(set.rows[:len(set.rows):len(set.rows)], r)}
	next.settle(set)
	return next
}

// without returns a set with one schema less.
func (set *schemaSet) without(id string) *schemaSet {
	next := &schemaSet{lineage: set.lineage}
	for _, r := range set.rows {
		if r.id != id {
			next.rows = append(next.rows, r)
		}
	}
	next.settle(set)
	return next
}

// find returns the current schema for a type's name: that of its namespace
// ("namespace/type"), else that without one.
func (set *schemaSet) find(typ string) *boundSchema {
	if set.only != nil {
		return set.only
	}
	if ns, _, ok := strings.Cut(typ, "/"); ok {
		if b := set.current[ns]; b != nil {
			return b
		}
	}
	return set.current[""]
}

// ready returns what a question on a type needs, of the current schema or of
// the one with the id.
func (s *Store) ready(ctx context.Context, v *view, typ, id string) (*readySchema, error) {
	b := v.schemas.find(typ)
	if id == "" || b != nil && b.row.id == id {
		if b == nil {
			return nil, fmt.Errorf("%w: none for type %q", ErrNoSchema, typ)
		}
		if r := b.ready.Load(); r != nil {
			return r, nil
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		if r := b.ready.Load(); r != nil {
			return r, nil
		}
		r, err := s.compile(ctx, v, b.row)
		if err == nil {
			b.ready.Store(r)
		}
		return r, err
	}
	return s.other(ctx, v, id)
}

// other returns a schema that is not current, bound.
func (s *Store) other(ctx context.Context, v *view, id string) (*readySchema, error) {
	set := v.schemas
	set.mu.Lock()
	r := set.others[id]
	set.mu.Unlock()
	if r != nil {
		return r, nil
	}
	for _, row := range set.rows {
		if row.id != id {
			continue
		}
		r, err := s.compile(ctx, v, row)
		if err != nil {
			return nil, err
		}
		set.mu.Lock()
		defer set.mu.Unlock()
		if len(set.others) >= othersMax || set.others == nil {
			set.others = map[string]*readySchema{}
		}
		set.others[id] = r
		return r, nil
	}
	return nil, fmt.Errorf("%w: %q", ErrNoSchema, id)
}

// compile returns a schema bound to v's lineage; what is compiled comes from
// the engine's cache or the driver.
func (s *Store) compile(ctx context.Context, v *view, row schemaRow) (*readySchema, error) {
	key := schemaKey{s.id, s.incarnation, row.id}
	compiled := s.engine.cache.get(key)
	if compiled == nil {
		doc, err := s.schemaBody(ctx, row)
		if err != nil {
			return nil, err
		}
		if compiled, err = schema.Compile(doc.Model, s.engine.opts.Conditions); err != nil {
			return nil, err
		}
		s.engine.cache.put(key, compiled)
	}
	return bindSchema(row, compiled, v.schemas.lineage)
}

// schemaBody reads a schema, also one that was removed since, whose body only
// the log still has.
func (s *Store) schemaBody(ctx context.Context, row schemaRow) (schemaDocument, error) {
	d, err := s.engine.driver.Document(ctx, s.id, schemaKind, row.id)
	if err == nil {
		return readSchemaBody(d.Body)
	}
	if !errors.Is(err, storage.ErrNoDocument) {
		return schemaDocument{}, err
	}
	for e, err := range s.engine.driver.Entries(ctx, s.id, row.created) {
		if err != nil {
			return schemaDocument{}, err
		}
		for _, c := range e.Changes {
			if c.Kind == storage.DocumentPut && c.Document.Kind == schemaKind && c.Document.Key == row.id {
				return readSchemaBody(c.Document.Body)
			}
		}
		break
	}
	return schemaDocument{}, fmt.Errorf("%w: %q", ErrNoSchema, row.id)
}

func readSchemaBody(body []byte) (doc schemaDocument, err error) {
	dec := json.NewDecoder(bytes.NewReader(body))
	if err := dec.Decode(&doc); err != nil {
		return doc, fmt.Errorf("%w: schema document: %v", storage.ErrDamaged, err)
	}
	if doc.Version != schemaDocumentVersion || doc.Model == nil {
		return doc, fmt.Errorf("%w: schema document of version %d", storage.ErrFormat, doc.Version)
	}
	return doc, nil
}

// bindSchema binds a compiled schema to a lineage. Its kinds are interned
// first, so that the binding is good for every view of the lineage.
func bindSchema(row schemaRow, compiled *schema.Schema, lineage *graph.Graph) (*readySchema, error) {
	r := interning{View: lineage.View(), lineage: lineage}
	b := eval.Bind(compiled, &r)
	if r.err != nil {
		return nil, r.err
	}
	return &readySchema{info: row, schema: compiled, binding: b, timed: len(compiled.Conditions) > 0}, nil
}

// interning is a Reader that knows every kind it is asked for, since it gives
// numbers to new ones.
type interning struct {
	*graph.View
	lineage *graph.Graph
	err     error
}

// Kind returns the kind's number in the lineage, which a view made earlier may
// not know yet.
func (r *interning) Kind(k graph.KindName) (graph.Kind, bool) {
	n, err := r.lineage.Intern(k)
	if err != nil {
		r.err = err
		return 0, false
	}
	return n, true
}

// WriteSchema compiles a model, keeps it as a document and makes it the
// current schema of its namespace. Tuples that it does not admit stay, and do
// not count. The schemas before it stay, and can be asked by id.
func (s *Store) WriteSchema(ctx context.Context, src SchemaSource) (SchemaInfo, Token, error) {
	const op = "write schema"
	put, err := s.engine.schemaPut(&src)
	if err != nil {
		return SchemaInfo{}, "", failed(op, s.id, err)
	}
	head, err := s.submit(ctx, &submission{build: func(g *group) ([]storage.Change, error) {
		return g.putSchemas(nil, []schemaPut{put}), nil
	}}, 1)
	if err != nil {
		return SchemaInfo{}, "", failed(op, s.id, err)
	}
	info := SchemaInfo{ID: put.id, Namespace: put.namespace, Created: head.Time.Time(), Revision: head.Revision}
	return info, s.tokenAt(head), nil
}

// schemaPut is a schema that is checked and compiled, to be written.
type schemaPut struct {
	id, namespace string
	body          []byte
	compiled      *schema.Schema
}

// schemaPut checks a schema and makes ready what is written of it.
func (e *Engine) schemaPut(src *SchemaSource) (schemaPut, error) {
	if src.Model == nil {
		return schemaPut{}, fmt.Errorf("%w: no model", ErrInvalidRequest)
	}
	if ns := src.Model.Namespace; strings.ContainsAny(ns, "/:#@ ") || len(ns) > rel.TypeBytesMax {
		return schemaPut{}, fmt.Errorf("%w: namespace %q", rel.ErrName, ns)
	}
	// Depth and size are bounded by Compile before anything walks the model.
	if _, err := schema.Compile(src.Model, e.opts.Conditions); err != nil {
		return schemaPut{}, err
	}
	body, err := json.Marshal(schemaDocument{schemaDocumentVersion, src.Dialect, src.Source, src.Model})
	if err != nil {
		return schemaPut{}, fmt.Errorf("%w: %w", ErrInvalidSchema, err)
	}
	if err := over("SchemaBytes", len(body), e.opts.Bounds.SchemaBytes); err != nil {
		return schemaPut{}, err
	}
	// What is compiled is what will be read back, so that the caller's model is
	// his own again.
	doc, err := readSchemaBody(body)
	if err != nil {
		return schemaPut{}, err
	}
	compiled, err := schema.Compile(doc.Model, e.opts.Conditions)
	if err != nil {
		return schemaPut{}, err
	}
	return schemaPut{storage.NewID(e.now()).String(), doc.Model.Namespace, body, compiled}, nil
}

// putSchemas adds what writing schemas changes.
func (g *group) putSchemas(out []storage.Change, puts []schemaPut) []storage.Change {
	for _, p := range puts {
		if g.compiled == nil {
			g.compiled = map[string]*schema.Schema{}
		}
		g.compiled[p.id] = p.compiled
		out = append(out, storage.Change{Kind: storage.DocumentPut, Document: storage.Document{
			Kind: schemaKind, Key: p.id, Secondary: []string{p.namespace}, Body: p.body}})
	}
	return out
}

// removeSchemas adds what removing schemas by their ids changes.
func (g *group) removeSchemas(out []storage.Change, ids []string) ([]storage.Change, error) {
	for _, id := range ids {
		if !slices.ContainsFunc(g.schemas.rows, func(r schemaRow) bool { return r.id == id }) {
			return nil, fmt.Errorf("%w: %q", ErrNoSchema, id)
		}
		out = append(out, storage.Change{Kind: storage.DocumentRemove,
			Document: storage.Document{Kind: schemaKind, Key: id}})
	}
	return out, nil
}

// RemoveSchema removes a schema by its id. If it was its namespace's current
// one, the one before it is current again.
func (s *Store) RemoveSchema(ctx context.Context, id string) (Token, error) {
	head, err := s.submit(ctx, &submission{build: func(g *group) ([]storage.Change, error) {
		return g.removeSchemas(nil, []string{id})
	}}, 1)
	if err != nil {
		return "", failed("remove schema", s.id, err)
	}
	return s.tokenAt(head), nil
}

// Schema returns a schema by its id; "" is the current one without namespace.
func (s *Store) Schema(ctx context.Context, id string) (*Schema, error) {
	const op = "read schema"
	v, err := s.view(ctx)
	if err != nil {
		return nil, failed(op, s.id, err)
	}
	r, err := s.ready(ctx, v, "", id)
	if err != nil {
		return nil, failed(op, s.id, err)
	}
	doc, err := s.schemaBody(ctx, r.info)
	if err != nil {
		return nil, failed(op, s.id, err)
	}
	return &Schema{r.info.info(), SchemaSource{doc.Model, doc.Dialect, doc.Source}, r.schema}, nil
}

// Compiled returns a schema's compiled form by its id, as Schema does, without
// reading how it was written; "" is the current one without namespace. It is
// cheap enough for every request.
func (s *Store) Compiled(ctx context.Context, id string) (SchemaInfo, *schema.Schema, error) {
	v, err := s.view(ctx)
	if err != nil {
		return SchemaInfo{}, nil, failed("find schema", s.id, err)
	}
	r, err := s.ready(ctx, v, "", id)
	if err != nil {
		return SchemaInfo{}, nil, failed("find schema", s.id, err)
	}
	return r.info.info(), r.schema, nil
}

// CurrentSchema returns the current schema of a namespace.
func (s *Store) CurrentSchema(ctx context.Context, namespace string) (SchemaInfo, error) {
	v, err := s.view(ctx)
	if err != nil {
		return SchemaInfo{}, failed("read schema", s.id, err)
	}
	b := v.schemas.current[namespace]
	if b == nil {
		return SchemaInfo{}, failed("read schema", s.id, fmt.Errorf("%w: none in namespace %q", ErrNoSchema, namespace))
	}
	return b.row.info(), nil
}

// Schemas returns all schemas, newest first.
func (s *Store) Schemas(ctx context.Context) ([]SchemaInfo, error) {
	v, err := s.view(ctx)
	if err != nil {
		return nil, failed("list schemas", s.id, err)
	}
	infos := make([]SchemaInfo, 0, len(v.schemas.rows))
	for i := len(v.schemas.rows) - 1; i >= 0; i-- {
		infos = append(infos, v.schemas.rows[i].info())
	}
	return infos, nil
}

// schemaKey names a schema among all stores'.
type schemaKey struct {
	store       storage.StoreID
	incarnation storage.Incarnation
	id          string
}

// schemaCache keeps the compiled schemas that were asked last. It knows no
// lineage, so that it keeps no dropped store's memory alive.
type schemaCache struct {
	max   int
	mu    sync.Mutex
	order list.List // of cachedSchema, newest first
	at    map[schemaKey]*list.Element
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
	for c.order.Len() > c.max {
		old := c.order.Back()
		delete(c.at, old.Value.(cachedSchema).key)
		c.order.Remove(old)
	}
}
