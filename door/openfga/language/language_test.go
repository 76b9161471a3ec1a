package language

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/ostiary/ostiary/expr/cel"
	"github.com/ostiary/ostiary/internal/workshop/golden"
	"github.com/ostiary/ostiary/schema"
)

// TestScripts runs testdata/*.txtar. Each has model files and, in the file
// "want", the expected result: the errors, or the model's JSON and DSL.
func TestScripts(t *testing.T) {
	t.Parallel()
	golden.Each(t, "testdata/*.txtar", 1, func(t *testing.T, file string) {
		golden.Script(t, file, play)
	})
}

// play reads each model of a script, a modular one from each folder that has an "fga.mod",
// and returns the results.
func play(script []byte) string {
	files := txtar.Parse(script).Files
	var out strings.Builder
	fsys := fstest.MapFS{}
	for _, f := range files {
		fsys[f.Name] = &fstest.MapFile{Data: f.Data}
	}
	for _, f := range files {
		folder, _, _ := strings.Cut(f.Name, "/")
		mod := folder + "/" + ModFile
		if f.Name != mod && fsys[mod] != nil {
			continue // a part of a modular model
		}
		read := ParseDSL
		switch {
		case f.Name == mod:
			read = func([]byte) (*schema.Model, []byte, error) {
				sub, err := fs.Sub(fsys, folder)
				if err != nil {
					return nil, nil, err
				}
				return ParseModules(sub)
			}
		case strings.HasSuffix(f.Name, ".json"):
			read = ParseJSON
		}
		fmt.Fprintf(&out, "# %s\n", f.Name)
		m, text, err := read(f.Data)
		report(&out, m, text, err)
	}
	return out.String()
}

func report(out *strings.Builder, m *schema.Model, text []byte, err error) {
	if err == nil {
		_, err = schema.Compile(m, cel.New(cel.Options{}))
	}
	if err != nil {
		fmt.Fprintf(out, "%v\n", err)
		return
	}
	fmt.Fprintf(out, "%s\n", text)
	dsl, err := FormatDSL(m)
	if err != nil {
		fmt.Fprintf(out, "%v\n", err)
		return
	}
	out.WriteString(dsl)
}

func dsl(relations string) string {
	return "model\n  schema 1.1\ntype user\ntype group\n  relations\n    define member: [user, group#member]\ntype doc\n  relations\n" + relations
}

func TestOptions(t *testing.T) {
	t.Parallel()
	m, _, err := ParseDSL([]byte(dsl("    define viewer: [user]\n")))
	if err != nil {
		t.Fatal(err)
	}
	want := schema.Options{Dialect: "openfga", MissingContextFails: true, StrictTuplesets: true, RequireEntrypoints: true}
	if m.Options != want {
		t.Errorf("%+v", m.Options)
	}
}

func TestBounds(t *testing.T) {
	t.Parallel()
	nested := func(n int) string {
		return dsl("    define a: [user]\n    define b: " + strings.Repeat("a or (", n) + "a and a" + strings.Repeat(")", n) + "\n")
	}
	types := func(n int) string {
		s := "model\n  schema 1.1\n"
		for i := range n {
			s += fmt.Sprintf("type t%d\n", i)
		}
		return s
	}
	jsonDepth := func(n int) string { // an unknown field, which is refused for its nesting alone
		return `{"schema_version":"1.1","type_definitions":[{"type":"user"}],"x":` + strings.Repeat("[", n-1) + strings.Repeat("]", n-1) + "}"
	}
	union := func(n int) string { // n+1 operators deep
		return `{"schema_version":"1.1","type_definitions":[{"type":"user"},{"type":"doc","relations":{"a":` +
			strings.Repeat(`{"union":{"child":[{"this":{}},`, n) + `{"this":{}}` + strings.Repeat(`]}}`, n) +
			`},"metadata":{"relations":{"a":{"directly_related_user_types":[{"type":"user"}]}}}}]}`
	}
	full := func(over int) string {
		head := types(1)
		return head + strings.Repeat("#x\n", (SourceBytesMax-len(head)-3)/3) + strings.Repeat("\n", (SourceBytesMax-len(head))%3+3+over)
	}
	long := func(over int) string {
		head := "    define b: a #"
		return dsl("    define a: [user]\n" + head + strings.Repeat("x", lineBytesMax-len(head)-1+over) + "\n")
	}
	conditions := func(n int) string { return types(1) + strings.Repeat("condition c() {\ntrue\n}\n", n) }
	condition := func(over int) string {
		head := "condition c() {"
		return types(1) + head + "\n" + strings.Repeat(" \n", 100) + strings.Repeat("x", conditionBytesMax-len(head)-103+over) + "}\n"
	}
	weight := func(n int) string { // two open where one just did: 4 + 9
		return types(1) + strings.Repeat("    define a: (((b)))\n", n)
	}
	modules := func(n int) error {
		mod := "schema: '1.2'\ncontents:\n"
		fsys := fstest.MapFS{}
		for i := range n {
			name := fmt.Sprintf("m%d.fga", i)
			mod += "  - " + name + "\n"
			fsys[name] = &fstest.MapFile{Data: []byte("module m\n")}
		}
		fsys["m0.fga"] = &fstest.MapFile{Data: []byte("module m\ntype user\n")}
		fsys[ModFile] = &fstest.MapFile{Data: []byte(mod)}
		_, _, err := ParseModules(fsys)
		return err
	}
	text := func(read func([]byte) (*schema.Model, []byte, error), s string) error {
		_, _, err := read([]byte(s))
		return err
	}
	small := Bounds{Types: 3, ModelBytes: 23}
	for name, on := range map[string]error{ // texts within these bounds fail for other reasons
		"conditions": text(ParseDSL, conditions(conditionsMax+1)),
		"condition":  text(ParseDSL, condition(1)),
		"weight":     text(ParseDSL, weight(nestingWeightMax/13+1)),
	} {
		if !errors.Is(on, ErrBound) {
			t.Errorf("%s: above the bound: %v", name, on)
		}
	}
	for name, at := range map[string]error{
		"conditions": text(ParseDSL, conditions(conditionsMax)),
		"condition":  text(ParseDSL, condition(0)),
		"weight":     prescanDSL([]byte(weight(nestingWeightMax/13)), SourceBytesMax),
	} {
		if errors.Is(at, ErrBound) {
			t.Errorf("%s: at the bound: %v", name, at)
		}
	}
	for _, c := range []struct {
		name   string
		at, on error
	}{
		{"line", text(ParseDSL, long(0)), text(ParseDSL, long(1))},
		{"text", text(ParseDSL, full(0)), text(ParseDSL, full(1))},
		{"JSON text", text(ParseJSON, jsonDepth(3)+strings.Repeat(" ", SourceBytesMax-len(jsonDepth(3)))), text(ParseJSON, strings.Repeat(" ", SourceBytesMax+1))},
		{"parentheses", text(ParseDSL, nested(nestingMax)), text(ParseDSL, nested(nestingMax+1))},
		{"JSON nesting", text(ParseJSON, jsonDepth(jsonNestingMax)), text(ParseJSON, jsonDepth(jsonNestingMax+1))},
		{"types", text(ParseDSL, types(100)), text(ParseDSL, types(101))},
		{"types, set", text(small.ParseDSL, types(3)), text(small.ParseDSL, types(4))},
		{"bytes, set", text(small.ParseDSL, types(3)), text(small.ParseDSL, "model\n  schema 1.1\ntype abcdefghijklmnopqrst\n")},
		{"rewrite depth", text(ParseJSON, union(schema.RewriteDepthMax-1)), text(ParseJSON, union(schema.RewriteDepthMax))},
		{"files", modules(filesMax), modules(filesMax + 1)},
	} {
		if c.at != nil {
			t.Errorf("%s: at the bound: %v", c.name, c.at)
		}
		if !errors.Is(c.on, ErrBound) || !errors.Is(c.on, schema.ErrBound) || !errors.Is(c.on, schema.ErrModel) {
			t.Errorf("%s: above the bound: %v", c.name, c.on)
		}
	}
}

func TestHostile(t *testing.T) {
	t.Parallel()
	for name, src := range map[string]string{
		"100,000 parentheses":    dsl("    define a: " + strings.Repeat("(", 100_000) + "\n"),
		"100,000 brackets":       dsl("    define a: " + strings.Repeat("[", 100_000) + "\n"),
		"100,000 empty lines":    strings.Repeat("\n", 100_000),
		"not UTF-8":              "model\xff",
		"nothing":                "",
		"half a definition":      dsl("    define a: b from"),
		"half a restriction":     dsl("    define a: [user#"),
		"half a condition":       dsl("    define a: [user]\n") + "condition c(",
		"a relation in no type":  "model\n  schema 1.1\n    define a: [user]\n",
		"a JSON model":           `{"schema_version":"1.1"}`,
		"a closing parenthesis":  dsl("    define a: b)\n"),
		"many wrong lines":       strings.Repeat("x y z\n", 5_000),
		"union of 10,000, wrong": dsl("    define a: [user]" + strings.Repeat(" or b", 10_000) + "\n"),
	} {
		_, _, err := ParseDSL([]byte(src))
		if err == nil || !errors.Is(err, schema.ErrModel) {
			if m, _, err2 := ParseDSL([]byte(src)); err2 == nil {
				_, err = schema.Compile(m, nil)
			}
			if !errors.Is(err, schema.ErrModel) {
				t.Errorf("%s: %v", name, err)
			}
		} else if len(err.Error()) > 20_000 {
			t.Errorf("%s: an error of %d bytes", name, len(err.Error()))
		}
	}
	for name, src := range map[string]string{
		"100,000 objects":  strings.Repeat(`{"a":`, 100_000),
		"a list":           `[]`,
		"nothing":          ``,
		"null rewrite":     `{"schema_version":"1.1","type_definitions":[{"type":"d","relations":{"a":{}}}]}`,
		"null difference":  `{"schema_version":"1.1","type_definitions":[{"type":"d","relations":{"a":{"difference":{}}}}]}`,
		"empty union":      `{"schema_version":"1.1","type_definitions":[{"type":"d","relations":{"a":{"union":{}}}}]}`,
		"version of ours":  `{"schema_version":"1.0","type_definitions":[{"type":"d"}]}`,
		"no types":         `{"schema_version":"1.1"}`,
		"half a parameter": `{"schema_version":"1.1","type_definitions":[{"type":"d"}],"conditions":{"c":{"name":"c","expression":"true","parameters":{"p":{"type_name":"TYPE_NAME_LIST"}}}}}`,
	} {
		if _, _, err := ParseJSON([]byte(src)); !errors.Is(err, schema.ErrModel) {
			t.Errorf("JSON, %s: %v", name, err)
		}
	}
}

func TestErrorPlaces(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		src          string
		kind         error
		line, column int
	}{
		{dsl("    define viewer: [user\n"), ErrSyntax, 9, 25},
		{dsl("    define this: [user]\n"), ErrReserved, 9, 12},
		{dsl("    define a: b\n    define b: a or [user]\n"), ErrSyntax, 10, 20},
		{dsl("    define a: b\n    define b: [user] or a\n"), ErrCycle, 9, 12},
		{dsl("    define a: a or [user]\n"), ErrSyntax, 9, 20},
		{dsl("    define a: [user] or a\n"), ErrRewrite, 9, 12},
		{dsl("    define b: [user]\ntype user\n"), ErrDuplicate, 3, 6},
		{strings.Replace(dsl("    define b: [user]\n"), "1.1", "1.0", 1), ErrVersion, 0, 0},
		{"model\n  schema 1.1\ncondition a(x: int) {\n  x == 1\ntype user\n", ErrSyntax, 5, 1},
		{"model\n  schema 1.1\ncondition a(x: int) {\n" + strings.Repeat("  x == 1 ||\n", 500), ErrBound, 258, 1},
		{"model\n  schema 1.1\n" + strings.Repeat("condition a(x: int) {\n  x == 1\n}\n", 26), ErrBound, 78, 1},
		{"model\n  schema 1.1\n#" + strings.Repeat("x", 64<<10), ErrBound, 3, 1},
	} {
		_, _, err := ParseDSL([]byte(c.src))
		var e *Error
		if !errors.As(err, &e) || e.Kind != c.kind || e.Line != c.line || e.Column != c.column {
			t.Errorf("%s\nwant %v at %d:%d, got %v", c.src, c.kind, c.line, c.column, err)
		}
	}
}

// TestInexpressible formats models with parts that this dialect does not have.
func TestInexpressible(t *testing.T) {
	t.Parallel()
	model := func(r schema.Rewrite) *schema.Model {
		return &schema.Model{Types: []schema.TypeDef{{Name: "d", Relations: []schema.RelationDef{
			{Name: "p", Rewrite: schema.Direct(), Subjects: []schema.SubjectType{{Type: "d"}}}, {Name: "a", Rewrite: r}}}}}
	}
	namespaced := model(schema.Computed("p"))
	namespaced.Namespace = "n"
	attributes := model(schema.Computed("p"))
	attributes.Types[0].Attributes = []schema.AttributeDef{{Name: "x"}}
	for name, m := range map[string]*schema.Model{
		"namespace":           namespaced,
		"attributes":          attributes,
		"attribute":           model(schema.Rewrite{Op: schema.OpAttribute, Attribute: "x"}),
		"rule":                model(schema.Rewrite{Op: schema.OpRule}),
		"arrow to expression": model(schema.Rewrite{Op: schema.OpArrow, Relation: "p", Children: []schema.Rewrite{schema.Union(schema.Computed("p"), schema.Computed("a"))}}),
		"broken":              model(schema.Rewrite{Op: 77}),
		"broken exclusion":    model(schema.Rewrite{Op: schema.OpExclusion}),
	} {
		if _, err := FormatDSL(m); !errors.Is(err, ErrInexpressible) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := FormatJSON(m); !errors.Is(err, ErrInexpressible) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// JSON can express this, the DSL cannot.
	second := model(schema.Exclusion(schema.Computed("p"), schema.Direct()))
	second.Types[0].Relations[1].Subjects = []schema.SubjectType{{Type: "d"}}
	if _, err := FormatDSL(second); !errors.Is(err, ErrInexpressible) {
		t.Error(err)
	}
	if _, err := FormatJSON(second); err != nil {
		t.Error(err)
	}
}

func FuzzDSL(f *testing.F) {
	for _, s := range seeds(f, ".fga") {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		m, text, err := ParseDSL(src)
		if err != nil {
			return
		}
		roundTrip(t, m, text)
	})
}

func FuzzJSON(f *testing.F) {
	for _, s := range seeds(f, ".json") {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		m, text, err := ParseJSON(src)
		if err != nil {
			return
		}
		roundTrip(t, m, text)
	})
}

// seeds are the models of the scripts.
func seeds(f *testing.F, suffix string) (out [][]byte) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		f.Fatalf("no scripts in testdata: %v", err)
	}
	for _, file := range files {
		archive, err := txtar.ParseFile(file)
		if err != nil {
			f.Fatal(err)
		}
		for _, a := range archive.Files {
			if strings.HasSuffix(a.Name, suffix) {
				out = append(out, a.Data)
			}
		}
	}
	return out
}

// roundTrip compares a model with those read from its canonical JSON, and from
// the JSON and the DSL printed from it.
func roundTrip(t *testing.T, m *schema.Model, text []byte) {
	t.Helper()
	back, _, err := ParseJSON(text)
	if err != nil || !reflect.DeepEqual(m, back) {
		t.Fatalf("its canonical JSON gives %v\n%+v\n%+v\n%s", err, m, back, text)
	}
	printed, err := FormatJSON(m)
	if err != nil {
		t.Fatal(err)
	}
	back, _, err = ParseJSON(printed)
	if err != nil || !reflect.DeepEqual(m, back) {
		t.Fatalf("the JSON printed gives %v\n%+v\n%+v", err, m, back)
	}
	dsl, err := FormatDSL(m)
	if errors.Is(err, ErrInexpressible) {
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	again, _, err := ParseDSL([]byte(dsl))
	if err != nil || !sameMeaning(m, again) {
		t.Fatalf("its DSL gives %v\n%s", err, dsl)
	}
	// The DSL of a modular model has version 1.2 but no modules, so it is printed as
	// version 1.1 the second time.
	dsl = strings.Replace(dsl, "schema 1.2", "schema 1.1", 1)
	if dsl2, err := FormatDSL(again); err != nil || dsl2 != dsl {
		t.Fatalf("printing twice differs: %v\n%s\n%s", err, dsl, dsl2)
	}
}
