package serve

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/door/keystone"
	"github.com/ostiary/ostiary/door/onap"
	"github.com/ostiary/ostiary/door/xacml"
)

// responseMax bounds the response to a body that is refused, in bytes. No error
// repeats megabytes of the request.
const responseMax = 16 << 10

// TestHugeBodies sends bodies of 300 KB that are deep, or that have texts of that
// size, to every route of every door, in every form that the doors read. Each is
// answered, and no answer is long. Every route reads at least one of the bodies,
// except those that need none.
func TestHugeBodies(t *testing.T) {
	t.Parallel()
	x := openEveryDoor(t)
	x.id = x.call("openfga", "POST", "/stores", m{"name": "huge"})["id"].(string)
	x.call("openfga", "POST", "/stores/"+x.id+"/authorization-models", m{"schema_version": "1.1", "type_definitions": []m{{"type": "user"},
		{"type": "doc", "relations": m{"viewer": m{"this": m{}}},
			"metadata": m{"relations": m{"viewer": m{"directly_related_user_types": []m{{"type": "user"}}}}}}}})
	x.call("permify", "POST", "/v1/tenants/create", m{"id": "huge", "name": "huge"})
	x.bootstrap()
	x.resources()
	bodies := hugeBodies()
	for _, d := range x.doors {
		for i := range d.Routes {
			route := &d.Routes[i]
			twice := strings.HasPrefix(route.Pattern, "/identity/v3/") // the same as /v3/
			if !twice && (route.Method == "POST" || route.Method == "PUT" || route.Method == "PATCH") {
				read := 0
				for name, body := range bodies {
					read += x.huge(d.Name, route, name, body)
				}
				if read == 0 && !withoutBody(d.Name, route) {
					t.Errorf("%s %s reads no body", d.Name, route.Pattern)
				}
			}
		}
	}
}

// withoutBody reports whether a route needs no body: those that relate two
// resources or set a state, those whose callers sign a header or send a form, and
// those of the only store, which is not chosen here.
func withoutBody(name string, route *door.Route) bool {
	for _, part := range []string{"/OS-OAUTH1/", "/auth/OS-FEDERATION/", "/protocols/{protocol}", "/limits/{id}", "/registered_limits/{id}", "/application_credentials"} {
		if strings.Contains(route.Pattern, part) {
			return true
		}
	}
	return route.Method == "PUT" && (name == keystone.Name || name == onap.NamePAP) || strings.HasPrefix(route.Pattern, "/access/v1/")
}

// hugeBodies returns bodies of about 300 KB. Their names begin with what their
// Content-Type contains.
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
	const request = `<Request xmlns="urn:oasis:names:tc:xacml:3.0:core:schema:wd-17" CombinedDecision="false" ReturnPolicyIdList="false"><Attributes Category="c"><Content>`
	const policy = `<Policy xmlns="urn:oasis:names:tc:xacml:3.0:core:schema:wd-17" PolicyId="p" Version="1.0" RuleCombiningAlgId="a"><Target>`
	return map[string]string{
		"json, breaks off":      `{"schema_version":"1.1"}`,
		"xml, breaks off":       "<a/>",
		"plain, breaks off":     "policy p {}",
		"yaml, breaks off":      "a: b",
		"json, deep array":      strings.Repeat("[", 2*n),
		"json, closed array":    `{"context":` + strings.Repeat("[", n) + strings.Repeat("]", n) + `}`,
		"json, deep object":     strings.Repeat(`{"a":`, n/3),
		"json, deep tuple key":  `{"tuple_key":` + strings.Repeat(`{"user":`, n/4),
		"json, deep rewrite":    `{"schema_version":"1.1","type_definitions":[{"type":"doc","relations":{"viewer":` + strings.Repeat(`{"union":{"child":[`, 9_000),
		"json, a text":          `"` + long + `"`,
		"json, a number":        strings.Repeat("9", len(long)),
		"json, no JSON":         long,
		"json, XML":             strings.Repeat("<a>", n/2),
		"json, deep login":      `{"auth":{"identity":` + strings.Repeat(`{"a":`, n/3),
		"json, a long login":    `{"auth":{"identity":{"methods":["password"],"password":{"user":{"name":` + short + `,"domain":{"id":` + short + `},"password":` + short + `}}}}}`,
		"json, a deep template": `{"tosca_definitions_version":"tosca_simple_yaml_1_1_0","topology_template":` + strings.Repeat(`{"policies":[`, n/4),
		"json, a long field":    `{"` + long + `":1}`,
		"json, long fields":     fields(short),
		"json, a long relation": `{"tuple_key":{"user":"user:a","relation":` + short + `,"object":"doc:1"},"object":"doc:1","relation":` + short + `,"subject":"user:a"}`,
		"json, a long object":   `{"tuple_key":{"user":"user:a","relation":"viewer","object":` + short + `},"object":` + short + `,"relation":"viewer","subject":"user:a"}`,
		"json, a long user":     `{"tuple_key":{"user":` + short + `,"relation":"viewer","object":"doc:1"},"object":"doc:1","relation":"viewer","subject":` + short + `}`,
		"json, an entity":       `{"metadata":{"depth":20},"entity":{"type":` + short + `,"id":` + short + `},"permission":` + short + `,"subject":{"type":"user","id":` + short + `}}`,
		"json, a resource":      `{"subject":{"type":"user","id":"a"},"action":{"name":` + short + `},"resource":{"type":"doc","id":` + short + `}}`,
		"xml, deep":             strings.Repeat("<a>", n/2),
		"xml, deep request":     request + strings.Repeat("<a>", n/2),
		"xml, whole request":    request + strings.Repeat("<a>", 200) + strings.Repeat("</a>", 200) + "</Content></Attributes></Request>",
		"xml, deep policy":      policy + strings.Repeat("<AnyOf><AllOf>", n/5),
		"xml, a long name":      "<" + long + "/>",
		"xml, long attribute":   `<Request a="` + long + `"/>`,
		"xml, many entities":    request + strings.Repeat("&amp;", n/2),
		"plain, deep":           "policy p { rule r { permit condition " + strings.Repeat("(", n),
		"plain, long":           "policy " + long,
		"yaml, deep flow":       "tosca_definitions_version: " + strings.Repeat("[", n),
		"yaml, deep map":        strings.Repeat("{a: ", n/2),
		"yaml, deep block":      strings.Repeat("- ", n),
		"yaml, long":            "topology_template: " + long,
		"yaml, aliases":         "a: &a [" + long[:1000] + "]\nb: &b [" + strings.Repeat("*a, ", n/2) + "*a]\nc: [" + strings.Repeat("*b, ", 1000) + "*b]\n",
	}
}

// huge sends a body to a route, and returns how many bytes of it were read.
func (x *everyDoor) huge(name string, route *door.Route, what, body string) (read int) {
	x.t.Helper()
	path := route.Pattern
	for before, id := range x.existing {
		path = strings.Replace(path, before+"/{id}", before+"/"+id, 1)
	}
	store := x.id
	if name == xacml.Name {
		store = "huge" // the alias of a policy domain
	}
	path = strings.NewReplacer("{store_id}", x.id, "{store}", store, "{tenant_id}", "huge", "{user}", x.user).Replace(path)
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
	in := strings.NewReader(body)
	var reader io.Reader = in
	if strings.HasSuffix(what, "breaks off") { // as if the client left
		reader = io.MultiReader(in, iotest.ErrReader(io.ErrUnexpectedEOF))
	}
	r := httptest.NewRequestWithContext(ctx, route.Method, path, reader)
	r.Header.Set("Content-Type", mediaType(name, route, what))
	r.Header.Set("X-Auth-Token", x.identity)
	var p door.Params
	found, _ := x.ports[name].Find(route.Method, r.URL.EscapedPath(), &p)
	if found == nil {
		x.t.Errorf("%s has no %s %s", name, route.Method, path)
		return 0
	}
	rec := httptest.NewRecorder()
	start := time.Now()
	found.Serve(rec, r, p)
	// ONAP's PAP answers 500 without a body to a state that does not exist.
	if rec.Code >= 500 && rec.Code != http.StatusNotImplemented && !route.Streams && route.Name != "SetGroupState" || rec.Body.Len() > responseMax {
		x.t.Errorf("%s %s, %s: status %d with %d bytes after %v: %.200s", name, route.Name, what, rec.Code, rec.Body.Len(), time.Since(start), rec.Body)
	}
	return len(body) - in.Len()
}

// mediaType returns the Content-Type of a body of hugeBodies for a route.
func mediaType(name string, route *door.Route, what string) string {
	form, _, _ := strings.Cut(what, ",")
	switch {
	case form == "plain":
		return "text/plain"
	case form == "json" && route.Name == "Import":
		return "application/x-ndjson"
	case form == "xml", name == onap.NamePDP && route.Name == "XACML":
		return "application/xacml+" + form
	}
	return "application/" + form
}
