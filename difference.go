package ostiary

import (
	"context"
	"encoding/binary"
	"fmt"

	"github.com/ostiary/ostiary/eval"
	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/internal/errs"
	"github.com/ostiary/ostiary/internal/snapshot"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/storage"
)

// PermissionSelector says which memberships are compared or watched: Relation on
// objects of ObjectType, of plain subjects of SubjectType or of its usersets
// SubjectType#SubjectRelation.
type PermissionSelector struct {
	ObjectType, Relation         string
	SubjectType, SubjectRelation string
	// Objects and Subjects, by id, leave out all others; nil leaves out none.
	Objects, Subjects []string
}

// DifferenceRequest asks who gained and who lost a permission between two
// revisions, both asked as of their commit times.
type DifferenceRequest struct {
	PermissionSelector
	From, To Consistency
	// SchemaID names the schema of both sides; "" is what was current at each.
	SchemaID string
	// Context holds the conditions' request parameters on both sides.
	Context expr.Values
	Bounds  eval.Bounds
	// Limit is the most changes wanted; 0 is 100. A page may have fewer, or none,
	// and still go on: it ends when Bounds.DifferenceChecks were made for it.
	Limit int
	// Cursor continues where an earlier page's Next says; it takes the place of
	// From and To.
	Cursor string
}

// DifferenceResult is a page of the changes, in the order of lists: by object, then
// by subject, a wildcard first.
type DifferenceResult struct {
	Changes []PermissionChange
	// Next is the cursor of the next page; "" ends the list.
	Next string
	// UnknownCount counts, for this page, what is unknown on both sides though
	// something it may hang on has changed.
	UnknownCount int
	// From and To are the tokens of the two revisions.
	From, To Token
	// Checked counts the checks that the page took.
	Checked int
}

// PermissionChange is one object and subject for whom check is not what it was.
type PermissionChange struct {
	Object  rel.Object
	Subject rel.Subject
	// Before and After are the answers at the two revisions: a gain is what is
	// true after, a loss what was true before.
	Before, After expr.Tristate
	// Reasons say why one of them is unknown.
	Reasons *eval.Reasons
	// Everybody says that Subject stands, as a wildcard, for all of whom no tuple
	// tells. Except are then the subjects of whom one does and for whom the change
	// is another one, or none: those who changed have an entry of their own. At
	// most 100 are named; ExceptCount counts all.
	Everybody   bool
	Except      []string
	ExceptCount int
}

// Gained and Lost say which way it went. Neither is a change from or to unknown
// on the other side of true.
func (c *PermissionChange) Gained() bool { return c.After == expr.True }

// Lost says that the subject was a clear member and is none any more.
func (c *PermissionChange) Lost() bool { return c.Before == expr.True }

// validate refuses ids that nothing can have: in a place of the order they could
// be taken for something else.
func (p *PermissionSelector) validate() error {
	for _, o := range [...]struct {
		typ string
		ids []string
	}{{p.ObjectType, p.Objects}, {p.SubjectType, p.Subjects}} {
		for _, id := range o.ids {
			if err := (rel.Object{Type: o.typ, ID: id}).Validate(); err != nil {
				return err
			}
		}
	}
	return nil
}

// exceptMax bounds the exceptions that are named; PermissionChange tells of it.
const exceptMax = 100

func (r *DifferenceRequest) digest() snapshot.Digest {
	var d snapshot.Digester
	d.Text("difference")
	digestSelector(&d, &r.PermissionSelector)
	d.Text(r.SchemaID)
	d.Values(r.Context)
	d.Bounds(r.Bounds)
	return d.Sum()
}

func digestSelector(d *snapshot.Digester, p *PermissionSelector) {
	d.Text(p.ObjectType, p.Relation, p.SubjectType, p.SubjectRelation)
	for _, list := range [...][]string{p.Objects, p.Subjects} {
		d.Flag(list == nil)
		d.Number(len(list))
		d.Text(list...)
	}
}

// Difference compares two revisions. It looks at what changed between them, at
// the objects that this can reach and at the subjects that it brings: the cost
// follows the changes and what hangs on them, not the store. (Where tuples
// expire, those with a condition or an expiry are looked through besides; where
// the schema changed in between, all objects are.) More changes than
// Bounds.DifferenceChanges, or more places that they reach than
// Bounds.DifferencePlaces, is ErrBound.
//
// A condition that compares a time of the request's context changes with the
// context, not with revisions, and shows nothing here.
func (s *Store) Difference(ctx context.Context, r DifferenceRequest) (DifferenceResult, error) {
	const op = "difference"
	limit, err := s.timeline.Runtime.Bounds.Page(r.Limit)
	if err == nil {
		err = r.PermissionSelector.validate()
	}
	if err != nil {
		return DifferenceResult{}, errs.Wrap(op, s.ID(), err)
	}
	a, b, after, err := s.bothSides(ctx, &r)
	if err != nil {
		return DifferenceResult{}, errs.Wrap(op, s.ID(), err)
	}
	c, err := s.newComparison(ctx, &r.PermissionSelector, a, b, &differing{schemaID: r.SchemaID, context: r.Context, bounds: r.Bounds})
	if err != nil {
		return DifferenceResult{}, errs.Wrap(op, s.ID(), err)
	}
	c.limit, c.after, c.left = limit, after, s.timeline.Runtime.Bounds.DifferenceChecks
	if a.Head.Revision < b.Head.Revision {
		if err := c.between(ctx); err != nil {
			return DifferenceResult{}, errs.Wrap(op, s.ID(), err)
		}
		if err := c.compare(ctx); err != nil {
			return DifferenceResult{}, errs.Wrap(op, s.ID(), err)
		}
	}
	out := DifferenceResult{Changes: c.changes, UnknownCount: c.undecided, From: s.timeline.Token(a.Head), To: s.timeline.Token(b.Head), Checked: c.checked}
	if c.more {
		out.Next = s.timeline.Cursor(b, r.digest(), c.position(a))
	}
	return out, nil
}

// bothSides finds the views of a request, by its revisions or its cursor.
func (s *Store) bothSides(ctx context.Context, r *DifferenceRequest) (a, b *snapshot.View, after differencePlace, err error) {
	for try := 0; ; try++ {
		if r.Cursor != "" {
			a, b, after, err = s.resumed(ctx, r)
		} else if b, err = s.timeline.At(ctx, r.To); err == nil {
			a, err = s.timeline.At(ctx, r.From)
		}
		if err != nil {
			return nil, nil, after, err
		}
		if a.Head.Revision > b.Head.Revision {
			return nil, nil, after, fmt.Errorf("%w: From is later than To", ErrInvalidRequest)
		}
		if a.Graph.Lineage() == b.Graph.Lineage() {
			break
		}
		// One was made before the graph was compacted, the other after. The newer
		// lineage has both.
		if s.timeline.ClearPast(); try == 3 {
			return nil, nil, after, fmt.Errorf("%w: the graph is compacted again and again", ErrLoading)
		}
	}
	past := func(v *snapshot.View) *snapshot.View { p := *v; p.Past = true; return &p }
	return past(a), past(b), after, nil
}

func (s *Store) resumed(ctx context.Context, r *DifferenceRequest) (a, b *snapshot.View, after differencePlace, err error) {
	b, position, err := s.timeline.Pinned(ctx, Consistency{}, r.Cursor, r.digest)
	if err != nil {
		return nil, nil, after, err
	}
	token, after, err := readDifferencePosition(position)
	if err != nil {
		return nil, nil, after, err
	}
	a, err = s.timeline.AtToken(ctx, token, true)
	return a, b, after, err
}

// differencePlace is a place in the order of changes: behind a subject of an
// object, or, with "", behind all of them. The zero place is before all.
type differencePlace struct {
	object, subject string
	set             bool
}

// position says what a cursor says besides the later side: the earlier side and
// the place that the page ends at.
func (c *comparison) position(a *snapshot.View) []byte {
	out := c.s.timeline.TokenParts(a.Head).Append(nil)
	out = binary.AppendUvarint(out, uint64(len(c.last.object)))
	return append(append(out, c.last.object...), c.last.subject...)
}

func readDifferencePosition(b []byte) (token snapshot.TokenParts, p differencePlace, err error) {
	bad := fmt.Errorf("%w: malformed", ErrCursor)
	if len(b) < snapshot.TokenBytes {
		return token, p, bad
	}
	token, b = snapshot.ParseTokenParts(b), b[snapshot.TokenBytes:]
	n, size := binary.Uvarint(b)
	if size <= 0 || n > uint64(len(b)-size) {
		return token, p, bad
	}
	b = b[size:]
	return token, differencePlace{string(b[:n]), string(b[n:]), true}, nil
}

// placeEverybody stands for everybody in a place; no id has a "#".
const placeEverybody = "#"

// compareIDs is the order of lists.
func compareIDs(a, b string) int { return eval.PositionOf(a).Compare(eval.PositionOf(b)) }

// keysBetween reads from the log what changed between two revisions: tuples
// and attributes, by their keys, each once.
func (s *Store) keysBetween(ctx context.Context, a, b *snapshot.View) (keys map[rel.Key]struct{}, attributes map[rel.Attribute]struct{}, err error) {
	keys, attributes = map[rel.Key]struct{}{}, map[rel.Attribute]struct{}{}
	most := s.timeline.Runtime.Bounds.DifferenceChanges
	for e, err := range s.timeline.Runtime.Driver.Entries(ctx, s.ID(), a.Head.Revision+1) {
		if err != nil {
			return nil, nil, err
		}
		if e.Revision > b.Head.Revision {
			break
		}
		collectKeys(e.Changes, a, keys, attributes)
		if err := errs.CheckBound("DifferenceChanges", len(keys)+len(attributes), most); err != nil {
			return nil, nil, err
		}
	}
	return keys, attributes, nil
}

// collectKeys adds what an entry's changes touch. What a filter removes was
// there at the earlier side, or was added since and is known from that.
func collectKeys(changes []storage.Change, a *snapshot.View, keys map[rel.Key]struct{}, attributes map[rel.Attribute]struct{}) {
	for i := range changes {
		switch ch := &changes[i]; ch.Kind {
		case storage.TupleAdd, storage.TupleRemove:
			keys[ch.Tuple.Key()] = struct{}{}
		case storage.AttributeSet, storage.AttributeRemove:
			attributes[rel.Attribute{Object: ch.Attribute.Object, Name: ch.Attribute.Name}] = struct{}{}
		case storage.RemoveByFilter:
			f := &ch.Filter
			switch f.Target {
			case storage.FilterTuples:
				for _, t := range a.Graph.Tuples(f.Tuple, noPosition) {
					keys[t.Key()] = struct{}{}
				}
			case storage.FilterAttributes:
				for at := range a.Graph.Attributes(f.ObjectType, f.ObjectID, f.Name) {
					attributes[rel.Attribute{Object: at.Object, Name: at.Name}] = struct{}{}
				}
			}
		}
	}
}
