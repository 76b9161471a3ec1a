package native_test

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/door/native"
	"github.com/ostiary/ostiary/door/openfga/language"
	permify "github.com/ostiary/ostiary/door/permify/language"
	"github.com/ostiary/ostiary/expr/cel"
	"github.com/ostiary/ostiary/internal/workshop/doortest"
	"github.com/ostiary/ostiary/internal/workshop/failing"
	"github.com/ostiary/ostiary/schema"
)

// world is a door with its own engine.
type world struct {
	engine *ostiary.Engine
	door   *door.Door
	router *door.Router
	logs   string // the folder of the decision log and of the audit log
}

// open opens a world.
func open(t testing.TB, o ostiary.Options) *world {
	t.Helper()
	if o.Conditions == nil {
		o.Conditions = cel.New(cel.Options{})
	}
	e, err := ostiary.Open(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	w := &world{engine: e, logs: t.TempDir()}
	parse := func(text []byte) (*schema.Model, error) { m, _, err := language.ParseDSL(text); return m, err }
	parsePermify := func(text []byte) (*schema.Model, error) {
		parsed, err := permify.Parse(string(text))
		if err != nil {
			return nil, err
		}
		return parsed.Model()
	}
	w.door, err = native.New(e, native.Options{DecisionLog: w.logs, AuditLog: w.logs, Dialects: []native.Dialect{
		{Name: language.LanguageDSL, Parse: parse, Format: language.FormatDSL},
		{Name: permify.Dialect, Parse: parsePermify, Format: permify.Format}}})
	if err != nil {
		t.Fatal(err)
	}
	if w.router, err = door.NewRouter(w.door.Routes); err != nil {
		t.Fatal(err)
	}
	return w
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

// send sends a request and returns the response.
func (w *world) send(t testing.TB, method, path, body string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequest(method, "/ostiary/v1"+path, strings.NewReader(body))
	rec := httptest.NewRecorder()
	w.ServeHTTP(rec, r)
	return rec
}

// do sends a request that must succeed, and decodes the response.
func (w *world) do(t testing.TB, method, path, body string) map[string]any {
	t.Helper()
	rec := w.send(t, method, path, body)
	if rec.Code/100 != 2 {
		t.Fatalf("%s %s %s: %d %s", method, path, body, rec.Code, rec.Body)
	}
	return decode(t, rec.Body.Bytes())
}

func decode(t testing.TB, text []byte) (out map[string]any) {
	t.Helper()
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	if err := dec.Decode(&out); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return out
}

// refused sends a request that must fail with the given status and code.
func (w *world) refused(t testing.TB, method, path, body string, status int, code string) map[string]any {
	t.Helper()
	rec := w.send(t, method, path, body)
	got := decode(t, rec.Body.Bytes())
	if rec.Code != status || got["code"] != code || got["message"] == "" {
		t.Errorf("%s %s %s: %d %s, want %d %s", method, path, body, rec.Code, rec.Body, status, code)
	}
	return got
}

// TestScripts plays the scripts in testdata: valid and invalid requests.
func TestScripts(t *testing.T) {
	t.Parallel()
	doortest.Run(t, "testdata/*.http", func(t testing.TB) *door.Door {
		// A fixed clock makes the scripts independent of the date.
		start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		return open(t, ostiary.Options{Clock: func() time.Time { return start }}).door
	})
}

// TestFailingScripts plays the scripts while operations of the storage fail.
func TestFailingScripts(t *testing.T) {
	t.Parallel()
	for _, reopen := range []bool{false, true} {
		// The order of an export is that in memory, so another start has another one.
		exports := func(path string) bool { return reopen && strings.Contains(path, "/export") }
		doortest.Failing{Glob: "testdata/*.http", Reopen: reopen, Skip: exports, Optional: []failing.Operation{failing.CloseState}, Open: func(t testing.TB, d *failing.Driver) *door.Door {
			start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
			return open(t, ostiary.Options{Driver: d, Clock: func() time.Time { return start }}).door
		}}.Run(t)
	}
}

// TestDescription compares what the door declares with testdata/description.txt.
func TestDescription(t *testing.T) {
	t.Parallel()
	doortest.Description(t, open(t, ostiary.Options{}).door, "testdata/description.txt")
}
