package xmlread_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/ostiary/ostiary/internal/tool/xmlread"
	"github.com/ostiary/ostiary/internal/workshop/golden"
)

// tree returns the innermost element with its children. An element whose name begins with t is
// read with Text, one with f with Fragment, one with s with Skip, one with n with Nothing.
func tree(r *xmlread.Reader, out *strings.Builder) {
	fmt.Fprintf(out, "%d{%s}%s", r.Offset(), r.Space(), r.Name())
	for _, a := range r.Attributes() {
		fmt.Fprintf(out, " %d{%s}%s=%q", a.Offset, a.Space, a.Name, a.Value)
	}
	if all := r.Namespaces(); all != nil {
		fmt.Fprintf(out, " %v", all)
	}
	switch first := string(r.Name()[:1]); first {
	case "t":
		fmt.Fprintf(out, " %q ", r.Text())
	case "f":
		fmt.Fprintf(out, " %s ", r.Fragment())
	case "s":
		r.Skip()
	case "n":
		r.Nothing()
	default:
		out.WriteString("[")
		for r.Child() {
			tree(r, out)
		}
		out.WriteString("]")
	}
}

// TestReadings reads texts element by element, and compares the trees and the errors with a
// file.
func TestReadings(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat("<a>", 60)
	var out strings.Builder
	for _, text := range []string{
		"", " ", "\n\n", "<", "<a", "<a ", "<a>", "<a/", "<a/>", "<a />", " <a/> ", "<a\n/>\n", "<a></a>", "<a></a >", "<a></a", "<a></", "<a><", "<a></b>", "<a></aa>", "<aa></a>", "<a></a b>", "</a>", "x", "<a/>x", "<a/><b/>", "<a/><!-- c --> <?d?>",
		"<a><b/><b></b><c><d/></c></a>", "<a> <b/> <!-- x --> <?y?> <b/> </a>", "<a>x<b/></a>", "<a><b/>x</a>", "<a>\n <b>\n  x</b></a>", "<a><![CDATA[ ]]></a>", "<a><b/", "<a><b/></a", "<a>é</a>",
		"<t/>", "<t></t>", "<t>x</t>", "<t>x</t >", "<t>x</u>", "<t>x", "<t>x</", "<t>x<", "<t>x<b/></t>", "<t><b/></t>", "<t>x/<b/></t>", "<t>x/</t>", "<t>x<!-- y -->z</t>", "<t>&lt;x</t>", "<t>&bad;</t>", "<t>x]]>y</t>", "<t>x]y</t>", "<t>a\rb</t>", "<t><![CDATA[x]]></t>", "<t>x<![CDATA[</t>", "<t>x&#65;<!-- -->\r\n&#x42;</t>", "<t>x<!DOCTYPE y></t>", "<t>&#x0000010FFFF;</t>", "<t>&#x00000010FFFF;</t>", "<t>&#32;&#31;</t>", "<t>&#9;</t>", "<t>&#55295;&#57344;&#65533;</t>", "<t>&#55296;</t>", "<t>&#57343;</t>", "<t>&#65534;</t>", "<t>&#65536;&#1114111;</t>", "<t>&#1114112;</t>", "<t>&#4294967361;</t>", "<t>&a</t>", "<t>&65;</t>", "<t>&x41;</t>", "<t>a&", "<t>a&;b</t>", "<t>ab&longer-than-any;</t>", "<t>&quot;&#x41</t>",
		"<a><t>1</t><t>2</t><t/></a>", "<a><t>1</t>x<t>2</t></a>",
		"<s/>", "<s>x</s>", "<s>x<a/>y<b>z</b></s>", "<s><s><s/></s></s>", "<s>&bad;</s>", "<s>]]></s>", "<s><a></s></a>", "<s><a b='&bad;'/></s>", "<s>", "<s><a>", "<s><a/>", "<a><s>x<![CDATA[y]]></s><b/></a>", "<s><![CDATA[x</s>", "<s><a b=1/></s>",
		"<n/>", "<n> </n>", "<n><!-- x --></n>", "<n><b/></n>", "<n>x</n>", "<a><n><b/></n></a>",
		"<f/>", "<f>x &amp; <b c='d'/></f>", "<f>&bad;</f>", `<a xmlns="u"><f/></a>`, `<a xmlns:p="v"><p:f p:b="1"><c/></p:f></a>`, `<a xmlns="u" xmlns:p="&quot;&lt;"><f xmlns="w"/><f xmlns:p="x"/></a>`, `<a xmlns="u"><b xmlns=""><f/></b><f/></a>`, `<a xmlns:p="1"><b xmlns:p="2"><p:f/></b><p:f/></a>`, `<a xmlns:p="1" xmlns:q="2"><b xmlns:p="3"><f/></b></a>`,
		`<a xmlns="u"/>`, `<a xmlns=""/>`, `<a xmlns="u"><b xmlns=""/><b/></a>`, `<p:a xmlns:p="u"/>`, `<p:a xmlns:p="u"></p:a>`, `<p:a xmlns:p="u"></q:a>`, `<p:a xmlns:p="u"></a>`, `<a xmlns:p="u" xmlns:p="v"/>`, `<a xmlns:p="u"><b xmlns:p="v" p:c="1"/><b p:c="1"/></a>`, `<a><b xmlns:p="u"/><b p:c="1"/></a>`, `<a xml:lang="en"/>`, `<xml:a/>`, `<a xmlns:xml="http://www.w3.org/XML/1998/namespace" xml:id="1"/>`, `<a xmlns="http://www.w3.org/XML/1998/namespace"/>`, `<a xmlns="http://www.w3.org/2000/xmlns/"/>`, `<a xmlns:p="http://www.w3.org/2000/xmlns/"/>`, `<a xmlns:xmlns="u"/>`, `<xmlns:a/>`, `<a xmlns:="u"/>`, `<a p:="u"/>`, `<a xmlns:p=""/>`,
		`<a b='1' c="2"/>`, `<a b = '1'/>`, "<a b\n=\n'1'\n/>", `<a b='1'c='2'/>`, `<a b='"' c="'"/>`, `<a b='1' b='2'/>`, `<a xmlns:p='u' xmlns:q='u' p:b='1' q:b='2'/>`, `<a xmlns:p='u' b='1' p:b='2'/>`, `<a b`, `<a b=`, `<a b='`, `<a b='1`, `<a b='1'`, `<a b>`, `<a b=1>`, `<a ='1'>`, `<a 1='1'>`, `<a b='<'/>`, `<a b='x<y'/>`, `<a b='&bad;'/>`, `<a b='x&bad;'/>`, "<a b='\t\n\r\n \r'/>", "<a b=']]>'/>", "<a b='é&lt;\t'/>", `<a !/>`, `<a /b>`, `<a / >`, `<a b='1'/ >`,
		"<?xml version='1.0'?><a/>", "<?xml version=\"1.0\" encoding=\"UTF-8\" standalone=\"yes\"?>\n<a/>", "<?xml\tversion='1.0'\nencoding='us-ascii'\rstandalone='no' ?><a/>", "<?xml version='1.0' standalone='yes'?><a/>", "<?xml version='1.0' standalone=''?><a/>", "<?xml version='1.0' encoding=''?><a/>", "<?xml version='1.0' encoding='UTF-16'?><a/>", "<?xml version='1.0' standalone='Yes'?><a/>", "<?xml version='1.1'?><a/>", "<?xml version=''?><a/>", "<?xml ?><a/>", "<?xml?><a/>", "<?xml", "<?xml ", "<?xml version", "<?xml version=", "<?xml version='1.0", "<?xml version='1.0'", "<?xml version='1.0'>", "<?xml version='1.0'encoding='UTF-8'?><a/>", "<?xml encoding='UTF-8' version='1.0'?><a/>", "<?xml version='1.0' encoding?><a/>", "<?xml version='1.0'?>", " <?xml version='1.0'?><a/>", "<?xmlx y?><a/>", "<?XML?><a/>",
		"<!-- a --><a/>", "<!----><a/>", "<!--a--b--><a/>", "<!--a---><a/>", "<!--a", "<!--", "<!-", "<!", "<!-x--><a/>", "<!DOCTYPE a>", "<!DOCTYP", "<![CDATA[x]]>", "<![CDATA[x]]><a/>", "<a/><![CDATA[x]]>", "<!ELEMENT-with-a-long-name>", "<?b?><a/>", "<?b c d?><a/>", "<?b", "<?b?", "<?b>", "<??>", "<? ?>", "<?b:c?><a/>", "<?b?c?><a/>", "<?é?><a/>",
		"\x00", "<a>\x1f", "<a>12\n345\n67\x08", "\x7f", "<a>\x7f</a>", "<a>12345678\t\n\r</a>", "<a>1234567\x01890</a>", "<a b='é12345678\x02'/>", "\xff", "<a>é\xff</a>", "<a>\uFFFE</a>", "\uFFFE", "\uFFFF<a/>", "<a>é\uFFFF</a>", "<a>\uFFFD</a>", "\uFEFF<a/>", "\uFEFF", "\uFEFF x",
		deep + "</a>", deep + "<b>x", "<" + strings.Repeat("é", 40) + "></b>", "<" + strings.Repeat("x", 61) + "></b>", "<" + strings.Repeat("x", 60) + "></b>", "<a>x<" + strings.Repeat("é", 40) + "/></a>",
	} {
		r := xmlread.New([]byte(text))
		var got strings.Builder
		if r.Root() {
			tree(r, &got)
		}
		fmt.Fprintf(&out, "%.100q\n  %.200s\n", text, got.String())
		if err := r.End(); err != nil {
			var e *xmlread.Error
			if !errors.As(err, &e) || !r.Failed() {
				t.Fatalf("%q: error %v, failed %v", text, err, r.Failed())
			}
			fmt.Fprintf(&out, "  %v\n", err)
		}
	}
	golden.Equal(t, "testdata/readings.txt", out.String())
}

// TestAfterAnError checks that a reader which has failed reads nothing, and keeps its error.
func TestAfterAnError(t *testing.T) {
	t.Parallel()
	for i, rest := range []string{"", "<b/>", "x", "<b>x</b>", "</a>"} {
		for _, empty := range []bool{false, true} {
			text := "<a c='d'>" + rest
			if empty {
				text = "<a c='d'/>" + rest
			}
			r := xmlread.New([]byte(text))
			if !r.Root() || r.Failed() {
				t.Fatal(r.End())
			}
			r.FailBound(3, "names", 7)
			r.Fail("second")
			r.FailAt(0, "third")
			r.FailBound(4, "fourth", 1)
			r.Fields()
			r.Skip()
			r.Nothing()
			s := r.Sequence("b")
			if r.Root() || r.Child() || r.Text() != "" || r.Fragment() != nil || s.Next() != "" || !r.Failed() {
				t.Errorf("case %d: something is read", i)
			}
			var e *xmlread.Error
			if err := r.End(); !errors.As(err, &e) || *e != (xmlread.Error{Line: 1, Column: 4, Text: `the text exceeds the bound "names": expected at most 7`, Bound: "names"}) {
				t.Errorf("case %d: got %+v", i, e)
			}
		}
	}
	r := xmlread.New([]byte("<a/>"))
	if r.Child() || r.Text() != "" || r.Fragment() != nil || r.Name() != nil || r.Space() != "" || r.Namespaces() != nil || r.Attributes() != nil || r.Offset() != 0 {
		t.Error("something is read before the root")
	}
	r.Skip()
	if !r.Root() {
		t.Error(r.End())
	}
	if r.Child() || r.Child() || r.Name() != nil || r.Text() != "" || r.Fragment() != nil || r.End() != nil || r.Offset() != 4 {
		t.Error("something is read after the root")
	}
}

// TestPositions asks for the positions of offsets in any order.
func TestPositions(t *testing.T) {
	t.Parallel()
	const text = "a\n\nbc\nd"
	want := []string{"1:1", "1:2", "2:1", "3:1", "3:2", "3:3", "4:1", "4:2", "4:2"}
	r := xmlread.New([]byte(text))
	for step := 1; step < len(want); step++ {
		for i := range want {
			offset := i * step % len(want)
			if line, column := r.Position(offset); fmt.Sprintf("%d:%d", line, column) != want[offset] {
				t.Errorf("offset %d: %d:%d, want %s", offset, line, column, want[offset])
			}
		}
	}
}

// TestReset reads several texts with one reader.
func TestReset(t *testing.T) {
	t.Parallel()
	r := xmlread.New([]byte(`<a xmlns="u" b="1">` + "\n<c>"))
	r.SetVocabulary("u")
	r.Root()
	r.Child()
	r.Fail("failed")
	for _, text := range []string{`<a/>`, "\n<d>x", `<a xmlns:p="v"/>`, `<p:a/>`, "\x00"} {
		r.Reset([]byte(text))
		fresh := xmlread.New([]byte(text))
		if r.Root() != fresh.Root() || r.Space() != fresh.Space() || len(r.Attributes()) != len(fresh.Attributes()) || r.Text() != fresh.Text() || fmt.Sprint(r.End()) != fmt.Sprint(fresh.End()) {
			t.Errorf("%q: error %v, expected %v", text, r.End(), fresh.End())
		}
	}
}

// TestNameRanges prints which characters a name may begin with, and which else it may have.
// They are those of productions 4 and 4a of XML 1.0.
func TestNameRanges(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	for _, prefix := range []string{"", "a"} {
		fmt.Fprintf(&out, "after %q:\n", prefix)
		first := rune(-1)
		for c := rune(0); c <= utf8.MaxRune+1; c++ {
			is := c <= utf8.MaxRune && utf8.ValidRune(c) && xmlread.IsName(prefix+string(c))
			if is && first < 0 {
				first = c
			} else if !is && first >= 0 {
				fmt.Fprintf(&out, "  %U to %U\n", first, c-1)
				first = -1
			}
		}
	}
	for _, text := range []string{"", "a", "ab", "a b", " a", "a:b", "a\xff", "1a", "é1"} {
		fmt.Fprintf(&out, "%q: %v\n", text, xmlread.IsName(text))
	}
	golden.Equal(t, "testdata/names.txt", out.String())
}

// TestEscapes prints how characters are written in texts and in values of attributes, and
// whether XML can express them.
func TestEscapes(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	for _, text := range []string{"", "plain", "a&b", "<", ">", "\"", "'", "\t", "\n", "\r", "\x00", "\x1f", " ", "\x7f", "é", "\ud7ff", "\ue000", "\ufffd", "\ufffe", "\uffff", "\U00010000", "\U0010ffff", "\xff", "a\xc3", "é\xffü", "&&a&&"} {
		fmt.Fprintf(&out, "%q: text %q, attribute %q, expressible %v\n", text, xmlread.AppendText([]byte("+"), text), xmlread.AppendAttribute([]byte("+"), text), xmlread.Expressible(text))
	}
	golden.Equal(t, "testdata/escapes.txt", out.String())
}

// TestVocabulary reads elements with fields and sequences, and compares the results with a
// file.
func TestVocabulary(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	const schemaInstance = `xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"`
	for _, attributes := range []string{``, `must="1"`, `must=""`, `must=" "`, `must=" 1 "`, `must="1" may="2"`, `must="1" may=""`, `must="1" may=" 2 "`, `must="1" text=" 3 "`, `must="1" text=""`, `must="1" other="4"`, `may="2"`,
		`must="1" p:spaced="5"`, `must="1" spaced="5"`, `p:must="1"`, `must="1" q:spaced="5"`, `must="1" xsi:schemaLocation="x"`, `must="1" xsi:type="x"`, `must="1" schemaLocation="x"`, `other="1" another="2"`} {
		text := `<root xmlns:p="space" xmlns:q="else" ` + schemaInstance + ` text="t" ` + attributes + `/>`
		if strings.Contains(attributes, "text=") {
			text = strings.Replace(text, ` text="t"`, "", 1)
		}
		r := xmlread.New([]byte(text))
		var must, may, verbatim, spaced string
		r.Root()
		r.Fields(xmlread.Field{Name: "may", To: &may, Optional: true}, xmlread.Field{Name: "must", To: &must}, xmlread.Field{Name: "text", To: &verbatim, Verbatim: true},
			xmlread.Field{Name: "spaced", To: &spaced, Optional: true, Space: "space"})
		r.Nothing()
		fmt.Fprintf(&out, "%s\n  must %q, may %q, text %q, spaced %q\n", attributes, must, may, verbatim, spaced)
		if err := r.End(); err != nil {
			fmt.Fprintf(&out, "  %v\n", err)
		}
	}
	r := xmlread.New([]byte(`<root/>`))
	var needed string
	r.Root()
	r.Fields(xmlread.Field{Name: "verbatim", To: &needed, Verbatim: true})
	fmt.Fprintf(&out, "no verbatim\n  %v\n", r.End())
	for _, children := range []string{``, `a`, `b`, `a b`, `b a`, `a a`, `b b`, `a b b c`, `c d`, `d c`, `d d`, `c c`, `c d c`, `f`, `g`, `f g`, `g f`, `f f`, `a b c d f e e`, `e`, `e e`, `e a`, `b c b`, `f c`, `x`, `a x`, `c x`, `d x`, `f x`, `g x`, `e x`, `a b c d e x`} {
		text := "<root>"
		for name := range strings.FieldsSeq(children) {
			text += "<" + name + "/>"
		}
		r := xmlread.New([]byte(text + "</root>"))
		r.Root()
		s := r.Sequence("a", "b*", "c* d*", "f g", "e")
		var got []string
		for name := s.Next(); name != ""; name = s.Next() {
			got = append(got, name)
			r.Nothing()
		}
		r.Demand(slices.Contains(got, "a"), "root", "a")
		fmt.Fprintf(&out, "%s\n  %s\n", children, strings.Join(got, " "))
		if err := r.End(); err != nil {
			fmt.Fprintf(&out, "  %v\n", err)
		}
	}
	for _, text := range []string{`<a xmlns="u"/>`, `<a xmlns="v"/>`, `<a/>`, `<a xmlns="u"><b/></a>`, `<a xmlns="u"><b xmlns="v"/></a>`, `<a xmlns="u"><s><b xmlns="v"/></s></a>`, `<a xmlns="u"><f><b xmlns="v"/></f></a>`} {
		r := xmlread.New([]byte(text))
		r.SetVocabulary("u")
		var got strings.Builder
		if r.Root() {
			tree(r, &got)
		}
		fmt.Fprintf(&out, "%s\n  %s\n  %v\n", text, got.String(), r.End())
	}
	golden.Equal(t, "testdata/vocabulary.txt", out.String())
}
