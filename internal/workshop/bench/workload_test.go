package bench_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/door/openfga/language"
	"github.com/ostiary/ostiary/expr/cel"
	"github.com/ostiary/ostiary/internal/workshop/bench"
)

func embedded(t *testing.T) bench.Target {
	e, err := ostiary.Open(t.Context(), ostiary.Options{Conditions: cel.New(cel.Options{})})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return bench.NewEmbedded(e)
}

// TestLXDModelHasItsShape compares the model with the counts of LXD's model.
func TestLXDModelHasItsShape(t *testing.T) {
	t.Parallel()
	m, _, err := language.ParseDSL([]byte(bench.LXDModel()))
	if err != nil {
		t.Fatal(err)
	}
	relations := map[string]int{}
	total := 0
	for _, typ := range m.Types {
		relations[typ.Name] = len(typ.Relations)
		total += len(typ.Relations)
	}
	if len(m.Types) != 21 || total != 170 || relations["project"] != 55 || relations["server"] != 32 || relations["instance"] != 13 ||
		relations["storage_volume"] != 6 || relations["group"] != 5 || len(bench.ProjectEntitlements()) != 54 {
		t.Errorf("%d types, %d relations, %v, %d entitlements", len(m.Types), total, relations, len(bench.ProjectEntitlements()))
	}
}

// run returns the records of a workload on the library in this process.
func run(t *testing.T, f func(*bench.Runner) error) []bench.Record {
	t.Helper()
	var records []bench.Record
	cells := cellTitles{}
	r := &bench.Runner{
		Progress: cells.add,
		Sides:    []bench.Side{{Peer: "ostiary", Store: "memory", Target: embedded(t)}},
		Emit:     func(r bench.Record) error { records = append(records, r); return nil },
	}
	if err := f(r); err != nil {
		t.Fatal(err)
	}
	cells.check(t)
	for _, r := range records {
		if r.Failed() != 0 || r.N == 0 && !strings.HasPrefix(r.Notes, "no calls") {
			t.Errorf("%s, %s: %d good, failures %v, %s", r.Workload, r.Cell, r.N, r.Failures, r.Notes)
		}
	}
	return records
}

// cellTitles are the numbers in the progress of a workload: "cell 3 of 8". The key
// is the number of a cell, the value the number of all cells.
type cellTitles struct {
	mu    sync.Mutex
	total map[int]int
	other []string // titles of cells without a number
}

func (c *cellTitles) add(title string, _, _ int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var cell, of int
	if n, _ := fmt.Sscanf(title, "cell %d of %d", &cell, &of); n == 2 {
		if c.total == nil {
			c.total = map[int]int{}
		}
		c.total[cell] = of
	} else if !strings.HasPrefix(title, "loading ") {
		c.other = append(c.other, title)
	}
}

// check fails unless every cell has a number, and the last one is the number of
// all cells.
func (c *cellTitles) check(t *testing.T) {
	t.Helper()
	if len(c.total) == 0 || len(c.other) > 0 {
		t.Errorf("%d cells with a number; without one: %q", len(c.total), c.other)
	}
	for cell, of := range c.total {
		if of != len(c.total) {
			t.Errorf("cell %d of %d, but there are %d cells", cell, of, len(c.total))
		}
	}
}

func TestLXDOnTheLibrary(t *testing.T) {
	t.Parallel()
	records := run(t, func(r *bench.Runner) error { return r.LXD(context.Background(), bench.LXDOptions{Runs: 5}) })
	if len(records) != 5 || records[4].Cell != "fine-grained, all" || records[4].N != 5 {
		t.Errorf("%d records", len(records))
	}
}

func TestOpenFGAOnTheLibrary(t *testing.T) {
	t.Parallel()
	load := bench.Load{Clients: 2, Requests: 400, Duration: -1, WarmUp: time.Millisecond}
	records := run(t, func(r *bench.Runner) error {
		return r.OpenFGA(context.Background(), bench.OpenFGAOptions{Size: 10_000, Load: load})
	})
	if len(records) != len(bench.CellsOpenFGA()) {
		t.Errorf("%d records", len(records))
	}
}

func TestOpenFGARefuses(t *testing.T) {
	t.Parallel()
	r := &bench.Runner{}
	for _, o := range []bench.OpenFGAOptions{{Size: 3_999}, {Cells: []string{"nothing"}}} {
		if r.OpenFGA(context.Background(), o) == nil {
			t.Errorf("%+v is accepted", o)
		}
	}
}

func TestRecordsReadBack(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	if err := bench.Write(&b, bench.LXDPublished()...); err != nil {
		t.Fatal(err)
	}
	back, err := bench.Read("x.jsonl", &b)
	if err != nil || len(back) != len(bench.LXDPublished()) || back[0].Mean != 438e6 || back[0].Kind != bench.Quoted {
		t.Errorf("%d records, %v", len(back), err)
	}
	_, err = bench.Read("old.jsonl", strings.NewReader("\n{\"version\":2,\"kind\":\"measured\"}\n"))
	if !errors.Is(err, bench.ErrVersion) || !strings.Contains(err.Error(), "old.jsonl:2") {
		t.Error(err)
	}
	for _, bad := range []string{"{", `{"version":1,"kind":"guessed"}`, `{"version":1,"kind":"measured","n":"many"}`} {
		if _, err := bench.Read("bad", strings.NewReader(bad)); err == nil {
			t.Errorf("%s is accepted", bad)
		}
	}
}

func TestACP(t *testing.T) {
	t.Parallel()
	// The load is bounded by a number of requests, because a busy machine may run
	// none within a few milliseconds.
	load := bench.Load{Requests: 50, Duration: -1}
	stores := []bench.ACPStore{{Name: "memory"}, {Name: "pebble, unsynced"}, {Name: "pebble, synced"}}
	records := run(t, func(r *bench.Runner) error {
		return r.ACP(context.Background(), bench.ACPOptions{Stores: stores, Scales: []int{8, 16}, Runs: 2, Load: load})
	})
	if len(records) != 30 || records[0].Size != 8 || records[0].N != 2 {
		t.Errorf("%d records, %+v", len(records), records[0])
	}
	// A chart compares the records of a cell: they wait for the disk alike.
	stored := map[string][]string{}
	for _, r := range append(records, bench.ACPPublished()...) {
		if strings.HasPrefix(r.Cell, "register") && !slices.Contains(stored[r.Cell], r.Peer+", "+r.Store) {
			stored[r.Cell] = append(stored[r.Cell], r.Peer+", "+r.Store)
		}
	}
	want := map[string][]string{
		"register all, in memory": {"ostiary acp, memory", "ostiary acp, one batch, memory", "acp_core, memory", "acp_core, memory, 2 cores"},
		"register all, unsynced":  {"ostiary acp, pebble, unsynced", "ostiary acp, one batch, pebble, unsynced", "acp_core, persistent, unsynced", "acp_core, persistent, unsynced, 2 cores"},
		"register all, synced":    {"ostiary acp, pebble, synced", "ostiary acp, one batch, pebble, synced"},
	}
	if !reflect.DeepEqual(stored, want) {
		t.Errorf("the records of registering are in the cells %q, want %q", stored, want)
	}
}

// A quoted record has only the figures of its source: the report on document
// access control gives means, no medians.
func TestQuotedFigures(t *testing.T) {
	t.Parallel()
	for _, r := range bench.ACPPublished() {
		if r.Median != 0 || r.Mean == 0 {
			t.Errorf("%s, %s: mean %v, median %v; want a mean only", r.Cell, r.Store, r.Mean, r.Median)
		}
	}
}

// A listing for which LXD makes no calls has no times.
func TestLXDWithoutCalls(t *testing.T) {
	t.Parallel()
	records := run(t, func(r *bench.Runner) error { return r.LXD(context.Background(), bench.LXDOptions{Runs: 2}) })
	for _, r := range records {
		none := r.Cell == "admin" || r.Cell == "restricted"
		if none && (r.N != 0 || r.Median != 0 || r.Throughput != 0) || !none && r.N != 2 {
			t.Errorf("%s: %d requests, median %v", r.Cell, r.N, r.Median)
		}
	}
}
