package keystone_test

import (
	"encoding/base64"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/ostiary/ostiary/internal/identity/settings"
	"github.com/ostiary/ostiary/internal/identity/token"
)

const oauth2Path = "/v3/OS-OAUTH2/token"

// form sends a form as an OAuth 2 client. basic is "id:secret", or "" for none.
func (c *cloud) form(body, basic string) answer {
	c.t.Helper()
	headers := []string{"Content-Type", "application/x-www-form-urlencoded"}
	if basic != "" {
		headers = append(headers, "Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(basic)))
	}
	return c.do("POST", oauth2Path, "", body, headers...)
}

// application makes an application credential with the role member, with further
// members.
func (c *cloud) application(user, own, members string) (id, secret string) {
	c.t.Helper()
	a := c.do("POST", "/v3/users/"+user+"/application_credentials", own, `{"application_credential":{"name":"app","roles":[{"id":"`+c.roles["member"]+`"}]`+members+`}}`)
	x, _ := a.body["application_credential"].(map[string]any)
	if a.status != 201 {
		c.t.Fatal(a.status, a.text)
	}
	return x["id"].(string), x["secret"].(string)
}

func TestOAuth2(t *testing.T) {
	c := newCloud(t)
	user, project, own := c.member("u")
	id, secret := c.application(user, own, "")
	const grant = "grant_type=client_credentials"
	inForm := grant + "&client_id=" + id + "&client_secret=" + url.QueryEscape(secret)
	for name, a := range map[string]answer{"Basic": c.form(grant, id+":"+secret), "form": c.form(inForm, "")} {
		text, _ := a.body["access_token"].(string)
		if a.status != 200 || a.body["token_type"] != "Bearer" || a.body["expires_in"].(float64) < 3590 || a.body["expires_in"].(float64) > 3600 || a.header.Get("Cache-Control") != "no-store" {
			t.Fatal(name, a.status, a.text)
		}
		v := c.do("GET", tokensPath, c.admin, "", "X-Subject-Token", text)
		tok, _ := v.body["token"].(map[string]any)
		if v.status != 200 || fmt.Sprint(names(v)) != "[member reader]" && fmt.Sprint(names(v)) != "[member]" || fmt.Sprint(tok["methods"]) != "[application_credential]" ||
			tok["project"].(map[string]any)["id"] != project || !strings.Contains(v.text, `"application_credential":{"id":"`+id) {
			t.Errorf("%s: %d %s", name, v.status, v.text)
		}
		if a := c.do("POST", tokensPath, "", `{"auth":{"identity":{"methods":["token"],"token":{"id":"`+text+`"}}}}`); a.status != 403 {
			t.Errorf("%s: rescope: %d %s", name, a.status, a.text)
		}
	}
	for name, x := range map[string]struct {
		body, basic string
		status      int
		code        string
	}{
		"wrong secret":       {grant, id + ":x", 401, "invalid_client"},
		"empty secret":       {grant, id + ":", 401, "invalid_client"},
		"unknown client":     {grant, "nope:x", 401, "invalid_client"},
		"no client":          {grant, "", 401, "invalid_client"},
		"wrong Basic":        {inForm, id + ":x", 401, "invalid_client"},
		"no grant":           {"x=1", id + ":" + secret, 400, "invalid_request"},
		"another grant":      {"grant_type=password", id + ":" + secret, 400, "unsupported_grant_type"},
		"a parameter twice":  {grant + "&" + grant, id + ":" + secret, 400, "invalid_request"},
		"malformed":          {grant + "&a=%g0", id + ":" + secret, 400, "invalid_request"},
		"a password in form": {grant + "&client_id=" + user + "&client_secret=x", "", 401, "invalid_client"},
	} {
		a := c.form(x.body, x.basic)
		if a.status != x.status || a.body["error"] != x.code || a.body["error_description"] == "" || (a.header.Get("WWW-Authenticate") != "") != (x.status == 401) || strings.Contains(a.text, secret) {
			t.Errorf("%s: %d %s, want %d %s", name, a.status, a.text, x.status, x.code)
		}
	}
	if a := c.do("POST", oauth2Path, "", `{"grant_type":"client_credentials"}`); a.status != 400 || a.body["error"] != "invalid_request" {
		t.Error("JSON:", a.status, a.text)
	}
	c.ok(200, "PATCH", "/v3/users/"+user, `{"user":{"enabled":false}}`, "")
	if a := c.form(inForm, ""); a.status != 401 || a.body["error"] != "invalid_client" {
		t.Error("a disabled user:", a.status, a.text)
	}
}

// TestOAuth2Life checks that a token does not outlive its application credential,
// and that expires_in names the real end.
func TestOAuth2Life(t *testing.T) {
	c := newTimed(t)
	user, _, own := c.member("u")
	id, secret := c.application(user, own, `,"expires_at":"`+c.clock().Add(10*time.Minute).Format("2006-01-02T15:04:05Z")+`"`)
	if a := c.form("grant_type=client_credentials", id+":"+secret); a.status != 200 || a.body["expires_in"] != 600.0 {
		t.Error(a.status, a.text)
	}
	c.later += 10 * time.Minute
	if a := c.form("grant_type=client_credentials", id+":"+secret); a.status != 401 {
		t.Error(a.status, a.text)
	}
}

// TestOAuth2Off asks for a token where application credentials are switched off.
func TestOAuth2Off(t *testing.T) {
	c := newCloudWith(t, settings.Deployment{Rounds: 4, Methods: token.Methods{"password", "token"}})
	user, _, own := c.member("u")
	id, secret := c.application(user, own, "")
	if a := c.form("grant_type=client_credentials", id+":"+secret); a.status != 401 || a.body["error"] != "invalid_client" {
		t.Error(a.status, a.text)
	}
}
