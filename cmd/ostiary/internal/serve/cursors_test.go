package serve

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/ostiary/ostiary/door"
)

// cursorList is a list of a door that comes in pages.
type cursorList struct {
	name, door, method, path string
	// body returns the body of a request for the page at a cursor, "" for the
	// first page; nil if the cursor is in the query.
	body func(cursor string) any
	// query is the name of the query's parameter.
	query string
	// next are the names that lead to the next page's cursor in a response.
	next []string
}

// request sends a request for the page at a cursor and returns its status, its
// body and the next page's cursor.
func (l *cursorList) request(x *everyDoor, cursor string) (status int, text, next string) {
	x.t.Helper()
	path, body := l.path, []byte(nil)
	if l.body != nil {
		var err error
		if body, err = json.Marshal(l.body(cursor)); err != nil {
			x.t.Fatal(err)
		}
	} else if cursor != "" {
		path += "&" + l.query + "=" + url.QueryEscape(cursor)
	}
	r := httptest.NewRequest(l.method, path, bytes.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("X-Auth-Token", x.identity)
	var p door.Params
	route, _ := x.ports[l.door].Find(l.method, r.URL.EscapedPath(), &p)
	if route == nil {
		x.t.Fatalf("%s has no %s %s", l.door, l.method, l.path)
	}
	rec := httptest.NewRecorder()
	route.Serve(rec, r, p)
	var out map[string]any
	if rec.Code == 200 && json.Unmarshal(rec.Body.Bytes(), &out) == nil {
		var at any = out
		for _, name := range l.next {
			at = at.(map[string]any)[name]
		}
		next, _ = at.(string)
		if link, err := url.Parse(next); err == nil && link.Host != "" {
			next = link.Query().Get(l.query) // Identity returns the whole URL
		}
	}
	return rec.Code, rec.Body.String(), next
}

// cursorLists returns the paged lists of every door that are about a store,
// which the Permify door knows as tenant.
func cursorLists(id, tenant string) []cursorList {
	native, fga, zen := "/ostiary/v1/stores/"+id, "/stores/"+id, "/authzen/"+id+"/access/v1/search"
	permify := "/v1/tenants/" + tenant
	with := func(name string, page, fields m) func(string) any {
		return func(cursor string) any {
			out := m{}
			for _, part := range []m{page, fields} {
				for k, v := range part {
					out[k] = v
				}
			}
			if cursor != "" {
				out[name] = cursor
			}
			return out
		}
	}
	var lists []cursorList
	add := func(door, name, path string, body func(string) any, next ...string) {
		lists = append(lists, cursorList{name: door + " " + name + " of " + tenant, door: door, method: "POST", path: path, body: body, next: next})
	}
	for name, fields := range map[string]m{
		"list-objects":     {"type": "doc", "relation": "owner", "subject": "user:a"},
		"list-objects ":    {"type": "doc", "relation": "view", "subject": "user:a"},
		"list-subjects ":   {"object": "doc:1", "relation": "view", "subject_type": "user"},
		"list-subjects":    {"object": "doc:1", "relation": "owner", "subject_type": "user"},
		"expand":           {"object": "doc:1", "relation": "owner"},
		"expand ":          {"object": "doc:1", "relation": "view", "levels": 9},
		"expand  ":         {"object": "doc:1", "relation": "view", "levels": 8},
		"read":             {},
		"read ":            {"filter": m{"object_type": "doc"}},
		"read-attributes":  {},
		"read-attributes ": {"filter": m{"object_type": "doc"}},
	} {
		add("native", name, native+"/"+strings.TrimSpace(name), with("cursor", m{"limit": 1}, fields), "next")
	}
	add("native", "changes", native+"/changes", with("after", m{"limit": 1}, nil), "next")
	add("native", "difference", native+"/difference", func(cursor string) any {
		if cursor != "" {
			return m{"object_type": "doc", "relation": "owner", "subject_type": "user", "limit": 1, "cursor": cursor}
		}
		return m{"object_type": "doc", "relation": "owner", "subject_type": "user", "limit": 1, "from": m{"revision": 1}, "to": m{"revision": 2}}
	}, "next")
	add("openfga", "read", fga+"/read", with("continuation_token", m{"page_size": 1}, nil), "continuation_token")
	add("openfga", "read ", fga+"/read", with("continuation_token", m{"page_size": 1}, m{"tuple_key": m{"object": "doc:", "user": "user:a"}}), "continuation_token")
	for name, path := range map[string]string{"models": "/authorization-models?page_size=1", "changes": "/changes?page_size=1"} {
		lists = append(lists, cursorList{name: "openfga " + name + " of " + tenant, door: "openfga", method: "GET", path: fga + path, query: "continuation_token", next: []string{"continuation_token"}})
	}
	subject := m{"type": "user", "id": "a"}
	for name, fields := range map[string]m{
		"permissions/lookup-entity":   {"metadata": m{"depth": 20}, "entity_type": "doc", "permission": "owner", "subject": subject},
		"permissions/lookup-entity ":  {"metadata": m{"depth": 20}, "entity_type": "doc", "permission": "owner", "subject": subject, "scope": m{"user": m{"data": []string{"a"}}}},
		"permissions/lookup-entity  ": {"metadata": m{"depth": 20}, "entity_type": "doc", "permissions": []string{"owner", "view"}, "subject": subject},
		"permissions/lookup-subject":  {"metadata": m{"depth": 20}, "entity": m{"type": "doc", "id": "1"}, "permission": "owner", "subject_reference": m{"type": "user"}},
		"permissions/lookup-subject ": {"metadata": m{"depth": 20}, "entity": m{"type": "doc", "id": "1"}, "permission": "view", "subject_reference": m{"type": "user"}},
		"data/relationships/read":     {"metadata": m{}, "filter": m{}},
		"data/relationships/read ":    {"metadata": m{}, "filter": m{"entity": m{"type": "doc"}}},
		"data/attributes/read":        {"metadata": m{}, "filter": m{}},
		"data/attributes/read ":       {"metadata": m{}, "filter": m{"entity": m{"type": "doc"}}},
		"schemas/list":                {},
	} {
		add("permify", name, permify+"/"+strings.TrimSpace(name), with("continuous_token", m{"page_size": 1}, fields), "continuous_token")
	}
	page := func(fields m) func(string) any {
		return func(cursor string) any {
			p := m{"limit": 1}
			if cursor != "" {
				p["token"] = cursor
			}
			out := m{"page": p}
			for k, v := range fields {
				out[k] = v
			}
			return out
		}
	}
	doc := m{"type": "doc", "id": "1"}
	for name, fields := range map[string]m{
		"resource ": {"subject": subject, "action": m{"name": "view"}, "resource": m{"type": "doc"}},
		"subject ":  {"subject": m{"type": "user"}, "action": m{"name": "view"}, "resource": doc},
		"action ":   {"subject": m{"type": "user", "id": "b"}, "resource": doc},
		"resource":  {"subject": subject, "action": m{"name": "owner"}, "resource": m{"type": "doc"}},
		"subject":   {"subject": m{"type": "user"}, "action": m{"name": "owner"}, "resource": doc},
		"action":    {"subject": subject, "resource": doc},
	} {
		add("authzen", name, zen+"/"+strings.TrimSpace(name), page(fields), "page", "next_token")
	}
	return lists
}

// identityLists makes two records of most kinds of the Identity API, and returns the
// lists of these kinds. A cursor there is the id of the last record. A domain is also a
// project, so the list of domains and that of projects take each other's cursors.
func identityLists(x *everyDoor) (lists []cursorList) {
	x.bootstrap()
	create := func(kind string, fields m) string {
		text, _ := json.Marshal(m{kind: fields})
		r := httptest.NewRequest("POST", "/v3/"+kind+"s", bytes.NewReader(text))
		if kind == "policy" {
			r.URL.Path = "/v3/policies"
		}
		r.Header.Set("X-Auth-Token", x.identity)
		var p door.Params
		route, _ := x.ports["keystone"].Find("POST", r.URL.EscapedPath(), &p)
		rec := httptest.NewRecorder()
		route.Serve(rec, r, p)
		var out map[string]m
		if err := json.Unmarshal(rec.Body.Bytes(), &out); err != nil || rec.Code != 201 {
			x.t.Fatalf("%s: %d %s", kind, rec.Code, rec.Body)
		}
		return out[kind]["id"].(string)
	}
	for _, name := range []string{"one", "two"} {
		create("domain", m{"name": name})
		create("project", m{"name": name})
		create("group", m{"name": name})
		user := create("user", m{"name": name})
		service := create("service", m{"name": name, "type": name})
		create("endpoint", m{"service_id": service, "interface": "public", "url": "http://" + name})
		create("credential", m{"user_id": user, "type": "cert", "blob": name})
		create("policy", m{"type": "text", "blob": name})
	}
	for _, kind := range []string{"projects", "groups", "users", "roles", "services", "endpoints", "credentials", "policies"} {
		lists = append(lists, cursorList{name: "keystone " + kind, door: "keystone", method: "GET", path: "/v3/" + kind + "?limit=1", query: "marker", next: []string{"links", "next"}})
	}
	return lists
}

// searchLists stores a policy that permits everything, and returns searches.
func searchLists(x *everyDoor) (lists []cursorList) {
	var p door.Params
	r := httptest.NewRequest("PUT", "/xacml/v3/root", strings.NewReader(`<Policy xmlns="urn:oasis:names:tc:xacml:3.0:core:schema:wd-17" PolicyId="all" Version="1.0"
		RuleCombiningAlgId="urn:oasis:names:tc:xacml:3.0:rule-combining-algorithm:permit-overrides"><Target/><Rule RuleId="all" Effect="Permit"/></Policy>`))
	r.Header.Set("Content-Type", "application/xml")
	route, _ := x.ports["xacml"].Find("PUT", "/xacml/v3/root", &p)
	rec := httptest.NewRecorder()
	if route.Serve(rec, r, p); rec.Code != 201 {
		x.t.Fatalf("xacml: %d %s", rec.Code, rec.Body)
	}
	attribute := []m{{"AttributeId": "role", "Value": "doctor"}}
	for name, categories := range map[string][2]string{"resources": {"Resource", "Action"}, "actions": {"Action", "Resource"}, "subjects": {"AccessSubject", "Resource"}} {
		lists = append(lists, cursorList{name: "xacml " + name, door: "xacml", method: "POST", path: "/xacml/v3/search", next: []string{"next"},
			body: func(cursor string) any {
				search := m{"request": m{"Request": m{categories[1]: m{"Attribute": attribute}}}, "category": categories[0], "candidates": []string{"a", "b", "c"}, "limit": 1}
				if cursor != "" {
					search["cursor"] = cursor
				}
				return search
			}})
	}
	return lists
}

// TestCursorsOfOtherLists gives the cursor of every list of every door to every
// other list: those of the same door, of other doors and of a twin store. Each
// must refuse it as an error of the client. The list's own cursor is the
// control.
func TestCursorsOfOtherLists(t *testing.T) {
	t.Parallel()
	x := openEveryDoor(t)
	var lists []cursorList
	for _, tenant := range []string{"t1", "twin"} {
		id := x.call("native", "POST", "/ostiary/v1/stores", m{"name": tenant, "aliases": m{"permify": tenant}})["id"].(string)
		schemas := "/ostiary/v1/stores/" + id + "/schemas"
		x.call("native", "POST", schemas, m{"dialect": "permify",
			"source": "entity user {}\nentity doc {\n relation owner @user\n relation other @user\n attribute n integer\n permission view = owner or other\n permission edit = owner\n}\n"})
		var tuples, attributes []m
		for _, doc := range []string{"doc:1", "doc:2", "doc:3"} {
			for _, user := range []string{"user:a", "user:b", "user:c"} {
				tuples = append(tuples, m{"object": doc, "relation": "owner", "subject": user})
			}
			attributes = append(attributes, m{"object": doc, "name": "n", "value": 1})
		}
		x.call("native", "POST", "/ostiary/v1/stores/"+id+"/write", m{"add": tuples, "set_attributes": attributes})
		// OpenFGA lists its models only, and has no attributes.
		for range 2 {
			x.call("native", "POST", schemas, m{"dialect": "openfga-dsl",
				"source": "model\n  schema 1.1\ntype user\ntype doc\n  relations\n    define owner: [user]\n    define other: [user]\n    define view: owner or other\n    define edit: owner\n"})
		}
		lists = append(lists, cursorLists(id, tenant)...)
	}
	lists = append(lists,
		cursorList{name: "native stores", door: "native", method: "GET", path: "/ostiary/v1/stores?limit=1", query: "after", next: []string{"next"}},
		cursorList{name: "openfga stores", door: "openfga", method: "GET", path: "/stores?page_size=1", query: "continuation_token", next: []string{"continuation_token"}},
		cursorList{name: "permify tenants", door: "permify", method: "POST", path: "/v1/tenants/list", next: []string{"continuous_token"},
			body: func(cursor string) any {
				if cursor == "" {
					return m{"page_size": 1}
				}
				return m{"page_size": 1, "continuous_token": cursor}
			}})
	lists = append(append(lists, identityLists(x)...), searchLists(x)...)
	cursors := make([]string, len(lists))
	for i := range lists {
		status, text, next := lists[i].request(x, "")
		if status != 200 || next == "" {
			t.Fatalf("%s: %d %s: expected a page with a cursor", lists[i].name, status, text)
		}
		cursors[i] = next
	}
	refused := 0
	for i := range lists {
		for j := range lists {
			status, text, _ := lists[i].request(x, cursors[j])
			switch {
			case i == j && status != 200:
				t.Errorf("%s refuses its own cursor: %d %s", lists[i].name, status, text)
			case i != j && status/100 != 4:
				t.Errorf("%s takes the cursor of %s: %d %s", lists[i].name, lists[j].name, status, text)
			case i != j:
				refused++
			}
		}
	}
	t.Log(fmt.Sprint(len(lists), " lists refused ", refused, " cursors"))
}
