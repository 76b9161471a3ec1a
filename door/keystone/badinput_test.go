package keystone_test

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ostiary/ostiary/internal/identity/settings"
)

// trusted are attributes of the caller and of the target, as a policy names them,
// with the values that would let a persona in.
func (w *personaWorld) trusted(persona string) map[string]string {
	self := w.tokens[persona]["self"]
	return map[string]string{
		"user_id": self, "domain_id": w.values["A"], "project_id": w.values["a"], "is_admin": "1", "role": "admin", "system_scope": "all",
		"target.user.id": self, "target.user.domain_id": w.values["A"], "target.group.domain_id": w.values["A"],
		"target.project.id": w.values["a"], "target.project.domain_id": w.values["A"], "target.domain.id": w.values["A"],
		"target.domain_id": w.values["A"], "target.role.name": "member", "target.credential.user_id": self, "target.token.user_id": self,
		"target.trust.trustor_user_id": self, "target.trust.trustee_user_id": self, "target.limit.project_id": w.values["a"],
	}
}

// inBody adds attributes to a body, as names with dots and as an object "target".
func inBody(body string, attributes map[string]string) string {
	for name, value := range attributes {
		body = fmt.Sprintf(`{%q:%q,%s`, name, value, body[1:])
	}
	user, domain := attributes["user_id"], attributes["domain_id"]
	return fmt.Sprintf(`{"target":{"user":{"id":%q,"domain_id":%q},"project":{"domain_id":%q},"credential":{"user_id":%q}},%s`, user, domain, domain, user, body[1:])
}

// TestTargetsInRequests repeats refused calls with the attributes of the caller and
// of the target in the query and in the body. They stay refused (class X).
func TestTargetsInRequests(t *testing.T) {
	t.Parallel()
	w := newPersonaWorld(t)
	bodies, queries := 0, 0
	for _, c := range w.calls {
		for i, p := range w.personas {
			if c.want[i] != "403" || p != "d-manager" && p != "p-reader" && p != "unscoped" {
				continue
			}
			attributes := w.trusted(p)
			query := url.Values{}
			for name, value := range attributes {
				query.Set(name, value)
			}
			separator := "?"
			if strings.Contains(c.words[1], "?") {
				separator = "&"
			}
			asked := c
			asked.words = slices.Clone(c.words)
			asked.words[1] += separator + query.Encode()
			queries++
			if a := w.ask(asked, c.words[0], p); a.status != 403 {
				t.Errorf("%s as %s with attributes in the query: %d %s", strings.Join(c.words, " "), p, a.status, a.text)
			}
			if len(c.words) < 3 || !strings.HasPrefix(c.words[2], `{"`) {
				continue
			}
			asked.words = slices.Clone(c.words)
			asked.words[2] = inBody(asked.words[2], attributes)
			bodies++
			if a := w.ask(asked, c.words[0], p); a.status != 400 && a.status != 403 {
				t.Errorf("%s as %s with attributes in the body: %d %s", strings.Join(c.words, " "), p, a.status, a.text)
			}
		}
	}
	if bodies < 100 || queries < 500 {
		t.Errorf("%d bodies and %d queries were sent", bodies, queries)
	}
}

// TestTokensOfDisabled disables what a token depends on. The token ends, also as the
// proof of a new one, and a login fails. After a user was disabled, older tokens
// stay invalid.
func TestTokensOfDisabled(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		what, scope string
		again       bool // older tokens are valid when the record is enabled again
	}{
		{"users/{user}", "project", false}, {"users/{user}", "domain", false}, {"users/{user}", "", false},
		{"projects/{project}", "project", true}, {"domains/{home}", "project", true}, {"domains/{home}", "domain", true},
		{"domains/{foreign}", "project", true}, {"domains/{foreign}", "", true},
	} {
		t.Run(x.what+" "+x.scope, func(t *testing.T) {
			t.Parallel()
			c := newCloud(t)
			v := map[string]string{"home": c.id("domains", "domain", `"name":"home"`), "foreign": c.id("domains", "domain", `"name":"foreign"`)}
			v["project"] = c.id("projects", "project", `"name":"p","domain_id":"`+v["home"]+`"`)
			v["user"] = c.id("users", "user", `"name":"u","password":"x","domain_id":"`+v["foreign"]+`"`)
			for _, target := range []string{"projects/" + v["project"], "domains/" + v["home"]} {
				c.ok(204, "PUT", "/v3/"+target+"/users/"+v["user"]+"/roles/"+c.roles["reader"], "", "")
			}
			scope := map[string]string{"": "", "project": `,"scope":{"project":{"id":"` + v["project"] + `"}}`, "domain": `,"scope":{"domain":{"id":"` + v["home"] + `"}}`}[x.scope]
			login := func() answer {
				return c.do("POST", "/v3/auth/tokens", "", `{"auth":{"identity":{"methods":["password"],"password":{"user":{"id":"`+v["user"]+`","password":"x"}}}`+scope+`}}`)
			}
			token := login().header.Get("X-Subject-Token")
			check := func(when string, valid bool) {
				t.Helper()
				want := map[bool][3]int{true: {200, 200, 201}, false: {401, 404, 404}}[valid]
				got := [3]int{c.do("GET", "/v3/regions", token, "").status, c.do("GET", "/v3/auth/tokens", c.admin, "", "X-Subject-Token", token).status,
					c.do("POST", "/v3/auth/tokens", "", `{"auth":{"identity":{"methods":["token"],"token":{"id":"`+token+`"}}}}`).status}
				if got != want {
					t.Errorf("%s: as caller, as subject, as proof: %v, want %v", when, got, want)
				}
			}
			check("before", true)
			path := c.fill("/v3/"+x.what, v)
			member := strings.TrimSuffix(strings.Split(x.what, "/")[0], "s")
			c.ok(200, "PATCH", path, `{"`+member+`":{"enabled":false}}`, "")
			check("disabled", false)
			if a := login(); a.status != http.StatusUnauthorized {
				t.Errorf("login while disabled: %d %s", a.status, a.text)
			}
			c.ok(200, "PATCH", path, `{"`+member+`":{"enabled":true}}`, "")
			check("enabled again", x.again)
			if a := login(); a.status != http.StatusCreated {
				t.Errorf("login after enabling: %d %s", a.status, a.text)
			}
		})
	}
}

// fill replaces names in braces.
func (c *cloud) fill(text string, values map[string]string) string {
	for name, value := range values {
		text = strings.ReplaceAll(text, "{"+name+"}", value)
	}
	return text
}

// TestDistortedTokens uses every beginning of a token, a token with each character
// changed, and tokens from the past and the future.
func TestDistortedTokens(t *testing.T) {
	t.Parallel()
	now := time.Now()
	var clock sync.Mutex
	set := func(to time.Time) { clock.Lock(); now = to; clock.Unlock() }
	c := newCloudWith(t, settings.Deployment{Rounds: 4, Clock: func() time.Time { clock.Lock(); defer clock.Unlock(); return now }})
	refused := func(what, token string) {
		t.Helper()
		if a := c.do("GET", "/v3/users", token, ""); a.status != 401 {
			t.Errorf("%s as the caller: %d %s", what, a.status, a.text)
		}
		if a := c.do("GET", "/v3/auth/tokens", c.admin, "", "X-Subject-Token", token); a.status != 404 {
			t.Errorf("%s as the subject: %d %s", what, a.status, a.text)
		}
	}
	token := c.token("admin", "secret", "")
	for i := range len(token) {
		refused("cut", token[:i])
		other := byte('A')
		if token[i] == other {
			other = 'B'
		}
		// The last characters may hold bits that base64 does not use.
		if i < len(token)-2 {
			refused("changed", token[:i]+string(other)+token[i+1:])
		}
	}
	refused("longer", token+"AAAA")
	refused("twice", token+token)
	start := time.Now()
	for _, x := range []struct {
		ahead time.Duration
		valid bool
	}{{0, true}, {5 * time.Minute, true}, {5*time.Minute + 2*time.Second, false}, {24 * time.Hour, false}} {
		set(start.Add(x.ahead).Truncate(time.Second))
		made := c.token("admin", "secret", `{"system":{"all":true}}`)
		set(start.Truncate(time.Second))
		if a := c.do("GET", "/v3/users", made, ""); (a.status == 200) != x.valid {
			t.Errorf("a token from %v ahead: %d %s", x.ahead, a.status, a.text)
		}
	}
	set(start)
	made := c.token("admin", "secret", `{"system":{"all":true}}`)
	for _, x := range []struct {
		later time.Duration
		valid bool
	}{{59 * time.Minute, true}, {61 * time.Minute, false}} {
		set(start.Add(x.later))
		if a := c.do("GET", "/v3/users", made, ""); (a.status == 200) != x.valid {
			t.Errorf("a token after %v: %d %s", x.later, a.status, a.text)
		}
	}
}

// TestCycles makes roles that imply each other and themselves, and tries to make
// cycles of regions and projects.
func TestCycles(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	v := map[string]string{"user": c.id("users", "user", `"name":"u","password":"x"`), "project": c.id("projects", "project", `"name":"p"`),
		"r": c.id("roles", "role", `"name":"r"`), "s": c.id("roles", "role", `"name":"s"`), "t": c.id("roles", "role", `"name":"t"`)}
	v["child"] = c.id("projects", "project", `"name":"c","parent_id":"`+v["project"]+`"`)
	c.play(`
PUT /v3/roles/{r}/implies/{s} => 201
PUT /v3/roles/{s}/implies/{t} => 201
PUT /v3/roles/{t}/implies/{r} => 201
PUT /v3/roles/{t}/implies/{t} => 201
PUT /v3/projects/{project}/users/{user}/roles/{r} => 204
GET /v3/role_assignments?effective&user.id={user} => 200 "role":{"id":"{t}"}
GET /v3/roles/{t}/implies => 200 {r}
PUT /v3/regions/north {"region":{}} => 201
PUT /v3/regions/south {"region":{"parent_region_id":"north"}} => 201
PATCH /v3/regions/north {"region":{"parent_region_id":"south"}} => 400 below itself
PATCH /v3/regions/north {"region":{"parent_region_id":"north"}} => 400 below itself
PATCH /v3/projects/{project} {"project":{"parent_id":"{child}"}} => 403 parent_id
PATCH /v3/projects/{project} {"project":{"parent_id":"{project}"}} => 403 parent_id
`, v)
	a := c.login("u", "x", `{"project":{"id":"`+v["project"]+`"}}`)
	if roles := a.body["token"].(map[string]any)["roles"].([]any); len(roles) != 3 {
		t.Errorf("roles of a cycle: %v", roles)
	}
	c.play(`
DELETE /v3/roles/{t}/implies/{r} => 204
DELETE /v3/roles/{s} => 204
`, v)
	a = c.login("u", "x", `{"project":{"id":"`+v["project"]+`"}}`)
	if roles := a.body["token"].(map[string]any)["roles"].([]any); len(roles) != 1 {
		t.Errorf("roles after the cycle is broken: %v", roles)
	}
}

// TestDeleteInUse deletes records that others depend on: some are refused, others
// end what depended on them.
func TestDeleteInUse(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	v := map[string]string{"domain": c.id("domains", "domain", `"name":"d"`), "service": c.id("services", "service", `"type":"x"`), "role": c.id("roles", "role", `"name":"r"`),
		"admin": c.roles["admin"], "user": c.id("users", "user", `"name":"u"`), "group": c.id("groups", "group", `"name":"g"`)}
	v["parent"] = c.id("projects", "project", `"name":"p","domain_id":"`+v["domain"]+`"`)
	v["child"] = c.id("projects", "project", `"name":"c","domain_id":"`+v["domain"]+`","parent_id":"`+v["parent"]+`"`)
	v["registered"], v["nova"] = c.registered("cores", 10)
	v["limit"] = c.limit(`"service_id":"` + v["nova"] + `","resource_name":"cores","resource_limit":5,"project_id":"` + v["child"] + `"`)
	v["fixed"] = c.id("projects", "project", `"name":"f","options":{"immutable":true}`)
	c.play(`
DELETE /v3/domains/{domain} => 403 disable it first
DELETE /v3/projects/{parent} => 403 not a leaf
DELETE /v3/projects/{fixed} => 403 immutable
DELETE /v3/roles/{admin} => 403 immutable
PUT /v3/regions/north {"region":{}} => 201
PUT /v3/regions/below {"region":{"parent_region_id":"north"}} => 201
POST /v3/endpoints {"endpoint":{"service_id":"{service}","interface":"public","url":"http://x","region_id":"below"}} => 201
DELETE /v3/regions/north => 403 associated endpoints
GET /v3/regions/below => 200
DELETE /v3/registered_limits/{registered} => 403
DELETE /v3/services/{nova} => 403 registered limit
DELETE /v3/services/{service} => 204
DELETE /v3/regions/north => 204
GET /v3/regions/below => 404
PUT /v3/OS-FEDERATION/mappings/m {"mapping":{"rules":[{"local":[{"user":{"name":"{0}"}}],"remote":[{"type":"x"}]}]}} => 201
PUT /v3/OS-FEDERATION/identity_providers/i {"identity_provider":{}} => 201
PUT /v3/OS-FEDERATION/identity_providers/i/protocols/p {"protocol":{"mapping_id":"m"}} => 201
DELETE /v3/OS-FEDERATION/mappings/m => 403 uses it
DELETE /v3/OS-FEDERATION/identity_providers/i => 204
DELETE /v3/OS-FEDERATION/mappings/m => 204
PUT /v3/groups/{group}/users/{user} => 204
PUT /v3/projects/{child}/groups/{group}/roles/{role} => 204
GET /v3/role_assignments?effective&user.id={user} => 200 {child}
DELETE /v3/roles/{role} => 204
GET /v3/role_assignments?user.id={user} => 200 "role_assignments":[]
DELETE /v3/groups/{group} => 204
GET /v3/users/{user}/groups => 200 "groups":[]
DELETE /v3/projects/{child} => 204
GET /v3/limits/{limit} => 404
PATCH /v3/domains/{domain} {"domain":{"enabled":false}} => 200
DELETE /v3/domains/{domain} => 204
GET /v3/projects/{parent} => 404
`, v)
}

// TestLongNames makes records with names at the bound and one character above it.
func TestLongNames(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	admin := c.do("GET", "/v3/auth/tokens", c.admin, "", "X-Subject-Token", c.admin).body["token"].(map[string]any)["user"].(map[string]any)["id"].(string)
	service := c.id("services", "service", `"type":"x"`)
	for request, longest := range map[string]int{
		`POST /v3/users {"user":{"name":"{name}"}}`:                                                                                      255,
		`POST /v3/roles {"role":{"name":"{name}"}}`:                                                                                      255,
		`POST /v3/groups {"group":{"name":"{name}"}}`:                                                                                    64,
		`POST /v3/projects {"project":{"name":"{name}"}}`:                                                                                64,
		`POST /v3/domains {"domain":{"name":"{name}"}}`:                                                                                  64,
		`POST /v3/services {"service":{"type":"{name}"}}`:                                                                                255,
		`POST /v3/regions {"region":{"id":"{name}"}}`:                                                                                    255,
		`POST /v3/policies {"policy":{"blob":"b","type":"{name}"}}`:                                                                      255,
		`POST /v3/OS-EP-FILTER/endpoint_groups {"endpoint_group":{"name":"{name}","filters":{"interface":"public"}}}`:                    255,
		`POST /v3/users/` + admin + `/application_credentials {"application_credential":{"name":"{name}"}}`:                              255,
		`POST /v3/registered_limits {"registered_limits":[{"service_id":"` + service + `","resource_name":"{name}","default_limit":1}]}`: 255,
		`PUT /v3/OS-FEDERATION/identity_providers/{name} {"identity_provider":{}}`:                                                       64,
		`PUT /v3/OS-FEDERATION/service_providers/{name} {"service_provider":{"auth_url":"a:b","sp_url":"a:b"}}`:                          64,
		`PUT /v3/OS-FEDERATION/mappings/{name} {"mapping":{"rules":[{"local":[{"user":{"name":"{0}"}}],"remote":[{"type":"x"}]}]}}`:      64,
	} {
		for _, n := range []int{longest, longest + 1} {
			name := strings.Repeat("n", n)
			method, rest, _ := strings.Cut(strings.ReplaceAll(request, "{name}", name), " ")
			path, body, _ := strings.Cut(rest, " ")
			want := map[bool]int{true: 201, false: 400}[n == longest]
			text := name
			switch {
			case n == longest:
			case method == "PUT": // the name is an id
				text = fmt.Sprintf("with %d characters: expected at most %d", n, longest)
			default:
				text = fmt.Sprintf("too long: at most %d characters", longest)
			}
			if a := c.do(method, path, c.admin, body); a.status != want || !strings.Contains(a.text, text) {
				t.Errorf("%s with %d characters: %d %.300s, want %d", request, n, a.status, a.text, want)
			}
		}
	}
}

// TestOneNameManyRequests makes records with one name at the same time. One request
// makes it, all others get 409.
func TestOneNameManyRequests(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	for _, request := range []string{
		`POST /v3/users {"user":{"name":"same"}}`, `POST /v3/groups {"group":{"name":"same"}}`, `POST /v3/projects {"project":{"name":"same"}}`,
		`POST /v3/domains {"domain":{"name":"same"}}`, `POST /v3/roles {"role":{"name":"same"}}`, `POST /v3/regions {"region":{"id":"same"}}`,
		`PUT /v3/OS-FEDERATION/service_providers/same {"service_provider":{"auth_url":"a:b","sp_url":"a:b"}}`,
	} {
		method, rest, _ := strings.Cut(request, " ")
		path, body, _ := strings.Cut(rest, " ")
		statuses := make([]int, 16)
		var all sync.WaitGroup
		for i := range statuses {
			all.Go(func() { statuses[i] = c.do(method, path, c.admin, body).status })
		}
		all.Wait()
		slices.Sort(statuses)
		if statuses[0] != 201 || statuses[1] != 409 || statuses[len(statuses)-1] != 409 {
			t.Errorf("%s at once: %v, want one 201 and else 409", request, statuses)
		}
	}
}
