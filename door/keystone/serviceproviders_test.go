package keystone_test

import (
	"strings"
	"testing"
)

// TestServiceProviders makes, changes, lists and removes service providers.
// Keystone 30.0.0 answered the same, apart from the texts about URLs and the null
// of relay_state_prefix, at which it fails.
func TestServiceProviders(t *testing.T) {
	c := newCloud(t)
	urls := `"auth_url":"https://a.example.com/x","sp_url":"https://sp.example.com/y"`
	c.play(`
GET /v3/OS-FEDERATION/service_providers => 200 {"service_providers":[],"links":{"next":null,"self":"http://keystone/v3/OS-FEDERATION/service_providers","previous":null}}
PUT /v3/OS-FEDERATION/service_providers/one {"service_provider":{{urls}}} => 201 {"service_provider":{"auth_url":"https://a.example.com/x","id":"one","enabled":false,"description":null,"relay_state_prefix":"ss:mem:","sp_url":"https://sp.example.com/y","links":{"self":"http://keystone/v3/OS-FEDERATION/service_providers/one"}}}
PUT /v3/OS-FEDERATION/service_providers/one {"service_provider":{{urls}}} => 409 Conflict occurred attempting to store service_provider - Duplicate entry found with ID one.
PUT /v3/OS-FEDERATION/service_providers/two {"service_provider":{{urls},"enabled":true,"description":"d","relay_state_prefix":"x:"}} => 201 "enabled":true,"description":"d","relay_state_prefix":"x:"
PUT /v3/OS-FEDERATION/service_providers/3 {"service_provider":{"auth_url":"https://a.b"}} => 400 'sp_url' is a required property
PUT /v3/OS-FEDERATION/service_providers/3 {"service_provider":{"sp_url":"https://a.b"}} => 400 'auth_url' is a required property
PUT /v3/OS-FEDERATION/service_providers/3 {"service_provider":{"auth_url":"https://a.b","sp_url":"nope"}} => 400 field/attribute sp_url. Value: nope.
PUT /v3/OS-FEDERATION/service_providers/3 {"service_provider":{"auth_url":"https://a.b","sp_url":":x"}} => 400 field/attribute sp_url
PUT /v3/OS-FEDERATION/service_providers/3 {"service_provider":{"auth_url":"https://a.b","sp_url":"x:"}} => 400 field/attribute sp_url
PUT /v3/OS-FEDERATION/service_providers/3 {"service_provider":{"auth_url":"https://a.b","sp_url":"h s:x"}} => 400 field/attribute sp_url
PUT /v3/OS-FEDERATION/service_providers/3 {"service_provider":{"auth_url":"https://a.b","sp_url":7}} => 400 7 is not of type 'string'
PUT /v3/OS-FEDERATION/service_providers/3 {"service_provider":{{urls},"more":7}} => 400 Additional properties are not allowed ('more' was unexpected)
PUT /v3/OS-FEDERATION/service_providers/3 {"service_provider":{{urls},"id":"3"}} => 400 Additional properties are not allowed ('id' was unexpected)
PUT /v3/OS-FEDERATION/service_providers/3 {"service_provider":{{urls},"enabled":"x"}} => 400 field/attribute enabled
PUT /v3/OS-FEDERATION/service_providers/3 {"service_provider":{{urls},"relay_state_prefix":null}} => 400 field/attribute relay_state_prefix
PUT /v3/OS-FEDERATION/service_providers/3 {"service_provider":{"auth_url":"https://a.b","sp_url":"h:{223}"}} => 201 h:{223}"
PUT /v3/OS-FEDERATION/service_providers/4 {"service_provider":{"auth_url":"https://a.b","sp_url":"h:{224}"}} => 400 at most 225 characters
PUT /v3/OS-FEDERATION/service_providers/{64} {"service_provider":{{urls}}} => 201 "id":"{64}"
PUT /v3/OS-FEDERATION/service_providers/{65} {"service_provider":{{urls}}} => 400 invalid id with 65 characters: expected at most 64
PATCH /v3/OS-FEDERATION/service_providers/one {"service_provider":{}} => 400 field/attribute service_provider
PATCH /v3/OS-FEDERATION/service_providers/one {"service_provider":{"auth_url":"http://new"}} => 200 "auth_url":"http://new","id":"one","enabled":false,"description":null,"relay_state_prefix":"ss:mem:","sp_url":"https://sp.example.com/y"
PATCH /v3/OS-FEDERATION/service_providers/one {"service_provider":{"description":"e"}} => 200 "description":"e"
PATCH /v3/OS-FEDERATION/service_providers/one {"service_provider":{"description":null}} => 200 "description":null
PATCH /v3/OS-FEDERATION/service_providers/one {"service_provider":{"id":"two"}} => 400 'id' was unexpected
PATCH /v3/OS-FEDERATION/service_providers/nope {"service_provider":{"enabled":true}} => 404 Could not find Service Provider: nope.
GET /v3/OS-FEDERATION/service_providers/nope => 404 Could not find Service Provider: nope.
GET /v3/OS-FEDERATION/service_providers/one => 200 {"service_provider":{"auth_url":"http://new","id":"one"
GET /v3/OS-FEDERATION/service_providers?enabled=True => 200 {"service_providers":[{"auth_url":"https://a.example.com/x","id":"two","enabled":true,"description":"d","relay_state_prefix":"x:","sp_url":"https://sp.example.com/y","links":{"self":"http://keystone/v3/OS-FEDERATION/service_providers/two"}}],"links"
GET /v3/OS-FEDERATION/service_providers?id=one => 200 {"service_providers":[{"auth_url":"http://new","id":"one"
GET /v3/OS-FEDERATION/service_providers?id= => 200 {"service_providers":[],
GET /v3/OS-FEDERATION/service_providers?enabled=x => 400 field/attribute enabled
GET /v3/OS-FEDERATION/service_providers?limit=1 => 200 "truncated":true
DELETE /v3/OS-FEDERATION/service_providers/nope => 404 Could not find Service Provider: nope.
`, map[string]string{"urls": urls, "223": strings.Repeat("x", 223), "224": strings.Repeat("x", 224), "64": strings.Repeat("i", 64), "65": strings.Repeat("i", 65)})
	shown := `"service_providers":[{"auth_url":"https://a.example.com/x","id":"two","sp_url":"https://sp.example.com/y"}]`
	for _, scope := range []string{`{"unscoped":{}}`, `{"system":{"all":true}}`, `{"project":{"name":"admin","domain":{"id":"default"}}}`} {
		if a := c.login("admin", "secret", scope); a.status != 201 || !strings.Contains(a.text, shown) {
			t.Errorf("token with scope %s: %d %s, want %s", scope, a.status, a.text, shown)
		}
	}
	c.play("DELETE /v3/OS-FEDERATION/service_providers/two => 204", nil)
	if a := c.login("admin", "secret", ""); strings.Contains(a.text, "service_providers") {
		t.Error("token without enabled service providers:", a.text)
	}
}

// TestAbsentSAML checks that requests of SAML and of logins in a browser are
// answered with the reason.
func TestAbsentSAML(t *testing.T) {
	c := newCloud(t)
	for _, request := range []string{
		"GET /v3/OS-FEDERATION/saml2/metadata", "POST /v3/auth/OS-FEDERATION/saml2", "POST /v3/auth/OS-FEDERATION/saml2/ecp",
		"GET /v3/auth/OS-FEDERATION/websso/saml2", "POST /v3/auth/OS-FEDERATION/websso/saml2",
		"GET /v3/auth/OS-FEDERATION/identity_providers/i/protocols/p/websso", "POST /v3/auth/OS-FEDERATION/identity_providers/i/protocols/p/websso",
	} {
		method, path, _ := strings.Cut(request, " ")
		if a := c.do(method, path, c.admin, ""); a.status != 501 || !strings.Contains(a.text, "neither SAML nor logins in a browser") {
			t.Errorf("%s: %d %s", request, a.status, a.text)
		}
	}
}
