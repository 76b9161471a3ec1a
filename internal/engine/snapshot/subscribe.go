package snapshot

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/internal/tool/turns"
	"github.com/ostiary/ostiary/storage"
)

// Published is an entry that was published. All subscriptions share it, and it
// must not be changed.
type Published struct {
	// Entry is the log entry.
	Entry storage.Entry
	// Head is the place of the entry in the log.
	Head storage.Head

	once    sync.Once
	visible []storage.Change
	holders atomic.Int32 // subscriptions that buffer the entry, see lagBudget
}

// Visible returns what find returns for the entry. It calls find once for all
// subscriptions, so that a thousand of them keep one copy of the changes.
func (p *Published) Visible(find func(*storage.Entry) []storage.Change) []storage.Change {
	p.once.Do(func() { p.visible = find(&p.Entry) })
	return p.visible
}

// ErrReload ends a [Subscription] because the store was loaded again. Entries
// may be missing, so the subscriber has to read the log.
var ErrReload = errors.New("store was dropped from memory and loaded again")

// Subscription is a bounded buffer of published entries between the writers of
// a store and one subscriber. Writers never wait for it: one that is full ends
// with ErrWatchBehind.
type Subscription struct {
	all   *subscriptions
	limit int           // of entries
	wake  chan struct{} // holds one element if items or err are new
	lag   *lagBudget

	mu      sync.Mutex
	items   []*Published
	changes int // changes in items
	err     error
	taken   []*Published // what the last Next returned; nil where Done was called
	held    int          // changes in items and taken
	lags    bool         // there are items, or taken ones that are not done
	closed  bool
}

// lagBudget bounds the changes that the subscriptions of all stores buffer. A
// change that several of them buffer counts once.
type lagBudget struct {
	max     int64
	changes atomic.Int64
	lagging atomic.Int64 // subscriptions that hold changes
}

// allows reports whether a subscription that holds that many changes may buffer n
// more. Above the bound, it may do so up to its share: the bound divided by the
// number of subscriptions that hold changes. So all of them together hold at most
// twice the bound, and those that keep up are not ended because of those that lag.
func (b *lagBudget) allows(held, n int) bool {
	return b.changes.Load()+int64(n) <= b.max || int64(held+n) <= b.max/max(b.lagging.Load(), 1)
}

// hold counts an entry for s, whose lock is held.
func (s *Subscription) hold(p *Published) {
	n := len(p.Entry.Changes)
	if s.held += n; p.holders.Add(1) == 1 {
		s.lag.changes.Add(int64(n))
	}
	if !s.lags && s.held > 0 {
		s.lags = true
		s.lag.lagging.Add(1)
	}
}

// free ends the count of entries that s holds. The lock of s is held.
func (s *Subscription) free(all []*Published) {
	for _, p := range all {
		if p == nil {
			continue
		}
		n := len(p.Entry.Changes)
		if s.held -= n; p.holders.Add(-1) == 0 {
			s.lag.changes.Add(-int64(n))
		}
	}
	if s.lags && s.held == 0 {
		s.lags = false
		s.lag.lagging.Add(-1)
	}
}

// Done frees the entry at an index of what the last Next returned, which is nil
// from then on. Entries that are not done are freed by the next call of Next.
func (s *Subscription) Done(i int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i < len(s.taken) {
		s.free(s.taken[i : i+1])
		s.taken[i] = nil
	}
}

// changesPerEntry is how many changes a subscription buffers for each entry that
// it may buffer.
const changesPerEntry = 100

// subscriptions are those of one store.
type subscriptions struct {
	count atomic.Int32 // len(all)
	mu    sync.Mutex
	all   map[*Subscription]struct{}
	// pending are entries that deliver has not handed out yet; delivering is true
	// while its goroutine runs. A new subscription may get entries that are older
	// than itself, which its subscriber skips. A subscription that fails before the
	// delivery may lose entries, which its subscriber does not read any more.
	pending    []*Published
	delivering bool
}

// Subscribe returns a subscription that buffers up to limit entries, beginning
// with those that are published from now on. The caller closes it.
func (t *Timeline) Subscribe(limit int) *Subscription {
	ss := &t.subscriptions
	ss.mu.Lock()
	defer ss.mu.Unlock()
	s := &Subscription{all: ss, limit: limit, wake: make(chan struct{}, 1), lag: &t.Runtime.lag}
	if ss.all == nil {
		ss.all = map[*Subscription]struct{}{}
	}
	ss.all[s] = struct{}{}
	ss.count.Store(int32(len(ss.all)))
	return s
}

// Close ends the subscription. It may be called more than once.
func (s *Subscription) Close() {
	ss := s.all
	ss.mu.Lock()
	defer ss.mu.Unlock()
	delete(ss.all, s)
	ss.count.Store(int32(len(ss.all)))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free(s.items)
	s.free(s.taken)
	s.closed, s.items, s.taken, s.changes = true, nil, nil, 0
}

// Next waits for entries, or for the error that ends the subscription. It may
// return both. The entries of the call before no longer count as a lag.
func (s *Subscription) Next(ctx context.Context) ([]*Published, error) {
	for {
		s.mu.Lock()
		items, err := s.items, s.err
		s.free(s.taken)
		s.taken, s.items, s.changes = items, nil, 0
		s.mu.Unlock()
		if len(items) > 0 || err != nil {
			return items, err
		}
		turns.Pause(ctx)
		select {
		case <-s.wake:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// directMax is how many subscriptions a writer serves itself. If there are more,
// a goroutine serves them.
const directMax = 8

// push hands entries to all subscriptions without waiting. kept is true if there
// are any, because they then keep the entries.
func (ss *subscriptions) push(entries []storage.Entry, heads []storage.Head) (kept bool) {
	if ss.count.Load() == 0 {
		return false
	}
	ss.mu.Lock()
	defer ss.mu.Unlock()
	items := make([]*Published, len(entries))
	for i := range entries {
		items[i] = &Published{Entry: entries[i], Head: heads[i]}
	}
	if len(ss.all) <= directMax {
		for s := range ss.all {
			s.push(items)
		}
		return true
	}
	ss.pending = append(ss.pending, items...)
	if !ss.delivering {
		ss.delivering = true
		go ss.deliver()
	}
	return true
}

// deliver hands the pending entries to all subscriptions and ends when there are
// none, so that the cost of a write does not grow with the subscriptions.
func (ss *subscriptions) deliver() {
	for {
		ss.mu.Lock()
		items := ss.pending
		if ss.pending = nil; len(items) == 0 {
			ss.delivering = false
			ss.mu.Unlock()
			return
		}
		all := slices.Collect(maps.Keys(ss.all))
		ss.mu.Unlock()
		for _, s := range all {
			s.push(items)
		}
	}
}

// fail ends all subscriptions with an error.
func (ss *subscriptions) fail(err error) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	for s := range ss.all {
		s.fail(err)
	}
}

func (s *Subscription) push(items []*Published) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, item := range items {
		if s.err != nil || s.closed {
			return
		}
		n := len(item.Entry.Changes)
		if s.held > 0 && !s.lag.allows(s.held, n) {
			s.free(s.items) // the subscriber resumes after the last entry that it got
			s.items, s.changes, s.err = nil, 0, authz.ErrWatchBehind
			break
		}
		if len(s.items) >= s.limit || len(s.items) > 0 && s.changes+n > s.limit*changesPerEntry {
			s.err = authz.ErrWatchBehind
			break
		}
		s.items = append(s.items, item)
		s.changes += n
		s.hold(item)
	}
	s.signal()
}

func (s *Subscription) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.err = err
	}
	s.signal()
}

func (s *Subscription) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}
