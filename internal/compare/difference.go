package compare

import (
	"context"
	"fmt"
	"time"

	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/internal/errs"
	"github.com/ostiary/ostiary/internal/eval"
	"github.com/ostiary/ostiary/internal/query"
	"github.com/ostiary/ostiary/internal/snapshot"
	"github.com/ostiary/ostiary/internal/turns"
	"github.com/ostiary/ostiary/rel"
)

// PermissionSelector selects the memberships to compare or to watch: Relation on
// objects of ObjectType.
type PermissionSelector struct {
	// ObjectType and Relation name the permission.
	ObjectType, Relation string
	// SubjectType is the type of the subjects. If SubjectRelation is not "", the
	// subjects are the usersets SubjectType#SubjectRelation.
	SubjectType, SubjectRelation string
	// Objects and Subjects are ids. If not nil, only these objects or subjects are
	// selected.
	Objects, Subjects []string
}

// validate refuses malformed ids with [errs.ErrInvalidName]. An id with "#" could
// otherwise equal [otherSubjects] in a cursor.
func (p *PermissionSelector) validate() error {
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

func (p *PermissionSelector) digest(d *snapshot.Digester) {
	d.Text(p.ObjectType, p.Relation, p.SubjectType, p.SubjectRelation)
	for _, list := range [...][]string{p.Objects, p.Subjects} {
		d.Flag(list == nil)
		d.Number(len(list))
		d.Text(list...)
	}
}

// DifferenceRequest asks who gained and who lost a permission between two
// revisions. Each revision is evaluated as of its commit time, or the time that
// [snapshot.AtTime] chose; the later one, if it is the newest, at the current time.
type DifferenceRequest struct {
	PermissionSelector
	// From is the earlier revision, To the later one.
	From, To snapshot.Consistency
	// SchemaID names the schema for both revisions; "" selects the schema that was
	// current at each.
	SchemaID string
	// Context holds the conditions' request parameters, for both revisions.
	Context expr.Values
	// Bounds limit each check; see [eval.Bounds].
	Bounds eval.Bounds
	// Limit is the most changes of a page; 0 selects 100. A page may have fewer
	// changes, or none, and a Next all the same: it also ends after
	// Bounds.DifferenceChecks checks.
	Limit int
	// Cursor is the Next of an earlier page, to continue after it. From and To are
	// ignored then.
	Cursor string
}

func (r *DifferenceRequest) digest() snapshot.Digest {
	var d snapshot.Digester
	d.Text("difference")
	r.PermissionSelector.digest(&d)
	d.Text(r.SchemaID)
	d.Values(r.Context)
	d.Bounds(r.Bounds)
	return d.Sum()
}

// DifferenceResult is a page of changes, in the order of lists: by object, then by
// subject. The change of all other subjects comes first for each object.
type DifferenceResult struct {
	// Changes are the pairs of object and subject with two different decisions.
	Changes []PermissionChange
	// Next is the cursor of the next page; "" on the last page.
	Next string
	// UnknownCount counts the pairs of this page whose decision is unknown at both
	// revisions, although something changed that may affect it.
	UnknownCount int
	// From and To are the tokens of the two revisions.
	From, To snapshot.Token
	// Checked is how many checks and lists the page took.
	Checked int
}

// PermissionChange is a pair of object and subject whose decision changed.
type PermissionChange struct {
	// Object is the object of the permission.
	Object rel.Object
	// Subject is a subject of the selected kind; see AllOthers.
	Subject rel.Subject
	// Before and After are the decisions at the two revisions.
	Before, After expr.Tristate
	// Reasons explain why Before or After is unknown; nil if neither is.
	Reasons *eval.Reasons
	// AllOthers is true if the change applies to every subject but those of Except.
	// Subject is the wildcard then.
	AllOthers bool
	// Except names, if AllOthers is true, subjects with another change, which has
	// an entry of its own, or with no change. At most 100 are named.
	Except []string
	// ExceptCount counts all subjects to which the change does not apply.
	ExceptCount int
}

// exceptMax bounds PermissionChange.Except.
const exceptMax = 100

// Gained reports whether the decision became true. A change from unknown to false
// is neither gained nor lost.
func (c *PermissionChange) Gained() bool { return c.After == expr.True }

// Lost reports whether the decision was true before.
func (c *PermissionChange) Lost() bool { return c.Before == expr.True }

// Difference compares a permission at two revisions. The cost depends on what
// changed and on what the changes reach, not on the size of the store. Two cases
// cost more: if tuples of the store expire, all tuples with a condition or an
// expiry are read; if the schema changed in between, all objects of the type are
// compared.
//
// It fails with [errs.ErrBound] if more than Bounds.DifferenceChanges tuples and
// attributes changed, or if they reach more than Bounds.DifferenceUsersets
// usersets. It fails with [errs.ErrInvalidRequest] if From is later than To.
//
// A condition that reads a time from the request's context gives the same decision
// at both revisions, because Context applies to both.
func (c *Comparer) Difference(ctx context.Context, r *DifferenceRequest) (DifferenceResult, error) {
	ctx, work := turns.With(ctx, c.timeline.Runtime.Turns)
	defer work.End()
	out, err := c.difference(ctx, r)
	return out, errs.Wrap("difference", c.timeline.ID, err)
}

func (c *Comparer) difference(ctx context.Context, r *DifferenceRequest) (DifferenceResult, error) {
	t := c.timeline
	limit, err := t.Runtime.Bounds.Page(r.Limit)
	if err == nil {
		err = r.PermissionSelector.validate()
	}
	if err != nil {
		return DifferenceResult{}, err
	}
	before, after, start, err := snapshots(ctx, t, r)
	if err != nil {
		return DifferenceResult{}, err
	}
	x, err := newComparison(ctx, t, &r.PermissionSelector, before, after, &query.QueryOptions{SchemaID: r.SchemaID, Context: r.Context, Bounds: r.Bounds})
	if err != nil {
		return DifferenceResult{}, err
	}
	x.page.limit, x.page.start, x.page.checksLeft = limit, start, t.Runtime.Bounds.DifferenceChecks
	if before.Head.Revision < after.Head.Revision || before.AsOf() < after.AsOf() {
		if err := x.findAffected(ctx); err != nil {
			return DifferenceResult{}, err
		}
		if err := x.compare(ctx); err != nil {
			return DifferenceResult{}, err
		}
	}
	out := DifferenceResult{Changes: x.page.changes, UnknownCount: x.page.unknown,
		From: t.Token(before.Head), To: t.Token(after.Head), Checked: x.page.checks}
	if x.page.more {
		out.Next = t.Cursor(after, r.digest(), appendPosition(t.TokenParts(before.Head), before.AsOf(), x.page.end))
	}
	return out, nil
}

// snapshots returns the two views that a request compares, in one lineage, and the
// position after which the page starts.
func snapshots(ctx context.Context, t *snapshot.Timeline, r *DifferenceRequest) (before, after *snapshot.View, start position, err error) {
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
			return nil, nil, start, fmt.Errorf("%w: the difference would go from revision %d back to revision %d: expected the earlier revision first", errs.ErrInvalidRequest,
				before.Head.Revision, after.Head.Revision)
		}
		// All pages are at the times of the first one.
		before, after = before.AskedAt(before.AsOf()), after.AskedAt(max(after.Head.Time, t.Now(after)))
		if before.AsOf() > after.AsOf() {
			return nil, nil, start, fmt.Errorf("%w: the difference would go from %s back to %s: expected the earlier time first", errs.ErrInvalidRequest,
				before.AsOf().Time().Format(time.RFC3339Nano), after.AsOf().Time().Format(time.RFC3339Nano))
		}
		if before.Graph.Lineage() == after.Graph.Lineage() {
			break
		}
		// The graph was compacted between the two calls. Without the old views of the
		// past, both are built in the newest lineage.
		if t.ClearPast(); try == 3 {
			return nil, nil, start, fmt.Errorf("%w: the graph was compacted during each of %d tries", errs.ErrLoading, try+1)
		}
	}
	return before, after, start, nil
}

// resume returns the views and the position of a request's cursor.
func resume(ctx context.Context, t *snapshot.Timeline, r *DifferenceRequest) (before, after *snapshot.View, start position, err error) {
	after, encoded, err := t.Pinned(ctx, snapshot.Consistency{}, r.Cursor, r.digest)
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
