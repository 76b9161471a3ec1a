package snapshot

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/storage"
)

// This file brings the views to what the log has: other engines, in this process or
// in others, append to the same stores. It never waits for an append of this engine:
// it publishes a view on the newest one, also while a group is being appended on it.
// The append of that group then conflicts, or it has succeeded already and its
// entries are among those that were followed.

// followMax is how many entries are applied before their view is published.
const followMax = 1000

// Follow brings the newest view to the driver's head and returns it. If the head went
// back, or if the log does not continue the history in memory (a backup was
// restored), it closes the timeline and fails with ErrHistory. If the log was trimmed
// above the view, the store is loaded again. Callers that follow at the same time wait
// for each other.
func (t *Timeline) Follow(ctx context.Context) (*View, error) {
	select {
	case t.following <- struct{}{}:
		defer func() { <-t.following }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	for {
		v, err := t.Current(ctx)
		if err != nil {
			return nil, err
		}
		h, err := t.Runtime.Driver.Head(ctx, t.ID)
		if err != nil {
			return nil, err
		}
		if h.Revision == v.Head.Revision && h.Hash == v.Head.Hash {
			return v, nil
		}
		if h.Revision > v.Head.Revision {
			err = t.replay(ctx, v)
			if err == nil {
				return t.Current(ctx)
			}
			if errors.Is(err, ErrOutdated) {
				continue // a group of this engine was published meanwhile
			}
			if errors.Is(err, storage.ErrTrimmed) {
				t.forget()
				continue
			}
			if !errors.Is(err, storage.ErrHistory) {
				return nil, err
			}
		}
		return nil, t.diverge(ctx, v.Head, h)
	}
}

// diverge closes the timeline, because the log has the head h and does not continue
// what was served at another head. It returns the error of all later calls. A store
// that was deleted and created again is ErrNoStore instead.
func (t *Timeline) diverge(ctx context.Context, served, h storage.Head) error {
	if err := t.checkIncarnation(ctx); err != nil {
		return err
	}
	t.Close(fmt.Errorf("%w: revision %d with the hash %s was served, and now the log ends at revision %d with the hash %s",
		authz.ErrHistory, served.Revision, served.Hash, h.Revision, h.Hash))
	return t.closeReason()
}

// continues checks that the log, which has the head h, continues what was served
// before the view was dropped. Otherwise it closes the timeline. If the log was
// trimmed above that, it cannot tell.
func (t *Timeline) continues(ctx context.Context, h storage.Head) error {
	served := t.served.Load()
	if served == nil || served.Revision == 0 || h == *served {
		return nil
	}
	if h.Revision <= served.Revision {
		return t.diverge(ctx, *served, h)
	}
	for e, err := range t.Runtime.Driver.Entries(ctx, t.ID, served.Revision+1) {
		switch {
		case errors.Is(err, storage.ErrTrimmed):
			return nil
		case err == nil && e.Previous != served.Hash:
			return t.diverge(ctx, *served, h)
		}
		return err
	}
	return nil
}

// replay applies the log after v and publishes the views. It fails with ErrOutdated
// if another view was published meanwhile.
func (t *Timeline) replay(ctx context.Context, v *View) error {
	r := replay{draft: t.Draft(v), head: v.Head}
	for e, err := range t.Runtime.Driver.Entries(ctx, t.ID, v.Head.Revision+1) {
		if err != nil {
			return err
		}
		if e.Revision != r.head.Revision+1 || e.Previous != r.head.Hash {
			return storage.ErrHistory
		}
		if err := r.apply(&e); err != nil {
			return err
		}
	}
	return r.publish()
}

// replay is a walk along the log.
type replay struct {
	draft   Draft
	head    storage.Head
	entries []storage.Entry // since the last publication
	heads   []storage.Head  // after each of entries
}

func (r *replay) apply(e *storage.Entry) error {
	head := headOf(e)
	if err := r.draft.Apply(e.Changes, head); err != nil {
		return err
	}
	r.head = head
	r.entries, r.heads = append(r.entries, *e), append(r.heads, r.head)
	if len(r.entries) >= followMax {
		return r.publish()
	}
	return nil
}

func (r *replay) publish() error {
	if len(r.entries) == 0 {
		return nil
	}
	t, v := r.draft.timeline, r.draft.View(r.head)
	if _, err := t.Publish(&r.draft, v, r.entries, r.heads); err != nil {
		return err
	}
	r.draft, r.entries, r.heads = t.Draft(v), nil, nil
	return nil
}

// advance returns the view that follows from v, which no other goroutine uses, and from
// the log behind it. If the log was trimmed above v, the state is read again.
func (t *Timeline) advance(ctx context.Context, v *View) (*View, error) {
	d, head := t.Draft(v), v.Head
	for e, err := range t.Runtime.Driver.Entries(ctx, t.ID, v.Head.Revision+1) {
		if errors.Is(err, storage.ErrTrimmed) {
			return t.loadView()
		}
		if err == nil && (e.Revision != head.Revision+1 || e.Previous != head.Hash) {
			err = storage.ErrHistory
		}
		if err == nil {
			head = headOf(&e)
			err = d.Apply(e.Changes, head)
		}
		if err != nil {
			return nil, err
		}
	}
	if head == v.Head {
		return v, nil
	}
	next := d.View(head)
	_, err := d.Batch.Publish()
	return next, err
}

// headOf returns the head after an entry.
func headOf(e *storage.Entry) storage.Head {
	return storage.Head{Revision: e.Revision, Hash: e.Hash(), Time: e.Time}
}

// publicationWait is how long catchUp waits for a group of this engine that is
// durable but not published yet, because following it would be the same work twice.
const publicationWait = time.Millisecond

// catchUp brings the newest view to what the driver's head is at the time of the
// call, because another engine may have written.
func (t *Timeline) catchUp(ctx context.Context) (*View, error) {
	before, err := t.Current(ctx)
	if err != nil {
		return nil, err
	}
	published := t.nextPublication()
	h, err := t.Runtime.Driver.Head(ctx, t.ID)
	if err != nil {
		return nil, err
	}
	reached := func() *View {
		if v := t.newest.Load(); v != nil && (v.Head == h || v.Head.Revision > h.Revision && t.marks.has(h)) {
			return v
		}
		return nil
	}
	if h.Revision < before.Head.Revision {
		return t.Follow(ctx) // the head went back
	}
	if v := reached(); v != nil {
		return v, nil
	}
	wait := time.NewTimer(publicationWait)
	defer wait.Stop()
	select {
	case <-published:
	case <-wait.C:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if v := reached(); v != nil {
		return v, nil
	}
	return t.Follow(ctx)
}

// awaited is the goroutine that looks for new entries while callers of Await wait:
// one for all of them.
type awaited struct {
	mu      sync.Mutex
	waiters int
	poll    *poll // nil while no goroutine runs
}

// poll is one goroutine of awaited.
type poll struct {
	failed chan struct{} // closed when the goroutine ends with err
	err    error
}

// The times between two looks at the log while callers wait for a revision.
const (
	pollMin = time.Millisecond
	pollMax = 100 * time.Millisecond
)

// look makes a goroutine look for new entries until stop is called. The channel
// failed of the result is closed if it ends earlier with an error.
func (t *Timeline) look() (p *poll, stop func(), err error) {
	a := &t.awaited
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.poll == nil {
		a.poll = &poll{failed: make(chan struct{})}
		if p := a.poll; !t.Runtime.Start(func() { t.pollLog(p) }) {
			a.poll = nil
			return nil, nil, authz.ErrClosed
		}
	}
	a.waiters++
	return a.poll, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.waiters--
	}, nil
}

// pollLog follows the log until no caller waits.
func (t *Timeline) pollLog(p *poll) {
	ctx, a := t.Runtime.ctx, &t.awaited
	timer := time.NewTimer(0)
	defer timer.Stop()
	for wait := pollMin; ; wait = min(2*wait, pollMax) {
		_, err := t.catchUp(ctx)
		if err == nil {
			timer.Reset(wait)
			select {
			case <-timer.C:
			case <-ctx.Done():
				err = authz.ErrClosed
			}
		}
		a.mu.Lock()
		if err != nil || a.waiters == 0 {
			a.poll = nil
			if p.err = err; err != nil {
				close(p.failed)
			}
			a.mu.Unlock()
			return
		}
		a.mu.Unlock()
	}
}
