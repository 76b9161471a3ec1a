package serve

import (
	"errors"
	"testing"

	"github.com/ostiary/ostiary/cmd/internal/cli"
	"github.com/ostiary/ostiary/server"
)

// TestKeysUnset checks that the server runs without keys only if no source of keys
// is set. A variable that is set but empty is an error, because its secret is
// missing.
func TestKeysUnset(t *testing.T) {
	t.Parallel()
	for _, value := range []string{"", " ", ",", " , "} {
		a := &app{&cli.App{Lookup: func(name string) (string, bool) { return value, name == cli.EnvKeys }}}
		if k, _, err := a.keys(&serveFlags{}); !errors.Is(err, server.ErrNoKeys) {
			t.Errorf("%q: %v, %v", value, k, err)
		}
		if k, _, err := a.keys(&serveFlags{auth: cli.AuthNone}); err != nil || k != nil {
			t.Errorf("%q with --auth none: %v, %v", value, k, err)
		}
	}
	a := &app{&cli.App{Lookup: func(string) (string, bool) { return "", false }}}
	if k, _, err := a.keys(&serveFlags{}); err != nil || k != nil {
		t.Errorf("without: %v, %v", k, err)
	}
}

// TestIssuers checks which settings for the tokens of callers are refused.
func TestIssuers(t *testing.T) {
	t.Parallel()
	const one, two = "https://a.example", "https://b.example/realms/x"
	for _, c := range []struct {
		issuers, audiences []string
		ok                 bool
	}{
		{nil, nil, true},
		{[]string{one}, []string{"ostiary"}, true},
		{[]string{one}, []string{"ostiary,a=b"}, true},
		{[]string{one, two}, []string{"ostiary", "other"}, true},
		{[]string{one}, nil, false},
		{nil, []string{"ostiary"}, false},
		{[]string{one, two}, []string{"ostiary"}, false},
		{[]string{one}, []string{""}, false},
		{[]string{""}, []string{"ostiary"}, false},
		{[]string{one, one}, []string{"ostiary", "other"}, false},
		{[]string{"http://a.example"}, []string{"ostiary"}, false},
	} {
		v, err := (&serveFlags{issuers: c.issuers, audiences: c.audiences}).tokens("")
		if (err == nil) != c.ok || err != nil && !errors.Is(err, cli.ErrUsage) || (v != nil) != (c.ok && c.issuers != nil) {
			t.Errorf("%q %q: %v, %v", c.issuers, c.audiences, v, err)
		}
	}
	a := &app{&cli.App{Lookup: func(string) (string, bool) { return "", false }}}
	if _, _, err := a.keys(&serveFlags{auth: cli.AuthNone, issuers: []string{one}}); !errors.Is(err, cli.ErrUsage) {
		t.Errorf("--auth none with an issuer: %v", err)
	}
}
