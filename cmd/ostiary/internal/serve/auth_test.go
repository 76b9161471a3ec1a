package serve

import (
	"errors"
	"testing"

	"github.com/ostiary/ostiary/cmd/ostiary/internal/cli"
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
