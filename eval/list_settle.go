package eval

import (
	"slices"

	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/graph"
	"github.com/ostiary/ostiary/schema"
)

// settler decides candidates in bulk: "viewer but not banned" by the list of
// viewers and the list of those that the subject is banned from, in place of
// a check for each viewer. It follows the rewrite of the target down to its
// leaves, walks to each leaf once, and joins what the walks say of a candidate
// as the rewrite does. A leaf's walk knows the objects that it surely holds
// for, and those for which it is open; it misses none, so for all others the
// leaf is false. What stays open is left to a check, and so is everything where
// a rule can say that some edge elsewhere matters (MissingContextFails), or the
// subject is a userset, which is a member of itself in the midst of a rewrite.
type settler struct {
	w      *walk
	root   part
	leaves []leaf
	parts  int          // that were compiled
	nodes  int          // that may still be visited
	kinds  []graph.Kind // that a node of the target's objects may have
	typ    *schema.Type // of the target's objects
}

// part is a part of the target's rewrite: an operator, a leaf, or an attribute
// or rule that is read for each object.
type part struct {
	op    schema.Op
	expr  *schema.Expr
	parts []part // what costs least first, but for an exclusion's
	leaf  int
}

// leaf is a part of the target's rewrite that a walk decides as a whole.
type leaf struct {
	// known are the canonical nodes of its objects, times two, plus one where the
	// leaf is open for the object.
	known stepSet
	// lost says that nothing is known of it.
	lost bool
}

const (
	settleFrom  = 32 // fewer candidates are checked one by one
	settleNodes = 8  // nodes that the walks may visit, by candidate
	settleParts = 64 // of a rewrite; larger ones are checked
)

// settle moves what it can decide of w.open to w.sure, or drops it.
func (w *walk) settle() {
	from := settleFrom
	if w.q.b.mode == ModeBackward {
		from = 1
	}
	if len(w.open) < from || w.bound != "" || w.q.b.s.Relations[w.target].Monotone {
		return
	}
	w.open, _ = unique(w.open)
	s := w.settler(settleNodes*len(w.open) + settleFrom + 2*w.q.visited)
	if s == nil {
		return
	}
	open := w.open[:0]
	for _, n := range w.open {
		switch s.truth(&s.root, s.canonical(n)) {
		case expr.True:
			w.sure = append(w.sure, n)
		case expr.Unknown:
			open = append(open, n)
		}
	}
	w.open = open
}

// settler walks to what decides the target's objects, visiting so many nodes at
// most; nil where it could decide nothing, or the question failed.
func (w *walk) settler(nodes int) *settler {
	r := &w.q.b.s.Relations[w.target]
	if w.q.subject.Relation != "" || w.q.b.fails || r.Recursive {
		return nil
	}
	s := &settler{w: w, nodes: nodes, kinds: w.q.b.anchors[r.Type], typ: &w.q.b.s.Types[r.Type]}
	if !s.compile(&s.root, r.Expr) {
		return nil
	}
	return s
}

// canonical finds the one node that stands for an object of the target's type.
func (s *settler) canonical(n graph.Node) graph.Node {
	q := &s.w.q
	if q.view != nil {
		return q.view.FirstNode(n)
	}
	own := q.r.KindOf(n)
	for _, k := range s.kinds {
		if k == own {
			break
		}
		if m, ok := q.r.Sibling(n, k); ok {
			return m
		}
	}
	return n
}

// unfolds says whether a computed relation is followed into its rewrite, as one
// that is more than unions of tuples and does not depend on itself.
func (b *Binding) unfolds(e *schema.Expr) bool {
	if e.Op != schema.OpComputed {
		return false
	}
	r := &b.s.Relations[e.Relation]
	return (!r.Monotone || r.ReachAny) && !r.Recursive
}

// compile makes a part of an expression, and walks to each leaf below it. It
// returns false where there are too many parts, or the question failed.
func (s *settler) compile(p *part, e *schema.Expr) bool {
	if s.w.q.b.unfolds(e) {
		return s.compile(p, s.w.q.b.s.Relations[e.Relation].Expr)
	}
	if s.parts++; s.parts > settleParts {
		return false
	}
	p.op, p.expr = e.Op, e
	switch e.Op {
	case schema.OpAttribute, schema.OpRule:
		return true
	case schema.OpDirect, schema.OpComputed, schema.OpArrow:
		p.leaf = len(s.leaves)
		s.leaves = append(s.leaves, leaf{})
		return s.read(&s.leaves[p.leaf], e)
	}
	p.parts = make([]part, len(e.Children))
	for i, ch := range e.Children {
		if !s.compile(&p.parts[i], ch) {
			return false
		}
	}
	if e.Op != schema.OpExclusion {
		slices.SortStableFunc(p.parts, func(a, b part) int { return a.cost() - b.cost() })
	}
	return true
}

// cost orders parts: sets, operators over them, attributes, rules.
func (p *part) cost() int {
	switch p.op {
	case schema.OpDirect, schema.OpComputed, schema.OpArrow:
		return 0
	case schema.OpAttribute:
		return 2
	case schema.OpRule:
		return 3
	}
	return 1
}

// read walks from the subject to a leaf's objects.
func (s *settler) read(l *leaf, e *schema.Expr) bool {
	q := &s.w.q
	own := walk{target: s.w.target, q: *q}
	own.q.nodesMax, own.q.limit, own.q.visited = s.nodes, s.nodes, 0
	own.plan = q.b.planned(planKey{part: e, kind: q.kind})
	if l.lost = len(own.plan.everything) > 0; l.lost {
		return true
	}
	err := own.run()
	defer own.release()
	q.stats, q.err = own.q.stats, own.q.err
	s.nodes -= own.q.visited
	if err != nil {
		return false
	}
	if l.lost = own.bound != ""; l.lost {
		return true
	}
	for _, n := range own.sure {
		l.known.add(uint64(s.canonical(n)) << 1)
	}
	for _, n := range own.open {
		l.known.add(uint64(s.canonical(n))<<1 | 1)
	}
	return true
}

// truth joins what the leaves say of an object, given by its canonical node.
// Unknown may be anything.
func (s *settler) truth(p *part, n graph.Node) expr.Tristate {
	q := &s.w.q
	switch p.op {
	case schema.OpUnion:
		t := expr.False
		for i := range p.parts {
			if t = max(t, s.truth(&p.parts[i], n)); t == expr.True {
				break
			}
		}
		return t
	case schema.OpIntersection:
		t := expr.True
		for i := range p.parts {
			if t = min(t, s.truth(&p.parts[i], n)); t == expr.False {
				break
			}
		}
		return t
	case schema.OpExclusion:
		t := s.truth(&p.parts[0], n)
		if t != expr.False {
			t = min(t, s.truth(&p.parts[1], n).Not())
		}
		return t
	case schema.OpAttribute:
		t, _ := q.attribute(s.typ, n, "", p.expr.Attribute)
		return t
	case schema.OpRule:
		t, _ := q.rule(p.expr.Rule, s.typ, n, "")
		return t
	}
	l := &s.leaves[p.leaf]
	switch key := uint64(n) << 1; {
	case l.known.has(key):
		return expr.True
	case l.lost || l.known.has(key|1):
		return expr.Unknown
	}
	return expr.False
}
