package keystone_test

import (
	"fmt"
	"strings"
	"testing"
)

// TestEqualTrusts makes trusts that have the same users, project, impersonation and
// end: one of them only, whatever else they contain.
func TestEqualTrusts(t *testing.T) {
	t.Parallel()
	a := newActors(t)
	make := func(want int, members string) {
		t.Helper()
		r := a.do("POST", "/v3/OS-TRUST/trusts", a.own, fmt.Sprintf(`{"trust":{"trustor_user_id":%q,"trustee_user_id":%q,"project_id":%q,%s}}`, a.anne, a.bob, a.project, members))
		if r.status != want || want == 409 && !strings.Contains(r.text, "Conflict occurred attempting to store trust - Duplicate entry found with ID ") {
			t.Errorf("%s: %d %s, want %d", members, r.status, r.text, want)
		}
	}
	member := `"roles":[{"name":"member"}]`
	until := `"expires_at":"2099-01-01T00:00:00Z",`
	make(201, `"impersonation":false,`+member)
	make(201, `"impersonation":false,`+member) // without an end, they do not conflict
	make(201, until+`"impersonation":false,`+member)
	make(409, until+`"impersonation":false,`+member)
	make(409, until+`"impersonation":false,"roles":[{"name":"reader"}]`)
	make(409, until+`"impersonation":false,"remaining_uses":4,`+member)
	make(201, until+`"impersonation":true,`+member)
	make(201, `"expires_at":"2099-01-01T00:00:01Z","impersonation":false,`+member)
	other := a.id("users", "user", `"name":"carl"`)
	a.as(a.own, 201, "POST", "/v3/OS-TRUST/trusts", fmt.Sprintf(`{"trust":{"trustor_user_id":%q,"trustee_user_id":%q,"project_id":%q,%s"impersonation":false,%s}}`, a.anne, other, a.project, until, member), "")
}

// TestCatalogMembers reads endpoints with further members in catalogs.
func TestCatalogMembers(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	service := c.id("services", "service", `"type":"compute"`)
	c.id("endpoints", "endpoint", `"interface":"public","url":"http://x","service_id":"`+service+`","name":"nnn","description":"ddd","more":[1]`)
	c.id("endpoints", "endpoint", `"interface":"admin","url":"http://y","service_id":"`+service+`","description":"eee"`)
	text := c.do("GET", "/v3/auth/catalog", c.admin, "").text
	for _, part := range []string{`"url":"http://x","region":null,"name":"nnn","description":"ddd","more":[1]}`, `"url":"http://y","region":null,"description":"eee"}`} {
		if !strings.Contains(text, part) {
			t.Errorf("the catalog lacks %s: %s", part, text)
		}
	}
}

// TestMembershipsAndMethods reads the groups of a user, and calls a path with a wrong
// method.
func TestMembershipsAndMethods(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	v := map[string]string{"user": c.id("users", "user", `"name":"u"`), "group": c.id("groups", "group", `"name":"g"`)}
	c.play(`
PUT /v3/groups/{group}/users/{user} => 204
GET /v3/users/{user}/groups => 200 "membership_expires_at":null
PUT /v3/users {} => 405 {"message":"The method is not allowed for the requested URL."}
GET /v3/role_inferences => 200 {"role_inferences":[
`, v)
	if a := c.do("GET", "/v3/groups", c.admin, ""); strings.Contains(a.text, "membership") {
		t.Error("a group that is no membership:", a.text)
	}
	if a := c.do("GET", "/v3/role_inferences", c.admin, ""); strings.Contains(a.text, `],"links"`) {
		t.Error("inferences with links of the list:", a.text)
	}
	for _, method := range []string{"PUT", "OPTIONS"} {
		if allow := c.do(method, "/v3/users", c.admin, "").header.Get("Allow"); allow != "GET, HEAD, POST, OPTIONS" {
			t.Errorf("%s: Allow: %s", method, allow)
		}
	}
}

// TestEffectiveLinks reads the links of effective rows: to the grant, the
// membership and the implication that give the role.
func TestEffectiveLinks(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	v := map[string]string{"user": c.id("users", "user", `"name":"u"`), "group": c.id("groups", "group", `"name":"g"`), "project": c.id("projects", "project", `"name":"p"`),
		"manager": c.roles["manager"], "member": c.roles["member"], "reader": c.roles["reader"]}
	grant := `{"links":{"assignment":"http://keystone/v3/OS-INHERIT/domains/default/groups/{group}/roles/`
	membership := `/inherited_to_projects","membership":"http://keystone/v3/groups/{group}/users/{user}"`
	c.play(`
PUT /v3/groups/{group}/users/{user} => 204
PUT /v3/OS-INHERIT/domains/default/groups/{group}/roles/{manager}/inherited_to_projects => 204
GET /v3/role_assignments?effective&user.id={user}&role.id={manager}&scope.project.id={project} => 200 `+grant+`{manager}`+membership+`},"scope":{"project":{"id":"{project}"
GET /v3/role_assignments?effective&user.id={user}&role.id={member}&scope.project.id={project} => 200 `+grant+`{manager}`+membership+`,"prior_role":"http://keystone/v3/prior_role/{member}/implies/{manager}"}
GET /v3/role_assignments?effective&user.id={user}&role.id={reader}&scope.project.id={project} => 200 `+grant+`{member}`+membership+`,"prior_role":"http://keystone/v3/prior_role/{reader}/implies/{member}"}
`, v)
}

// TestAccessRulesNeedTheCatalog disables the service identity: a token with access
// rules permits no request, because its catalog lacks the service of the rules.
func TestAccessRulesNeedTheCatalog(t *testing.T) {
	t.Parallel()
	a := newActors(t)
	token := a.by(a.application(`"name":"robot","access_rules":[{"service":"identity","method":"GET","path":"/v3/users/*"}]`))
	path := "/v3/users/" + a.anne
	if r := a.do("GET", path, token, ""); r.status != 200 {
		t.Fatal(r.status, r.text)
	}
	services := a.do("GET", "/v3/services?type=identity", a.admin, "").body["services"].([]any)
	a.ok(200, "PATCH", "/v3/services/"+services[0].(map[string]any)["id"].(string), `{"service":{"enabled":false}}`, "")
	if r := a.do("GET", path, token, ""); r.status != 401 {
		t.Errorf("without the service in the catalog: %d %s", r.status, r.text)
	}
	if r := a.do("GET", "/v3/auth/tokens", token, "", "X-Subject-Token", token); r.status != 404 {
		t.Errorf("a validation by a caller without access rules support: %d %s", r.status, r.text)
	}
}
