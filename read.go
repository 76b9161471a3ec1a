package ostiary

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/ostiary/ostiary/graph"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/storage"
)

// ReadRequest asks for the tuples that a filter selects.
type ReadRequest struct {
	Filter rel.Filter
	// Limit is the most tuples wanted; 0 is 100.
	Limit int
	// Cursor continues where an earlier page's Next says; it takes At's place.
	Cursor      string
	Consistency Consistency
}

// StoredTuple is a tuple with the time it was written.
type StoredTuple struct {
	rel.Tuple
	// Created is the commit time of the tuple's entry; zero where a past revision
	// is read and the tuple was removed since.
	Created time.Time
}

// TuplePage is a page of tuples, in order of object type, relation, object id,
// subject type, id and relation, by their bytes.
type TuplePage struct {
	Tuples []StoredTuple
	// Next is the cursor of the next page; "" ends the list.
	Next     string
	Revision storage.Revision
}

// Read returns a page of the tuples that the filter selects. Expired ones are
// absent. A filter that names an object or a subject reads only its tuples; any
// other walks, for each page, all tuples of the types and relations that it
// admits.
func (s *Store) Read(ctx context.Context, r ReadRequest) (TuplePage, error) {
	const op = "read"
	limit, err := s.pageLimit(r.Limit)
	if err != nil {
		return TuplePage{}, failed(op, s.id, err)
	}
	v, position, err := s.pinned(ctx, r.Consistency, r.Cursor, r.digest)
	if err != nil {
		return TuplePage{}, failed(op, s.id, err)
	}
	w := tupleWalk{ctx: ctx, view: v.graph, filter: r.Filter, now: s.nowOf(v),
		pick: picker[rel.Tuple]{most: limit + 1, compare: compareTuples}}
	if len(position) > 0 {
		if w.pick.after, err = readTuplePosition(position); err != nil {
			return TuplePage{}, failed(op, s.id, err)
		}
		w.pick.later = true
	}
	found, err := w.run()
	if err != nil {
		return TuplePage{}, failed(op, s.id, err)
	}
	page := TuplePage{Revision: v.head.Revision}
	if len(found) > limit {
		found = found[:limit]
		page.Next = s.cursorText(v, r.digest(), tuplePosition(&found[limit-1]))
	}
	page.Tuples, err = s.withTimes(ctx, v, found)
	return page, failed(op, s.id, err)
}

func (r *ReadRequest) digest() digest {
	var d digester
	d.text("tuples")
	d.filter(r.Filter)
	return d.sum()
}

func (s *Store) pageLimit(limit int) (int, error) {
	if limit <= 0 {
		return min(pageDefault, s.engine.opts.Bounds.PageItems), nil
	}
	return limit, over("PageItems", limit, s.engine.opts.Bounds.PageItems)
}

// withTimes asks the driver when the tuples were written.
func (s *Store) withTimes(ctx context.Context, v *view, tuples []rel.Tuple) ([]StoredTuple, error) {
	keys := make([]rel.Key, len(tuples))
	for i := range tuples {
		keys[i] = tuples[i].Key()
	}
	rows, err := s.engine.driver.Rows(ctx, s.id, keys)
	if err != nil {
		return nil, err
	}
	out := make([]StoredTuple, len(tuples))
	for i := range tuples {
		out[i].Tuple = tuples[i]
		if r := &rows[i]; r.Created != 0 && r.Created <= v.head.Revision {
			out[i].Created = r.CreatedAt.Time()
		}
	}
	return out, nil
}

// compareTuples is the order of Read.
func compareTuples(a, b *rel.Tuple) int {
	return cmp.Or(
		strings.Compare(a.Object.Type, b.Object.Type),
		strings.Compare(a.Relation, b.Relation),
		strings.Compare(a.Object.ID, b.Object.ID),
		strings.Compare(a.Subject.Type, b.Subject.Type),
		strings.Compare(a.Subject.ID, b.Subject.ID),
		strings.Compare(a.Subject.Relation, b.Subject.Relation))
}

// tuplePosition and readTuplePosition write and read a tuple's key in a
// cursor.
func tuplePosition(t *rel.Tuple) []byte {
	var b []byte
	for _, s := range [...]string{t.Object.Type, t.Object.ID, t.Relation, t.Subject.Type, t.Subject.ID, t.Subject.Relation} {
		b = binary.AppendUvarint(b, uint64(len(s)))
		b = append(b, s...)
	}
	return b
}

func readTuplePosition(b []byte) (t rel.Tuple, err error) {
	for _, s := range [...]*string{&t.Object.Type, &t.Object.ID, &t.Relation, &t.Subject.Type, &t.Subject.ID, &t.Subject.Relation} {
		n, used := binary.Uvarint(b)
		if used <= 0 || n > uint64(len(b)-used) {
			return t, fmt.Errorf("%w: malformed position", ErrCursor)
		}
		*s, b = string(b[used:used+int(n)]), b[used+int(n):]
	}
	if len(b) != 0 {
		return t, fmt.Errorf("%w: malformed position", ErrCursor)
	}
	return t, nil
}

// picker keeps the least `most` of what it is offered, of those after a
// position, in memory for twice as many.
type picker[T any] struct {
	most    int
	compare func(a, b *T) int
	later   bool // only what comes after `after`
	after   T

	kept []T
	full bool // kept[:most] is sorted, and its last bounds what is wanted
	last T
}

func (p *picker[T]) offer(x *T) {
	if p.later && p.compare(x, &p.after) <= 0 || p.full && p.compare(x, &p.last) >= 0 {
		return
	}
	if p.kept = append(p.kept, *x); len(p.kept) >= 2*p.most {
		p.settle()
	}
}

func (p *picker[T]) settle() {
	slices.SortFunc(p.kept, func(a, b T) int { return p.compare(&a, &b) })
	if len(p.kept) >= p.most {
		clear(p.kept[p.most:])
		p.kept = p.kept[:p.most]
		p.full, p.last = true, p.kept[p.most-1]
	}
}

// tupleWalk is one Read.
type tupleWalk struct {
	ctx    context.Context
	view   *graph.View
	filter rel.Filter
	now    rel.Time
	pick   picker[rel.Tuple]
	seen   int
	err    error
}

func (w *tupleWalk) run() ([]rel.Tuple, error) {
	f := w.filter
	if f.ObjectType != "" && f.ObjectID != "" || f.SubjectType != "" && f.SubjectID != "" {
		w.walk(f)
		w.pick.settle()
		return w.pick.kept, w.err
	}
	// One type and relation after the other, as the order has them, and no
	// further than the page needs.
	for _, k := range relationsOf(w.view, f) {
		if w.pick.later && cmp.Or(strings.Compare(k.Type, w.pick.after.Object.Type), strings.Compare(k.Relation, w.pick.after.Relation)) < 0 {
			continue
		}
		f.ObjectType, f.Relation = k.Type, k.Relation
		w.walk(f)
		w.pick.settle()
		if w.err != nil || w.pick.full {
			break
		}
	}
	return w.pick.kept, w.err
}

func (w *tupleWalk) walk(f rel.Filter) {
	for _, t := range w.view.Tuples(f, graph.Position{}) {
		if w.seen++; w.seen%4096 == 0 {
			if w.err = w.ctx.Err(); w.err != nil {
				return
			}
		}
		if !t.Expired(w.now) {
			w.pick.offer(&t)
		}
	}
}

// relationsOf returns the relations that a view has nodes of and that a filter
// admits, sorted.
func relationsOf(v *graph.View, f rel.Filter) []graph.KindName {
	var names []graph.KindName
	for k := range v.Stats().Kinds {
		name := v.KindName(graph.Kind(k + 1))
		if name.Relation != "" && (f.ObjectType == "" || f.ObjectType == name.Type) && (f.Relation == "" || f.Relation == name.Relation) {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, func(a, b graph.KindName) int {
		return cmp.Or(strings.Compare(a.Type, b.Type), strings.Compare(a.Relation, b.Relation))
	})
	return names
}

// Export yields every tuple of one revision, expired ones left out, in no
// stated order, without keeping them in memory.
func (s *Store) Export(ctx context.Context, a Consistency) iter.Seq2[rel.Tuple, error] {
	return func(yield func(rel.Tuple, error) bool) {
		v, err := s.at(ctx, a)
		if err != nil {
			yield(rel.Tuple{}, failed("export", s.id, err))
			return
		}
		now := s.nowOf(v)
		n := 0
		for _, t := range v.graph.Tuples(rel.Filter{}, graph.Position{}) {
			if n++; n%4096 == 0 && ctx.Err() != nil {
				yield(rel.Tuple{}, failed("export", s.id, ctx.Err()))
				return
			}
			if !t.Expired(now) && !yield(t, nil) {
				return
			}
		}
	}
}

// ReadAttributesRequest asks for attributes; "" is any.
type ReadAttributesRequest struct {
	ObjectType, ObjectID, Name string
	// Limit is the most attributes wanted; 0 is 100.
	Limit       int
	Cursor      string
	Consistency Consistency
}

// AttributePage is a page of attributes, in order of object type, id and name.
type AttributePage struct {
	Attributes []rel.Attribute
	Next       string
	Revision   storage.Revision
}

func (r *ReadAttributesRequest) digest() digest {
	var d digester
	d.text("attributes", r.ObjectType, r.ObjectID, r.Name)
	return d.sum()
}

// ReadAttributes returns a page of attributes.
func (s *Store) ReadAttributes(ctx context.Context, r ReadAttributesRequest) (AttributePage, error) {
	const op = "read attributes"
	limit, err := s.pageLimit(r.Limit)
	if err != nil {
		return AttributePage{}, failed(op, s.id, err)
	}
	v, position, err := s.pinned(ctx, r.Consistency, r.Cursor, r.digest)
	if err != nil {
		return AttributePage{}, failed(op, s.id, err)
	}
	pick := picker[rel.Attribute]{most: limit + 1, compare: compareAttributes}
	if len(position) > 0 {
		t, err := readTuplePosition(position)
		if err != nil {
			return AttributePage{}, failed(op, s.id, err)
		}
		pick.later, pick.after = true, rel.Attribute{Object: t.Object, Name: t.Relation}
	}
	for a := range v.graph.Attributes(r.ObjectType, r.ObjectID, r.Name) {
		pick.offer(&a)
	}
	pick.settle()
	page := AttributePage{Attributes: pick.kept, Revision: v.head.Revision}
	if len(page.Attributes) > limit {
		page.Attributes = page.Attributes[:limit]
		last := &page.Attributes[limit-1]
		page.Next = s.cursorText(v, r.digest(), tuplePosition(&rel.Tuple{Object: last.Object, Relation: last.Name}))
	}
	return page, nil
}

func compareAttributes(a, b *rel.Attribute) int {
	return cmp.Or(strings.Compare(a.Object.Type, b.Object.Type), strings.Compare(a.Object.ID, b.Object.ID), strings.Compare(a.Name, b.Name))
}
