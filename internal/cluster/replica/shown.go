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
	return stores, s.functions()
}

// functions returns the functions of the engines. The caller holds s.mu.
func (s *shower) functions() (by []func(context.Context, []storage.StoreID) error) {
	for _, key := range slices.Sorted(maps.Keys(s.attached)) {
		by = append(by, s.attached[key])
	}
	return by
}

func (s *shower) engines() []func(context.Context, []storage.StoreID) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.functions()
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

// OnApplied implements [storage.Copy].
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

// Leads reports what [Options].Leads does.
func (r *Driver) Leads() bool { return r.opts.Leads == nil || r.opts.Leads() }

// ownWrites are the stores to which this node has appended. Their engines show that
// themselves, once it is acknowledged, so a sequence counts as shown before.
type ownWrites struct {
	mu     sync.Mutex
	stores map[storage.StoreID]struct{} // since the last round
	round  uint64                       // rises with each ShowOwn
	turn   chan struct{}                // holds an element while ShowOwn runs
}

// begin returns the round of an append. It is called before the gate is asked whether the
// node may append: what the gate allowed before ShowOwn may still be appended after it.
func (o *ownWrites) begin() (round uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.round
}

// add notes the stores of requests that are being appended.
func (o *ownWrites) add(all []*request) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, q := range all {
		if len(q.entries) > 0 {
			o.stores[q.id] = struct{}{}
		}
	}
}

// in reports whether a round has not ended.
func (o *ownWrites) in(round uint64) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.round == round
}

// end ends a round, and returns its stores.
func (o *ownWrites) end() []storage.StoreID {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.round++
	all := slices.AppendSeq(make([]storage.StoreID, 0, len(o.stores)), maps.Keys(o.stores))
	clear(o.stores)
	return all
}

// again notes stores that ShowOwn has not shown.
func (o *ownWrites) again(stores []storage.StoreID) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, id := range stores {
		o.stores[id] = struct{}{}
	}
}

// ShowOwn returns when the engines show what this node has appended and applied, also what
// is not acknowledged. It is called when another node may have acknowledged that: before
// this node answers reads with a lease of another holder, or after a look at the log. What
// this node applies later of its own is shown as that of other nodes is.
func (r *Driver) ShowOwn(ctx context.Context) error {
	select {
	case r.own.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-r.own.turn }()
	if err := r.take(ctx); err != nil { // nothing is being applied
		return err
	}
	stores := r.own.end()
	r.give()
	if len(stores) == 0 {
		return nil
	}
	for _, show := range r.shower.engines() {
		if err := show(ctx, stores); err != nil {
			r.own.again(stores)
			return err
		}
	}
	return nil
}
