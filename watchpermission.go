package ostiary

import (
	"context"
	"fmt"
	"iter"
	"math"
	"time"

	"github.com/ostiary/ostiary/eval"
	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/internal/errs"
	"github.com/ostiary/ostiary/internal/snapshot"
	"github.com/ostiary/ostiary/storage"
)

// WatchNamesMax bounds the objects and subjects that a WatchPermission names.
const WatchNamesMax = 1000

// WatchPermissionRequest asks for the changes of a computed permission as they
// come. Permission must name objects or subjects.
type WatchPermissionRequest struct {
	PermissionSelector
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
	// UnknownCount is as in Difference.
	UnknownCount int
}

// WatchPermission yields an update for each entry of the log that changes the
// permission for one of those who are named, until ctx ends or the consumer
// breaks. Where entries come faster than they are looked at, one update tells
// of several of them: so no watcher falls behind, none holds more than the view
// that it saw last, and no writer waits for any. That a tuple has expired shows
// with the next entry.
func (s *Store) WatchPermission(ctx context.Context, r WatchPermissionRequest) iter.Seq2[PermissionUpdate, error] {
	return func(yield func(PermissionUpdate, error) bool) {
		if err := s.runPermissionWatch(ctx, &r, yield); err != nil {
			yield(PermissionUpdate{}, errs.Wrap("watch permission", s.ID(), err))
		}
	}
}

func (s *Store) runPermissionWatch(ctx context.Context, r *WatchPermissionRequest, yield func(PermissionUpdate, error) bool) error {
	if len(r.Objects)+len(r.Subjects) == 0 {
		return fmt.Errorf("%w: a watch of a permission names objects or subjects", ErrInvalidRequest)
	}
	if err := errs.CheckBound("WatchNamesMax", len(r.Objects)+len(r.Subjects), WatchNamesMax); err != nil {
		return err
	}
	if err := r.PermissionSelector.validate(); err != nil {
		return err
	}
	at := Consistency{}
	if r.After != "" {
		at = AtExactly(r.After)
	}
	before, err := s.timeline.At(ctx, at)
	if err != nil {
		return err
	}
	w := permissionWatch{s: s, r: r, under: differing{context: r.Context, bounds: r.Bounds}, before: before}
	// What is wrong with the request shows at once, not with the first entry.
	if _, err := s.newComparison(ctx, &r.PermissionSelector, before, before, &w.under); err != nil {
		return err
	}
	if err := s.joinHub(ctx); err != nil {
		return err
	}
	defer s.leaveHub()
	for {
		step, next := s.hub.now()
		if step.err != nil {
			return step.err
		}
		if step.after.Head.Revision > w.before.Head.Revision {
			update, err := w.step(ctx, step)
			if err != nil {
				return err
			}
			if len(update.Changes)+update.UnknownCount > 0 && !yield(update, nil) {
				return nil
			}
			continue
		}
		select {
		case <-next:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// permissionWatch is one watch: what it saw last.
type permissionWatch struct {
	s      *Store
	r      *WatchPermissionRequest
	under  differing
	before *snapshot.View
}

// step compares what was seen last with the newest view that the hub knows.
func (w *permissionWatch) step(ctx context.Context, step *hubStep) (u PermissionUpdate, err error) {
	now := step.after
	if w.before.Graph.Lineage() != now.Graph.Lineage() {
		if w.before, err = w.s.timeline.PastView(ctx, now, w.before.Head.Revision); err != nil {
			return u, err
		}
	}
	c, err := w.s.newComparison(ctx, &w.r.PermissionSelector, w.before, now, &w.under)
	if err != nil {
		return u, err
	}
	c.limit, c.left = math.MaxInt, w.s.timeline.Runtime.Bounds.DifferenceChecks
	if w.before.Head.Revision == step.before.Head.Revision && !step.unknown && !c.everything {
		err = c.reached(step.keys, step.attributes)
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
		return u, &BoundError{Name: "DifferenceChecks", Max: int64(w.s.timeline.Runtime.Bounds.DifferenceChecks), Got: int64(c.checked)}
	}
	w.before = now
	return PermissionUpdate{now.Head.Revision, now.Head.Time.Time(), w.s.timeline.Token(now.Head), c.changes, c.undecided}, nil
}
