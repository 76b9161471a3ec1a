package xacml

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ostiary/ostiary/internal/workshop/bench"
)

// started returns a running peer, or skips the test with the reason.
func started(t *testing.T) *authzForce {
	t.Helper()
	if why := missing(); why != "" {
		t.Skip(why)
	}
	a, err := start(t.TempDir())
	if err != nil {
		t.Skipf("needs AuthzForce of Maven Central, which cannot be downloaded and compiled: %v", err)
	}
	t.Cleanup(func() {
		if err := a.stop(); err != nil {
			t.Error(err)
		}
	})
	return a
}

// windows is the number of windows of a cell. A figure is their median.
const windows = 5

// rate is decisions a second in windows.
type rate struct{ least, median, most float64 }

// measured returns the rate of the peer. Before it counts, the peer decides for a
// whole duration, in which its virtual machine compiles what is used often.
func measured(t *testing.T, a *authzForce, mode string, policies, threads int, duration time.Duration) rate {
	t.Helper()
	_, request := bench.XACMLShape(policies)
	var all []float64
	for i := range windows + 1 {
		time := duration / windows
		if i == 0 {
			time = duration
		}
		got, err := a.measure(mode, request, threads, time)
		if err != nil {
			t.Fatalf("%s at %d policies: %v", mode, policies, err)
		}
		if i > 0 {
			all = append(all, got)
		}
	}
	slices.Sort(all)
	return rate{all[0], all[windows/2], all[windows-1]}
}

// ours returns the rates of Ostiary at a number of policies, by the name of the cell
// and the number of threads.
func ours(t *testing.T, policies int, duration time.Duration) (map[string]rate, time.Duration) {
	t.Helper()
	out := map[string]rate{}
	var load time.Duration
	r := &bench.Runner{Emit: func(r bench.Record) error {
		var threads float64 = 1
		if strings.Contains(r.Load, "2 clients") {
			threads = 2
		}
		out[fmt.Sprintf("%s %.0f", r.Cell, threads)] = rate{threads * 1e9 / r.Max, threads * 1e9 / r.Mean, threads * 1e9 / r.Min}
		if r.Cell == "load from XML" {
			load = time.Duration(r.Mean)
		}
		return nil
	}}
	if err := r.XACML(t.Context(), bench.XACMLOptions{Policies: []int{policies}, Duration: duration}); err != nil {
		t.Fatal(err)
	}
	return out, load
}

// TestBeside measures both on the same policies, in turn. By default it is short and
// shows that both decide rightly. OSTIARY_SECONDS is the time of each cell in seconds
// (default 0.25), OSTIARY_POLICIES the numbers of policies (default 1,100).
func TestBeside(t *testing.T) {
	seconds, sizes := 0.25, []int{1, 100}
	if s := os.Getenv("OSTIARY_SECONDS"); s != "" {
		var err error
		if seconds, err = strconv.ParseFloat(s, 64); err != nil {
			t.Fatalf("OSTIARY_SECONDS: %v", err)
		}
	}
	if s := os.Getenv("OSTIARY_POLICIES"); s != "" {
		sizes = nil
		for _, text := range strings.Split(s, ",") {
			n, err := strconv.Atoi(text)
			if err != nil || n < 1 {
				t.Fatalf("OSTIARY_POLICIES: invalid number %q", text)
			}
			sizes = append(sizes, n)
		}
	}
	duration := time.Duration(seconds * float64(time.Second))
	a := started(t)
	table := []string{"| policies | | threads | AuthzForce, per s | Ostiary, per s | ratio |", "|---|---|---|---|---|---|"}
	for _, n := range sizes {
		root, _ := bench.XACMLShape(n)
		theirLoad, err := a.load(root)
		if err != nil {
			t.Fatal(err)
		}
		own, load := ours(t, n, duration)
		for _, c := range []struct{ mode, cell string }{{"object", "decision"}, {"xml", "XML in and out"}} {
			for threads := 1; threads <= 2; threads++ {
				theirs, mine := measured(t, a, c.mode, n, threads, duration), own[fmt.Sprintf("%s %d", c.cell, threads)]
				if theirs.median <= 0 || mine.median <= 0 {
					t.Errorf("%s at %d policies: rates %v and %v", c.cell, n, theirs, mine)
				}
				table = append(table, fmt.Sprintf("| %d | %s | %d | %s | %s | %.1f |", n, c.cell, threads, theirs, mine, mine.median/theirs.median))
			}
		}
		table = append(table, fmt.Sprintf("| %d | load | 1 | %v | %v | %.1f |", n, theirLoad.Round(time.Microsecond), load.Round(time.Microsecond), theirLoad.Seconds()/load.Seconds()))
	}
	t.Logf("%s\nmedian (least to most) of %d windows of %v\n%s", bench.Machine(), windows, duration/windows, strings.Join(table, "\n"))
}

// String returns the median with the spread.
func (r rate) String() string {
	return fmt.Sprintf("%s (%s to %s)", short(r.median), short(r.least), short(r.most))
}

// short returns a number with three digits.
func short(x float64) string {
	switch {
	case x >= 1e6:
		return strconv.FormatFloat(x/1e6, 'f', 2, 64) + " M"
	case x >= 1e4:
		return strconv.FormatFloat(x/1e3, 'f', 0, 64) + " k"
	}
	return strconv.FormatFloat(x, 'f', 0, 64)
}

// TestShort checks the numbers of the table.
func TestShort(t *testing.T) {
	for x, want := range map[float64]string{0.4: "0", 151.2: "151", 9_999: "9999", 10_400: "10 k", 999_400: "999 k", 1_234_567: "1.23 M"} {
		if got := short(x); got != want {
			t.Errorf("short(%v) = %s, expected %s", x, got, want)
		}
	}
}
