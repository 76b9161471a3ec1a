package keystone_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// actors are the users of the tests of delegations: anne has the role member on
// the project, bob has no role.
type actors struct {
	*cloud
	project, anne, bob string
	own, bobs          string // tokens: of anne for the project, and of bob without a scope
}

func newActors(t testing.TB) *actors {
	t.Helper()
	c := newCloud(t)
	a := &actors{cloud: c, project: c.id("projects", "project", `"name":"p"`), anne: c.id("users", "user", `"name":"anne","password":"x"`),
		bob: c.id("users", "user", `"name":"bob","password":"x"`)}
	c.ok(204, "PUT", "/v3/projects/"+a.project+"/users/"+a.anne+"/roles/"+c.roles["member"], "", "")
	a.own = c.token("anne", "x", `{"project":{"id":"`+a.project+`"}}`)
	a.bobs = c.token("bob", "x", "")
	return a
}

// as sends a request that must have a status, and returns the member of the body
// with the name.
func (a *actors) as(token string, status int, method, path, body, member string) map[string]any {
	a.t.Helper()
	r := a.do(method, path, token, body)
	if r.status != status {
		a.t.Fatalf("%s %s: %d %s, want %d", method, path, r.status, r.text, status)
	}
	m, _ := r.body[member].(map[string]any)
	return m
}

// applications is the path of the application credentials of anne.
func (a *actors) applications() string { return "/v3/users/" + a.anne + "/application_credentials" }

// application makes an application credential of anne.
func (a *actors) application(members string) map[string]any {
	a.t.Helper()
	return a.as(a.own, 201, "POST", a.applications(), `{"application_credential":{`+members+`}}`, "application_credential")
}

// loginBy logs in with a part of the method application_credential.
func (a *actors) loginBy(part, scope string) answer {
	return a.do("POST", "/v3/auth/tokens", "", `{"auth":{"identity":{"methods":["application_credential"],"application_credential":`+part+`}`+scope+`}}`)
}

// by returns a token of a login with an application credential.
func (a *actors) by(x map[string]any) string {
	a.t.Helper()
	r := a.loginBy(fmt.Sprintf(`{"id":%q,"secret":%q}`, x["id"], x["secret"]), "")
	if r.status != 201 {
		a.t.Fatal(r.status, r.text)
	}
	return r.header.Get("X-Subject-Token")
}

func TestApplicationCredentials(t *testing.T) {
	a := newActors(t)
	x := a.application(`"name":"deploy","description":"d","expires_at":"2099-01-01T00:00:00Z","roles":[{"name":"reader"}],"unrestricted":false`)
	secret, _ := x["secret"].(string)
	if len(secret) != 86 || x["expires_at"] != "2099-01-01T00:00:00.000000" || x["unrestricted"] != false || x["description"] != "d" || x["user_id"] != a.anne ||
		x["project_id"] != a.project || fmt.Sprint(x["system"]) != "<nil>" || len(x["roles"].([]any)) != 1 || x["access_rules"] != nil {
		t.Error(x)
	}
	path := a.applications() + "/" + x["id"].(string)
	if got := a.as(a.own, 200, "GET", path, "", "application_credential"); got["secret"] != nil || got["name"] != "deploy" {
		t.Error(got)
	}
	for query, want := range map[string]int{"": 1, "?name=deploy": 1, "?name=x": 0} {
		r := a.do("GET", a.applications()+query, a.own, "")
		if list, _ := r.body["application_credentials"].([]any); r.status != 200 || len(list) != want || strings.Contains(r.text, "secret") {
			t.Errorf("%s: %d %s, want %d", query, r.status, r.text, want)
		}
	}
	id := fmt.Sprintf(`"id":%q`, x["id"])
	for part, want := range map[string]struct {
		status int
		text   string
	}{
		`{` + id + `,"secret":"` + secret + `"}`:                                                       {201, `"restricted":false`},
		`{"name":"deploy","user":{"id":"` + a.anne + `"},"secret":"` + secret + `"}`:                   {201, `"methods":["application_credential"]`},
		`{"name":"deploy","user":{"name":"anne","domain":{"id":"default"}},"secret":"` + secret + `"}`: {201, `"name":"deploy"`},
		`{"name":"deploy","user":{"name":"anne","domain":{"name":"nope"}},"secret":"` + secret + `"}`:  {401, "requires authentication"},
		`{"name":"deploy","user":{"name":"nope","domain":{"id":"default"}},"secret":"` + secret + `"}`: {401, "requires authentication"},
		`{"name":"deploy","user":{"id":"` + a.bob + `"},"secret":"` + secret + `"}`:                    {401, "requires authentication"},
		`{"name":"nope","user":{"id":"` + a.anne + `"},"secret":"` + secret + `"}`:                     {401, "requires authentication"},
		`{"name":"deploy","secret":"` + secret + `"}`:                                                  {400, "Expecting to find user in application credential."},
		`{"name":"deploy","user":{"name":"anne"},"secret":"x"}`:                                        {400, "Expecting to find domain in user."},
		`{"name":"deploy","user":{},"secret":"x"}`:                                                     {400, "Expecting to find id or name in user."},
		`{}`:                                   {400, "Expecting to find name or ID in application credential."},
		`[]`:                                   {400, "application_credential"},
		`{"id":"nope","secret":"x"}`:           {404, "Could not find Application Credential: nope."},
		`{` + id + `,"secret":"x"}`:            {401, "requires authentication"},
		`{` + id + `}`:                         {401, "requires authentication"},
		`{"id":"` + a.anne + `","secret":"x"}`: {404, "Could not find Application Credential"},
	} {
		want.text = strings.ReplaceAll(want.text, `"restricted":false`, `"restricted":true`)
		if r := a.loginBy(part, ""); r.status != want.status || !strings.Contains(r.text, want.text) {
			t.Errorf("%s: %d %s, want %d %q", part, r.status, r.text, want.status, want.text)
		}
	}
	for _, scope := range []string{`"project":{"id":"` + a.project + `"}`, `"unscoped":{}`, `"system":{"all":true}`} {
		r := a.loginBy(`{`+id+`,"secret":"`+secret+`"}`, `,"scope":{`+scope+`}`)
		if r.status != 401 || !strings.Contains(r.text, "cannot request a scope") {
			t.Errorf("scope %s: %d %s", scope, r.status, r.text)
		}
	}
	a.as(a.own, 204, "DELETE", path, "", "")
	a.as(a.own, 404, "GET", path, "", "")
}

func TestBadApplicationCredentialBodies(t *testing.T) {
	a := newActors(t)
	for members, want := range map[string]string{
		``: "'name' is a required property", `"name":""`: "should be non-empty", `"name":"x","foo":1`: "Additional properties are not allowed ('foo' was unexpected)",
		`"name":"x","unrestricted":"yes"`: "is not of type 'boolean'", `"name":"x","expires_at":"soon"`: "expected RFC 3339", `"name":"x","expires_at":7`: "is not of type 'string'",
		`"name":"x","expires_at":"2001-01-01T00:00:00Z"`: "must not be before now", `"name":"x","roles":"member"`: "is not of type 'array'", `"name":"x","roles":[7]`: "an id or a name",
		`"name":"x","roles":[{}]`: "an id or a name", `"name":"x","roles":[{"id":"a","domain_id":"b"}]`: "an id or a name", `"name":"x","roles":[{"id":7}]`: "an id or a name",
		`"name":"x","roles":[{"name":"admin"}]`: "unassigned role", `"name":"x","access_rules":{}`: "expected a list",
		`"name":"x","access_rules":[{"service":"s","method":"GET","path":"/","x":"y"}]`: "('x' was unexpected)",
		`"name":"x","access_rules":[{"service":"s","method":"HUH","path":"/"}]`:         "is not one of",
	} {
		r := a.do("POST", a.applications(), a.own, `{"application_credential":{`+members+`}}`)
		if r.status != 400 || !strings.Contains(r.text, want) {
			t.Errorf("%s: %d %s, want 400 %q", members, r.status, r.text, want)
		}
	}
	if r := a.do("POST", a.applications(), a.own, `{"application_credential":{"name":"x","roles":[{"name":"nope"}]}}`); r.status != 404 || !strings.Contains(r.text, "Role nope is not defined") {
		t.Error(r.status, r.text)
	}
}

// TestOwnersOfApplicationCredentials names another user in paths.
func TestOwnersOfApplicationCredentials(t *testing.T) {
	a := newActors(t)
	x := a.application(`"name":"x","access_rules":[{"service":"s","method":"GET","path":"/x"}]`)
	rule := x["access_rules"].([]any)[0].(map[string]any)["id"].(string)
	id, foreign := x["id"].(string), "/v3/users/"+a.bob
	for call, want := range map[string]int{
		"POST " + a.applications() + " bob": 403, "POST " + a.applications() + " admin": 403, "POST " + foreign + "/application_credentials bob": 403,
		"GET " + a.applications() + " bob": 403, "GET " + a.applications() + " admin": 200, "GET " + a.applications() + "/" + id + " admin": 200,
		"GET " + foreign + "/application_credentials/" + id + " bob": 403, "DELETE " + foreign + "/application_credentials/" + id + " bob": 403,
		"GET " + foreign + "/application_credentials/nope bob": 404, "GET " + a.applications() + "/nope bob": 403, "GET " + foreign + "/application_credentials/" + id + " anne": 200,
		"GET /v3/users/" + a.anne + "/access_rules bob": 403, "GET /v3/users/" + a.anne + "/access_rules admin": 403, "GET " + foreign + "/access_rules/" + rule + " bob": 404,
		"GET /v3/users/" + a.anne + "/access_rules/" + rule + " bob": 403, "DELETE " + foreign + "/access_rules/" + rule + " bob": 404,
		"GET /v3/users/" + a.anne + "/access_rules/" + rule + " anne": 200, "GET /v3/users/" + a.anne + "/access_rules/nope anne": 404,
		"DELETE /v3/users/" + a.anne + "/access_rules/" + rule + " anne": 403, "DELETE /v3/users/" + a.anne + "/access_rules/" + rule + " admin": 403,
		"GET /v3/users/nope/access_rules bob": 403,
	} {
		words := strings.Fields(call)
		body := ""
		if words[0] == "POST" {
			body = `{"application_credential":{"name":"y"}}`
		}
		token := map[string]string{"anne": a.own, "bob": a.bobs, "admin": a.admin}[words[2]]
		if r := a.do(words[0], words[1], token, body); r.status != want {
			t.Errorf("%s: %d %s, want %d", call, r.status, r.text, want)
		}
	}
	// The administrator may delete it. Then the rule is free.
	a.as(a.admin, 204, "DELETE", a.applications()+"/"+id, "", "")
	a.as(a.own, 204, "DELETE", "/v3/users/"+a.anne+"/access_rules/"+rule, "", "")
	if r := a.do("GET", "/v3/users/"+a.anne+"/access_rules", a.own, ""); !strings.Contains(r.text, `"access_rules":[]`) {
		t.Error(r.text)
	}
}

// TestAccessRulesOfTokens uses a token whose application credential has access
// rules: as a caller here, and as the subject of a validation.
func TestAccessRulesOfTokens(t *testing.T) {
	a := newActors(t)
	x := a.application(`"name":"x","access_rules":[{"service":"identity","method":"GET","path":"/v3/users/*"},{"service":"compute","method":"GET","path":"/v3/**"}]`)
	token := a.by(x)
	user := "/v3/users/" + a.anne
	for call, want := range map[string]int{
		"GET " + user: 200, "HEAD " + user: 401, "PATCH " + user: 401, "GET " + user + "/": 200, "GET " + user + "/groups": 401, "GET /v3/users": 401, "GET /v3/users/": 401,
		"GET /identity" + user: 401, "GET /v3/auth/projects": 401, "GET /v3/users/" + a.anne + "%2Fgroups": 403, "POST " + a.applications(): 401, "GET /v3/users/..": 403,
	} {
		method, path, _ := strings.Cut(call, " ")
		if r := a.do(method, path, token, ""); r.status != want {
			t.Errorf("%s: %d %s, want %d", call, r.status, r.text, want)
		}
	}
	// A service calls on behalf of the user.
	service := a.id("users", "user", `"name":"nova","password":"x"`)
	a.ok(204, "PUT", "/v3/projects/"+a.project+"/users/"+service+"/roles/"+a.roles["service"], "", "")
	nova := a.token("nova", "x", `{"project":{"id":"`+a.project+`"}}`)
	for header, want := range map[string]int{nova: 200, a.own: 401, a.admin: 401, "garbage": 401, token: 401} {
		if r := a.do("GET", "/v3/auth/projects", token, "", "X-Service-Token", header); r.status != want {
			t.Errorf("X-Service-Token %.20s: %d %s, want %d", header, r.status, r.text, want)
		}
	}
	// Every token can be validated, if the caller checks access rules.
	for header, want := range map[string]int{"1": 200, "1.0": 200, "2": 200, "0.9": 404, "": 404, "x": 404, "NaN": 404, "-1": 404} {
		for _, method := range []string{"GET", "HEAD"} {
			r := a.do(method, "/v3/auth/tokens", a.admin, "", "X-Subject-Token", token, "OpenStack-Identity-Access-Rules", header)
			if r.status != want || want == 200 && !strings.Contains(r.text, `"path":"/v3/users/*"`) {
				t.Errorf("%s with version %q: %d %s, want %d", method, header, r.status, r.text, want)
			}
		}
	}
	if r := a.do("GET", "/v3/auth/tokens", token, "", "X-Subject-Token", a.own); r.status != 200 {
		t.Error("a validation of an own token:", r.status, r.text)
	}
	if r := a.do("DELETE", "/v3/auth/tokens", a.admin, "", "X-Subject-Token", token); r.status != 204 {
		t.Error(r.status, r.text)
	}
	if r := a.do("GET", user, token, ""); r.status != 401 {
		t.Error("a revoked token:", r.status)
	}
}

// TestSeveralMethods logs in with an application credential and another method.
func TestSeveralMethods(t *testing.T) {
	a := newActors(t)
	x := a.application(`"name":"x"`)
	body := func(user string) string {
		return fmt.Sprintf(`{"auth":{"identity":{"methods":["password","application_credential"],"password":{"user":{"id":%q,"password":"x"}},"application_credential":{"id":%q,"secret":%q}}}}`,
			user, x["id"], x["secret"])
	}
	if r := a.do("POST", "/v3/auth/tokens", "", body(a.anne)); r.status != 201 || !strings.Contains(r.text, `"methods":["application_credential","password"]`) || !strings.Contains(r.text, `"restricted":true`) {
		t.Error(r.status, r.text)
	}
	if r := a.do("POST", "/v3/auth/tokens", "", body(a.bob)); r.status != 401 {
		t.Error("two users:", r.status, r.text)
	}
}

// trustBody returns the body of a new trust from anne to bob.
func (a *actors) trustBody(members string) string {
	return `{"trust":{"trustor_user_id":"` + a.anne + `","trustee_user_id":"` + a.bob + `","project_id":"` + a.project + `","impersonation":true,"roles":[{"name":"member"}]` + members + `}}`
}

func (a *actors) trust(members string) map[string]any {
	a.t.Helper()
	return a.as(a.own, 201, "POST", "/v3/OS-TRUST/trusts", a.trustBody(members), "trust")
}

func (a *actors) useTrust(user string, id any) answer {
	return a.login(user, "x", fmt.Sprintf(`{"OS-TRUST:trust":{"id":%q}}`, id))
}

func TestTrusts(t *testing.T) {
	a := newActors(t)
	x := a.trust(`,"expires_at":"2099-01-01T00:00:00.5Z","remaining_uses":2,"note":{"a":[1]}`)
	id := x["id"].(string)
	if x["expires_at"] != "2099-01-01T00:00:00.500000Z" || fmt.Sprint(x["remaining_uses"]) != "2" || x["deleted_at"] != nil || x["redelegation_count"] != 0.0 || fmt.Sprint(x["note"]) != "map[a:[1]]" ||
		len(x["roles"].([]any)) != 1 || x["roles_links"].(map[string]any)["self"] != "http://keystone/v3/OS-TRUST/trusts/"+id+"/roles" {
		t.Error(x)
	}
	path := "/v3/OS-TRUST/trusts/" + id
	r := a.useTrust("bob", id)
	token := r.header.Get("X-Subject-Token")
	if r.status != 201 || !strings.Contains(r.text, `"OS-TRUST:trust":{"id":"`+id+`","trustor_user":{"id":"`+a.anne+`"},"trustee_user":{"id":"`+a.bob+`"},"impersonation":true}`) ||
		!strings.Contains(r.text, `"name":"anne"`) || strings.Contains(r.text, "is_domain") || !strings.Contains(r.text, `"description"`) {
		t.Error(r.status, r.text)
	}
	if got := a.as(a.own, 200, "GET", path, "", "trust"); fmt.Sprint(got["remaining_uses"]) != "1" {
		t.Error(got)
	}
	for call, want := range map[string]int{
		"GET " + path + " bob": 200, "GET " + path + " anne": 200, "GET " + path + " admin": 200, "GET " + path + " trust": 200, "GET /v3/OS-TRUST/trusts/nope bob": 404, "PATCH " + path + " anne": 405,
		"GET " + path + "/roles bob": 200, "GET " + path + "/roles/" + a.roles["member"] + " bob": 200, "HEAD " + path + "/roles/" + a.roles["member"] + " bob": 200,
		"GET " + path + "/roles/" + a.roles["admin"] + " bob": 404, "DELETE " + path + " bob": 403,
		"GET /v3/OS-TRUST/trusts anne": 403, "GET /v3/OS-TRUST/trusts admin": 200, "HEAD /v3/OS-TRUST/trusts admin": 200,
		"GET /v3/OS-TRUST/trusts?trustor_user_id=" + a.anne + " anne": 200, "GET /v3/OS-TRUST/trusts?trustee_user_id=" + a.bob + " bob": 200,
		"GET /v3/OS-TRUST/trusts?trustor_user_id=" + a.anne + " bob": 403, "GET /v3/OS-TRUST/trusts?trustee_user_id=" + a.bob + " anne": 403,
		"GET /v3/OS-TRUST/trusts?trustee_user_id=" + a.bob + "&trustor_user_id=" + a.anne + " bob": 403,
		"GET /v3/users/" + a.anne + " trust": 200, "GET /v3/users/" + a.bob + " trust": 403,
		"GET " + a.applications() + " trust": 403, "POST " + a.applications() + " trust": 403, "GET /v3/users/" + a.anne + "/access_rules trust": 403,
	} {
		words := strings.Fields(call)
		body := ""
		if words[0] == "POST" {
			body = `{"application_credential":{"name":"y"}}`
		}
		if r := a.do(words[0], words[1], map[string]string{"anne": a.own, "bob": a.bobs, "admin": a.admin, "trust": token}[words[2]], body); r.status != want {
			t.Errorf("%s: %d %s, want %d", call, r.status, r.text, want)
		}
	}
	list := a.do("GET", "/v3/OS-TRUST/trusts?trustee_user_id="+a.bob, a.bobs, "")
	if all, _ := list.body["trusts"].([]any); len(all) != 1 || strings.Contains(list.text, `"roles"`) {
		t.Error(list.text)
	}
	// The second use is the last one. Then the trust is not found, but can be deleted.
	if r := a.useTrust("bob", id); r.status != 201 {
		t.Error(r.status, r.text)
	}
	if r := a.useTrust("bob", id); r.status != 401 {
		t.Error("a third use of two:", r.status, r.text)
	}
	a.as(a.own, 404, "GET", path, "", "")
	a.as(a.own, 204, "DELETE", path, "", "")
	for subject, want := range map[string]int{token: 404, a.own: 200} {
		if r := a.do("GET", "/v3/auth/tokens", a.admin, "", "X-Subject-Token", subject); r.status != want {
			t.Errorf("%d %s, want %d", r.status, r.text, want)
		}
	}
	if r := a.do("GET", "/v3/auth/projects", token, ""); r.status != 401 {
		t.Error("a token of a deleted trust:", r.status, r.text)
	}
}

func TestBadTrustBodies(t *testing.T) {
	a := newActors(t)
	for members, want := range map[string]struct {
		status int
		text   string
	}{
		`,"trustor_user_id":"x"`: {400, ""}, `,"remaining_uses":0`: {400, "0 is less than"}, `,"remaining_uses":"x"`: {400, "'integer', 'null'"}, `,"remaining_uses":1.5`: {400, "'integer', 'null'"},
		`,"remaining_uses":9999999999`: {400, "'integer', 'null'"}, `,"redelegation_count":-1`: {400, "-1 is less than"}, `,"allow_redelegation":1`: {400, "'boolean'"},
		`,"redelegated_trust_id":"x"`: {400, "redelegates the trust of the token"}, `,"expires_at":"x"`: {400, "RFC 3339"}, `,"remaining_uses":2,"allow_redelegation":true`: {400, "must not be set"},
		`,"redelegation_count":4,"allow_redelegation":true`:                                                                {403, "greater than allowed 3"},
		`,"remaining_uses":null,"redelegation_count":null,"expires_at":null,"deleted_at":null,"redelegated_trust_id":null`: {201, `"remaining_uses":null`},
	} {
		if r := a.do("POST", "/v3/OS-TRUST/trusts", a.own, a.trustBody(members)); r.status != want.status || !strings.Contains(r.text, want.text) {
			t.Errorf("%s: %d %s, want %d %q", members, r.status, r.text, want.status, want.text)
		}
	}
	for body, want := range map[string]int{`{"trust":{}}`: 400, `{}`: 400, `{"trust":{"trustor_user_id":"` + a.anne + `","trustee_user_id":"` + a.bob + `","impersonation":true}}`: 403,
		strings.Replace(a.trustBody(""), a.anne, a.bob, 1): 403, strings.Replace(a.trustBody(""), a.bob, "nope", 1): 404, strings.Replace(a.trustBody(""), "true", `"yes"`, 1): 400} {
		if r := a.do("POST", "/v3/OS-TRUST/trusts", a.own, body); r.status != want {
			t.Errorf("%s: %d %s, want %d", body, r.status, r.text, want)
		}
	}
	// An administrator cannot delegate for another user.
	a.as(a.admin, 403, "POST", "/v3/OS-TRUST/trusts", a.trustBody(""), "")
}

// TestTokensOfDelegations does with the token of each kind of delegation what
// would make it reach further.
func TestTokensOfDelegations(t *testing.T) {
	a := newActors(t)
	other := a.id("projects", "project", `"name":"q"`)
	a.ok(204, "PUT", "/v3/projects/"+other+"/users/"+a.anne+"/roles/"+a.roles["admin"], "", "")
	redelegable := a.trust(`,"allow_redelegation":true`)
	tokens := map[string]string{
		"restricted":   a.by(a.application(`"name":"restricted"`)),
		"unrestricted": a.by(a.application(`"name":"unrestricted","unrestricted":true`)),
		"trust":        a.useTrust("bob", redelegable["id"]).header.Get("X-Subject-Token"),
	}
	victim := a.application(`"name":"victim"`)["id"].(string)
	mine := a.trust("")["id"].(string)
	for call, want := range map[string]map[string]int{
		"rescope":      {"restricted": 403, "unrestricted": 403, "trust": 403},
		"rescope to q": {"restricted": 403, "unrestricted": 403, "trust": 403},
		"new token":    {"restricted": 403, "unrestricted": 403, "trust": 403},
		"POST " + a.applications() + ` {"application_credential":{"name":"NEW"}}`:                             {"restricted": 403, "unrestricted": 201, "trust": 403},
		"POST " + a.applications() + ` {"application_credential":{"name":"NEW2","roles":[{"name":"admin"}]}}`: {"restricted": 403, "unrestricted": 400, "trust": 403},
		"GET " + a.applications():                           {"restricted": 200, "unrestricted": 200, "trust": 403},
		"GET " + a.applications() + "/" + victim:            {"restricted": 200, "unrestricted": 200, "trust": 403},
		"GET /v3/users/" + a.anne + "/access_rules":         {"restricted": 200, "unrestricted": 200, "trust": 403},
		"POST /v3/OS-TRUST/trusts " + a.trustBody(""):       {"restricted": 403, "unrestricted": 403, "trust": 201},
		"GET /v3/OS-TRUST/trusts/" + mine:                   {"restricted": 403, "unrestricted": 403, "trust": 200},
		"GET /v3/OS-TRUST/trusts?trustor_user_id=" + a.anne: {"restricted": 403, "unrestricted": 403, "trust": 200},
		"DELETE /v3/OS-TRUST/trusts/" + mine:                {"restricted": 403, "unrestricted": 403, "trust": 403},
		"GET /v3/users":                                     {"restricted": 403, "unrestricted": 403, "trust": 403},
	} {
		for name, status := range want {
			if r := a.reach(call, tokens[name], other); r.status != status {
				t.Errorf("%s with the token %s: %d %s, want %d", call, name, r.status, r.text, status)
			}
		}
	}
	for name, status := range map[string]int{"restricted": 403, "trust": 403, "unrestricted": 204} {
		if r := a.do("DELETE", a.applications()+"/"+victim, tokens[name], ""); r.status != status {
			t.Errorf("deleting with the token %s: %d %s, want %d", name, r.status, r.text, status)
		}
	}
}

// reach sends a request, or makes a token from a token.
func (a *actors) reach(call, token, project string) answer {
	scope := map[string]string{"rescope": `,"scope":{"project":{"id":"` + a.project + `"}}`, "rescope to q": `,"scope":{"project":{"id":"` + project + `"}}`, "new token": ""}
	if s, ok := scope[call]; ok {
		return a.do("POST", "/v3/auth/tokens", "", fmt.Sprintf(`{"auth":{"identity":{"methods":["token"],"token":{"id":%q}}%s}}`, token, s))
	}
	words := append(strings.SplitN(call, " ", 3), "")
	body := strings.ReplaceAll(words[2], "NEW", "x"+token[len(token)-8:])
	return a.do(words[0], words[1], token, body)
}

// TestSystemTokens makes tokens from a token for the system.
func TestSystemTokens(t *testing.T) {
	c := newCloud(t)
	system := c.token("admin", "secret", `{"system":{"all":true}}`)
	for scope, want := range map[string]int{`{"project":{"name":"admin","domain":{"id":"default"}}}`: 403, `{"domain":{"id":"default"}}`: 403, `{"unscoped":{}}`: 201, `{"system":{"all":true}}`: 201} {
		r := c.do("POST", "/v3/auth/tokens", "", fmt.Sprintf(`{"auth":{"identity":{"methods":["token"],"token":{"id":%q}},"scope":%s}}`, system, scope))
		if r.status != want {
			t.Errorf("%s: %d %s, want %d", scope, r.status, r.text, want)
		}
	}
}

// TestTokenChainOfTrust revokes the token that a token of a trust was made from.
func TestTokenChainOfTrust(t *testing.T) {
	a := newActors(t)
	x := a.trust("")
	login := fmt.Sprintf(`{"auth":{"identity":{"methods":["token"],"token":{"id":%q}},"scope":{"OS-TRUST:trust":{"id":%q}}}}`, a.bobs, x["id"])
	r := a.do("POST", "/v3/auth/tokens", "", login)
	if r.status != 201 {
		t.Fatal(r.status, r.text)
	}
	first := a.do("GET", "/v3/auth/tokens", a.admin, "", "X-Subject-Token", a.bobs).body["token"].(map[string]any)
	made := r.body["token"].(map[string]any)
	if made["expires_at"] != first["expires_at"] || !slices.Contains(made["audit_ids"].([]any), first["audit_ids"].([]any)[0]) {
		t.Errorf("%v\n%v", made, first)
	}
	a.as(a.bobs, 403, "GET", "/v3/users", "", "")
	if r := a.do("DELETE", "/v3/auth/tokens", a.admin, "", "X-Subject-Token", a.bobs); r.status != 204 {
		t.Fatal(r.status, r.text)
	}
	if got := a.do("GET", "/v3/auth/tokens", a.admin, "", "X-Subject-Token", r.header.Get("X-Subject-Token")); got.status != 404 {
		t.Error("the token of the trust outlives the one that it was made from:", got.status, got.text)
	}
}
