package ostiary

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"time"

	"github.com/ostiary/ostiary/eval"
	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/storage"
)

// WatchNamesMax bounds the objects and subjects that a WatchPermission names.
const WatchNamesMax = 1000

// WatchPermissionRequest asks for the changes of a computed permission as they
// come. Permission must name objects or subjects.
type WatchPermissionRequest struct {
	Permission
	// After is a token whose changes follow; "" is the newest revision.
	After Token
	// Context holds the conditions' request parameters.
	Context expr.Values
	Bounds  eval.Bounds
}

// PermissionUpdate is what a permission gained and lost from the revision of
// the update before (or of After) to this one.
type PermissionUpdate struct {
	Revision storage.Revision
	Time     time.Time
	// Token is the revision's: what comes after it is After(Token).
	Token   Token
	Changes []PermissionChange
	// Undecided is as in Difference.
	Undecided int
}

// WatchPermission yields an update for each entry of the log that changes the
// permission for one of those who are named, until ctx ends or the consumer
// breaks. Where entries come faster than they are looked at, one update tells
// of several of them. Writers never wait for a watcher: one that lags by more
// than Bounds.WatchBuffer entries ends with a WatchError that says where to
// resume. That a tuple has expired shows with the next entry.
func (s *Store) WatchPermission(ctx context.Context, r WatchPermissionRequest) iter.Seq2[PermissionUpdate, error] {
	return func(yield func(PermissionUpdate, error) bool) {
		if err := s.runPermissionWatch(ctx, &r, yield); err != nil {
			yield(PermissionUpdate{}, failed("watch permission", s.id, err))
		}
	}
}

func (s *Store) runPermissionWatch(ctx context.Context, r *WatchPermissionRequest, yield func(PermissionUpdate, error) bool) error {
	if len(r.Objects)+len(r.Subjects) == 0 {
		return fmt.Errorf("%w: a watch of a permission names objects or subjects", ErrInvalidRequest)
	}
	if err := over("WatchNamesMax", len(r.Objects)+len(r.Subjects), WatchNamesMax); err != nil {
		return err
	}
	at := At{}
	if r.After != "" {
		at = Exactly(r.After)
	}
	before, err := s.at(ctx, at)
	if err != nil {
		return err
	}
	w := permissionWatch{s: s, r: r, under: differing{context: r.Context, bounds: r.Bounds}, before: before}
	// What is wrong with the request shows at once, not with the first entry.
	if _, err := s.newComparison(ctx, &r.Permission, before, before, &w.under); err != nil {
		return err
	}
	for e, err := range s.Watch(ctx, WatchRequest{After: s.tokenAt(before.head)}) {
		var behind *WatchError
		if errors.As(err, &behind) {
			return &WatchError{s.tokenAt(w.before.head)}
		}
		if err != nil {
			return err
		}
		if e.Revision <= w.before.head.Revision {
			continue
		}
		update, err := w.step(ctx, &e)
		if err != nil {
			return err
		}
		if len(update.Changes)+update.Undecided > 0 && !yield(update, nil) {
			return nil
		}
	}
	return nil
}

// permissionWatch is one watch: what it saw last.
type permissionWatch struct {
	s      *Store
	r      *WatchPermissionRequest
	under  differing
	before *view
}

// step compares what was seen last with the newest view, which holds e.
func (w *permissionWatch) step(ctx context.Context, e *ChangeEntry) (u PermissionUpdate, err error) {
	now, err := w.s.view(ctx)
	if err != nil {
		return u, err
	}
	if w.before.graph.Lineage() != now.graph.Lineage() {
		if w.before, err = w.s.pastView(ctx, now, w.before.head.Revision); err != nil {
			return u, err
		}
		if w.before.graph.Lineage() != now.graph.Lineage() {
			return u, fmt.Errorf("%w: the graph was compacted meanwhile", ErrLoading)
		}
	}
	c, err := w.s.newComparison(ctx, &w.r.Permission, w.before, now, &w.under)
	if err != nil {
		return u, err
	}
	c.limit, c.left = math.MaxInt, w.s.engine.opts.Bounds.DifferenceChecks
	if alone := now.head.Revision == e.Revision && w.before.head.Revision+1 == e.Revision; alone && !c.everything {
		keys, attributes := map[rel.Key]struct{}{}, map[rel.Attribute]struct{}{}
		collectKeys(e.Changes, w.before, keys, attributes)
		err = c.reached(keys, attributes)
	} else {
		err = c.between(ctx)
	}
	if err == nil {
		err = c.compare(ctx)
	}
	if err != nil {
		return u, err
	}
	if c.more {
		return u, &BoundError{"DifferenceChecks", int64(w.s.engine.opts.Bounds.DifferenceChecks), int64(c.checked)}
	}
	w.before = now
	return PermissionUpdate{now.head.Revision, now.head.Time.Time(), w.s.tokenAt(now.head), c.changes, c.undecided}, nil
}
