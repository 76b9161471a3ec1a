package ostiary

import (
	"context"
	"fmt"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/internal/engine/errs"
	"github.com/ostiary/ostiary/storage"
)

// Types of who makes a write, and why. The log keeps both for ever.
type (
	// Origin describes where an entry of the log comes from. Every field is optional.
	Origin = storage.Origin
	// RequestID identifies a write that one node forwards to another.
	RequestID = storage.RequestID
	// RequestTrace is what a shared log has of a request that was forwarded.
	RequestTrace = storage.RequestTrace
	// Author is the origin of all writes that are made with a context. It notes the
	// newest revision that they led to.
	Author = authz.Author
	// ChangedStore is a store that an author has changed.
	ChangedStore = authz.ChangedStore
	// AuthorKey is the key under which a context has its *[Author].
	AuthorKey = authz.AuthorKey
)

// Callers of writes that no authenticated caller made.
const (
	// CallerLocal is a program on the machine of the data, or a server without keys.
	CallerLocal = storage.CallerLocal
	// CallerLibrary is a program that embeds the engine and names no caller.
	CallerLibrary = storage.CallerLibrary
	// CallerCollector is the removal of what has expired.
	CallerCollector = storage.CallerCollector
	// CallerImport is an import of data.
	CallerImport = storage.CallerImport
	// CallerBootstrap writes the first records of a new store.
	CallerBootstrap = storage.CallerBootstrap
)

// Limits of an [Origin], in bytes.
const (
	// CallerBytesMax is the limit of Origin.Caller.
	CallerBytesMax = storage.CallerBytesMax
	// ReasonBytesMax is the limit of Origin.Reason.
	ReasonBytesMax = storage.ReasonBytesMax
)

// WithAuthor returns a context whose writes have the origin of a, as far as the
// write itself has none. Every call that writes takes the origin from its context:
// also those of packages that write with this engine.
func WithAuthor(ctx context.Context, a *Author) context.Context { return authz.WithAuthor(ctx, a) }

// WithBootstrap returns a context whose writes have the caller [CallerBootstrap], and
// the reason that those of ctx have.
func WithBootstrap(ctx context.Context) context.Context {
	origin := Origin{Caller: CallerBootstrap}
	if a := AuthorOf(ctx); a != nil {
		origin = origin.Or(&a.Origin)
	}
	return WithAuthor(ctx, &Author{Origin: origin})
}

// AuthorOf returns the author of the writes of a context, or nil.
func AuthorOf(ctx context.Context) *Author { return authz.AuthorOf(ctx) }

// RequestWrites is how many writes of a forwarded request have different numbers: the
// number of a request is a multiple of it.
const RequestWrites = storage.RequestWrites

// FindRequest returns what a forwarded request has led to, from the segment of the shared
// log after a sequence on. It fails with [ErrUncertain] if the log cannot be read, or no
// longer has these segments.
func (e *Engine) FindRequest(ctx context.Context, request RequestID, after uint64) (RequestTrace, error) {
	const op = "find request"
	finder, ok := e.runtime.Driver.(storage.RequestFinder)
	if !ok {
		return RequestTrace{}, errs.Wrap(op, storage.StoreID{}, fmt.Errorf("%w: the driver has no shared log", ErrUncertain))
	}
	found, err := finder.FindRequest(ctx, request, after)
	if err != nil {
		err = fmt.Errorf("%w: %w", ErrUncertain, err)
	}
	return found, errs.Wrap(op, storage.StoreID{}, err)
}
