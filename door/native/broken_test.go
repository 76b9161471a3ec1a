package native_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/ostiary/ostiary"
)

// TestBrokenRequests checks that every call answers a broken, malformed or
// canceled request with an error, and that such a request writes nothing.
func TestBrokenRequests(t *testing.T) {
	t.Parallel()
	w := open(t, ostiary.Options{})
	path := w.acme(t)
	w.add(t, path, "user:anne owner document:1")
	const question = `"object":"document:1","relation":"viewer","subject":"user:anne"`
	for _, c := range []struct {
		name, method, path, body string
		// canceled is true if the call fails once its context is canceled.
		canceled bool
	}{
		{"check", "POST", path + "/check", `{` + question + `}`, true},
		{"batch", "POST", path + "/batch", `{"questions":[{` + question + `}]}`, true},
		{"list-objects", "POST", path + "/list-objects", `{"type":"document","relation":"viewer","subject":"user:anne"}`, true},
		{"list-subjects", "POST", path + "/list-subjects", `{"object":"document:1","relation":"viewer","subject_type":"user"}`, true},
		{"expand", "POST", path + "/expand", `{"object":"document:1","relation":"viewer"}`, true},
		{"explain", "POST", path + "/explain", `{` + question + `}`, true},
		{"entitlements", "POST", path + "/entitlements", `{"subject":"user:anne","objects":["document:1"]}`, true},
		{"difference", "POST", path + "/difference", `{"object_type":"document","relation":"viewer","subject_type":"user","from":{"revision":1},"to":{"revision":2}}`, true},
		{"what-if", "POST", path + "/what-if", `{"questions":[{` + question + `}],"changes":{"add":[{"object":"document:1","relation":"owner","subject":"user:bob"}]}}`, false},
		{"read", "POST", path + "/read", `{"limit":1}`, false},
		{"read-attributes", "POST", path + "/read-attributes", `{"limit":1}`, false},
		{"changes", "POST", path + "/changes", `{"limit":1}`, false},
		{"write", "POST", path + "/write", `{"add":[{"object":"document:1","relation":"owner","subject":"user:bob"}],"on_duplicate":"ignore"}`, true},
		{"schemas", "POST", path + "/schemas", `{"dialect":"openfga-dsl","source":"model\n  schema 1.1\ntype user\n"}`, true},
		{"update store", "PATCH", path, `{"name":"other"}`, false},
		{"create store", "POST", "/stores", `{"name":"other"}`, false},
	} {
		before := w.do(t, "GET", path, "")
		stores := len(w.do(t, "GET", "/stores", "")["stores"].([]any))
		fails := func(what string, r *http.Request) {
			t.Helper()
			rec := httptest.NewRecorder()
			w.ServeHTTP(rec, r)
			got := decode(t, rec.Body.Bytes())
			if rec.Code/100 == 2 || got["code"] == nil || got["message"] == "" {
				t.Errorf("%s, %s: %d %s", c.name, what, rec.Code, rec.Body)
			}
		}
		url := "/ostiary/v1" + c.path
		for what, body := range map[string]string{
			"more text after the value": c.body + " more", "a second value": c.body + c.body, "cut off": c.body[:len(c.body)-1], "empty": "", "a list": "[" + c.body + "]",
			"an unknown member": `{"nothing":1,` + c.body[1:], "a member twice": strings.Replace(c.body, "{", c.body[:strings.IndexByte(c.body, ':')]+":null,", 1),
		} {
			fails(what, httptest.NewRequest(c.method, url, strings.NewReader(body)))
		}
		fails("an unreadable body", httptest.NewRequest(c.method, url, iotest.ErrReader(errors.New("broken"))))
		if c.canceled {
			ctx, cancel := context.WithCancel(context.Background())
			cancel()
			fails("canceled", httptest.NewRequestWithContext(ctx, c.method, url, strings.NewReader(c.body)))
		}
		after := w.do(t, "GET", path, "")
		if after["revision"] != before["revision"] || after["name"] != before["name"] || len(w.do(t, "GET", "/stores", "")["stores"].([]any)) != stores {
			t.Errorf("%s: a broken request changed %v to %v", c.name, before, after)
		}
		w.do(t, c.method, c.path, c.body)
	}
}
