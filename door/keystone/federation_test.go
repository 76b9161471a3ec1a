package keystone_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/door/keystone"
	"github.com/ostiary/ostiary/internal/identity/oidc"
	"github.com/ostiary/ostiary/internal/identity/settings"
	"github.com/ostiary/ostiary/internal/workshop/issuers"
)

// alliance is a deployment that trusts an identity provider.
type alliance struct {
	*cloud
	idp    *issuers.Provider
	values map[string]string // ids for scripts
}

const allianceRules = `{"rules":[
{"local":[{"user":{"name":"{0}"}}],"remote":[{"type":"OIDC-sub"},{"type":"OIDC-kind","not_any_of":["local","builder","nobody"]}]},
{"local":[{"groups":"{0}","domain":{"id":"default"}}],"remote":[{"type":"OIDC-groups"}]},
{"local":[{"group":{"id":"GONE"}}],"remote":[{"type":"OIDC-kind","any_one_of":["gone"]}]},
{"local":[{"user":{"name":"{0}","type":"local","domain":{"id":"default"}}}],"remote":[{"type":"OIDC-sub"},{"type":"OIDC-kind","any_one_of":["local"]}]},
{"local":[{"user":{"name":"{0}"}},{"projects":[{"name":"home of {0}","roles":[{"name":"member"}]}]}],"remote":[{"type":"OIDC-sub"},{"type":"OIDC-kind","any_one_of":["builder"]}]}]}`

func newAlliance(t *testing.T) *alliance {
	t.Helper()
	p := issuers.NewProvider(t)
	c := newCloudWith(t, settings.Deployment{Rounds: 4}, func(o *keystone.Options) {
		o.Providers = oidc.New([]oidc.Issuer{{URL: p.URL, Audiences: []string{"keystone"}}}, oidc.Options{})
	})
	a := &alliance{c, p, map[string]string{"member": c.roles["member"], "admin": c.roles["admin"], "issuer": p.URL, "rules": allianceRules}}
	a.values["devs"] = c.id("groups", "group", `"name":"devs"`)
	a.values["p"] = c.id("projects", "project", `"name":"p"`)
	a.play(`
PUT /v3/OS-FEDERATION/mappings/m {"mapping":`+strings.ReplaceAll(allianceRules, "\n", " ")+`} => 201
PUT /v3/OS-FEDERATION/identity_providers/corp {"identity_provider":{"remote_ids":["{issuer}"],"enabled":true}} => 201 "links":{"self":"http://keystone/v3/OS-FEDERATION/identity_providers/corp","protocols":"http://keystone/v3/OS-FEDERATION/identity_providers/corp/protocols"}
PUT /v3/OS-FEDERATION/identity_providers/corp/protocols/openid {"protocol":{"mapping_id":"m"}} => 201 "id":"openid","mapping_id":"m","links":{"self":"http://keystone/v3/OS-FEDERATION/identity_providers/corp/protocols/openid"
PUT /v3/projects/{p}/groups/{devs}/roles/{member} => 204
`, a.values)
	return a
}

// enter logs in with a token of the identity provider.
func (a *alliance) enter(claims map[string]any) answer {
	a.t.Helper()
	all := map[string]any{"iss": a.idp.URL, "aud": "keystone", "exp": time.Now().Add(time.Hour).Unix(), "kind": "user"}
	for name, value := range claims {
		all[name] = value
	}
	return a.do("POST", "/v3/OS-FEDERATION/identity_providers/corp/protocols/openid/auth", "", "", "Authorization", "Bearer "+a.idp.Sign(all, -1))
}

// rescope makes a token from another one.
func (a *alliance) rescope(token, scope string) answer {
	return a.do("POST", "/v3/auth/tokens", "", `{"auth":{"identity":{"methods":["token"],"token":{"id":"`+token+`"}},"scope":`+scope+`}}`)
}

func TestFederatedLogin(t *testing.T) {
	a := newAlliance(t)
	first := a.enter(map[string]any{"sub": "ann", "groups": []string{"devs", "unknown"}})
	if first.status != http.StatusCreated || !strings.Contains(first.text, `"methods":["mapped"]`) ||
		!strings.Contains(first.text, `"OS-FEDERATION":{"groups":[{"id":"`+a.values["devs"]+`"}],"identity_provider":{"id":"corp"},"protocol":{"id":"openid"}}`) {
		t.Fatal(first.status, first.text)
	}
	unscoped := first.header.Get("X-Subject-Token")
	project := `{"project":{"id":"` + a.values["p"] + `"}}`
	scoped := a.rescope(unscoped, project)
	if scoped.status != http.StatusCreated || !strings.Contains(scoped.text, `"name":"member"`) || !strings.Contains(scoped.text, `"methods":["mapped","token"]`) {
		t.Fatal(scoped.status, scoped.text)
	}
	if old, made := first.body["token"].(map[string]any)["expires_at"], scoped.body["token"].(map[string]any)["expires_at"]; old != made {
		t.Errorf("a token from a token expires at %v, the first one at %v", made, old)
	}
	token := scoped.header.Get("X-Subject-Token")
	if b := a.do("GET", "/v3/auth/tokens", a.admin, "", "X-Subject-Token", token); b.status != 200 || !strings.Contains(b.text, `"name":"member"`) {
		t.Error("validate:", b.status, b.text)
	}
	for _, path := range []string{"/v3/auth/projects", "/v3/OS-FEDERATION/projects"} {
		if b := a.do("GET", path, unscoped, ""); b.status != 200 || !strings.Contains(b.text, a.values["p"]) {
			t.Error(path, b.status, b.text)
		}
	}
	if b := a.rescope(unscoped, `{"system":{"all":true}}`); b.status != http.StatusUnauthorized {
		t.Error("system scope:", b.status, b.text)
	}
	// Users of the provider have no roles by other groups, and no other user's.
	other := a.enter(map[string]any{"sub": "eve"})
	if b := a.rescope(other.header.Get("X-Subject-Token"), project); other.status != 201 || b.status != http.StatusUnauthorized {
		t.Error("without groups:", other.status, b.status, b.text)
	}
	user := first.body["token"].(map[string]any)["user"].(map[string]any)["id"].(string)
	if len(user) != 64 {
		t.Error("id of the user:", user)
	}
	a.values["ann"] = user
	a.play(`
GET /v3/users/{ann} => 200 "federated":[{"idp_id":"corp","protocols":[{"protocol_id":"openid","unique_id":"ann"}]}]
GET /v3/users?idp_id=corp&unique_id=ann => 200 {ann}
GET /v3/users?idp_id=other => 200 {"users":[]
POST /v3/users {"user":{"name":"x","federated":[]}} => 400 federated
PATCH /v3/OS-FEDERATION/identity_providers/corp {"identity_provider":{"enabled":false}} => 200 "enabled":false
`, a.values)
	for name, token := range map[string]string{"unscoped": unscoped, "scoped": token} {
		if b := a.do("GET", "/v3/auth/tokens", a.admin, "", "X-Subject-Token", token); b.status != 404 {
			t.Errorf("%s token while the provider is disabled: %d %s", name, b.status, b.text)
		}
	}
	if b := a.enter(map[string]any{"sub": "ann"}); b.status != 403 {
		t.Error("login while the provider is disabled:", b.status, b.text)
	}
	a.play(`
PATCH /v3/OS-FEDERATION/identity_providers/corp {"identity_provider":{"enabled":true}} => 200
PATCH /v3/users/{ann} {"user":{"enabled":false}} => 200
`, a.values)
	if b := a.enter(map[string]any{"sub": "ann", "groups": "devs"}); b.status != 401 {
		t.Error("login of a disabled user:", b.status, b.text)
	}
}

// head returns the revision of the deployment.
func (a *alliance) head() authz.Token {
	a.t.Helper()
	store, err := a.engine.StoreByAlias(a.t.Context(), keystone.Name, keystone.DefaultStore)
	if err != nil {
		a.t.Fatal(err)
	}
	head, err := store.Head(a.t.Context())
	if err != nil {
		a.t.Fatal(err)
	}
	return head
}

// TestFederatedGroupsChange logs in with other groups than before: tokens with the
// older groups are not valid any more.
func TestFederatedGroupsChange(t *testing.T) {
	a := newAlliance(t)
	valid := func(token string) bool {
		return a.do("GET", "/v3/auth/tokens", a.admin, "", "X-Subject-Token", token).status == 200
	}
	first := a.enter(map[string]any{"sub": "ann", "groups": "devs"}).header.Get("X-Subject-Token")
	head := a.head()
	same := a.enter(map[string]any{"sub": "ann", "groups": "devs"}).header.Get("X-Subject-Token")
	if now := a.head(); now != head {
		t.Error("a login that changes nothing wrote to the store")
	}
	if !valid(first) || !valid(same) {
		t.Fatal("tokens of the same groups:", valid(first), valid(same))
	}
	other := a.enter(map[string]any{"sub": "ann"}).header.Get("X-Subject-Token")
	if valid(first) || valid(same) || !valid(other) {
		t.Error("after a login without groups:", valid(first), valid(same), valid(other))
	}
	again := a.enter(map[string]any{"sub": "ann", "groups": "devs"}).header.Get("X-Subject-Token")
	a.play("DELETE /v3/groups/{devs} => 204", a.values)
	if b := a.rescope(again, `{"project":{"id":"`+a.values["p"]+`"}}`); b.status != 401 {
		t.Error("after the group was deleted:", b.status, b.text)
	}
}

// TestFederatedRefusals are logins that fail.
func TestFederatedRefusals(t *testing.T) {
	a := newAlliance(t)
	const auth = "/v3/OS-FEDERATION/identity_providers/corp/protocols/openid/auth"
	if b := a.do("POST", auth, "", ""); b.status != 401 || b.header.Get("WWW-Authenticate") == "" {
		t.Error("no token:", b.status, b.text)
	}
	if b := a.do("GET", auth, "", "", "Authorization", "Bearer x"); b.status != 401 {
		t.Error("garbage:", b.status, b.text)
	}
	if b := a.do("POST", auth, a.admin, "", "Authorization", "Basic x"); b.status != 401 {
		t.Error("Basic:", b.status, b.text)
	}
	for name, c := range map[string]struct {
		claims map[string]any
		status int
	}{
		"another audience":             {map[string]any{"sub": "u", "aud": "x"}, 401},
		"expired":                      {map[string]any{"sub": "u", "exp": 1}, 401},
		"no rule":                      {map[string]any{"sub": "u", "kind": "nobody"}, 401},
		"no user":                      {map[string]any{"groups": "devs"}, 401},
		"two names":                    {map[string]any{"sub": []string{"u", "v"}}, 401},
		"a group that does not exist":  {map[string]any{"sub": "u", "kind": "gone"}, 401},
		"a local user that is unknown": {map[string]any{"sub": "u", "kind": "local"}, 401},
		"a local user":                 {map[string]any{"sub": "admin", "kind": "local"}, 201},
	} {
		if b := a.enter(c.claims); b.status != c.status {
			t.Errorf("%s: %d %s, want %d", name, b.status, b.text, c.status)
		}
	}
	if users := a.do("GET", "/v3/users", a.admin, ""); strings.Count(users.text, `"name"`) != 1 {
		t.Error("refused logins made users:", users.text)
	}
	// A second provider must not vouch for users of the first one.
	a.enter(map[string]any{"sub": "ann"})
	domain := a.do("GET", "/v3/OS-FEDERATION/identity_providers/corp", a.admin, "").body["identity_provider"].(map[string]any)["domain_id"].(string)
	a.values["domain"] = domain
	a.play(`
PUT /v3/OS-FEDERATION/identity_providers/evil {"identity_provider":{"remote_ids":["{issuer}"],"enabled":true,"domain_id":"{domain}"}} => 409 a remote id is in use by corp
PATCH /v3/OS-FEDERATION/identity_providers/corp {"identity_provider":{"remote_ids":["https://old.example"]}} => 200
PUT /v3/OS-FEDERATION/identity_providers/evil {"identity_provider":{"remote_ids":["{issuer}"],"enabled":true,"domain_id":"{domain}"}} => 201
PUT /v3/OS-FEDERATION/identity_providers/evil/protocols/openid {"protocol":{"mapping_id":"m"}} => 201
`, a.values)
	if b := a.enter(map[string]any{"sub": "bob"}); b.status != 403 {
		t.Error("an issuer that is not the provider's:", b.status, b.text)
	}
	text := a.idp.Sign(map[string]any{"iss": a.idp.URL, "aud": "keystone", "exp": time.Now().Add(time.Hour).Unix(), "kind": "user", "sub": "ann"}, -1)
	if b := a.do("POST", strings.Replace(auth, "corp", "evil", 1), "", "", "Authorization", "Bearer "+text); b.status != 401 {
		t.Error("a user of another provider:", b.status, b.text)
	}
	if b := newCloud(t).do("POST", auth, "", "", "Authorization", "Bearer "+text); b.status != http.StatusNotImplemented || !strings.Contains(b.text, "--keystone-oidc") {
		t.Error("a server without identity providers:", b.status, b.text)
	}
}

// TestFederatedProjects logs in with a mapping that makes projects and grants. Version
// 3.0 also removes grants.
func TestFederatedProjects(t *testing.T) {
	a := newAlliance(t)
	b := a.enter(map[string]any{"sub": "ann", "kind": "builder"})
	if b.status != 201 {
		t.Fatal(b.status, b.text)
	}
	a.values["ann"] = b.body["token"].(map[string]any)["user"].(map[string]any)["id"].(string)
	home := a.do("GET", "/v3/projects?name=home%20of%20ann", a.admin, "").body["projects"].([]any)
	if len(home) != 1 {
		t.Fatal("projects:", home)
	}
	a.values["home"] = home[0].(map[string]any)["id"].(string)
	a.play(`
GET /v3/projects/{home}/users/{ann}/roles => 200 {member}
PUT /v3/projects/{p}/users/{ann}/roles/{member} => 204
PUT /v3/projects/{home}/users/{ann}/roles/{admin} => 204
`, a.values)
	grants := func() int {
		return len(a.do("GET", "/v3/role_assignments?user.id="+a.values["ann"], a.admin, "").body["role_assignments"].([]any))
	}
	a.enter(map[string]any{"sub": "ann", "kind": "builder"})
	if n := grants(); n != 3 {
		t.Errorf("%d grants after a login with version 1.0, want 3", n)
	}
	var rules map[string]any
	if err := json.Unmarshal([]byte(allianceRules), &rules); err != nil {
		t.Fatal(err)
	}
	rules["schema_version"] = "3.0"
	text, err := json.Marshal(map[string]any{"mapping": rules})
	if err != nil {
		t.Fatal(err)
	}
	a.ok(200, "PATCH", "/v3/OS-FEDERATION/mappings/m", string(text), "mapping")
	if b := a.enter(map[string]any{"sub": "ann", "kind": "builder"}); b.status != 201 {
		t.Error(b.status, b.text)
	}
	a.play("GET /v3/projects/{home}/users/{ann}/roles => 200 {member}", a.values)
	if n := grants(); n != 1 {
		t.Errorf("%d grants after a login with version 3.0, want 1", n)
	}
}

func TestFederationRecords(t *testing.T) {
	a := newAlliance(t)
	a.values["rule"] = `{"rules":[{"local":[{"user":{"name":"{0}"}}],"remote":[{"type":"a"}]}]}`
	a.play(`
GET /v3/OS-FEDERATION/mappings => 200 "id":"m"
GET /v3/OS-FEDERATION/mappings/m => 200 "schema_version":"1.0"
GET /v3/OS-FEDERATION/mappings/nope => 404
PUT /v3/OS-FEDERATION/mappings/m {"mapping":{{rule}} => 400
PUT /v3/OS-FEDERATION/mappings/m {"mapping":{rule}} => 409
PUT /v3/OS-FEDERATION/mappings/n {"mapping":{}} => 400 expected 1 to 1000
PUT /v3/OS-FEDERATION/mappings/n {"mapping":{"rules":[{"local":[{"user":{"name":"{1}"}}],"remote":[{"type":"a"}]}]}} => 400 {1} refers to none of the 1 values
PUT /v3/OS-FEDERATION/mappings/a~b {"mapping":{rule}} => 400 must not contain ~
PATCH /v3/OS-FEDERATION/mappings/m {"mapping":{"rules":[]}} => 400 expected 1 to 1000
DELETE /v3/OS-FEDERATION/mappings/m => 403 protocol openid of identity provider corp uses it
PUT /v3/OS-FEDERATION/mappings/n {"mapping":{"schema_version":null,"rules":[{"local":[],"remote":[{"type":"a"}]}]}} => 201 "id":"n","rules":[{"local":[],"remote":[{"type":"a"}]}],"schema_version":"1.0"
GET /v3/OS-FEDERATION/identity_providers => 200 "id":"corp"
GET /v3/OS-FEDERATION/identity_providers?enabled=false => 200 {"identity_providers":[]
GET /v3/OS-FEDERATION/identity_providers?id=corp => 200 "remote_ids":["{issuer}"]
GET /v3/OS-FEDERATION/identity_providers/nope => 404
PUT /v3/OS-FEDERATION/identity_providers/corp {"identity_provider":{}} => 409
PUT /v3/OS-FEDERATION/identity_providers/x {"identity_provider":{"domain_id":"nope"}} => 404 Could not find domain
PUT /v3/OS-FEDERATION/identity_providers/x {"identity_provider":{"authorization_ttl":5}} => 400 authorization_ttl
PUT /v3/OS-FEDERATION/identity_providers/x {"identity_provider":{"color":5}} => 400 'color' was unexpected
PUT /v3/OS-FEDERATION/identity_providers/x {"identity_provider":{"authorization_ttl":null}} => 201 "enabled":false
PATCH /v3/OS-FEDERATION/identity_providers/x {"identity_provider":{"domain_id":"default"}} => 400 domain_id
GET /v3/OS-FEDERATION/identity_providers/corp/protocols => 200 "idp_id":"corp","remote_id_attribute":null,"id":"openid","mapping_id":"m"
GET /v3/OS-FEDERATION/identity_providers/x/protocols => 200 {"protocols":[]
GET /v3/OS-FEDERATION/identity_providers/nope/protocols => 200 {"protocols":[],
GET /v3/OS-FEDERATION/identity_providers/corp/protocols/nope => 404 Could not find federated protocol nope for Identity Provider: corp.
PUT /v3/OS-FEDERATION/identity_providers/nope/protocols/p {"protocol":{"mapping_id":"m"}} => 404 identity_provider
PUT /v3/OS-FEDERATION/identity_providers/x/protocols/p {"protocol":{"mapping_id":"nope"}} => 400 Invalid mapping id: nope
PUT /v3/OS-FEDERATION/identity_providers/x/protocols/p {"protocol":{}} => 400 'mapping_id' is a required property
PUT /v3/OS-FEDERATION/identity_providers/x/protocols/p {"protocol":{"mapping_id":"n"}} => 201
PATCH /v3/OS-FEDERATION/identity_providers/x/protocols/p {"protocol":{"mapping_id":"nope"}} => 400 Invalid mapping id
PATCH /v3/OS-FEDERATION/identity_providers/x/protocols/p {"protocol":{"mapping_id":"m"}} => 200 "mapping_id":"m"
DELETE /v3/OS-FEDERATION/mappings/n => 204
DELETE /v3/OS-FEDERATION/identity_providers/x/protocols/p => 204
DELETE /v3/OS-FEDERATION/identity_providers/x/protocols/p => 404
DELETE /v3/OS-FEDERATION/identity_providers/corp => 204
GET /v3/OS-FEDERATION/identity_providers/corp/protocols/openid => 404
DELETE /v3/OS-FEDERATION/mappings/m => 204
`, a.values)
}
