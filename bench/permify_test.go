package bench_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/bench"
	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/door/permify"
	"github.com/ostiary/ostiary/expr/cel"
)

// TestPermify runs the load test small against the door, whose answers must all
// be those that the data gives.
func TestPermify(t *testing.T) {
	t.Parallel()
	e, err := ostiary.Open(t.Context(), ostiary.Options{Conditions: cel.New(cel.Options{})})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	d, err := permify.New(e, permify.Options{})
	if err != nil {
		t.Fatal(err)
	}
	router, err := door.NewRouter(d.Routes)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var p door.Params
		route, _ := router.Find(r.Method, r.URL.EscapedPath(), &p)
		if route == nil {
			http.NotFound(w, r)
			return
		}
		route.Serve(w, r, p)
	}))
	t.Cleanup(s.Close)
	target, err := bench.NewHTTP(s.URL, "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { target.Close() })
	var records []bench.Record
	r := &bench.Runner{Sides: []bench.Side{{Peer: "ostiary", Target: target}}, Emit: func(r bench.Record) error { records = append(records, r); return nil }}
	if err := r.Permify(context.Background(), bench.PermifyOptions{IDs: 300, Load: bench.Load{Clients: 2, Requests: 500, Duration: -1}}); err != nil {
		t.Fatal(err)
	}
	for _, r := range records {
		if r.Failed() != 0 || r.N == 0 {
			t.Errorf("%s: %d good, failures %v, %s", r.Cell, r.N, r.Failures, r.Notes)
		}
	}
	if len(records) != 3 {
		t.Errorf("%d records", len(records))
	}
}
