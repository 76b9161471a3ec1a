package compare

import (
	"context"
	"fmt"
	"iter"
	"math"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/internal/engine/errs"
	"github.com/ostiary/ostiary/internal/engine/snapshot"
	"github.com/ostiary/ostiary/internal/tool/turns"
)

// WatchPermission yields an update for each log entry that changes the permission
// for one of the named objects or subjects, and when a tuple that gave it expires,
// until ctx ends or the consumer stops. If entries arrive faster than the consumer
// reads, one update covers several of them, and so it is with tuples that expire
// within a second. So a watch never falls behind, it holds no more than the view of
// its last update, and no writer waits for it. If the watch fails, it yields the
// error last.
func (c *Comparer) WatchPermission(ctx context.Context, r *authz.WatchPermissionRequest) iter.Seq2[authz.PermissionUpdate, error] {
	return func(yield func(authz.PermissionUpdate, error) bool) {
		if err := c.watch(ctx, r, yield); err != nil {
			yield(authz.PermissionUpdate{}, errs.Wrap("watch permission", c.timeline.ID, err))
		}
	}
}

// watch runs one watch. It returns nil if the consumer stops.
func (c *Comparer) watch(ctx context.Context, r *authz.WatchPermissionRequest, yield func(authz.PermissionUpdate, error) bool) error {
	w, err := c.newWatch(ctx, r)
	if err != nil {
		return err
	}
	if err := c.hub.join(ctx); err != nil {
		return err
	}
	defer c.hub.leave()
	for {
		latest, next := c.hub.current()
		if latest.err != nil {
			return latest.err
		}
		if latest.after.Head.Revision > w.seen.Head.Revision || latest.after.AsOf() > w.seen.AsOf() {
			update, err := w.advance(ctx, latest)
			if err != nil {
				return err
			}
			if len(update.Changes)+update.UnknownCount > 0 && !yield(update, nil) {
				return nil
			}
			continue
		}
		turns.Pause(ctx)
		select {
		case <-next:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// permissionWatch is the state of one watch.
type permissionWatch struct {
	timeline *snapshot.Timeline
	request  *authz.WatchPermissionRequest
	options  authz.QueryOptions
	seen     *snapshot.View // the view, and the time, that the last update led to
}

// newWatch checks a request and finds the view that it starts from.
func (c *Comparer) newWatch(ctx context.Context, r *authz.WatchPermissionRequest) (*permissionWatch, error) {
	names := len(r.Objects) + len(r.Subjects)
	if names == 0 {
		return nil, fmt.Errorf("%w: a permission watch must name objects or subjects", authz.ErrInvalidRequest)
	}
	if err := errs.CheckBound("WatchNamesMax", names, authz.WatchNamesMax); err != nil {
		return nil, err
	}
	if err := validSelector(&r.PermissionSelector); err != nil {
		return nil, err
	}
	at := authz.Consistency{}
	if r.After != "" {
		at = authz.AtExactly(r.After)
	}
	start, err := c.timeline.At(ctx, at)
	if err != nil {
		return nil, err
	}
	if r.After == "" {
		start = start.AskedAt(max(start.Head.Time, c.timeline.Runtime.Now()))
	}
	w := &permissionWatch{c.timeline, r, authz.QueryOptions{Context: r.Context, Bounds: r.Bounds}, start}
	// This reports an invalid request now. Without it, the first entry would.
	_, err = newComparison(ctx, c.timeline, &r.PermissionSelector, start, start, &w.options)
	return w, err
}

// advance compares the view of the last update with the hub's newest view. The
// returned update may be empty.
func (w *permissionWatch) advance(ctx context.Context, latest *step) (u authz.PermissionUpdate, err error) {
	t, after, seen := w.timeline, latest.after, w.seen.AsOf()
	if w.seen.Graph.Lineage() != after.Graph.Lineage() {
		if w.seen, err = t.PastView(ctx, after, w.seen.Head.Revision); err != nil {
			return u, err
		}
		w.seen = w.seen.AskedAt(seen)
	}
	after = after.AskedAt(max(after.AsOf(), seen))
	c, err := newComparison(ctx, t, &w.request.PermissionSelector, w.seen, after, &w.options)
	if err != nil {
		return u, err
	}
	c.page.limit, c.page.checksLeft = math.MaxInt, t.Runtime.Bounds.DifferenceChecks
	if w.seen.Head.Revision == latest.before.Head.Revision && !latest.incomplete && !c.schemaChanged {
		err = c.findAffectedBy(ctx, latest.keys)
	} else {
		err = c.findAffected(ctx)
	}
	if err == nil {
		err = c.compare(ctx)
	}
	if err != nil {
		return u, err
	}
	if c.page.more {
		return u, &authz.BoundError{Name: "DifferenceChecks", Max: int64(t.Runtime.Bounds.DifferenceChecks), Got: int64(c.page.checks)}
	}
	w.seen = after
	return authz.PermissionUpdate{Revision: after.Head.Revision, Time: after.AsOf().Time(), Token: t.Token(after.Head), Changes: c.page.changes, UnknownCount: c.page.unknown}, nil
}
