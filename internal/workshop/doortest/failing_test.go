package doortest

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/internal/workshop/failing"
	"github.com/ostiary/ostiary/storage"
)

// recorder records the errors of a test instead of failing it.
type recorder struct {
	testing.TB
	problems []string
}

func (r *recorder) Errorf(format string, args ...any) {
	r.problems = append(r.problems, fmt.Sprintf(format, args...))
}

var errFatal = errors.New("fatal")

func (r *recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	panic(errFatal)
}

// storeDoor returns a door with one route, which looks for a store with the alias
// "a" and then calls respond.
func storeDoor(d storage.Driver, respond func(w http.ResponseWriter, err error)) *door.Door {
	return &door.Door{Name: "stores", Routes: []door.Route{{Method: http.MethodGet, Pattern: "/a", Name: "A",
		Serve: func(w http.ResponseWriter, r *http.Request, _ door.Params) {
			_, err := d.StoreByAlias(r.Context(), "stores", "a")
			respond(w, err)
		}}}}
}

// TestFailing plays a script against doors that handle an error of the storage in
// different ways.
func TestFailing(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "a.http")
	if err := os.WriteFile(file, []byte("GET /a\n----\n200\n\n[]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	calls := 0
	for name, c := range map[string]struct {
		respond func(w http.ResponseWriter, err error)
		with    Failing
		problem string
	}{
		"an error": {func(w http.ResponseWriter, err error) { answer(w, err, 503, "unavailable") }, Failing{}, ""},
		"an error of a protocol": {func(w http.ResponseWriter, err error) { answer(w, err, 418, "") },
			Failing{Codes: []string{"418"}}, ""},
		"an end of a stream": {func(w http.ResponseWriter, err error) { answer(w, err, 200, `[]{"error":"broken"}`) }, Failing{}, ""},
		"the error is ignored": {func(w http.ResponseWriter, _ error) { answer(w, nil, 0, "") }, Failing{},
			"succeeded, but operation 1 (StoreByAlias) failed"},
		"an optional operation": {func(w http.ResponseWriter, _ error) { answer(w, nil, 0, "") },
			Failing{Optional: []failing.Operation{failing.StoreByAlias}}, ""},
		"less than everything":   {func(w http.ResponseWriter, err error) { answer(w, err, 200, "[1]") }, Failing{}, "status 200, expected an error of the server"},
		"the request is refused": {func(w http.ResponseWriter, err error) { answer(w, err, 404, "") }, Failing{}, "status 404, expected an error of the server"},
		"the text of the storage": {func(w http.ResponseWriter, err error) { answer(w, err, 500, fmt.Sprint(err)) }, Failing{},
			"the text of the storage's error is in the response"},
		"it stays broken": {func(w http.ResponseWriter, err error) {
			if calls++; calls > 1 {
				err = storage.ErrClosed
			}
			answer(w, err, 500, "")
		}, Failing{}, "after an attempt that failed: status 500, want 200"},
		"a counter": {func(w http.ResponseWriter, err error) { answer(w, err, 200, "[1]") },
			Failing{Skip: func(path string) bool { return path == "/a" }}, ""},
	} {
		for _, reopen := range []bool{false, true} {
			calls = 0
			c.with.Reopen = reopen
			c.with.Open = func(_ testing.TB, d *failing.Driver) *door.Door { return storeDoor(d, c.respond) }
			r := &recorder{TB: t}
			counts := map[failing.Operation]int{}
			func() {
				defer func() {
					if e := recover(); e != nil && e != any(errFatal) {
						panic(e)
					}
				}()
				c.with.play(r, file, counts)
			}()
			if got := strings.Join(r.problems, "\n"); (got == "") != (c.problem == "") || !strings.Contains(got, c.problem) {
				t.Errorf("%s: %q, expected %q", name, got, c.problem)
			}
			if counts[failing.StoreByAlias] != 1 {
				t.Errorf("%s: %v, expected one StoreByAlias", name, counts)
			}
		}
	}
}

// answer answers with [] if the storage has no store, and else with a status and a
// body.
func answer(w http.ResponseWriter, err error, status int, body string) {
	if err == nil || errors.Is(err, storage.ErrNoStore) {
		status, body = http.StatusOK, "[]"
	}
	w.WriteHeader(status)
	_, _ = w.Write([]byte(body))
}
