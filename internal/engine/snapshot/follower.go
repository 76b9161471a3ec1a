package snapshot

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/ostiary/ostiary/storage"
)

// FollowDriver starts a goroutine that brings loaded timelines to what other engines
// write, and closes those whose stores were deleted, until the runtime is closed. It
// is called before the first timeline is loaded. own is the id of the engine's
// entries, of which the driver need not notify it. timeline returns the timeline of a
// store, or nil if the engine has none.
//
// A store that cannot be followed, for example because the driver fails, is tried
// again with its next change, and with each request that asks for a newer revision.
func (r *Runtime) FollowDriver(own storage.WriterID, timeline func(storage.StoreID) *Timeline) {
	f := follower{runtime: r, timeline: timeline}
	if r.Copy != nil {
		detach := r.Copy.OnApplied(f.show)
		r.Start(func() {
			<-r.ctx.Done()
			detach()
		})
	}
	notices := r.Driver.Notify(r.ctx, own)
	r.Start(func() { f.receive(notices) })
}

// follower follows the driver of one engine.
type follower struct {
	runtime  *Runtime
	timeline func(storage.StoreID) *Timeline
}

// receive follows the notices of the driver.
func (f *follower) receive(notices <-chan storage.StoreID) {
	for {
		select {
		case id, open := <-notices:
			switch {
			case !open:
				return
			case len(notices) >= cap(notices)-1: // notices may have been dropped
				f.followLoaded()
			default:
				f.follow(id)
			}
		case <-f.runtime.ctx.Done():
			return
		}
	}
}

// followLoaded follows all stores in memory.
func (f *follower) followLoaded() {
	for _, t := range f.runtime.Loaded() {
		f.follow(t.ID)
	}
}

// follow follows one store, if it is in memory.
func (f *follower) follow(id storage.StoreID) {
	t := f.timeline(id)
	if t == nil || t.ConfirmStore(f.runtime.ctx) != nil {
		return
	}
	switch {
	case t.Loaded() != nil:
		t.followOrClose()
	case t.isLoading() || t.subscriptions.count.Load() > 0:
		// The load may have read the state before the change. It may take long, so
		// other stores do not wait for it.
		f.runtime.Start(t.followOrClose)
	}
}

// followOrClose follows the log, and closes the timeline if the store was deleted.
func (t *Timeline) followOrClose() {
	if _, err := t.Follow(t.Runtime.ctx); errors.Is(err, storage.ErrNoStore) {
		_ = t.checkIncarnation(t.Runtime.ctx)
	}
}

// storesEach is how many stores a goroutine of show has at least.
const storesEach = 8

// show returns when the views in memory show what the driver has changed in some
// stores. Several processors make the views of many stores.
func (f *follower) show(ctx context.Context, stores []storage.StoreID) error {
	workers := max(1, min(runtime.GOMAXPROCS(0), len(stores)/storesEach))
	errs := make([]error, workers)
	var (
		group sync.WaitGroup
		next  atomic.Int64
	)
	work := func(w int) {
		for i := next.Add(1); i <= int64(len(stores)) && errs[w] == nil; i = next.Add(1) {
			if t := f.timeline(stores[i-1]); t != nil {
				errs[w] = t.show(ctx)
			}
		}
	}
	for w := range workers - 1 {
		group.Go(func() { work(w) })
	}
	work(workers - 1)
	group.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// show returns when the newest view, if there is one, shows what the driver has.
func (t *Timeline) show(ctx context.Context) error {
	err := t.ConfirmStore(ctx)
	if err == nil && t.MustFollow() {
		_, err = t.Follow(ctx)
	}
	if err == nil || t.Err() != nil {
		return nil // a closed timeline shows nothing
	}
	if errors.Is(err, storage.ErrNoStore) {
		_ = t.checkIncarnation(ctx) // closes the timeline
		return nil
	}
	return err
}

// MustFollow reports whether there is a view that may lack what the driver has. If the
// store is being loaded, the load is going to have it.
func (t *Timeline) MustFollow() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.loading != nil {
		t.loading.missed = true
	}
	return t.newest.Load() != nil
}
