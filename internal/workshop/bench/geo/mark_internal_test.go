package geo

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ostiary/ostiary/internal/workshop/bench"
	"github.com/ostiary/ostiary/internal/workshop/bench/geo/delay"
)

func TestMark(t *testing.T) {
	const short, long = 2 * time.Second, 100 * time.Second
	for _, c := range []struct {
		before        Mark
		busy, outside float64
		played        time.Duration
		want          Mark
	}{
		{Measured, .5, .05, long, Measured}, {Measured, .5, .052, long, Disturbed}, {Measured, .5, .07, short, Measured}, {Measured, .5, .08, short, Disturbed},
		{Measured, .9, .02, long, Bound}, {Measured, .9, .2, long, Disturbed}, {Bound, .9, .2, long, Disturbed},
		{Disturbed, .9, 0, long, Disturbed}, {Bound, .3, 0, long, Bound}, {Failed, .9, .9, long, Failed},
	} {
		s := &Scenario{Busy: c.busy, Outside: c.outside, Result: bench.RallyResult{Load: c.played}}
		if got := s.mark(c.before); got != c.want {
			t.Errorf("%s, busy %g, outside %g for %s: got %s, expected %s", c.before, c.busy, c.outside, c.played, got, c.want)
		}
		if quiet, want := (&Record{Counted: true, Scenarios: []Scenario{{}, *s}}).Quiet(), c.outside < .052 || c.want == Measured; quiet != want {
			t.Errorf("outside %g for %s: quiet %t, expected %t", c.outside, c.played, quiet, want)
		}
	}
	if (&Record{Scenarios: []Scenario{{}}}).Quiet() {
		t.Error("a record without the count is quiet")
	}
}

// TestCount fills in a scenario from two samples.
func TestCount(t *testing.T) {
	at := time.Now()
	var s Scenario
	s.count(sample{at: at, busy: 1 * time.Second, all: 10 * time.Second, outside: 7 * time.Second, load: 3},
		sample{at: at.Add(4 * time.Second), busy: 5 * time.Second, all: 18 * time.Second, outside: 8 * time.Second, servers: time.Second, load: 2})
	if s.Busy != .5 || s.Others != .375 || s.Outside != .25 || s.Load != 3 {
		t.Errorf("got busy %g, others %g, outside %g, load %g", s.Busy, s.Others, s.Outside, s.Load)
	}
}

// TestAwaitQuiet watches a machine on which another program works, and ends at once if it is
// told to.
func TestAwaitQuiet(t *testing.T) {
	if _, err := bench.Outside(1); err != nil {
		t.Skip(err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if err := awaitQuiet(ended, time.Hour, 0); !errors.Is(err, context.Canceled) {
		t.Errorf("a run that has ended: %v", err)
	}
	if err := awaitQuiet(t.Context(), 0, 0); err != nil && !errors.Is(err, ErrLoaded) { // this machine may be busy
		t.Error(err)
	}
}

// TestUrgent orders cells that are to be played again.
func TestUrgent(t *testing.T) {
	cells := []Cell{{Instances: 3}, {Instances: 45}, {Instances: 9}, {Instances: 45, High: true}, {Instances: 3, High: true}}
	have := map[Cell]Record{}
	for _, c := range cells[:4] {
		have[c] = Record{Mark: Measured}
	}
	have[cells[3]] = Record{Mark: Disturbed}
	want := []Cell{cells[3], cells[4], cells[2], cells[1], cells[0]}
	if sortUrgent(cells, have); !slices.Equal(cells, want) {
		t.Errorf("got %v, expected %v", cells, want)
	}
}

// TestSettings computes the settings that fit a measured network.
func TestSettings(t *testing.T) {
	for _, c := range []struct {
		store        string
		instances    int
		high         bool
		way          time.Duration
		holder, read string
		hashes       int
	}{
		{MariaDB, 9, false, 0, "1s", "700ms", 256}, {MariaDB, 9, false, 50 * time.Millisecond, "1s", "700ms", 256}, {PostgreSQL, 9, true, 150 * time.Millisecond, "1.29s", "900ms", 256},
		{Galera, 9, true, 150*time.Millisecond + 200*time.Microsecond, "2.26s", "910ms", 256}, {Raft, 9, true, 150 * time.Millisecond, "2.25s", "900ms", 256},
		{Raft, 45, true, time.Millisecond, "1s", "700ms", 900}, {Raft, 45, false, time.Millisecond, "1s", "700ms", 256},
	} {
		m := delay.Measured{Hosts: slices.Repeat([]time.Duration{c.way}, c.instances-1)}
		cell := Cell{Column: Column{System: Ostiary, Store: c.store}, Instances: c.instances, Zones: zonesSame, High: c.high}
		s := cell.settings(m, cell.copies())
		if s.HolderLease.String() != c.holder || s.ReadLease.String() != c.read || s.HashQueue != c.hashes {
			t.Errorf("%s, %d instances, %s: leases %s and %s, %d hashes, expected %s and %s, %d", c.store, c.instances, c.way, s.HolderLease, s.ReadLease, s.HashQueue, c.holder, c.read, c.hashes)
		}
	}
}

// TestLengthen gives rehearsals, and follows the leases.
func TestLengthen(t *testing.T) {
	const ms = time.Millisecond
	for name, c := range map[string]struct {
		r            Rehearsal
		longer       bool
		holder, read time.Duration
	}{
		"in time":           {Rehearsal{Commit: 200 * ms, Trip: 200 * ms}, false, 1000 * ms, 700 * ms},
		"a little late":     {Rehearsal{Commit: 240 * ms, Trip: 290 * ms}, false, 1000 * ms, 700 * ms},
		"a late commit":     {Rehearsal{Commit: 600 * ms, Trip: 100 * ms}, true, 3000 * ms, 700 * ms},
		"a late round trip": {Rehearsal{Commit: 100 * ms, Trip: 420 * ms}, true, 1800 * ms, 1260 * ms},
		"lost":              {Rehearsal{Commit: 667 * ms, Trip: 467 * ms, Lost: true}, true, 3340 * ms, 2100 * ms},
		"failed":            {Rehearsal{Iterations: 10, Failed: 1}, true, 3000 * ms, 2100 * ms},
		"very late":         {Rehearsal{Commit: time.Hour, Trip: time.Hour}, true, leaseMax, readLeaseMax},
	} {
		s := &Settings{HolderLease: 1000 * ms, ReadLease: 700 * ms, Rehearsals: []Rehearsal{c.r}}
		if got := s.lengthen(); got != c.longer || s.HolderLease != c.holder || s.ReadLease != c.read {
			t.Errorf("%s: %t, leases %s and %s, expected %t, %s and %s", name, got, s.HolderLease, s.ReadLease, c.longer, c.holder, c.read)
		}
	}
	s := &Settings{HolderLease: leaseMax, ReadLease: readLeaseMax, Rehearsals: []Rehearsal{{Lost: true}}}
	if s.lengthen() {
		t.Error("the longest leases were made longer")
	}
	s = &Settings{HolderLease: 3 * time.Second, ReadLease: 2100 * ms, HashQueue: 900, Trip: 400 * time.Microsecond, Rehearsals: []Rehearsal{
		{HolderLease: time.Second, ReadLease: 700 * ms, Commit: 650 * ms, Trip: 400 * ms, Lost: true, Iterations: 450, Failed: 60, Cause: "status 503: no_lease"}, {HolderLease: 3 * time.Second, ReadLease: 2100 * ms, Commit: 500 * ms, Trip: 300 * ms, Iterations: 450}}}
	want := "leases of 3s and 2.1s, 900 hashes may wait: the longest measured round trip is 400µs without load; with leases of 1s and 700ms under load, a commit took up to 650ms and a round trip up to 400ms, a lease ran out, 60 of 450 iterations failed (status 503: no_lease); with leases of 3s and 2.1s under load, a commit took up to 500ms and a round trip up to 300ms"
	if s.String() != want {
		t.Errorf("got  %s\nwant %s", s, want)
	}
}

// TestLows notes what instances have left of their leases.
func TestLows(t *testing.T) {
	low := newLows(1, true)
	if commit, trip, lost := low.late(time.Second, time.Second); commit != 0 || trip != 0 || lost {
		t.Errorf("not seen: %s, %s, %t", commit, trip, lost)
	}
	for _, x := range []struct {
		instance    int
		write, read time.Duration
	}{{0, 0, 500}, {1, 700, 700}, {2, 0, 0}, {2, 0, 300}, {1, 400, 0}, {0, 0, 600}} {
		low.see(x.instance, x.write*time.Millisecond, x.read*time.Millisecond)
	}
	if commit, trip, lost := low.late(900*time.Millisecond, 600*time.Millisecond); commit != 200*time.Millisecond || trip != 100*time.Millisecond || lost {
		t.Errorf("got %s, %s, %t", commit, trip, lost)
	}
	low.see(3, 0, 0)
	if _, _, lost := low.late(900*time.Millisecond, 600*time.Millisecond); !lost {
		t.Error("an instance that never had a lease")
	}
	low.see(3, 0, 400*time.Millisecond)
	if _, _, lost := low.late(900*time.Millisecond, 600*time.Millisecond); lost {
		t.Error("an instance got its lease later")
	}
	low.see(2, 0, 0)
	if _, trip, lost := low.late(900*time.Millisecond, 600*time.Millisecond); trip != 400*time.Millisecond || !lost {
		t.Errorf("a lease that ran out: %s, %t", trip, lost)
	}
}

// TestLowsLocal ignores read leases where reads need none.
func TestLowsLocal(t *testing.T) {
	low := newLows(0, false)
	low.see(1, 0, 0)
	low.see(0, 500*time.Millisecond, 0)
	if commit, trip, lost := low.late(900*time.Millisecond, 600*time.Millisecond); commit != 100*time.Millisecond || trip != 0 || lost {
		t.Errorf("got %s, %s, %t", commit, trip, lost)
	}
}

// TestLeasesLeft reads metrics of an instance.
func TestLeasesLeft(t *testing.T) {
	text := metricWrite + " 0.25\n" + metricRead + " 0\nother 1\n"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, text) }))
	defer server.Close()
	at := strings.TrimPrefix(server.URL, "http://")
	if write, read, err := leasesLeft(t.Context(), at); err != nil || write != 250*time.Millisecond || read != 0 {
		t.Errorf("got %s, %s, %v", write, read, err)
	}
	for _, text = range []string{metricWrite + " 1\n", metricWrite + " x\n" + metricRead + " 1\n"} {
		if _, _, err := leasesLeft(t.Context(), at); err == nil || !strings.Contains(err.Error(), at) {
			t.Errorf("metrics %q: %v", text, err)
		}
	}
}

// TestCopies finds out where the copies of the log are, and which instance gets low load.
func TestCopies(t *testing.T) {
	for _, c := range []struct {
		store     string
		instances int
		delay     int
		zones     string
		copies    []int
		loaded    int
	}{
		{MariaDB, 9, 50, zonesSame, []int{0}, 1}, {Galera, 3, 0, zonesSame, []int{0, 1, 2}, 1}, {Galera, 9, 0, zonesSame, []int{0, 3, 6}, 3},
		{Galera, 9, Hierarchical, "Z1Z1Z3", []int{0, 1, 6}, 1}, {Galera, 9, Hierarchical, zonesSame, []int{0, 1, 2}, 1}, {Galera, 9, Hierarchical, "Z1Z2Z3", []int{0, 3, 6}, 3},
		{Raft, 9, 50, zonesSame, []int{0, 3, 6}, 3}, {Raft, 45, 0, zonesSame, []int{0, 9, 18, 27, 36}, 9},
	} {
		cell := Cell{Column: Column{System: Ostiary, Store: c.store}, Instances: c.instances, Delay: c.delay, Zones: c.zones, Rounds: 4}
		if got := cell.copies(); !slices.Equal(got, c.copies) {
			t.Errorf("%s: copies on %v, expected %v", cell, got, c.copies)
		}
		if got := cell.loaded(); len(got) != 1 || got[0] != c.loaded {
			t.Errorf("%s: load on %v, expected %d", cell, got, c.loaded)
		}
		if cell.High = true; len(cell.loaded()) != c.instances {
			t.Errorf("%s: load on %v", cell, cell.loaded())
		}
	}
}
