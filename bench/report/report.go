// Package report draws bench's records: as a text table, and as one HTML page
// with tables, bars, distributions and growth curves that needs no network. Its
// main functions are Text and HTML. It never measures, and never compares what
// is not of the same workload and cell.
package report

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/ostiary/ostiary/bench"
)

// Nanos prints a time with three digits and its unit; "" for none.
func Nanos(ns float64) string {
	switch {
	case ns == 0 || math.IsNaN(ns):
		return ""
	case ns < 1e3:
		return three(ns) + " ns"
	case ns < 1e6:
		return three(ns/1e3) + " µs"
	case ns < 1e9:
		return three(ns/1e6) + " ms"
	}
	return three(ns/1e9) + " s"
}

// three prints three significant digits, without an exponent.
func three(x float64) string {
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

// Count prints a number with k, M or G.
func Count(n float64) string {
	switch {
	case n == 0:
		return ""
	case n < 1e4:
		return fmt.Sprintf("%.0f", n)
	case n < 1e6:
		return three(n/1e3) + " k"
	case n < 1e9:
		return three(n/1e6) + " M"
	}
	return three(n/1e9) + " G"
}

func bytesOf(n int64) string {
	if n == 0 {
		return ""
	}
	return three(float64(n)/(1<<20)) + " MiB"
}

// who names a record's side.
func who(r *bench.Record) string {
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

// failures prints what went wrong, sorted by name.
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

// column is a figure of a table.
type column struct {
	title string
	of    func(*bench.Record) string
}

var columns = []column{
	{"size", func(r *bench.Record) string { return Count(float64(r.Size)) }},
	{"n", func(r *bench.Record) string { return fmt.Sprint(r.N) }},
	{"failed", failures},
	{"mean", func(r *bench.Record) string { return Nanos(r.Mean) }},
	{"median", func(r *bench.Record) string { return Nanos(r.Median) }},
	{"sd", func(r *bench.Record) string { return Nanos(r.SD) }},
	{"min", func(r *bench.Record) string { return Nanos(r.Min) }},
	{"max", func(r *bench.Record) string { return Nanos(r.Max) }},
	{"p90", func(r *bench.Record) string { return Nanos(r.P90) }},
	{"p99", func(r *bench.Record) string { return Nanos(r.P99) }},
	{"p99.9", func(r *bench.Record) string { return Nanos(r.P999) }},
	{"per s", func(r *bench.Record) string { return Count(r.Throughput) }},
	{"server CPU", func(r *bench.Record) string { return Nanos(r.ServerCPU) }},
	{"generator CPU", func(r *bench.Record) string { return Nanos(r.GeneratorCPU) }},
	{"resident", func(r *bench.Record) string { return bytesOf(r.Resident) }},
}

// used returns the columns that some record fills.
func used(records []bench.Record) []column {
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

// Text writes a table of the records, grouped by workload and cell in the order
// that these come first.
func Text(w io.Writer, records []bench.Record) error {
	for _, g := range workloads(records) {
		fmt.Fprintf(w, "%s\n", g.name)
		t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		shown := used(g.all())
		fmt.Fprint(t, "cell\tside\tload")
		for _, c := range shown {
			fmt.Fprint(t, "\t"+c.title)
		}
		fmt.Fprintln(t)
		for _, cell := range g.cells {
			for i := range cell.records {
				r := &cell.records[i]
				side := who(r)
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

// group is a workload with its cells.
type group struct {
	name  string
	cells []cell
}

type cell struct {
	name    string
	records []bench.Record
}

func (g *group) all() []bench.Record {
	var out []bench.Record
	for _, c := range g.cells {
		out = append(out, c.records...)
	}
	return out
}

// workloads groups records; in a cell the measured ones stand first, by size.
func workloads(records []bench.Record) []group {
	var out []group
	for _, r := range records {
		w := slices.IndexFunc(out, func(g group) bool { return g.name == r.Workload })
		if w < 0 {
			w, out = len(out), append(out, group{name: r.Workload})
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

func kindOrder(r bench.Record) int {
	if r.Kind == bench.Quoted {
		return 1
	}
	return 0
}
