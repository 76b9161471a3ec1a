package authzen_test

import (
	"context"
	"maps"
	"net/http"
	"strings"
	"testing"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/door/authzen"
	"github.com/ostiary/ostiary/internal/workshop/doortest"
	"github.com/ostiary/ostiary/internal/workshop/failing"
	"github.com/ostiary/ostiary/storage"
)

// openCertification opens a door to an engine with the data of the certification
// scenario.
func openCertification(t testing.TB, driver storage.Driver) *door.Door {
	w := openOn(t, readFile(t, "testdata/certification.txt"), ostiary.Options{Driver: driver})
	info := w.store.Info()
	if err := w.engine.UpdateStore(context.Background(), info.ID, replace("fixture", map[string]string{authzen.Name: "fixture"})); err != nil {
		t.Fatal(err)
	}
	return w.door
}

// TestScripts plays the scripts against the data of the certification scenario.
func TestScripts(t *testing.T) {
	t.Parallel()
	doortest.Run(t, "testdata/*.http", func(t testing.TB) *door.Door { return openCertification(t, nil) })
}

// TestFailingScripts plays the scripts while operations of the storage fail.
func TestFailingScripts(t *testing.T) {
	t.Parallel()
	doortest.Failing{Glob: "testdata/*.http", Open: func(t testing.TB, d *failing.Driver) *door.Door {
		return openCertification(t, d)
	}}.Run(t)
}

// TestSearchScripts plays the scripts about searches and evaluations that do not
// end with a complete answer: some candidates are undecided, or the engine
// reaches a bound.
func TestSearchScripts(t *testing.T) {
	t.Parallel()
	for glob, bounds := range map[string]authz.Bounds{"search": {Depth: 3}, "undecided": {Depth: 3}, "bound": {Nodes: 2}} {
		doortest.Run(t, "testdata/search/"+glob+".http", func(t testing.TB) *door.Door {
			return openBounded(t, readFile(t, "testdata/search/data.txt"), bounds).door
		})
	}
}

// TestDescription compares what the door declares with testdata/description.txt.
func TestDescription(t *testing.T) {
	t.Parallel()
	doortest.Description(t, open(t, readFile(t, "testdata/certification.txt")).door, "testdata/description.txt")
}

// TestStores checks which store a path without one uses: the configured one or
// the one with the alias "default", and never the only one that exists.
func TestStores(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	w := open(t, readFile(t, "testdata/certification.txt"))
	id := w.store.ID()
	configured, unset := w.router, routerOf(t, w.engine, authzen.Options{})
	evaluate := func(r *door.Router, status int, text string) {
		t.Helper()
		w.router = r
		rec := send(t, w, "/access/v1/evaluation", `{"subject":{"type":"user","id":"alice"},"action":{"name":"read"},"resource":{"type":"record","id":"record-1"}}`)
		if rec.Code != status || !strings.Contains(rec.Body.String(), text) {
			t.Errorf("%d %s, want %d %s", rec.Code, rec.Body, status, text)
		}
	}
	const noStore = "the path names no store"
	evaluate(configured, http.StatusOK, `{"decision":true}`)
	evaluate(unset, http.StatusBadRequest, noStore)
	evaluate(routerOf(t, w.engine, authzen.Options{Store: "frist"}), http.StatusNotFound, `no such store: "frist" is no id, and no store has the alias for AuthZEN: ostiary store alias STORE authzen frist sets it; a policy domain has no such alias: use its id, which ostiary store list shows`)
	if err := w.engine.UpdateStore(ctx, id, replace("first", map[string]string{authzen.Name: "default"})); err != nil {
		t.Fatal(err)
	}
	evaluate(unset, http.StatusOK, `{"decision":true}`)
	// After a delete and a create, the other store is not asked.
	if err := w.engine.DeleteStore(ctx, id); err != nil {
		t.Fatal(err)
	}
	second, err := w.engine.CreateStore(ctx, ostiary.CreateStoreRequest{Name: "second"})
	if err != nil {
		t.Fatal(err)
	}
	w.fill(t, second, readFile(t, "testdata/certification.txt"))
	evaluate(configured, http.StatusNotFound, "no such store")
	evaluate(unset, http.StatusBadRequest, noStore)
	if _, err := authzen.New(w.engine, authzen.Options{URL: "https://pdp.example.com/"}); err == nil {
		t.Error("a URL with a slash at the end is accepted")
	}
}

// routerOf returns the routes of a door.
func routerOf(t testing.TB, e *ostiary.Engine, o authzen.Options) *door.Router {
	t.Helper()
	d, err := authzen.New(e, o)
	if err != nil {
		t.Fatal(err)
	}
	r, err := door.NewRouter(d.Routes)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// replace is a change of a store for UpdateStore, whatever its name and its aliases are.
func replace(name string, aliases map[string]string) func(*string, map[string]string) error {
	return func(n *string, all map[string]string) error {
		*n = name
		clear(all)
		maps.Copy(all, aliases)
		return nil
	}
}
