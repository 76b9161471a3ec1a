package cli

import (
	"context"
	"fmt"
	"slices"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/door/authzen"
	"github.com/ostiary/ostiary/door/native"
	"github.com/ostiary/ostiary/door/openfga"
	"github.com/ostiary/ostiary/door/permify"
	"github.com/ostiary/ostiary/internal/engine/documents"
	"github.com/ostiary/ostiary/storage"
)

// Guard decides whether a store may be changed; see [ostiary.Options].
type Guard = func(context.Context, storage.StoreInfo) error

// GuardOwned is the guard of a server's engine: the doors for relations may read the
// stores of other doors, but not change them, because each of these checks its callers by
// rules of its own. It fails with ErrInvalidRequest.
func GuardOwned(ctx context.Context, store storage.StoreInfo) error {
	name := door.NameOf(ctx)
	if !slices.Contains([]string{openfga.Name, native.Name, permify.Name, authzen.Name}, name) {
		return nil
	}
	return refuseOwned(ctx, store)
}

// GuardFolder is the guard of a command on a folder that works on one store: like
// GuardOwned, for all its changes.
func GuardFolder(ctx context.Context, store storage.StoreInfo) error {
	return refuseOwned(ctx, store)
}

// refuseOwned fails with ErrInvalidRequest if a store has the records of a door, or if it is
// the system store and the change is not one of its own.
func refuseOwned(ctx context.Context, store storage.StoreInfo) error {
	if documents.ManagingSystem(ctx) {
		return nil
	}
	if protocol := DoorOf(store.Aliases); protocol != "" {
		return fmt.Errorf("%w: the store %s has records of the protocol %s, so other doors and commands can only read it", authz.ErrInvalidRequest, store.Name, protocol)
	}
	return nil
}
