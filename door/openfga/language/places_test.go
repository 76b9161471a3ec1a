package language

import (
	"errors"
	"io/fs"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/schema"
)

// TestConditionStrings checks that quotation marks and braces inside the strings
// of a condition do not end it. The condition after it must be found.
func TestConditionStrings(t *testing.T) {
	t.Parallel()
	const second = "condition d(b: string) {\n  b == \"1\"\n}\n"
	for _, body := range []string{
		`a == "}"`, `a == '}'`, `a == "'}"`, `a == '"}'`, `a == "\"}"`, `a == '\'}'`, `a == "\\"`, `a == r"\"`, `a == R'\'`, `a == """a"b}"""`, `a == '''a'b}'''`,
		`a == """a""}"""`, `a == "" || a == ''`, `a == "r" || a == 'R'`, "a == \"\"\"}\n}\"\"\"", `a == """" """`, `a == r"""\""" || a == "}"`, `a != "{"`,
	} {
		src := dsl("    define x: [user with c, user with d]\n") + "condition c(a: string) {\n  " + body + "\n}\n" + second
		m, _, err := ParseDSL([]byte(src))
		if err != nil || len(m.Conditions) != 2 {
			t.Errorf("%s: %v", body, err)
		}
		if err := prescanDSL([]byte(src), len(src)); err != nil {
			t.Errorf("%s: prescan: %v", body, err)
		}
	}
	// A string with single quotation marks ends with its line, also if it is open.
	for _, body := range []string{`a == "x`, `a == 'x`, `a == r"x`} {
		src := dsl("    define x: [user with c]\n") + "condition c(a: string) {\n  " + body + "\n}\n" + second
		if err := prescanDSL([]byte(src), len(src)); err != nil {
			t.Errorf("%s: %v", body, err)
		}
	}
	for _, body := range []string{`a == "}`, `a == """}`, `a == '''}''`, `a == r"\`} {
		src := dsl("    define x: [user with c]\n") + "condition c(a: string) {\n  " + body + "\n" + second
		if err := prescanDSL([]byte(src), len(src)); err == nil {
			t.Errorf("%s: an open condition is accepted", body)
		}
	}
}

// TestDeepRelations checks that of two relations that are too deep only the first
// is reported, before any step that recurses.
func TestDeepRelations(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat(`{"union":{"child":[`, schema.RewriteDepthMax+1) + `{"this":{}}` + strings.Repeat(`]}}`, schema.RewriteDepthMax+1)
	_, _, err := ParseJSON([]byte(`{"schema_version":"1.1","type_definitions":[{"type":"d","relations":{"a":` + deep + `,"b":` + deep + `}}]}`))
	count := 0
	each(err, func(*Error) { count++ })
	if !errors.Is(err, ErrBound) || count != 1 {
		t.Errorf("%d errors: %v", count, err)
	}
}

// TestJSONErrorPlaces checks the line and column of errors in JSON.
func TestJSONErrorPlaces(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		src          string
		line, column int
	}{
		{"x", 1, 1}, {" x", 1, 2}, {"{\n  \"schema_version\": x}", 2, 21}, {"{\n\n\"ä\": x}", 3, 6}, {"{\"schema_version\":\"1.1\"}\nx", 2, 1},
	} {
		_, _, err := ParseJSON([]byte(c.src))
		var e *Error
		if !errors.As(err, &e) || e.Kind != ErrSyntax || e.Line != c.line || e.Column != c.column {
			t.Errorf("%q: %+v, want %d:%d", c.src, e, c.line, c.column)
		}
	}
}

// TestLocate checks that an error gets a place only if it has none, also if its
// place is the first line.
func TestLocate(t *testing.T) {
	t.Parallel()
	src := []byte("model\ntype user\ntype doc\n  relations\n    define a: [user]\n")
	known := &Error{Type: "doc", Relation: "a", Line: 1, Column: 7}
	if known.locate(src) || known.Line != 1 || known.Column != 7 {
		t.Errorf("a known place is replaced: %+v", known)
	}
	for want, e := range map[[2]int]*Error{{5, 12}: {Type: "doc", Relation: "a"}, {3, 6}: {Type: "doc"}, {0, 0}: {Type: "group"}} {
		if e.locate(src) != (want[0] > 0) || e.Line != want[0] || e.Column != want[1] {
			t.Errorf("%+v, want %v", e, want)
		}
	}
	if none := (&Error{Text: "of the whole model"}); none.locate(src) {
		t.Errorf("an error of no part has a place: %+v", none)
	}
}

// TestSameMeaning checks that the place of "this" does not matter in a union or
// intersection, and matters in an exclusion.
func TestSameMeaning(t *testing.T) {
	t.Parallel()
	model := func(r schema.Rewrite) *schema.Model {
		return &schema.Model{Types: []schema.TypeDef{{Name: "d", Relations: []schema.RelationDef{{Name: "a", Rewrite: r}}}}}
	}
	this, b := schema.Direct(), schema.Computed("b")
	for name, c := range map[string]struct {
		x, y schema.Rewrite
		want bool
	}{
		"union":        {schema.Union(this, b), schema.Union(b, this), true},
		"intersection": {schema.Intersection(this, b), schema.Intersection(b, this), true},
		"exclusion":    {schema.Exclusion(this, b), schema.Exclusion(b, this), false},
		"operators":    {schema.Union(this, b), schema.Intersection(this, b), false},
		"others":       {schema.Union(b, schema.Computed("c")), schema.Union(schema.Computed("c"), b), false},
	} {
		if got := sameMeaning(model(c.x), model(c.y)); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// TestSameConditions checks that the order of relations, conditions and parameters does
// not matter, and that everything else does.
func TestSameConditions(t *testing.T) {
	t.Parallel()
	model := func(change func(*schema.Model)) *schema.Model {
		m := &schema.Model{
			Types: []schema.TypeDef{{Name: "d", Relations: []schema.RelationDef{
				{Name: "a", Rewrite: schema.Direct(), Subjects: []schema.SubjectType{{Type: "d"}, {Type: "d", Relation: "b"}}}, {Name: "b", Rewrite: schema.Computed("a")}}}, {Name: "e"}},
			Conditions: []expr.Definition{
				{Name: "c", Source: "x", Params: []expr.Param{{Name: "x", Type: expr.Type{Kind: expr.Bool}}, {Name: "y", Type: expr.Type{Kind: expr.Int}}}},
				{Name: "d", Source: "true"}},
		}
		change(m)
		return m
	}
	same := model(func(*schema.Model) {})
	for name, c := range map[string]struct {
		change func(*schema.Model)
		want   bool
	}{
		"order of relations":   {func(m *schema.Model) { slices.Reverse(m.Types[0].Relations) }, true},
		"order of conditions":  {func(m *schema.Model) { slices.Reverse(m.Conditions) }, true},
		"order of parameters":  {func(m *schema.Model) { slices.Reverse(m.Conditions[0].Params) }, true},
		"module and file":      {func(m *schema.Model) { m.Types[0].Module, m.Conditions[0].File = "m", "f" }, true},
		"order of types":       {func(m *schema.Model) { slices.Reverse(m.Types) }, false},
		"name of a type":       {func(m *schema.Model) { m.Types[1].Name = "f" }, false},
		"name of a relation":   {func(m *schema.Model) { m.Types[0].Relations[0].Name = "f" }, false},
		"restriction":          {func(m *schema.Model) { m.Types[0].Relations[0].Subjects[1].Relation = "a" }, false},
		"rewrite":              {func(m *schema.Model) { m.Types[0].Relations[1].Rewrite = schema.Computed("b") }, false},
		"name of a condition":  {func(m *schema.Model) { m.Conditions[1].Name = "e" }, false},
		"source":               {func(m *schema.Model) { m.Conditions[1].Source = "false" }, false},
		"name of a parameter":  {func(m *schema.Model) { m.Conditions[0].Params[0].Name = "z" }, false},
		"type of a parameter":  {func(m *schema.Model) { m.Conditions[0].Params[1].Type = expr.Type{Kind: expr.Bool} }, false},
		"number of parameters": {func(m *schema.Model) { m.Conditions[0].Params = m.Conditions[0].Params[:1] }, false},
	} {
		before := model(c.change)
		other := model(c.change)
		if got := sameMeaning(same, other); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
		if !reflect.DeepEqual(before, other) {
			t.Errorf("%s: the comparison changed the model", name)
		}
	}
}

// countingFS counts its open files.
type countingFS struct {
	fs.FS
	open *int
}

func (c countingFS) Open(name string) (fs.File, error) {
	f, err := c.FS.Open(name)
	if err == nil {
		*c.open++
		f = countedFile{f, c.open}
	}
	return f, err
}

type countedFile struct {
	fs.File
	open *int
}

func (c countedFile) Close() error {
	*c.open--
	return c.File.Close()
}

// TestModuleFiles checks that every file of a modular model is closed, that its
// relations keep their file, and where the errors of two files are.
func TestModuleFiles(t *testing.T) {
	t.Parallel()
	files := fstest.MapFS{
		"fga.mod":  {Data: []byte("schema: '1.2'\ncontents:\n  - core.fga\n  - more.fga\n")},
		"core.fga": {Data: []byte("module core\ntype user\ntype doc\n  relations\n    define a: [user]\n")},
		"more.fga": {Data: []byte("module more\nextend type doc\n  relations\n    define b: [user]\n")},
	}
	open := 0
	m, text, err := ParseModules(countingFS{files, &open})
	if err != nil || open != 0 {
		t.Fatalf("%v, %d files are open", err, open)
	}
	if again, _, err := ParseJSON(text); err != nil || again.Types[1].Relations[1].File != "more.fga" || m.Types[1].Relations[1].File != "more.fga" {
		t.Errorf("the file is lost: %v\n%s", err, text)
	}
	if again, err := FormatJSON(m); err != nil || string(again) != string(text) {
		t.Errorf("%v: the model prints as\n%s\nwant\n%s", err, again, text)
	}
	for _, c := range []struct {
		more, want string
	}{
		{"module more\nextend type doc\n  relations\n    define a: [user]\n", "more.fga:4:12"},
		{"module more\ntype doc\n", "more.fga:2:6"},
		{"module more\nextend type group\n  relations\n    define a: [user]\n", "more.fga:2:13"},
		{"module more\nextend  type  group\n  relations\n    define a: [user]\n", "more.fga:1:1"},
	} {
		files["more.fga"].Data = []byte(c.more)
		if _, _, err := ParseModules(files); err == nil || !strings.HasPrefix(err.Error(), c.want) && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want it at %s", c.more, err, c.want)
		}
	}
}
