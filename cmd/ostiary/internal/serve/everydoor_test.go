package serve

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/cmd/ostiary/internal/protocols"
	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/door/keystone"
	"github.com/ostiary/ostiary/door/openfga"
	"github.com/ostiary/ostiary/expr/cel"
	"github.com/ostiary/ostiary/internal/identity"
	"github.com/ostiary/ostiary/internal/identity/password"
	"github.com/ostiary/ostiary/internal/identity/settings"
	"github.com/ostiary/ostiary/storage"
)

// everyDoor has all doors on one engine, without a network.
type everyDoor struct {
	t      *testing.T
	engine *ostiary.Engine
	doors  []*door.Door
	ports  map[string]*door.Router
	id     string
	// identity is the token of an administrator of the Identity API; "" before
	// bootstrap.
	identity string
	user     string            // the id of the administrator
	existing map[string]string // paths of resources of the Identity API, and the id of one
}

func openEveryDoor(t *testing.T) *everyDoor {
	t.Helper()
	return openEveryDoorOn(t, nil)
}

// openEveryDoorOn is openEveryDoor with a driver; nil means one in memory.
func openEveryDoorOn(t *testing.T, driver storage.Driver) *everyDoor {
	t.Helper()
	e, err := ostiary.Open(context.Background(), ostiary.Options{Driver: driver, Conditions: openfga.Conditions{Inner: cel.New(cel.Options{})}, SecretKey: &[32]byte{1}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	f := &DoorFlags{}
	f.keystone.Identity.Rounds = password.RoundsMin
	return everyDoorOf(t, e, f)
}

// everyDoorOf returns all doors of an engine with settings.
func everyDoorOf(t *testing.T, e *ostiary.Engine, f *DoorFlags) *everyDoor {
	t.Helper()
	doors, err := AllDoors(e, f)
	if err != nil {
		t.Fatal(err)
	}
	x := &everyDoor{t: t, engine: e, doors: doors, ports: map[string]*door.Router{}}
	for _, d := range doors {
		if x.ports[d.Name], err = door.NewRouter(d.Routes); err != nil {
			t.Fatal(err)
		}
	}
	return x
}

// bootstrap makes the first key, which creates the system store, and a deployment of the
// Identity API, and logs in as its administrator. This node must be able to write.
func (x *everyDoor) bootstrap() {
	x.t.Helper()
	x.call("native", "POST", "/ostiary/v1/keys", m{"name": "first", "stores": []string{"*"}, "rights": []string{"read"}})
	if _, err := protocols.BootstrapIdentity(x.t.Context(), x.engine, identity.BootstrapOptions{Password: "secret"}, settings.Deployment{Rounds: password.RoundsMin}); err != nil {
		x.t.Fatal(err)
	}
	text := `{"auth":{"identity":{"methods":["password"],"password":{"user":{"name":"admin","domain":{"id":"default"},"password":"secret"}}},"scope":{"system":{"all":true}}}}`
	r := httptest.NewRequest("POST", "/v3/auth/tokens", strings.NewReader(text))
	var p door.Params
	route, _ := x.ports[keystone.Name].Find("POST", "/v3/auth/tokens", &p)
	rec := httptest.NewRecorder()
	route.Serve(rec, r, p)
	var login struct {
		Token struct{ User struct{ ID string } }
	}
	if err := json.Unmarshal(rec.Body.Bytes(), &login); err != nil {
		x.t.Fatalf("login: %d %s", rec.Code, rec.Body)
	}
	x.identity, x.user = rec.Header().Get("X-Subject-Token"), login.Token.User.ID
}

// resources makes one resource of each type of the Identity API whose changes are
// refused before their body is read if the resource does not exist.
func (x *everyDoor) resources() {
	x.t.Helper()
	x.existing = map[string]string{"/v3/users": x.user, "/v3/domains": "default"}
	for path, in := range map[string]m{
		"/v3/groups":                       {"group": m{"name": "huge"}},
		"/v3/projects":                     {"project": m{"name": "huge"}},
		"/v3/roles":                        {"role": m{"name": "huge"}},
		"/v3/regions":                      {"region": m{}},
		"/v3/services":                     {"service": m{"type": "huge"}},
		"/v3/credentials":                  {"credential": m{"type": "cert", "blob": "{}", "user_id": x.user}},
		"/v3/OS-OAUTH1/consumers":          {"consumer": m{}},
		"/v3/OS-EP-FILTER/endpoint_groups": {"endpoint_group": m{"name": "huge", "filters": m{"interface": "public"}}},
		"/v3/policies":                     {"policy": m{"type": "text", "blob": "{}"}},
	} {
		for _, made := range x.call(keystone.Name, "POST", path, in) {
			x.existing[path] = made.(m)["id"].(string)
		}
	}
	x.call(keystone.Name, "PUT", "/v3/domains/default/config", m{"config": m{"identity": m{"driver": "sql"}}})
	for name, in := range map[string]m{"mappings": {"mapping": m{"rules": []m{{"local": []m{{"user": m{"name": "{0}"}}}, "remote": []m{{"type": "sub"}}}}}},
		"identity_providers": {"identity_provider": m{}}, "service_providers": {"service_provider": m{"auth_url": "https://a.example", "sp_url": "https://a.example"}}} {
		x.call(keystone.Name, "PUT", "/v3/OS-FEDERATION/"+name+"/huge", in)
		x.existing["/v3/OS-FEDERATION/"+name] = "huge"
	}
	x.existing["/v3/endpoints"] = x.call(keystone.Name, "POST", "/v3/endpoints", m{"endpoint": m{"interface": "public", "url": "https://a.example",
		"service_id": x.existing["/v3/services"]}})["endpoint"].(m)["id"].(string)
	x.call("xacml", "POST", "/xacml/v3/domains", m{"name": "huge", "alias": "huge", "relations": x.id})
}

// call sends a request to a door and decodes the response.
func (x *everyDoor) call(name, method, path string, in any) (out map[string]any) {
	x.t.Helper()
	text, err := json.Marshal(in)
	if err != nil {
		x.t.Fatal(err)
	}
	r := httptest.NewRequest(method, path, bytes.NewReader(text))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("X-Auth-Token", x.identity)
	var p door.Params
	route, _ := x.ports[name].Find(method, r.URL.EscapedPath(), &p)
	if route == nil {
		x.t.Fatalf("%s has no %s %s", name, method, path)
	}
	rec := httptest.NewRecorder()
	route.Serve(rec, r, p)
	if rec.Code/100 != 2 {
		x.t.Fatalf("%s %s %s: %d %s", name, path, text, rec.Code, rec.Body)
	}
	if rec.Body.Len() > 0 {
		if err := json.Unmarshal(rec.Body.Bytes(), &out); err != nil {
			x.t.Fatalf("%s %s: %v in %s", name, path, err, rec.Body)
		}
	}
	return out
}

type m = map[string]any

// checkAll runs one check through every door that can express it, and returns the
// results by door.
func (x *everyDoor) checkAll(typ, id, relation, subjectType, subjectID string) map[string]bool {
	x.t.Helper()
	out := map[string]bool{
		"native": x.call("native", "POST", "/ostiary/v1/stores/"+x.id+"/check",
			m{"object": typ + ":" + id, "relation": relation, "subject": subjectType + ":" + subjectID})["allowed"].(bool),
		"authzen": x.call("authzen", "POST", "/authzen/"+x.id+"/access/v1/evaluation", m{"subject": m{"type": subjectType, "id": subjectID},
			"action": m{"name": relation}, "resource": m{"type": typ, "id": id}})["decision"].(bool),
	}
	if !strings.Contains(id+subjectID, ":") { // OpenFGA allows no colon in an id
		out["openfga"] = x.call("openfga", "POST", "/stores/"+x.id+"/check",
			m{"tuple_key": m{"user": subjectType + ":" + subjectID, "relation": relation, "object": typ + ":" + id}})["allowed"].(bool)
	}
	return out
}

// TestEveryDoor writes through one door and checks through the others, with names
// that need escaping in paths, queries, JSON and patterns.
func TestEveryDoor(t *testing.T) {
	t.Parallel()
	x := openEveryDoor(t)
	x.id = x.call("openfga", "POST", "/stores", m{"name": "one for all"})["id"].(string)
	x.call("native", "POST", "/ostiary/v1/stores/"+x.id+"/schemas", m{"dialect": "openfga-dsl", "source": `model
  schema 1.1
type user
type group
  relations
    define member: [user]
type document
  relations
    define owner: [user]
    define viewer: [user, user:*, group#member] or owner
`})
	names := []string{"plain", "a/b", "a%2Fb", "é", "日本", "😀", "q\"uote", "back\\slash", "plus+and&equals=", "1,2", "[x]", "..", "%", "semi;colon",
		"mail@example.com", "UPPER", "upper", "<b>", "'", "null", "{}", strings.Repeat("x", 200)}
	for i, name := range names {
		// The doors take turns in writing. Each name is an object id and a subject id.
		switch i % 2 {
		case 0:
			x.call("openfga", "POST", "/stores/"+x.id+"/write", m{"writes": m{"tuple_keys": []m{
				{"user": "user:" + name, "relation": "member", "object": "group:" + name},
				{"user": "group:" + name + "#member", "relation": "viewer", "object": "document:" + name}}}})
		case 1:
			x.call("native", "POST", "/ostiary/v1/stores/"+x.id+"/write", m{"add": []m{
				{"subject": "user:" + name, "relation": "member", "object": "group:" + name},
				{"subject": "group:" + name + "#member", "relation": "viewer", "object": "document:" + name}}})
		}
	}
	x.call("native", "POST", "/ostiary/v1/stores/"+x.id+"/write", m{"add": []m{
		{"subject": "user:urn:x:1", "relation": "owner", "object": "document:https://example.com/a?b=c"}}})
	for i, name := range names {
		for door, got := range x.checkAll("document", name, "viewer", "user", name) {
			if !got {
				t.Errorf("%q is denied through %s", name, door)
			}
		}
		other := names[(i+1)%len(names)]
		for door, got := range x.checkAll("document", name, "viewer", "user", other) {
			if got {
				t.Errorf("%q has the access of %q through %s", other, name, door)
			}
		}
	}
	for door, got := range x.checkAll("document", "https://example.com/a?b=c", "viewer", "user", "urn:x:1") {
		if !got {
			t.Errorf("an id with colons is denied through %s", door)
		}
	}
	x.listed(names[3])
}

// listed checks that the lists of each door return one name.
func (x *everyDoor) listed(name string) {
	x.t.Helper()
	var got []string
	for _, o := range x.call("native", "POST", "/ostiary/v1/stores/"+x.id+"/list-objects",
		m{"type": "document", "relation": "viewer", "subject": "user:" + name})["objects"].([]any) {
		got = append(got, o.(string))
	}
	for _, o := range x.call("openfga", "POST", "/stores/"+x.id+"/list-objects",
		m{"type": "document", "relation": "viewer", "user": "user:" + name})["objects"].([]any) {
		got = append(got, o.(string))
	}
	for _, o := range x.call("authzen", "POST", "/authzen/"+x.id+"/access/v1/search/resource", m{"subject": m{"type": "user", "id": name},
		"action": m{"name": "viewer"}, "resource": m{"type": "document"}})["results"].([]any) {
		got = append(got, fmt.Sprint(o.(m)["type"], ":", o.(m)["id"]))
	}
	if want := "document:" + name; !slices.Equal(got, []string{want, want, want}) {
		x.t.Errorf("the list of %q is %q", want, got)
	}
}
