// Package journal makes a forwarded request idempotent. A node that may not write sends a
// request to the node that writes, and sends it again if the answer is lost. A [Journal] has
// what the engine needs for that: the numbers of the request's writes, what the request led
// to when it was sent before, what it has changed so far, and whether a change was refused
// because another node writes.
//
// The server and package forward set a journal; the engine and the rooms that
// write with it read it from the context. A program that embeds the engine has none: its
// writes have an [authz.Author] at most. The package neither writes nor sends anything.
package journal

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/storage"
)

// Journal is the journal of one request. Its author is the author of the writes. A nil
// *Journal is that of a context without one: it has no number, and remembers nothing.
//
// The fields are set before the request is served. The methods may be called at any time.
type Journal struct {
	authz.Author
	// Request is the id of the request. The zero id is that of a request that was not
	// forwarded.
	Request storage.RequestID
	// Repeated is true if the request was sent to a node before, and may have written. Made
	// is what it has led to. A write or a new store that is part of it is not made again.
	Repeated bool
	Made     storage.RequestTrace
	// Frees is true if the writes of the request count as ones that only remove, also if they
	// note what was removed: on a disk that is nearly full, they are made.
	Frees bool
	// Gate, if it is not nil, decides whether the request may use a store, see [Enter].
	Gate Gate

	writes  atomic.Uint64 // see NextWrite
	creates atomic.Uint64 // see NextStore
	refused atomic.Bool
	changed atomic.Bool

	mu         sync.Mutex
	beforehand []ChangedStore // see Beforehand
	written    []ChangedStore
}

// ChangedStore is a store that a request has changed.
type ChangedStore struct {
	Store storage.StoreID
	// Revision is the newest that a write of the request led to; 0 if the store itself was
	// created, changed or deleted.
	Revision storage.Revision
}

// writtenMax bounds the stores that a journal remembers.
const writtenMax = 64

// Key is the key under which a context has its *Journal. A context that returns a journal
// for it returns the journal's author for [authz.AuthorKey].
type Key struct{}

// With returns a context with a journal and its author.
func With(ctx context.Context, j *Journal) context.Context {
	return context.WithValue(authz.WithAuthor(ctx, &j.Author), Key{}, j)
}

// Of returns the journal of a context, or nil.
func Of(ctx context.Context) *Journal {
	j, _ := ctx.Value(Key{}).(*Journal)
	return j
}

// Frees reports whether the writes of a context count as ones that only remove.
func Frees(ctx context.Context) bool {
	j := Of(ctx)
	return j != nil && j.Frees
}

// Gate decides whether a request may use a store, for example because it is not used too much
// already. Its methods may be called concurrently.
type Gate interface {
	// EnterStore returns nil if the request may use a store, and otherwise why not. It may
	// be called again for the same store.
	EnterStore(store storage.StoreInfo) error
	// Wait notes that the request waits for the disk and uses no processor time, and Resume
	// that it runs again.
	Wait()
	Resume()
}

// Enter asks the gate of the request of ctx whether it may use a store. What finds a store for
// a request calls it, after it has found out that the caller may read the store.
func Enter(ctx context.Context, store storage.StoreInfo) error {
	if j := Of(ctx); j != nil && j.Gate != nil {
		return j.Gate.EnterStore(store)
	}
	return nil
}

// Wait notes in the gate of the request of ctx that the request waits, until the returned gate's
// Resume. It returns nil if there is no gate.
func Wait(ctx context.Context) Gate {
	j := Of(ctx)
	if j == nil || j.Gate == nil {
		return nil
	}
	j.Gate.Wait()
	return j.Gate
}

// Wrote remembers the revision of a store that a write of ctx led to, for its author and
// its journal.
func Wrote(ctx context.Context, store storage.StoreID, r storage.Revision) {
	author := authz.AuthorOf(ctx)
	if j := Of(ctx); j != nil {
		j.Wrote(store, r)
		if author == &j.Author {
			return
		}
	}
	author.Wrote(r)
}

// Origin returns the origin of the writes, with the id of the request.
func (j *Journal) Origin() storage.Origin {
	return storage.Origin{Caller: j.Name, Reason: j.Reason, Request: j.Request}
}

// SetOrigin sets the name, the reason and the id of the request.
func (j *Journal) SetOrigin(o storage.Origin) {
	j.Name, j.Reason, j.Request = o.Caller, o.Reason, o.Request
}

// Forwardable reports whether a change was refused with [authz.ErrNoHolder], and the
// request has made no change that it asks for. The whole request can then be sent to the
// node that writes.
func (j *Journal) Forwardable() bool {
	return j != nil && j.refused.Load() && !j.changed.Load() && j.Revision() == 0
}

// Beforehand calls change with a context for changes that the request of ctx needs and has
// not asked for, such as a new default tenant. change must be able to go on with what an
// earlier call has left incomplete. So its changes do not count for [Journal.Forwardable],
// and change is no repetition if the request is one.
func Beforehand(ctx context.Context, change func(ctx context.Context) error) error {
	j := Of(ctx)
	if j == nil {
		return change(ctx)
	}
	own := &Journal{Author: authz.Author{Name: j.Name, Reason: j.Reason}}
	err := change(With(ctx, own))
	if errors.Is(err, authz.ErrNoHolder) || errors.Is(err, storage.ErrNotHolder) {
		j.Refuse()
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, c := range own.written {
		j.beforehand = noteChange(j.beforehand, c)
	}
	return err
}

// Refuse remembers that a change was refused with [authz.ErrNoHolder]. The engine calls it,
// and so does a package above the engine that needs the node that writes.
func (j *Journal) Refuse() {
	if j != nil {
		j.refused.Store(true)
	}
}

// Retry begins with the request again, after nothing was changed: it forgets that a change
// was refused, and the writes get the numbers that they had.
func (j *Journal) Retry() {
	j.refused.Store(false)
	j.writes.Store(0)
	j.creates.Store(0)
}

// NextWrite returns the id of the next write of the request.
func (j *Journal) NextWrite() (id storage.RequestID) {
	if j == nil || j.Request == (storage.RequestID{}) {
		return id
	}
	return j.Request.Write(int(j.writes.Add(1) - 1))
}

// MadeBefore returns the head after a write of a store, if the request has made it when it
// was sent before. It fails with [authz.ErrUncertain] if that is not known.
func (j *Journal) MadeBefore(store storage.StoreID, write storage.RequestID) (storage.Head, bool, error) {
	if !j.SentBefore() {
		return storage.Head{}, false, nil
	}
	if write.Number%storage.RequestWrites == storage.RequestWrites-1 {
		return storage.Head{}, false, fmt.Errorf("%w: the request makes more than %d writes", authz.ErrUncertain, storage.RequestWrites)
	}
	for i := range j.Made.Entries {
		if e := &j.Made.Entries[i]; e.Store == store && e.Request == write {
			return e.Head, true, nil
		}
	}
	return storage.Head{}, false, nil
}

// SentBefore reports whether the request was sent to a node before, so that a store may
// have its changes already.
func (j *Journal) SentBefore() bool { return j != nil && j.Repeated }

// Wrote remembers a revision of a store that a write of the request led to; 0 means that
// the store itself was changed.
func (j *Journal) Wrote(store storage.StoreID, r storage.Revision) {
	j.Author.Wrote(r)
	j.mu.Lock()
	defer j.mu.Unlock()
	j.written = noteChange(j.written, ChangedStore{store, r})
}

// WroteBefore reports whether the request has written to a store when it was sent before.
func (j *Journal) WroteBefore(store storage.StoreID) bool {
	return j.SentBefore() && slices.ContainsFunc(j.Made.Entries, func(e storage.RequestEntry) bool { return e.Store == store })
}

// NextStore returns the id with which the request creates its next store, see
// [storage.RequestID.Incarnation]. Stores are counted apart from writes.
func (j *Journal) NextStore() (id storage.RequestID) {
	if j == nil || j.Request == (storage.RequestID{}) {
		return id
	}
	return j.Request.Write(int(j.creates.Add(1) - 1))
}

// CreatedBefore returns the store that the request has created with an id of NextStore when
// it was sent before. It fails with [authz.ErrUncertain] if that is not known.
func (j *Journal) CreatedBefore(id storage.RequestID) (storage.StoreInfo, bool, error) {
	if !j.SentBefore() {
		return storage.StoreInfo{}, false, nil
	}
	if id.Number%storage.RequestWrites == storage.RequestWrites-1 {
		return storage.StoreInfo{}, false, fmt.Errorf("%w: the request creates more than %d stores", authz.ErrUncertain, storage.RequestWrites-1)
	}
	for _, c := range j.Made.Created {
		if c.Request == id {
			return c.Info, true, nil
		}
	}
	return storage.StoreInfo{}, false, nil
}

// MayHaveUpdated reports whether the request was sent before, and the name or the aliases
// of a store were changed since, possibly by it.
func (j *Journal) MayHaveUpdated(store storage.StoreID) bool {
	return j.SentBefore() && slices.Contains(j.Made.Updated, store)
}

// MayHaveDeleted returns the stores that were deleted since the request was sent before,
// possibly by it. The newest is the last.
func (j *Journal) MayHaveDeleted() []storage.DeletedStore {
	if !j.SentBefore() {
		return nil
	}
	return j.Made.Deleted
}

// Note remembers the outcome of a change of a store.
func (j *Journal) Note(store storage.StoreID, err error) {
	switch {
	case j == nil:
	case err == nil || errors.Is(err, storage.ErrUncertain) || errors.Is(err, authz.ErrUncertain):
		j.changed.Store(true)
		j.Wrote(store, 0)
	case errors.Is(err, storage.ErrNotHolder):
		j.Refuse()
	}
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

// ChangedStores returns the stores that the request has changed, in the order of their first
// change, and at most 64 of them.
func (j *Journal) ChangedStores() []ChangedStore {
	j.mu.Lock()
	defer j.mu.Unlock()
	all := slices.Clone(j.beforehand)
	for _, c := range j.written {
		all = noteChange(all, c)
	}
	return all
}

// Changed reports whether the request has changed a store, or may have.
func (j *Journal) Changed() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.changed.Load() || j.Revision() > 0 || len(j.beforehand) > 0
}
