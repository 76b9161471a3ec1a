package changelog

import (
	"context"
	"errors"
	"iter"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/internal/engine/errs"
	"github.com/ostiary/ostiary/internal/engine/snapshot"
	"github.com/ostiary/ostiary/storage"
)

// Watch yields the entries after a token: first from the log, then as this
// process publishes them. It ends when ctx ends or the consumer stops. Writers
// never wait for a watcher: one that lags by more than Bounds.WatchBuffer
// entries ends with a [authz.WatchError].
func Watch(ctx context.Context, t *snapshot.Timeline, r authz.WatchRequest) iter.Seq2[authz.ChangeEntry, error] {
	return func(yield func(authz.ChangeEntry, error) bool) {
		w := watch{timeline: t, types: r.Types, yield: yield, after: r.After}
		if err := w.run(ctx); err != nil {
			yield(authz.ChangeEntry{}, errs.Wrap("watch", t.ID, err))
		}
	}
}

// watch is a Watch in progress.
type watch struct {
	timeline *snapshot.Timeline
	types    []string
	yield    func(authz.ChangeEntry, error) bool
	after    authz.Token      // of the last entry that was read
	last     storage.Revision // of the same entry
}

// run watches until there is an error. It returns nil if the consumer stopped.
func (w *watch) run(ctx context.Context) error {
	t := w.timeline
	if w.after == "" {
		v, err := t.Newest(ctx)
		if err != nil {
			return errs.Wrap("head", t.ID, err)
		}
		w.after = t.Token(v.Head)
	}
	p, err := authz.ReadToken(w.after)
	if err != nil {
		return err
	}
	if _, err := t.Confirm(ctx, p); err != nil {
		return err
	}
	w.last = p.Revision
	for {
		subscription := t.Subscribe(t.Runtime.Bounds.WatchBuffer)
		ended, err := w.follow(ctx, subscription)
		subscription.Close()
		if err != nil || ended {
			return err
		}
	}
}

// follow reads the log up to the newest view, and then the subscription, which
// began before. If the log is too long for that it reads without the
// subscription, and returns ended = false: the caller subscribes again.
func (w *watch) follow(ctx context.Context, subscription *snapshot.Subscription) (ended bool, err error) {
	if err := w.timeline.Err(); err != nil {
		return true, err
	}
	v, err := w.timeline.Current(ctx)
	if err != nil {
		return true, err
	}
	through := v.Head.Revision
	short := through <= w.last+storage.Revision(w.timeline.Runtime.Bounds.WatchBuffer/2)
	if !short {
		subscription.Close()
	}
	if more, err := w.readLog(ctx, through); err != nil || !more {
		return true, err
	}
	if !short {
		return false, nil
	}
	err = w.readLive(ctx, subscription)
	if errors.Is(err, snapshot.ErrReload) {
		return false, nil
	}
	return true, err
}

// readLog yields the entries of the log up to a revision, a page at a time, so
// that no read of the driver is open while the consumer works. It returns false
// if the consumer stopped.
func (w *watch) readLog(ctx context.Context, through storage.Revision) (more bool, err error) {
	for w.last < through {
		page, err := read(ctx, w.timeline, &authz.ChangesRequest{After: w.after, Types: w.types})
		if err != nil {
			return false, err
		}
		for _, e := range page.Entries {
			if !w.yield(e, nil) {
				return false, nil
			}
		}
		p, err := authz.ReadToken(page.Next)
		if err != nil || p.Revision <= w.last {
			return true, err
		}
		w.after, w.last = page.Next, p.Revision
	}
	return true, nil
}

// readLive yields the entries of the subscription. It returns nil if the
// consumer stopped.
func (w *watch) readLive(ctx context.Context, subscription *snapshot.Subscription) error {
	for {
		items, err := subscription.Next(ctx)
		for i, item := range items {
			if item.Head.Revision <= w.last {
				continue
			}
			if item.Head.Revision > w.last+1 {
				return snapshot.ErrReload
			}
			w.after, w.last = w.timeline.Token(item.Head), item.Head.Revision
			e := w.entry(item)
			subscription.Done(i)
			if len(e.Changes) > 0 && !w.yield(e, nil) {
				return nil
			}
		}
		if err == authz.ErrWatchBehind {
			return &authz.WatchError{Resume: w.after}
		}
		if err != nil {
			return err
		}
	}
}

// entry returns a published entry with the selected changes. Watches that select
// all changes share them.
func (w *watch) entry(p *snapshot.Published) authz.ChangeEntry {
	if len(w.types) > 0 {
		return visible(w.timeline, &p.Entry, p.Head, w.types)
	}
	return authz.ChangeEntry{Revision: p.Entry.Revision, Time: p.Entry.Time.Time(), Origin: p.Entry.Origin, Token: w.timeline.Token(p.Head),
		Changes: p.Visible(func(e *storage.Entry) []storage.Change { return visibleChanges(e, nil) })}
}
