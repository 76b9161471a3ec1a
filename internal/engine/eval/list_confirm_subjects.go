package eval

import (
	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/internal/engine/graph"
	"github.com/ostiary/ostiary/schema"
)

// confirmer makes the confirmer of a list of subjects: a walk from the object
// finds the subjects of each leaf. Every subject that a walk does not find gets
// the leaf's value for strangers. Attributes and rules are the object's, so each
// is evaluated once.
//
// It returns nil if open, the number of uncertain candidates, is small, or
// where sets cannot decide: for usersets as subjects, with
// schema.Options.MissingContextFails, and for a recursive target. It also
// returns nil if the question failed.
func (w *subjectWalk) confirmer(uncertain int) *confirmer {
	b := w.q.b
	r := &b.s.Relations[w.target]
	if uncertain < b.confirmFrom() || w.bound != "" || w.wildcardKind == schema.None || b.missingFails || r.Recursive {
		return nil
	}
	c := &confirmer{q: &w.q, nodesLeft: confirmNodesPerCandidate*uncertain + confirmMin + 2*w.q.visited}
	c.walkLeaf = func(l *confirmLeaf, e *schema.Expr) bool { return w.confirmLeaf(c, l, e) }
	typ := &b.s.Types[r.Type]
	values := map[*schema.Expr]expr.Tristate{}
	c.value = func(p *confirmPart, _ graph.Node) expr.Tristate {
		t, known := values[p.expr]
		if known {
			return t
		}
		if p.op == schema.OpAttribute {
			t, _ = w.q.attribute(typ, w.anchor, w.object.ID, p.expr.Attribute)
		} else {
			t, _ = w.q.rule(p.expr.Rule, typ, w.anchor, w.object.ID)
		}
		values[p.expr] = t
		return t
	}
	if !c.compile(&c.root, r.Expr) {
		return nil
	}
	return c
}

// confirmLeaf walks from the object to the subjects of a leaf.
func (w *subjectWalk) confirmLeaf(c *confirmer, l *confirmLeaf, e *schema.Expr) bool {
	own := subjectWalk{listWalk: listWalk{q: w.q, listScratch: borrowList()}, target: w.target, object: w.object, anchor: w.anchor,
		subjectKind: w.subjectKind, wildcardKind: w.wildcardKind}
	defer own.releaseScratch()
	defer w.q.takeOver(&own.q)
	own.q.nodesMax, own.q.nodesLimit, own.q.visited = c.nodesLeft, c.nodesLeft, 0
	own.read(e, step{relation: int32(own.target), node: own.anchor})
	own.levels(own.expand)
	c.nodesLeft -= own.q.visited
	l.others = own.wildcardReached
	if own.bound != "" || own.anybody {
		l.others = max(l.others, expr.Unknown)
	}
	l.add(own.certain, own.uncertain, func(n graph.Node) graph.Node { return n })
	return own.q.err == nil
}
