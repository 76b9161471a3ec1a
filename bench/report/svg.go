package report

import (
	"fmt"
	"html"
	"math"
	"strings"

	"github.com/ostiary/ostiary/bench"
)

// The charts are drawn in these units, and scaled to the page's width by the
// browser.
const (
	chartWidth = 460
	barRow     = 32 // a line of text above a bar
	barHeight  = 11
	barsRight  = 70 // for the value behind the longest bar
	plotHeight = 270
	plotLeft   = 58
	plotRight  = 24
	plotBottom = 30
)

// series is a line or a bar's owner: one side.
type series struct {
	name   string
	quoted bool
	points []point
}

type point struct{ x, y float64 }

// shade returns the class that colours the i-th side.
func shade(i int) string { return fmt.Sprintf("s%d", i%8) }

// logScale maps values of several magnitudes on a length.
type logScale struct{ low, high, from, to float64 }

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

func (s logScale) at(v float64) float64 {
	return s.from + (s.to-s.from)*(math.Log10(v)-math.Log10(s.low))/(math.Log10(s.high)-math.Log10(s.low))
}

// ticks are the powers of ten in the scale.
func (s logScale) ticks() []float64 {
	var out []float64
	for v := s.low; v <= s.high*1.001; v *= 10 {
		out = append(out, v)
	}
	return out
}

// bars draws the median of each record of a cell, on a logarithmic scale whose
// left end is a power of ten below the shortest.
func bars(b *strings.Builder, c cell, colour func(*bench.Record) string) {
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
		label := who(r)
		if r.Size > 0 {
			label += ", " + Count(float64(r.Size))
		}
		class := colour(r)
		if r.Kind == bench.Quoted {
			class += " quoted"
		}
		fmt.Fprintf(b, `<text class="label" x="3" y="%d">%s</text><rect class="%s" x="0" y="%d" width="%.1f" height="%d"><title>%s: median %s, p99 %s</title></rect><text class="value" x="%.1f" y="%d">%s</text>`,
			y+12, html.EscapeString(clip(label, 70)), class, y+16, math.Max(2, x), barHeight,
			html.EscapeString(label), Nanos(r.Median), Nanos(r.P99), x+5, y+16+barHeight-1, Nanos(r.Median))
	}
	b.WriteString("</svg>\n")
}

func clip(s string, n int) string {
	if r := []rune(s); len(r) > n {
		return string(r[:n-1]) + "…"
	}
	return s
}

// distribution draws latency over the fraction that is not slower, with the
// slow tail spread out: 0, 90, 99, 99.9 % stand at equal distances.
func distribution(b *strings.Builder, c cell, colour func(*bench.Record) string) {
	tail := func(at float64) float64 { return -math.Log10(math.Max(1e-4, 1-at)) }
	var lines []series
	var classes []string
	var values []float64
	for i := range c.records {
		r := &c.records[i]
		if len(r.Distribution) < 3 || r.N < 20 {
			continue
		}
		l := series{name: who(r)}
		for _, q := range r.Distribution {
			// What one in ten thousand took says nothing of fewer requests, and the
			// very last one nothing of a distribution.
			if q.Nanos > 0 && q.At < 1 && (1-q.At)*float64(r.N) >= 1 {
				l.points = append(l.points, point{tail(q.At), q.Nanos})
				values = append(values, q.Nanos)
			}
		}
		lines, classes = append(lines, l), append(classes, colour(r))
	}
	x := func(v float64) float64 { return plotLeft + v/4*(chartWidth-plotLeft-plotRight) }
	plot(b, "latency distribution of "+c.name, lines, classes, values, x, []tick{{0, "0 %"}, {1, "90 %"}, {2, "99 %"}, {3, "99.9 %"}, {4, "99.99 %"}})
}

type tick struct {
	at   float64
	text string
}

// growth draws the median over the size of the store, where a side has several
// sizes.
func growth(b *strings.Builder, c cell, colour func(*bench.Record) string) {
	var lines []series
	var classes []string
	var values, sizes []float64
	index := map[string]int{}
	for i := range c.records {
		r := &c.records[i]
		if r.Kind != bench.Measured || r.Size <= 0 || r.Median <= 0 {
			continue
		}
		at, ok := index[who(r)]
		if !ok {
			at = len(lines)
			index[who(r)] = at
			lines, classes = append(lines, series{name: who(r)}), append(classes, colour(r))
		}
		lines[at].points = append(lines[at].points, point{float64(r.Size), r.Median})
		values, sizes = append(values, r.Median), append(sizes, float64(r.Size))
	}
	if several := len(sizes) > len(lines); !several {
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
	plot(b, "growth of "+c.name+" with the store", lines, classes, values, scale.at, ticks)
}

// plot draws lines over a logarithmic axis of times.
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
