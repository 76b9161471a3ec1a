package bench_test

import (
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/door/keystone"
	"github.com/ostiary/ostiary/internal/identity"
	"github.com/ostiary/ostiary/internal/identity/settings"
	"github.com/ostiary/ostiary/internal/workshop/bench"
	"github.com/ostiary/ostiary/internal/workshop/golden"
)

// serveKeystone serves a bootstrapped deployment behind a front.
func serveKeystone(t *testing.T, f *front) (*identity.Service, *bench.HTTP) {
	t.Helper()
	s, open := keystoneEngine(t)
	return s, serveFront(t, f, nil, open)
}

// actionsText returns the actions of an iteration, with those within them in
// parentheses.
func actionsText(actions []bench.Action) (text string) {
	for _, a := range actions {
		text += " " + strings.TrimPrefix(a.Name, "keystone_v3.")
		if len(a.Children) > 0 {
			text += " (" + strings.TrimSpace(actionsText(a.Children)) + ")"
		}
	}
	return text
}

// TestScenarios compares the requests of each of Rally's scenarios with a file, in
// their order, with logins and without. Then it makes requests fail, one in each run:
// the iteration must fail with it, and make no further action.
func TestScenarios(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	for i, w := range bench.RallySeven() {
		w.Times, w.Concurrency, w.Tenants, w.Users = 1, 1, 1, 1
		play := func(refuse func(cell string, n int) bool) (*front, []bench.RallyResult, []bench.Record) {
			f := &front{refuse: refuse}
			s, target := serveKeystone(t, f)
			before := len(names(t, s))
			var results []bench.RallyResult
			var records []bench.Record
			progress := func(title string, done, total int) {
				f.progress(title, done, total)
				if done == total {
					f.between() // what the iterations have made is removed
				}
			}
			r := &bench.Runner{Progress: progress, Sides: []bench.Side{{Peer: "ostiary", Target: target}}, Emit: func(r bench.Record) error {
				f.between()
				records = append(records, r)
				return nil
			}}
			err := r.Keystone(t.Context(), bench.KeystoneOptions{Workloads: []bench.RallyWorkload{w}, Password: "secret", Rounds: 4, Load: bench.Load{Duration: -1, Requests: 1},
				Results: func(_ *bench.Side, x []bench.RallyResult) error { results = x; return nil }})
			if err != nil {
				t.Fatalf("%s: %v", w.Scenario, err)
			}
			if after := len(names(t, s)); after != before {
				t.Errorf("%s: %d users, projects and roles, %d before", w.Scenario, after, before)
			}
			return f, results, records
		}
		f, results, records := play(nil)
		fmt.Fprintf(&out, "\n%s:%s\n", w.Scenario, actionsText(results[0].Iterations[0].Actions))
		for _, r := range records {
			if strings.Contains(r.Cell, w.Scenario) {
				fmt.Fprintf(&out, "  record %s: %d, %s\n", r.Cell, r.N, r.Load)
			}
		}
		for _, cell := range []string{"ostiary: " + w.Scenario, "ostiary: " + w.Scenario + ", logged in"} {
			fmt.Fprintf(&out, "  %s\n", cell)
			for _, request := range f.order[cell] {
				fmt.Fprintf(&out, "    %s\n", request)
			}
			requests := len(f.order[cell])
			if i > 0 && !strings.HasSuffix(cell, "logged in") {
				requests = 0 // the logins are those of the first scenario
			}
			for fail := 1; fail <= requests; fail++ {
				_, results, records := play(func(in string, n int) bool { return in == cell && n == fail })
				failed := ""
				for _, r := range records {
					if r.Failed() > 0 {
						failed += fmt.Sprintf("; %s: %d good, %v", strings.TrimPrefix(r.Cell, w.Scenario), r.N, r.Failures)
					}
				}
				iteration := results[0].Iterations[0]
				if (len(iteration.Error) > 0) != (cell == "ostiary: "+w.Scenario) {
					t.Errorf("%s: request %d fails: the result has the error %v", cell, fail, iteration.Error)
				}
				if len(iteration.Error) > 0 {
					failed += " after" + actionsText(iteration.Actions)
				}
				fmt.Fprintf(&out, "    request %d fails%s\n", fail, failed)
			}
		}
	}
	golden.Equal(t, "testdata/scenarios.txt", out.String())
}

// TestLargeRequests compares the requests of a large deployment with a file, when it
// is made over HTTP.
func TestLargeRequests(t *testing.T) {
	t.Parallel()
	f := &front{}
	_, target := serveKeystone(t, f)
	var out strings.Builder
	r := &bench.Runner{Progress: f.progress, Sides: []bench.Side{{Peer: "ostiary", Target: target}}, Emit: func(r bench.Record) error {
		f.between()
		fmt.Fprintf(&out, "%s, %s: size %d, %s, %d good\n", r.Workload, r.Cell, r.Size, r.Load, r.N)
		return nil
	}}
	err := r.Keystone(t.Context(), bench.KeystoneOptions{Size: bench.KeystoneSize{Users: 20}, Password: "secret", Rounds: 4, Load: bench.Load{Duration: -1, Requests: 60}})
	if err != nil {
		t.Fatal(err)
	}
	golden.Equal(t, "testdata/requests-large.txt", out.String()+f.String())
}

// keystoneEngine returns a bootstrapped deployment and what opens its door.
func keystoneEngine(t *testing.T) (*identity.Service, func(*ostiary.Engine) (*door.Door, error)) {
	t.Helper()
	e, err := ostiary.Open(t.Context(), ostiary.Options{SecretKey: &[32]byte{1}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	store, err := e.CreateStore(t.Context(), ostiary.CreateStoreRequest{Name: "keystone", Aliases: map[string]string{keystone.Name: keystone.DefaultStore}})
	if err != nil {
		t.Fatal(err)
	}
	s, err := identity.Open(t.Context(), store, settings.Deployment{Rounds: 4})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Bootstrap(t.Context(), identity.BootstrapOptions{Password: "secret"}); err != nil {
		t.Fatal(err)
	}
	return s, func(*ostiary.Engine) (*door.Door, error) {
		return keystone.New(e, keystone.Options{Identity: settings.Deployment{Rounds: 4}})
	}
}

// TestTimes plays a workload whose iterations are counted after the first ones: with none
// after them, the first ones are the result.
func TestTimes(t *testing.T) {
	t.Parallel()
	f := &front{}
	s, _ := serveKeystone(t, f)
	server := httptest.NewServer(f)
	defer server.Close()
	at := server.Listener.Addr().String()
	before := names(t, s)
	for times, want := range map[int]int{0: 2, 1: 2, 3: 6} { // of two servers
		p := &bench.RallyPlayer{Servers: []string{at, at}, Password: "secret"}
		var took time.Duration
		p.Times = func(w bench.RallyWorkload, longest time.Duration) int {
			if took = longest; w.Times != 5 {
				t.Errorf("asked for %d iterations, want 5", w.Times)
			}
			return times
		}
		w := bench.RallySeven()[4]
		w.Times = 5
		calls := 0
		err := p.Login(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		result, err := p.Play(t.Context(), w, func() { calls++ })
		p.Close()
		if err != nil || len(result.Iterations) != want || result.Workload.Times != max(times, 1) || took <= 0 || calls != 2*(1+min(times, 1)) {
			t.Errorf("%d times: %d iterations of %d, %d calls, the longest took %s, error %v", times, len(result.Iterations), result.Workload.Times, calls, took, err)
		}
	}
	if after := names(t, s); !slices.Equal(before, after) {
		t.Errorf("left: %v, before %v", after, before)
	}
}
