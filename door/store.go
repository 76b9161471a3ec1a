package door

import (
	"context"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/storage"
)

// FindStore returns the store with a name in the requests or the settings of a door: its
// id, or its alias for that door. It fails with ErrNoStore if there is none.
func FindStore(ctx context.Context, e *ostiary.Engine, door, name string) (*ostiary.Store, error) {
	return FindStoreAt(ctx, e, door, name, authz.Acknowledged())
}

// FindStoreAt is [FindStore] for a read with a consistency, see [ostiary.Engine.StoreAt].
func FindStoreAt(ctx context.Context, e *ostiary.Engine, door, name string, at authz.Consistency) (*ostiary.Store, error) {
	if id, err := storage.ParseStoreID(name); err == nil {
		return e.StoreAt(ctx, id, at)
	}
	return e.StoreByAliasAt(ctx, door, name, at)
}
