package xmlread_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/ostiary/ostiary/internal/tool/xmlread"
)

// read reads a whole text and returns its error.
func read(text string) error {
	r := xmlread.New([]byte(text))
	if r.Root() {
		r.Skip()
	}
	return r.End()
}

func TestRefuses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ text, err string }{
		{"", "line 1, column 1: expected an element"},
		{" \n x", "line 2, column 2: unexpected text before"},
		{"<a", "unexpected end of the text: expected </a>"},
		{"<a>", "unexpected end of the text: expected </a>"},
		{"<a>x", "unexpected end of the text: expected </a>"},
		{"<a></b>", "column 4: unexpected end tag: expected </a>"},
		{"<a></ab>", "unexpected end tag"},
		{"<a/>\n<b/>", "line 2, column 1: unexpected text or element after"},
		{"<a/>x", "unexpected text or element after"},
		{"<a b='1'c='2'/>", `unexpected "c='2'/>"`},
		{"<a b/>", `expected ="value"`},
		{"<a b=c/>", "in quotes"},
		{"<a b='c/>", "expected a quote at the end"},
		{"<a b='<'/>", "unexpected <"},
		{"<a b='1' b='1'/>", "column 10: duplicate attribute b"},
		{"<a xmlns:x='u' xmlns:y='u' x:b='1' y:b='1'/>", "duplicate attribute b"},
		{"<a xmlns='u' xmlns='v'/>", "duplicate namespace declaration"},
		{"<a xmlns:x=''/>", "prefix x has an empty namespace"},
		{"<a xmlns:xml='u'/>", "may not have the namespace"},
		{"<a xmlns:x='http://www.w3.org/XML/1998/namespace'/>", "may not have the namespace"},
		{"<a xmlns:xmlns='u'/>", "may not have the namespace"},
		{"<x:a/>", "column 2: undeclared prefix x"},
		{"<a x:b='1'/>", "undeclared prefix x"},
		{"<a><b xmlns:x='u'/><x:c/></a>", "undeclared prefix x"},
		{"<:a/>", "expected a name"}, {"<a:/>", "expected a name"}, {"<1/>", "expected a name"}, {"<a:b:c xmlns:a='u'/>", "unexpected"},
		{"< a/>", "expected a name"}, {"<a>< /a>", "expected a name"},
		{"<a>&b;</a>", `"&b;"`}, {"<a>&amp</a>", "malformed reference"}, {"<a>&#0;</a>", "malformed reference"},
		{"<a>&#xD800;</a>", "malformed reference"}, {"<a>&#x110000;</a>", "malformed reference"}, {"<a>&#+65;</a>", "malformed reference"},
		{"<a>&#X41;</a>", "malformed reference"}, {"<a>&12;</a>", "malformed reference"}, {"<a>&x41;</a>", "malformed reference"}, {"<a>&#;</a>", "malformed reference"}, {"<a>&#x;</a>", "malformed reference"}, {"<a>&#x110000;</a>", "malformed reference"}, {"<a>&;</a>", "malformed reference"}, {"<a b='&b;'/>", "malformed reference"},
		{"<a>]]></a>", "unexpected ]]>"}, {"<a><![CDATA[x</a>", "at the end of a CDATA section"}, {"<![CDATA[x]]><a/>", "unexpected text before"},
		{"<a><!-- x -- y --></a>", "malformed comment"}, {"<a><!-- x ---></a>", "malformed comment"}, {"<a><!-- x</a>", "malformed comment"},
		{"<a><?xml version='1.0'?></a>", "unexpected XML declaration"}, {"<a><? b?></a>", "malformed processing instruction"}, {"<a><?b</a>", "malformed processing"},
		{" <?xml version='1.0'?><a/>", "unexpected XML declaration"},
		{"<?xml version='1.1'?><a/>", "unsupported version"}, {"<?xml encoding='utf-8'?><a/>", "unsupported version"},
		{"<?xml version='1.0' encoding='latin1'?><a/>", `unsupported encoding "latin1"`}, {"<?xml version='1.0' standalone='maybe'?><a/>", "invalid standalone"},
		{"<?xml version='1.0' more='x'?><a/>", "malformed XML declaration"},
		{"<!DOCTYPE a><a/>", "document types and entities are not allowed"}, {"<a><!DOCTYPE a></a>", "document types"}, {"<!ELEMENT a><a/>", "unexpected markup"},
		{"<a>\x01</a>", "unexpected control character U+0001"}, {"<a>12345678\x00</a>", "U+0000"}, {"<a>\n\n\n\n\n\n\n\n\x7f\x1f</a>", "line 9, column 2: unexpected control character U+001F"},
		{"<a>\xff</a>", "column 4: invalid UTF-8"}, {"<a>\xed\xa0\x80</a>", "invalid UTF-8"}, {"<a>\uFFFE</a>", "unexpected character U+FFFE"},
		{"\xff\xfe<\x00a\x00", "control character"},
	} {
		if err := read(c.text); err == nil || !strings.Contains(err.Error(), c.err) {
			t.Errorf("%q: %v, expected %q", c.text, err, c.err)
		}
	}
}

// TestBounds reads texts at each bound and one above it.
func TestBounds(t *testing.T) {
	t.Parallel()
	attributes := func(n int, name string) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, " %s%d='u'", name, i)
		}
		return b.String()
	}
	for _, c := range []struct {
		bound   string
		largest int
		text    func(n int) string
	}{
		{"element depth", xmlread.DepthMax, func(n int) string { return strings.Repeat("<a>", n) + strings.Repeat("</a>", n) }},
		{"attributes of an element", xmlread.AttributesMax, func(n int) string { return "<a" + attributes(n, "b") + "/>" }},
		{"attributes of an element", xmlread.AttributesMax, func(n int) string { return "<a" + attributes(n, "xmlns:b") + "/>" }},
		{"attribute bytes", xmlread.AttributeBytesMax, func(n int) string { return "<a b='" + strings.Repeat("x", n) + "'/>" }},
		{"namespaces in scope", xmlread.NamespacesMax, func(n int) string {
			return "<a" + attributes(xmlread.AttributesMax, "xmlns:b") + "><a" + attributes(xmlread.AttributesMax, "xmlns:c") + "><b" +
				attributes(n-xmlread.NamespacesMax, "xmlns:d") + "/></a></a>"
		}},
	} {
		if err := read(c.text(c.largest)); err != nil {
			t.Errorf("%s at the bound: %v", c.bound, err)
		}
		var e *xmlread.Error
		if err := read(c.text(c.largest + 1)); !errors.As(err, &e) || e.Bound != c.bound || !strings.Contains(e.Text, c.bound) {
			t.Errorf("%s above the bound: %v", c.bound, err)
		}
	}
}

func TestNamespaces(t *testing.T) {
	t.Parallel()
	r := xmlread.New([]byte(`<a xmlns="u" xmlns:p="v"><p:b xmlns:q="w" xmlns=""><c/></p:b><d p:e="1"/></a>`))
	r.Root()
	if r.Space() != "u" || string(r.Name()) != "a" || fmt.Sprint(r.Namespaces()) != "map[:u p:v]" {
		t.Errorf("%s %s %v", r.Space(), r.Name(), r.Namespaces())
	}
	r.Child()
	if r.Space() != "v" || string(r.Name()) != "b" || fmt.Sprint(r.Namespaces()) != "map[p:v q:w]" {
		t.Errorf("%s %s %v", r.Space(), r.Name(), r.Namespaces())
	}
	r.Child()
	if r.Space() != "" {
		t.Errorf("space of c is %q", r.Space())
	}
	if got := string(r.Fragment()); got != `<c xmlns:p="v" xmlns:q="w"/>` {
		t.Errorf("fragment %s", got)
	}
	if r.Child() || !r.Child() || r.Space() != "u" || r.Attributes()[0].Space != "v" {
		t.Errorf("d: %s %v", r.Space(), r.Attributes())
	}
	if got := string(r.Fragment()); got != `<d xmlns="u" xmlns:p="v" p:e="1"/>` {
		t.Errorf("fragment %s", got)
	}
	if r.Child(); r.End() != nil {
		t.Error(r.End())
	}
}

// TestUnread checks that End notices an element that the caller did not read.
func TestUnread(t *testing.T) {
	t.Parallel()
	r := xmlread.New([]byte(`<a><b/></a>`))
	r.Root()
	if err := r.End(); err == nil || !strings.Contains(err.Error(), "element a is not read") {
		t.Error(err)
	}
	if err := xmlread.New([]byte(`<a/>`)).End(); err == nil || !strings.Contains(err.Error(), "expected an element") {
		t.Error(err)
	}
}
