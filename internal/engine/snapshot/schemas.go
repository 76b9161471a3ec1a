package snapshot

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/internal/engine/eval"
	"github.com/ostiary/ostiary/internal/engine/graph"
	"github.com/ostiary/ostiary/schema"
	"github.com/ostiary/ostiary/storage"
)

// schemaInfoOf reads the description from a document's row: the key is the id,
// and the only secondary key is the namespace.
func schemaInfoOf(r storage.DocumentRow) authz.SchemaInfo {
	info := authz.SchemaInfo{ID: r.Key, Created: r.CreatedAt.Time(), Revision: r.Created}
	if len(r.Secondary) > 0 {
		info.Namespace = r.Secondary[0]
	}
	return info
}

// schemaSet is the schemas of a view. The newest of each namespace is its
// current one. A set never changes, except that schemas are bound on first use;
// successive views share it.
type schemaSet struct {
	lineage *graph.Graph
	rows    []authz.SchemaInfo // in the order in which they were written
	current map[string]*currentSchema
	// only is current[""] if there is no other namespace. It saves most questions
	// the lookup.
	only *currentSchema

	mu          sync.Mutex
	others      map[string]*BoundSchema // by id: bound schemas that are not current
	othersBytes int
}

// othersMax is how many schemas that are not current a set keeps bound.
const othersMax = 32

// bytes estimates the memory of the bound current schemas of the set.
func (set *schemaSet) bytes() (n int) {
	for _, b := range set.current {
		if r := b.bound.Load(); r != nil {
			n += r.Schema.Bytes()
		}
	}
	return n
}

// currentSchema is the current schema of a namespace. It is bound on first use.
type currentSchema struct {
	info  authz.SchemaInfo
	bound atomic.Pointer[BoundSchema]
	mu    sync.Mutex // held while it is bound
}

// BoundSchema is a compiled schema joined with the graph's numbers of its kinds.
// It is valid for all views of a lineage and safe for concurrent use.
type BoundSchema struct {
	// Info describes the schema.
	Info authz.SchemaInfo
	// Schema is the compiled form.
	Schema *schema.Schema
	// Binding evaluates questions.
	Binding *eval.Binding
	// Timed is true if answers may depend on the time even where no tuple expires.
	Timed bool
}

// row returns the description of a schema, or nil.
func (set *schemaSet) row(id string) *authz.SchemaInfo {
	for i := range set.rows {
		if set.rows[i].ID == id {
			return &set.rows[i]
		}
	}
	return nil
}

// add adds a row unless the set has it. The set is not shared yet.
func (set *schemaSet) add(info authz.SchemaInfo) {
	if set.row(info.ID) == nil {
		set.rows = append(set.rows, info)
	}
}

// sort orders the rows by the revision that wrote them.
func (set *schemaSet) sort() {
	slices.SortFunc(set.rows, func(a, b authz.SchemaInfo) int { return cmp.Compare(a.Revision, b.Revision) })
}

// chooseCurrent fills in current and only. It takes over what an earlier set,
// which may be nil, has compiled or bound.
func (set *schemaSet) chooseCurrent(earlier *schemaSet) {
	set.current = map[string]*currentSchema{}
	newest := map[string]authz.SchemaInfo{}
	for _, r := range set.rows {
		if old, ok := newest[r.Namespace]; !ok || r.Revision >= old.Revision {
			newest[r.Namespace] = r
		}
	}
	for ns, info := range newest {
		b := &currentSchema{info: info}
		if earlier != nil {
			if old := earlier.current[ns]; old != nil && old.info.ID == info.ID {
				if earlier.lineage == set.lineage {
					b = old
				} else if bound := old.bound.Load(); bound != nil {
					// A compiled schema is valid for every lineage, a binding is not.
					if again, err := bindSchema(info, bound.Schema, set.lineage); err == nil {
						b.bound.Store(again)
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

// with returns a set that has one schema more.
func (set *schemaSet) with(info authz.SchemaInfo) *schemaSet {
	next := &schemaSet{lineage: set.lineage, rows: append(set.rows[:len(set.rows):len(set.rows)], info)}
	next.chooseCurrent(set)
	return next
}

// without returns a set that lacks the schema with the id.
func (set *schemaSet) without(id string) *schemaSet {
	next := &schemaSet{lineage: set.lineage}
	for _, r := range set.rows {
		if r.ID != id {
			next.rows = append(next.rows, r)
		}
	}
	next.chooseCurrent(set)
	return next
}

// SchemaFor returns the description of the current schema for a type. It
// returns false if no current schema has the type.
func (v *View) SchemaFor(typ string) (authz.SchemaInfo, bool) {
	b := v.schemas.find(typ)
	if b == nil {
		return authz.SchemaInfo{}, false
	}
	return b.info, true
}

// CurrentSchema returns the description of a namespace's current schema. It
// returns false if the namespace has no schema.
func (v *View) CurrentSchema(namespace string) (authz.SchemaInfo, bool) {
	b := v.schemas.current[namespace]
	if b == nil {
		return authz.SchemaInfo{}, false
	}
	return b.info, true
}

// Schemas returns the descriptions of all schemas, in the order in which they
// were written. The caller must not change the slice.
func (v *View) Schemas() []authz.SchemaInfo { return v.schemas.rows }

// bind is the slow path of Schema. It is called if b, the current schema for
// the type, is nil, is not bound yet, or possibly has another id.
func (t *Timeline) bind(ctx context.Context, v *View, b *currentSchema, typ, id string) (*BoundSchema, error) {
	if id != "" && (b == nil || b.info.ID != id) {
		return t.SchemaByID(ctx, v, id)
	}
	if b == nil {
		return nil, fmt.Errorf("%w: no current schema defines type %q", authz.ErrNoSchema, typ)
	}
	if r := b.bound.Load(); r != nil {
		return r, nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if r := b.bound.Load(); r != nil {
		return r, nil
	}
	r, err := t.compileSchema(ctx, v, b.info)
	if err == nil {
		b.bound.Store(r)
		t.accountAgain()
	}
	return r, err
}

// SchemaByID returns a schema that is not a current one, bound to the lineage of
// v.
func (t *Timeline) SchemaByID(ctx context.Context, v *View, id string) (*BoundSchema, error) {
	set := v.schemas
	set.mu.Lock()
	r := set.others[id]
	set.mu.Unlock()
	if r != nil {
		return r, nil
	}
	row := set.row(id)
	if row == nil {
		return nil, fmt.Errorf("%w: %q", authz.ErrNoSchema, id)
	}
	r, err := t.compileSchema(ctx, v, *row)
	if err != nil {
		return nil, err
	}
	t.Runtime.others.keep(set, r)
	return r, nil
}

// keep keeps a bound schema that is not current. If there is no room for it, the
// others are dropped. It returns the estimated memory of those that the set has then.
func (set *schemaSet) keep(r *BoundSchema, bytesMax int) (bytes int) {
	set.mu.Lock()
	defer set.mu.Unlock()
	id, bytes := r.Info.ID, r.Schema.Bytes()
	if bytes > bytesMax || set.others[id] != nil {
		return set.othersBytes
	}
	if len(set.others) >= othersMax || set.othersBytes+bytes > bytesMax || set.others == nil {
		set.others, set.othersBytes = map[string]*BoundSchema{}, 0
	}
	set.others[id] = r
	set.othersBytes += bytes
	return set.othersBytes
}

// dropOthers drops the bound schemas that are not current.
func (set *schemaSet) dropOthers() {
	set.mu.Lock()
	defer set.mu.Unlock()
	set.others, set.othersBytes = nil, 0
}

// compileSchema returns a schema bound to the lineage of v. The compiled form
// comes from the engine's cache, or from the driver.
func (t *Timeline) compileSchema(ctx context.Context, v *View, info authz.SchemaInfo) (*BoundSchema, error) {
	key := t.schemaKey(info.ID)
	compiled := t.Runtime.schemas.get(key)
	if compiled == nil {
		var err error
		if compiled, err = t.compileStored(ctx, info); err != nil {
			return nil, err
		}
		t.Runtime.schemas.put(key, compiled)
	}
	return bindSchema(info, compiled, v.schemas.lineage)
}

// compileStored reads and compiles a schema.
func (t *Timeline) compileStored(ctx context.Context, info authz.SchemaInfo) (compiled *schema.Schema, err error) {
	body, err := t.schemaBody(ctx, info)
	if err != nil {
		return nil, err
	}
	err = t.Runtime.Compilation(ctx, len(body)*CompilationFactor, func() error {
		source, err := readSchemaDocument(body)
		if err == nil {
			compiled, err = schema.CompileContext(ctx, source.Model, t.Runtime.Conditions)
		}
		return err
	})
	return compiled, err
}

// SchemaSource reads a schema as it was written.
func (t *Timeline) SchemaSource(ctx context.Context, info authz.SchemaInfo) (authz.SchemaSource, error) {
	body, err := t.schemaBody(ctx, info)
	if err != nil {
		return authz.SchemaSource{}, err
	}
	return readSchemaDocument(body)
}

// schemaBody reads the document of a schema. The document of a schema that was
// removed later is found only in the log.
func (t *Timeline) schemaBody(ctx context.Context, info authz.SchemaInfo) ([]byte, error) {
	d, err := t.Runtime.Driver.Document(ctx, t.ID, SchemaKind, info.ID)
	if err == nil {
		return d.Body, nil
	}
	if !errors.Is(err, storage.ErrNoDocument) {
		return nil, err
	}
	for e, err := range t.Runtime.Driver.Entries(ctx, t.ID, info.Revision) {
		if err != nil {
			return nil, err
		}
		for _, c := range e.Changes {
			if c.Kind == storage.DocumentPut && c.Document.Kind == SchemaKind && c.Document.Key == info.ID {
				return c.Document.Body, nil
			}
		}
		break
	}
	return nil, t.ConfirmRead(ctx, fmt.Errorf("%w: %q", authz.ErrNoSchema, info.ID))
}

// bindSchema binds a compiled schema to a lineage. It gives numbers to all kinds
// of the schema, so that the binding is valid for every view of the lineage.
func bindSchema(info authz.SchemaInfo, compiled *schema.Schema, lineage *graph.Graph) (*BoundSchema, error) {
	r := interner{View: lineage.View(), lineage: lineage}
	b := eval.Bind(compiled, &r)
	if r.err != nil {
		return nil, r.err
	}
	return &BoundSchema{Info: info, Schema: compiled, Binding: b, Timed: len(compiled.Conditions) > 0}, nil
}

// interner is an eval.Reader that gives a number to every kind that it is asked
// for.
type interner struct {
	*graph.View
	lineage *graph.Graph
	err     error // the first failure
}

// Kind returns the number of the kind in the lineage, which may be newer than
// the view.
func (r *interner) Kind(k graph.KindName) (graph.Kind, bool) {
	n, err := r.lineage.Intern(k)
	if err != nil {
		r.err = err
		return 0, false
	}
	return n, true
}
