package server_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/server"
)

// TestRouting checks that the longest prefix of whole segments wins, that a path
// of no door is a 404 that lists the prefixes, and that a door on its own port
// serves every path.
func TestRouting(t *testing.T) {
	t.Parallel()
	named := func(name string, prefixes ...string) *door.Door {
		d := &door.Door{Name: name, Prefixes: prefixes}
		for _, p := range prefixes {
			d.Routes = append(d.Routes, door.Route{Method: "GET", Pattern: p + "/{x}", Name: name + p, Serve: func(w http.ResponseWriter, r *http.Request, p door.Params) {
				io.WriteString(w, name+" "+p.Named("x"))
			}})
		}
		d.Missing = func(w http.ResponseWriter, r *http.Request, methods []string) {
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w, name, " has none ", methods)
		}
		return d
	}
	r := start(t, server.Options{Doors: []*door.Door{named("a", "/stores", "/v1/a"), named("b", "/v1", "/stores/deep/er"), named("c", "/stores/{store}/x", "/stores/deep/{any}/y")}})
	for _, c := range []struct {
		method, path string
		status       int
		body         string
	}{
		{"GET", "/stores/x", 200, "a x"},
		{"GET", "/stores/deep", 200, "a deep"},
		{"GET", "/stores/deep/er", 404, "b has none []"},
		{"GET", "/stores/deep/er/x", 200, "b x"},
		{"GET", "/stores/1/x/7", 200, "c 7"},
		{"GET", "/stores/1/x", 404, "c has none []"},
		{"GET", "/stores/1/xy", 404, "a has none []"},
		{"GET", "/stores/deep/x/7", 200, "c 7"},
		{"GET", "/stores/deep/er/y", 404, "c has none []"},
		{"GET", "/stores/deep/er/y/7", 200, "c 7"},
		{"GET", "/stores/deep/other/y/7", 200, "c 7"},
		{"GET", "/stores//x/7", 400, ""},
		{"GET", "/v1/x", 200, "b x"},
		{"GET", "/v1/a", 404, "a has none []"},
		{"GET", "/v1/a/x%20y", 200, "a x y"},
		{"POST", "/v1/x", 404, "b has none [GET]"},
		{"HEAD", "/v1/x", 200, ""},
		{"GET", "/storesx/x", 404, `"serves":[{"prefix":"/stores","door":"a"}`},
		{"GET", "/", 200, `"doors":[{"door":"a","prefixes":["/stores","/v1/a"]},`},
		{"GET", "/v1//x", 400, ""},
		{"GET", "/v1/a%2fx", 400, ""},
		{"GET", "/other//x", 400, `"code":"refused"`},
		{"GET", "/healthz", 200, `{"status":"SERVING"}`},
		{"GET", "/healthz?service=x", 200, `{"status":"SERVING"}`},
	} {
		status, h, body := r.ask(t, c.method, c.path, "")
		if status != c.status || !strings.Contains(body, c.body) || len(h.Get("X-Request-Id")) < 10 {
			t.Errorf("%s %s: %d %s %v", c.method, c.path, status, body, h)
		}
	}
	if _, h, _ := r.ask(t, "GET", "/v1/x", "", "X-Request-Id", "mine-1"); h.Get("X-Request-Id") != "mine-1" {
		t.Error(h)
	}
	if _, h, _ := r.ask(t, "GET", "/v1/x", "", "X-Request-Id", "not sane"); h.Get("X-Request-Id") == "not sane" {
		t.Error(h)
	}
	alone := start(t, server.Options{Dedicated: []server.DedicatedDoor{{Door: named("b", "/v1"), HTTP: "127.0.0.1:0"}}})
	alone.at["http"] = alone.at["b http"]
	if status, _, body := alone.ask(t, "GET", "/stores/x", ""); status != 404 || body != "b has none []" {
		t.Error(status, body)
	}
	for _, bad := range [][]*door.Door{
		{named("a", "/x"), named("b", "/x")}, {named("a", "/x/")}, {named("a", "x")}, {named("a", "/x//y")},
		{{Name: "a", Prefixes: []string{"/x"}, Routes: []door.Route{{Method: "GET", Pattern: "/xy", Serve: func(http.ResponseWriter, *http.Request, door.Params) {}}}}},
	} {
		if _, err := server.New(server.Options{HTTP: "127.0.0.1:0", Doors: bad}); err == nil {
			t.Errorf("%s %v is accepted", bad[0].Name, bad[0].Prefixes)
		}
	}
}

// TestDoorName checks that a request's context has the name of its door.
func TestDoorName(t *testing.T) {
	t.Parallel()
	name := func(w http.ResponseWriter, r *http.Request, _ door.Params) {
		fmt.Fprint(w, r.Context().Value(door.NameKey{}))
	}
	var doors []*door.Door
	for _, d := range []string{"one", "two"} {
		doors = append(doors, &door.Door{Name: d, Prefixes: []string{"/" + d}, Routes: []door.Route{
			{Method: "GET", Pattern: "/" + d, Name: "Name", Serve: name}, {Method: "GET", Pattern: "/" + d + "/stream", Name: "Stream", Streams: true, Serve: name}}})
	}
	r := start(t, server.Options{Doors: doors})
	for path, want := range map[string]string{"/one": "one", "/one/stream": "one", "/two": "two", "/two/stream": "two"} {
		if _, _, got := r.ask(t, "GET", path, ""); got != want {
			t.Errorf("%s: %q, expected %q", path, got, want)
		}
	}
}

// TestBounds checks each bound at its value and one above.
func TestBounds(t *testing.T) {
	t.Parallel()
	r := start(t, server.Options{BodyBytes: 2000, HeaderBytes: 4096})
	for _, c := range []struct {
		path  string
		bytes int
		ok    bool
	}{{"/echo", 1000, true}, {"/echo", 1001, false}, {"/echo/large", 2000, true}, {"/echo/large", 2001, false}} {
		body := strings.Repeat("x", c.bytes)
		status, _, got := r.ask(t, "POST", c.path, body)
		if c.ok != (status == 200 && got == body) || !c.ok && (status != 413 || !strings.HasPrefix(got, "echo: the request is too large: the bound BodyBytes")) {
			t.Errorf("%s %d: %d %q", c.path, c.bytes, status, got)
		}
		// The same body in chunks, without a length.
		resp, err := http.Post("http://"+r.at["http"]+c.path, "text/plain", io.MultiReader(strings.NewReader(body[:100]), strings.NewReader(body[100:])))
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if c.ok != (resp.StatusCode == 200 && string(text) == body) || !c.ok && resp.StatusCode != 413 {
			t.Errorf("%s %d in chunks: %d %q", c.path, c.bytes, resp.StatusCode, text)
		}
	}
	short := start(t, server.Options{RequestTimeout: 20 * time.Millisecond})
	for _, how := range []string{"poll", "wait"} {
		if _, _, got := short.ask(t, "GET", "/echo/wait/"+how, ""); got != "the request took too long: the bound RequestTimeout is 20ms true" {
			t.Error(how, got)
		}
	}
	if status, _, _ := r.ask(t, "GET", "/echo/open", "", "X-Long", strings.Repeat("x", 20_000)); status != 431 {
		t.Error("status for headers beyond their bound:", status)
	}
}

// TestTooMany checks that RequestsMax requests and StreamsMax streams may be in
// flight, and that one more is refused.
func TestTooMany(t *testing.T) {
	t.Parallel()
	r := start(t, server.Options{RequestsMax: 2, StreamsMax: 2, RequestTimeout: -1})
	for _, c := range []struct{ path, bound, gauge string }{
		{"/echo/wait/poll", "RequestsMax", "ostiary_requests_in_flight"}, {"/echo/stream", "StreamsMax", "ostiary_streams_in_flight"},
	} {
		var leave []context.CancelFunc
		for range 2 {
			ctx, cancel := context.WithCancel(context.Background())
			leave = append(leave, cancel)
			req, err := http.NewRequestWithContext(ctx, "GET", "http://"+r.at["http"]+c.path, nil)
			if err != nil {
				t.Fatal(err)
			}
			go func() {
				if resp, err := http.DefaultClient.Do(req); err == nil {
					io.Copy(io.Discard, resp.Body)
					resp.Body.Close()
				}
			}()
		}
		wait(t, func() bool { return strings.TrimSpace(r.metric(t, c.gauge+" ")) == c.gauge+" 2" })
		if status, _, body := r.ask(t, "GET", c.path, ""); status != 429 || !strings.Contains(body, "the bound "+c.bound+" is 2") {
			t.Error(status, body)
		}
		for _, l := range leave {
			l()
		}
		wait(t, func() bool { return strings.TrimSpace(r.metric(t, c.gauge+" ")) == c.gauge+" 0" })
	}
	if got := r.metric(t, `ostiary_refusals_total{reason="too_many"}`); !strings.HasSuffix(got, " 2\n") {
		t.Error(got)
	}
}

// ownDoor returns a door that authenticates its callers itself: /own/who accepts the token
// "valid". Requests of /own/wait begin a response when their body was read, and end when their client
// disconnects.
func ownDoor() *door.Door {
	return &door.Door{Name: "own", Prefixes: []string{"/own"}, OwnAuthentication: true, Missing: echoDoor().Missing, Refuse: echoDoor().Refuse,
		Routes: []door.Route{{Method: "POST", Pattern: "/own", Name: "Own", Serve: echoBody},
			{Method: "POST", Pattern: "/own/wait", Name: "Wait", Serve: func(w http.ResponseWriter, r *http.Request, _ door.Params) {
				io.Copy(io.Discard, r.Body)
				w.(http.Flusher).Flush()
				<-r.Context().Done()
			}},
			{Method: "GET", Pattern: "/own/who", Name: "Who", Serve: func(w http.ResponseWriter, r *http.Request, _ door.Params) {
				if r.Header.Get("X-Auth-Token") != "valid" {
					w.WriteHeader(http.StatusUnauthorized)
					return
				}
				door.Authenticated(r.Context())
				io.WriteString(w, "valid")
			}}}}
}

// begin begins a request with a body of n bytes, of which it sends only some. If it
// sends all, it waits for the begin of the response.
func (r *running) begin(t *testing.T, path string, n, sent int) net.Conn {
	t.Helper()
	conn := r.connect(t)
	fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n%s", path, secret, n, strings.Repeat("x", sent))
	if sent == n {
		if _, err := conn.Read(make([]byte, 1)); err != nil {
			t.Error(err)
		}
	}
	return conn
}

// awaits waits until a metric has a value.
func (r *running) awaits(t *testing.T, metric, value string) {
	t.Helper()
	wait(t, func() bool { return strings.HasSuffix(strings.TrimSpace(r.metric(t, metric+" ")), " "+value) })
}

// TestOwnAuthentication sends requests to a door that authenticates its callers
// itself. They take half of RequestsMax at most, so that callers with a key are answered
// meanwhile.
// A client that holds a body back loses its place to others.
func TestOwnAuthentication(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]server.Options{"with keys": {RequestsMax: 4, Keys: keys(t, server.Key{Name: "ops", Secret: secret})}, "without": {RequestsMax: 4}} {
		o.Doors, o.TransferTime, o.RequestTimeout = []*door.Door{echoDoor(), ownDoor()}, time.Hour, time.Hour
		r := start(t, o)
		busy := []net.Conn{r.begin(t, "/own/wait", 5, 5), r.begin(t, "/own/wait", 5, 5)}
		if status, _, body := r.ask(t, "POST", "/own", "one more"); status != 429 || !strings.Contains(body, "the bound OwnAuthenticationRequestsMax is 2") {
			t.Errorf("%s: one more request without a key: %d %s", name, status, body)
		}
		if status, _, body := r.ask(t, "GET", "/echo/caller", "", "Authorization", "Bearer "+secret); status != 200 {
			t.Errorf("%s: a caller with a key: %d %s", name, status, body)
		}
		for _, conn := range busy {
			conn.Close()
		}
		r.awaits(t, "ostiary_requests_in_flight", "0")
		for range 3 {
			if status, _, body := r.ask(t, "POST", "/own", "again"); status != 200 {
				t.Errorf("%s: after they have ended: %d %s", name, status, body)
			}
		}
		first := r.begin(t, "/own", 100, 5)
		r.awaits(t, "ostiary_requests_in_flight", "1")
		second := r.begin(t, "/own", 100, 5)
		r.awaits(t, "ostiary_requests_in_flight", "2")
		wait(t, func() bool { // once the first is older than a second
			status, _, _ := r.ask(t, "POST", "/own", "a login")
			return status == 200
		})
		if _, err := first.Read(make([]byte, 1)); err == nil {
			t.Errorf("%s: the connection of the oldest body that is held back is open", name)
		}
		second.Close()
	}
}

// TestOwnBodies checks that the bodies of a door that authenticates its callers
// itself have a budget of their own.
func TestOwnBodies(t *testing.T) {
	t.Parallel()
	r := start(t, server.Options{BodyBytes: 100_000, BodyBytesPerConnection: 200_000, BodyBytesTotal: 200_000, Doors: []*door.Door{echoDoor(), ownDoor()},
		TransferTime: time.Hour, RequestTimeout: time.Hour, Keys: keys(t, server.Key{Name: "ops", Secret: secret})})
	r.begin(t, "/own/wait", 100_000, 100_000)
	if status, _, body := r.ask(t, "POST", "/own", "x"); status != 429 || !strings.Contains(body, "the bound OwnAuthenticationBodyBytes is 100000") {
		t.Error("one more body:", status, body)
	}
	r.begin(t, "/echo/large", 100_000, 0)
	r.awaits(t, "ostiary_body_bytes_in_flight", "200000")
	if status, _, body := r.ask(t, "POST", "/echo/large", strings.Repeat("x", 100_000), "Authorization", "Bearer "+secret); status != 200 {
		t.Error("a body of a caller with a key:", status, body)
	}
}

// wait waits until condition is true.
func wait(t testing.TB, condition func() bool) {
	t.Helper()
	for range 12_000 { // a minute; a busy machine needs long
		if condition() {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Fatal("the condition did not become true")
}

// TestPanic checks that a panic is answered with the door's refusal and logged
// once, without content of the request, and that a response that has already
// begun is cut off.
func TestPanic(t *testing.T) {
	t.Parallel()
	r := start(t, server.Options{AccessLog: true})
	status, h, body := r.ask(t, "GET", "/echo/panic/early", "", "X-Content", "tuple-content")
	if status != 500 || body != "echo: the server failed" {
		t.Error(status, body)
	}
	if l := r.logs.String(); strings.Count(l, `"msg":"panic"`) != 1 || strings.Contains(l, "tuple-content") || !strings.Contains(l, "echoDoor") ||
		!strings.Contains(l, h.Get("X-Request-Id")) {
		t.Error(l)
	}
	resp, err := http.Get("http://" + r.at["http"] + "/echo/panic/late")
	if err == nil {
		_, err = io.ReadAll(resp.Body)
		resp.Body.Close()
	}
	if err == nil {
		t.Error("a response that was cut off looks complete")
	}
	if status, _, _ := r.ask(t, "GET", "/echo/open", ""); status != 200 {
		t.Error(status)
	}
	if got := r.metric(t, `ostiary_requests_total{door="echo",outcome="server_error",route="Panic"`); !strings.HasSuffix(got, " 2\n") {
		t.Error(got)
	}
	wait(t, func() bool {
		return strings.Contains(r.logs.String(), `"msg":"request with a response that broke off","door":"echo","route":"Panic","method":"GET","status":200,`)
	})
	conn := r.connect(t)
	fmt.Fprint(conn, "GET /echo/panic/left HTTP/1.1\r\nHost: localhost\r\n\r\n")
	if _, err := conn.Read(make([]byte, 1)); err != nil {
		t.Error(err)
	}
	conn.Close()
	wait(t, func() bool {
		return strings.Contains(r.logs.String(), `"msg":"request whose client left","door":"echo"`)
	})
	if got := r.metric(t, `ostiary_requests_total{door="echo",outcome="client_error",route="Panic"`); !strings.HasSuffix(got, " 1\n") {
		t.Error(got)
	}
}

// TestDisconnect checks that the context of a request ends when its client
// disconnects.
func TestDisconnect(t *testing.T) {
	t.Parallel()
	r := start(t, server.Options{RequestTimeout: -1})
	for _, path := range []string{"/echo/wait/poll", "/echo/wait/wait", "/echo/stream"} {
		conn := r.connect(t)
		fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", path)
		under := func(n string) bool {
			return strings.Contains(r.metric(t, "ostiary_"), "s_in_flight "+n)
		}
		wait(t, func() bool { return under("1") })
		conn.Close()
		wait(t, func() bool { return !under("1") })
	}
}

func TestCORS(t *testing.T) {
	t.Parallel()
	r := start(t, server.Options{CORS: []string{"https://app.example"}, Keys: keys(t, server.Key{Secret: "k"})})
	status, h, _ := r.ask(t, "OPTIONS", "/echo/caller", "", "Origin", "https://app.example", "Access-Control-Request-Method", "GET",
		"Access-Control-Request-Headers", "authorization")
	if status != 204 || h.Get("Access-Control-Allow-Origin") != "https://app.example" || h.Get("Access-Control-Allow-Headers") != "authorization" {
		t.Error(status, h)
	}
	for _, origin := range []string{"https://evil.example", "http://app.example", "https://app.example.evil", "null"} {
		_, h, _ := r.ask(t, "OPTIONS", "/echo/caller", "", "Origin", origin, "Access-Control-Request-Method", "GET")
		if h.Get("Access-Control-Allow-Origin") != "" || h.Get("Vary") != "Origin" {
			t.Error(origin, h)
		}
	}
	status, h, _ = r.ask(t, "GET", "/echo/caller", "", "Origin", "https://app.example", "Authorization", "Bearer k")
	if status != 200 || h.Get("Access-Control-Allow-Origin") != "https://app.example" || h.Get("Access-Control-Allow-Credentials") != "" {
		t.Error(status, h)
	}
	for _, bad := range []string{"app.example", "https://app.example/", "https://"} {
		if _, err := server.New(server.Options{CORS: []string{bad}}); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
	any := start(t, server.Options{CORS: []string{"*"}})
	if _, h, _ := any.ask(t, "GET", "/echo/open", "", "Origin", "https://x.example"); h.Get("Access-Control-Allow-Origin") != "*" {
		t.Error(h)
	}
	off := start(t, server.Options{})
	if _, h, _ := off.ask(t, "GET", "/echo/open", "", "Origin", "https://x.example"); h.Get("Access-Control-Allow-Origin") != "" {
		t.Error(h)
	}
}
