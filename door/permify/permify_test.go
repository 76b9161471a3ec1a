package permify

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	ostiary "github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/expr/cel"
	"github.com/ostiary/ostiary/internal/workshop/doortest"
	"github.com/ostiary/ostiary/internal/workshop/failing"
	"github.com/ostiary/ostiary/schema"
)

// start opens an engine in memory and a door to it.
func start(t testing.TB, o Options) (*ostiary.Engine, *door.Door) {
	t.Helper()
	return startBounded(t, o, authz.Bounds{})
}

// startBounded is start for an engine with other bounds.
func startBounded(t testing.TB, o Options, bounds authz.Bounds) (*ostiary.Engine, *door.Door) {
	t.Helper()
	return startOn(t, o, ostiary.Options{Bounds: bounds})
}

// startOn is start for an engine with other options.
func startOn(t testing.TB, o Options, options ostiary.Options) (*ostiary.Engine, *door.Door) {
	t.Helper()
	options.Conditions = cel.New(cel.Options{})
	e, err := ostiary.Open(t.Context(), options)
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

// TestFailingScripts plays the scripts while operations of the storage fail.
func TestFailingScripts(t *testing.T) {
	t.Parallel()
	for _, reopen := range []bool{false, true} {
		// A door that opens makes tenant t1, which a script deletes.
		deletes := func(path string) bool { return reopen && path == "/v1/tenants/t1/schemas/list" }
		doortest.Failing{Glob: "testdata/*.http", Skip: deletes, Reopen: reopen, Part: `"error":"ERROR_CODE_DATASTORE"`, Optional: []failing.Operation{failing.CloseState}, Open: func(t testing.TB, driver *failing.Driver) *door.Door {
			_, d := startOn(t, Options{}, ostiary.Options{Driver: driver})
			return d
		}}.Run(t)
	}
}

// TestDescription compares what the door declares with testdata/description.txt.
func TestDescription(t *testing.T) {
	t.Parallel()
	_, d := start(t, Options{})
	doortest.Description(t, d, "testdata/description.txt")
}

// TestBoundedScripts plays scripts on an engine with a small bound.
func TestBoundedScripts(t *testing.T) {
	doortest.Run(t, "testdata/bounded/*.http", func(t testing.TB) *door.Door {
		_, d := startBounded(t, Options{}, authz.Bounds{Nodes: 3})
		return d
	})
}

// TestOtherLanguage checks that the calls which need the text of a schema refuse
// one that was written in another language.
func TestOtherLanguage(t *testing.T) {
	t.Parallel()
	e, d := start(t, Options{})
	store, err := e.CreateStore(t.Context(), tenantStore("t2", "t2"))
	if err != nil {
		t.Fatal(err)
	}
	model := &schema.Model{Types: []schema.TypeDef{{Name: "user"}}}
	if _, _, err := store.WriteSchema(t.Context(), authz.SchemaSource{Dialect: "other", Source: []byte("?"), Model: model}); err != nil {
		t.Fatal(err)
	}
	server := listen(t, d)
	const want = `"message":"the schema was written in another language (other)"`
	for path, method := range map[string]string{"partial-write": http.MethodPatch, "read": http.MethodPost} {
		r, err := http.NewRequest(method, server.URL+"/v1/tenants/t2/schemas/"+path, strings.NewReader(`{"metadata":{}}`))
		if err != nil {
			t.Fatal(err)
		}
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err != nil || res.StatusCode != http.StatusNotImplemented || !strings.Contains(string(body), want) {
			t.Errorf("%s: %d %s, %v", path, res.StatusCode, body, err)
		}
	}
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
