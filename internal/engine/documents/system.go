package documents

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
)

// alias is the alias of the system store for [ostiary.SystemDoor].
const alias = "default"

// managingKey is the key of [ManagingSystem].
type managingKey struct{}

// ManagingSystem reports whether a context is one of [SystemContext]. Nothing else may change the
// system store.
func ManagingSystem(ctx context.Context) bool { return ctx.Value(managingKey{}) != nil }

// SystemContext returns a context for calls that read and change the system store: the access
// of the caller does not apply to them.
func SystemContext(ctx context.Context) context.Context { return own{ctx} }

// InSystem reports whether ctx is that of [SystemContext] itself.
func InSystem(ctx context.Context) bool {
	_, is := ctx.(own)
	return is
}

// own is the context of [SystemContext].
type own struct{ context.Context }

// Value implements [context.Context].
func (o own) Value(key any) any {
	switch key {
	case authz.AccessKey{}:
		return nil
	case managingKey{}:
		return true
	}
	return o.Context.Value(key)
}

// SystemStore returns the system store, or nil if there is none yet.
func SystemStore(ctx context.Context, e *ostiary.Engine) (*ostiary.Store, error) {
	store, err := e.StoreByAlias(SystemContext(ctx), ostiary.SystemDoor, alias)
	if errors.Is(err, authz.ErrNoStore) {
		return nil, nil
	}
	return store, err
}

// System has the documents of some kinds in the system store of an engine, as a value in
// memory. It sees every change that was acknowledged before a call, on whichever node. It
// may be used concurrently, and starts no goroutine.
type System[T any] struct {
	engine *ostiary.Engine
	form   Form[T]

	mu     sync.Mutex // guards the changes of stored
	stored atomic.Pointer[Stored[T]]
}

// Stored is the replica of the system store.
type Stored[T any] struct {
	*Replica[T]
	Store *ostiary.Store
}

// NewSystem returns the documents in the system store of an engine. It reads nothing
// yet.
func NewSystem[T any](e *ostiary.Engine, form Form[T]) *System[T] {
	return &System[T]{engine: e, form: form}
}

// Find returns the replica of the system store, or nil if there is no store yet.
func (d *System[T]) Find(ctx context.Context) (*Stored[T], error) {
	if s := d.stored.Load(); s != nil && d.engine.Exists(ctx, s.Store) == nil {
		return s, nil
	}
	store, err := SystemStore(ctx, d.engine)
	if store == nil || err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if s := d.stored.Load(); s == nil || s.Store != store {
		store.Keep()
		d.stored.Store(&Stored[T]{New(store, d.form), store})
	}
	return d.stored.Load(), nil
}

// Create returns the replica of the system store, which it creates if there is none. A new
// store has no schema.
func (d *System[T]) Create(ctx context.Context) (*Stored[T], error) {
	_, err := d.engine.CreateStore(SystemContext(ctx), ostiary.CreateStoreRequest{Name: ostiary.SystemDoor, Aliases: map[string]string{ostiary.SystemDoor: alias}})
	if err != nil && !errors.Is(err, authz.ErrStoreExists) {
		return nil, err
	}
	s, err := d.Find(SystemContext(ctx))
	if err == nil && s == nil {
		err = authz.ErrNoStore
	}
	return s, err
}

// Newest returns the value at the newest revision, or nil if there is no store yet. A node
// that may lack acknowledged writes uses what it has: the request that follows finds out
// whether it may be answered.
func (d *System[T]) Newest(ctx context.Context) (*At[T], error) {
	at, err := d.Confirmed(ctx)
	if loaded := d.Loaded(); loaded != nil && errors.Is(err, authz.ErrNoLease) {
		return loaded, nil
	}
	return at, err
}

// Confirmed is [System.Newest] for a request that asks for the documents themselves: it
// fails with ErrNoLease on a node that may lack acknowledged writes.
func (d *System[T]) Confirmed(ctx context.Context) (*At[T], error) {
	ctx = SystemContext(ctx)
	s, err := d.Find(ctx)
	if s == nil || err != nil {
		return nil, err
	}
	return s.Newest(ctx)
}

// Found returns the replica that Find returned last, or nil. It does not look at the store.
func (d *System[T]) Found() *Stored[T] { return d.stored.Load() }

// Loaded returns the value that was read last, or nil. It does not look at the store.
func (d *System[T]) Loaded() *At[T] {
	if s := d.Found(); s != nil {
		return s.Loaded()
	}
	return nil
}
