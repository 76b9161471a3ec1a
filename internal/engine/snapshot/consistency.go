package snapshot

import (
	"context"
	"errors"
	"fmt"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/internal/tool/turns"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/storage"
)

// Hold returns a Consistency that reads the view that c chooses now, at the time
// of this call. Questions with it are answered as one: at the same revision and
// the same time. It keeps the view in memory.
func (t *Timeline) Hold(ctx context.Context, c authz.Consistency) (authz.Consistency, error) {
	v, err := t.At(ctx, c)
	if err != nil {
		return authz.Consistency{}, err
	}
	p := *v
	p.at = t.Now(v)
	return authz.HoldView(&heldView{&p, t}), nil
}

// heldView is the view that [Timeline.Hold] keeps.
type heldView struct {
	view     *View
	timeline *Timeline
}

// choose returns the view that c chooses, for questions at the time that c chooses.
func (t *Timeline) choose(ctx context.Context, c authz.Choice) (*View, error) {
	v, err := t.chooseView(ctx, c)
	if err != nil || !c.Current || !v.Past {
		return v, err
	}
	p := *v
	p.Past, p.at = false, 0
	return &p, nil
}

// chooseView returns the view that c chooses. It handles every mode except
// [authz.ModeNewest] and [authz.ModeLocal], which [Timeline.At] handles.
func (t *Timeline) chooseView(ctx context.Context, c authz.Choice) (*View, error) {
	switch c.Mode {
	case authz.ModeHeld:
		h, ok := c.Held.(*heldView)
		if !ok || h.timeline != t {
			return nil, fmt.Errorf("%w: the Consistency holds a view of another store", authz.ErrInvalidRequest)
		}
		return h.view, nil
	case authz.ModeHead:
		return t.atHead(ctx)
	case authz.ModeLeast, authz.ModeExactly:
		p, err := authz.ReadToken(c.Token)
		if err != nil {
			return nil, err
		}
		return t.AtToken(ctx, p, c.Mode == authz.ModeExactly)
	case authz.ModeRevision:
		return t.atRevision(ctx, c.Revision)
	case authz.ModeTime:
		return t.atTime(ctx, c.Time)
	}
	return nil, fmt.Errorf("%w: unknown consistency mode %d", authz.ErrInvalidRequest, c.Mode)
}

// AtToken checks that the token belongs to the store's history. It returns the
// view at the token if exactly is true, otherwise one that is at least as new.
func (t *Timeline) AtToken(ctx context.Context, p authz.TokenParts, exactly bool) (*View, error) {
	v, err := t.Confirm(ctx, p)
	if err != nil || !exactly {
		return v, err
	}
	return t.PastView(ctx, v, p.Revision)
}

// Confirm checks that the token belongs to the store's history, and returns a
// view that is at least as new.
func (t *Timeline) Confirm(ctx context.Context, p authz.TokenParts) (*View, error) {
	if p.Incarnation != t.Incarnation {
		return nil, fmt.Errorf("%w: the token belongs to another store, or to a deleted store with the same id", authz.ErrToken)
	}
	v, err := t.Await(ctx, p.Revision)
	if err != nil {
		return nil, err
	}
	mark, err := t.mark(ctx, v, p.Revision)
	if errors.Is(err, storage.ErrTrimmed) {
		// The entry that could confirm the token is gone. The view is at least as
		// new, so the token is accepted.
		return v, nil
	}
	if err != nil {
		return nil, err
	}
	if mark != p.Mark {
		return nil, fmt.Errorf("%w: the token belongs to another history of the store, for example to the one before a backup was restored", authz.ErrToken)
	}
	return v, nil
}

// FutureRevisionsMax is how many revisions a request waits for at most. No node writes
// or copies so many within the deadline of a request, so one for a later revision fails
// at once: its token was forged, or belongs to another history of the store.
const FutureRevisionsMax = 100_000

// Await returns a view of revision r or a later one. It waits until the deadline
// of ctx, or for Bounds.FutureWait if ctx has no deadline, and fails with
// ErrFuture; at once if r is more than FutureRevisionsMax later than the newest one.
func (t *Timeline) Await(ctx context.Context, r storage.Revision) (*View, error) {
	v, err := t.Current(ctx)
	if err != nil || v.Head.Revision >= r {
		return v, err
	}
	caller, newest := ctx, v.Head.Revision
	if r-newest > FutureRevisionsMax {
		return nil, fmt.Errorf("%w: revision %d, the newest is %d", authz.ErrFuture, r, newest)
	}
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, t.Runtime.Bounds.FutureWait)
		defer cancel()
	}
	turns.Pause(ctx)
	p, stop, err := t.look()
	if err != nil {
		return nil, err
	}
	defer stop()
	for {
		published := t.nextPublication()
		if v := t.newest.Load(); v != nil && v.Head.Revision >= r {
			return v, nil
		}
		select {
		case <-published:
		case <-p.failed:
			return nil, p.err
		case <-ctx.Done():
			err := fmt.Errorf("%w: revision %d, the newest is %d", authz.ErrFuture, r, newest)
			if caller.Err() != nil {
				// The cause is text only: doors must not take the error for a passed
				// deadline.
				err = fmt.Errorf("%w: %v", err, context.Cause(caller))
			}
			return nil, err
		}
	}
}

// atHead returns a view that is not older than what was durable at the time of the
// call, whoever wrote it.
func (t *Timeline) atHead(ctx context.Context) (*View, error) {
	if err := t.Runtime.Confirm(ctx); err != nil {
		return nil, err
	}
	h, err := t.Runtime.Driver.Head(ctx, t.ID)
	if err != nil {
		return nil, err
	}
	v, err := t.Current(ctx)
	if err != nil {
		return nil, err
	}
	if v.Head.Revision == h.Revision && v.Head.Hash == h.Hash {
		return v, nil
	}
	return t.catchUp(ctx)
}

// atRevision returns the view at a revision.
func (t *Timeline) atRevision(ctx context.Context, r storage.Revision) (*View, error) {
	v, err := t.Await(ctx, r)
	if err != nil {
		return nil, err
	}
	return t.PastView(ctx, v, r)
}

// atTime returns the view that was the newest at a time, for questions at that time.
func (t *Timeline) atTime(ctx context.Context, when rel.Time) (*View, error) {
	r, err := t.RevisionAt(ctx, when)
	if err != nil {
		return nil, err
	}
	v, err := t.atRevision(ctx, r)
	if err != nil {
		return nil, err
	}
	return v.AskedAt(max(v.Head.Time, min(when, t.Runtime.Now()))), nil
}

// RevisionAt returns the newest revision whose commit time is not after the
// time. It searches the log by bisection, because commit times never decrease.
// It fails with ErrTooOld if the log begins later.
func (t *Timeline) RevisionAt(ctx context.Context, when rel.Time) (storage.Revision, error) {
	v, err := t.Newest(ctx)
	if err != nil {
		return 0, err
	}
	if v.Head.Time <= when {
		return v.Head.Revision, nil
	}
	oldest, _, err := t.Runtime.Driver.Oldest(ctx, t.ID)
	if err != nil {
		return 0, err
	}
	// The entry at low is not after the time, or precedes the log. The entry at
	// high is after the time.
	low, high := oldest-1, v.Head.Revision
	for low+1 < high {
		mid := low + (high-low)/2
		at, err := t.entryTime(ctx, mid)
		if err != nil {
			return 0, err
		}
		if at <= when {
			low = mid
		} else {
			high = mid
		}
	}
	if low < oldest && oldest > 1 {
		return 0, fmt.Errorf("%w: the log begins after the requested time", authz.ErrTooOld)
	}
	return low, nil
}

func (t *Timeline) entryTime(ctx context.Context, r storage.Revision) (rel.Time, error) {
	for e, err := range t.Runtime.Driver.Entries(ctx, t.ID, r) {
		if err == nil && e.Incarnation != t.Incarnation {
			err = ErrIncarnation
		}
		return e.Time, err
	}
	return 0, fmt.Errorf("%w: the log has no entry %d", authz.ErrTooOld, r)
}
