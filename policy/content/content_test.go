package content

import (
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/ostiary/ostiary/policy/status"
)

const document = `<?xml version="1.0" encoding="UTF-8"?><!--top--><a xmlns:n="urn:n"><b i="1">x</b><c><b i="2">y</b>` +
	`<b i="3">z<!--k--><![CDATA[cd]]></b></c><b i="4" n:j="5"/><d xml:lang="en-GB"> <e/> t<?pi x?></d><f xmlns="urn:f"><n:g/></f></a>`

func parse(t testing.TB, text string) *Node {
	t.Helper()
	root, err := Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return root
}

// show returns a result of XPath for people: nodes as their names or values.
func show(value any) string {
	nodes, ok := value.([]*Node)
	if !ok {
		if f, ok := value.(float64); ok {
			return formatNumber(f)
		}
		return fmt.Sprintf("%v", value)
	}
	var parts []string
	for _, n := range nodes {
		switch n.kind {
		case Root:
			parts = append(parts, "/")
		case Element:
			parts = append(parts, fmt.Sprintf("<%s>%s", qualifiedName(n), n.Value()))
		default:
			parts = append(parts, n.text)
		}
	}
	return strings.Join(parts, " ")
}

// TestXPath lists expressions with their results. Every node comes once and in
// document order.
func TestXPath(t *testing.T) {
	t.Parallel()
	root := parse(t, document)
	for _, c := range []struct{ path, want string }{
		{"count(//b)", "4"}, {"//b/@i", "1 2 3 4"}, {"//b[position()=last()]/@i", "3 4"}, {"(//b)[last()]/@i", "4"}, {"//b[2]/@i", "3 4"},
		{"/a/b[last()]/@i", "4"}, {"/descendant::b[3]/@i", "3"}, {"//b[@i>1][1]/@i", "2 4"}, {"//c/preceding-sibling::b/@i", "1"}, {"//b[.='x']/@i", "1"},
		{"string(/a/d)", "  t"}, {"sum(//b/@i)", "10"}, {"sum(//b)", "NaN"}, {"//b[i]", ""}, {"//c/b[2]", "<b>zcd"}, {"//text()", "x y z cd    t"}, {"//comment()", "top k"},
		{"//processing-instruction()", "x"}, {"//processing-instruction('pi')", "x"}, {"//processing-instruction('po')", ""}, {"/a/c/node()", "<b>y <b>zcd"},
		{"/a/*/b/ancestor::*[1]", "<c>yzcd"}, {"//b[not(@i=2)]/@i", "1 3 4"}, {"id('x')", ""}, {"//b[ancestor::c and position()=1]/@i", "2"},
		{"//b/following::b/@i", "2 3 4"}, {"//b/preceding::b/@i", "1 2 3"}, {"//b[3]/preceding::b[1]/@i", ""}, {"/a/b[2]/preceding::b[1]/@i", "3"}, {"/a/b[2]/preceding::b[3]/@i", "1"},
		{"3 = //@i", "true"}, {"//@i = 3", "true"}, {"//@i != 3", "true"}, {"9 = //@i", "false"}, {"//@i = //@i", "true"}, {"//@i > 3", "true"}, {"4 < //@i", "false"}, {"3 < //@i", "true"}, {"//zz = ''", "false"},
		{"//zz = false()", "true"}, {"//b = true()", "true"}, {"false() = //zz", "true"}, {"'a' < 'b'", "false"}, {"'1' < '2'", "true"}, {"'a' = 'a'", "true"}, {"1 = '1.0'", "true"}, {"true() = 'x'", "true"}, {"true() > 0", "true"},
		{"number('1e3')", "NaN"}, {"number(' -1.50 ')", "-1.5"}, {"number('+1')", "NaN"}, {"number('.')", "NaN"}, {"number('1.2.3')", "NaN"}, {"number('5.')", "5"}, {"number('.5')", "0.5"}, {"number(true())", "1"}, {"number('')", "NaN"}, {"//b[number(@i)]/@i", "1"}, {"round(-1.5)", "-1"}, {"round(2.5)", "3"}, {"floor(-1.5)", "-2"}, {"ceiling(1.2)", "2"},
		{"string(1000000000000000000000)", "1000000000000000000000"}, {"string(0.1)", "0.1"}, {"string(-0)", "0"}, {"string(1 div 0)", "Infinity"}, {"string(-1 div 0)", "-Infinity"}, {"string(0 div 0)", "NaN"},
		{"-1 mod 2", "-1"}, {"5 mod -2", "1"}, {"1.5 mod 0.5", "0"}, {"--1", "1"}, {"1 - 1", "0"}, {"2 * 3 + 1", "7"}, {"1 + 2 * 3", "7"}, {"(1 + 2) * 3", "9"}, {"6 div 2", "3"}, {"2*2", "4"},
		{"count(/)", "1"}, {"/", "/"}, {"count(//b | //b)", "4"}, {"//@i | //b[1]/@i", "1 2 3 4"}, {"/a/b[1]/../c/b[position() mod 2 = 0]/@i", "3"}, {"//e/ancestor::node()", "/ <a>xyzcd  t <d>  t"}, {"//e/ancestor-or-self::*[1]", "<e>"},
		{"self::node()", "/"}, {".", "/"}, {"..", ""}, {"//b[-1]", ""}, {"//b['x'][2]/@i", "3 4"}, {"//*[count(*)=2]/@*", ""}, {"name(//*[count(*)=2][1])", "c"},
		{"string-length('é𝄞')", "2"}, {"substring('12345',1.5,2.6)", "234"}, {"substring('12345', 0 div 0, 3)", ""}, {"substring('12345', 1, 0 div 0)", ""}, {"substring('12345', -42, 1 div 0)", "12345"}, {"substring('12345', 2)", "2345"}, {"substring('12345', 0, 3)", "12"},
		{"translate('abcab','ab','x')", "xcx"}, {"translate('aa','aa','xy')", "xx"}, {"normalize-space(' a \n b ')", "a b"}, {"substring-before('1999/04','/')", "1999"}, {"substring-after('1999/04','/')", "04"}, {"substring-before('a','b')", ""}, {"substring-after('a','b')", ""},
		{"concat('a',1,true())", "a1true"}, {"starts-with('abc','ab')", "true"}, {"contains('abc','bd')", "false"}, {"contains('abc','')", "true"}, {"boolean('false')", "true"}, {"boolean(0)", "false"}, {"boolean(0 div 0)", "false"}, {"boolean(//zz)", "false"}, {"boolean('')", "false"},
		{"//@p:j", "5"}, {"//@n:j", "5"}, {"//@j", ""}, {"//p:*", "<n:g>"}, {"//@p:*", "5"}, {"local-name(//p:g)", "g"}, {"namespace-uri(//p:g)", "urn:n"}, {"name(//p:g)", "n:g"}, {"//f", ""}, {"//q:f", "<f>"}, {"//*[local-name()='f']", "<f>"}, {"name()", ""}, {"name(//zz)", ""},
		{"//@*", "1 2 3 4 5 en-GB"}, {"//b[last()]/@*[last()]", "3 5"}, {"//@xml:lang", "en-GB"}, {"//*[lang('en')]", "<d>  t <e>"}, {"//e[lang('en-gb')]", "<e>"}, {"//e[lang('e')]", ""}, {"//@xmlns:n", ""},
		{"/a/b[2]/@i/following::e", "<e>"}, {"/a/b[1]/@i/following::b[1]/@i", "2"}, {"/a/b[2]/@i/preceding::b[1]/@i", "3"}, {"//@i/..", "<b>x <b>y <b>zcd <b>"}, {"//@i/following-sibling::*", ""}, {"//@i/preceding-sibling::*", ""}, {"//@i/self::*", ""}, {"//@i/self::node()", "1 2 3 4"},
		{"//c/following-sibling::*[1]/@i", "4"}, {"/a/b[2]/preceding-sibling::*[1]", "<c>yzcd"}, {"//b/descendant-or-self::node()", "<b>x x <b>y y <b>zcd z k cd <b>"},
		{"//div", ""}, {"//or/and", ""}, {"/a/b and /a/c", "true"}, {"/a/zz or /a/c", "true"}, {"a/b*2", "NaN"}, {"a/b/@i*2", "2"}, {"/a/*", "<b>x <c>yzcd <b> <d>  t <f>"}, {"child::a/child::b/attribute::i", "1 4"}, {"//b [ @i = '2' ] / @i", "2"}, {"(//b | //c)[2]", "<c>yzcd"},
		{"string()", "xyzcd  t"}, {"string-length()", "8"}, {"//c[string-length()=4]", "<c>yzcd"}, {"//b[string()='y']/@i", "2"}, {"count(//b/namespace-uri)", "0"}, {"true() and not(false())", "true"}, {"1 = 1 = true()", "true"}, {"1 < 2 < 3", "true"}, {"last()", "1"}, {"position()", "1"},
	} {
		p, err := Compile(c.path, map[string]string{"p": "urn:n", "n": "urn:n", "q": "urn:f", "xmlns": "urn:none"})
		if err != nil {
			t.Errorf("%s: %v", c.path, err)
			continue
		}
		got, err := p.evaluate(&run{}, root)
		if err != nil || show(got) != c.want {
			t.Errorf("%s = %q, %v, expected %q", c.path, show(got), err, c.want)
		}
	}
}

// TestInvalidXPath lists what is no expression of XPath 1.0.
func TestInvalidXPath(t *testing.T) {
	t.Parallel()
	for _, path := range []string{
		"", " ", "/a/", "//", "a b", "1 2", "a[", "a[1", "a]", "(a", "a)", "@", "a/@", "'a", `"a`, "$x", "a:b", "zz:*", "a:", "namespace::a", "foo::a", "p::q:a", "foo()", "p:count(a)", "count()", "count(a,b)", "concat('a')",
		"substring('a')", "not()", "true(1)", "last(1)", ".[1]", "..[1]", "a|", "|a", "1+", "+1", "a=", "!a", "a!b", "node()a", "text(", "text(1)", "comment('a')", "processing-instruction(a)", "#", "a,b", "count(a b)", "matches('a','a')", "if (a) then b else c", "a eq b", "//\x00",
		"a[]", "()", "-", "a/1", "a/(b)", "a/count(b)", "/a/'x'", "@@a", "a::b",
	} {
		_, err := Compile(path, map[string]string{"p": "urn:p", "q": "urn:q"})
		checkStatus(t, path, err, status.SyntaxError, "")
	}
}

// TestNodes shows the errors of evaluations.
func TestNodes(t *testing.T) {
	t.Parallel()
	root := parse(t, document)
	canceled, cancel := context.WithCancel(context.Background())
	cancel()
	for _, c := range []struct {
		path  string
		ctx   context.Context
		code  status.Code
		bound string
	}{
		{"count(//b)", nil, status.SyntaxError, ""},
		{"'a'/b", nil, status.SyntaxError, ""},
		{"'a' | b", nil, status.SyntaxError, ""},
		{"//b | 1", nil, status.SyntaxError, ""},
		{"('a')[1]", nil, status.SyntaxError, ""},
		{"//b[count('a')]", nil, status.SyntaxError, ""},
		{"//b[sum('a')]", nil, status.SyntaxError, ""},
		{"//b[name('a')]", nil, status.SyntaxError, ""},
		{"//*[//*[//*[//*[//*[//*[//*[//*=1]]]]]]]", nil, status.ProcessingError, "XPath steps"},
		{"//*[//*[//*[//*[//*[//*[//*[//*=1]]]]]]]", canceled, status.ProcessingError, ""},
	} {
		p, err := Compile(c.path, nil)
		if err != nil {
			t.Errorf("%s: %v", c.path, err)
			continue
		}
		_, err = p.Nodes(c.ctx, root)
		checkStatus(t, c.path, err, c.code, c.bound)
	}
	p, err := Compile("//c", nil)
	if err != nil {
		t.Fatal(err)
	}
	nodes, err := p.Nodes(nil, root) //nolint:staticcheck // nil means no end
	if err != nil || len(nodes) != 1 {
		t.Fatalf("//c: %v, %v", nodes, err)
	}
	c := nodes[0]
	if values, err := p.Values(context.Background(), root); err != nil || len(values) != 1 || values[0] != "yzcd" {
		t.Errorf("//c has the values %q, %v", values, err)
	}
	if c.Root() != root || c.Parent().Parent() != root {
		t.Error("Root or Parent is wrong")
	}
	if space, local := c.Name(); c.Kind() != Element || space != "" || local != "c" {
		t.Errorf("kind %d, name %q %q", c.Kind(), space, local)
	}
}

// TestInvalidXML lists what is no Content document.
func TestInvalidXML(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"", "a", "<!--only a comment-->", "<a>", "</a>", "<a></b>", "<a/><b/>", "<a/>b", "b<a/>", "<a x='1' x='2'/>", "<a b='1' n:b='2' xmlns:n='u' m:b='3' xmlns:m='u'/>",
		`<!DOCTYPE a><a/>`, `<!DOCTYPE a [<!ENTITY e "x">]><a>&e;</a>`, `<!DOCTYPE a SYSTEM "http://127.0.0.1/x"><a/>`, `<a>&e;</a>`, `<a>&nbsp;</a>`, `<n:a/>`, `<a n:b="1"/>`, `<a xmlns:n=""/>`,
		`<a xmlns:xmlns="u"/>`, `<a xmlns:xml="u"/>`, `<a xmlns="http://www.w3.org/2000/xmlns/"/>`, `<a xmlns:n="http://www.w3.org/XML/1998/namespace"/>`, `<n:a xmlns:n="u"></m:a>`, `<?xml version="1.0" encoding="UTF-16"?><a/>`, "<a>\xff</a>", "<a>\x01</a>", `<a><![CDATA[</a>`, `<a b=c/>`, `<?xml version="2.0"?><a/>`,
	} {
		_, err := Parse([]byte(text))
		checkStatus(t, text, err, status.SyntaxError, "")
	}
}

// TestBounds tests each bound at its value and one above.
func TestBounds(t *testing.T) {
	t.Parallel()
	deep := func(n int) string { return strings.Repeat("<a>", n) + strings.Repeat("</a>", n) }
	wide := func(n int) string { return "<a>" + strings.Repeat("<b/>", n-1) + "</a>" }
	spaces := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, " xmlns:n%d='u'", i)
		}
		return "<a" + b.String() + "/>"
	}
	for _, c := range []struct{ bound, at, above string }{
		{"content depth", deep(DepthMax), deep(DepthMax + 1)},
		{"content nodes", wide(NodesMax), wide(NodesMax + 1)},
		{"content bytes", "<a>" + strings.Repeat("x", BytesMax-7) + "</a>", "<a>" + strings.Repeat("x", BytesMax-6) + "</a>"},
		{"content namespaces", spaces(NamespacesMax - 1), spaces(NamespacesMax)},
	} {
		if _, err := Parse([]byte(c.at)); err != nil {
			t.Errorf("at the bound %s: %v", c.bound, err)
		}
		_, err := Parse([]byte(c.above))
		checkStatus(t, "above "+c.bound, err, status.SyntaxError, c.bound)
	}
	parentheses := func(n int) string { return strings.Repeat("(", n-1) + "a" + strings.Repeat(")", n-1) }
	for _, c := range []struct{ bound, at, above string }{
		{"XPath bytes", strings.Repeat("a", PathBytesMax), strings.Repeat("a", PathBytesMax+1)},
		{"XPath nesting", parentheses(PathNestingMax), parentheses(PathNestingMax + 1)},
	} {
		if _, err := Compile(c.at, nil); err != nil {
			t.Errorf("at the bound %s: %v", c.bound, err)
		}
		_, err := Compile(c.above, nil)
		checkStatus(t, "above "+c.bound, err, status.SyntaxError, c.bound)
	}
	half := strings.Repeat("x", TextBytesMax/2)
	for extra, want := range map[string]string{"": "", "y": "XPath text bytes"} {
		root := parse(t, "<a>"+half+"</a>")
		p, err := Compile("string-length(concat(a, a, '"+extra+"'))", nil)
		if err != nil {
			t.Fatal(err)
		}
		_, err = p.evaluate(&run{}, root)
		var e *status.Error
		if errors.As(err, &e); (e == nil) != (want == "") || e != nil && e.Bound != want {
			t.Errorf("concat of %d bytes: %v, expected the bound %q", TextBytesMax+len(extra), err, want)
		}
	}
	nested := strings.Repeat("<a>", 100) + half + strings.Repeat("</a>", 100)
	every, err := Compile("//*", nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = every.Values(context.Background(), parse(t, nested))
	checkStatus(t, "a text inside of 100 elements", err, status.ProcessingError, "XPath steps")
	r := run{}
	if err := r.count(StepsMax); err != nil {
		t.Errorf("at the bound XPath steps: %v", err)
	}
	checkStatus(t, "above XPath steps", r.count(1), status.ProcessingError, "XPath steps")
}

func checkStatus(t *testing.T, what string, err error, code status.Code, bound string) {
	t.Helper()
	var e *status.Error
	if !errors.As(err, &e) || e.Code != code || e.Bound != bound {
		t.Errorf("%q: error %v, expected one with the code %s and the bound %q", what, err, code, bound)
	}
}

// TestFragment shows that a part of a larger text uses its namespaces.
func TestFragment(t *testing.T) {
	t.Parallel()
	root, err := ParseFragment([]byte(" <n:a><b/>1&amp;<![CDATA[2<]]>3</n:a> "), map[string]string{"n": "urn:n", "": "urn:d"})
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{"/x:a": "<n:a>1&2<3", "//y:b": "<b>", "//b": "", "//text()": "1&2<3"} {
		p, err := Compile(path, map[string]string{"x": "urn:n", "y": "urn:d"})
		if err != nil {
			t.Fatal(err)
		}
		if nodes, err := p.Nodes(context.Background(), root); err != nil || show(nodes) != want {
			t.Errorf("%s = %q, %v, expected %q", path, show(nodes), err, want)
		}
	}
}

// FuzzParse compares the text of documents with what encoding/xml reads.
func FuzzParse(f *testing.F) {
	f.Add([]byte(document))
	f.Add([]byte("<a>&lt;<b/>x</a>"))
	f.Fuzz(func(t *testing.T, text []byte) {
		root, err := Parse(text)
		if err != nil {
			return
		}
		var want bytes.Buffer
		d := xml.NewDecoder(bytes.NewReader(text))
		depth := 0
		for {
			token, err := d.RawToken()
			if err != nil {
				break
			}
			switch token := token.(type) {
			case xml.StartElement:
				depth++
			case xml.EndElement:
				depth--
			case xml.CharData:
				if depth > 0 {
					want.Write(token)
				}
			}
		}
		if root.Value() != want.String() {
			t.Errorf("%q: text %q, expected %q", text, root.Value(), want.String())
		}
	})
}

// FuzzXPath shows that no expression makes the package panic, that sets of nodes
// are in order, and that evaluations end.
func FuzzXPath(f *testing.F) {
	for _, path := range []string{"//b[@i>1][1]/@i", "count(//b | //c) + 2 * 3", "substring(string(.), 1, 2)", "preceding::*[1]", "//*[lang('en')]/following::text()"} {
		f.Add(path)
	}
	root, err := Parse([]byte(document))
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, path string) {
		p, err := Compile(path, map[string]string{"n": "urn:n"})
		if err != nil {
			return
		}
		value, err := p.evaluate(&run{}, root)
		if err != nil {
			return
		}
		nodes, _ := value.([]*Node)
		for i := 1; i < len(nodes); i++ {
			if nodes[i-1].order >= nodes[i].order {
				t.Errorf("%s: nodes %d and %d are not in order", path, i-1, i)
			}
		}
		if f, ok := value.(float64); ok && !math.IsNaN(f) && !math.IsInf(f, 0) && parseNumber(formatNumber(f)) != f {
			t.Errorf("%s: number %v changes when it is printed and read", path, f)
		}
	})
}
