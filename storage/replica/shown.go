package replica

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ostiary/ostiary/storage"
)

// This file has what engines show: a segment that another node has appended is shown
// when it is applied and the views of all engines have it.

// shower passes changed stores to engines.
type shower struct {
	shown atomic.Uint64 // the last sequence that is shown

	mu       sync.Mutex
	attached map[int]func(context.Context, []storage.StoreID) error
	next     int                          // key of the next one in attached
	pending  map[storage.StoreID]struct{} // changed and not shown
	showing  bool                         // a call of an engine runs
	wake     chan struct{}                // gets an element when pending grows
}

// changed notes stores that a transaction has changed. It is called when their rows can
// be read, and before the position of the copy is.
func (s *shower) changed(stores []storage.StoreID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.attached) == 0 {
		return // an engine that is attached later loads what it shows later
	}
	for _, id := range stores {
		s.pending[id] = struct{}{}
	}
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// settled makes a sequence shown, unless changes wait to be shown.
func (s *shower) settled(sequence uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.pending) == 0 && !s.showing && sequence > s.shown.Load() {
		s.shown.Store(sequence)
	}
}

// take returns the changed stores that are not shown, and the functions that show them.
func (s *shower) take() (stores []storage.StoreID, by []func(context.Context, []storage.StoreID) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.pending) == 0 {
		return nil, nil
	}
	stores = slices.AppendSeq(make([]storage.StoreID, 0, len(s.pending)), maps.Keys(s.pending))
	clear(s.pending)
	s.showing = true
	for _, key := range slices.Sorted(maps.Keys(s.attached)) {
		by = append(by, s.attached[key])
	}
	return stores, by
}

// finish ends what take began. If it failed, the stores stay changed.
func (s *shower) finish(stores []storage.StoreID, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.showing = false
	if err == nil {
		return
	}
	for _, id := range stores {
		s.pending[id] = struct{}{}
	}
}

// OnApplied implements [storage.Coordinated].
func (r *Driver) OnApplied(show func(ctx context.Context, stores []storage.StoreID) error) (detach func()) {
	s := &r.shower
	s.mu.Lock()
	defer s.mu.Unlock()
	key := s.next
	s.next++
	s.attached[key] = show
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.attached, key)
	}
}

// show passes changed stores to the engines until the driver is closed.
func (r *Driver) show() {
	const retry = 10 * time.Millisecond
	for {
		select {
		case <-r.shower.wake:
		case <-r.ctx.Done():
			return
		}
		for r.ctx.Err() == nil {
			stores, by := r.shower.take()
			// What was applied before take is among stores, or is shown.
			applied := r.AppliedSequence()
			if stores == nil {
				r.shower.settled(applied)
				r.progress.wake()
				break
			}
			var err error
			for _, show := range by {
				if err = show(r.ctx, stores); err != nil {
					break
				}
			}
			r.shower.finish(stores, err)
			if err != nil {
				r.pause(retry)
			}
		}
	}
}

// Shown returns the last sequence that the engines show. It costs an atomic load.
func (r *Driver) Shown() uint64 { return r.shower.shown.Load() }

// WaitShown returns when the engines show a sequence. It fails as
// [Driver.WaitApplied] does.
func (r *Driver) WaitShown(ctx context.Context, sequence uint64) error {
	return r.waitFor(ctx, sequence, r.Shown)
}

// BeforeRead implements [storage.Coordinated].
func (r *Driver) BeforeRead(ctx context.Context) error {
	if r.opts.Gate.BeforeRead == nil {
		return nil
	}
	return r.opts.Gate.BeforeRead(ctx)
}

// BeforeWrite implements [storage.Coordinated].
func (r *Driver) BeforeWrite(ctx context.Context) error {
	if r.opts.Gate.BeforeWrite == nil {
		return nil
	}
	return r.opts.Gate.BeforeWrite(ctx)
}
