package storagetest

import (
	"context"

	"github.com/ostiary/ostiary/storage"
)

// Gate is a driver whose appends wait, once Entered is not nil, until the test lets
// them through or makes them fail. Its fields must not change while it is used.
type Gate struct {
	storage.Driver
	// Entered gets an element when an append begins.
	Entered chan struct{}
	// Leave ends the wait of an append: with an error, the append fails and changes
	// nothing.
	Leave chan error
}

// Append waits, and then appends or fails.
func (g *Gate) Append(ctx context.Context, id storage.StoreID, after storage.Head, entries []storage.Entry, sealed []storage.Sealed) (storage.Head, error) {
	if g.Entered != nil {
		g.Entered <- struct{}{}
		if err := <-g.Leave; err != nil {
			return storage.Head{}, err
		}
	}
	return g.Driver.Append(ctx, id, after, entries, sealed)
}
