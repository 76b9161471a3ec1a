package bench

import (
	"errors"
	"strings"
	"testing"
)

// TestXACML runs each cell of the workload for as short as possible.
func TestXACML(t *testing.T) {
	t.Parallel()
	seen := map[string]int{}
	title := ""
	r := &Runner{Progress: func(cell string, _, _ int) { title = cell }}
	r.Emit = func(r Record) error {
		seen[r.Cell]++
		if r.N < xacmlWindows || r.Mean < r.Min || r.Mean > r.Max || r.Min <= 0 || r.Throughput <= 0 || r.Kind != Measured {
			t.Errorf("record %+v", r)
		}
		return nil
	}
	if err := r.XACML(t.Context(), XACMLOptions{Policies: []int{1, 50}, Threads: []int{1, 2}, Duration: 1}); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(title, "cell 16 of 16, about ") {
		t.Errorf("the last cell is %q", title)
	}
	for cell, want := range map[string]int{"decision": 4, "XML in and out": 4, "JSON in and out": 4, "load from XML": 2, "change of one policy": 2} {
		if seen[cell] != want {
			t.Errorf("%d records of %q, expected %d", seen[cell], cell, want)
		}
	}
	if err := r.XACML(t.Context(), XACMLOptions{Policies: []int{0}}); err == nil {
		t.Error("no error for 0 policies")
	}
}

// TestXACMLChecksAnswers guards that a wrong decision is no result.
func TestXACMLChecksAnswers(t *testing.T) {
	t.Parallel()
	w, err := newXACMLWorld(3)
	if err != nil {
		t.Fatal(err)
	}
	w.request.Categories = w.request.Categories[:2]
	record := Record{}
	err = repeat(t.Context(), &record, []func() error{w.decision(t.Context())}, 1)
	var failure *Failure
	if !errors.As(err, &failure) || failure.What != "wrong answer" {
		t.Errorf("error %v, expected a wrong answer", err)
	}
}

// TestXACMLQuoted checks that figures of others are marked as such.
func TestXACMLQuoted(t *testing.T) {
	t.Parallel()
	for _, r := range XACMLQuoted() {
		if r.Kind != Quoted || r.Source == "" || r.Throughput+r.Mean == 0 {
			t.Errorf("record %+v", r)
		}
	}
}
