package xmlread

import "bytes"

// Root reads what precedes the root element, and the start tag of the root
// element. It returns false after an error.
func (r *Reader) Root() bool {
	if r.err != nil || r.rooted {
		return false
	}
	r.rooted = true
	if bytes.HasPrefix(r.b[r.i:], []byte("<?xml")) && r.i+5 < len(r.b) && isSpace(r.b[r.i+5]) {
		r.declaration()
	}
	r.misc()
	if r.err == nil && r.i >= len(r.b) {
		r.FailAt(r.i, "expected an element")
	}
	if r.err == nil && (r.b[r.i] != '<' || r.at("<![CDATA[")) {
		r.FailAt(r.i, "unexpected text before the root element")
	}
	return r.err == nil && r.startTag() && r.known()
}

// Child goes to the next child of the innermost open element. At the end of that
// element it closes it and returns false. Text other than white space is an
// error.
func (r *Reader) Child() bool {
	if r.err != nil || len(r.open) == 0 {
		return false
	}
	if r.empty {
		r.pop()
		return false
	}
	r.misc()
	switch {
	case r.err != nil:
	case r.i >= len(r.b):
		r.unfinished()
	case r.b[r.i] != '<' || r.at("<![CDATA["):
		r.FailAt(r.i, "unexpected text in element %s", cut(r.qname()))
	case r.at("</"):
		r.endTag()
	default:
		return r.startTag() && r.known()
	}
	return false
}

// Skip reads the element that [Reader.Child] went to, with everything in it.
func (r *Reader) Skip() {
	for depth := len(r.open); r.err == nil && len(r.open) >= depth && depth > 0; {
		if r.empty {
			r.pop()
			continue
		}
		r.chunk(nil)
		switch {
		case r.err != nil:
		case r.at("</"):
			r.endTag()
		default:
			r.startTag()
		}
	}
}

// Fragment reads the element that [Reader.Child] went to, and returns it as a
// document of its own: with the namespace declarations in scope, but otherwise
// as it was written.
func (r *Reader) Fragment() []byte {
	if r.err != nil || len(r.open) == 0 {
		return nil
	}
	e := r.open[len(r.open)-1]
	outer, own := r.bindings[:e.bindings], r.bindings[e.bindings:]
	var declared []byte
	for i, b := range outer {
		if !hides(outer[i+1:], b.prefix) && !hides(own, b.prefix) && b.uri != "" {
			declared = appendDeclaration(declared, b)
		}
	}
	r.Skip()
	if r.err != nil {
		return nil
	}
	out := make([]byte, 0, r.i-e.at+len(declared))
	out = append(out, r.b[e.at:e.to]...)
	out = append(out, declared...)
	return append(out, r.b[e.to:r.i]...)
}

func hides(bindings []binding, prefix string) bool {
	for _, b := range bindings {
		if b.prefix == prefix {
			return true
		}
	}
	return false
}

func appendDeclaration(dst []byte, b binding) []byte {
	dst = append(dst, " xmlns"...)
	if b.prefix != "" {
		dst = append(append(dst, ':'), b.prefix...)
	}
	return append(AppendAttribute(append(dst, `="`...), b.uri), '"')
}

// at reports whether the text continues with s.
func (r *Reader) at(s string) bool { return len(r.b)-r.i >= len(s) && string(r.b[r.i:r.i+len(s)]) == s }

// misc passes white space, comments and processing instructions.
func (r *Reader) misc() {
	for r.err == nil {
		r.space()
		if !r.at("<!") && !r.at("<?") || r.at("<![CDATA[") {
			return
		}
		r.ignorable()
	}
}

// ignorable passes a comment or a processing instruction. A document type is an
// error.
func (r *Reader) ignorable() {
	switch {
	case r.at("<!--"):
		n := bytes.Index(r.b[r.i+4:], []byte("--"))
		if n < 0 || !bytes.HasPrefix(r.b[r.i+4+n:], []byte("-->")) {
			r.FailAt(r.i, "malformed comment: expected --> at its end and no -- in it")
			return
		}
		r.i += 4 + n + 3
	case r.at("<?"):
		r.instruction()
	case r.at("<!DOCTYPE"):
		r.FailAt(r.i, "unexpected document type: document types and entities are not allowed")
	default:
		r.FailAt(r.i, "unexpected markup %q", cut(r.b[r.i:min(len(r.b), r.i+12)]))
	}
}

// instruction passes a processing instruction.
func (r *Reader) instruction() {
	from := r.i
	r.i += 2
	to := r.word(r.i)
	n := bytes.Index(r.b[r.i:], []byte("?>"))
	switch target := r.b[r.i:to]; {
	case len(target) == 0 || n < 0 || to > r.i+n || to < r.i+n && !isSpace(r.b[to]):
		r.FailAt(from, "malformed processing instruction: expected <?name …?>")
	case bytes.EqualFold(target, []byte("xml")):
		r.FailAt(from, "unexpected XML declaration: expected it at the beginning of the text")
	default:
		r.i += n + 2
	}
}

// declaration reads the XML declaration.
func (r *Reader) declaration() {
	from := r.i
	r.i += len("<?xml")
	version := r.pseudo("version")
	if r.err == nil && version != "1.0" {
		r.FailAt(from, "unsupported version %q of XML: expected 1.0", cut(version))
	}
	encoding := r.pseudo("encoding")
	if up := string(bytes.ToUpper([]byte(encoding))); r.err == nil && up != "" && up != "UTF-8" && up != "US-ASCII" {
		r.FailAt(from, "unsupported encoding %q: expected UTF-8", cut(encoding))
	}
	if alone := r.pseudo("standalone"); r.err == nil && alone != "" && alone != "yes" && alone != "no" {
		r.FailAt(from, "invalid standalone %q: expected yes or no", cut(alone))
	}
	if r.space(); r.err == nil && !r.at("?>") {
		r.FailAt(from, `malformed XML declaration: expected <?xml version="1.0" encoding="UTF-8"?>`)
		return
	}
	r.i += len("?>")
}

// pseudo reads a pseudo attribute of the XML declaration if it is next.
func (r *Reader) pseudo(name string) string {
	from := r.i
	if !r.space() || !r.at(name) {
		r.i = from
		return ""
	}
	r.i += len(name)
	return r.assigned()
}

// startTag reads a start tag or an empty-element tag, and opens the element.
func (r *Reader) startTag() bool {
	e := element{at: r.i, from: r.i + 1, bindings: len(r.bindings)}
	r.i++
	if e.local, e.to = r.name(); r.err != nil {
		return false
	}
	if len(r.open) == DepthMax {
		r.FailBound(e.at, "element depth", DepthMax)
		return false
	}
	r.open = append(r.open, e)
	r.attrs = r.attrs[:0]
	for n := 0; r.err == nil; n++ {
		spaced := r.space()
		switch {
		case r.i < len(r.b) && r.b[r.i] == '>':
			r.i++
			return r.resolve()
		case r.at("/>"):
			r.i += 2
			r.empty = true
			return r.resolve()
		case r.i >= len(r.b):
			r.unfinished()
		case !spaced:
			r.FailAt(r.i, "unexpected %q in the tag of element %s", cut(r.b[r.i:min(len(r.b), r.i+12)]), cut(r.qname()))
		case n == AttributesMax:
			r.FailBound(r.i, "attributes of an element", AttributesMax)
		default:
			r.attribute()
		}
	}
	return false
}

// attribute reads an attribute or a namespace declaration.
func (r *Reader) attribute() {
	from := r.i
	local, to := r.name()
	if r.err != nil {
		return
	}
	prefix := r.part(from, max(from, local-1))
	value := r.assigned()
	switch {
	case r.err != nil:
	case prefix == "xmlns":
		r.declare(from, r.part(local, to), value)
	case prefix == "" && string(r.b[from:to]) == "xmlns":
		r.declare(from, "", value)
	default:
		r.attrs = append(r.attrs, Attribute{Name: r.part(local, to), Value: value, Offset: from, prefix: prefix})
	}
}

// assigned reads an equal sign and a value in quotes.
func (r *Reader) assigned() string {
	r.space()
	if !r.at("=") {
		r.FailAt(r.i, `expected ="value" after the name of an attribute`)
		return ""
	}
	r.i++
	r.space()
	if !r.at(`"`) && !r.at("'") {
		r.FailAt(r.i, "expected the value of an attribute in quotes")
		return ""
	}
	from := r.i + 1
	n := bytes.IndexByte(r.b[from:], r.b[r.i])
	switch {
	case n < 0:
		r.FailAt(r.i, "expected a quote at the end of the value of an attribute")
	case n > AttributeBytesMax:
		r.FailBound(r.i, "attribute bytes", AttributeBytesMax)
	default:
		r.i = from + n + 1
		return r.attributeText(from, from+n)
	}
	return ""
}

// declare adds a namespace declaration to those in scope.
func (r *Reader) declare(at int, prefix, uri string) {
	around := r.open[len(r.open)-1].bindings
	switch {
	case hides(r.bindings[around:], prefix):
		r.FailAt(at, "duplicate namespace declaration")
	case uri == "" && prefix != "":
		r.FailAt(at, "prefix %s has an empty namespace", cut(prefix))
	case prefix == "xmlns" || uri == xmlnsSpace || (prefix == "xml") != (uri == XMLSpace):
		r.FailAt(at, "prefix %s may not have the namespace %q", cut(prefix), cut(uri))
	case len(r.bindings) == NamespacesMax:
		r.FailBound(at, "namespaces in scope", NamespacesMax)
	default:
		r.bindings = append(r.bindings, binding{prefix, uri})
	}
}

// resolve finds the namespaces of the element and its attributes, and refuses
// duplicate attributes.
func (r *Reader) resolve() bool {
	e := &r.open[len(r.open)-1]
	e.space = r.lookup(e.from, r.b[e.from:max(e.from, e.local-1)])
	for i := range r.attrs {
		a := &r.attrs[i]
		if a.prefix != "" {
			a.Space = r.lookup(a.Offset, []byte(a.prefix))
		}
		for _, b := range r.attrs[:i] {
			if a.Name == b.Name && a.Space == b.Space {
				r.FailAt(a.Offset, "duplicate attribute %s", cut(a.Name))
			}
		}
	}
	return r.err == nil
}

// lookup returns the namespace of a prefix.
func (r *Reader) lookup(at int, prefix []byte) string {
	for i := len(r.bindings) - 1; i >= 0; i-- {
		if b := &r.bindings[i]; b.prefix == string(prefix) {
			return b.uri
		}
	}
	if string(prefix) == "xml" {
		return XMLSpace
	}
	if len(prefix) > 0 {
		r.FailAt(at, "undeclared prefix %s", cut(prefix))
	}
	return ""
}

// endTag reads the end tag of the innermost open element.
func (r *Reader) endTag() {
	from := r.i
	r.i += 2
	name := r.qname()
	if !bytes.HasPrefix(r.b[r.i:], name) {
		r.FailAt(from, "unexpected end tag: expected </%s>", cut(name))
		return
	}
	r.i += len(name)
	if r.space(); !r.at(">") {
		r.FailAt(from, "unexpected end tag: expected </%s>", cut(name))
		return
	}
	r.i++
	r.pop()
}

// pop closes the innermost element.
func (r *Reader) pop() {
	last := len(r.open) - 1
	r.closed = r.open[last].at
	r.bindings, r.open, r.empty = r.bindings[:r.open[last].bindings], r.open[:last], false
}

func (r *Reader) unfinished() {
	r.FailAt(len(r.b), "unexpected end of the text: expected </%s>", cut(r.qname()))
}
