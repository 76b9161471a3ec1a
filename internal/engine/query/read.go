package query

import (
	"context"
	"encoding/binary"
	"fmt"
	"iter"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/internal/engine/errs"
	"github.com/ostiary/ostiary/internal/engine/graph"
	"github.com/ostiary/ostiary/internal/engine/snapshot"
	"github.com/ostiary/ostiary/internal/tool/turns"
	"github.com/ostiary/ostiary/rel"
)

// Read returns a page of the tuples that a filter selects, without expired ones.
// What a page reads depends on its size, and not on how many tuples there are or
// where the page begins. [graph.NameOrder] names the exceptions.
func (a *Answerer) Read(ctx context.Context, r *authz.ReadRequest) (authz.TuplePage, error) {
	page, err := a.read(ctx, r)
	return page, errs.Wrap("read", a.timeline.ID, err)
}

func (a *Answerer) read(ctx context.Context, r *authz.ReadRequest) (authz.TuplePage, error) {
	limit, err := errs.PageItems(&a.shared.runtime.Bounds, r.Limit)
	if err != nil {
		return authz.TuplePage{}, err
	}
	v, position, err := a.timeline.Pinned(ctx, r.Consistency, r.Cursor, func() snapshot.Digest { return readDigest(r) })
	if err != nil {
		return authz.TuplePage{}, err
	}
	var after *rel.Key
	if len(position) > 0 {
		t, err := readPosition(position)
		if err != nil {
			return authz.TuplePage{}, err
		}
		k := t.Key()
		after = &k
	}
	o := a.inOrder(ctx, v, limit)
	defer o.part.End()
	now := a.timeline.Now(v)
	var found []rel.Tuple
	for t := range o.Tuples(r.Filter, after) {
		if !t.Expired(now) {
			if found = append(found, t); len(found) > limit {
				break
			}
		}
	}
	if err := o.err; err != nil {
		return authz.TuplePage{}, err
	}
	page := authz.TuplePage{Revision: v.Head.Revision}
	if len(found) > limit {
		found = found[:limit]
		page.Next = a.timeline.Cursor(v, readDigest(r), positionOf(&found[limit-1]))
	}
	page.Tuples, err = a.withTimes(ctx, v, found)
	return page, err
}

// stepsPerTuple is the number of steps of turns.Part that a tuple of a walk takes.
const stepsPerTuple = 8

// inOrder reads a view in order of names, in turns, until its context ends. The caller
// ends its part.
type inOrder struct {
	graph.NameOrder
	part turns.Part
	err  error // of the context
}

// inOrder prepares a page of up to limit results.
func (a *Answerer) inOrder(ctx context.Context, v *snapshot.View, limit int) *inOrder {
	o := &inOrder{NameOrder: graph.NameOrder{View: v.Graph, Page: limit + 1}}
	o.Visit = func() bool {
		o.err = o.part.Step(ctx, a.shared.runtime.Turns, stepsPerTuple)
		return o.err == nil
	}
	return o
}

func readDigest(r *authz.ReadRequest) snapshot.Digest {
	var d snapshot.Digester
	d.Text("tuples")
	d.Filter(r.Filter)
	return d.Sum()
}

// withTimes asks the driver when the tuples were written.
func (a *Answerer) withTimes(ctx context.Context, v *snapshot.View, tuples []rel.Tuple) ([]authz.StoredTuple, error) {
	keys := make([]rel.Key, len(tuples))
	for i := range tuples {
		keys[i] = tuples[i].Key()
	}
	rows, err := a.shared.runtime.Driver.Rows(ctx, a.timeline.ID, keys)
	if err = a.timeline.ConfirmRead(ctx, err); err != nil {
		return nil, err
	}
	out := make([]authz.StoredTuple, len(tuples))
	for i := range tuples {
		out[i].Tuple = tuples[i]
		if r := &rows[i]; r.Created != 0 && r.Created <= v.Head.Revision {
			out[i].Created = r.CreatedAt.Time()
		}
	}
	return out, nil
}

// Tuples yields the tuples of one revision that a filter selects, without expired
// ones, in no defined order. It does not hold them in memory. A filter that names
// an object or a subject reads only its tuples; any other reads all tuples of the
// selected types and relations, once.
func (a *Answerer) Tuples(ctx context.Context, f rel.Filter, c authz.Consistency) iter.Seq2[rel.Tuple, error] {
	return func(yield func(rel.Tuple, error) bool) {
		const op = "read"
		v, err := a.timeline.At(ctx, c)
		if err != nil {
			yield(rel.Tuple{}, errs.Wrap(op, a.timeline.ID, err))
			return
		}
		now := a.timeline.Now(v)
		var part turns.Part
		for _, t := range v.Graph.Tuples(f, graph.Position{}) {
			// The consumer may ask questions, so only a turn of its own request is taken.
			if err := part.Step(ctx, nil, stepsPerTuple); err != nil {
				yield(rel.Tuple{}, errs.Wrap(op, a.timeline.ID, err))
				return
			}
			if !t.Expired(now) && !yield(t, nil) {
				return
			}
		}
	}
}

func attributesDigest(r *authz.ReadAttributesRequest) snapshot.Digest {
	var d snapshot.Digester
	d.Text("attributes", r.ObjectType, r.ObjectID, r.Name)
	return d.Sum()
}

// ReadAttributes returns a page of attributes.
func (a *Answerer) ReadAttributes(ctx context.Context, r *authz.ReadAttributesRequest) (authz.AttributePage, error) {
	page, err := a.readAttributes(ctx, r)
	return page, errs.Wrap("read attributes", a.timeline.ID, err)
}

func (a *Answerer) readAttributes(ctx context.Context, r *authz.ReadAttributesRequest) (authz.AttributePage, error) {
	limit, err := errs.PageItems(&a.shared.runtime.Bounds, r.Limit)
	if err != nil {
		return authz.AttributePage{}, err
	}
	v, position, err := a.timeline.Pinned(ctx, r.Consistency, r.Cursor, func() snapshot.Digest { return attributesDigest(r) })
	if err != nil {
		return authz.AttributePage{}, err
	}
	var after *rel.Attribute
	if len(position) > 0 {
		t, err := readPosition(position)
		if err != nil {
			return authz.AttributePage{}, err
		}
		after = &rel.Attribute{Object: t.Object, Name: t.Relation}
	}
	o := a.inOrder(ctx, v, limit)
	defer o.part.End()
	var found []rel.Attribute
	for x := range o.Attributes(r.ObjectType, r.ObjectID, r.Name, after) {
		if found = append(found, x); len(found) > limit {
			break
		}
	}
	if err := o.err; err != nil {
		return authz.AttributePage{}, err
	}
	page := authz.AttributePage{Attributes: found, Revision: v.Head.Revision}
	if len(page.Attributes) > limit {
		page.Attributes = page.Attributes[:limit]
		last := &page.Attributes[limit-1]
		page.Next = a.timeline.Cursor(v, attributesDigest(r), positionOf(&rel.Tuple{Object: last.Object, Relation: last.Name}))
	}
	return page, nil
}

// positionOf encodes the key of a tuple as the position of a cursor.
func positionOf(t *rel.Tuple) []byte {
	var b []byte
	for _, s := range [...]string{t.Object.Type, t.Object.ID, t.Relation, t.Subject.Type, t.Subject.ID, t.Subject.Relation} {
		b = binary.AppendUvarint(b, uint64(len(s)))
		b = append(b, s...)
	}
	return b
}

// errMalformedPosition is the error for a cursor of the right request whose
// position is not one that a page ended at.
var errMalformedPosition = fmt.Errorf("%w: malformed position of the page", authz.ErrCursor)

// readPosition decodes what positionOf encoded.
func readPosition(b []byte) (t rel.Tuple, err error) {
	for _, s := range [...]*string{&t.Object.Type, &t.Object.ID, &t.Relation, &t.Subject.Type, &t.Subject.ID, &t.Subject.Relation} {
		n, used := binary.Uvarint(b)
		if used <= 0 || n > uint64(len(b)-used) {
			return t, errMalformedPosition
		}
		*s, b = string(b[used:used+int(n)]), b[used+int(n):]
	}
	if len(b) != 0 {
		return t, errMalformedPosition
	}
	return t, nil
}
