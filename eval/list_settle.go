package eval

import (
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
	leaves []leaf
	inside map[schema.RelationID]bool // relations whose rewrite is followed
	nodes  int                        // that may still be visited
	kinds  []graph.Kind               // that a node of the target's objects may have
}

// leaf is a part of the target's rewrite that a walk decides as a whole.
type leaf struct {
	expr *schema.Expr
	// known are the canonical nodes of its objects, times two, plus one where the
	// leaf is open for the object.
	known stepSet
	// lost says that nothing is known of it.
	lost bool
}

const (
	settleFrom  = 32 // fewer candidates are checked one by one
	settleNodes = 8  // nodes that the walks may visit, by candidate
)

// settle moves what it can decide of w.open to w.sure, or drops it.
func (w *walk) settle() {
	from := settleFrom
	if w.q.b.mode == ModeBackward {
		from = 1
	}
	if len(w.open) < from || w.q.subject.Relation != "" || w.q.b.fails || w.bound != "" || unchecked() {
		return
	}
	w.open, _ = unique(w.open)
	s := &settler{w: w, inside: map[schema.RelationID]bool{}, nodes: settleNodes*len(w.open) + settleFrom,
		kinds: w.q.b.anchors[w.q.b.s.Relations[w.target].Type]}
	if r := &w.q.b.s.Relations[w.target]; r.Monotone || r.Recursive || !s.collect(r.Expr) {
		return
	}
	open := w.open[:0]
	for _, n := range w.open {
		switch s.truth(w.q.b.s.Relations[w.target].Expr, s.canonical(n)) {
		case expr.True:
			w.sure = append(w.sure, n)
		case expr.Unknown:
			open = append(open, n)
		}
	}
	w.open = open
}

// canonical is query.canonical for an object of the target's type.
func (s *settler) canonical(n graph.Node) graph.Node {
	own := s.w.q.r.KindOf(n)
	for _, k := range s.kinds {
		if k == own {
			break
		}
		if m, ok := s.w.q.r.Sibling(n, k); ok {
			return m
		}
	}
	return n
}

// follows says whether a computed relation is followed into its rewrite, as one
// that is more than unions and does not depend on itself.
func (s *settler) follows(e *schema.Expr) bool {
	if e.Op != schema.OpComputed {
		return false
	}
	r := &s.w.q.b.s.Relations[e.Relation]
	return !r.Monotone && !r.Recursive
}

// collect walks to each leaf below e. It returns false where the question
// failed.
func (s *settler) collect(e *schema.Expr) bool {
	if s.follows(e) {
		if s.inside[e.Relation] {
			return true
		}
		s.inside[e.Relation] = true
		return s.collect(s.w.q.b.s.Relations[e.Relation].Expr)
	}
	switch e.Op {
	case schema.OpDirect, schema.OpComputed, schema.OpArrow, schema.OpAttribute, schema.OpRule:
		s.leaves = append(s.leaves, leaf{expr: e})
		return s.read(&s.leaves[len(s.leaves)-1])
	}
	for _, ch := range e.Children {
		if !s.collect(ch) {
			return false
		}
	}
	return true
}

// read walks from the subject to a leaf's objects.
func (s *settler) read(l *leaf) bool {
	q := &s.w.q
	own := walk{target: s.w.target, q: *q}
	own.q.nodesMax, own.q.visited = s.nodes, 0
	own.plan = q.b.planned(planKey{part: l.expr, kind: q.kind})
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

// truth joins what the leaves say of an object. Unknown may be anything.
func (s *settler) truth(e *schema.Expr, n graph.Node) expr.Truth {
	if s.follows(e) {
		return s.truth(s.w.q.b.s.Relations[e.Relation].Expr, n)
	}
	switch e.Op {
	case schema.OpUnion:
		t := expr.False
		for _, ch := range e.Children {
			t = max(t, s.truth(ch, n))
		}
		return t
	case schema.OpIntersection:
		t := expr.True
		for _, ch := range e.Children {
			t = min(t, s.truth(ch, n))
		}
		return t
	case schema.OpExclusion:
		return min(s.truth(e.Children[0], n), s.truth(e.Children[1], n).Not())
	}
	for i := range s.leaves {
		l := &s.leaves[i]
		if l.expr != e {
			continue
		}
		switch key := uint64(n) << 1; {
		case l.known.has(key):
			return expr.True
		case l.lost || l.known.has(key|1):
			return expr.Unknown
		}
		return expr.False
	}
	return expr.Unknown
}
