// Package content reads the XML Content of a request's categories and selects
// nodes from it with XPath 1.0. Its main types are [Node] and [Path]. It refuses
// document types and entities, bounds depth, size and work, and never fetches
// anything.
package content

import "strings"

// Kind is the kind of a node (XPath 1.0, section 5). There are no namespace
// nodes.
type Kind uint8

// The kinds of nodes.
const (
	Root Kind = iota + 1
	Element
	Attribute
	Text
	Comment
	Instruction // a processing instruction
)

// Node is a node of a Content document. It is read-only and may be used
// concurrently. Nodes are the same if their pointers are.
type Node struct {
	kind   Kind
	prefix string // prefix of the name, as written
	space  string // namespace of the name
	local  string // local name; the target of a processing instruction
	// text is the value of an attribute, a text, a comment or an instruction.
	text       string
	parent     *Node
	children   []*Node
	attributes []*Node
	index      int // place among the children of the parent
	order      int // place in document order, which no other node has
}

// Kind returns the kind of the node.
func (n *Node) Kind() Kind { return n.kind }

// Name returns namespace and local name of an element or attribute. Both are ""
// for nodes without a name.
func (n *Node) Name() (space, local string) { return n.space, n.local }

// Parent returns the parent, or nil for the root. The parent of an attribute is
// its element.
func (n *Node) Parent() *Node { return n.parent }

// Root returns the root of the document, which is above its only element.
func (n *Node) Root() *Node {
	for n.parent != nil {
		n = n.parent
	}
	return n
}

// Value returns the string-value of the node: the text of an attribute, text,
// comment or instruction, and all text below an element or the root.
func (n *Node) Value() string {
	if n.kind != Element && n.kind != Root {
		return n.text
	}
	if len(n.children) == 1 && n.children[0].kind == Text {
		return n.children[0].text
	}
	var b strings.Builder
	n.write(&b)
	return b.String()
}

func (n *Node) write(b *strings.Builder) {
	for _, c := range n.children {
		switch c.kind {
		case Text:
			b.WriteString(c.text)
		case Element:
			c.write(b)
		}
	}
}
