package serve

import (
	"fmt"
	"io"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/ostiary/ostiary/internal/workshop/golden"
	"github.com/ostiary/ostiary/server"
)

// mistakenRequests are a request with a body for each door, and one with a query.
var mistakenRequests = []struct{ door, post, get string }{
	{"openfga", "/stores/{store}/check", "/stores?page_size=2"},
	{"permify", "/v1/tenants/t1/permissions/check", ""},
	{"authzen", "/authzen/{store}/access/v1/evaluation", "/.well-known/authzen-configuration?a=b"},
	{"native", "/ostiary/v1/stores/{store}/check", "/ostiary/v1/stores?limit=2"},
	{"xacml", "/xacml/v3/pdp", "/xacml/v3/domains?limit=2"},
	{"onap-api", "/policy/api/v1/policytypes", "/policy/api/v1/policies?mode=bare"},
	{"onap-pap", "/policy/pap/v1/pdps/groups/batch", "/policy/pap/v1/policies/audit?recordCount=2"},
	{"onap-pdp", "/policy/pdpx/v1/decision", "/policy/pdpx/v1/operations?target=2"},
	{"keystone", "/v3/users", "/v3/users?name=b"},
}

// TestMistakesOfEveryDoor sends the mistakes that every protocol knows to every door, and
// compares the responses with testdata/mistakes.txt: a body that breaks off, is too
// large, or has another media type; a query that is malformed or has a parameter twice;
// an unknown path, another method, and a slash at the end of a path. A door that is
// missing fails.
func TestMistakesOfEveryDoor(t *testing.T) {
	t.Parallel()
	x := openEveryDoor(t)
	x.bootstrap()
	store := x.call("openfga", "POST", "/stores", m{"name": "mistakes"})["id"].(string)
	s, err := server.New(server.Options{HTTP: "127.0.0.1:0", Doors: x.doors, BodyBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	random := regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f-]{27}|[0-9a-f]{32}|01[0-9A-Z]{24}`)
	var out strings.Builder
	send := func(what, method, path string, body io.Reader, length int64, media string) {
		r := httptest.NewRequest(method, "/", body)
		r.RequestURI = strings.ReplaceAll(path, "{store}", store)
		r.URL.Path, r.URL.RawQuery, _ = strings.Cut(r.RequestURI, "?")
		r.Host, r.ContentLength = "localhost", length
		r.Header.Set("X-Auth-Token", x.identity)
		if media != "" {
			r.Header.Set("Content-Type", media)
		}
		w := httptest.NewRecorder()
		s.Handler().ServeHTTP(w, r)
		text := random.ReplaceAllString(strings.TrimSpace(w.Body.String()), "<id>")
		allow := w.Header().Get("Allow")
		if allow != "" {
			allow = " Allow: " + allow
		}
		if w.Code < 300 {
			text = ""
		}
		fmt.Fprintln(&out, strings.TrimSpace(fmt.Sprintf("%s: %d%s %s", what, w.Code, allow, text[:min(len(text), 200)])))
	}
	const media = "application/json"
	served := map[string]bool{}
	for _, c := range mistakenRequests {
		served[c.door] = true
		fmt.Fprintf(&out, "\n# %s: POST %s\n", c.door, c.post)
		broken := func() io.Reader {
			return io.MultiReader(strings.NewReader(`{"a":`), iotest.ErrReader(io.ErrUnexpectedEOF))
		}
		large := func() io.Reader { return strings.NewReader(`"` + strings.Repeat("x", 1<<20) + `"`) }
		send("broken off", "POST", c.post, broken(), 100, media)
		send("broken off, of unknown length", "POST", c.post, broken(), -1, media)
		send("too large", "POST", c.post, large(), 1<<20+2, media)
		send("too large, of unknown length", "POST", c.post, large(), -1, media)
		send("media type text/csv", "POST", c.post, strings.NewReader("{}"), 2, "text/csv")
		send("media type application/jsonx", "POST", c.post, strings.NewReader("{}"), 2, "application/jsonx")
		send("malformed media type", "POST", c.post, strings.NewReader("{}"), 2, "/;")
		send("media type with a character set", "POST", c.post, strings.NewReader("{}"), 2, "APPLICATION/JSON; charset=utf-8")
		send("no media type", "POST", c.post, strings.NewReader("{}"), 2, "")
		send("no JSON", "POST", c.post, strings.NewReader("{"), 1, media)
		send("no body", "POST", c.post, strings.NewReader(""), 0, media)
		send("another method", "LINK", c.post, strings.NewReader(""), 0, "")
		send("slash at the end", "POST", c.post+"/", strings.NewReader("{}"), 2, media)
		send("unknown path", "GET", c.post+"/none/none/none/none/none/none", strings.NewReader(""), 0, "")
		send("empty segment", "POST", strings.Replace(c.post, "/", "//", 2)[1:], strings.NewReader("{}"), 2, media)
		if c.get == "" {
			continue
		}
		path, parameter, _ := strings.Cut(c.get, "?")
		name, _, _ := strings.Cut(parameter, "=")
		send("malformed query", "GET", path+"?"+name+"=%zz", strings.NewReader(""), 0, "")
		send("query with a semicolon", "GET", path+"?"+parameter+";a=b", strings.NewReader(""), 0, "")
		send("parameter twice", "GET", c.get+"&"+parameter, strings.NewReader(""), 0, "")
		send("unknown parameter", "GET", path+"?unknown=1", strings.NewReader(""), 0, "")
	}
	for _, d := range x.doors {
		if !served[d.Name] && len(d.Routes) > 0 {
			t.Errorf("the door %s has no request in this test", d.Name)
		}
	}
	golden.Equal(t, "testdata/mistakes.txt", out.String())
}
