package serve

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/internal/identity/settings"
	"github.com/ostiary/ostiary/internal/identity/totp"
	"github.com/ostiary/ostiary/server"
	"github.com/ostiary/ostiary/storage"
)

// login logs a user in at a node, with the settings of methods in JSON, and returns the
// status and the token.
func (n *testNode) login(methods string) (int, string) {
	n.t.Helper()
	response, _ := n.send("", "POST", "/v3/auth/tokens", []byte(`{"auth":{"identity":`+methods+`}}`), nil)
	return response.StatusCode, response.Header.Get("X-Subject-Token")
}

func byPassword(user, password string) string {
	return fmt.Sprintf(`{"methods":["password"],"password":{"user":{"id":%q,"password":%q}}}`, user, password)
}

// made makes a record of the Identity API as the administrator and returns its id.
func (n *testNode) made(path, body string) string {
	n.t.Helper()
	response, text := n.send("", "POST", path, []byte(body), http.Header{"X-Auth-Token": {n.identity}})
	if response.StatusCode != http.StatusCreated {
		n.t.Fatalf("%s: %d %s", path, response.StatusCode, text)
	}
	_, id, _ := strings.Cut(text, `"id":"`)
	return id[:strings.IndexByte(id, '"')]
}

// TestLockoutAcrossNodes sends wrong passwords to two nodes in turn. The limit counts
// them together, and each node then refuses the right password, also if the holder
// is gone.
func TestLockoutAcrossNodes(t *testing.T) {
	t.Parallel()
	all := openNodes(t, 2, func(f *DoorFlags, _ *server.Options) {
		f.keystone.Identity.Compliance = settings.Compliance{LockoutAttempts: 3, LockoutDuration: time.Hour}
	})
	all.bootstrapAll()
	bob := all.nodes[1].made("/v3/users", `{"user":{"name":"bob","password":"right"}}`)
	eve := all.nodes[1].made("/v3/users", `{"user":{"name":"eve","password":"right"}}`)
	for i := range 2 {
		if status, _ := all.nodes[i].login(byPassword(bob, "wrong")); status != http.StatusUnauthorized {
			t.Fatal(i, status)
		}
	}
	if status, _ := all.nodes[1].login(byPassword(bob, "right")); status != http.StatusCreated {
		t.Fatalf("the right password after two wrong ones: %d", status)
	}
	for i := range 4 {
		if status, _ := all.nodes[i%2].login(byPassword(bob, "wrong")); status != http.StatusUnauthorized {
			t.Fatal(i, status)
		}
	}
	all.lead(-1)
	for i, n := range all.nodes {
		before := n.waiting.Load()
		if status, _ := n.login(byPassword(bob, "right")); status != http.StatusUnauthorized {
			t.Errorf("node %d: the right password of a locked user: %d", i, status)
		}
		if n.waiting.Load() != before {
			t.Errorf("node %d waits for a holder to refuse a locked user", i)
		}
	}
	all.lead(1)
	for i, n := range all.nodes {
		if status, _ := n.login(byPassword(eve, "right")); status != http.StatusCreated {
			t.Errorf("node %d: another user: %d", i, status)
		}
	}
}

// TestLoginsStayLocal logs in at a node that is not the holder. Without a limit of wrong
// passwords, neither a right nor a wrong password asks the holder.
func TestLoginsStayLocal(t *testing.T) {
	t.Parallel()
	all := openNodes(t, 2, nil)
	all.bootstrapAll()
	n := all.nodes[1]
	before := all.nodes[0].served.Load()
	for password, want := range map[string]int{"secret": http.StatusCreated, "wrong": http.StatusUnauthorized} {
		if status, _ := n.login(byPassword(n.user, password)); status != want {
			t.Errorf("%s: %d, want %d", password, status, want)
		}
	}
	if got := all.nodes[0].served.Load() - before; got != 0 {
		t.Errorf("%d logins were forwarded", got)
	}
}

// TestPasscodesAcrossNodes uses a one-time password at one node and again at another
// one, and guesses at both: a password is accepted once, and guesses count together.
func TestPasscodesAcrossNodes(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	all := openNodes(t, 2, func(f *DoorFlags, _ *server.Options) {
		f.keystone.Identity.Methods = append(f.keystone.Identity.Methods, "password", "token", "totp")
		f.keystone.Identity.Clock = func() time.Time { return now }
	})
	all.bootstrapAll()
	const seed = "GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ"
	parsed, err := totp.ParseSeed(seed)
	if err != nil {
		t.Fatal(err)
	}
	code := func(at time.Time) string { return parsed.At(totp.Step(at)) }
	try := func(n *testNode, user, passcode string) int {
		status, _ := n.login(fmt.Sprintf(`{"methods":["totp"],"totp":{"user":{"id":%q,"passcode":%q}}}`, user, passcode))
		return status
	}
	bob := all.nodes[1].made("/v3/users", `{"user":{"name":"bob","password":"right"}}`)
	all.nodes[1].made("/v3/credentials", fmt.Sprintf(`{"credential":{"type":"totp","blob":%q,"user_id":%q}}`, seed, bob))
	right := code(now)
	if status := try(all.nodes[1], bob, right); status != http.StatusCreated {
		t.Fatalf("a one-time password: %d", status)
	}
	for i, n := range all.nodes {
		if status := try(n, bob, right); status != http.StatusUnauthorized {
			t.Errorf("node %d: a one-time password that was used: %d", i, status)
		}
	}
	now = now.Add(10 * time.Minute)
	right = code(now)
	wrong := "000000"
	if right == wrong {
		wrong = "000001"
	}
	for i := range 6 {
		if status := try(all.nodes[i%2], bob, wrong); status != http.StatusUnauthorized {
			t.Fatal(status)
		}
	}
	for i, n := range all.nodes {
		if status := try(n, bob, right); status != http.StatusUnauthorized {
			t.Errorf("node %d: the right one-time password after too many guesses: %d", i, status)
		}
	}
	now = now.Add(10 * time.Minute)
	if status := try(all.nodes[1], bob, code(now)); status != http.StatusCreated {
		t.Errorf("a one-time password in a later period: %d", status)
	}
}

// TestRevocationAcrossNodes revokes a token at one node. No node accepts it afterwards.
func TestRevocationAcrossNodes(t *testing.T) {
	t.Parallel()
	all := openNodes(t, 2, nil)
	all.bootstrapAll()
	_, token := all.nodes[1].login(byPassword(all.nodes[1].user, "secret"))
	validate := func(n *testNode) int {
		response, _ := n.send("", "GET", "/v3/auth/tokens", nil, http.Header{"X-Auth-Token": {n.identity}, "X-Subject-Token": {token}})
		return response.StatusCode
	}
	if status := validate(all.nodes[0]); status != http.StatusOK {
		t.Fatalf("a token of another node: %d", status)
	}
	response, _ := all.nodes[1].send("", "DELETE", "/v3/auth/tokens", nil, http.Header{"X-Auth-Token": {all.nodes[1].identity}, "X-Subject-Token": {token}})
	if response.StatusCode != http.StatusNoContent {
		t.Fatalf("revocation: %d", response.StatusCode)
	}
	for i, n := range all.nodes {
		if status := validate(n); status != http.StatusNotFound {
			t.Errorf("node %d: a revoked token: %d", i, status)
		}
	}
}

// TestCollectOnHolder collects a store with an expired tuple at each node. Only the
// holder removes the tuple.
func TestCollectOnHolder(t *testing.T) {
	t.Parallel()
	all := openNodes(t, 2, nil)
	id := all.nodes[1].everyDoorStore()
	const path = "/ostiary/v1/stores/"
	n := all.nodes[1]
	n.send("walker-key", "POST", path+id+"/schemas", []byte(`{"dialect":"openfga-dsl","source":"model\n  schema 1.1\ntype user\ntype doc\n  relations\n    define viewer: [user]\n"}`), nil)
	if response, text := n.send("walker-key", "POST", path+id+"/write", []byte(`{"add":[{"subject":"user:a","relation":"viewer","object":"doc:1","expires":"2020-01-01T00:00:00Z"}]}`), nil); response.StatusCode != http.StatusOK {
		t.Fatal(response.StatusCode, text)
	}
	n.shows()
	store, err := storage.ParseStoreID(id)
	if err != nil {
		t.Fatal(err)
	}
	collect := func(n *testNode) ostiary.CollectResult {
		s, err := n.engine.Store(t.Context(), store)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Load(t.Context()); err != nil {
			t.Fatal(err)
		}
		c, err := s.Collect(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	if c := collect(n); c.Expired != 0 {
		t.Errorf("a node that is not the holder removed %d tuples", c.Expired)
	}
	if c := collect(all.nodes[0]); c.Expired != 1 {
		t.Errorf("the holder removed %d tuples, want 1", c.Expired)
	}
}

// TestReadsOfNewCluster reads through each door of a node that is not the holder, before
// anything was written: what a door makes on its first request is no reason to fail.
func TestReadsOfNewCluster(t *testing.T) {
	t.Parallel()
	all := openNodes(t, 2, nil)
	n := all.nodes[1]
	for _, r := range []struct{ method, path, body string }{
		{"GET", "/stores", ""}, {"GET", "/ostiary/v1/stores", ""}, {"POST", "/v1/tenants/t1/schemas/list", "{}"}, {"POST", "/v1/tenants/list", "{}"},
		{"GET", "/xacml/v3/domains", ""}, {"POST", "/xacml/v3/pdp", `{"Request":{}}`}, {"GET", "/policy/api/v1/policytypes", ""}, {"GET", "/policy/pap/v1/pdps", ""},
		{"GET", "/policy/pdpx/v1/healthcheck", ""}, {"POST", "/policy/pdpx/v1/decision", `{"ONAPName":"a","ONAPComponent":"b","ONAPInstance":"c","action":"configure","resource":{"policy-id":"x"}}`},
		{"POST", "/access/v1/evaluation", `{"subject":{"type":"user","id":"a"},"action":{"name":"read"},"resource":{"type":"doc","id":"1"}}`},
	} {
		response, text := n.send("walker-key", r.method, r.path, []byte(r.body), nil)
		direct, want := all.nodes[0].send("walker-key", r.method, r.path, []byte(r.body), nil)
		again, textAgain := n.send("walker-key", r.method, r.path, []byte(r.body), nil)
		if response.StatusCode >= 500 || again.StatusCode != direct.StatusCode {
			t.Errorf("%s %s: %d %.200s\nthe holder: %d %.200s\nagain: %d %.200s", r.method, r.path, response.StatusCode, text, direct.StatusCode, want, again.StatusCode, textAgain)
		}
	}
	// What doors make is there now: reads are reads, and keep no bodies.
	for _, d := range n.doors {
		for _, r := range d.Routes {
			if r.MayWrite != nil && r.MayWrite() && !r.Login {
				t.Errorf("%s %s %s may write", d.Name, r.Method, r.Pattern)
			}
		}
		for _, s := range d.Services {
			if s.MayWrite != nil && s.MayWrite() {
				t.Errorf("reads of %s may write", s.Desc.ServiceName)
			}
		}
	}
}
