package onap_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/door/onap"
)

// caller calls the routes of a door without a network.
func caller(t testing.TB, d *door.Door) func(method, path, body string, headers ...string) *httptest.ResponseRecorder {
	t.Helper()
	router, err := door.NewRouter(d.Routes)
	if err != nil {
		t.Fatal(err)
	}
	return func(method, path, body string, headers ...string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(method, path, strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		for i := 0; i < len(headers); i += 2 {
			r.Header.Set(headers[i], headers[i+1])
		}
		var p door.Params
		route, _ := router.Find(method, r.URL.EscapedPath(), &p)
		if route == nil {
			t.Fatalf("no route for %s %s", method, path)
		}
		w := httptest.NewRecorder()
		route.Serve(w, r, p)
		return w
	}
}

// TestClosed checks that no call of a closed engine succeeds, except for those that
// read no store, and that each response has the headers of the protocol.
func TestClosed(t *testing.T) {
	t.Parallel()
	e, err := ostiary.Open(context.Background(), ostiary.Options{})
	if err != nil {
		t.Fatal(err)
	}
	d := join(t, e, onap.Options{})
	call := caller(t, d)
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	storeless := map[string]bool{"Clock": true, "Restart": true, "Health": true, "Statistics": true, "Metrics": true}
	failed := 0
	for _, r := range d.Routes {
		path := r.Pattern
		for strings.Contains(path, "{") {
			path = path[:strings.Index(path, "{")] + "1.0.0" + path[strings.Index(path, "}")+1:]
		}
		w := call(r.Method, path, "{}", "X-Onap-Requestid", "the-id")
		if w.Code/100 == 2 && !storeless[r.Name] {
			t.Errorf("%s %s (%s): %d %.200s", r.Method, path, r.Name, w.Code, w.Body)
		}
		if w.Code/100 != 2 {
			failed++
		}
		if r.Name != "Clock" && r.Name != "Restart" && w.Header().Get("X-Onap-Requestid") != "the-id" {
			t.Errorf("%s: %v", r.Name, w.Header())
		}
	}
	if failed < 20 {
		t.Errorf("only %d calls failed", failed)
	}
}

// TestRequestIDs checks which ids of requests a response repeats. Otherwise it has a
// new one.
func TestRequestIDs(t *testing.T) {
	t.Parallel()
	call := caller(t, open(t, onap.Options{}))
	const path = "/policy/api/v1/policytypes"
	for id, same := range map[string]bool{"a": true, strings.Repeat("x", 128): true, strings.Repeat("x", 129): false, "": false} {
		w := call("GET", path, "", "X-Onap-Requestid", id)
		if got := w.Header().Get("X-Onap-Requestid"); got == "" || (got == id) != same {
			t.Errorf("%q: %q", id, got)
		}
		if w.Header().Get("X-Latestversion") == "" || w.Header().Get("Content-Type") != "application/json" {
			t.Errorf("%v", w.Header())
		}
	}
	first, second := call("GET", path, "").Header().Get("X-Onap-Requestid"), call("GET", path, "").Header().Get("X-Onap-Requestid")
	if first == second || len(first) != 36 {
		t.Errorf("%q, %q", first, second)
	}
}

// TestPageOfOperations checks how many operations a list returns, and the bound on
// regular expressions of names.
func TestPageOfOperations(t *testing.T) {
	t.Parallel()
	d := open(t, onap.Options{})
	call := caller(t, d)
	path := ""
	for _, r := range d.Routes {
		if strings.HasSuffix(r.Pattern, "/operations") && r.Method == http.MethodGet {
			path = r.Pattern
		}
	}
	var items []string
	for i := range 101 {
		items = append(items, fmt.Sprintf(`{"id":"o%d","closedLoopName":"l","requestId":"r","actor":"a","operation":"o","target":"t","outcome":"Success","endtime":"2026-03-04T09:00:00Z"}`, i))
	}
	if w := call("POST", path, "["+strings.Join(items, ",")+"]"); w.Code != http.StatusCreated {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	for _, body := range []string{`1`, `[1]`, `[{"id":"x"},"y"]`} {
		if w := call("POST", path, body); w.Code != http.StatusBadRequest {
			t.Errorf("%s: %d %s", body, w.Code, w.Body)
		}
	}
	for accept, yaml := range map[string]bool{"application/yaml": true, "text/html, application/yaml": true, "application/json, application/yaml": false, "*/*": false, "application/*;q=0.5": false, "": false} {
		w := call("GET", path, "", "Accept", accept)
		if got := w.Header().Get("Content-Type"); w.Code != http.StatusOK || strings.Contains(got, "yaml") != yaml {
			t.Errorf("Accept %q: %d %s", accept, w.Code, got)
		}
	}
	w := call("GET", path, "")
	if n := strings.Count(w.Body.String(), `"id":`); w.Code != http.StatusOK || n != 100 || !json.Valid(w.Body.Bytes()) {
		t.Errorf("%d: %d operations", w.Code, n)
	}
	for length, want := range map[int]int{1: http.StatusOK, 1000: http.StatusOK, 1001: http.StatusBadRequest} {
		if w := call("GET", "/policy/pap/v1/policies/status?regex="+strings.Repeat("a", length), ""); w.Code != want {
			t.Errorf("%d bytes: %d %.200s", length, w.Code, w.Body)
		}
	}
}

// countedHeads is a response that counts how often its head is written.
type countedHeads struct {
	*httptest.ResponseRecorder
	heads int
}

func (w *countedHeads) WriteHeader(status int) {
	w.heads++
	w.ResponseRecorder.WriteHeader(status)
}

// TestBrokenBodies breaks the body of each call off before its end. The client gets one
// error, in the form of the API, and changes nothing. It is no error of the server, so
// a client cannot fill the server's log with such bodies. A body above its bound is
// refused as such.
func TestBrokenBodies(t *testing.T) {
	t.Parallel()
	var reported []error
	d := open(t, onap.Options{Report: func(err error) { reported = append(reported, err) }})
	router, err := door.NewRouter(d.Routes)
	if err != nil {
		t.Fatal(err)
	}
	lists := func() (out string) {
		for _, path := range []string{"/policy/api/v1/policytypes", "/policy/api/v1/policies", "/policy/api/v1/nodetemplates", "/policy/pap/v1/pdps", "/policy/pdpx/v1/operations"} {
			w := caller(t, d)("GET", path, "")
			out += fmt.Sprintln(path, w.Code, w.Body)
		}
		return out
	}
	before := lists()
	for _, request := range refusedRequests {
		method, path, _ := strings.Cut(request[0], " ")
		form := `{"code":"%s","error":"%s","details":["%[2]s"]}`
		if strings.HasPrefix(path, "/policy/pap/") || strings.HasSuffix(path, "/xacml") {
			form = `{"errorDetails":"%[2]s"}`
		}
		for _, c := range []struct {
			why          error
			status       int
			name, expect string
		}{
			{errors.New("broken"), 400, "BAD_REQUEST", "the request's body cannot be read"},
			{io.ErrUnexpectedEOF, 400, "BAD_REQUEST", "the request's body cannot be read"},
			{&http.MaxBytesError{Limit: 7}, 413, "REQUEST_ENTITY_TOO_LARGE", "the request is too large: the bound BodyBytes is 7"},
			{&door.Refusal{Reason: door.TooMany, Bound: "BodyBytesTotal", Limit: 7}, 429, "TOO_MANY_REQUESTS", "the server has too many requests: the bound BodyBytesTotal is 7"},
		} {
			// A body that was cut off may be complete JSON.
			r := httptest.NewRequest(method, path, io.MultiReader(strings.NewReader(request[1]), iotest.ErrReader(c.why)))
			r.Header.Set("Content-Type", "application/json")
			if strings.HasSuffix(path, "/xacml") {
				r.Header.Set("Content-Type", "application/xacml+json")
			}
			var p door.Params
			route, _ := router.Find(method, path, &p)
			if route == nil {
				t.Fatalf("no route for %s", request[0])
			}
			w := &countedHeads{ResponseRecorder: httptest.NewRecorder()}
			route.Serve(w, r, p)
			expect := fmt.Sprintf(form+"%.0[1]s", c.name, c.expect)
			if got := w.Body.String(); w.Code != c.status || w.heads != 1 || got != expect {
				t.Errorf("%s, %v: %d %s, %d heads; expected %d %s", request[0], c.why, w.Code, got, w.heads, c.status, expect)
			}
		}
	}
	if len(reported) > 0 {
		t.Errorf("the server reports %q", reported)
	}
	if after := lists(); after != before {
		t.Errorf("broken bodies changed %s\nto %s", before, after)
	}
}
