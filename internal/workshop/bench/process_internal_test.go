package bench

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
)

// sleeper returns a process that does nothing until the end of the test.
func sleeper(t *testing.T) int {
	t.Helper()
	c := exec.Command("sleep", "600")
	if err := c.Start(); err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() {
		c.Process.Kill()
		c.Wait()
	})
	return c.Process.Pid
}

// TestProcess measures this process, a child, and one that does not exist.
func TestProcess(t *testing.T) {
	t.Parallel()
	own, child := os.Getpid(), sleeper(t)
	if !slices.Contains(children(own), child) || slices.Contains(children(child), own) {
		t.Errorf("the children of %d are %v, without %d", own, children(own), child)
	}
	const none = 1 << 30
	for what, err := range map[string]error{
		"processor time": func() error { _, err := ProcessorTime(none); return err }(),
		"memory":         func() error { _, err := Resident(none); return err }(),
		"handles":        func() error { _, err := Handles(none); return err }(),
		"health":         func() error { _, err := HealthOf(t.Context(), none, ""); return err }(),
	} {
		if !errors.Is(err, errProcess) || !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s of a process that does not exist: %v", what, err)
		}
	}
	if (&Side{}).used() != 0 || (&Side{PID: none}).used() != 0 {
		t.Error("a process that is not known has used processor time")
	}
	if used, _ := ProcessorTime(own); used%clockTick != 0 || used > 2*OwnTime()+5*clockTick {
		t.Errorf("this process has used %v, by its own account %v", used, OwnTime())
	}
	if m := Machine(); !regexp.MustCompile(`^[1-9][0-9]* × .+, [1-9][0-9]* GiB, go1\.[0-9].*$`).MatchString(m) {
		t.Errorf("machine %q", m)
	}
}

// TestOutside works in this process, which is outside of a child, and within itself.
func TestOutside(t *testing.T) {
	t.Parallel()
	own, child := os.Getpid(), sleeper(t)
	before, err := Outside(child)
	if err != nil {
		t.Skip(err)
	}
	for used, err := before, error(nil); used < before+3*clockTick; used, err = Outside(child) {
		if err != nil {
			t.Fatal(err)
		}
	}
	all, err := usages()
	if err != nil {
		t.Fatal(err)
	}
	if !within(all, own, own) || !within(all, child, own) || within(all, own, child) || within(all, os.Getppid(), own) || within(all, 1<<30, own) {
		t.Error("a child is within this process, its parent is not")
	}
}

// TestMeasure measures requests that cost this process a step of processor time, of
// which the second one fails. No other test runs meanwhile: a child that it ends would take
// its processor time from the sum.
func TestMeasure(t *testing.T) {
	pid := os.Getpid()
	var got []Record
	r := &Runner{Emit: func(r Record) error { got = append(got, r); return nil }}
	side := Side{Peer: "p", Version: "1", Store: "s", Target: Nothing{}, PID: pid, Notes: "of the side"}
	work := func(_ context.Context, _, i int) error {
		for before := side.used(); side.used() == before; {
		}
		if i == 1 {
			return &Failure{What: "x", Err: errors.New(strings.Repeat("y", 300))}
		}
		return nil
	}
	server, own := side.used(), OwnTime()
	if err := r.measure(t.Context(), &side, Record{Workload: "w", Cell: "c", Notes: "own"}, Load{Requests: 3, Duration: -1}, work); err != nil {
		t.Fatal(err)
	}
	x := got[0]
	if x.N != 2 || x.Failed() != 1 || x.ServerCPU < float64(clockTick)*.99 || x.GeneratorCPU <= 0 || x.Resident < 1<<20 || x.Resident%int64(os.Getpagesize()) != 0 || x.Kind != Measured || x.Peer != "p" || x.PeerVersion != "1" || x.Store != "s" || x.Door != "embedded" {
		t.Errorf("%+v", x)
	}
	if x.ServerCPU*3 > float64(side.used()-server)*1.001 || x.GeneratorCPU*3 > float64(OwnTime()-own)*1.001 {
		t.Errorf("processor time %v and %v per request: more than this process has used for all three", x.ServerCPU, x.GeneratorCPU)
	}
	if want := "own; first failure: x: " + strings.Repeat("y", 197) + "…; of the side"; x.Notes != want {
		t.Errorf("notes %q, want %q", x.Notes, want)
	}
	side.PID, got = 1<<30, nil
	if err := r.measure(t.Context(), &side, Record{}, Load{Requests: 1, Duration: -1}, Nothing{}.send); !errors.Is(err, errProcess) || got != nil {
		t.Errorf("a process that does not exist: %v, %d records", err, len(got))
	}
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	for _, l := range []Load{{Requests: 1, Duration: -1}, {WarmUp: 1}} {
		if err := r.measure(canceled, &Side{Target: Nothing{}}, Record{}, l, Nothing{}.send); !errors.Is(err, context.Canceled) || got != nil {
			t.Errorf("a context that has ended: %v, %d records", err, len(got))
		}
	}
}

func (Nothing) send(context.Context, int, int) error { return nil }

// TestNotes joins and clips notes.
func TestNotes(t *testing.T) {
	t.Parallel()
	for _, c := range [][3]string{{"", "", ""}, {"a", "", "a"}, {"", "b", "b"}, {"a", "b", "a; b"}} {
		if got := join(c[0], c[1]); got != c[2] {
			t.Errorf("%q and %q: %q", c[0], c[1], got)
		}
	}
	for n, want := range map[int]int{0: 0, 200: 200, 201: 200 + len("…")} {
		if got := clip(strings.Repeat("x", n)); len(got) != want {
			t.Errorf("%d bytes: %d", n, len(got))
		}
	}
}

// TestFlat checks when growing figures of a server end the workload: those of the
// last window are compared with those at the end of the first third.
func TestFlat(t *testing.T) {
	t.Parallel()
	pid := sleeper(t)
	for _, c := range []struct {
		goroutines []int
		want       string
	}{
		{[]int{10, 10, 10, 10}, ""}, {[]int{10, 10, 90, 10}, ""}, {[]int{10, 90, 90, 90}, ""}, {[]int{10, 10, 10, 27}, "goroutines grew from 10 to 27"}, {[]int{90, 10, 10, 27}, "goroutines grew from 10 to 27"},
		{[]int{10, 10, 10, -1}, "no go_goroutines"},
	} {
		var n atomic.Int64
		metrics := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if g := c.goroutines[n.Add(1)-1]; g >= 0 {
				fmt.Fprintf(w, "go_goroutines %d\n", g)
			}
		}))
		t.Cleanup(metrics.Close)
		var notes, cells []string
		r := &Runner{Emit: func(r Record) error { notes, cells = append(notes, r.Notes), append(cells, r.Cell); return nil }}
		side := Side{Peer: "p", Target: Nothing{}, PID: pid, Metrics: metrics.URL}
		o := ONAPOptions{Flat: true, Windows: len(c.goroutines)}
		err := r.onapWindows(t.Context(), &side, 5, Load{Requests: 1, Duration: -1}, Nothing{}.send, &o)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%v: error %v, want %q", c.goroutines, err, c.want)
		}
		if got := fmt.Sprintf("%q %q", cells, notes[:2]); !regexp.MustCompile(`^\["5 users, window 1" "5 users, window 2" "5 users, window 3" "5 users, window 4"\] \["" "before: [0-9]+ handles, [0-9]+ goroutines"\]$`).MatchString(got) {
			t.Error(got)
		}
		o.Flat = false
		if err := r.onapWindows(t.Context(), &side, 5, Load{Requests: 1, Duration: -1}, Nothing{}.send, &o); err != nil {
			t.Errorf("not watched: %v", err)
		}
	}
}

// TestHeldHeap checks the setting of the garbage collector while a heap is held.
// It is not parallel, because the setting is that of the process.
func TestHeldHeap(t *testing.T) {
	setting := func() int {
		n := debug.SetGCPercent(100)
		debug.SetGCPercent(n)
		return n
	}
	before := setting()
	for gogc, want := range map[string]int{"": HeldGCPercent, "123": before} {
		t.Setenv("GOGC", gogc)
		release := HoldHeap()
		held := setting()
		if release(); held != want || setting() != before {
			t.Errorf("GOGC=%q: %d while the heap is held, and %d afterwards; want %d and %d", gogc, held, setting(), want, before)
		}
	}
}
