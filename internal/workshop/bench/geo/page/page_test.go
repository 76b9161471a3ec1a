package page_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/ostiary/ostiary/internal/workshop/bench"
	"github.com/ostiary/ostiary/internal/workshop/bench/geo"
	"github.com/ostiary/ostiary/internal/workshop/bench/geo/page"
)

// records returns made-up records of all cells. One of them has failed.
func records() (all []geo.Record) {
	for n, c := range geo.Full() {
		r := geo.Record{Cell: c, Mark: geo.Measured, Machine: "a machine", Commit: "abc", Network: "a network"}
		for _, w := range bench.RallySeven() {
			s := geo.Scenario{Result: bench.RallyResult{Workload: w, Requests: 100}, Times: w.Times}
			if n == 3 {
				r.Mark, r.Failure, s.Failure = geo.Failed, "the database <ended>", "not played"
			} else {
				for i := range 20 {
					at := float64(i)
					s.Result.Iterations = append(s.Result.Iterations, bench.Iteration{Timestamp: at, Duration: 1, Error: []string{}, Actions: []bench.Action{
						{Name: "keystone_v3.create_user", Started: at, Finished: at + .1 + float64(i)/100}, {Name: "keystone_v3.list_users", Started: at + .4, Finished: at + .5}}})
				}
				s.Result.Iterations = append(s.Result.Iterations, bench.Iteration{Error: []string{"status 503", "no <holder>"}})
			}
			r.Scenarios = append(r.Scenarios, s)
		}
		all = append(all, r)
	}
	for i := range all {
		if all[i].Cell.Instances == 45 && all[i].Cell.High && all[i].Cell.Store == geo.Galera {
			all[i].Mark = geo.Bound
		}
	}
	return all
}

func TestHTML(t *testing.T) {
	var b strings.Builder
	if err := page.HTML(&b, records()); err != nil {
		t.Fatal(err)
	}
	text := b.String()
	for n := 19; n <= 26; n++ {
		if strings.Count(text, fmt.Sprintf("<h2 id=\"figure-%d\">", n)) != 1 {
			t.Errorf("there is no figure %d, or several", n)
		}
	}
	if got := strings.Count(text, "<svg"); got != 10 {
		t.Errorf("%d figures, expected those of the appendix and two of locality", got)
	}
	for _, want := range []string{"λ 0.05", "σ 0.", "no &lt;holder&gt;", "the database &lt;ended&gt;", "45*", "(quoted)", "1 CPU-bound, 0 disturbed, 1 failed", "21 of 20", ">45<"} {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	for _, unwanted := range []string{"NaN", "Inf", "<holder>", "<ended>"} {
		if strings.Contains(text, unwanted) {
			t.Errorf("the page has %q", unwanted)
		}
	}
	// Each scenario has a row for each cell, also for the one that failed.
	if got, want := strings.Count(text, "<td>failed</td>"), 7+1; got != want {
		t.Errorf("%d rows of the failed cell, expected %d", got, want)
	}
}

// TestFew draws pages of a few records.
func TestFew(t *testing.T) {
	all := records()
	for n := range []int{0, 1, 4} {
		var b strings.Builder
		if err := page.HTML(&b, all[:n]); err != nil {
			t.Errorf("%d records: %v", n, err)
		}
	}
	var b strings.Builder
	page.Text(&b, all)
	if got := strings.Count(b.String(), "\n"); got != len(all)+1 {
		t.Errorf("%d lines, expected a head and one for each of %d cells", got, len(all))
	}
}
