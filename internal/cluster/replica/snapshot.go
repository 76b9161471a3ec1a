package replica

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/ostiary/ostiary/internal/cluster/sharedlog"
	"github.com/ostiary/ostiary/storage"
	"github.com/ostiary/ostiary/storage/kv"
)

// Snapshot stores the state of this node in the log, for nodes that start without a
// copy or are too far behind. Reads and writes go on meanwhile. The snapshot has the
// entries and the removed rows that the node has, and no secrets.
func (r *Driver) Snapshot(ctx context.Context) error {
	_, err := r.storeSnapshot(ctx)
	return err
}

// storeSnapshot stores a snapshot and returns its size in bytes.
func (r *Driver) storeSnapshot(ctx context.Context) (size uint64, err error) {
	if err := r.check(); err != nil {
		return 0, err
	}
	err = r.copy.Export(ctx, sharedlog.PartBytesMax, func(record []byte, parts iter.Seq2[[]byte, error]) error {
		s, err := decodeState(record)
		if err != nil {
			return err
		}
		all := func(yield func([]byte, error) bool) { // the record is the first part
			if !yield(record, nil) {
				return
			}
			for part, err := range parts {
				size += uint64(len(part))
				if !yield(part, err) {
					return
				}
			}
		}
		return r.log.PutSnapshot(ctx, s.applied, all)
	})
	if err != nil {
		return 0, fmt.Errorf("store a snapshot: %w", err)
	}
	return size, nil
}

// takeSnapshot replaces the copy by the newest snapshot of the log, if that is newer.
func (r *Driver) takeSnapshot(ctx context.Context) error {
	if err := r.take(ctx); err != nil {
		return err
	}
	defer r.give()
	at, parts, err := r.log.Snapshot(ctx)
	if err != nil {
		return err
	}
	own := r.applied.Load()
	if at.Sequence <= own.applied.Sequence {
		return fmt.Errorf("%w: the newest snapshot is at segment %d, and the copy at segment %d", ErrBehind, at.Sequence, own.applied.Sequence)
	}
	next, err := r.importSnapshot(ctx, own, at, parts)
	if err != nil {
		return fmt.Errorf("take the snapshot at segment %s: %w", at, err)
	}
	next.passed = []sharedlog.Position{at} // its mark is not in the snapshot
	if err := r.commit(r.copy.Begin(), next); err != nil {
		return err
	}
	return r.fetchMissing(ctx)
}

// importSnapshot replaces the copy by a snapshot, whose first part is the record of
// the node that made it.
func (r *Driver) importSnapshot(ctx context.Context, own *state, at sharedlog.Position, parts iter.Seq2[[]byte, error]) (*state, error) {
	pull, stop := iter.Pull2(parts)
	defer stop()
	record, err, ok := pull()
	if err == nil && !ok {
		err = fmt.Errorf("%w: it has no parts", storage.ErrDamaged)
	}
	if err != nil {
		return nil, err
	}
	next, err := decodeState(slices.Clone(record))
	if err != nil {
		return nil, err
	}
	if next.cluster != own.cluster {
		return nil, fmt.Errorf("%w: it belongs to cluster %s, the log to cluster %s", ErrCluster, next.cluster, own.cluster)
	}
	if next.applied != at {
		return nil, fmt.Errorf("%w: its record is at segment %s", storage.ErrDamaged, next.applied)
	}
	next.node, next.start, next.incomplete = own.node, own.start, true
	empty := newState(own.cluster, own.node) // after a failure, the node is still the same one
	empty.start = own.start
	return next, r.copy.Import(ctx, empty.encode(), next.encode(), func(yield func([]byte, error) bool) {
		for {
			part, err, ok := pull()
			if !ok || !yield(part, err) {
				return
			}
		}
	})
}

// fetchMissing fetches the secrets that a snapshot lacks, and notes that this is done. Those that were replaced or
// removed meanwhile stay missing until the segment that did it is applied.
func (r *Driver) fetchMissing(ctx context.Context) error {
	var all []kv.CopiedSecret
	for m, err := range r.copy.MissingSecrets(ctx) {
		if err != nil {
			return err
		}
		all = append(all, m)
	}
	for some := range slices.Chunk(all, 100) {
		tx := r.copy.Begin()
		if err := r.putSecrets(ctx, tx, some); err != nil {
			tx.Close()
			return err
		}
		if err := r.commit(tx, r.applied.Load()); err != nil {
			return err
		}
	}
	next := *r.applied.Load()
	next.incomplete = false
	return r.commit(r.copy.Begin(), &next)
}

func (r *Driver) putSecrets(ctx context.Context, tx *kv.Transaction, some []kv.CopiedSecret) error {
	for _, m := range some {
		key := sharedlog.SecretKey{Store: m.Store, Incarnation: m.Incarnation, Kind: m.Secret.Kind, Key: m.Secret.Key}
		body, err := r.log.Secret(ctx, key, m.Secret.Digest)
		if errors.Is(err, sharedlog.ErrNoSecret) {
			continue
		}
		if err == nil {
			err = tx.PutSecret(m, body)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
