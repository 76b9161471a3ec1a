// Package system finds and creates the system store of an engine, which holds what the
// program itself keeps: keys of callers, and keys of tokens. [Documents] are some of them,
// and [Context] marks the changes that may be made in the store. The package does not know
// what the documents contain.
package system

import (
	"context"
	"errors"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
)

// alias is the alias of the system store for [ostiary.SystemDoor].
const alias = "default"

// managingKey is the key of [Managing].
type managingKey struct{}

// Managing reports whether a context is one of [Context]. Nothing else may change the
// system store.
func Managing(ctx context.Context) bool { return ctx.Value(managingKey{}) != nil }

// Context returns a context for calls that read and change the system store: the access
// of the caller does not apply to them.
func Context(ctx context.Context) context.Context { return own{ctx} }

// own is the context of [Context].
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

// Store returns the system store, or nil if there is none yet.
func Store(ctx context.Context, e *ostiary.Engine) (*ostiary.Store, error) {
	store, err := e.StoreByAlias(Context(ctx), ostiary.SystemDoor, alias)
	if errors.Is(err, authz.ErrNoStore) {
		return nil, nil
	}
	return store, err
}
