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
	half := "a" + strings.Repeat(" or a", OperatorsMax/2+1)
	if _, err := model("entity u {\n relation a @u\n permission p = " + half + "\n permission q = " + half + "\n}"); err != nil {
		t.Error(err)
	}
	if _, err := ParseStatement("permission p = a" + strings.Repeat(" or a", OperatorsMax+1)); !errors.Is(err, ErrBound) {
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
