package report_test

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/ostiary/ostiary/internal/workshop/bench"
	"github.com/ostiary/ostiary/internal/workshop/bench/report"
)

func records() []bench.Record {
	q := func(ns float64) []bench.Quantile {
		return []bench.Quantile{{At: 0, Nanos: ns / 2}, {At: .5, Nanos: ns}, {At: .99, Nanos: 5 * ns}, {At: 1, Nanos: 9 * ns}}
	}
	return append([]bench.Record{
		{Kind: bench.Measured, Workload: "openfga", Cell: "direct", Peer: "ostiary", Door: "http", Size: 10_000, N: 100, Median: 80e3, Mean: 85e3, P99: 400e3, Throughput: 12345, ServerCPU: 23e3, Distribution: q(80e3), Load: "closed, 8 clients"},
		{Kind: bench.Measured, Workload: "openfga", Cell: "direct", Peer: "ostiary", Door: "http", Size: 1_000_000, N: 100, Median: 82e3, Mean: 85e3, Distribution: q(82e3)},
		{Kind: bench.Measured, Workload: "openfga", Cell: "direct", Peer: "<script>", Door: "http", Size: 10_000, Failures: map[string]int{"timeout": 3, "status 500": 1}, Notes: "a & b"},
	}, bench.LXDPublished()...)
}

func TestText(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	if err := report.Text(&b, records()); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"openfga\n", "direct", "80.0 µs", "12.3 k", "23.0 µs", "1 status 500, 3 timeout", "438 ms", "(quoted)", "1.00 M"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
}

// TestHTML checks that the page is well-formed and that text from records is
// escaped.
func TestHTML(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	if err := report.HTML(&b, "Ours & theirs", records()); err != nil {
		t.Fatal(err)
	}
	page := b.String()
	for _, want := range []string{"Ours &amp; theirs", "&lt;script&gt;", "1 status 500, 3 timeout", "canonical/lxd#14557", "<svg", "median by size of the store", "latency by percentile"} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q", want)
		}
	}
	if strings.Contains(page, "<script") || strings.Contains(page, "NaN") || strings.Contains(page, "Inf") {
		t.Error("the page contains an unescaped element or an invalid number")
	}
	d := xml.NewDecoder(strings.NewReader(strings.Replace(page, "<!doctype html>", "", 1)))
	d.Strict, d.AutoClose, d.Entity = false, []string{"meta"}, xml.HTMLEntity
	for {
		if _, err := d.Token(); err != nil {
			if !errors.Is(err, io.EOF) {
				t.Error(err)
			}
			break
		}
	}
}

func TestNothingToDraw(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	if err := report.HTML(&b, "empty", []bench.Record{{Kind: bench.Measured, Workload: "w", Cell: "c", Peer: "p", Failures: map[string]int{"connection refused": 9}}}); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(b.String(), "9 connection refused") {
		t.Error(b.String())
	}
}

func TestUnits(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		ns   float64
		want string
	}{{0, ""}, {1, "1.00 ns"}, {999, "999 ns"}, {1234, "1.23 µs"}, {45.6e6, "45.6 ms"}, {3e9, "3.00 s"}} {
		if got := report.Nanos(c.ns); got != c.want {
			t.Errorf("%v: %q, want %q", c.ns, got, c.want)
		}
	}
	for _, c := range []struct {
		n    float64
		want string
	}{{0, ""}, {9999, "9999"}, {67_000, "67.0 k"}, {5e7, "50.0 M"}, {2e9, "2.00 G"}} {
		if got := report.Count(c.n); got != c.want {
			t.Errorf("%v: %q, want %q", c.n, got, c.want)
		}
	}
}
