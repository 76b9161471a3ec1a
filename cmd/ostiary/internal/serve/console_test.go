package serve

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/cmd/internal/cli"
	"github.com/ostiary/ostiary/internal/identity/oidc"
	"github.com/ostiary/ostiary/internal/workshop/issuers"
	"github.com/ostiary/ostiary/server"
)

// TestConsole opens the console on the shared port, and nothing of it with --console off, on a
// port of one door, or without the door that it asks.
func TestConsole(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		flags  serveFlags
		port   string
		status int
	}{
		{"on", serveFlags{console: consoleFlags{serve: consoleOn}}, "http", 200},
		{"off", serveFlags{console: consoleFlags{serve: off}}, "http", 404},
		{"a port of the native door", serveFlags{console: consoleFlags{serve: consoleOn}, dedicated: []string{"native=http://127.0.0.1:0"}}, "native http", 404},
		{"without the native door", serveFlags{console: consoleFlags{serve: consoleOn}, doors: []string{"openfga", "permify"}}, "http", 404},
		{"with the native door alone", serveFlags{console: consoleFlags{serve: consoleOn}, doors: []string{"native"}}, "http", 200},
	} {
		e, err := ostiary.Open(context.Background(), ostiary.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		k, err := server.NewKeys([]server.Key{{Name: "test", Secret: "secret"}})
		if err != nil {
			t.Fatal(err)
		}
		o := server.Options{HTTP: "127.0.0.1:0", Keys: k, DrainTime: -1}
		if err := c.flags.openDoors(&o, e); err != nil {
			t.Fatal(err)
		}
		s, err := server.New(o)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Start(); err != nil {
			t.Fatal(err)
		}
		defer s.Stop()
		at := ""
		for _, a := range s.Addresses() {
			if a.Name == c.port {
				at = "http://" + a.Addr.String()
			}
		}
		for _, key := range []string{"", "Bearer wrong", "Bearer secret"} {
			status, _ := readPage(t, at+"/console/", key)
			if status != c.status && !(c.port != "http" && key != "Bearer secret" && status == 401) {
				t.Errorf("%s, key %q: %d, expected %d", c.name, key, status, c.status)
			}
		}
		if _, front := readPage(t, at+"/", ""); c.port == "http" && strings.Contains(front, `href="console/"`) != (c.status == 200) {
			t.Errorf("%s: the page at /:\n%s", c.name, front)
		}
		for _, api := range []string{"/ostiary/v1/stores", "/console/../ostiary/v1/stores", "/console/ostiary/v1/stores"} {
			if status, body := readPage(t, at+api, ""); status == 200 {
				t.Errorf("%s: %s without a key: %s", c.name, api, body)
			}
		}
	}
	for _, value := range []string{"", "true", "On", "127.0.0.1:80"} {
		if err := (&consoleFlags{serve: value}).check(nil); !errors.Is(err, cli.ErrUsage) || !strings.Contains(err.Error(), "expected on or off") {
			t.Errorf("--console %q: %v", value, err)
		}
	}
}

// TestConsoleOIDC reads settings of the sign-in, and what the console shows of it.
func TestConsoleOIDC(t *testing.T) {
	t.Parallel()
	provider := issuers.NewProvider(t)
	for _, c := range []struct {
		flags consoleFlags
		why   string
	}{
		{consoleFlags{serve: off, oidc: []string{provider.URL + "=c"}}, "--console is off"},
		{consoleFlags{serve: consoleOn, oidc: []string{provider.URL}}, "expected URL=CLIENT[,SCOPE]"},
		{consoleFlags{serve: consoleOn, oidc: []string{provider.URL + "="}}, "expected URL=CLIENT[,SCOPE]"},
		{consoleFlags{serve: consoleOn, oidc: []string{provider.URL + "=c,"}}, "expected URL=CLIENT[,SCOPE]"},
		{consoleFlags{serve: consoleOn, oidc: []string{"https://other.example=c"}}, "expected one of --auth-oidc-issuer"},
		{consoleFlags{serve: consoleOn, oidc: []string{provider.URL + "=c", provider.URL + "=d"}}, "is set twice"},
	} {
		if err := c.flags.check([]string{provider.URL}); !errors.Is(err, cli.ErrUsage) || !strings.Contains(err.Error(), c.why) {
			t.Errorf("%v: %v, expected %q", c.flags.oidc, err, c.why)
		}
	}
	f := serveFlags{console: consoleFlags{serve: consoleOn, oidc: []string{provider.URL + "=c,groups"}}, issuers: []string{provider.URL}, audiences: []string{"ostiary"}}
	if err := f.console.check(f.issuers); err != nil {
		t.Fatal(err)
	}
	o := server.Options{HTTP: "127.0.0.1:0"}
	var err error
	if o.Tokens, err = f.tokens(""); err != nil {
		t.Fatal(err)
	}
	all := f.console.clients(o.Tokens)
	if len(all) != 1 || all[0].ID != "c" || !slices.Equal(all[0].Scopes, []string{"groups"}) {
		t.Fatal(all)
	}
	if at, err := all[0].Endpoints(t.Context()); err != nil || at != (oidc.Endpoints{Authorization: provider.URL + "/auth", Token: provider.URL + "/token"}) {
		t.Error(at, err)
	}
	e, err := ostiary.Open(t.Context(), ostiary.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	for _, c := range []struct{ client, why string }{{"a client", ""}, {"\u00e4", "invalid client id"}} {
		f.console.signIn[0].Audiences = []string{strings.ReplaceAll(c.client, "\u00e4", "ä")}
		o.Doors, f.door = nil, DoorFlags{}
		if err := f.openDoors(&o, e); (err != nil) != (c.why != "") || err != nil && (!errors.Is(err, cli.ErrUsage) || !strings.Contains(err.Error(), c.why)) {
			t.Errorf("%q: %v", c.client, err)
		}
	}
}

// readPage gets a page as a browser does.
func readPage(t *testing.T, url, key string) (int, string) {
	t.Helper()
	req, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", "text/html")
	if key != "" {
		req.Header.Set("Authorization", key)
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}
