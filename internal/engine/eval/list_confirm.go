package eval

import (
	"slices"

	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/internal/engine/graph"
	"github.com/ostiary/ostiary/schema"
)

// confirmer decides the uncertain candidates of a list in bulk. For "viewer but
// not banned" it walks once to all viewers and once to all banned, and combines
// the two sets for each candidate, instead of one check per candidate.
//
// It follows the target's rewrite down to its leaves: expressions without
// operators. One walk per leaf finds the nodes for which the leaf certainly
// holds and those for which it is uncertain. A walk misses nothing, so for all
// other nodes the leaf has one common value. The operators then combine the
// leaves' values with Kleene's tables.
//
// A result of True or False is final. Unknown only means that the confirmer
// cannot decide; such candidates are checked one by one.
type confirmer struct {
	// q is the list's question.
	q *query
	// root is the target's rewrite.
	root confirmPart
	// leaves are the expressions that walks have read.
	leaves []confirmLeaf
	// walkLeaf fills a leaf by one walk. It returns false if the question failed.
	walkLeaf func(*confirmLeaf, *schema.Expr) bool
	// value evaluates an attribute or a rule on the object of a node.
	value func(*confirmPart, graph.Node) expr.Tristate
	// partsCompiled counts the parts of the rewrite, against confirmPartsMax.
	partsCompiled int
	// nodesLeft is how many nodes the walks may still visit.
	nodesLeft int
}

// confirmPart is a part of the target's rewrite: an operator, a leaf, an
// attribute or a rule.
type confirmPart struct {
	op   schema.Op
	expr *schema.Expr
	// parts are an operator's operands. Those of a union or an intersection are
	// sorted by cost, the cheapest first.
	parts []confirmPart
	// leaf is a leaf's index in confirmer.leaves.
	leaf int
}

// confirmLeaf is an expression whose values one walk has found.
type confirmLeaf struct {
	// known holds twice the canonical node of each object that the walk found,
	// plus one where the leaf is uncertain for that object.
	known numberSet
	// others is the leaf's value for every node that is not in known.
	others expr.Tristate
}

const (
	// confirmMin is the least number of candidates for which a confirmer is made.
	confirmMin = 32
	// confirmNodesPerCandidate bounds the nodes that the walks may visit.
	confirmNodesPerCandidate = 8
	// confirmPartsMax bounds the parts of a rewrite. The candidates of a larger
	// one are checked one by one.
	confirmPartsMax = 64
)

// confirmFrom returns the least number of candidates for which a confirmer is
// made: confirmMin, or 1 in the tests' mode that prefers walks from the subject.
func (b *Binding) confirmFrom() int {
	if b.mode == ModeBackward {
		return 1
	}
	return confirmMin
}

// compile builds the part for an expression and walks to each leaf below it.
// It returns false if there are too many parts or the question failed.
func (c *confirmer) compile(p *confirmPart, e *schema.Expr) bool {
	if c.q.b.unfoldsRewrite(e) {
		return c.compile(p, c.q.b.s.Relations[e.Relation].Expr)
	}
	if c.partsCompiled++; c.partsCompiled > confirmPartsMax {
		return false
	}
	p.op, p.expr = e.Op, e
	switch e.Op {
	case schema.OpAttribute, schema.OpRule:
		return true
	case schema.OpDirect, schema.OpComputed, schema.OpArrow:
		p.leaf = len(c.leaves)
		c.leaves = append(c.leaves, confirmLeaf{})
		return c.walkLeaf(&c.leaves[p.leaf], e)
	}
	p.parts = make([]confirmPart, len(e.Children))
	for i, ch := range e.Children {
		if !c.compile(&p.parts[i], ch) {
			return false
		}
	}
	if e.Op != schema.OpExclusion {
		slices.SortStableFunc(p.parts, func(a, b confirmPart) int { return a.cost() - b.cost() })
	}
	return true
}

// unfoldsRewrite reports whether a confirmer reads a computed relation by its
// rewrite instead of as a leaf: the relation has operators, attributes or rules,
// and does not depend on itself.
func (b *Binding) unfoldsRewrite(e *schema.Expr) bool {
	if e.Op != schema.OpComputed {
		return false
	}
	r := &b.s.Relations[e.Relation]
	return (!r.Monotone || r.ReachAny) && !r.Recursive
}

// cost orders parts from cheap to expensive: leaves, operators, attributes,
// rules.
func (p *confirmPart) cost() int {
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

// truth returns the value of a part for a candidate's canonical node. Unknown
// means that the confirmer cannot decide.
func (c *confirmer) truth(p *confirmPart, n graph.Node) expr.Tristate {
	switch p.op {
	case schema.OpUnion:
		t := expr.False
		for i := range p.parts {
			if t = max(t, c.truth(&p.parts[i], n)); t == expr.True {
				break
			}
		}
		return t
	case schema.OpIntersection:
		t := expr.True
		for i := range p.parts {
			if t = min(t, c.truth(&p.parts[i], n)); t == expr.False {
				break
			}
		}
		return t
	case schema.OpExclusion:
		t := c.truth(&p.parts[0], n)
		if t != expr.False {
			t = min(t, c.truth(&p.parts[1], n).Not())
		}
		return t
	case schema.OpAttribute, schema.OpRule:
		return c.value(p, n)
	}
	return c.leaves[p.leaf].truth(n)
}

// add records what a walk found, by canonical nodes.
func (l *confirmLeaf) add(certain, uncertain []graph.Node, canonical func(graph.Node) graph.Node) {
	for _, n := range certain {
		l.known.add(uint64(canonical(n)) << 1)
	}
	for _, n := range uncertain {
		l.known.add(uint64(canonical(n))<<1 | 1)
	}
}

// truth returns the leaf's value for a canonical node.
func (l *confirmLeaf) truth(n graph.Node) expr.Tristate {
	switch key := uint64(n) << 1; {
	case l.known.has(key):
		return expr.True
	case l.known.has(key | 1):
		return max(l.others, expr.Unknown)
	}
	return l.others
}

// confirmOpen decides w.open by a confirmer: it moves nodes that are True to
// w.sure, drops those that are False, and keeps the rest.
func (w *objectWalk) confirmUncertain() {
	if len(w.uncertain) < w.q.b.confirmFrom() || w.bound != "" || w.q.b.s.Relations[w.target].Monotone {
		return
	}
	w.uncertain, _ = uniqueNodes(w.uncertain)
	c := w.confirmer(confirmNodesPerCandidate*len(w.uncertain) + confirmMin + 2*w.q.visited)
	if c == nil {
		return
	}
	uncertain := w.uncertain[:0]
	for _, n := range w.uncertain {
		switch c.truth(&c.root, w.canonical(n)) {
		case expr.True:
			w.certain = append(w.certain, n)
		case expr.Unknown:
			uncertain = append(uncertain, n)
		}
	}
	w.uncertain = uncertain
}

// confirmer makes the confirmer of a list of objects. Its walks visit at most
// nodes nodes. It returns nil where sets cannot decide: for a userset as the
// subject, because a userset is a member of itself anywhere in a rewrite; with
// schema.Options.MissingContextFails, where every condition on the way counts;
// and for a recursive target. It also returns nil if the question failed.
func (w *objectWalk) confirmer(nodes int) *confirmer {
	r := &w.q.b.s.Relations[w.target]
	if w.q.subject.Relation != "" || w.q.b.missingFails || r.Recursive {
		return nil
	}
	c := &confirmer{q: &w.q, nodesLeft: nodes}
	c.walkLeaf = func(l *confirmLeaf, e *schema.Expr) bool { return w.confirmLeaf(c, l, e) }
	typ := &w.q.b.s.Types[r.Type]
	c.value = func(p *confirmPart, n graph.Node) (t expr.Tristate) {
		if p.op == schema.OpAttribute {
			t, _ = w.q.attribute(typ, n, "", p.expr.Attribute)
		} else {
			t, _ = w.q.rule(p.expr.Rule, typ, n, "")
		}
		return t
	}
	if !c.compile(&c.root, r.Expr) {
		return nil
	}
	return c
}

// canonical finds the one node by which sets hold an object of the target's
// type.
func (w *objectWalk) canonical(n graph.Node) graph.Node {
	q := &w.q
	if q.view != nil {
		return q.view.FirstNode(n)
	}
	own := q.r.KindOf(n)
	for _, k := range q.b.objectKinds[q.b.s.Relations[w.target].Type] {
		if k == own {
			break
		}
		if m, ok := q.r.Sibling(n, k); ok {
			return m
		}
	}
	return n
}

// confirmLeaf walks from the subject to the objects of a leaf. The leaf is
// unknown for every object where the walk cannot name all of them or reaches
// its bound.
func (w *objectWalk) confirmLeaf(c *confirmer, l *confirmLeaf, e *schema.Expr) bool {
	q := &w.q
	own := objectWalk{listWalk: listWalk{q: *q}, target: w.target}
	own.q.nodesMax, own.q.nodesLimit, own.q.visited = c.nodesLeft, c.nodesLeft, 0
	own.plan = q.b.listPlan(planKey{part: e, kind: q.kind})
	if len(own.plan.values) > 0 {
		l.others = expr.Unknown
		return true
	}
	defer q.takeOver(&own.q)
	err := own.run()
	defer own.releaseScratch()
	c.nodesLeft -= own.q.visited
	switch {
	case err != nil:
		return false
	case own.bound != "":
		l.others = expr.Unknown
	default:
		l.add(own.certain, own.uncertain, w.canonical)
	}
	return true
}
