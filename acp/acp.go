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
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/storage"
)

// Door is the door name of the store aliases that hold [Options].Name.
const Door = "acp"

// Options are the settings of an [Engine]. The zero value keeps everything in
// memory.
type Options struct {
	// Driver stores the data: storage/memory, storage/pebble, or storage/kv over
	// the database's own key-value store. Nil makes a new driver in memory. The
	// caller closes a driver that it passes in.
	Driver storage.Driver
	// Engine, if set, is used instead of a new engine over Driver, so that other
	// doors see the same store. Its bounds apply, and the caller closes it.
	Engine *ostiary.Engine
	// Name is the name of the policy collection within Driver or Engine. The
	// default is "default".
	Name string
	// Clock returns the current time. The default is [time.Now]. An Engine that is
	// passed in uses its own clock for the times that it stores.
	Clock func() time.Time
	// Event, if not nil, is called after each change, on the goroutine that made
	// it, without a lock. Events of several goroutines may arrive in a different
	// order than the changes were made; Event.Token gives that order.
	Event func(Event)
	// BatchMax is the largest number of operations in a [Batch], of objects in
	// [Engine.CheckMany], and of objects and actors in [Engine.Catalogue]. The default is 100,000. An Engine that is passed in has
	// smaller bounds of its own. A log entry holds at most 16 MiB, which is about
	// 60,000 registrations.
	BatchMax int
}

// Engine stores policies, registrations and relationships, and decides about
// access. All methods are safe for concurrent use. It starts no goroutine.
//
// Several Engines may use a collection, each over an [ostiary.Engine] of its own on
// one driver. What one changes, the others see as soon as their engine has followed
// the log. A change of relationships that another Engine makes meanwhile does not wait
// for one that revokes authority.
type Engine struct {
	opts Options
	// run is the open collection; nil before Start and after Close.
	run atomic.Pointer[running]
	// lifecycle serializes Start, Close and ResetState.
	lifecycle sync.Mutex
	// authority protects the time between checking a caller's authority and
	// writing the change. A change holds it for reading; a change that may revoke
	// authority holds it for writing until it is stored. So no change is made with
	// an authority that was revoked before the change began.
	authority sync.RWMutex
	// dids caches valid identities: checking a key costs more than a registration.
	dids didCache
	// plans recycles the plans of finished changes.
	plans sync.Pool // of *plan, empty
}

// running is the state of a started engine.
type running struct {
	engine *ostiary.Engine
	owned  bool // Close closes engine too
	store  *ostiary.Store
	tables atomic.Pointer[map[string]*table] // cached policies by id; replaced, never changed
	mu     sync.Mutex                        // serializes replacing tables
}

// tablesMax is the number of cached policies. When it is reached, the cache is
// emptied.
const tablesMax = 10_000

// New returns an engine that is not started. See [Engine.Start].
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

// Open returns a started engine. It fails as [Engine.Start] does.
func Open(ctx context.Context, o Options) (*Engine, error) {
	e := New(o)
	return e, e.Start(ctx)
}

// Start opens the collection, and creates it if it does not exist. It fails with
// [ErrStarted] if the engine is already started.
func (e *Engine) Start(ctx context.Context) error {
	e.lifecycle.Lock()
	defer e.lifecycle.Unlock()
	if e.run.Load() != nil {
		return failed("start", ErrStarted)
	}
	r := &running{engine: e.opts.Engine}
	if r.engine == nil {
		// A registration is one tuple and one precondition.
		b := authz.Bounds{WriteTuples: e.opts.BatchMax, Preconditions: 2 * e.opts.BatchMax, BatchItems: e.opts.BatchMax}
		own, err := ostiary.Open(ctx, ostiary.Options{Driver: e.opts.Driver, Clock: e.opts.Clock, Bounds: b})
		if err != nil {
			return failed("start", err)
		}
		r.engine, r.owned = own, true
	}
	if err := r.openStore(ctx, e.opts.Name); err != nil {
		return failed("start", errors.Join(withKind(err), withKind(r.close())))
	}
	e.run.Store(r)
	return nil
}

// openStore finds the collection's store by its alias, or creates the store.
func (r *running) openStore(ctx context.Context, name string) error {
	s, err := r.engine.StoreByAlias(ctx, Door, name)
	if errors.Is(err, authz.ErrNoStore) {
		s, err = r.engine.CreateStore(ctx, ostiary.CreateStoreRequest{Name: name, Aliases: map[string]string{Door: name}})
		if errors.Is(err, authz.ErrStoreExists) { // another engine has created it meanwhile
			s, err = r.engine.StoreByAlias(ctx, Door, name)
		}
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

// Close stops the engine: every later call fails with [ErrClosed] until the next
// Start. Closing a closed engine does nothing.
func (e *Engine) Close() error {
	e.lifecycle.Lock()
	defer e.lifecycle.Unlock()
	r := e.run.Swap(nil)
	if r == nil {
		return nil
	}
	return failed("close", r.close())
}

// current returns the open collection. If another Engine has reset it, current opens
// the one that followed.
func (e *Engine) current(ctx context.Context) (*running, error) {
	r := e.run.Load()
	if r == nil {
		return nil, ErrClosed
	}
	err := r.engine.Exists(ctx, r.store)
	if !errors.Is(err, authz.ErrNoStore) {
		return r, err
	}
	e.lifecycle.Lock()
	defer e.lifecycle.Unlock()
	if now := e.run.Load(); now == nil {
		return nil, ErrClosed
	} else if now != r {
		return now, nil // another call has opened it
	}
	return e.reopen(ctx, r)
}

// reopen opens the collection again, because its store was deleted. The caller holds
// lifecycle.
func (e *Engine) reopen(ctx context.Context, r *running) (*running, error) {
	next := &running{engine: r.engine, owned: r.owned}
	if err := next.openStore(ctx, e.opts.Name); err != nil {
		return nil, err
	}
	e.run.Store(next)
	return next, nil
}

// ResetState permanently removes all policies, registrations and relationships.
// The policy counter restarts, so the first policy id can occur again. Calls that run
// meanwhile may fail with [ErrClosed]; so may calls of other Engines that use the
// collection, until their engine has followed.
func (e *Engine) ResetState(ctx context.Context) error {
	e.lifecycle.Lock()
	defer e.lifecycle.Unlock()
	r := e.run.Load()
	if r == nil {
		return failed("reset", ErrClosed)
	}
	err := r.engine.DeleteStore(ctx, r.store.ID())
	if err == nil || errors.Is(err, authz.ErrNoStore) { // another engine has reset it, too
		_, err = e.reopen(ctx, r)
	}
	return failed("reset", err)
}

// Store returns the store that holds the collection, for explain, watch, past
// revisions and other doors. Its types are named "policy/resource". Writing to
// it directly bypasses every rule of this package.
func (e *Engine) Store() (*ostiary.Store, error) {
	r, err := e.current(context.Background())
	if err != nil {
		return nil, failed("store", err)
	}
	return r.store, nil
}

// table returns the table of a policy, from the cache or from the store.
func (r *running) table(ctx context.Context, id string) (*table, error) {
	schema, err := r.schema(ctx, id)
	if err != nil {
		return nil, err
	}
	if t := (*r.tables.Load())[id]; t != nil && t.schema == schema {
		return t, nil
	}
	return r.loadTable(ctx, id, schema)
}

// schema returns the id of the current schema of a policy, which changes with each
// edit of its text, or "" if there is none.
func (r *running) schema(ctx context.Context, id string) (string, error) {
	info, err := r.store.CurrentSchema(ctx, id)
	if errors.Is(err, authz.ErrNoSchema) {
		return "", nil
	}
	return info.ID, err
}

// resource returns the tables of a policy and of one of its resources.
func (e *Engine) resource(ctx context.Context, policy, resource string) (*running, *table, *resourceTable, error) {
	r, err := e.current(ctx)
	if err != nil {
		return nil, nil, nil, err
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

// The document kinds that the package stores.
const (
	policyKind       = "acp.policy"
	registrationKind = "acp.registration"
	stateKind        = "acp.state"
	stateKey         = "policies"
)

// record is the stored form of a [PolicyRecord].
type record struct {
	Version int     `json:"version"`
	Creator string  `json:"creator"`
	Dialect Dialect `json:"dialect"`
	Source  string  `json:"source"`
	// Specification is empty in records that older versions wrote: it is then the
	// text's own.
	Specification string            `json:"specification,omitempty"`
	Metadata      map[string]string `json:"metadata,omitempty"`
	Created       time.Time         `json:"created"`
	Modified      time.Time         `json:"modified"`
}

const recordVersion = 1

func (p *PolicyRecord) document() (authz.Document, error) {
	body, err := json.Marshal(record{recordVersion, p.Creator, p.Dialect, p.Source, p.Specification, p.Metadata, p.Created, p.Modified})
	return authz.Document{Kind: policyKind, Key: p.ID, Body: body}, err
}

// loadTable reads a policy from the store and caches it. schema is the id of its
// schema, read before. If the policy is newer than that, the next use loads it again.
func (r *running) loadTable(ctx context.Context, id, schema string) (*table, error) {
	if len(id) != 64 {
		return nil, fmt.Errorf("%w: %q", ErrPolicyNotFound, id)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if t := (*r.tables.Load())[id]; t != nil && t.schema == schema {
		return t, nil
	}
	x, err := r.record(ctx, id)
	if err != nil {
		return nil, err
	}
	rec, err := x.parse(id)
	if err != nil {
		return nil, err
	}
	t := newTable(r.store, rec)
	t.schema = schema
	old := *r.tables.Load()
	next := map[string]*table{id: t}
	if len(old) < tablesMax {
		maps.Copy(next, old)
	}
	r.tables.Store(&next)
	return t, nil
}

// record reads the stored form of a policy.
func (r *running) record(ctx context.Context, id string) (x record, err error) {
	doc, err := r.store.Document(ctx, authz.DocumentKey{Kind: policyKind, Key: id})
	if errors.Is(err, authz.ErrNoDocument) {
		return x, fmt.Errorf("%w: %q", ErrPolicyNotFound, id)
	}
	if err != nil {
		return x, err
	}
	return readRecord(id, doc.Body)
}

func readRecord(id string, body []byte) (x record, err error) {
	if err := json.Unmarshal(body, &x); err != nil || x.Version != recordVersion {
		return x, fmt.Errorf("%w: policy %s: unsupported record version %d: %w", ErrInternal, id, x.Version, errorOr(err, authz.ErrFormat))
	}
	return x, nil
}

// policy returns a policy with its newest metadata, whose change makes no schema.
func (r *running) policy(ctx context.Context, id string) (*PolicyRecord, error) {
	t, err := r.table(ctx, id)
	if err != nil {
		return nil, err
	}
	x, err := r.record(ctx, id)
	if err != nil {
		return nil, err
	}
	if x.Source != t.record.Source { // edited meanwhile
		return x.parse(id)
	}
	rec := *t.record
	rec.Metadata, rec.Modified = x.Metadata, x.Modified
	return &rec, nil
}

// parse returns the policy of a stored form.
func (x *record) parse(id string) (*PolicyRecord, error) {
	p, err := parsePolicy(x.Source, x.Dialect, x.Specification)
	if err != nil {
		return nil, fmt.Errorf("%w: policy %s is stored but cannot be parsed: %w", ErrInternal, id, err)
	}
	return &PolicyRecord{ID: id, Policy: *p, Source: x.Source, Creator: x.Creator, Metadata: x.Metadata,
		Created: x.Created, Modified: x.Modified}, nil
}

// forget removes a policy from the cache, or all policies if id is "".
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
