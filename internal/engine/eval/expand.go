package eval

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strings"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/internal/engine/graph"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/schema"
)

// Expand shows who has a relation on an object, levels deep. Level 1 (or less)
// is the relation's own rewrite and tuples; each computed relation, userset
// and arrow leads one level further. The errors are those of Check. A bound on
// nodes, on entries, on bytes or on conditions cuts the tree, and [authz.Tree.Bound]
// then names it.
//
// [authz.Tree.Member] derives the answers of check from a tree without Cut.
func (b *Binding) Expand(ctx context.Context, r Reader, object rel.Object, relation string, levels int, env *Env) (*authz.Tree, error) {
	x := expander{object: object, levels: max(1, levels)}
	root, err := x.start(ctx, b, r, relation, env)
	if err != nil {
		return nil, err
	}
	defer x.q.finish()
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

// start begins the question and returns its root. The caller must call finish
// of the query, unless start fails.
func (x *expander) start(ctx context.Context, b *Binding, r Reader, relation string, env *Env) (*authz.Tree, error) {
	if env == nil {
		env = &Env{}
	}
	id, err := b.relation(x.object.Type, relation)
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
	x.seen = map[stateKey]bool{}
	if x.entriesMax = env.Bounds.ExpandEntries; x.entriesMax <= 0 {
		x.entriesMax = authz.ExpandEntriesDefault
	}
	if x.bytesMax = env.Bounds.ExpandBytes; x.bytesMax <= 0 {
		x.bytesMax = authz.ExpandBytesDefault
	}
	x.q.start(ctx, b.rebound(o), o, rel.Subject{}, env)
	return x.relation(id, x.q.anchor(x.object)), nil
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
	// entries and bytes are the size of the tree or the page, and entriesMax and
	// bytesMax its bounds.
	entries, bytes, entriesMax, bytesMax int
	// slots are the lists of tuples of the relation that is being expanded.
	slots []leafSlot
	// page is the state of a page; nil for a whole tree.
	page *pageState
	// hidden are the hidden relations by what they are, and firsts are the results
	// of first.
	hidden map[hiddenRelation]schema.RelationID
	firsts map[schema.RelationID]schema.RelationID
}

// leafSlot is a place for leaves in the rewrite of a relation: the tuples of one
// type restriction.
type leafSlot struct {
	// tree has the leaves.
	tree *authz.Tree
	// by is the restriction that the tuples obey.
	by *schema.Restriction
	// from is the node of the tuples' object, and kinds are those of the subjects.
	from  graph.Node
	kinds []graph.Kind
	// to is the relation that the tuples lead to; schema.None if they end here.
	to schema.RelationID
}

// add counts an entry with that many bytes of text. The size of a page is
// checked elsewhere, because it ends before an entry that does not fit.
func (x *expander) add(bytes int) {
	x.entries++
	x.bytes += bytes
	switch {
	case x.bound != "" || x.page != nil:
	case x.entries > x.entriesMax:
		x.bound = authz.BoundExpandEntries
	case x.bytes > x.bytesMax:
		x.bound = authz.BoundExpandBytes
	}
}

// unexpanded is a relation in the tree that has no child yet, and the node of
// its object.
type unexpanded struct {
	tree *authz.Tree
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
func (x *expander) relation(id schema.RelationID, n graph.Node) *authz.Tree {
	t, n := x.reference(id, n)
	x.refer(t, n)
	x.add(nameSize(t))
	return t
}

// reference returns a relation without its child, and the canonical node of its
// object.
func (x *expander) reference(id schema.RelationID, n graph.Node) (*authz.Tree, graph.Node) {
	n, id = x.q.canonical(n), x.first(id)
	return &authz.Tree{Kind: authz.TreeRelation, Object: x.objectOf(id, n), Relation: x.q.b.relationText(id), RelationID: id}, n
}

// nameSize returns the size of a relation's name in bytes.
func nameSize(t *authz.Tree) int { return len(t.Object.Type) + len(t.Object.ID) + len(t.Relation) }

// refer notes that a relation is to be expanded on the next level.
func (x *expander) refer(t *authz.Tree, n graph.Node) {
	if x.page != nil && x.page.last {
		t.Cut = true
		return
	}
	x.pending = append(x.pending, unexpanded{t, n})
	x.q.hold(1, bytesPerRelation)
}

// expand gives a relation its child, unless it was expanded before.
func (x *expander) expand(u unexpanded) {
	key := stateKey{u.tree.RelationID, u.node}
	if x.seen[key] {
		u.tree.Seen = true
		return
	}
	if !x.visit() {
		u.tree.Cut = true
		return
	}
	x.seen[key] = true
	child := x.rewrite(u.tree, x.q.b.s.Relations[u.tree.RelationID].Expr, u.node)
	for i := range x.slots {
		x.leaves(&x.slots[i])
	}
	x.slots = x.slots[:0]
	if x.bound != "" {
		u.tree.Cut = true // an incomplete relation would be misleading
		return
	}
	u.tree.Children = []*authz.Tree{child}
}

// treeKinds are the tree nodes of expressions, by schema.Op.
var treeKinds = [...]authz.TreeKind{schema.OpDirect: authz.TreeDirect, schema.OpArrow: authz.TreeArrow, schema.OpUnion: authz.TreeUnion,
	schema.OpIntersection: authz.TreeIntersection, schema.OpExclusion: authz.TreeExclusion,
	schema.OpAttribute: authz.TreeAttribute, schema.OpRule: authz.TreeRule}

// rewrite makes the tree node of an expression in the rewrite of relation of. It
// adds the places of its leaves to x.slots.
func (x *expander) rewrite(of *authz.Tree, e *schema.Expr, n graph.Node) *authz.Tree {
	if e.Op == schema.OpComputed {
		return x.relation(e.Relation, n)
	}
	b := x.q.b
	t := &authz.Tree{Kind: treeKinds[e.Op], Object: of.Object, Rewrite: b.text(e), RelationID: of.RelationID}
	x.add(len(t.Object.Type) + len(t.Object.ID) + len(t.Rewrite))
	typ := &b.s.Types[b.s.Relations[of.RelationID].Type]
	switch e.Op {
	case schema.OpDirect:
		t.Relation = b.relationText(e.Relation)
		for i := range e.Direct {
			d := &e.Direct[i]
			x.slot(t, e, d, n, d.Relation, b.plainKinds(d.Kind))
		}
	case schema.OpArrow:
		t.Relation, t.Target = b.relationText(e.Relation), b.relationText(e.Via[0].Target)
		x.arrow(t, e, n)
	case schema.OpAttribute:
		if x.replaying() {
			break
		}
		t.Decision, t.Reasons = x.q.attribute(typ, n, of.Object.ID, e.Attribute)
	case schema.OpRule:
		if x.replaying() {
			break
		}
		t.Decision, t.Reasons = x.q.rule(e.Rule, typ, n, of.Object.ID)
	}
	for _, ch := range e.Children {
		t.Children = append(t.Children, x.rewrite(of, ch, n))
	}
	return t
}

// arrow adds slots for the tuples of an arrow's first relation. Related objects whose type
// lacks the arrow's target are leaves without a tree.
func (x *expander) arrow(t *authz.Tree, e *schema.Expr, n graph.Node) {
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
		x.slot(t, e, &related[i], n, target, b.plainKinds(related[i].Kind))
	}
}

// slot adds a place for the tuples of one type restriction.
func (x *expander) slot(t *authz.Tree, e *schema.Expr, by *schema.Restriction, n graph.Node, to schema.RelationID, kinds []graph.Kind) {
	from := x.q.relationNode(n, x.q.b.kind(x.q.b.s.Relations[e.Relation].Kind))
	x.slots = append(x.slots, leafSlot{t, by, from, kinds, to})
}

// leaves adds the tuples of a slot, in the order of lists.
func (x *expander) leaves(s *leafSlot) {
	room := max(0, x.entriesMax-x.entries)
	found := x.edges(s, nil, room)
	if x.bound == "" && len(found) > room {
		x.bound = authz.BoundExpandEntries
	}
	for i := range found {
		if x.bound != "" || x.q.err != nil {
			break
		}
		x.leaf(s, found[i].edge)
	}
	x.q.hold(-len(found), bytesPerEntry)
}

// placedEdge is a tuple of a slot with the hash of its position in the order of
// lists.
type placedEdge struct {
	hash uint64
	edge graph.Edge
}

// allEdges is the largest number of edges, for [expander.edges].
const allEdges = math.MaxInt/2 - edgesSpare

// edgesSpare is how many edges are collected in addition to those that the caller
// needs, before the last ones are dropped.
const edgesSpare = 512

// edges returns the tuples of a slot that count and have a position after the
// given one, sorted. It may omit tuples after the first most+1. It ends early at
// a bound. The caller must release the memory of the result.
func (x *expander) edges(s *leafSlot, after *Position, most int) (found []placedEdge) {
	for _, k := range s.kinds {
		if k == 0 || s.from == 0 {
			continue
		}
		l := x.q.r.Forward(s.from, k)
		for c := range l.Chunks() {
			for _, edge := range l.Chunk(c) {
				if !x.visit() {
					return found
				}
				at := PositionOf(x.q.r.ID(edge.Node()))
				if after != nil && at.Compare(*after) <= 0 {
					continue
				}
				if _, counts := x.q.admitted(s.by, s.from, edge); !counts {
					continue
				}
				x.q.hold(1, bytesPerEntry)
				if found = append(found, placedEdge{at.Hash, edge}); len(found) > 2*(most+edgesSpare) {
					x.sortEdges(found)
					x.q.hold(most+1-len(found), bytesPerEntry)
					found = found[:most+1]
				}
			}
		}
	}
	x.sortEdges(found)
	return found
}

// sortEdges sorts by position. It reads the ids only where hashes are equal.
func (x *expander) sortEdges(edges []placedEdge) {
	slices.SortFunc(edges, func(a, b placedEdge) int {
		if a.hash != b.hash {
			return cmp.Compare(a.hash, b.hash)
		}
		return strings.Compare(x.q.r.ID(a.edge.Node()), x.q.r.ID(b.edge.Node()))
	})
}

// leaf adds one tuple.
func (x *expander) leaf(s *leafSlot, e graph.Edge) {
	l, ok := x.leafOf(s, e)
	if !ok {
		return
	}
	if s.to != schema.None {
		l.Tree = x.relation(s.to, e.Node())
	}
	s.tree.Leaves = append(s.tree.Leaves, l)
	x.add(sizeOf(&l.Tuple))
}

// leafOf returns a tuple as a leaf without its tree. It returns false at a bound.
func (x *expander) leafOf(s *leafSlot, e graph.Edge) (authz.Leaf, bool) {
	v := x.q.tuple(s.by, s.from, e)
	if x.q.exhausted() {
		x.bound = x.q.boundReached()
		return authz.Leaf{}, false
	}
	key := x.q.key(s.from, e)
	l := authz.Leaf{Decision: v.truth, Tuple: rel.Tuple{Object: key.Object, Relation: key.Relation, Subject: key.Subject,
		Condition: v.detail.Condition, Context: v.detail.Context, Expires: v.detail.Expires}}
	l.Wildcard = key.Subject.IsWildcard() && !x.q.b.s.Options.StarIsOrdinary
	return l, true
}

// sizeOf returns the size of a tuple's text in bytes.
func sizeOf(t *rel.Tuple) int {
	return len(t.Object.Type) + len(t.Object.ID) + len(t.Relation) + len(t.Subject.Type) + len(t.Subject.ID) +
		len(t.Subject.Relation) + len(t.Condition) + len(t.Context)
}
