package report

import (
	"fmt"
	"html"
	"math"
	"slices"
	"strings"

	"github.com/ostiary/ostiary/internal/workshop/bench"
)

// Sizes of the charts. The browser scales a chart to the width of the page.
const (
	chartWidth = 460
	barRow     = 32 // a bar with the line of text above it
	barHeight  = 11
	barsRight  = 70 // space for the value after the longest bar
	plotHeight = 290
	plotLeft   = 58
	plotRight  = 24
	plotTop    = 20
	plotBottom = 44 // the ticks and the label of the axis
)

// series is the line of one side in a plot.
type series struct {
	name   string
	points []point
}

// point is a point of a series, in the units of its data.
type point struct{ x, y float64 }

// logScale maps values from low to high logarithmically to lengths from from to to.
type logScale struct{ low, high, from, to float64 }

// newLogScale returns a scale whose ends are powers of ten around the values, which
// are positive. It returns false if there are none.
func newLogScale(values []float64, from, to float64) (logScale, bool) {
	if len(values) == 0 {
		return logScale{}, false
	}
	low, high := math.Pow(10, math.Floor(math.Log10(slices.Min(values)))), math.Pow(10, math.Ceil(math.Log10(slices.Max(values))))
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

// linearScale maps values from 0 to high linearly to lengths from 0 to to.
type linearScale struct{ high, step, to float64 }

// newLinearScale returns a scale with three to six round steps, which ends at or
// above the largest value.
func newLinearScale(values []float64, to float64) (linearScale, bool) {
	largest := 0.0
	for _, v := range values {
		largest = math.Max(largest, v)
	}
	if largest == 0 {
		return linearScale{}, false
	}
	step := math.Pow(10, math.Floor(math.Log10(largest)))
	switch {
	case largest/step < 1.5:
		step /= 4
	case largest/step < 3:
		step /= 2
	case largest/step > 6:
		step *= 2
	}
	return linearScale{math.Ceil(largest/step-1e-9) * step, step, to}, true
}

// at returns the length of v.
func (s linearScale) at(v float64) float64 { return s.to * v / s.high }

// bars draws the times of a chart's records, on a linear scale that starts at 0.
func bars(b *strings.Builder, c *chart, p *palette) {
	var values []float64
	for i := range c.records {
		values = append(values, c.of(&c.records[i]))
	}
	scale, ok := newLinearScale(values, chartWidth-barsRight)
	if !ok {
		return
	}
	height := len(c.records)*barRow + 36
	fmt.Fprintf(b, `<svg viewBox="0 0 %d %d" role="img" aria-label="%s">`, chartWidth, height, html.EscapeString(c.title()))
	for v := 0.0; v <= scale.high*1.001; v += scale.step {
		x, anchor, text := scale.at(v), "middle", Nanos(v)
		if v == 0 {
			anchor, text = "start", "0"
		}
		fmt.Fprintf(b, `<line class="grid" x1="%.1f" y1="0" x2="%.1f" y2="%d"/><text class="tick" x="%.1f" y="%d" text-anchor="%s">%s</text>`,
			x, x, height-32, x, height-20, anchor, text)
	}
	fmt.Fprintf(b, `<text class="tick" x="0" y="%d">%s time of a request, linear; shorter is faster</text>`, height-5, c.name)
	for i := range c.records {
		r := &c.records[i]
		y, x := i*barRow, scale.at(values[i])
		label := sideOf(r)
		fmt.Fprintf(b, `<text class="label" x="3" y="%d">%s</text><rect class="%s" x="0" y="%d" width="%.1f" height="%d"><title>%s: %s %s</title></rect><text class="value" x="%.1f" y="%d">%s</text>`,
			y+12, html.EscapeString(clip(label, 70)), p.color(r), y+16, math.Max(1, x), barHeight,
			html.EscapeString(label), c.name, Nanos(values[i]), math.Max(1, x)+5, y+16+barHeight-1, Nanos(values[i]))
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
//
// It draws the records of one size.
func distribution(b *strings.Builder, c cell, p *palette, size int) {
	tail := func(at float64) float64 { return -math.Log10(math.Max(1e-4, 1-at)) }
	var lines []series
	var classes []string
	var values []float64
	for i := range c.records {
		r := &c.records[i]
		if len(r.Distribution) < 3 || r.N < 20 || r.Size != 0 && r.Size != size {
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
		lines, classes = append(lines, l), append(classes, p.line(r))
	}
	x := func(v float64) float64 { return plotLeft + v/4*(chartWidth-plotLeft-plotRight) }
	plot(b, "latency distribution of "+c.name, "fraction of the requests that were faster", lines, classes, values, x, []tick{{0, "0 %"}, {1, "90 %"}, {2, "99 %"}, {3, "99.9 %"}, {4, "99.99 %"}})
}

// tick is a labeled position on an axis.
type tick struct {
	at   float64
	text string
}

// growth draws the times by the size of the store, and returns the name of the
// figure. It draws nothing if no side has several sizes.
func growth(b *strings.Builder, c cell, p *palette) string {
	var lines []series
	var shown []*bench.Record // the first record of each line
	var values, sizes []float64
	sized := slices.DeleteFunc(slices.Clone(c.records), func(r bench.Record) bool { return r.Size <= 0 || r.Scope != "" })
	figure := statisticOf(sized)
	index := map[string]int{}
	for i := range sized {
		r := &sized[i]
		v := figure.of(r)
		if v == 0 {
			continue
		}
		at, ok := index[sideOf(r)]
		if !ok {
			at = len(lines)
			index[sideOf(r)] = at
			lines, shown = append(lines, series{name: sideOf(r)}), append(shown, r)
		}
		lines[at].points = append(lines[at].points, point{float64(r.Size), v})
		values, sizes = append(values, v), append(sizes, float64(r.Size))
	}
	if len(sizes) == len(lines) {
		return figure.name
	}
	scale, ok := newLogScale(sizes, plotLeft, chartWidth-plotRight)
	if !ok {
		return figure.name
	}
	var classes []string
	for _, r := range shown {
		classes = append(classes, p.line(r))
	}
	var ticks []tick
	for _, v := range scale.ticks() {
		ticks = append(ticks, tick{v, Count(v)})
	}
	plot(b, figure.name+" of "+c.name+" by size of the store", "size of the store, logarithmic", lines, classes, values, scale.at, ticks)
	return figure.name
}

// plot draws lines with a logarithmic vertical axis of times. x maps the data to
// the horizontal axis, whose label is axis.
func plot(b *strings.Builder, title, axis string, lines []series, classes []string, values []float64, x func(float64) float64, ticks []tick) {
	y, ok := newLogScale(values, plotHeight-plotBottom, plotTop)
	if !ok {
		return
	}
	fmt.Fprintf(b, `<svg viewBox="0 0 %d %d" role="img" aria-label="%s">`, chartWidth, plotHeight, html.EscapeString(title))
	for _, v := range y.ticks() {
		fmt.Fprintf(b, `<line class="grid" x1="%d" y1="%.1f" x2="%d" y2="%.1f"/><text class="tick" x="%d" y="%.1f" text-anchor="end">%s</text>`,
			plotLeft, y.at(v), chartWidth-plotRight, y.at(v), plotLeft-6, y.at(v)+4, Nanos(v))
	}
	fmt.Fprintf(b, `<text class="tick" x="0" y="10">time of a request, logarithmic: each line is ten times the one below</text><text class="tick" x="%d" y="%d" text-anchor="end">%s</text>`,
		chartWidth-plotRight, plotHeight-4, axis)
	for _, t := range ticks {
		fmt.Fprintf(b, `<line class="grid" x1="%.1f" y1="20" x2="%.1f" y2="%d"/><text class="tick" x="%.1f" y="%d" text-anchor="middle">%s</text>`,
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
		for _, p := range l.points {
			fmt.Fprintf(b, `<circle class="%s" cx="%.1f" cy="%.1f" r="2"/>`, classes[i], x(p.x), y.at(p.y))
		}
	}
	b.WriteString("</svg>\n")
}
