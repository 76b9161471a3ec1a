package authz

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/ostiary/ostiary/storage"
)

// Author is the origin of all writes that are made with a context, see
// [WithAuthor]. It also notes the newest revision that they led to. Origin must not
// change while a write is made; Revision may be called at any time.
type Author struct {
	// Origin is the origin of the writes.
	Origin storage.Origin
	// Repeated is true if the request with the id Origin.Request was sent to a node
	// before, and may have written. Made is what it has led to. A write or a new store
	// that is part of it is not made again.
	Repeated bool
	Made     storage.RequestTrace

	writes  atomic.Uint64 // see NextWrite
	creates atomic.Uint64 // see NextStore
	refused atomic.Bool
	changed atomic.Bool

	mu         sync.Mutex
	revision   storage.Revision
	beforehand []ChangedStore // see Beforehand
	written    []ChangedStore
}

// ChangedStore is a store that an author has changed.
type ChangedStore struct {
	Store storage.StoreID
	// Revision is the newest that a write of the author led to; 0 if the store itself was
	// created, changed or deleted.
	Revision storage.Revision
}

// writtenMax bounds the stores that an author remembers.
const writtenMax = 64

// AuthorKey is the key under which a context has its *Author. A type that
// implements [context.Context] may return one for it.
type AuthorKey struct{}

// WithAuthor returns a context whose writes have the origin of the author, as far
// as the write itself has none.
func WithAuthor(ctx context.Context, a *Author) context.Context {
	return context.WithValue(ctx, AuthorKey{}, a)
}

// AuthorOf returns the author of the writes of a context, or nil.
func AuthorOf(ctx context.Context) *Author {
	a, _ := ctx.Value(AuthorKey{}).(*Author)
	return a
}

// Revision returns the newest revision that a write of the author led to, or 0 if
// the author has written nothing.
func (a *Author) Revision() storage.Revision {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.revision
}

// Forwardable reports whether a change was refused with [ErrNoHolder], and nothing that
// the author wanted to change was changed. The whole request can then be sent to the node
// that writes.
func (a *Author) Forwardable() bool {
	return a.refused.Load() && !a.changed.Load() && a.Revision() == 0
}

// Beforehand calls change with a context for changes that the author needs and has not
// asked for, such as a new default tenant. change must be able to go on with what an
// earlier call has left incomplete. So its changes do not count for [Author.Forwardable],
// and change is no repetition if the request is one. a may be nil.
func (a *Author) Beforehand(ctx context.Context, change func(ctx context.Context) error) error {
	if a == nil {
		return change(ctx)
	}
	own := &Author{Origin: a.Origin}
	own.Origin.Request = storage.RequestID{}
	err := change(WithAuthor(ctx, own))
	if errors.Is(err, ErrNoHolder) || errors.Is(err, storage.ErrNotHolder) {
		a.Refuse()
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, c := range own.written {
		a.beforehand = noteChange(a.beforehand, c)
	}
	return err
}

// Refuse remembers that a change was refused with [ErrNoHolder]. The engine calls it, and
// so does a package above the engine that needs the node that writes.
func (a *Author) Refuse() { a.refused.Store(true) }

// Retry begins with the request again, after nothing was changed: it forgets that a change
// was refused, and the writes get the numbers that they had.
func (a *Author) Retry() {
	a.refused.Store(false)
	a.writes.Store(0)
	a.creates.Store(0)
}

// NextWrite returns the origin of the next write of the author.
func (a *Author) NextWrite() storage.Origin {
	o := a.Origin
	if o.Request != (storage.RequestID{}) {
		o.Request = o.Request.Write(int(a.writes.Add(1) - 1))
	}
	return o
}

// MadeBefore returns the head after a write of a store, if the author's request has made
// it when it was sent before. It fails with [ErrUncertain] if that is not known.
func (a *Author) MadeBefore(store storage.StoreID, write storage.RequestID) (storage.Head, bool, error) {
	if !a.Repeated {
		return storage.Head{}, false, nil
	}
	if write.Number%storage.RequestWrites == storage.RequestWrites-1 {
		return storage.Head{}, false, fmt.Errorf("%w: the request makes more than %d writes", ErrUncertain, storage.RequestWrites)
	}
	for i := range a.Made.Entries {
		if e := &a.Made.Entries[i]; e.Store == store && e.Request == write {
			return e.Head, true, nil
		}
	}
	return storage.Head{}, false, nil
}

// WroteBefore reports whether the author's request has written to a store when it was sent
// before. a may be nil.
func (a *Author) WroteBefore(store storage.StoreID) bool {
	return a != nil && a.Repeated && slices.ContainsFunc(a.Made.Entries, func(e storage.RequestEntry) bool { return e.Store == store })
}

// NextStore returns the id with which the author creates its next store, see
// [storage.RequestID.Incarnation]. Stores are counted apart from writes. a may be nil.
func (a *Author) NextStore() (id storage.RequestID) {
	if a == nil || a.Origin.Request == (storage.RequestID{}) {
		return id
	}
	return a.Origin.Request.Write(int(a.creates.Add(1) - 1))
}

// CreatedBefore returns the store that the author's request has created with an id of
// NextStore when it was sent before. It fails with [ErrUncertain] if that is not known. a
// may be nil.
func (a *Author) CreatedBefore(id storage.RequestID) (storage.StoreInfo, bool, error) {
	if a == nil || !a.Repeated {
		return storage.StoreInfo{}, false, nil
	}
	if id.Number%storage.RequestWrites == storage.RequestWrites-1 {
		return storage.StoreInfo{}, false, fmt.Errorf("%w: the request creates more than %d stores", ErrUncertain, storage.RequestWrites-1)
	}
	for _, c := range a.Made.Created {
		if c.Request == id {
			return c.Info, true, nil
		}
	}
	return storage.StoreInfo{}, false, nil
}

// MayHaveUpdated reports whether the author's request was sent before, and the name or the
// aliases of a store were changed since, possibly by it. a may be nil.
func (a *Author) MayHaveUpdated(store storage.StoreID) bool {
	return a != nil && a.Repeated && slices.Contains(a.Made.Updated, store)
}

// MayHaveDeleted returns the stores that were deleted since the author's request was sent
// before, possibly by it. The newest is the last. a may be nil.
func (a *Author) MayHaveDeleted() []storage.DeletedStore {
	if a == nil || !a.Repeated {
		return nil
	}
	return a.Made.Deleted
}

// Note remembers the outcome of a change of a store. The engine calls it. a may be nil.
func (a *Author) Note(store storage.StoreID, err error) {
	switch {
	case a == nil:
	case err == nil || errors.Is(err, storage.ErrUncertain) || errors.Is(err, ErrUncertain):
		a.changed.Store(true)
		a.Wrote(store, 0)
	case errors.Is(err, storage.ErrNotHolder):
		a.Refuse()
	}
}

// Wrote remembers a revision of a store that a write of the author led to; 0 means that
// the store itself was changed. The engine calls it.
func (a *Author) Wrote(store storage.StoreID, r storage.Revision) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.revision = max(a.revision, r)
	a.written = noteChange(a.written, ChangedStore{store, r})
}

// noteChange adds a change to those of other stores, at most writtenMax.
func noteChange(all []ChangedStore, c ChangedStore) []ChangedStore {
	for i := range all {
		if all[i].Store == c.Store {
			all[i].Revision = max(all[i].Revision, c.Revision)
			return all
		}
	}
	if len(all) < writtenMax {
		all = append(all, c)
	}
	return all
}

// ChangedStores returns the stores that the author has changed, in the order of their first
// change, and at most 64 of them.
func (a *Author) ChangedStores() []ChangedStore {
	a.mu.Lock()
	defer a.mu.Unlock()
	all := slices.Clone(a.beforehand)
	for _, c := range a.written {
		all = noteChange(all, c)
	}
	return all
}

// Changed reports whether the author has changed a store, or may have.
func (a *Author) Changed() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.changed.Load() || a.revision > 0 || len(a.beforehand) > 0
}
