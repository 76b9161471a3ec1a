package move

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/ostiary/ostiary/internal/cluster/replica"
	"github.com/ostiary/ostiary/internal/cluster/sharedlog"
	"github.com/ostiary/ostiary/storage"
	"github.com/ostiary/ostiary/storage/kv"
)

// Content identifies what a driver has, so that two can be compared.
type Content struct {
	// Place is that of a copy; it is zero for other data.
	replica.Place
	// Stores are the heads of all stores, and with them their logs: each entry has the hash
	// of the one before it.
	Stores map[storage.StoreID]StoreContent
	// State is the SHA-256 of all rows: the catalog, the state, the past, the entries and
	// the digests of the secrets.
	State storage.Hash
	// Bytes is the size of the rows.
	Bytes uint64
	// Secrets is the number of secrets.
	Secrets int
}

// StoreContent is a store of a [Content].
type StoreContent struct {
	Incarnation storage.Incarnation // incarnation of the store
	Head        storage.Head        // the last entry
}

// ReadContent reads everything that a driver has, and checks it. progress is called with
// the number of bytes so far. It fails with [storage.ErrDamaged] if something is damaged.
// No call may write while it runs.
func ReadContent(ctx context.Context, data *kv.Driver, progress func(bytes uint64)) (c Content, err error) {
	c.Stores = map[storage.StoreID]StoreContent{}
	for info, err := range data.Stores(ctx, storage.StoreID{}) {
		if err != nil {
			return c, err
		}
		head, err := data.Head(ctx, info.ID)
		if err != nil {
			return c, err
		}
		c.Stores[info.ID] = StoreContent{info.Incarnation, head}
	}
	for _, err := range data.Secrets(ctx) {
		if err != nil {
			return c, err
		}
		c.Secrets++
	}
	err = data.Export(ctx, sharedlog.PartBytesMax, func(record []byte, parts iter.Seq2[[]byte, error]) error {
		if record != nil {
			if c.Place, err = replica.DecodePlace(record); err != nil {
				return err
			}
		}
		sum := sha256.New()
		for part, err := range parts {
			if err != nil {
				return err
			}
			sum.Write(part)
			c.Bytes += uint64(len(part))
			progress(c.Bytes)
		}
		sum.Sum(c.State[:0])
		return nil
	})
	return c, err
}

// ErrDiffers means that two places do not have the same.
var ErrDiffers = errors.New("the contents differ")

// Compare fails with [ErrDiffers], and the first difference, unless c and other are the
// same: the cluster and the last segment if both are copies, and all stores with their
// entries and their state.
func (c *Content) Compare(other *Content) error {
	if c.At != (sharedlog.Position{}) && other.At != (sharedlog.Position{}) {
		if c.Cluster != other.Cluster {
			return fmt.Errorf("%w: one belongs to cluster %s, the other to cluster %s", ErrDiffers, c.Cluster, other.Cluster)
		}
		if c.At != other.At {
			return fmt.Errorf("%w: one ends with segment %s, the other with segment %s", ErrDiffers, c.At, other.At)
		}
	}
	for _, id := range slices.SortedFunc(maps.Keys(c.Stores), func(a, b storage.StoreID) int { return slices.Compare(a[:], b[:]) }) {
		own, have := c.Stores[id], other.Stores[id]
		switch {
		case have == (StoreContent{}):
			return fmt.Errorf("%w: only one of them has store %s", ErrDiffers, id)
		case own != have:
			return fmt.Errorf("%w: store %s ends with revision %d (%s) in one of them, and with revision %d (%s) in the other", ErrDiffers, id, own.Head.Revision, own.Head.Hash, have.Head.Revision, have.Head.Hash)
		}
	}
	for id := range other.Stores {
		if _, found := c.Stores[id]; !found {
			return fmt.Errorf("%w: only one of them has store %s", ErrDiffers, id)
		}
	}
	if c.State != other.State {
		return fmt.Errorf("%w: all stores end with the same entries, but the rows have hash %s in one of them, and %s in the other", ErrDiffers, c.State, other.State)
	}
	return nil
}
