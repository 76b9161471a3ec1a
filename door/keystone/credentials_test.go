package keystone_test

import (
	"crypto/hmac"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
)

// member makes a user with the role member on a new project. It returns the ids
// of both and a token.
func (c *cloud) member(name string) (user, project, token string) {
	c.t.Helper()
	user = c.id("users", "user", `"name":"`+name+`","password":"x"`)
	project = c.id("projects", "project", `"name":"`+name+`"`)
	c.ok(204, "PUT", "/v3/projects/"+project+"/users/"+user+"/roles/"+c.roles["member"], "", "")
	return user, project, c.token(name, "x", `{"project":{"id":"`+project+`"}}`)
}

func TestCredentials(t *testing.T) {
	c := newCloud(t)
	user, project, own := c.member("u")
	_, _, other := c.member("v")
	body := func(kind, blob string) string {
		return fmt.Sprintf(`{"credential":{"type":%q,"blob":%q,"user_id":%q,"project_id":%q,"note":"n"}}`, kind, blob, user, project)
	}
	a := c.do("POST", "/v3/credentials", own, body("cert", "a certificate"))
	cred, _ := a.body["credential"].(map[string]any)
	if a.status != 201 || cred["blob"] != "a certificate" || cred["note"] != "n" || cred["user_id"] != user || cred["project_id"] != project {
		t.Fatal(a.status, a.text)
	}
	path := "/v3/credentials/" + cred["id"].(string)
	if self := cred["links"].(map[string]any)["self"]; self != "http://keystone"+path {
		t.Error(self)
	}
	a = c.do("POST", "/v3/credentials", own, body("ec2", `{"access":"AK","secret":"SK"}`))
	if h := sha256.Sum256([]byte("AK")); a.status != 201 || a.body["credential"].(map[string]any)["id"] != fmt.Sprintf("%x", h) {
		t.Error(a.status, a.text)
	}
	for name, x := range map[string]struct {
		method, path, token, body string
		status                    int
	}{
		"another user gets":             {"GET", path, other, "", 403},
		"another user changes":          {"PATCH", path, other, `{"credential":{"blob":"x"}}`, 403},
		"another user deletes":          {"DELETE", path, other, "", 403},
		"another user creates":          {"POST", "/v3/credentials", other, body("cert", "x"), 403},
		"another user asks for none":    {"GET", "/v3/credentials/nope", other, "", 403},
		"an administrator gets":         {"GET", path, c.admin, "", 200},
		"an administrator gets none":    {"GET", "/v3/credentials/nope", c.admin, "", 404},
		"the same access key":           {"POST", "/v3/credentials", own, body("ec2", `{"access":"AK"}`), 409},
		"no access key":                 {"POST", "/v3/credentials", own, body("ec2", `{"secret":"x"}`), 400},
		"no object":                     {"POST", "/v3/credentials", own, body("ec2", `"x"`), 400},
		"a trust in the content":        {"POST", "/v3/credentials", own, body("ec2", `{"access":"x","secret":"y","trust_id":"t"}`), 400},
		"an access token":               {"POST", "/v3/credentials", own, body("EC2", `{"access":"x","secret":"y","access_token_id":"t"}`), 400},
		"an application credential":     {"POST", "/v3/credentials", own, body("ec2", `{"access":"x","secret":"y","app_cred_id":"t"}`), 400},
		"an unknown user":               {"POST", "/v3/credentials", c.admin, `{"credential":{"type":"cert","blob":"x","user_id":"nope"}}`, 404},
		"no blob":                       {"POST", "/v3/credentials", own, `{"credential":{"type":"cert","user_id":"x"}}`, 400},
		"EC2 without a project":         {"POST", "/v3/credentials", own, `{"credential":{"type":"ec2","blob":"{\"access\":\"z\"}","user_id":"` + user + `"}}`, 400},
		"a change of the owner":         {"PATCH", path, own, `{"credential":{"blob":"x","user_id":"y"}}`, 400},
		"a change of the type":          {"PATCH", path, own, `{"credential":{"type":"totp"}}`, 400},
		"a change of nothing":           {"PATCH", path, own, `{"credential":{}}`, 400},
		"attributes of a policy target": {"POST", "/v3/credentials", other, strings.TrimSuffix(body("cert", "x"), "}") + `,"target":{"credential":{"user_id":"x"}}}`, 400},
	} {
		if a := c.do(x.method, x.path, x.token, x.body); a.status != x.status {
			t.Errorf("%s: %d %s, want %d", name, a.status, a.text, x.status)
		}
	}
	for query, want := range map[string]int{"": 2, "?type=ec2": 1, "?type=totp": 0, "?user_id=" + user: 2, "?user_id=x": 0, "?limit=1": 1} {
		a := c.do("GET", "/v3/credentials"+query, own, "")
		if found, _ := a.body["credentials"].([]any); a.status != 200 || len(found) != want || want > 0 && !strings.Contains(a.text, `"blob":"`) {
			t.Errorf("%s: %d %s, want %d", query, a.status, a.text, want)
		}
	}
	if a := c.do("GET", "/v3/credentials", other, ""); a.status != 200 || len(a.body["credentials"].([]any)) != 0 {
		t.Error("another user lists:", a.status, a.text)
	}
	if a := c.do("PATCH", path, own, `{"credential":{"blob":"renewed"}}`); a.status != 200 || !strings.Contains(a.text, `"blob":"renewed"`) || strings.Contains(a.text, "a certificate") {
		t.Error(a.status, a.text)
	}
	c.ok(204, "DELETE", path, "", "")
	if a := c.do("GET", path, own, ""); a.status != 403 { // the owner of a credential that does not exist is not known
		t.Error(a.status, a.text)
	}
}

// ec2Request returns the body of a request to /v3/ec2tokens, signed with version
// 2 at a time.
func ec2Request(access, secret string, at time.Time) string {
	stamp := at.UTC().Format("2006-01-02T15:04:05Z")
	mac := hmac.New(sha256.New, []byte(secret))
	fmt.Fprintf(mac, "GET\nec2.example.com\n/\nAction=List&SignatureMethod=HmacSHA256&SignatureVersion=2&Timestamp=%s", strings.ReplaceAll(stamp, ":", "%3A"))
	return fmt.Sprintf(`{"credentials":{"access":%q,"signature":%q,"host":"ec2.example.com:8773","verb":"GET","path":"/","headers":{},`+
		`"params":{"Action":"List","SignatureMethod":"HmacSHA256","SignatureVersion":2,"Timestamp":%q}}}`, access, base64.StdEncoding.EncodeToString(mac.Sum(nil)), stamp)
}

// s3Request returns the body of a request to /v3/s3tokens, signed with HMAC-SHA1.
func s3Request(access, secret string) string {
	const text = "GET\n\n\n\n/bucket"
	mac := hmac.New(sha1.New, []byte(secret))
	mac.Write([]byte(text))
	return fmt.Sprintf(`{"credentials":{"access":%q,"signature":%q,"token":%q}}`, access,
		base64.StdEncoding.EncodeToString(mac.Sum(nil)), base64.URLEncoding.EncodeToString([]byte(text)))
}

// ec2Credential makes an EC2 credential and returns its path and its keys.
func (c *cloud) ec2Credential(user, project, token string) (path, access, secret string) {
	c.t.Helper()
	path = "/v3/users/" + user + "/credentials/OS-EC2"
	a := c.do("POST", path, token, `{"tenant_id":"`+project+`"}`)
	cred, _ := a.body["credential"].(map[string]any)
	if a.status != 201 || cred["tenant_id"] != project || cred["user_id"] != user || cred["trust_id"] != nil {
		c.t.Fatal(a.status, a.text)
	}
	access, secret = cred["access"].(string), cred["secret"].(string)
	return path + "/" + access, access, secret
}

func TestEC2Credentials(t *testing.T) {
	c := newCloud(t)
	user, project, own := c.member("u")
	otherUser, _, other := c.member("v")
	path, access, secret := c.ec2Credential(user, project, own)
	if a := c.do("GET", path, own, ""); a.status != 200 || a.body["credential"].(map[string]any)["secret"] != secret {
		t.Error(a.status, a.text)
	}
	all := "/v3/users/" + user + "/credentials/OS-EC2"
	if a := c.do("GET", all, own, ""); a.status != 200 || len(a.body["credentials"].([]any)) != 1 || !strings.Contains(a.text, access) {
		t.Error(a.status, a.text)
	}
	for name, x := range map[string]struct {
		method, path, token, body string
		status                    int
	}{
		"another user gets":               {"GET", path, other, "", 403},
		"another user deletes":            {"DELETE", path, other, "", 403},
		"another user lists":              {"GET", all, other, "", 403},
		"another user creates":            {"POST", all, other, `{"tenant_id":"` + project + `"}`, 403},
		"below another user's path":       {"GET", "/v3/users/" + otherUser + "/credentials/OS-EC2/" + access, other, "", 403},
		"unknown project":                 {"POST", all, own, `{"tenant_id":"nope"}`, 404},
		"a domain":                        {"POST", all, own, `{"tenant_id":"default"}`, 404},
		"no project":                      {"POST", all, own, `{}`, 400},
		"another member":                  {"POST", all, own, `{"tenant_id":"` + project + `","user_id":"x"}`, 400},
		"unknown user":                    {"GET", "/v3/users/nope/credentials/OS-EC2", c.admin, "", 404},
		"unknown access key":              {"GET", all + "/nope", own, "", 404},
		"a token without a scope creates": {"POST", all, c.token("u", "x", `"unscoped"`), `{"tenant_id":"` + project + `"}`, 403},
	} {
		if a := c.do(x.method, x.path, x.token, x.body); a.status != x.status {
			t.Errorf("%s: %d %s, want %d", name, a.status, a.text, x.status)
		}
	}
	if a := c.do("DELETE", path, own, ""); a.status != 204 {
		t.Error(a.status, a.text)
	}
	if a := c.do("GET", path, own, ""); a.status != 404 {
		t.Error(a.status, a.text)
	}
	if a := c.do("POST", "/v3/ec2tokens", c.admin, ec2Request(access, secret, time.Now())); a.status != 404 || !strings.Contains(a.text, "EC2 access key not found.") {
		t.Error("a deleted credential:", a.status, a.text)
	}
}

func TestEC2Tokens(t *testing.T) {
	c := newCloud(t)
	user, project, own := c.member("u")
	_, access, secret := c.ec2Credential(user, project, own)
	now := time.Now()
	for name, x := range map[string]struct {
		path, token, body string
		status            int
	}{
		"EC2":                  {"ec2tokens", c.admin, ec2Request(access, secret, now), 200},
		"S3":                   {"s3tokens", c.admin, s3Request(access, secret), 200},
		"other name":           {"s3tokens", c.admin, strings.Replace(s3Request(access, secret), "credentials", "ec2Credentials", 1), 200},
		"without a token":      {"ec2tokens", "", ec2Request(access, secret, now), 401},
		"the user's own token": {"ec2tokens", own, ec2Request(access, secret, now), 403},
		"another secret":       {"ec2tokens", c.admin, ec2Request(access, "x", now), 401},
		"S3, another secret":   {"s3tokens", c.admin, s3Request(access, "x"), 401},
		"unknown key":          {"ec2tokens", c.admin, ec2Request("x", secret, now), 404},
		"replayed":             {"ec2tokens", c.admin, ec2Request(access, secret, now.Add(-16*time.Minute)), 401},
		"from the future":      {"ec2tokens", c.admin, ec2Request(access, secret, now.Add(16*time.Minute)), 401},
		"S3, replayed": {"s3tokens", c.admin, strings.Replace(s3Request(access, secret), `"token"`,
			`"headers":{"X-Amz-Date":"20200101T000000Z"},"token"`, 1), 401},
		"no access key":      {"ec2tokens", c.admin, `{"credentials":{"signature":"x"}}`, 401},
		"no signature":       {"ec2tokens", c.admin, `{"credentials":{"access":"` + access + `"}}`, 401},
		"no request":         {"ec2tokens", c.admin, `{"x":1}`, 401},
		"empty":              {"ec2tokens", c.admin, `{}`, 400},
		"a list":             {"ec2tokens", c.admin, `{"credentials":[]}`, 400},
		"a list as a value":  {"ec2tokens", c.admin, `{"credentials":{"access":"` + access + `","signature":"x","params":{"a":[1]}}}`, 400},
		"two values":         {"ec2tokens", c.admin, `{"credentials":{"access":"` + access + `","access":"x","signature":"x"}}`, 400},
		"a parameter twice":  {"ec2tokens", c.admin, `{"credentials":{"access":"` + access + `","signature":"x","params":{"a":"1","a":"2"}}}`, 400},
		"an unknown version": {"ec2tokens", c.admin, strings.Replace(ec2Request(access, secret, now), `"SignatureVersion":2`, `"SignatureVersion":3`, 1), 401},
	} {
		a := c.do("POST", "/v3/"+x.path, x.token, x.body)
		if a.status != x.status {
			t.Errorf("%s: %d %s, want %d", name, a.status, a.text, x.status)
			continue
		}
		if strings.Contains(a.text, secret) {
			t.Errorf("%s: the response contains the secret: %s", name, a.text)
		}
		if a.status == 200 && (!strings.Contains(a.text, `"methods":["ec2credential"]`) || !strings.Contains(a.text, project) || (a.header.Get("X-Subject-Token") != "") != (x.path == "ec2tokens")) {
			t.Errorf("%s: %v %s", name, a.header, a.text)
		}
	}
}

// TestEC2TokensAuthorizeNothing calls every route that needs a token with one that an EC2
// credential made, of a user who is an administrator. All answer 403. The token is valid for
// services that ask.
func TestEC2TokensAuthorizeNothing(t *testing.T) {
	c := newCloud(t)
	user, project, own := c.member("u")
	_, access, secret := c.ec2Credential(user, project, own)
	c.ok(204, "PUT", "/v3/projects/"+project+"/users/"+user+"/roles/"+c.roles["admin"], "", "")
	token := c.do("POST", "/v3/ec2tokens", c.admin, ec2Request(access, secret, time.Now())).header.Get("X-Subject-Token")
	refused := 0
	for _, r := range c.door.Routes {
		var path []string
		for _, part := range strings.Split(r.Pattern, "/") {
			if strings.HasPrefix(part, "{") {
				part = user
			}
			path = append(path, part)
		}
		at := strings.Join(path, "/")
		proof := strings.Contains(at, "/OS-") && (strings.HasSuffix(at, "token") || strings.HasSuffix(at, "/auth")) // a signature, a secret or a provider's token
		if proof || c.do(r.Method, at, "", "").status != 401 {
			continue
		}
		if a := c.do(r.Method, at, token, "{}", "X-Subject-Token", token); a.status != 403 || !strings.Contains(a.text, "EC2 credential tokens") {
			t.Errorf("%s %s: %d %s", r.Method, at, a.status, a.text)
		}
		refused++
	}
	if refused < 300 {
		t.Errorf("%d routes", refused)
	}
	if a := c.do("GET", "/v3/auth/tokens", c.admin, "", "X-Subject-Token", token); a.status != 200 {
		t.Error("validation for a service:", a.status, a.text)
	}
	if a := c.do("POST", "/v3/auth/tokens", "", `{"auth":{"identity":{"methods":["token"],"token":{"id":"`+token+`"}}}}`); a.status != 403 {
		t.Error("another scope:", a.status, a.text)
	}
}

// TestEC2TokensOnlyShrink issues tokens with an EC2 credential: they have the roles that
// its owner has left.
func TestEC2TokensOnlyShrink(t *testing.T) {
	c := newCloud(t)
	user, project, own := c.member("u")
	_, access, secret := c.ec2Credential(user, project, own)
	c.ok(204, "PUT", "/v3/projects/"+project+"/users/"+user+"/roles/"+c.roles["admin"], "", "")
	issue := func() answer { return c.do("POST", "/v3/ec2tokens", c.admin, ec2Request(access, secret, time.Now())) }
	roles := func(a answer) (names []string) {
		for _, r := range a.body["token"].(map[string]any)["roles"].([]any) {
			names = append(names, r.(map[string]any)["name"].(string))
		}
		return names
	}
	if got := roles(issue()); len(got) != 4 {
		t.Error("roles of an administrator:", got)
	}
	c.ok(204, "DELETE", "/v3/projects/"+project+"/users/"+user+"/roles/"+c.roles["admin"], "", "")
	if got := fmt.Sprint(roles(issue())); strings.Contains(got, "admin") || !strings.Contains(got, "member") {
		t.Error("roles after the grant was removed:", got)
	}
	for name, change := range map[string][2]string{
		"user": {"/v3/users/" + user, `{"user":{"enabled":false}}`}, "project": {"/v3/projects/" + project, `{"project":{"enabled":false}}`},
	} {
		c.ok(200, "PATCH", change[0], change[1], "")
		if a := issue(); a.status != 401 {
			t.Errorf("%s is disabled: %d %s", name, a.status, a.text)
		}
		c.ok(200, "PATCH", change[0], strings.Replace(change[1], "false", "true", 1), "")
	}
	c.ok(204, "DELETE", "/v3/projects/"+project+"/users/"+user+"/roles/"+c.roles["member"], "", "")
	if a := issue(); a.status != 401 {
		t.Errorf("no role is left: %d %s", a.status, a.text)
	}
	c.ok(204, "DELETE", "/v3/projects/"+project, "", "")
	if a := issue(); a.status != 404 {
		t.Errorf("the project was deleted with its credentials: %d %s", a.status, a.text)
	}
}

// TestStoredEC2 uses contents that a user wrote: one without a secret, with which
// everyone could sign, and one whose type is not exactly ec2.
func TestStoredEC2(t *testing.T) {
	c := newCloud(t)
	user, project, own := c.member("u")
	for kind, blob := range map[string]string{"ec2": `{"access":"A1"}`, "EC2": `{"access":"A2","secret":""}`, "cert": `{"access":"A3","secret":"s"}`} {
		text, _ := json.Marshal(map[string]any{"credential": map[string]string{"type": kind, "blob": blob, "user_id": user, "project_id": project}})
		if a := c.do("POST", "/v3/credentials", own, string(text)); a.status != 201 {
			t.Fatal(a.status, a.text)
		}
	}
	for access, want := range map[string]int{"A1": 401, "A2": 404, "A3": 404} {
		if a := c.do("POST", "/v3/ec2tokens", c.admin, ec2Request(access, "", time.Now())); a.status != want {
			t.Errorf("%s: %d %s, want %d", access, a.status, a.text, want)
		}
	}
}
