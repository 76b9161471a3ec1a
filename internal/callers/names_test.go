package callers

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/internal/engine/documents"
)

// reading returns a key that reads the stores of a team.
func reading(name string) NewKey {
	return NewKey{Name: name, Stores: []string{"team-a"}, Rights: []string{"read"}}
}

// TestNamesOfCallers makes keys with the names of other callers of the log, or with names
// that look like another one.
func TestNamesOfCallers(t *testing.T) {
	t.Parallel()
	w := open(t)
	w.Avoid(func() []string { return []string{"ops", "team~ops"} })
	admin, _ := w.key(t.Context(), NewKey{Name: "admin", Stores: []string{"*"}, Rights: []string{"admin"}})
	for _, name := range []string{
		"local", "Local", "library", "collector", "import", "bootstrap", "anonymous", "certificate/dns:web",
		"ops", "team~ops", "key-0ae70fa0", "KEY-0AE70FA0", strings.Repeat("0a", 16), strings.Repeat("0A", 32),
		"https://login.example.com#anne", "admin~x", "a~~b", "~a", "a~", "a/b",
		" admin", "admin ", "ad\u200bmin", "\u202eadmin", "admin\u00a0", "ad\u00admin", "ad\nmin", "\xff", strings.Repeat("a", 257),
	} {
		for kind, ctx := range map[string]context.Context{"the folder": t.Context(), "admin": authz.WithAccess(t.Context(), admin)} {
			if _, err := w.Create(ctx, reading(name)); !errors.Is(err, authz.ErrInvalidRequest) {
				t.Errorf("%q by %s: %v", name, kind, err)
			}
		}
	}
	for _, name := range []string{"key-0ae70fa", "key-of-anne", "Ölmühle 7", "anne@example.com", "svc:prod", "0a0a", strings.Repeat("a", 256)} {
		if _, err := w.Create(authz.WithAccess(t.Context(), admin), reading(name)); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// TestNamesByMaker makes keys with keys that do not administer all stores: the answer about a
// name does not depend on whether a key has it that the maker does not see.
func TestNamesByMaker(t *testing.T) {
	t.Parallel()
	w := open(t)
	team, _ := w.key(t.Context(), NewKey{Name: "team", Stores: []string{"team-*"}, Rights: []string{"admin"}})
	narrow, _ := w.key(t.Context(), NewKey{Name: "narrow", Stores: []string{"team-*"}, Rights: []string{"admin"}, Doors: []string{"native"}})
	w.Avoid(func() []string { return []string{"ops"} })
	w.key(t.Context(), NewKey{Name: "hidden", Stores: []string{"*"}, Rights: []string{"read"}})
	as := func(a authz.Access) context.Context { return authz.WithAccess(t.Context(), a) }
	answers := map[string]bool{}
	for _, name := range []string{"hidden", "free", "ops", "team", "hidden~x", "free~x", "team~x~y"} {
		_, err := w.Create(as(team), reading(name))
		if !errors.Is(err, authz.ErrForbidden) {
			t.Errorf("%q by team: %v", name, err)
			continue
		}
		answers[err.Error()] = true
	}
	if len(answers) != 1 {
		t.Errorf("the answers differ: %v", answers)
	}
	lesser := NewKey{Name: "team~lesser", Stores: []string{"team-x*"}, Rights: []string{"admin"}}
	below, _ := w.key(as(team), lesser)
	if _, err := w.Create(as(team), lesser); !errors.Is(err, ErrKeyExists) {
		t.Errorf("the name of a key that the maker sees: %v", err)
	}
	deep := NewKey{Name: "team~lesser~x", Stores: []string{"team-x"}, Rights: []string{"read"}}
	if _, err := w.Create(as(below), deep); err != nil {
		t.Error(err)
	}
	if _, err := w.Revoke(as(team), "team~lesser~x"); err != nil {
		t.Errorf("a key that a made key has made: %v", err)
	}
	both := &Matched{registry: w.Registry, credentials: []*Credential{narrow, team}}
	if _, err := w.Create(as(both), reading("team~by both")); err != nil {
		t.Error(err)
	}
	if _, err := w.Create(as(both), reading("narrow~by both")); !errors.Is(err, authz.ErrForbidden) {
		t.Errorf("the name of a key that does not cover the new one: %v", err)
	}
	native := reading("narrow~by both")
	native.Doors = []string{"native"}
	if _, err := w.Create(as(both), native); err != nil {
		t.Error(err)
	}
	if _, err := w.Create(t.Context(), reading("team~by the folder")); !errors.Is(err, authz.ErrInvalidRequest) {
		t.Errorf("a name of a key that a key makes, without one: %v", err)
	}
}

// fill makes n keys by their documents.
func (w *world) fill(n int, name string) {
	w.Helper()
	s, err := w.documents.Create(w.Context())
	for i := 0; i < n && err == nil; {
		var r authz.WriteRequest
		for ; i < n && len(r.Documents) < 100; i++ {
			k := &Key{ID: newKeyID(), Name: fmt.Sprint(name, i), Rights: []authz.Right{authz.RightRead}, Stores: []Place{{Pattern: "team-a"}}, Doors: []string{all}}
			document, _ := k.document()
			r.Documents = append(r.Documents, document)
		}
		_, err = s.Store.Write(documents.SystemContext(w.Context()), r)
	}
	if err != nil {
		w.Fatal(err)
	}
}

// TestShares makes more keys with keys than one maker, and all makers together, may make.
// Who administers all stores makes the rest.
func TestShares(t *testing.T) {
	t.Parallel()
	w := open(t)
	as := map[string]context.Context{"": t.Context()}
	for name, stores := range map[string]string{"admin": "*", "team": "team-*", "team two": "team-*"} {
		c, _ := w.key(t.Context(), NewKey{Name: name, Stores: []string{stores}, Rights: []string{"admin"}})
		as[name] = authz.WithAccess(t.Context(), c)
	}
	lesser, _ := w.key(as["team"], NewKey{Name: "team~lesser", Stores: []string{"team-*"}, Rights: []string{"admin"}})
	as["team~lesser"] = authz.WithAccess(t.Context(), lesser)
	create := func(by, name, bound string) {
		t.Helper()
		_, err := w.Create(as[by], reading(name))
		var exceeded *authz.BoundError
		switch errors.As(err, &exceeded); {
		case bound == "" && err != nil, bound != "" && (exceeded == nil || exceeded.Name != bound):
			t.Errorf("%q by %q: %v, want the bound %q", name, by, err, bound)
		}
	}
	w.fill(500, "team~")
	w.fill(498, "team~lesser~")
	create("team~lesser", "team~lesser~last", "")
	create("team~lesser", "team~lesser~one more", "KeysByMakerMax")
	create("team", "team~one more", "KeysByMakerMax")
	create("team two", "team two~first", "")
	create("admin", "plain", "")
	if _, err := w.Revoke(as["team"], "team~7"); err != nil {
		t.Fatal(err)
	}
	create("team", "team~in place of 7", "")
	total, err := w.Len(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	w.fill(9_000-total-1, "old ")
	create("team two", "team two~last", "")
	create("team two", "team two~one more", "KeysMax")
	create("admin", "plain one", "")
	w.fill(10_000-9_001-1, "older ")
	create("", "last", "")
	create("admin", "plain two", "KeysMax")
	create("", "plain three", "KeysMax")
}
