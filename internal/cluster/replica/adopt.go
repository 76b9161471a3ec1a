package replica

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/ostiary/ostiary/internal/cluster/sharedlog"
	"github.com/ostiary/ostiary/storage"
	"github.com/ostiary/ostiary/storage/kv"
)

// This file makes the data of a driver the copy of a new log, and names the place of a copy.
// Package move has the rules of moving stores, which rest on that.

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
	return s.place(), nil
}

// DecodePlace returns the place of a copy from the record that its export begins with.
func DecodePlace(record []byte) (Place, error) {
	s, err := decodeState(record)
	if err != nil {
		return Place{}, err
	}
	return s.place(), nil
}

func (s *state) place() Place { return Place{s.cluster, s.node, s.applied} }
