package content

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"maps"
	"strings"

	"github.com/ostiary/ostiary/policy/status"
)

// The bounds of a document.
const (
	// bytesMax is the bound "content bytes": the length of the XML.
	bytesMax = 4 << 20
	// nodesMax is the bound "content nodes": the number of nodes, attributes
	// included.
	nodesMax = 200_000
	// DepthMax is the bound "content depth": the number of elements inside each
	// other.
	DepthMax = 200
	// namespacesMax is the bound "content namespaces": the number of prefixes that
	// are declared at one place, with xml.
	namespacesMax = 64
)

const (
	xmlNamespace   = "http://www.w3.org/XML/1998/namespace"
	xmlnsNamespace = "http://www.w3.org/2000/xmlns/"
)

// Parse reads a Content document: one element, with comments and instructions
// around it. It returns the root. Its error is a *status.Error with the code
// syntax-error, also if a bound is reached.
func Parse(text []byte) (*Node, error) { return parseFragment(text, nil) }

// parseFragment reads a Content document that is a part of a larger text, which
// declares namespaces by prefix; the prefix "" is the default namespace. Apart
// from that it is like [Parse].
func parseFragment(text []byte, namespaces map[string]string) (*Node, error) {
	if len(text) > bytesMax {
		return nil, bound("content bytes", bytesMax)
	}
	r := reader{decoder: xml.NewDecoder(bytes.NewReader(text))}
	r.root = &Node{kind: Root}
	r.open = []scope{{node: r.root, namespaces: inherited(namespaces)}}
	for {
		token, err := r.decoder.RawToken()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			err = r.token(token)
		}
		if err != nil {
			return nil, r.locate(err)
		}
	}
	if err := r.finish(); err != nil {
		return nil, r.locate(err)
	}
	return r.root, nil
}

// scope is an element that is not closed yet.
type scope struct {
	node       *Node
	raw        xml.Name          // the name as written
	namespaces map[string]string // by prefix; shared with the parent if it declares none
}

// reader builds the tree.
type reader struct {
	decoder *xml.Decoder
	root    *Node
	open    []scope // the root, and elements inside each other
	nodes   int
}

func inherited(namespaces map[string]string) map[string]string {
	all := map[string]string{"xml": xmlNamespace}
	maps.Copy(all, namespaces)
	return all
}

// locate adds the line to an error and makes it a *status.Error.
func (r *reader) locate(err error) error {
	var known *status.Error
	if errors.As(err, &known) {
		return err
	}
	text := strings.TrimPrefix(err.Error(), "XML syntax error on ")
	if line, _ := r.decoder.InputPos(); !strings.HasPrefix(text, "line ") {
		text = fmt.Sprintf("line %d: %s", line, text)
	}
	return syntaxError("invalid XML content: %s", text)
}

// token adds a token to the tree.
func (r *reader) token(token xml.Token) error {
	switch t := token.(type) {
	case xml.StartElement:
		return r.start(t)
	case xml.EndElement:
		return r.end(t)
	case xml.CharData:
		return r.characters(t)
	case xml.Comment:
		return r.add(&Node{kind: Comment, text: string(t)})
	case xml.ProcInst:
		if t.Target == "xml" {
			return r.declaration()
		}
		return r.add(&Node{kind: Instruction, local: t.Target, text: strings.TrimLeft(string(t.Inst), " \t\r\n")})
	}
	return errors.New("a document type declaration: expected elements and text only")
}

// declaration accepts the XML declaration, which only a document begins with.
func (r *reader) declaration() error {
	if r.nodes > 0 {
		return errors.New("an XML declaration inside the document: expected it at the beginning")
	}
	return nil
}

// add appends a node to the innermost open element.
func (r *reader) add(n *Node) error {
	parent := r.open[len(r.open)-1].node
	n.parent, n.index = parent, len(parent.children)
	parent.children = append(parent.children, n)
	return r.number(n)
}

// number gives a node its place in document order.
func (r *reader) number(n *Node) error {
	if r.nodes++; r.nodes > nodesMax {
		return bound("content nodes", nodesMax)
	}
	n.order = r.nodes
	return nil
}

// characters adds text. Adjacent texts, for example around a CDATA section, are
// one node.
func (r *reader) characters(text xml.CharData) error {
	parent := r.open[len(r.open)-1].node
	if parent == r.root {
		if len(bytes.Trim(text, " \t\r\n")) > 0 {
			return errors.New("text outside of an element")
		}
		return nil
	}
	if n := len(parent.children); n > 0 && parent.children[n-1].kind == Text {
		parent.children[n-1].text += string(text)
		return nil
	}
	if len(text) == 0 {
		return nil
	}
	return r.add(&Node{kind: Text, text: string(text)})
}

// start adds an element with its attributes.
func (r *reader) start(t xml.StartElement) error {
	if len(r.open) > DepthMax {
		return bound("content depth", DepthMax)
	}
	parent := r.open[len(r.open)-1]
	if parent.node == r.root && r.element() != nil {
		return errors.New("a second element: expected one at the top")
	}
	namespaces, err := declared(parent.namespaces, t.Attr)
	if err != nil {
		return err
	}
	n := &Node{kind: Element, prefix: t.Name.Space, local: t.Name.Local}
	if n.space, err = resolve(namespaces, t.Name, namespaces[""]); err != nil {
		return err
	}
	if err := r.add(n); err != nil {
		return err
	}
	r.open = append(r.open, scope{node: n, raw: t.Name, namespaces: namespaces})
	return r.attributes(n, namespaces, t.Attr)
}

// attributes adds the attributes of an element. Declarations of namespaces are
// none.
func (r *reader) attributes(n *Node, namespaces map[string]string, attributes []xml.Attr) error {
	seen := make(map[xml.Name]bool, len(attributes))
	for _, a := range attributes {
		if isDeclaration(a) {
			continue
		}
		space, err := resolve(namespaces, a.Name, "")
		if err != nil {
			return err
		}
		name := xml.Name{Space: space, Local: a.Name.Local}
		if seen[name] {
			return fmt.Errorf("the attribute %q comes twice", a.Name.Local)
		}
		seen[name] = true
		attribute := &Node{
			kind: Attribute, prefix: a.Name.Space, space: space, local: a.Name.Local,
			text: a.Value, parent: n, index: len(n.attributes),
		}
		if err := r.number(attribute); err != nil {
			return err
		}
		n.attributes = append(n.attributes, attribute)
	}
	return nil
}

func isDeclaration(a xml.Attr) bool {
	return a.Name.Space == "xmlns" || a.Name.Space == "" && a.Name.Local == "xmlns"
}

// declared returns the namespaces of an element: those of its parent, and those
// that it declares.
func declared(parent map[string]string, attributes []xml.Attr) (map[string]string, error) {
	all, owned := parent, false
	for _, a := range attributes {
		if !isDeclaration(a) {
			continue
		}
		prefix := ""
		if a.Name.Space == "xmlns" {
			prefix = a.Name.Local
		}
		if prefix != "" && a.Value == "" || prefix == "xmlns" || a.Value == xmlnsNamespace || (prefix == "xml") != (a.Value == xmlNamespace) {
			return nil, fmt.Errorf("the namespace %q of the prefix %q is not allowed", a.Value, prefix)
		}
		if !owned {
			all, owned = maps.Clone(all), true
		}
		all[prefix] = a.Value
		if len(all) > namespacesMax {
			return nil, bound("content namespaces", namespacesMax)
		}
	}
	return all, nil
}

// resolve returns the namespace of a name.
func resolve(namespaces map[string]string, name xml.Name, without string) (string, error) {
	if name.Space == "" {
		return without, nil
	}
	space, ok := namespaces[name.Space]
	if !ok {
		return "", fmt.Errorf("the prefix %q of %q is not declared", name.Space, name.Local)
	}
	return space, nil
}

// end closes the innermost element.
func (r *reader) end(t xml.EndElement) error {
	last := r.open[len(r.open)-1]
	if last.node == r.root || last.raw != t.Name {
		return fmt.Errorf("</%s> closes no open element", t.Name.Local)
	}
	r.open = r.open[:len(r.open)-1]
	return nil
}

// finish checks that the document is complete.
func (r *reader) finish() error {
	if n := len(r.open); n > 1 {
		return fmt.Errorf("<%s> is not closed", r.open[n-1].raw.Local)
	}
	if r.element() == nil {
		return errors.New("no element: expected one at the top")
	}
	return nil
}

// element returns the element at the top, or nil.
func (r *reader) element() *Node {
	for _, c := range r.root.children {
		if c.kind == Element {
			return c
		}
	}
	return nil
}

func syntaxError(format string, args ...any) error {
	return status.Errorf(status.SyntaxError, format, args...)
}

func bound(name string, most int) error { return status.Reached(status.SyntaxError, name, most) }
