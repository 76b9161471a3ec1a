package ostiary

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/ostiary/ostiary/storage"
)

// submission is one writer that waits for the store's turn.
type submission struct {
	// build validates on the group's state and says what changes; it changes
	// nothing itself and may be called again, on a later state.
	build func(*group) ([]storage.Change, error)
	// ready receives once: either the answer is in head and err, or leads says
	// that this writer is the next group's leader.
	ready chan struct{}
	leads bool
	// first says that this writer leads from the beginning, and has nothing to
	// wait for.
	first bool
	// forgets says that build keeps no group.
	forgets bool
	// weight is how many changes it asks for, about.
	weight int
	head   storage.Head
	err    error
	at     int // answered with the head after so many of the group's entries
	// settled says that head and err are the outcome, for who does not wait.
	settled atomic.Bool
}

// queue holds the writers that wait for one store. The first of them leads: it
// takes the turn, writes for all who wait by then, and makes the next one
// leader. So there is no writer's goroutine to start or to end.
type queue struct {
	mu      sync.Mutex
	waiting []*submission
	led     bool // somebody leads
}

// submit waits for the turn and returns the head after the writer's entry. A
// context that ends while the writer waits withdraws it; once its group is
// taken, the outcome is waited for.
func (s *Store) submit(ctx context.Context, sub *submission, weight int) (storage.Head, error) {
	if err := ctx.Err(); err != nil {
		return storage.Head{}, err
	}
	sub.weight = weight
	if err := s.enqueue(sub); err != nil {
		return storage.Head{}, err
	}
	return s.outcome(ctx, sub)
}

// enqueue gives a writer its place among those that wait. What comes of it is
// to be asked with outcome, at once: the writer may be the one who leads.
func (s *Store) enqueue(sub *submission) error {
	if sub.ready == nil {
		sub.ready = make(chan struct{}, 1)
	}
	q := &s.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	if n := len(q.waiting); n >= s.engine.opts.Bounds.WritersWaiting {
		return &BoundError{"WritersWaiting", int64(n), int64(n + 1)}
	}
	q.waiting = append(q.waiting, sub)
	if !q.led {
		q.led, sub.leads, sub.first = true, true, true
	}
	return nil
}

// outcome waits for what comes of a writer that has its place.
func (s *Store) outcome(ctx context.Context, sub *submission) (storage.Head, error) {
	if !sub.first {
		select {
		case <-sub.ready:
		case <-ctx.Done():
			if s.withdraw(sub, ctx.Err()) {
				return storage.Head{}, sub.err
			}
			<-sub.ready // its group was taken, or it was made leader
		}
	}
	if sub.leads {
		s.lead(ctx, sub)
	}
	return sub.head, sub.err
}

// withdraw takes a writer that does not lead out of the queue, with an error.
func (s *Store) withdraw(sub *submission, why error) bool {
	q := &s.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	if sub.leads || !q.remove(sub) {
		return false
	}
	sub.answer(why)
	return true
}

// remove takes a writer out of the queue if it is there; mu is held.
func (q *queue) remove(sub *submission) bool {
	i := slices.Index(q.waiting, sub)
	if i >= 0 {
		q.waiting = append(q.waiting[:i], q.waiting[i+1:]...)
	}
	return i >= 0
}

// answer settles a writer.
func (sub *submission) answer(err error) {
	sub.err = err
	sub.settled.Store(true)
}

// lead writes the group that waits, the leader itself among it. He holds the
// turn while he validates it. While it is appended the next leader has the turn
// and validates his group on what this one leads to.
func (s *Store) lead(ctx context.Context, leader *submission) {
	if err := s.takeTurnToWrite(ctx); err != nil {
		leader.answer(err)
		s.passOn(leader)
		return
	}
	g := s.gather(ctx)
	if len(g.entries) > 0 {
		s.flight = g
	}
	s.freeTurn()
	s.passOn(nil)
	var few [8]*submission
	taken := append(few[:0], g.taken...) // which the group forgets when it lands
	s.fly(ctx, g)
	for _, sub := range taken {
		if sub != leader {
			sub.ready <- struct{}{}
		}
	}
	s.recycle(g)
}

// recycle keeps the memory of a group that has landed for the next one. Others
// look at a group only while they have the turn: who gets the turn, and finds
// no later group under way, is alone with it.
func (s *Store) recycle(g *group) {
	if !g.single || !s.tryTurn() {
		return
	}
	if s.flight == g {
		g.view, g.schemas, g.compiled = nil, nil, nil
		s.flight, s.spare = nil, g
	}
	s.freeTurn()
}

// gather takes who waits and validates them; the turn is held. Where a group is
// being appended, they are validated on what that will lead to, and once more
// if it did not.
func (s *Store) gather(ctx context.Context) *group {
	var taken []*submission
	if before := s.underWay(); before != nil {
		before.made.wait()
		if !s.used.Load() {
			s.used.Store(true)
		}
		g := s.newGroup(before.view)
		g.memory = before.memory // which is not accounted for yet
		g.takeMore()
		before.done.wait()
		if s.newest.Load() == before.view && !s.stale {
			g.memory -= before.memory
			g.again() // what was refused may have asked for what was not there yet
			g.takeMore()
			return g
		}
		taken = g.taken
	}
	base, err := s.baseInTime(ctx)
	if err != nil {
		taken = s.take(taken)
		answerAll(taken, err)
		return &group{s: s, taken: taken}
	}
	g := s.spare
	s.spare = nil
	if g == nil {
		g = &group{}
	}
	g.begin(s, base)
	g.collect(taken)
	g.takeMore()
	return g
}

// underWay returns the group that is being appended, nil if there is none; the
// turn is held. Until its done is closed, whoever appends it alone publishes,
// follows the log and says what is stale.
func (s *Store) underWay() *group {
	if s.flight == nil {
		return nil
	}
	if s.flight.done.opened() {
		s.flight = nil // and what it keeps
	}
	return s.flight
}

// land waits until no group is being appended; the turn is held, and freed on
// an error.
func (s *Store) land(ctx context.Context) error {
	g := s.underWay()
	if g == nil {
		return nil
	}
	select {
	case <-g.done.channel():
		return nil
	case <-ctx.Done():
		s.freeTurn()
		return ctx.Err()
	}
}

// fly appends a gathered group and settles its members.
func (s *Store) fly(ctx context.Context, g *group) {
	if len(g.entries) == 0 {
		g.settle(ctx, nil)
		return
	}
	defer g.landed()
	ctx, cancel := s.withAppendTime(ctx)
	defer cancel()
	err := g.append(ctx)
	s.writeGroup(ctx, g.settle(ctx, err))
}

// withAppendTime returns a context that ends after Bounds.AppendTime, the time
// that a driver may take. It does not end when ctx ends, because one writer's
// deadline must not fail the other writers of a group.
func (s *Store) withAppendTime(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), s.engine.opts.Bounds.AppendTime)
}

// take adds to those that a group has already what fits beside them. The first
// always fits.
func (s *Store) take(have []*submission) []*submission {
	weight := 0
	for _, sub := range have {
		weight += sub.weight
	}
	q := &s.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	n := 0
	for ; n < len(q.waiting) && n+len(have) < groupWrites; n++ {
		if weight += q.waiting[n].weight; weight > groupChanges && n+len(have) > 0 {
			break
		}
	}
	have = append(have, q.waiting[:n]...)
	left := copy(q.waiting, q.waiting[n:])
	clear(q.waiting[left:])
	q.waiting = q.waiting[:left]
	return have
}

// passOn makes the first who waits the leader. A leader that gives up is taken
// out of the queue.
func (s *Store) passOn(gone *submission) {
	q := &s.queue
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

// writeGroup validates and appends until the outcome of every member is known.
// Nobody else appends meanwhile.
func (s *Store) writeGroup(ctx context.Context, subs []*submission) {
	for try := 0; len(subs) > 0; try++ {
		base, err := s.base(ctx)
		if err == nil && try > conflictsMax {
			err = ErrConflict
		}
		if err != nil {
			answerAll(subs, err)
			return
		}
		g := s.newGroup(base)
		g.collect(subs)
		if len(g.entries) > 0 {
			err = g.append(ctx)
		}
		subs = g.settle(ctx, err)
	}
}

// settle answers a group's members by what came of its append. It returns those
// that are to be validated again, on another's entry.
func (g *group) settle(ctx context.Context, err error) (again []*submission) {
	for _, sub := range g.taken {
		if sub.err != nil {
			sub.answer(sub.err)
		}
	}
	if err == nil {
		for _, sub := range g.members {
			sub.head = g.base.head
			if sub.at > 0 {
				sub.head = g.heads[sub.at-1]
			}
			sub.answer(nil)
		}
		return nil
	}
	var conflict *storage.ConflictError
	switch {
	case errors.As(err, &conflict):
		g.s.stale = true
		return g.members
	case len(g.members) > 1 && (errors.Is(err, storage.ErrEntry) || errors.Is(err, storage.ErrTooLarge) || errors.Is(err, storage.ErrFormat)):
		// One of them is to blame; the others must not suffer.
		for i := range g.members {
			g.s.writeGroup(ctx, g.members[i:i+1])
		}
	default:
		answerAll(g.members, err)
	}
	return nil
}

func answerAll(subs []*submission, err error) {
	for _, sub := range subs {
		sub.answer(err)
	}
}

// base returns the view to validate on; the turn is held, or the group's place
// that is being appended.
func (s *Store) base(ctx context.Context) (*view, error) {
	if err := s.open(); err != nil {
		return nil, err
	}
	if s.stale {
		v, err := s.follow(ctx)
		if err != nil {
			return nil, err
		}
		s.stale = false
		return v, nil
	}
	return s.view(ctx)
}

// baseInTime is base within the time that the driver may take, if it is asked.
func (s *Store) baseInTime(ctx context.Context) (*view, error) {
	if v := s.newest.Load(); v != nil && !s.stale && s.used.Load() && s.open() == nil {
		return v, nil
	}
	ctx, cancel := s.withAppendTime(ctx)
	defer cancel()
	return s.base(ctx)
}
