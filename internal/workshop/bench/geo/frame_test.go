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

// TestVerdicts gives columns made-up times.
func TestVerdicts(t *testing.T) {
	record := func(c geo.Column, instances, delay int, zones string, high bool, write, read float64, failed int) geo.Record {
		return geo.Record{Cell: geo.Cell{Column: c, Instances: instances, Delay: delay, Zones: zones, High: high, Rounds: 4}, Mark: geo.Measured,
			Scenarios: []geo.Scenario{played([][2]float64{{write, read}, {write, read}}, failed)}}
	}
	one, two, three := geo.Columns()[0], geo.Columns()[2], geo.Columns()[6]
	all := []geo.Record{
		record(one, 9, 0, "Z1Z1Z1", false, .1, .02, 0), record(one, 9, 150, "Z1Z1Z1", false, 3.1, .9, 0),
		record(one, 3, 0, "Z1Z1Z1", true, .1, .02, 0), record(one, 45, 0, "Z1Z1Z1", true, 1, 1, 1),
		record(two, 9, 0, "Z1Z1Z1", false, .02, .002, 0), record(two, 9, 150, "Z1Z1Z1", false, .31, .002, 0),
		record(two, 3, 0, "Z1Z1Z1", true, .1, .02, 0), record(two, 45, 0, "Z1Z1Z1", true, 1, 1, 0),
		record(two, 9, geo.Hierarchical, "Z1Z1Z1", false, .05, .002, 0),
		record(three, 9, 150, "Z1Z1Z1", false, .02, .002, 0), // its cell without delay is that of two
	}
	got := geo.Verdicts(all)
	for at, want := range []geo.Verdict{
		{Column: "keystone on mariadb", Scale: "bad: λ 0.33, 16.7 × longer with 15 × the instances", Delay: "bad: reads 20 → 900 ms; bad: writes + 10.0 round trips; λ 0.00 at 150 ms"},
		{Column: "ostiary on mariadb", Scale: "good: λ 0.00, 16.7 × longer with 15 × the instances", Delay: "good: reads 2 → 2 ms; good: writes + 1.0 round trips; λ 0.00 at 150 ms", Locality: "good: reads 2 ms, writes 50 ms, λ 0.00"},
		{Column: "ostiary on mariadb, local", Delay: "good: reads 2 → 2 ms; good: writes + 0.0 round trips; λ 0.00 at 150 ms"},
	} {
		if got[at] != want {
			t.Errorf("got %+v, expected %+v", got[at], want)
		}
	}
	if len(got) != 6 || !got[5].Quoted {
		t.Errorf("got %d verdicts, expected three and the study's three", len(got))
	}
}
