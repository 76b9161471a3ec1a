package acp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/storage"
)

// Door is the name under which a store's aliases hold the names of Options.
const Door = "acp"

// Options are an Engine's settings. The zero value keeps everything in memory.
type Options struct {
	// Driver keeps the data: storage/memory, storage/kv over the database's own
	// key-value store, storage/pebble. Nil is a new one in memory; one that is
	// handed in stays its owner's to close.
	Driver storage.Driver
	// Engine is used instead of one of our own over Driver, so that other doors
	// see the same store. It stays its owner's to close, and its bounds hold.
	Engine *ostiary.Engine
	// Name names the collection of policies within Driver or Engine. Default
	// "default".
	Name string
	// Clock tells the time. Default time.Now. An Engine that is handed in has its
	// own for what it stores.
	Clock func() time.Time
	// Event, if not nil, is called for each change after it was made, by the
	// goroutine that made it, holding no lock. Changes of several goroutines may
	// come in another order than they were made in; Token tells.
	Event func(Event)
	// BatchMax bounds the operations of a batch and the objects of a CheckMany.
	// Default 100,000; an Engine that is handed in has smaller bounds of its own,
	// and an entry of the log has at most 16 MiB, some 60,000 registrations.
	BatchMax int
}

// Engine keeps policies, registrations and relationships, and decides. All
// methods are safe for concurrent use. It starts no goroutine. One Engine at a
// time works on a collection: it holds policies ready, and would not see that
// another one edits them. (Registrations and relationships it would see.)
type Engine struct {
	opts Options
	// run is what is there between Start and Close.
	run atomic.Pointer[running]
	// lifecycle is held by Start, Close and ResetState.
	lifecycle sync.Mutex
	// authority is held for reading by who uses an authority that he found, and
	// for writing by who may take one away, until it is in the store: so nobody
	// writes by an authority that was taken away before he began.
	authority sync.RWMutex
	// creation is held by who creates a policy: there is one counter.
	creation sync.Mutex
	// sound are identities that were found sound: a look at a key costs more than
	// a registration.
	sound soundDIDs
	// plans are used again by the next change.
	plans sync.Pool // of *plan, empty
}

// running is an engine that was started.
type running struct {
	engine *ostiary.Engine
	owned  bool
	store  *ostiary.Store
	tables atomic.Pointer[map[string]*table]
	mu     sync.Mutex // held by who adds to tables
}

// tablesMax is how many policies are held ready; one more forgets them all.
const tablesMax = 10_000

// New returns an engine that is not started.
func New(o Options) *Engine {
	if o.Name == "" {
		o.Name = "default"
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	if o.BatchMax <= 0 {
		o.BatchMax = 100_000
	}
	return &Engine{opts: o}
}

// Open is New and Start.
func Open(ctx context.Context, o Options) (*Engine, error) {
	e := New(o)
	return e, e.Start(ctx)
}

// Start opens the collection, or makes it where there is none. A second Start
// without Close is ErrStarted.
func (e *Engine) Start(ctx context.Context) error {
	e.lifecycle.Lock()
	defer e.lifecycle.Unlock()
	if e.run.Load() != nil {
		return failed("start", ErrStarted)
	}
	r := &running{engine: e.opts.Engine}
	if r.engine == nil {
		// A registration is one tuple and one precondition.
		b := ostiary.Bounds{WriteTuples: e.opts.BatchMax, Preconditions: 2 * e.opts.BatchMax, BatchItems: e.opts.BatchMax}
		own, err := ostiary.Open(ctx, ostiary.Options{Driver: e.opts.Driver, Clock: e.opts.Clock, Bounds: b})
		if err != nil {
			return failed("start", err)
		}
		r.engine, r.owned = own, true
	}
	if err := r.openStore(ctx, e.opts.Name); err != nil {
		return failed("start", errors.Join(err, r.close()))
	}
	e.run.Store(r)
	return nil
}

// openStore finds the collection's store by its alias, or creates it.
func (r *running) openStore(ctx context.Context, name string) error {
	s, err := r.engine.StoreByAlias(ctx, Door, name)
	if errors.Is(err, ostiary.ErrNoStore) {
		s, err = r.engine.CreateStore(ctx, ostiary.CreateStoreRequest{Name: name, Aliases: map[string]string{Door: name}})
	}
	if err != nil {
		return err
	}
	r.store = s
	r.forget("")
	return nil
}

func (r *running) close() error {
	if r.owned {
		return r.engine.Close()
	}
	return nil
}

// Close ends the engine; what comes after is ErrClosed until Start. Closing
// twice is nothing.
func (e *Engine) Close() error {
	e.lifecycle.Lock()
	defer e.lifecycle.Unlock()
	r := e.run.Swap(nil)
	if r == nil {
		return nil
	}
	return failed("close", r.close())
}

// ResetState removes all policies, registrations and relationships for good,
// and begins anew: the first id comes back.
func (e *Engine) ResetState(ctx context.Context) error {
	e.lifecycle.Lock()
	defer e.lifecycle.Unlock()
	r := e.run.Load()
	if r == nil {
		return failed("reset", ErrClosed)
	}
	if err := r.engine.DeleteStore(ctx, r.store.ID()); err != nil {
		return failed("reset", err)
	}
	next := &running{engine: r.engine, owned: r.owned}
	if err := next.openStore(ctx, e.opts.Name); err != nil {
		return failed("reset", err)
	}
	e.run.Store(next)
	return nil
}

// Store returns the store that the collection is kept in, for explain, watch,
// past revisions and other doors. Types are "policy/resource". To write to it
// directly goes round every rule of this package.
func (e *Engine) Store() (*ostiary.Store, error) {
	r := e.run.Load()
	if r == nil {
		return nil, failed("store", ErrClosed)
	}
	return r.store, nil
}

// table returns a policy's table.
func (r *running) table(ctx context.Context, id string) (*table, error) {
	if t := (*r.tables.Load())[id]; t != nil {
		return t, nil
	}
	return r.loadTable(ctx, id)
}

// resource finds a policy and one of its resources.
func (e *Engine) resource(ctx context.Context, policy, resource string) (*running, *table, *resourceTable, error) {
	r := e.run.Load()
	if r == nil {
		return nil, nil, nil, ErrClosed
	}
	t, err := r.table(ctx, policy)
	if err != nil {
		return nil, nil, nil, err
	}
	res := t.resources[resource]
	if res == nil {
		return nil, nil, nil, fmt.Errorf("%w: %q", ErrResourceNotFound, resource)
	}
	return r, t, res, nil
}

// Documents of the store.
const (
	policyKind       = "acp.policy"
	registrationKind = "acp.registration"
	stateKind        = "acp.state"
	stateKey         = "policies"
)

// record is a policy's document.
type record struct {
	Version  int               `json:"version"`
	Creator  string            `json:"creator"`
	Dialect  Dialect           `json:"dialect"`
	Source   string            `json:"source"`
	Metadata map[string]string `json:"metadata,omitempty"`
	Created  time.Time         `json:"created"`
	Modified time.Time         `json:"modified"`
}

const recordVersion = 1

func (p *PolicyRecord) document() (ostiary.Document, error) {
	body, err := json.Marshal(record{recordVersion, p.Creator, p.Dialect, p.Source, p.Metadata, p.Created, p.Modified})
	return ostiary.Document{Kind: policyKind, Key: p.ID, Body: body}, err
}

// loadTable reads a policy, and holds it ready. The store's writes go through
// forget, so what is held is what is stored.
func (r *running) loadTable(ctx context.Context, id string) (*table, error) {
	if len(id) != 64 {
		return nil, fmt.Errorf("%w: %q", ErrPolicyNotFound, id)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if t := (*r.tables.Load())[id]; t != nil {
		return t, nil
	}
	doc, err := r.store.Document(ctx, ostiary.DocumentKey{Kind: policyKind, Key: id})
	if errors.Is(err, ostiary.ErrNoDocument) {
		return nil, fmt.Errorf("%w: %q", ErrPolicyNotFound, id)
	}
	if err != nil {
		return nil, err
	}
	rec, err := readRecord(id, doc.Body)
	if err != nil {
		return nil, err
	}
	t := newTable(r.store, rec)
	old := *r.tables.Load()
	next := map[string]*table{id: t}
	if len(old) < tablesMax {
		maps.Copy(next, old)
	}
	r.tables.Store(&next)
	return t, nil
}

func readRecord(id string, body []byte) (*PolicyRecord, error) {
	var x record
	if err := json.Unmarshal(body, &x); err != nil || x.Version != recordVersion {
		return nil, fmt.Errorf("%w: policy %s: record of version %d: %w", ErrInternal, id, x.Version, errorOr(err, ostiary.ErrFormat))
	}
	p, err := ParsePolicy(x.Source, x.Dialect)
	if err != nil {
		return nil, fmt.Errorf("%w: policy %s is stored, but no longer read: %w", ErrInternal, id, err)
	}
	return &PolicyRecord{ID: id, Policy: *p, Source: x.Source, Creator: x.Creator, Metadata: x.Metadata,
		Created: x.Created, Modified: x.Modified}, nil
}

// forget drops what is held of a policy, or of all.
func (r *running) forget(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	next := map[string]*table{}
	if old := r.tables.Load(); old != nil && id != "" {
		maps.Copy(next, *old)
		delete(next, id)
	}
	r.tables.Store(&next)
}
