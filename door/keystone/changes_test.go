package keystone_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/door/keystone"
	"github.com/ostiary/ostiary/internal/identity/settings"
	"github.com/ostiary/ostiary/storage/memory"
)

// TestValidationSeesChanges validates a token, changes what its validation depends on,
// and validates it again: what was remembered of the token must not be used any more. The
// change is made by the server that has validated the token, which sees it at once, and by
// another one on the same storage.
func TestValidationSeesChanges(t *testing.T) {
	t.Parallel()
	begun := time.Now()
	now := begun
	keys := []settings.Key{settings.NewKey()}
	adjust := func(o *keystone.Options) {
		o.URL = "" // links follow the Host header
		o.Keys = func(context.Context) ([]settings.Key, error) { return keys, nil }
	}
	o := settings.Deployment{Rounds: 4, Clock: func() time.Time { return now }}
	driver := memory.New()
	c := newCloudOn(t, driver, o, adjust)
	other := secondCloud(t, driver, o, adjust)
	role, auditor, service := c.id("roles", "role", `"name":"operator"`), c.id("roles", "role", `"name":"auditor"`), c.id("services", "service", `"type":"compute","name":"nova"`)
	endpoint := c.id("endpoints", "endpoint", `"service_id":"`+service+`","interface":"public","url":"http://nova/$(project_id)s"`)
	for _, by := range []*cloud{c, other} {
		for name, x := range map[string]struct {
			method, path, body string
			status             int
			before, after      string // parts of the body
		}{
			"token revoked":         {"DELETE", "/v3/auth/tokens", "", 404, "", ""},
			"tokens of user ended":  {"PATCH", "/v3/users/{user}", `{"user":{"password":"other"}}`, 404, "", ""},
			"user disabled":         {"PATCH", "/v3/users/{user}", `{"user":{"enabled":false}}`, 404, "", ""},
			"user renamed":          {"PATCH", "/v3/users/{user}", `{"user":{"name":"{name}2"}}`, 200, `"name":"{name}"`, `"name":"{name}2"`},
			"user deleted":          {"DELETE", "/v3/users/{user}", "", 404, "", ""},
			"project disabled":      {"PATCH", "/v3/projects/{project}", `{"project":{"enabled":false}}`, 404, "", ""},
			"project renamed":       {"PATCH", "/v3/projects/{project}", `{"project":{"name":"{name}3"}}`, 200, `"name":"{name}p"`, `"name":"{name}3"`},
			"role removed":          {"DELETE", "/v3/projects/{project}/users/{user}/roles/{role}", "", 200, `"operator"`, `"member"`},
			"role of group removed": {"DELETE", "/v3/projects/{project}/groups/{group}/roles/{auditor}", "", 200, `"auditor"`, `"member"`},
			"user leaves group":     {"DELETE", "/v3/groups/{group}/users/{user}", "", 404, "", ""},
			"role added":            {"PUT", "/v3/projects/{project}/users/{user}/roles/{admin}", "", 200, `"member"`, `"admin"`},
			"role implied":          {"PUT", "/v3/roles/{role}/implies/{manager}", "", 200, `"operator"`, `"manager"`},
			"endpoint changed":      {"PATCH", "/v3/endpoints/" + endpoint, `{"endpoint":{"url":"http://nova2/{name}"}}`, 200, `"url":"`, `"url":"http://nova2/{name}"`},
			"others removed":        {"PUT", "/v3/OS-EP-FILTER/projects/{project}/endpoints/" + endpoint, "", 200, `"type":"identity"`, `"type":"compute"`},
		} {
			who := strings.ReplaceAll(name, " ", "-") + fmt.Sprintf("%p", by)
			user, project := c.id("users", "user", `"name":"`+who+`","password":"pw"`), c.id("projects", "project", `"name":"`+who+`p"`)
			group := c.id("groups", "group", `"name":"`+who+`g"`)
			c.do("PUT", "/v3/groups/"+group+"/users/"+user, c.admin, "")
			c.do("PUT", "/v3/projects/"+project+"/groups/"+group+"/roles/"+auditor, c.admin, "")
			c.do("PUT", "/v3/projects/"+project+"/users/"+user+"/roles/"+role, c.admin, "")
			c.do("PUT", "/v3/projects/"+project+"/users/"+user+"/roles/"+c.roles["member"], c.admin, "")
			fill := strings.NewReplacer("{user}", user, "{project}", project, "{group}", group, "{role}", role, "{admin}", c.roles["admin"],
				"{auditor}", auditor, "{manager}", c.roles["manager"], "{name}", who).Replace
			subject := c.token(who, "pw", `{"project":{"id":"`+project+`"}}`)
			validate := func() answer { return c.do("GET", "/v3/auth/tokens", c.admin, "", "X-Subject-Token", subject) }
			for range 3 {
				if a := validate(); a.status != 200 || !strings.Contains(a.text, fill(x.before)) {
					t.Errorf("%s: before the change: %d %s", name, a.status, a.text)
				}
			}
			// A server sees its own changes at once, and those of another one soon.
			limit := begun
			if by == other {
				limit = begun.Add(time.Minute)
			}
			a := by.do(x.method, fill(x.path), by.admin, fill(x.body), "X-Subject-Token", subject)
			for ; a.status/100 != 2 && time.Now().Before(limit); time.Sleep(time.Millisecond) {
				a = by.do(x.method, fill(x.path), by.admin, fill(x.body), "X-Subject-Token", subject)
			}
			if a.status/100 != 2 {
				t.Errorf("%s: the change: %d %s", name, a.status, a.text)
			}
			seen := func(a answer) bool {
				gone := strings.Contains(name, "removed") && strings.Contains(a.text, fill(x.before))
				return a.status == x.status && !gone && (a.status != 200 || strings.Contains(a.text, fill(x.after)))
			}
			a = validate()
			for ; !seen(a) && time.Now().Before(limit); time.Sleep(time.Millisecond) {
				a = validate()
			}
			if !seen(a) {
				t.Errorf("%s: after the change: %d %s", name, a.status, a.text)
			}
			c.do("DELETE", "/v3/roles/"+role+"/implies/"+c.roles["manager"], c.admin, "")
		}
	}

	subject := c.token("admin", "secret", `{"project":{"name":"admin","domain":{"id":"default"}}}`)
	validate := func(path string) int { return c.do("GET", path, c.admin, "", "X-Subject-Token", subject).status }
	if got := validate("/v3/auth/tokens"); got != 200 {
		t.Fatal(got)
	}
	// The links of a catalog follow the Host header of each request.
	c.id("endpoints", "endpoint", `"service_id":"`+service+`","interface":"internal","url":"http:$(public_endpoint)s/x"`)
	for _, host := range []string{"a", "b", "a"} {
		if a := c.do("GET", "http://"+host+"/v3/auth/tokens", c.admin, "", "X-Subject-Token", subject); !strings.Contains(a.text, `"url":"http:http://`+host+`/x"`) {
			t.Errorf("host %s: %d %s", host, a.status, a.text)
		}
	}
	// A key that is removed takes its tokens with it, and so does the time.
	old := keys
	keys = append([]settings.Key{settings.NewKey()}, keys...)
	if got := validate("/v3/auth/tokens"); got != 200 {
		t.Errorf("with another key in addition: %d", got)
	}
	keys = keys[:1]
	if got := validate("/v3/auth/tokens"); got != 401 {
		t.Errorf("without the key: %d", got)
	}
	if keys = old; validate("/v3/auth/tokens") != 200 {
		t.Error("with the key again: not valid")
	}
	now = now.Add(2 * time.Hour)
	if got := validate("/v3/auth/tokens"); got != 401 {
		t.Errorf("after its end: %d", got)
	}
}

// secondCloud returns the deployment of a cloud on a server of its own, on the same driver.
func secondCloud(t *testing.T, driver *memory.Driver, o settings.Deployment, change func(*keystone.Options)) *cloud {
	t.Helper()
	e, err := ostiary.Open(t.Context(), ostiary.Options{Driver: driver, SecretKey: &[32]byte{1}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	settings := keystone.Options{Identity: o}
	change(&settings)
	d, err := keystone.New(e, settings)
	if err != nil {
		t.Fatal(err)
	}
	c := &cloud{t: t, engine: e, door: d}
	if c.router, err = door.NewRouter(d.Routes); err != nil {
		t.Fatal(err)
	}
	c.admin = c.token("admin", "secret", `{"project":{"name":"admin","domain":{"id":"default"}}}`)
	return c
}
