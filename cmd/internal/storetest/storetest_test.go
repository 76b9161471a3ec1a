package storetest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/door/openfga/language"
	"github.com/ostiary/ostiary/expr/cel"
	"github.com/ostiary/ostiary/internal/workshop/failing"
)

func engine(t *testing.T) *ostiary.Engine {
	t.Helper()
	e, err := ostiary.Open(context.Background(), ostiary.Options{Conditions: cel.New(cel.Options{})})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

// TestExamples: the project's own store tests pass.
func TestExamples(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../../../examples/*.fga.yaml")
	more, err2 := filepath.Glob("../../../examples/*/*.fga.yaml")
	if err != nil || err2 != nil || len(files)+len(more) < 2 {
		t.Fatal(files, more, err, err2)
	}
	e := engine(t)
	for _, name := range append(files, more...) {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		f, err := Parse(text)
		if err != nil {
			t.Fatal(name, err)
		}
		report, err := Run(context.Background(), e, f, os.DirFS(filepath.Dir(name)))
		if err != nil || !report.Passed() || len(report.Tests) == 0 {
			t.Errorf("%s: %v %+v", name, err, report)
		}
	}
}

const head = `
model: |
  model
    schema 1.1
  type user
  type doc
    relations
      define viewer: [user]
`

// TestStoresAreRemoved: a run leaves no store behind, whether its tests pass or fail,
// a tuple is refused, or the context ends.
func TestStoresAreRemoved(t *testing.T) {
	t.Parallel()
	e := engine(t)
	for _, tests := range []string{
		"tests: []\n",
		"tests: [{name: a, check: [{user: 'user:1', object: 'doc:1', assertions: {viewer: true}}]}]\n",
		"tests: [{name: a, tuples: [{user: 'doc:1', relation: viewer, object: 'doc:1'}]}]\n",
	} {
		f, err := Parse([]byte(head + tests))
		if err != nil {
			t.Fatal(err)
		}
		for ends, ended := 0, true; ended; ends++ {
			ctx := failing.EndAfter(t.Context(), ends)
			_, err := Run(ctx, e, f, fstest.MapFS{})
			if ended = ctx.Ended(); ended && !errors.Is(err, context.Canceled) {
				t.Errorf("%s: the context ended at its use %d, but the error is %v", tests, ends, err)
			}
			for info := range e.Stores(t.Context(), (*new(ostiary.CreateStoreRequest)).ID) {
				t.Fatalf("%s: store %s is left", tests, info.ID)
			}
		}
	}
}

// TestStorageFails makes each operation of the storage fail while a file runs.
func TestStorageFails(t *testing.T) {
	t.Parallel()
	for _, tests := range []string{"tuples: [{user: 'user:1', relation: viewer, object: 'doc:1'}]\n", "tests: [{name: a, check: [{user: 'user:1', object: 'doc:1', assertions: {viewer: false}}]}]\n"} {
		f, err := Parse([]byte(head + tests))
		if err != nil {
			t.Fatal(err)
		}
		failing.Each(t, func(t *testing.T, d *failing.Driver) failing.Scenario {
			e, err := ostiary.Open(t.Context(), ostiary.Options{Driver: d, Conditions: cel.New(cel.Options{})})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { e.Close() })
			return failing.Scenario{InSteps: true, Call: func() (string, error) {
				r, err := Run(t.Context(), e, f, fstest.MapFS{})
				text := fmt.Sprintf("%+v", r)
				if strings.Contains(text, "Got:error: "+failing.ErrInjected.Error()) {
					return "", failing.ErrInjected // a question that fails is in the result, with its error
				}
				return text, err
			}}
		})
	}
}

// TestBounds checks the values of the bounds, and each at its value and one above.
func TestBounds(t *testing.T) {
	t.Parallel()
	if got, want := [...]int{FileBytesMax, QuestionsMax, TuplesMax}, [...]int{16 << 20, 100_000, 200_000}; got != want {
		t.Errorf("bounds %v, want %v", got, want)
	}
	questions := func(users int) string {
		return head + "tests: [{name: a, check: [{users: [" + strings.Repeat("'user:1',", users/2) + "], objects: [" + strings.Repeat("'doc:1',", 100) + "], assertions: {viewer: true, editor: true}}]}]\n"
	}
	comment := func(bytes int) string { return head + strings.Repeat("#", bytes-len(head)) }
	for _, c := range []struct{ at, above string }{
		{comment(FileBytesMax), comment(FileBytesMax + 1)},
		{questions(QuestionsMax / 100), questions(QuestionsMax/100 + 2)},
	} {
		if _, err := Parse([]byte(c.at)); err != nil {
			t.Errorf("at a bound: %v", err)
		}
		if _, err := Parse([]byte(c.above)); !errors.Is(err, ErrBound) || errors.Is(err, ErrFile) {
			t.Errorf("above a bound: %v", err)
		}
	}
	const header, line = "user_type,user_id,relation,object_type,object_id\n", "u,1,r,d,1\n"
	fsys := fstest.MapFS{"t.csv": {Data: []byte(header + strings.Repeat(line, TuplesMax/2))}, "one.csv": {Data: []byte(header + line)}}
	if got, err := ReadTuples(fsys, []string{"t.csv", "./t.csv"}); err != nil || len(got) != TuplesMax {
		t.Error(len(got), err)
	}
	if _, err := ReadTuples(fsys, []string{"t.csv", "t.csv", "one.csv"}); !errors.Is(err, ErrBound) {
		t.Error(err)
	}
}

// TestReadModel compares the text of a model with its file, and reads a model at the
// bound of the language and one byte above.
func TestReadModel(t *testing.T) {
	t.Parallel()
	const dsl = "model\n  schema 1.1\ntype user\n"
	long := dsl + strings.Repeat("\n", language.SourceBytesMax-len(dsl))
	const object = `{"schema_version":"1.1","type_definitions":[{"type":"user"}]}`
	fsys := fstest.MapFS{"a.fga": {Data: []byte(dsl)}, "a.json": {Data: []byte(object)}, "at.fga": {Data: []byte(long)}, "above.fga": {Data: []byte(long + "\n")}}
	for file, want := range map[string]string{"": dsl, "a.fga": dsl, "a.json": object, "at.fga": long, "above.fga": ""} {
		f := &File{ModelFile: file}
		if file == "" {
			f.Model = dsl
		}
		m, text, err := f.ReadModel(fsys)
		if want == "" {
			if !errors.Is(err, language.ErrBound) {
				t.Errorf("%s: %v", file, err)
			}
		} else if err != nil || string(text) != want || len(m.Types) != 1 {
			t.Errorf("%q: %.100s, %v", file, text, err)
		}
	}
}

// FuzzParse parses any text. A file that parses can be run.
func FuzzParse(f *testing.F) {
	files, err := filepath.Glob("../../../examples/*.fga.yaml")
	if err != nil || len(files) == 0 {
		f.Fatalf("no store tests in examples: %v", err)
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Add([]byte(head + "tests: [{name: a, tuples: [{user: 'user:1', relation: viewer, object: 'doc:1'}], check: [{user: 'user:1', object: 'doc:1', assertions: {viewer: true}}]}]\n"))
	f.Fuzz(func(t *testing.T, src []byte) {
		file, err := Parse(src)
		if err != nil {
			return
		}
		again, err := Parse(src)
		if err != nil || fmt.Sprintf("%+v", file) != fmt.Sprintf("%+v", again) {
			t.Fatal("two readings differ", err)
		}
		e, err := ostiary.Open(context.Background(), ostiary.Options{Conditions: cel.New(cel.Options{})})
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		Run(context.Background(), e, file, fstest.MapFS{})
	})
}
