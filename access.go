package ostiary

import (
	"context"
	"errors"
	"fmt"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/internal/engine/errs"
	"github.com/ostiary/ostiary/storage"
)

// Types of what a caller may do.
type (
	// Right is what a caller may do with a store.
	Right = authz.Right
	// Access decides what the caller of a context may do. The engine asks it when a
	// store is looked up, created, changed or deleted, and leaves out of lists what the
	// caller may not read. A handle may be read by everybody who has it.
	Access = authz.Access
	// AccessKey is the key under which a context has its [Access].
	AccessKey = authz.AccessKey
)

// The rights. Each includes [RightRead], and [RightAdmin] includes all others.
const (
	// RightRead asks questions, and reads the data, the schemas and the log.
	RightRead = authz.RightRead
	// RightWrite changes tuples, attributes, documents and policies.
	RightWrite = authz.RightWrite
	// RightSchema changes schemas.
	RightSchema = authz.RightSchema
	// RightAdmin creates and deletes the store, and changes its name and aliases.
	RightAdmin = authz.RightAdmin
)

// ParseRight returns the right with a name, and false if there is none.
func ParseRight(name string) (Right, bool) { return authz.ParseRight(name) }

// WithAccess returns a context whose calls may do only what a allows. Without it, or with
// nil, they may do everything.
func WithAccess(ctx context.Context, a Access) context.Context { return authz.WithAccess(ctx, a) }

// AccessOf returns the access of a context, or nil if the context may do everything.
func AccessOf(ctx context.Context) Access { return authz.AccessOf(ctx) }

// SystemDoor is the name for which the store of the engine's own state has an alias, and
// the name of that store. Lists of stores leave such a store out, see [WithSystemStores].
const SystemDoor = "system"

// systemKey is the key of [WithSystemStores].
type systemKey struct{}

// WithSystemStores returns a context in which [Engine.Stores] and [Engine.StoresByName]
// also yield the stores with an alias for [SystemDoor].
func WithSystemStores(ctx context.Context) context.Context {
	return context.WithValue(ctx, systemKey{}, true)
}

// found returns a store that was looked up by its id or alias, if the caller of ctx may
// read it. asked is what the caller has named. If there is no such store, a caller who
// could not read it gets the same error as for one that exists.
func found(ctx context.Context, op string, s *Store, err error, asked storage.StoreInfo) (*Store, error) {
	store := asked
	if err == nil {
		store = s.timeline.Info()
	}
	if err == nil || errors.Is(err, ErrNoStore) {
		if forbidden := allow(ctx, RightRead, store); forbidden != nil {
			return nil, errs.Wrap(op, asked.ID, forbidden)
		}
	}
	if err != nil {
		return nil, err
	}
	return s, nil
}

// listed reports whether a list of stores has a store.
func listed(ctx context.Context, store storage.StoreInfo) bool {
	if store.Aliases[SystemDoor] != "" && ctx.Value(systemKey{}) == nil {
		return false
	}
	return allow(ctx, RightRead, store) == nil
}

// mayName fails with [ErrForbidden] if the caller of ctx may not give a store the names
// that it gets and old does not have: its name, its aliases, and the id that a new store
// shall have, which is zero otherwise. Other callers and the settings of a program find a
// store by each of them. So the caller must administer all stores that they can mean: those
// with this name, or all stores for a name that [Options].Reserved has. An alias counts as a
// name.
func (e *Engine) mayName(ctx context.Context, asked storage.StoreID, old, info storage.StoreInfo) error {
	access := authz.AccessOf(ctx)
	if access == nil {
		return nil
	}
	if asked != (storage.StoreID{}) {
		if err := access.Allow(ctx, RightAdmin, storage.StoreInfo{ID: asked}); err != nil {
			return fmt.Errorf("a new store with the id %s: %w", asked, err)
		}
	}
	if info.Name != old.Name {
		if err := e.mayTake(ctx, access, "", info.Name); err != nil {
			return fmt.Errorf("the name %.100q: %w", info.Name, err)
		}
	}
	for door, alias := range info.Aliases {
		if old.Aliases[door] == alias {
			continue
		}
		if err := e.mayTake(ctx, access, door, alias); err != nil {
			return fmt.Errorf("the alias %.100q for the door %.100q: %w", alias, door, err)
		}
	}
	return nil
}

// mayTake fails with [ErrForbidden] if the access does not administer all stores that a name
// can mean, or an alias for a door.
func (e *Engine) mayTake(ctx context.Context, access Access, door, name string) error {
	means, needs := storage.StoreInfo{Name: name}, "it needs the right admin on stores with this name"
	if e.reserved != nil && e.reserved(door, name) {
		means, needs = storage.StoreInfo{}, "the server or one of its settings uses it for all callers: it needs the right admin on all stores"
	}
	err := access.Allow(ctx, RightAdmin, means)
	if errors.Is(err, ErrForbidden) {
		return fmt.Errorf("%w: %s", ErrForbidden, needs)
	}
	return err
}
