package ostiary

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ostiary/ostiary/graph"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/storage"
)

// view is what a store held at one revision: what a request pins. It never
// changes.
type view struct {
	head    storage.Head
	graph   *graph.View
	schemas *schemaSet
	// past says that the view was asked for by revision, so that its questions
	// are asked at its commit time.
	past bool
}

// Consistency chooses the revision that a question is asked at. The zero Consistency is the
// newest view here, without waiting.
type Consistency struct {
	mode  atMode
	token Token
	place int64 // revision or time
}

type atMode uint8

const (
	atNewest atMode = iota
	atLeast
	atExactly
	atRevision
	atTime
	atHead
)

// MinimizeLatency asks the newest view here; it is the zero At. On one node
// every question sees every acknowledged write.
func MinimizeLatency() Consistency { return Consistency{} }

// AtLeast asks a view that is not older than the token, waiting for it until
// the context's deadline (or Bounds.FutureWait); then it is ErrFuture.
func AtLeast(t Token) Consistency { return Consistency{mode: atLeast, token: t} }

// AtExactly asks the view at the token, as of its commit time.
func AtExactly(t Token) Consistency { return Consistency{mode: atExactly, token: t} }

// AtRevision asks the view at a revision, as of its commit time.
func AtRevision(r storage.Revision) Consistency {
	return Consistency{mode: atRevision, place: int64(r)}
}

// AtTime asks the view that was the newest at a time, as of its commit time.
func AtTime(t time.Time) Consistency { return Consistency{mode: atTime, place: int64(rel.TimeOf(t))} }

// FullyConsistent asks the driver for the head, and waits for it.
func FullyConsistent() Consistency { return Consistency{mode: atHead} }

// at returns the view that a request asks for.
func (s *Store) at(ctx context.Context, a Consistency) (*view, error) {
	switch a.mode {
	case atNewest:
		return s.view(ctx)
	case atHead:
		return s.atHead(ctx)
	case atLeast, atExactly:
		p, err := readToken(a.token)
		if err != nil {
			return nil, err
		}
		return s.atToken(ctx, p, a.mode == atExactly)
	case atRevision:
		return s.atRevision(ctx, storage.Revision(a.place))
	case atTime:
		r, err := s.revisionAt(ctx, rel.Time(a.place))
		if err != nil {
			return nil, err
		}
		return s.atRevision(ctx, r)
	}
	return nil, fmt.Errorf("%w: unknown At", ErrInvalidRequest)
}

// atToken confirms a token against the history, and returns a view at least as
// new, or the very one.
func (s *Store) atToken(ctx context.Context, p tokenParts, exactly bool) (*view, error) {
	v, err := s.confirm(ctx, p)
	if err != nil || !exactly {
		return v, err
	}
	return s.pastView(ctx, v, p.revision)
}

// confirm returns a view whose history holds the token.
func (s *Store) confirm(ctx context.Context, p tokenParts) (*view, error) {
	if p.incarnation != s.incarnation {
		return nil, fmt.Errorf("%w: it is of another store or incarnation", ErrToken)
	}
	v, err := s.await(ctx, p.revision)
	if err != nil {
		return nil, err
	}
	mark, err := s.mark(ctx, v, p.revision)
	if errors.Is(err, storage.ErrTrimmed) {
		// Its entry is gone, and with it what could confirm the token. What is at
		// least as new is here all the same.
		return v, nil
	}
	if err != nil {
		return nil, err
	}
	if mark != p.mark {
		return nil, fmt.Errorf("%w: it is of another history", ErrToken)
	}
	return v, nil
}

// mark returns the mark of a revision that v's history holds.
func (s *Store) mark(ctx context.Context, v *view, r storage.Revision) (uint64, error) {
	switch {
	case r == 0:
		return 0, nil
	case r == v.head.Revision:
		return markOf(v.head.Hash), nil
	}
	if m, ok := s.marks.get(r); ok {
		return m, nil
	}
	return s.markFromLog(ctx, r)
}

// markFromLog finds a mark that is not at hand any more.
func (s *Store) markFromLog(ctx context.Context, r storage.Revision) (uint64, error) {
	// An entry tells its predecessor's hash, so the entry after is as good.
	for e, err := range s.engine.driver.Entries(ctx, s.id, r+1) {
		if err != nil {
			return 0, err
		}
		m := markOf(e.Previous)
		s.marks.put(storage.Head{Revision: r, Hash: e.Previous})
		return m, nil
	}
	return 0, fmt.Errorf("%w: the log ends before revision %d", ErrToken, r+1)
}

// await returns a view of at least revision r.
func (s *Store) await(ctx context.Context, r storage.Revision) (*view, error) {
	v, err := s.view(ctx)
	if err != nil || v.head.Revision >= r {
		return v, err
	}
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, s.engine.opts.Bounds.FutureWait)
		defer cancel()
	}
	poll := time.NewTimer(0)
	defer poll.Stop()
	for wait := time.Millisecond; ; wait = min(2*wait, 100*time.Millisecond) {
		moved := s.waiter()
		if v, err = s.catchUp(ctx); err == nil && v.head.Revision >= r {
			return v, nil
		}
		if err != nil && ctx.Err() == nil {
			return nil, err
		}
		poll.Reset(wait)
		select {
		case <-moved:
		case <-poll.C: // another process may have written
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: revision %d: %w", ErrFuture, r, ctx.Err())
		}
	}
}

// atHead returns a view of at least the driver's head of this moment.
func (s *Store) atHead(ctx context.Context) (*view, error) {
	h, err := s.engine.driver.Head(ctx, s.id)
	if err != nil {
		return nil, err
	}
	v, err := s.view(ctx)
	if err != nil {
		return nil, err
	}
	if v.head.Revision == h.Revision && v.head.Hash == h.Hash {
		return v, nil
	}
	return s.catchUp(ctx)
}

// atRevision returns the view at one revision.
func (s *Store) atRevision(ctx context.Context, r storage.Revision) (*view, error) {
	v, err := s.await(ctx, r)
	if err != nil {
		return nil, err
	}
	return s.pastView(ctx, v, r)
}

// revisionAt finds the newest revision whose commit time is not after t, by
// binary search: times never decrease along a log.
func (s *Store) revisionAt(ctx context.Context, t rel.Time) (storage.Revision, error) {
	v, err := s.view(ctx)
	if err != nil {
		return 0, err
	}
	if v.head.Time <= t {
		return v.head.Revision, nil
	}
	oldest, _, err := s.engine.driver.Oldest(ctx, s.id)
	if err != nil {
		return 0, err
	}
	// low's time is not after t (or it is before the log), high's is after t.
	low, high := oldest-1, v.head.Revision
	for low+1 < high {
		mid := low + (high-low)/2
		at, err := s.entryTime(ctx, mid)
		if err != nil {
			return 0, err
		}
		if at <= t {
			low = mid
		} else {
			high = mid
		}
	}
	if low < oldest && oldest > 1 {
		return 0, fmt.Errorf("%w: the log begins after that time", ErrTooOld)
	}
	return low, nil
}

func (s *Store) entryTime(ctx context.Context, r storage.Revision) (rel.Time, error) {
	for e, err := range s.engine.driver.Entries(ctx, s.id, r) {
		return e.Time, err
	}
	return 0, fmt.Errorf("%w: no entry %d", ErrTooOld, r)
}

// catchUp brings the newest view to the driver's head, which other processes
// may have moved.
func (s *Store) catchUp(ctx context.Context) (*view, error) {
	if _, err := s.view(ctx); err != nil {
		return nil, err
	}
	h, err := s.engine.driver.Head(ctx, s.id)
	if err != nil {
		return nil, err
	}
	if v := s.newest.Load(); v != nil && v.head.Revision >= h.Revision && v.head.Hash == h.Hash {
		return v, nil
	}
	if err := s.takeTurn(ctx); err != nil {
		return nil, err
	}
	defer s.freeTurn()
	return s.follow(ctx)
}
