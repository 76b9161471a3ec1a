package move

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sort"

	"github.com/ostiary/ostiary/internal/cluster/replica"
	"github.com/ostiary/ostiary/storage"
	"github.com/ostiary/ostiary/storage/kv"
	"github.com/ostiary/ostiary/storage/pebble"
)

// LostStore is a store of a copy that has what a log does not have, see [Move.Lost].
type LostStore struct {
	// Info is what the copy has of the store.
	Info storage.StoreInfo
	// Missing is true if the log does not have the store: it was created after what the log
	// has, or deleted since.
	Missing bool
	// Common is the last revision that both have; 0 if there is none.
	Common storage.Revision
	// Head is the last revision of the copy.
	Head storage.Revision
	// From is the first lost revision that the copy still keeps.
	From storage.Revision
}

// Lost calls yield for each store of own that has entries which the log FROM does not have, in
// ascending order of the ids, with these entries. own is the copy of a node, without its
// server; other nodes can run. Entries that own does not keep any more are left out. Nothing is
// changed, and TO is not used. Lost fails with [replica.ErrCluster] if own belongs to another
// cluster, and returns the first error of yield.
func (m *Move) Lost(ctx context.Context, own *pebble.Driver, yield func(LostStore, iter.Seq2[storage.Entry, error]) error) error {
	place, err := placeOf(own)
	if err != nil {
		return err
	}
	return m.withLog(ctx, &m.From, func(log *movedLog) error {
		cluster, err := log.Cluster(ctx)
		if err == nil && cluster.ID != place.Cluster {
			err = fmt.Errorf("%w: the folder belongs to cluster %s, the log to cluster %s", replica.ErrCluster, place.Cluster, cluster.ID)
		}
		if err != nil {
			return err
		}
		return m.withCopyOf(ctx, log, func(have *kv.Driver) error { return eachLost(ctx, own.Driver, have, yield) })
	})
}

// eachLost is Lost with a copy of the log.
func eachLost(ctx context.Context, own, have *kv.Driver, yield func(LostStore, iter.Seq2[storage.Entry, error]) error) error {
	for info, err := range own.Stores(ctx, storage.StoreID{}) {
		if err != nil {
			return err
		}
		lost, err := lostOf(ctx, own, have, info)
		if err != nil {
			return err
		}
		if lost.Common == lost.Head && !lost.Missing {
			continue
		}
		oldest, _, err := own.Oldest(ctx, info.ID)
		if err != nil {
			return err
		}
		lost.From = max(lost.Common+1, oldest)
		if err := yield(lost, own.Entries(ctx, info.ID, lost.From)); err != nil {
			return err
		}
	}
	return nil
}

// lostOf compares a store of a copy with that of the log.
func lostOf(ctx context.Context, own, have *kv.Driver, info storage.StoreInfo) (lost LostStore, err error) {
	lost.Info = info
	head, err := own.Head(ctx, info.ID)
	if err != nil {
		return lost, err
	}
	lost.Head = head.Revision
	other, err := have.Store(ctx, info.ID)
	if errors.Is(err, storage.ErrNoStore) || err == nil && other.Incarnation != info.Incarnation {
		lost.Missing = true
		return lost, nil
	}
	if err != nil {
		return lost, err
	}
	theirs, err := have.Head(ctx, info.ID)
	if err != nil {
		return lost, err
	}
	// Each hash covers all entries before it, so the logs are the same up to a revision.
	last := min(head.Revision, theirs.Revision)
	differ := sort.Search(int(last), func(n int) bool {
		if err != nil {
			return false
		}
		var a, b storage.Hash
		at := storage.Revision(n + 1)
		if a, err = hashAt(ctx, own, info.ID, head, at); err == nil {
			b, err = hashAt(ctx, have, info.ID, theirs, at)
		}
		if errors.Is(err, storage.ErrTrimmed) { // what is not kept is older than the loss
			err = nil
			return false
		}
		return a != b
	})
	lost.Common = storage.Revision(differ)
	return lost, err
}

// hashAt returns the hash of an entry of a store, which the next entry has.
func hashAt(ctx context.Context, of *kv.Driver, id storage.StoreID, head storage.Head, at storage.Revision) (storage.Hash, error) {
	if at == head.Revision {
		return head.Hash, nil
	}
	for e, err := range of.Entries(ctx, id, at+1) {
		return e.Previous, err
	}
	return storage.Hash{}, storage.ErrNoEntry
}
