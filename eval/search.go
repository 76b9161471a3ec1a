package eval

import (
	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/graph"
	"github.com/ostiary/ostiary/schema"
)

// outcome is what a search found out. True and False are certain; Unknown only
// says that the search cannot tell, and the equations must.
type outcome struct {
	truth expr.Tristate
	// height is, of a true one, the hops of the proof that was found.
	height int32
}

// search walks from an object through unions, breadth first, until it meets
// the subject. What is true only if an unknown condition holds is walked last.
type search struct {
	q  *query
	id uint32 // tells its visited states from those of other searches

	near *nearby
	// where its own parts of the scratch begin
	pending, later, opaques int

	maybe bool    // past what is certain
	doubt bool    // something is possible that is not certain
	done  bool    // result stands
	found outcome // the result
}

// nearby holds a search's first lists and states, on the stack, so that a
// short search is all there. It is apart from the search, which it outlives
// in no case, for the compiler's sake: what is read from it may be kept, and
// the query may not.
type nearby struct {
	lists           [searchShort]pending
	states          [searchShort]memoKey
	nLists, nStates int
	next            int  // of lists
	overflowed      bool // the states stand in the scratch
}

// searchShort is how many lists and states of a search need no scratch.
const searchShort = 8

// nestedMax bounds searches inside searches: what nests deeper is left to the
// equations, which need no stack.
const nestedMax = 32

// nestedNodesMax bounds the nodes of a walk with searches inside: these may
// visit a node over and over, where the equations hold it once.
const nestedNodesMax = 100_000

// walked searches for a relation of an object by its route. n may be 0 where
// the object has no node of a kind that the route reads.
func (q *query) walked(unit int32, r *route, n graph.Node, objectID string) outcome {
	if n == 0 && len(r.opaque) == 0 && r.self == schema.None {
		return outcome{} // nothing is known of the object
	}
	q.object = objectID
	q.searches++
	if r.last && n != 0 { // nothing to follow: no list is noted
		w := search{q: q, id: q.searches}
		w.enter(r, n, q.kindOf(n), 0)
		return w.end()
	}
	return q.walkedFar(r, n)
}

//go:noinline // its lists would cost every question the time to clear them
func (q *query) walkedFar(r *route, n graph.Node) outcome {
	if q.view != nil && q.node != 0 {
		q.touched = q.view.Lists(q.node).Prefetch() // joins read what the subject is in
	}
	var near nearby
	w := search{q: q, id: q.searches, near: &near}
	w.run(r, n)
	if q.scratch != nil {
		q.release()
	}
	return w.end()
}

// end is the outcome of a search that has run.
func (w *search) end() outcome {
	switch {
	case w.done:
		return w.found
	case w.doubt:
		return outcome{truth: expr.Unknown}
	}
	return outcome{}
}

// search decides a unit on the object of n.
func (q *query) search(unit int32, n graph.Node) outcome {
	q.searches++
	var near nearby
	w := search{q: q, id: q.searches, near: &near}
	if q.scratch != nil {
		w.pending, w.later, w.opaques = len(q.scratch.pending), len(q.scratch.later), len(q.scratch.opaques)
	}
	w.run(q.b.route(unit, q.kind), n)
	if s := q.scratch; s != nil {
		s.pending, s.later, s.opaques = s.pending[:w.pending], s.later[:w.later], s.opaques[:w.opaques]
	}
	return w.end()
}

func (w *search) run(r *route, n graph.Node) {
	own := graph.Kind(0)
	if n != 0 {
		own = w.q.kindOf(n)
	}
	w.enter(r, n, own, 0)
	for !w.done && w.near.next < w.near.nLists {
		w.near.next++
		w.expand(&w.near.lists[w.near.next-1])
	}
	if !w.done && w.q.scratch != nil {
		w.rest(w.q.scratch)
	}
}

// rest does what stands in the scratch: lists first, then what cannot be seen
// through, then what is only possible; each may bring more of the first.
func (w *search) rest(s *scratch) {
	for next := w.pending; !w.done; {
		switch {
		case w.near.next < w.near.nLists:
			w.near.next++
			w.expand(&w.near.lists[w.near.next-1])
		case next < len(s.pending):
			p := s.pending[next]
			next++
			w.expand(&p)
		case w.opaques < len(s.opaques):
			last := len(s.opaques) - 1
			o := s.opaques[last]
			s.opaques = s.opaques[:last]
			w.part(o.part, o.node, o.hops)
		case w.later < len(s.later) && !w.doubt: // a doubt is not settled by what is possible
			w.maybe = true
			last := len(s.later) - 1
			l := s.later[last]
			s.later = s.later[:last]
			w.reach(l.by, l.node, l.hops)
		default:
			return
		}
	}
}

// push notes a list to follow.
func (w *search) push(p pending) {
	if w.near.nLists < searchShort {
		w.near.lists[w.near.nLists] = p
		w.near.nLists++
		return
	}
	s := w.q.borrow()
	s.pending = append(s.pending, p)
}

// visit says whether a state was not yet visited.
func (w *search) visit(unit int32, n graph.Node) bool {
	if w.near.overflowed {
		return w.q.scratch.seen.add(w.id, unit, n)
	}
	k := memoKey{unit, n}
	for i := range w.near.nStates {
		if w.near.states[i] == k {
			return false
		}
	}
	if w.near.nStates < searchShort {
		w.near.states[w.near.nStates] = k
		w.near.nStates++
		return true
	}
	s := w.q.borrow()
	for _, old := range w.near.states {
		s.seen.add(w.id, old.unit, old.node)
	}
	w.near.overflowed = true
	return s.seen.add(w.id, unit, n)
}

// hit ends the search: the subject is a member, after so many hops.
func (w *search) hit(hops int32) {
	w.done = true
	w.found = outcome{expr.True, hops}
	if int(hops) > w.q.depthMax || w.maybe {
		w.found = outcome{truth: expr.Unknown}
	}
}

// met weighs what an edge to the subject says.
func (w *search) met(t expr.Tristate, hops int32) bool {
	switch t {
	case expr.True:
		w.hit(hops)
	case expr.Unknown:
		w.doubt = true
	}
	return w.done
}

// reach enters the state behind a follow, if it was not yet visited.
func (w *search) reach(f *follow, n graph.Node, hops int32) {
	if w.visit(f.unit, n) {
		w.enter(w.q.next(f), n, f.kind, hops)
	}
}

// next is the route of what a follow leads to.
func (q *query) next(f *follow) *route {
	if r := f.next.Load(); r != nil {
		return r
	}
	r := q.b.route(f.unit, q.kind)
	f.next.Store(r)
	return r
}

// enter looks at all that a route reads on the object of n, and notes what is
// to be followed.
// own is n's kind.
func (w *search) enter(r *route, n graph.Node, own graph.Kind, hops int32) {
	q := w.q
	if !q.visit(1) {
		w.stop()
		return
	}
	if r.self != schema.None && q.is(r.self, n, q.object) {
		w.hit(hops)
		return
	}
	if n != 0 {
		for i := range r.sources {
			s := &r.sources[i]
			m := n
			if own != s.kind {
				if m = q.sibling(n, s.kind); m == 0 {
					continue
				}
			}
			if w.read(s, m, hops); w.done {
				return
			}
		}
	}
	for i := range r.opaque {
		o := q.borrow()
		o.opaques = append(o.opaques, openPart{&r.opaque[i], n, hops})
	}
}

// stop ends the search without a result: at the bound of nodes, or because
// the context ended.
func (w *search) stop() {
	w.q.over = true
	w.done, w.found = true, outcome{truth: expr.Unknown}
}

// read looks at the tuples of m.
func (w *search) read(s *source, m graph.Node, hops int32) {
	q := w.q
	var at graph.Lists
	if q.view != nil {
		at = q.view.Lists(m)
	}
	for i := range s.probes {
		p := &s.probes[i]
		x := q.node
		if p.star {
			x = q.starNode()
		}
		if x == 0 {
			continue
		}
		var e graph.Edge
		var ok bool
		short := false
		if q.view != nil {
			e, ok, short = at.Find(p.kind, x)
		}
		q.stats.Probes++
		if !short {
			e, ok = q.find(m, x, p.kind)
		}
		if ok && w.met(q.edge(p.by, m, e), hops) {
			return
		}
	}
	for i := range s.follows {
		f := &s.follows[i]
		var l graph.List
		if q.view != nil {
			l = at.Forward(f.kind)
		} else {
			l = q.r.Forward(m, f.kind)
		}
		if l.Len() == 0 {
			continue
		}
		if w.joins(f) {
			if w.join(f, m, l, hops+1); w.done {
				return
			}
			continue
		}
		p := pending{f, m, hops + 1, 0}
		if l.Len() == 1 {
			p.only = l.Chunk(0)[0]
		}
		w.push(p)
	}
}

// expand follows a list's edges.
func (w *search) expand(p *pending) {
	q := w.q
	if p.only != 0 && q.b.mode != ModeBackward {
		q.spent++
		w.follow(p, p.only)
		return
	}
	l := q.forward(p.from, p.by.kind)
	if w.closed(p, l) || w.done {
		return
	}
	backwards := q.b.mode == ModeShuffled
	for c := range l.Chunks() {
		chunk := l.Chunk(c)
		for i := range chunk {
			e := chunk[i]
			if backwards {
				e = chunk[len(chunk)-1-i]
			}
			if w.follow(p, e); w.done {
				return
			}
		}
	}
}

func (w *search) follow(p *pending, e graph.Edge) {
	q := w.q
	t := q.edge(p.by.by, p.from, e)
	if t == expr.Unknown && p.by.scan {
		w.doubt = true
	}
	switch {
	case t == expr.False || p.by.unit < 0:
		if !q.visit(1) {
			w.stop()
		}
	case t == expr.Unknown && !w.maybe:
		b := q.borrow()
		b.later = append(b.later, laterState{p.by, e.Node(), p.hops})
	default:
		w.reach(p.by, e.Node(), p.hops)
	}
}

// part decides a part that the walk cannot see through.
func (w *search) part(o *opaque, n graph.Node, hops int32) {
	out := w.q.opaque(o, n)
	switch {
	case w.q.over:
		w.stop()
	case out.truth == expr.True:
		w.hit(hops + out.height)
	case out.truth == expr.Unknown:
		w.doubt = true
	}
}

// opaque decides a rule, an attribute, an intersection or an exclusion, by
// searches of the operands.
func (q *query) opaque(o *opaque, n graph.Node) outcome {
	t := &q.b.s.Types[o.typ]
	switch o.op {
	case schema.OpAttribute:
		truth, _ := q.attribute(t, n, q.object, o.expr.Attribute)
		return outcome{truth: truth}
	case schema.OpRule:
		truth, _ := q.rule(o.expr.Rule, t, n, q.object)
		return outcome{truth: truth}
	}
	if o.cyclic || q.nested >= nestedMax {
		return outcome{truth: expr.Unknown}
	}
	q.nested++
	q.limit = min(q.limit, nestedNodesMax)
	var out outcome
	if o.op == schema.OpExclusion {
		out = q.exclusion(o, n)
	} else {
		out = q.intersection(o, n)
	}
	q.nested--
	return out
}

func (q *query) intersection(o *opaque, n graph.Node) outcome {
	all := outcome{truth: expr.True}
	for i := range o.units {
		if q.b.mode == ModeShuffled {
			i = len(o.units) - 1 - i
		}
		one := q.operand(o.units[i], n)
		if one.truth == expr.False {
			return one
		}
		all = outcome{min(all.truth, one.truth), max(all.height, one.height)}
	}
	return all
}

func (q *query) exclusion(o *opaque, n graph.Node) outcome {
	base, subtracted := o.units[0], o.units[1]
	a := q.operand(base, n)
	if a.truth == expr.False {
		return a
	}
	b := q.operand(subtracted, n)
	return outcome{min(a.truth, b.truth.Not()), a.height}
}

// operand decides a unit once in a question.
func (q *query) operand(unit int32, n graph.Node) outcome {
	s := q.borrow()
	if s.memo == nil {
		s.memo = map[memoKey]outcome{}
	}
	key := memoKey{unit, n}
	if out, ok := s.memo[key]; ok {
		return out
	}
	out := q.search(unit, n)
	s.memo[key] = out
	return out
}
