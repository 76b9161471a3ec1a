package page

import (
	"bytes"
	"fmt"
	"image/color"
	"math"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"

	"github.com/ostiary/ostiary/internal/workshop/bench/geo"
)

// parameter is what a figure varies.
type parameter int

const (
	byInstances parameter = iota // the number of instances, without delay
	byDelay                      // the delay, with one number of instances
	byZones                      // the groups of the copies of the data
)

// figure is one figure of the study's appendix, or one of locality, which the study
// announces and does not draw.
type figure struct {
	number string // as in the study
	title  string
	by     parameter
	high   bool
	cdf    bool // cumulative distributions instead of bars
}

// figures are those of the appendix, and those of locality.
func figures() (all []figure) {
	number := 19
	for _, by := range []parameter{byInstances, byDelay} {
		for _, high := range []bool{false, true} {
			for _, cdf := range []bool{false, true} {
				all = append(all, figure{strconv.Itoa(number), "", by, high, cdf})
				number++
			}
		}
	}
	all = append(all, figure{"L1", "", byZones, false, false}, figure{"L2", "", byZones, false, true})
	for i := range all {
		all[i].title = all[i].words()
	}
	return all
}

// words returns the title, in the words of the study.
func (f *figure) words() string {
	what := map[parameter]string{byInstances: "the Number of Instances", byDelay: "the Network Delay", byZones: "Locality"}[f.by]
	load, kind := "Light", "Mean Time for Every Operation (Lower is Better)"
	if f.high {
		load = "High"
	}
	if f.cdf {
		kind = "Cumulative Distribution"
	}
	return fmt.Sprintf("Impact of %s on the Completion Time under %s Load – %s", what, load, kind)
}

// cells returns the records that the figure shows of a column, in ascending order of
// what it varies, and their labels. instances is the number of instances of figures of
// delay.
func (f *figure) cells(all []geo.Record, c geo.Column, instances int) (records []geo.Record, labels []string) {
	for _, r := range geo.Sorted(all) {
		x := r.Cell
		if x.Column != c || x.High != f.high {
			continue
		}
		label := ""
		switch {
		case f.by == byInstances && x.Delay == 0:
			label = strconv.Itoa(x.Instances)
		case f.by == byDelay && x.Delay != geo.Hierarchical && x.Instances == instances:
			label = fmt.Sprintf("%d ms", x.Delay)
		case f.by == byZones && x.Delay == geo.Hierarchical:
			label = x.Zones
		default:
			continue
		}
		if r.Mark != geo.Measured {
			label += "*"
		}
		records, labels = append(records, r), append(labels, label)
	}
	return records, labels
}

// instancesOf returns the number of instances whose records have the most delays, under
// one load. Of several it returns the largest.
func instancesOf(all []geo.Record, high bool) (best int) {
	delays := map[int]map[int]bool{}
	for _, r := range all {
		if r.Cell.High != high || r.Cell.Delay == geo.Hierarchical {
			continue
		}
		if delays[r.Cell.Instances] == nil {
			delays[r.Cell.Instances] = map[int]bool{}
		}
		delays[r.Cell.Instances][r.Cell.Delay] = true
	}
	for n, d := range delays {
		if best == 0 || len(d) > len(delays[best]) || len(d) == len(delays[best]) && n > best {
			best = n
		}
	}
	return best
}

// Sizes of a tile of a figure.
const (
	tileWidth  = 190
	tileHeight = 150
)

// drawn is a figure as text of SVG, with its legend.
type drawn struct {
	svg    string
	legend []entry
}

// entry is a line of a legend.
type entry struct {
	name  string
	color color.Color
}

// draw draws a figure: a column for each scenario and a row for each deployment. It
// returns false if there are no records for it.
func (f *figure) draw(all []geo.Record) (drawn, bool, error) {
	var rows []geo.Column
	for _, c := range geo.Columns() {
		if records, _ := f.cells(all, c, instancesOf(all, f.high)); len(records) > 0 {
			rows = append(rows, c)
		}
	}
	if len(rows) == 0 {
		return drawn{}, false, nil
	}
	names := geo.Names()
	grid := make([][]*plot.Plot, len(rows))
	legend := &legend{}
	for i, c := range rows {
		records, labels := f.cells(all, c, instancesOf(all, f.high))
		for _, name := range names {
			p := plot.New()
			p.Title.Text = strings.ReplaceAll(name, "_", " ")
			p.Title.TextStyle.Font.Size = 6.5
			p.Y.Label.Text = c.String()
			p.Y.Label.TextStyle.Font.Size = 7
			for _, axis := range []*plot.Axis{&p.X, &p.Y} {
				axis.Tick.Label.Font.Size = 6
				axis.Label.TextStyle.Font.Size = 7
				axis.Padding = 1
			}
			p.Y.Min = 0
			var err error
			if f.cdf {
				err = distributions(p, records, labels, name, legend)
			} else {
				err = bars(p, records, labels, name, legend)
			}
			if err != nil {
				return drawn{}, false, err
			}
			grid[i] = append(grid[i], p)
		}
	}
	if !f.cdf {
		level(grid, rows)
	}
	width, height := vg.Length(tileWidth*len(names)), vg.Length(tileHeight*len(rows))
	canvas := vgsvg.New(width, height)
	for i, row := range plot.Align(grid, draw.Tiles{Rows: len(rows), Cols: len(names), PadX: 6, PadY: 6, PadLeft: 4, PadRight: 4, PadTop: 4, PadBottom: 4}, draw.New(canvas)) {
		for n := range row {
			grid[i][n].Draw(row[n])
		}
	}
	var b bytes.Buffer
	if _, err := canvas.WriteTo(&b); err != nil {
		return drawn{}, false, err
	}
	text := b.String()
	return drawn{text[strings.Index(text, "<svg"):], legend.entries}, true, nil
}

// level gives tiles of one scenario and one system the same scale: bars are compared by
// their heights. The real Keystone far from its database has a scale of its own.
func level(grid [][]*plot.Plot, rows []geo.Column) {
	for n := range grid[0] {
		top := map[string]float64{}
		for i := range grid {
			top[rows[i].System] = math.Max(top[rows[i].System], grid[i][n].Y.Max)
		}
		for i := range grid {
			grid[i][n].Y.Max = top[rows[i].System]
		}
	}
}

// legend gives each name of a figure a color.
type legend struct{ entries []entry }

// colors differ also for people who do not see red or green.
var colors = []color.RGBA{{0x44, 0x77, 0xaa, 0xff}, {0xee, 0x66, 0x77, 0xff}, {0x22, 0x88, 0x33, 0xff}, {0xcc, 0xbb, 0x44, 0xff}, {0x66, 0xcc, 0xee, 0xff}, {0xaa, 0x33, 0x77, 0xff}, {0xbb, 0xbb, 0xbb, 0xff},
	{0x99, 0x55, 0x22, 0xff}, {0x33, 0x22, 0x88, 0xff}, {0x11, 0x77, 0x33, 0xff}, {0xdd, 0xcc, 0x77, 0xff}, {0x88, 0x22, 0x55, 0xff}, {0x44, 0xaa, 0x99, 0xff}, {0x00, 0x00, 0x00, 0xff}, {0xff, 0xaa, 0x99, 0xff}, {0x66, 0x66, 0x66, 0xff}}

func (l *legend) of(name string) color.Color {
	if at := slices.IndexFunc(l.entries, func(e entry) bool { return e.name == name }); at >= 0 {
		return l.entries[at].color
	}
	l.entries = append(l.entries, entry{name, colors[len(l.entries)%len(colors)]})
	return l.entries[len(l.entries)-1].color
}

// barWidth is the width of a bar in a tile.
const barWidth = 20

// bars draws a stacked bar for each record: the means of the actions of a scenario after
// the study's drop of the largest times, with λ and σ above it.
func bars(p *plot.Plot, records []geo.Record, labels []string, scenario string, l *legend) error {
	var actions []string
	frames := make([]geo.Frame, len(records))
	for i := range records {
		if s := records[i].Find(scenario); s != nil {
			frames[i] = geo.FrameOf(s).Dropped()
		} else {
			frames[i].Lambda = 1
		}
		for _, a := range frames[i].Actions {
			if !slices.Contains(actions, a) {
				actions = append(actions, a)
			}
		}
	}
	tops := make([]float64, len(records))
	var below *plotter.BarChart
	for _, action := range actions {
		values := make(plotter.Values, len(records))
		for i, f := range frames {
			if n := slices.Index(f.Actions, action); n >= 0 {
				values[i] = geo.Mean(f.Column(n))
			}
			tops[i] += values[i]
		}
		chart, err := plotter.NewBarChart(values, barWidth)
		if err != nil {
			return err
		}
		chart.LineStyle.Width = 0
		chart.Color = l.of(action)
		if below != nil {
			chart.StackOn(below)
		}
		below = chart
		p.Add(chart)
	}
	text := plotter.XYLabels{XYs: make(plotter.XYs, len(records)), Labels: make([]string, len(records))}
	for i, f := range frames {
		text.XYs[i] = plotter.XY{X: float64(i), Y: tops[i]}
		text.Labels[i] = fmt.Sprintf("λ %.2f\nσ %.2g", f.Lambda, geo.Deviation(f.Totals()))
	}
	drawnLabels, err := plotter.NewLabels(text)
	if err != nil {
		return err
	}
	for i := range drawnLabels.TextStyle {
		drawnLabels.TextStyle[i].Font = font.From(p.X.Tick.Label.Font, 6)
		drawnLabels.TextStyle[i].XAlign = draw.XCenter
	}
	drawnLabels.Offset = vg.Point{Y: 2}
	p.Add(drawnLabels)
	p.NominalX(labels...)
	p.X.Min, p.X.Max = -0.6, math.Max(float64(len(records))-0.4, 0.6)
	p.Y.Max = math.Max(slices.Max(append(tops, 0.001))*1.35, 0.001) // room for the labels
	return nil
}

// distributions draws the cumulative distribution of the sums of actions for each record.
func distributions(p *plot.Plot, records []geo.Record, labels []string, scenario string, l *legend) error {
	p.X.Min, p.Y.Max = 0, 1
	p.X.Label.Text = "s"
	for i := range records {
		s := records[i].Find(scenario)
		if s == nil {
			continue
		}
		totals := geo.FrameOf(s).Dropped().Totals()
		slices.Sort(totals)
		points := plotter.XYs{{X: 0, Y: 0}}
		for n, v := range totals {
			points = append(points, plotter.XY{X: v, Y: float64(n) / float64(len(totals))}, plotter.XY{X: v, Y: float64(n+1) / float64(len(totals))})
		}
		line, err := plotter.NewLine(points)
		if err != nil {
			return err
		}
		line.Color = l.of(strings.TrimSuffix(labels[i], "*"))
		line.Width = 1.2
		p.Add(line)
	}
	if p.X.Max <= p.X.Min || math.IsInf(p.X.Max, 0) {
		p.X.Max = 1
	}
	return nil
}
