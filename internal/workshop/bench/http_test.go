package bench_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/ostiary/ostiary/internal/workshop/bench"
	"github.com/ostiary/ostiary/rel"
)

// question returns a check whose correct answer is allowed.
func question() bench.Request {
	return bench.Request{Check: &bench.Check{Object: rel.Object{Type: "document", ID: "1"}, Relation: "viewer", Subject: rel.Subject{Type: "user", ID: "anne"}, Allowed: true}}
}

// sendTo sends a few requests to a server with handler, and returns the counts.
func sendTo(t *testing.T, handler http.HandlerFunc, timeout time.Duration) (good int, failures map[string]int) {
	t.Helper()
	s := httptest.NewServer(handler)
	t.Cleanup(s.Close)
	return sendToURL(t, s.URL, timeout)
}

// longTimeout is a timeout that also a busy machine does not reach.
const longTimeout = time.Minute

func sendToURL(t *testing.T, url string, timeout time.Duration) (int, map[string]int) {
	t.Helper()
	target, err := bench.NewHTTP(url, "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { target.Close() })
	p, err := target.Prepare(question())
	if err != nil {
		t.Fatal(err)
	}
	result, err := bench.Load{Requests: 5, Duration: -1, Timeout: timeout}.Run(context.Background(),
		func(ctx context.Context, client, _ int) error { return p.Send(ctx, client) })
	if err != nil {
		t.Fatal(err)
	}
	return result.N, result.Failures
}

// TestAttachWaits attaches to a server that loads the store, and to one that refuses.
func TestAttachWaits(t *testing.T) {
	t.Parallel()
	for first, fails := range map[int]bool{http.StatusServiceUnavailable: false, http.StatusForbidden: true} {
		asked := 0
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch {
			case r.URL.Path == "/stores":
				fmt.Fprintf(w, `{"stores": [{"id": "1", "name": %q}]}`, r.URL.Query().Get("name"))
			case asked < 2:
				asked++
				w.WriteHeader(first)
			default:
				io.WriteString(w, `{"authorization_models": [{"id": "2"}]}`)
			}
		}))
		t.Cleanup(s.Close)
		target, err := bench.NewHTTP(s.URL, "")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { target.Close() })
		if err := target.Attach(t.Context()); (err != nil) != fails || asked != 2 && !fails {
			t.Errorf("status %d: error %v after %d questions", first, err, asked)
		}
	}
}

// TestHTTPCountsFailures checks the names of failures: a slow server, a broken
// connection, an error response, a wrong answer.
func TestHTTPCountsFailures(t *testing.T) {
	t.Parallel()
	allowed := func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, `{"allowed":true, "resolution":""}`) }
	for name, c := range map[string]struct {
		handler http.HandlerFunc
		want    string
	}{
		"right":   {allowed, ""},
		"spaced":  {func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, `{"allowed": true}`) }, ""},
		"chunked": {func(w http.ResponseWriter, r *http.Request) { w.(http.Flusher).Flush(); allowed(w, r) }, ""},
		"closing": {func(w http.ResponseWriter, r *http.Request) { w.Header().Set("Connection", "close"); allowed(w, r) }, ""},
		"wrong":   {func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, `{"allowed":false}`) }, "wrong answer"},
		"refused": {func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(400)
			io.WriteString(w, `{"code":"validation_error","message":"no"}`)
		}, "status 400 validation_error"},
		"page": {func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "oops", 500) }, "status 500"},
		"slow": {func(w http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body) // the server notices a closed connection only after the body
			<-r.Context().Done()
		}, "timeout"},
		"cut": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			io.WriteString(w, "short")
			panic(http.ErrAbortHandler)
		}, "connection lost"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			timeout := longTimeout
			if c.want == "timeout" {
				timeout = 50 * time.Millisecond
			}
			good, failures := sendTo(t, c.handler, timeout)
			if c.want == "" && (good != 5 || len(failures) != 0) || c.want != "" && (good != 0 || failures[c.want] != 5) {
				t.Errorf("%d good, %v, want 5 of %q", good, failures, c.want)
			}
		})
	}
}

// TestSetupOverBrokenServers creates a store on servers that do not answer correctly.
func TestSetupOverBrokenServers(t *testing.T) {
	t.Parallel()
	for what, handler := range map[string]http.HandlerFunc{
		"status 500": func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "oops", 500) },
		"no JSON":    func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "<p>welcome</p>") },
		"cut": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			io.WriteString(w, `{"id":"x","authorization_model_id":"y"}`)
		},
	} {
		s := httptest.NewServer(handler)
		t.Cleanup(s.Close)
		target, err := bench.NewHTTP(s.URL, "")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { target.Close() })
		if err := target.Setup(t.Context(), targetModel, func(func(rel.Tuple) bool) {}, nil); err == nil {
			t.Errorf("%s: no error", what)
		}
	}
}

func TestHTTPDown(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	if good, failures := sendToURL(t, "http://"+l.Addr().String(), longTimeout); good != 0 || failures["connection refused"] != 5 {
		t.Errorf("%d good, %v", good, failures)
	}
}

func TestHTTPWrongProtocol(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			fmt.Fprint(c, "220 mail ready\r\n")
			c.Close()
		}
	}()
	good, failures := sendToURL(t, "http://"+l.Addr().String(), longTimeout)
	if good != 0 || failures["wrong protocol"]+failures["connection lost"] != 5 || failures["wrong protocol"] == 0 {
		t.Errorf("%d good, %v", good, failures)
	}
	for _, bad := range []string{"https://x", "http://", "://", "http://h/path"} {
		if _, err := bench.NewHTTP(bad, ""); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}

// TestFloorAnswersTheSame checks that the floor gets the other server's requests
// and gives its response.
func TestFloorAnswersTheSame(t *testing.T) {
	t.Parallel()
	const answer = `{"allowed":true, "resolution":""}`
	bodies := make(chan string, 10)
	like := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		bodies <- r.Method + " " + string(b)
		io.WriteString(w, answer)
	}))
	t.Cleanup(like.Close)
	floor := httptest.NewServer(&bench.Floor{})
	t.Cleanup(floor.Close)
	likeTarget, err := bench.NewHTTP(like.URL, "")
	if err != nil {
		t.Fatal(err)
	}
	target, err := bench.NewFloorTarget(floor.URL, likeTarget)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { target.Close(); likeTarget.Close() })
	p, err := target.Prepare(question())
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Send(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	if got := <-bodies; !strings.HasPrefix(got, "POST {") || len(bodies) != 0 {
		t.Errorf("the other server got %q and %d more", got, len(bodies))
	}
	response, err := http.Post(floor.URL, "application/json", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if got, _ := io.ReadAll(response.Body); string(got) != answer {
		t.Errorf("%q", got)
	}
}
