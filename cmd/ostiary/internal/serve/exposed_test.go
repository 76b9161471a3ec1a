package serve

import (
	"errors"
	"log/slog"
	"path/filepath"
	"testing"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/cmd/internal/cli"
	"github.com/ostiary/ostiary/internal/callers"
	"github.com/ostiary/ostiary/server"
	"github.com/ostiary/ostiary/storage/memory"
)

// TestExposedFolder serves folders on an address that other machines reach, without any
// setting of authentication: one with keys requires them, and all others are refused, before
// they are opened if they cannot have keys.
func TestExposedFolder(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	for name, c := range map[string]struct {
		data         string
		node         bool // of a cluster
		keys         int
		auth         string
		early, later bool // it is refused before, and after the folder was opened
	}{
		"no folder":                          {data: filepath.Join(folder, "none"), early: true},
		"memory":                             {data: cli.InMemory, early: true},
		"a folder without keys":              {data: folder, later: true},
		"a folder with a key":                {data: folder, keys: 1},
		"a new node":                         {data: filepath.Join(folder, "none"), node: true, later: true},
		"a new node, the log has a key":      {data: filepath.Join(folder, "none"), node: true, keys: 1},
		"a folder with a key, --auth none":   {data: folder, keys: 1, auth: cli.AuthNone, early: true},
		"a folder without keys, --auth keys": {data: folder, auth: cli.AuthKeys},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := &app{&cli.App{Lookup: func(string) (string, bool) { return "", false }}}
			a.Data = c.data
			f := &serveFlags{http: "0.0.0.0:8080", grpc: off, metrics: off, console: consoleFlags{serve: off}, auth: c.auth}
			if c.node {
				f.nodes.log = "postgres://localhost/none"
			}
			o, _, err := a.serverOptions(f)
			if got := errors.Is(err, server.ErrExposed); got != c.early || err != nil && !c.early {
				t.Fatalf("before the folder is opened: %v", err)
			}
			if c.early {
				return
			}
			e := must(ostiary.Open(t.Context(), ostiary.Options{Driver: memory.New()}))(t)
			t.Cleanup(func() { e.Close() })
			f.door.native.Callers = callers.New(e, callers.Options{})
			for range c.keys {
				must(f.door.native.Callers.Create(t.Context(), callers.NewKey{Name: "first", Stores: []string{"*"}, Rights: []string{"admin"}}))(t)
			}
			s := &prepared{app: a, flags: f, options: o, log: slog.New(slog.DiscardHandler)}
			err = s.requireKeys(t.Context())
			if got := errors.Is(err, server.ErrExposed); got != c.later || err != nil && !c.later {
				t.Fatalf("with the folder: %v", err)
			}
			if err != nil {
				return
			}
			if s.options.Callers == nil || s.options.CallersOptional {
				t.Errorf("requests need no caller: %+v", s.options)
			}
			must(server.New(s.options))(t)
		})
	}
}
