package keystone_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/ostiary/ostiary/door/keystone"
	"github.com/ostiary/ostiary/internal/identity"
	"github.com/ostiary/ostiary/internal/identity/settings"
	"github.com/ostiary/ostiary/internal/workshop/failing"
	"github.com/ostiary/ostiary/storage"
	"github.com/ostiary/ostiary/storage/memory"
)

// service opens the deployment behind the door.
func (c *cloud) service() *identity.Service {
	c.t.Helper()
	store, err := c.engine.StoreByAlias(c.t.Context(), keystone.Name, keystone.DefaultStore)
	if err != nil {
		c.t.Fatal(err)
	}
	s, err := identity.Open(c.t.Context(), store, settings.Deployment{Rounds: 4})
	if err != nil {
		c.t.Fatal(err)
	}
	return s
}

// TestOwnPassword changes passwords as the users themselves: not while the option
// lock_password is true, but after the password has expired.
func TestOwnPassword(t *testing.T) {
	c := newCloud(t)
	id := c.id("users", "user", `"name":"u","password":"old","options":{"lock_password":true}`)
	change := func(old, secret string) answer {
		return c.do("POST", "/v3/users/"+id+"/password", "", fmt.Sprintf(`{"user":{"original_password":%q,"password":%q}}`, old, secret))
	}
	if a := change("old", "new"); a.status != http.StatusBadRequest || !strings.Contains(a.text, "cannot change your password") {
		t.Errorf("with lock_password: %d %s", a.status, a.text)
	}
	c.token("u", "old", "")
	c.ok(200, "PATCH", "/v3/users/"+id, `{"user":{"options":{"lock_password":null}}}`, "user")
	_, err := c.service().Update(t.Context(), identity.User, id, nil, false, func(r *identity.Record) error {
		past := time.Now().Add(-time.Hour)
		r.Password = &identity.Password{Changed: past, Expires: &past}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if a := c.login("u", "old", ""); a.status != http.StatusUnauthorized || !strings.Contains(a.text, "expired") {
		t.Errorf("login with an expired password: %d %s", a.status, a.text)
	}
	if a := change("wrong", "new"); a.status != http.StatusUnauthorized {
		t.Errorf("change with a wrong password: %d %s", a.status, a.text)
	}
	if a := change("old", "new"); a.status != http.StatusNoContent {
		t.Errorf("change of an expired password: %d %s", a.status, a.text)
	}
	c.token("u", "new", "")
}

// TestSeveralFactors checks that a user whose rules need another factor cannot
// log in by password alone.
func TestSeveralFactors(t *testing.T) {
	c := newCloud(t)
	id := c.id("users", "user", `"name":"u","password":"p","options":{"multi_factor_auth_rules":[["password","totp"]]}`)
	if a := c.login("u", "p", ""); a.status != http.StatusUnauthorized {
		t.Errorf("login with one of two factors: %d %s", a.status, a.text)
	}
	c.ok(200, "PATCH", "/v3/users/"+id, `{"user":{"options":{"multi_factor_auth_enabled":false}}}`, "user")
	c.token("u", "p", "")
}

func TestTypesOfOptions(t *testing.T) {
	c := newCloud(t)
	for kind, options := range map[string][]string{
		"project": {`{"immutable":"true"}`, `{"immutable":1}`},
		"user":    {`{"lock_password":"yes"}`, `{"multi_factor_auth_rules":true}`, `{"multi_factor_auth_rules":["password"]}`},
	} {
		for _, o := range options {
			if a := c.do("POST", "/v3/"+kind+"s", c.admin, `{"`+kind+`":{"name":"x","options":`+o+`}}`); a.status != http.StatusBadRequest {
				t.Errorf("%s with options %s: %d %s, want 400", kind, o, a.status, a.text)
			}
		}
	}
}

// TestSystemIsNoProject names the system in paths of projects and domains.
func TestSystemIsNoProject(t *testing.T) {
	c := newCloud(t)
	user := c.id("users", "user", `"name":"u","password":"p"`)
	grant := "/users/" + user + "/roles/" + c.roles["reader"]
	if a := c.do("PUT", "/v3/system"+grant, c.token("admin", "secret", `{"system":{"all":true}}`), ""); a.status != http.StatusNoContent {
		t.Fatal(a.status, a.text)
	}
	for _, target := range []string{"projects", "domains"} {
		for _, method := range []string{"PUT", "GET", "DELETE"} {
			if a := c.do(method, "/v3/"+target+"/"+identity.System+grant, c.admin, ""); a.status != http.StatusNotFound {
				t.Errorf("%s in %s: %d %s, want 404", method, target, a.status, a.text)
			}
		}
	}
	if a := c.do("POST", "/v3/domains", c.admin, `{"domain":{"name":"d","explicit_domain_id":"`+identity.System+`"}}`); a.status != http.StatusBadRequest {
		t.Errorf("a domain with the id of the system: %d %s", a.status, a.text)
	}
	c.token("u", "p", `{"system":{"all":true}}`)
}

// TestRegionsOfDomainTokens lists regions, which belong to no domain, with a
// token that has the scope of a domain.
func TestRegionsOfDomainTokens(t *testing.T) {
	c := newCloud(t)
	user := c.id("users", "user", `"name":"u","password":"p"`)
	if a := c.do("PUT", "/v3/domains/default/users/"+user+"/roles/"+c.roles["reader"], c.admin, ""); a.status != http.StatusNoContent {
		t.Fatal(a.status, a.text)
	}
	a := c.do("GET", "/v3/regions", c.token("u", "p", `{"domain":{"id":"default"}}`), "")
	if found, _ := a.body["regions"].([]any); a.status != http.StatusOK || len(found) != 1 {
		t.Errorf("%d %s, want one region", a.status, a.text)
	}
}

// TestShapes are details of responses that clients of Keystone can depend on: the
// order of the members of a token with system scope, the filters of regions, and
// the status of a login with a token that is not valid.
func TestShapes(t *testing.T) {
	c := newCloud(t)
	text := c.login("admin", "secret", `{"system":{"all":true}}`).text
	roles, system, catalog := strings.Index(text, `"roles":`), strings.Index(text, `"system":`), strings.Index(text, `"catalog":`)
	if roles < 0 || system < roles || catalog < system {
		t.Errorf("roles at %d, system at %d, catalog at %d, want this order", roles, system, catalog)
	}
	for path, status := range map[string]int{"/v3/regions": 200, "/v3/regions?parent_region_id=x": 200, "/v3/regions?name=x": 400, "/v3/regions?limit=1": 400, "/v3/services?color=x": 200} {
		if a := c.do("GET", path, c.admin, ""); a.status != status {
			t.Errorf("%s: %d, want %d", path, a.status, status)
		}
	}
	// A long name of a request is cut between two characters.
	long := strings.Repeat("x", 199)
	if a := c.do("GET", "/v3/regions?"+long+url.QueryEscape("é")+"=1", c.admin, ""); a.status != http.StatusBadRequest || !strings.Contains(a.text, "('"+long+"…' was unexpected)") {
		t.Errorf("a long parameter: %d %q", a.status, a.text)
	}
	revoked := c.token("admin", "secret", "")
	if a := c.do("DELETE", "/v3/auth/tokens", revoked, "", "X-Subject-Token", revoked); a.status != http.StatusNoContent {
		t.Fatalf("revocation: %d %s", a.status, a.text)
	}
	for _, token := range []string{revoked, "garbage"} {
		body := fmt.Sprintf(`{"auth":{"identity":{"methods":["token"],"token":{"id":%q}}}}`, token)
		if a := c.do("POST", "/v3/auth/tokens", "", body); a.status != http.StatusNotFound {
			t.Errorf("login with the token %.7s: %d %s, want 404", token, a.status, a.text)
		}
	}
}

// TestSecretReplaced logs in while the node knows that another one has replaced the
// secret, but lacks the entry that did. No password is right or wrong then, so the
// answer is 503 with Retry-After, never 401.
func TestSecretReplaced(t *testing.T) {
	driver := failing.New(memory.New())
	c := newCloudOn(t, driver, settings.Deployment{Rounds: 4})
	id := c.id("users", "user", `"name":"u","password":"right"`)
	for name, send := range map[string]func() answer{
		"right password": func() answer { return c.login("u", "right", "") },
		"wrong password": func() answer { return c.login("u", "wrong", "") },
		"own password": func() answer {
			return c.do("POST", "/v3/users/"+id+"/password", "", `{"user":{"original_password":"right","password":"new"}}`)
		},
	} {
		driver.Break(failing.Fault{Number: 1, Lasting: true, Only: []failing.Operation{failing.Secret}, Err: storage.ErrSecretReplaced})
		a := send()
		if _, failed := driver.Mend(); !failed {
			t.Errorf("%s: no secret was read", name)
		}
		if a.status != http.StatusServiceUnavailable || a.header.Get("Retry-After") == "" {
			t.Errorf("%s: %d %s, Retry-After %q, want 503 with Retry-After", name, a.status, a.text, a.header.Get("Retry-After"))
		}
	}
	c.token("u", "right", "")
}
