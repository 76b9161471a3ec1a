package native_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/storage"
	"github.com/ostiary/ostiary/storage/memory"
)

// scope is the access of a caller that has rights on the stores with one name.
type scope struct {
	name   string
	rights []authz.Right
}

func (s scope) Allow(_ context.Context, right authz.Right, store storage.StoreInfo) error {
	for _, r := range s.rights {
		if store.Name == s.name && (r == right || right == authz.RightRead || r == authz.RightAdmin) {
			return nil
		}
	}
	return authz.ErrForbidden
}

// TestDetails asks for what is known of stores in memory, as callers with different rights. The
// list has no store that the caller may not read, and loads none.
func TestDetails(t *testing.T) {
	t.Parallel()
	driver := memory.New()
	w := open(t, ostiary.Options{Driver: driver})
	w.acme(t)
	w.do(t, "POST", "/stores", `{"name":"other"}`)
	w.do(t, "POST", "/stores/acme/write", `{"add":[{"object":"document:1","relation":"viewer","subject":"user:anne"}]}`)
	store := w.do(t, "GET", "/stores/acme", "")
	if store["rights"] != nil || store["loaded"] != nil {
		t.Errorf("details that the request does not have: %v", store)
	}
	cold := open(t, ostiary.Options{Driver: driver}) // another engine, which has loaded nothing
	list := func(x *world, as authz.Access) []any {
		t.Helper()
		r := httptest.NewRequest("GET", "/ostiary/v1/stores?details=true", nil)
		if as != nil {
			r = r.WithContext(authz.WithAccess(r.Context(), as))
		}
		rec := httptest.NewRecorder()
		x.ServeHTTP(rec, r)
		if rec.Code != http.StatusOK {
			t.Fatalf("%d %s", rec.Code, rec.Body)
		}
		return decode(t, rec.Body.Bytes())["stores"].([]any)
	}
	all := []any{"read", "write", "schema", "admin"}
	for _, s := range list(cold, nil) {
		s := s.(map[string]any)
		if s["loaded"] != false || s["head"] != nil || s["tuples"] != nil || !reflect.DeepEqual(s["rights"], all) {
			t.Errorf("of a store that is not loaded: %v", s)
		}
	}
	if n := cold.engine.Loaded(); n != 0 {
		t.Errorf("the list has loaded %d stores", n)
	}
	var warm map[string]any
	for _, s := range list(w, nil) { // ids of one millisecond have any order
		if s := s.(map[string]any); s["id"] == store["id"] {
			warm = s
		}
	}
	if warm["loaded"] != true || warm["head"] != store["revision"] || warm["tuples"] != json.Number("1") || warm["attributes"] != json.Number("0") || warm["bytes"] == nil || warm["changed"] == nil {
		t.Errorf("of a loaded store: %v", warm)
	}
	for _, c := range []struct {
		scope
		want []any
	}{
		{scope{"acme", []authz.Right{authz.RightRead}}, []any{"read"}},
		{scope{"acme", []authz.Right{authz.RightWrite}}, []any{"read", "write"}},
		{scope{"acme", []authz.Right{authz.RightAdmin}}, all},
	} {
		stores := list(w, c.scope)
		if len(stores) != 1 || !reflect.DeepEqual(stores[0].(map[string]any)["rights"], c.want) {
			t.Errorf("the rights %v: %v, want %v", c.rights, stores, c.want)
		}
		for name, want := range map[string][]any{"acme": c.want, "new": {}, "": {}} {
			r := httptest.NewRequest("GET", "/ostiary/v1/me?name="+name, nil)
			rec := httptest.NewRecorder()
			w.ServeHTTP(rec, r.WithContext(authz.WithAccess(r.Context(), c.scope)))
			if got := decode(t, rec.Body.Bytes())["rights"]; !reflect.DeepEqual(got, want) {
				t.Errorf("the rights %v on a new store %q: %s, want %v", c.rights, name, rec.Body, want)
			}
		}
	}
	if stores := list(w, scope{"nothing", []authz.Right{authz.RightAdmin}}); len(stores) != 0 {
		t.Errorf("a caller sees foreign stores: %v", stores)
	}
	for _, path := range []string{"/stores?details=yes", "/stores/acme?details=", "/me?x=1", "/me?name=" + strings.Repeat("x", 513)} {
		if rec := w.send(t, "GET", path, ""); rec.Code != 400 || !strings.Contains(rec.Body.String(), "invalid_request") {
			t.Errorf("%s: %d %s", path, rec.Code, rec.Body)
		}
	}
}
