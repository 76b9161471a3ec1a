package authzen_test

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/door/authzen"
	"github.com/ostiary/ostiary/door/openfga/language"
	"github.com/ostiary/ostiary/expr/cel"
	"github.com/ostiary/ostiary/internal/workshop/golden"
	"github.com/ostiary/ostiary/rel"
)

// world is a door to a store with a file's model and tuples.
type world struct {
	engine *ostiary.Engine
	store  *ostiary.Store
	door   *door.Door
	router *door.Router
}

// open opens a world. Paths without a store use its store.
func open(t testing.TB, archive *txtar.Archive) *world {
	t.Helper()
	return openBounded(t, archive, authz.Bounds{})
}

// openBounded is like open, for an engine with bounds.
func openBounded(t testing.TB, archive *txtar.Archive, bounds authz.Bounds) *world {
	t.Helper()
	return openOn(t, archive, ostiary.Options{Bounds: bounds})
}

// openOn is like open, for an engine with options.
func openOn(t testing.TB, archive *txtar.Archive, o ostiary.Options) *world {
	t.Helper()
	ctx := context.Background()
	o.Conditions = cel.New(cel.Options{})
	e, err := ostiary.Open(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	w := &world{engine: e}
	if w.store, err = e.CreateStore(ctx, ostiary.CreateStoreRequest{Name: "interop", Aliases: map[string]string{authzen.Name: "interop"}}); err != nil {
		t.Fatal(err)
	}
	w.fill(t, w.store, archive)
	if w.door, err = authzen.New(e, authzen.Options{Store: w.store.ID().String()}); err != nil {
		t.Fatal(err)
	}
	if w.router, err = door.NewRouter(w.door.Routes); err != nil {
		t.Fatal(err)
	}
	return w
}

// fill writes the model and the tuples of a file.
func (w *world) fill(t testing.TB, s *ostiary.Store, archive *txtar.Archive) {
	t.Helper()
	for _, f := range archive.Files {
		switch f.Name {
		case "model.fga":
			m, _, err := language.ParseDSL(f.Data)
			if err != nil {
				t.Fatal(err)
			}
			if _, _, err := s.WriteSchema(context.Background(), authz.SchemaSource{Model: m}); err != nil {
				t.Fatal(err)
			}
		case "tuples":
			var add []rel.Tuple
			for line := range strings.Lines(string(f.Data)) {
				tuple, err := rel.Parse(strings.TrimSpace(line))
				if err != nil {
					t.Fatal(err)
				}
				add = append(add, tuple)
			}
			if _, err := s.Write(context.Background(), authz.WriteRequest{Add: add}); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// ServeHTTP serves the door's routes without a server's guards.
func (w *world) ServeHTTP(out http.ResponseWriter, r *http.Request) {
	var p door.Params
	route, methods := w.router.Find(r.Method, r.URL.EscapedPath(), &p)
	if route == nil {
		w.door.Missing(out, r, methods)
		return
	}
	route.Serve(out, r, p)
}

// post sends a request that must succeed, and decodes the response.
func (w *world) post(t testing.TB, path string, body any, into any) {
	t.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequest("POST", path, bytes.NewReader(text))
	r.Header.Set("Content-Type", "application/json")
	rec := httptest.NewRecorder()
	w.ServeHTTP(rec, r)
	if rec.Code != 200 || rec.Header().Get("Content-Type") != "application/json" {
		t.Fatalf("%s %s: %d %s", path, text, rec.Code, rec.Body)
	}
	if err := json.Unmarshal(rec.Body.Bytes(), into); err != nil {
		t.Fatal(err)
	}
}

func readFile(t testing.TB, name string) *txtar.Archive {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return txtar.Parse(text)
}

// entityOf parses "type:id" and, if they follow, the properties.
func entityOf(t testing.TB, words []string) (entity map[string]any, rest []string) {
	t.Helper()
	typ, id, _ := strings.Cut(words[0], ":")
	entity = map[string]any{"type": typ, "id": id}
	if len(words) > 1 && words[1][0] == '{' {
		entity["properties"] = json.RawMessage(words[1])
		return entity, words[2:]
	}
	return entity, words[1:]
}

// TestInterop checks every question of the public interop scenarios.
func TestInterop(t *testing.T) {
	t.Parallel()
	golden.Each(t, "testdata/interop/*.txt", 1, func(t *testing.T, file string) {
		archive := readFile(t, file)
		w := open(t, archive)
		n := 0
		for line := range strings.Lines(string(archive.Files[len(archive.Files)-1].Data)) {
			w.check(t, strings.TrimSpace(line))
			n++
		}
		t.Logf("%d questions", n)
	})
}

// check sends the request of one line and compares the results.
func (w *world) check(t *testing.T, line string) {
	t.Helper()
	left, right, ok := strings.Cut(line, " = ")
	if !ok {
		left, right = strings.TrimSuffix(line, " ="), ""
	}
	words, want := strings.Fields(left), strings.Fields(right)
	var got []string
	switch words[0] {
	case "evaluate":
		var response struct{ Decision bool }
		subject, _ := entityOf(t, words[1:2])
		resource, _ := entityOf(t, words[3:])
		w.post(t, "/access/v1/evaluation", map[string]any{"subject": subject, "action": map[string]any{"name": words[2]}, "resource": resource}, &response)
		got = []string{map[bool]string{true: "true", false: "false"}[response.Decision]}
	case "evaluations":
		subject, _ := entityOf(t, words[1:2])
		var items []any
		for rest := words[3:]; len(rest) > 0; {
			var resource map[string]any
			resource, rest = entityOf(t, rest)
			items = append(items, map[string]any{"resource": resource})
		}
		var response struct{ Evaluations []struct{ Decision bool } }
		w.post(t, "/authzen/interop/access/v1/evaluations", map[string]any{"subject": subject, "action": map[string]any{"name": words[2]}, "evaluations": items}, &response)
		for _, e := range response.Evaluations {
			got = append(got, map[bool]string{true: "true", false: "false"}[e.Decision])
		}
	default:
		got = w.search(t, words)
		slices.Sort(got)
		slices.Sort(want)
	}
	if !slices.Equal(got, want) {
		t.Errorf("%s: got %v", line, got)
	}
}

// search sends a search for subjects, resources or actions, with two results
// per page, and returns all results.
func (w *world) search(t *testing.T, words []string) (got []string) {
	t.Helper()
	request := map[string]any{}
	switch words[0] {
	case "resource":
		request["subject"], _ = entityOf(t, words[1:2])
		request["action"], request["resource"] = map[string]any{"name": words[2]}, map[string]any{"type": words[3]}
	case "subject":
		request["resource"], _ = entityOf(t, words[3:])
		request["action"], request["subject"] = map[string]any{"name": words[2]}, map[string]any{"type": words[1]}
	case "action":
		request["subject"], _ = entityOf(t, words[1:2])
		request["resource"], _ = entityOf(t, words[2:])
	}
	page := map[string]any{"limit": 2}
	request["page"] = page
	for {
		var response struct {
			Page struct {
				Next  string `json:"next_token"`
				Count int
			}
			Results []struct{ Type, ID, Name string }
		}
		w.post(t, "/access/v1/search/"+words[0], request, &response)
		if len(response.Results) > 2 || len(response.Results) != response.Page.Count {
			t.Fatalf("%v: %+v", request, response)
		}
		for _, r := range response.Results {
			got = append(got, r.ID+r.Name)
		}
		if page["token"] = response.Page.Next; response.Page.Next == "" {
			return got
		}
	}
}

// send posts a body and returns the response.
func send(t testing.TB, h http.Handler, path, body string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequest("POST", path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, r)
	return rec
}
