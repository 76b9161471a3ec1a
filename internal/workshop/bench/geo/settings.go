package geo

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ostiary/ostiary/internal/workshop/bench"
	"github.com/ostiary/ostiary/internal/workshop/bench/geo/delay"
)

// Settings are the settings of the instances of this program in a cell. They follow from
// what was measured before the cell: round trips from the network, and what a part of the
// load does to the leases from rehearsals.
type Settings struct {
	// HolderLease and ReadLease are the leases of the cell.
	HolderLease time.Duration `json:"holder_lease_ns"`
	ReadLease   time.Duration `json:"read_lease_ns"`
	// HashQueue is how many password hashes may wait at an instance.
	HashQueue int `json:"hash_queue"`
	// Trip and Between are the longest measured round trips without load: from the first
	// instance to any other, and to any other copy of the log.
	Trip    time.Duration `json:"trip_ns"`
	Between time.Duration `json:"between_ns"`
	// Rehearsals are what the leases of each deployment did under load, the last one with
	// those of the cell.
	Rehearsals []Rehearsal `json:"rehearsals"`
}

// Rehearsal is a small part of the load of a cell, played before the scenarios.
type Rehearsal struct {
	// HolderLease and ReadLease are the leases that were tried.
	HolderLease time.Duration `json:"holder_lease_ns"`
	ReadLease   time.Duration `json:"read_lease_ns"`
	// Commit and Trip are how late the renewals of the leases were: the longest commit of the
	// log that renews the lease of the holder, and the longest round trip that renews a read
	// lease. If a lease ran out, they are at least that long.
	Commit time.Duration `json:"commit_ns"`
	Trip   time.Duration `json:"trip_ns"`
	// Lost is true if a lease ran out.
	Lost bool `json:"lost"`
	// Iterations and Failed count the iterations, and Cause is the most frequent failure.
	Iterations int    `json:"iterations"`
	Failed     int    `json:"failed"`
	Cause      string `json:"cause,omitempty"`
	// Load is the number of processes that were ready to run in the last minute.
	Load float64 `json:"load"`
}

// hashQueueDefault is the default of --keystone-hash-queue.
const hashQueueDefault = 256

// clients returns how many clients the load of the cell has at most at the same time.
func (c Cell) clients() (n int) {
	for _, w := range bench.RallySeven() {
		n = max(n, w.Concurrency*len(c.loaded()))
	}
	return n
}

// settings returns the settings of a cell that fit a network as it measured itself, with
// copies of the log on some of its hosts. The instance that writes hashes the passwords of all
// clients, and each of them has at most one hash and one that it has given up.
func (c Cell) settings(m delay.Measured, copies []int) *Settings {
	s := &Settings{HashQueue: max(hashQueueDefault, 2*c.clients())}
	for i, way := range m.Hosts {
		s.Trip = max(s.Trip, 2*way)
		if slices.Contains(copies, i+1) {
			s.Between = max(s.Between, 2*way)
		}
	}
	s.HolderLease, s.ReadLease = Leases(s.Trip, s.Between)
	s.HolderLease, s.ReadLease = roundUp(s.HolderLease), roundUp(s.ReadLease)
	return s
}

// roundUp rounds a lease up to a hundredth of a second.
func roundUp(d time.Duration) time.Duration {
	const step = 10 * time.Millisecond
	return (d + step - 1) / step * step
}

const (
	// rehearsalsMax bounds the deployments of a cell.
	rehearsalsMax = 4
	// leaseMax bounds the lease of the holder, and readLeaseMax read leases.
	leaseMax     = 30 * time.Second
	readLeaseMax = 21 * time.Second
	// leaseSlack is how much too short a lease may be before it is changed, as a part of it:
	// times of a few seconds differ by that much.
	leaseSlack = 0.25
)

// lengthen returns whether the leases were too short in the last rehearsal, and makes them
// longer then: as [Leases] for the commit and the round trip under load, and at least three
// times as long if one ran out or iterations failed.
func (s *Settings) lengthen() bool {
	last := s.Rehearsals[len(s.Rehearsals)-1]
	read := readTrips * last.Trip
	holder := max(holderCommits*last.Commit, read*10/7)
	if last.Lost || last.Failed > 0 {
		holder, read = max(holder, 3*s.HolderLease), max(read, 3*s.ReadLease)
	}
	enough := func(given, need, most time.Duration) bool {
		return min(need, most) <= given+time.Duration(leaseSlack*float64(given))
	}
	if enough(s.HolderLease, holder, leaseMax) && enough(s.ReadLease, read, readLeaseMax) {
		return false
	}
	s.ReadLease = min(roundUp(max(s.ReadLease, read)), readLeaseMax)
	s.HolderLease = min(roundUp(max(s.HolderLease, holder, s.ReadLease*10/7)), leaseMax)
	return true
}

// String returns the settings and what they follow from, in a sentence for readers.
func (s *Settings) String() string {
	text := fmt.Sprintf("leases of %s and %s, %d hashes may wait: the longest measured round trip is %s without load", s.HolderLease, s.ReadLease, s.HashQueue, s.Trip.Round(10*time.Microsecond))
	for _, r := range s.Rehearsals {
		text += fmt.Sprintf("; with leases of %s and %s under load, a commit took up to %s and a round trip up to %s", r.HolderLease, r.ReadLease, r.Commit.Round(time.Millisecond), r.Trip.Round(time.Millisecond))
		if r.Lost {
			text += ", a lease ran out"
		}
		if r.Failed > 0 {
			text += fmt.Sprintf(", %d of %d iterations failed (%s)", r.Failed, r.Iterations, r.Cause)
		}
	}
	return text
}

// rehearsed is the scenario of rehearsals: it changes passwords, which takes two commits of
// the log and the most processor time.
const rehearsed = "create_user_update_password"

// rehearse plays an iteration of each client, and again for two leases of the holder, in
// which each lease is renewed several times. It watches the leases meanwhile.
func (d *deployment) rehearse(ctx context.Context) (r Rehearsal) {
	r.HolderLease, r.ReadLease = d.settings.HolderLease, d.settings.ReadLease
	low := newLows(d.holder(ctx)-1, !d.cell.Local) // with --acknowledge local reads need no lease
	watching, stop := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		d.watch(watching, low)
	}()
	all := bench.RallySeven()
	w := all[slices.IndexFunc(all, func(w bench.RallyWorkload) bool { return w.Scenario == rehearsed })]
	w.Times = w.Concurrency
	var err error
	for begin := time.Now(); err == nil && (r.Iterations == 0 || time.Since(begin) < 2*r.HolderLease); {
		var s Scenario
		s, err = d.scenario(ctx, w, func(int, int) {})
		r.Iterations += len(s.Result.Iterations)
		for _, c := range s.Causes() {
			if r.Failed == 0 {
				r.Cause = c.Name + ": " + c.First
			}
			r.Failed += c.Count
		}
		if len(s.Result.Iterations) == 0 {
			break
		}
	}
	stop()
	<-done
	r.Commit, r.Trip, r.Lost = low.late(r.HolderLease, r.ReadLease)
	r.Load = bench.LoadAverage()
	if err != nil {
		r.Lost, r.Cause = true, err.Error()
	}
	return r
}

// lows are the least that was left of leases, as instances show it.
type lows struct {
	holder      int  // the instance that writes, from 0; -1 if it is unknown
	reads       bool // read leases count
	write, read time.Duration
	// leased has the instances that were seen, and whether they had a read lease yet: one
	// that has just started gets its first one a little later.
	leased map[int]bool
}

func newLows(holder int, reads bool) *lows {
	return &lows{holder: holder, reads: reads, write: -1, read: -1, leased: map[int]bool{}}
}

// see notes what an instance has left.
func (l *lows) see(instance int, write, read time.Duration) {
	least := func(at *time.Duration, left time.Duration) {
		if *at < 0 || left < *at {
			*at = left
		}
	}
	if instance == l.holder {
		least(&l.write, write)
		return
	}
	if !l.reads {
		return
	}
	if l.leased[instance] = l.leased[instance] || read > 0; l.leased[instance] {
		least(&l.read, read)
	}
}

// renewals is how often an instance renews a lease in its time.
const renewals = 3

// late returns how long the renewals took at most, and whether a lease ran out or an instance
// never had one. A lease is
// counted from before its renewal is sent, and the next one is sent a third of it later: what
// is missing beyond that third is the time of the renewal.
func (l *lows) late(holder, read time.Duration) (commit, trip time.Duration, lost bool) {
	of := func(lease, left time.Duration) time.Duration {
		if left < 0 {
			return 0 // not seen
		}
		return max(0, lease-left-lease/renewals)
	}
	lost = l.write == 0 || l.read == 0
	for _, leased := range l.leased {
		lost = lost || !leased
	}
	return of(holder, l.write), of(read, l.read), lost
}

// watchEvery is the pause between two looks at leases: a look costs the instance about a
// millisecond of a processor.
const watchEvery = 20 * time.Millisecond

// watch reads the leases of all instances from their metrics until ctx ends: after each
// other one that of the instance that writes, whose lease the others depend on.
func (d *deployment) watch(ctx context.Context, low *lows) {
	look := func(i int) {
		if at, err := d.hosts.Client(i, serviceMetrics); err == nil {
			if write, read, err := leasesLeft(ctx, at); err == nil {
				low.see(i, write, read)
			}
		}
	}
	for i := 0; ctx.Err() == nil; i = (i + 1) % d.cell.Instances {
		if look(i); low.holder >= 0 && low.holder != i {
			look(low.holder)
		}
		select {
		case <-ctx.Done():
		case <-time.After(watchEvery):
		}
	}
}

// leasesLeft returns what an instance has left of the lease of the holder and of its read
// lease.
func leasesLeft(ctx context.Context, metrics string) (write, read time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+metrics+"/metrics", nil)
	if err != nil {
		return 0, 0, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, 0, err
	}
	defer response.Body.Close()
	left := map[string]time.Duration{}
	lines := bufio.NewScanner(response.Body)
	for lines.Scan() {
		if name, value, ok := strings.Cut(lines.Text(), " "); ok && (name == metricWrite || name == metricRead) {
			seconds, err := strconv.ParseFloat(value, 64)
			if err != nil {
				return 0, 0, fmt.Errorf("metric %s of %s: %w", name, metrics, err)
			}
			left[name] = time.Duration(seconds * float64(time.Second))
		}
	}
	if err := lines.Err(); err != nil {
		return 0, 0, err
	}
	if len(left) < 2 {
		return 0, 0, fmt.Errorf("%s has no metrics %s and %s", metrics, metricWrite, metricRead)
	}
	return left[metricWrite], left[metricRead], nil
}

// The metrics of an instance that have what is left of its leases.
const (
	metricWrite = "ostiary_node_holder_lease_seconds"
	metricRead  = "ostiary_node_read_lease_seconds"
)
