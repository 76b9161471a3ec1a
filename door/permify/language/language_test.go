package language

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/expr/cel"
	"github.com/ostiary/ostiary/schema"
)

const frame = `
entity user {}
entity org { relation admin @user
  relation member @user
  attribute open boolean
  attribute size integer }
entity doc {
  relation a @user
  relation b @user @org#member
  relation c @user
  relation d @user
  relation o @org
  attribute public boolean
  attribute level integer
  attribute tags string[]
  permission p = %s
}
rule high(level integer) { level > 3 && context.data.ok == "y}es" }
`

func types(m *schema.Model) string {
	text, err := json.Marshal(m.Types)
	if err != nil {
		panic(err)
	}
	return string(text)
}

func model(src string) (*schema.Model, error) {
	s, err := Parse(src)
	if err != nil {
		return nil, err
	}
	return s.Model()
}

// nested returns an expression with all its parentheses.
func nested(e *Expr) string {
	if e.Op == Leaf {
		return e.String()
	}
	return "(" + nested(e.Left) + " " + e.Op.String() + " " + nested(e.Right) + ")"
}

func TestPrecedence(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"a or b not c":              "((a or b) not c)",
		"a or b and c":              "((a or b) and c)",
		"a and b or c":              "((a and b) or c)",
		"a not b or c":              "((a not b) or c)",
		"a not b not c":             "((a not b) not c)",
		"a or (b or c) not d":       "((a or (b or c)) not d)",
		"a and b not c or d":        "(((a and b) not c) or d)",
		"a or\n\n b":                "(a or b)",
		"(\n a or b)":               "(a or b)",
		"o.admin or high(level)":    "(o.admin or high(level))",
		"((a))":                     "a",
		"a or /* x\n */ b // and c": "(a or b)",
	} {
		s, err := Parse(fmt.Sprintf(frame, text))
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		if got := nested(s.Entity("doc").Statement("p").Expr); got != want {
			t.Errorf("%q is %s, want %s", text, got, want)
		}
		if _, err := s.Model(); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestErrors(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ src, want string }{
		{"", "1:1: no entity references found in schema"},
		{"nothing here 1 2 3 ü", "1:1: no entity references found in schema"},
		{"/* open", "1:1: comment without closing */"},
		{fmt.Sprintf(frame, "not a"), "16:18: no prefix parse function for NOT found"},
		{fmt.Sprintf(frame, "a or not b"), "16:23: no prefix parse function for NOT found"},
		{fmt.Sprintf(frame, "o.admin.x"), "16:18: not supported relation walk"},
		{fmt.Sprintf(frame, "a\n or b"), `17:2: expected a relation, attribute or permission, found "or"`},
		{fmt.Sprintf(frame, "(a"), `16:20: expected ")", found a line break`},
		{fmt.Sprintf(frame, "a or"), `17:1: expected the name of a relation, permission, attribute or rule, found "}"`},
		{fmt.Sprintf(frame, "missing"), "16:18: undefined relation reference missing in doc"},
		{fmt.Sprintf(frame, "level"), "16:18: schema compile: attribute level of doc is not a boolean"},
		{fmt.Sprintf(frame, "o.size"), "16:18: schema compile: attribute size of org is not a boolean"},
		{fmt.Sprintf(frame, "o.missing"), "16:18: undefined relation reference missing in the subject types of doc#o"},
		{fmt.Sprintf(frame, "public.admin"), "16:18: not supported relation walk: public of doc is not a relation"},
		{fmt.Sprintf(frame, "nope(level)"), "16:18: undefined rule nope"},
		{fmt.Sprintf(frame, "high(tags)"), "16:18: argument tags of rule high has type string[], expected integer for parameter level"},
		{fmt.Sprintf(frame, "high(a)"), "16:18: argument a of rule high is not an attribute of doc"},
		{fmt.Sprintf(frame, "high(level, level)"), "16:18: rule high expects 1 argument(s), found 2"},
		{fmt.Sprintf(frame, "high()"), `16:23: expected the name of an attribute, found ")"`},
		{"entity user {\n relation a @user:*\n}", `2:18: expected a relation, attribute or permission, found ":"`},
		{"entity user {\n relation a1 @user\n}", `2:12: expected "@", found "1"`},
		{"entity user {\n relation a\n}", `2:12: expected "@", found a line break`},
		{"entity user {\n relation a @org\n}", "2:13: undefined entity org in user#a"},
		{"entity user {\n relation a @user#b\n permission b = a\n}", "2:13: undefined relation user#b in user#a"},
		{"entity user {\n relation a @user\n attribute a boolean\n}", "3:12: duplication found for user#a"},
		{"entity user {}\nentity user {}", "2:8: duplication found for user"},
		{"entity user {\n attribute a number\n}", `2:14: unknown type "number": expected boolean, string, integer or double, optionally followed by []`},
		{"entity user {} rule r(a string) {}", "1:34: empty rule: expected an expression"},
		{"entity user {} rule r(a string) { 'x }", "1:35: string without closing quote"},
		{"entity user {} rule r(a string) { x", "1:34: rule without closing }"},
		{"entity user {} rule r(a string) { /* x }", "1:35: comment without closing */"},
		{"entity user {} rule r(a string) { { x }", "1:34: rule without closing }"},
		{"entity user {} rule r(a string) { \n x\n", "1:34: rule without closing }"},
		{"entity user { /* open", "1:15: comment without closing */"},
		{"entity user {\n /* open", "2:2: comment without closing */"},
		{"entity user { attribute a number /* open", `1:27: unknown type "number": expected boolean, string, integer or double, optionally followed by []`},
		{"entity user { attribute a number /* \n */ /* open", `1:27: unknown type "number": expected boolean, string, integer or double, optionally followed by []`},
		{"entity user { é\xc0 }", `1:15: expected a relation, attribute or permission, found "é"`},
		{"entity user { \xbf\xbf }", "1:15: expected a relation, attribute or permission, found \"\\xbf\\xbf\""},
		{"entity user {} rule r() { true }", `1:23: expected the name of a parameter, found ")"`},
		{"entity user {} rule r(context string) { true }", "1:23: a parameter must not be named context"},
		{"entity user {} rule r(a string, a string) { true }", "1:33: duplication found for a of r"},
		// The first error counts, although the second entity user is not translated.
		{"entity doc {\n relation o @org\n}\nentity user {}\nentity user {}\nentity org {}", "5:8: duplication found for user"},
		{"entity user {\n relation a @user\n relation a @user\n relation b @user\n permission c = b\n}", "3:11: duplication found for user#a"},
		{"entity user {} rule r(a string) { true } rule r(a string) { false }", "1:47: duplication found for r"},
		{"entity user {", `1:14: expected a relation, attribute or permission, found the end of the text`},
	} {
		_, err := model(c.src)
		var e *Error
		if err == nil || err.Error() != c.want || !errors.As(err, &e) {
			t.Errorf("%s: %v", c.want, err)
		}
	}
}

func TestBounds(t *testing.T) {
	t.Parallel()
	parens := func(n int) string { return strings.Repeat("(", n) + "a" + strings.Repeat(")", n) }
	chain := func(n int) string { return "a" + strings.Repeat(" or b", n) }
	for _, c := range []struct {
		name string
		max  int
		text func(int) string
	}{
		{"NestingMax", nestingMax, func(n int) string { return fmt.Sprintf(frame, parens(n)) }},
		{"OperatorsMax", operatorsMax, func(n int) string { return fmt.Sprintf(frame, chain(n)) }},
		{"NameBytesMax", nameBytesMax, func(n int) string { return "entity " + strings.Repeat("x", n) + " {}" }},
		{"SourceBytesMax", sourceBytesMax, func(n int) string { return "entity x {}" + strings.Repeat(" ", n-11) }},
	} {
		if _, err := model(c.text(c.max)); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if _, err := model(c.text(c.max + 1)); !errors.Is(err, ErrBound) {
			t.Errorf("beyond %s: %v", c.name, err)
		}
	}
}

func TestModelCompiles(t *testing.T) {
	t.Parallel()
	m, err := model(fmt.Sprintf(frame, "a or o.open and high(level) not (b or public) not c"))
	if err != nil {
		t.Fatal(err)
	}
	s, err := schema.Compile(m, cel.New(cel.Options{}))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"p", "public", "high()", "b"} {
		if _, ok := s.Relation("doc", name); !ok {
			t.Errorf("no relation %s", name)
		}
	}
	if _, ok := s.Relation("doc", "level"); ok {
		t.Error("the integer attribute level is a relation")
	}
	if _, ok := s.Relation("org", "high()"); ok {
		t.Error("org has the relation high() without the attribute level")
	}
}

// TestArgumentsByPosition checks that arguments are matched by position unless
// they are exactly the parameters' names.
func TestArgumentsByPosition(t *testing.T) {
	t.Parallel()
	src := `entity doc {
  attribute lo integer
  attribute hi integer
  attribute x integer
  attribute y integer
  permission p = less(hi, lo)
  permission q = less(x, y)
}
rule less(lo integer, hi integer) { lo < hi }`
	m, err := model(src)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, r := range m.Types[0].Relations {
		for _, a := range r.Rewrite.Rule.Args {
			got[r.Name] += a.Param + "=" + a.Attribute + a.Context + " "
		}
	}
	for name, want := range map[string]string{
		"p":      "context=context lo=lo hi=hi ",
		"q":      "context=context lo=x hi=y ",
		"less()": "context=context lo=lo hi=hi ",
	} {
		if got[name] != want {
			t.Errorf("%s takes %s, want %s", name, got[name], want)
		}
	}
}

// TestRuleTextStays checks that quotes, braces and comments do not change the
// text of a rule.
func TestRuleTextStays(t *testing.T) {
	t.Parallel()
	if s, err := Parse("entity u {}\nrule r(a string) { {'{': {}}.size() == 0 }"); err != nil || s.Rules[0].Body != "{'{': {}}.size() == 0" {
		t.Errorf("braces in a rule: %v", err)
	}
	s, err := Parse("entity u {}\nrule r(a string) {\n  a == \"1\" /* a } \n b */ && a != '}' // }\n  && a != r'\\'\n}")
	if err != nil {
		t.Fatal(err)
	}
	want := "a == \"1\"        \n      && a != '}' // }\n  && a != r'\\'"
	if got := s.Rules[0].Expression(); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if s.Rules[0].BodyPosition != (Position{3, 3}) {
		t.Errorf("at %v", s.Rules[0].BodyPosition)
	}
}

func TestApply(t *testing.T) {
	t.Parallel()
	s, err := Parse("// head\nentity u {}\nentity d {\n  relation a @u // keep\n  relation b @u\n  permission p = a\n}\n")
	if err != nil {
		t.Fatal(err)
	}
	got, err := s.Apply([]Edit{
		{Entity: "d", Delete: []string{"b"}, Update: []string{"permission p = a or c"}, Write: []string{"relation c @u"}},
		{Entity: "u", Write: []string{"attribute x boolean"}}})
	want := "// head\nentity u {\n    attribute x boolean\n}\nentity d {\n  relation a @u // keep\n  \n" +
		"  permission p = a or c\n\n    relation c @u\n}\n"
	if err != nil || got != want {
		t.Errorf("got %q, %v", got, err)
	}
	for _, c := range []struct {
		edit Edit
		want error
	}{
		{Edit{Entity: "x"}, ErrNoEntity},
		{Edit{Entity: "d", Delete: []string{"x"}}, ErrNoStatement},
		{Edit{Entity: "d", Update: []string{"relation x @u"}}, ErrNoStatement},
		{Edit{Entity: "d", Write: []string{"relation a @u"}}, ErrDuplicate},
		{Edit{Entity: "d", Delete: []string{"a", "a"}}, ErrDuplicate},
		{Edit{Entity: "d", Write: []string{"relation x @u } entity e {"}}, ErrSyntax},
		{Edit{Entity: "d", Write: []string{"rule"}}, ErrSyntax},
		{Edit{Entity: "d", Write: []string{"relation x @u /*"}}, ErrSyntax},
	} {
		if _, err := s.Apply([]Edit{c.edit}); !errors.Is(err, c.want) {
			t.Errorf("%+v: %v, want %v", c.edit, err, c.want)
		}
	}
}

// checkRoundTrip checks that Format prints a model which Parse reads back as the
// same model.
func checkRoundTrip(t *testing.T, m *schema.Model) {
	t.Helper()
	text, err := Format(m)
	if err != nil {
		t.Fatalf("%+v: %v", m, err)
	}
	again, err := model(text)
	if err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	for _, m := range []*schema.Model{m, again} { // Format prints attributes first
		for i := range m.Types {
			slices.SortFunc(m.Types[i].Relations, func(a, b schema.RelationDef) int { return strings.Compare(a.Name, b.Name) })
		}
	}
	if types(again) != types(m) {
		t.Fatalf("printed as %q, read back as %s, want %s", text, types(again), types(m))
	}
}

// TestFormatCalls checks that the arguments of a call follow the parameters of
// its own rule, and that such a call needs all of them.
func TestFormatCalls(t *testing.T) {
	t.Parallel()
	const text = `entity user {}

entity doc {
    attribute a integer
    attribute b string
    permission p = first(a)
    permission q = second(b, a)
    permission r = third(a)
}

rule first(x integer) {
x > 1
}

rule second(y string, z integer) {
y == "y" && z > 1
}

rule third(x integer) {
x > context.data.least
}
`
	parsed, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	m, err := parsed.Model()
	if err != nil {
		t.Fatal(err)
	}
	if got, err := Format(m); err != nil || got != text {
		t.Errorf("%v\n%s", err, got)
	}
	for i, want := range []string{"a call of rule first without argument x", "a call of rule second without argument y", "a call of rule third without argument x"} {
		m, err := parsed.Model()
		if err != nil {
			t.Fatal(err)
		}
		doc := &m.Types[1]
		for j := range doc.Relations {
			if call := doc.Relations[j].Rewrite.Rule; call != nil && call.Name == m.Conditions[i].Name {
				call.Args = slices.DeleteFunc(slices.Clone(call.Args), func(a schema.RuleArg) bool { return a.Param == m.Conditions[i].Params[1].Name }) // the first one is the context
			}
		}
		if got, err := Format(m); !errors.Is(err, ErrInexpressible) || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%v, want %s\n%s", err, want, got)
		}
	}
}

// TestFormatRefuses checks that the error names what the language cannot
// express.
func TestFormatRefuses(t *testing.T) {
	t.Parallel()
	direct := schema.RelationDef{Name: "a", Rewrite: schema.Direct(), Subjects: []schema.SubjectType{{Type: "u"}}}
	with := func(change func(r *schema.RelationDef)) *schema.Model {
		r := direct
		change(&r)
		return &schema.Model{Types: []schema.TypeDef{{Name: "u", Relations: []schema.RelationDef{r}}}}
	}
	for want, m := range map[string]*schema.Model{
		`the name "a1"`:                                   with(func(r *schema.RelationDef) { r.Name = "a1" }),
		"u#a has subjects of the kind u:*":                with(func(r *schema.RelationDef) { r.Subjects = []schema.SubjectType{{Type: "u", Wildcard: true}} }),
		"u#a has subjects of the kind u with c":           with(func(r *schema.RelationDef) { r.Subjects = []schema.SubjectType{{Type: "u", Condition: "c"}} }),
		"a relation that is both assignable and computed": with(func(r *schema.RelationDef) { r.Rewrite = schema.Union(schema.Direct(), schema.Computed("a")) }),
		"a call of rule r without arguments": {Conditions: []expr.Definition{{Name: "r", Source: "true"}}, Types: []schema.TypeDef{{Name: "u",
			Relations: []schema.RelationDef{{Name: "p", Rewrite: schema.Rewrite{Op: schema.OpRule, Rule: &schema.RuleCall{Name: "r"}}}}}}},
		"u#a is both a relation and an attribute": {Types: []schema.TypeDef{{Name: "u", Attributes: []schema.AttributeDef{{Name: "a", Type: expr.Type{Kind: expr.Bool}}}, Relations: []schema.RelationDef{direct}}}},
		"u#b is both a relation and an attribute": {Types: []schema.TypeDef{{Name: "u", Attributes: []schema.AttributeDef{{Name: "a", Type: expr.Type{Kind: expr.Bool}}, {Name: "b", Type: expr.Type{Kind: expr.Bool}}},
			Relations: []schema.RelationDef{{Name: "b", Rewrite: schema.Rewrite{Op: schema.OpAttribute, Attribute: "a"}}}}}},
		"an expression after a in an arrow": with(func(r *schema.RelationDef) {
			r.Rewrite = schema.Rewrite{Op: schema.OpArrow, Relation: "a", Children: []schema.Rewrite{schema.Union(schema.Computed("b"), schema.Computed("c"))}}
		}),
		"rule r reads x from the context": {Conditions: []expr.Definition{{Name: "r", Source: "true", Params: []expr.Param{{Name: "x", Type: expr.Type{Kind: expr.Bool}}}}}, Types: []schema.TypeDef{{Name: "u",
			Relations: []schema.RelationDef{{Name: "p", Rewrite: schema.Rewrite{Op: schema.OpRule, Rule: &schema.RuleCall{Name: "r", Args: []schema.RuleArg{{Param: "x", Context: "x"}}}}}}}}},
		"a call of rule r with the names of the parameters as arguments, but in another order": {Conditions: []expr.Definition{{Name: "r", Source: "true", Params: []expr.Param{
			{Name: ContextParam}, {Name: "x", Type: expr.Type{Kind: expr.Bool}}, {Name: "y", Type: expr.Type{Kind: expr.Bool}}}}}, Types: []schema.TypeDef{{Name: "u",
			Relations: []schema.RelationDef{{Name: "p", Rewrite: schema.Rewrite{Op: schema.OpRule, Rule: &schema.RuleCall{Name: "r", Args: []schema.RuleArg{{Param: "x", Attribute: "y"}, {Param: "y", Attribute: "x"}}}}}}}}},
		"the type timestamp":       {Types: []schema.TypeDef{{Name: "u", Attributes: []schema.AttributeDef{{Name: "a", Type: expr.Type{Kind: expr.Timestamp}}}}}},
		"the type list<timestamp>": {Types: []schema.TypeDef{{Name: "u", Attributes: []schema.AttributeDef{{Name: "a", Type: expr.Type{Kind: expr.List, Elem: &expr.Type{Kind: expr.Timestamp}}}}}}},
		"the type list":            {Types: []schema.TypeDef{{Name: "u", Attributes: []schema.AttributeDef{{Name: "a", Type: expr.Type{Kind: expr.List}}}}}},
		"the name \"" + strings.Repeat("x", nameBytesMax+1) + "\"": with(func(r *schema.RelationDef) { r.Name = strings.Repeat("x", nameBytesMax+1) }),
		`the name ""`:                    with(func(r *schema.RelationDef) { r.Name = "" }),
		`the name "a b"`:                 with(func(r *schema.RelationDef) { r.Subjects = []schema.SubjectType{{Type: "u", Relation: "a b"}} }),
		`the name " a"`:                  with(func(r *schema.RelationDef) { r.Rewrite = schema.Computed(" a") }),
		"condition r without parameters": {Conditions: []expr.Definition{{Name: "r", Source: "true"}}, Types: []schema.TypeDef{{Name: "u"}}},
		`the name "and"`:                 with(func(r *schema.RelationDef) { r.Name = "and" }),
	} {
		if _, err := Format(m); !errors.Is(err, ErrInexpressible) || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	text, err := Format(with(func(*schema.RelationDef) {}))
	if err != nil || text != "entity u {\n    relation a @u\n}\n" {
		t.Errorf("%q, %v", text, err)
	}
}

// TestFormatExpressions prints expressions that Model does not return: an attribute in
// place of its relation, and operators with one operand or with many.
func TestFormatExpressions(t *testing.T) {
	t.Parallel()
	attribute := schema.Rewrite{Op: schema.OpAttribute, Attribute: "open"}
	a, b, c := schema.Computed("a"), schema.Computed("b"), schema.Arrow("a", "c")
	for want, r := range map[string]schema.Rewrite{
		"open":                   attribute,
		"a or open":              schema.Union(a, attribute),
		"a and b and a.c":        schema.Intersection(a, b, c),
		"a not b":                schema.Exclusion(a, b),
		"a or (b not a.c)":       schema.Union(a, schema.Exclusion(b, c)),
		"a not b or a.c":         schema.Union(schema.Exclusion(a, b), c),
		"a and (b or a) and a.c": schema.Intersection(a, schema.Union(b, a), c),
		"b":                      schema.Union(b),
	} {
		m := &schema.Model{Types: []schema.TypeDef{{Name: "u", Relations: []schema.RelationDef{{Name: "p", Rewrite: r}}}}}
		if got, err := Format(m); err != nil || got != "entity u {\n    permission p = "+want+"\n}\n" {
			t.Errorf("%s: %q, %v", want, got, err)
		}
	}
}

// TestBoundValues checks the values of the bounds.
func TestBoundValues(t *testing.T) {
	t.Parallel()
	got := []int{sourceBytesMax, nestingMax, operatorsMax, nameBytesMax, mistakesMax}
	if want := []int{1_048_576, 50, 500, 254, 20}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// TestAttributeTypes splits the types of attributes.
func TestAttributeTypes(t *testing.T) {
	t.Parallel()
	for typ, want := range map[AttributeType]bool{"string": false, "string[]": true, "boolean": false, "double[]": true} {
		base, list := typ.List()
		if list != want || base != AttributeType(strings.TrimSuffix(string(typ), "[]")) {
			t.Errorf("%s: %s, %v", typ, base, list)
		}
	}
}

// FuzzParse checks that Parse accepts or rejects every text without a panic, and
// reads back what String and Format print.
func FuzzParse(f *testing.F) {
	for _, text := range []string{"a", "a or b not (c and d)", "o.admin or high(level)", "a or /* x */ b"} {
		f.Add(fmt.Sprintf(frame, text))
	}
	f.Add("entity u { relation a @u#b @u\n attribute x double[]; action y = a not x }\nrule r(a string, b integer[]) { a == \"}\" && b[0] > 1 }")
	f.Add("entity /* }")
	f.Add("rule r(a string) { '''\n''' + r'\\' == a }")
	f.Fuzz(func(t *testing.T, src string) {
		s, err := Parse(src)
		if err != nil {
			var e *Error
			if !errors.As(err, &e) || e.Line < 1 || e.Column < 1 {
				t.Fatalf("%q: %v", src, err)
			}
			return
		}
		text := s.String()
		again, err := Parse(text)
		if err != nil {
			t.Fatalf("%q is printed as %q: %v", src, text, err)
		}
		if second := again.String(); second != text {
			t.Fatalf("%q is printed as %q, then as %q", src, text, second)
		}
		a, errA := s.Model()
		b, errB := again.Model()
		if (errA == nil) != (errB == nil) || errA == nil && types(a) != types(b) {
			t.Fatalf("%q means %v (%v), printed %v (%v)", src, a, errA, b, errB)
		}
		if errA == nil {
			checkRoundTrip(t, a)
		}
	})
}
