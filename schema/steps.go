package schema

import "iter"

// Step is one way in which a leaf of a rewrite gets members. A leaf is an
// [Expr] whose Op is OpDirect, OpComputed or OpArrow.
type Step struct {
	// Op is the operator of the leaf.
	Op Op
	// From is the relation whose members become members of the leaf; None if a
	// tuple names the member itself.
	From RelationID
	// Tupleset is the relation whose tuples are read: for OpDirect the relation
	// that holds the leaf, for OpArrow the arrow's first relation, for OpComputed
	// None.
	Tupleset RelationID
	// Restriction selects the tuples of Tupleset that count; nil for OpComputed.
	Restriction *Restriction
}

// Steps yields the steps of a leaf, in the order of the model. Expressions that
// are not leaves have no steps.
func (e *Expr) Steps() iter.Seq[Step] {
	return func(yield func(Step) bool) {
		switch e.Op {
		case OpComputed:
			yield(Step{Op: e.Op, From: e.Relation, Tupleset: None})
		case OpDirect:
			for i := range e.Direct {
				x := &e.Direct[i]
				if !yield(Step{e.Op, x.Relation, e.Relation, x}) {
					return
				}
			}
		case OpArrow:
			for i := range e.Via {
				v := &e.Via[i]
				if !yield(Step{e.Op, v.Target, e.Relation, &v.Restriction}) {
					return
				}
			}
		}
	}
}

// Use is a [Step] and the relation whose rewrite contains it.
type Use struct {
	// To is the relation that gets members by the step.
	To RelationID
	Step
}

// Backward holds the rewrites of a [Schema] read backwards: from what a subject
// has to what may follow from it. It ignores operators and conditions, so it
// shows what may depend on a relation or a kind, not what does.
type Backward struct {
	// Naming lists, by KindID, the relations whose tuples may name a subject of
	// the kind. It includes usersets: "group#member" is a kind.
	Naming [][]RelationID
	// Uses lists, by RelationID, the computed relations and the arrows that read
	// the relation. Its use as a userset is in Naming.
	Uses [][]Use
	// Arrows lists, by RelationID, the arrows that start from the tuples of the
	// relation.
	Arrows [][]Use
	// Valued lists the relations that read an attribute of their object. A
	// relation occurs once for each rule and attribute in its rewrite.
	Valued []RelationID
}

// Backward returns the rewrites of s read backwards. [Compile] computes them
// once.
func (s *Schema) Backward() *Backward { return s.backward }

func readBackward(s *Schema) *Backward {
	b := &Backward{
		Naming: make([][]RelationID, len(s.Kinds)),
		Uses:   make([][]Use, len(s.Relations)),
		Arrows: make([][]Use, len(s.Relations)),
	}
	for i := range s.Relations {
		r := &s.Relations[i]
		for _, x := range r.Restrictions {
			b.Naming[x.Kind] = append(b.Naming[x.Kind], r.ID)
		}
		b.read(r.ID, r.Expr)
	}
	return b
}

// read adds what the rewrite e of relation to reads.
func (b *Backward) read(to RelationID, e *Expr) {
	switch e.Op {
	case OpComputed, OpArrow:
		for step := range e.Steps() {
			use := Use{to, step}
			b.Uses[step.From] = append(b.Uses[step.From], use)
			if step.Op == OpArrow {
				b.Arrows[step.Tupleset] = append(b.Arrows[step.Tupleset], use)
			}
		}
	case OpAttribute, OpRule:
		b.Valued = append(b.Valued, to)
	}
	for _, child := range e.Children {
		b.read(to, child)
	}
}
