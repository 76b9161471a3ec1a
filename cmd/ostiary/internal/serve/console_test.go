package serve

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/cmd/internal/cli"
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
		{"on", serveFlags{console: consoleOn}, "http", 200},
		{"off", serveFlags{console: off}, "http", 404},
		{"a port of the native door", serveFlags{console: consoleOn, dedicated: []string{"native=http://127.0.0.1:0"}}, "native http", 404},
		{"without the native door", serveFlags{console: consoleOn, doors: []string{"openfga", "permify"}}, "http", 404},
		{"with the native door alone", serveFlags{console: consoleOn, doors: []string{"native"}}, "http", 200},
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
		if err := (&serveFlags{console: value}).checkConsole(); !errors.Is(err, cli.ErrUsage) || !strings.Contains(err.Error(), "expected on or off") {
			t.Errorf("--console %q: %v", value, err)
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
