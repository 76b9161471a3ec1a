package eval

import (
	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/graph"
)

// joins says whether what a follow leads to is decided by the subject's own
// tuples, so that two lists tell: what the object is shared with, and what the
// subject is in.
func (w *search) joins(f *follow) bool {
	q := w.q
	if f.arrow || f.scan || f.unit < 0 {
		return false
	}
	t := q.next(f)
	return t.last && t.sources[0].kind == f.kind
}

// join looks for a common node of l, the neighbours of from under f, and of
// the nodes that the subject or its wildcard stands in. It walks the shorter
// list and looks its nodes up in the longer.
func (w *search) join(f *follow, from graph.Node, l graph.List, hops int32) {
	q := w.q
	probes := q.next(f).sources[0].probes
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

// joinForward looks for x in each of l's nodes.
func (w *search) joinForward(f *follow, p *lookup, from, x graph.Node, l graph.List, hops int32) {
	q := w.q
	for c := range l.Chunks() {
		for _, e := range l.Chunk(c) {
			if !q.visit(1) {
				w.stop()
				return
			}
			if far, ok := q.probe(e.Node(), x, p.kind); ok && w.both(f, p, from, x, e, far, hops) {
				return
			}
		}
	}
}

func (w *search) joinLists(f *follow, p *lookup, from, x graph.Node, l, s graph.List, hops int32) {
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
			if w.both(f, p, from, x, e, other, hops) {
				return
			}
		}
	}
}

// both weighs the two edges of a common node: from it to the object's side,
// and to the subject x (far, of which only the detail counts).
func (w *search) both(f *follow, p *lookup, from, x graph.Node, near, far graph.Edge, hops int32) bool {
	q := w.q
	t := q.edge(f.by, from, near)
	if t != expr.False {
		t = min(t, q.edge(p.by, near.Node(), graph.EdgeTo(x, far.Detailed())))
	}
	return w.met(t, hops)
}
