package identity

import (
	"context"

	"github.com/ostiary/ostiary"
)

// ActAs makes the user or the consumer with an id the caller of the later writes
// that are made with ctx. It does nothing if ctx has no author. A call that finds
// the user itself, for example a login by a signed request, calls it before it
// writes.
func ActAs(ctx context.Context, id string) {
	if a := ostiary.AuthorOf(ctx); a != nil {
		a.Origin.Caller = id
	}
}

// collecting returns a context for work in the background: its writes have the
// caller [ostiary.CallerCollector] unless ctx has an author.
func collecting(ctx context.Context) context.Context {
	if ostiary.AuthorOf(ctx) != nil {
		return ctx
	}
	return ostiary.WithAuthor(ctx, &ostiary.Author{Origin: ostiary.Origin{Caller: ostiary.CallerCollector}})
}
