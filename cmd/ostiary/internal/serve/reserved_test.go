package serve

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/cmd/internal/cli"
	"github.com/ostiary/ostiary/door/openfga"
	"github.com/ostiary/ostiary/expr/cel"
	"github.com/ostiary/ostiary/internal/callers"
	"github.com/ostiary/ostiary/server"
	"github.com/ostiary/ostiary/storage"
	"github.com/ostiary/ostiary/storage/memory"
)

// namesWorld is a server of which callers want to take names that decide for others.
type namesWorld struct {
	t      *testing.T
	engine *ostiary.Engine
	http   string
	keys   map[string]string // secrets by kind of caller
	own    map[string]string // the id of a store that each kind administers
}

// ask sends a request as a kind of caller.
func (w *namesWorld) ask(kind, method, path string, in any) (status int, text string) {
	w.t.Helper()
	r := must(http.NewRequestWithContext(w.t.Context(), method, w.http+path, bytes.NewReader(must(json.Marshal(in))(w.t))))(w.t)
	r.Header.Set("Authorization", "Bearer "+w.keys[kind])
	r.Header.Set("Content-Type", "application/json")
	resp := must(http.DefaultClient.Do(r))(w.t)
	defer resp.Body.Close()
	return resp.StatusCode, string(must(io.ReadAll(resp.Body))(w.t))
}

func newNamesWorld(t *testing.T) *namesWorld {
	flags := &serveFlags{preload: []string{"hot"}}
	flags.door.authzenStore = "payments"
	e := must(ostiary.Open(t.Context(), ostiary.Options{Driver: memory.New(), Conditions: openfga.Conditions{Inner: cel.New(cel.Options{})}, SecretKey: &[32]byte{1},
		Guard: cli.GuardOwned, Reserved: flags.reserved}))(t)
	t.Cleanup(func() { e.Close() })
	x := everyDoorOf(t, e, &flags.door)
	registry := flags.door.native.Callers
	s := must(server.New(server.Options{HTTP: "127.0.0.1:0", Doors: x.doors, Callers: registry, Engine: e, DrainTime: -1}))(t)
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Stop() })
	w := &namesWorld{t: t, engine: e, http: "http://" + s.Addresses()[0].Addr.String(), keys: map[string]string{}, own: map[string]string{}}
	for kind, n := range map[string]callers.NewKey{
		"team":    {Stores: []string{"team-*"}, Rights: []string{"admin"}},
		"letters": {Stores: []string{"team-*", "d*", "p*", "t*", "r*", "h*", "s*"}, Rights: []string{"admin"}}, // has each of the names, but not all stores
		"one":     {Rights: []string{"admin"}},
		"writer":  {Stores: []string{"*"}, Rights: []string{"write", "schema"}},
		"admin":   {Stores: []string{"*"}, Rights: []string{"admin"}},
	} {
		own := must(e.CreateStore(t.Context(), ostiary.CreateStoreRequest{Name: "team-" + kind}))(t)
		if n.Name = kind; n.Stores == nil {
			n.Stores = []string{own.ID().String()}
		}
		w.keys[kind], w.own[kind] = must(registry.Create(t.Context(), n))(t).Secret, own.ID().String()
	}
	return w
}

// take is a request that gives a store a name, or an alias for a door.
type take struct {
	door, name   string // what is taken; door is "" for a name
	method, path string
	body         any
}

// takes returns each way to take a name for a kind of caller.
func (w *namesWorld) takes(kind, door, name string) (out []take) {
	add := func(method, path string, body any) {
		out = append(out, take{door, name, method, path, body})
	}
	own := "/ostiary/v1/stores/" + w.own[kind]
	if door == "" {
		add("POST", "/ostiary/v1/stores", m{"name": name})
		add("POST", "/stores", m{"name": name})
		add("PATCH", own, m{"name": name})
		add("PATCH", "/stores/"+w.own[kind], m{"name": name})
		add("POST", "/v1/tenants/create", m{"id": "team-tenant", "name": name})
		add("POST", "/xacml/v3/domains", m{"name": name, "alias": "team-domain"})
		return out
	}
	add("POST", "/ostiary/v1/stores", m{"name": "team-new", "aliases": m{door: name}})
	add("PATCH", own, m{"aliases": m{door: name}})
	switch door {
	case "permify":
		add("POST", "/v1/tenants/create", m{"id": name, "name": "team-new"})
	case "xacml":
		add("POST", "/xacml/v3/domains", m{"name": "team-new", "alias": name})
	}
	return out
}

// taken returns the store that has a name, or an alias for a door, or nil.
func (w *namesWorld) taken(door, name string) *ostiary.Store {
	w.t.Helper()
	if door == "" {
		for info, err := range w.engine.StoresByName(w.t.Context(), name, storage.StoreID{}) {
			return must(w.engine.Store(w.t.Context(), must(info, err)(w.t).ID))(w.t)
		}
		return nil
	}
	s, err := w.engine.StoreByAlias(w.t.Context(), door, name)
	if errors.Is(err, authz.ErrNoStore) {
		return nil
	}
	return must(s, err)(w.t)
}

// TestNamesDecide takes names that doors, commands and settings find stores by, through every
// route that names a store, as every kind of caller. Only a caller who administers all stores
// gets them; a caller who does not is refused in the same way once they are taken.
func TestNamesDecide(t *testing.T) {
	t.Parallel()
	w := newNamesWorld(t)
	if status, text := w.ask("admin", "DELETE", "/v1/tenants/t1", m{}); status != 200 {
		t.Fatalf("delete the default tenant: %d %s", status, text)
	}
	// The mark of that makes way for the attempts.
	if err := w.engine.DeleteStore(t.Context(), w.taken("permify-deleted", "t1").ID()); err != nil {
		t.Fatal(err)
	}
	relations := "relations-" + w.own["admin"]
	for _, name := range []struct{ door, name string }{
		{"permify", "t1"}, {"permify-deleted", "t1"}, {"permify-deleted", "team-x"}, {"xacml", "default"}, {"xacml", relations}, {"authzen", "default"}, {"authzen", "payments"},
		{"onap", "default"}, {"keystone", "default"}, {"system", "team-x"}, {"native", "default"}, {"openfga", "default"}, {"acp", "default"}, {"authzen", "hot"},
		{"", "hot"}, {"", "system"},
	} {
		for _, kind := range []string{"team", "letters", "one", "writer"} {
			for _, r := range w.takes(kind, name.door, name.name) {
				status, text := w.ask(kind, r.method, r.path, r.body)
				owned := status == 400 && strings.Contains(text, "records of the protocol") // a store of another door
				if status != 403 && !owned && !(kind == "writer" && status == 401) {
					t.Errorf("%s takes %q of %q by %s %s: %d %s", kind, name.name, name.door, r.method, r.path, status, text)
				}
				if w.taken(name.door, name.name) != nil {
					t.Fatalf("%s has %q of %q by %s %s", kind, name.name, name.door, r.method, r.path)
				}
			}
		}
		got := 0
		for _, r := range w.takes("admin", name.door, name.name) {
			status, text := w.ask("admin", r.method, r.path, r.body)
			s := w.taken(name.door, name.name)
			if s == nil {
				if status/100 == 2 || status == 403 && name.door != "system" { // which no caller gets
					t.Errorf("admin takes %q of %q by %s %s: %d %s", name.name, name.door, r.method, r.path, status, text)
				}
				continue
			}
			got++
			for _, again := range w.takes("team", name.door, name.name) {
				if status, text := w.ask("team", again.method, again.path, again.body); status != 403 && !strings.Contains(text, "records of the protocol") {
					t.Errorf("team takes %q of %q, which is taken, by %s %s: %d %s", name.name, name.door, again.method, again.path, status, text)
				}
			}
			if s.ID().String() == w.own["admin"] {
				w.ask("admin", "PATCH", "/ostiary/v1/stores/"+w.own["admin"], m{"name": "team-admin", "aliases": m{}})
			} else if err := w.engine.DeleteStore(t.Context(), s.ID()); err != nil {
				t.Fatal(err)
			}
		}
		if got == 0 && cli.DoorOf(map[string]string{name.door: name.name}) == "" {
			t.Errorf("admin has not got %q of %q in any way", name.name, name.door)
		}
	}
}

// TestOwnNames checks that a caller names its own stores: by names and aliases of its scope.
func TestOwnNames(t *testing.T) {
	t.Parallel()
	w := newNamesWorld(t)
	for _, r := range []struct {
		kind, method, path string
		body               any
		status             int
	}{
		{"team", "POST", "/ostiary/v1/stores", m{"name": "team-2", "aliases": m{"authzen": "team-2", "permify": "team-2"}}, 201},
		{"team", "POST", "/v1/tenants/create", m{"id": "team-3", "name": "team-3"}, 200},
		{"team", "POST", "/v1/tenants/create", m{"id": "acme", "name": "team-4"}, 403},
		{"team", "POST", "/xacml/v3/domains", m{"name": "team-5", "alias": "team-5"}, 201},
		{"team", "POST", "/xacml/v3/domains", m{"name": "team-6", "alias": "payments"}, 403},
		{"team", "POST", "/ostiary/v1/stores", m{"name": "team-7", "aliases": m{"anything": "payments"}}, 403},
		{"team", "POST", "/ostiary/v1/stores", m{"name": "team-8", "id": "01HVMMBCMGZNT3SED4Z17ECXCA"}, 403},
		{"admin", "POST", "/ostiary/v1/stores", m{"name": "team-8", "id": "01HVMMBCMGZNT3SED4Z17ECXCA"}, 201},
		{"one", "PATCH", "/ostiary/v1/stores/" + w.own["one"], m{"name": "payments"}, 403},
		{"one", "PATCH", "/ostiary/v1/stores/" + w.own["one"], m{"name": "team-one", "aliases": m{}}, 200},
		{"team", "PATCH", "/ostiary/v1/stores/" + w.own["team"], m{"name": "team-renamed", "aliases": m{"native": "team-renamed"}}, 200},
		{"team", "PATCH", "/ostiary/v1/stores/" + w.own["team"], m{"name": "team"}, 403},
	} {
		if status, text := w.ask(r.kind, r.method, r.path, r.body); status != r.status {
			t.Errorf("%s: %s %s %v: %d %s, want %d", r.kind, r.method, r.path, r.body, status, text, r.status)
		}
	}
	// What has a name already keeps it, and changes otherwise.
	old := must(w.engine.CreateStore(t.Context(), ostiary.CreateStoreRequest{Name: "team-old", Aliases: map[string]string{"authzen": "payments"}}))(t)
	if status, text := w.ask("team", "PATCH", "/ostiary/v1/stores/"+old.ID().String(), m{"name": "team-older", "aliases": m{"authzen": "payments", "native": "team-older"}}); status != 200 {
		t.Errorf("a store with a reserved alias: %d %s", status, text)
	}
}
