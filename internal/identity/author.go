package identity

import (
	"context"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/storage"
)

// ActAs makes the user or the consumer with an id the caller of the later writes
// that are made with ctx. It does nothing if ctx has no author. A call that finds
// the user itself, for example a login by a signed request, calls it before it
// writes.
func ActAs(ctx context.Context, id string) {
	if a := authz.AuthorOf(ctx); a != nil {
		a.Name = id
	}
}

// collecting returns a context for work in the background: its writes have the
// caller [storage.CallerCollector] unless ctx has an author.
func collecting(ctx context.Context) context.Context {
	if authz.AuthorOf(ctx) != nil {
		return ctx
	}
	return authz.WithAuthor(ctx, &authz.Author{Name: storage.CallerCollector})
}

// bootstrapping returns a context whose writes have the caller
// [storage.CallerBootstrap], and the reason that those of ctx have.
func bootstrapping(ctx context.Context) context.Context {
	by := &authz.Author{Name: storage.CallerBootstrap}
	if a := authz.AuthorOf(ctx); a != nil {
		by.Reason = a.Reason
	}
	return authz.WithAuthor(ctx, by)
}
