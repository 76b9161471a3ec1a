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
	"github.com/ostiary/ostiary/expr/cel"
	"github.com/ostiary/ostiary/rel"
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

// TestStoresAreRemoved: a run leaves nothing behind, passed or not.
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
		Run(context.Background(), e, f, fstest.MapFS{})
		for info := range e.Stores(context.Background(), (*new(ostiary.CreateStoreRequest)).ID) {
			t.Errorf("%s: store %s is left", tests, info.ID)
		}
	}
}

func TestRefused(t *testing.T) {
	t.Parallel()
	users := func(n int) string {
		return "tests: [{name: a, check: [{users: [" + strings.Repeat("'user:1',", n) + "], objects: [" + strings.Repeat("'doc:1',", 100) + "], assertions: {viewer: true}}]}]\n"
	}
	for _, c := range []struct {
		src  string
		kind error
	}{
		{"", ErrFile},
		{"name: x", ErrFile},
		{head + "model_file: x.fga", ErrFile},
		{head + "tests: [{name: a, check: [{user: 'user:1', assertions: {viewer: true}}]}]", ErrFile},
		{head + "tests: [{name: a, check: [{object: 'doc:1', assertions: {viewer: true}}]}]", ErrFile},
		{head + "tests: [{name: a, check: [{user: 'user:1', object: 'doc:1'}]}]", ErrFile},
		{head + "tests: [{name: a, check: [{user: 'user:1', object: 'doc:1', assertions: {viewer: perhaps}}]}]", ErrFile},
		{head + "tests: [{name: a, check: [{user: 'user:1', object: 'doc:1', assertions: {viewer: true, viewer: false}}]}]", ErrFile},
		{head + "tests: [{name: a, check: [{user: anne, object: 'doc:1', assertions: {viewer: true}}]}]", rel.ErrName},
		{head + "tests: [{name: a, list_users: [{object: 'doc:1', user_filter: [], assertions: {viewer: {users: []}}}]}]", ErrFile},
		{head + "tests: [{name: a, list_users: [{object: 'doc:1', user_filter: [{type: user}], assertions: {viewer: ['user:1']}}]}]", ErrFile},
		{head + "tuples: [{user: 'user:1', relation: viewer, object: 'doc:1', expires: soon}]", ErrFile},
		{head + "---\n" + head, ErrFile},
		{strings.Repeat("#", FileBytesMax+1), ErrBound},
		{head + users(QuestionsMax/100+1), ErrBound},
	} {
		if _, err := Parse([]byte(c.src)); !errors.Is(err, c.kind) {
			t.Errorf("%.300s\n%v", c.src, err)
		}
	}
	for _, at := range []string{head + users(QuestionsMax/100), head + strings.Repeat("#", FileBytesMax-len(head))} {
		if _, err := Parse([]byte(at)); err != nil {
			t.Errorf("at a bound: %v", err)
		}
	}
}

func TestTuplesBound(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	text.WriteString("user_type,user_id,relation,object_type,object_id\n")
	for range TuplesMax / 2 {
		text.WriteString("u,1,r,d,1\n")
	}
	fsys := fstest.MapFS{"t.csv": {Data: []byte(text.String())}, "one.csv": {Data: []byte("user_type,user_id,relation,object_type,object_id\nu,1,r,d,1\n")}}
	if got, err := ReadTuples(fsys, []string{"t.csv", "./t.csv"}); err != nil || len(got) != TuplesMax {
		t.Error(len(got), err)
	}
	if _, err := ReadTuples(fsys, []string{"t.csv", "t.csv", "one.csv"}); !errors.Is(err, ErrBound) {
		t.Error(err)
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
