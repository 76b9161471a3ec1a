package door_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/ostiary/ostiary/door"
)

func nothing(http.ResponseWriter, *http.Request, door.Params) {}

func routes(lines ...string) []door.Route {
	var out []door.Route
	for _, l := range lines {
		method, pattern, _ := strings.Cut(l, " ")
		out = append(out, door.Route{Method: method, Pattern: pattern, Name: l, Serve: nothing})
	}
	return out
}

func TestRouterFinds(t *testing.T) {
	t.Parallel()
	r, err := door.NewRouter(routes("GET /", "GET /stores", "POST /stores", "GET /stores/{id}", "DELETE /stores/{id}",
		"POST /stores/{id}/check", "GET /stores/{id}/models/{model}", "GET /stores/latest/models", "GET /files/{path...}", "GET /4/{a}/{b}/{c}/{d}", "GET /3/{a}/{b}/{c}/{d...}"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ method, path, name, params, methods string }{
		{"GET", "/", "GET /", "", ""},
		{"GET", "/stores", "GET /stores", "", ""},
		{"HEAD", "/stores", "GET /stores", "", ""},
		{"PUT", "/stores", "", "", "GET POST"},
		{"GET", "/stores/7", "GET /stores/{id}", "7", ""},
		{"GET", "/stores/", "", "", ""},
		{"GET", "/stores/a%20b%2Fc", "GET /stores/{id}", "a b/c", ""},
		{"GET", "/stores/%zz", "GET /stores/{id}", "%zz", ""},
		{"POST", "/stores/7/check", "POST /stores/{id}/check", "7", ""},
		{"POST", "/stores/latest/check", "POST /stores/{id}/check", "latest", ""},
		{"GET", "/stores/latest/models", "GET /stores/latest/models", "", ""},
		{"GET", "/stores/latest/models/m", "GET /stores/{id}/models/{model}", "latest m", ""},
		{"GET", "/stores/7/check", "", "", "POST"},
		{"GET", "/stores//check", "", "", ""},
		{"GET", "/files/a/b", "GET /files/{path...}", "a/b", ""},
		{"GET", "/elsewhere", "", "", ""},
		{"GET", "*", "", "", ""},
		{"GET", "stores", "", "", ""},
		{"GET", "", "", "", ""},
		{"GET", "/stores/%41", "GET /stores/{id}", "A", ""},
		{"GET", "/files/%61/%62", "GET /files/{path...}", "a/b", ""},
		{"GET", "/4/a/b/c/d", "GET /4/{a}/{b}/{c}/{d}", "a b c d", ""},
		{"GET", "/3/a/b/c/d/e", "GET /3/{a}/{b}/{c}/{d...}", "a b c d/e", ""},
		{"GET", "/3/a/b/c/", "GET /3/{a}/{b}/{c}/{d...}", "a b c", ""},
	} {
		var p door.Params
		route, methods := r.Find(c.method, c.path, &p)
		name := ""
		if route != nil {
			name = route.Name
		}
		var params []string
		for i := 0; route != nil && p.At(i) != ""; i++ {
			params = append(params, p.At(i))
		}
		if name != c.name || strings.Join(params, " ") != c.params || strings.Join(methods, " ") != c.methods {
			t.Errorf("%s %s: %q %q %q, want %q %q %q", c.method, c.path, name, params, methods, c.name, c.params, c.methods)
		}
	}
	var p door.Params
	r.Find("GET", "/stores/7/models/m", &p)
	if r.Find("GET", "/4/a/b/c/d", &p); p.At(4) != "" {
		t.Error(p)
	}
	r.Find("GET", "/stores/7/models/m", &p)
	if p.Named("model") != "m" || p.Named("id") != "7" || p.Named("none") != "" || p.At(2) != "" || p.At(-1) != "" {
		t.Error(p)
	}
}

func TestRouterRefuses(t *testing.T) {
	t.Parallel()
	for _, bad := range [][]string{
		{"GET stores"}, {"GET /a/"}, {"GET /a//b"}, {"GET //b"}, {"GET //"}, {"GET "}, {"GET /{"}, {"GET /{}"}, {"GET /{a...}/b"},
		{"GET /{a}/{b}/{c}/{d}/{e}"}, {"GET /{a}", "GET /{b}"}, {" /a"},
	} {
		if _, err := door.NewRouter(routes(bad...)); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}

func TestRouterAllocatesNothing(t *testing.T) {
	r, err := door.NewRouter(routes("POST /stores/{id}/check"))
	if err != nil {
		t.Fatal(err)
	}
	var p door.Params
	if n := testing.AllocsPerRun(100, func() { r.Find("POST", "/stores/01ABC/check", &p) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func FuzzRouter(f *testing.F) {
	r, err := door.NewRouter(routes("GET /a/{b}/c", "GET /a/{b...}", "POST /a/x/{y}", "GET /"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add("/a/x/c")
	f.Add("/a//c%")
	f.Fuzz(func(t *testing.T, path string) {
		var p door.Params
		route, methods := r.Find("GET", path, &p)
		if route != nil && methods != nil || slices.Contains(methods, "GET") {
			t.Errorf("%q: %v %v", path, route, methods)
		}
	})
}
