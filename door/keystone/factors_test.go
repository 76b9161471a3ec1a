package keystone_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ostiary/ostiary/internal/identity/settings"
	"github.com/ostiary/ostiary/internal/identity/token"
	"github.com/ostiary/ostiary/internal/identity/totp"
)

// timed is a deployment with the method totp and a clock that the test moves.
type timed struct {
	*cloud
	later time.Duration // since the start
}

func newTimed(t *testing.T) *timed {
	t.Helper()
	x := &timed{}
	x.cloud = newCloudWith(t, settings.Deployment{Rounds: 4, Methods: append(token.DefaultMethods(), "totp"), Clock: x.clock})
	return x
}

func (c *timed) clock() time.Time { return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC).Add(c.later) }

const seed = "GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ"

// withSeed makes a user with the password x and the seed.
func (c *cloud) withSeed(name, members string) (id string) {
	c.t.Helper()
	id = c.id("users", "user", `"name":"`+name+`","password":"x"`+members)
	c.ok(201, "POST", "/v3/credentials", `{"credential":{"type":"totp","blob":"`+seed+`","user_id":"`+id+`"}}`, "credential")
	return id
}

// factors logs in a user by id with methods. code is the one-time password.
func (c *cloud) factors(user, methods, password, code string, headers ...string) answer {
	c.t.Helper()
	return c.do("POST", "/v3/auth/tokens", "", fmt.Sprintf(`{"auth":{"identity":{"methods":[%s],"password":{"user":{"id":%q,"password":%q}},"totp":{"user":{"id":%q,"passcode":%q}}}}}`,
		methods, user, password, user, code), headers...)
}

// code returns the one-time password that is n periods from now.
func (c *timed) code(n int64) string {
	s, err := totp.ParseSeed(seed)
	if err != nil {
		c.t.Fatal(err)
	}
	return s.At(totp.Step(c.clock()) + n)
}

func TestTOTP(t *testing.T) {
	c := newTimed(t)
	user := c.withSeed("u", "")
	a := c.factors(user, `"totp"`, "", c.code(0))
	if a.status != 201 || !strings.Contains(a.text, `"methods":["totp"]`) {
		t.Fatal(a.status, a.text)
	}
	if a := c.factors(user, `"totp"`, "", c.code(0)); a.status != 401 {
		t.Error("a password is accepted twice:", a.status, a.text)
	}
	c.later += totp.Period
	if a := c.factors(user, `"totp"`, "", c.code(-2)); a.status != 401 {
		t.Error("an old password:", a.status, a.text)
	}
	// A wrong password does not use up the one-time password of the same request.
	if a := c.factors(user, `"totp","password"`, "wrong", c.code(0)); a.status != 401 {
		t.Error(a.status, a.text)
	}
	if a := c.factors(user, `"totp","password"`, "x", c.code(0)); a.status != 201 || !strings.Contains(a.text, `"methods":["totp","password"]`) {
		t.Error(a.status, a.text)
	}
	const form = `{"auth":{"identity":{"methods":["totp"],%s}}}`
	c.later += totp.Period
	for body, want := range map[string]int{
		`"x":1`: 400, `"totp":{}`: 400, `"totp":7`: 400, `"totp":{"user":{"id":"` + user + `"}}`: 400, `"totp":{"user":{"passcode":"1"}}`: 400,
		`"totp":{"user":{"id":"nope","passcode":"1"}}`: 401, `"totp":{"user":{"name":"u","passcode":"1"}}`: 400, `"totp":{"user":{"id":"` + user + `","passcode":1}}`: 400,
		`"totp":{"user":{"name":"u","domain":{"id":"default"},"passcode":"` + c.code(0) + `"}}`: 201,
	} {
		if a := c.do("POST", "/v3/auth/tokens", "", fmt.Sprintf(form, body)); a.status != want {
			t.Errorf("%s: %d %s, want %d", body, a.status, a.text, want)
		}
	}
}

// TestReceiptFlow logs in with one factor, and continues with the receipt.
func TestReceiptFlow(t *testing.T) {
	c := newTimed(t)
	user := c.withSeed("u", `,"options":{"multi_factor_auth_rules":[["password","totp"]]}`)
	other := c.withSeed("v", "")
	a := c.factors(user, `"password"`, "x", "")
	receipt := a.header.Get("Openstack-Auth-Receipt")
	want := `{"receipt":{"methods":["password"],"user":{"id":"` + user + `","name":"u","domain":{"id":"default","name":"Default"}},"expires_at":"`
	if a.status != 401 || receipt == "" || a.header.Get("X-Subject-Token") != "" || !strings.HasPrefix(a.text, want) || !strings.HasSuffix(a.text, `"required_auth_methods":[["password","totp"]]}`) {
		t.Fatal(a.status, receipt, a.text)
	}
	for name, x := range map[string]answer{
		"wrong password":              c.factors(user, `"password"`, "wrong", ""),
		"no receipt, a wrong passage": c.factors(user, `"totp"`, "", "000000"),
		"bad receipt":                 c.factors(user, `"password"`, "x", "", "Openstack-Auth-Receipt", "bad"),
		"another user's receipt":      c.factors(other, `"password"`, "x", "", "Openstack-Auth-Receipt", receipt),
		"a token as receipt":          c.factors(user, `"password"`, "x", "", "Openstack-Auth-Receipt", c.admin),
		"receipt and a wrong method":  c.factors(user, `"totp"`, "", "000001", "Openstack-Auth-Receipt", receipt),
	} {
		if x.status != 401 || x.header.Get("Openstack-Auth-Receipt") != "" || x.header.Get("X-Subject-Token") != "" {
			t.Errorf("%s: %d %v %s", name, x.status, x.header, x.text)
		}
	}
	if a := c.factors(user, `"password"`, "x", "", "Openstack-Auth-Receipt", "bad"); !strings.Contains(a.text, "Could not find auth receipt: bad.") {
		t.Error(a.text)
	}
	// The same factor again is not another one.
	if a := c.factors(user, `"password"`, "x", "", "Openstack-Auth-Receipt", receipt); a.status != 401 || a.header.Get("Openstack-Auth-Receipt") == "" {
		t.Error(a.status, a.text)
	}
	if a := c.do("GET", "/v3/users", receipt, ""); a.status != 401 {
		t.Error("a receipt is a token:", a.status)
	}
	if a := c.factors(user, `"totp"`, "", c.code(0), "Openstack-Auth-Receipt", receipt); a.status != 201 || !strings.Contains(a.text, `"methods":["totp","password"]`) {
		t.Error(a.status, a.text)
	}
	c.later += totp.Period
	if a := c.factors(user, `"password","totp"`, "x", c.code(0)); a.status != 201 {
		t.Error("both factors at once:", a.status, a.text)
	}
	receipt = c.factors(user, `"password"`, "x", "").header.Get("Openstack-Auth-Receipt")
	c.later += 5 * time.Minute
	if a := c.factors(user, `"totp"`, "", c.code(0), "Openstack-Auth-Receipt", receipt); a.status != 401 {
		t.Error("an old receipt:", a.status, a.text)
	}
}

// TestFactorsOfScopes checks that a user who lacks a factor learns nothing about
// scopes, and that a default project changes nothing.
func TestFactorsOfScopes(t *testing.T) {
	c := newTimed(t)
	_, project, _ := c.member("m")
	user := c.withSeed("u", `,"default_project_id":"`+project+`","options":{"multi_factor_auth_rules":[["password","totp"]]}`)
	if a := c.factors(user, `"password"`, "x", ""); a.status != 401 || a.header.Get("Openstack-Auth-Receipt") == "" {
		t.Error(a.status, a.text)
	}
	if a := c.login("u", "x", `{"project":{"id":"`+project+`"}}`); a.status != 401 || a.header.Get("Openstack-Auth-Receipt") == "" {
		t.Error(a.status, a.text)
	}
	if a := c.factors(user, `"password","totp"`, "x", c.code(0)); a.status != 201 || strings.Contains(a.text, `"project"`) {
		t.Error(a.status, a.text)
	}
}

// TestMethodsOff logs in with methods that are switched off.
func TestMethodsOff(t *testing.T) {
	c := newCloudWith(t, settings.Deployment{Rounds: 4, Methods: token.Methods{"password", "token"}})
	user := c.id("users", "user", `"name":"u","password":"x"`)
	for _, m := range []string{"totp", "oauth1", "application_credential", "magic"} {
		a := c.do("POST", "/v3/auth/tokens", "", fmt.Sprintf(`{"auth":{"identity":{"methods":[%q],%[1]q:{}}}}`, m))
		if a.status != 401 || !strings.Contains(a.text, `"identity":{"methods":["password","token"]}`) {
			t.Errorf("%s: %d %s", m, a.status, a.text)
		}
	}
	project := c.id("projects", "project", `"name":"p"`)
	_, access, secret := c.ec2Credential(user, project, c.admin)
	if a := c.do("POST", "/v3/ec2tokens", c.admin, ec2Request(access, secret, time.Now())); a.status != 503 {
		t.Error(a.status, a.text)
	}
}
