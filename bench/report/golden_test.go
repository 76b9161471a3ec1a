package report_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/ostiary/ostiary/bench"
	"github.com/ostiary/ostiary/bench/report"
	"github.com/ostiary/ostiary/internal/golden"
)

// allKinds returns records of which every part of a page is made: bars of one and
// of several statistics, curves by size, distributions with few and with many
// points, failures, notes, more sides than colors, texts that are too long for a
// label, and numbers of all magnitudes.
func allKinds() (all []bench.Record) {
	for i, peer := range []string{"ostiary", "openfga", "a peer whose name is too long for the label of a bar", "p4", "p5", "p6", "p7", "p8", "p9", "p10"} {
		at := float64(i + 1)
		for _, size := range []int{1, 1000, 1_500_000} {
			all = append(all, bench.Record{Kind: bench.Measured, Workload: "curves", Cell: "check", Peer: peer, Door: "http", Size: size,
				N: 100 * (i + 1), Median: at * 7e3 * float64(size%997+1), Mean: at * 8e3 * float64(size%997+1), P99: at * 9e5,
				Throughput: 123456 / at, ServerCPU: 1e3 * at, GeneratorCPU: 77 * at, Load: "closed, 8 clients", Machine: "2 cores", Commit: "abc"})
		}
	}
	points := func(scale float64, at ...float64) (out []bench.Quantile) {
		for _, x := range at {
			out = append(out, bench.Quantile{At: x, Nanos: scale / (1.0001 - x)})
		}
		return out
	}
	return append(all,
		bench.Record{Kind: bench.Measured, Workload: "one size", Cell: "a", Peer: "ostiary", Size: 10, N: 1, Mean: 1.5, Median: 1.25, Throughput: 9.5, Distribution: points(1e4, 0, .25, .5, .9, .99, .999, 1)},
		bench.Record{Kind: bench.Measured, Workload: "one size", Cell: "a", Peer: "openfga", Size: 10, N: 2, Mean: 15e9, Median: 12e9, Throughput: 2.5e9, Distribution: points(3e4, 0, .5, 1)},
		bench.Record{Kind: bench.Measured, Workload: "one size", Cell: "a", Peer: "floor", Size: 10, N: 99_999, Mean: 100, Median: 999, Throughput: 1e6, Distribution: points(2e3, .5)},
		bench.Record{Kind: bench.Measured, Workload: "one size", Cell: "b", Peer: "ostiary", Size: 10, N: 9_999, Mean: 99.95e3, Median: 9.995e3, Throughput: 9_999},
		bench.Record{Kind: bench.Measured, Workload: "one size", Cell: "b", Peer: "openfga", Size: 10, N: 10_000, Mean: 1e3, Median: 1e3, Throughput: 10_000, Failures: map[string]int{"timeout": 1}},
		bench.Record{Kind: bench.Quoted, Workload: "one size", Cell: "b", Peer: "a source", Size: 10, N: 50, Median: 5e4, Mean: 6e4, Notes: "from <a page> & a table", Scope: "the request without the network"},
		bench.Record{Kind: bench.Quoted, Workload: "quoted only", Cell: "c", Peer: "a source", Size: 999, Mean: 4e8},
		bench.Record{Kind: bench.Measured, Workload: "failures only", Cell: "d", Peer: "ostiary", Failures: map[string]int{"status 500": 2, "timeout": 3}},
	)
}

// TestPage compares the page and the text of these records with files. A change of
// a coordinate, a color, a number or a word is a line that changes.
// OSTIARY_REWRITE=1 writes them.
func TestPage(t *testing.T) {
	t.Parallel()
	var page, text strings.Builder
	if err := report.HTML(&page, "A page", allKinds()); err != nil {
		t.Fatal(err)
	}
	// One element is one line, so that a difference is short.
	golden.Equal(t, "testdata/page.html", strings.ReplaceAll(page.String(), "><", ">\n<"))
	if err := report.Text(&text, allKinds()); err != nil {
		t.Fatal(err)
	}
	golden.Equal(t, "testdata/page.txt", text.String())
}

// TestMagnitudes prints numbers at the places where the unit or the number of
// digits changes.
func TestMagnitudes(t *testing.T) {
	t.Parallel()
	var got strings.Builder
	for _, base := range []float64{1, 10, 100, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10} {
		for _, x := range []float64{base * .9994, base * .9995, base * .9999, base, base * 1.0049, base * 1.006} {
			fmt.Fprintf(&got, "%v: %s, %s\n", x, report.Nanos(x), report.Count(x))
		}
	}
	golden.Equal(t, "testdata/magnitudes.txt", got.String())
}
