package authz

import (
	"context"
	"sync/atomic"

	"github.com/ostiary/ostiary/storage"
)

// Author makes all writes of a context, see [WithAuthor]. Its name and reason must not
// change while a write is made. Revision may be called at any time.
type Author struct {
	// Name is the caller of the writes, as [storage.Origin] describes it.
	Name string
	// Reason is why the writes are made.
	Reason string

	revision atomic.Uint64
}

// AuthorKey is the key under which a context has its *Author. A type that
// implements [context.Context] may return one for it.
type AuthorKey struct{}

// WithAuthor returns a context whose writes have the name and the reason of the author,
// as far as the write itself has none. Every call that writes takes its author from its
// context: also those of packages that write with an engine.
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
func (a *Author) Revision() storage.Revision { return storage.Revision(a.revision.Load()) }

// Wrote remembers the revision that a write of the author led to. The engine calls it. a
// may be nil.
func (a *Author) Wrote(r storage.Revision) {
	if a == nil {
		return
	}
	for {
		old := a.revision.Load()
		if uint64(r) <= old || a.revision.CompareAndSwap(old, uint64(r)) {
			return
		}
	}
}
