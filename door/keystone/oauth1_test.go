package keystone_test

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha1"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ostiary/ostiary/internal/identity/oauth1"
)

// oauth signs requests as a consumer of OAuth 1.
type oauth struct {
	*cloud
	consumer, consumerSecret string
	token, tokenSecret       string
}

// header returns the Authorization header of a POST. more are further parameters,
// as name and value.
func (o oauth) header(path string, more ...string) string {
	var nonce [8]byte
	rand.Read(nonce[:]) // never fails
	params := map[string]string{"oauth_consumer_key": o.consumer, "oauth_signature_method": "HMAC-SHA1", "oauth_version": "1.0",
		"oauth_timestamp": fmt.Sprint(time.Now().Unix()), "oauth_nonce": hex.EncodeToString(nonce[:])}
	if o.token != "" {
		params["oauth_token"] = o.token
	}
	for i := 0; i < len(more); i += 2 {
		params[more[i]] = more[i+1]
	}
	var pairs, parts []string
	for name, value := range params {
		pairs = append(pairs, name+"="+oauth1.Escape(value))
		parts = append(parts, fmt.Sprintf("%s=%q", name, oauth1.Escape(value)))
	}
	slices.Sort(pairs)
	mac := hmac.New(sha1.New, []byte(o.consumerSecret+"&"+o.tokenSecret))
	mac.Write([]byte("POST&" + oauth1.Escape("http://keystone"+path) + "&" + oauth1.Escape(strings.Join(pairs, "&"))))
	return "OAuth " + strings.Join(append(parts, `oauth_signature="`+oauth1.Escape(base64.StdEncoding.EncodeToString(mac.Sum(nil)))+`"`), ", ")
}

// post sends a signed request.
func (o oauth) post(path, body, header string, more ...string) answer {
	o.t.Helper()
	return o.do("POST", path, "", body, append([]string{"Authorization", header}, more...)...)
}

// newConsumer makes a consumer.
func (c *cloud) newConsumer() oauth {
	c.t.Helper()
	x := c.ok(201, "POST", "/v3/OS-OAUTH1/consumers", `{"consumer":{"description":"d"}}`, "consumer")
	return oauth{cloud: c, consumer: x["id"].(string), consumerSecret: x["secret"].(string)}
}

const (
	requestPath = "/v3/OS-OAUTH1/request_token"
	accessPath  = "/v3/OS-OAUTH1/access_token"
	tokensPath  = "/v3/auth/tokens"
	oauthLogin  = `{"auth":{"identity":{"methods":["oauth1"],"oauth1":{}}}}`
)

// with returns the signer with the token in a response.
func (o oauth) with(a answer) oauth {
	o.t.Helper()
	v, err := url.ParseQuery(a.text)
	if a.status != 201 || err != nil || v.Get("oauth_token") == "" || v.Get("oauth_token_secret") == "" || v.Get("oauth_expires_at") == "" {
		o.t.Fatal(a.status, a.text)
	}
	o.token, o.tokenSecret = v.Get("oauth_token"), v.Get("oauth_token_secret")
	return o
}

// requested returns the signer with a new request token for a project.
func (o oauth) requested(project string) oauth {
	o.t.Helper()
	return o.with(o.post(requestPath, "", o.header(requestPath, "oauth_callback", "oob"), "Requested-Project-Id", project))
}

// authorize authorizes the request token, and returns the response.
func (o oauth) authorize(token string, roles ...string) answer {
	o.t.Helper()
	var list []string
	for _, r := range roles {
		list = append(list, `{"id":"`+o.roles[r]+`"}`)
	}
	return o.do("PUT", "/v3/OS-OAUTH1/authorize/"+o.token, token, `{"roles":[`+strings.Join(list, ",")+`]}`)
}

// verifier returns the verifier in the response to an authorization.
func (o oauth) verifier(a answer) string {
	o.t.Helper()
	x, _ := a.body["token"].(map[string]any)
	v, _ := x["oauth_verifier"].(string)
	if a.status != 200 || len(v) != 8 {
		o.t.Fatal(a.status, a.text)
	}
	return v
}

// granted returns the signer with an access token for roles of a user who is an
// administrator of a new project. It also returns the ids of both and a token of
// the user.
func (o oauth) granted(name string, roles ...string) (access oauth, user, project, own string) {
	o.t.Helper()
	user, project, _ = o.member(name)
	o.ok(204, "PUT", "/v3/projects/"+project+"/users/"+user+"/roles/"+o.roles["admin"], "", "")
	own = o.cloud.token(name, "x", `{"project":{"id":"`+project+`"}}`)
	r := o.requested(project)
	verifier := r.verifier(r.authorize(own, roles...))
	return r.with(r.post(accessPath, "", r.header(accessPath, "oauth_verifier", verifier))), user, project, own
}

func TestConsumers(t *testing.T) {
	c := newCloud(t)
	o := c.newConsumer()
	path := "/v3/OS-OAUTH1/consumers/" + o.consumer
	x := c.ok(200, "GET", path, "", "consumer")
	if x["description"] != "d" || x["links"].(map[string]any)["self"] != "http://keystone"+path {
		t.Error(x)
	}
	a := c.do("GET", "/v3/OS-OAUTH1/consumers", c.admin, "")
	if a.status != 200 || !strings.Contains(a.text, o.consumer) || !strings.Contains(a.text, "http://keystone"+path) || strings.Contains(a.text, o.consumerSecret) {
		t.Error(a.status, a.text)
	}
	if x := c.ok(200, "PATCH", path, `{"consumer":{"description":"new","note":1}}`, "consumer"); x["description"] != "new" || x["note"] != 1.0 || x["secret"] != nil {
		t.Error(x)
	}
	for body, want := range map[string]int{`{"consumer":{"secret":"x"}}`: 400, `{"consumer":{}}`: 400, `{"consumer":{"description":1}}`: 400, `{"consumer":{"id":"x"}}`: 400} {
		if a := c.do("PATCH", path, c.admin, body); a.status != want {
			t.Errorf("%s: %d %s, want %d", body, a.status, a.text, want)
		}
	}
	if x := c.ok(201, "POST", "/v3/OS-OAUTH1/consumers", `{"consumer":{"secret":"chosen"}}`, "consumer"); x["secret"] == "chosen" || x["description"] != nil {
		t.Error("a consumer chooses its secret:", x)
	}
	c.ok(204, "DELETE", path, "", "")
	c.ok(404, "GET", path, "", "")
	if a := o.post(requestPath, "", o.header(requestPath, "oauth_callback", "oob"), "Requested-Project-Id", "x"); a.status != 404 {
		t.Error(a.status, a.text)
	}
}

// TestOAuth1 goes through the whole delegation, and uses the token.
func TestOAuth1(t *testing.T) {
	c := newCloud(t)
	o := c.newConsumer()
	access, user, project, own := o.granted("u", "member")
	header := access.header(tokensPath)
	a := access.post(tokensPath, oauthLogin, header)
	tok, _ := a.body["token"].(map[string]any)
	if a.status != 201 || fmt.Sprint(tok["methods"]) != "[oauth1]" || tok["user"].(map[string]any)["id"] != user || tok["project"].(map[string]any)["id"] != project {
		t.Fatal(a.status, a.text)
	}
	if got := fmt.Sprint(names(a)); got != "[member reader]" {
		t.Error("roles:", got)
	}
	if x := tok["OS-OAUTH1"].(map[string]any); x["access_token_id"] != access.token || x["consumer_id"] != o.consumer {
		t.Error(x)
	}
	subject := a.header.Get("X-Subject-Token")
	if a := c.do("GET", tokensPath, c.admin, "", "X-Subject-Token", subject); a.status != 200 || fmt.Sprint(names(a)) != "[member reader]" {
		t.Error(a.status, a.text)
	}
	if a := access.post(tokensPath, oauthLogin, header); a.status != 401 {
		t.Error("a replayed request:", a.status, a.text)
	}
	all := "/v3/users/" + user + "/OS-OAUTH1/access_tokens"
	one := all + "/" + access.token
	for path, want := range map[string]string{all: `"access_tokens":[{"id":"` + access.token, one: `"access_token":{"id":"` + access.token, one + "/roles": c.roles["member"], one + "/roles/" + c.roles["member"]: `"name":"member"`} {
		if a := c.do("GET", path, own, ""); a.status != 200 || !strings.Contains(a.text, want) || strings.Contains(a.text, access.tokenSecret) {
			t.Errorf("%s: %d %s", path, a.status, a.text)
		}
	}
	for path, want := range map[string]int{one + "/roles/" + c.roles["admin"]: 404, "/v3/users/nope/OS-OAUTH1/access_tokens/" + access.token: 404, all + "/nope": 404} {
		if a := c.do("GET", path, own, ""); a.status != want {
			t.Errorf("%s: %d %s, want %d", path, a.status, a.text, want)
		}
	}
	if a := c.do("DELETE", one, own, ""); a.status != 204 {
		t.Error(a.status, a.text)
	}
	if a := c.do("GET", tokensPath, c.admin, "", "X-Subject-Token", subject); a.status != 404 {
		t.Error("a token outlives its access token:", a.status, a.text)
	}
	if a := access.post(tokensPath, oauthLogin, access.header(tokensPath)); a.status != 404 {
		t.Error(a.status, a.text)
	}
}

// names returns the names of the roles of a token, sorted.
func names(a answer) (all []string) {
	tok, _ := a.body["token"].(map[string]any)
	list, _ := tok["roles"].([]any)
	for _, r := range list {
		all = append(all, r.(map[string]any)["name"].(string))
	}
	slices.Sort(all)
	return all
}

// TestOAuth1OnlyShrinks tries to get more with OAuth 1 than was delegated.
func TestOAuth1OnlyShrinks(t *testing.T) {
	c := newCloud(t)
	o := c.newConsumer()
	access, user, project, _ := o.granted("u", "manager")
	issue := func(body string) answer { return access.post(tokensPath, body, access.header(tokensPath)) }
	delegated := issue(oauthLogin).header.Get("X-Subject-Token")
	_, foreign, _ := c.member("v")

	// The scope of the login is the delegated project, whatever the request asks for.
	for _, scope := range []string{`{"project":{"id":"` + foreign + `"}}`, `{"system":{"all":true}}`} {
		a := issue(strings.TrimSuffix(oauthLogin, "}}") + `},"scope":` + scope + `}}`)
		tok, _ := a.body["token"].(map[string]any)
		if p, _ := tok["project"].(map[string]any); a.status == 201 && p["id"] != project {
			t.Errorf("scope %s: %d %s", scope, a.status, a.text)
		}
	}
	r := o.requested(project)
	for name, x := range map[string]struct{ method, path, body string }{
		"rescope":           {"POST", tokensPath, `{"auth":{"identity":{"methods":["token"],"token":{"id":"` + delegated + `"}}}}`},
		"authorize":         {"PUT", "/v3/OS-OAUTH1/authorize/" + r.token, `{"roles":[{"name":"manager"}]}`},
		"list tokens":       {"GET", "/v3/users/" + user + "/OS-OAUTH1/access_tokens", ""},
		"create credential": {"POST", "/v3/credentials", `{"credential":{"type":"cert","blob":"b","user_id":"` + user + `"}}`},
		"create EC2":        {"POST", "/v3/users/" + user + "/credentials/OS-EC2", `{"tenant_id":"` + project + `"}`},
	} {
		if a := c.do(x.method, x.path, delegated, x.body); a.status != 403 {
			t.Errorf("%s: %d %s, want 403", name, a.status, a.text)
		}
	}
	// The grant of admin goes: the authorized role manager goes with it.
	c.ok(204, "DELETE", "/v3/projects/"+project+"/users/"+user+"/roles/"+c.roles["admin"], "", "")
	if a := issue(oauthLogin); a.status != 201 || fmt.Sprint(names(a)) != "[member reader]" {
		t.Error("after a role was revoked:", a.status, names(a), a.text)
	}
	c.ok(204, "DELETE", "/v3/projects/"+project+"/users/"+user+"/roles/"+c.roles["member"], "", "")
	if a := issue(oauthLogin); a.status != 401 {
		t.Error("without a role:", a.status, a.text)
	}
	c.ok(204, "DELETE", "/v3/OS-OAUTH1/consumers/"+o.consumer, "", "")
	if a := c.do("GET", tokensPath, c.admin, "", "X-Subject-Token", delegated); a.status != 404 {
		t.Error("a token outlives its consumer:", a.status, a.text)
	}
}

// TestOAuth1Refusals sends each request of the delegation in wrong ways.
func TestOAuth1Refusals(t *testing.T) {
	c := newCloud(t)
	o, p := c.newConsumer(), c.newConsumer()
	_, project, own := c.member("u")
	admin := c.admin
	wrong := o
	wrong.consumerSecret = "x"
	for name, x := range map[string]struct {
		header, project string
		status          int
	}{
		"good":             {o.header(requestPath, "oauth_callback", "oob"), project, 201},
		"no header":        {"", project, 400},
		"no project":       {o.header(requestPath, "oauth_callback", "oob"), "", 400},
		"no callback":      {o.header(requestPath), project, 400},
		"unknown project":  {o.header(requestPath, "oauth_callback", "oob"), "nope", 404},
		"a domain":         {o.header(requestPath, "oauth_callback", "oob"), "default", 404},
		"wrong secret":     {wrong.header(requestPath, "oauth_callback", "oob"), project, 401},
		"unknown consumer": {oauth{cloud: c, consumer: "nope", consumerSecret: "x"}.header(requestPath, "oauth_callback", "oob"), project, 401},
		"signed for more":  {o.header(accessPath, "oauth_callback", "oob"), project, 401},
		"too old":          {o.header(requestPath, "oauth_callback", "oob", "oauth_timestamp", fmt.Sprint(time.Now().Add(-11*time.Minute).Unix())), project, 401},
	} {
		if a := o.post(requestPath, "", x.header, "Requested-Project-Id", x.project); a.status != x.status {
			t.Errorf("request token, %s: %d %s, want %d", name, a.status, a.text, x.status)
		}
	}
	adminProject := c.do("GET", tokensPath, admin, "", "X-Subject-Token", admin).body["token"].(map[string]any)["project"].(map[string]any)["id"].(string)
	r := o.requested(adminProject)
	if a := r.post(accessPath, "", r.header(accessPath, "oauth_verifier", "")); a.status != 400 {
		t.Error("no verifier:", a.status, a.text)
	}
	if a := r.post(accessPath, "", r.header(accessPath, "oauth_verifier", "abcdefgh")); a.status != 401 {
		t.Error("not authorized:", a.status, a.text)
	}
	for name, x := range map[string]struct {
		token, body string
		status      int
	}{
		"no administrator": {own, `{"roles":[{"name":"member"}]}`, 403},
		"role not held":    {admin, `{"roles":[{"id":"` + c.roles["service"] + `"}]}`, 401},
		"unknown role":     {admin, `{"roles":[{"id":"nope"}]}`, 404},
		"no roles":         {admin, `{"roles":[]}`, 400},
		"no list":          {admin, `{}`, 400},
		"another member":   {admin, `{"roles":[{"name":"member"}],"target":{}}`, 400},
	} {
		if a := c.do("PUT", "/v3/OS-OAUTH1/authorize/"+r.token, x.token, x.body); a.status != x.status {
			t.Errorf("authorize, %s: %d %s, want %d", name, a.status, a.text, x.status)
		}
	}
	verifier := r.verifier(c.do("PUT", "/v3/OS-OAUTH1/authorize/"+r.token, admin, `{"roles":[{"name":"member"}]}`))
	second := c.id("users", "user", `"name":"second","password":"x"`)
	c.ok(204, "PUT", "/v3/projects/"+adminProject+"/users/"+second+"/roles/"+c.roles["admin"], "", "")
	if a := r.authorize(c.token("second", "x", `{"project":{"id":"`+adminProject+`"}}`), "member"); a.status != 403 {
		t.Error("authorized by another user:", a.status, a.text)
	}
	if a := r.post(accessPath, "", r.header(accessPath, "oauth_verifier", strings.ToUpper(verifier)+"x")); a.status != 401 {
		t.Error("wrong verifier:", a.status, a.text)
	}
	stolen := p
	stolen.token, stolen.tokenSecret = r.token, r.tokenSecret
	if a := stolen.post(accessPath, "", stolen.header(accessPath, "oauth_verifier", verifier)); a.status != 401 {
		t.Error("token of another consumer:", a.status, a.text)
	}
	if a := r.post(tokensPath, oauthLogin, r.header(tokensPath)); a.status != 404 {
		t.Error("login with a request token:", a.status, a.text)
	}
	r.with(r.post(accessPath, "", r.header(accessPath, "oauth_verifier", verifier)))
	if a := r.post(accessPath, "", r.header(accessPath, "oauth_verifier", verifier)); a.status != 404 {
		t.Error("a request token makes two access tokens:", a.status, a.text)
	}
}
