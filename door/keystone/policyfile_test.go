package keystone_test

import (
	"strings"
	"testing"

	"github.com/ostiary/ostiary/door/keystone"
	"github.com/ostiary/ostiary/internal/identity/access"
	"github.com/ostiary/ostiary/internal/identity/settings"
)

// withRules returns a change of the door's options: a policy file with the rules.
func withRules(t *testing.T, file string) func(*keystone.Options) {
	t.Helper()
	rules, err := access.ParseFile([]byte(file))
	if err != nil {
		t.Fatal(err)
	}
	p, warnings, err := access.Default().Override(rules)
	if err != nil || len(warnings) > 0 {
		t.Fatal(err, warnings)
	}
	return func(o *keystone.Options) { o.Policy = func() *access.Policy { return p } }
}

// TestPolicyAttributes calls operations whose rules compare what a target is, what the path
// names, and what the request has. Each rule ends with a name: the record of that name is
// refused, and another one is not.
func TestPolicyAttributes(t *testing.T) {
	t.Parallel()
	c := newCloudWith(t, settings.Deployment{Rounds: 4}, withRules(t, `
"identity:delete_user": "rule:admin_required and not 'keep':%(target.user.name)s"
"identity:update_user": "rule:admin_required and not True:%(target.user.locked)s and not 'a.b':%(target.user.place.in.a.room)s"
"identity:delete_project": "rule:admin_required and not 'keep':%(target.project.name)s"
"identity:delete_group": "rule:admin_required and not 'keep':%(target.group.name)s"
"identity:delete_domain": "rule:admin_required and not 'keep':%(target.domain.name)s"
"identity:delete_role": "rule:admin_required and not 'keep':%(target.role.name)s"
"identity:create_grant": "rule:admin_required and not 'default':%(domain_id)s and not 'keep':%(target.user.name)s and not 'keep':%(target.project.name)s"
"identity:create_user": "rule:admin_required and not 'keep':%(request_body.user.name)s and not 'default':%(target.user.domain_id)s"
"identity:list_services": "rule:admin_required and not 'keep':%(filter_attr.name)s"
"identity:list_user_projects": "user_id:%(user_id)s"
"identity:get_project": "role:only-%(target.project.name)s"
"identity:get_group": "'x':%(target.group.tags)s or not 'x':%(target.group.tags)s"
"identity:get_domain": "role:admin and None:%(target.domain.note)s"
`))
	domain := c.id("domains", "domain", `"name":"d","note":null`)
	make := func(plural, singular, name, more string) string {
		return c.id(plural, singular, `"name":"`+name+`","domain_id":"`+domain+`"`+more)
	}
	only := c.id("roles", "role", `"name":"only-p1"`)
	p1, p2 := make("projects", "project", "p1", ""), make("projects", "project", "p2", "")
	u := make("users", "user", "u", `,"password":"x"`)
	for _, p := range []string{p1, p2} {
		c.ok(204, "PUT", "/v3/projects/"+p+"/users/"+u+"/roles/"+only, "", "")
	}
	login := func(project string) string {
		return c.do("POST", "/v3/auth/tokens", "", `{"auth":{"identity":{"methods":["password"],"password":{"user":{"id":"`+u+`","password":"x"}}},"scope":{"project":{"id":"`+project+`"}}}}`).header.Get("X-Subject-Token")
	}
	token := login(p1)
	for _, x := range []struct {
		what, method, path, token, body string
		status                          int
	}{
		{"another project", "GET", "/v3/projects/" + p2, token, "", 403},
		{"the project whose name the role has", "GET", "/v3/projects/" + p1, token, "", 200},
		{"the user of the path", "GET", "/v3/users/" + u + "/projects", token, "", 200},
		{"another user of the path", "GET", "/v3/users/" + make("users", "user", "v", "") + "/projects", token, "", 403},
		{"a list is not compared", "GET", "/v3/groups/" + make("groups", "group", "g", `,"tags":["a"]`), c.admin, "", 403},
		{"null", "GET", "/v3/domains/" + domain, c.admin, "", 200},
		{"no null", "GET", "/v3/domains/default", c.admin, "", 403},
		{"a kept user", "DELETE", "/v3/users/" + c.keep("users", "user", domain), c.admin, "", 403},
		{"a kept project", "DELETE", "/v3/projects/" + c.keep("projects", "project", domain), c.admin, "", 403},
		{"a kept group", "DELETE", "/v3/groups/" + c.keep("groups", "group", domain), c.admin, "", 403},
		{"a kept domain", "DELETE", "/v3/domains/" + c.id("domains", "domain", `"name":"keep","enabled":false`), c.admin, "", 403},
		{"another domain", "DELETE", "/v3/domains/" + c.id("domains", "domain", `"name":"drop","enabled":false`), c.admin, "", 204},
		{"a kept role", "DELETE", "/v3/roles/" + c.id("roles", "role", `"name":"keep"`), c.admin, "", 403},
		{"a grant in a domain", "PUT", "/v3/domains/" + domain + "/users/" + u + "/roles/" + only, c.admin, "", 204},
		{"a grant in the default domain", "PUT", "/v3/domains/default/users/" + u + "/roles/" + only, c.admin, "", 403},
		{"a grant of an inherited role in the default domain", "PUT", "/v3/OS-INHERIT/domains/default/users/" + u + "/roles/" + only + "/inherited_to_projects", c.admin, "", 403},
		{"a name in the body", "POST", "/v3/users", c.admin, `{"user":{"name":"keep","domain_id":"` + domain + `"}}`, 403},
		{"the default domain", "POST", "/v3/users", c.admin, `{"user":{"name":"w","domain_id":"default"}}`, 403},
		{"no domain", "POST", "/v3/users", c.admin, `{"user":{"name":"w"}}`, 403}, // Keystone makes the user in the default domain
		{"another name in the body", "POST", "/v3/users", c.admin, `{"user":{"name":"w","domain_id":"` + domain + `"}}`, 201},
		{"a parameter", "GET", "/v3/services?name=keep", c.admin, "", 403},
		{"another parameter", "GET", "/v3/services?name=x", c.admin, "", 200},
		{"no parameter", "GET", "/v3/services", c.admin, "", 200},
		{"a member of the record", "PATCH", "/v3/users/" + make("users", "user", "locked", `,"locked":true`), c.admin, `{"user":{"email":"e"}}`, 403},
		{"a member with another value", "PATCH", "/v3/users/" + make("users", "user", "open", `,"locked":false`), c.admin, `{"user":{"email":"e"}}`, 200},
		{"a member of a member", "PATCH", "/v3/users/" + make("users", "user", "inner", `,"place":{"in.a":{"room":"a.b"}}`), c.admin, `{"user":{"email":"e"}}`, 403},
		{"a member that is there twice", "PATCH", "/v3/users/" + make("users", "user", "twice", `,"place":{"in.a":{"room":"x"},"in":{"a.room":"a.b"}}`), c.admin, `{"user":{"email":"e"}}`, 403},
		{"another user", "DELETE", "/v3/users/" + u, c.admin, "", 204},
		{"another project", "DELETE", "/v3/projects/" + p1, c.admin, "", 204},
	} {
		if a := c.do(x.method, x.path, x.token, x.body); a.status != x.status {
			t.Errorf("%s: %s %s: %d %s, want %d", x.what, x.method, x.path, a.status, a.text, x.status)
		}
	}
}

// keep makes a record named keep. The rule that forbids the name in a body is about users, so
// a user gets the name later.
func (c *cloud) keep(plural, singular, domain string) string {
	c.t.Helper()
	id := c.id(plural, singular, `"name":"keeper","domain_id":"`+domain+`"`)
	c.ok(200, "PATCH", "/v3/"+plural+"/"+id, `{"`+singular+`":{"name":"keep"}}`, singular)
	return id
}

// TestArguments compares the names of the parameters of paths with those that rules of
// operations can name: a rule with each of them is accepted.
func TestArguments(t *testing.T) {
	t.Parallel()
	for operation, names := range map[string]string{
		"delete_user": "user_id", "create_grant": "project_id domain_id user_id group_id role_id", "create_implied_role": "prior_role_id implied_role_id",
		"create_project_tag": "project_id value", "update_domain_config": "domain_id group option", "ec2_delete_credential": "user_id credential_id",
		"get_protocol": "idp_id protocol_id", "get_trust": "trust_id", "add_endpoint_group_to_project": "endpoint_group_id project_id",
	} {
		for _, name := range strings.Fields(names) {
			withRules(t, `"identity:`+operation+`": "not 'x':%(`+name+`)s"`)
		}
	}
}
