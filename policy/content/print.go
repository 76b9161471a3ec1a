package content

import "github.com/ostiary/ostiary/internal/tool/xmlread"

// AppendXML appends the node as XML, without a declaration: the whole document of
// a root, an element with everything in it, or the text of another node.
// Namespaces are declared where they are first used, so the text may differ from
// the one that was parsed, but [Parse] reads an equal tree from it.
func (n *Node) AppendXML(dst []byte) []byte { return n.appendXML(dst, nil) }

// declaration is a namespace in scope.
type declaration struct{ prefix, space string }

func (n *Node) appendXML(dst []byte, scope []declaration) []byte {
	switch n.kind {
	case Root:
		for _, c := range n.children {
			dst = c.appendXML(dst, nil)
		}
	case Element:
		return n.appendElement(dst, scope)
	case Comment:
		dst = append(append(append(dst, "<!--"...), n.text...), "-->"...)
	case Instruction:
		dst = append(append(append(append(dst, "<?"...), n.local...), ' '), n.text...)
		dst = append(dst, "?>"...)
	default:
		dst = xmlread.AppendText(dst, n.text)
	}
	return dst
}

func (n *Node) appendElement(dst []byte, scope []declaration) []byte {
	dst = n.appendName(append(dst, '<'))
	dst, scope = n.declare(dst, scope)
	for _, a := range n.attributes {
		dst, scope = a.declare(dst, scope)
		dst = append(a.appendName(append(dst, ' ')), `="`...)
		dst = append(xmlread.AppendAttribute(dst, a.text), '"')
	}
	if len(n.children) == 0 {
		return append(dst, "/>"...)
	}
	dst = append(dst, '>')
	for _, c := range n.children {
		dst = c.appendXML(dst, scope)
	}
	return append(n.appendName(append(dst, "</"...)), '>')
}

func (n *Node) appendName(dst []byte) []byte {
	if n.prefix != "" {
		dst = append(append(dst, n.prefix...), ':')
	}
	return append(dst, n.local...)
}

// declare appends the declaration of the node's namespace, unless it is in scope.
func (n *Node) declare(dst []byte, scope []declaration) ([]byte, []declaration) {
	if n.prefix == "xml" || n.kind == Attribute && n.prefix == "" {
		return dst, scope
	}
	space := ""
	for i := len(scope) - 1; i >= 0; i-- {
		if scope[i].prefix == n.prefix {
			space = scope[i].space
			break
		}
	}
	if space == n.space {
		return dst, scope
	}
	dst = append(dst, " xmlns"...)
	if n.prefix != "" {
		dst = append(append(dst, ':'), n.prefix...)
	}
	dst = append(xmlread.AppendAttribute(append(dst, `="`...), n.space), '"')
	return dst, append(scope[:len(scope):len(scope)], declaration{n.prefix, n.space})
}
