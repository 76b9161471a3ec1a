package authz

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/schema"
	"github.com/ostiary/ostiary/storage"
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

	// RelationID is the relation whose rewrite the node is a part of.
	RelationID schema.RelationID
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

// Member derives from the tree alone whether sub has the root's relation. It
// agrees with check, except that it does not count hops and ignores
// schema.Options.MissingContextFails. What was cut is Unknown. It is simple,
// not fast.
func (t *Tree) Member(sub rel.Subject) expr.Tristate {
	m := &treeMembers{sub: sub, nodes: map[treeKey]*Tree{}}
	m.collect(t)
	m.low, m.high = map[treeKey]bool{}, map[treeKey]bool{}
	for k := range m.nodes {
		m.high[k] = true // start with everything possible and nothing certain
	}
	for {
		low := m.leastSet(false)
		before := len(m.low) + len(m.nodes) - len(m.high)
		m.low = low
		m.high = m.leastSet(true)
		if len(m.low)+len(m.nodes)-len(m.high) == before {
			break
		}
	}
	switch root := t.key(); {
	case m.low[root]:
		return expr.True
	case m.high[root]:
		return expr.Unknown
	}
	return expr.False
}

func (t *Tree) key() treeKey { return treeKey{t.Object, t.RelationID} }

// String returns the tree in indented lines.
func (t *Tree) String() string {
	var sb strings.Builder
	t.write(&sb, 0)
	if t.Bound != "" {
		fmt.Fprintf(&sb, "bound reached: %s\n", t.Bound)
	}
	return sb.String()
}

func (t *Tree) write(sb *strings.Builder, depth int) {
	pad := strings.Repeat("  ", depth)
	line := string(t.Kind) + " " + t.Rewrite
	switch t.Kind {
	case TreeRelation:
		line = t.Object.String() + "#" + t.Relation
	case TreeAttribute, TreeRule:
		line += " is " + t.Decision.String()
		if t.Reasons != nil {
			line += " (" + t.Reasons.String() + ")"
		}
	}
	switch {
	case t.Seen:
		line += " (see elsewhere)"
	case t.Cut:
		line += " …"
	}
	sb.WriteString(pad + line + "\n")
	for i := range t.Leaves {
		l := &t.Leaves[i]
		sb.WriteString(pad + "  - " + l.Tuple.String())
		if l.Tuple.Condition != "" {
			sb.WriteString(" (" + l.Decision.String() + ")")
		}
		sb.WriteByte('\n')
		if l.Tree != nil {
			l.Tree.write(sb, depth+2)
		}
	}
	for _, ch := range t.Children {
		ch.write(sb, depth+1)
	}
}

// MarshalJSON returns the tree with names and values as text, without members
// that are not set.
func (t *Tree) MarshalJSON() ([]byte, error) {
	type leaf struct {
		Tuple  string `json:"tuple"`
		Result string `json:"result"`
		Tree   *Tree  `json:"tree,omitempty"`
	}
	out := struct {
		Kind     TreeKind     `json:"kind"`
		Object   string       `json:"object"`
		Relation string       `json:"relation,omitempty"`
		Target   string       `json:"target,omitempty"`
		Rewrite  string       `json:"rewrite,omitempty"`
		Result   string       `json:"result,omitempty"`
		Reasons  *reasonsJSON `json:"reasons,omitempty"`
		Leaves   []leaf       `json:"leaves,omitempty"`
		Children []*Tree      `json:"children,omitempty"`
		Seen     bool         `json:"seen,omitempty"`
		Cut      bool         `json:"cut,omitempty"`
		Bound    string       `json:"bound,omitempty"`
	}{
		Kind: t.Kind, Object: t.Object.String(), Relation: t.Relation, Target: t.Target, Rewrite: t.Rewrite,
		Reasons: t.Reasons.json(), Children: t.Children, Seen: t.Seen, Cut: t.Cut, Bound: t.Bound,
	}
	if t.Kind == TreeAttribute || t.Kind == TreeRule {
		out.Result = t.Decision.String()
	}
	for i := range t.Leaves {
		l := &t.Leaves[i]
		out.Leaves = append(out.Leaves, leaf{l.Tuple.String(), l.Decision.String(), l.Tree})
	}
	return json.Marshal(out)
}

// ExpandRequest asks for the usersets and subjects that have a relation on an
// object.
type ExpandRequest struct {
	// Object is what the question is about.
	Object rel.Object
	// Relation is a relation of the object's type.
	Relation string
	// Levels is how many levels of usersets are expanded; 0 means 1.
	Levels int
	QueryOptions
}

// Expansion is a tree of the usersets and subjects that have a relation on an
// object.
type Expansion struct {
	*Tree
	// Revision is that of the view that was read.
	Revision storage.Revision
}

// ExpandPageRequest asks for a page of an expansion.
type ExpandPageRequest struct {
	ExpandRequest
	// Limit is the largest number of nodes and tuples in the page; 0 means
	// Bounds.ExpandEntries.
	Limit int
	// Cursor is the Next of the page before; "" asks for the first page. A cursor
	// replaces Consistency.
	Cursor string
}

// ExpansionPage is a page of an expansion. All pages together are the Expansion
// without a bound on its size.
type ExpansionPage struct {
	// Parts are relations in breadth-first order, each of [TreeRelation] with its
	// rewrite and tuples. A relation below has no child: it is another part of this
	// page or of another one, unless it has Cut. If the tuples of a relation do not
	// fit the page, the next page begins with the same relation and rewrite and
	// with further tuples.
	Parts []*Tree
	// More is true if there is a next page.
	More bool
	// Bound names the bound that ended the expansion early; "" if none did.
	Bound string
	// Next is the cursor of the next page; "" on the last one.
	Next string
	// Revision is that of the view that was read.
	Revision storage.Revision
}
