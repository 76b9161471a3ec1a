package compare

import (
	"context"
	"fmt"
	"time"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/internal/engine/errs"
	"github.com/ostiary/ostiary/internal/engine/snapshot"
	"github.com/ostiary/ostiary/internal/tool/turns"
	"github.com/ostiary/ostiary/rel"
)

// validate refuses malformed ids with [authz.ErrInvalidName]. An id with "#" could
// otherwise equal [otherSubjects] in a cursor.
func validSelector(p *authz.PermissionSelector) error {
	for _, selected := range [...]struct {
		typ string
		ids []string
	}{{p.ObjectType, p.Objects}, {p.SubjectType, p.Subjects}} {
		for _, id := range selected.ids {
			if err := (rel.Object{Type: selected.typ, ID: id}).Validate(); err != nil {
				return err
			}
		}
	}
	return nil
}

func addSelector(p *authz.PermissionSelector, d *snapshot.Digester) {
	d.Text(p.ObjectType, p.Relation, p.SubjectType, p.SubjectRelation)
	for _, list := range [...][]string{p.Objects, p.Subjects} {
		d.Flag(list == nil)
		d.Number(len(list))
		d.Text(list...)
	}
}

func differenceDigest(r *authz.DifferenceRequest) snapshot.Digest {
	var d snapshot.Digester
	d.Text("difference")
	addSelector(&r.PermissionSelector, &d)
	d.Text(r.SchemaID)
	d.Values(r.Context)
	d.Bounds(r.Bounds)
	return d.Sum()
}

// exceptMax bounds PermissionChange.Except.
const exceptMax = 100

// Difference compares a permission at two revisions. The cost depends on what
// changed and on what the changes reach, not on the size of the store. Two cases
// cost more: if tuples of the store expire, all tuples with a condition or an
// expiry are read; if the schema changed in between, all objects of the type are
// compared.
//
// It fails with [authz.ErrBound] if more than Bounds.DifferenceChanges tuples and
// attributes changed, or if they reach more than Bounds.DifferenceUsersets
// usersets. It fails with [authz.ErrInvalidRequest] if From is later than To.
//
// A condition that reads a time from the request's context gives the same decision
// at both revisions, because Context applies to both.
func (c *Comparer) Difference(ctx context.Context, r *authz.DifferenceRequest) (authz.DifferenceResult, error) {
	ctx, work := turns.With(ctx, c.timeline.Runtime.Turns)
	defer work.End()
	out, err := c.difference(ctx, r)
	return out, errs.Wrap("difference", c.timeline.ID, err)
}

func (c *Comparer) difference(ctx context.Context, r *authz.DifferenceRequest) (authz.DifferenceResult, error) {
	t := c.timeline
	limit, err := errs.PageItems(&t.Runtime.Bounds, r.Limit)
	if err == nil {
		err = validSelector(&r.PermissionSelector)
	}
	if err != nil {
		return authz.DifferenceResult{}, err
	}
	before, after, start, err := snapshots(ctx, t, r)
	if err != nil {
		return authz.DifferenceResult{}, err
	}
	x, err := newComparison(ctx, t, &r.PermissionSelector, before, after, &authz.QueryOptions{SchemaID: r.SchemaID, Context: r.Context, Bounds: r.Bounds})
	if err != nil {
		return authz.DifferenceResult{}, err
	}
	x.page.limit, x.page.start, x.page.checksLeft = limit, start, t.Runtime.Bounds.DifferenceChecks
	if before.Head.Revision < after.Head.Revision || before.AsOf() < after.AsOf() {
		if err := x.findAffected(ctx); err != nil {
			return authz.DifferenceResult{}, err
		}
		if err := x.compare(ctx); err != nil {
			return authz.DifferenceResult{}, err
		}
	}
	out := authz.DifferenceResult{Changes: x.page.changes, UnknownCount: x.page.unknown,
		From: t.Token(before.Head), To: t.Token(after.Head), Checked: x.page.checks}
	if x.page.more {
		out.Next = t.Cursor(after, differenceDigest(r), appendPosition(t.TokenParts(before.Head), before.AsOf(), x.page.end))
	}
	return out, nil
}

// snapshots returns the two views that a request compares, in one lineage, and the
// position after which the page starts.
func snapshots(ctx context.Context, t *snapshot.Timeline, r *authz.DifferenceRequest) (before, after *snapshot.View, start position, err error) {
	for try := 0; ; try++ {
		if r.Cursor != "" {
			before, after, start, err = resume(ctx, t, r)
		} else if after, err = t.At(ctx, r.To); err == nil {
			before, err = t.At(ctx, r.From)
		}
		if err != nil {
			return nil, nil, start, err
		}
		if before.Head.Revision > after.Head.Revision {
			return nil, nil, start, fmt.Errorf("%w: the difference would go from revision %d back to revision %d: expected the earlier revision first", authz.ErrInvalidRequest,
				before.Head.Revision, after.Head.Revision)
		}
		// All pages are at the times of the first one.
		before, after = before.AskedAt(before.AsOf()), after.AskedAt(max(after.Head.Time, t.Now(after)))
		if before.AsOf() > after.AsOf() {
			return nil, nil, start, fmt.Errorf("%w: the difference would go from %s back to %s: expected the earlier time first", authz.ErrInvalidRequest,
				before.AsOf().Time().Format(time.RFC3339Nano), after.AsOf().Time().Format(time.RFC3339Nano))
		}
		if before.Graph.Lineage() == after.Graph.Lineage() {
			break
		}
		// The graph was compacted between the two calls. Without the old views of the
		// past, both are built in the newest lineage.
		if t.ClearPast(); try == 3 {
			return nil, nil, start, fmt.Errorf("%w: the graph was compacted during each of %d tries", authz.ErrLoading, try+1)
		}
	}
	return before, after, start, nil
}

// resume returns the views and the position of a request's cursor.
func resume(ctx context.Context, t *snapshot.Timeline, r *authz.DifferenceRequest) (before, after *snapshot.View, start position, err error) {
	after, encoded, err := t.Pinned(ctx, authz.Consistency{}, r.Cursor, func() snapshot.Digest { return differenceDigest(r) })
	if err != nil {
		return nil, nil, start, err
	}
	earlier, asOf, start, err := parsePosition(encoded)
	if err != nil {
		return nil, nil, start, err
	}
	if before, err = t.AtToken(ctx, earlier, true); err != nil {
		return nil, nil, start, err
	}
	return before.AskedAt(asOf), after, start, nil
}
