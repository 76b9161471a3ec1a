package move

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ostiary/ostiary/internal/cluster/replica"
	"github.com/ostiary/ostiary/internal/cluster/sharedlog"
)

// Fence is the role of the node that writes, held by the mover of a log. No node writes
// while it is held.
type Fence struct {
	log      sharedlog.Log
	settings sharedlog.Settings
	version  uint8 // of segments
	lease    sharedlog.Lease
	since    time.Time
}

// TakeFence takes the role of the node that writes from the node that has it, and appends a
// barrier, after which that node can append nothing. The lease must be renewed with
// [Fence.Renew], or a node takes the role back. It fails with [sharedlog.ErrMoved] if the
// log was moved, with [sharedlog.ErrSwap] if the lease changes too often, and with
// [storage.ErrFormat] if this program cannot write the log.
func TakeFence(ctx context.Context, log sharedlog.Log) (*Fence, error) {
	cluster, err := log.Cluster(ctx)
	if err != nil {
		return nil, err
	}
	if err := cluster.CheckFormat(); err != nil {
		return nil, err
	}
	f := &Fence{log: log, settings: cluster.Settings, version: uint8(cluster.Version())}
	for range 100 { // a holder renews its lease meanwhile
		old, err := log.Lease(ctx)
		if err != nil {
			return nil, err
		}
		if old.Moved() {
			return nil, sharedlog.ErrMoved
		}
		f.lease = sharedlog.Lease{Holder: sharedlog.Mover(), Epoch: old.Epoch + 1, Renewals: 1}
		if err = log.SwapLease(ctx, old, f.lease); err == nil {
			f.since = time.Now()
			return f, f.barrier(ctx)
		}
		if !errors.Is(err, sharedlog.ErrSwap) {
			return nil, err
		}
	}
	return nil, fmt.Errorf("take the lease: %w", sharedlog.ErrSwap)
}

// barrier appends an empty segment with the epoch of the fence.
func (f *Fence) barrier(ctx context.Context) error {
	for {
		head, err := f.log.Head(ctx)
		if err != nil {
			return err
		}
		s := sharedlog.Segment{Version: f.version, Sequence: head.Sequence + 1, Previous: head.Hash, Epoch: f.lease.Epoch, Writer: f.lease.Holder}
		record, err := s.Record()
		if err != nil {
			return err
		}
		err = sharedlog.Commit(ctx, f.log, head, record, nil)
		if _, conflict := errors.AsType[*sharedlog.ConflictError](err); !conflict {
			return err
		}
	}
}

// Holds reports whether a log has the lease of the fence. Two logs with it are the same.
func (f *Fence) Holds(ctx context.Context, log sharedlog.Log) (bool, error) {
	lease, err := log.Lease(ctx)
	return lease == f.lease, err
}

// Interval is the time between two calls of Renew.
func (f *Fence) Interval() time.Duration {
	return max(f.settings.HolderLease/3, 50*time.Millisecond)
}

// Renew renews the lease. It fails with [sharedlog.ErrSwap] if another node has it.
func (f *Fence) Renew(ctx context.Context) error {
	next := f.lease
	next.Renewals++
	err := f.log.SwapLease(ctx, f.lease, next)
	if err == nil {
		f.lease = next
	}
	return err
}

// End notes in the lease that the log was moved: no node takes the role over any more, and
// those that know where it was moved go on there. It fails with [sharedlog.ErrSwap], and
// nothing was moved, if a node has taken the role back. After another error the outcome is
// open.
func (f *Fence) End(ctx context.Context) error {
	last := f.lease.MovedFrom()
	err := f.log.SwapLease(ctx, f.lease, last)
	if err == nil {
		return nil
	}
	if now, readErr := f.log.Lease(ctx); readErr == nil && now == last {
		return nil
	}
	return err
}

// Finish copies the last segments of the log of the fence to another one, and waits until
// no read lease outlasts those for which the first node that writes there waits. Then it calls
// check, and returns the last position of both logs. It renews the lease meanwhile. It fails
// with [ErrDiffers] if the logs end with different segments, and with [sharedlog.ErrSwap] if
// a node has taken the role back. The caller ends with [Fence.End], or after an error with
// [Fence.Release]. progress gets each sequence that is copied.
func (f *Fence) Finish(ctx context.Context, to sharedlog.Log, progress func(sequence uint64), check func() error) (last sharedlog.Position, err error) {
	if last, err = replica.Mirror(ctx, f.log, to, progress); err != nil {
		return last, err
	}
	for end := f.LeasesEnd(); time.Now().Before(end); {
		if err := f.Renew(ctx); err != nil {
			return last, err
		}
		select {
		case <-time.After(min(f.Interval(), time.Until(end))):
		case <-ctx.Done():
			return last, ctx.Err()
		}
	}
	if err := check(); err != nil {
		return last, err
	}
	if err := f.Renew(ctx); err != nil { // otherwise a node may have written meanwhile
		return last, err
	}
	head, err := f.log.Head(ctx)
	if err == nil && head != last {
		err = fmt.Errorf("%w: the log ends with segment %s and the next one with segment %s", ErrDiffers, head, last)
	}
	return last, err
}

// Release gives the role back: the next node takes it over. Before [Fence.LeasesEnd], it
// does nothing, and a node takes the role over when the lease has run out: the last node
// that wrote may not have noticed the fence yet, and nodes may have read leases of it.
func (f *Fence) Release(ctx context.Context) error {
	if time.Now().Before(f.LeasesEnd()) {
		return nil
	}
	next := f.lease
	next.Epoch, next.Renewals = next.Epoch+1, 0
	return f.log.SwapLease(ctx, f.lease, next)
}

// LeasesEnd returns when a node may take the role over: the read leases of the last node
// that wrote are over 1.1 read leases later, and the node that takes a vacant lease waits as
// long.
func (f *Fence) LeasesEnd() time.Time { return f.since.Add(LeasesWait(f.settings)) }

// LeasesWait is how long [Fence.LeasesEnd] is after the role was taken.
func LeasesWait(s sharedlog.Settings) time.Duration {
	return max(0, s.HolderLease-s.ReadLease) * 11 / 10
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
