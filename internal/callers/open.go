package callers

import (
	"context"
	"fmt"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/storage"
)

// Open is what callers without a key may do: everything, until the first key is made, on
// whichever node. Its methods may be called concurrently.
type Open struct{ registry *Registry }

// Open returns what callers without a key may do.
func (r *Registry) Open() *Open { return &Open{r} }

// Ended reports whether a key is known to have been made, as [Registry.Any] does.
func (o *Open) Ended() bool { return o.registry.Any() }

// Until returns a context that ends when Ended becomes true. It needs [Registry.Follow] for
// keys that other nodes make. The caller calls release when it no longer needs the context.
func (o *Open) Until() (ctx context.Context, release func()) { return o.registry.unkeyed, func() {} }

// Opens returns nil: callers without a key may use every door.
func (o *Open) Opens(context.Context, string) error { return nil }

// Through returns the access of a caller without a key through a door: that to all of them.
func (o *Open) Through(string) authz.Access { return o }

// Allow implements [authz.Access]. It fails with [authz.ErrForbidden] once a key was
// made.
func (o *Open) Allow(context.Context, authz.Right, storage.StoreInfo) error {
	if o.Ended() {
		return fmt.Errorf("%w: the first key was made after this request was accepted without one", authz.ErrForbidden)
	}
	return nil
}

// AdministersAll returns true until a key was made.
func (o *Open) AdministersAll() bool { return !o.Ended() }
