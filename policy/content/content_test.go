package content

import (
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/ostiary/ostiary/internal/workshop/golden"
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

// TestXPath plays testdata/xpath.txt: expressions with their results and the steps
// that they take. A line that begins with < is the document of the lines after it.
// Every node comes once and in document order.
func TestXPath(t *testing.T) {
	t.Parallel()
	const file = "testdata/xpath.txt"
	script, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	var root *Node
	for line := range strings.Lines(string(script)) {
		path := strings.TrimRight(line, "\n")
		switch {
		case strings.HasPrefix(line, "#"), strings.HasPrefix(line, "\t"), path == "":
			if !strings.HasPrefix(line, "\t") {
				out.WriteString(line)
			}
		case strings.HasPrefix(line, "<"):
			root = parse(t, path)
			out.WriteString(line)
		default:
			value, steps := evaluateEverywhere(t, path, root)
			fmt.Fprintf(&out, "%s\n\t%s\n\t%d steps\n", path, show(value), steps)
		}
	}
	golden.Equal(t, file, out.String())
}

// evaluateEverywhere returns the result of an expression and the steps that it
// takes. It checks that each smaller number of steps, and a context that ends at
// any of the steps, gives an error and no result.
func evaluateEverywhere(t *testing.T, path string, root *Node) (any, int) {
	t.Helper()
	p, err := Compile(path, map[string]string{"p": "urn:n", "n": "urn:n", "q": "urn:f", "xmlns": "urn:none"})
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	if p.String() != path {
		t.Errorf("%s prints as %s", path, p)
	}
	r := &run{}
	value, err := p.evaluate(r, root)
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	canceled, cancel := context.WithCancel(context.Background())
	cancel()
	for most := range r.steps {
		_, err := p.evaluate(&run{steps: StepsMax - most}, root)
		checkStatus(t, fmt.Sprintf("%s with %d steps", path, most), err, status.ProcessingError, "XPath steps")
		_, err = p.evaluate(&run{context: canceled, steps: contextEvery - most - 1}, root)
		checkStatus(t, fmt.Sprintf("%s with a context that ends at step %d", path, most+1), err, status.ProcessingError, "")
	}
	return value, r.steps
}

// TestInvalidXPath compares the errors of texts that are no expressions of
// XPath 1.0 with testdata/invalid-xpath.txt.
func TestInvalidXPath(t *testing.T) {
	t.Parallel()
	testInvalid(t, "testdata/invalid-xpath.txt", func(path string) error {
		_, err := Compile(path, map[string]string{"p": "urn:p", "q": "urn:q"})
		return err
	})
}

// testInvalid compares the error of each quoted text of a file with the line after
// it.
func testInvalid(t *testing.T, file string, f func(text string) error) {
	t.Helper()
	script, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for line := range strings.Lines(string(script)) {
		text, err := strconv.Unquote(strings.TrimSpace(line))
		switch {
		case strings.HasPrefix(line, "\t"):
			continue
		case err != nil:
			out.WriteString(line)
			continue
		}
		err = f(text)
		if checkStatus(t, text, err, status.SyntaxError, ""); err != nil {
			fmt.Fprintf(&out, "%s\t%s\n", line, strconv.QuoteToASCII(err.Error()))
		}
	}
	golden.Equal(t, file, out.String())
}

// TestArguments compiles a call of each function with up to five arguments, and
// lists the functions by the numbers that they accept.
func TestArguments(t *testing.T) {
	t.Parallel()
	got := map[string][]string{}
	for _, name := range slices.Sorted(maps.Keys(functions)) {
		accepted := ""
		for n := range 6 {
			call := name + "(" + strings.TrimSuffix(strings.Repeat("a,", n), ",") + ")"
			if _, err := Compile(call, nil); err == nil {
				accepted += strconv.Itoa(n)
			} else {
				checkStatus(t, call, err, status.SyntaxError, "")
			}
		}
		got[accepted] = append(got[accepted], name)
	}
	want := map[string][]string{
		"0":    {"false", "last", "position", "true"},
		"01":   {"local-name", "name", "namespace-uri", "normalize-space", "number", "string", "string-length"},
		"1":    {"boolean", "ceiling", "count", "floor", "id", "lang", "not", "round", "sum"},
		"2":    {"contains", "starts-with", "substring-after", "substring-before"},
		"23":   {"substring"},
		"2345": {"concat"},
		"3":    {"translate"},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("functions by their numbers of arguments:\n%v\nexpected\n%v", got, want)
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

// TestInvalidXML compares the errors of texts that are no Content documents with
// testdata/invalid-xml.txt.
func TestInvalidXML(t *testing.T) {
	t.Parallel()
	testInvalid(t, "testdata/invalid-xml.txt", func(text string) error {
		root, err := Parse([]byte(text))
		if root != nil {
			t.Errorf("%q: a document and the error %v", text, err)
		}
		return err
	})
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
		{"content depth", deep(200), deep(201)},
		{"content nodes", wide(200_000), wide(200_001)},
		{"content nodes", `<a x=""/>` + strings.Repeat("<!---->", 199_998), `<a x="" y=""/>` + strings.Repeat("<!---->", 199_998)},
		{"content bytes", "<a>" + strings.Repeat("x", 4_194_304-7) + "</a>", "<a>" + strings.Repeat("x", 4_194_304-6) + "</a>"},
		{"content namespaces", spaces(63), spaces(64)},
	} {
		if _, err := Parse([]byte(c.at)); err != nil {
			t.Errorf("at the bound %s: %v", c.bound, err)
		}
		_, err := Parse([]byte(c.above))
		checkStatus(t, "above "+c.bound, err, status.SyntaxError, c.bound)
	}
	parentheses := func(n int) string { return strings.Repeat("(", n-1) + "a" + strings.Repeat(")", n-1) }
	for _, c := range []struct{ bound, at, above string }{
		{"XPath bytes", strings.Repeat("a", 4096), strings.Repeat("a", 4097)},
		{"XPath nesting", parentheses(100), parentheses(101)},
	} {
		if _, err := Compile(c.at, nil); err != nil {
			t.Errorf("at the bound %s: %v", c.bound, err)
		}
		_, err := Compile(c.above, nil)
		checkStatus(t, "above "+c.bound, err, status.SyntaxError, c.bound)
	}
	half := strings.Repeat("x", 2_097_152)
	for extra, want := range map[string]string{"": "", "y": "XPath text bytes"} {
		root := parse(t, "<a>"+half+"</a>")
		p, err := Compile("string-length(concat(a, a, '"+extra+"'))", nil)
		if err != nil {
			t.Fatal(err)
		}
		_, err = p.evaluate(&run{}, root)
		var e *status.Error
		if errors.As(err, &e); (e == nil) != (want == "") || e != nil && e.Bound != want {
			t.Errorf("concat of %d bytes: %v, expected the bound %q", textBytesMax+len(extra), err, want)
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
	if err := r.count(1_048_576); err != nil {
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
	root, err := parseFragment([]byte(" <n:a><b/>1&amp;<![CDATA[2<]]>3</n:a> "), map[string]string{"n": "urn:n", "": "urn:d"})
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
