package replica

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/ostiary/ostiary/internal/cluster/sharedlog"
	"github.com/ostiary/ostiary/storage"
)

// upkeep is what a node remembers about the snapshots of the log, so that it asks only
// if there may be something to do.
type upkeep struct {
	mu      sync.Mutex // held by Maintain
	known   bool       // the fields are set
	at      uint64     // sequence of the newest snapshot, 0 without one
	bytes   uint64     // of all segments up to at
	size    uint64     // bytes of the newest snapshot, if this node has stored it
	trimmed uint64     // the log was trimmed up to this sequence
}

// maintain maintains the log until the driver is closed.
func (r *Driver) maintain() {
	tick := time.NewTicker(r.opts.ReportInterval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			_ = r.Maintain(r.ctx) // Status shows the error, and the next call tries again
		case <-r.ctx.Done():
			return
		}
	}
}

// Maintain stores a snapshot in the log if the segments since the last one exceed
// Options.SnapshotBytes, and drops the segments that no node needs, see
// [Driver.TrimLog]. If the last snapshot of this node was larger than
// Options.SnapshotBytes, the segments must exceed its size, so that snapshots cost at
// most as much as segments. Maintain does nothing unless Options.Leads allows it. It
// is called regularly; tests call it, too.
func (r *Driver) Maintain(ctx context.Context) error {
	r.upkeep.mu.Lock()
	defer r.upkeep.mu.Unlock()
	var err error
	if r.Leads() {
		err = r.maintainLog(ctx)
	} else {
		r.upkeep.known = false // another node may store a snapshot
	}
	r.maintained.Store(&err)
	return err
}

// maintainLog is Maintain for the node that leads. The caller holds r.upkeep.mu.
func (r *Driver) maintainLog(ctx context.Context) error {
	u := &r.upkeep
	if !u.known {
		if err := r.findSnapshot(ctx); err != nil {
			return err
		}
	}
	if since := int64(r.applied.Load().bytes - u.bytes); since >= max(r.opts.SnapshotBytes, int64(u.size)) {
		size, err := r.storeSnapshot(ctx)
		if err != nil {
			return err
		}
		if err := r.findSnapshot(ctx); err != nil {
			return err
		}
		u.size = size
	}
	if u.trimmed >= u.at {
		return nil
	}
	trimmed, err := r.trimLog(ctx)
	if err == nil {
		u.trimmed = trimmed
	}
	return err
}

// findSnapshot reads the place of the newest snapshot.
func (r *Driver) findSnapshot(ctx context.Context) error {
	u := &r.upkeep
	at, parts, err := r.log.Snapshot(ctx)
	if errors.Is(err, sharedlog.ErrNoSnapshot) {
		u.known, u.at, u.bytes, u.size = true, 0, 0, 0
		return nil
	}
	if err != nil {
		return err
	}
	for record, err := range parts {
		var s *state
		if err == nil {
			s, err = decodeState(slices.Clone(record))
		}
		if err != nil {
			return fmt.Errorf("read the snapshot at segment %s: %w", at, err)
		}
		u.known, u.at, u.bytes, u.size = true, at.Sequence, s.bytes, 0
		return nil
	}
	return fmt.Errorf("read the snapshot at segment %s: %w: it has no parts", at, storage.ErrDamaged)
}

// TrimLog drops the segments that no node needs: those that the newest snapshot has,
// and that are on the disk of every node that was seen in the last 24 hours.
func (r *Driver) TrimLog(ctx context.Context) error {
	_, err := r.trimLog(ctx)
	return err
}

// trimLog is TrimLog. It returns the last sequence that no node needs.
func (r *Driver) trimLog(ctx context.Context) (uint64, error) {
	log := sharedlog.Used(r.log) // the snapshot is that of the log that is trimmed
	at, _, err := log.Snapshot(ctx)
	if errors.Is(err, sharedlog.ErrNoSnapshot) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	nodes, now, err := log.Nodes(ctx)
	if err != nil {
		return 0, err
	}
	trimmed := at.Sequence
	for i := range nodes {
		if nodes[i].Counts(now) {
			trimmed = min(trimmed, nodes[i].Synced)
		}
	}
	return trimmed, log.Trim(ctx, trimmed+1)
}
