package query

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"strings"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/internal/engine/errs"
	"github.com/ostiary/ostiary/internal/engine/eval"
	"github.com/ostiary/ostiary/internal/engine/graph"
	"github.com/ostiary/ostiary/internal/tool/turns"
	"github.com/ostiary/ostiary/rel"
)

// Export yields all tuples of one revision, without expired ones. They are ordered
// by object type, object, relation, subject type, subject relation and subject:
// types and relations by their bytes, objects and subjects as in lists. So the order
// depends on the tuples only, not on the order in which they were written or loaded.
// Export holds 24 bytes in memory for each tuple of one object, besides the order of
// the objects, which lists of objects share.
func (a *Answerer) Export(ctx context.Context, c authz.Consistency) iter.Seq2[rel.Tuple, error] {
	return func(yield func(rel.Tuple, error) bool) {
		const op = "read"
		v, err := a.timeline.At(ctx, c)
		if err != nil {
			yield(rel.Tuple{}, errs.Wrap(op, a.timeline.ID, err))
			return
		}
		x := export{ctx: ctx, view: v.Graph, now: a.timeline.Now(v), yield: yield}
		if err := x.run(); err != nil {
			yield(rel.Tuple{}, errs.Wrap(op, a.timeline.ID, err))
		}
	}
}

// export is an Export in progress.
type export struct {
	ctx   context.Context
	view  *graph.View
	now   rel.Time
	yield func(rel.Tuple, error) bool
	part  turns.Part

	ranks []int // by kind: its place in the order of kinds
	edges []exportedEdge
}

// exportedEdge is a tuple of the current object.
type exportedEdge struct {
	hash     uint64 // of the subject's id, by which lists are ordered
	at       graph.Position
	detailed bool
}

// run yields the tuples. It returns nil if the consumer stopped.
func (x *export) run() error {
	x.rankKinds()
	typ := ""
	for _, k := range x.view.Relations(rel.Filter{}) {
		of := x.view.KindName(k).Type
		if of == typ {
			continue
		}
		typ = of
		objects := x.view.Ordered(typ, eval.OrderHash)
		for n := objects.Next(); n != 0; n = objects.Next() {
			if more, err := x.object(rel.Object{Type: typ, ID: x.view.ID(n)}); err != nil || !more {
				return err
			}
		}
	}
	return nil
}

// rankKinds orders the kinds by type, then by relation. A wildcard comes after the
// other subjects of its type.
func (x *export) rankKinds() {
	kinds := make([]graph.Kind, x.view.Stats().Kinds)
	for i := range kinds {
		kinds[i] = graph.Kind(i + 1)
	}
	slices.SortFunc(kinds, func(a, b graph.Kind) int {
		m, n := x.view.KindName(a), x.view.KindName(b)
		if c := cmp.Or(strings.Compare(m.Type, n.Type), strings.Compare(m.Relation, n.Relation)); c != 0 {
			return c
		}
		if m.Wildcard {
			return 1
		}
		return -1 // n is the wildcard
	})
	x.ranks = make([]int, len(kinds)+1)
	for i, k := range kinds {
		x.ranks[k] = i
	}
}

// object yields the tuples of one object. It returns false if the consumer stopped.
func (x *export) object(o rel.Object) (more bool, err error) {
	x.edges = x.edges[:0]
	for at, t := range x.view.Tuples(rel.Filter{ObjectType: o.Type, ObjectID: o.ID}, graph.Position{}) {
		// The consumer may ask questions, so only a turn of its own request is taken.
		if err := x.part.Step(x.ctx, nil, stepsPerTuple); err != nil {
			return false, err
		}
		if !t.Expired(x.now) {
			x.edges = append(x.edges, exportedEdge{eval.OrderHash(t.Subject.ID), at, t.Condition != "" || t.Expires != 0})
		}
	}
	slices.SortFunc(x.edges, x.compare)
	for i := range x.edges {
		e := &x.edges[i]
		t := rel.Tuple{Object: o, Relation: x.view.KindName(x.view.KindOf(e.at.Object)).Relation, Subject: x.view.Subject(e.at.Subject)}
		if e.detailed {
			d := x.view.Detail(e.at.Object, e.at.Subject)
			t.Condition, t.Context, t.Expires = d.Condition, d.Context, d.Expires
		}
		if !x.yield(t, nil) {
			return false, nil
		}
	}
	return true, nil
}

// compare compares two tuples of one object.
func (x *export) compare(a, b exportedEdge) int {
	v := x.view
	if c := cmp.Or(x.ranks[v.KindOf(a.at.Object)]-x.ranks[v.KindOf(b.at.Object)], x.ranks[v.KindOf(a.at.Subject)]-x.ranks[v.KindOf(b.at.Subject)],
		cmp.Compare(a.hash, b.hash)); c != 0 {
		return c
	}
	return strings.Compare(v.ID(a.at.Subject), v.ID(b.at.Subject))
}
