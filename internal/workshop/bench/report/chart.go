package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/ostiary/ostiary/internal/workshop/bench"
)

// statistic is a figure of a record that a chart compares.
type statistic struct {
	name string
	of   func(*bench.Record) float64 // 0 if the record does not have it
}

var (
	median = statistic{"median", func(r *bench.Record) float64 { return r.Median }}
	mean   = statistic{"mean", func(r *bench.Record) float64 { return r.Mean }}
)

// statisticOf returns the figure that all records with times have: the median, or
// else the mean. Some sources give only one of them.
func statisticOf(records []bench.Record) statistic {
	for _, s := range []statistic{median, mean} {
		missing := func(r bench.Record) bool { return (r.Median > 0 || r.Mean > 0) && s.of(&r) == 0 }
		if !slices.ContainsFunc(records, missing) {
			return s
		}
	}
	return median
}

// chart is a set of records whose times can be compared.
type chart struct {
	statistic
	scope   string // Record.Scope
	inside  bool   // the records are of the library in this process, without a network
	size    int    // Record.Size; 0 means that the records have no size
	records []bench.Record
}

// title returns what the bars of a chart are.
func (c *chart) title() string {
	s := c.name + sizeOf(c.size)
	if c.scope != "" {
		return s + ", of " + c.scope
	}
	if c.inside {
		s += ", embedded"
	}
	return s
}

// chartsOf returns the bar charts of a cell: one for each scope, and one for the
// library in this process, whose load is another one. Of several sizes it takes the
// one that most records have, and of those the largest. Records without times are
// left out.
func chartsOf(c cell) []chart {
	var out []chart
	for _, r := range c.records {
		if r.Median == 0 && r.Mean == 0 {
			continue
		}
		inside := r.Door == embedded
		i := slices.IndexFunc(out, func(c chart) bool { return c.scope == r.Scope && c.inside == inside })
		if i < 0 {
			i, out = len(out), append(out, chart{scope: r.Scope, inside: inside})
		}
		out[i].records = append(out[i].records, r)
	}
	for i := range out {
		out[i].pickSize()
		out[i].statistic = statisticOf(out[i].records)
		out[i].records = slices.DeleteFunc(out[i].records, func(r bench.Record) bool { return out[i].of(&r) == 0 })
	}
	return out
}

// pickSize keeps the records of one size, and those whose size is unknown.
func (c *chart) pickSize() {
	count := map[int]int{}
	for _, r := range c.records {
		count[r.Size]++
	}
	for size, n := range count {
		if size > 0 && (c.size == 0 || cmp.Or(cmp.Compare(n, count[c.size]), cmp.Compare(size, c.size)) > 0) {
			c.size = size
		}
	}
	c.records = slices.DeleteFunc(c.records, func(r bench.Record) bool { return r.Size != 0 && r.Size != c.size })
}

// embedded is the Record.Door of the library in this process.
const embedded = "embedded"

// colorsMax is the number of colors in the style sheet.
const colorsMax = 8

// palette gives each peer a color on the whole page, and each side of a peer its own
// dashes.
type palette struct {
	peers []string
	sides [][]string // the sides of each peer
	drawn []drawnLine
}

// drawnLine is a side that a curve shows, with the CSS classes of its line.
type drawnLine struct{ side, class string }

// peerOf returns the name that a record's color depends on: the first word of its
// peer. For example "LXD, before" and "LXD, request cache" have one color.
func peerOf(r *bench.Record) string {
	name, _, _ := strings.Cut(r.Peer, " ")
	return strings.TrimSuffix(name, ",")
}

func newPalette(records []bench.Record) *palette {
	p := &palette{peers: []string{"floor"}, sides: [][]string{nil}} // gray, the first color
	for i := range records {
		r := &records[i]
		at := slices.Index(p.peers, peerOf(r))
		if at < 0 {
			at, p.peers, p.sides = len(p.peers), append(p.peers, peerOf(r)), append(p.sides, nil)
		}
		if !slices.Contains(p.sides[at], sideOf(r)) {
			p.sides[at] = append(p.sides[at], sideOf(r))
		}
	}
	return p
}

// color returns the CSS class of a record's bar.
func (p *palette) color(r *bench.Record) string {
	class := fmt.Sprintf("s%d", slices.Index(p.peers, peerOf(r))%colorsMax)
	if r.Kind == bench.Quoted {
		class += " quoted"
	}
	return class
}

// dashesMax is the number of kinds of dashes in the style sheet.
const dashesMax = 4

// line returns the CSS classes of a record's line, and adds its side to drawn.
func (p *palette) line(r *bench.Record) string {
	at := slices.Index(p.peers, peerOf(r))
	l := drawnLine{sideOf(r), fmt.Sprintf("s%d d%d", at%colorsMax, slices.Index(p.sides[at], sideOf(r))%dashesMax)}
	if !slices.Contains(p.drawn, l) {
		p.drawn = append(p.drawn, l)
	}
	return l.class
}

// summary returns one sentence about a workload: its size, which side has the lowest
// median how often, and how many requests failed. It compares the servers, or
// without servers the embedded sides.
func summary(g workload) string {
	var sides []string
	best := map[string]int{}
	failed, compared := 0, 0
	network := slices.ContainsFunc(g.all(), func(r bench.Record) bool { return r.Kind == bench.Measured && r.Door != embedded })
	for _, c := range g.cells {
		var low *bench.Record
		for i := range c.records {
			r := &c.records[i]
			if r.Kind != bench.Measured {
				continue
			}
			if !slices.Contains(sides, sideOf(r)) {
				sides = append(sides, sideOf(r))
			}
			failed += r.Failed()
			if network && r.Door == embedded {
				continue // it is always faster
			}
			if r.Median > 0 && r.Peer != "floor" && (low == nil || r.Size > low.Size || r.Size == low.Size && r.Median < low.Median) {
				low = r
			}
		}
		if low != nil {
			best[sideOf(low)]++
			compared++
		}
	}
	text := fmt.Sprintf("%s, %s measured", countOf(len(g.cells), "kind of request", "kinds of requests"), countOf(len(sides), "side", "sides"))
	where := ""
	if slices.ContainsFunc(g.all(), func(r bench.Record) bool { return r.Peer == "floor" }) {
		where = " without the floor"
	}
	if network && slices.ContainsFunc(g.all(), func(r bench.Record) bool { return r.Kind == bench.Measured && r.Door == embedded }) {
		where = " of the servers" + where
	}
	var winners []string
	for _, s := range sides {
		if best[s] > 0 {
			winners = append(winners, fmt.Sprintf("%s in %d of %d", s, best[s], compared))
		}
	}
	if len(winners) > 0 {
		text += "; lowest median" + where + ": " + strings.Join(winners, "; ")
	}
	if failed > 0 {
		text += "; " + countOf(failed, "request", "requests") + " failed"
	}
	return text + "."
}

func countOf(n int, one, several string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, several)
}
