package eval

import (
	"slices"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/internal/engine/graph"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/schema"
)

// objectScan lists the objects of a target with an attribute or a rule of its
// own. Any object of the type may then be in the list, so a walk from the
// subject would start at all of them. The scan visits the objects in the
// list's order instead, decides each one by a confirmer, checks what is left,
// and can stop at the end of the page.
type objectScan struct {
	// w holds the question; it does not walk.
	w *objectWalk
	// objectType is the target's type.
	objectType *schema.Type
	// confirmer decides most objects; nil where every object is checked.
	confirmer *confirmer
	// objects iterates over the stored objects in the list's order.
	objects graph.Ordered
	// view holds the stored data.
	view *graph.View
	// contextual are the objects of contextual tuples and of the subject, in
	// the list's order. They may be missing from objects.
	contextual []scanObject

	// list is the result.
	list ObjectList
	// cut cuts the page.
	cut pageCutter
	// visited counts objects, against the bound of nodes.
	visited int
}

// scanObject is an object of contextual tuples or of the subject.
type scanObject struct {
	// position is the object's place in the list.
	position Position
	// node is a node of the object, or 0.
	node graph.Node
}

const (
	// scanObjectsPerEntry is how many objects a scan expects to visit per
	// entry of a page.
	scanObjectsPerEntry = 32
	// scanObjectsMin is the least number of objects that a scan expects to
	// visit.
	scanObjectsMin = 1 << 9
)

// scanView returns the view to scan; nil if the list is walked instead.
func (w *objectWalk) scanView() *graph.View {
	if !w.plan.targetHasValue || w.q.b.mode == ModeForward {
		return nil
	}
	return w.q.baseView()
}

// scan returns a page of the list.
func (w *objectWalk) scan(v *graph.View, p Page) (ObjectList, error) {
	t := &w.q.b.s.Types[w.q.b.s.Relations[w.target].Type]
	s := objectScan{w: w, objectType: t, view: v, objects: v.Ordered(t.Name, OrderHash), cut: pageCutter{page: p}}
	s.addContextual()
	if p.UnknownPerPage && p.After != (Position{}) {
		s.objects.Skip(p.After.Hash)
		s.contextual = slices.DeleteFunc(s.contextual, func(c scanObject) bool { return c.position.Compare(p.After) <= 0 })
	}
	expected := s.objects.Len()
	if p.UnknownPerPage && p.Limit > 0 {
		expected = min(expected, p.Limit*scanObjectsPerEntry)
	}
	s.confirmer = w.confirmer(confirmNodesPerCandidate * max(expected, scanObjectsMin))
	s.run(p.UnknownPerPage)
	if n := len(s.list.IDs); n > 0 {
		s.list.Next = PositionOf(s.list.IDs[n-1])
	}
	s.list.More = s.cut.more
	if s.list.Bound == "" && w.q.exhausted() {
		s.list.Bound = w.q.boundReached()
	}
	w.q.stats.Nodes += s.visited
	s.list.Stats = w.q.stats
	return s.list, w.q.failed()
}

// addContextual collects the objects of contextual tuples and of the subject.
func (s *objectScan) addContextual() {
	q := &s.w.q
	if o, ok := q.r.(*overlay); ok {
		o.objects(q.b, s.objectType, func(n graph.Node) bool {
			s.contextual = append(s.contextual, scanObject{PositionOf(o.ID(n)), n})
			return true
		})
	}
	if q.kind != schema.None && q.subject.Type == s.objectType.Name {
		s.contextual = append(s.contextual, scanObject{PositionOf(q.subject.ID), q.anchor(q.subject.Object())})
	}
	slices.SortFunc(s.contextual, func(a, b scanObject) int { return a.position.Compare(b.position) })
	s.contextual = slices.CompactFunc(s.contextual, func(a, b scanObject) bool { return a.position == b.position })
}

// run visits one object after the other. With perPage it stops at the end of
// the page.
func (s *objectScan) run(short bool) {
	for n := s.objects.Next(); n != 0; n = s.objects.Next() {
		if len(s.contextual) > 0 {
			id := s.view.ID(n)
			at := PositionOf(id)
			for len(s.contextual) > 0 && s.contextual[0].position.Compare(at) < 0 {
				s.visitContextual()
			}
			if len(s.contextual) > 0 && s.contextual[0].position == at {
				continue // it is visited before the next object
			}
		}
		s.visit(n, "", false)
		if s.list.Bound != "" || s.w.q.err != nil || s.w.q.exhausted() || short && s.cut.more {
			return
		}
	}
	for len(s.contextual) > 0 {
		s.visitContextual()
	}
}

// visitContextual visits the first of s.contextual.
func (s *objectScan) visitContextual() {
	c := s.contextual[0]
	s.contextual = s.contextual[1:]
	if s.list.Bound == "" && s.w.q.err == nil && !s.w.q.exhausted() {
		s.visit(c.node, c.position.ID, true)
	}
}

// visit decides an object. exists is true for objects that are in contextual
// data or are the subject's; of others the view must have a live tuple or
// attribute. id is "" if it is not known yet.
func (s *objectScan) visit(n graph.Node, id string, there bool) {
	q := &s.w.q
	if s.visited++; s.visited > q.nodesMax {
		s.list.Bound = authz.BoundNodes
		return
	}
	if !q.tick(1) {
		return
	}
	truth := expr.Unknown
	if s.confirmer != nil && n != 0 {
		truth = s.confirmer.truth(&s.confirmer.root, s.w.canonical(n))
	}
	if truth == expr.False || !there && !s.view.InUse(n, len(s.objectType.Attributes) > 0, q.b.s.Options.StarIsOrdinary) {
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
		a := q.member(s.w.target, n, rel.Object{Type: s.objectType.Name, ID: id})
		if truth = a.Decision; truth == expr.Unknown {
			s.list.unknown(id, a.Reasons)
		}
	}
	if truth == expr.True && s.cut.take(at.Hash, id) {
		s.list.IDs = append(s.list.IDs, id)
	}
}
