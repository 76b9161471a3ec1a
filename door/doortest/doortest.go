// Package doortest plays scripts against a door: what a client sends, and what
// it must get. A script is a test that a person can read beside the protocol's
// own documentation. Its main type is Suite. It never judges a door's answers
// by itself, and it guards nothing: authentication is the server's.
//
// A file of the suite is a session: its steps are played in order against one
// fresh door. Steps are separated by a line of "====":
//
//	# A store can be made, and asked for.
//	POST /stores
//	Content-Type: application/json
//
//	{"name": "acme"}
//	----
//	201
//	Content-Type: application/json
//
//	{"id": "<ulid:store>", "name": "acme", "created_at": "<time>"}
//	====
//	GET /stores/${store}
//	----
//	200
//
//	{"id": "${store}", "name": "acme", "created_at": "<time>"}
//
// Above "----" stand comments (lines that begin with #), the method and path,
// headers, and after a blank line the body. Below stand the status, the headers
// that are compared (others are not; "<none>" is one that must not be sent), and
// after a blank line the body. Without a blank line the answer's body is not
// looked at; with one and nothing below, it must be empty.
//
// JSON is compared by meaning: the order of members and white space do not
// count, everything else does, and a body may be a sequence of values, as a
// stream's is. Other bodies are compared as text, white space at the end aside.
//
// In what is expected, a string or header may hold placeholders: <any>, <time>
// (RFC 3339), <ulid>, <uuid>, <hex>, <token> (one word); as a whole string also
// <number>, which is a JSON number, and <value>, which is any JSON value. With a
// name, <ulid:store>, the value is kept and stands for ${store} in all that
// follows, requests and answers alike. An array whose first item is
// "<in any order>" is compared as a bag.
//
// The method GRPC calls a method of the door's gRPC services, with headers as
// metadata and the messages as JSON; the status is the code's name or number, a
// stream's messages follow each other, and an error is
// {"message": …, "details": […]} in the last place.
//
//	GRPC /openfga.v1.OpenFGAService/GetStore
//
//	{"store_id": "${store}"}
//	----
//	NotFound
//
//	{"message": "store not found"}
//
// OSTIARY_REWRITE=1 writes what was got into the files, keeping placeholders
// that fit; the reviewer reads the difference.
package doortest

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ostiary/ostiary/door"
)

// Suite is a set of scripts and what they are played against.
type Suite struct {
	// Glob names the scripts: "testdata/*.http".
	Glob string
	// Door opens what a script is played against; each script has its own. What
	// must be closed is closed with t.Cleanup.
	Door func(t testing.TB) *door.Door
	// Handler, if set, answers the HTTP steps instead of the door's own routes: a
	// whole server, say.
	Handler func(t testing.TB) http.Handler
	// Vars are known to every script from the beginning: ${name}.
	Vars map[string]string
}

// Run plays the scripts that glob names, each against a door of its own.
func Run(t *testing.T, glob string, open func(t testing.TB) *door.Door) {
	t.Helper()
	Suite{Glob: glob, Door: open}.Run(t)
}

// Run plays the suite's scripts, in parallel, each as a subtest. A suite
// without scripts fails.
func (s Suite) Run(t *testing.T) {
	t.Helper()
	files, err := filepath.Glob(s.Glob)
	if err != nil || len(files) == 0 {
		t.Fatalf("no script is called %s: %v", s.Glob, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), filepath.Ext(file)), func(t *testing.T) {
			t.Parallel()
			s.play(t, file)
		})
	}
}

func (s Suite) play(t *testing.T, file string) {
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	sc, err := parse(string(text))
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	p := s.player(t)
	rewrite := os.Getenv("OSTIARY_REWRITE") != ""
	for i := range sc.steps {
		st := &sc.steps[i]
		got, err := p.send(st)
		if err != nil {
			t.Fatalf("%s:%d: %s %s: %v", file, st.line, st.method, st.path, err)
		}
		if rewrite {
			p.rewrite(st, got)
			continue
		}
		if why := p.compare(st, got); why != "" {
			t.Errorf("%s:%d: %s %s: %s\ngot:\n%s", file, st.line, st.method, p.fill(st.path), why, got)
			if p.unknown(sc.steps[i+1:]) {
				t.FailNow() // what follows needs what this step did not give
			}
		}
	}
	if rewrite {
		if out := sc.String(); out != string(text) {
			if err := os.WriteFile(file, []byte(out), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// player is a session under way.
type player struct {
	http http.Handler
	rpc  *caller
	vars map[string]string
}

func (s Suite) player(t testing.TB) *player {
	p := &player{vars: map[string]string{}}
	for k, v := range s.Vars {
		p.vars[k] = v
	}
	if s.Door != nil {
		d := s.Door(t)
		h, err := handler(d)
		if err != nil {
			t.Fatal(err)
		}
		p.http = h
		if len(d.Services) > 0 {
			p.rpc = newCaller(t, d)
		}
	}
	if s.Handler != nil {
		p.http = s.Handler(t)
	}
	return p
}

// handler serves a door's routes, and nothing around them.
func handler(d *door.Door) (http.Handler, error) {
	routes, err := door.NewRouter(d.Routes)
	if err != nil {
		return nil, err
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var p door.Params
		route, methods := routes.Find(r.Method, r.URL.EscapedPath(), &p)
		switch {
		case route != nil:
			most := route.BodyMax
			if most == 0 {
				most = door.BodyBytesMax
			}
			r.Body = http.MaxBytesReader(w, r.Body, most)
			route.Serve(w, r, p)
		case d.Missing != nil:
			d.Missing(w, r, methods)
		case methods != nil:
			w.WriteHeader(http.StatusMethodNotAllowed)
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	}), nil
}

// send plays a step's request.
func (p *player) send(st *step) (*answer, error) {
	if st.method == methodGRPC {
		return p.call(st)
	}
	target := p.fill(st.path)
	r, err := http.NewRequest(st.method, "http://door.test"+target, strings.NewReader(p.fill(st.body)))
	if err != nil {
		return nil, err
	}
	// As a server sees it: the target as it was sent, the peer, no client's parts.
	r.RequestURI, r.RemoteAddr, r.Host = target, "192.0.2.1:1234", "door.test"
	for _, h := range st.headers {
		if http.CanonicalHeaderKey(h.name) == "Host" {
			r.Host = p.fill(h.value)
			continue
		}
		r.Header.Add(h.name, p.fill(h.value))
	}
	w := httptest.NewRecorder()
	p.http.ServeHTTP(w, r)
	return &answer{status: httpStatus(w.Code), header: w.Result().Header, body: w.Body.String()}, nil
}
