package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/door/authzen"
	"github.com/ostiary/ostiary/door/native"
	"github.com/ostiary/ostiary/door/openfga"
	"github.com/ostiary/ostiary/door/permify"
	"github.com/ostiary/ostiary/storage"
)

// guardOwned is the guard of a server's engine: the doors for relations may read the
// stores of other doors, but not change them, because each of these checks its callers by
// rules of its own. It fails with ErrInvalidRequest.
func guardOwned(ctx context.Context, store storage.StoreInfo) error {
	name := door.NameOf(ctx)
	if !slices.Contains([]string{openfga.Name, native.Name, permify.Name, authzen.Name}, name) {
		return nil
	}
	if protocol := doorOf(store.Aliases); protocol != "" {
		return fmt.Errorf("%w: the store %s has records of the protocol %s, so the door %s can only read it", ostiary.ErrInvalidRequest, store.Name, protocol, name)
	}
	return nil
}
