package bench

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/ostiary/ostiary/acp"
	"github.com/ostiary/ostiary/storage"
)

// acpPolicy has the same structure as the report's policy.
const acpPolicy = `
name: test
resources:
  users:
    permissions:
      read:
        expr: owner + reader
      write:
        expr: owner
    relations:
      owner:
        types:
          - actor
      reader:
        types:
          - actor
      admin:
        manages:
          - reader
        types:
          - actor
actor:
  name: actor
`

// ACPStore is one storage driver to measure.
type ACPStore struct {
	// Name becomes Record.Store: "memory", "pebble, unsynced", "pebble, synced".
	Name string
	// Open returns an empty driver. Nil means the memory driver.
	Open func() (storage.Driver, error)
}

// ACPOptions are the settings of the workload "acp".
type ACPOptions struct {
	// Stores are the drivers to measure, one after the other.
	Stores []ACPStore
	// Scales are the numbers of documents. Default 256 to 8192, as in the report.
	Scales []int
	// Runs is how often all documents are registered. Default 5.
	Runs int
	// Load is the load of the checks. Default: one client for 300 ms after a
	// warm-up of a tenth of Load.Duration, and no timeout.
	Load Load
}

// ACP runs the three benchmarks of DefraDB's report on document access control:
// register documents, check one document, and look up whether a document is
// registered. It measures package acp in this process and ignores r.Sides.
func (r *Runner) ACP(ctx context.Context, o ACPOptions) error {
	if len(o.Scales) == 0 {
		o.Scales = []int{256, 512, 1024, 2048, 4096, 8192}
	}
	if o.Runs <= 0 {
		o.Runs = 5
	}
	if o.Load.Duration == 0 {
		o.Load.Duration = 300 * time.Millisecond
	}
	if o.Load.WarmUp == 0 {
		o.Load.WarmUp = o.Load.Duration / 10 // no warm-up if Load.Requests bounds the run
	}
	if o.Load.Timeout == 0 {
		o.Load.Timeout = -1
	}
	r.expect(len(o.Stores) * len(o.Scales) * acpCells)
	for _, s := range o.Stores {
		for _, scale := range o.Scales {
			if err := r.acpScale(ctx, &o, s, scale); err != nil {
				return fmt.Errorf("%s, %d documents: %w", s.Name, scale, err)
			}
		}
	}
	return nil
}

// acpCells is the number of cells of each store and scale.
const acpCells = 5

// documents is an acp engine with acpPolicy and two actors.
type documents struct {
	engine          *acp.Engine
	policy          string
	owner, stranger string // DIDs: of the documents' owner, and of an actor without rights
}

func (r *Runner) acpScale(ctx context.Context, o *ACPOptions, s ACPStore, scale int) (err error) {
	var driver storage.Driver
	if s.Open != nil {
		if driver, err = s.Open(); err != nil {
			return err
		}
		defer driver.Close()
	}
	d, err := openDocuments(ctx, driver)
	if err != nil {
		return err
	}
	defer d.engine.Close()
	side := Side{Peer: "ostiary acp", Store: s.Name, Target: Nothing{}}
	batched := side
	batched.Peer += ", one batch"
	for _, way := range []struct {
		side     *Side
		register func(context.Context, int) error
		notes    string
	}{
		{&side, d.register, "one request registers all documents one by one; throughput counts documents"},
		{&batched, d.registerBatch, "one request registers all documents in one batch; throughput counts documents"},
	} {
		record, err := r.register(ctx, d, o.Runs, scale, way.side, way.register)
		if err != nil {
			return err
		}
		record.Notes = way.notes
		if err := r.Emit(record); err != nil {
			return err
		}
	}
	for _, cell := range []struct {
		name string
		send Send
	}{
		{"check, granted", d.check(d.owner, true)},
		{"check, denied", d.check(d.stranger, false)},
		{"is registered", d.isRegistered},
	} {
		if err := r.measure(ctx, &side, Record{Workload: "acp", Cell: cell.name, Size: scale}, o.Load, cell.send); err != nil {
			return err
		}
	}
	return nil
}

// register measures how long it takes to register all documents. Only this is timed, not
// the reset before each run.
func (r *Runner) register(ctx context.Context, d *documents, runs, scale int, side *Side, register func(context.Context, int) error) (Record, error) {
	registered := newResult()
	progress := r.progress(r.nextCell(fmt.Sprintf("%s: register %d documents, %s", side.Peer, scale, side.Store)), runs)
	for i := range runs {
		progress(i)
		if err := d.reset(ctx); err != nil {
			return Record{}, err
		}
		start := time.Now()
		if err := register(ctx, scale); err != nil {
			return Record{}, err
		}
		took := time.Since(start)
		registered.add(took, nil)
		registered.Elapsed += took
	}
	record := side.record(Record{Workload: "acp", Cell: registerCell(side.Store), Size: scale, Load: "closed, 1 client"})
	registered.Fill(&record)
	record.Throughput *= float64(scale)
	return record, nil
}

// registerCell returns the cell of registering all documents in a store. Stores that
// wait for the disk, that do not, and that are in memory only have cells of their own,
// because one chart compares the records of a cell.
func registerCell(store string) string {
	switch {
	case strings.HasPrefix(store, "memory"):
		return "register all, in memory"
	case strings.Contains(store, "unsynced"):
		return "register all, unsynced"
	}
	return "register all, synced"
}

func openDocuments(ctx context.Context, driver storage.Driver) (*documents, error) {
	e, err := acp.Open(ctx, acp.Options{Driver: driver})
	if err != nil {
		return nil, err
	}
	d := &documents{engine: e}
	for _, did := range []*string{&d.owner, &d.stranger} {
		key, err := acp.GenerateKey(acp.KeyEd25519)
		if err != nil {
			return nil, err
		}
		*did = key.Public().DID()
	}
	d.policy, err = e.AddPolicy(ctx, d.owner, acpPolicy)
	return d, err
}

// reset removes all documents and adds the policy again.
func (d *documents) reset(ctx context.Context) error {
	err := d.engine.ResetState(ctx)
	if err == nil {
		d.policy, err = d.engine.AddPolicy(ctx, d.owner, acpPolicy)
	}
	return err
}

func (d *documents) document(i int) acp.Object {
	return acp.Object{Policy: d.policy, Resource: "users", ID: strconv.Itoa(i)}
}

func (d *documents) register(ctx context.Context, n int) error {
	for i := range n {
		if err := d.engine.Register(ctx, d.owner, d.document(i+1)); err != nil {
			return err
		}
	}
	return nil
}

func (d *documents) registerBatch(ctx context.Context, n int) error {
	b := d.engine.Batch()
	for i := range n {
		b.Register(d.owner, d.document(i+1))
	}
	return b.Commit(ctx)
}

func (d *documents) check(who string, want bool) Send {
	document := d.document(1)
	return func(ctx context.Context, _, _ int) error {
		ok, err := d.engine.Check(ctx, who, "read", document)
		if err != nil {
			return err
		}
		return correct(ok == want)
	}
}

func (d *documents) isRegistered(ctx context.Context, _, _ int) error {
	ok, err := d.engine.IsRegistered(ctx, d.document(1))
	if err != nil {
		return err
	}
	return correct(ok)
}

// ACPPublished returns the mean times, which is all that the sources give:
// the figures of DefraDB's report, and figures of acp_core
// that were measured on a machine like the one of this project's benchmarks.
func ACPPublished() []Record {
	const report = "DefraDB, acp_bench_report of January 2025, Core Ultra 9 185H, 22 threads; the persistent store unsynced"
	const unsynced = "persistent, unsynced"
	const here = "acp_core, measured on 2 cores; the persistent store unsynced"
	var out []Record
	add := func(source, store, cell string, size, n int, mean float64) {
		out = append(out, Record{Kind: Quoted, Source: source, Workload: "acp", Cell: cell, Door: "embedded", Peer: "acp_core", Store: store, Size: size, N: n, Mean: mean})
	}
	scales := [...]int{256, 512, 1024, 2048, 4096, 8192}
	for _, rows := range []struct {
		store, cell string
		n           int
		unit        time.Duration
		means       [6]float64
	}{
		{"memory", registerCell("memory"), 2, time.Millisecond, [6]float64{21.8, 44.5, 88.7, 178, 364, 744}},
		{unsynced, registerCell(unsynced), 2, time.Millisecond, [6]float64{16.2, 32.8, 67.2, 135, 276, 601}},
		{"memory", "check, granted", 10, time.Microsecond, [6]float64{101, 102, 101, 101, 195, 102}},
		{unsynced, "check, granted", 10, time.Microsecond, [6]float64{99.4, 104, 108, 108, 310, 127}},
		{"memory", "is registered", 10, time.Microsecond, [6]float64{54.6, 49.1, 44.3, 50, 47, 50.1}},
		{unsynced, "is registered", 10, time.Microsecond, [6]float64{49.1, 42.7, 39.9, 44.1, 343, 80.9}},
	} {
		for i, mean := range rows.means {
			add(report, rows.store, rows.cell, scales[i], rows.n, mean*float64(rows.unit))
		}
	}
	add(here, "memory, 2 cores", registerCell("memory"), 8192, 1, 1949e6)
	add(here, unsynced+", 2 cores", registerCell(unsynced), 8192, 1, 2015e6)
	add(here, "memory, 2 cores", "check, granted", 8192, 1, 89e3)
	add(here, "memory, 2 cores", "check, denied", 8192, 1, 193e3)
	return out
}
