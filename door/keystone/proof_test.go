package keystone_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ostiary/ostiary/internal/identity"
	"github.com/ostiary/ostiary/internal/identity/settings"
)

// TestResetMeanwhile resets a password at each reading of the clock by a login with
// the old one, and by a request that a token of its user authenticates. When the reset
// is acknowledged before the response, no token and no change results.
func TestResetMeanwhile(t *testing.T) {
	t.Parallel()
	var reads, at atomic.Int64
	var reset func()
	clock := func() time.Time {
		if n := at.Load(); n > 0 && reads.Add(1) == n {
			reset()
		}
		return time.Now()
	}
	c := newCloudWith(t, settings.Deployment{Rounds: 4, Clock: clock})
	bob := c.id("users", "user", `"name":"bob","password":"old"`)
	project := c.id("projects", "project", `"name":"p"`)
	c.ok(204, "PUT", "/v3/projects/"+project+"/users/"+bob+"/roles/"+c.roles["member"], "", "")
	set := func(secret string) {
		c.ok(200, "PATCH", "/v3/users/"+bob, fmt.Sprintf(`{"user":{"password":%q}}`, secret), "user")
	}
	other, secret := c.service(), "new" // as another process, so that a lock of the door's service does not hinder it
	reset = func() {
		if _, err := other.Update(t.Context(), identity.User, bob, &secret, false, func(*identity.Record) error { return nil }); err != nil {
			t.Error(err)
		}
	}
	// during sends a request with a reset at the n-th reading. It returns false if the
	// request reads the clock less often.
	during := func(n int64, request func() answer) (a answer, done bool) {
		t.Helper()
		set("old")
		reads.Store(0)
		at.Store(n)
		a = request()
		at.Store(0)
		return a, reads.Load() >= n
	}
	for n := int64(1); ; n++ {
		a, done := during(n, func() answer { return c.login("bob", "old", "") })
		if !done {
			if n < 5 || a.status != 201 {
				t.Errorf("%d readings, and %d %s", n-1, a.status, a.text)
			}
			break
		}
		if a.status == 201 {
			if x := c.do("GET", "/v3/auth/tokens", c.admin, "", "X-Subject-Token", a.header.Get("X-Subject-Token")); x.status != 404 {
				t.Errorf("reset at reading %d: the token is valid: %d", n, x.status)
			}
		} else if a.status != 401 {
			t.Errorf("reset at reading %d: %d %s", n, a.status, a.text)
		}
	}
	for n := int64(1); n <= 2; n++ { // validated, and compared with the application credential's end
		var token string
		set("old")
		token = c.token("bob", "old", `{"project":{"id":"`+project+`"}}`)
		reads.Store(0)
		at.Store(n)
		a := c.do("POST", "/v3/users/"+bob+"/application_credentials", token, `{"application_credential":{"name":"x","secret":"s","expires_at":"2099-01-01T00:00:00Z"}}`)
		at.Store(0)
		if a.status != 401 || reads.Load() < n {
			t.Errorf("reset at reading %d of %d: %d %s", n, reads.Load(), a.status, a.text)
		}
	}
}

// TestRevokedInItsSecond changes a user six times within one second, logs in and revokes the
// new token, whose time of issue is later than the clock. The token is not valid afterwards.
func TestRevokedInItsSecond(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	c := newCloudWith(t, settings.Deployment{Rounds: 4, Clock: func() time.Time { return now }})
	bob := c.id("users", "user", `"name":"bob","password":"old"`)
	for range 3 {
		for _, enabled := range []string{`false,"password":"new"`, `true,"password":"old"`} {
			c.ok(200, "PATCH", "/v3/users/"+bob, `{"user":{"enabled":`+enabled+`}}`, "user")
		}
	}
	token := c.token("bob", "old", `"unscoped"`)
	child := c.do("POST", "/v3/auth/tokens", "", `{"auth":{"identity":{"methods":["token"],"token":{"id":"`+token+`"}}}}`)
	validate := func(token string) answer {
		return c.do("GET", "/v3/auth/tokens", c.admin, "", "X-Subject-Token", token)
	}
	if a := validate(token); a.status != 200 || a.body["token"].(map[string]any)["issued_at"] != "2026-03-01T12:00:06.000000Z" {
		t.Fatalf("a new token: %d %s", a.status, a.text)
	}
	if a := c.do("DELETE", "/v3/auth/tokens", c.admin, "", "X-Subject-Token", token); a.status != 204 {
		t.Fatalf("%d %s", a.status, a.text)
	}
	for _, x := range []string{token, child.header.Get("X-Subject-Token")} {
		if a := validate(x); a.status != 404 {
			t.Errorf("after 204: %d %s", a.status, a.text)
		}
	}
	if a := validate(c.token("bob", "old", `"unscoped"`)); a.status != 200 {
		t.Errorf("a token of a later login: %d %s", a.status, a.text)
	}
}
