package policies

import (
	"encoding/xml"
	"maps"
	"slices"

	"github.com/ostiary/ostiary/policy"
	"github.com/ostiary/ostiary/policy/content"
	"github.com/ostiary/ostiary/policy/function"
	"github.com/ostiary/ostiary/policy/status"
	"github.com/ostiary/ostiary/policy/value"
)

// page is a Content document of a random world. Each a comes before each b.
type page struct {
	XMLName xml.Name `xml:"r"`
	X       *string  `xml:"x,attr"`
	A       []string `xml:"a"`
	B       []part   `xml:"b"`
}

// part is an element of a page with elements of its own.
type part struct {
	Y string   `xml:"y,attr"`
	A []string `xml:"a"`
}

// attributeNode is the attribute that names the node at which a path begins.
const attributeNode = "node"

// paths are the paths of random worlds, each with the texts of the nodes that it
// selects in a page, in document order. They replace an evaluator of XPath.
var paths = map[string]func(p *page) []string{
	"/r/a":     func(p *page) []string { return p.A },
	"/r/a[2]":  func(p *page) []string { return p.A[min(1, len(p.A)):min(2, len(p.A))] },
	"/r/c | c": func(*page) []string { return nil },
	"/r/b/a":   func(p *page) []string { return below(p.B, "") },
	"//a":      func(p *page) []string { return append(p.A[:len(p.A):len(p.A)], below(p.B, "")...) },
	"/r/b[@y = 'v']/a": func(p *page) []string {
		return below(p.B, "v")
	},
	"/r/@x": func(p *page) []string {
		if p.X == nil {
			return nil
		}
		return []string{*p.X}
	},
	"/r/a/text()": func(p *page) (out []string) {
		for _, text := range p.A {
			if text != "" {
				out = append(out, text)
			}
		}
		return out
	},
	"//a[last()]": func(p *page) (out []string) {
		out = append(out, p.A[max(0, len(p.A)-1):]...)
		for _, b := range p.B {
			out = append(out, b.A[max(0, len(b.A)-1):]...)
		}
		return out
	},
}

// below returns the elements of parts, or of those whose attribute is y.
func below(parts []part, y string) (out []string) {
	for _, b := range parts {
		if y == "" || b.Y == y {
			out = append(out, b.A...)
		}
	}
	return out
}

// sortedPaths are the keys of paths in their order.
var sortedPaths = slices.Sorted(maps.Keys(paths))

// noNodes is a path whose value is no set of nodes.
const noNodes = "count(//a)"

// relative is a path that begins at a part of a page.
const relative = "a"

// pageOf returns the content of a category as a page, or nil. It prints the content
// and reads it with another parser.
func (d *decision) pageOf(category string) *page {
	for _, c := range d.request.Categories {
		if c.Name == category && c.Content != nil {
			var p page
			if err := xml.Unmarshal(c.Content.AppendXML(nil), &p); err != nil {
				panic(err)
			}
			return &p
		}
	}
	return nil
}

// selector returns the values that a selector selects (section 7.3.7).
func (d *decision) selector(x *policy.Selector) (function.Operand, *status.Error) {
	p := d.pageOf(x.Category)
	var texts []string
	if p != nil {
		var err *status.Error
		if texts, err = d.texts(x, p); err != nil {
			return function.Operand{}, err
		}
	}
	var values []value.Value
	for _, text := range texts {
		v, err := value.Parse(x.Type, text)
		if err != nil {
			return function.Operand{}, fail(status.ProcessingError)
		}
		values = append(values, v)
	}
	if len(values) == 0 && x.MustBePresent {
		lacks := status.Missing{Category: x.Category, ID: "urn:oasis:names:tc:xacml:3.0:content-selector", Type: x.Type}
		return function.Operand{}, &status.Error{Code: status.MissingAttribute, Missing: []status.Missing{lacks}}
	}
	return function.Bag(x.Type, values), nil
}

// texts returns the texts of the nodes that a selector selects in a page. Only the
// path relative depends on the node that an attribute names, a part of the page, but
// no path selects anything if the attribute is wrong.
func (d *decision) texts(x *policy.Selector, p *page) ([]string, *status.Error) {
	if x.ContextSelector == "" {
		return absolute(x.Path, p)
	}
	named, err := d.bag(&policy.Designator{Category: x.Category, ID: x.ContextSelector, Type: value.XPathExpression, MustBePresent: true})
	if err != nil {
		return nil, err
	}
	if len(named.Values) != 1 {
		return nil, fail(status.SyntaxError)
	}
	at, _ := named.Values[0].XPath()
	i, ok := map[string]int{"/r/b": 0, "/r/b[1]": 0, "/r/b[2]": 1}[at.Path]
	if !ok || at.Category != x.Category || i >= len(p.B) || at.Path == "/r/b" && len(p.B) > 1 {
		return nil, fail(status.SyntaxError)
	}
	if x.Path != relative {
		return absolute(x.Path, p)
	}
	return p.B[i].A, nil
}

// absolute returns the texts of the nodes that a path selects that begins at the
// root.
func absolute(path string, p *page) ([]string, *status.Error) {
	if path == noNodes {
		return nil, fail(status.SyntaxError)
	}
	return paths[path](p), nil
}

// countNodes returns the number of nodes that an xpathExpression selects.
func (d *decision) countNodes(v value.Value) (function.Operand, *status.Error) {
	x, _ := v.XPath()
	p := d.pageOf(x.Category)
	if p == nil || x.Path == noNodes {
		return function.Operand{}, fail(status.SyntaxError)
	}
	return function.Single(value.NewInteger(int64(len(paths[x.Path](p))))), nil
}

// content returns a document for a category, or nil.
func (g *generator) content() *content.Node {
	if g.one(2) {
		return nil
	}
	p := page{A: g.elements()}
	if g.one(2) {
		x := g.element()
		p.X = &x
	}
	for range g.IntN(3) {
		p.B = append(p.B, part{Y: g.pick("u", "v"), A: g.elements()})
	}
	text, err := xml.Marshal(p)
	if err != nil {
		panic(err)
	}
	root, err := content.Parse(text)
	if err != nil {
		panic(err)
	}
	return root
}

// elements returns the texts of some elements, and element that of one.
func (g *generator) elements() (out []string) {
	for range g.IntN(4) {
		out = append(out, g.element())
	}
	return out
}

func (g *generator) element() string { return g.pick("u", "v", "w", "1", "2", "true", "") }

// path returns a path.
func (g *generator) path() string {
	if g.one(24) {
		return noNodes
	}
	return g.pick(sortedPaths...)
}

// selection returns a selector of a type.
func (g *generator) selection(t value.Type) *policy.Selector {
	s := &policy.Selector{Category: g.category(), Path: g.path(), Type: t, MustBePresent: g.one(10) || g.errors && g.one(3)}
	if g.one(3) {
		s.ContextSelector, s.Path = attributeNode, g.pick(relative, relative, s.Path)
	}
	return s
}

// node returns an attribute with paths that name nodes of the category.
func (g *generator) node(category string) policy.Attribute {
	a := policy.Attribute{ID: attributeNode}
	for range 1 + g.IntN(6)/5 {
		name := category
		if g.one(8) {
			name = g.category()
		}
		a.Values = append(a.Values, value.NewXPath(value.XPath{Category: name, Path: g.pick("/r/b[1]", "/r/b[2]", "/r/b", "/r/c")}))
	}
	return a
}
