// Package catalog keeps what ONAP's policy framework administers, in a store of
// its own: types, policies, node templates, PDP groups, deployments, their audit
// and the history of operations. Its main types are [Catalog] and [World].
//
// All of it is in memory as an immutable [World]; a change makes the next one,
// writes its documents in one entry of the store's log, and publishes it. The
// package serves no HTTP and evaluates no policy.
package catalog

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/door/onap/tosca"
	"github.com/ostiary/ostiary/internal/turns"
)

const (
	// StoreDoor is the name of the door whose alias names the store of a catalog.
	StoreDoor  = "onap"
	storeAlias = "default"
)

// Options are the settings of a [Catalog].
type Options struct {
	// Now returns the current time. Default time.Now.
	Now func() time.Time
	// Preload are the types and policies of a new catalog.
	Preload []*tosca.Template
	// Deployed names the policies of Preload that are deployed in a new catalog.
	Deployed []ID
	// Compile prepares a world for decisions; previous is the result for the world
	// before, or nil. An error rejects the change. The result becomes
	// [World.Compiled]. Nil compiles nothing.
	// A change ends with its context; the first loading is finished in any case.
	Compile func(ctx context.Context, previous any, w *World) (any, error)
	// Check checks a policy that is added or deployed. An error rejects the change.
	// Nil checks nothing.
	Check func(ctx context.Context, p *tosca.Entity, w *World) error
}

// Catalog is a catalog in a store of an engine. It is loaded when it is first
// used, and its store is created by the first change. It may be used
// concurrently.
type Catalog struct {
	engine  *ostiary.Engine
	options Options
	// History is the history of operations.
	History History
	world   atomic.Pointer[World]

	mu    sync.Mutex // guards loading and changes
	store *ostiary.Store
	// initial are the documents of a new catalog, until its store exists.
	initial []ostiary.Document
}

// New returns the catalog in the engine's store with the alias "default" of
// "onap". It reads nothing yet.
func New(e *ostiary.Engine, o Options) *Catalog {
	if o.Now == nil {
		o.Now = time.Now
	}
	c := &Catalog{engine: e, options: o}
	c.History.catalog = c
	return c
}

// Now returns the current time.
func (c *Catalog) Now() time.Time { return c.options.Now() }

// World returns the newest world. It loads the catalog if that was not done yet,
// and fails if the store cannot be read.
func (c *Catalog) World(ctx context.Context) (*World, error) {
	if w := c.world.Load(); w != nil {
		return w, nil
	}
	turns.Pause(ctx) // the owner of the lock may wait for a turn
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.load(ctx)
}

// load loads the catalog. The caller holds the mutex.
func (c *Catalog) load(ctx context.Context) (*World, error) {
	if w := c.world.Load(); w != nil {
		return w, nil
	}
	store, err := c.engine.StoreByAlias(ctx, StoreDoor, storeAlias)
	var w *World
	switch {
	case errors.Is(err, ostiary.ErrNoStore):
		w, err = c.first()
	case err == nil:
		w, err = c.read(ctx, store)
	}
	if err != nil {
		return nil, err
	}
	if c.options.Compile != nil {
		if w.Compiled, err = c.options.Compile(context.WithoutCancel(ctx), nil, w); err != nil {
			return nil, fmt.Errorf("compile the deployed policies: %w", err)
		}
	}
	c.store = store
	c.world.Store(w)
	return w, nil
}

// first returns the world of a new catalog.
func (c *Catalog) first() (*World, error) {
	d := &draft{World: *newWorld(), now: c.Now()}
	for _, t := range c.options.Preload {
		if err := d.addTemplate(t); err != nil {
			return nil, fmt.Errorf("preload: %w", err)
		}
	}
	g := defaultGroup()
	g.Subgroups[0].Policies = c.options.Deployed
	d.putGroup(g)
	c.initial = d.documents
	return &d.World, nil
}

// change makes the next world. It calls edit with a draft of the newest world,
// compiles the draft, writes its documents and publishes it. If edit fails,
// nothing changes.
func (c *Catalog) change(ctx context.Context, edit func(d *draft) error) error {
	turns.Pause(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	old, err := c.load(ctx)
	if err != nil {
		return err
	}
	d := old.draft(c.Now())
	if check := c.options.Check; check != nil {
		d.check = func(p *tosca.Entity) error { return rejected(ctx, check(ctx, p, &d.World)) }
	}
	if err := edit(d); err != nil {
		return err
	}
	if len(d.documents) == 0 && len(d.removed) == 0 {
		return nil
	}
	if c.options.Compile != nil {
		if d.Compiled, err = c.options.Compile(ctx, old.Compiled, &d.World); err != nil {
			return rejected(ctx, err)
		}
	}
	if err := c.write(ctx, d.documents, d.removed); err != nil {
		return err
	}
	c.world.Store(&d.World)
	return nil
}

// rejected returns the error of a change that the policies reject because of err, or
// ostiary.ErrCanceled if err is that of ctx, which has ended. It returns nil if err is.
func rejected(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil && errors.Is(err, ctx.Err()):
		return fmt.Errorf("%w: reading a policy: %w", ostiary.ErrCanceled, err)
	}
	return &Error{Kind: Invalid, Text: err.Error()}
}

// write writes documents in one entry. It creates the store if there is none.
// The caller holds the mutex.
func (c *Catalog) write(ctx context.Context, put []ostiary.Document, remove []ostiary.DocumentKey) error {
	if c.store == nil {
		store, err := c.engine.CreateStore(ctx, ostiary.CreateStoreRequest{Name: "ONAP policies", Aliases: map[string]string{StoreDoor: storeAlias}})
		if err != nil {
			return err
		}
		c.store = store
	}
	put, remove = withInitial(c.initial, put, remove)
	if _, err := c.store.Write(ctx, ostiary.WriteRequest{Documents: put, RemoveDocuments: remove}); err != nil {
		return err
	}
	c.initial = nil
	return nil
}

// withInitial adds the documents of a new catalog to its first write, except
// those that the write replaces or removes.
func withInitial(initial, put []ostiary.Document, remove []ostiary.DocumentKey) ([]ostiary.Document, []ostiary.DocumentKey) {
	if len(initial) == 0 {
		return put, remove
	}
	changed := map[ostiary.DocumentKey]bool{}
	for _, d := range put {
		changed[ostiary.DocumentKey{Kind: d.Kind, Key: d.Key}] = true
	}
	for _, k := range remove {
		changed[k] = true
	}
	all := put[:len(put):len(put)]
	for _, d := range initial {
		if !changed[ostiary.DocumentKey{Kind: d.Kind, Key: d.Key}] {
			all = append(all, d)
		}
	}
	return all, nil // nothing is stored that could be removed
}
