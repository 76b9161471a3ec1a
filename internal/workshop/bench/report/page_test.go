package report_test

import (
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/ostiary/ostiary/internal/workshop/bench"
	"github.com/ostiary/ostiary/internal/workshop/bench/report"
)

func page(t *testing.T, records ...bench.Record) string {
	t.Helper()
	var b strings.Builder
	if err := report.HTML(&b, "Title", records); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// bar matches a bar with its side, statistic and width.
var bar = regexp.MustCompile(`<rect class="([^"]*)" x="[^"]*" y="[^"]*" width="([^"]*)" height="[^"]*"><title>([^:<]*): (\w+) ([^<]*)</title>`)

// A chart compares like with like. Where a source gives no median, all bars of the
// chart are means.
func TestChartComparesMeans(t *testing.T) {
	t.Parallel()
	text := page(t,
		bench.Record{Kind: bench.Measured, Workload: "acp", Cell: "check", Peer: "ostiary acp", Size: 8, N: 50, Mean: 100e3, Median: 60e3},
		bench.Record{Kind: bench.Quoted, Workload: "acp", Cell: "check", Peer: "acp_core", Size: 8, Mean: 200e3})
	bars := bar.FindAllStringSubmatch(text, -1)
	if len(bars) != 2 || bars[0][4] != "mean" || bars[1][4] != "mean" || strings.Contains(text, "<h4>median") {
		t.Errorf("bars %q, want two means", bars)
	}
	// The axis is linear and begins at 0: half the time, half the width.
	first, _ := strconv.ParseFloat(bars[0][2], 64)
	second, _ := strconv.ParseFloat(bars[1][2], 64)
	if ratio := second / first; ratio < 1.95 || ratio > 2.05 {
		t.Errorf("the bars of 100 µs and 200 µs are %v and %v wide", first, second)
	}
	if !strings.Contains(text, "mean time of a request") {
		t.Error("the axis has no label")
	}
}

// Records with another load are in charts of their own, and no curve has two points
// at one size.
func TestChartsOfLoads(t *testing.T) {
	t.Parallel()
	var records []bench.Record
	for i, load := range []string{"closed, 1 client", "closed, 2 clients"} {
		for _, size := range []int{1, 100} {
			records = append(records, bench.Record{Kind: bench.Measured, Workload: "xacml", Cell: "decision", Peer: "ostiary", Load: load, Size: size, N: 50, Mean: float64(1000 * (i + 1))})
		}
	}
	records = append(records, bench.Record{Kind: bench.Quoted, Workload: "xacml", Cell: "decision", Peer: "other", Size: 100, Mean: 5000})
	text := page(t, records...)
	for _, title := range []string{"mean, size 100, closed, 1 client", "mean, size 100, closed, 2 clients", "mean by size of the store, closed, 1 client", "mean by size of the store, closed, 2 clients"} {
		if strings.Count(text, "<h4>"+title+"</h4>") != 1 {
			t.Errorf("no chart %q", title)
		}
	}
	var bars []string
	for _, chart := range strings.Split(text, "<svg viewBox")[1:] {
		for _, b := range bar.FindAllStringSubmatch(chart, -1) {
			bars = append(bars, b[3]+" "+b[5])
		}
	}
	if got, want := strings.Join(bars, "; "), "ostiary 1.00 µs; other 5.00 µs; ostiary 2.00 µs"; got != want {
		t.Errorf("bars %q, expected %q", got, want)
	}
	for _, line := range regexp.MustCompile(`<path class="[^"]* line" d="M[^"]*"><title>`).FindAllString(text, -1) {
		if strings.Count(line, "L") > 1 {
			t.Errorf("a curve of two sizes has more than two points: %s", line)
		}
	}
}

// Records that time something else, or another size, are not in the same chart. A
// record without requests has no bar.
func TestChartsAreSeparate(t *testing.T) {
	t.Parallel()
	text := page(t,
		bench.Record{Kind: bench.Measured, Workload: "lxd", Cell: "listing", Peer: "ostiary", Size: 72, N: 50, Mean: 3e6, Median: 3e6},
		bench.Record{Kind: bench.Measured, Workload: "lxd", Cell: "listing", Peer: "ostiary", Size: 10, N: 50, Mean: 1e6, Median: 1e6},
		bench.Record{Kind: bench.Measured, Workload: "lxd", Cell: "listing", Peer: "nothing", Size: 72},
		bench.Record{Kind: bench.Quoted, Workload: "lxd", Cell: "listing", Peer: "LXD", Scope: "the whole request to LXD", N: 50, Mean: 4e8, Median: 4e8})
	charts := strings.Split(text, `<svg viewBox`)[1:]
	var drawn []string
	for _, c := range charts {
		for _, b := range bar.FindAllStringSubmatch(c, -1) {
			drawn = append(drawn, strconv.Itoa(len(bar.FindAllString(c, -1)))+" "+b[3])
		}
	}
	if got := strings.Join(drawn, "; "); got != "1 ostiary; 1 LXD" {
		t.Errorf("bars: %s", got)
	}
	if !strings.Contains(text, "the whole request to LXD") {
		t.Error("the page does not explain what the quoted chart times")
	}
}

// The legend has the sides of the curves, and no others.
func TestLegend(t *testing.T) {
	t.Parallel()
	text := page(t,
		bench.Record{Kind: bench.Measured, Workload: "w", Cell: "c", Peer: "grows", Size: 10, N: 50, Mean: 1e6, Median: 1e6},
		bench.Record{Kind: bench.Measured, Workload: "w", Cell: "c", Peer: "grows", Size: 100, N: 50, Mean: 3e6, Median: 3e6},
		bench.Record{Kind: bench.Quoted, Workload: "other", Cell: "c", Peer: "bar", Size: 10, N: 50, Mean: 2e6, Median: 2e6})
	if n := strings.Count(text, `class="legend"`); n != 1 || !strings.Contains(text, `</svg>grows`) || strings.Contains(text, `</svg>bar`) {
		t.Errorf("%d legends", n)
	}
}

// Throughput and processor time are the first columns. A peer has one color on the
// whole page. The page has contents, a summary of each section, and explains its
// words.
func TestPageIsComplete(t *testing.T) {
	t.Parallel()
	text := page(t,
		bench.Record{Kind: bench.Measured, Workload: "one", Cell: "a", Peer: "openfga", Door: "http", N: 50, Median: 3e6, Mean: 3e6, Throughput: 100, ServerCPU: 1e6, GeneratorCPU: 1e5, Machine: "2 cores", Commit: "abc"},
		bench.Record{Kind: bench.Measured, Workload: "one", Cell: "a", Peer: "ostiary", Door: "http", N: 50, Median: 1e6, Mean: 1e6, Throughput: 300, ServerCPU: 1e6, GeneratorCPU: 1e5, Machine: "2 cores", Commit: "abc"},
		bench.Record{Kind: bench.Measured, Workload: "two", Cell: "b", Peer: "ostiary", Door: "http", N: 50, Median: 1e6, Mean: 1e6, Throughput: 300, Failures: map[string]int{"timeout": 2}},
		bench.Record{Kind: bench.Measured, Workload: "two", Cell: "b", Peer: "ostiary", Door: "grpc", N: 50, Median: 1e6, Mean: 1e6, Throughput: 300})
	if !strings.Contains(text, "<th>side</th><th>load</th><th>per s</th><th>server CPU</th><th>generator CPU</th>") {
		t.Error("throughput and processor time are not the first columns")
	}
	colors := map[string]bool{}
	for _, b := range bar.FindAllStringSubmatch(text, -1) {
		if strings.HasPrefix(b[3], "ostiary") {
			colors[b[1]] = true
		}
	}
	if len(colors) != 1 {
		t.Errorf("ostiary has the colors %v, want one", colors)
	}
	for _, want := range []string{`<a href="#one">`, `id="one"`, `<a href="#two">`, `id="two"`, "lowest median: ostiary, http in 1 of 1", "2 requests failed", "<dt>floor</dt>", "<dt>quoted</dt>", "2 cores", "abc"} {
		if !strings.Contains(text, want) {
			t.Errorf("the page has no %q", want)
		}
	}
}
