package replica

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ostiary/ostiary/internal/cluster/sharedlog"
	"github.com/ostiary/ostiary/storage"
	"github.com/ostiary/ostiary/storage/kv"
)

// Healed is what [Heal] has found and done.
type Healed struct {
	// Had is the last segment that the log had, and Has the one that it has now: that of
	// the copy. They are the same if nothing was lost.
	Had, Has sharedlog.Position
	// Secrets is the number of secrets that the log got from the copy.
	Secrets int
}

// ErrRuns means that a node has reported to the log a short time ago.
var ErrRuns = errors.New("a node runs on the log")

// Heal gives a log that has lost its end what a copy has: the log was restored from a
// backup, it is new, or a database has taken over that did not have the last writes. The
// copy must be that of a node that does not run, and no node may run. Heal stores a
// snapshot of the copy in the log, and makes the last segment of the copy that of the log,
// so that segments follow it. Nodes that have less than the snapshot take it when they
// start. key is that of Options.KeyFingerprint, for a log that is new. Heal closes neither
// the log nor the copy. It can be repeated after an error, and
// fails with
//   - [ErrCluster] if the copy belongs to another cluster;
//   - [storage.ErrHistory] if the log has a segment that the copy does not have:
//     something else was written, or the log has lost nothing. What the log has is kept;
//   - [ErrRuns] if a node has reported to the log in the last 30 seconds, and has not
//     ended in good order. With force, that is not checked: a log that was restored has
//     the reports of the time of its backup.
func Heal(ctx context.Context, log sharedlog.Log, local Local, key storage.Hash, force bool) (h Healed, err error) {
	return heal(ctx, log, local, key, force, true)
}

// Found is like [Heal] for a log that is new and that no other node uses, and stores no
// snapshot: other nodes can start once [Driver.Snapshot] has stored one.
func Found(ctx context.Context, log sharedlog.Log, local Local, key storage.Hash) error {
	_, err := heal(ctx, log, local, key, true, false)
	return err
}

func heal(ctx context.Context, log sharedlog.Log, local Local, key storage.Hash, force, snapshot bool) (h Healed, err error) {
	r := &Driver{log: log, local: local, opts: Options{KeyFingerprint: key}}
	if r.copy, err = local.Copy(); err != nil {
		return h, err
	}
	own, err := r.readState()
	switch {
	case err != nil:
		return h, err
	case own == nil || own.applied.Sequence == 0:
		return h, fmt.Errorf("%w: the copy is empty", ErrBehind)
	case own.incomplete:
		return h, fmt.Errorf("%w: the copy lacks secrets, because its first start has not ended", ErrBehind)
	}
	r.applied.Store(own)
	if err := r.checkLost(ctx, own, force, &h); err != nil || h.Had == h.Has {
		return h, err
	}
	restorer, ok := log.(sharedlog.Restorer)
	if !ok {
		return h, errors.New("this kind of log cannot be restored")
	}
	secrets, err := copySecrets(ctx, r.copy)
	if err != nil {
		return h, err
	}
	if err := r.raise(ctx, own); err != nil {
		return h, err
	}
	if snapshot {
		if _, err := r.storeSnapshot(ctx); err != nil {
			return h, err
		}
	}
	h.Secrets = len(secrets)
	return h, restorer.Restore(ctx, h.Had, h.Has, secrets)
}

// checkLost compares the log with the copy, and sets the positions of h.
func (r *Driver) checkLost(ctx context.Context, own *state, force bool, h *Healed) (err error) {
	cluster, err := r.log.Cluster(ctx)
	if err != nil {
		return err
	}
	if cluster.ID != own.cluster && cluster.ID != (sharedlog.ClusterID{}) {
		return fmt.Errorf("%w: the copy belongs to cluster %s, the log to cluster %s", ErrCluster, own.cluster, cluster.ID)
	}
	nodes, now, err := r.log.Nodes(ctx)
	if err != nil {
		return err
	}
	if !force {
		if err := checkStopped(nodes, now, storage.NodeID{}); err != nil {
			return err
		}
	}
	for i := range nodes {
		n := &nodes[i]
		if n.Applied > own.applied.Sequence {
			return fmt.Errorf("%w: the copy ends with segment %s, but node %s had segment %d: heal with the copy of that node", ErrBehind, own.applied, n.ID, n.Applied)
		}
	}
	if h.Had, err = r.log.Head(ctx); err != nil {
		return err
	}
	h.Has = own.applied
	if h.Had.Sequence == 0 || h.Had == h.Has {
		return nil
	}
	mark, err := r.copy.Mark(h.Had.Sequence)
	if err != nil {
		return err
	}
	if string(mark) != string(h.Had.Hash[:]) || h.Had.Sequence > h.Has.Sequence {
		return fmt.Errorf("%w: the log ends with segment %s, which the copy does not have; the copy ends with segment %s", storage.ErrHistory, h.Had, h.Has)
	}
	return nil
}

// errRuns is the error of a node that runs at a time of the log.
func errRuns(n *sharedlog.NodeRecord, now time.Time) error {
	return fmt.Errorf("%w: node %s has reported %s ago: stop all nodes, and wait until none has reported for %s", ErrRuns, n.ID, now.Sub(n.Seen).Round(time.Millisecond), sharedlog.RunsTime)
}

// copySecrets returns the secrets of a copy.
func copySecrets(ctx context.Context, of *kv.Copy) (all []sharedlog.SecretChange, err error) {
	for m, err := range of.Secrets(ctx) {
		if err != nil {
			return nil, err
		}
		key := sharedlog.SecretKey{Store: m.Store, Incarnation: m.Incarnation, Kind: m.Secret.Kind, Key: m.Secret.Key}
		all = append(all, sharedlog.SecretChange{SecretKey: key, Digest: m.Secret.Digest, Body: m.Secret.Body})
	}
	return all, nil
}

// raise raises the epochs of the cluster and of the lease above those that the copy
// knows, and makes the log's description that of the copy if it is new.
func (r *Driver) raise(ctx context.Context, own *state) error {
	old, err := r.log.Cluster(ctx)
	if err != nil {
		return err
	}
	next := old
	if next.Epoch++; old.ID == (sharedlog.ClusterID{}) {
		next = sharedlog.Cluster{ID: own.cluster, Epoch: 1, Format: sharedlog.SegmentVersion, KeyFingerprint: r.opts.KeyFingerprint}
	}
	if err := r.log.SwapCluster(ctx, old, next); err != nil {
		return err
	}
	lease, err := r.log.Lease(ctx)
	if err != nil {
		return err
	}
	return r.log.SwapLease(ctx, lease, sharedlog.Lease{Holder: own.node, Epoch: max(lease.Epoch, own.epoch) + 1})
}
