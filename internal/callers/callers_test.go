package callers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/internal/workshop/wait"
	"github.com/ostiary/ostiary/storage"
	"github.com/ostiary/ostiary/storage/memory"
)

var testDoors = []string{"native", "openfga"}

// world is an engine with stores and a registry.
type world struct {
	*testing.T
	engine *ostiary.Engine
	*Registry
	ahead  atomic.Int64 // of the clock, in nanoseconds
	clock  time.Time
	driver storage.Driver
}

func open(t *testing.T) *world {
	t.Helper()
	w := &world{T: t, driver: memory.New(), clock: time.Now()}
	w.engine, w.Registry = w.node()
	return w
}

func (w *world) now() time.Time { return w.clock.Add(time.Duration(w.ahead.Load())) }

// node opens another engine and its registry on the same driver.
func (w *world) node() (*ostiary.Engine, *Registry) {
	w.Helper()
	e, err := ostiary.Open(w.Context(), ostiary.Options{Driver: w.driver})
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { e.Close() })
	return e, New(e, Options{Doors: testDoors, Clock: w.now})
}

func (w *world) store(name string) *ostiary.Store {
	w.Helper()
	s, err := w.engine.CreateStore(w.Context(), ostiary.CreateStoreRequest{Name: name, Aliases: map[string]string{"native": cmp.Or(name, "unnamed")}})
	if err != nil {
		w.Fatal(err)
	}
	return s
}

func (w *world) key(ctx context.Context, n NewKey) (*Credential, string) {
	w.Helper()
	made, err := w.Create(ctx, n)
	if err != nil {
		w.Fatal(err)
	}
	c, err := w.Secret(w.Context(), made.Secret)
	if err != nil || c == nil {
		w.Fatalf("the new key is not accepted: %v", err)
	}
	return c, made.Secret
}

// TestScopes asks for each right on each store, for keys of many scopes. The answer of
// the registry is that of the relations of the schema, written down here once more.
func TestScopes(t *testing.T) {
	t.Parallel()
	w := open(t)
	stores := []*ostiary.Store{w.store("team-a"), w.store("team-b"), w.store("other"), w.store("*"), w.store("")}
	rights := []authz.Right{authz.RightRead, authz.RightWrite, authz.RightSchema, authz.RightAdmin}
	for _, c := range []struct {
		stores []string
		has    []bool // by store
	}{
		{[]string{stores[0].ID().String()}, []bool{true, false, false, false, false}},
		{[]string{"native/team-b"}, []bool{false, true, false, false, false}},
		{[]string{"team-*"}, []bool{true, true, false, false, false}},
		{[]string{"team-a"}, []bool{true, false, false, false, false}},
		{[]string{"*"}, []bool{true, true, true, true, true}},
		{[]string{"other", "team-b"}, []bool{false, true, true, false, false}},
		{[]string{"nothing*"}, []bool{false, false, false, false, false}},
	} {
		for _, right := range rights {
			credential, _ := w.key(t.Context(), NewKey{Name: strings.ReplaceAll(strings.Join(c.stores, " "), "/", " ") + right.String(), Stores: slices.Clone(c.stores), Rights: []string{right.String()}})
			for i, s := range stores {
				for _, wanted := range rights {
					may := c.has[i] && (wanted == right || wanted == authz.RightRead || right == authz.RightAdmin)
					for range 2 { // the second one is remembered
						if err := credential.Allow(t.Context(), wanted, s.Info()); (err == nil) != may || err != nil && !errors.Is(err, authz.ErrForbidden) {
							t.Errorf("%s on %v: %s of %q: %v, want %t", right, c.stores, wanted, s.Info().Name, err, may)
						}
					}
				}
			}
		}
	}
}

// TestNames renames a store out of the names of a key and back.
func TestNames(t *testing.T) {
	t.Parallel()
	w := open(t)
	s := w.store("team-a")
	c, _ := w.key(t.Context(), NewKey{Name: "k", Stores: []string{"team-*"}, Rights: []string{"read"}})
	for _, name := range []string{"team-a", "foreign", "team-b"} {
		if err := w.engine.UpdateStore(t.Context(), s.ID(), func(n *string, _ map[string]string) error { *n = name; return nil }); err != nil {
			t.Fatal(err)
		}
		if _, err := w.engine.Store(authz.WithAccess(t.Context(), c), s.ID()); (err == nil) != strings.HasPrefix(name, "team-") {
			t.Errorf("the store is named %q: %v", name, err)
		}
	}
}

// TestSystemStore: no list has the store, a key for all stores cannot read it unless it
// administers them, and only this package writes it.
func TestSystemStore(t *testing.T) {
	t.Parallel()
	w := open(t)
	w.store("a")
	reader, _ := w.key(t.Context(), NewKey{Name: "reader", Stores: []string{"*"}, Rights: []string{"read", "write", "schema"}})
	admin, secret := w.key(t.Context(), NewKey{Name: "admin", Stores: []string{"*"}, Rights: []string{"admin"}})
	system, err := w.engine.StoreByAlias(t.Context(), ostiary.SystemDoor, "default")
	if err != nil {
		t.Fatal(err)
	}
	for right := authz.RightRead; right <= authz.RightAdmin; right++ {
		if err := reader.Allow(t.Context(), right, system.Info()); err == nil {
			t.Errorf("a key that administers nothing has %s on the system store", right)
		}
		if err := admin.Allow(t.Context(), right, system.Info()); (err == nil) != (right == authz.RightRead) {
			t.Errorf("a key that administers all has %s on the system store: %v", right, err)
		}
	}
	for info := range w.engine.Stores(t.Context(), storage.StoreID{}) {
		if info.ID == system.ID() {
			t.Error("the list of stores has the system store")
		}
	}
	page, err := system.Changes(t.Context(), authz.ChangesRequest{})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range page.Entries {
		for _, c := range e.Changes {
			if strings.Contains(string(c.Document.Body), secret[len(SecretPrefix)+13:]) {
				t.Error("the system store has the secret of a key")
			}
		}
	}
}

// TestStrongerKey makes keys with keys: only a key whose scope the maker covers, with the
// right to administer, can be made, seen, rotated and revoked.
func TestStrongerKey(t *testing.T) {
	t.Parallel()
	w := open(t)
	a, b := w.store("team-a"), w.store("team-b")
	soon := w.clock.Add(time.Hour)
	maker, _ := w.key(t.Context(), NewKey{Name: "maker", Stores: []string{"team-*", b.ID().String()}, Rights: []string{"admin"}, Doors: []string{"native"}, Expires: soon})
	writer, _ := w.key(t.Context(), NewKey{Name: "writer", Stores: []string{"*"}, Rights: []string{"read", "write", "schema"}})
	w.key(t.Context(), NewKey{Name: "foreign", Stores: []string{"*"}, Rights: []string{"read"}})
	as := func(c *Credential) context.Context { return authz.WithAccess(t.Context(), c) }
	good := NewKey{Stores: []string{"team-x*"}, Rights: []string{"read"}, Doors: []string{"native"}, Expires: soon}
	for name, c := range map[string]struct {
		change func(*NewKey)
		by     *Credential
		ok     bool
	}{
		"narrower names":   {func(*NewKey) {}, maker, true},
		"the same names":   {func(n *NewKey) { n.Stores = []string{"team-*"} }, maker, true},
		"one name":         {func(n *NewKey) { n.Stores = []string{"team-a"} }, maker, true},
		"its store":        {func(n *NewKey) { n.Stores = []string{b.ID().String()} }, maker, true},
		"an administrator": {func(n *NewKey) { n.Rights = []string{"admin"} }, maker, true},
		"a store by its id that only a pattern covers": {func(n *NewKey) { n.Stores = []string{a.ID().String()} }, maker, false},
		"wider names":        {func(n *NewKey) { n.Stores = []string{"team*"} }, maker, false},
		"all stores":         {func(n *NewKey) { n.Stores = []string{"*"} }, maker, false},
		"one store too many": {func(n *NewKey) { n.Stores = []string{"team-x", "other"} }, maker, false},
		"another door":       {func(n *NewKey) { n.Doors = []string{"openfga"} }, maker, false},
		"all doors":          {func(n *NewKey) { n.Doors = nil }, maker, false},
		"a later end":        {func(n *NewKey) { n.Expires = soon.Add(1) }, maker, false},
		"no end":             {func(n *NewKey) { n.Expires = time.Time{} }, maker, false},
		"no administrator":   {func(*NewKey) {}, writer, false},
	} {
		n := good
		n.Name = c.by.Key().Name + "~" + name
		c.change(&n)
		if _, err := w.Create(as(c.by), n); (err == nil) != c.ok || err != nil && !errors.Is(err, authz.ErrForbidden) {
			t.Errorf("%s: %v, want %t", name, err, c.ok)
		}
	}
	if _, err := w.Find(as(maker), "foreign"); !errors.Is(err, ErrNoKey) {
		t.Errorf("a key sees a foreign one: %v", err)
	}
	if _, err := w.Rotate(as(maker), "foreign", 0); !errors.Is(err, ErrNoKey) {
		t.Errorf("a key rotates a foreign one: %v", err)
	}
	if _, err := w.Revoke(as(maker), "foreign"); !errors.Is(err, ErrNoKey) {
		t.Errorf("a key revokes a foreign one: %v", err)
	}
	if _, err := w.Revoke(as(writer), "writer"); !errors.Is(err, authz.ErrForbidden) {
		t.Errorf("a key that administers nothing revokes itself: %v", err)
	}
	if _, err := w.Find(as(writer), "writer"); err != nil {
		t.Errorf("a key does not see itself: %v", err)
	}
	if _, err := w.Rotate(as(maker), "maker~one name", 0); err != nil {
		t.Errorf("a key does not rotate one that it covers: %v", err)
	}
	if _, err := w.Revoke(t.Context(), "maker"); err != nil {
		t.Fatal(err)
	}
	n := good
	n.Name = "maker~by a revoked key"
	if _, err := w.Create(as(maker), n); !errors.Is(err, authz.ErrForbidden) {
		t.Errorf("a revoked key makes another one: %v", err)
	}
	names := []string{}
	keys, err := w.List(as(writer))
	for _, k := range keys {
		names = append(names, k.Name)
	}
	if err != nil || !slices.Equal(names, []string{"writer"}) {
		t.Errorf("a key that administers nothing lists %q, %v", names, err)
	}
}

// TestEnd revokes, rotates and expires keys, and looks from another node.
func TestEnd(t *testing.T) {
	t.Parallel()
	w := open(t)
	s := w.store("a")
	_, other := w.node()
	following, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); other.Follow(following) }()
	t.Cleanup(func() { stop(); <-done })
	accepted := func(secret string) *Credential {
		t.Helper()
		c, err := other.Secret(t.Context(), secret)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	_, secret := w.key(t.Context(), NewKey{Name: "k", Stores: []string{"a"}, Rights: []string{"read"}})
	wait.Until(t, "the other node has the key", func() bool { return accepted(secret) != nil })
	c := accepted(secret)
	stream, release := c.Until()
	defer release()
	made, err := w.Rotate(t.Context(), "k", time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	wait.Until(t, "the other node has the new secret", func() bool { return accepted(made.Secret) != nil })
	if accepted(secret) == nil {
		t.Error("the old secret ended before its time")
	}
	wait.Until(t, "the old secret has an end", func() bool { return c.shorter.Load() != nil })
	if stream.Err() != nil || c.Ended() {
		t.Error("a stream of the old secret ended before its time")
	}
	w.ahead.Add(int64(time.Minute))
	if !c.Ended() {
		t.Error("the old secret has not ended")
	}
	if accepted(secret) != nil || accepted(made.Secret) == nil {
		t.Error("after the time of the old secret, it is accepted, or the new one is not")
	}
	c = accepted(made.Secret)
	if _, err := w.Rotate(t.Context(), "k", 50*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	wait.Until(t, "the stream ends with its secret", func() bool { short, release := c.Until(); release(); return short.Err() != nil && c.revoked.Load() })
	if made, err = w.Rotate(t.Context(), "k", 0); err != nil {
		t.Fatal(err)
	}
	wait.Until(t, "the other node has the third secret", func() bool { return accepted(made.Secret) != nil })
	c = accepted(made.Secret)
	again, releaseAgain := c.Until()
	defer releaseAgain()
	if again.Err() != nil {
		t.Error("a stream of the new secret has ended")
	}
	if _, err := w.Revoke(t.Context(), "k"); err != nil {
		t.Fatal(err)
	}
	wait.Until(t, "the stream ends after the revocation", func() bool { return again.Err() != nil && c.Ended() })
	if accepted(made.Secret) != nil {
		t.Error("a revoked secret is accepted")
	}
	if err := c.Allow(t.Context(), authz.RightRead, s.Info()); !errors.Is(err, authz.ErrForbidden) {
		t.Errorf("a revoked key reads: %v", err)
	}
	late, releaseLate := c.Until()
	defer releaseLate()
	if late.Err() == nil {
		t.Error("a stream begins with a revoked key")
	}
	_, secret = w.key(t.Context(), NewKey{Name: "short", Stores: []string{"a"}, Rights: []string{"read"}, Expires: w.now().Add(time.Second)})
	wait.Until(t, "the other node has the key that expires", func() bool { return accepted(secret) != nil })
	c = accepted(secret)
	w.ahead.Add(int64(time.Second))
	if accepted(secret) != nil {
		t.Error("an expired secret is accepted")
	}
	if err := c.Allow(t.Context(), authz.RightRead, s.Info()); !errors.Is(err, authz.ErrForbidden) {
		t.Errorf("an expired key reads: %v", err)
	}
}

// TestRevokedWhileKept revokes a key whose old secret a rotation has kept: the streams of
// the old secret end too, and not at the end of that secret.
func TestRevokedWhileKept(t *testing.T) {
	t.Parallel()
	w := open(t)
	w.store("a")
	following, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); w.Follow(following) }()
	t.Cleanup(func() { stop(); <-done })
	_, secret := w.key(t.Context(), NewKey{Name: "k", Stores: []string{"a"}, Rights: []string{"read"}})
	c, err := w.Secret(t.Context(), secret)
	if err != nil || c == nil {
		t.Fatalf("the secret of a new key: %v, %v", c, err)
	}
	stream, release := c.Until()
	defer release()
	if _, err := w.Rotate(t.Context(), "k", time.Hour); err != nil {
		t.Fatal(err)
	}
	wait.Until(t, "the old secret has an end", func() bool { return c.shorter.Load() != nil })
	if _, err := w.Revoke(t.Context(), "k"); err != nil {
		t.Fatal(err)
	}
	wait.Until(t, "the stream of the old secret ends", func() bool { return stream.Err() != nil && c.Ended() })
}

// TestExplain asks why, also in the past.
func TestExplain(t *testing.T) {
	t.Parallel()
	w := open(t)
	w.store("team-a")
	w.key(t.Context(), NewKey{Name: "k", Stores: []string{"team-*"}, Rights: []string{"write"}, Doors: []string{"native"}})
	system, err := w.engine.StoreByAlias(t.Context(), ostiary.SystemDoor, "default")
	if err != nil {
		t.Fatal(err)
	}
	before, err := system.Head(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ask := func(right authz.Right, door string, c authz.Consistency) []bool {
		t.Helper()
		all, err := w.Explain(t.Context(), Question{Key: "k", Store: "team-a", Right: right, Door: door, Consistency: c})
		if err != nil {
			t.Fatal(err)
		}
		var out []bool
		for _, x := range all {
			out = append(out, x.Answer.Allowed())
		}
		return out
	}
	if got := ask(authz.RightRead, "native", authz.Consistency{}); !slices.Equal(got, []bool{true, true}) {
		t.Errorf("read through native: %v", got)
	}
	if got := ask(authz.RightAdmin, "openfga", authz.Consistency{}); !slices.Equal(got, []bool{false, false}) {
		t.Errorf("admin through openfga: %v", got)
	}
	all, err := w.Explain(t.Context(), Question{Key: "k", Store: "team-a", Right: authz.RightWrite})
	if err != nil || !strings.Contains(all[0].String(), "begins:team-") {
		t.Errorf("the explanation does not name the pattern: %v %v", all, err)
	}
	if _, err := w.Revoke(t.Context(), "k"); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Explain(t.Context(), Question{Key: "k", Store: "team-a", Right: authz.RightWrite}); !errors.Is(err, ErrNoKey) {
		t.Errorf("a revoked key: %v", err)
	}
	revision, err := before.Revision()
	if err != nil {
		t.Fatal(err)
	}
	if got := ask(authz.RightWrite, "", authz.AtRevision(revision)); !slices.Equal(got, []bool{true}) {
		t.Errorf("a revoked key in the past: %v", got)
	}
}

// TestRefused makes keys that are wrong.
func TestRefused(t *testing.T) {
	t.Parallel()
	w := open(t)
	w.store("a")
	w.key(t.Context(), NewKey{Name: "taken", Stores: []string{"a"}, Rights: []string{"read"}})
	for name, c := range map[string]struct {
		change func(*NewKey)
		want   error
	}{
		"no name":               {func(n *NewKey) { n.Name = "" }, authz.ErrInvalidRequest},
		"a taken name":          {func(n *NewKey) { n.Name = "taken" }, ErrKeyExists},
		"a name of the log":     {func(n *NewKey) { n.Name = "local" }, authz.ErrInvalidRequest},
		"a slash":               {func(n *NewKey) { n.Name = "a/b" }, authz.ErrInvalidRequest},
		"no stores":             {func(n *NewKey) { n.Stores = nil }, authz.ErrInvalidRequest},
		"an unknown id":         {func(n *NewKey) { n.Stores = []string{storage.NewID(1).String()} }, authz.ErrInvalidRequest},
		"an unknown alias":      {func(n *NewKey) { n.Stores = []string{"native/none"} }, authz.ErrInvalidRequest},
		"a star in a name":      {func(n *NewKey) { n.Stores = []string{"a*b"} }, authz.ErrInvalidRequest},
		"an empty store":        {func(n *NewKey) { n.Stores = []string{""} }, authz.ErrInvalidRequest},
		"too many stores":       {func(n *NewKey) { n.Stores = slices.Repeat([]string{"a"}, PlacesMax+1) }, authz.ErrBound},
		"no rights":             {func(n *NewKey) { n.Rights = nil }, authz.ErrInvalidRequest},
		"an unknown right":      {func(n *NewKey) { n.Rights = []string{"own"} }, authz.ErrInvalidRequest},
		"an unknown door":       {func(n *NewKey) { n.Doors = []string{"soap"} }, authz.ErrInvalidRequest},
		"an expiry in the past": {func(n *NewKey) { n.Expires = w.clock }, authz.ErrInvalidRequest},
		"half a match":          {func(n *NewKey) { n.Match = Match{Issuer: "https://a.example", Claim: "sub"} }, authz.ErrInvalidRequest},
		"an empty path":         {func(n *NewKey) { n.Match = Match{Issuer: "https://a.example", Claim: "/", Value: "x"} }, authz.ErrInvalidRequest},
		"an empty part":         {func(n *NewKey) { n.Match = Match{Issuer: "https://a.example", Claim: "/a//b", Value: "x"} }, authz.ErrInvalidRequest},
		"an end without a name": {func(n *NewKey) { n.Match = Match{Issuer: "https://a.example", Claim: "/a/", Value: "x"} }, authz.ErrInvalidRequest},
		"an unknown escape":     {func(n *NewKey) { n.Match = Match{Issuer: "https://a.example", Claim: "/a~2", Value: "x"} }, authz.ErrInvalidRequest},
		"a tilde at the end":    {func(n *NewKey) { n.Match = Match{Issuer: "https://a.example", Claim: "/a~", Value: "x"} }, authz.ErrInvalidRequest},
		"a long claim": {func(n *NewKey) {
			n.Match = Match{Issuer: "https://a.example", Claim: "/" + strings.Repeat("a", authz.NameBytesMax), Value: "x"}
		}, authz.ErrBound},
		"two matches": {func(n *NewKey) {
			n.Match = Match{Issuer: "https://a.example", Claim: "sub", Value: "a", Certificate: "dns:a"}
		}, authz.ErrInvalidRequest},
	} {
		n := NewKey{Name: "k", Stores: []string{"a"}, Rights: []string{"read"}}
		c.change(&n)
		if _, err := w.Create(t.Context(), n); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	made, err := w.Create(t.Context(), NewKey{Name: "k", Stores: []string{"none-*", "none", "a"}, Rights: []string{"read"}})
	if err != nil || len(made.Warnings) != 2 {
		t.Errorf("names of no store: %q, %v", made.Warnings, err)
	}
	if _, err := w.Create(t.Context(), NewKey{Name: "many", Stores: slices.Repeat([]string{"a"}, PlacesMax), Rights: []string{"read"}}); err != nil {
		t.Errorf("as many stores as the bound allows: %v", err)
	}
}

// TestClaims finds claims by their names and by their paths.
func TestClaims(t *testing.T) {
	t.Parallel()
	claims := map[string]any{
		"groups": "a", "realm_access.roles": "b", "realm_access": map[string]any{"roles": []any{"c"}, "a/b": "d", "a~1b": "e", "~": "f"},
		"list": []any{map[string]any{"0": "g"}}, "https://example.com/roles": "h", "/x": "i", "null": nil,
	}
	for claim, want := range map[string]string{
		"groups": "a", "realm_access.roles": "b", "/realm_access/roles": "[c]", "/realm_access/a~1b": "d", "/realm_access/a~01b": "e", "/realm_access/~0": "f",
		"/list/0": "<nil>", "/list/0/0": "<nil>", "/groups/x": "<nil>", "https://example.com/roles": "h", "/https:~1~1example.com~1roles": "h",
		"/x": "<nil>", "/~1x": "i", "/null/x": "<nil>", "/none/x": "<nil>", "none": "<nil>", "/groups": "a",
	} {
		m := Match{Issuer: "https://a.example", Claim: claim, Value: "x"}
		if err := m.validToken(); err != nil {
			t.Error(err)
		}
		if got := fmt.Sprint(m.In(claims)); got != want {
			t.Errorf("%s: %s, want %s", claim, got, want)
		}
		if got := len(m.warnings()); got != strings.Count(claim, "realm_access.roles") {
			t.Errorf("%s: %q", claim, m.warnings())
		}
	}
}
