// Package ostiary answers whether a subject may do something to an object: it
// keeps tuples, attributes and schemas durably, and answers check, list,
// expand and explain from memory, at the newest revision or at any one still
// kept. Its main types are Engine, what Open returns, and Store, one isolated
// world of data within it. It speaks no protocol, reads no model language and
// opens no file: drivers, conditions and dialects are handed in.
//
// A store is a log of entries; everything served is a view of it at a
// revision. Reads take no lock. Writers of one store are taken in groups, each
// checked on the newest view, and are durable when they return.
package ostiary

import (
	"context"
	"crypto/cipher"
	"fmt"
	"iter"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ostiary/ostiary/eval"
	"github.com/ostiary/ostiary/storage"
	"github.com/ostiary/ostiary/storage/memory"
)

// Engine holds stores over one driver. All methods are safe for concurrent
// use.
type Engine struct {
	opts   Options
	driver storage.Driver
	owned  bool // the driver is closed by Close
	writer storage.WriterID
	secret cipher.AEAD // nil without Options.SecretKey
	cache  schemaCache
	// recorder remembers decisions; nil without Options.Record.
	recorder *recorder

	// plain is what a question that says nothing besides itself is asked under,
	// where nothing hangs on the time; it is only read. envs are for the others.
	plain eval.Env
	envs  sync.Pool
	// buffers are of *[]byte, for entries that are made.
	buffers sync.Pool
	// slabs are of *slab, and writings of *writing.
	slabs, writings sync.Pool

	aliases aliases

	mu     sync.RWMutex
	stores map[storage.StoreID]*Store
	loaded map[*Store]struct{} // those with a view

	closed atomic.Bool
	bytes  atomic.Int64 // estimate of what the loaded views hold
	loads  chan struct{}

	// running counts the goroutines: loads, compactions and the background
	// collector. stop ends them.
	starting sync.Mutex // none starts once closed is set
	running  sync.WaitGroup
	ctx      context.Context
	stop     context.CancelFunc
}

// Open returns an engine over o.Driver. The driver's format is checked first:
// an older one is upgraded in place, a newer one is ErrFormat. Nothing is
// loaded until a store is asked. Open starts a goroutine only with
// o.Background.
func Open(ctx context.Context, o Options) (*Engine, error) {
	o.Bounds = o.Bounds.withDefaults()
	if o.Window == 0 {
		o.Window = WindowDefault
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	e := &Engine{opts: o, driver: o.Driver, writer: storage.NewWriterID(),
		stores: map[storage.StoreID]*Store{}, loaded: map[*Store]struct{}{}, loads: make(chan struct{}, o.Bounds.Loads),
		recorder: newRecorder(o.Record)}
	if e.driver == nil {
		e.driver, e.owned = memory.New(), true
	}
	if _, err := e.driver.Format(ctx); err != nil {
		return nil, failed("open", storage.StoreID{}, err)
	}
	if o.SecretKey != nil {
		var err error
		if e.secret, err = newSecretCipher(*o.SecretKey); err != nil {
			return nil, failed("open", storage.StoreID{}, err)
		}
		e.opts.SecretKey = nil // the cipher has it; no copy lies about
	}
	e.plain.Bounds = e.within(e.plain.Bounds)
	e.envs.New = func() any { return new(eval.Env) }
	e.slabs.New = func() any { return new(slab) }
	e.writings.New = func() any { return newWriting() }
	e.buffers.New = func() any { return new([]byte) }
	e.cache.max = o.Bounds.SchemasCached
	e.ctx, e.stop = context.WithCancel(context.Background())
	if o.Background > 0 {
		e.start(func() { e.background(o.Background) })
	}
	return e, nil
}

// start runs a task in a goroutine that Close waits for; it returns false
// after Close. e.ctx ends the task.
func (e *Engine) start(task func()) bool {
	e.starting.Lock()
	defer e.starting.Unlock()
	if e.closed.Load() {
		return false
	}
	e.running.Add(1)
	go func() {
		defer e.running.Done()
		task()
	}()
	return true
}

// Close ends the engine: what comes after is ErrClosed, what is under way ends
// by itself. It waits for the engine's own goroutines and closes the driver if
// Open made it.
func (e *Engine) Close() error {
	e.starting.Lock()
	again := e.closed.Swap(true)
	e.starting.Unlock()
	if again {
		return nil
	}
	e.stop()
	e.running.Wait()
	e.mu.Lock()
	stores := maps.Clone(e.stores)
	e.mu.Unlock()
	for _, s := range stores {
		s.close(ErrClosed)
	}
	if e.owned {
		return failed("close", storage.StoreID{}, e.driver.Close())
	}
	return nil
}

// CreateStoreRequest says what a new store is.
type CreateStoreRequest struct {
	// Name is for people.
	Name string
	// Aliases maps a door's name to the id by which that door knows the store.
	Aliases map[string]string
	// ID is the store's; the zero id is a new one.
	ID storage.StoreID
}

// CreateStore makes an empty store. An id or alias in use is ErrStoreExists.
func (e *Engine) CreateStore(ctx context.Context, c CreateStoreRequest) (*Store, error) {
	const op = "create store"
	if e.closed.Load() {
		return nil, failed(op, c.ID, ErrClosed)
	}
	if err := validNames(c.Name, c.Aliases); err != nil {
		return nil, failed(op, c.ID, err)
	}
	if c.ID == (storage.StoreID{}) {
		c.ID = storage.NewID(e.now())
	}
	info := storage.StoreInfo{ID: c.ID, Incarnation: storage.NewIncarnation(), Name: c.Name,
		Aliases: maps.Clone(c.Aliases), Created: e.now()}
	if err := e.driver.CreateStore(ctx, info); err != nil {
		return nil, failed(op, c.ID, err)
	}
	return e.handle(info), nil
}

// Store returns a store by its id. It loads nothing.
func (e *Engine) Store(ctx context.Context, id storage.StoreID) (*Store, error) {
	if e.closed.Load() {
		return nil, failed("find store", id, ErrClosed)
	}
	e.mu.RLock()
	s := e.stores[id]
	e.mu.RUnlock()
	if s != nil && s.state() == nil {
		return s, nil
	}
	info, err := e.driver.Store(ctx, id)
	if err != nil {
		return nil, failed("find store", id, err)
	}
	return e.handle(info), nil
}

// Stores yields what is known of each store, in order of id, beginning after
// the given one (the zero id: at the first). It loads nothing. Stores that are
// created or deleted meanwhile may or may not be among them.
func (e *Engine) Stores(ctx context.Context, after storage.StoreID) iter.Seq2[storage.StoreInfo, error] {
	return func(yield func(storage.StoreInfo, error) bool) {
		for {
			page, err := e.storesPage(ctx, after)
			if err != nil {
				yield(storage.StoreInfo{}, failed("list stores", storage.StoreID{}, err))
				return
			}
			for _, info := range page {
				if !yield(info, nil) {
					return
				}
				after = info.ID
			}
			if len(page) < storesPage {
				return
			}
		}
	}
}

// storesPage is how many stores are read at once: no read of the driver is
// open while the consumer works.
const storesPage = 256

func (e *Engine) storesPage(ctx context.Context, after storage.StoreID) (page []storage.StoreInfo, err error) {
	if e.closed.Load() {
		return nil, ErrClosed
	}
	for info, err := range e.driver.Stores(ctx, after) {
		if err != nil {
			return nil, err
		}
		if page = append(page, info); len(page) == storesPage {
			break
		}
	}
	return page, nil
}

// UpdateStore replaces a store's name and aliases.
func (e *Engine) UpdateStore(ctx context.Context, id storage.StoreID, name string, aliases map[string]string) error {
	const op = "update store"
	if err := validNames(name, aliases); err != nil {
		return failed(op, id, err)
	}
	s, err := e.Store(ctx, id)
	if err != nil {
		return err
	}
	info := s.Info()
	info.Name, info.Aliases = name, maps.Clone(aliases)
	if err := e.driver.UpdateStore(ctx, info); err != nil {
		return failed(op, id, err)
	}
	s.info.Store(&info)
	return nil
}

// DeleteStore removes a store with all its data, for good. Handles of it
// return ErrNoStore from then on.
func (e *Engine) DeleteStore(ctx context.Context, id storage.StoreID) error {
	if e.closed.Load() {
		return failed("delete store", id, ErrClosed)
	}
	e.mu.Lock()
	s := e.stores[id]
	delete(e.stores, id)
	e.mu.Unlock()
	if s != nil {
		if err := s.takeTurn(ctx); err != nil {
			return failed("delete store", id, err)
		}
		defer s.freeTurn()
		s.close(ErrNoStore)
	}
	return failed("delete store", id, e.driver.DeleteStore(ctx, id))
}

// handle returns the one handle of a store's incarnation.
func (e *Engine) handle(info storage.StoreInfo) *Store {
	e.mu.Lock()
	old := e.stores[info.ID]
	if old != nil && old.incarnation == info.Incarnation && old.state() == nil {
		e.mu.Unlock()
		return old
	}
	s := newStore(e, info)
	e.stores[info.ID] = s
	e.mu.Unlock()
	if old != nil { // another process deleted the store and created it again
		old.close(ErrNoStore)
	}
	return s
}

func validNames(name string, aliases map[string]string) error {
	if err := over("NameBytesMax", len(name), NameBytesMax); err != nil {
		return err
	}
	if err := over("AliasesMax", len(aliases), AliasesMax); err != nil {
		return err
	}
	for door, alias := range aliases {
		if door == "" || alias == "" {
			return fmt.Errorf("%w: empty alias or door", ErrInvalidRequest)
		}
		if err := over("NameBytesMax", max(len(door), len(alias)), NameBytesMax); err != nil {
			return err
		}
	}
	return nil
}

// DropIdle drops the views of stores that nobody asked since its last call,
// and returns how many. They are loaded again when they are asked.
func (e *Engine) DropIdle() int {
	e.mu.RLock()
	stores := make([]*Store, 0, len(e.loaded))
	for s := range e.loaded {
		stores = append(stores, s)
	}
	e.mu.RUnlock()
	n := 0
	for _, s := range stores {
		if !s.used.Swap(false) && s.drop() {
			n++
		}
	}
	return n
}

// Bytes estimates the memory that the loaded stores' newest views hold.
func (e *Engine) Bytes() int64 { return e.bytes.Load() }

// Loaded is how many stores are in memory.
func (e *Engine) Loaded() int {
	e.mu.RLock()
	defer e.mu.RUnlock()
	return len(e.loaded)
}

// background collects and drops what is idle until the engine is closed.
func (e *Engine) background(every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-e.ctx.Done():
			return
		case <-tick.C:
		}
		e.DropIdle()
		e.mu.RLock()
		stores := make([]*Store, 0, len(e.loaded))
		for s := range e.loaded {
			stores = append(stores, s)
		}
		e.mu.RUnlock()
		for _, s := range stores {
			// What one store cannot collect now, it can at the next tick; its data is
			// not worse for it.
			_, _ = s.collect(e.ctx)
		}
	}
}
