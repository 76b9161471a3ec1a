package keystone_test

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/ostiary/ostiary/internal/identity/settings"
	"github.com/ostiary/ostiary/internal/workshop/golden"
)

// TestUnknownIDs calls every route as an administrator, with ids that do not exist
// and a valid body, and with each id in turn that exists. The file has a line for
// each outcome.
func TestUnknownIDs(t *testing.T) {
	t.Parallel()
	x := newTour(t)
	x.prepareVariants()
	bodies := map[string]string{}
	for _, v := range validBodies {
		method, path, _ := strings.Cut(v[0], " ")
		bodies[method+" "+parameter.ReplaceAllString(path, "{}")] = v[1]
	}
	known := map[string]string{"user": "{alice}", "group": "{group}", "project": "{p}", "role": "{role}", "implied": "{reader}", "endpoint": "{endpoint}", "service": "{service}", "region": "RegionOne",
		"provider": "idp", "protocol": "openid", "access": "a", "tag": "t"}
	var got strings.Builder
	for _, r := range x.door.Routes {
		if r.Method == http.MethodHead || strings.HasPrefix(r.Pattern, "/identity") || !strings.Contains(r.Pattern, "{") {
			continue
		}
		body := x.fill(bodies[r.Method+" "+parameter.ReplaceAllString(r.Pattern, "{}")])
		names := append([]string{""}, parameter.FindAllString(r.Pattern, -1)...)
		for _, exists := range names {
			path := parameter.ReplaceAllStringFunc(r.Pattern, func(name string) string {
				if id, ok := known[strings.Trim(name, "{}")]; ok && name == exists {
					return x.fill(id)
				}
				return "none"
			})
			if exists != "" && !strings.Contains(path, "none") || exists != "" && known[strings.Trim(exists, "{}")] == "" {
				continue
			}
			a := x.do(r.Method, path, x.admin, body)
			e, _ := a.body["error"].(map[string]any)
			message, _ := e["message"].(string)
			fmt.Fprintf(&got, "%s %s %s: %d%s\n", r.Method, r.Pattern, exists, a.status, withoutValue(x.describe(message)))
		}
	}
	golden.Equal(t, "testdata/unknown.txt", got.String())
}

// parameter matches a parameter of a path.
var parameter = regexp.MustCompile(`\{\w+\}`)

// TestExpiredTokens uses a token after it has expired. A service may still validate
// it for some time, but its user may call nothing with it.
func TestExpiredTokens(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	c := newCloudWith(t, settings.Deployment{Rounds: 4, Clock: func() time.Time { return now }})
	c.id("users", "user", `"name":"u","password":"p"`)
	old := c.token("u", "p", "")
	now = now.Add(time.Hour)
	admin := c.token("admin", "secret", `{"project":{"name":"admin","domain":{"id":"default"}}}`)
	for _, x := range []struct {
		token, path string
		status      int
	}{
		{old, "/v3/auth/projects", http.StatusUnauthorized}, {old, "/v3/auth/tokens?allow_expired=1", http.StatusUnauthorized},
		{admin, "/v3/auth/tokens", http.StatusNotFound}, {admin, "/v3/auth/tokens?allow_expired=0", http.StatusNotFound}, {admin, "/v3/auth/tokens?allow_expired=1", http.StatusOK},
	} {
		if a := c.do("GET", x.path, x.token, "", "X-Subject-Token", old); a.status != x.status {
			t.Errorf("GET %s: %d %s, want %d", x.path, a.status, a.text, x.status)
		}
	}
	body := fmt.Sprintf(`{"auth":{"identity":{"methods":["token"],"token":{"id":%q}}}}`, old)
	if a := c.do("POST", "/v3/auth/tokens", "", body); a.status != http.StatusNotFound {
		t.Errorf("a token made from an expired one: %d %s", a.status, a.text)
	}
}
