package access

import (
	"fmt"
	"strings"
	"testing"
)

func TestParseFile(t *testing.T) {
	t.Parallel()
	for _, x := range []struct{ text, want string }{
		{"", ""},
		{"# only a comment\n", ""},
		{"\"identity:get_user\": \"role:x\"\n# c\nhelper: '@'\n", "1 identity:get_user=role:x; 3 helper=@"},
		{`{"identity:get_user": "", "a": "rule:b"}`, "1 identity:get_user=; 1 a=rule:b"},
		{"a: [\"role:x\", [\"role:y\", \"role:z or !\"]]", "1 a=((role:x)) or ((role:y) and (role:z or !))"},
		{"a: >-\n  role:x\n  or role:y\n", "1 a=role:x or role:y"},
		{"- a", "line 1: expected an object"},
		{"null", ""},
		{"~", ""},
		{"a", "line 1: expected an object"},
		{"---\n{}", ""},
		{"a: '@'\na: '!'", `line 2: invalid name "a"`},
		{"\na: null", `line 2: rule "a": expected a text`},
		{"a:", `line 1: rule "a": expected a text`},
		{"a: true", `line 1: rule "a": expected a text`},
		{"a: []", "expected a text"},
		{"a: [[]]", "expected a text"},
		{"a: ['']", "expected a text"},
		{"a: {b: c}", "expected a text"},
		{"a: &x '@'\nb: *x", `line 2: rule "b": expected a text`},
		{"a: '@", "malformed policy file"},
		{"? [a]\n: b", "line 1: invalid name"},
	} {
		rules, err := ParseFile([]byte(x.text))
		var got []string
		for _, r := range rules {
			got = append(got, fmt.Sprintf("%d %s=%s", r.Line, r.Name, r.Check))
		}
		text := strings.Join(got, "; ")
		if err != nil {
			text = err.Error()
		}
		if text != x.want && (err == nil || !strings.Contains(text, x.want)) {
			t.Errorf("%q: got %s, want %s", x.text, text, x.want)
		}
	}
	var most strings.Builder
	for i := range fileRulesMax {
		fmt.Fprintf(&most, "r%d: '@'\n", i)
	}
	if _, err := ParseFile([]byte(most.String())); err != nil {
		t.Error(err)
	}
	if _, err := ParseFile([]byte(most.String() + "more: '@'\n")); err == nil || !strings.Contains(err.Error(), "FileRulesMax") {
		t.Errorf("one rule too many: %v", err)
	}
}

func TestOverride(t *testing.T) {
	t.Parallel()
	c := &Credentials{Roles: []string{"auditor"}, UserID: "u", ProjectID: "p", ProjectDomainID: "d"}
	load := func(text string) (*Policy, []string, error) {
		rules, err := ParseFile([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return Default().Override(rules)
	}
	p, warnings, err := load("identity:list_users: rule:admin_required or rule:auditor\nauditor: role:auditor\nidentity:list_services: rule:auditor\nidentity:list_user: '@'\nunused: '@'\n")
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(warnings, "\n"); got != `line 4: rule "identity:list_user" has no effect: no operation has this name; did you mean "identity:list_users"?`+"\n"+`line 5: rule "unused" has no effect: no operation has this name` {
		t.Errorf("warnings:\n%s", got)
	}
	domain := &Credentials{Roles: []string{"auditor"}, UserID: "u", DomainID: "d"} // a scope that list_services does not admit
	for _, x := range []struct {
		operation string
		c         *Credentials
		want      bool
	}{{"identity:list_users", c, true}, {"identity:list_groups", c, false}, {"identity:list_services", c, true}, {"identity:list_services", domain, false}, {"identity:list_users", &Credentials{Roles: []string{"member"}, ProjectID: "p"}, false}} {
		if got := p.Allowed(x.operation, x.c, Target{}); got != x.want {
			t.Errorf("%s: %v, want %v", x.operation, got, x.want)
		}
	}
	if Default().Allowed("identity:list_users", c, Target{}) {
		t.Error("the override changed the default")
	}
	for text, want := range map[string]string{
		"a: '@'\nb: 'role:'":                         `line 2: rule "b": invalid check`,
		"a: rule:none":                               `line 1: rule "a" refers to rule "none", which does not exist`,
		"x: '@'\na: rule:b\nb: rule:a":               `line 2: rule "a" refers to itself`,
		"admin_required: rule:admin_or_owner":        `refers to itself`,
		"'identity:list_users': http://other/policy": `asks another server`,
	} {
		if _, _, err := load(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", text, err, want)
		}
	}
}

// TestMissingAttributes loads rules that compare what their operation, or every token, lacks.
// A negation of it is refused, because it would always hold; otherwise there is a warning.
func TestMissingAttributes(t *testing.T) {
	t.Parallel()
	load := func(text string) (string, error) {
		rules, err := ParseFile([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		_, warnings, err := Default().Override(rules)
		return strings.Join(warnings, "; "), err
	}
	for text, want := range map[string]string{
		`"identity:delete_user": "not 'x':%(target.usr.name)s"`:                                    `line 1: rule "identity:delete_user": identity:delete_user has no attribute "target.usr.name", so its negation would always hold`,
		`"identity:delete_user": "not (role:x and not 'x':%(name)s) and not 'x':%(nam)s"`:          `no attribute "nam"`,
		"\"keep\": \"not role:of-%(target.group.name)s\"\n\"identity:delete_user\": \"rule:keep\"": `line 1: rule "keep": identity:delete_user has no attribute "target.group.name"`,
		`"identity:delete_user": "not foo:bar"`:                                                    `no token has "foo"`,
		`"identity:delete_user": "not 'x':%(target.user.)s"`:                                       `no attribute "target.user."`,
		`"identity:get_credential": "not 'x':%(project_id)s"`:                                      `no attribute "project_id"`,
		`"identity:list_regions": "not 'x':%(target.region.id)s"`:                                  `no attribute "target.region.id"`,
		`"identity:get_limit_model": "not 'x':%(target.token.user_id)s"`:                           `no attribute "target.token.user_id"`,
	} {
		if _, err := load(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", text, err, want)
		}
	}
	for text, want := range map[string]string{
		`"identity:delete_user": "'x':%(target.usr.name)s"`:                                         `line 1: rule "identity:delete_user": identity:delete_user has no attribute "target.usr.name", so this check never holds`,
		`"identity:delete_user": "not not 'x':%(target.usr.name)s"`:                                 `so this check never holds`,
		`"identity:delete_user": "not 'x':%(target.user.anything)s and not 'x':%(request_body.a)s"`: "",
		"\"matches\": \"domain_id:%(user.domain_id)s\"\n\"identity:delete_user\": \"rule:matches\"": "", // a rule for several operations
		`"identity:delete_user": "not is_admin:1 and not user_id:%(user_id)s"`:                      "",
	} {
		if got, err := load(text); err != nil || got != want && (want == "" || !strings.Contains(got, want)) {
			t.Errorf("%s: got %q and %v, want %q", text, got, err, want)
		}
	}
}

// TestDefaultsHave checks that the operations have what the default rules compare.
func TestDefaultsHave(t *testing.T) {
	t.Parallel()
	p := Default()
	for _, operation := range p.operations() {
		if !strings.HasPrefix(operation, "identity:") {
			continue
		}
		for _, m := range p.missing(operation) {
			if m.rule == operation {
				t.Errorf("%+v", m)
			}
		}
	}
}

func FuzzParseFile(f *testing.F) {
	f.Add([]byte("a: role:x\nb: [[rule:a, '@'], 'role:y']"))
	f.Add([]byte(`{"identity:get_user": "user_id:%(user_id)s"}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		rules, err := ParseFile(text)
		if err != nil {
			return
		}
		if p, _, err := Default().Override(rules); err == nil {
			for _, r := range rules { // a rule never panics
				p.Allowed(r.Name, &Credentials{UserID: "u"}, Target{"user_id": "u"})
			}
		}
	})
}
