package keystone_test

import (
	"fmt"
	"strings"
	"testing"
)

// personas are users of domain A, each with one grant: a role on the system (s),
// on the domain (d) or on the project a (p).
var personas = []string{"s-admin", "s-manager", "s-member", "s-reader", "d-admin", "d-manager", "d-member", "d-reader",
	"p-admin", "p-manager", "p-member", "p-reader", "p-service"}

// matrix is what each persona gets: Keystone 30.0.0 answered the same. The
// columns are those of personas. In paths and bodies, {x} is the id of x.
const matrix = `
GET /v3/users                                        200 200 200 200  200 200 200 200  200 403 403 403  403
GET /v3/groups                                       200 200 200 200  200 200 200 200  200 403 403 403  403
GET /v3/projects                                     200 200 200 200  200 200 200 200  200 403 403 403  403
GET /v3/domains                                      200 200 200 200  200 200 200 200  200 403 403 403  403
GET /v3/users?domain_id={B}                          200 200 200 200  200 200 200 200  200 403 403 403  403
GET /v3/users/{vA}                                   200 200 200 200  200 200 200 200  200 403 403 403  403
GET /v3/users/{vB}                                   200 200 200 200  200 403 403 403  200 403 403 403  403
GET /v3/users/nope                                   404 404 404 404  404 403 403 403  404 403 403 403  403
GET /v3/projects/{a}                                 200 200 200 200  200 200 200 200  200 200 200 200  200
GET /v3/projects/{b}                                 200 200 200 200  200 403 403 403  200 403 403 403  403
GET /v3/domains/{A}                                  200 200 200 200  200 200 200 200  200 200 200 200  200
GET /v3/domains/{B}                                  200 200 200 200  200 403 403 403  200 403 403 403  403
POST /v3/users user domain_id={A}                    201 403 403 403  201 201 403 403  201 403 403 403  403
POST /v3/projects project domain_id={A}              201 403 403 403  201 201 403 403  201 403 403 403  403
POST /v3/groups group domain_id={A}                  201 403 403 403  201 201 403 403  201 403 403 403  403
POST /v3/users user domain_id={B}                    201 403 403 403  201 403 403 403  201 403 403 403  403
POST /v3/projects project domain_id={B}              201 403 403 403  201 403 403 403  201 403 403 403  403
POST /v3/users user                                  201 403 403 403  201 403 403 403  201 403 403 403  403
POST /v3/domains domain                              201 403 403 403  403 403 403 403  201 403 403 403  403
POST /v3/roles role                                  201 403 403 403  403 403 403 403  201 403 403 403  403
POST /v3/services service type=x                     201 403 403 403  403 403 403 403  201 403 403 403  403
POST /v3/regions region                              201 403 403 403  403 403 403 403  201 403 403 403  403
PATCH /v3/users/{vA} user description=x              200 403 403 403  200 200 403 403  200 403 403 403  403
PATCH /v3/users/{vB} user description=x              200 403 403 403  200 403 403 403  200 403 403 403  403
PUT /v3/groups/{gA}/users/{vA}                       204 403 403 403  204 204 403 403  204 403 403 403  403
GET /v3/roles                                        200 200 200 200  200 200 403 403  200 403 403 403  403
GET /v3/roles/{member}                               200 200 200 200  200 200 403 403  200 200 403 403  403
GET /v3/roles/{admin}                                200 200 200 200  200 403 403 403  200 403 403 403  403
GET /v3/roles?domain_id={A}                          200 200 200 200  403 403 403 403  200 403 403 403  403
GET /v3/role_inferences                              200 200 200 200  403 403 403 403  200 403 403 403  403
GET /v3/services                                     200 200 200 200  403 403 403 403  200 403 403 403  403
GET /v3/endpoints                                    200 200 200 200  403 403 403 403  200 403 403 403  403
GET /v3/system/users/{vA}/roles                      200 200 200 200  403 403 403 403  200 403 403 403  403
GET /v3/regions                                      200 200 200 200  200 200 200 200  200 200 200 200  200
PUT /v3/projects/{a}/users/{vA}/roles/{member}       204 403 403 403  204 204 403 403  204 403 403 403  403
PUT /v3/projects/{a}/users/{vA}/roles/{admin}        204 403 403 403  204 403 403 403  204 403 403 403  403
PUT /v3/projects/{a}/users/{vA}/roles/{roleA}        204 403 403 403  204 403 403 403  204 403 403 403  403
PUT /v3/projects/{a}/users/{vB}/roles/{member}       204 403 403 403  204 403 403 403  204 403 403 403  403
PUT /v3/projects/{b}/users/{vA}/roles/{member}       204 403 403 403  204 403 403 403  204 403 403 403  403
GET /v3/projects/{a}/users/{vA}/roles                200 200 200 200  200 200 200 200  200 403 403 403  403
HEAD /v3/projects/{a}/users/{vA}/roles/{member}      204 204 204 204  204 204 204 204  204 403 403 403  403
GET /v3/role_assignments                             200 200 200 200  200 200 200 200  200 403 403 403  403
GET /v3/role_assignments?scope.project.id={a}&include_subtree  200 200 200 200  200 200 200 200  200 403 403 403  403
GET /v3/auth/tokens                                  200 200 200 200  200 403 403 403  200 403 403 403  200
HEAD /v3/auth/tokens                                 200 200 200 200  200 403 403 403  200 403 403 403  403
GET /v3/OS-REVOKE/events                             200 403 403 403  200 403 403 403  200 403 403 403  200
GET /v3/OS-FEDERATION/identity_providers             200 200 200 200  403 403 403 403  200 403 403 403  403
GET /v3/OS-FEDERATION/mappings                       200 200 200 200  403 403 403 403  200 403 403 403  403
GET /v3/OS-FEDERATION/mappings/nope                  404 404 404 404  403 403 403 403  404 403 403 403  403
PUT /v3/OS-FEDERATION/identity_providers/nope        400 403 403 403  403 403 403 403  400 403 403 403  403
PUT /v3/OS-FEDERATION/mappings/nope                  400 403 403 403  403 403 403 403  400 403 403 403  403
DELETE /v3/OS-FEDERATION/identity_providers/nope     404 403 403 403  403 403 403 403  404 403 403 403  403
GET /v3/OS-FEDERATION/identity_providers/x/protocols 404 404 404 404  403 403 403 403  404 403 403 403  403
PUT /v3/OS-FEDERATION/identity_providers/x/protocols/p     400 403 403 403  403 403 403 403  400 403 403 403  403
DELETE /v3/OS-FEDERATION/identity_providers/x/protocols/p  404 403 403 403  403 403 403 403  404 403 403 403  403
GET /v3/domains/{A}/config                           404 404 404 404  403 403 403 403  404 403 403 403  403
GET /v3/domains/default/config/security_compliance   200 200 200 200  200 200 200 200  200 200 200 200  200
GET /v3/domains/config/default                       200 200 200 200  403 403 403 403  200 403 403 403  403
DELETE /v3/domains/{A}/config                        204 403 403 403  403 403 403 403  204 403 403 403  403
PUT /v3/domains/{A}/config                           400 403 403 403  403 403 403 403  400 403 403 403  403
GET /v3/limits                                       200 200 200 200  200 200 200 200  200 200 200 200  200
GET /v3/limits/model                                 200 200 200 200  200 200 200 200  200 200 200 200  200
GET /v3/limits/{limitA}                              200 200 200 200  200 200 200 200  200 403 403 403  403
GET /v3/limits/{limita}                              200 200 200 200  200 200 200 200  200 200 200 200  200
GET /v3/limits/{limitb}                              200 200 200 200  200 403 403 403  200 403 403 403  403
GET /v3/registered_limits                            200 200 200 200  200 200 200 200  200 200 200 200  200
GET /v3/registered_limits/{registered}               200 200 200 200  200 200 200 200  200 200 200 200  200
POST /v3/limits                                      400 403 403 403  403 403 403 403  400 403 403 403  403
POST /v3/registered_limits                           400 403 403 403  403 403 403 403  400 403 403 403  403
PATCH /v3/limits/{limita} limit                      400 403 403 403  403 403 403 403  400 403 403 403  403
PATCH /v3/registered_limits/{registered} registered_limit  400 403 403 403  403 403 403 403  400 403 403 403  403
GET /v3/credentials                                  200 200 200 200  200 200 200 200  200 200 200 200  200
GET /v3/users/{vA}/credentials/OS-EC2                200 200 200 200  403 403 403 403  200 403 403 403  403
POST /v3/ec2tokens                                   400 403 403 403  400 403 403 403  400 403 403 403  400
POST /v3/s3tokens                                    400 403 403 403  400 403 403 403  400 403 403 403  400
GET /v3/users/{vA}/application_credentials           200 200 200 200  403 403 403 403  200 403 403 403  403
GET /v3/users/{vA}/application_credentials/{appA}    200 200 200 200  403 403 403 403  200 403 403 403  403
POST /v3/users/{vA}/application_credentials application_credential  403 403 403 403  403 403 403 403  403 403 403 403  403
DELETE /v3/users/{vA}/application_credentials/nope   404 403 403 403  403 403 403 403  404 403 403 403  403
GET /v3/users/{vA}/access_rules                      200 200 200 200  403 403 403 403  403 403 403 403  403
GET /v3/users/{vA}/access_rules/{ruleA}              200 200 200 200  403 403 403 403  403 403 403 403  403
DELETE /v3/users/{vA}/access_rules/nope              404 403 403 403  403 403 403 403  403 403 403 403  403
GET /v3/OS-TRUST/trusts                              200 200 200 200  403 403 403 403  200 403 403 403  403
GET /v3/OS-TRUST/trusts?trustor_user_id={vA}         200 200 200 200  403 403 403 403  200 403 403 403  403
GET /v3/OS-TRUST/trusts?trustee_user_id={vA}         200 200 200 200  403 403 403 403  200 403 403 403  403
GET /v3/OS-TRUST/trusts/{trustA}                     200 200 200 200  403 403 403 403  200 403 403 403  403
GET /v3/OS-TRUST/trusts/{trustA}/roles               200 200 200 200  403 403 403 403  200 403 403 403  403
GET /v3/OS-TRUST/trusts/{trustA}/roles/{member}      200 200 200 200  403 403 403 403  200 403 403 403  403
GET /v3/OS-TRUST/trusts/nope                         404 404 404 404  404 404 404 404  404 404 404 404  404
DELETE /v3/OS-TRUST/trusts/nope                      404 404 404 404  404 404 404 404  404 404 404 404  404
GET /v3/OS-EP-FILTER/endpoint_groups                 200 200 200 200  403 403 403 403  200 403 403 403  403
GET /v3/OS-EP-FILTER/endpoint_groups/{eg} 200 200 200 200  403 403 403 403  200 403 403 403  403
GET /v3/OS-EP-FILTER/endpoint_groups/nope            404 404 404 404  403 403 403 403  404 403 403 403  403
PATCH /v3/OS-EP-FILTER/endpoint_groups/{eg} endpoint_group 400 403 403 403  403 403 403 403  400 403 403 403  403
DELETE /v3/OS-EP-FILTER/endpoint_groups/nope         404 403 403 403  403 403 403 403  404 403 403 403  403
GET /v3/OS-EP-FILTER/endpoint_groups/{eg}/endpoints 200 200 200 200  403 403 403 403  200 403 403 403  403
GET /v3/OS-EP-FILTER/endpoint_groups/{eg}/projects 200 200 200 200  403 403 403 403  200 403 403 403  403
GET /v3/OS-EP-FILTER/projects/{a}/endpoints          200 200 200 200  403 403 403 403  200 403 403 403  403
GET /v3/OS-EP-FILTER/projects/{a}/endpoint_groups    200 200 200 200  403 403 403 403  200 403 403 403  403
GET /v3/OS-EP-FILTER/endpoints/{endpoint}/projects   200 200 200 200  403 403 403 403  200 403 403 403  403
GET /v3/OS-EP-FILTER/endpoint_groups/{eg}/projects/{a} 404 404 404 404  403 403 403 403  404 403 403 403  403
DELETE /v3/OS-EP-FILTER/endpoint_groups/{eg}/projects/{a} 404 403 403 403  403 403 403 403  404 403 403 403  403
GET /v3/OS-EP-FILTER/projects/{a}/endpoints/{endpoint} 404 404 404 404  403 403 403 403  404 403 403 403  403
DELETE /v3/OS-EP-FILTER/projects/{a}/endpoints/{endpoint} 404 403 403 403  403 403 403 403  404 403 403 403  403
PUT /v3/OS-EP-FILTER/projects/{a}/endpoints/nope     404 403 403 403  403 403 403 403  404 403 403 403  403
PUT /v3/OS-EP-FILTER/endpoint_groups/nope/projects/{a} 404 403 403 403  403 403 403 403  404 403 403 403  403
GET /v3/policies                                     200 200 200 200  403 403 403 403  200 403 403 403  403
GET /v3/policies/{policy}                            200 200 200 200  403 403 403 403  200 403 403 403  403
POST /v3/policies policy blob=b type=x               201 403 403 403  403 403 403 403  201 403 403 403  403
PATCH /v3/policies/{policy} policy                   200 403 403 403  403 403 403 403  200 403 403 403  403
DELETE /v3/policies/nope                             404 403 403 403  403 403 403 403  404 403 403 403  403
GET /v3/policies/{policy}/OS-ENDPOINT-POLICY/endpoints 200 200 200 200  403 403 403 403  200 403 403 403  403
PUT /v3/policies/{policy}/OS-ENDPOINT-POLICY/services/{service} 204 403 403 403  403 403 403 403  204 403 403 403  403
GET /v3/policies/{policy}/OS-ENDPOINT-POLICY/services/{service} 204 204 204 204  403 403 403 403  204 403 403 403  403
DELETE /v3/policies/{policy}/OS-ENDPOINT-POLICY/services/{service} 204 403 403 403  403 403 403 403  204 403 403 403  403
PUT /v3/policies/{policy}/OS-ENDPOINT-POLICY/endpoints/nope 404 403 403 403  403 403 403 403  404 403 403 403  403
GET /v3/endpoints/{endpoint}/OS-ENDPOINT-POLICY/policy 404 404 404 404  403 403 403 403  404 403 403 403  403
GET /v3/OS-OAUTH1/consumers                          200 200 200 200  403 403 403 403  200 403 403 403  403
POST /v3/OS-OAUTH1/consumers consumer                201 403 403 403  403 403 403 403  201 403 403 403  403
PUT /v3/OS-OAUTH1/authorize/nope                     403 403 403 403  403 403 403 403  400 403 403 403  403
GET /v3/users/{vA}/OS-OAUTH1/access_tokens           403 403 403 403  403 403 403 403  200 403 403 403  403
GET /v3/auth/projects                                200 200 200 200  200 200 200 200  200 200 200 200  200
`

// world is the deployment of the matrix: names and their ids, and the tokens of
// the personas.
func matrixWorld(t *testing.T) (c *cloud, ids map[string]string, tokens []string) {
	t.Helper()
	c = newCloud(t)
	ids = map[string]string{"member": c.roles["member"], "admin": c.roles["admin"]}
	for _, d := range []string{"A", "B"} {
		ids[d] = c.id("domains", "domain", `"name":"`+d+`"`)
		in := `","domain_id":"` + ids[d] + `"`
		small := strings.ToLower(d)
		ids[small] = c.id("projects", "project", `"name":"`+small+in)
		ids["v"+d] = c.id("users", "user", `"name":"v`+d+in+`,"password":"x"`)
		ids["g"+d] = c.id("groups", "group", `"name":"g`+d+in)
		ids["role"+d] = c.id("roles", "role", `"name":"role`+d+in)
	}
	registered, service := c.registered("cores", 10)
	ids["registered"] = registered
	for name, target := range map[string]string{"A": "domain_id", "a": "project_id", "b": "project_id"} {
		ids["limit"+name] = c.limit(fmt.Sprintf(`"service_id":%q,"resource_name":"cores","resource_limit":5,%q:%q`, service, target, ids[name]))
	}
	scopes := map[string][2]string{ // scope in a login, path of a grant
		"s": {`{"system":{"all":true}}`, "/v3/system"},
		"d": {`{"domain":{"id":"` + ids["A"] + `"}}`, "/v3/domains/" + ids["A"]},
		"p": {`{"project":{"id":"` + ids["a"] + `"}}`, "/v3/projects/" + ids["a"]},
	}
	for _, p := range personas {
		kind, role, _ := strings.Cut(p, "-")
		user := c.id("users", "user", fmt.Sprintf(`"name":%q,"domain_id":%q,"password":"x"`, p, ids["A"]))
		c.ok(204, "PUT", scopes[kind][1]+"/users/"+user+"/roles/"+c.roles[role], "", "")
		a := c.do("POST", "/v3/auth/tokens", "", fmt.Sprintf(
			`{"auth":{"identity":{"methods":["password"],"password":{"user":{"id":%q,"password":"x"}}},"scope":%s}}`, user, scopes[kind][0]))
		if a.status != 201 {
			t.Fatal(p, a.status, a.text)
		}
		tokens = append(tokens, a.header.Get("X-Subject-Token"))
	}
	c.ok(204, "PUT", "/v3/projects/"+ids["a"]+"/users/"+ids["vA"]+"/roles/"+ids["member"], "", "")
	c.delegate(ids, scopes["p"][0])
	return c, ids, tokens
}

// delegate makes an application credential with an access rule and a trust of vA,
// an endpoint group and a policy.
func (c *cloud) delegate(ids map[string]string, scope string) {
	c.t.Helper()
	login := c.do("POST", "/v3/auth/tokens", "", fmt.Sprintf(
		`{"auth":{"identity":{"methods":["password"],"password":{"user":{"id":%q,"password":"x"}}},"scope":%s}}`, ids["vA"], scope))
	token := login.header.Get("X-Subject-Token")
	a := c.do("POST", "/v3/users/"+ids["vA"]+"/application_credentials", token,
		`{"application_credential":{"name":"app","access_rules":[{"service":"s","method":"GET","path":"/x"}]}}`)
	app, _ := a.body["application_credential"].(map[string]any)
	trust := c.do("POST", "/v3/OS-TRUST/trusts", token, fmt.Sprintf(
		`{"trust":{"trustor_user_id":%q,"trustee_user_id":%q,"project_id":%q,"impersonation":false,"roles":[{"name":"member"}]}}`, ids["vA"], ids["vB"], ids["a"]))
	if a.status != 201 || trust.status != 201 {
		c.t.Fatal(login.text, a.text, trust.text)
	}
	ids["appA"] = app["id"].(string)
	ids["ruleA"] = app["access_rules"].([]any)[0].(map[string]any)["id"].(string)
	ids["trustA"] = trust.body["trust"].(map[string]any)["id"].(string)
	ids["service"] = c.id("services", "service", `"type":"compute"`)
	ids["endpoint"] = c.id("endpoints", "endpoint", `"interface":"public","url":"http://x","service_id":"`+ids["service"]+`"`)
	ids["eg"] = c.id("OS-EP-FILTER/endpoint_groups", "endpoint_group", `"name":"g","filters":{"interface":"public"}`)
	ids["policy"] = c.id("policies", "policy", `"blob":"b","type":"t"`)
}

func TestPersonas(t *testing.T) {
	c, ids, tokens := matrixWorld(t)
	replace := []string{}
	for name, id := range ids {
		replace = append(replace, "{"+name+"}", id)
	}
	fill := strings.NewReplacer(replace...)
	made := 0
	for line := range strings.Lines(strings.TrimSpace(matrix)) {
		words := strings.Fields(line)
		want := words[len(words)-len(personas):]
		call := words[:len(words)-len(personas)]
		for i, p := range personas {
			body := ""
			if len(call) > 2 {
				made++
				body = fmt.Sprintf(`{%q:{"name":"new%d"`, call[2], made)
				switch call[2] {
				case "region":
					body = fmt.Sprintf(`{"region":{"id":"new%d"`, made)
				}
				if call[0] == "PATCH" {
					body = fmt.Sprintf(`{%q:{"email":"x"`, call[2])
				}
				for _, member := range call[3:] {
					name, value, _ := strings.Cut(member, "=")
					body += fmt.Sprintf(`,%q:%q`, name, value)
				}
				body += "}}"
			}
			a := c.do(call[0], fill.Replace(call[1]), tokens[i], fill.Replace(body), "X-Subject-Token", tokens[4])
			if fmt.Sprint(a.status) != want[i] {
				t.Errorf("%s: %s: %d, want %s: %s", strings.Join(call, " "), p, a.status, want[i], a.text)
			}
			if a.status == 403 && !strings.Contains(a.text, "identity:") && call[0] != "HEAD" {
				t.Errorf("%s: %s: the refusal does not name the rule: %s", strings.Join(call, " "), p, a.text)
			}
		}
	}
}

// TestDomainLists checks that a token with the scope of a domain sees the
// records of this domain only, even an administrator's.
func TestDomainLists(t *testing.T) {
	c, ids, tokens := matrixWorld(t)
	for path, foreign := range map[string]string{"users": ids["vB"], "groups": ids["gB"], "projects": ids["b"], "domains": ids["B"]} {
		for i, p := range personas {
			a := c.do("GET", "/v3/"+path, tokens[i], "")
			if a.status != 200 {
				continue
			}
			if seen := strings.Contains(a.text, foreign); seen != !strings.HasPrefix(p, "d-") {
				t.Errorf("%s as %s: sees domain B: %v", path, p, seen)
			}
		}
	}
	// vA and vB are in groups of both domains. d-admin is tokens[4].
	for _, group := range []string{"gA", "gB"} {
		for _, user := range []string{"vA", "vB"} {
			c.ok(204, "PUT", "/v3/groups/"+ids[group]+"/users/"+ids[user], "", "")
		}
	}
	for path, seen := range map[string][2]string{"groups/" + ids["gA"] + "/users": {"vA", "vB"}, "users/" + ids["vA"] + "/groups": {"gA", "gB"}} {
		for token, both := range map[string]bool{tokens[4]: false, c.admin: true} {
			if a := c.do("GET", "/v3/"+path, token, ""); a.status != 200 || !strings.Contains(a.text, ids[seen[0]]) || strings.Contains(a.text, ids[seen[1]]) != both {
				t.Errorf("%s: %d %s, want domain B: %v", path, a.status, a.text, both)
			}
		}
		if a := c.do("GET", "/v3/"+path+"?name="+seen[1], c.admin, ""); strings.Contains(a.text, ids[seen[0]]) || !strings.Contains(a.text, ids[seen[1]]) {
			t.Errorf("%s with a name: %s", path, a.text)
		}
	}
	a := c.do("GET", "/v3/role_assignments", tokens[4], "")
	if strings.Contains(a.text, `"system"`) || !strings.Contains(a.text, ids["vA"]) {
		t.Error("assignments of a domain:", a.text)
	}
}
