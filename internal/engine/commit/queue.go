package commit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/internal/engine/document"
	"github.com/ostiary/ostiary/internal/engine/journal"
	"github.com/ostiary/ostiary/internal/engine/snapshot"
	"github.com/ostiary/ostiary/internal/tool/turns"
	"github.com/ostiary/ostiary/storage"
)

const (
	// groupWritersMax and groupChangesMax bound what one group takes from the
	// queue. A single writer may exceed groupChangesMax.
	groupWritersMax = 4096
	groupChangesMax = 10_000
	// conflictsMax is how often a group is validated again before ErrConflict.
	conflictsMax = 1000
)

// Shared is what the queues of one engine share: the id of this process in the
// log, the key for secrets, and memory that is reused.
type Shared struct {
	runtime *snapshot.Runtime
	sealer  *document.Sealer
	id      storage.WriterID
	buffers sync.Pool // of *[]byte, for encoded entries
	slabs   sync.Pool // of *slab with slabChanges
	writes  sync.Pool // of *write
	waiting atomic.Int64
	// largeSlabs are those for a writer with more changes.
	largeSlabs sync.Pool // of *slab
}

// Waiting returns the number of writers that wait in the queues of all stores.
func (s *Shared) Waiting() int { return int(s.waiting.Load()) }

// Writer returns the id of the engine's entries in the log.
func (s *Shared) Writer() storage.WriterID { return s.id }

// NewShared returns what the queues of an engine share. A nil sealer rejects
// secrets.
func NewShared(r *snapshot.Runtime, sealer *document.Sealer) *Shared {
	s := &Shared{runtime: r, sealer: sealer, id: storage.NewWriterID()}
	s.buffers.New = func() any { return new([]byte) }
	s.writes.New = func() any { return newWrite() }
	return s
}

// Queue holds the writers that wait for one store. The first of them leads: it
// takes the write lock, writes for all that wait at that time, and makes the
// next one the leader. So no goroutine has to be started for a write. All
// exported methods are safe for concurrent use.
type Queue struct {
	timeline *snapshot.Timeline
	shared   *Shared
	sequence atomic.Uint64 // of the last entry that was made
	// uncertain are writes whose callers do not know the outcome.
	uncertain uncertainWrites

	// The holder of the write lock owns appending, unfinished and recycled.
	appending  *group      // the group that is being appended, or was the last one
	unfinished []*group    // the groups that may not be finished, in the order of the log
	recycled   *group      // memory for the next group, or nil
	stale      atomic.Bool // the log may have entries that are not in the newest view

	mu        sync.Mutex
	waiting   []*writer
	led       bool     // true while a writer leads
	pending   *Pending // the prepared write that holds the write lock, or nil
	returning returning
}

// NewQueue returns the queue of a store.
func NewQueue(shared *Shared, t *snapshot.Timeline) *Queue {
	return &Queue{timeline: t, shared: shared}
}

// writer is a write on its way through the queue.
type writer struct {
	// build validates the write on the group's draft and returns its changes. It
	// may be called again, on another draft. Unless it sets group.applied it does
	// not change the draft.
	build func(*group) ([]storage.Change, error)
	// accepted, if not nil, is called when the group has accepted the writer.
	accepted func(*group)
	// ready receives one element when the writer is done or has become the leader.
	ready chan struct{}
	// leads is true if this writer leads a group.
	leads bool
	// immediate is true if the writer led from the beginning, and so does not
	// receive from ready.
	immediate bool
	// transient is true if build keeps no reference to its group, so that the
	// group's memory can be reused.
	transient bool
	// weight is the approximate number of changes.
	weight int
	// origin is who makes the write and why. The writer of an update sets it in build.
	origin storage.Origin
	// frees is true if the write counts as one that only removes, see [journal.Frees].
	frees bool
	// request is the id of the write among those of a forwarded request, once numbered is
	// true.
	request  storage.RequestID
	numbered bool
	// wrote is true if the write has an entry, because it changes something.
	wrote bool
	// decided is true if the state alone decided the outcome: the write was refused, or
	// there was nothing to do. on is the head of that state.
	decided bool
	on      storage.Head
	// head and err are the outcome. If that is uncertain, head is what it would be.
	head storage.Head
	err  error
	// entries is how many entries the group had after this writer was accepted; its
	// head is that of the last of them.
	entries int
	// writers is how many writers the group has that was appended, and appended the time at
	// which that began, for the step of the write.
	writers  int
	appended time.Time
	// done is true once head and err are final. Other goroutines read it instead of
	// waiting on ready.
	done atomic.Bool
}

// finish sets the error of a writer, which is then done.
func (w *writer) finish(err error) {
	w.err = err
	w.done.Store(true)
}

func finishAll(writers []*writer, err error) {
	for _, w := range writers {
		w.finish(err)
	}
}

// submit queues a writer and waits for the head after its entry. If ctx ends
// while the writer waits in the queue, it is withdrawn; later, submit waits for
// the outcome nevertheless. What the view alone decides is confirmed, if the driver
// reads from a copy that may be older than the log: it stands if it was decided on a
// state that the log has, and had not before the call.
func (q *Queue) submit(ctx context.Context, w *writer, weight int) (storage.Head, error) {
	if q.shared.runtime.Step == nil {
		return q.submitted(ctx, w, weight)
	}
	came := time.Now()
	ctx, end := q.shared.runtime.Step(ctx, "commit")
	head, err := q.submitted(ctx, w, weight)
	if end != nil {
		waited := time.Duration(0)
		if w.appended.After(came) {
			waited = w.appended.Sub(came)
		}
		end(err, "group.writers", w.writers, "wait_us", int(waited.Microseconds()))
	}
	return head, err
}

func (q *Queue) submitted(ctx context.Context, w *writer, weight int) (storage.Head, error) {
	if err := ctx.Err(); err != nil {
		return storage.Head{}, err
	}
	if err := q.shared.runtime.BeforeWrite(ctx); err != nil {
		return storage.Head{}, err
	}
	w.weight, w.frees = weight, journal.Frees(ctx)
	for least := (storage.Head{}); ; {
		head, err := q.queued(ctx, w)
		if !w.decided || q.shared.runtime.Copy == nil {
			return head, err
		}
		current, failed := q.confirm(ctx)
		if failed == nil && current != w.on && least != (storage.Head{}) && w.on.Revision >= least.Revision {
			// The state may have had entries of other writers whose append has failed.
			var has bool
			if has, failed = q.has(ctx, w.on, current); has {
				current = w.on
			}
		}
		switch {
		case failed != nil:
			w.decided = false
			return storage.Head{}, failed
		case current == w.on && err == nil: // nothing to do: the caller takes the write for made
			return head, q.acknowledge(ctx)
		case current == w.on:
			return head, err
		case least == (storage.Head{}):
			least = current
		}
		w.leads, w.immediate, w.decided = false, false, false
		w.done.Store(false)
	}
}

// has reports whether the log, which has the head current, has had another head.
func (q *Queue) has(ctx context.Context, head, current storage.Head) (bool, error) {
	if head.Revision >= current.Revision {
		return false, nil // current is not head
	}
	next, err := q.shared.runtime.Driver.EntryHead(ctx, q.timeline.ID, head.Revision+1)
	if errors.Is(err, storage.ErrTrimmed) {
		return false, nil // it is decided again
	}
	return err == nil && next.Previous == head.Hash, err
}

// acknowledge returns when readers on other nodes see what this node has.
func (q *Queue) acknowledge(ctx context.Context) error {
	err := q.shared.runtime.Acknowledge(ctx)
	if err == nil {
		return nil
	}
	journal.Of(ctx).Note(q.timeline.ID, err)
	if errors.Is(err, storage.ErrNotHolder) {
		return err
	}
	return fmt.Errorf("%w: the store is as the write needs it, but other nodes may not show that: %w", authz.ErrUncertain, err)
}

// confirm brings the newest view to what was durable at the time of the call, whoever
// wrote it, and returns its head.
func (q *Queue) confirm(ctx context.Context) (storage.Head, error) {
	if err := q.shared.runtime.Confirm(ctx); err != nil {
		return storage.Head{}, err
	}
	v, err := q.timeline.Follow(ctx)
	if err != nil {
		return storage.Head{}, err
	}
	return v.Head, nil
}

// queued is submit without a confirmation.
func (q *Queue) queued(ctx context.Context, w *writer) (storage.Head, error) {
	if err := q.enqueue(w); err != nil {
		return storage.Head{}, err
	}
	return q.wait(ctx, w)
}

// enqueue adds a writer to the queue. The caller must call wait at once, because
// the writer may be the leader.
func (q *Queue) enqueue(w *writer) error {
	if w.ready == nil {
		w.ready = make(chan struct{}, 1)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if n := len(q.waiting); n >= q.shared.runtime.Bounds.WritersWaiting {
		return &authz.BoundError{Name: "WritersWaiting", Max: int64(n), Got: int64(n + 1)}
	}
	q.waiting = append(q.waiting, w)
	q.shared.waiting.Add(1)
	if !q.led {
		q.led, w.leads, w.immediate = true, true, true
	}
	if q.returning.leader != nil {
		q.arrived()
	}
	return nil
}

// wait waits until a queued writer is done, and leads the group if it has to.
func (q *Queue) wait(ctx context.Context, w *writer) (storage.Head, error) {
	if !w.immediate {
		turns.Pause(ctx)
		select {
		case <-w.ready:
		case <-ctx.Done():
			if q.withdraw(w, ctx.Err()) {
				return storage.Head{}, w.err
			}
			<-w.ready // a leader took it, or it became the leader
		}
	}
	if w.leads {
		q.lead(ctx, w)
	}
	if w.err != nil || w.wrote {
		journal.Of(ctx).Note(q.timeline.ID, w.err)
	}
	if w.err == nil && w.wrote {
		journal.Wrote(ctx, q.timeline.ID, w.head.Revision)
	}
	return w.head, w.err
}

// withdraw removes a waiting writer from the queue and fails it with why. It
// returns false, and does nothing, if the writer leads or was taken.
func (q *Queue) withdraw(w *writer, why error) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if w.leads || !q.remove(w) {
		return false
	}
	w.finish(why)
	return true
}

// remove removes a writer from the queue if the queue contains it. The caller holds q.mu.
func (q *Queue) remove(w *writer) bool {
	i := slices.Index(q.waiting, w)
	if i >= 0 {
		q.waiting = append(q.waiting[:i], q.waiting[i+1:]...)
		q.shared.waiting.Add(-1)
	}
	return i >= 0
}

// passLead makes the first waiting writer the leader. A leader that gave up is
// removed from the queue before.
func (q *Queue) passLead(gone *writer) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if gone != nil {
		q.remove(gone)
	}
	if len(q.waiting) == 0 {
		q.led = false
		return
	}
	next := q.waiting[0]
	next.leads = true
	next.ready <- struct{}{}
}

// take moves waiting writers to those that a group already has, as long as they
// fit. The first one always fits.
func (q *Queue) take(have []*writer) []*writer {
	weight := 0
	for _, w := range have {
		weight += w.weight
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	n := 0
	for ; n < len(q.waiting) && n+len(have) < groupWritersMax; n++ {
		if weight += q.waiting[n].weight; weight > groupChangesMax && n+len(have) > 0 {
			break
		}
	}
	q.shared.waiting.Add(-int64(n))
	have = append(have, q.waiting[:n]...)
	rest := copy(q.waiting, q.waiting[n:])
	clear(q.waiting[rest:])
	q.waiting = q.waiting[:rest]
	return have
}

// lead writes for all waiting writers, the leader included. It holds the write
// lock only during the validation: while the group is appended, the next leader
// has the lock and validates its own group.
func (q *Queue) lead(ctx context.Context, leader *writer) {
	if err := q.lock(ctx); err != nil {
		leader.finish(err)
		q.passLead(leader)
		return
	}
	g := q.gather(ctx, leader)
	if len(g.entries) > 0 {
		q.appending, q.unfinished = g, append(q.unfinished, g)
		q.timeline.Lock.SetAppending(&g.finished)
	}
	q.timeline.Lock.Unlock()
	q.passLead(nil)
	var few [8]*writer
	writers := append(few[:0], g.writers...) // copy the list: g drops it when it is finished
	q.flush(ctx, g)
	if q.shared.runtime.Copy != nil {
		q.answered()
	}
	for _, w := range writers {
		if w != leader {
			w.ready <- struct{}{}
		}
	}
	q.recycle(g)
}

// lock takes the write lock for a writer. It fails with ErrBusy if a pending
// write holds the lock for too long.
func (q *Queue) lock(ctx context.Context) error {
	lock := &q.timeline.Lock
	if lock.TryLock() {
		return nil
	}
	for {
		holder := q.currentPending()
		locked, err := lock.LockWithin(ctx, q.shared.runtime.Bounds.HoldTime)
		if locked || err != nil {
			return err
		}
		if holder != nil && holder == q.currentPending() && holder.blocks(ctx) {
			return authz.ErrBusy
		}
	}
}

func (q *Queue) setPending(p *Pending) {
	q.mu.Lock()
	q.pending = p
	q.mu.Unlock()
}

func (q *Queue) currentPending() *Pending {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.pending
}

// recycle keeps the memory of a finished group for the next one. Only the holder
// of the lock looks at a finished group, and only until another group follows.
func (q *Queue) recycle(g *group) {
	if !g.reusable || !q.timeline.Lock.TryLock() {
		return
	}
	if q.appending == g && !g.followed {
		q.forgetFinished()
		g.view, g.compiled = nil, nil
		q.appending, q.recycled = nil, g
		q.timeline.Lock.SetAppending(nil)
	}
	q.timeline.Lock.Unlock()
}

// forgetFinished drops the groups that are finished.
func (q *Queue) forgetFinished() {
	n := 0
	for ; n < len(q.unfinished) && q.unfinished[n].finished.Opened(); n++ {
	}
	q.unfinished = slices.Delete(q.unfinished, 0, n)
}

// aheadBytes bounds the memory of the groups of a store that are not published.
const aheadBytes = 32 << 20

// ahead returns the memory of the groups that are not published. It waits until another one
// may be appended.
func (q *Queue) ahead() (memory int64) {
	groups := 1
	if q.shared.runtime.Copy != nil {
		groups = q.shared.runtime.Bounds.GroupsAhead
	}
	for {
		q.forgetFinished()
		memory = 0
		for _, g := range q.unfinished {
			memory += g.memory
		}
		if n := len(q.unfinished); n == 0 || n < groups && memory < aheadBytes {
			return memory
		}
		q.unfinished[0].finished.Wait()
	}
}

// previous returns the last group that is being appended, or nil; the write lock is held.
func (q *Queue) previous() *group {
	if !q.timeline.Lock.Appending() {
		q.appending = nil
	}
	return q.appending
}

// gather takes waiting writers from the queue and validates them. The caller
// holds the write lock. While a group is being appended, gather validates on
// the view that the group will publish; if the append fails, the writers are
// validated again.
func (q *Queue) gather(ctx context.Context, leader *writer) *group {
	var writers []*writer
	if before := q.previous(); before != nil {
		before.viewMade.Wait()
		q.timeline.Use()
		g := q.newGroup(before.view)
		g.before, before.followed = before, true
		for _, b := range q.unfinished {
			g.ahead += b.memory // not accounted for yet
		}
		g.takeMore()
		g.ahead = q.ahead()
		before.settled.Wait()
		if q.shared.runtime.Copy != nil {
			q.awaitReturning(leader, len(g.writers), before.finished.Opened())
		}
		if q.leadsTo(before) {
			g.retryRejected() // the previous group may have written what these writers require
			g.takeMore()
			return g
		}
		before.finished.Wait()
		writers = g.writers
	} else if q.shared.runtime.Copy != nil {
		q.awaitReturning(leader, 0, true)
	}
	base, err := q.baseInTime(ctx)
	if err != nil {
		writers = q.take(writers)
		finishAll(writers, err)
		return &group{queue: q, writers: writers}
	}
	g := q.recycled
	q.recycled = nil
	if g == nil {
		g = &group{}
	}
	g.begin(q, base)
	g.add(writers)
	g.takeMore()
	return g
}

// leadsTo reports whether a settled group leads to the view that it has made, as far as is
// known: the next one can be appended.
func (q *Queue) leadsTo(g *group) bool {
	if g.finished.Opened() {
		return q.timeline.Loaded() == g.view && !q.stale.Load()
	}
	return g.placed && !g.failed.Load() && !q.stale.Load()
}

// flush appends a validated group and finishes its writers.
func (q *Queue) flush(ctx context.Context, g *group) {
	if len(g.entries) == 0 {
		g.waitBefore()
		g.finish(ctx, nil)
		return
	}
	defer g.release()
	ctx, end := q.shared.runtime.Begin(ctx, "append")
	if q.shared.runtime.Step != nil {
		now := time.Now()
		for _, w := range g.accepted {
			w.writers, w.appended = len(g.accepted), now
		}
	}
	limit := q.withAppendTime(ctx)
	defer limit.end()
	err := g.append(limit)
	if end != nil {
		bytes := 0
		for i := range g.sealed {
			bytes += len(g.sealed[i].Bytes)
		}
		end(err, "group.writers", len(g.accepted), "group.entries", len(g.entries), "group.bytes", bytes)
	}
	q.retry(limit, g.finish(limit, err))
}

// withAppendTime returns a context that ends after Bounds.AppendTime, the time
// that a driver may take. It does not end when ctx ends, because the deadline of
// one writer must not fail the other writers of a group.
// The caller ends it.
func (q *Queue) withAppendTime(ctx context.Context) *limited {
	return &limited{parent: ctx, deadline: time.Now().Add(q.shared.runtime.Bounds.AppendTime)}
}

// withVerifyTime is withAppendTime for a look at the log after an append has failed.
// It is short, so that both together end before the deadline of a request.
func (q *Queue) withVerifyTime(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), q.shared.runtime.Bounds.AppendTime/4)
}

// longTimes is how much longer than Bounds.AppendTime the work may take that reads a
// whole store.
const longTimes = 30

// withLongTime is withAppendTime for work of the driver that may read a whole store: a
// load, or a removal by filter.
func (q *Queue) withLongTime(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), longTimes*q.shared.runtime.Bounds.AppendTime)
}

// retry validates and appends writers until all of them are done. No other
// group is appended while it runs.
func (q *Queue) retry(ctx context.Context, writers []*writer) {
	for try := 0; len(writers) > 0; try++ {
		base, err := q.base(ctx)
		if err == nil && try > conflictsMax {
			err = fmt.Errorf("%w: in each of %d attempts", authz.ErrConflict, try+1) // the group's own append is the first
		}
		if err != nil {
			finishAll(writers, err)
			return
		}
		g := q.newGroup(base)
		g.add(writers)
		if len(g.entries) > 0 {
			err = g.append(ctx)
		}
		writers = g.finish(ctx, err)
	}
}

// base returns the view to validate on. The caller holds the write lock, or is
// appending the group that the lock names.
func (q *Queue) base(ctx context.Context) (*snapshot.View, error) {
	if err := q.timeline.Err(); err != nil {
		return nil, err
	}
	if q.stale.Load() {
		v, err := q.timeline.Follow(ctx)
		if err != nil {
			return nil, err
		}
		q.stale.Store(false)
		return v, nil
	}
	return q.timeline.Current(ctx)
}

// baseInTime is base with a deadline, if the driver is needed.
func (q *Queue) baseInTime(ctx context.Context) (*snapshot.View, error) {
	if v := q.timeline.Loaded(); v != nil && !q.stale.Load() && q.timeline.Used() && q.timeline.Err() == nil {
		return v, nil
	}
	ctx, cancel := q.withLongTime(ctx)
	defer cancel()
	return q.base(ctx)
}
