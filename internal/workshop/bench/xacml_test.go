package bench

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ostiary/ostiary/policy/message"
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

// TestXACMLErrors gives each cell an input that cannot be read. The error is the
// cell's result.
func TestXACMLErrors(t *testing.T) {
	t.Parallel()
	world := func() *xacmlWorld {
		w, err := newXACMLWorld(3)
		if err != nil {
			t.Fatal(err)
		}
		return w
	}
	none := world()
	none.texts[1] = []byte("<Policy/>")
	for what, do := range map[string]func() error{
		"XML":    none.exchange(t.Context(), []byte("<Request"), message.ReadXML, message.AppendXML),
		"JSON":   none.exchange(t.Context(), []byte("{"), message.ReadJSON, message.AppendJSON),
		"denied": none.exchange(t.Context(), []byte(`{"Request":{}}`), message.ReadJSON, message.AppendJSON),
		"load":   none.load(),
		"change": none.change(),
	} {
		for call := range 2 {
			if do() == nil {
				t.Errorf("%s, call %d: no error", what, call)
			}
		}
		if err := repeat(t.Context(), &Record{}, []func() error{do}, 1); err == nil {
			t.Errorf("%s: a record without an error", what)
		}
	}
	emitted := 0
	r := &Runner{Emit: func(Record) error { emitted++; return nil }}
	err := r.xacmlCells(t.Context(), none, &XACMLOptions{Threads: []int{1}, Duration: 1})
	if err == nil || !strings.HasPrefix(err.Error(), "load from XML of 3 policies: ") || emitted != 3 {
		t.Errorf("error %v after %d cells", err, emitted)
	}
	full := errors.New("the disk is full")
	r.Emit = func(Record) error { return full }
	if err := r.XACML(t.Context(), XACMLOptions{Policies: []int{1}, Duration: 1}); !errors.Is(err, full) {
		t.Errorf("error %v, want %v", err, full)
	}
	late := 0
	failsLate := func() error {
		if late++; late > 3 {
			return full
		}
		return nil
	}
	if err := repeat(t.Context(), &Record{}, []func() error{failsLate}, 1); !errors.Is(err, full) {
		t.Errorf("a call that fails later: %v", err)
	}
}

// TestWindows measures calls of a known time, in virtual time.
func TestWindows(t *testing.T) {
	t.Parallel()
	type figures struct {
		calls          int
		mean, min, max float64 // milliseconds
		rate           float64 // calls per second
	}
	for what, c := range map[string]struct {
		threads  int
		times    []time.Duration // of the calls, in turn
		duration time.Duration
		want     figures
	}{
		"one thread":                {1, []time.Duration{time.Millisecond}, 50 * time.Millisecond, figures{50, 1, 1, 1, 1000}},
		"two threads":               {2, []time.Duration{time.Millisecond}, 50 * time.Millisecond, figures{100, 1, 1, 1, 2000}},
		"ten calls in a batch":      {1, []time.Duration{10 * time.Microsecond}, 5 * time.Microsecond, figures{50, .01, .01, .01, 100_000}},
		"a thousand in a batch":     {1, []time.Duration{1}, 5, figures{5000, 1e-6, 1e-6, 1e-6, 1e9}},
		"windows of different time": {1, []time.Duration{1e6, 10e6, 30e6, 20e6, 50e6, 40e6}, 5 * time.Millisecond, figures{5, 30, 10, 50, 1 / .03}},
	} {
		synctest.Test(t, func(t *testing.T) {
			var work []func() error
			for range c.threads {
				n := 0
				work = append(work, func() error {
					time.Sleep(c.times[n%len(c.times)])
					n++
					return nil
				})
			}
			var r Record
			if err := repeat(t.Context(), &r, work, c.duration); err != nil {
				t.Fatal(err)
			}
			near := func(a, b float64) bool { return a > b*.999 && a < b*1.001 }
			if r.N != c.want.calls || !near(r.Mean, c.want.mean*1e6) || !near(r.Min, c.want.min*1e6) || !near(r.Max, c.want.max*1e6) || !near(r.Throughput, c.want.rate) {
				t.Errorf("%s: %d calls, mean %v, from %v to %v, %v/s; want %+v", what, r.N, r.Mean, r.Min, r.Max, r.Throughput, c.want)
			}
		})
	}
}
