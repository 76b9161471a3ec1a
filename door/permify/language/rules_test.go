package language

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/ostiary/ostiary/schema"
)

// TestRuleComments checks what of a rule's text is a comment. Comments of the form
// that CEL lacks become spaces.
func TestRuleComments(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		"a == 1":                       "a == 1",
		"/**/a":                        "    a",
		"a/* \n */b":                   "a   \n   b",
		"a // /* b\n/*c*/":             "a // /* b\n     ",
		`a == "/*" || b == '/*'`:       `a == "/*" || b == '/*'`,
		`"\"/*" /*x*/`:                 `"\"/*"      `,
		`r"\" /*x*/`:                   `r"\"      `,
		`R'\' /*x*/`:                   `R'\'      `,
		`"\\" /*x*/`:                   `"\\"      `,
		`a"\"/*" /*x*/`:                `a"\"/*"      `,
		"\"\"\"a\"/*\n\"\"\" /*x*/":    "\"\"\"a\"/*\n\"\"\"      ",
		`'''\'''/*''' /*x*/`:           `'''\'''/*'''      `,
		`"" /*x*/ ''`:                  `""       ''`,
		"a /* b // c */ d /* e */ + f": "a              d         + f",
	} {
		r := Rule{Body: body}
		if got := r.Expression(); got != want {
			t.Errorf("%q: got %q, want %q", body, got, want)
		}
	}
}

// TestOperatorsOfEach checks that the bound on operators is one for each
// expression, also in the statements of a partial write.
func TestOperatorsOfEach(t *testing.T) {
	t.Parallel()
	half := "a" + strings.Repeat(" or a", operatorsMax/2+1)
	if _, err := model("entity u {\n relation a @u\n permission p = " + half + "\n permission q = " + half + "\n}"); err != nil {
		t.Error(err)
	}
	if _, err := parseStatement("permission p = a" + strings.Repeat(" or a", operatorsMax+1)); !errors.Is(err, ErrBound) {
		t.Error(err)
	}
}

// TestRuleRelations checks which entities have a relation that evaluates a rule:
// those whose attributes have the names and types of its parameters.
func TestRuleRelations(t *testing.T) {
	t.Parallel()
	m, err := model(`entity same {
 attribute n integer
}
entity other {
 attribute n string
}
entity related {
 relation n @same
}
entity missing {
 attribute m integer
}
rule r(n integer) { n > 1 }`)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range m.Types {
		has := slices.ContainsFunc(d.Relations, func(r schema.RelationDef) bool { return r.Name == RuleRelation("r") })
		if has != (d.Name == "same") {
			t.Errorf("%s has the relation of the rule: %v", d.Name, has)
		}
	}
}

// TestFormatTypes prints attributes of every type.
func TestFormatTypes(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	text.WriteString("entity u {\n")
	for i, typ := range []string{"boolean", "string", "integer", "double"} {
		fmt.Fprintf(&text, "    attribute %c %s\n    attribute %cl %s[]\n", 'a'+i, typ, 'a'+i, typ)
	}
	text.WriteString("}\n")
	m, err := model(text.String())
	if err != nil {
		t.Fatal(err)
	}
	if got, err := Format(m); err != nil || got != text.String() {
		t.Errorf("%v\n%s", err, got)
	}
}

// TestMistakes counts the mistakes of a schema at the bound and above it. They are in
// the order of the text, and Model fails with the first one.
func TestMistakes(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, mistakesMax, mistakesMax + 1} {
		text := "entity user {}\nentity doc {\n"
		for i := range n {
			text += "relation r" + strings.Repeat("a", i) + " @missing" + strings.Repeat("a", i) + "\n"
		}
		parsed, err := Parse(text + "}\n")
		if err != nil {
			t.Fatal(err)
		}
		mistakes := parsed.Mistakes()
		if len(mistakes) != min(n, mistakesMax) {
			t.Errorf("%d mistakes, got %d", n, len(mistakes))
		}
		for i, m := range mistakes {
			if m.Line != 3+i || !strings.Contains(m.Text, "missing"+strings.Repeat("a", i)+" ") {
				t.Errorf("mistake %d is %v", i, m)
			}
		}
		if _, err := parsed.Model(); err == nil || err.Error() != mistakes[0].Error() {
			t.Errorf("Model fails with %v, expected %v", err, mistakes[0])
		}
	}
	// A duplicate is found before a type that is missing, but comes later in the text.
	parsed, err := Parse("entity user {}\nentity doc {\nrelation a @nope\nrelation b @user\nrelation b @user\n}\n")
	if err != nil || len(parsed.Mistakes()) != 2 || parsed.Mistakes()[0].Line != 3 || parsed.Mistakes()[1].Line != 5 {
		t.Errorf("mistakes %v, %v; expected lines 3 and 5", parsed.Mistakes(), err)
	}
	parsed, err = Parse("entity user {}\n")
	if err != nil || len(parsed.Mistakes()) != 0 {
		t.Errorf("a valid schema has mistakes: %v, %v", parsed.Mistakes(), err)
	}
}
