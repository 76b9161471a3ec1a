package eval

import (
	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/internal/engine/graph"
	"github.com/ostiary/ostiary/schema"
)

// backwardRoute is a route read from the subject's side: how a subject becomes
// a member of the unit. It exists only where the unit, and everything that it
// leads to, consists of unions.
type backwardRoute struct {
	// units are the units on the way. The first is the route's own.
	units []int32
	// starts find the tuples that name the subject or its wildcard.
	starts []backwardStart
	// steps are, by index in units, where a membership leads.
	steps [][]backwardStep
	// selves are the indexes of units of which the subject may be the userset
	// itself.
	selves []int32
}

// backwardStart finds the tuples that name the subject in one source of a
// unit.
type backwardStart struct {
	// at is the index of the unit.
	at int32
	// kind is the kind of the source's nodes.
	kind graph.Kind
	// by looks for the subject or its wildcard.
	by *lookup
}

// backwardStep leads from a membership in one unit, over one link, to a
// membership in another.
type backwardStep struct {
	// to is the index of the other unit.
	to int32
	// kind is the kind of the nodes whose tuples are read.
	kind graph.Kind
	// by is the link.
	by *link
}

// backwardUnitsMax bounds the units of a walk from the subject. Larger routes
// are only searched from the object.
const backwardUnitsMax = 256

// backward returns the route of a unit read backwards; nil if it cannot be.
func (b *Binding) backward(unit int32, k schema.KindID) *backwardRoute {
	r := b.route(unit, k)
	if known := r.backward.Load(); known != nil {
		if known.units == nil {
			return nil
		}
		return known
	}
	back := b.readBackward(unit, k)
	if back == nil {
		r.backward.Store(&backwardRoute{})
		return nil
	}
	r.backward.Store(back)
	return back
}

// readBackward computes a backwardRoute; nil if the unit is more than unions,
// or too large.
func (b *Binding) readBackward(unit int32, k schema.KindID) *backwardRoute {
	back := &backwardRoute{units: []int32{unit}, steps: [][]backwardStep{nil}}
	index := map[int32]int32{unit: 0}
	for i := int32(0); int(i) < len(back.units); i++ { // the loop appends to back.units
		r := b.route(back.units[i], k)
		if len(r.opaque) > 0 || len(back.units) > backwardUnitsMax {
			return nil
		}
		if r.selfRelation != schema.None {
			back.selves = append(back.selves, i)
		}
		for s := range r.sources {
			src := &r.sources[s]
			for p := range src.probes {
				back.starts = append(back.starts, backwardStart{i, src.kind, &src.probes[p]})
			}
			for j := range src.follows {
				f := &src.follows[j]
				if f.unit < 0 || f.everyEdge {
					return nil
				}
				from, ok := index[f.unit]
				if !ok {
					from = int32(len(back.units))
					index[f.unit] = from
					back.units, back.steps = append(back.units, f.unit), append(back.steps, nil)
				}
				back.steps[from] = append(back.steps[from], backwardStep{i, src.kind, f})
			}
		}
	}
	return back
}

// closure is the set of nodes of one kind on whose objects the subject is a
// member of a unit, found from the subject's side. Where a search would follow
// a long list, the list and the closure are intersected instead.
//
// Its nodes are members[first:first+n] in the scratch. The visited set holds
// them with their heights.
type closure struct {
	// unit is the unit that the subject is a member of.
	unit int32
	// kind is the kind of the nodes.
	kind graph.Kind
	// id separates the closure's states in the visited set from those of
	// searches.
	id uint32
	// complete is true once the closure holds all nodes.
	complete bool
	// unusable is true if the unit cannot be read backwards, or an unknown
	// condition is on the way.
	unusable bool
	// budgetTried is the budget, in edges, that was too small for the closure.
	budgetTried int
	// first and n are the range of the closure's nodes in the scratch.
	first, n int
}

const (
	// memberUnit marks a closure's members among the visited states.
	memberUnit = -2
	// closureWorkMin is the least number of edges that a search must have
	// followed before it tries a closure.
	closureWorkMin = 8
)

// decideByClosure intersects a list with a closure if that promises to be
// cheaper than following the list. It returns false if the list must be
// followed.
//
// The walk from the subject may cost as many edges as the search has followed
// so far. So a question costs at most about twice as much as the cheaper
// direction.
func (w *search) decideByClosure(p *pendingList, l graph.List) bool {
	q := w.q
	f := p.by
	q.edgesRead += l.Len()
	if q.edgesRead < closureWorkMin && q.b.mode != ModeBackward {
		return false
	}
	if q.b.mode == ModeForward || q.b.mode == ModeShuffled || f.unit < 0 || f.everyEdge || !q.r.Reversible() {
		return false
	}
	c := q.closure(f)
	if !c.complete {
		if c.unusable || q.edgesRead < 2*c.budgetTried {
			return false
		}
		budget := q.edgesRead
		if q.b.mode == ModeBackward {
			budget = q.nodesMax
		}
		back := q.b.backward(f.unit, q.kind)
		if back == nil {
			c.unusable = true
			return false
		}
		if !q.completeClosure(c, back, budget) {
			if q.stopped {
				w.stop()
				return true
			}
			return false
		}
	}
	w.intersect(p, l, c)
	return true
}

// closure finds or begins the closure for what a link leads to.
func (q *query) closure(f *link) *closure {
	s := q.borrowScratch()
	for i := range s.closures {
		if c := &s.closures[i]; c.unit == f.unit && c.kind == f.kind {
			return c
		}
	}
	s.closures = append(s.closures, closure{unit: f.unit, kind: f.kind})
	return &s.closures[len(s.closures)-1]
}

// intersect looks for a common node of a list and a closure. It goes through
// the shorter one.
func (w *search) intersect(p *pendingList, l graph.List, c *closure) {
	s := w.q.scratch
	if c.n <= l.Len() {
		w.q.stats.Probes += c.n
		w.q.tick(c.n)
		for _, n := range s.members[c.first : c.first+c.n] {
			if e, ok := l.Find(n); ok && w.addCommon(p, c, e) {
				return
			}
		}
		return
	}
	for i := range l.Chunks() {
		if !w.q.tick(len(l.Chunk(i))) {
			w.stop()
			return
		}
		for _, e := range l.Chunk(i) {
			w.q.stats.Probes++
			if s.seen.has(c.id, memberUnit, e.Node()) && w.addCommon(p, c, e) {
				return
			}
		}
	}
}

// addCommon takes a common node into account. It reports whether the search is
// done.
func (w *search) addCommon(p *pendingList, c *closure, e graph.Edge) bool {
	height := w.q.scratch.seen.find(c.id, memberUnit, e.Node()).hops
	return w.addResult(w.q.edge(p.by.by, p.from, e), p.hops+height)
}

// completeClosure completes a closure within a budget of edges, breadth first.
// It returns false if the budget is too small or the closure is unusable.
func (q *query) completeClosure(c *closure, back *backwardRoute, budget int) bool {
	s := q.scratch
	q.searches++
	c.id, c.first, c.n = q.searches, len(s.members), 0
	w := closureWalk{q: q, c: c, back: back, budget: budget, at: len(s.queue)}
	first := w.at
	w.seeds()
	for ; w.at < len(s.queue) && w.mayGoOn(); w.at++ {
		w.step(s.queue[w.at])
	}
	s.queue = s.queue[:first]
	if c.complete = w.mayGoOn(); c.complete {
		c.n = len(s.members) - c.first
		return true
	}
	s.members = s.members[:c.first]
	c.budgetTried = budget
	return false
}

// closureWalk is the walk that completes a closure.
type closureWalk struct {
	// q is the question.
	q *query
	// c is the closure.
	c *closure
	// back is the route that is followed.
	back *backwardRoute
	// budget is the number of edges that may still be read; negative if too
	// many were needed.
	budget int
	// at is the index in the scratch's queue of the next state.
	at int
}

// mayGoOn reports whether the walk can still complete the closure.
func (w *closureWalk) mayGoOn() bool { return w.budget >= 0 && !w.c.unusable && !w.q.stopped }

// seeds enters the states that the subject's own tuples lead to.
func (w *closureWalk) seeds() {
	q := w.q
	for i := range w.back.starts {
		s := &w.back.starts[i]
		x := q.node
		if s.by.star {
			x = q.starNode()
		}
		w.read(x, s.kind, s.by.by, s.at, 0)
	}
	for _, at := range w.back.selves {
		if n := q.anchor(q.subject.Object()); n != 0 {
			w.add(at, n, 0)
		}
	}
}

// step follows a state's tuples, and adds its node if it is one of the
// closure's.
func (w *closureWalk) step(r reached) {
	q := w.q
	if r.unit == 0 {
		if x := q.relationNode(r.node, w.c.kind); x != 0 && q.scratch.seen.addAt(w.c.id, memberUnit, x, r.hops) {
			q.scratch.members = append(q.scratch.members, x)
		}
	}
	for i := range w.back.steps[r.unit] {
		u := &w.back.steps[r.unit][i]
		w.read(q.relationNode(r.node, u.by.kind), u.kind, u.by.by, u.to, r.hops+1)
	}
}

// read enters all nodes of a kind in whose tuples x is the subject.
func (w *closureWalk) read(x graph.Node, kind graph.Kind, by *schema.Restriction, to, hops int32) {
	q := w.q
	if x == 0 || !w.mayGoOn() {
		return
	}
	l := q.reverse(x, kind)
	if w.budget -= l.Len(); w.budget < 0 {
		return
	}
	if !q.visit(l.Len()) {
		q.stopped = true
		return
	}
	for c := range l.Chunks() {
		for _, e := range l.Chunk(c) {
			switch q.edge(by, e.Node(), graph.EdgeTo(x, e.Detailed())) {
			case expr.True:
				w.add(to, e.Node(), hops)
			case expr.Unknown:
				w.c.unusable = true
				return
			}
		}
	}
}

// add enters a state if it is new.
func (w *closureWalk) add(unit int32, n graph.Node, hops int32) {
	s := w.q.scratch
	if s.seen.addAt(w.c.id, unit, n, hops) {
		w.q.hold(1, bytesPerState)
		s.queue = append(s.queue, reached{unit, n, hops})
	}
}
