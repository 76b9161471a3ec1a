// Package xmlread reads XML 1.0 with namespaces, strictly and without
// reflection, for formats with a known vocabulary. It refuses document types,
// and so every entity apart from the five predefined ones; undeclared prefixes;
// duplicate attributes; text that is not UTF-8. So nothing outside of the text
// is ever read, and no text expands to more than its own length. Its main type
// is [Reader]. The package contains no rules of a vocabulary.
package xmlread

import (
	"fmt"

	"github.com/ostiary/ostiary/internal/tool/quote"
)

// Bounds on a text. One more is refused. The caller bounds the length of the
// text.
const (
	DepthMax          = 256      // nested elements
	AttributesMax     = 64       // attributes of an element, with its namespace declarations
	AttributeBytesMax = 64 << 10 // length of the value of an attribute
	NamespacesMax     = 128      // namespace declarations in scope
)

// Error is the first error of a text, with its position.
type Error struct {
	Line   int    // line, from 1
	Column int    // column in bytes, from 1
	Text   string // what was wrong, the value, and what was expected
	Bound  string // name of the bound that was exceeded, for example "element depth"; "" if none was
}

// Error returns the position and the text.
func (e *Error) Error() string {
	return fmt.Sprintf("line %d, column %d: %s", e.Line, e.Column, e.Text)
}

// Attribute is an attribute of an element. Namespace declarations are no
// attributes.
type Attribute struct {
	Space  string // namespace; "" if the name has no prefix
	Name   string // local name
	Value  string // value, normalized as section 3.3.3 of XML 1.0 demands for CDATA
	Offset int    // position of the name in the text, in bytes from its start

	prefix string
}

// Reader reads one document, element by element. After the first error every
// method returns its zero value, so that a caller needs to ask for the error
// once, with [Reader.End]. A Reader is for one goroutine.
//
//	r := xmlread.New(text)
//	for ok := r.Root(); ok; ok = false {
//		for r.Child() {
//			switch string(r.Name()) {
//			case "Description":
//				description = r.Text()
//			default:
//				r.Fail("unexpected element")
//			}
//		}
//	}
//	err := r.End()
//
// After [Reader.Root] or [Reader.Child] returned true, the caller must read the
// element to its end with exactly one of Child (until it returns false),
// [Reader.Text], [Reader.Skip] or [Reader.Fragment].
type Reader struct {
	b      []byte
	copied string // a copy of b, which strings without references are parts of
	i      int    // the next byte to read
	err    *Error

	open     []element // the open elements
	bindings []binding // the namespace declarations in scope
	attrs    []Attribute
	empty    bool // the innermost element is an empty-element tag
	rooted   bool
	// vocabulary is the namespace of all elements; "" is any.
	vocabulary string
	closed     int // offset of the element that was closed last

	lines quote.Index
}

// element is an open element. Its name is b[from:to]; its local name begins at
// local.
type element struct {
	at, from, to, local int
	space               string
	bindings            int // number of declarations in scope around the element
}

// binding is a namespace declaration.
type binding struct{ prefix, uri string }

const xmlnsSpace = "http://www.w3.org/2000/xmlns/"

// New returns a reader of b, which must not change while it is read.
func New(b []byte) *Reader {
	r := &Reader{}
	r.Reset(b)
	return r
}

// Reset makes r a reader of b and keeps its memory. It forgets the
// vocabulary.
func (r *Reader) Reset(b []byte) {
	*r = Reader{b: b, open: r.open[:0], bindings: r.bindings[:0], attrs: r.attrs[:0], lines: quote.NewIndex(b)}
	r.checkCharacters()
}

// End returns the first error. Markup or text after the root element is one.
func (r *Reader) End() error {
	if r.err == nil && len(r.open) > 0 {
		r.FailAt(r.i, "element %s is not read to its end", cut(r.qname()))
	}
	if r.err == nil {
		if !r.rooted {
			r.FailAt(r.i, "expected an element")
		} else if r.misc(); r.err == nil && r.i < len(r.b) {
			r.FailAt(r.i, "unexpected text or element after the root element")
		}
	}
	if r.err == nil {
		return nil
	}
	return r.err
}

// Failed reports whether there was an error.
func (r *Reader) Failed() bool { return r.err != nil }

// Fail makes r fail at the start of the innermost open element. An earlier error
// stays.
func (r *Reader) Fail(format string, args ...any) { r.FailAt(r.Offset(), format, args...) }

// FailAt makes r fail at an offset, for example that of an [Attribute]. An
// earlier error stays.
func (r *Reader) FailAt(offset int, format string, args ...any) {
	if r.err == nil {
		line, column := r.Position(offset)
		r.err = &Error{Line: line, Column: column, Text: fmt.Sprintf(format, args...)}
	}
}

// FailBound makes r fail at an offset because a bound is exceeded.
func (r *Reader) FailBound(offset int, bound string, largest int) {
	if r.err == nil {
		r.FailAt(offset, "the text exceeds the bound %q: expected at most %d", bound, largest)
		r.err.Bound = bound
	}
}

// Offset returns the position of the innermost open element in the text, in
// bytes from its start.
func (r *Reader) Offset() int {
	if len(r.open) == 0 {
		return r.i
	}
	return r.open[len(r.open)-1].at
}

// Position returns the line and the column of an offset, both from 1. The column
// counts bytes.
func (r *Reader) Position(offset int) (line, column int) { return r.lines.At(offset) }

// PositionBytes returns how many bytes the positions have cost so far, for tests.
func (r *Reader) PositionBytes() int { return r.lines.Read() }

// Name returns the local name of the innermost open element. It is valid as long
// as the text is.
func (r *Reader) Name() []byte {
	if len(r.open) == 0 {
		return nil
	}
	e := &r.open[len(r.open)-1]
	return r.b[e.local:e.to]
}

// Space returns the namespace of the innermost open element.
func (r *Reader) Space() string {
	if len(r.open) == 0 {
		return ""
	}
	return r.open[len(r.open)-1].space
}

// Attributes returns the attributes of the element that [Reader.Root] or
// [Reader.Child] just went to, in their order. The slice is valid until the next
// call of one of them.
func (r *Reader) Attributes() []Attribute { return r.attrs }

// Namespaces returns the namespaces in scope by prefix. The default namespace
// has the prefix "". The result is nil if there are none.
func (r *Reader) Namespaces() map[string]string {
	var all map[string]string
	for _, b := range r.bindings {
		if all == nil {
			all = map[string]string{}
		}
		if all[b.prefix] = b.uri; b.uri == "" {
			delete(all, b.prefix)
		}
	}
	return all
}

func (r *Reader) qname() []byte {
	e := &r.open[len(r.open)-1]
	return r.b[e.from:e.to]
}

// part returns a part of the text as a string.
func (r *Reader) part(from, to int) string {
	if from >= to {
		return ""
	}
	if r.copied == "" {
		r.copied = string(r.b)
	}
	return r.copied[from:to]
}

// cut shortens text for an error.
func cut[S ~string | ~[]byte](text S) string { return quote.Of(text, 60) }
