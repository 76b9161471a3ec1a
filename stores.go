package ostiary

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"sync"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/internal/engine/errs"
	"github.com/ostiary/ostiary/internal/engine/journal"
	"github.com/ostiary/ostiary/internal/engine/snapshot"
	"github.com/ostiary/ostiary/internal/tool/turns"
	"github.com/ostiary/ostiary/storage"
)

// CreateStoreRequest describes a new store.
type CreateStoreRequest struct {
	// Name is shown to people. It need not be unique: [Engine.StoresByName] finds the
	// stores with a name, and [Engine.StoreByAlias] the store with an alias, which is unique.
	Name string
	// Aliases maps the name of a door to the id by which that door knows the store.
	Aliases map[string]string
	// ID is the id of the store. The zero id asks for a new one.
	ID storage.StoreID
}

// CreateStore creates an empty store. It fails with [authz.ErrStoreExists] if the id or
// an alias is in use.
func (e *Engine) CreateStore(ctx context.Context, r CreateStoreRequest) (*Store, error) {
	const op = "create store"
	if e.runtime.Closed() {
		return nil, errs.Wrap(op, r.ID, authz.ErrClosed)
	}
	if err := validNames(r.Name, r.Aliases); err != nil {
		return nil, errs.Wrap(op, r.ID, err)
	}
	now, asked := e.runtime.Now(), r.ID
	if r.ID == (storage.StoreID{}) {
		r.ID = storage.NewID(now)
	}
	number := journal.Of(ctx).NextStore()
	info := storage.StoreInfo{ID: r.ID, Incarnation: number.Incarnation(), Name: r.Name,
		Aliases: maps.Clone(r.Aliases), Created: now}
	if err := e.guard.check(ctx, authz.RightAdmin, info); err != nil {
		return nil, errs.Wrap(op, r.ID, err)
	}
	if err := e.mayName(ctx, asked, storage.StoreInfo{}, info); err != nil {
		return nil, errs.Wrap(op, r.ID, err)
	}
	if err := e.runtime.BeforeWrite(ctx); err != nil {
		return nil, errs.Wrap(op, r.ID, err)
	}
	if s, err := e.createdBefore(ctx, number, asked, info); s != nil || err != nil {
		return s, errs.Wrap(op, r.ID, err)
	}
	if err := e.roomToCreate(ctx, info); err != nil {
		return nil, errs.Wrap(op, r.ID, err)
	}
	done, err := e.creations.begin(ctx, e.runtime)
	if err != nil {
		return nil, errs.Wrap(op, r.ID, err)
	}
	defer done()
	err = e.runtime.Driver.CreateStore(ctx, info)
	journal.Of(ctx).Note(r.ID, err)
	if err != nil {
		return nil, errs.Wrap(op, r.ID, err)
	}
	return e.handle(info), nil
}

// roomToCreate returns why Options.Room refuses the creation of a store, or nil. An alias that
// another store has comes first: callers create a store to find the one that is there.
func (e *Engine) roomToCreate(ctx context.Context, info storage.StoreInfo) error {
	refused := e.runtime.Room(catalogBytes, false)
	if refused == nil {
		return nil
	}
	for door, alias := range info.Aliases {
		if _, err := e.runtime.Driver.StoreByAlias(ctx, door, alias); err == nil {
			return storage.ErrExists
		}
	}
	return refused
}

// catalogBytes is about how much a change of a store's description takes on disk.
const catalogBytes = 1 << 10

// nameAlias is the door of the alias that [Engine.OpenStore] gives to a store.
const nameAlias = "name"

// OpenStore returns the store with a name, and creates it if there is none: a program calls it
// at each start. Several calls at the same time, also on several nodes, create one store. A
// store that OpenStore has created is found by that name for ever, also when it is renamed.
// OpenStore fails with [authz.ErrInvalidRequest] if the name is empty, or if several stores
// that [Engine.CreateStore] has created have it.
func (e *Engine) OpenStore(ctx context.Context, name string) (*Store, error) {
	const op = "open store"
	if name == "" {
		return nil, errs.Wrap(op, storage.StoreID{}, fmt.Errorf("%w: the name is empty", authz.ErrInvalidRequest))
	}
	s, err := e.StoreByAlias(ctx, nameAlias, name)
	if !errors.Is(err, authz.ErrNoStore) {
		return s, err
	}
	var found []storage.StoreID
	for info, err := range e.StoresByName(ctx, name, storage.StoreID{}) {
		if err != nil {
			return nil, err
		}
		if found = append(found, info.ID); len(found) > 1 {
			return nil, errs.Wrap(op, storage.StoreID{}, fmt.Errorf("%w: several stores are called %.100q, among them %s and %s: open one by its id", authz.ErrInvalidRequest, name, found[0], found[1]))
		}
	}
	if len(found) == 1 {
		return e.Store(ctx, found[0])
	}
	s, err = e.CreateStore(ctx, CreateStoreRequest{Name: name, Aliases: map[string]string{nameAlias: name}})
	if errors.Is(err, authz.ErrStoreExists) { // another call was quicker
		return e.StoreByAlias(ctx, nameAlias, name)
	}
	return s, err
}

// creations are the stores that an engine is creating, to check Bounds.Stores.
type creations struct {
	mu      sync.Mutex
	ended   sync.Cond // a creation has ended; its lock is mu
	running int
}

// begin registers a store that is about to be created. It fails if the driver has
// Bounds.Stores stores already, with those that are being created. The caller calls
// done at the end.
func (c *creations) begin(ctx context.Context, r *snapshot.Runtime) (done func(), err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		n, err := r.Driver.CountStores(ctx)
		if err != nil {
			return nil, err
		}
		err = errs.CheckBound("Stores", n+c.running+1, r.Bounds.Stores)
		if err == nil {
			break
		}
		if c.running == 0 {
			return nil, err
		}
		// A store that was just created may be counted twice, so only a count without
		// creations decides.
		c.ended.Wait()
	}
	c.running++
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.running--
		c.ended.Broadcast()
	}, nil
}

// Store returns a store by its id, or [authz.ErrNoStore], also if another node has deleted it. It
// does not load the store. It fails with [authz.ErrForbidden] if the caller of ctx may not read the
// store; see [authz.WithAccess].
func (e *Engine) Store(ctx context.Context, id storage.StoreID) (*Store, error) {
	return e.StoreAt(ctx, id, authz.Acknowledged())
}

// StoreAt is [Engine.Store] for a read with a consistency: with [authz.MinimizeLatency] it does not
// wait for what another node has changed.
func (e *Engine) StoreAt(ctx context.Context, id storage.StoreID, at authz.Consistency) (*Store, error) {
	const op = "find store"
	s, err := e.store(ctx, op, id, at)
	return found(ctx, op, s, err, storage.StoreInfo{ID: id})
}

func (e *Engine) store(ctx context.Context, op string, id storage.StoreID, at authz.Consistency) (*Store, error) {
	if err := e.beforeLookup(ctx, at); err != nil {
		return nil, errs.Wrap(op, id, err)
	}
	e.mu.RLock()
	s := e.stores[id]
	e.mu.RUnlock()
	if s != nil && s.timeline.Open() {
		switch err := s.timeline.ConfirmStore(ctx); {
		case err == nil:
			return s, nil
		case !errors.Is(err, storage.ErrNoStore):
			return nil, errs.Wrap(op, id, err)
		}
	}
	info, err := e.runtime.Driver.Store(ctx, id)
	if errors.Is(err, storage.ErrNoStore) && at == authz.MinimizeLatency() {
		// Another node may have created it a moment ago.
		if err = e.runtime.BeforeRead(ctx); err == nil {
			info, err = e.runtime.Driver.Store(ctx, id)
		}
	}
	if err != nil {
		if gone := e.deletedBefore(ctx, id, err); gone != nil {
			return gone, nil
		}
		return nil, errs.Wrap(op, id, err)
	}
	return e.handle(info), nil
}

// beforeLookup returns when a read with a consistency may look a store up. It fails if the
// engine is closed.
func (e *Engine) beforeLookup(ctx context.Context, at authz.Consistency) error {
	switch {
	case e.runtime.Closed():
		return authz.ErrClosed
	case at == authz.MinimizeLatency():
		return nil
	}
	return e.runtime.BeforeRead(ctx)
}

// Exists returns nil if a store of this engine exists. It fails with [authz.ErrNoStore] if the
// store was deleted by this engine, or by another one as far as this engine has followed
// it. It reads the driver only after a store was updated or deleted, so a caller can use
// it with each request.
func (e *Engine) Exists(ctx context.Context, s *Store) error {
	err := s.timeline.Err()
	if err == nil {
		err = s.timeline.ConfirmStore(ctx)
	}
	if err == nil {
		err = journal.Enter(ctx, s.timeline.Info())
	}
	return errs.Wrap("find store", s.ID(), err)
}

// StoreByAlias returns the store that a door knows by an alias, or [authz.ErrNoStore]. It fails
// with [authz.ErrForbidden] if the caller of ctx may not read the store; see [authz.WithAccess].
func (e *Engine) StoreByAlias(ctx context.Context, door, alias string) (*Store, error) {
	return e.StoreByAliasAt(ctx, door, alias, authz.Acknowledged())
}

// StoreByAliasAt is [Engine.StoreByAlias] for a read with a consistency: with
// [authz.MinimizeLatency] it does not wait for what another node has changed.
func (e *Engine) StoreByAliasAt(ctx context.Context, door, alias string, at authz.Consistency) (*Store, error) {
	const op = "find store"
	s, err := e.storeByAlias(ctx, op, door, alias, at)
	return found(ctx, op, s, err, storage.StoreInfo{Aliases: map[string]string{door: alias}})
}

func (e *Engine) storeByAlias(ctx context.Context, op, door, alias string, at authz.Consistency) (*Store, error) {
	if err := e.beforeLookup(ctx, at); err != nil {
		return nil, errs.Wrap(op, storage.StoreID{}, err)
	}
	// The version is read before the alias, so that a change in between makes the cached
	// store outdated.
	key, version, creations := aliasKey{door, alias}, e.runtime.Driver.CatalogChanges().Load(), e.runtime.Driver.Creations().Load()
	if s := e.aliases.get(key, version); s != nil && s.timeline.Open() {
		_, err := e.aliasOfDeleted(ctx, door, alias, nil)
		return s, errs.Wrap(op, s.ID(), err)
	}
	var info storage.StoreInfo
	err := e.aliases.missing(key, version, creations)
	if err == nil {
		info, err = e.runtime.Driver.StoreByAlias(ctx, door, alias)
		if errors.Is(err, storage.ErrNoStore) {
			e.aliases.miss(key, version, creations, err)
		}
	}
	if gone, why := e.aliasOfDeleted(ctx, door, alias, err); gone != nil || why != nil {
		return gone, errs.Wrap(op, storage.StoreID{}, why)
	}
	s := e.handle(info)
	e.aliases.put(key, version, s)
	return s, nil
}

// storesPage is how many stores are read at once, so that no read of the driver
// is open while the consumer of Stores works, and storesPageFirst how many at first.
const (
	storesPage      = 256
	storesPageFirst = 64
)

// stepsPerStore is the number of steps of turns.Part that a store of a page takes.
const stepsPerStore = 40

// Stores yields the descriptions of all stores whose ids follow after, in the
// order of their ids. The zero id begins with the first store. Stores that are
// created or deleted meanwhile may be missing or included.
func (e *Engine) Stores(ctx context.Context, after storage.StoreID) iter.Seq2[storage.StoreInfo, error] {
	return func(yield func(storage.StoreInfo, error) bool) {
		e.storesPages(ctx, yield, func(last *storage.StoreInfo) iter.Seq2[storage.StoreInfo, error] {
			if last != nil {
				after = last.ID
			}
			return e.runtime.Driver.Stores(ctx, after)
		})
	}
}

// StoresByAlias yields the descriptions of the stores that have an alias for a door,
// in the order of these aliases. It begins with the first alias that follows after.
// Stores that are created, changed or deleted meanwhile may be missing or included.
func (e *Engine) StoresByAlias(ctx context.Context, door, after string) iter.Seq2[storage.StoreInfo, error] {
	return func(yield func(storage.StoreInfo, error) bool) {
		e.storesPages(ctx, yield, func(last *storage.StoreInfo) iter.Seq2[storage.StoreInfo, error] {
			if last != nil {
				after = last.Aliases[door]
			}
			return e.runtime.Driver.StoresByAlias(ctx, door, after)
		})
	}
}

// StoresByName yields the descriptions of the stores with a name whose ids follow
// after, in the order of their ids. The zero id begins with the first store. Stores
// that are created, changed or deleted meanwhile may be missing or included.
func (e *Engine) StoresByName(ctx context.Context, name string, after storage.StoreID) iter.Seq2[storage.StoreInfo, error] {
	return func(yield func(storage.StoreInfo, error) bool) {
		e.storesPages(ctx, yield, func(last *storage.StoreInfo) iter.Seq2[storage.StoreInfo, error] {
			if last != nil {
				after = last.ID
			}
			return e.runtime.Driver.StoresByName(ctx, name, after)
		})
	}
}

// storesPages yields the stores that read yields. It reads them in pages: the first is
// short, because many consumers need only a few. last is nil for the first page, and
// then the last store of the page before.
func (e *Engine) storesPages(ctx context.Context, yield func(storage.StoreInfo, error) bool, read func(last *storage.StoreInfo) iter.Seq2[storage.StoreInfo, error]) {
	if err := e.runtime.BeforeRead(ctx); err != nil {
		yield(storage.StoreInfo{}, errs.Wrap("list stores", storage.StoreID{}, err))
		return
	}
	var part turns.Part
	var last *storage.StoreInfo
	for size := storesPageFirst; ; size = storesPage {
		// The consumer may ask questions, so only a turn of its own request is taken.
		err := part.Step(ctx, nil, size*stepsPerStore)
		var page []storage.StoreInfo
		if err == nil {
			page, err = e.storesPage(read(last), size)
		}
		if err != nil {
			yield(storage.StoreInfo{}, errs.Wrap("list stores", storage.StoreID{}, err))
			return
		}
		for _, info := range page {
			if listed(ctx, info) && !yield(info, nil) {
				return
			}
		}
		if len(page) < size {
			return
		}
		last = &page[size-1]
	}
}

// storesPage returns the first stores of a sequence, at most size.
func (e *Engine) storesPage(all iter.Seq2[storage.StoreInfo, error], size int) (page []storage.StoreInfo, err error) {
	if e.runtime.Closed() {
		return nil, authz.ErrClosed
	}
	for info, err := range all {
		if err != nil {
			return nil, err
		}
		if page = append(page, info); len(page) == size {
			break
		}
	}
	return page, nil
}

// UpdateStore changes the name and the aliases of a store. change gets them and edits
// them in place; an error of it is returned and nothing changes. It is called again if
// another engine changes the store meanwhile.
func (e *Engine) UpdateStore(ctx context.Context, id storage.StoreID, change func(name *string, aliases map[string]string) error) error {
	const op = "update store"
	if err := e.runtime.BeforeWrite(ctx); err != nil {
		return errs.Wrap(op, id, err)
	}
	s, err := e.Store(ctx, id)
	if err != nil {
		return err
	}
	for {
		err := e.updateStore(ctx, s, change)
		if !errors.Is(err, storage.ErrChanged) || ctx.Err() != nil {
			return errs.Wrap(op, id, err)
		}
	}
}

func (e *Engine) updateStore(ctx context.Context, s *Store, change func(name *string, aliases map[string]string) error) error {
	again := journal.Of(ctx).MayHaveUpdated(s.ID())
	old, err := e.runtime.Driver.Store(ctx, s.ID())
	if err != nil {
		return uncertainIf(again && errors.Is(err, storage.ErrNoStore), err)
	}
	if err := e.guard.check(ctx, authz.RightAdmin, old); err != nil {
		return err
	}
	info := old
	if info.Aliases = maps.Clone(old.Aliases); info.Aliases == nil {
		info.Aliases = map[string]string{}
	}
	if err := change(&info.Name, info.Aliases); err != nil {
		return uncertainIf(again, err)
	}
	if err := validNames(info.Name, info.Aliases); err != nil {
		return err
	}
	if err := e.guard.check(ctx, authz.RightAdmin, info); err != nil {
		return err
	}
	if err := e.mayName(ctx, storage.StoreID{}, old, info); err != nil {
		return err
	}
	info.Incarnation = s.timeline.Incarnation
	switch made := info.Name == old.Name && maps.Equal(info.Aliases, old.Aliases); {
	case !again:
		if err = e.runtime.Room(catalogBytes, false); err != nil {
			return err
		}
		err = e.runtime.Driver.UpdateStore(ctx, old, info)
	case made:
		// Whoever has made it so, the store is as the request wants it.
		err = e.runtime.Acknowledge(ctx)
	default:
		return uncertainIf(true, errors.New("the store was changed meanwhile"))
	}
	journal.Of(ctx).Note(info.ID, err)
	if err != nil {
		return err
	}
	s.timeline.SetInfo(info)
	return nil
}

// DeleteStore deletes a store with all its data. Calls on its handles fail with
// [authz.ErrNoStore] from then on.
func (e *Engine) DeleteStore(ctx context.Context, id storage.StoreID) error {
	const op = "delete store"
	if e.runtime.Closed() {
		return errs.Wrap(op, id, authz.ErrClosed)
	}
	if err := e.runtime.BeforeWrite(ctx); err != nil {
		return errs.Wrap(op, id, err)
	}
	if known, err := e.Store(ctx, id); err != nil && !errors.Is(err, authz.ErrNoStore) {
		return err
	} else if err == nil {
		if err := known.mayChange(ctx, op, authz.RightAdmin); err != nil {
			return err
		}
		if made, err := e.deletionMade(ctx, known); made || err != nil {
			return errs.Wrap(op, id, err)
		}
	}
	if err := e.runtime.Room(catalogBytes, true); err != nil {
		return errs.Wrap(op, id, err)
	}
	e.mu.Lock()
	s := e.stores[id]
	delete(e.stores, id)
	e.mu.Unlock()
	if s != nil {
		lock := &s.timeline.Lock
		if err := lock.LockIdle(ctx); err != nil {
			return errs.Wrap(op, id, err)
		}
		defer lock.Unlock()
		s.timeline.Close(authz.ErrNoStore)
	}
	err := e.runtime.Driver.DeleteStore(ctx, id)
	journal.Of(ctx).Note(id, err)
	return errs.Wrap(op, id, err)
}

// handle returns the only handle of the incarnation of a store.
func (e *Engine) handle(info storage.StoreInfo) *Store {
	e.mu.Lock()
	old := e.stores[info.ID]
	if old != nil && old.timeline.Incarnation == info.Incarnation && (old.timeline.Open() || errors.Is(old.timeline.Err(), authz.ErrHistory)) {
		e.mu.Unlock()
		return old
	}
	s := newStore(e, info)
	e.stores[info.ID] = s
	e.mu.Unlock()
	if old != nil { // another process has deleted the store and created it again
		old.timeline.Close(authz.ErrNoStore)
	}
	return s
}

func validNames(name string, aliases map[string]string) error {
	if err := errs.CheckBound("NameBytesMax", len(name), authz.NameBytesMax); err != nil {
		return err
	}
	if err := errs.CheckBound("AliasesMax", len(aliases), authz.AliasesMax); err != nil {
		return err
	}
	for door, alias := range aliases {
		if door == "" || alias == "" {
			return fmt.Errorf("%w: empty alias or door", authz.ErrInvalidRequest)
		}
		if err := errs.CheckBound("NameBytesMax", max(len(door), len(alias)), authz.NameBytesMax); err != nil {
			return err
		}
	}
	return nil
}

// aliasesMax bounds an aliasCache. When it is full, it is emptied.
const aliasesMax = 10_000

// aliasCache caches which store an alias means. Doors whose protocol has no
// store ids look up the alias with every request.
type aliasCache struct {
	mu      sync.RWMutex
	version uint64 // CatalogChanges at the time of stores
	stores  map[aliasKey]*Store
	// missed are the errors for aliases that no store had, at the time of missedAt:
	// CatalogChanges and Creations. Callers choose such aliases, so there are few.
	missed   map[aliasKey]error
	missedAt [2]uint64
}

// missedMax bounds the aliases without a store in an aliasCache. When they are more, all are
// forgotten.
const missedMax = 100

type aliasKey struct{ door, alias string }

// get returns the cached store, or nil.
func (a *aliasCache) get(k aliasKey, version uint64) *Store {
	a.mu.RLock()
	defer a.mu.RUnlock()
	if a.version != version {
		return nil
	}
	return a.stores[k]
}

func (a *aliasCache) put(k aliasKey, version uint64, s *Store) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.version != version || a.stores == nil || len(a.stores) >= aliasesMax {
		a.version, a.stores = version, map[aliasKey]*Store{}
	}
	a.stores[k] = s
}

// missing returns the cached error of an alias that no store has, or nil.
func (a *aliasCache) missing(k aliasKey, version, creations uint64) error {
	a.mu.RLock()
	defer a.mu.RUnlock()
	if a.missedAt != [2]uint64{version, creations} {
		return nil
	}
	return a.missed[k]
}

// miss caches the error of an alias that no store has.
func (a *aliasCache) miss(k aliasKey, version, creations uint64, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	at := [2]uint64{version, creations}
	if a.missedAt != at || a.missed == nil || len(a.missed) >= missedMax {
		a.missedAt, a.missed = at, map[aliasKey]error{}
	}
	a.missed[k] = err
}
