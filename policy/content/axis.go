package content

import "slices"

// nodeTest is the test of a step: which nodes of its axis it selects.
type nodeTest struct {
	anyNode  bool // node()
	kind     Kind
	anyName  bool
	anySpace bool
	space    string
	local    string
}

func (t *nodeTest) accepts(n *Node) bool {
	return t.anyNode || n.kind == t.kind && (t.anyName || n.local == t.local) && (t.anySpace || n.space == t.space)
}

// axes walk from a node, in the order that defines positions (section 2.2). They
// end with the error of visit.
var axes = map[string]func(n *Node, visit func(*Node) error) error{
	"self":               func(n *Node, visit func(*Node) error) error { return visit(n) },
	"child":              func(n *Node, visit func(*Node) error) error { return each(n.children, visit) },
	"attribute":          func(n *Node, visit func(*Node) error) error { return each(n.attributes, visit) },
	"parent":             func(n *Node, visit func(*Node) error) error { return upward(n.parent, 1, visit) },
	"ancestor":           func(n *Node, visit func(*Node) error) error { return upward(n.parent, -1, visit) },
	"ancestor-or-self":   func(n *Node, visit func(*Node) error) error { return upward(n, -1, visit) },
	"descendant":         func(n *Node, visit func(*Node) error) error { return descendants(n.children, visit) },
	"descendant-or-self": func(n *Node, visit func(*Node) error) error { return descendants([]*Node{n}, visit) },
	"following-sibling":  func(n *Node, visit func(*Node) error) error { return each(siblingsAfter(n), visit) },
	"preceding-sibling":  func(n *Node, visit func(*Node) error) error { return backward(siblingsBefore(n), visit) },
	"following":          following,
	"preceding":          preceding,
}

func each(nodes []*Node, visit func(*Node) error) error {
	for _, n := range nodes {
		if err := visit(n); err != nil {
			return err
		}
	}
	return nil
}

func backward(nodes []*Node, visit func(*Node) error) error {
	for _, n := range slices.Backward(nodes) {
		if err := visit(n); err != nil {
			return err
		}
	}
	return nil
}

// upward visits a node and those above it, at most a number of nodes; -1 means
// all.
func upward(n *Node, most int, visit func(*Node) error) error {
	for ; n != nil && most != 0; n, most = n.parent, most-1 {
		if err := visit(n); err != nil {
			return err
		}
	}
	return nil
}

func descendants(nodes []*Node, visit func(*Node) error) error {
	for _, n := range nodes {
		if err := visit(n); err != nil {
			return err
		}
		if err := descendants(n.children, visit); err != nil {
			return err
		}
	}
	return nil
}

// siblingsAfter returns the siblings after a node. An attribute has none.
func siblingsAfter(n *Node) []*Node {
	if n.parent == nil || n.kind == Attribute {
		return nil
	}
	return n.parent.children[n.index+1:]
}

// siblingsBefore returns the siblings before a node. An attribute has none.
func siblingsBefore(n *Node) []*Node {
	if n.parent == nil || n.kind == Attribute {
		return nil
	}
	return n.parent.children[:n.index]
}

// following visits all nodes after a node in document order, but not those below
// it. What follows an attribute begins with the children of its element.
func following(n *Node, visit func(*Node) error) error {
	if n.kind == Attribute {
		n = n.parent
		if err := descendants(n.children, visit); err != nil {
			return err
		}
	}
	for ; n != nil; n = n.parent {
		if err := descendants(siblingsAfter(n), visit); err != nil {
			return err
		}
	}
	return nil
}

// preceding visits all nodes before a node, the nearest first, but not those
// above it.
func preceding(n *Node, visit func(*Node) error) error {
	for ; n != nil; n = n.parent {
		for _, s := range slices.Backward(siblingsBefore(n)) {
			if err := reversed(s, visit); err != nil {
				return err
			}
		}
	}
	return nil
}

// reversed visits a node and all below it, the last first.
func reversed(n *Node, visit func(*Node) error) error {
	for _, c := range slices.Backward(n.children) {
		if err := reversed(c, visit); err != nil {
			return err
		}
	}
	return visit(n)
}
