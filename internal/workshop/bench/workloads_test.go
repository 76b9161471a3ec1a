package bench_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/ostiary/ostiary/internal/workshop/bench"
	"github.com/ostiary/ostiary/internal/workshop/golden"
	"github.com/ostiary/ostiary/policy/language"
	"github.com/ostiary/ostiary/policy/message"
	"github.com/ostiary/ostiary/storage"
	memorydriver "github.com/ostiary/ostiary/storage/memory"
)

// TestEmitFails ends each workload at a record that cannot be kept. Its stores must be
// removed.
func TestEmitFails(t *testing.T) {
	t.Parallel()
	full := errors.New("the disk is full")
	for _, s := range scenarios() {
		for _, at := range []int{1, 2, 3} {
			f := &front{}
			n := 0
			r := &bench.Runner{Emit: func(bench.Record) error {
				if n++; n == at {
					return full
				}
				return nil
			}}
			err := s.run(t, f, r)
			if n < at {
				continue // the workload has fewer records
			}
			removed := strings.Contains(f.String(), "DELETE /stores/ULID")
			if !errors.Is(err, full) || n != at || removed != (s.name != "permify" && s.name != "onap") {
				t.Errorf("%s, record %d: error %v after %d records, store removed: %v", s.name, at, err, n, removed)
			}
		}
	}
}

// TestRefusedWorkloads gives workloads targets and options that they do not support.
func TestRefusedWorkloads(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	one := func() *bench.Runner {
		return &bench.Runner{Sides: []bench.Side{{Peer: "p", Target: bench.Nothing{}}}, Emit: func(bench.Record) error { return nil }}
	}
	keystone := func(o bench.KeystoneOptions) error { o.Rounds = 4; return one().Keystone(ctx, o) }
	size := func(n int) bench.KeystoneOptions { return bench.KeystoneOptions{Size: bench.KeystoneSize{Users: n}} }
	for what, c := range map[string]struct {
		err  error
		want string
	}{
		"permify":            {one().Permify(ctx, bench.PermifyOptions{}), "needs a server over HTTP, not embedded"},
		"native":             {one().Native(ctx, bench.NativeOptions{}), "needs a server over HTTP, not embedded"},
		"onap":               {one().ONAP(ctx, bench.ONAPOptions{}), "needs a server over HTTP, not embedded"},
		"keystone":           {keystone(size(10)), "needs an HTTP target, got bench.Nothing"},
		"keystone, -10":      {keystone(size(-10)), "invalid number of users -10"},
		"keystone, 15":       {keystone(size(15)), "invalid number of users 15"},
		"keystone, too many": {keystone(size(bench.KeystoneUsersMax + 10)), "invalid number of users"},
		"keystone, most":     {keystone(size(bench.KeystoneUsersMax)), "needs an HTTP target"},
		"keystone, workload": {keystone(bench.KeystoneOptions{Workloads: []bench.RallyWorkload{{Scenario: "x"}}}), `unknown scenario "x"`},
		"openfga, size":      {one().OpenFGA(ctx, bench.OpenFGAOptions{Size: bench.SizeMinOpenFGA - 1}), "invalid size"},
		"openfga, cell":      {one().OpenFGA(ctx, bench.OpenFGAOptions{Cells: []string{"x"}}), `unknown cell "x"`},
	} {
		if c.err == nil || !strings.Contains(c.err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", what, c.err, c.want)
		}
	}
}

// TestChosenCells runs the cells that the options name, in their order.
func TestChosenCells(t *testing.T) {
	t.Parallel()
	var got []string
	r := &bench.Runner{Sides: []bench.Side{{Peer: "a", Target: bench.Nothing{}}, {Peer: "b", Target: bench.Nothing{}}}, Emit: func(r bench.Record) error {
		got = append(got, fmt.Sprint(r.Cell, " ", r.Peer, " ", r.N, " ", r.Load, " ", r.Size))
		return nil
	}}
	load := bench.Load{Clients: 3, Requests: 5, Duration: -1}
	if err := r.OpenFGA(t.Context(), bench.OpenFGAOptions{Size: 5_000, Cells: []string{"list 100", "direct"}, Load: load}); err != nil {
		t.Fatal(err)
	}
	load.Rate, load.Requests = 1e6, 4
	if err := r.OpenFGA(t.Context(), bench.OpenFGAOptions{Cells: []string{"batch 50", "list 1000", "write 100", "direct"}, Load: load}); err != nil {
		t.Fatal(err)
	}
	want := []string{"list 100 a 5 closed, 1 client 7874", "list 100 b 5 closed, 1 client 7874", "direct a 5 closed, 1 client 7874", "direct b 5 closed, 1 client 7874"}
	for _, cell := range []string{"batch 50 %s 4 closed, 3 clients 79369", "list 1000 %s 4 closed, 3 clients 79369", "write 100 %s 4 closed, 3 clients 79369", "direct %s 4 open, 1e+06/s 79369"} {
		want = append(want, fmt.Sprintf(cell, "a"), fmt.Sprintf(cell, "b"))
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestEmbeddedRecords compares the records of the workloads in this process with a
// file, apart from times.
func TestEmbeddedRecords(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	r := &bench.Runner{Emit: func(r bench.Record) error {
		if r.Workload == "xacml" {
			r.N = 0 // depends on the time
		}
		fmt.Fprintln(&out, recordText(r))
		return nil
	}}
	opened := 0
	stores := []bench.ACPStore{{Name: "memory"}, {Name: "other", Open: func() (storage.Driver, error) {
		if opened++; opened > 1 {
			return nil, errors.New("no more drivers")
		}
		return memorydriver.New(), nil
	}}}
	err := r.ACP(t.Context(), bench.ACPOptions{Stores: stores, Scales: []int{3, 5}, Runs: 2, Load: bench.Load{Requests: 4, Duration: -1}})
	fmt.Fprintln(&out, "error:", err)
	if err := r.XACML(t.Context(), bench.XACMLOptions{Policies: []int{3}, Threads: []int{1, 2}, Duration: 1}); err != nil {
		t.Fatal(err)
	}
	root, request := bench.XACMLShape(3)
	text, err := language.PrintText(root)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(&out, "\n%s\n%s\n", text, message.PrintJSONRequest(request))
	golden.Equal(t, "testdata/embedded.txt", out.String())
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r.XACML(canceled, bench.XACMLOptions{Policies: []int{1}, Threads: []int{1}, Duration: 1}); err == nil {
		t.Error("no error after the context has ended")
	}
}

// TestRallyFile compares results in Rally's form with a file.
func TestRallyFile(t *testing.T) {
	t.Parallel()
	began := time.Date(2026, 1, 2, 3, 4, 5, 678_901_000, time.UTC)
	action := func(name string, children ...bench.Action) bench.Action {
		if children == nil {
			children = []bench.Action{}
		}
		return bench.Action{Name: name, Children: children, Started: 1.5, Finished: 2.25}
	}
	workload := func(scenario string) bench.RallyWorkload {
		return bench.RallyWorkload{Scenario: scenario, Times: 3, Concurrency: 2, Tenants: 4, Users: 5}
	}
	results := []bench.RallyResult{
		{Workload: workload("get_entities"), Began: began, Load: 1500 * time.Millisecond, Iterations: []bench.Iteration{
			{Timestamp: 1, Duration: 2, Error: []string{}, Actions: []bench.Action{action("a", action("b"))}}, {Error: []string{"status 500", "text"}}}},
		{Workload: workload("create_user_set_enabled_and_delete"), Began: began, Iterations: []bench.Iteration{{Error: []string{}}}},
	}
	var b bytes.Buffer
	if err := bench.WriteRally(&b, "a title", results); err != nil {
		t.Fatal(err)
	}
	text := regexp.MustCompile(`("generated_at": ")[0-9-]{10}T[0-9:]{8}"`).ReplaceAllString(b.String(), `${1}NOW"`)
	golden.Equal(t, "testdata/rally.json", text)
}

// TestFloor checks the responses of a floor.
func TestFloor(t *testing.T) {
	t.Parallel()
	f := &bench.Floor{}
	ask := func(method, body string) string {
		w := httptest.NewRecorder()
		f.ServeHTTP(w, httptest.NewRequest(method, "/", strings.NewReader(body)))
		return fmt.Sprint(w.Code, " ", w.Header().Get("Content-Type"), " ", w.Header().Get("Content-Length"), " ", w.Body)
	}
	for _, c := range [][3]string{{"GET", "", `200 text/plain; charset=utf-8  {"status":"SERVING"}`}, {"POST", "x", "200 application/json 0 "}, {"PUT", "answer", "200   "}, {"POST", "x", "200 application/json 6 answer"}, {"PUT", "", "200   "}, {"POST", "", "200 application/json 0 "}} {
		if got := ask(c[0], c[1]); got != c[2] {
			t.Errorf("%s %q: %q, want %q", c[0], c[1], got, c[2])
		}
	}
}
