package replica

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/ostiary/ostiary/internal/cluster/sharedlog"
	"github.com/ostiary/ostiary/storage"
	"github.com/ostiary/ostiary/storage/kv"
)

// This file moves stores between a driver of their own and shared logs. What a move rests
// on is a copy: a folder becomes the copy of a new log ([Adopt]), a log gets what a copy
// has ([Heal]), and a copy becomes a driver of its own ([kv.Copy.Release]).

// ErrUsed means that a log is not new.
var ErrUsed = errors.New("the log has stores already")

// CheckNew returns the description of a log that has no segments. It may have one, which
// an earlier attempt has written. It fails with [ErrUsed] if the log has segments or a
// node runs on it.
func CheckNew(ctx context.Context, log sharedlog.Log) (sharedlog.Cluster, error) {
	cluster, err := log.Cluster(ctx)
	if err != nil {
		return cluster, err
	}
	head, err := log.Head(ctx)
	switch {
	case err != nil:
		return cluster, err
	case head.Sequence != 0:
		return cluster, fmt.Errorf("%w: it is that of cluster %s and ends with segment %s", ErrUsed, cluster.ID, head)
	}
	return cluster, CheckStopped(ctx, log, storage.NodeID{})
}

// CheckStopped fails with [ErrRuns] if a node other than except runs on a log.
func CheckStopped(ctx context.Context, log sharedlog.Log, except storage.NodeID) error {
	nodes, now, err := log.Nodes(ctx)
	if err != nil {
		return err
	}
	return checkStopped(nodes, now, except)
}

// checkStopped is CheckStopped with the nodes and the time of the log.
func checkStopped(nodes []sharedlog.NodeRecord, now time.Time, except storage.NodeID) error {
	for i := range nodes {
		if n := &nodes[i]; n.ID != except && n.Runs(now) {
			return errRuns(n, now)
		}
	}
	return nil
}

// Adopt makes the data of a driver the copy of a log that has no segments. The first one
// of the log is a place that only the copy has, until [Heal] gives the log its state. key
// is that of Options.KeyFingerprint, and node the id of the copy's node; zero means a random
// one. No call may write while Adopt runs. Adopt fails with [ErrUsed] if the log has
// segments.
func Adopt(ctx context.Context, log sharedlog.Log, data *kv.Driver, key storage.Hash, node storage.NodeID) error {
	old, err := CheckNew(ctx, log)
	if err != nil {
		return err
	}
	next := sharedlog.Cluster{ID: old.ID, Epoch: old.Epoch, Format: sharedlog.SegmentVersion, KeyFingerprint: key, Settings: old.Settings}
	if next.ID == (sharedlog.ClusterID{}) {
		next.ID = sharedlog.ClusterID(storage.NewIncarnation())
	}
	if next != old {
		if err := log.SwapCluster(ctx, old, next); err != nil {
			return err
		}
	}
	// An earlier attempt may have left a snapshot, which only a newer one replaces.
	base := sharedlog.Position{Sequence: 1}
	switch at, _, err := log.Snapshot(ctx); {
	case err == nil:
		base.Sequence += at.Sequence
	case !errors.Is(err, sharedlog.ErrNoSnapshot):
		return err
	}
	rand.Read(base.Hash[:])
	s := newState(next.ID, node)
	s.follow(base, 1, 0)
	_, err = data.Adopt(ctx, s.encode(), base.Sequence, base.Hash[:])
	return err
}

// Place is where a copy is in its log.
type Place struct {
	// Cluster is the cluster of the log, and Node the id of the copy's node.
	Cluster sharedlog.ClusterID
	Node    storage.NodeID
	// At is the last segment that the copy has.
	At sharedlog.Position
}

// PlaceOf returns the place of a copy; the zero Place if it is empty.
func PlaceOf(c *kv.Copy) (Place, error) {
	s, err := (&Driver{copy: c}).readState()
	if err != nil || s == nil {
		return Place{}, err
	}
	return Place{s.cluster, s.node, s.applied}, nil
}

// SetMoved notes in the description of a log that it was moved, or with false that it is
// used again, so that nodes take the lease over that [Fence.End] has left. Nodes that run
// are not stopped. It does nothing if the log is new.
func SetMoved(ctx context.Context, log sharedlog.Log, moved bool) error {
	if !moved {
		lease, err := log.Lease(ctx)
		if err == nil && lease.Moved() {
			err = log.SwapLease(ctx, lease, sharedlog.Lease{Holder: lease.Holder, Epoch: lease.Epoch + 1})
		}
		if err != nil {
			return err
		}
	}
	for {
		old, err := log.Cluster(ctx)
		if err != nil || old.ID == (sharedlog.ClusterID{}) || old.Moved() == moved {
			return err
		}
		next := old
		if next.Format = old.Version(); moved {
			next.Format |= sharedlog.FormatMoved
		}
		if err := log.SwapCluster(ctx, old, next); !errors.Is(err, sharedlog.ErrSwap) {
			return err
		}
	}
}

// Content identifies what a driver has, so that two can be compared.
type Content struct {
	// Place is that of a copy; it is zero for other data.
	Place
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
			s, err := decodeState(record)
			if err != nil {
				return err
			}
			c.Place = Place{s.cluster, s.node, s.applied}
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
