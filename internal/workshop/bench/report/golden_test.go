package report_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ostiary/ostiary/internal/workshop/bench"
	"github.com/ostiary/ostiary/internal/workshop/bench/report"
	"github.com/ostiary/ostiary/internal/workshop/golden"
)

// allKinds returns records of which every part of a page is made: bars of one and
// of several statistics, curves by size, distributions with few and with many
// points, failures, notes, more sides than colors, texts that are too long for a
// label, and numbers of all magnitudes.
func allKinds() (all []bench.Record) {
	for i, peer := range []string{"ostiary", "openfga", "a peer whose name is much too long for the label of a bar, which has seventy characters", "p4", "p5", "p6", "p7", "p8", "p9", "p10"} {
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

// edges returns records at the places where a page begins to show a figure, a
// column or a chart, or where a scale gets other steps.
func edges() (all []bench.Record) {
	day := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	measured := func(r bench.Record) {
		r.Kind = bench.Measured
		all = append(all, r)
	}
	// The number of requests from which a percentile is shown.
	for _, n := range []int{0, 1, 9, 10, 99, 100, 999, 1000} {
		measured(bench.Record{Workload: "percentiles", Cell: fmt.Sprint(n), Peer: "ostiary", N: n, P90: 90e3, P99: 99e3, P999: 999e3, Min: 1e3, Max: 2e6, SD: 17e3, Resident: 3 << 20})
		all = append(all, bench.Record{Kind: bench.Quoted, Workload: "percentiles", Cell: fmt.Sprint(n), Peer: "a source", N: n, P90: 9e3, P99: 1e4, P999: 1e5, Source: "https://example.org/?a&b", Notes: fmt.Sprint("note ", n/100)})
	}
	// Sides by version, storage and door, and the classes of their lines.
	for i, r := range []bench.Record{{Peer: "LXD, before"}, {Peer: "LXD, after"}, {Peer: "LXD"}, {Peer: "LXD", PeerVersion: "5.0"}, {Peer: "LXD", PeerVersion: "5.0", Store: "postgres"},
		{Peer: "LXD", Door: "http"}, {Peer: "ostiary", Door: "embedded"}, {Peer: "ostiary", Store: "pebble", Door: "embedded"}, {Peer: "floor", Door: "http"}, {Peer: strings.Repeat("é", 70)}, {Peer: strings.Repeat("é", 71)}} {
		for _, size := range []int{100, 10, 1000} {
			r.Workload, r.Cell, r.Size, r.N, r.Median, r.Load = "sides & doors", "a <cell>", size, 20, float64((i+1)*size), "closed, 8 clients"
			measured(r)
		}
	}
	// Which size a chart shows: that of most records, and the largest of several.
	for _, size := range []int{7, 7, 5, 9, 9, 0, 0, 0} {
		measured(bench.Record{Workload: "sizes", Cell: "two of two", Peer: fmt.Sprint("p", len(all)), Size: size, N: 30, Median: 1e3 * float64(size+1), Machine: "2 < 4 cores", When: day})
	}
	for _, size := range []int{7, 7, 9} {
		measured(bench.Record{Workload: "sizes", Cell: "two of three", Peer: fmt.Sprint("p", len(all)), Size: size, N: 30, Mean: 1e3 * float64(size), Machine: "2 < 4 cores", Commit: "abc", When: day})
	}
	// Which side is the fastest: the lowest median at the largest size, of servers.
	for _, r := range []bench.Record{{Peer: "a", Size: 1, Median: 1}, {Peer: "b", Size: 2, Median: 9}, {Peer: "c", Size: 2, Median: 8}, {Peer: "c", Size: 2, Median: 8.5}, {Peer: "floor", Size: 2, Median: 2}, {Peer: "ostiary", Door: "embedded", Size: 2, Median: 1}} {
		for _, network := range []string{"servers", "embedded only"} {
			r.Workload, r.Cell, r.N = network, "one", 10
			if network != "servers" {
				r.Door = "embedded"
			}
			if r.Peer != "floor" || network == "servers" {
				measured(r)
			}
		}
	}
	measured(bench.Record{Workload: "servers", Cell: "two", Peer: "b", Door: "http", Median: 5, N: 1, Failures: map[string]int{"status 500": 1}})
	measured(bench.Record{Workload: "servers", Cell: "two", Peer: "a", Door: "http", Median: 5, N: 1})
	// A power of ten alone, and figures that only some records have.
	measured(bench.Record{Workload: "one time", Cell: "c", Peer: "p", N: 1000, Median: 1e3, Distribution: []bench.Quantile{{At: 0, Nanos: 1e3}, {At: .5, Nanos: 1e3}, {At: .9, Nanos: 1e3}}})
	measured(bench.Record{Workload: "one time", Cell: "mean or median", Peer: "p", N: 10, Median: 1e3})
	measured(bench.Record{Workload: "one time", Cell: "mean or median", Peer: "q", N: 10, Mean: 1e4})
	// Loads, and records without one.
	for _, load := range []string{"open, 10/s", "", "closed, 1 client"} {
		measured(bench.Record{Workload: "loads", Cell: "c", Peer: "ostiary", Load: load, N: 10, Median: 1e3, Mean: 2e3})
	}
	// The steps of a linear axis, and the ends of a logarithmic one.
	for _, most := range []float64{1, 1.49, 1.5, 2.99, 3, 5, 6, 6.01, 9.9} {
		measured(bench.Record{Workload: "steps", Cell: fmt.Sprint(most), Peer: "ostiary", Size: 10, N: 10, Median: most * 1e3})
		measured(bench.Record{Workload: "steps", Cell: fmt.Sprint(most), Peer: "other", Size: 1000, N: 10, Median: most * 1e5})
		measured(bench.Record{Workload: "steps", Cell: fmt.Sprint(most), Peer: "other", Size: 100, N: 10, Median: most * 1e4})
	}
	// Which distributions are drawn, and which of their points.
	for i, r := range []bench.Record{{N: 19}, {N: 20}, {N: 20, Size: 5}, {N: 21, Size: 6}, {N: 1000}} {
		r.Workload, r.Cell, r.Peer, r.Median = "distributions", "c", fmt.Sprint("p", i), 1e3
		for _, at := range []float64{0, .5, .9, .95, .951, .999, .9991, 1} {
			r.Distribution = append(r.Distribution, bench.Quantile{At: at, Nanos: 1e3 * (at + .5)})
		}
		r.Distribution = append(r.Distribution, bench.Quantile{At: .1})
		measured(r)
		r.Cell, r.Distribution = "few points", r.Distribution[:1+i]
		measured(r)
	}
	return all
}

// TestPage compares the page and the text of these records with files. A change of
// a coordinate, a color, a number or a word is a line that changes.
// OSTIARY_REWRITE=1 writes them.
func TestPage(t *testing.T) {
	t.Parallel()
	for name, records := range map[string][]bench.Record{"page": allKinds(), "edges": edges()} {
		var page, text strings.Builder
		if err := report.HTML(&page, "A page", records); err != nil {
			t.Fatal(err)
		}
		// One element is one line, so that a difference is short.
		golden.Equal(t, "testdata/"+name+".html", strings.ReplaceAll(page.String(), "><", ">\n<"))
		if err := report.Text(&text, records); err != nil {
			t.Fatal(err)
		}
		golden.Equal(t, "testdata/"+name+".txt", text.String())
	}
}

// full is a file on a full disk.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space left") }

// TestFullDisk checks that the caller learns that a page or a table was not written.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	if err := report.HTML(full{}, "A page", edges()); err == nil {
		t.Error("HTML returns no error")
	}
	if err := report.Text(full{}, edges()); err == nil {
		t.Error("Text returns no error")
	}
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
