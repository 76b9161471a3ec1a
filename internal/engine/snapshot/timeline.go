package snapshot

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/internal/engine/graph"
	"github.com/ostiary/ostiary/internal/tool/turns"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/storage"
)

// Timeline is the views of one store. It loads the newest view when it is first
// read. All methods are safe for concurrent use, except where they require the
// write lock.
type Timeline struct {
	// ID and Incarnation name the store.
	ID          storage.StoreID
	Incarnation storage.Incarnation
	// Runtime is shared by all timelines of an engine.
	Runtime *Runtime
	// Lock is the lock of the store's writers.
	Lock WriteLock

	info   atomic.Pointer[storage.StoreInfo]
	newest atomic.Pointer[View] // nil while the store is not loaded
	// served is the head of the view that was dropped last; nil if none was.
	served atomic.Pointer[storage.Head]
	used   atomic.Bool // set by readers, cleared by Runtime.DropIdle
	kept   atomic.Bool // see Keep

	// confirmed is CatalogChanges + 1 when ConfirmStore found the store, 0 before.
	confirmed atomic.Uint64
	// publishing is held while the newest view is replaced by its successor.
	publishing sync.Mutex
	// following holds one element while a goroutine follows the log.
	following chan struct{}
	awaited   awaited

	marks         markRing
	headToken     atomic.Pointer[headToken]
	past          pastCache
	subscriptions subscriptions

	mu        sync.Mutex
	loading   *loading      // nil while no load is in progress
	closed    error         // why the timeline was closed; nil while it is open
	published chan struct{} // closed by the next publication; nil while no caller waits
	bytes     int64         // number of bytes that this timeline adds to Runtime.bytes

	expiring   atomic.Bool   // a tuple with an expiry was loaded or written
	compacting chan struct{} // holds one element during a compaction
}

// NewTimeline returns the timeline of a store. It loads nothing.
func NewTimeline(r *Runtime, info storage.StoreInfo) *Timeline {
	t := &Timeline{ID: info.ID, Incarnation: info.Incarnation, Runtime: r, following: make(chan struct{}, 1),
		Lock: WriteLock{held: make(chan struct{}, 1)}, compacting: make(chan struct{}, 1)}
	t.info.Store(&info)
	return t
}

// Info returns the description of the store, as the last [Timeline.ConfirmStore] has
// read it. The caller must not change the map of aliases.
func (t *Timeline) Info() storage.StoreInfo { return *t.info.Load() }

// NoteExpiry makes [Timeline.HasExpiring] true if the tuple has an expiry.
func (t *Timeline) NoteExpiry(tuple *rel.Tuple) {
	if tuple.Expires != 0 {
		t.expiring.Store(true)
	}
}

// Loaded returns the newest view, or nil if the store is not loaded.
func (t *Timeline) Loaded() *View { return t.newest.Load() }

// Used reports whether the view was read since the last [Runtime.DropIdle].
func (t *Timeline) Used() bool { return t.used.Load() }

// Err returns why the store cannot be used: the engine is closed, or the store
// was deleted. It returns nil if the store can be used.
func (t *Timeline) Err() error {
	if t.Runtime.Closed() {
		return authz.ErrClosed
	}
	return t.closeReason()
}

// Begin begins a read that names the store to the driver: it fails as [Timeline.Err]
// and [Runtime.BeforeRead] do.
func (t *Timeline) Begin(ctx context.Context) error {
	if err := t.Err(); err != nil {
		return err
	}
	return t.Runtime.BeforeRead(ctx)
}

// closeReason returns the reason that Close was called with, or nil.
func (t *Timeline) closeReason() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.closed
}

// Open reports whether Close was not called.
func (t *Timeline) Open() bool { return t.closeReason() == nil }

// Close ends the timeline: it drops the view, and later calls and all
// subscriptions return why.
func (t *Timeline) Close(why error) {
	t.mu.Lock()
	if t.closed == nil {
		t.closed = why
	}
	t.mu.Unlock()
	t.forget()
	t.subscriptions.fail(why)
}

// ErrOutdated means that a view cannot be published, because its predecessor is no
// longer the newest view.
var ErrOutdated = errors.New("another view was published meanwhile")

// SetInfo replaces the description of the store by what the driver has got.
func (t *Timeline) SetInfo(info storage.StoreInfo) { t.info.Store(&info) }

// Publish makes v, the view that d leads to, the newest view. It fails with
// ErrOutdated if the view that d began on no longer is the newest one. kept is true
// if subscribers keep the entries.
func (t *Timeline) Publish(d *Draft, v *View, entries []storage.Entry, heads []storage.Head) (kept bool, err error) {
	t.publishing.Lock()
	defer t.publishing.Unlock()
	if t.newest.Load() != d.base {
		return false, ErrOutdated
	}
	if _, err := d.Batch.Publish(); err != nil {
		return false, err
	}
	return t.replace(d.base, v, entries, heads), nil
}

// publishCompacted makes v, a view of a new lineage with the same content, the
// newest view. It returns false if old no longer is the newest one.
func (t *Timeline) publishCompacted(old, v *View) bool {
	t.publishing.Lock()
	defer t.publishing.Unlock()
	if t.newest.Load() != old {
		return false
	}
	t.replace(old, v, nil, nil)
	return true
}

// replace makes v the newest view in place of old. It does nothing if the timeline
// was closed or dropped meanwhile. The caller holds t.publishing.
func (t *Timeline) replace(old, v *View, entries []storage.Entry, heads []storage.Head) (kept bool) {
	for _, h := range heads {
		t.marks.put(h)
	}
	t.mu.Lock()
	if t.closed != nil || !t.newest.CompareAndSwap(old, v) {
		t.mu.Unlock()
		return false
	}
	t.announce()
	if t.Runtime.MemoryMax > 0 { // otherwise Runtime.Bytes does it
		t.account(v)
	}
	t.mu.Unlock()
	kept = t.subscriptions.push(entries, heads)
	t.compactSoon(v)
	return kept
}

// announce wakes the callers that wait for a view. The caller holds t.mu.
func (t *Timeline) announce() {
	if t.published != nil {
		close(t.published)
		t.published = nil
	}
}

// account updates the engine's estimate of memory; t.mu is held. v may be nil.
func (t *Timeline) account(v *View) {
	now := int64(0)
	if v != nil {
		now = v.Graph.Bytes() + int64(v.schemas.bytes())
	}
	t.Runtime.bytes.Add(now - t.bytes)
	t.bytes = now
}

// accountAgain updates the estimate after a schema was bound, and after writes without
// a budget.
func (t *Timeline) accountAgain() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if v := t.newest.Load(); v != nil {
		t.account(v)
	}
}

// nextPublication returns a channel that the next publication closes.
func (t *Timeline) nextPublication() <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.published == nil {
		t.published = make(chan struct{})
	}
	return t.published
}

// Keep makes the view stay in memory while the store is not used.
func (t *Timeline) Keep() { t.kept.Store(true) }

// drop forgets the view, unless it is kept or a writer is active. It returns
// whether it did.
func (t *Timeline) drop() bool {
	if t.kept.Load() || !t.Lock.TryLock() {
		return false
	}
	defer t.Lock.Unlock()
	if t.Lock.Appending() {
		return false
	}
	t.forget()
	return true
}

// forget drops the view and everything derived from it; the write lock is held.
func (t *Timeline) forget() {
	t.mu.Lock()
	if v := t.newest.Swap(nil); v != nil {
		t.served.Store(&v.Head)
	}
	t.account(nil)
	t.mu.Unlock()
	t.past.clear()
	t.marks.clear()
	t.expiring.Store(false)
	t.Runtime.mu.Lock()
	delete(t.Runtime.loaded, t)
	t.Runtime.mu.Unlock()
}

// loading is a load in progress. All callers that need the view wait for it.
type loading struct {
	done chan struct{}
	err  error // set before done is closed
	// missed is true if the driver has changed the store since the state was read, and
	// waits until the change is shown. The timeline's mu guards it.
	missed bool
}

// isLoading reports whether a load is in progress.
func (t *Timeline) isLoading() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.loading != nil
}

// load is like [Timeline.Load], but waits for Bounds.LoadWait at most.
func (t *Timeline) load(ctx context.Context) (*View, error) {
	wait := t.Runtime.Bounds.LoadWait
	if wait <= 0 {
		return t.Load(ctx)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, wait, fmt.Errorf("not loaded after %v, see LoadWait", wait))
	defer cancel()
	return t.Load(ctx)
}

// Load waits until the store is loaded, and returns the newest view. It starts a
// load if none is in progress. If ctx ends first, it fails with ErrLoading, and
// the load continues.
func (t *Timeline) Load(ctx context.Context) (*View, error) {
	for {
		t.mu.Lock()
		if v := t.newest.Load(); v != nil || t.closed != nil {
			err := t.closed
			t.mu.Unlock()
			return v, err
		}
		l := t.loading
		if l == nil {
			l = &loading{done: make(chan struct{})}
			if !t.Runtime.Start(func() { t.runLoad(l) }) {
				t.mu.Unlock()
				return nil, authz.ErrClosed
			}
			t.loading = l
		}
		t.mu.Unlock()
		turns.Pause(ctx)
		select {
		case <-l.done:
			if l.err != nil {
				return nil, l.err
			}
			if v := t.newest.Load(); v != nil {
				t.used.Store(true)
				return v, nil
			}
		case <-ctx.Done():
			// The cause is text only: doors must not take the error for a passed deadline.
			return nil, fmt.Errorf("%w: %v", authz.ErrLoading, context.Cause(ctx))
		}
	}
}

// runLoad loads the store in its own goroutine.
func (t *Timeline) runLoad(l *loading) {
	v, err := t.loadView()
	t.mu.Lock()
	defer t.mu.Unlock()
	for err == nil && l.missed {
		l.missed = false
		t.mu.Unlock()
		v, err = t.advance(t.Runtime.ctx, v)
		t.mu.Lock()
	}
	t.loading = nil
	if err == nil && t.closed != nil {
		err = t.closed
	}
	if l.err = err; err == nil {
		t.newest.Store(v)
		t.announce()
		t.account(v)
		t.Runtime.mu.Lock()
		t.Runtime.loaded[t] = struct{}{}
		t.Runtime.mu.Unlock()
		t.subscriptions.fail(ErrReload)
	}
	close(l.done)
}

// ErrIncarnation is an ErrNoStore: another store has the id of the timeline. It closes
// the timeline that loads it.
var ErrIncarnation = fmt.Errorf("%w: the store was deleted, and another one was created with its id", authz.ErrNoStore)

// ConfirmRead returns err, the outcome of a read that named the store to the driver
// by its id, or the reason why the read may have used another store: since the
// timeline was made, another engine may have deleted the store, and may have created
// one with the same id. An incarnation never comes back, so a check after the read is
// enough.
func (t *Timeline) ConfirmRead(ctx context.Context, err error) error {
	if err != nil && !errors.Is(err, storage.ErrNoDocument) && !errors.Is(err, authz.ErrNoSchema) {
		return err
	}
	if err := t.ConfirmStore(ctx); err != nil {
		return err
	}
	return err
}

// ConfirmStore reads the description of the store again if a store was updated or
// deleted since the last call. If the store was deleted, it closes the timeline and
// fails with ErrNoStore.
func (t *Timeline) ConfirmStore(ctx context.Context) error {
	if !t.outdated() {
		return nil
	}
	version := t.Runtime.catalog.Load() + 1
	if err := t.checkIncarnation(ctx); err != nil {
		return err
	}
	t.confirmed.Store(version)
	return nil
}

// checkIncarnation reads the description of the store. It fails with ErrIncarnation
// if the driver has another store with the id of the timeline, and with ErrNoStore if
// it has none. In both cases it closes the timeline.
func (t *Timeline) checkIncarnation(ctx context.Context) error {
	info, err := t.Runtime.Driver.Store(ctx, t.ID)
	if err == nil && info.Incarnation != t.Incarnation {
		err = ErrIncarnation
	}
	switch {
	case err == nil:
		t.info.Store(&info)
	case errors.Is(err, ErrIncarnation):
		t.Close(err)
	case errors.Is(err, storage.ErrNoStore):
		t.Close(authz.ErrNoStore)
	}
	return err
}

// loadView reads the store's state. It waits until fewer than Bounds.Loads loads
// are in progress.
func (t *Timeline) loadView() (*View, error) {
	r := t.Runtime
	select {
	case r.loads <- struct{}{}:
	case <-r.ctx.Done():
		return nil, authz.ErrClosed
	}
	defer func() { <-r.loads }()
	if r.MemoryMax > 0 && r.Bytes() >= r.MemoryMax {
		r.DropIdle()
	}
	v, err := t.readState(r.ctx)
	if errors.Is(err, context.Canceled) {
		err = authz.ErrClosed
	}
	return v, err
}

// readState builds a view of the driver's state.
func (t *Timeline) readState(ctx context.Context) (*View, error) {
	if err := t.checkIncarnation(ctx); err != nil {
		return nil, err
	}
	st, err := t.Runtime.Driver.Load(ctx, t.ID, storage.LoadOptions{})
	if err != nil {
		return nil, err
	}
	v, err := t.build(st)
	if closing := st.Close(); err == nil {
		err = closing
	}
	if err == nil {
		err = t.continues(ctx, st.Head)
	}
	return v, err
}

// build fills a new lineage with the rows of a state.
func (t *Timeline) build(st storage.State) (*View, error) {
	lineage := graph.New(graph.Options{})
	load := lineage.Load()
	for row, err := range st.Tuples {
		if err != nil {
			return nil, err
		}
		t.NoteExpiry(&row.Tuple)
		if err := load.Add(row.Tuple); err != nil {
			return nil, err
		}
	}
	for row, err := range st.Attributes {
		if err != nil {
			return nil, err
		}
		if err := load.SetAttribute(row.Attribute); err != nil {
			return nil, err
		}
	}
	set, importing := &schemaSet{lineage: lineage}, storage.Revision(0)
	for row, err := range st.Documents {
		if err != nil {
			return nil, err
		}
		switch {
		case marksImport(row.Kind, row.Key):
			importing = row.Created
		case row.Kind == SchemaKind:
			set.rows = append(set.rows, schemaInfoOf(row))
		}
	}
	g, err := load.Finish()
	if err != nil {
		return nil, err
	}
	set.sort()
	set.chooseCurrent(nil)
	return &View{Head: st.Head, Graph: g, schemas: set, importing: importing}, nil
}
