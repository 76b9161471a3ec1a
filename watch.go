package ostiary

import (
	"context"
	"errors"
	"iter"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/ostiary/ostiary/storage"
)

// WatchError is an ErrWatchBehind that says where to resume.
type WatchError struct{ Resume Token }

func (e *WatchError) Error() string {
	return ErrWatchBehind.Error() + ": resume after " + string(e.Resume)
}

// Is makes a WatchError an ErrWatchBehind.
func (e *WatchError) Is(target error) bool { return target == ErrWatchBehind }

// WatchRequest asks for entries as they come.
type WatchRequest struct {
	// After is a token that the entries follow; "" is the newest revision.
	After Token
	// Types is as in ChangesRequest.
	Types []string
}

// Watch yields the entries after a token, first from the log, then as they are
// published in this process, until ctx ends or the consumer breaks. Writers
// never wait for a watcher: one that lags by more than Bounds.WatchBuffer
// entries ends with a WatchError.
func (s *Store) Watch(ctx context.Context, r WatchRequest) iter.Seq2[ChangeEntry, error] {
	return func(yield func(ChangeEntry, error) bool) {
		if err := s.runWatch(ctx, r, yield); err != nil {
			yield(ChangeEntry{}, failed("watch", s.id, err))
		}
	}
}

// watching is one Watch: where it is, and whom it tells.
type watching struct {
	s     *Store
	types []string
	yield func(ChangeEntry, error) bool
	after Token // what was looked at last
	last  storage.Revision
}

// runWatch returns nil where the consumer has gone.
func (s *Store) runWatch(ctx context.Context, r WatchRequest, yield func(ChangeEntry, error) bool) error {
	w := watching{s: s, types: r.Types, yield: yield, after: r.After}
	if w.after == "" {
		head, err := s.Head(ctx)
		if err != nil {
			return err
		}
		w.after = head
	}
	p, err := readToken(w.after)
	if err != nil {
		return err
	}
	if _, err := s.confirm(ctx, p); err != nil {
		return err
	}
	w.last = p.revision
	for {
		// Entries that are published from here on are kept for us.
		buffer := s.watch.add(s.engine.opts.Bounds.WatchBuffer)
		live, err := w.run(ctx, buffer)
		s.watch.remove(buffer)
		if err != nil || live {
			return err
		}
	}
}

// run reads the log up to what was published when the buffer began, and then
// the buffer. A log that is longer than the buffer may hold is read without
// one; then live is false, and the caller starts again.
func (w *watching) run(ctx context.Context, buffer *watcher) (live bool, err error) {
	if err := w.s.open(); err != nil {
		return true, err
	}
	v, err := w.s.view(ctx)
	if err != nil {
		return true, err
	}
	through := v.head.Revision
	live = through <= w.last+storage.Revision(w.s.engine.opts.Bounds.WatchBuffer/2)
	if !live {
		w.s.watch.remove(buffer)
	}
	if more, err := w.log(ctx, through); err != nil || !more {
		return true, err
	}
	if !live {
		return false, nil
	}
	err = w.live(ctx, buffer)
	if err == errLook {
		return false, nil
	}
	return true, err
}

// errLook sends a watcher back to the log: the store was loaded anew, and what
// happened before was not pushed.
var errLook = errors.New("look at the log")

// log yields the log's entries up to a revision, a page at a time: no read of
// the driver is open while the consumer works.
func (w *watching) log(ctx context.Context, through storage.Revision) (more bool, err error) {
	for w.last < through {
		page, err := w.s.changes(ctx, ChangesRequest{After: w.after, Types: w.types})
		if err != nil {
			return false, err
		}
		for _, e := range page.Entries {
			if !w.yield(e, nil) {
				return false, nil
			}
		}
		p, err := readToken(page.Next)
		if err != nil || p.revision <= w.last {
			return true, err
		}
		w.after, w.last = page.Next, p.revision
	}
	return true, nil
}

// live yields what is pushed.
func (w *watching) live(ctx context.Context, buffer *watcher) error {
	for {
		items, err := buffer.take(ctx)
		for i := range items {
			item := &items[i]
			if item.head.Revision <= w.last {
				continue
			}
			if item.head.Revision > w.last+1 {
				return errLook
			}
			w.after, w.last = w.s.tokenAt(item.head), item.head.Revision
			if e := w.s.visible(&item.entry, item.head, w.types); len(e.Changes) > 0 && !w.yield(e, nil) {
				return nil
			}
		}
		if err == ErrWatchBehind {
			return &WatchError{w.after}
		}
		if err != nil {
			return err
		}
	}
}

// watchers are those of one store.
type watchers struct {
	count atomic.Int32
	mu    sync.Mutex
	all   map[*watcher]struct{}
	// pending is what the goroutine of tell has yet to tell; telling says that it
	// runs. A watcher that is added meanwhile skips what is older than it is, and
	// one that is ended meanwhile loses what it would not have seen.
	pending []watched
	telling bool
}

// watcher is a bounded buffer of entries between a store's writer and one
// consumer.
type watcher struct {
	most  int
	wake  chan struct{} // holds one
	mu    sync.Mutex
	items []watched
	size  int // changes of items
	err   error
}

type watched struct {
	entry storage.Entry
	head  storage.Head
}

// watchChanges is how many changes, for each entry it may lag, a watcher holds.
const watchChanges = 100

func (ws *watchers) add(most int) *watcher {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	w := &watcher{most: most, wake: make(chan struct{}, 1)}
	if ws.all == nil {
		ws.all = map[*watcher]struct{}{}
	}
	ws.all[w] = struct{}{}
	ws.count.Store(int32(len(ws.all)))
	return w
}

func (ws *watchers) remove(w *watcher) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	delete(ws.all, w)
	ws.count.Store(int32(len(ws.all)))
}

// push hands published entries to every watcher, without waiting for one, and
// says whether there was any, who then keeps them.
func (ws *watchers) push(entries []storage.Entry, heads []storage.Head) (kept bool) {
	if ws.count.Load() == 0 {
		return false
	}
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if len(ws.all) <= directMax {
		for w := range ws.all {
			w.push(entries, heads)
		}
		return true
	}
	for i := range entries {
		ws.pending = append(ws.pending, watched{entries[i], heads[i]})
	}
	if !ws.telling {
		ws.telling = true
		go ws.tell()
	}
	return true
}

// directMax is how many watchers a writer tells himself; more are told for him.
const directMax = 8

// tell tells all watchers what is pending, so that a writer pays for one of
// them however many there are. It ends when nothing is pending.
func (ws *watchers) tell() {
	for {
		ws.mu.Lock()
		items := ws.pending
		if ws.pending = nil; len(items) == 0 {
			ws.telling = false
			ws.mu.Unlock()
			return
		}
		all := slices.Collect(maps.Keys(ws.all))
		ws.mu.Unlock()
		entries, heads := make([]storage.Entry, len(items)), make([]storage.Head, len(items))
		for i := range items {
			entries[i], heads[i] = items[i].entry, items[i].head
		}
		for _, w := range all {
			w.push(entries, heads)
		}
	}
}

// look sends every watcher to the log.
func (ws *watchers) look() { ws.end(errLook) }

// end tells every watcher why the store ends.
func (ws *watchers) end(err error) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	for w := range ws.all {
		w.fail(err)
	}
}

func (w *watcher) push(entries []storage.Entry, heads []storage.Head) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range entries {
		if w.err != nil {
			return
		}
		n := len(entries[i].Changes)
		if len(w.items) >= w.most || len(w.items) > 0 && w.size+n > w.most*watchChanges {
			w.err = ErrWatchBehind
			break
		}
		w.items = append(w.items, watched{entries[i], heads[i]})
		w.size += n
	}
	w.signal()
}

func (w *watcher) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil {
		w.err = err
	}
	w.signal()
}

func (w *watcher) signal() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// take waits for entries, or for the reason there will be no more; both may
// come at once.
func (w *watcher) take(ctx context.Context) ([]watched, error) {
	for {
		w.mu.Lock()
		items, err := w.items, w.err
		w.items, w.size = nil, 0
		w.mu.Unlock()
		if len(items) > 0 || err != nil {
			return items, err
		}
		select {
		case <-w.wake:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}
