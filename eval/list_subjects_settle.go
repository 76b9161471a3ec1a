package eval

import (
	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/graph"
	"github.com/ostiary/ostiary/schema"
)

// subjectSettler is to a list of subjects what settler is to one of objects:
// "viewer but not banned" by the viewers and the banned of the one object, in
// place of a check for each viewer. Whoever a leaf's walk does not find is a
// stranger to the leaf, and all strangers get the same answer there. Attributes
// and rules are the object's: they are read once.
type subjectSettler struct {
	w      *subjectWalk
	root   subjectPart
	leaves []subjectLeaf
	parts  int
	nodes  int // that may still be visited
}

// subjectPart is a part of the target's rewrite: an operator, a leaf, or
// (leaf < 0, no parts) what is the same for everybody.
type subjectPart struct {
	op    schema.Op
	parts []subjectPart
	leaf  int
	truth expr.Tristate
}

type subjectLeaf struct {
	// known are the nodes of its subjects, times two, plus one where the leaf is
	// open for the subject.
	known stepSet
	// others is what the leaf is for those who are not known.
	others expr.Tristate
}

// settler walks to what decides the candidates; nil where few are open, or it
// could decide nothing.
func (w *subjectWalk) settler(open int) *subjectSettler {
	from := settleFrom
	if w.q.b.mode == ModeBackward {
		from = 1
	}
	r := &w.q.b.s.Relations[w.target]
	if open < from || w.bound != "" || w.wild == schema.None || w.q.b.fails || r.Recursive {
		return nil
	}
	s := &subjectSettler{w: w, nodes: settleNodes*open + settleFrom + 2*w.q.visited}
	if !s.compile(&s.root, r.Expr) {
		return nil
	}
	return s
}

// compile makes a part of an expression, and walks to each leaf below it. It
// returns false where there are too many parts, or the question failed.
func (s *subjectSettler) compile(p *subjectPart, e *schema.Expr) bool {
	q := &s.w.q
	if q.b.unfolds(e) {
		return s.compile(p, q.b.s.Relations[e.Relation].Expr)
	}
	if s.parts++; s.parts > settleParts {
		return false
	}
	p.op, p.leaf = e.Op, -1
	t := &q.b.s.Types[q.b.s.Relations[s.w.target].Type]
	switch e.Op {
	case schema.OpAttribute:
		p.truth, _ = q.attribute(t, s.w.anchor, s.w.object.ID, e.Attribute)
		return true
	case schema.OpRule:
		p.truth, _ = q.rule(e.Rule, t, s.w.anchor, s.w.object.ID)
		return true
	case schema.OpDirect, schema.OpComputed, schema.OpArrow:
		p.leaf = len(s.leaves)
		s.leaves = append(s.leaves, subjectLeaf{})
		return s.read(&s.leaves[p.leaf], e)
	}
	p.parts = make([]subjectPart, len(e.Children))
	for i, ch := range e.Children {
		if !s.compile(&p.parts[i], ch) {
			return false
		}
	}
	return true
}

// read walks from the object to a leaf's subjects.
func (s *subjectSettler) read(l *subjectLeaf, e *schema.Expr) bool {
	whole := s.w
	own := subjectWalk{q: whole.q, target: whole.target, object: whole.object, anchor: whole.anchor,
		wanted: whole.wanted, wild: whole.wild, listScratch: borrowList()}
	defer own.release()
	own.q.nodesMax, own.q.limit, own.q.visited = s.nodes, s.nodes, 0
	own.read(e, step{relation: int32(own.target), node: own.anchor})
	own.follow()
	whole.q.stats, whole.q.err = own.q.stats, own.q.err
	s.nodes -= own.q.visited
	l.others = own.star
	if own.bound != "" || own.anybody {
		l.others = max(l.others, expr.Unknown)
	}
	for _, n := range own.sure {
		l.known.add(uint64(n) << 1)
	}
	for _, n := range own.open {
		l.known.add(uint64(n)<<1 | 1)
	}
	return whole.q.err == nil
}

// truth joins what the leaves say of a candidate. Unknown may be anything.
func (s *subjectSettler) truth(p *subjectPart, n graph.Node) expr.Tristate {
	switch p.op {
	case schema.OpUnion:
		t := expr.False
		for i := range p.parts {
			t = max(t, s.truth(&p.parts[i], n))
		}
		return t
	case schema.OpIntersection:
		t := expr.True
		for i := range p.parts {
			t = min(t, s.truth(&p.parts[i], n))
		}
		return t
	case schema.OpExclusion:
		return min(s.truth(&p.parts[0], n), s.truth(&p.parts[1], n).Not())
	}
	if p.leaf < 0 {
		return p.truth
	}
	l := &s.leaves[p.leaf]
	switch key := uint64(n) << 1; {
	case l.known.has(key):
		return expr.True
	case l.known.has(key | 1):
		return max(l.others, expr.Unknown)
	}
	return l.others
}
