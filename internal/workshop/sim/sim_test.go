package sim

import (
	"errors"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ostiary/ostiary/internal/cluster/sharedlog"
	"github.com/ostiary/ostiary/storage"
)

// runsDefault is the number of runs of TestRuns. They take about 8 s of processor time.
const runsDefault = 250

// setting returns the number in an environment variable, or a default.
func setting(t *testing.T, name string, byDefault uint64) uint64 {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return byDefault
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s is %q, expected a number", name, text)
	}
	return n
}

// play plays a seed in a bubble of its own, and calls broken with the promises that it breaks.
// OSTIARY_WINDOW is how many groups of writes may overlap; the default is 1, 2 or 16, by the
// seed. If a call does not return, the test ends with the stacks of all goroutines.
func play(t *testing.T, seed uint64, broken func(err error)) {
	t.Helper()
	window := setting(t, "OSTIARY_WINDOW", 0)
	synctest.Test(t, func(t *testing.T) {
		err := Run(t.Context(), seed, int(window))
		if err != nil {
			broken(err)
		}
		if errors.Is(err, errStuck) {
			debug.SetTraceback("all")
			panic(err)
		}
	})
}

// TestRuns plays runs with fresh seeds. OSTIARY_RUNS is the number of runs,
// OSTIARY_SEED the first seed.
func TestRuns(t *testing.T) {
	first := setting(t, "OSTIARY_SEED", uint64(time.Now().UnixMilli()))
	runs := setting(t, "OSTIARY_RUNS", runsDefault)
	t.Logf("%d runs from seed %d", runs, first)
	defer debug.SetGCPercent(debug.SetGCPercent(400)) // a run is short, and little of it stays
	for seed := first; seed-first < runs && !t.Failed(); seed++ {
		play(t, seed, func(err error) {
			// The order of goroutines is not part of the seed: one run may not be enough.
			t.Errorf("%v\nrepeat with: OSTIARY_WINDOW=%s OSTIARY_SEED=%d OSTIARY_RUNS=1 go test ./internal/workshop/sim -run TestRuns -count=100", err, os.Getenv("OSTIARY_WINDOW"), seed)
		})
	}
}

// TestRegistered requires that a node is measured by what the same disk has reported, also
// if it is started several times on a disk that has replaced another one.
func TestRegistered(t *testing.T) {
	w := newWorld(t.Context(), 1)
	p := &process{world: w, machine: w.machines[0]}
	for _, c := range []struct {
		id      storage.NodeID
		start   uint64
		applied uint64
		wrong   int
	}{
		{storage.NodeID{1}, 1, 25, 0},
		{storage.NodeID{2}, 1, 23, 0}, // a new disk
		{storage.NodeID{2}, 2, 23, 0},
		{storage.NodeID{2}, 3, 22, 1},
	} {
		n := sharedlog.NodeRecord{ID: c.id, Start: c.start, Applied: c.applied, Synced: c.applied}
		p.registered(w.log, n)
		if len(w.wrong) != c.wrong {
			t.Fatalf("after start %d of node %s with segment %d: %v, want %d errors", c.start, c.id, c.applied, w.wrong, c.wrong)
		}
		if err := w.log.Register(t.Context(), n); err != nil {
			t.Fatal(err)
		}
	}
}

// TestHunt is for the seeded faults of internal/workshop/oracle/faults/nodes: it looks for a run
// that breaks a promise. OSTIARY_HUNT is the number of runs.
func TestHunt(t *testing.T) {
	runs := setting(t, "OSTIARY_HUNT", 0)
	first := setting(t, "OSTIARY_SEED", 1)
	defer debug.SetGCPercent(debug.SetGCPercent(400))
	caught := false
	for seed := first; seed-first < runs && !caught; seed++ {
		play(t, seed, func(err error) {
			promise, _, _ := strings.Cut(strings.SplitN(err.Error(), ": ", 2)[1], "\n")
			promise, _, _ = strings.Cut(promise, ": ")
			t.Logf("caught: seed %d, worlds %d, law %q", seed, seed-first+1, promise)
			caught = true
		})
	}
}
