package server_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/internal/callers"
	"github.com/ostiary/ostiary/internal/workshop/issuers"
	"github.com/ostiary/ostiary/server"
)

// profile asks the port of metrics for a profile, and returns the status and the text.
func (r *running) profile(t testing.TB, name string, headers ...string) (int, string) {
	t.Helper()
	req, err := http.NewRequest("GET", "http://"+r.at["metrics"]+"/debug/pprof/"+name, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		if headers[i] == "Host" {
			req.Host = headers[i+1]
		}
		req.Header.Set(headers[i], headers[i+1])
	}
	status, _, text := fetch(t, req)
	return status, text
}

// gzipped reports whether a text is compressed, as profiles are.
func gzipped(text string) bool { return strings.HasPrefix(text, "\x1f\x8b") }

// TestProfiles asks an open server on loopback for profiles: those that there are, wrong names and
// times, pages and names of others, and a second one while the first is made. Without the option,
// and on other ports, there are none.
func TestProfiles(t *testing.T) {
	t.Parallel()
	r := start(t, server.Options{Profiles: true})
	for _, name := range []string{"heap", "allocs", "goroutine", "profile?seconds=1"} {
		if status, text := r.profile(t, name); status != http.StatusOK || !gzipped(text) {
			t.Errorf("%s: %d %.100q, expected a profile", name, status, text)
		}
	}
	for _, c := range []struct {
		name    string
		headers []string
		status  int
		text    string
	}{
		{"cmdline", nil, 404, `no profile "cmdline": expected profile, heap, allocs or goroutine`},
		{"trace", nil, 404, "no profile"},
		{"symbol", nil, 404, "no profile"},
		{"", nil, 404, ""},
		{"profile?seconds=0", nil, 400, `invalid seconds "0": expected a number from 1 to 60`},
		{"profile?seconds=61", nil, 400, "expected a number from 1 to 60"},
		{"profile?seconds=x", nil, 400, "expected a number from 1 to 60"},
		{"heap", []string{"Host", "evil.example"}, 403, "for this machine"},
		{"heap", []string{"Origin", "https://evil.example"}, 403, "for this machine"},
	} {
		if status, text := r.profile(t, c.name, c.headers...); status != c.status || !strings.Contains(text, c.text) {
			t.Errorf("%s %q: %d %.200q, expected %d %q", c.name, c.headers, status, text, c.status, c.text)
		}
	}
	if status, _, _ := r.ask(t, "GET", "/debug/pprof/heap", ""); status != http.StatusNotFound {
		t.Errorf("the port of the doors answers with %d, expected 404", status)
	}
	if status, _ := start(t, server.Options{}).profile(t, "heap"); status != http.StatusNotFound {
		t.Errorf("a server without the option answers with %d, expected 404", status)
	}

	ctx, leave := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, "GET", "http://"+r.at["metrics"]+"/debug/pprof/profile?seconds=60", nil)
	if err != nil {
		t.Fatal(err)
	}
	first, err := http.DefaultClient.Do(req) // it returns when the profile has begun
	if err != nil {
		t.Fatal(err)
	}
	defer first.Body.Close()
	if status, text := r.profile(t, "heap"); first.StatusCode != http.StatusOK || status != http.StatusTooManyRequests || !strings.Contains(text, "Profiles") {
		t.Errorf("a second profile: %d %q after %d, expected 429 with the name of the bound", status, text, first.StatusCode)
	}
	leave()
	wait(t, func() bool { // until the server has noticed that the client has left
		status, _ := r.profile(t, "heap")
		return status == http.StatusOK
	})
}

// TestProfilesNeedAdmin asks a server with keys for profiles: without a key, with a wrong one, and
// with keys that may do less than administer all stores.
func TestProfilesNeedAdmin(t *testing.T) {
	t.Parallel()
	e, err := ostiary.Open(t.Context(), ostiary.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	registry := callers.New(e, callers.Options{Doors: []string{"echo"}})
	key := func(name string, stores, right, door string) string {
		n := callers.NewKey{Name: name, Stores: []string{stores}, Rights: []string{right}}
		if door != "" {
			n.Doors = []string{door}
		}
		made, err := registry.Create(t.Context(), n)
		if err != nil {
			t.Fatal(err)
		}
		return made.Secret
	}
	all := map[string]string{"all": key("all", "*", "admin", ""), "metrics": key("metrics", "*", "read", callers.MetricsDoor), "read": key("read", "*", "read", ""),
		"write": key("write", "*", "write", ""), "some": key("some", "acme-*", "admin", ""), "door": key("door", "*", "admin", "echo"),
		"both": key("both", "*", "admin", callers.MetricsDoor), "gone": key("gone", "*", "admin", "")}
	if _, err := registry.Revoke(t.Context(), "gone"); err != nil {
		t.Fatal(err)
	}
	users, err := server.ParseUsers("admin password")
	if err != nil {
		t.Fatal(err)
	}
	preshared, err := server.NewKeys(append(users, server.Key{Name: "file", Secret: "of-the-file"}))
	if err != nil {
		t.Fatal(err)
	}
	r := start(t, server.Options{Profiles: true, Keys: preshared, Callers: registry, Engine: e})
	for _, c := range []struct {
		who, authorization string
		status             int
	}{
		{"nobody", "", 401}, {"a wrong key", "Bearer wrong", 401}, {"a key that was revoked", "Bearer " + all["gone"], 401},
		{"a user with a password", "Basic YWRtaW46cGFzc3dvcmQ=", 401},
		{"a key for metrics", "Bearer " + all["metrics"], 403}, {"a key that reads", "Bearer " + all["read"], 403}, {"a key that writes", "Bearer " + all["write"], 403},
		{"an administrator of some stores", "Bearer " + all["some"], 403}, {"an administrator through another door", "Bearer " + all["door"], 403},
		{"an administrator", "Bearer " + all["all"], 200}, {"an administrator through metrics", "Bearer " + all["both"], 200}, {"a preshared key", "Bearer of-the-file", 200},
	} {
		headers := []string{"Authorization", c.authorization}
		if c.authorization == "" {
			headers = nil
		}
		for _, name := range []string{"heap", "goroutine", "profile?seconds=61", "cmdline"} {
			status, text := r.profile(t, name, headers...)
			want := c.status
			if want == 200 {
				want = map[string]int{"heap": 200, "goroutine": 200, "profile?seconds=61": 400, "cmdline": 404}[name]
			}
			if status != want || gzipped(text) != (want == 200) {
				t.Errorf("%s, %s: %d %.100q, expected %d", c.who, name, status, text, want)
			}
		}
	}
	if status, _ := r.profile(t, "heap", "Authorization", "Bearer "+all["all"], "Host", "evil.example"); status != http.StatusForbidden {
		t.Errorf("another name of the server: %d, expected 403", status)
	}
	if status, _, _ := r.ask(t, "GET", "/debug/pprof/heap", "", "Authorization", "Bearer "+all["all"]); status != http.StatusNotFound {
		t.Errorf("the port of the doors answers with %d, expected 404", status)
	}
	if text := r.metric(t, ""); !strings.Contains(text, "ostiary_failed_logins_total") {
		t.Error("the metrics have no failed login")
	}
}

// TestProfilesExposed checks that profiles, and the keys that they need, never leave the machine
// without TLS.
func TestProfilesExposed(t *testing.T) {
	t.Parallel()
	authority := issuers.NewAuthority(t, "ours")
	certificate, err := server.NewCertificate(issuers.WriteCertificate(t, t.TempDir(), "server", authority.Issue(nil)))
	if err != nil {
		t.Fatal(err)
	}
	k := keys(t, server.Key{Secret: secret})
	for i, c := range []struct {
		o  server.Options
		ok bool
	}{
		{server.Options{Metrics: "127.0.0.1:0"}, true},
		{server.Options{Metrics: "127.0.0.1:0", Keys: k}, true},
		{server.Options{Metrics: "0.0.0.0:0", MetricsExposed: true}, false},
		{server.Options{Metrics: "0.0.0.0:0", MetricsExposed: true, Keys: k}, false},
		{server.Options{Metrics: "0.0.0.0:0", MetricsExposed: true, TLS: certificate, MetricsTLS: true}, false},
		{server.Options{Metrics: "0.0.0.0:0", MetricsExposed: true, TLS: certificate, MetricsTLS: true, Anonymous: true}, false},
		{server.Options{Metrics: "0.0.0.0:0", TLS: certificate, MetricsTLS: true, Keys: k}, true},
	} {
		c.o.Profiles = true
		if _, err := server.New(c.o); (err == nil) != c.ok || err != nil && !strings.Contains(err.Error(), "other machines can reach") {
			t.Errorf("%d: %v", i, err)
		}
	}
}
