// Package storetest reads and runs OpenFGA's store-test files (".fga.yaml"): a
// model, tuples, and what check, list objects and list users should answer.
// Its main types are File and Report. It opens only the files that a test file
// names, through the file system that it is given.
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

	"github.com/ostiary/ostiary/door/openfga/language"
	"github.com/ostiary/ostiary/door/openfga/tuplefile"
	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/schema"
)

// Bounds on files. One more is refused with ErrBound.
const (
	FileBytesMax = 16 << 20
	// QuestionsMax bounds the questions of a file, each user with each object.
	QuestionsMax = 100_000
	// TuplesMax bounds the tuples of a file with those of the files it names.
	TuplesMax = 200_000
)

var (
	// ErrFile: the text is not a store-test file.
	ErrFile = errors.New("not a store-test file")
	// ErrBound: a bound of this package was passed.
	ErrBound = errors.New("store-test bound passed")
)

// File is a store-test file.
type File struct {
	Name string
	// Model is a DSL text; or else ModelFile names a file (".fga", ".json",
	// "fga.mod") relative to this one.
	Model, ModelFile string
	Tuples           []rel.Tuple
	TupleFiles       []string
	Tests            []Test
}

// Test is one of a file's tests. Its tuples are added to the file's.
type Test struct {
	Name, Description string
	Tuples            []rel.Tuple
	TupleFiles        []string
	Checks            []Check
	ListObjects       []ListObjects
	ListUsers         []ListUsers
}

// Check asks for each user, each object and each relation.
type Check struct {
	Users      []rel.Subject
	Objects    []rel.Object
	Context    expr.Values
	Assertions []Assertion[bool]
}

// ListObjects asks for each relation.
type ListObjects struct {
	User       rel.Subject
	Type       string
	Context    expr.Values
	Assertions []Assertion[[]string]
}

// ListUsers asks for each relation.
type ListUsers struct {
	Object rel.Object
	// Type and Relation are the one user filter.
	Type, Relation string
	Context        expr.Values
	Assertions     []Assertion[[]string]
}

// Assertion is what a relation should give.
type Assertion[T any] struct {
	Relation string
	Want     T
}

// fileText, testText and so on are the file's own form.
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

// Parse reads a store-test file. A field that is not known is refused.
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
		return nil, errors.New("it has one of model and model_file")
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
			return fmt.Errorf("list_users has %d user filters in place of 1", len(l.UserFilter))
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
				return nil, fmt.Errorf("line %d: an assertion of list_users is a mapping with users alone", n.Line)
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
		return nil, fmt.Errorf("a check without %s", what)
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

// assertions reads a mapping in its order. inner, if set, takes each value to
// the part that is wanted.
func assertions[T any](n *yaml.Node, inner func(*yaml.Node) (*yaml.Node, error)) (out []Assertion[T], err error) {
	if n.Kind != yaml.MappingNode || len(n.Content) == 0 {
		return nil, fmt.Errorf("line %d: assertions are a mapping from relations", n.Line)
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

// ReadModel reads the file's model. The second result is its text.
func (f *File) ReadModel(fsys fs.FS) (*schema.Model, []byte, error) {
	if f.Model != "" {
		m, _, err := language.ParseDSL([]byte(f.Model))
		return m, []byte(f.Model), err
	}
	name := path.Clean(f.ModelFile)
	if path.Base(name) == language.ModFile {
		return language.ParseModules(below{fsys, path.Dir(name)})
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

// below is a folder of a file system, which may, unlike fs.Sub's, be above it:
// test files name "../model.fga" where the caller's file system admits it.
type below struct {
	fsys fs.FS
	dir  string
}

func (b below) Open(name string) (fs.File, error) { return b.fsys.Open(path.Join(b.dir, name)) }

func read(fsys fs.FS, name string, most int64) ([]byte, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, most))
}

// ReadTuples reads the named tuple files, in their order.
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
