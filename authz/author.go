package authz

import (
	"context"
	"sync/atomic"

	"github.com/ostiary/ostiary/storage"
)

// Author is the origin of all writes that are made with a context, see
// [WithAuthor]. It also notes the newest revision that they led to. Origin must not
// change while a write is made; Revision may be called at any time.
type Author struct {
	// Origin is the origin of the writes.
	Origin   storage.Origin
	revision atomic.Uint64
}

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
func (a *Author) Revision() storage.Revision { return storage.Revision(a.revision.Load()) }

// Wrote remembers a revision that a write of the author led to. The engine calls it.
func (a *Author) Wrote(r storage.Revision) {
	for {
		known := a.revision.Load()
		if uint64(r) <= known || a.revision.CompareAndSwap(known, uint64(r)) {
			return
		}
	}
}
