package commit

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/internal/engine/errs"
	"github.com/ostiary/ostiary/internal/engine/journal"
	"github.com/ostiary/ostiary/storage"
)

// Pending is a valid write that becomes a part of the caller's own database
// transaction: [Pending.AppendTo] adds it to the transaction, the caller commits
// the transaction, and [Pending.Publish] makes the write visible. [Pending.Abort]
// cancels it. Until one of the last two, no other writer of the store can
// proceed.
//
// A Pending that is not appended within Bounds.HoldTime is canceled. One that is
// appended keeps the write lock until Publish or Abort, because only the caller
// knows whether its transaction was committed. Writers that wait longer than
// HoldTime then fail with ErrBusy, unless the log shows that the transaction was
// committed. After a crash the log decides.
type Pending struct {
	queue *Queue

	mu       sync.Mutex
	group    *group
	state    pendingState
	deadline *time.Timer // cancels a Pending that is not appended
}

type pendingState uint8

const (
	pendingHeld pendingState = iota
	pendingAppended
	pendingOver
)

// Prepare validates a write and takes the write lock for it. It fails with
// ErrTransaction if the driver is no storage.Joiner.
func (q *Queue) Prepare(ctx context.Context, r *authz.WriteRequest) (*Pending, error) {
	p, err := q.prepare(ctx, r)
	return p, errs.Wrap("prepare", q.timeline.ID, err)
}

func (q *Queue) prepare(ctx context.Context, r *authz.WriteRequest) (*Pending, error) {
	if _, ok := q.shared.runtime.Driver.(storage.Joiner); !ok {
		return nil, fmt.Errorf("%w: expected a driver that implements storage.Joiner", authz.ErrTransaction)
	}
	in, err := q.inputs(ctx, r)
	if err != nil {
		return nil, err
	}
	if err := q.lock(ctx); err != nil {
		return nil, err
	}
	if err := q.timeline.Lock.WaitIdle(ctx); err != nil {
		return nil, err
	}
	p, err := q.hold(ctx, r, in)
	if err != nil {
		q.timeline.Lock.Unlock()
	}
	return p, err
}

// hold makes the pending write; the write lock is held.
func (q *Queue) hold(ctx context.Context, r *authz.WriteRequest, in inputs) (*Pending, error) {
	q.stale.Store(true) // the transaction of an earlier Pending may have been committed
	base, err := q.base(ctx)
	if err != nil {
		return nil, err
	}
	g := q.newGroup(base)
	w := &writer{build: func(g *group) ([]storage.Change, error) { return g.changes(ctx, r, in) }}
	if err := w.setOrigin(ctx, &r.Origin, storage.CallerLibrary); err != nil {
		return nil, err
	}
	if err := g.enter(w); err != nil {
		return nil, err
	}
	g.makeView()
	p := &Pending{queue: q, group: g}
	q.setPending(p)
	p.mu.Lock() // the timer may fire at once
	defer p.mu.Unlock()
	p.deadline = time.AfterFunc(q.shared.runtime.Bounds.HoldTime, p.expire)
	return p, nil
}

// AppendTo adds the write to the caller's transaction tx, whose type the
// driver's documentation names. It may be called once. A write that changes
// nothing adds nothing.
func (p *Pending) AppendTo(ctx context.Context, tx any) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	const op = "append to transaction"
	t := p.queue.timeline
	if p.state != pendingHeld {
		return errs.Wrap(op, t.ID, authz.ErrPending)
	}
	if len(p.group.entries) > 0 {
		_, err := t.Runtime.Driver.(storage.Joiner).AppendTo(ctx, tx, t.ID, p.group.draft.Base().Head, p.group.entries)
		if err != nil {
			return errs.Wrap(op, t.ID, err)
		}
	}
	p.state = pendingAppended
	p.deadline.Stop()
	return nil
}

// Publish makes the write visible after the caller has committed, and returns
// its token. It reads the log: if the entry is not there, it publishes nothing
// and fails with ErrPending.
func (p *Pending) Publish(ctx context.Context) (authz.Token, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	const op = "publish"
	id := p.queue.timeline.ID
	if p.state != pendingAppended {
		return "", errs.Wrap(op, id, authz.ErrPending)
	}
	committed, err := p.committed(ctx)
	if err != nil {
		return "", errs.Wrap(op, id, err)
	}
	defer p.end()
	if !committed {
		return "", errs.Wrap(op, id, fmt.Errorf("%w: the log does not contain it, so its transaction was not committed", authz.ErrPending))
	}
	if len(p.group.entries) > 0 {
		if err := p.group.publish(ctx); err != nil {
			return "", errs.Wrap(op, id, err)
		}
		journal.Wrote(ctx, p.queue.timeline.ID, p.group.head().Revision)
	}
	return p.queue.timeline.Token(p.group.head()), nil
}

// Abort cancels the write. The caller must not commit a transaction that
// contains it. If the caller does so nevertheless, the write is valid.
func (p *Pending) Abort() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state != pendingOver {
		p.end()
	}
}

// expire cancels a write that was not appended in time.
func (p *Pending) expire() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state == pendingHeld {
		p.end()
	}
}

// committed reports whether the entry of the write is in the log.
func (p *Pending) committed(ctx context.Context) (bool, error) {
	if len(p.group.entries) == 0 {
		return true, nil
	}
	t, own := p.queue.timeline, p.group.head()
	h, err := t.Runtime.Driver.Head(ctx, t.ID)
	if err != nil {
		return false, err
	}
	if h.Revision <= own.Revision {
		return h.Revision == own.Revision && h.Hash == own.Hash, nil
	}
	// Another process has written since.
	for e, err := range t.Runtime.Driver.Entries(ctx, t.ID, own.Revision) {
		return err == nil && e.Hash() == own.Hash, err
	}
	return false, nil
}

// end releases the write lock; p.mu is held.
func (p *Pending) end() {
	p.state = pendingOver
	p.deadline.Stop()
	p.queue.stale.Store(true) // the next writer reads what the log has now
	p.queue.setPending(nil)
	p.queue.timeline.Lock.Unlock()
}

// blocks reports whether the write still holds the lock after a writer has
// waited HoldTime for it. If its transaction was committed without a Publish,
// blocks ends it.
func (p *Pending) blocks(ctx context.Context) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state != pendingAppended {
		return false
	}
	if committed, err := p.committed(ctx); err != nil || !committed {
		return true
	}
	p.end()
	return false
}
