package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/ostiary/ostiary/door"
)

// responseMax bounds the response to a body that is refused, in bytes. No error
// repeats megabytes of the request.
const responseMax = 16 << 10

// TestHugeBodies sends bodies of 300 KB that are deep, or that have texts of that
// size, to every route of every door. Each is answered, and no answer is long.
func TestHugeBodies(t *testing.T) {
	t.Parallel()
	x := openEveryDoor(t)
	x.id = x.call("openfga", "POST", "/stores", m{"name": "huge"})["id"].(string)
	x.call("openfga", "POST", "/stores/"+x.id+"/authorization-models", m{"schema_version": "1.1", "type_definitions": []m{{"type": "user"},
		{"type": "doc", "relations": m{"viewer": m{"this": m{}}},
			"metadata": m{"relations": m{"viewer": m{"directly_related_user_types": []m{{"type": "user"}}}}}}}})
	x.call("permify", "POST", "/v1/tenants/create", m{"id": "huge", "name": "huge"})
	x.bootstrap()
	for name, body := range hugeBodies() {
		for _, d := range x.doors {
			for i := range d.Routes {
				if route := &d.Routes[i]; route.Method == "POST" || route.Method == "PUT" || route.Method == "PATCH" {
					x.huge(d.Name, route, name, body)
				}
			}
		}
	}
}

// hugeBodies returns bodies of about 300 KB.
func hugeBodies() map[string]string {
	const n = 120_000
	long := strings.Repeat("x", 300_000)
	fields := func(value string) string {
		var b strings.Builder
		for i, f := range []string{"user", "relation", "object", "subject", "type", "name", "schema", "source", "dialect", "id", "continuation_token",
			"authorization_model_id", "at", "permission", "filter", "schema_version"} {
			if i > 0 {
				b.WriteByte(',')
			}
			b.WriteString(`"` + f + `":` + value)
		}
		return "{" + b.String() + "}"
	}
	short := `"` + long[:len(long)/17] + `"`
	return map[string]string{
		"deep array":      strings.Repeat("[", 2*n),
		"closed array":    `{"context":` + strings.Repeat("[", n) + strings.Repeat("]", n) + `}`,
		"deep object":     strings.Repeat(`{"a":`, n/3),
		"deep tuple key":  `{"tuple_key":` + strings.Repeat(`{"user":`, n/4),
		"deep rewrite":    `{"schema_version":"1.1","type_definitions":[{"type":"doc","relations":{"viewer":` + strings.Repeat(`{"union":{"child":[`, 9_000),
		"a text":          `"` + long + `"`,
		"a number":        strings.Repeat("9", len(long)),
		"no JSON":         long,
		"deep XML":        strings.Repeat("<a>", n/2),
		"deep login":      `{"auth":{"identity":` + strings.Repeat(`{"a":`, n/3),
		"a long login":    `{"auth":{"identity":{"methods":["password"],"password":{"user":{"name":` + short + `,"domain":{"id":` + short + `},"password":` + short + `}}}}}`,
		"a deep template": `{"tosca_definitions_version":"tosca_simple_yaml_1_1_0","topology_template":` + strings.Repeat(`{"policies":[`, n/4),
		"a long field":    `{"` + long + `":1}`,
		"long fields":     fields(short),
		"a long relation": `{"tuple_key":{"user":"user:a","relation":` + short + `,"object":"doc:1"},"object":"doc:1","relation":` + short + `,"subject":"user:a"}`,
		"a long object":   `{"tuple_key":{"user":"user:a","relation":"viewer","object":` + short + `},"object":` + short + `,"relation":"viewer","subject":"user:a"}`,
		"a long user":     `{"tuple_key":{"user":` + short + `,"relation":"viewer","object":"doc:1"},"object":"doc:1","relation":"viewer","subject":` + short + `}`,
		"an entity":       `{"metadata":{"depth":20},"entity":{"type":` + short + `,"id":` + short + `},"permission":` + short + `,"subject":{"type":"user","id":` + short + `}}`,
		"a resource":      `{"subject":{"type":"user","id":"a"},"action":{"name":` + short + `},"resource":{"type":"doc","id":` + short + `}}`,
	}
}

// huge sends a body to a route.
func (x *everyDoor) huge(name string, route *door.Route, what, body string) {
	x.t.Helper()
	path := strings.NewReplacer("{store_id}", x.id, "{store}", x.id, "{tenant_id}", "huge").Replace(route.Pattern)
	for strings.Contains(path, "{") {
		before, rest, _ := strings.Cut(path, "{")
		_, after, _ := strings.Cut(rest, "}")
		path = before + x.id + after
	}
	timeout := time.Minute
	if route.Streams {
		timeout = 100 * time.Millisecond // a watch of a store ends only by it
	}
	ctx, cancel := context.WithTimeout(x.t.Context(), timeout)
	defer cancel()
	r := httptest.NewRequestWithContext(ctx, route.Method, path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("X-Auth-Token", x.identity)
	var p door.Params
	found, _ := x.ports[name].Find(route.Method, r.URL.EscapedPath(), &p)
	if found == nil {
		x.t.Errorf("%s has no %s %s", name, route.Method, path)
		return
	}
	rec := httptest.NewRecorder()
	start := time.Now()
	found.Serve(rec, r, p)
	// ONAP's PAP answers 500 without a body to a state that does not exist.
	if rec.Code >= 500 && rec.Code != http.StatusNotImplemented && !route.Streams && route.Name != "SetGroupState" || rec.Body.Len() > responseMax {
		x.t.Errorf("%s %s, %s: status %d with %d bytes after %v: %.200s", name, route.Name, what, rec.Code, rec.Body.Len(), time.Since(start), rec.Body)
	}
}
