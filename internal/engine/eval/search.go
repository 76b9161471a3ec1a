package eval

import (
	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/internal/engine/graph"
	"github.com/ostiary/ostiary/schema"
)

// outcome is the result of a search. True and False are final. Unknown means
// that the search cannot decide and that equations must.
type outcome struct {
	// truth is the decision.
	truth expr.Tristate
	// height is the number of hops in the proof that was found, for a True
	// outcome.
	height int32
}

// search decides one unit (a relation or an operand) for one subject by a
// breadth-first search. It starts at an object, follows usersets and arrows,
// and ends when it meets the subject. A state is a unit and a node.
//
// Why it is correct:
//   - Through unions alone, the subject is a member exactly if a path of tuples
//     leads to it. The search visits every state that such a path can reach, each
//     once, so it finds a path if there is one.
//   - A cycle of unions adds no member, so a state that was visited before can be
//     skipped. Across operators that does not hold: a cycle through an intersection
//     or an exclusion makes the outcome Unknown, and the equations decide.
//   - A True outcome has a path within the depth bound. If the path that was found
//     is longer, the outcome is Unknown, and the equations find the shortest one.
//   - States behind a tuple with an unknown condition are visited last. If the
//     subject is found only there, the outcome is Unknown.
type search struct {
	// q is the question.
	q *query
	// id separates this search's states from those of other searches in the
	// scratch's visited set.
	id uint32

	// buffer holds the first lists and states; nil for a search that follows
	// no list.
	buffer *searchBuffer
	// pending, possible and opaques are the lengths of the scratch's slices
	// when the search began: its own entries follow.
	pending, possible, opaques int

	// pastCertain is true once everything certain is visited. What is found
	// after that is Unknown.
	pastCertain bool
	// uncertain is true if something is possible that is not certain. The
	// outcome is then not False.
	uncertain bool
	// done is true once result is final.
	done bool
	// result is the outcome, if done.
	result outcome
}

// searchBuffer holds a search's first lists and states on the stack, so that a
// short search needs no scratch. It is a separate struct because of escape
// analysis: values that are read from it may outlive the search, but the query
// must not escape to the heap.
type searchBuffer struct {
	// lists are the first lists to follow.
	lists [searchBufferLen]pendingList
	// states are the first visited states.
	states [searchBufferLen]memoKey
	// nLists and nStates are how many entries are in use.
	nLists, nStates int
	// next is the index of the next list to follow.
	next int
	// overflowed is true once the visited states are in the scratch.
	overflowed bool
}

// searchBufferLen is the capacity of a searchBuffer.
const searchBufferLen = 8

// nestedMax bounds searches inside searches. Deeper nesting is left to the
// equations, which use no stack.
const nestedMax = 32

// nestedNodesMax bounds the nodes of a search that has searches inside. These
// may visit a node many times, while the equations hold it once.
const nestedNodesMax = 100_000

// searchObject searches an object by the route of a unit. n may be 0 if the
// object has no node of a kind that the route reads.
func (q *query) searchObject(r *route, n graph.Node, objectID string) outcome {
	if n == 0 && len(r.opaque) == 0 && r.selfRelation == schema.None {
		return outcome{} // no tuple can name the subject
	}
	q.objectID = objectID
	q.searches++
	if r.probesOnly && n != 0 { // no list to follow, so no buffer is needed
		w := search{q: q, id: q.searches}
		w.enter(r, n, q.kindOf(n), 0)
		return w.end()
	}
	return q.searchFar(r, n)
}

// searchFar is searchObject for a route that may follow lists.
//
//go:noinline // inlined, its buffer would be cleared for every question
func (q *query) searchFar(r *route, n graph.Node) outcome {
	if q.view != nil && q.node != 0 {
		q.prefetched = q.view.Lists(q.node).Prefetch() // joins read the subject's reverse lists
	}
	var buffer searchBuffer
	w := search{q: q, id: q.searches, buffer: &buffer}
	w.run(r, n)
	if q.scratch != nil {
		q.releaseScratch()
	}
	return w.end()
}

// end returns the outcome of a search that has run.
func (w *search) end() outcome {
	switch {
	case w.done:
		return w.result
	case w.uncertain:
		return outcome{truth: expr.Unknown}
	}
	return outcome{}
}

// search decides a unit on the object of n, inside another search.
func (q *query) search(unit int32, n graph.Node) outcome {
	q.searches++
	var buffer searchBuffer
	w := search{q: q, id: q.searches, buffer: &buffer}
	if q.scratch != nil {
		w.pending, w.possible, w.opaques = len(q.scratch.pending), len(q.scratch.possible), len(q.scratch.opaques)
	}
	w.run(q.b.route(unit, q.kind), n)
	if s := q.scratch; s != nil {
		s.pending, s.possible, s.opaques = s.pending[:w.pending], s.possible[:w.possible], s.opaques[:w.opaques]
	}
	return w.end()
}

// run searches from n until the subject is found or nothing is left.
func (w *search) run(r *route, n graph.Node) {
	own := graph.Kind(0)
	if n != 0 {
		own = w.q.kindOf(n)
	}
	w.enter(r, n, own, 0)
	for !w.done && w.buffer.next < w.buffer.nLists {
		w.buffer.next++
		w.expand(&w.buffer.lists[w.buffer.next-1])
	}
	if !w.done && w.q.scratch != nil {
		w.runScratch(w.q.scratch)
	}
}

// runScratch works off the scratch: first lists, then opaque parts, then
// possible states. Each may add more of the first.
func (w *search) runScratch(s *scratch) {
	for next := w.pending; !w.done; {
		switch {
		case w.buffer.next < w.buffer.nLists:
			w.buffer.next++
			w.expand(&w.buffer.lists[w.buffer.next-1])
		case next < len(s.pending):
			p := s.pending[next]
			next++
			w.expand(&p)
		case w.opaques < len(s.opaques):
			last := len(s.opaques) - 1
			o := s.opaques[last]
			s.opaques = s.opaques[:last]
			w.addOpaque(o.part, o.node, o.hops)
		case w.possible < len(s.possible) && !w.uncertain: // once uncertain, a possible proof changes nothing
			w.pastCertain = true
			last := len(s.possible) - 1
			l := s.possible[last]
			s.possible = s.possible[:last]
			w.reach(l.by, l.node, l.hops)
		default:
			return
		}
	}
}

// push adds a list to follow.
func (w *search) push(p pendingList) {
	if w.buffer.nLists < searchBufferLen {
		w.buffer.lists[w.buffer.nLists] = p
		w.buffer.nLists++
		return
	}
	s := w.q.borrowScratch()
	s.pending = append(s.pending, p)
}

// visit records a state and reports whether it is new.
func (w *search) visit(unit int32, n graph.Node) bool {
	if w.buffer.overflowed {
		isNew := w.q.scratch.seen.add(w.id, unit, n)
		if isNew {
			w.q.hold(1, bytesPerState)
		}
		return isNew
	}
	k := memoKey{unit, n}
	for i := range w.buffer.nStates {
		if w.buffer.states[i] == k {
			return false
		}
	}
	if w.buffer.nStates < searchBufferLen {
		w.buffer.states[w.buffer.nStates] = k
		w.buffer.nStates++
		return true
	}
	s := w.q.borrowScratch()
	for _, old := range w.buffer.states {
		s.seen.add(w.id, old.unit, old.node)
	}
	w.buffer.overflowed = true
	return s.seen.add(w.id, unit, n)
}

// hit ends the search: the subject is a member, by a proof with that many
// hops.
func (w *search) hit(hops int32) {
	w.done = true
	w.result = outcome{expr.True, hops}
	if int(hops) > w.q.depthMax || w.pastCertain {
		w.result = outcome{truth: expr.Unknown}
	}
}

// addResult takes the value of an edge to the subject into account. It reports
// whether the search is done.
func (w *search) addResult(t expr.Tristate, hops int32) bool {
	switch t {
	case expr.True:
		w.hit(hops)
	case expr.Unknown:
		w.uncertain = true
	}
	return w.done
}

// reach enters the state that a link leads to, if it is new.
func (w *search) reach(f *link, n graph.Node, hops int32) {
	if w.visit(f.unit, n) {
		w.enter(w.q.nextRoute(f), n, f.kind, hops)
	}
}

// nextRoute returns the route of the unit that a link leads to.
func (q *query) nextRoute(f *link) *route {
	if r := f.nextRoute.Load(); r != nil {
		return r
	}
	r := q.b.route(f.unit, q.kind)
	f.nextRoute.Store(r)
	return r
}

// enter reads everything that a route needs on the object of n: it looks for
// the subject, and adds lists to follow and opaque parts. own is n's kind.
func (w *search) enter(r *route, n graph.Node, own graph.Kind, hops int32) {
	q := w.q
	if !q.visit(1) {
		w.stop()
		return
	}
	if r.selfRelation != schema.None && q.isItself(r.selfRelation, n, q.objectID) {
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
		o := q.borrowScratch()
		o.opaques = append(o.opaques, pendingOpaque{&r.opaque[i], n, hops})
	}
}

// stop ends the search without a decision, at the bound of nodes or because of
// an error.
func (w *search) stop() {
	w.q.stopped = true
	w.done, w.result = true, outcome{truth: expr.Unknown}
}

// read looks for the subject in the tuples of m and adds the lists of m to
// follow.
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
		if ok && w.addResult(q.edge(p.by, m, e), hops) {
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
		p := pendingList{f, m, hops + 1, 0}
		if l.Len() == 1 {
			p.single = l.Chunk(0)[0]
		}
		w.push(p)
	}
}

// expand follows the edges of a list.
func (w *search) expand(p *pendingList) {
	q := w.q
	if p.single != 0 && q.b.mode != ModeBackward {
		q.edgesRead++
		w.follow(p, p.single)
		return
	}
	l := q.forward(p.from, p.by.kind)
	if w.decideByClosure(p, l) || w.done {
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

// follow goes through one edge to the next state.
func (w *search) follow(p *pendingList, e graph.Edge) {
	q := w.q
	t := q.edge(p.by.by, p.from, e)
	if t == expr.Unknown && p.by.everyEdge {
		w.uncertain = true
	}
	switch {
	case t == expr.False || p.by.unit < 0:
		if !q.visit(1) {
			w.stop()
		}
	case t == expr.Unknown && !w.pastCertain:
		b := q.borrowScratch()
		b.possible = append(b.possible, possibleState{p.by, e.Node(), p.hops})
	default:
		w.reach(p.by, e.Node(), p.hops)
	}
}

// addOpaque decides an opaque part and takes its outcome into account.
func (w *search) addOpaque(o *opaque, n graph.Node, hops int32) {
	out := w.q.decideOpaque(o, n)
	switch {
	case w.q.stopped:
		w.stop()
	case out.truth == expr.True:
		w.hit(hops + out.height)
	case out.truth == expr.Unknown:
		w.uncertain = true
	}
}

// decideOpaque decides a rule, an attribute, an intersection or an exclusion.
// Each operand gets a search of its own.
func (q *query) decideOpaque(o *opaque, n graph.Node) outcome {
	t := &q.b.s.Types[o.typ]
	switch o.op {
	case schema.OpAttribute:
		truth, _ := q.attribute(t, n, q.objectID, o.expr.Attribute)
		return outcome{truth: truth}
	case schema.OpRule:
		truth, _ := q.rule(o.expr.Rule, t, n, q.objectID)
		return outcome{truth: truth}
	}
	if o.cyclic || q.nested >= nestedMax {
		return outcome{truth: expr.Unknown}
	}
	q.nested++
	q.nodesLimit = min(q.nodesLimit, nestedNodesMax)
	var out outcome
	if o.op == schema.OpExclusion {
		out = q.exclusion(o, n)
	} else {
		out = q.intersection(o, n)
	}
	q.nested--
	return out
}

// intersection decides all operands until one is False. The height is that of
// the highest operand.
func (q *query) intersection(o *opaque, n graph.Node) outcome {
	all := outcome{truth: expr.True}
	for i := range o.units {
		if q.b.mode == ModeShuffled {
			i = len(o.units) - 1 - i
		}
		one := q.searchOperand(o.units[i], n)
		if one.truth == expr.False {
			return one
		}
		all = outcome{min(all.truth, one.truth), max(all.height, one.height)}
	}
	return all
}

// exclusion decides the base, and the subtracted side if the base is not
// False.
func (q *query) exclusion(o *opaque, n graph.Node) outcome {
	base, subtracted := o.units[0], o.units[1]
	a := q.searchOperand(base, n)
	if a.truth == expr.False {
		return a
	}
	b := q.searchOperand(subtracted, n)
	return outcome{min(a.truth, b.truth.Not()), a.height}
}

// searchOperand searches a unit once per question and remembers the outcome.
func (q *query) searchOperand(unit int32, n graph.Node) outcome {
	s := q.borrowScratch()
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
