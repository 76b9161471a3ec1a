package literal

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/ostiary/ostiary/internal/tool/jsonread"
	"github.com/ostiary/ostiary/internal/tool/xmlread"
	"github.com/ostiary/ostiary/policy/value"
)

// TestNamespaces checks that namespaces are read back as they were written, and
// which are refused.
func TestNamespaces(t *testing.T) {
	t.Parallel()
	for want, spaces := range map[string]map[string]string{
		`[]`:                                   {},
		`[{"Prefix":"a","Namespace":"urn:a"}]`: {"a": "urn:a"},
		`[{"Prefix":"a","Namespace":"urn:a"},{"Prefix":"b","Namespace":"urn:\"b\""}]`: {"b": `urn:"b"`, "a": "urn:a"},
		`[{"Prefix":"","Namespace":"urn:x"},{"Prefix":"a","Namespace":"urn:a"}]`:      {"": "urn:x", "a": "urn:a"},
	} {
		got := string(AppendJSONNamespaces(nil, spaces))
		r := jsonread.New([]byte(got))
		if back := ReadJSONNamespaces(r); got != want || r.End() != nil || !maps.Equal(back, spaces) {
			t.Errorf("%s, %v, %v, want %s", got, back, r.End(), want)
		}
	}
	for text, want := range map[string]string{
		`[{"Prefix":"a"}]`: "a namespace without Namespace", `[{"Prefix":"a","Namespace":""}]`: "a namespace without Namespace",
		`[{"Prefix":"a","Namespace":"u"},{"Prefix":"a","Namespace":"v"}]`: "a prefix with two namespaces", `[{"Namespace":"u"},{"Prefix":"","Namespace":"v"}]`: "a prefix with two namespaces",
		`[{"prefix":"a","Namespace":"u"}]`: "unknown member", `{}`: "expected",
	} {
		r := jsonread.New([]byte(text))
		if ReadJSONNamespaces(r); r.End() == nil || !strings.Contains(r.End().Error(), want) {
			t.Errorf("%s: %v, want %q", text, r.End(), want)
		}
	}
	x := value.NewXPath(value.XPath{Path: "/a:b", Category: "c", Namespaces: map[string]string{"a": "urn:a", "b": "urn:<b>", "1": "urn:c"}})
	const want = ` DataType="urn:oasis:names:tc:xacml:3.0:data-type:xpathExpression" XPathCategory="c" xmlns:a="urn:a" xmlns:b="urn:&lt;b>"`
	if got := string(AppendXMLAttributes(nil, x)); strings.ReplaceAll(got, "&gt;", ">") != want {
		t.Errorf("%s", got)
	}
}

// TestBooleans checks the texts of XML booleans, and the error of any other text.
func TestBooleans(t *testing.T) {
	t.Parallel()
	long, wide := strings.Repeat("x", 101), strings.Repeat("é", 51)
	for text, want := range map[string]string{
		"true": "true", "1": "true", "false": "false", "0": "false", "": `invalid n ""`, "TRUE": `invalid n "TRUE"`,
		long: `"` + long[:100] + `…"`, long[:100]: `"` + long[:100] + `"`, wide: `"` + strings.Repeat("é", 50) + `…"`, "x" + wide: `"x` + strings.Repeat("é", 49) + `…"`,
	} {
		r := xmlread.New([]byte("<a/>"))
		r.Root()
		got := ReadXMLBoolean(r, "n", text)
		if r.Failed() != (len(want) > 5) || !r.Failed() && fmt.Sprint(got) != want || r.Failed() && (got || !strings.Contains(r.End().Error(), want)) {
			t.Errorf("%q: %v, %v, want %s", text, got, r.End(), want)
		}
	}
}
