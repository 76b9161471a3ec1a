package report

import (
	"fmt"
	"html"
	"math"
	"strings"

	"github.com/ostiary/ostiary/bench"
)

// Sizes of the charts. The browser scales a chart to the width of the page.
const (
	chartWidth = 460
	barRow     = 32 // a bar with the line of text above it
	barHeight  = 11
	barsRight  = 70 // space for the value after the longest bar
	plotHeight = 270
	plotLeft   = 58
	plotRight  = 24
	plotBottom = 30
)

// series is the line of one side in a plot.
type series struct {
	name   string
	points []point
}

// point is a point of a series, in the units of its data.
type point struct{ x, y float64 }

// colorClass returns the CSS class with the color of the i-th side.
func colorClass(i int) string { return fmt.Sprintf("s%d", i%8) }

// logScale maps values from low to high logarithmically to lengths from from to to.
type logScale struct{ low, high, from, to float64 }

// newLogScale returns a scale whose ends are powers of ten around the positive
// values. It returns false if there are none.
func newLogScale(values []float64, from, to float64) (logScale, bool) {
	low, high := math.Inf(1), math.Inf(-1)
	for _, v := range values {
		if v > 0 {
			low, high = math.Min(low, v), math.Max(high, v)
		}
	}
	if math.IsInf(low, 1) {
		return logScale{}, false
	}
	low, high = math.Pow(10, math.Floor(math.Log10(low))), math.Pow(10, math.Ceil(math.Log10(high)))
	if low == high {
		high *= 10
	}
	return logScale{low, high, from, to}, true
}

// at returns the length of v.
func (s logScale) at(v float64) float64 {
	return s.from + (s.to-s.from)*(math.Log10(v)-math.Log10(s.low))/(math.Log10(s.high)-math.Log10(s.low))
}

// ticks returns the powers of ten in the scale.
func (s logScale) ticks() []float64 {
	var out []float64
	for v := s.low; v <= s.high*1.001; v *= 10 {
		out = append(out, v)
	}
	return out
}

// bars draws the median of each record of a cell, on a logarithmic scale that
// starts at the power of ten below the smallest median.
func bars(b *strings.Builder, c cell, color func(*bench.Record) string) {
	var values []float64
	var shown []bench.Record
	for _, r := range c.records {
		if r.Median > 0 {
			shown, values = append(shown, r), append(values, r.Median)
		}
	}
	scale, ok := newLogScale(values, 1, chartWidth-barsRight)
	if !ok {
		return
	}
	height := len(shown)*barRow + 20
	fmt.Fprintf(b, `<svg viewBox="0 0 %d %d" role="img" aria-label="median of %s">`, chartWidth, height, html.EscapeString(c.name))
	for _, v := range scale.ticks() {
		x, anchor := scale.at(v), "middle"
		if v == scale.low {
			anchor = "start"
		}
		fmt.Fprintf(b, `<line class="grid" x1="%.1f" y1="0" x2="%.1f" y2="%d"/><text class="tick" x="%.1f" y="%d" text-anchor="%s">%s</text>`,
			x, x, height-16, x, height-4, anchor, Nanos(v))
	}
	for i := range shown {
		r := &shown[i]
		y, x := i*barRow, scale.at(r.Median)
		label := sideOf(r)
		if r.Size > 0 {
			label += ", " + Count(float64(r.Size))
		}
		class := color(r)
		if r.Kind == bench.Quoted {
			class += " quoted"
		}
		fmt.Fprintf(b, `<text class="label" x="3" y="%d">%s</text><rect class="%s" x="0" y="%d" width="%.1f" height="%d"><title>%s: median %s, p99 %s</title></rect><text class="value" x="%.1f" y="%d">%s</text>`,
			y+12, html.EscapeString(clip(label, 70)), class, y+16, math.Max(2, x), barHeight,
			html.EscapeString(label), Nanos(r.Median), Nanos(r.P99), x+5, y+16+barHeight-1, Nanos(r.Median))
	}
	b.WriteString("</svg>\n")
}

// clip shortens s to n characters.
func clip(s string, n int) string {
	if r := []rune(s); len(r) > n {
		return string(r[:n-1]) + "…"
	}
	return s
}

// distribution draws the latency by percentile. The percentiles 0, 90, 99 and 99.9
// have equal distances, so that the slow tail is visible.
func distribution(b *strings.Builder, c cell, color func(*bench.Record) string) {
	tail := func(at float64) float64 { return -math.Log10(math.Max(1e-4, 1-at)) }
	var lines []series
	var classes []string
	var values []float64
	for i := range c.records {
		r := &c.records[i]
		if len(r.Distribution) < 3 || r.N < 20 {
			continue
		}
		l := series{name: sideOf(r)}
		for _, q := range r.Distribution {
			// Leave out quantiles that depend on less than one request, and the
			// maximum.
			if q.Nanos > 0 && q.At < 1 && (1-q.At)*float64(r.N) >= 1 {
				l.points = append(l.points, point{tail(q.At), q.Nanos})
				values = append(values, q.Nanos)
			}
		}
		lines, classes = append(lines, l), append(classes, color(r))
	}
	x := func(v float64) float64 { return plotLeft + v/4*(chartWidth-plotLeft-plotRight) }
	plot(b, "latency distribution of "+c.name, lines, classes, values, x, []tick{{0, "0 %"}, {1, "90 %"}, {2, "99 %"}, {3, "99.9 %"}, {4, "99.99 %"}})
}

// tick is a labeled position on an axis.
type tick struct {
	at   float64
	text string
}

// growth draws the median by the size of the store. It draws nothing if no side
// has several sizes.
func growth(b *strings.Builder, c cell, color func(*bench.Record) string) {
	var lines []series
	var classes []string
	var values, sizes []float64
	index := map[string]int{}
	for i := range c.records {
		r := &c.records[i]
		if r.Kind != bench.Measured || r.Size <= 0 || r.Median <= 0 {
			continue
		}
		at, ok := index[sideOf(r)]
		if !ok {
			at = len(lines)
			index[sideOf(r)] = at
			lines, classes = append(lines, series{name: sideOf(r)}), append(classes, color(r))
		}
		lines[at].points = append(lines[at].points, point{float64(r.Size), r.Median})
		values, sizes = append(values, r.Median), append(sizes, float64(r.Size))
	}
	if len(sizes) == len(lines) {
		return
	}
	scale, ok := newLogScale(sizes, plotLeft, chartWidth-plotRight)
	if !ok {
		return
	}
	var ticks []tick
	for _, v := range scale.ticks() {
		ticks = append(ticks, tick{v, Count(v)})
	}
	plot(b, "median of "+c.name+" by size of the store", lines, classes, values, scale.at, ticks)
}

// plot draws lines with a logarithmic vertical axis of times. x maps the data to
// the horizontal axis.
func plot(b *strings.Builder, title string, lines []series, classes []string, values []float64, x func(float64) float64, ticks []tick) {
	y, ok := newLogScale(values, plotHeight-plotBottom, 10)
	if !ok {
		return
	}
	fmt.Fprintf(b, `<svg viewBox="0 0 %d %d" role="img" aria-label="%s">`, chartWidth, plotHeight, html.EscapeString(title))
	for _, v := range y.ticks() {
		fmt.Fprintf(b, `<line class="grid" x1="%d" y1="%.1f" x2="%d" y2="%.1f"/><text class="tick" x="%d" y="%.1f" text-anchor="end">%s</text>`,
			plotLeft, y.at(v), chartWidth-plotRight, y.at(v), plotLeft-6, y.at(v)+4, Nanos(v))
	}
	for _, t := range ticks {
		fmt.Fprintf(b, `<line class="grid" x1="%.1f" y1="10" x2="%.1f" y2="%d"/><text class="tick" x="%.1f" y="%d" text-anchor="middle">%s</text>`,
			x(t.at), x(t.at), plotHeight-plotBottom, x(t.at), plotHeight-plotBottom+16, t.text)
	}
	for i, l := range lines {
		var path strings.Builder
		for j, p := range l.points {
			verb := "L"
			if j == 0 {
				verb = "M"
			}
			fmt.Fprintf(&path, "%s%.1f %.1f", verb, x(p.x), y.at(p.y))
		}
		fmt.Fprintf(b, `<path class="%s line" d="%s"><title>%s</title></path>`, classes[i], path.String(), html.EscapeString(l.name))
	}
	b.WriteString("</svg>\n")
}
