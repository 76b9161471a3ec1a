package geo_test

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/ostiary/ostiary/internal/workshop/bench"
	"github.com/ostiary/ostiary/internal/workshop/bench/geo"
)

// table1 is table 1 of the study: create_and_list_tenants on CockroachDB with 9
// instances, in seconds.
var table1 = [][2]float64{{.134, .023}, {.127, .025}, {.129, .024}, {.134, .023}, {.132, .024}, {.132, .025}, {.126, .024}, {.126, .026}, {.131, .025}, {.130, .025}}

// played returns a scenario with these times, and with failed iterations.
func played(times [][2]float64, failed int) geo.Scenario {
	s := geo.Scenario{Result: bench.RallyResult{Workload: bench.RallySeven()[2]}, Times: len(times) + failed}
	at := 1_764_000_000.0
	action := func(name string, took float64) bench.Action {
		a := bench.Action{Name: "keystone_v3." + name, Children: []bench.Action{}, Started: at, Finished: at + took}
		at += took
		return a
	}
	for _, row := range times {
		i := bench.Iteration{Timestamp: at, Error: []string{}}
		i.Actions = []bench.Action{action("create_project", row[0]), action("list_projects", row[1])}
		i.Duration = at - i.Timestamp
		s.Result.Iterations = append(s.Result.Iterations, i)
	}
	for range failed {
		s.Result.Iterations = append(s.Result.Iterations, bench.Iteration{Error: []string{"status 503", "no holder"}, Actions: []bench.Action{action("create_project", 30)}})
	}
	return s
}

// TestTable2 computes table 2 of the study from its table 1, whose times are rounded to
// milliseconds.
func TestTable2(t *testing.T) {
	s := played(table1, 0)
	f := geo.FrameOf(&s)
	for what, values := range map[string][]float64{"create_project": f.Column(0), "list_projects": f.Column(1), "Total": f.Totals()} {
		got := []float64{geo.Mean(values), geo.Deviation(values), geo.Quantile(values, 0), geo.Quantile(values, .25), geo.Quantile(values, .5), geo.Quantile(values, .75), geo.Quantile(values, 1)}
		want := map[string][]float64{"create_project": {.130, .003, .126, .128, .131, .132, .134}, "list_projects": {.024, .001, .023, .024, .024, .025, .026}, "Total": {.155, .003, .150, .153, .155, .157, .157}}[what]
		for i := range want {
			if math.Abs(got[i]-want[i]) > 0.0011 {
				t.Errorf("%s: got %.4f, the study has %.3f", what, got, want)
				break
			}
		}
	}
}

func TestDropped(t *testing.T) {
	s := played(append([][2]float64{{9, .02}, {.1, 9}}, table1...), 3)
	if got := s.Lambda(); got != 0.2 {
		t.Errorf("λ %v, expected 3 of 15", got)
	}
	if causes := s.Causes(); len(causes) != 1 || causes[0] != (geo.Cause{Name: "status 503", Count: 3, First: "no holder"}) {
		t.Errorf("causes %+v", causes)
	}
	f := geo.FrameOf(&s)
	if len(f.Rows) != 12 || len(f.Totals()) != 12 {
		t.Fatalf("%d rows", len(f.Rows))
	}
	d := f.Dropped()
	if n := len(d.Totals()); n != 10 {
		t.Errorf("%d rows without dropped times, expected 10", n)
	}
	if n := len(d.Column(0)); n != 11 {
		t.Errorf("%d times of the first action, expected 11", n)
	}
	if geo.Quantile(d.Column(1), 1) > 1 || math.IsNaN(geo.Mean(d.Column(0))) {
		t.Errorf("the largest times are left: %v", d.Column(1))
	}
	if len(f.Totals()) != 12 {
		t.Error("Dropped changed its frame")
	}
}

// TestWriteRally reads a file back as the study's notebook does.
func TestWriteRally(t *testing.T) {
	folder := t.TempDir()
	r := geo.Record{Cell: geo.Full()[0], Mark: geo.Measured, Scenarios: []geo.Scenario{played(table1, 2)}}
	if err := geo.WriteRally(folder, []geo.Record{r}); err != nil {
		t.Fatal(err)
	}
	found, err := filepath.Glob(filepath.Join(folder, "keystone", "mariadb-*", "rally_home", "*.json"))
	if err != nil || len(found) != 1 {
		t.Fatalf("found %q, %v", found, err)
	}
	text, err := os.ReadFile(found[0])
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Tasks []struct {
			Subtasks []struct {
				Title     string
				Workloads []struct {
					Data []struct {
						Error   []string
						Actions []struct {
							Name              string
							Started, Finished float64
						} `json:"atomic_actions"`
					}
				}
			}
		}
	}
	if err := json.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	sub := file.Tasks[0].Subtasks[0]
	good := 0
	for _, i := range sub.Workloads[0].Data {
		if len(i.Error) == 0 && len(i.Actions) == 2 && i.Actions[1].Name == "keystone_v3.list_projects" {
			good++
		}
	}
	if sub.Title != "KeystoneBasic.create_and_list_tenants" || good != 10 || len(sub.Workloads[0].Data) != 12 {
		t.Errorf("title %q, %d good iterations of %d", sub.Title, good, len(sub.Workloads[0].Data))
	}
}

// TestVerdicts gives columns made-up times. Each verdict compares the same step on both
// systems, or has the reason why it does not.
func TestVerdicts(t *testing.T) {
	record := func(c geo.Column, instances, delay int, high bool, write, read float64, failed int) geo.Record {
		rounds := 4
		if instances == 3 && !high {
			rounds = 12
		}
		return geo.Record{Cell: geo.Cell{Column: c, Instances: instances, Delay: delay, Zones: "Z1Z1Z1", High: high, Rounds: rounds}, Mark: geo.Measured,
			Scenarios: []geo.Scenario{played([][2]float64{{write, read}, {write, read}}, failed)}}
	}
	ours, theirs := geo.Column{System: geo.Ostiary, Store: geo.MariaDB}, geo.Column{System: geo.Keystone, Store: geo.MariaDB}
	local := ours
	local.Local = true
	all := []geo.Record{
		record(theirs, 9, 0, false, .1, .02, 0), record(theirs, 9, 150, false, 3.1, .9, 0), record(theirs, 9, 150, true, 3.2, .9, 0),
		record(theirs, 3, 0, true, .1, .02, 0), record(theirs, 9, 0, true, .4, .08, 0), record(theirs, 9, geo.Hierarchical, false, .2, .1, 0),
		record(ours, 9, 0, false, .02, .002, 0), record(ours, 9, 150, false, .33, .002, 0), record(ours, 9, 150, true, .5, .003, 0),
		record(ours, 3, 0, true, .1, .02, 0), record(ours, 9, 0, true, .4, .1, 0), record(ours, 45, 0, true, 1, .2, 1),
		record(ours, 9, geo.Hierarchical, false, .3, .002, 0), record(local, 9, geo.Hierarchical, false, .05, .002, 0),
		record(local, 3, 150, false, 9, 9, 0), record(ours, 3, 150, false, 9, 9, 0), // of no step
	}
	all[10].Mark = geo.Bound
	got := geo.Verdicts(all)
	for at, want := range [][3]string{
		{"delay, reads", "good: 2.0 → 2.0 ms", "bad: 20 → 900 ms"},
		{"delay, writes", "good: 20 → 330 ms, + 1.0 round trips", "bad: 100 → 3100 ms, + 10.0 round trips"},
		{"locality", "bad: reads 2.0 → 2.0 ms, writes 20 → 300 ms", "bad: reads 20 → 100 ms, writes 100 → 200 ms"},
		{"locality, local", "good: reads 2.0 → 2.0 ms, writes 20 → 50 ms", "no partner: it has no such setting"},
		{"load, far", "bad: reads 2.0 → 3.0 ms, writes 330 → 500 ms", "good: reads 900 → 900 ms, writes 3100 → 3200 ms"},
		{"load, near", "bad: reads 2.0 → 100 ms, writes 20 → 400 ms *", "good: reads 20 → 80 ms, writes 100 → 400 ms"},
		{"scale", "bad: reads 20 → 100 ms, writes 100 → 400 ms *", "good: reads 20 → 80 ms, writes 100 → 400 ms"},
		{"scale", "bad: reads 100 → 200 ms, writes 400 → 1000 ms, λ 0.33 *", "no partner: the second cell was not played"},
	} {
		v := got[at]
		if v.Factor != want[0] || v.Sides[0].String() != want[1] || v.Sides[1].String() != want[2] {
			t.Errorf("%d: got %q: %q, %q, expected %q", at, v.Factor, v.Sides[0], v.Sides[1], want)
		}
		if v.Rule == "" || v.Step == "" || v.Sides[4].String() != "not played" {
			t.Errorf("%d: rule %q, step %q, side %q", at, v.Rule, v.Step, v.Sides[4])
		}
	}
	if compared, ours, theirs := geo.Summary(got); compared != 6 || ours != 2 || theirs != 3 || len(got) != 8 {
		t.Errorf("%d of %d verdicts compared, %d and %d good", compared, len(got), ours, theirs)
	}
	if s := geo.Verdicts(all[1:])[0].Sides[1]; s.Played || s.Text != "no partner: the first cell was not played" {
		t.Errorf("without the first cell: %s", s)
	}
	all[7].Mark = geo.Failed
	if s := geo.Verdicts(all)[1].Sides[0]; s.Good || s.Text != "the cell failed" {
		t.Errorf("a failed cell: %s", s)
	}
}
