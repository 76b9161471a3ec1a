package bench_test

import (
	"context"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/door/authzen"
	"github.com/ostiary/ostiary/door/native"
	"github.com/ostiary/ostiary/door/openfga"
	"github.com/ostiary/ostiary/door/permify"
	"github.com/ostiary/ostiary/internal/workshop/bench"
)

// serve serves doors over one engine in memory.
func serve(t *testing.T, open ...func(*ostiary.Engine) (*door.Door, error)) *bench.HTTP {
	t.Helper()
	return serveEngine(t, memory(t), open...)
}

// serveEngine serves doors over an engine.
func serveEngine(t *testing.T, e *ostiary.Engine, open ...func(*ostiary.Engine) (*door.Door, error)) *bench.HTTP {
	t.Helper()
	return serveFront(t, &front{}, e, open...)
}

// runOn runs a workload on a target and its floor, and checks that every answer is
// correct.
func runOn(t *testing.T, target *bench.HTTP, cells int, run func(*bench.Runner) error) {
	t.Helper()
	floor := httptest.NewServer(&bench.Floor{})
	t.Cleanup(floor.Close)
	nothing, err := bench.NewFloorTarget(floor.URL, target)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nothing.Close() })
	got, titles := map[string]int{}, cellTitles{}
	r := &bench.Runner{Progress: titles.add, Sides: []bench.Side{{Peer: "ostiary", Target: target}, {Peer: "floor", Target: nothing}}, Emit: func(r bench.Record) error {
		got[r.Peer]++
		if r.Failed() != 0 || r.N == 0 {
			t.Errorf("%s, %s: %d good, failures %v, %s", r.Peer, r.Cell, r.N, r.Failures, r.Notes)
		}
		return nil
	}}
	if err := run(r); err != nil {
		t.Fatal(err)
	}
	titles.check(t)
	if got["ostiary"] != cells || got["floor"] == 0 {
		t.Errorf("%v records, want %d", got, cells)
	}
}

var (
	short     = bench.Load{Clients: 2, Requests: 300, Duration: -1}
	shortRamp = [...]time.Duration{100 * time.Millisecond, 80 * time.Millisecond, 60 * time.Millisecond, 40 * time.Millisecond}
)

// TestPermify runs a small load test against the door and checks every answer.
func TestPermify(t *testing.T) {
	t.Parallel()
	target := serve(t, func(e *ostiary.Engine) (*door.Door, error) { return permify.New(e, permify.Options{}) })
	runOn(t, target, 5, func(r *bench.Runner) error {
		return r.Permify(context.Background(), bench.PermifyOptions{IDs: 300, Load: short, PeakRate: 2_000, Ramp: shortRamp})
	})
}

// TestNative sends checks to one store through three doors.
func TestNative(t *testing.T) {
	t.Parallel()
	target := serve(t,
		func(e *ostiary.Engine) (*door.Door, error) { return openfga.New(e, openfga.Options{}) },
		func(e *ostiary.Engine) (*door.Door, error) { return authzen.New(e, authzen.Options{}) },
		func(e *ostiary.Engine) (*door.Door, error) { return native.New(e, native.Options{}) })
	runOn(t, target, 8, func(r *bench.Runner) error {
		return r.Native(context.Background(), bench.NativeOptions{Size: 4000, Watchers: 20, Writes: 4, Load: short})
	})
}
