package xmlread

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
)

// FuzzReader checks that every text that the reader accepts is the same tree for
// encoding/xml, and that a fragment is the same tree as the element that it was
// taken from.
func FuzzReader(f *testing.F) {
	for _, text := range []string{
		`<a/>`, `<a b="c"> x </a>`, "\uFEFF<?xml version='1.0' encoding='utf-8' standalone=\"no\" ?><!-- c --><a xmlns='u'><b/></a><?p q?>",
		`<x:a xmlns:x="u" x:b="&lt;&#65;&#x42;"><c xmlns="" d='"'/>t<![CDATA[<&]]>e</x:a>`, "<a>\r\n\r</a>", `<a b="1" b="2"/>`,
		`<a><b></a></b>`, `<!DOCTYPE a><a/>`, `<a>]]></a>`, `<a xml:lang="en" xmlns:q="r"><q:b q:c="d" c="e"/></a>`, `<é ü="ö"/>`, "<a b='\t\n'/>",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		r := New(text)
		var ours strings.Builder
		if r.Root() {
			walk(r, &ours)
		}
		if r.End() != nil {
			return
		}
		theirs, err := standard(text)
		if err != nil {
			if strings.Contains(err.Error(), "invalid XML name") { // they have the names of an older edition
				return
			}
			t.Fatalf("the text is accepted, but encoding/xml: %v", err)
		}
		if ours.String() != theirs {
			t.Fatalf("got:\n%s\nencoding/xml:\n%s", &ours, theirs)
		}
		r.Reset(text)
		r.Root()
		fragment := append([]byte("<?xml version='1.0'?>"), r.Fragment()...)
		if again, err := standard(fragment); err != nil || again != theirs {
			t.Fatalf("fragment %s: %v\n%s", fragment, err, again)
		}
		for r.Reset(text); len(r.open) == 0 && r.Root(); {
			for r.Child() {
				line, column := r.Position(r.Offset())
				fragment := r.Fragment()
				if fragment == nil {
					break
				}
				inner := New(fragment)
				if inner.Root(); inner.err == nil {
					inner.Skip()
				}
				if err := inner.End(); err != nil {
					t.Fatalf("fragment of line %d, column %d: %s: %v", line, column, fragment, err)
				}
			}
		}
	})
}

// walk writes the innermost element of r as a text, and reads it to its end.
func walk(r *Reader, out *strings.Builder) {
	fmt.Fprintf(out, "<%q %q", r.Space(), r.Name())
	for _, a := range r.Attributes() {
		writeAttribute(out, a.Space, a.Name, a.Value)
	}
	out.WriteString(">")
	depth := len(r.open)
	for {
		if r.empty {
			r.pop()
			break
		}
		text := r.chunk([]byte{})
		if r.err != nil {
			return
		}
		out.Write(text)
		if r.at("</") {
			if r.endTag(); r.err != nil {
				return
			}
			break
		}
		if !r.startTag() {
			return
		}
		walk(r, out)
		if len(r.open) != depth {
			return
		}
	}
	out.WriteString("<>")
}

func writeAttribute(out *strings.Builder, space, name, value string) {
	value = strings.Map(func(c rune) rune {
		if c == '\t' || c == '\n' || c == '\r' {
			return ' '
		}
		return c
	}, value)
	fmt.Fprintf(out, " %q %q=%q", space, name, value)
}

// standard returns what walk writes, read by encoding/xml.
func standard(text []byte) (string, error) {
	d := xml.NewDecoder(bytes.NewReader(bytes.TrimPrefix(text, []byte("\uFEFF"))))
	d.CharsetReader = func(_ string, in io.Reader) (io.Reader, error) { return in, nil }
	var out strings.Builder
	depth := 0
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return out.String(), nil
		}
		if err != nil {
			return "", err
		}
		switch x := token.(type) {
		case xml.StartElement:
			depth++
			fmt.Fprintf(&out, "<%q %q", x.Name.Space, x.Name.Local)
			for _, a := range x.Attr {
				if a.Name.Space != "xmlns" && a.Name != (xml.Name{Local: "xmlns"}) {
					writeAttribute(&out, a.Name.Space, a.Name.Local, strings.ReplaceAll(a.Value, "\r\n", "\n"))
				}
			}
			out.WriteString(">")
		case xml.EndElement:
			depth--
			out.WriteString("<>")
		case xml.CharData:
			if depth > 0 {
				out.Write(x)
			}
		}
	}
}

// FuzzEscape checks that escaped text is read back.
func FuzzEscape(f *testing.F) {
	f.Add("a<b>&\"'\r\n\t]]>é")
	f.Fuzz(func(t *testing.T, text string) {
		out := AppendAttribute([]byte(`<a b="`), text)
		out = AppendText(append(out, `">`...), text)
		r := New(append(out, "</a>"...))
		r.Root()
		if len(text) > AttributeBytesMax/6 {
			return
		}
		var attribute string
		if r.err == nil {
			attribute = r.Attributes()[0].Value
		}
		got := r.Text()
		if err := r.End(); err != nil {
			t.Fatal(err)
		}
		if same := got == text && attribute == text; same != Expressible(text) {
			t.Fatalf("%q became %q and %q, expressible: %v", text, got, attribute, Expressible(text))
		}
	})
}
