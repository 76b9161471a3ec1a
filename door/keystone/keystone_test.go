package keystone_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/door/keystone"
	"github.com/ostiary/ostiary/internal/identity"
	"github.com/ostiary/ostiary/internal/identity/settings"
	"github.com/ostiary/ostiary/storage"
	"github.com/ostiary/ostiary/storage/memory"
)

// cloud is a bootstrapped deployment behind the door.
type cloud struct {
	t      testing.TB
	engine *ostiary.Engine
	door   *door.Door
	router *door.Router
	// interrupted interrupts the requests; nil does not.
	interrupted *interrupted
	admin       string // token of the administrator, with the scope of the project admin
	roles       map[string]string
}

// answer is a response.
type answer struct {
	status int
	header http.Header
	body   map[string]any
	text   string
}

func newCloud(t testing.TB) *cloud {
	t.Helper()
	return newCloudWith(t, settings.Deployment{Rounds: 4})
}

// newCloudWith is like newCloud. change changes the settings of the door.
func newCloudWith(t testing.TB, o settings.Deployment, change ...func(*keystone.Options)) *cloud {
	t.Helper()
	return newCloudOn(t, memory.New(), o, change...)
}

// newCloudOn is like newCloudWith, over a driver. The requests of a test in
// TestInterrupted are interrupted.
func newCloudOn(t testing.TB, driver storage.Driver, o settings.Deployment, change ...func(*keystone.Options)) *cloud {
	t.Helper()
	settings := keystone.Options{Identity: o, URL: "http://keystone"}
	for _, f := range change {
		f(&settings)
	}
	t.Cleanup(func() { driver.Close() })
	breaks := newInterrupted(t, driver)
	if breaks != nil {
		driver = breaks.driver
		settings.Report = func(error) { breaks.logged.Add(1) }
	}
	e, err := ostiary.Open(t.Context(), ostiary.Options{Driver: driver, SecretKey: &[32]byte{1}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	d, err := keystone.New(e, settings)
	if err != nil {
		t.Fatal(err)
	}
	c := &cloud{t: t, engine: e, door: d, roles: map[string]string{}}
	if c.router, err = door.NewRouter(d.Routes); err != nil {
		t.Fatal(err)
	}
	if a := c.do("GET", "/v3", "", ""); a.status != http.StatusServiceUnavailable || !strings.Contains(a.text, "ostiary keystone bootstrap") {
		t.Fatalf("without a deployment: %d %s", a.status, a.text)
	}
	store, err := e.CreateStore(t.Context(), ostiary.CreateStoreRequest{Name: "k", Aliases: map[string]string{keystone.Name: keystone.DefaultStore}})
	if err != nil {
		t.Fatal(err)
	}
	s, err := identity.Open(t.Context(), store, o)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Bootstrap(t.Context(), identity.BootstrapOptions{Password: "secret", Region: "RegionOne", PublicURL: "http://keystone/v3"}); err != nil {
		t.Fatal(err)
	}
	c.admin = c.token("admin", "secret", `{"project":{"name":"admin","domain":{"id":"default"}}}`)
	for _, r := range c.do("GET", "/v3/roles", c.admin, "").body["roles"].([]any) {
		r := r.(map[string]any)
		c.roles[r["name"].(string)] = r["id"].(string)
	}
	c.interrupted = breaks
	return c
}

// do sends a request to the door, and before that with all interruptions, if the cloud
// has some.
func (c *cloud) do(method, path, token, body string, headers ...string) answer {
	c.t.Helper()
	if c.interrupted == nil {
		return c.send(method, path, token, body, headers...)
	}
	return c.interrupted.do(method+" "+path+" "+body, func() answer { return c.send(method, path, token, body, headers...) })
}

// send sends a request to the door.
func (c *cloud) send(method, path, token, body string, headers ...string) answer {
	c.t.Helper()
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	if c.interrupted != nil {
		r = r.WithContext(c.interrupted)
	}
	if token != "" {
		r.Header.Set("X-Auth-Token", token)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	var p door.Params
	at := r.URL.EscapedPath()
	if c.door.TrailingSlash && len(at) > 1 {
		at = strings.TrimSuffix(at, "/")
	}
	if route, methods := c.router.Find(method, at, &p); route != nil {
		route.Serve(w, r, p)
	} else {
		c.door.Missing(w, r, methods)
	}
	a := answer{status: w.Code, header: w.Result().Header, text: w.Body.String()}
	_ = json.Unmarshal(w.Body.Bytes(), &a.body)
	return a
}

// ok sends a request that must have a status, and returns the member of the body
// with the name.
func (c *cloud) ok(status int, method, path, body, member string) map[string]any {
	c.t.Helper()
	a := c.do(method, path, c.admin, body)
	if a.status != status {
		c.t.Fatalf("%s %s: %d %s, want %d", method, path, a.status, a.text, status)
	}
	m, _ := a.body[member].(map[string]any)
	return m
}

// id creates a record and returns its id.
func (c *cloud) id(plural, singular, members string) string {
	c.t.Helper()
	return c.ok(201, "POST", "/v3/"+plural, `{"`+singular+`":{`+members+`}}`, singular)["id"].(string)
}

// login returns the response of a login by name in the default domain.
func (c *cloud) login(user, password, scope string) answer {
	if scope != "" {
		scope = `,"scope":` + scope
	}
	return c.do("POST", "/v3/auth/tokens", "", fmt.Sprintf(
		`{"auth":{"identity":{"methods":["password"],"password":{"user":{"name":%q,"domain":{"id":"default"},"password":%q}}}%s}}`, user, password, scope))
}

func (c *cloud) token(user, password, scope string) string {
	c.t.Helper()
	a := c.login(user, password, scope)
	if a.status != 201 {
		c.t.Fatalf("login of %s with scope %s: %d %s", user, scope, a.status, a.text)
	}
	return a.header.Get("X-Subject-Token")
}

// TestEveryRouteIsGuarded calls every route without a token, with a forged one,
// and with a revoked one.
func TestEveryRouteIsGuarded(t *testing.T) {
	c := newCloud(t)
	revoked := c.token("admin", "secret", "")
	if a := c.do("DELETE", "/v3/auth/tokens", c.admin, "", "X-Subject-Token", revoked); a.status != 204 {
		t.Fatal(a.status, a.text)
	}
	anonymous := map[string]bool{"Discover": true, "IssueToken": true, "ChangePassword": true, "CreateRequestToken": true, "CreateAccessToken": true, "IssueOAuth2Token": true,
		"Metadata": true, "Versions": true, "Assertion": true, "ProxyAssertion": true, "BrowserLogin": true, "BrowserLoginByPost": true, "BrowserLoginAt": true, "BrowserLoginAtByPost": true,
		"RevokedTokens": true, "SigningAuthority": true, "SigningCertificates": true}
	guarded := 0
	for _, r := range c.door.Routes {
		path := strings.NewReplacer("{", "", "}", "").Replace(r.Pattern)
		for _, token := range []string{"", "gAAAAforged", revoked, c.admin + "x"} {
			a := c.do(r.Method, path, token, "")
			if anonymous[r.Name] {
				if a.header.Get("Vary") != "X-Auth-Token" {
					t.Errorf("%s %s: no Vary header", r.Method, path)
				}
				continue
			}
			guarded++
			if a.status != 401 || a.header.Get("WWW-Authenticate") != `Keystone uri="http://keystone/v3"` || !strings.HasPrefix(a.header.Get("X-Openstack-Request-Id"), "req-") {
				t.Errorf("%s %s with token %.10q: %d %v", r.Method, path, token, a.status, a.header)
			}
		}
	}
	if guarded < 400 {
		t.Errorf("only %d calls were guarded", guarded)
	}
}

// TestAdditionalMembers sends bodies that name attributes of a policy's target.
func TestAdditionalMembers(t *testing.T) {
	c := newCloud(t)
	for _, body := range []string{
		`{"user":{"name":"x"},"target":{"user":{"domain_id":"default"}}}`, `{"target.user.domain_id":"default","user":{"name":"x"}}`,
	} {
		if a := c.do("POST", "/v3/users", c.admin, body); a.status != 400 || !strings.Contains(a.text, "Additional properties are not allowed") {
			t.Errorf("%s: %d %s", body, a.status, a.text)
		}
	}
}

func TestBadBodies(t *testing.T) {
	c := newCloud(t)
	for body, want := range map[string]string{
		"":                                 "Expecting to find valid JSON in request body.",
		"[]":                               "Expecting to find valid JSON in request body.",
		"{":                                "Expecting to find valid JSON in request body.",
		`{"user":{"name":"a","name":"b"}}`: "valid JSON in request body",
		`{"user":{"name":"a","options":{"x":{"y":1,"y":2}}}}`:  "valid JSON in request body",
		`{"user":{"name":"a","description":"` + "\xff" + `"}}`: "valid JSON in request body",
		"{}":                                    "'user' is a required property",
		`{"user":{}}`:                           "Invalid input for field/attribute user. Value: {}. 'name' is a required property",
		`{"user":{"name":""}}`:                  "Invalid input for field/attribute name. Value: . '' should be non-empty",
		`{"user":{"name":7}}`:                   "is not of type 'string'",
		`{"user":{"name":null}}`:                "is not of type 'string'",
		`{"user":{"name":"a","enabled":"yes"}}`: "is not of type 'boolean'",
		`{"user":{"name":"a","options":{"nope":1}}}`:                         "is not an option",
		`{"user":{"name":"a","domain_id":"nope"}}`:                           "Could not find domain: nope.",
		`{"user":{"name":"` + strings.Repeat("x", 256) + `"}}`:               "too long",
		`{"user":{"name":"a","password":"` + strings.Repeat("x", 73) + `"}}`: "73 bytes",
	} {
		a := c.do("POST", "/v3/users", c.admin, body)
		e, _ := a.body["error"].(map[string]any)
		if a.status < 400 || a.status > 404 || e == nil || !strings.Contains(e["message"].(string), want) || int(e["code"].(float64)) != a.status || e["title"] != http.StatusText(a.status) {
			t.Errorf("%.60s: %d %s, want %q", body, a.status, a.text, want)
		}
	}
	if a := c.do("POST", "/v3/users", c.admin, "{}", "Content-Type", "text/plain"); a.status != 400 || !strings.Contains(a.text, "application/json in Content-Type") {
		t.Error(a.status, a.text)
	}
}

func TestAuthBodies(t *testing.T) {
	c := newCloud(t)
	const user = `{"auth":{"identity":{"methods":["password"],"password":{"user":{"name":"admin","domain":{"id":"default"},"password":"secret"}}},"scope":%s}}`
	for body, want := range map[string]struct {
		status int
		text   string
	}{
		`{}`:                       {400, "Expecting to find auth in request body."},
		`{"auth":{}}`:              {400, "Expecting to find identity in auth."},
		`{"auth":{"identity":{}}}`: {401, "requires authentication"},
		`{"auth":{"identity":{"methods":["password"]}}}`:                                                     {400, "Expecting to find password in identity."},
		`{"Auth":{"identity":{"methods":["password"]}}}`:                                                     {400, "auth"},
		`{"auth":{"Identity":{"methods":["password"]}}}`:                                                     {400, "auth"},
		`{"auth":{"identity":{"methods":["password"],"password":{"User":{"id":"x","password":"x"}}}}}`:       {400, "expected an object with a user"},
		`{"auth":{"identity":{"methods":["password"],"password":{"user":{"ID":"x","password":"x"}}}}}`:       {400, "expected an object with a user"},
		`{"auth":{"identity":{"methods":["token"],"token":{"id":"garbage","ID":"x"}}}}`:                      {400, "expected an object with an id"},
		`{"auth":{"identity":{"methods":["application_credential"],"application_credential":{"Id":"x"}}}}`:   {400, "expected an object with an id or a name"},
		fmt.Sprintf(user, `{"System":{"all":true}}`):                                                         {400, "Invalid input for field/attribute scope"},
		fmt.Sprintf(user, `{"system":{"ALL":true}}`):                                                         {400, "Invalid input for field/attribute scope"},
		fmt.Sprintf(user, `{"domain":{"id":"default","id":"x"}}`):                                            {400, "valid JSON in request body"},
		`{"auth":{"identity":{"methods":["magic"],"magic":{}}}}`:                                             {401, "unsupported method"},
		`{"auth":{"identity":{"methods":["token"],"token":{"id":"garbage"}}}}`:                               {404, "Could not recognize Fernet token"},
		`{"auth":{"identity":{"methods":["password"],"password":{"user":{"name":"admin","password":"x"}}}}}`: {400, "Expecting to find domain in user."},
		`{"auth":{"identity":{"methods":["password"],"password":{"user":{"id":"nope","password":"x"}}}}}`:    {401, "requires authentication"},
		fmt.Sprintf(user, `{}`):                                                       {400, "Expecting to find system, project, domain"},
		fmt.Sprintf(user, `{"system":{"all":false}}`):                                 {400, "Expecting to find system, project, domain"},
		fmt.Sprintf(user, `{"system":{"all":true},"unscoped":{}}`):                    {400, "Expecting to find system, project, domain"},
		fmt.Sprintf(user, `{"project":{"id":"nope"}}`):                                {401, "requires authentication"},
		fmt.Sprintf(user, `{"project":{"id":"default"}}`):                             {401, "requires authentication"},
		fmt.Sprintf(user, `{"domain":{"id":"default"}}`):                              {401, "requires authentication"},
		fmt.Sprintf(user, `{"project":{"name":"admin"}}`):                             {400, "Expecting to find domain in project."},
		fmt.Sprintf(user, `{"OS-TRUST:trust":{"id":"x"}}`):                            {401, "requires authentication"},
		fmt.Sprintf(user, `{"OS-TRUST:trust":{}}`):                                    {400, "Expecting to find trust_id in trust."},
		fmt.Sprintf(user, `"unscoped"`):                                               {201, `"methods":["password"]`},
		fmt.Sprintf(user, `{"unscoped":{}}`):                                          {201, `"methods":["password"]`},
		fmt.Sprintf(user, `{"system":{"all":true}}`):                                  {201, `"system":{"all":true}`},
		fmt.Sprintf(user, `{"project":{"name":"admin","domain":{"name":"Default"}}}`): {201, `"is_domain":false`},
	} {
		if a := c.do("POST", "/v3/auth/tokens", "", body); a.status != want.status || !strings.Contains(a.text, want.text) {
			t.Errorf("%s: %d %s, want %d %q", body, a.status, a.text, want.status, want.text)
		}
	}
}

// TestRescope makes a token from a token, which does not live longer.
func TestRescope(t *testing.T) {
	c := newCloud(t)
	a := c.do("POST", "/v3/auth/tokens", "", fmt.Sprintf(`{"auth":{"identity":{"methods":["token"],"token":{"id":%q}},"scope":{"system":{"all":true}}}}`, c.admin))
	first := c.do("GET", "/v3/auth/tokens", c.admin, "", "X-Subject-Token", c.admin)
	if a.status != 201 || first.status != 200 {
		t.Fatal(a.status, a.text, first.status, first.text)
	}
	x, y := a.body["token"].(map[string]any), first.body["token"].(map[string]any)
	if x["expires_at"] != y["expires_at"] || fmt.Sprint(x["methods"]) != "[token password]" ||
		x["audit_ids"].([]any)[1] != y["audit_ids"].([]any)[0] {
		t.Errorf("%v\n%v", x, y)
	}
	for path, want := range map[string]int{"": 404, "garbage": 404, c.admin: 200} {
		head := c.do("HEAD", "/v3/auth/tokens", c.admin, "", "X-Subject-Token", path)
		if head.status != want {
			t.Errorf("HEAD with subject %.10q: %d, want %d", path, head.status, want)
		}
	}
}

func TestListsAndPages(t *testing.T) {
	c := newCloud(t)
	for i := range 7 {
		c.id("users", "user", fmt.Sprintf(`"name":"u%d","email":"u%d@example.com","enabled":%t`, i, i, i%2 == 0))
	}
	names := func(query string) (all []string) {
		for path := "/v3/users" + query; path != ""; {
			a := c.do("GET", path, c.admin, "")
			if a.status != 200 {
				t.Fatal(path, a.status, a.text)
			}
			for _, u := range a.body["users"].([]any) {
				all = append(all, u.(map[string]any)["name"].(string))
			}
			next, _ := a.body["links"].(map[string]any)["next"].(string)
			if (a.body["truncated"] == true) != (next != "") {
				t.Errorf("%s: truncated and next differ: %s", path, a.text)
			}
			path = strings.TrimPrefix(next, "http://keystone")
		}
		return all
	}
	for query, want := range map[string]int{
		"": 8, "?limit=3": 8, "?limit=8": 8, "?name=u1": 1, "?name=U1": 0, "?name__icontains=U": 7, "?name__startswith=ad": 1,
		"?enabled=false": 3, "?enabled": 5, "?domain_id=default&name__endswith=2": 1, "?domain_id=x": 0, "?nonsense=1": 8, "?name__nonsense=1": 8,
	} {
		if got := names(query); len(got) != want {
			t.Errorf("%s: %v, want %d", query, got, want)
		}
	}
	for query, want := range map[string]int{"?marker=nope": 404, "?limit=x": 400, "?limit=-1": 400, "?enabled=perhaps": 400, "?name=": 400} {
		if a := c.do("GET", "/v3/users"+query, c.admin, ""); a.status != want {
			t.Errorf("%s: %d %s, want %d", query, a.status, a.text, want)
		}
	}
}

func TestUpdate(t *testing.T) {
	c := newCloud(t)
	id := c.id("users", "user", `"name":"u","password":"old","phone":{"home":7}`)
	patch := func(body string) map[string]any {
		t.Helper()
		return c.ok(200, "PATCH", "/v3/users/"+id, `{"user":`+body+`}`, "user")
	}
	if u := patch(`{"phone":null,"options":{"lock_password":true,"ignore_password_expiry":true}}`); u["phone"] != nil || u["name"] != "u" {
		t.Error(u)
	}
	if u := patch(`{"options":{"lock_password":null},"enabled":false}`); fmt.Sprint(u["options"]) != "map[ignore_password_expiry:true]" || u["enabled"] != false {
		t.Error(u)
	}
	for body, want := range map[string]int{`{}`: 400, `{"domain_id":"x"}`: 400, `{"id":"x"}`: 400, `{"enabled":"no"}`: 400, `{"name":"admin"}`: 409} {
		if a := c.do("PATCH", "/v3/users/"+id, c.admin, `{"user":`+body+`}`); a.status != want {
			t.Errorf("%s: %d %s, want %d", body, a.status, a.text, want)
		}
	}
	if a := c.login("u", "old", ""); a.status != 401 {
		t.Error("login of a disabled user:", a.status)
	}
	patch(`{"enabled":true}`)
	body := `{"user":{"original_password":"old","password":"new"}}`
	if a := c.do("POST", "/v3/users/"+id+"/password", "", body); a.status != 204 {
		t.Error(a.status, a.text)
	}
	if a := c.do("POST", "/v3/users/"+id+"/password", "", body); a.status != 401 {
		t.Error("the old password again:", a.status, a.text)
	}
	c.token("u", "new", "")
}

func TestUnknownPaths(t *testing.T) {
	c := newCloud(t)
	for call, want := range map[string]int{
		"GET /v3/nope": 404, "GET /v2.0": 404, "PUT /v3/users": 405, "OPTIONS /v3/users": 200, "GET /": 300, "GET /v3/": 200,
		"GET /v3/users/": 200, "GET /identity/v3": 200, "GET /v3/users/nope": 404, "GET /v3/OS-TRUST/nope": 404,
	} {
		method, path, _ := strings.Cut(call, " ")
		if a := c.do(method, path, c.admin, ""); a.status != want {
			t.Errorf("%s: %d %s, want %d", call, a.status, a.text, want)
		}
	}
}

func TestTags(t *testing.T) {
	c := newCloud(t)
	id := c.id("projects", "project", `"name":"p","tags":["a","b"]`)
	tags := func() string { return fmt.Sprint(c.do("GET", "/v3/projects/"+id+"/tags", c.admin, "").body["tags"]) }
	for _, step := range []struct {
		call, body string
		status     int
		want       string
	}{
		{"PUT /c", "", 201, "[a b c]"}, {"PUT /c", "", 201, "[a b c]"}, {"GET /c", "", 204, "[a b c]"}, {"DELETE /b", "", 204, "[a c]"},
		{"DELETE /b", "", 404, "[a c]"}, {"GET /b", "", 404, "[a c]"}, {"PUT /" + strings.Repeat("x", 256), "", 400, "[a c]"}, {"PUT /x,y", "", 400, "[a c]"},
		{"PUT ", `{"tags":["x","y"]}`, 200, "[x y]"}, {"PUT ", `{"tags":["x","x"]}`, 400, "[x y]"}, {"PUT ", `{"tags":"x"}`, 400, "[x y]"},
		{"PUT ", `{"tags":["` + strings.Repeat(`t","t`, 80) + `"]}`, 400, "[x y]"}, {"DELETE ", "", 204, "[]"},
	} {
		method, path, _ := strings.Cut(step.call, " ")
		a := c.do(method, "/v3/projects/"+id+"/tags"+path, c.admin, step.body)
		if got := tags(); a.status != step.status || got != step.want {
			t.Errorf("%s %s: %d %s, tags %s; want %d, %s", step.call, step.body, a.status, a.text, got, step.status, step.want)
		}
	}
}

func TestRegionsAndEndpoints(t *testing.T) {
	c := newCloud(t)
	c.ok(201, "PUT", "/v3/regions/east", `{"region":{"description":"x"}}`, "")
	if a := c.do("PUT", "/v3/regions/east", c.admin, `{"region":{}}`); a.status != 409 {
		t.Error(a.status, a.text)
	}
	if a := c.do("PUT", "/v3/regions/west", c.admin, `{"region":{"id":"north"}}`); a.status != 400 {
		t.Error(a.status, a.text)
	}
	service := c.id("services", "service", `"type":"compute","name":"nova"`)
	for _, member := range []string{`"region":"south"`, `"region_id":"east"`} {
		e := c.ok(201, "POST", "/v3/endpoints", `{"endpoint":{"interface":"public","url":"http://x/%(project_id)s","service_id":"`+service+`",`+member+`}}`, "endpoint")
		if e["region"] != e["region_id"] || !strings.Contains(member, e["region"].(string)) {
			t.Error(e)
		}
	}
	if a := c.do("DELETE", "/v3/regions/south", c.admin, ""); a.status != 403 {
		t.Error("a region with endpoints is deleted:", a.status, a.text)
	}
	for _, bad := range []string{`"service_id":"nope"`, `"service_id":"` + service + `","region_id":"nope"`} {
		if a := c.do("POST", "/v3/endpoints", c.admin, `{"endpoint":{"interface":"public","url":"http://u",`+bad+`}}`); a.status != 400 {
			t.Error(bad, a.status, a.text)
		}
	}
	// The catalog fills in the project, and omits the endpoint without one.
	with := c.do("GET", "/v3/auth/tokens", c.admin, "", "X-Subject-Token", c.admin)
	system := c.token("admin", "secret", `{"system":{"all":true}}`)
	without := c.do("GET", "/v3/auth/tokens", c.admin, "", "X-Subject-Token", system)
	if !strings.Contains(with.text, `"url":"http://x/`) || strings.Contains(with.text, "%(project_id)s") || strings.Contains(without.text, `http://x/`) {
		t.Error(with.text, without.text)
	}
	if a := c.do("GET", "/v3/auth/tokens?nocatalog", c.admin, "", "X-Subject-Token", c.admin); strings.Contains(a.text, "catalog") {
		t.Error(a.text)
	}
}
