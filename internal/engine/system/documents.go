package system

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/internal/engine/documents"
)

// Documents are the documents of some kinds in the system store of an engine, as a value
// in memory. They see every change that was acknowledged before a call, on whichever
// node. They may be used concurrently, and start no goroutine.
type Documents[T any] struct {
	engine *ostiary.Engine
	form   documents.Form[T]

	mu     sync.Mutex // guards the changes of stored
	stored atomic.Pointer[Stored[T]]
}

// Stored is the replica of the system store.
type Stored[T any] struct {
	*documents.Replica[T]
	Store *ostiary.Store
}

// NewDocuments returns the documents in the system store of an engine. It reads nothing
// yet.
func NewDocuments[T any](e *ostiary.Engine, form documents.Form[T]) *Documents[T] {
	return &Documents[T]{engine: e, form: form}
}

// Find returns the replica of the system store, or nil if there is no store yet.
func (d *Documents[T]) Find(ctx context.Context) (*Stored[T], error) {
	if s := d.stored.Load(); s != nil && d.engine.Exists(ctx, s.Store) == nil {
		return s, nil
	}
	store, err := Store(ctx, d.engine)
	if store == nil || err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if s := d.stored.Load(); s == nil || s.Store != store {
		store.Keep()
		d.stored.Store(&Stored[T]{documents.New(store, d.form), store})
	}
	return d.stored.Load(), nil
}

// Create returns the replica of the system store, which it creates if there is none. A new
// store has no schema.
func (d *Documents[T]) Create(ctx context.Context) (*Stored[T], error) {
	_, err := d.engine.CreateStore(Context(ctx), ostiary.CreateStoreRequest{Name: ostiary.SystemDoor, Aliases: map[string]string{ostiary.SystemDoor: alias}})
	if err != nil && !errors.Is(err, authz.ErrStoreExists) {
		return nil, err
	}
	s, err := d.Find(Context(ctx))
	if err == nil && s == nil {
		err = authz.ErrNoStore
	}
	return s, err
}

// Newest returns the value at the newest revision, or nil if there is no store yet. A node
// that may lack acknowledged writes uses what it has: the request that follows finds out
// whether it may be answered.
func (d *Documents[T]) Newest(ctx context.Context) (*documents.At[T], error) {
	at, err := d.Confirmed(ctx)
	if loaded := d.Loaded(); loaded != nil && errors.Is(err, authz.ErrNoLease) {
		return loaded, nil
	}
	return at, err
}

// Confirmed is [Documents.Newest] for a request that asks for the documents themselves: it
// fails with ErrNoLease on a node that may lack acknowledged writes.
func (d *Documents[T]) Confirmed(ctx context.Context) (*documents.At[T], error) {
	ctx = Context(ctx)
	s, err := d.Find(ctx)
	if s == nil || err != nil {
		return nil, err
	}
	return s.Newest(ctx)
}

// Found returns the replica that Find returned last, or nil. It does not look at the store.
func (d *Documents[T]) Found() *Stored[T] { return d.stored.Load() }

// Loaded returns the value that was read last, or nil. It does not look at the store.
func (d *Documents[T]) Loaded() *documents.At[T] {
	if s := d.Found(); s != nil {
		return s.Loaded()
	}
	return nil
}
