package eval

import (
	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/internal/engine/graph"
)

// joins reports whether the usersets that a link leads to hold plain subjects
// alone. Then the search intersects two lists instead of following a link: the
// usersets in the object's tuples, and the usersets whose tuples name the
// subject.
func (w *search) joins(f *link) bool {
	q := w.q
	if f.arrow || f.everyEdge || f.unit < 0 {
		return false
	}
	t := q.nextRoute(f)
	return t.probesOnly && t.sources[0].kind == f.kind
}

// join looks for a common node of two lists: l, the neighbors of from under f,
// and the nodes in whose tuples the subject or its wildcard is named.
func (w *search) join(f *link, from graph.Node, l graph.List, hops int32) {
	q := w.q
	probes := q.nextRoute(f).sources[0].probes
	for i := range probes {
		p := &probes[i]
		x := q.node
		if p.star {
			x = q.starNode()
		}
		if x == 0 {
			continue
		}
		if !q.r.Reversible() || q.b.mode == ModeForward || q.b.mode == ModeShuffled {
			w.joinForward(f, p, from, x, l, hops)
		} else if s := q.reverse(x, f.kind); s.Len() > 0 {
			w.joinLists(f, p, from, x, l, s, hops)
		}
		if w.done {
			return
		}
	}
}

// joinForward looks for x in the tuples of each of l's nodes. It is used where
// the data cannot be read from the subject's side.
func (w *search) joinForward(f *link, p *lookup, from, x graph.Node, l graph.List, hops int32) {
	q := w.q
	for c := range l.Chunks() {
		for _, e := range l.Chunk(c) {
			if !q.visit(1) {
				w.stop()
				return
			}
			if far, ok := q.probe(e.Node(), x, p.kind); ok && w.addJoined(f, p, from, x, e, far, hops) {
				return
			}
		}
	}
}

// joinLists intersects l with s, the nodes in whose tuples x is named. It goes
// through the shorter list and looks its nodes up in the longer one.
func (w *search) joinLists(f *link, p *lookup, from, x graph.Node, l, s graph.List, hops int32) {
	q := w.q
	short, long, swapped, at := l, s, false, 0
	if s.Len() < l.Len() {
		short, long, swapped = s, l, true
	}
	for c := range short.Chunks() {
		chunk := short.Chunk(c)
		q.stats.Probes += len(chunk)
		if !q.visit(len(chunk)) {
			w.stop()
			return
		}
		for _, e := range chunk {
			var other graph.Edge
			var ok bool
			if other, ok, at = long.FindFrom(at, e.Node()); !ok {
				continue
			}
			if swapped {
				e, other = other, e
			}
			if w.addJoined(f, p, from, x, e, other, hops) {
				return
			}
		}
	}
}

// addJoined takes a common node into account: near is the edge from the
// object's side to it, far the edge to the subject x. Only far's detail flag
// is used. It reports whether the search is done.
func (w *search) addJoined(f *link, p *lookup, from, x graph.Node, near, far graph.Edge, hops int32) bool {
	q := w.q
	t := q.edge(f.by, from, near)
	if t != expr.False {
		t = min(t, q.edge(p.by, near.Node(), graph.EdgeTo(x, far.Detailed())))
	}
	return w.addResult(t, hops)
}
