// Package storetest reads and runs OpenFGA's store-test files (".fga.yaml"). Such
// a file has a model, tuples, and the expected results of check, list objects and
// list users. [Parse] returns a [File], and [Run] runs it and returns a [Report].
// The package opens only the files that a test file names, in the file system
// that the caller passes.
package storetest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/ostiary/ostiary/cmd/internal/tuplefile"
	"github.com/ostiary/ostiary/door/openfga/language"
	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/schema"
)

// Bounds on files. One more is refused with [ErrBound].
const (
	// FileBytesMax bounds a store-test file, in bytes.
	FileBytesMax = 16 << 20
	// QuestionsMax bounds the checks of a file. A check of several users and objects
	// counts once for each user with each object and each relation.
	QuestionsMax = 100_000
	// TuplesMax bounds the tuples that [ReadTuples] reads in one call.
	TuplesMax = 200_000
)

var (
	// ErrFile is a text that is not a store-test file.
	ErrFile = errors.New("not a store-test file")
	// ErrBound is a file beyond a bound of this package.
	ErrBound = errors.New("store-test bound exceeded")
)

// File is a store-test file.
type File struct {
	// Name is the name in the file, or "" if the file has none.
	Name string
	// Model is a model in the DSL, or "" if ModelFile is set.
	Model string
	// ModelFile is the path of a model (".fga", ".json" or "fga.mod"), relative to
	// the store-test file, or "" if Model is set.
	ModelFile string
	// Tuples are the tuples in the file itself. They apply to all tests.
	Tuples []rel.Tuple
	// TupleFiles are paths of files with more tuples, relative to the store-test
	// file. Package tuplefile reads them.
	TupleFiles []string
	// Tests are the tests in their order.
	Tests []Test
}

// Test is one of a file's tests.
type Test struct {
	// Name and Description are for people, and may be "".
	Name, Description string
	// Tuples are added to those of the file, for this test.
	Tuples []rel.Tuple
	// TupleFiles are like [File].TupleFiles, for this test.
	TupleFiles []string
	// Checks, ListObjects and ListUsers are the questions, which are asked in this
	// order.
	Checks      []Check
	ListObjects []ListObjects
	ListUsers   []ListUsers
}

// Check checks each relation that it asserts for each user and each object.
type Check struct {
	// Users has at least one user.
	Users []rel.Subject
	// Objects has at least one object.
	Objects []rel.Object
	// Context holds the values of conditions' parameters, or is nil.
	Context expr.Values
	// Assertions are the expected results, one for each relation.
	Assertions []Assertion[bool]
}

// ListObjects lists objects, once for each relation that it asserts.
type ListObjects struct {
	// User is the subject that has the relation.
	User rel.Subject
	// Type is the type of the objects.
	Type string
	// Context holds the values of conditions' parameters, or is nil.
	Context expr.Values
	// Assertions are the expected objects, as "type:id", for each relation.
	Assertions []Assertion[[]string]
}

// ListUsers lists users, once for each relation that it asserts.
type ListUsers struct {
	// Object is the object on which the users have the relation.
	Object rel.Object
	// Type and Relation are the user filter. Relation is "" for plain users.
	Type, Relation string
	// Context holds the values of conditions' parameters, or is nil.
	Context expr.Values
	// Assertions are the expected users, as "type:id", "type:*" or
	// "type:id#relation", for each relation.
	Assertions []Assertion[[]string]
}

// Assertion is the expected result for a relation.
type Assertion[T any] struct {
	// Relation is the name of the relation.
	Relation string
	// Want is the expected result. A list has no order.
	Want T
}

// fileText, testText and the types below are the YAML form of a file.
type fileText struct {
	Name       string      `yaml:"name"`
	Model      string      `yaml:"model"`
	ModelFile  string      `yaml:"model_file"`
	Tuples     []yaml.Node `yaml:"tuples"`
	TupleFile  string      `yaml:"tuple_file"`
	TupleFiles []string    `yaml:"tuple_files"`
	Tests      []testText  `yaml:"tests"`
}

type testText struct {
	Name        string            `yaml:"name"`
	Description string            `yaml:"description"`
	Tuples      []yaml.Node       `yaml:"tuples"`
	TupleFile   string            `yaml:"tuple_file"`
	TupleFiles  []string          `yaml:"tuple_files"`
	Check       []checkText       `yaml:"check"`
	ListObjects []listObjectsText `yaml:"list_objects"`
	ListUsers   []listUsersText   `yaml:"list_users"`
}

type checkText struct {
	User       string    `yaml:"user"`
	Users      []string  `yaml:"users"`
	Object     string    `yaml:"object"`
	Objects    []string  `yaml:"objects"`
	Context    yaml.Node `yaml:"context"`
	Assertions yaml.Node `yaml:"assertions"`
}

type listObjectsText struct {
	User       string    `yaml:"user"`
	Type       string    `yaml:"type"`
	Context    yaml.Node `yaml:"context"`
	Assertions yaml.Node `yaml:"assertions"`
}

type listUsersText struct {
	Object     string           `yaml:"object"`
	UserFilter []userFilterText `yaml:"user_filter"`
	Context    yaml.Node        `yaml:"context"`
	Assertions yaml.Node        `yaml:"assertions"`
}

type userFilterText struct {
	Type     string `yaml:"type"`
	Relation string `yaml:"relation"`
}

// Parse reads a store-test file. It refuses unknown fields. It fails with
// [ErrFile] or [ErrBound].
func Parse(src []byte) (*File, error) {
	if len(src) > FileBytesMax {
		return nil, fmt.Errorf("%w: %d bytes, the maximum is %d", ErrBound, len(src), FileBytesMax)
	}
	var in fileText
	dec := yaml.NewDecoder(bytes.NewReader(src))
	dec.KnownFields(true)
	if err := dec.Decode(&in); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFile, err)
	}
	if err := dec.Decode(new(yaml.Node)); err != io.EOF {
		return nil, fmt.Errorf("%w: more than one document", ErrFile)
	}
	f, err := in.file()
	if err != nil && !errors.Is(err, ErrBound) {
		return nil, fmt.Errorf("%w: %w", ErrFile, err)
	}
	return f, err
}

func (in *fileText) file() (*File, error) {
	f := &File{Name: in.Name, Model: in.Model, ModelFile: in.ModelFile, TupleFiles: files(in.TupleFile, in.TupleFiles)}
	if (f.Model == "") == (f.ModelFile == "") {
		return nil, errors.New("expected exactly one of model and model_file")
	}
	var err error
	if f.Tuples, err = tuples(in.Tuples); err != nil {
		return nil, err
	}
	questions := 0
	for i := range in.Tests {
		t, err := in.Tests[i].test(&questions)
		if err != nil {
			return nil, fmt.Errorf("test %d (%q): %w", i+1, in.Tests[i].Name, err)
		}
		f.Tests = append(f.Tests, *t)
	}
	return f, nil
}

// files joins the two ways of naming one or several of something.
func files(one string, several []string) []string {
	if one == "" {
		return several
	}
	return append([]string{one}, several...)
}

func tuples(nodes []yaml.Node) (out []rel.Tuple, err error) {
	for i := range nodes {
		t, err := tuplefile.ReadNode(&nodes[i])
		if err != nil {
			return nil, fmt.Errorf("tuple %d: %w", i+1, err)
		}
		out = append(out, t)
	}
	return out, nil
}

func (in *testText) test(questions *int) (t *Test, err error) {
	t = &Test{Name: in.Name, Description: in.Description, TupleFiles: files(in.TupleFile, in.TupleFiles)}
	if t.Tuples, err = tuples(in.Tuples); err != nil {
		return nil, err
	}
	for _, c := range in.Check {
		out := Check{}
		if out.Users, err = parseAll(files(c.User, c.Users), "user", rel.ParseSubject); err != nil {
			return nil, err
		}
		if out.Objects, err = parseAll(files(c.Object, c.Objects), "object", rel.ParseObject); err != nil {
			return nil, err
		}
		if out.Context, err = tuplefile.Values(&c.Context); err != nil {
			return nil, err
		}
		if out.Assertions, err = assertions[bool](&c.Assertions, nil); err != nil {
			return nil, err
		}
		if *questions += len(out.Users) * len(out.Objects) * len(out.Assertions); *questions > QuestionsMax {
			return nil, fmt.Errorf("%w: more than %d questions", ErrBound, QuestionsMax)
		}
		t.Checks = append(t.Checks, out)
	}
	for _, l := range in.ListObjects {
		out := ListObjects{Type: l.Type}
		if out.User, err = rel.ParseSubject(l.User); err != nil {
			return nil, err
		}
		if out.Context, err = tuplefile.Values(&l.Context); err != nil {
			return nil, err
		}
		if out.Assertions, err = assertions[[]string](&l.Assertions, nil); err != nil {
			return nil, err
		}
		t.ListObjects = append(t.ListObjects, out)
	}
	return t, in.listUsers(t)
}

func (in *testText) listUsers(t *Test) (err error) {
	for _, l := range in.ListUsers {
		if len(l.UserFilter) != 1 {
			return fmt.Errorf("list_users has %d user filters, expected 1", len(l.UserFilter))
		}
		out := ListUsers{Type: l.UserFilter[0].Type, Relation: l.UserFilter[0].Relation}
		if out.Object, err = rel.ParseObject(l.Object); err != nil {
			return err
		}
		if out.Context, err = tuplefile.Values(&l.Context); err != nil {
			return err
		}
		users := func(n *yaml.Node) (*yaml.Node, error) {
			if n.Kind != yaml.MappingNode || len(n.Content) != 2 || n.Content[0].Value != "users" {
				return nil, fmt.Errorf("line %d: expected a mapping with users and nothing else as an assertion of list_users", n.Line)
			}
			return n.Content[1], nil
		}
		if out.Assertions, err = assertions[[]string](&l.Assertions, users); err != nil {
			return err
		}
		t.ListUsers = append(t.ListUsers, out)
	}
	return nil
}

func parseAll[T any](texts []string, what string, parse func(string) (T, error)) (out []T, err error) {
	if len(texts) == 0 {
		return nil, fmt.Errorf("a check has no %s", what)
	}
	for _, s := range texts {
		v, err := parse(s)
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	return out, nil
}

// assertions reads a mapping from relations in its order. If inner is set, it
// returns the part of each value that holds the expected result.
func assertions[T any](n *yaml.Node, inner func(*yaml.Node) (*yaml.Node, error)) (out []Assertion[T], err error) {
	if n.IsZero() {
		return nil, errors.New("a question has no assertions")
	}
	if n.Kind != yaml.MappingNode || len(n.Content) == 0 {
		return nil, fmt.Errorf("line %d: expected a mapping from relations as assertions", n.Line)
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		a, value := Assertion[T]{Relation: n.Content[i].Value}, n.Content[i+1]
		if seen[a.Relation] {
			return nil, fmt.Errorf("line %d: %q is asserted twice", n.Line, a.Relation)
		}
		seen[a.Relation] = true
		if inner != nil {
			if value, err = inner(value); err != nil {
				return nil, err
			}
		}
		if err := value.Decode(&a.Want); err != nil {
			return nil, err
		}
		out = append(out, a)
	}
	return out, nil
}

// ReadModel reads the file's model in fsys, the folder of the store-test file. It
// returns the model and its text, for a modular model its canonical JSON. Errors
// in the model are of type [*language.Error].
func (f *File) ReadModel(fsys fs.FS) (*schema.Model, []byte, error) {
	if f.Model != "" {
		m, _, err := language.ParseDSL([]byte(f.Model))
		return m, []byte(f.Model), err
	}
	name := path.Clean(f.ModelFile)
	if path.Base(name) == language.ModFile {
		return language.ParseModules(folder{fsys, path.Dir(name)})
	}
	text, err := read(fsys, name, language.SourceBytesMax+1)
	if err != nil {
		return nil, nil, err
	}
	if strings.HasSuffix(name, ".json") {
		m, _, err := language.ParseJSON(text)
		return m, text, err
	}
	m, _, err := language.ParseDSL(text)
	return m, text, err
}

// folder is a folder of a file system. Unlike that of [fs.Sub], it may be above
// the file system's root: store-test files name "../model.fga" where the caller's
// file system admits it.
type folder struct {
	fsys fs.FS
	dir  string
}

// Open opens a file of the folder.
func (f folder) Open(name string) (fs.File, error) { return f.fsys.Open(path.Join(f.dir, name)) }

// read reads at most bytesMax bytes of a file.
func read(fsys fs.FS, name string, bytesMax int64) ([]byte, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, bytesMax))
}

// ReadTuples reads the named tuple files in their order. The end of a name
// gives the format. It fails with [ErrBound] beyond TuplesMax, or with the error of
// package tuplefile.
func ReadTuples(fsys fs.FS, names []string) ([]rel.Tuple, error) {
	var out []rel.Tuple
	for _, name := range names {
		format, err := tuplefile.FormatOf(name)
		if err != nil {
			return nil, err
		}
		f, err := fsys.Open(path.Clean(name))
		if err != nil {
			return nil, err
		}
		for t, err := range tuplefile.Read(f, format) {
			if err == nil && len(out) >= TuplesMax {
				err = fmt.Errorf("%w: more than %d tuples", ErrBound, TuplesMax)
			}
			if err != nil {
				f.Close()
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			out = append(out, t)
		}
		f.Close()
	}
	return out, nil
}
