package access

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/ostiary/ostiary/internal/workshop/golden"
)

func TestRules(t *testing.T) {
	c := &Credentials{Roles: []string{"Admin", "member"}, UserID: "u1", ProjectID: "p1", ProjectDomainID: "d1"}
	target := Target{"user_id": "u1", "target.user.domain_id": "d1", "target.role.domain_id": Null, "name": "manager", "none": "None", "empty": "", "one": "1", "part": "MIN", "word": "member", "enabled": "True", "list": Other}
	for text, want := range map[string]bool{
		"": true, "@": true, "!": false, "not !": true,
		"role:admin": true, "role:ADMIN": true, "role:reader": false, "role:%(name)s": false, "role:%(absent)s": false, "not role:%(absent)s": true,
		"rule:yes": true, "not rule:yes": false, "rule:yes and !": false, "rule:yes or !": true,
		"! or @ and @": true, "@ or @ and !": true, "(@ or @) and !": false, "not ! and not !": true, "not (! or @)": false,
		"user_id:%(user_id)s": true, "user_id:u1": true, "user_id:'u1'": true, "user_id:u2": false,
		"user_id:%(absent)s": false, "'manager':%(name)s": true, "\"manager\":%(name)s": true, "'member':%(name)s": false,
		"None:%(target.role.domain_id)s": true, "None:%(name)s": false, "None:%(absent)s": false,
		"token.project.domain.id:%(target.user.domain_id)s": true, "domain_id:%(target.user.domain_id)s": false,
		"domain_id:None": true, "project_id:None": false, "domain_id:%(none)s": false, "domain_id:%(empty)s": false,
		"system_scope:all": false, "is_admin:1": false, "unknown:None": false, "unknown:%(name)s": false,
		"((role:member))": true, "role:member AND NOT role:reader": true,
		"role:%(word)s": true, "role:ad%(part)s": true, "role:ad%(absent)s": false, "role:%(list)s": false, "not role:%(list)s": false,
		"user_id:u%(one)s": true, "user_id:%(user_id)s-%(one)s": false, "'u1-1':%(user_id)s-%(one)s": true, "'100%':100%%": true, "'None1':%(target.role.domain_id)s%(one)s": true,
		"True:%(enabled)s": true, "False:%(enabled)s": false, "not True:%(enabled)s": false, "1:%(one)s": true, "2:%(one)s": false,
		"'None':%(target.role.domain_id)s": true, "'x':%(list)s": false, "not 'x':%(list)s": false, "@ or 'x':%(list)s": true, "'x':%(list)s or @": true, "! and 'x':%(list)s": false,
		"domain_id:%(target.role.domain_id)s": false, "not domain_id:%(target.role.domain_id)s": false, "not domain_id:%(none)s": false, "not domain_id:%(name)s": true,
		"is_admin_project:True": true, "not is_admin_project:True": false,
		"'':%(empty)s": true, "'':%(name)s": false, "user_id:''": false, "user_id:'": false, "user_id:'u1\"": false, "not not @": true,
		strings.Repeat("(", depthMax-1) + "@" + strings.Repeat(")", depthMax-1): true, strings.Repeat("not ", depthMax-1) + "@": false,
		strings.Repeat("not ! and ", depthMax) + "(not !)":                                          true, // each negation ends before the next one begins
		strings.Repeat("! or ", (ruleBytesMax-1)/5) + strings.Repeat(" ", (ruleBytesMax-1)%5) + "@": true,
	} {
		p, err := Default().with(map[string]string{"it": text, "yes": "@"})
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		if got := p.Allowed("it", c, target); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}

func TestBadRules(t *testing.T) {
	if ruleBytesMax != 16384 || depthMax != 50 || fileRulesMax != 10_000 {
		t.Errorf("bounds %d, %d and %d", ruleBytesMax, depthMax, fileRulesMax)
	}
	for _, text := range []string{
		"role", "role:", ":x", "(", ")", "(@", "@)", "@ @", "and", "@ and", "@ or or @", "not", "user_id:%(x", "user_id:%()s",
		"http://host/path", "'x:%(y)s", "rule:none", "not rule:none", "! and rule:none", "@ or rule:none", "(rule:none)",
		"' :x", "'a'b:x", "user_id:%(x)", "user_id:%s", "user_id:100%", "user_id:%(a(b)s", "role:%d",
		strings.Repeat("(", depthMax) + "@" + strings.Repeat(")", depthMax), strings.Repeat("not ", depthMax) + "@",
		strings.Repeat("! or ", (ruleBytesMax-1)/5) + strings.Repeat(" ", (ruleBytesMax-1)%5+1) + "@",
	} {
		if _, err := Default().with(map[string]string{"it": text}); err == nil {
			t.Errorf("%.40q: accepted", text)
		}
	}
	for _, back := range []string{"rule:a", "@ or rule:a", "! and rule:a", "not rule:a", "@ or (@ and not rule:a)"} {
		_, err := Default().with(map[string]string{"a": "rule:b", "b": back})
		if err == nil || !strings.Contains(err.Error(), "itself") {
			t.Errorf("a circle through %s: %v", back, err)
		}
	}
}

// TestScopes checks that a rule holds only for the scopes that it admits, also
// when a site replaces it.
func TestScopes(t *testing.T) {
	domain := &Credentials{Roles: []string{"admin"}, DomainID: "d"}
	p, err := Default().with(map[string]string{"identity:create_domain": "@"})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []*Policy{Default(), p} {
		if p.Allowed("identity:create_domain", domain, nil) {
			t.Error("a token of another scope may create a domain")
		}
		if !p.Allowed("identity:create_domain", &Credentials{Roles: []string{"admin"}, System: true}, nil) {
			t.Error("an administrator of the system may not create a domain")
		}
	}
	// A token without a scope counts as one of a project. It has no roles.
	for operation, want := range map[string]bool{"get_auth_projects": true, "get_user": true, "list_users": false, "create_domain": false} {
		if got := Default().Allowed("identity:"+operation, &Credentials{UserID: "u"}, Target{"target.user.id": "u"}); got != want {
			t.Errorf("%s with an unscoped token: %v, want %v", operation, got, want)
		}
	}
	if Default().Allowed("identity:no_such_operation", domain, nil) {
		t.Error("an unknown operation is allowed")
	}
}

// TestDefaults compares all default rules, and the scopes that they admit, with a
// file. A rule that a change adds, drops or alters is a line of that file.
// OSTIARY_REWRITE=1 writes it.
func TestDefaults(t *testing.T) {
	var got strings.Builder
	for _, r := range defaults() {
		fmt.Fprintf(&got, "%s %03b: %s\n", r.name, r.scopes, r.check)
	}
	golden.Equal(t, "testdata/defaults.txt", got.String())
	var known []string
	for _, r := range defaults() {
		known = append(known, r.name)
	}
	if slices.Sort(known); !slices.Equal(known, Default().operations()) {
		t.Errorf("the default policy has the rules %q, want %q", Default().operations(), known)
	}
}

// TestCredentials reads every credential that a rule can name, of a token with
// all of them and of one with none.
func TestCredentials(t *testing.T) {
	full := &Credentials{UserID: "u", UserDomainID: "ud", ProjectID: "p", ProjectDomainID: "pd", DomainID: "d", TrustID: "t", System: true}
	for name, want := range map[string]string{
		"user_id": "u", "token.user.id": "u", "user_domain_id": "ud", "token.user.domain.id": "ud", "project_id": "p", "tenant_id": "p",
		"token.project.id": "p", "project_domain_id": "pd", "token.project.domain.id": "pd", "domain_id": "d", "token.domain.id": "d",
		"trust_id": "t", "is_admin_project": "False", "system_scope": "all", "system": "all",
	} {
		if got, known := full.value(name); got != want || !known {
			t.Errorf("%s: %q, %v, want %q", name, got, known, want)
		}
		want = "None"
		if name == "is_admin_project" {
			want = "True"
		}
		if got, known := (&Credentials{}).value(name); got != want || !known {
			t.Errorf("%s of an empty token: %q, %v, want %s", name, got, known, want)
		}
	}
	if _, known := full.value("roles"); known {
		t.Error("roles are compared as one text")
	}
}

// TestDefaultsResolve checks that every default refers to rules that exist.
func TestDefaultsResolve(t *testing.T) {
	if _, err := Default().with(nil); err != nil {
		t.Error(err)
	}
	seen := map[string]bool{}
	for _, r := range defaults() {
		if seen[r.name] {
			t.Errorf("rule %s occurs twice", r.name)
		}
		seen[r.name] = true
	}
}

func FuzzParse(f *testing.F) {
	for _, r := range defaults() {
		f.Add(r.check)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c, err := parse(text)
		if err != nil {
			return
		}
		p := &Policy{rules: map[string]rule{}}
		for _, name := range references(c) {
			p.rules[name] = rule{check: constant(false)}
		}
		c.holds(&question{p, &Credentials{}, Target{}})
	})
}
