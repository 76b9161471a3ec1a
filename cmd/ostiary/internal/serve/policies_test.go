package serve

import (
	"context"
	"net/http"
	"testing"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/door/openfga"
	"github.com/ostiary/ostiary/expr/cel"
	"github.com/ostiary/ostiary/internal/workshop/doortest"
)

// TestPolicyScripts plays scripts that use several doors: policies over relations
// that another door writes, and AuthZEN requests that policies answer.
func TestPolicyScripts(t *testing.T) {
	t.Parallel()
	doortest.Suite{Glob: "testdata/policies/*.http", Handler: allDoorsHandler}.Run(t)
}

// allDoorsHandler returns a handler with all doors on one engine, without a
// network.
func allDoorsHandler(t testing.TB) http.Handler {
	t.Helper()
	e, err := ostiary.Open(context.Background(), ostiary.Options{Conditions: openfga.Conditions{Inner: cel.New(cel.Options{})}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	doors, err := AllDoors(e, &DoorFlags{})
	if err != nil {
		t.Fatal(err)
	}
	var routers []*door.Router
	for _, d := range doors {
		r, err := door.NewRouter(d.Routes)
		if err != nil {
			t.Fatal(err)
		}
		routers = append(routers, r)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for _, router := range routers {
			var p door.Params
			if route, _ := router.Find(r.Method, r.URL.EscapedPath(), &p); route != nil {
				route.Serve(w, r, p)
				return
			}
		}
		t.Errorf("no door has %s %s", r.Method, r.URL.Path)
		w.WriteHeader(http.StatusNotFound)
	})
}
