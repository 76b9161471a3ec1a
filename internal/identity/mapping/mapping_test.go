package mapping_test

import (
	"encoding/json"
	"errors"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/ostiary/ostiary/internal/identity/mapping"
)

// vectors are mappings with what Keystone 30.0.0 made of them.
type vectors struct {
	Cases []struct {
		Name      string
		Mapping   json.RawMessage
		Assertion mapping.Assertion
		Want      struct {
			Error    string
			User     map[string]any
			GroupIDs []string `json:"group_ids"`
			Groups   []mapping.Group
			Projects []struct {
				Name   string
				Domain *mapping.Domain
				Roles  []struct{ Name string }
			}
		}
	}
	// Invalid are mappings that Keystone refuses.
	Invalid []struct {
		Name    string
		Mapping json.RawMessage
	}
}

func readVectors(t testing.TB) (v vectors) {
	t.Helper()
	text, err := os.ReadFile("testdata/keystone.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatal(err)
	}
	if len(v.Cases) < 30 || len(v.Invalid) < 15 {
		t.Fatalf("%d cases, %d invalid mappings", len(v.Cases), len(v.Invalid))
	}
	return v
}

func TestKeystone(t *testing.T) {
	for _, c := range readVectors(t).Cases {
		t.Run(c.Name, func(t *testing.T) {
			m, err := mapping.Parse(c.Mapping)
			if err != nil {
				t.Fatal(err)
			}
			got, err := m.Apply(c.Assertion)
			if (err != nil) != (c.Want.Error != "") {
				t.Fatalf("error %v, Keystone's %q", err, c.Want.Error)
			}
			if err != nil {
				return
			}
			user := map[string]any{"type": "ephemeral"}
			if got.User.Local {
				user["type"] = "local"
			}
			for name, value := range map[string]string{"id": got.User.ID, "name": got.User.Name, "email": got.User.Email} {
				if value != "" {
					user[name] = value
				}
			}
			if d := got.User.Domain; d != (mapping.Domain{}) {
				user["domain"] = domainOf(d)
			}
			if c.Want.User["domain"] == nil { // Keystone's word for no domain
				delete(c.Want.User, "domain")
			}
			if !reflect.DeepEqual(user, c.Want.User) {
				t.Errorf("user %v, want %v", user, c.Want.User)
			}
			if !slices.Equal(got.GroupIDs, c.Want.GroupIDs) {
				t.Errorf("group ids %v, want %v", got.GroupIDs, c.Want.GroupIDs)
			}
			slices.SortFunc(got.Groups, func(a, b mapping.Group) int { return strings.Compare(a.Name, b.Name) })
			if !slices.Equal(got.Groups, c.Want.Groups) {
				t.Errorf("groups %v, want %v", got.Groups, c.Want.Groups)
			}
			var projects []mapping.Project
			for _, p := range c.Want.Projects {
				x := mapping.Project{Name: p.Name}
				if p.Domain != nil {
					x.Domain = *p.Domain
				}
				for _, r := range p.Roles {
					x.Roles = append(x.Roles, r.Name)
				}
				projects = append(projects, x)
			}
			if !reflect.DeepEqual(got.Projects, projects) {
				t.Errorf("projects %+v, want %+v", got.Projects, projects)
			}
		})
	}
}

func domainOf(d mapping.Domain) map[string]any {
	m := map[string]any{}
	if d.ID != "" {
		m["id"] = d.ID
	}
	if d.Name != "" {
		m["name"] = d.Name
	}
	return m
}

func TestInvalid(t *testing.T) {
	v := readVectors(t)
	for _, c := range v.Invalid {
		if _, err := mapping.Parse(c.Mapping); err == nil {
			t.Errorf("%s: no error", c.Name)
		}
	}
	one := func(local, remote string) string {
		return `{"rules":[{"local":[` + local + `],"remote":[` + remote + `]}]}`
	}
	many := strings.Repeat(`{"local":[],"remote":[{"type":"a"}]},`, mapping.RulesMax+1)
	long := strings.Repeat("a", mapping.PatternsMax-3)
	for name, c := range map[string][2]string{
		"not an object":           {`[]`, "invalid mapping"},
		"no remote":               {`{"rules":[{"local":[],"remote":[]}]}`, "expected the members local and remote"},
		"no local":                {`{"rules":[{"remote":[{"type":"a"}]}]}`, "expected the members local and remote"},
		"no rules":                {`{"rules":[]}`, "0 rules: expected 1 to 1000"},
		"unknown member":          {`{"rules":[{"local":[],"remote":[{"type":"a"}],"x":1}]}`, "unknown field"},
		"unknown version":         {`{"rules":[{"local":[],"remote":[{"type":"a"}]}],"schema_version":"4.0"}`, `"4.0": expected 1.0, 2.0 or 3.0`},
		"too many rules":          {`{"rules":[` + strings.TrimSuffix(many, ",") + `]}`, "1001 rules: expected 1 to 1000"},
		"reference out of range":  {one(`{"user":{"name":"{1}"}}`, `{"type":"a"},{"type":"b","any_one_of":["x"]}`), "{1} refers to none of the 1 values"},
		"automatic reference":     {one(`{"user":{"name":"{}"}}`, `{"type":"a"}`), "expected {0}, {1} and so on"},
		"attribute of a value":    {one(`{"user":{"name":"{0.x}"}}`, `{"type":"a"}`), "expected {0}"},
		"leading zero":            {one(`{"user":{"name":"{00}"}}`, `{"type":"a"}`), "expected {0}"},
		"open brace":              {one(`{"user":{"name":"{0"}}`, `{"type":"a"}`), "expected {0}"},
		"closing brace":           {one(`{"user":{"name":"0}"}}`, `{"type":"a"}`), "expected {0}"},
		"reference in a domain":   {one(`{"domain":{"id":"{9}"}}`, `{"type":"a"}`), "refers to none"},
		"reference in a role":     {one(`{"projects":[{"name":"p","roles":[{"name":"{9}"}]}]}`, `{"type":"a"}`), "refers to none"},
		"lookahead":               {one(``, `{"type":"a","any_one_of":["(?=x)"],"regex":true}`), "invalid regular expression"},
		"long regular expression": {one(``, `{"type":"a","any_one_of":["`+long+`xxxx"],"regex":true}`), "expected at most 10000"},
		"long regular expressions": {one(``, `{"type":"a","any_one_of":["`+long+`"],"regex":true},{"type":"a","any_one_of":["xxxx"],"regex":true}`),
			"more than 10000 bytes"},
		"a number in a list": {one(``, `{"type":"a","any_one_of":[1]}`), "cannot unmarshal number"},
	} {
		if _, err := mapping.Parse([]byte(c[0])); err == nil || !strings.Contains(err.Error(), c[1]) {
			t.Errorf("%s: %v, want %q", name, err, c[1])
		}
	}
	fits := one(``, `{"type":"a","any_one_of":["`+long+`"],"regex":true},{"type":"a","any_one_of":["xxx"],"regex":true}`)
	if _, err := mapping.Parse([]byte(fits)); err != nil {
		t.Error("regular expressions at the bound:", err)
	}
}

// TestDenied applies mappings that Keystone applies and this package does not,
// because the result would depend on how a list is written as text.
func TestDenied(t *testing.T) {
	several := mapping.Assertion{"a": {"x", "y"}, "json": {`JSON:{"name":"g","domain":{"id":"d"}}`}, "none": {"z"}}
	for name, c := range map[string]struct{ rule, want string }{
		"several values in a name":  {`{"local":[{"user":{"name":"{0}"}}],"remote":[{"type":"a"}]}`, "has 2 values: expected one"},
		"no value in a name":        {`{"local":[{"user":{"name":"{0}"}}],"remote":[{"type":"a","whitelist":["z"]}]}`, "has 0 values: expected one"},
		"several values with text":  {`{"local":[{"user":{"name":"u"}},{"groups":"g{0}","domain":{"id":"d"}}],"remote":[{"type":"a"}]}`, "has 2 values"},
		"no user":                   {`{"local":[{"group":{"id":"g"}}],"remote":[{"type":"a"}]}`, mapping.ErrNoUser.Error()},
		"a user without a name":     {`{"local":[{"user":{"email":"e"}}],"remote":[{"type":"a"}]}`, mapping.ErrNoUser.Error()},
		"no local entry":            {`{"local":[],"remote":[{"type":"a"}]}`, mapping.ErrNoRule.Error()},
		"groups that are no JSON":   {`{"local":[{"user":{"name":"u"}},{"groups":"JSON:x"}],"remote":[{"type":"a"}]}`, "invalid group"},
		"projects that are no JSON": {`{"local":[{"user":{"name":"u"},"projects_json":"{0}"}],"remote":[{"type":"none"}]}`, "invalid projects_json"},
	} {
		m, err := mapping.Parse([]byte(`{"schema_version":"3.0","rules":[` + c.rule + `]}`))
		if err != nil {
			t.Fatal(name, err)
		}
		if r, err := m.Apply(several); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %+v, %v, want %q", name, r, err, c.want)
		}
	}
	for domain, want := range map[string]mapping.Group{
		``:                     {Name: "g", Domain: mapping.Domain{ID: "d"}},
		`,"domain":{"id":"e"}`: {Name: several["json"][0], Domain: mapping.Domain{ID: "e"}},
	} {
		m, err := mapping.Parse([]byte(`{"rules":[{"local":[{"user":{"name":"u"}},{"groups":"{0}"` + domain + `}],"remote":[{"type":"json"}]}]}`))
		if err != nil {
			t.Fatal(err)
		}
		if r, err := m.Apply(several); err != nil || !slices.Equal(r.Groups, []mapping.Group{want}) {
			t.Errorf("domain %q: %+v, %v, want %v", domain, r, err, want)
		}
	}
}

// FuzzMapping parses any text, and applies what it parses: neither panics, and the
// result does not depend on the run.
func FuzzMapping(f *testing.F) {
	for _, c := range readVectors(f).Cases {
		assertion, err := json.Marshal(c.Assertion)
		if err != nil {
			f.Fatal(err)
		}
		f.Add([]byte(c.Mapping), assertion)
	}
	f.Fuzz(func(t *testing.T, text, assertion []byte) {
		m, err := mapping.Parse(text)
		if err != nil {
			return
		}
		var a mapping.Assertion
		if json.Unmarshal(assertion, &a) != nil {
			return
		}
		first, err := m.Apply(a)
		second, again := m.Apply(a)
		if !reflect.DeepEqual(first, second) || (err == nil) != (again == nil) {
			t.Errorf("%+v %v, then %+v %v", first, err, second, again)
		}
		if err == nil && first.User.ID == "" && first.User.Name == "" || err != nil && errors.Is(err, mapping.ErrNoUser) && first != nil {
			t.Errorf("a result without a user: %+v %v", first, err)
		}
	})
}

// TestParseNew reads mappings in which two readers could find different rules. A mapping
// that is stored already is read as before.
func TestParseNew(t *testing.T) {
	for text, want := range map[string]string{
		`{"rules":[{"local":[{"user":{"name":"{0}"}}],"remote":[{"type":"a"}]}],"Description":"d"}`:                     "",
		`{"Rules":[{"local":[],"remote":[{"type":"a"}]}]}`:                                                              "Rules: unknown member: expected rules",
		`{"rules":[],"rules":[{"local":[],"remote":[{"type":"a"}]}]}`:                                                   "duplicate member",
		`{"rules":[{"local":[],"remote":[{"type":"a","any_one_of":["x"],"any_one_of":["y"]}]}]}`:                        "duplicate member",
		`{"rules":[{"local":[],"remote":[{"type":"a","Any_One_Of":["x"]}]}]}`:                                           "rules[0].remote[0].Any_One_Of: unknown member: expected any_one_of",
		`{"rules":[{"local":[{"Group":{"id":"admins"}}],"remote":[{"type":"a"}]}]}`:                                     "rules[0].local[0].Group: unknown member: expected group",
		`{"rules":[{"local":[{"group":{"id":"users","ID":"admins"}}],"remote":[{"type":"a"}]}]}`:                        "rules[0].local[0].group.ID: unknown member: expected id",
		`{"rules":[{"local":[],"remote":[{"type":"a"}]}],"schema_version":"1.0","SCHEMA_VERSION":"3.0"}`:                "SCHEMA_VERSION: unknown member",
		`{"rules":[{"local":[{"projects":[{"name":"p","roles":[{"name":"r","Name":"s"}]}]}],"remote":[{"type":"a"}]}]}`: "roles[0].Name: unknown member",
	} {
		switch _, err := mapping.ParseNew([]byte(text)); {
		case want == "" && err != nil:
			t.Errorf("%s: %v", text, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: %v, want %q", text, err, want)
		}
		if _, err := mapping.Parse([]byte(text)); err != nil {
			t.Errorf("stored: %s: %v", text, err)
		}
	}
}
