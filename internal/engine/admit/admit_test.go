package admit

import (
	"errors"
	"strings"
	"testing"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/schema"
)

// TestNumberBounds checks attributes at the largest and smallest values of the
// types of whole numbers, and one beyond them.
func TestNumberBounds(t *testing.T) {
	t.Parallel()
	def := &schema.Type{Name: "doc", Attributes: map[string]expr.Type{"int": {Kind: expr.Int}, "uint": {Kind: expr.Uint}}}
	for _, c := range []struct {
		name, value string
		ok          bool
	}{
		{"int", "9223372036854775807", true}, {"int", "9223372036854775808", false}, {"int", `"9223372036854775808"`, false},
		{"int", "-9223372036854775808", true}, {"int", "-9223372036854775809", false}, {"int", "9.223372036854775808e18", false},
		{"int", "1e3", true}, {"int", "1.5", false}, {"int", "null", false}, {"int", "1e999", false},
		{"uint", "0", true}, {"uint", "-1", false}, {"uint", "18446744073709551615", true}, {"uint", "18446744073709551616", false},
		{"uint", `"18446744073709551615"`, true}, {"uint", "1.8446744073709551616e19", false},
	} {
		got, err := AttributeValue(def, &rel.Attribute{Object: rel.Object{Type: "doc", ID: "1"}, Name: c.name, Value: c.value})
		if (err == nil) != c.ok || c.ok && got == "null" {
			t.Errorf("%s %s: got %q, %v; expected it to be accepted: %v", c.name, c.value, got, err, c.ok)
		}
	}
}

// TestAttributeValues checks a value of each type, and the canonical form that is
// stored.
func TestAttributeValues(t *testing.T) {
	t.Parallel()
	text := &expr.Type{Kind: expr.String}
	types := map[string]expr.Type{
		"any": {Kind: expr.Any}, "bool": {Kind: expr.Bool}, "string": {Kind: expr.String}, "double": {Kind: expr.Double},
		"list": {Kind: expr.List, Elem: text}, "items": {Kind: expr.List}, "map": {Kind: expr.Map, Elem: text}, "members": {Kind: expr.Map},
		"duration": {Kind: expr.Duration}, "time": {Kind: expr.Timestamp}, "ip": {Kind: expr.IPAddress}, "none": {Kind: 99},
		"int": {Kind: expr.Int},
	}
	def := &schema.Type{Name: "doc", Attributes: types}
	long := "1" + strings.Repeat("0", 400)
	for _, c := range []struct{ name, value, want string }{
		{"any", `{"b": [1, null], "a": "x"}`, `{"a":"x","b":[1,null]}`}, {"any", "null", "null"},
		{"bool", "true", "true"}, {"bool", " false ", "false"}, {"bool", `"true"`, ""}, {"bool", "1", ""},
		{"string", `"a"`, `"a"`}, {"string", `""`, `""`}, {"string", "1", ""},
		{"double", "1.5", "1.5"}, {"double", `"1.5"`, `"1.5"`}, {"double", "1e999", ""}, {"double", `"NaN"`, ""}, {"double", `"Inf"`, ""}, {"double", `"-Inf"`, ""}, {"int", `"-Inf"`, ""}, {"double", "true", ""},
		{"list", `["a", "b"]`, `["a","b"]`}, {"list", "[]", "[]"}, {"list", `["a", 1]`, ""}, {"list", `[1, "a"]`, ""}, {"list", `"a"`, ""}, {"list", "{}", ""},
		{"items", `["a", 1]`, `["a",1]`}, {"map", `{"a": "b"}`, `{"a":"b"}`}, {"map", `{"a": 1}`, ""}, {"map", `{"a": "b", "c": 1}`, ""}, {"map", "[]", ""},
		{"members", `{"a": 1}`, `{"a":1}`},
		{"duration", `"1h30m"`, `"1h30m"`}, {"duration", `"1x"`, ""}, {"duration", "5", ""},
		{"time", `"2026-01-02T15:04:05.5Z"`, `"2026-01-02T15:04:05.5Z"`}, {"time", `"2026-01-02"`, ""}, {"time", "1", ""},
		{"ip", `"10.0.0.1"`, `"10.0.0.1"`}, {"ip", `"::1"`, `"::1"`}, {"ip", `"10.0.0"`, ""}, {"ip", "10", ""},
		{"none", `"a"`, ""}, {"unknown", "1", ""},
		{"int", "5]", ""}, {"int", "5}", ""}, {"int", "5 6", ""}, {"int", "", ""}, {"int", "5,", ""}, {"int", " 5\n", "5"}, {"int", "abc", ""}, {"int", `"abc"`, ""},
		{"int", "1" + strings.Repeat("0", 18), "1" + strings.Repeat("0", 18)}, {"int", `"0` + strings.Repeat("0", 399) + `"`, `"` + strings.Repeat("0", 400) + `"`},
		{"int", `"` + strings.Repeat("0", 401) + `"`, ""}, {"double", long, ""},
	} {
		got, err := AttributeValue(def, &rel.Attribute{Object: rel.Object{Type: "doc", ID: "1"}, Name: c.name, Value: c.value})
		if got != c.want || (err == nil) != (c.want != "") || err != nil && !errors.Is(err, authz.ErrInvalidTuple) {
			t.Errorf("%s %.40s: got %q, %v; want %q", c.name, c.value, got, err, c.want)
		}
	}
}

// TestAttributeKeys checks the names of attributes and of their objects.
func TestAttributeKeys(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		typ, id, name string
		ok            bool
	}{{"doc", "1", "level", true}, {"", "1", "level", false}, {"doc", "", "level", false}, {"doc", "1", "", false}, {"doc", "1", "a b", false}, {"doc", "1", "a#b", false}} {
		err := AttributeKey(&rel.Attribute{Object: rel.Object{Type: c.typ, ID: c.id}, Name: c.name})
		if (err == nil) != c.ok {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// TestContexts checks the stored context of a tuple.
func TestContexts(t *testing.T) {
	t.Parallel()
	s := &schema.Schema{Conditions: map[string]*schema.Condition{"c": {Definition: expr.Definition{Name: "c",
		Params: []expr.Param{{Name: "ip", Type: expr.Type{Kind: expr.IPAddress}}, {Name: "n", Type: expr.Type{Kind: expr.Int}},
			{Name: "list", Type: expr.Type{Kind: expr.List, Elem: &expr.Type{Kind: expr.Int}}}}}}}}
	for context, text := range map[string]string{
		`{"n":1}`: "", `{"ip":"10.0.0.1","n":1}`: "", `{}`: "expected canonical JSON",
		`{"n":"x"}`: `parameter "n" of condition c: "x" is not a whole number`, `{"ip":1}`: `parameter "ip" of condition c: 1 is not an IP address such as "192.0.2.1"`,
		`{"n":true}`: "expected a whole number, got true or false", `{"n":1.5}`: "1.5 is not a whole number", `{"list":[1,"x"]}`: "expected a list of int", `{"list":{}}`: "expected a list, got an object", `{"m":1}`: `condition c has no parameter "m"`,
		`{"n":1,"ip":"10.0.0.1"}`: "expected canonical JSON", `{"n": 1}`: "expected canonical JSON",
		`null`: "expected a JSON object", `[]`: "expected a JSON object", `{`: "expected a JSON object", `{"n":1}}`: "expected a JSON object", `{"n":1}{}`: "expected a JSON object",
	} {
		err := Context(s, &rel.Tuple{Object: rel.Object{Type: "doc", ID: "1"}, Relation: "viewer", Subject: rel.Subject{Type: "user", ID: "a"}, Condition: "c", Context: context})
		if text == "" && err != nil || text != "" && (err == nil || !strings.Contains(err.Error(), text) || !errors.Is(err, authz.ErrInvalidTuple)) {
			t.Errorf("%s: %v, want %q", context, err, text)
		}
	}
}

// TestTuples checks tuples that no schema may admit, and contexts.
func TestTuples(t *testing.T) {
	t.Parallel()
	for _, ordinary := range []bool{false, true} {
		s, err := schema.Compile(&schema.Model{Options: schema.Options{StarIsOrdinary: ordinary}, Types: []schema.TypeDef{{Name: "user"}, {Name: "doc", Relations: []schema.RelationDef{
			{Name: "viewer", Rewrite: schema.Direct(), Subjects: []schema.SubjectType{{Type: "user"}, {Type: "doc", Relation: "viewer"}}},
			{Name: "editor", Rewrite: schema.Direct(), Subjects: []schema.SubjectType{{Type: "doc", Relation: "viewer"}}}}}}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		for text, want := range map[string]string{
			"doc:1#viewer@user:a": "", "doc:1#viewer@doc:2#viewer": "", "doc:1#editor@doc:1#viewer": "",
			"doc:1#viewer@doc:1#viewer": "the same userset", "doc:*#viewer@user:a": "the object is a wildcard", "doc:1#viewer@group:1": "", "doc:1#owner@user:a": "",
		} {
			tuple, err := rel.Parse(text)
			if err != nil {
				t.Fatal(err)
			}
			err = Tuple(s, &tuple)
			refused := want != "" && !(ordinary && strings.HasPrefix(text, "doc:*")) || strings.Contains(text, "group") || strings.Contains(text, "owner")
			if refused != (err != nil) || refused && !strings.Contains(err.Error(), want) {
				t.Errorf("%s, a star is ordinary %v: %v, want %q", text, ordinary, err, want)
			}
		}
		tuple := rel.Tuple{Object: rel.Object{Type: "doc", ID: "1"}, Relation: "viewer", Subject: rel.Subject{Type: "user", ID: "a"}, Context: "broken"}
		if err := Context(&schema.Schema{Conditions: map[string]*schema.Condition{"": {}}}, &tuple); err == nil {
			t.Error("a broken context is admitted")
		}
	}
}
