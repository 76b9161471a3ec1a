package ostiary

import (
	"context"
	"errors"
	"fmt"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/internal/engine/errs"
	"github.com/ostiary/ostiary/internal/engine/journal"
	"github.com/ostiary/ostiary/storage"
)

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
// read it, and if the gate of the request lets it. asked is what the caller has named. If there is no such store, a caller who
// could not read it gets the same error as for one that exists.
func found(ctx context.Context, op string, s *Store, err error, asked storage.StoreInfo) (*Store, error) {
	store := asked
	if err == nil {
		store = s.timeline.Info()
	}
	if err == nil || errors.Is(err, authz.ErrNoStore) {
		if forbidden := allow(ctx, authz.RightRead, store); forbidden != nil {
			return nil, errs.Wrap(op, asked.ID, forbidden)
		}
	}
	if err != nil {
		return nil, err
	}
	if err := journal.Enter(ctx, store); err != nil {
		return nil, errs.Wrap(op, store.ID, err)
	}
	return s, nil
}

// listed reports whether a list of stores has a store.
func listed(ctx context.Context, store storage.StoreInfo) bool {
	if store.Aliases[SystemDoor] != "" && ctx.Value(systemKey{}) == nil {
		return false
	}
	return allow(ctx, authz.RightRead, store) == nil
}

// mayName fails with [authz.ErrForbidden] if the caller of ctx may not give a store the names
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
		if err := access.Allow(ctx, authz.RightAdmin, storage.StoreInfo{ID: asked}); err != nil {
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

// mayTake fails with [authz.ErrForbidden] if the access does not administer all stores that a name
// can mean, or an alias for a door.
func (e *Engine) mayTake(ctx context.Context, access authz.Access, door, name string) error {
	means, needs := storage.StoreInfo{Name: name}, "it needs the right admin on stores with this name"
	if e.reserved != nil && e.reserved(door, name) {
		means, needs = storage.StoreInfo{}, "the server or one of its settings uses it for all callers: it needs the right admin on all stores"
	}
	err := access.Allow(ctx, authz.RightAdmin, means)
	if errors.Is(err, authz.ErrForbidden) {
		return fmt.Errorf("%w: %s", authz.ErrForbidden, needs)
	}
	return err
}
