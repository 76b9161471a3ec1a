package replica

import (
	"context"
	"crypto/sha256"
	"sync"
	"sync/atomic"

	"github.com/ostiary/ostiary/internal/cluster/sharedlog"
	"github.com/ostiary/ostiary/storage"
)

// This file has what code that coordinates several nodes needs: it decides which node
// writes, sends segments from one node to another, and waits for them.

// Gate are hooks of code that coordinates several nodes: what an attempt to append asks
// for and passes on. Each of them may be nil.
type Gate struct {
	// MayAppend is called before each attempt to append a segment, and returns the epoch
	// of the segment. If it fails, the changes that wait fail with the error and have no
	// effect. All changes wait while it runs, and so does Barrier, so it must not wait
	// until the node may append. ctx ends when the driver is closed.
	//
	// The epoch may be outdated when it is used. A node with a higher epoch fences this
	// one: at most one segment can follow a position, and after a segment with a higher
	// epoch the driver appends nothing and fails with ErrFenced.
	MayAppend func(ctx context.Context) (epoch uint64, err error)
	// Appended is called with each segment that this node has appended, in their order,
	// before it is applied here. The next append waits while it runs. It may keep the
	// record.
	Appended func(segment sharedlog.Passed)
}

// Barrier appends an empty segment with an epoch and returns its position when it is
// applied, so that the node has everything that was appended with lower epochs. From
// then on, no segment with a lower epoch can be appended. It does not ask the gate and
// is not acknowledged. It fails with [ErrFenced] if the log has a higher epoch, and
// with an error that wraps [storage.ErrUncertain] if the segment may still appear.
func (r *Driver) Barrier(ctx context.Context, epoch uint64) (sharedlog.Position, error) {
	q := &request{barrier: true, epoch: epoch}
	err := r.enqueue(ctx, q)
	if err == nil {
		err = q.wait(ctx, &r.left)
	}
	if err == nil {
		err = r.WaitApplied(ctx, q.at.Sequence)
	}
	if err != nil {
		return sharedlog.Position{}, err
	}
	return q.at, nil
}

// Expect notes that another node sends the new segments from now on, so that none is read
// from the log while it is on its way. If one does not come, the log is read again, until the
// next call of Expect or Offer.
func (r *Driver) Expect() { r.offered.Store(true) }

// Offer applies a segment that another node has sent, if the log has it. It returns
// when the copy has the sequence. A segment that does not follow the copy is ignored;
// Offer then reads the log, which also decides whether such a segment is damaged.
func (r *Driver) Offer(ctx context.Context, segment sharedlog.Passed) error {
	r.Expect()
	if segment.Sequence <= r.AppliedSequence() {
		return r.check()
	}
	if err := r.take(ctx); err != nil {
		return err
	}
	defer r.give()
	if err := r.check(); err != nil || segment.Sequence <= r.AppliedSequence() {
		return err
	}
	if r.play(ctx, segment) == nil {
		return nil
	}
	return r.replayChecked(ctx, r.log)
}

// play applies a segment that follows the copy. The caller has the turn.
func (r *Driver) play(ctx context.Context, segment sharedlog.Passed) error {
	s := r.applied.Load()
	v, err := sharedlog.Verify(segment.Record, s.applied, s.epoch)
	if err != nil {
		return err
	}
	secrets := map[storage.Hash][]byte{}
	for _, body := range segment.Secrets {
		secrets[sha256.Sum256(body)] = body
	}
	d, err := decodeSegment(ctx, r.log, &v, secrets)
	if err != nil {
		return err
	}
	p := player{r: r, next: *s}
	if err := p.add(ctx, &d); err != nil {
		return err
	}
	return p.flush(ctx)
}

// AppliedSequence returns the last sequence that the node has applied. It costs an
// atomic load.
func (r *Driver) AppliedSequence() uint64 { return r.applied.Load().applied.Sequence }

// Readable returns the last sequence that reads of this driver may have seen. It is that of
// AppliedSequence, or a later one that is being applied. It costs an atomic load.
func (r *Driver) Readable() uint64 { return r.readable.Load() }

// Seen returns the last segment that reads of this driver may have seen, when it is applied.
// It fails as [Driver.WaitApplied] does.
func (r *Driver) Seen(ctx context.Context) (sharedlog.Position, error) {
	if err := r.WaitApplied(ctx, r.Readable()); err != nil {
		return sharedlog.Position{}, err
	}
	return r.applied.Load().applied, nil
}

// Applied returns the last segment that the node has applied, and its epoch. It costs an
// atomic load.
func (r *Driver) Applied() (at sharedlog.Position, epoch uint64) {
	s := r.applied.Load()
	return s.applied, s.epoch
}

// Self returns the cluster and the record of this node in its registry.
func (r *Driver) Self() (sharedlog.ClusterID, sharedlog.NodeRecord) {
	return r.applied.Load().cluster, r.node(0)
}

// WaitApplied returns when the node has applied a sequence. It fails with an error
// that wraps [ErrStopped] if the node stops serving, with [storage.ErrClosed] if the
// driver is closed, and when ctx ends. It does not read the log; [Driver.Confirm]
// does.
func (r *Driver) WaitApplied(ctx context.Context, sequence uint64) error {
	return r.waitFor(ctx, sequence, r.AppliedSequence)
}

// waitFor returns when reached returns a sequence or a later one.
func (r *Driver) waitFor(ctx context.Context, sequence uint64, reached func() uint64) error {
	if reached() >= sequence {
		return nil
	}
	r.progress.waiters.Add(1)
	defer r.progress.waiters.Add(-1)
	for {
		next := r.progress.next()
		if reached() >= sequence {
			return nil
		}
		if err := r.check(); err != nil {
			return err
		}
		select {
		case <-next:
		case <-ctx.Done():
			return ctx.Err()
		case <-r.ctx.Done():
			return storage.ErrClosed
		}
	}
}

// progress wakes those who wait for a change. Its zero value is usable.
type progress struct {
	waiters atomic.Int64 // so that a change for which nobody waits takes no lock
	mu      sync.Mutex
	changed chan struct{} // closed at the next change; nil if nobody waits
}

// next returns a channel that is closed at the next change. The caller is counted in
// waiters.
func (p *progress) next() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.changed == nil {
		p.changed = make(chan struct{})
	}
	return p.changed
}

func (p *progress) wake() {
	if p.waiters.Load() == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.changed != nil {
		close(p.changed)
		p.changed = nil
	}
}
