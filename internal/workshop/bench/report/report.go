// Package report prints and draws the records of package bench. Its main
// functions are [Text], which prints tables, and [HTML], which writes one page
// with tables, bars, distributions and growth curves that needs no network. The
// package never measures, and compares only records of the same workload and
// cell.
package report

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/ostiary/ostiary/internal/workshop/bench"
)

// Nanos formats a time in nanoseconds with three digits and a unit. It returns ""
// for 0 and for NaN.
func Nanos(ns float64) string {
	switch {
	case ns == 0 || math.IsNaN(ns):
		return ""
	case ns < 1e3:
		return threeDigits(ns) + " ns"
	case ns < 1e6:
		return threeDigits(ns/1e3) + " µs"
	case ns < 1e9:
		return threeDigits(ns/1e6) + " ms"
	}
	return threeDigits(ns/1e9) + " s"
}

// threeDigits formats x with three significant digits and without an exponent.
func threeDigits(x float64) string {
	switch {
	case x == 0:
		return "0"
	case x >= 100:
		return fmt.Sprintf("%.0f", x)
	case x >= 10:
		return fmt.Sprintf("%.1f", x)
	}
	return fmt.Sprintf("%.2f", x)
}

// Count formats a number with k, M or G. It returns "" for 0.
func Count(n float64) string {
	switch {
	case n == 0:
		return ""
	case n < 1e4:
		return fmt.Sprintf("%.0f", n)
	case n < 1e6:
		return threeDigits(n/1e3) + " k"
	case n < 1e9:
		return threeDigits(n/1e6) + " M"
	}
	return threeDigits(n/1e9) + " G"
}

// bytesOf formats a number of bytes. It returns "" for 0.
func bytesOf(n int64) string {
	if n == 0 {
		return ""
	}
	return threeDigits(float64(n)/(1<<20)) + " MiB"
}

// sideOf returns the name of a record's side.
func sideOf(r *bench.Record) string {
	s := r.Peer
	if r.PeerVersion != "" {
		s += " " + r.PeerVersion
	}
	if r.Store != "" {
		s += ", " + r.Store
	}
	if r.Door != "" {
		s += ", " + r.Door
	}
	return s
}

// failures formats the failures of a record, sorted by name.
func failures(r *bench.Record) string {
	var names []string
	for what := range r.Failures {
		names = append(names, what)
	}
	slices.Sort(names)
	var parts []string
	for _, what := range names {
		parts = append(parts, fmt.Sprintf("%d %s", r.Failures[what], what))
	}
	return strings.Join(parts, ", ")
}

// column is a column of figures in a table.
type column struct {
	title string
	of    func(*bench.Record) string // "" if the record does not have the figure
}

// columns are the columns of the tables. What a server can do comes before the
// times of a single request.
var columns = []column{
	{"size", func(r *bench.Record) string { return Count(float64(r.Size)) }},
	{"per s", func(r *bench.Record) string { return Count(r.Throughput) }},
	{"syncs per s", func(r *bench.Record) string { return Count(r.Syncs) }},
	{"server CPU", func(r *bench.Record) string { return Nanos(r.ServerCPU) }},
	{"generator CPU", func(r *bench.Record) string { return Nanos(r.GeneratorCPU) }},
	{"median", func(r *bench.Record) string { return Nanos(r.Median) }},
	{"mean", func(r *bench.Record) string { return Nanos(r.Mean) }},
	{"round trips", func(r *bench.Record) string { return Nanos(r.RoundTrips) }},
	{"mean per round trips", func(r *bench.Record) string {
		if r.RoundTrips == 0 || r.Mean == 0 {
			return ""
		}
		return fmt.Sprintf("%.2f", r.Mean/r.RoundTrips)
	}},
	{"p90", func(r *bench.Record) string { return percentile(r, r.P90, 10) }},
	{"p99", func(r *bench.Record) string { return percentile(r, r.P99, 100) }},
	{"p99.9", func(r *bench.Record) string { return percentile(r, r.P999, 1000) }},
	{"min", func(r *bench.Record) string { return Nanos(r.Min) }},
	{"max", func(r *bench.Record) string { return Nanos(r.Max) }},
	{"sd", func(r *bench.Record) string { return Nanos(r.SD) }},
	{"n", func(r *bench.Record) string {
		if r.N == 0 && r.Kind == bench.Quoted {
			return "" // the source gives no number
		}
		return fmt.Sprint(r.N)
	}},
	{"failed", failures},
	{"resident", func(r *bench.Record) string { return bytesOf(r.Resident) }},
}

// percentile formats a percentile, which needs at least least requests: with fewer
// it is the maximum.
func percentile(r *bench.Record, ns float64, least int) string {
	if r.Kind == bench.Measured && r.N < least {
		return ""
	}
	return Nanos(ns)
}

// columnsOf returns the columns for which at least one record has a figure.
func columnsOf(records []bench.Record) []column {
	var out []column
	for _, c := range columns {
		for i := range records {
			if c.of(&records[i]) != "" {
				out = append(out, c)
				break
			}
		}
	}
	return out
}

// Text writes tables of the records, one per workload. Workloads and cells are in
// the order of their first record.
func Text(w io.Writer, records []bench.Record) error {
	for _, g := range workloads(records) {
		fmt.Fprintf(w, "%s\n", g.name)
		t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		shown := columnsOf(g.all())
		fmt.Fprint(t, "cell\tside\tload")
		for _, c := range shown {
			fmt.Fprint(t, "\t"+c.title)
		}
		fmt.Fprintln(t)
		for _, cell := range g.cells {
			for i := range cell.records {
				r := &cell.records[i]
				side := sideOf(r)
				if r.Kind == bench.Quoted {
					side += " (quoted)"
				}
				fmt.Fprintf(t, "%s\t%s\t%s", cell.name, side, r.Load)
				for _, c := range shown {
					fmt.Fprint(t, "\t"+c.of(r))
				}
				fmt.Fprintln(t)
			}
		}
		if err := t.Flush(); err != nil {
			return err
		}
	}
	return nil
}

// workload is the records of one workload, by cell.
type workload struct {
	name  string
	cells []cell
}

// cell is the records of one cell.
type cell struct {
	name    string
	records []bench.Record
}

// all returns the records of all cells.
func (g *workload) all() []bench.Record {
	var out []bench.Record
	for _, c := range g.cells {
		out = append(out, c.records...)
	}
	return out
}

// workloads groups records. Within a cell, measured records come before quoted
// ones, and are sorted by size.
func workloads(records []bench.Record) []workload {
	var out []workload
	for _, r := range records {
		w := slices.IndexFunc(out, func(g workload) bool { return g.name == r.Workload })
		if w < 0 {
			w, out = len(out), append(out, workload{name: r.Workload})
		}
		g := &out[w]
		c := slices.IndexFunc(g.cells, func(c cell) bool { return c.name == r.Cell })
		if c < 0 {
			c, g.cells = len(g.cells), append(g.cells, cell{name: r.Cell})
		}
		g.cells[c].records = append(g.cells[c].records, r)
	}
	for _, g := range out {
		for _, c := range g.cells {
			slices.SortStableFunc(c.records, func(a, b bench.Record) int {
				return cmp.Or(cmp.Compare(kindOrder(a), kindOrder(b)), cmp.Compare(a.Size, b.Size))
			})
		}
	}
	return out
}

// kindOrder returns the position of a kind within a cell.
func kindOrder(r bench.Record) int {
	if r.Kind == bench.Quoted {
		return 1
	}
	return 0
}
