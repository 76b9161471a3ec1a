package eval

import (
	"context"
	"slices"

	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/graph"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/schema"
)

// TreeKind is the kind of a [Tree]'s node.
type TreeKind string

const (
	// TreeRelation is Relation of Object. Its one child is the relation's
	// rewrite.
	TreeRelation TreeKind = "relation"
	// TreeDirect has the relation's own tuples as Leaves.
	TreeDirect TreeKind = "direct"
	// TreeArrow is "Target from Relation". Its Leaves are Relation's tuples,
	// each with the related object's Target below it.
	TreeArrow TreeKind = "arrow"
	// TreeUnion has the operands of a union as children.
	TreeUnion TreeKind = "union"
	// TreeIntersection has the operands of an intersection as children.
	TreeIntersection TreeKind = "intersection"
	// TreeExclusion is its first child without its second.
	TreeExclusion TreeKind = "exclusion"
	// TreeAttribute is an attribute of the object. It holds for every subject
	// if Decision is True.
	TreeAttribute TreeKind = "attribute"
	// TreeRule is a rule on the object, in the same way.
	TreeRule TreeKind = "rule"
)

// Tree shows who has a relation on an object, in the structure of the rewrites
// and tuples.
type Tree struct {
	// Kind is the kind of the node.
	Kind TreeKind
	// Object is the object on which the node is read.
	Object rel.Object
	// Relation is the relation of TreeRelation and TreeDirect, and the first
	// one of TreeArrow; "" for others.
	Relation string
	// Target is TreeArrow's second relation; "" for others.
	Target string
	// Rewrite is the node's part of the schema, as text.
	Rewrite string
	// Children are the nodes below, as described at each [TreeKind].
	Children []*Tree
	// Leaves are the tuples of TreeDirect and TreeArrow.
	Leaves []Leaf
	// Decision is the value of an attribute or a rule.
	Decision expr.Tristate
	// Reasons explain an unknown Decision.
	Reasons *Reasons

	// Seen marks a TreeRelation that is expanded elsewhere in the tree, on the
	// same level or above, and has no child here. So a cycle gives a finite tree,
	// and shared parts appear once. Cut marks a TreeRelation that is not expanded,
	// because of the requested levels or a bound.
	Seen, Cut bool
	// Bound names, on the root, the bound that cut the tree; "" if none did.
	Bound string

	// id is the relation whose rewrite the node is part of.
	id schema.RelationID
}

// Leaf is one tuple that counts.
type Leaf struct {
	// Tuple is the tuple.
	Tuple rel.Tuple
	// Decision is the value of the tuple's condition; True if it has none.
	Decision expr.Tristate
	// Wildcard is true if the tuple names every plain object of a type.
	Wildcard bool
	// Tree is the relation that a userset or a related object leads to. It is
	// nil for a plain subject, and for a related object without the relation.
	Tree *Tree
}

// Expand shows who has a relation on an object, levels deep. Level 1 (or less)
// is the relation's own rewrite and tuples; each computed relation, userset
// and arrow leads one level further. The errors are those of Check. A bound on
// nodes, on entries, on bytes or on conditions cuts the tree, and [Tree.Bound]
// then names it.
//
// [Tree.Member] derives the answers of check from a tree without Cut.
func (b *Binding) Expand(ctx context.Context, r Reader, object rel.Object, relation string, levels int, env *Env) (*Tree, error) {
	if env == nil {
		env = &Env{}
	}
	id, err := b.relation(object.Type, relation)
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	o, err := b.reader(r, env)
	if err != nil {
		return nil, err
	}
	x := expander{object: object, seen: map[stateKey]bool{}, levels: max(1, levels)}
	if x.entriesMax = env.Bounds.ExpandEntries; x.entriesMax <= 0 {
		x.entriesMax = ExpandEntriesDefault
	}
	if x.bytesMax = env.Bounds.ExpandBytes; x.bytesMax <= 0 {
		x.bytesMax = ExpandBytesDefault
	}
	x.q.start(ctx, b.rebound(o), o, rel.Subject{}, env)
	defer x.q.finish()
	root := x.relation(id, x.q.anchor(object))
	for level := 0; level < x.levels && len(x.pending) > 0 && x.bound == ""; level++ {
		todo := x.pending
		x.pending = nil
		for i := range todo {
			x.expand(todo[i])
		}
	}
	for _, t := range x.pending {
		t.tree.Cut = true
	}
	root.Bound = x.bound
	if x.q.err == nil {
		x.q.look()
	}
	return root, x.q.failed()
}

// expander builds a tree level by level, so that a relation that occurs twice
// is expanded where it is highest.
type expander struct {
	// q is the question's state, without a subject.
	q query
	// object is the question's object.
	object rel.Object
	// levels is the number of levels to expand.
	levels int
	// seen are the relations that are expanded.
	seen map[stateKey]bool
	// pending are the relations of the next level.
	pending []unexpanded
	// bound names the bound that was reached; "" if none was.
	bound string
	// entries and bytes are the size of the tree, and entriesMax and bytesMax
	// its bounds.
	entries, bytes, entriesMax, bytesMax int
}

// add counts an entry with that many bytes of text.
func (x *expander) add(bytes int) {
	x.entries++
	x.bytes += bytes
	switch {
	case x.bound != "":
	case x.entries > x.entriesMax:
		x.bound = BoundExpandEntries
	case x.bytes > x.bytesMax:
		x.bound = BoundExpandBytes
	}
}

// unexpanded is a relation in the tree that has no child yet, and the node of
// its object.
type unexpanded struct {
	tree *Tree
	node graph.Node
}

// visit counts a node. It returns false if the tree must end here.
func (x *expander) visit() bool {
	if x.bound == "" && !x.q.visit(1) && x.q.err == nil {
		x.bound = x.q.boundReached()
	}
	return x.bound == "" && x.q.err == nil
}

// objectOf returns the object of a node; 0 is the question's own.
func (x *expander) objectOf(id schema.RelationID, n graph.Node) rel.Object {
	if n == 0 {
		return x.object
	}
	return rel.Object{Type: x.q.b.s.Types[x.q.b.s.Relations[id].Type].Name, ID: x.q.r.ID(n)}
}

// relation makes the tree node of an object's relation, to be expanded later.
func (x *expander) relation(id schema.RelationID, n graph.Node) *Tree {
	n = x.q.canonical(n)
	t := &Tree{Kind: TreeRelation, Object: x.objectOf(id, n), Relation: x.q.b.relationText(id), id: id}
	x.pending = append(x.pending, unexpanded{t, n})
	x.add(len(t.Object.Type) + len(t.Object.ID) + len(t.Relation))
	return t
}

// expand gives a relation its child, unless it was expanded before.
func (x *expander) expand(u unexpanded) {
	key := stateKey{u.tree.id, u.node}
	if x.seen[key] {
		u.tree.Seen = true
		return
	}
	if !x.visit() {
		u.tree.Cut = true
		return
	}
	x.seen[key] = true
	child := x.rewrite(u.tree, x.q.b.s.Relations[u.tree.id].Expr, u.node)
	if x.bound != "" {
		u.tree.Cut = true // an incomplete relation would be misleading
		return
	}
	u.tree.Children = []*Tree{child}
}

// treeKinds are the tree nodes of expressions, by schema.Op.
var treeKinds = [...]TreeKind{schema.OpDirect: TreeDirect, schema.OpArrow: TreeArrow, schema.OpUnion: TreeUnion,
	schema.OpIntersection: TreeIntersection, schema.OpExclusion: TreeExclusion,
	schema.OpAttribute: TreeAttribute, schema.OpRule: TreeRule}

// rewrite makes the tree node of an expression in the rewrite of relation of.
func (x *expander) rewrite(of *Tree, e *schema.Expr, n graph.Node) *Tree {
	if e.Op == schema.OpComputed {
		return x.relation(e.Relation, n)
	}
	b := x.q.b
	t := &Tree{Kind: treeKinds[e.Op], Object: of.Object, Rewrite: b.text(e), id: of.id}
	x.add(len(t.Object.Type) + len(t.Object.ID) + len(t.Rewrite))
	typ := &b.s.Types[b.s.Relations[of.id].Type]
	switch e.Op {
	case schema.OpDirect:
		t.Relation = b.relationText(e.Relation)
		for i := range e.Direct {
			d := &e.Direct[i]
			x.leaves(t, e, d, n, d.Relation, b.plainKinds(d.Kind))
		}
	case schema.OpArrow:
		t.Relation, t.Target = b.relationText(e.Relation), b.relationText(e.Via[0].Target)
		x.arrow(t, e, n)
	case schema.OpAttribute:
		t.Decision, t.Reasons = x.q.attribute(typ, n, of.Object.ID, e.Attribute)
	case schema.OpRule:
		t.Decision, t.Reasons = x.q.rule(e.Rule, typ, n, of.Object.ID)
	}
	for _, ch := range e.Children {
		t.Children = append(t.Children, x.rewrite(of, ch, n))
	}
	return t
}

// arrow adds the tuples of an arrow's first relation. Related objects whose type
// lacks the arrow's target are leaves without a tree.
func (x *expander) arrow(t *Tree, e *schema.Expr, n graph.Node) {
	b := x.q.b
	related := b.s.Relations[e.Relation].Restrictions
	for i := range related {
		target := schema.RelationID(schema.None)
		via := slices.IndexFunc(e.Via, func(v schema.Via) bool { return v.Kind == related[i].Kind })
		switch {
		case via >= 0:
			target = e.Via[via].Target
		case b.s.Kinds[related[i].Kind].Wildcard && !b.s.Options.StarIsOrdinary:
			continue // a wildcard is not an object
		}
		x.leaves(t, e, &related[i], n, target, b.plainKinds(related[i].Kind))
	}
}

// leaves adds the tuples of one type restriction, in the order of lists.
func (x *expander) leaves(t *Tree, e *schema.Expr, by *schema.Restriction, n graph.Node, to schema.RelationID, kinds []graph.Kind) {
	b := x.q.b
	from := x.q.relationNode(n, b.kind(b.s.Relations[e.Relation].Kind))
	if from == 0 {
		return
	}
	first := len(t.Leaves)
	for _, k := range kinds {
		if k == 0 {
			continue
		}
		l := x.q.r.Forward(from, k)
		for c := range l.Chunks() {
			for _, edge := range l.Chunk(c) {
				if !x.visit() {
					return
				}
				x.leaf(t, by, from, edge, to)
				if x.bound != "" {
					return
				}
			}
		}
	}
	sortLeaves(t.Leaves[first:])
}

// sortLeaves puts leaves of one type restriction into the order of lists.
func sortLeaves(leaves []Leaf) {
	type positioned struct {
		at   Position
		leaf Leaf
	}
	sorted := make([]positioned, len(leaves))
	for i := range leaves {
		sorted[i] = positioned{PositionOf(leaves[i].Tuple.Subject.ID), leaves[i]}
	}
	slices.SortFunc(sorted, func(a, b positioned) int { return a.at.Compare(b.at) })
	for i := range sorted {
		leaves[i] = sorted[i].leaf
	}
}

// leaf adds one tuple, if it counts.
func (x *expander) leaf(t *Tree, by *schema.Restriction, from graph.Node, e graph.Edge, to schema.RelationID) {
	v := x.q.tuple(by, from, e)
	if x.q.exhausted() {
		x.bound = x.q.boundReached()
	}
	if !v.counts {
		return
	}
	key := x.q.key(from, e)
	l := Leaf{Decision: v.truth, Tuple: rel.Tuple{Object: key.Object, Relation: key.Relation, Subject: key.Subject,
		Condition: v.detail.Condition, Context: v.detail.Context, Expires: v.detail.Expires}}
	l.Wildcard = key.Subject.IsWildcard() && !x.q.b.s.Options.StarIsOrdinary
	if to != schema.None {
		l.Tree = x.relation(to, e.Node())
	}
	t.Leaves = append(t.Leaves, l)
	x.add(len(key.Object.Type) + len(key.Object.ID) + len(key.Relation) + len(key.Subject.Type) + len(key.Subject.ID) +
		len(key.Subject.Relation) + len(l.Tuple.Condition) + len(l.Tuple.Context))
}
