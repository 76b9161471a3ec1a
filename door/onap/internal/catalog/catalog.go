// Package catalog keeps what ONAP's policy framework administers, in a store of
// its own: types, policies, node templates, PDP groups, deployments, their audit
// and the history of operations. Its main types are [Catalog] and [World].
//
// A client finds the types and the policy of [Preloaded] before it adds one.
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
	"time"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/door/onap/internal/tosca"
	"github.com/ostiary/ostiary/internal/engine/documents"
	"github.com/ostiary/ostiary/internal/engine/journal"
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
	// A change ends with its context; reading the store is finished in any case.
	Compile func(ctx context.Context, previous any, w *World) (any, error)
	// Check checks a policy that is added or deployed. An error rejects the change.
	// Nil checks nothing.
	Check func(ctx context.Context, p *tosca.Entity, w *World) error
}

// Catalog is a catalog in a store of an engine. It is loaded when it is first
// used, and follows what other engines write. Its store is created by the first
// change. It may be used concurrently.
type Catalog struct {
	engine  *ostiary.Engine
	options Options
	// History is the history of operations.
	History History

	mu      sync.Mutex // guards the fields below
	stored  *stored    // nil before the store was found
	initial *World     // the world of a new catalog; nil before it was made
}

// stored is the replica of the store of a catalog.
type stored struct {
	store *ostiary.Store
	*documents.Replica[*World]
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
	s, err := c.find(ctx)
	if err != nil {
		return nil, err
	}
	if s == nil {
		return c.first(ctx)
	}
	at, err := s.Newest(ctx)
	if err != nil {
		return nil, err
	}
	return c.world(ctx, at)
}

// find returns the replica of the store, or nil if there is no store yet.
func (c *Catalog) find(ctx context.Context) (*stored, error) {
	store, err := c.engine.StoreByAlias(ctx, StoreDoor, storeAlias)
	if errors.Is(err, authz.ErrNoStore) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stored == nil || c.stored.store != store {
		c.stored = &stored{store, documents.New(store, c.form())}
	}
	return c.stored, nil
}

// create returns the replica of the store, which it creates if there is none.
func (c *Catalog) create(ctx context.Context) (*stored, error) {
	err := journal.Beforehand(ctx, func(ctx context.Context) error {
		_, err := c.engine.CreateStore(ctx, ostiary.CreateStoreRequest{Name: "ONAP policies", Aliases: map[string]string{StoreDoor: storeAlias}})
		return err
	})
	if err != nil && !errors.Is(err, authz.ErrStoreExists) { // another engine may have created it
		return nil, err
	}
	s, err := c.find(ctx)
	if err == nil && s == nil {
		err = authz.ErrNoStore
	}
	return s, err
}

// world returns the world of a revision of the store: that of a new catalog as long
// as the store has no entry.
func (c *Catalog) world(ctx context.Context, at *documents.At[*World]) (*World, error) {
	if at.Revision > 0 {
		return at.Value, nil
	}
	return c.first(ctx)
}

// first returns the world of a new catalog. Its documents are not stored yet.
func (c *Catalog) first(ctx context.Context) (*World, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.initial != nil {
		return c.initial, nil
	}
	d := &draft{World: *newWorld(), now: c.Now()}
	for _, t := range c.options.Preload {
		if err := d.addTemplate(t); err != nil {
			return nil, fmt.Errorf("preload: %w", err)
		}
	}
	g := defaultGroup()
	g.Subgroups[0].Policies = c.options.Deployed
	d.putGroup(g)
	d.unstored = d.documents
	w, err := c.compile(ctx, nil, &d.World)
	c.initial = w
	return w, err
}

// compile sets the compiled policies of a world. previous is an earlier one, or nil.
func (c *Catalog) compile(ctx context.Context, previous, w *World) (*World, error) {
	if c.options.Compile == nil {
		return w, nil
	}
	var old any
	if previous != nil {
		old = previous.Compiled
	}
	next := *w
	var err error
	if next.Compiled, err = c.options.Compile(context.WithoutCancel(ctx), old, w); err != nil {
		return nil, fmt.Errorf("compile the deployed policies: %w", err)
	}
	return &next, nil
}

// change makes the next world. It calls edit with a draft of the newest world,
// compiles the draft, writes its documents and publishes it. If edit fails,
// nothing changes. edit is called again if the store has changed meanwhile.
func (c *Catalog) change(ctx context.Context, edit func(d *draft) error) error {
	s, err := c.find(ctx)
	if err != nil {
		return err
	}
	if s == nil {
		// A change that is refused, or changes nothing, does not create the store.
		w, err := c.first(ctx)
		if err != nil {
			return err
		}
		if request, _, err := c.decide(ctx, w, edit); request == nil || err != nil {
			return err
		}
		if s, err = c.create(ctx); err != nil {
			return err
		}
	}
	_, err = s.Change(ctx, func(base *documents.At[*World]) (*authz.WriteRequest, *World, error) {
		w, err := c.world(ctx, base)
		if err != nil {
			return nil, nil, err
		}
		return c.decide(ctx, w, edit)
	})
	return err
}

// decide returns the write of a change, and the world after it. The write is nil if
// edit changes nothing.
func (c *Catalog) decide(ctx context.Context, old *World, edit func(d *draft) error) (*authz.WriteRequest, *World, error) {
	d := old.draft(c.Now())
	if check := c.options.Check; check != nil {
		d.check = func(p *tosca.Entity) error { return rejected(ctx, check(ctx, p, &d.World)) }
	}
	if err := edit(d); err != nil {
		return nil, nil, err
	}
	if len(d.documents) == 0 && len(d.removed) == 0 {
		return nil, nil, nil
	}
	if !d.onlyOperations && c.options.Compile != nil {
		var err error
		if d.Compiled, err = c.options.Compile(ctx, old.Compiled, &d.World); err != nil {
			return nil, nil, rejected(ctx, err)
		}
	}
	put, remove := withInitial(old.unstored, d.documents, d.removed)
	return &authz.WriteRequest{Documents: put, RemoveDocuments: remove}, &d.World, nil
}

// rejected returns the error of a change that the policies reject because of err, or
// authz.ErrCanceled if err is that of ctx, which has ended. It returns nil if err is.
func rejected(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil && errors.Is(err, ctx.Err()):
		return fmt.Errorf("%w: reading a policy: %w", authz.ErrCanceled, err)
	}
	return &Error{Kind: Invalid, Text: err.Error()}
}

// withInitial adds the documents of a new catalog to its first write, except
// those that the write replaces or removes.
func withInitial(initial, put []authz.Document, remove []authz.DocumentKey) ([]authz.Document, []authz.DocumentKey) {
	if len(initial) == 0 {
		return put, remove
	}
	changed := map[authz.DocumentKey]bool{}
	for _, d := range put {
		changed[authz.DocumentKey{Kind: d.Kind, Key: d.Key}] = true
	}
	for _, k := range remove {
		changed[k] = true
	}
	all := put[:len(put):len(put)]
	for _, d := range initial {
		if !changed[authz.DocumentKey{Kind: d.Kind, Key: d.Key}] {
			all = append(all, d)
		}
	}
	return all, nil // nothing is stored that could be removed
}
