package geo

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/ostiary/ostiary/internal/workshop/bench"
	"github.com/ostiary/ostiary/internal/workshop/bench/geo/delay"
	"github.com/ostiary/ostiary/internal/workshop/bench/servers"
)

// WritesOptions are the settings of [Writes].
type WritesOptions struct {
	// Programs are files of this program. Each is deployed in its turn.
	Programs []string
	// Logs are what the nodes have their log in: names of databases, or [Raft].
	Logs []string
	// Delays are how far the nodes and a database with one server are from each other, one
	// way, in whole milliseconds.
	Delays []time.Duration
	// Writers are the numbers of clients that write, one cell each.
	Writers []int
	// Load is the load of each cell, without its clients. A cell takes longer if it would
	// have fewer than [writesMin] writes of each client.
	Load bench.Load
	// Size is the number of tuples that the store has before.
	Size int
	// Local is true if a write is answered as soon as it is in the log.
	Local bool
	// Proxies is true if delays are made by proxies even where namespaces are available.
	Proxies bool
	// Emit receives each record. An error ends the run.
	Emit func(bench.Record) error
	// Progress gets the current step, the finished part of it, and the total.
	Progress func(title string, done, total int)
	// Tell gets a line for each deployment.
	Tell func(line string)
}

// writesNodes is the number of nodes of a deployment.
const writesNodes = 3

// writesMin is how many writes a client of a cell makes at least, one after the other, and
// writesBefore how many in the warm-up.
const (
	writesMin    = 15
	writesBefore = 4
)

// LogsAll are the names of all logs.
func LogsAll() []string { return []string{Raft, PostgreSQL, MariaDB, Galera} }

// Writes measures durable writes of one tuple to three nodes, at the node that writes and at
// another one, over each log at each delay, and next to them the round trips that they cannot
// avoid. A database with one server has a host of its own, as far from the nodes as they are
// from each other; Galera has a server on the host of each node. A log that this machine does
// not have is left out.
func Writes(ctx context.Context, o WritesOptions) (err error) {
	r := &Runner{o: Options{Proxies: o.Proxies}}
	if r.work, err = os.MkdirTemp("", "ostiary-writes-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(r.work)) }()
	if err := os.Chmod(r.work, 0o711); err != nil {
		return err
	}
	o.Tell(fmt.Sprintf("load average before: %g", bench.LoadAverage()))
	for _, log := range o.Logs {
		c := Cell{Column: Column{Ostiary, log, o.Local}, Instances: writesNodes, Zones: zonesSame, Rounds: roundsShort}
		if lacks := r.lacks(c, o.Programs); lacks != "" {
			o.Tell(fmt.Sprintf("left out: %s: %s", log, lacks))
			continue
		}
		for _, away := range o.Delays {
			c.Delay = int(away / time.Millisecond)
			for _, program := range o.Programs {
				r.o.Program = program
				if err := r.writes(ctx, c, &o); err != nil {
					return fmt.Errorf("%s at %s: %w", log, away, err)
				}
			}
		}
	}
	o.Tell(fmt.Sprintf("load average after: %g", bench.LoadAverage()))
	return nil
}

// lacks returns what a log needs and this machine does not have, or "".
func (r *Runner) lacks(c Cell, programs []string) string {
	for _, program := range programs {
		r.o.Program = program
		if lacks := r.o.missing(c.Column); lacks != "" {
			return lacks
		}
	}
	if lacks := c.lacksNetwork(r.namespaces); lacks != "" {
		return lacks
	}
	if len(c.databases()) > 0 && os.Getuid() == 0 {
		if err := servers.CheckEnter(r.work); err != nil {
			return err.Error()
		}
	}
	return ""
}

// trips are the times that a write cannot avoid, as they were measured.
type trips struct {
	forward time.Duration // from another node to the one that writes, and back
	commit  time.Duration // of the bare log, from the place of the node that writes
	shown   time.Duration // from the node that writes to those that must show the write, and back
}

// of returns the time of a write at the node that writes, or at another one.
func (t trips) of(other bool) time.Duration {
	sum := t.commit + t.shown
	if other {
		sum += t.forward
	}
	return sum
}

// writes deploys a log and measures its writes.
func (r *Runner) writes(ctx context.Context, c Cell, o *WritesOptions) (err error) {
	title := fmt.Sprintf("%s, %d ms", c.Store, c.Delay)
	o.Progress(title+": starting", 0, 0)
	hosts, err := r.openWrites(c)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, hosts.Close()) }()
	network, err := hosts.Measure(ctx)
	if err != nil {
		return err
	}
	d := &deployment{o: &r.o, cell: c, hosts: hosts, at: c.databases(), settings: c.settings(network, c.copies()), startMax: startMax}
	if single(c) {
		d.at = []int{c.Instances}
		d.settings = c.settings(network, d.at)
	}
	defer func() { err = errors.Join(err, d.close()) }()
	if err := d.prepare(ctx, r); err != nil {
		return err
	}
	t, err := d.trips(ctx, network)
	if err != nil {
		return err
	}
	if err := d.startNodes(ctx, r.work); err != nil {
		return err
	}
	version := versionOf(r.o.Program)
	o.Tell(fmt.Sprintf("%s, %s: a bare commit takes %s, a round trip to another node %s; leases of %s and %s; %s; load average %g", title, cmp.Or(version, r.o.Program),
		t.commit.Round(10*time.Microsecond), t.forward.Round(10*time.Microsecond), d.settings.HolderLease, d.settings.ReadLease, hosts.Kind(), bench.LoadAverage()))
	sides, err := d.sides(ctx, o, version)
	for i := range sides {
		defer func() { err = errors.Join(err, sides[i].Target.Close()) }()
	}
	if err != nil {
		return err
	}
	run := bench.Runner{Sides: sides, Progress: func(text string, done, total int) { o.Progress(title+": "+text, done, total) }}
	run.Emit = func(record bench.Record) error {
		record.RoundTrips = float64(t.of(record.Peer == sides[1].Peer))
		record.Cell = title + ", " + record.Cell
		record.Notes = fmt.Sprintf("%s; load average %g", record.Notes, bench.LoadAverage())
		return o.Emit(record)
	}
	load := o.Load
	load.Duration, load.WarmUp = max(load.Duration, writesMin*t.of(true)), max(load.WarmUp, writesBefore*t.of(true))
	err = run.ClusterWrites(ctx, bench.ClusterOptions{Writers: o.Writers, Load: load, Size: o.Size})
	if holder := d.holder(ctx); err == nil && holder != 1 {
		o.Tell(fmt.Sprintf("%s: at the end, the node that writes is %d, expected 1: the records do not show what they name", title, holder))
	} else if failed := d.leads(); err == nil && failed != nil {
		o.Tell(fmt.Sprintf("%s: at the end, %s", title, failed))
	}
	return errors.Join(err, d.lost())
}

// single reports whether the log of a cell is a database with one server.
func single(c Cell) bool { return c.Store == MariaDB || c.Store == PostgreSQL }

// openWrites makes the network of a deployment, in which a database with one server has the
// last host.
func (r *Runner) openWrites(c Cell) (delay.Hosts, error) {
	if single(c) {
		c.Instances++
	}
	return r.open(c)
}

// startNodes starts the nodes, one after the other, so that the first one writes.
func (d *deployment) startNodes(ctx context.Context, work string) error {
	certificates := filepath.Join(work, "certificates")
	if err := d.certify(ctx, certificates); err != nil {
		return err
	}
	for _, i := range d.order() {
		if err := d.startInstance(ctx, i, certificates, []string{"--drain-time", "0"}); err != nil {
			return err
		}
		at, err := d.hosts.Client(i, serviceMetrics)
		if err != nil {
			return err
		}
		err = d.await(ctx, fmt.Sprintf("node %d", i+1), func(ctx context.Context) error { return ready(ctx, "http://"+at+"/readyz") })
		if err != nil {
			return err
		}
	}
	return d.await(ctx, "the role of node 1", func(ctx context.Context) error {
		if holder := d.holder(ctx); holder != 1 {
			return fmt.Errorf("node %d writes", holder)
		}
		return d.leads()
	})
}

// leads fails if the node that writes does not lead the consensus: its writes then pass
// through the leader, one segment after the other. After an attempt to take the lead that has
// failed, the node waits for a minute.
func (d *deployment) leads() error {
	if d.cell.Store != Raft {
		return nil
	}
	text, err := output(d.o.Program, "node", "list", "--data", d.data(0), "--json")
	if err != nil {
		return fmt.Errorf("list the nodes: %w", err)
	}
	var listed struct {
		Nodes []struct {
			Writes bool
			Log    string
		}
	}
	if err := json.Unmarshal([]byte(text), &listed); err != nil {
		return fmt.Errorf("list the nodes: %w", err)
	}
	for _, n := range listed.Nodes {
		if n.Writes && n.Log == "leads" {
			return nil
		}
	}
	return errors.New("the node that writes does not lead the consensus: its writes pass through another node")
}

// ready fails unless a URL answers with 200.
func ready(ctx context.Context, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers with %s", url, response.Status)
	}
	return nil
}

// sides fills the store through the first node, and returns the sides of it and of another one.
func (d *deployment) sides(ctx context.Context, o *WritesOptions, version string) (sides []bench.Side, err error) {
	model, tuples := bench.WorldOpenFGA(o.Size)
	for i := range 2 {
		t, err := bench.NewHTTP("http://"+d.clients[i], "")
		if err != nil {
			return sides, err
		}
		metrics, err := d.hosts.Client(i, serviceMetrics)
		if err != nil {
			return sides, errors.Join(err, t.Close())
		}
		s := bench.Side{Peer: Ostiary, Version: version, Store: d.cell.Store, Target: t, Metrics: "http://" + metrics + "/metrics"}
		for n, p := range d.servers {
			if n == i {
				s.PID = p.cmd.Process.Pid
			} else {
				s.Others = append(s.Others, p.cmd.Process.Pid)
			}
		}
		sides = append(sides, s)
		if i == 0 {
			err = t.Setup(ctx, model, tuples, func(n int) { o.Progress("filling the store", n, o.Size) })
		} else {
			sides[i].Peer += bench.OtherNode
			err = d.await(ctx, "the store on another node", t.Attach)
		}
		if err != nil {
			return sides, err
		}
	}
	return sides, nil
}

// versionOf returns the beginning of the commit of a program, otherwise its version, or "".
func versionOf(program string) string {
	text, err := output(program, "version", "--json")
	if err != nil {
		return ""
	}
	var its struct{ Version, Commit string }
	if json.Unmarshal([]byte(text), &its) != nil {
		return ""
	}
	return cmp.Or(its.Commit[:min(len(its.Commit), 8)], its.Version)
}

// trips measures what writes cannot avoid.
func (d *deployment) trips(ctx context.Context, network delay.Measured) (t trips, err error) {
	others := network.Hosts[:writesNodes-1]
	t.forward = 2 * others[0]
	if !d.cell.Local {
		t.shown = 2 * slices.Max(others)
	}
	if len(d.at) > 0 {
		t.commit, err = d.bareCommit(ctx)
		return t, err
	}
	synced, err := bench.SyncTime(d.folder)
	t.commit = 2*slices.Min(others) + synced // the leader and one of two followers are a majority
	return t, err
}
