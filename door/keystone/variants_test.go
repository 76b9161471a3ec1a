package keystone_test

import (
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/ostiary/ostiary/internal/workshop/doortest"
)

// validBodies are a valid body for each route that reads one, with every member that
// the door reads itself.
var validBodies = [][2]string{
	{"POST /v3/users", `{"user":{"name":"n","domain_id":"default","enabled":true,"password":"p","default_project_id":"default","options":{"lock_password":true,"multi_factor_auth_rules":[["password"]]}}}`},
	{"PATCH /v3/users/{alice}", `{"user":{"name":"n","enabled":true,"password":"p","default_project_id":"default","options":{"ignore_lockout_failure_attempts":true}}}`},
	{"POST /v3/groups", `{"group":{"name":"n","domain_id":"default","description":"d"}}`},
	{"PATCH /v3/groups/{group}", `{"group":{"name":"n","description":"d"}}`},
	{"POST /v3/domains", `{"domain":{"name":"n","enabled":true,"description":"d","explicit_domain_id":"0123456789abcdef0123456789abcdef","options":{"immutable":false},"tags":["t"]}}`},
	{"PATCH /v3/domains/{domain}", `{"domain":{"name":"n","enabled":true,"description":"d","options":{"immutable":null},"tags":["t"]}}`},
	{"POST /v3/projects", `{"project":{"name":"n","domain_id":"default","parent_id":"default","is_domain":false,"enabled":true,"description":"d","tags":["t"],"options":{"immutable":false}}}`},
	{"PATCH /v3/projects/{p}", `{"project":{"name":"n","enabled":true,"description":"d","tags":["t"],"options":{"immutable":false}}}`},
	{"PUT /v3/projects/{p}/tags", `{"tags":["t"]}`},
	{"POST /v3/roles", `{"role":{"name":"n","domain_id":"default","description":"d","options":{"immutable":false}}}`},
	{"PATCH /v3/roles/{role}", `{"role":{"name":"n","description":"d","options":{"immutable":false}}}`},
	{"POST /v3/regions", `{"region":{"id":"r","description":"d","parent_region_id":"RegionOne"}}`},
	{"PUT /v3/regions/r2", `{"region":{"id":"r2","description":"d","parent_region_id":"RegionOne"}}`},
	{"PATCH /v3/regions/{region}", `{"region":{"description":"d","parent_region_id":"RegionOne"}}`},
	{"POST /v3/services", `{"service":{"type":"t","name":"n","enabled":true,"description":"d"}}`},
	{"PATCH /v3/services/{service}", `{"service":{"type":"t","name":"n","enabled":true,"description":"d"}}`},
	{"POST /v3/endpoints", `{"endpoint":{"service_id":"{service}","interface":"public","url":"http://x","region_id":"RegionOne","enabled":true,"name":"n"}}`},
	{"POST /v3/endpoints", `{"endpoint":{"service_id":"{service}","interface":"admin","url":"http://x","region":"RegionOne"}}`},
	{"PATCH /v3/endpoints/{endpoint}", `{"endpoint":{"service_id":"{service}","interface":"public","url":"http://x","region_id":"RegionOne","enabled":true}}`},
	{"POST /v3/registered_limits", `{"registered_limits":[{"service_id":"{service}","region_id":"RegionOne","resource_name":"n","default_limit":1,"description":"d"}]}`},
	{"POST /v3/limits", `{"limits":[{"service_id":"{service}","region_id":"RegionOne","resource_name":"things","resource_limit":1,"description":"d","project_id":"{p}"}]}`},
	{"POST /v3/limits", `{"limits":[{"service_id":"{service}","region_id":"RegionOne","resource_name":"things","resource_limit":1,"domain_id":"{domain}"}]}`},
	{"PATCH /v3/registered_limits/{registered}", `{"registered_limit":{"service_id":"{service}","region_id":"RegionOne","resource_name":"n","default_limit":1,"description":"d"}}`},
	{"PUT /v3/domains/{domain}/config", `{"config":{"identity":{"driver":"sql","list_limit":9}}}`},
	{"PATCH /v3/domains/{domain}/config", `{"config":{"identity":{"driver":"sql"}}}`},
	{"PATCH /v3/domains/{domain}/config", `{"config":{"ldap":{"url":"ldap://x"}}}`},
	{"PATCH /v3/domains/{domain}/config/identity", `{"config":{"identity":{"driver":"sql"}}}`},
	{"PATCH /v3/domains/{domain}/config/identity/driver", `{"config":{"driver":"sql"}}`},
	{"PUT /v3/OS-FEDERATION/identity_providers/idp2", `{"identity_provider":{"enabled":true,"description":"d","remote_ids":["https://x"],"domain_id":"default","authorization_ttl":null}}`},
	{"PATCH /v3/OS-FEDERATION/identity_providers/idp", `{"identity_provider":{"enabled":true,"description":"d","remote_ids":["https://x"],"authorization_ttl":null}}`},
	{"PUT /v3/OS-FEDERATION/mappings/m2", `{"mapping":{"schema_version":"2.0","rules":[{"local":[{"user":{"name":"{0}"}}],"remote":[{"type":"x","any_one_of":["y"],"regex":false},{"type":"z"}]}]}}`},
	{"PATCH /v3/OS-FEDERATION/mappings/m", `{"mapping":{"rules":[{"local":[{"user":{"name":"{0}"}}],"remote":[{"type":"x"}]}]}}`},
	{"PUT /v3/OS-FEDERATION/identity_providers/idp/protocols/p", `{"protocol":{"mapping_id":"m","remote_id_attribute":"a"}}`},
	{"PATCH /v3/OS-FEDERATION/identity_providers/idp/protocols/openid", `{"protocol":{"mapping_id":"m","remote_id_attribute":"a"}}`},
	{"POST /v3/credentials", `{"credential":{"blob":"{\"access\":\"a\",\"secret\":\"s\"}","type":"ec2","user_id":"{alice}","project_id":"{p}"}}`},
	{"PATCH /v3/credentials/{credential}", `{"credential":{"blob":"text"}}`},
	{"POST /v3/users/{alice}/credentials/OS-EC2", `{"tenant_id":"{p}"}`},
	{"POST /v3/ec2tokens", `{"credentials":{"access":"none","signature":"s","host":"h","verb":"GET","path":"/","params":{"a":"b"},"headers":{"a":"b"},"body_hash":"x"}}`},
	{"POST /v3/s3tokens", `{"credentials":{"access":"none","signature":"s","token":"t"}}`},
	{"POST /v3/OS-OAUTH1/consumers", `{"consumer":{"description":"d"}}`},
	{"PUT /v3/OS-OAUTH1/authorize/none", `{"roles":[{"id":"{role}"}]}`},
	{"POST /v3/users/{admin}/application_credentials", `{"application_credential":{"name":"n","description":"d","secret":"s","roles":[{"name":"reader"}],"expires_at":"2030-01-01T00:00:00Z","unrestricted":false,"access_rules":[{"service":"compute","method":"GET","path":"/x"}]}}`},
	{"POST /v3/OS-TRUST/trusts", `{"trust":{"trustor_user_id":"{admin}","trustee_user_id":"{alice}","project_id":"{project}","impersonation":true,"roles":[{"id":"{reader}"}],"expires_at":"2030-01-01T00:00:00Z","remaining_uses":1,"allow_redelegation":false,"redelegation_count":0,"redelegated_trust_id":null}}`},
	{"POST /v3/OS-EP-FILTER/endpoint_groups", `{"endpoint_group":{"name":"n","description":"d","filters":{"interface":"public","service_id":"{service}","region_id":"RegionOne"}}}`},
	{"PATCH /v3/OS-EP-FILTER/endpoint_groups/{eg}", `{"endpoint_group":{"name":"n","description":"d","filters":{"interface":"public"}}}`},
	{"POST /v3/policies", `{"policy":{"blob":"b","type":"text/plain"}}`},
	{"PATCH /v3/policies/{policy}", `{"policy":{"blob":"b","type":"text/plain"}}`},
	{"POST /v3/users/{alice}/password", `{"user":{"original_password":"wrong","password":"q"}}`},
	{"POST /v3/auth/tokens", `{"auth":{"identity":{"methods":["password"],"password":{"user":{"name":"admin","domain":{"name":"Default"},"password":"secret"}}},"scope":{"project":{"name":"admin","domain":{"id":"default"}}}}}`},
	{"POST /v3/auth/tokens", `{"auth":{"identity":{"methods":["password"],"password":{"user":{"id":"{admin}","password":"secret"}}},"scope":{"system":{"all":true}}}}`},
	{"POST /v3/auth/tokens", `{"auth":{"identity":{"methods":["token"],"token":{"id":"{token}"}},"scope":{"project":{"id":"{project}"}}}}`},
	{"POST /v3/auth/tokens", `{"auth":{"identity":{"methods":["application_credential"],"application_credential":{"name":"app","user":{"name":"admin","domain":{"id":"default"}},"secret":"s"}}}}`},
	{"POST /v3/auth/tokens", `{"auth":{"identity":{"methods":["totp"],"totp":{"user":{"id":"{alice}","passcode":"000000"}}},"scope":{"domain":{"name":"Default"}}}}`},
}

// TestVariants sends variants of valid bodies to every route that reads one.
func TestVariants(t *testing.T) {
	t.Parallel()
	var x *tour
	doortest.Variants{File: "testdata/variants.txt", Requests: validBodies, Open: func(t *testing.T, call string) func([]byte) string {
		method, path, _ := strings.Cut(call, " ")
		if x == nil || method == "PATCH" { // other requests leave nothing behind
			x = newTour(t)
			x.prepareVariants()
		}
		return func(body []byte) string { return x.outcome(method, path, string(body)) }
	}}.Run(t)
}

// prepareVariants makes the records that valid bodies and paths name.
func (x *tour) prepareVariants() {
	x.t.Helper()
	x.vars = map[string]string{"token": x.admin, "reader": x.roles["reader"], "admin": x.vars["user.admin"], "project": x.vars["project.admin"], "service": x.vars["service.identity"]}
	for _, r := range [][3]string{
		{"alice", "users", `{"user":{"name":"alice","password":"pw"}}`}, {"group", "groups", `{"group":{"name":"group"}}`}, {"domain", "domains", `{"domain":{"name":"domain"}}`},
		{"p", "projects", `{"project":{"name":"p"}}`}, {"role", "roles", `{"role":{"name":"role"}}`}, {"region", "regions", `{"region":{"id":"region"}}`},
		{"endpoint", "endpoints", `{"endpoint":{"service_id":"{service}","interface":"internal","url":"http://y"}}`},
		{"registered", "registered_limits", `{"registered_limits":[{"service_id":"{service}","region_id":"RegionOne","resource_name":"things","default_limit":9}]}`},
		{"credential", "credentials", `{"credential":{"blob":"b","type":"cert","user_id":"{alice}"}}`},
		{"eg", "OS-EP-FILTER/endpoint_groups", `{"endpoint_group":{"name":"eg","filters":{"interface":"public"}}}`},
		{"policy", "policies", `{"policy":{"blob":"b","type":"t"}}`},
		{"app", "users/{admin}/application_credentials", `{"application_credential":{"name":"app","secret":"s"}}`},
	} {
		x.set(r[0], x.do("POST", "/v3/"+x.fill(r[1]), x.admin, x.fill(r[2])))
	}
	for path, body := range map[string]string{
		"OS-FEDERATION/identity_providers/idp": `{"identity_provider":{}}`, "OS-FEDERATION/mappings/m": `{"mapping":{"rules":[{"local":[],"remote":[{"type":"x"}]}]}}`,
		"domains/{domain}/config": `{"config":{"identity":{"driver":"sql"}}}`,
	} {
		x.ok(201, "PUT", "/v3/"+x.fill(path), body, "")
	}
	x.ok(201, "PUT", "/v3/OS-FEDERATION/identity_providers/idp/protocols/openid", `{"protocol":{"mapping_id":"m"}}`, "")
}

// withoutValue returns the text of an error without the value of the member, so that
// equal errors of several values are one line.
func withoutValue(message string) string {
	before, rest, found := strings.Cut(message, " Value: ")
	if !found {
		return message
	}
	at := -1
	for _, end := range []string{" is not of type", " is not one of", " is less than", " is not an option", ". expected", "should be non-empty", " is a required property", "a trust redelegates", "the first login"} {
		if i := strings.Index(rest, end); i >= 0 && (at < 0 || i < at) {
			at = i
		}
	}
	return before + " … " + strings.TrimLeft(rest[max(at, 0):], ". ")
}

// outcome sends a body, and returns the status and the text of an error. A record
// that was made is removed again, so that the next variant can make it.
func (x *tour) outcome(method, path, body string) string {
	token := x.admin
	if path == "/v3/auth/tokens" {
		token = ""
	}
	path = x.fill(path)
	a := x.do(method, path, token, x.fill(body))
	e, _ := a.body["error"].(map[string]any)
	if message, _ := e["message"].(string); message != "" {
		return strconv.Itoa(a.status) + withoutValue(x.describe(message))
	}
	if a.status == 201 && token != "" {
		made := path
		if method == "POST" {
			x.vars["made"] = ""
			x.set("made", a)
			made += "/" + url.PathEscape(x.vars["made"])
			delete(x.vars, "made")
		}
		if gone := x.do("DELETE", made, token, ""); gone.status != 204 {
			one := strings.TrimSuffix(path[strings.LastIndex(path, "/")+1:], "s")
			x.do("PATCH", made, token, `{"`+one+`":{"options":{"immutable":null}}}`)
			x.do("PATCH", made, token, `{"`+one+`":{"enabled":false}}`)
			x.ok(204, "DELETE", made, "", "")
		}
	}
	return strconv.Itoa(a.status)
}
