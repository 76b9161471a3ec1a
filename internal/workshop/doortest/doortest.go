// Package doortest plays scripts against a door: the requests that a client
// sends and the responses that it must get. A script is a test that reads like
// the protocol's documentation. The main type is [Suite]; [Run] is enough for
// most tests. The package does not authenticate; that is the server's task.
//
// A script's steps are played in order against one new door. A line of "===="
// separates steps:
//
//	# A store can be created, and read.
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
// The part above "----" is the request: comments (lines that begin with #), the
// method and path, headers and, after a blank line, the body. The part below is
// the expected response: the status, the headers to compare and, after a blank
// line, the body. The header value "<none>" means that the header must be
// absent. Without a blank line the body is not compared. With a blank line and
// nothing after it, the body must be empty.
//
// JSON bodies are compared by value: white space and the order of an object's
// members do not matter. A body may be a sequence of JSON values, as a stream
// is. Other bodies are compared as text, except for white space at the end.
//
// An expected string or header may contain placeholders: <any>, <time> (RFC
// 3339), <ulid>, <uuid>, <hex> and <token> (one word). Two more placeholders
// must be a whole string: <number> matches a JSON number and <value> any JSON
// value. A placeholder with a name, such as <ulid:store>, sets the variable
// ${store}, which later requests and responses may use. If the first item of an
// array is "<in any order>", the order of its items does not matter.
//
// The method GRPC calls a method of the door's gRPC services. Headers are its
// metadata, and messages are JSON. The status is the name or number of the
// code. The messages of a stream follow each other. An error is
// {"message": ..., "details": [...]}, after the messages:
//
//	GRPC /openfga.v1.OpenFGAService/GetStore
//
//	{"store_id": "${store}"}
//	----
//	NotFound
//
//	{"message": "store not found"}
//
// With OSTIARY_REWRITE=1 the tests write the actual responses into the files.
// Placeholders that match stay. Review the difference before a commit.
package doortest

import (
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"google.golang.org/grpc"

	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/internal/workshop/golden"
)

// Suite is a set of scripts and the door that they are played against.
type Suite struct {
	// Glob matches the script files, for example "testdata/*.http".
	Glob string
	// Door opens the door for one script; every script gets a new one. It
	// registers its cleanup with t.Cleanup.
	Door func(t testing.TB) *door.Door
	// Handler, if not nil, returns the handler of the HTTP steps, for example a
	// whole server. By default the door's own routes handle them.
	Handler func(t testing.TB) http.Handler
	// Server, if not nil, starts a server that plays instead of a door: the handler of the
	// HTTP steps and the connection of the GRPC steps.
	Server func(t testing.TB) (http.Handler, *grpc.ClientConn)
	// Vars are variables, ${name}, that every script may use from the start.
	Vars map[string]string
}

// Run plays the scripts that glob matches, each against a new door from open.
func Run(t *testing.T, glob string, open func(t testing.TB) *door.Door) {
	t.Helper()
	Suite{Glob: glob, Door: open}.Run(t)
}

// Run plays the suite's scripts in parallel, each as a subtest. It fails if no
// file matches Glob.
func (s Suite) Run(t *testing.T) {
	t.Helper()
	golden.Each(t, s.Glob, 1, s.play)
}

// readScript returns the script of a file, and its text.
func readScript(t testing.TB, file string) (*script, string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	sc, err := parse(string(text))
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return sc, string(text)
}

// play plays one script, or rewrites it if OSTIARY_REWRITE is set.
func (s Suite) play(t *testing.T, file string) {
	sc, text := readScript(t, file)
	p := s.player(t)
	rewrite := golden.Rewrite()
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
		if why := p.diff(st, got); why != "" {
			t.Errorf("%s:%d: %s %s: %s\ngot:\n%s", file, st.line, st.method, p.fill(st.path), why, got)
			if p.unsetVars(sc.steps[i+1:]) {
				t.FailNow() // later steps use a variable that this step did not set
			}
		}
	}
	if rewrite {
		if out := sc.String(); out != text {
			if err := os.WriteFile(file, []byte(out), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// player plays one script.
type player struct {
	// http handles the HTTP steps; nil if there is none.
	http http.Handler
	// rpc calls the door's gRPC services; nil if it has none.
	rpc *rpcClient
	// vars are the variables, by name.
	vars map[string]string
}

// player opens a door and returns a player for one script.
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
			p.rpc = newRPCClient(t, d)
		}
	}
	if s.Handler != nil {
		p.http = s.Handler(t)
	}
	if s.Server != nil {
		h, conn := s.Server(t)
		p.http, p.rpc = h, &rpcClient{conn}
	}
	return p
}

// handler serves a door's routes, without a server's authentication and limits.
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
			bodyMax := route.BodyMax
			if bodyMax == 0 {
				bodyMax = door.BodyBytesMax
			}
			r.Body = http.MaxBytesReader(w, r.Body, bodyMax)
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

// send sends a step's request and returns the response.
func (p *player) send(st *step) (*response, error) {
	if st.method == methodGRPC {
		return p.sendRPC(st)
	}
	target := p.fill(st.path)
	r, err := http.NewRequest(st.method, "http://door.test"+target, strings.NewReader(p.fill(st.body)))
	if err != nil {
		return nil, err
	}
	// Set the fields that a server sets and a client does not.
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
	return &response{status: httpStatus(w.Code), header: w.Result().Header, body: w.Body.String()}, nil
}
