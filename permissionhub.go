package ostiary

import (
	"context"
	"errors"
	"sync"

	"github.com/ostiary/ostiary/internal/snapshot"
	"github.com/ostiary/ostiary/rel"
)

// permissionHub tells a store's permission watches that it went on. A writer
// tells one hub, however many watch, and what changed is worked out once.
type permissionHub struct {
	mu       sync.Mutex
	watching int
	stop     context.CancelFunc // of the goroutine, while somebody watches
	step     *hubStep           // the newest; nil before the first
	next     chan struct{}      // closed when step is replaced
}

// hubStep is one way from a view to the next.
type hubStep struct {
	before, after *snapshot.View
	keys          map[rel.Key]struct{}
	attributes    map[rel.Attribute]struct{}
	// unknown says that the keys are not known here: each must look for himself.
	unknown bool
	// err is why there will be no other step.
	err error
}

// join begins to watch; leave ends it. The first one starts the goroutine, the
// last one ends it.
func (s *Store) joinHub(ctx context.Context) error {
	h := &s.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.watching++; h.watching > 1 {
		return nil
	}
	// What is published from here on is pushed, so that nothing falls between.
	buffer := s.timeline.Subscribe(s.timeline.Runtime.Bounds.WatchBuffer)
	v, err := s.timeline.Newest(ctx)
	if err != nil {
		buffer.Close()
		h.watching--
		return err
	}
	running, stop := context.WithCancel(s.timeline.Runtime.Context())
	h.step, h.next, h.stop = &hubStep{before: v, after: v}, make(chan struct{}), stop
	if !s.timeline.Runtime.Start(func() { s.runHub(running, v, buffer) }) {
		buffer.Close()
		stop()
		h.watching--
		return ErrClosed
	}
	return nil
}

func (s *Store) leaveHub() {
	h := &s.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.watching--; h.watching == 0 {
		h.stop()
		h.step = nil // and the views that it holds
	}
}

// now returns the newest step, and a channel that is closed when there is
// another one.
func (h *permissionHub) now() (*hubStep, <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.step, h.next
}

// tell replaces the step and wakes all who wait. A goroutine that was ended, and
// whose place another took, tells nobody.
func (h *permissionHub) tell(ctx context.Context, step *hubStep) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if ctx.Err() != nil && step.err == nil {
		return
	}
	h.step = step
	close(h.next)
	h.next = make(chan struct{})
}

// runHub is the hub's goroutine.
func (s *Store) runHub(ctx context.Context, last *snapshot.View, buffer *snapshot.Subscription) {
	defer func() { buffer.Close() }()
	for {
		items, err := buffer.Next(ctx)
		if ctx.Err() != nil {
			if s.timeline.Runtime.Context().Err() != nil {
				s.hub.tell(ctx, &hubStep{err: ErrClosed})
			}
			return
		}
		if errors.Is(err, ErrWatchBehind) || errors.Is(err, snapshot.ErrReload) {
			buffer.Close()
			buffer = s.timeline.Subscribe(s.timeline.Runtime.Bounds.WatchBuffer)
			err = nil
		}
		var now *snapshot.View
		if err == nil {
			now, err = s.timeline.Newest(ctx)
		}
		if err != nil {
			s.hub.tell(ctx, &hubStep{err: err})
			return
		}
		if now.Head.Revision <= last.Head.Revision {
			continue
		}
		s.hub.tell(ctx, s.hubStep(ctx, last, now, items))
		last = now
	}
}

// hubStep works out what changed, from the entries that were pushed where they
// are all, else from the log.
func (s *Store) hubStep(ctx context.Context, last, now *snapshot.View, items []snapshot.Published) *hubStep {
	step := &hubStep{before: last, after: now, keys: map[rel.Key]struct{}{}, attributes: map[rel.Attribute]struct{}{}}
	at := last.Head.Revision
	for i := range items {
		if r := items[i].Head.Revision; r == at+1 && r <= now.Head.Revision {
			collectKeys(items[i].Entry.Changes, last, step.keys, step.attributes)
			at = r
		}
	}
	if at != now.Head.Revision {
		var err error
		step.keys, step.attributes, err = s.keysBetween(ctx, last, now)
		step.unknown = err != nil
	}
	step.unknown = step.unknown || len(step.keys)+len(step.attributes) > s.timeline.Runtime.Bounds.DifferenceChanges
	return step
}
