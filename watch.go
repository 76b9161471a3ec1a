package ostiary

import (
	"context"
	"iter"
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

// runWatch returns nil where the consumer has gone.
func (s *Store) runWatch(ctx context.Context, r WatchRequest, yield func(ChangeEntry, error) bool) error {
	last := storage.Head{}
	if r.After != "" {
		p, err := readToken(r.After)
		if err != nil {
			return err
		}
		if _, err := s.confirm(ctx, p); err != nil {
			return err
		}
		last.Revision = p.revision
	}
	for {
		// Entries that are published from here on are kept for us.
		w := s.watch.add(s.engine.opts.Bounds.WatchBuffer)
		v, err := s.view(ctx)
		if err == nil {
			err = s.open()
		}
		if err != nil {
			s.watch.remove(w)
			return err
		}
		if r.After == "" && last.Revision == 0 {
			last = v.head
		}
		// The log up to there may be longer than a watcher may lag; then it is read
		// to its end first, and we look again.
		gap := v.head.Revision > last.Revision+storage.Revision(s.engine.opts.Bounds.WatchBuffer/2)
		if gap {
			s.watch.remove(w)
		}
		more, err := s.watchLog(ctx, &last, v.head.Revision, r.Types, yield)
		if err != nil || !more {
			s.watch.remove(w)
			return err
		}
		if gap {
			continue
		}
		err = s.watchLive(ctx, w, last, r.Types, yield)
		s.watch.remove(w)
		return err
	}
}

// watchLog yields the log's entries after last up to a revision.
func (s *Store) watchLog(ctx context.Context, last *storage.Head, through storage.Revision, types []string, yield func(ChangeEntry, error) bool) (more bool, err error) {
	if last.Revision >= through {
		return true, nil
	}
	walk := logWalk{s: s, after: last.Revision}
	for e, err := range walk.entries(ctx) {
		if err != nil {
			return false, err
		}
		*last = walk.head
		if entry := s.visible(e, walk.head, types); len(entry.Changes) > 0 && !yield(entry, nil) {
			return false, nil
		}
		if e.Revision >= through {
			break
		}
	}
	return true, nil
}

// watchLive yields what is pushed, after last.
func (s *Store) watchLive(ctx context.Context, w *watcher, last storage.Head, types []string, yield func(ChangeEntry, error) bool) error {
	for {
		items, err := w.take(ctx)
		for i := range items {
			item := &items[i]
			if item.head.Revision <= last.Revision {
				continue
			}
			last = item.head
			if entry := s.visible(&item.entry, item.head, types); len(entry.Changes) > 0 && !yield(entry, nil) {
				return nil
			}
		}
		if err == ErrWatchBehind {
			token, tokenErr := s.tokenFor(ctx, last.Revision)
			if tokenErr != nil {
				return tokenErr
			}
			return &WatchError{token}
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

// push hands published entries to every watcher, without waiting for one.
func (ws *watchers) push(entries []storage.Entry, heads []storage.Head) {
	if ws.count.Load() == 0 {
		return
	}
	ws.mu.Lock()
	defer ws.mu.Unlock()
	for w := range ws.all {
		w.push(entries, heads)
	}
}

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
