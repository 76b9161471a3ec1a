package permify

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	ostiary "github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/door/doortest"
	"github.com/ostiary/ostiary/expr/cel"
)

// start opens an engine in memory and a door to it.
func start(t testing.TB, o Options) (*ostiary.Engine, *door.Door) {
	t.Helper()
	e, err := ostiary.Open(t.Context(), ostiary.Options{Conditions: cel.New(cel.Options{})})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	d, err := New(e, o)
	if err != nil {
		t.Fatal(err)
	}
	return e, d
}

// TestScripts plays the scripts in testdata: requests and the responses that a
// client must get.
func TestScripts(t *testing.T) {
	doortest.Run(t, "testdata/*.http", func(t testing.TB) *door.Door {
		_, d := start(t, Options{})
		return d
	})
}

// TestEveryCallHasAScript checks that a script uses each of the door's routes.
func TestEveryCallHasAScript(t *testing.T) {
	t.Parallel()
	_, d := start(t, Options{})
	router, err := door.NewRouter(d.Routes)
	if err != nil {
		t.Fatal(err)
	}
	used := map[string]bool{"Watch.Watch": true} // an endless stream; see TestWatchOverREST
	scripts, err := filepath.Glob("testdata/*.http")
	if err != nil || len(scripts) == 0 {
		t.Fatalf("no scripts in testdata: %v", err)
	}
	for _, name := range scripts {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			method, path, ok := strings.Cut(strings.TrimSpace(line), " ")
			if !ok || !strings.HasPrefix(path, "/") {
				continue
			}
			var p door.Params
			if route, _ := router.Find(method, path, &p); route != nil {
				used[route.Name] = true
			}
		}
	}
	for _, r := range d.Routes {
		if !used[r.Name] {
			t.Errorf("no script uses %s", r.Name)
		}
	}
}
