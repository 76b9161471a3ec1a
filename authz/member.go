package authz

import (
	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/schema"
)

// treeKey names a relation of an object in a tree.
type treeKey struct {
	object rel.Object
	id     schema.RelationID
}

// treeMembers solves a tree for one subject.
type treeMembers struct {
	// sub is the subject.
	sub rel.Subject
	// nodes finds where each relation is expanded.
	nodes map[treeKey]*Tree
	// low and high are the relations of which the subject is certainly, and
	// possibly, a member.
	low, high map[treeKey]bool
}

// collect fills nodes.
func (m *treeMembers) collect(t *Tree) {
	if t.Kind == TreeRelation {
		if old := m.nodes[t.key()]; old == nil || len(old.Children) == 0 && len(t.Children) > 0 {
			m.nodes[t.key()] = t
		}
	}
	for _, ch := range t.Children {
		m.collect(ch)
	}
	for i := range t.Leaves {
		if t.Leaves[i].Tree != nil {
			m.collect(t.Leaves[i].Tree)
		}
	}
}

// leastSet returns the least set that is closed under the tree, where
// subtracted sides are read in the other set.
func (m *treeMembers) leastSet(high bool) map[treeKey]bool {
	set := map[treeKey]bool{}
	for changed := true; changed; {
		changed = false
		for k, t := range m.nodes {
			if !set[k] && m.relation(t, set, high) {
				set[k], changed = true, true
			}
		}
	}
	return set
}

// relation reports whether the subject is in a relation.
func (m *treeMembers) relation(t *Tree, set map[treeKey]bool, high bool) bool {
	switch {
	case m.sub.Relation != "" && m.sub.Object() == t.Object && m.sub.Relation == t.Relation:
		return true // a userset is a member of itself
	case len(t.Children) == 0:
		return high && t.Cut
	}
	return m.holds(t.Children[0], set, high)
}

// holdsIn reports whether a value holds in the low or the high world.
func holdsIn(t expr.Tristate, high bool) bool { return t == expr.True || high && t == expr.Unknown }

// holds reports whether the subject is in a part of the tree.
func (m *treeMembers) holds(t *Tree, set map[treeKey]bool, high bool) bool {
	switch t.Kind {
	case TreeRelation:
		return set[t.key()]
	case TreeAttribute, TreeRule:
		return holdsIn(t.Decision, high)
	case TreeDirect, TreeArrow:
		for i := range t.Leaves {
			if m.leaf(t, &t.Leaves[i], set, high) {
				return true
			}
		}
		return false
	case TreeIntersection:
		for _, ch := range t.Children {
			if !m.holds(ch, set, high) {
				return false
			}
		}
		return true
	case TreeExclusion:
		other := m.high
		if high {
			other = m.low
		}
		return m.holds(t.Children[0], set, high) && !m.holds(t.Children[1], other, !high)
	}
	for _, ch := range t.Children {
		if m.holds(ch, set, high) {
			return true
		}
	}
	return false
}

// leaf reports whether the subject is in a tuple's subject.
func (m *treeMembers) leaf(t *Tree, l *Leaf, set map[treeKey]bool, high bool) bool {
	s := l.Tuple.Subject
	switch {
	case !holdsIn(l.Decision, high):
		return false
	case t.Kind == TreeDirect && (s == m.sub || l.Wildcard && m.sub.Relation == "" && m.sub.Type == s.Type):
		return true
	}
	return l.Tree != nil && set[l.Tree.key()]
}
