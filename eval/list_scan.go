package eval

import (
	"slices"

	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/graph"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/schema"
)

// scan lists what any object of the target's type may be in, since an attribute
// or a rule of the object itself may let it in: a walk from the subject would
// begin at all of them. It goes through the objects in the list's order instead,
// decides each by what a settler knows, checks what that leaves open, and may
// stop behind the page.
type scan struct {
	w       *walk
	t       *schema.Type
	settler *settler // nil where every object is checked
	objects graph.Ordered
	view    *graph.View
	extras  []candidate // not in objects, or perhaps not told of by the view

	l      ObjectList
	cut    pager
	looked int
}

// candidate is an object that contextual tuples or the subject bring along.
type candidate struct {
	at   Position
	node graph.Node
}

const (
	scanAhead = 32 // objects that are expected to be looked at, by entry of a page
	scanLeast = 1 << 9
)

// scans says whether the walk's list is scanned, and over which view.
func (w *walk) scans() *graph.View {
	if !w.plan.scans || w.q.b.mode == ModeForward {
		return nil
	}
	return w.q.under()
}

// scan makes the list of a page.
func (w *walk) scan(v *graph.View, p Page) (ObjectList, error) {
	t := &w.q.b.s.Types[w.q.b.s.Relations[w.target].Type]
	s := scan{w: w, t: t, view: v, objects: v.Ordered(t.Name, OrderHash), cut: pager{page: p}}
	s.bring()
	if p.UnknownPerPage && p.After != (Position{}) {
		s.objects.Skip(p.After.Hash)
		s.extras = slices.DeleteFunc(s.extras, func(c candidate) bool { return c.at.Compare(p.After) <= 0 })
	}
	expected := s.objects.Len()
	if p.UnknownPerPage && p.Limit > 0 {
		expected = min(expected, p.Limit*scanAhead)
	}
	s.settler = w.settler(settleNodes * max(expected, scanLeast))
	s.run(p.UnknownPerPage)
	if n := len(s.l.IDs); n > 0 {
		s.l.Next = PositionOf(s.l.IDs[n-1])
	}
	s.l.More = s.cut.more
	w.q.stats.Nodes += s.looked
	s.l.Stats = w.q.stats
	return s.l, w.q.failed()
}

// bring collects the objects that the question brings along.
func (s *scan) bring() {
	q := &s.w.q
	if o, ok := q.r.(*overlay); ok {
		o.objects(q.b, s.t, func(n graph.Node) bool {
			s.extras = append(s.extras, candidate{PositionOf(o.ID(n)), n})
			return true
		})
	}
	if q.kind != schema.None && q.subject.Type == s.t.Name {
		s.extras = append(s.extras, candidate{PositionOf(q.subject.ID), q.anchor(q.subject.Object())})
	}
	slices.SortFunc(s.extras, func(a, b candidate) int { return a.at.Compare(b.at) })
	s.extras = slices.CompactFunc(s.extras, func(a, b candidate) bool { return a.at == b.at })
}

// run looks at one object after the other.
func (s *scan) run(short bool) {
	for n := s.objects.Next(); n != 0; n = s.objects.Next() {
		if len(s.extras) > 0 {
			id := s.view.ID(n)
			at := PositionOf(id)
			for len(s.extras) > 0 && s.extras[0].at.Compare(at) < 0 {
				s.bringNext()
			}
			if len(s.extras) > 0 && s.extras[0].at == at {
				continue // it comes before the next one
			}
		}
		s.look(n, "", false)
		if s.l.Bound != "" || s.w.q.err != nil || short && s.cut.more {
			return
		}
	}
	for len(s.extras) > 0 {
		s.bringNext()
	}
}

// bringNext looks at the first of the extras.
func (s *scan) bringNext() {
	c := s.extras[0]
	s.extras = s.extras[1:]
	if s.l.Bound == "" && s.w.q.err == nil {
		s.look(c.node, c.at.ID, true)
	}
}

// look decides an object, that is there or that the view has to tell of.
func (s *scan) look(n graph.Node, id string, there bool) {
	q := &s.w.q
	if s.looked++; s.looked > q.nodesMax {
		s.l.Bound = BoundNodes
		return
	}
	if s.looked&1023 == 0 {
		if q.err = q.ctx.Err(); q.err != nil {
			return
		}
	}
	truth := expr.Unknown
	if s.settler != nil && n != 0 {
		truth = s.settler.truth(&s.settler.root, s.settler.canonical(n))
	}
	if truth == expr.False || !there && !s.view.InUse(n, len(s.t.Attributes) > 0, q.b.s.Options.StarIsOrdinary) {
		return
	}
	if id == "" {
		id = s.view.ID(n)
	}
	at := PositionOf(id)
	if s.cut.page.UnknownPerPage && at.Compare(s.cut.page.After) <= 0 {
		return
	}
	if truth == expr.Unknown {
		a := q.member(s.w.target, n, rel.Object{Type: s.t.Name, ID: id})
		if truth = a.Decision; truth == expr.Unknown {
			s.l.unknown(id, a.Reasons)
		}
	}
	if truth == expr.True && s.cut.take(at.Hash, id) {
		s.l.IDs = append(s.l.IDs, id)
	}
}
