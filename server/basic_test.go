package server_test

import (
	"encoding/base64"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/server"
)

// TestBasic checks that a user's password opens only the doors that accept HTTP
// Basic authentication, and that a key is no password.
func TestBasic(t *testing.T) {
	t.Parallel()
	caller := func(w http.ResponseWriter, r *http.Request, _ door.Params) {
		c := door.CallerOf(r.Context())
		w.Write([]byte(c.Method + " " + c.ID))
	}
	d := &door.Door{Name: "framework", Prefixes: []string{"/framework"}, Basic: true,
		Routes: []door.Route{{Method: "GET", Pattern: "/framework/caller", Name: "caller", Serve: caller}}}
	users, err := server.ParseUsers("admin pass:word\nother secret")
	if err != nil {
		t.Fatal(err)
	}
	r := start(t, server.Options{Doors: []*door.Door{d, echoDoor()}, Keys: keys(t, append(users, server.Key{Name: "key", Secret: secret})...)})
	basic := func(text string) string { return "Basic " + base64.StdEncoding.EncodeToString([]byte(text)) }
	for _, c := range []struct {
		path, authorization string
		status              int
		body                string
	}{
		{"/framework/caller", basic("admin:pass:word"), 200, "basic admin"},
		{"/framework/caller", strings.Replace(basic("other:secret"), "Basic", "bASIC", 1), 200, "basic other"},
		{"/framework/caller", "Bearer " + secret, 200, "preshared key"},
		{"/framework/caller", basic("admin:wrong"), 401, ""},
		{"/framework/caller", basic("other:pass:word"), 401, ""},
		{"/framework/caller", basic("admin:pass:word") + "!", 401, ""},
		{"/framework/caller", basic("admin"), 401, ""},
		{"/framework/caller", basic(":pass:word"), 401, ""},
		{"/framework/caller", basic("key:" + secret), 401, ""},
		{"/framework/caller", "Bearer pass:word", 401, ""},
		{"/framework/caller", "Basic admin:pass:word", 401, ""},
		{"/framework/caller", "Basic " + strings.Repeat("A", 8192), 401, ""},
		{"/echo/caller", basic("admin:pass:word"), 401, ""},
		{"/echo/caller", "Bearer pass:word", 401, ""},
	} {
		status, h, body := r.ask(t, "GET", c.path, "", "Authorization", c.authorization)
		if status != c.status || c.status == 200 && body != c.body {
			t.Errorf("%s with %q: %d %s", c.path, c.authorization, status, body)
		}
		offered := slices.ContainsFunc(h.Values("Www-Authenticate"), func(v string) bool { return strings.HasPrefix(v, "Basic ") })
		if want := c.status == 401 && c.path == "/framework/caller"; offered != want {
			t.Errorf("%s with %q: Www-Authenticate %q", c.path, c.authorization, h.Values("Www-Authenticate"))
		}
	}
}

func TestUsers(t *testing.T) {
	t.Parallel()
	if _, err := server.ParseUsers("password"); err == nil {
		t.Error("a user without a name was accepted")
	}
	for _, name := range []string{"", "a:b", "a b", "ü", strings.Repeat("x", 257)} {
		if _, err := server.NewKeys([]server.Key{{Name: name, Secret: "x", Basic: true}}); err == nil {
			t.Errorf("the name %q was accepted", name)
		}
	}
	if _, err := server.NewKeys([]server.Key{{Name: strings.Repeat("x", 256), Secret: "x", Basic: true}}); err != nil {
		t.Error(err)
	}
}
