package ostiary

import (
	"context"
	"sync"
	"time"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/internal/engine/commit"
	"github.com/ostiary/ostiary/internal/engine/document"
	"github.com/ostiary/ostiary/internal/engine/errs"
	"github.com/ostiary/ostiary/internal/engine/query"
	"github.com/ostiary/ostiary/internal/engine/snapshot"
	"github.com/ostiary/ostiary/internal/tool/turns"
	"github.com/ostiary/ostiary/storage"
	"github.com/ostiary/ostiary/storage/memory"
)

// Engine holds stores over one driver. All methods are safe for concurrent use.
type Engine struct {
	runtime *snapshot.Runtime
	queries *query.Shared
	commits *commit.Shared
	sealer  *document.Sealer // nil without Options.SecretKey
	owned   bool             // Close closes the driver
	aliases aliasCache
	guard   guard
	// reserved is Options.Reserved.
	reserved func(door, name string) bool

	creations creations

	mu     sync.RWMutex
	stores map[storage.StoreID]*Store // handles
}

// Open returns an engine over o.Driver. It upgrades data of an older format in
// place and fails with [authz.ErrFormat] for a newer one. Stores are loaded when they
// are first used. If the caller passes a driver, a goroutine follows it: it brings the
// loaded stores to what other engines write. Another goroutine runs if o.Background is
// positive.
func Open(ctx context.Context, o Options) (*Engine, error) {
	const op = "open"
	if o.Window == 0 {
		o.Window = WindowDefault
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	e := &Engine{owned: o.Driver == nil, guard: o.Guard, reserved: o.Reserved, stores: map[storage.StoreID]*Store{}}
	e.creations.ended.L = &e.creations.mu
	if e.owned {
		o.Driver = memory.New()
	}
	if _, err := o.Driver.Format(ctx); err != nil {
		return nil, errs.Wrap(op, storage.StoreID{}, err)
	}
	if o.SecretKey != nil {
		var err error
		if e.sealer, err = document.NewSealer(*o.SecretKey); err != nil {
			return nil, errs.Wrap(op, storage.StoreID{}, err)
		}
	}
	e.runtime = snapshot.NewRuntime(snapshot.Config{Driver: o.Driver, Bounds: errs.WithDefaults(o.Bounds), Conditions: o.Conditions,
		Clock: o.Clock, Window: o.Window, LogWindow: o.LogWindow, MemoryMax: o.MemoryMax, Room: o.Room, Step: o.Record.Step})
	e.queries = query.NewShared(e.runtime, o.Record)
	e.commits = commit.NewShared(e.runtime, e.sealer)
	if !e.owned {
		e.runtime.FollowDriver(e.commits.Writer(), e.timeline)
	}
	if o.Background > 0 {
		e.runtime.Start(func() { e.collectEvery(o.Background) })
	}
	return e, nil
}

// Close ends the engine: later calls fail with [authz.ErrClosed]. It waits for the
// engine's own goroutines, and closes the driver if Open made it. It does not
// wait for calls in progress.
func (e *Engine) Close() error {
	if !e.runtime.Close() {
		return nil
	}
	e.mu.Lock()
	stores := make([]*Store, 0, len(e.stores))
	for _, s := range e.stores {
		stores = append(stores, s)
	}
	e.mu.Unlock()
	for _, s := range stores {
		s.timeline.Close(authz.ErrClosed)
	}
	if e.owned {
		return errs.Wrap("close", storage.StoreID{}, e.runtime.Driver.Close())
	}
	return nil
}

// Bounds returns the bounds of the engine, with their defaults.
func (e *Engine) Bounds() authz.Bounds { return e.runtime.Bounds }

// ShareTurn returns a context with which several calls count as one request for
// the turns that long requests take, and a function that ends it and must be called.
// A call without such a context is a request by itself. If ctx belongs to a request
// already, it is returned as it is.
func (e *Engine) ShareTurn(ctx context.Context) (context.Context, func()) {
	ctx, work := turns.With(ctx, e.runtime.Turns)
	return ctx, work.End
}

// DropIdle drops from memory the stores that were not used since the last call,
// except those of [Store.Keep], and returns their number. They are loaded again
// when they are used.
func (e *Engine) DropIdle() int { return e.runtime.DropIdle() }

// Bytes returns the estimated memory of the newest views of all loaded stores and
// of their compiled schemas.
func (e *Engine) Bytes() int64 { return e.runtime.Bytes() }

// Loaded returns the number of stores in memory.
func (e *Engine) Loaded() int { return len(e.runtime.Loaded()) }

// WritesWaiting returns the number of writes that wait for those before them in their store.
func (e *Engine) WritesWaiting() int { return e.commits.Waiting() }

// LoadedStores returns the ids of the stores in memory, in no particular order.
func (e *Engine) LoadedStores() []storage.StoreID {
	timelines := e.runtime.Loaded()
	ids := make([]storage.StoreID, len(timelines))
	for i, t := range timelines {
		ids[i] = t.ID
	}
	return ids
}

// timeline returns the timeline of a store that the engine has a handle of, or nil.
func (e *Engine) timeline(id storage.StoreID) *snapshot.Timeline {
	e.mu.RLock()
	defer e.mu.RUnlock()
	if s := e.stores[id]; s != nil {
		return s.timeline
	}
	return nil
}

// collectEvery collects all loaded stores and drops idle ones until the engine
// is closed.
func (e *Engine) collectEvery(interval time.Duration) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-e.runtime.Context().Done():
			return
		case <-tick.C:
		}
		e.DropIdle()
		for _, t := range e.runtime.Loaded() {
			e.mu.Lock()
			s := e.stores[t.ID]
			e.mu.Unlock()
			if s != nil && s.timeline == t {
				// What fails now is tried again at the next tick.
				_, _ = s.Collect(e.runtime.Context())
			}
		}
	}
}
