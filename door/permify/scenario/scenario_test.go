package scenario

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	ostiary "github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/door/permify/language"
	"github.com/ostiary/ostiary/expr/cel"
)

const sample = `schema: |
  entity user {}
  entity doc {
    relation viewer @user
    attribute level integer
    permission view = viewer
    permission high = enough(level)
  }
  rule enough(level integer) { level >= context.data.least }
relationships: ["doc:1#viewer@user:anne"]
attributes: ["doc:1$level|integer:3"]
scenarios:
  - name: one
    checks:
      - entity: "doc:1"
        subject: "user:anne"
        context: {data: {least: 3}}
        assertions: {view: true, high: true}
    entity_filters:
      - {entity_type: doc, subject: "user:anne", assertions: {view: ["1"]}}
    subject_filters:
      - {subject_reference: user, entity: "doc:1", assertions: {view: ["anne"]}}
`

func engine(t *testing.T) *ostiary.Engine {
	t.Helper()
	e, err := ostiary.Open(t.Context(), ostiary.Options{Conditions: cel.New(cel.Options{}), Bounds: ostiary.Bounds{Depth: DepthMax}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

func TestRun(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, from, to string
		passed         bool
		text           string
	}{
		{"unchanged", "", "", true, ""},
		{"a wrong decision", "view: true", "view: false", false, "check doc:1 view user:anne: want denied, got allowed"},
		{"a missing entity", `["1"]`, `["1", "2"]`, false, "entities doc view user:anne: want [1, 2], got [1]"},
		{"a missing subject", `["anne"]`, `[]`, false, "subjects doc:1 view user: want [], got [anne]"},
		{"an unknown permission", "view: true", "edit: true", false, "got error: ERROR_CODE_PERMISSION_NOT_FOUND"},
		{"a missing context", "{data: {least: 3}}", "{}", false, "got error: rule enough on doc:1: no such key: least"},
		{"a malformed context", "{data: {least: 3}}", `{tuples: ["doc:1"]}`, false, `got error: malformed relationship "doc:1"`},
		{"a malformed tuple", "doc:1#viewer@user:anne", "doc:1#viewer", false, `relationship doc:1#viewer: malformed relationship "doc:1#viewer"`},
		{"a malformed attribute", "doc:1$level|integer:3", "doc:1$level|integer:x", false, "malformed attribute"},
		{"a depth too small", `subject: "user:anne"
        context`, `subject: "user:anne"
        depth: 2
        context`, false, "Depth: value must be greater than or equal to 3"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f, err := Parse([]byte(strings.Replace(sample, c.from, c.to, 1)))
			if err != nil {
				t.Fatal(err)
			}
			r, err := Run(t.Context(), engine(t), f, f.Schema)
			if err != nil {
				t.Fatal(err)
			}
			text := strings.Join(r.Problems, "\n")
			for _, a := range r.Answers {
				if !a.Passed() {
					text += a.Question + ": want " + a.Want + ", got " + a.Got + "\n"
				}
			}
			if r.Passed() != c.passed || !strings.Contains(text, c.text) {
				t.Errorf("passed %v: %s", r.Passed(), text)
			}
		})
	}
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"an unknown key": "schema: x\nrelations: []", "two documents": "schema: x\n---\nschema: y", "a list": "- x",
		"nothing": "", "no YAML": "\x00", "too much": "schema: " + strings.Repeat("x", FileBytesMax),
	} {
		if _, err := Parse([]byte(text)); !errors.Is(err, ErrFile) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := Parse([]byte("schema: " + strings.Repeat("x", FileBytesMax-8))); err != nil {
		t.Errorf("at the bound: %v", err)
	}
}

func TestReference(t *testing.T) {
	t.Parallel()
	for schema, want := range map[string]string{
		"": "", "entity user {}": "", "a.perm": "a.perm", " https://x/y ": "https://x/y", "entity\nuser": "",
	} {
		f := File{Schema: schema}
		if got, ok := f.Reference(); got != want || ok != (want != "") {
			t.Errorf("%q: %q %v", schema, got, ok)
		}
	}
}

func TestCover(t *testing.T) {
	t.Parallel()
	f, err := Parse([]byte(sample))
	if err != nil {
		t.Fatal(err)
	}
	s, err := language.Parse(strings.Replace(f.Schema, "relation viewer @user", "relation viewer @user @doc#viewer", 1))
	if err != nil {
		t.Fatal(err)
	}
	c := Cover(f, s)
	if c.Relationships != 50 || c.Attributes != 100 || c.Assertions != 100 || len(c.Entities) != 2 ||
		!reflect.DeepEqual(c.Entities[0].Relationships.Missing, []string{"doc#viewer@doc#viewer"}) {
		t.Errorf("%+v", c)
	}
}

// FuzzParse checks that Parse accepts or rejects every text without a panic, and
// that an accepted file can be written and parsed again.
func FuzzParse(f *testing.F) {
	f.Add([]byte(sample))
	f.Add([]byte("scenarios: [{checks: [{depth: 3, context: {data: {a: [1, 2.5, {b: null}]}}}]}]"))
	f.Add([]byte("schema: &a x\nrelationships: [*a, *a]"))
	f.Fuzz(func(t *testing.T, text []byte) {
		file, err := Parse(text)
		if err != nil {
			if !errors.Is(err, ErrFile) {
				t.Fatal(err)
			}
			return
		}
		again, err := yaml.Marshal(file)
		if err != nil {
			t.Skip() // a value that the YAML library reads but cannot write
		}
		second, err := Parse(again)
		if err != nil {
			t.Fatalf("%q is written as %q: %v", text, again, err)
		}
		if third, err := yaml.Marshal(second); err != nil || string(third) != string(again) {
			t.Fatalf("%q is written as %q, then as %q (%v)", text, again, third, err)
		}
	})
}
