package scenario

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	"go.yaml.in/yaml/v3"

	ostiary "github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/door/permify/language"
	"github.com/ostiary/ostiary/expr/cel"
	"github.com/ostiary/ostiary/internal/workshop/failing"
	"github.com/ostiary/ostiary/internal/workshop/golden"
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

// engine returns an engine without data, whose pages have two items at most.
func engine(t *testing.T) *ostiary.Engine {
	t.Helper()
	e, err := ostiary.Open(t.Context(), ostiary.Options{Conditions: cel.New(cel.Options{}), Bounds: authz.Bounds{Depth: DepthMax, PageItems: 2}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

// TestScripts runs the validation files (".yaml") of testdata/*.txtar and compares
// their coverage, problems and answers with the file "want".
func TestScripts(t *testing.T) {
	t.Parallel()
	golden.Each(t, "testdata/*.txtar", 1, func(t *testing.T, script string) {
		golden.Script(t, script, func(text []byte) string {
			var out strings.Builder
			for _, file := range txtar.Parse(text).Files {
				fmt.Fprintf(&out, "# %s\n", file.Name)
				play(t, &out, file.Data)
			}
			return strings.ReplaceAll(out.String(), "\u00a0", " ") // protobuf writes either
		})
	})
}

// play prints the result of a validation file.
func play(t *testing.T, out *strings.Builder, text []byte) {
	t.Helper()
	f, err := Parse(text)
	if err != nil {
		fmt.Fprintf(out, "error: %v\n", err)
		return
	}
	if s, err := language.Parse(f.Schema); err == nil {
		c := Cover(f, s)
		fmt.Fprintf(out, "covered: %d %% of relationships, %d %% of attributes, %d %% of assertions\n", c.Relationships, c.Attributes, c.Assertions)
		for _, e := range c.Entities {
			for _, p := range []Part{e.Relationships, e.Attributes, e.Assertions} {
				fmt.Fprintf(out, "\t%s: %d of %d, %d %%, not %q\n", e.Name, p.Covered, p.All, p.Percent(), p.Missing)
			}
		}
	}
	r, err := Run(t.Context(), engine(t), f, f.Schema)
	if err != nil {
		fmt.Fprintf(out, "error: %v\n", err)
		return
	}
	fmt.Fprintf(out, "passed %t\n", r.Passed())
	for _, p := range r.Problems {
		fmt.Fprintf(out, "\tproblem: %s\n", p)
	}
	for _, a := range r.Answers {
		fmt.Fprintf(out, "\t%d %q passed %t: %s: want %s, got %s\n", a.Scenario, a.Name, a.Passed(), a.Question, a.Want, a.Got)
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

// TestEnds ends the context of a run at each of its uses.
func TestEnds(t *testing.T) {
	t.Parallel()
	f, err := Parse([]byte(sample))
	if err != nil {
		t.Fatal(err)
	}
	for _, schema := range []string{f.Schema, "entity user"} {
		for ends, ended := 0, true; ended; ends++ {
			ctx := failing.EndAfter(t.Context(), ends)
			_, err := Run(ctx, engine(t), f, schema)
			if ended = ctx.Ended(); ended != errors.Is(err, context.Canceled) || !ended && err != nil {
				t.Errorf("the context ended at its use %d: %t, but the error is %v", ends, ended, err)
			}
		}
	}
}

// TestStorageFails makes each operation of the storage fail while a file runs.
func TestStorageFails(t *testing.T) {
	t.Parallel()
	f, err := Parse([]byte(sample))
	if err != nil {
		t.Fatal(err)
	}
	failing.Each(t, func(t *testing.T, d *failing.Driver) failing.Scenario {
		e, err := ostiary.Open(t.Context(), ostiary.Options{Driver: d, Conditions: cel.New(cel.Options{}), Bounds: authz.Bounds{Depth: DepthMax}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { e.Close() })
		return failing.Scenario{InSteps: true, Call: func() (string, error) {
			r, err := Run(t.Context(), e, f, f.Schema)
			if err == nil && !r.Passed() {
				err = fmt.Errorf("%+v", r)
			}
			return fmt.Sprintf("%+v", r), err
		}}
	})
}

// TestBounds checks the values of the bounds and of the default.
func TestBounds(t *testing.T) {
	t.Parallel()
	if got, want := [...]int{FileBytesMax, DepthMax, DepthDefault}, [...]int{4 << 20, 1000, 100}; got != want {
		t.Errorf("bounds %v, want %v", got, want)
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
