package compare

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/internal/engine/snapshot"
	"github.com/ostiary/ostiary/rel"
)

// hub informs all permission watches of a store about new revisions. While there
// is a watch, one goroutine subscribes to the store's writes and works out once
// what changed. So a writer informs one subscriber, however many watches there
// are.
type hub struct {
	timeline *snapshot.Timeline

	mu      sync.Mutex
	watches int
	stop    context.CancelFunc // ends the goroutine; set while there is a watch
	latest  *step              // nil while there is no watch
	next    chan struct{}      // closed when latest is replaced
}

// step is the change from one view to a later one, or, if both have one revision, to
// a later time at which tuples have expired.
type step struct {
	before *snapshot.View
	// after is asked at [snapshot.View.AsOf]. The times of successive steps never go
	// back.
	after *snapshot.View
	keys  changedKeys
	// incomplete is true if keys may lack changes: there were too many, or the log
	// could not be read. Each watch reads the log itself then.
	incomplete bool
	// err is not nil if the hub has ended: there will be no other step.
	err error
}

// join adds a watch. The first watch starts the hub's goroutine. Each join needs a
// [hub.leave].
func (h *hub) join(ctx context.Context) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.watches++; h.watches > 1 {
		return nil
	}
	if err := h.start(ctx); err != nil {
		h.watches--
		return err
	}
	return nil
}

// start starts the goroutine; mu is held. It subscribes before it takes the newest
// view, so that no entry falls between the two.
func (h *hub) start(ctx context.Context) error {
	sub := h.subscribe()
	v, err := h.timeline.Newest(ctx)
	if err != nil {
		sub.Close()
		return err
	}
	v = v.AskedAt(max(v.Head.Time, h.timeline.Runtime.Now()))
	running, stop := context.WithCancel(h.timeline.Runtime.Context())
	h.latest, h.next, h.stop = &step{before: v, after: v}, make(chan struct{}), stop
	if !h.timeline.Runtime.Start(func() { h.run(running, v, sub) }) {
		sub.Close()
		stop()
		return authz.ErrClosed
	}
	return nil
}

func (h *hub) subscribe() *snapshot.Subscription {
	return h.timeline.Subscribe(h.timeline.Runtime.Bounds.WatchBuffer)
}

// leave removes a watch. The last watch ends the hub's goroutine.
func (h *hub) leave() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.watches--; h.watches == 0 {
		h.stop()
		h.latest = nil // frees the views that the step holds
	}
}

// current returns the newest step, and a channel that is closed when another step
// replaces it.
func (h *hub) current() (*step, <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.latest, h.next
}

// publish makes s the newest step and wakes all watches. It does nothing if ctx,
// which belongs to the calling goroutine, has ended: another goroutine may have
// taken over since. An error is published in any case.
func (h *hub) publish(ctx context.Context, s *step) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if ctx.Err() != nil && s.err == nil {
		return
	}
	h.latest = s
	close(h.next)
	h.next = make(chan struct{})
}

// expiryPause is the shortest time between two steps for expired tuples, so that
// tuples that expire one after the other cost one comparison a second.
const expiryPause = time.Second

// run is the hub's goroutine. It publishes a step for each new view after last, and
// when tuples expire, until ctx ends or the store fails.
func (h *hub) run(ctx context.Context, last *snapshot.View, sub *snapshot.Subscription) {
	defer func() { sub.Close() }()
	asked := time.Time{} // when the last step for expired tuples was made
	next := h.nextExpiry(last)
	for {
		wait, cancel := h.untilExpiry(ctx, next, asked)
		published, err := sub.Next(wait)
		if ctx.Err() != nil {
			cancel()
			if h.timeline.Runtime.Context().Err() != nil {
				h.publish(ctx, &step{err: authz.ErrClosed})
			}
			return
		}
		expired := err != nil && wait.Err() != nil
		cancel()
		if expired {
			asked = time.Now()
			if now := h.timeline.Runtime.Now(); next <= now {
				after := last.AskedAt(now)
				h.publish(ctx, &step{before: last, after: after, keys: newChangedKeys()})
				last, next = after, h.nextExpiry(after)
			}
			continue
		}
		if errors.Is(err, authz.ErrWatchBehind) || errors.Is(err, snapshot.ErrReload) {
			// The subscription lost entries. newStep reads them from the log.
			sub.Close()
			sub, err = h.subscribe(), nil
		}
		var newest *snapshot.View
		if err == nil {
			newest, err = h.timeline.Current(ctx)
		}
		if err != nil {
			h.publish(ctx, &step{err: err})
			return
		}
		if newest.Head.Revision <= last.Head.Revision {
			continue
		}
		newest = newest.AskedAt(max(newest.Head.Time, last.AsOf()))
		h.publish(ctx, h.newStep(ctx, last, newest, published))
		last, next = newest, h.nextExpiry(newest)
	}
}

// untilExpiry returns a context that ends at the time next, but not before expiryPause
// has passed since asked. If next is 0, only ctx ends it.
func (h *hub) untilExpiry(ctx context.Context, next rel.Time, asked time.Time) (context.Context, context.CancelFunc) {
	if next == 0 {
		return context.WithCancel(ctx)
	}
	wait := max(next.Time().Sub(h.timeline.Runtime.Now().Time()), expiryPause-time.Since(asked))
	return context.WithTimeout(ctx, wait)
}

// nextExpiry returns the earliest time after v.AsOf at which a tuple of v expires, 0
// if none does.
func (h *hub) nextExpiry(v *snapshot.View) (next rel.Time) {
	if !h.timeline.HasExpiring() {
		return 0
	}
	for t := range v.Graph.Expiring() {
		if t.Expires > v.AsOf() && (next == 0 || t.Expires < next) {
			next = t.Expires
		}
	}
	return next
}

// newStep works out what changed between two views: from the published entries if
// they cover all revisions in between, otherwise from the log.
func (h *hub) newStep(ctx context.Context, before, after *snapshot.View, published []*snapshot.Published) *step {
	s := &step{before: before, after: after, keys: newChangedKeys()}
	covered := before.Head.Revision
	for i := range published {
		if r := published[i].Head.Revision; r == covered+1 && r <= after.Head.Revision {
			s.keys.add(published[i].Entry.Changes, before)
			covered = r
		}
	}
	if covered != after.Head.Revision {
		var err error
		s.keys, err = changedBetween(ctx, h.timeline, before, after)
		s.incomplete = err != nil
	}
	s.incomplete = s.incomplete || s.keys.len() > h.timeline.Runtime.Bounds.DifferenceChanges
	return s
}
