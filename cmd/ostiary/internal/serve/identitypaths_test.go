package serve

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/door/keystone"
	"github.com/ostiary/ostiary/server"
)

// identityPort is a port that serves the Identity API: the common one, or its own.
type identityPort struct {
	*everyDoor
	handler http.Handler
}

// send sends a request with a path as the client wrote it, and returns the status, the
// header and the body.
func (p identityPort) send(method, path, token, body string, headers ...string) (int, http.Header, string) {
	r := httptest.NewRequest(method, "/", strings.NewReader(body))
	r.RequestURI = path
	r.URL.Path, r.URL.RawQuery, _ = strings.Cut(path, "?")
	r.Host = "localhost"
	r.Header.Set("Content-Type", "application/json")
	if token != "" {
		r.Header.Set("X-Auth-Token", token)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	p.handler.ServeHTTP(w, r)
	got, err := io.ReadAll(w.Result().Body)
	if err != nil {
		p.t.Fatal(err)
	}
	return w.Code, w.Result().Header, string(got)
}

// identityPorts returns both kinds of ports, over one deployment.
func identityPorts(t *testing.T) map[string]identityPort {
	t.Helper()
	x := openEveryDoor(t)
	x.bootstrap()
	var own *door.Door
	for _, d := range x.doors {
		if d.Name == keystone.Name {
			own = d
		}
	}
	ports := map[string]identityPort{}
	for name, o := range map[string]server.Options{"common": {HTTP: "127.0.0.1:0", Doors: x.doors},
		"own": {Dedicated: []server.DedicatedDoor{{Door: own, HTTP: "127.0.0.1:0"}}}} {
		s, err := server.New(o)
		if err != nil {
			t.Fatal(err)
		}
		ports[name] = identityPort{x, s.Handler()}
	}
	return ports
}

// TestIdentityPaths checks the paths that clients of OpenStack build from a URL with a
// slash at its end, and those of load balancers, as a Keystone 30 answers them; it
// answers "//v3" without a redirect, and its text of a healthy service is empty.
func TestIdentityPaths(t *testing.T) {
	t.Parallel()
	const login = `{"auth":{"identity":{"methods":["password"],"password":{"user":{"name":"admin","domain":{"id":"default"},"password":"secret"}}}}}`
	const asJSON = "application/json"
	for port, p := range identityPorts(t) {
		for _, c := range []struct {
			method, path, accept string
			status               int
			location, body       string // the body contains it
		}{
			{"POST", "/v3/auth/tokens/", "", 201, "", `"methods":["password"]`},
			{"POST", "/v3//auth/tokens", "", 308, "http://localhost/v3/auth/tokens", ""},
			{"POST", "//v3/auth/tokens", "", 308, "http://localhost/v3/auth/tokens", ""},
			{"POST", "//v3///auth//tokens//", "", 308, "http://localhost/v3/auth/tokens", ""},
			{"POST", "/identity//v3//auth/tokens", "", 308, "http://localhost/identity/v3/auth/tokens", ""},
			{"GET", "/v3//users?name=a%20b&x", "", 308, "http://localhost/v3/users?name=a%20b&x", ""},
			{"GET", "//v3", "", 308, "http://localhost/v3", ""},
			{"GET", "/v3/", "", 200, "", `"version":{"id":"v3.14"`},
			{"GET", "/v3//nothing", "", 400, "", `"error":{"code":400`},
			{"GET", "/v3//../healthcheck", "", 400, "", `"error":{"code":400`},
			{"GET", "//evil.example/v3/users", "", map[string]int{"common": 400, "own": 400}[port], "", ""},
			{"GET", "/", asJSON, 300, "http://localhost/v3/", `"versions":{"values":[{"id":"v3.14"`},
			{"GET", "/healthcheck", "", 200, "", "OK"},
			{"GET", "/healthcheck/", "*/*", 200, "", "OK"},
			{"GET", "/healthcheck", asJSON, 200, "", `{"detailed":false,"reasons":["OK"]}`},
			{"HEAD", "/healthcheck", "", 204, "", ""},
			{"GET", "/v3/users/", "", 401, "", `"code":401`},
			{"DELETE", "/v3/users/none/", "", 401, "", `"code":401`},
		} {
			status, h, body := p.send(c.method, c.path, "", login, "Accept", c.accept)
			if status != c.status || h.Get("Location") != c.location || !strings.Contains(body, c.body) {
				t.Errorf("%s port: %s %s: %d %s %s; expected %d %s", port, c.method, c.path, status, h.Get("Location"), body, c.status, c.location)
			}
		}
	}
	common := identityPorts(t)["common"]
	if status, _, body := common.send("GET", "/", "", "", "Accept", "*/*"); status != 200 || !strings.Contains(body, `{"door":"keystone","prefixes":["/v3"`) {
		t.Errorf("GET / of a client that does not ask for JSON: %d %s; expected the list of doors", status, body)
	}
}

// TestAccessRulesAndPaths checks that no spelling of a path leads an application
// credential around its access rules: a path is compared as it chose the route.
func TestAccessRulesAndPaths(t *testing.T) {
	t.Parallel()
	for port, p := range identityPorts(t) {
		login := func(auth string) string {
			_, h, body := p.send("POST", "/v3/auth/tokens", "", `{"auth":`+auth+`}`)
			if h.Get("X-Subject-Token") == "" {
				t.Fatal(body)
			}
			return h.Get("X-Subject-Token")
		}
		p.identity = login(`{"identity":{"methods":["password"],"password":{"user":{"name":"admin","domain":{"id":"default"},"password":"secret"}}},"scope":{"project":{"name":"admin","domain":{"id":"default"}}}}`)
		made := p.call(keystone.Name, "POST", "/v3/users/"+p.user+"/application_credentials", m{"application_credential": m{"name": port, "secret": "s",
			"access_rules": []m{{"service": "identity", "method": "GET", "path": "/v3/auth/projects"}}}})
		id := made["application_credential"].(m)["id"].(string)
		token := login(`{"identity":{"methods":["application_credential"],"application_credential":{"id":"` + id + `","secret":"s"}}}`)
		for path, want := range map[string]int{
			"/v3/auth/projects":                      200,
			"/v3/auth/projects/":                     200,
			"/v3/auth/projects?a=//":                 200,
			"/v3/users":                              401,
			"/v3/users/":                             401,
			"/identity/v3/users":                     401,
			"/v3//users":                             308,
			"//v3/users":                             308,
			"/v3/users//":                            308,
			"/v3/auth//projects":                     308,
			"/v3/auth/projects//":                    308,
			"/v3/auth/projects/../../users":          400,
			"/v3/auth/projects/..//../users":         400,
			"/v3/auth/projects//../../users":         400,
			"/v3/auth/projects%2f..%2f..%2fusers":    400,
			"/v3/auth/projects%2F%2F/users":          400,
			"/v3//auth/projects/%2e%2e/%2E%2E/users": 400,
		} {
			status, h, body := p.send("GET", path, token, "")
			if status != want {
				t.Errorf("%s port: %s: %d %s; expected %d", port, path, status, body, want)
			}
			if strings.Contains(body, `"users"`) {
				t.Errorf("%s port: %s shows users: %s", port, path, body)
			}
			if to, ok := strings.CutPrefix(h.Get("Location"), "http://localhost"); ok {
				if status, _, _ := p.send("GET", to, token, ""); status != map[bool]int{true: 200, false: 401}[to == "/v3/auth/projects"] {
					t.Errorf("%s port: %s leads to %s, which is %d", port, path, to, status)
				}
			}
		}
	}
}
