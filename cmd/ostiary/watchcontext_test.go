package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ostiary/ostiary/cmd/internal/cli"
)

// TestWatchContext watches a permission that depends on the context of the watch, on a
// folder and on a server.
func TestWatchContext(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	model, home := filepath.Join(dir, "model.fga"), filepath.Join(dir, "home.json")
	for name, text := range map[string]string{
		model: "model\n  schema 1.1\ntype user\ntype doc\n  relations\n    define viewer: [user, user with at]\ncondition at(place: string) {\n  place == \"home\"\n}\n",
		home:  `{"place":"home"}`,
	} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, target := range map[string][]string{"folder": {"--data", filepath.Join(dir, "data")}, "server": {"--server", serveMemory(t)}} {
		t.Run(name, func(t *testing.T) {
			run := func(args ...string) string {
				code, out, errs := runOn(t, target, args...)
				if code != cli.ExitOK {
					t.Fatalf("%q: exit code %d\n%s", args, code, errs)
				}
				return out
			}
			run("store", "create", "s")
			run("schema", "write", model)
			var entry struct{ Token string }
			if err := json.NewDecoder(strings.NewReader(run("changes", "--json"))).Decode(&entry); err != nil {
				t.Fatal(err)
			}
			run("tuple", "write", "user:bob", "viewer", "doc:1", "--condition", "at")
			run("tuple", "write", "user:ed", "viewer", "doc:1")
			both := []string{"+ user:bob viewer doc:1", "+ user:ed viewer doc:1"}
			for context, want := range map[string][]string{
				"":                 {"+ user:ed viewer doc:1", "? user:bob viewer doc:1 (unknown, was false)"},
				`{"place":"home"}`: both,
				"@" + home:         both,
				`{"place":"work"}`: {"+ user:ed viewer doc:1"},
			} {
				args := append([]string{"watch", "user", "viewer", "doc", "--object", "1", "--from", entry.Token}, target...)
				if context != "" {
					args = append(args, "--context", context)
				}
				got := strings.Split(strings.TrimSpace(runUntil(t, args, len(want))), "\n")
				if slices.Sort(got); !slices.Equal(got, want) {
					t.Errorf("context %s: got %q, expected %q", context, got, want)
				}
			}
		})
	}
}
