package commit

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/internal/engine/journal"
	"github.com/ostiary/ostiary/internal/engine/snapshot"
	"github.com/ostiary/ostiary/storage"
)

// append makes the group durable and publishes its view. If the driver fails in
// a way that leaves the outcome open, append looks for the entries in the log.
func (g *group) append(ctx context.Context) error {
	if gate := journal.Wait(ctx); gate != nil { // for the disk and for other nodes
		defer gate.Resume()
	}
	// Until the entries are durable, only the next group uses the view, to validate
	// on it.
	if g.isSmall() {
		g.makeView()
	} else {
		go g.makeView() // while the driver writes
	}
	if g.hasFilter() {
		var cancel context.CancelFunc
		ctx, cancel = g.queue.withLongTime(ctx)
		defer cancel()
	}
	err := g.appendTo(ctx)
	g.viewMade.Wait()
	g.waitBefore()
	if err != nil {
		if isConflict(err) || errors.Is(err, storage.ErrEntry) || errors.Is(err, storage.ErrTooLarge) {
			return err
		}
		if err := g.verifyLog(ctx, err); err != nil {
			return err
		}
	}
	return g.publish(ctx)
}

// hasFilter reports whether an entry removes by a filter, for which a driver may read
// the whole state.
func (g *group) hasFilter() bool {
	for i := range g.entries {
		for j := range g.entries[i].Changes {
			if g.entries[i].Changes[j].Kind == storage.RemoveByFilter {
				return true
			}
		}
	}
	return false
}

// smallChanges is how many changes a small group has at most.
const smallChanges = 8

// isSmall reports whether making the view takes less time than starting a
// goroutine for it.
func (g *group) isSmall() bool {
	changes := 0
	for i := range g.entries {
		changes += len(g.entries[i].Changes)
	}
	return changes <= smallChanges
}

// appendTo returns when the entries are durable, and other nodes show them. The next group
// may be appended before.
func (g *group) appendTo(ctx context.Context) error {
	id, base, r := g.queue.timeline.ID, g.draft.Base().Head, g.queue.shared.runtime
	if r.Copy == nil || r.Bounds.GroupsAhead <= 1 {
		return g.returned(r.Driver.Append(ctx, id, base, g.entries, g.sealed))
	}
	began := time.Now()
	made, acknowledge, err := r.Copy.AppendAhead(ctx, id, base, g.entries, g.sealed)
	if err != nil {
		return err
	}
	g.queue.placed(len(g.writers), time.Since(began))
	g.placed = true
	g.settled.Open()
	if err := g.returned(made(ctx)); err != nil {
		g.failed.Store(true)
		return err
	}
	return acknowledge(ctx)
}

// returned returns the error of an append that has returned a head.
func (g *group) returned(head storage.Head, err error) error {
	if err == nil && head.Hash != g.heads[len(g.heads)-1].Hash {
		err = fmt.Errorf("%w: after an append, the head that the driver returned differs from the appended entry", storage.ErrDamaged)
	}
	return err
}

// waitBefore waits until the group that this one was validated on is finished: views are
// published, and writers answered, in the order of the log.
func (g *group) waitBefore() {
	if g.before != nil {
		g.before.finished.Wait()
		g.before = nil
	}
}

// makeView sets the view that the group leads to.
func (g *group) makeView() {
	g.view = g.draft.View(g.head())
	g.viewMade.Open()
}

// publish makes the view of a durable group the newest. If another view was published
// meanwhile, the group's entries are in the log that it was made from or that the
// next view is made from, so publish follows the log instead.
func (g *group) publish(ctx context.Context) (err error) {
	t := g.queue.timeline
	g.kept, err = t.Publish(&g.draft, g.view, g.entries, g.heads)
	if !errors.Is(err, snapshot.ErrOutdated) {
		return err
	}
	g.queue.stale.Store(true)
	ctx, cancel := g.queue.withVerifyTime(ctx) // the time of the append may be over
	defer cancel()
	return g.queue.showDurable(ctx)
}

// showDurable brings the view to the entries that the log has, which it may lack. If the
// store was dropped or closed, the next load has them, or one that runs.
func (q *Queue) showDurable(ctx context.Context) error {
	if !q.timeline.MustFollow() {
		return nil
	}
	if _, err := q.timeline.Follow(ctx); err != nil {
		return fmt.Errorf("%w: the entries are durable, but cannot be shown: %w", authz.ErrUncertain, err)
	}
	return nil
}

// verifyLog returns nil if the log has the group's entries although the append
// failed with cause, and they are acknowledged. Otherwise it returns cause, or
// ErrUncertain if the log cannot be read, if the entries may still appear, or if they
// are not acknowledged.
func (g *group) verifyLog(ctx context.Context, cause error) error {
	g.queue.stale.Store(true)
	ctx, cancel := g.queue.withVerifyTime(ctx)
	defer cancel()
	made, err := g.isMade(ctx)
	if made {
		if err = g.queue.shared.runtime.Acknowledge(ctx); err != nil {
			made = false
			_ = g.publish(ctx) // this node has the entries, and the driver need not notify it of them
		}
	}
	switch {
	case made:
		return nil
	case err != nil || errors.Is(cause, storage.ErrUncertain):
		return fmt.Errorf("%w: %w", authz.ErrUncertain, cause)
	}
	return cause
}

// isMade reports whether the log has the group's entries.
func (g *group) isMade(ctx context.Context) (bool, error) {
	q := g.queue
	driver, id := q.shared.runtime.Driver, q.timeline.ID
	head, err := driver.Head(ctx, id)
	if err != nil || head.Revision <= g.draft.Base().Head.Revision {
		return false, err
	}
	first := &g.entries[0]
	for e, err := range driver.Entries(ctx, id, first.Revision) {
		// An append is atomic, so the log has all entries of the group or none.
		return err == nil && e.Writer == first.Writer && e.Sequence == first.Sequence, err
	}
	return false, nil
}

// limited is a context that ends at a deadline, with the values of another one, whose
// end it ignores. Unlike one of [context.WithDeadline] it makes its timer only for a driver
// that waits for its end: a driver on this machine never does, and a timer would be a
// tenth of the time of a small write. Its methods may be called concurrently.
type limited struct {
	parent   context.Context
	deadline time.Time

	mu     sync.Mutex
	timed  context.Context // ends at the deadline; nil until Done or end was called
	cancel context.CancelFunc
}

// Value implements [context.Context]. Few appends ask for a value, so the context that
// hides the end of the parent is made here.
func (l *limited) Value(key any) any { return context.WithoutCancel(l.parent).Value(key) }

// Deadline implements [context.Context].
func (l *limited) Deadline() (time.Time, bool) { return l.deadline, true }

// Done implements [context.Context].
func (l *limited) Done() <-chan struct{} { return l.withTimer().Done() }

// Err implements [context.Context].
func (l *limited) Err() error {
	l.mu.Lock()
	timed := l.timed
	l.mu.Unlock()
	switch {
	case timed != nil:
		return timed.Err()
	case !time.Now().Before(l.deadline):
		return l.withTimer().Err() // has passed, so both agree from now on
	}
	return nil
}

// withTimer returns a context of package context with the deadline.
func (l *limited) withTimer() context.Context {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.timed == nil {
		l.timed, l.cancel = context.WithDeadline(context.WithoutCancel(l.parent), l.deadline)
	}
	return l.timed
}

// ended is a context that has ended.
var ended = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// end ends the context, if it has not ended before. It releases the timer.
func (l *limited) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.timed == nil {
		l.timed = ended
		return
	}
	if l.cancel != nil {
		l.cancel()
	}
}
