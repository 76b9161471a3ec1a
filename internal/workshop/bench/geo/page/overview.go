package page

import (
	"bytes"
	"cmp"
	"fmt"
	"image/color"
	"io"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"

	"github.com/ostiary/ostiary/internal/workshop/bench/geo"
)

// overview is a figure of one factor: reads in a panel and writes in another one below, a
// line for each deployment. The four of them are what a reader sees first.
type overview struct {
	name    string // of its file, and of its place on the page
	title   string
	caption string
	places  []place // from left to right
	columns []geo.Column
	joined  int // how many places a line joins; the next line begins after them
}

// place is a point on the horizontal axis: what it is called, and how its cells differ from
// one with 9 instances, no delay and low load.
type place struct {
	label  string
	change func(*geo.Cell)
}

// overviews are the four figures.
func overviews() []overview {
	plain := slices.DeleteFunc(geo.Columns(), func(c geo.Column) bool { return c.Local })
	grouped := slices.DeleteFunc(geo.Columns(), func(c geo.Column) bool { return c.Store == geo.PostgreSQL })
	var load []place
	for _, delay := range []int{0, 50, 150} {
		for _, high := range []bool{false, true} {
			name := map[bool]string{false: "low", true: "high"}[high]
			load = append(load, place{fmt.Sprintf("%s\n%d ms", name, 2*delay), func(c *geo.Cell) { c.Delay, c.High = delay, high }})
		}
	}
	at := func(delay int) place {
		return place{fmt.Sprintf("%d ms", 2*delay), func(c *geo.Cell) { c.Delay = delay }}
	}
	size := func(n int) place {
		return place{fmt.Sprintf("%d instances", n), func(c *geo.Cell) { c.Instances, c.High = n, true }}
	}
	zones := func(zones, label string) place {
		return place{label, func(c *geo.Cell) { c.Delay, c.Zones = geo.Hierarchical, zones }}
	}
	return []overview{
		{"delay", "Delay", "By the round trip between the regions. 9 instances, low load.", []place{at(0), at(50), at(150)}, plain, 3},
		{"scale", "Scale", "By the number of instances, which share the processors of one machine. High load, no delay.", []place{size(3), size(9), size(45)}, plain, 3},
		{"load", "Load", "Low load from one instance, and high load: 9 times as much, from all of them. By the round trip; 9 instances.", load, plain, 2},
		{"locality", "Locality", "Three groups of 3 instances, 150 and 300 ms apart, 20 ms within: by how many of the three copies of the data are in the group of the client. Low load.",
			[]place{zones("Z1Z2Z3", "1 copy near"), zones("Z1Z1Z3", "2 copies near"), zones("Z1Z1Z1", "all near")}, grouped, 3},
	}
}

// point is a record at a place.
type point struct {
	at     int
	record *geo.Record
}

// series are the points of a deployment.
type series struct {
	column geo.Column
	points []point
}

// series returns the deployments that have records, with those of each place.
func (o *overview) series(all []geo.Record) (out []series) {
	for _, c := range o.columns {
		s := series{column: c}
		for i, p := range o.places {
			cell := geo.Cell{Column: c, Instances: 9, Zones: "Z1Z1Z1"}
			p.change(&cell)
			at := slices.IndexFunc(all, func(r geo.Record) bool {
				cell.Rounds = r.Cell.Rounds
				return r.Cell == cell && r.Mark != geo.Failed
			})
			if at >= 0 {
				s.points = append(s.points, point{i, &all[at]})
			}
		}
		if len(s.points) > 0 {
			out = append(out, s)
		}
	}
	return out
}

// Sizes of a figure in points.
const (
	overviewWidth = 400
	panelHeight   = 190
	legendColumns = 2
	legendLine    = 17
	overviewFont  = 11
)

// height returns the height of the figure with a legend.
func overviewHeight(entries int) vg.Length {
	return vg.Length(2*panelHeight + legendLine*((entries+legendColumns-1)/legendColumns) + 4)
}

// SVG returns the figure as an element of a page, "" without records.
func (o *overview) svg(all []geo.Record) (string, error) {
	s := o.series(all)
	if len(s) == 0 {
		return "", nil
	}
	canvas := vgsvg.New(overviewWidth, overviewHeight(len(s)))
	if err := o.draw(draw.New(canvas), s); err != nil {
		return "", err
	}
	var b bytes.Buffer
	if _, err := canvas.WriteTo(&b); err != nil {
		return "", err
	}
	text := b.String()
	return text[strings.Index(text, "<svg"):], nil
}

// PNG writes the figure with a name, "delay", "scale", "load" or "locality", as a picture. It
// fails for another name, and if there are no records for it.
func PNG(w io.Writer, name string, all []geo.Record) error {
	four := overviews()
	at := slices.IndexFunc(four, func(o overview) bool { return o.name == name })
	if at < 0 {
		return fmt.Errorf("unknown figure %q: expected one of %s", name, strings.Join(Overviews(), ", "))
	}
	s := four[at].series(all)
	if len(s) == 0 {
		return fmt.Errorf("figure %s: there are no records for it", name)
	}
	canvas := vgimg.NewWith(vgimg.UseWH(overviewWidth, overviewHeight(len(s))), vgimg.UseDPI(120), vgimg.UseBackgroundColor(color.White))
	if err := four[at].draw(draw.New(canvas), s); err != nil {
		return err
	}
	_, err := vgimg.PngCanvas{Canvas: canvas}.WriteTo(w)
	return err
}

// Overviews returns the names of the four figures.
func Overviews() (names []string) {
	for _, o := range overviews() {
		names = append(names, o.name)
	}
	return names
}

// draw draws the legend and the two panels.
func (o *overview) draw(dc draw.Canvas, all []series) error {
	style := text.Style{Color: color.Black, Font: font.From(plot.DefaultFont, overviewFont), Handler: plot.DefaultTextHandler, YAlign: draw.YCenter}
	style.Font.Variant = "Sans"
	for i, s := range all {
		at := vg.Point{X: dc.Min.X + 8 + vg.Length(i%legendColumns)*(overviewWidth-8)/legendColumns, Y: dc.Max.Y - legendLine*vg.Length(i/legendColumns) - legendLine/2}
		dc.StrokeLine2(s.line(), at.X, at.Y, at.X+22, at.Y)
		dc.DrawGlyph(s.glyph(geo.Measured), vg.Point{X: at.X + 11, Y: at.Y})
		dc.FillText(style, vg.Point{X: at.X + 27, Y: at.Y}, label(s.column))
	}
	below := dc.Max.Y - overviewHeight(len(all)) + 2*panelHeight
	var panels [][]*plot.Plot
	low, high := math.Inf(1), 0.0
	for _, what := range []struct {
		title string
		of    func(*geo.Record) float64
	}{{"A read, median", reads}, {"A write, median", writes}} {
		p, err := o.panel(what.title, all, what.of, style.Font)
		if err != nil {
			return err
		}
		low, high = min(low, p.Y.Min), max(high, p.Y.Max)
		panels = append(panels, []*plot.Plot{p})
	}
	for i, row := range plot.Align(panels, draw.Tiles{Rows: 2, Cols: 1, PadY: 8, PadLeft: 4, PadRight: 10, PadTop: 4}, draw.Crop(dc, 0, 0, 0, below-dc.Max.Y)) {
		panels[i][0].Draw(row[0])
	}
	return nil
}

func reads(r *geo.Record) float64 {
	reads, _, _ := r.Medians()
	return reads
}

func writes(r *geo.Record) float64 {
	_, writes, _ := r.Medians()
	return writes
}

// panel draws one kind of action.
func (o *overview) panel(title string, all []series, of func(*geo.Record) float64, face font.Font) (*plot.Plot, error) {
	p := plot.New()
	p.Title.Text, p.Title.TextStyle.Font, p.Title.Padding = title, face, 3
	for _, axis := range []*plot.Axis{&p.X, &p.Y} {
		axis.Tick.Label.Font, axis.Padding = face, 2
		axis.LineStyle.Color, axis.Tick.LineStyle.Color = color.Gray{0x99}, color.Gray{0x99}
	}
	low, high := math.Inf(1), 0.0
	grid := plotter.NewGrid()
	grid.Vertical.Width, grid.Horizontal.Color = 0, color.Gray{0xdd}
	p.Add(grid)
	for _, s := range all {
		var points plotter.XYs
		var marks []geo.Mark
		for _, x := range s.points {
			if v := of(x.record); v > 0 {
				points, marks = append(points, plotter.XY{X: float64(x.at), Y: v}), append(marks, x.record.Mark)
				low, high = min(low, v), max(high, v)
			}
		}
		for at := 0; at < len(points); {
			end := at + 1
			for end < len(points) && int(points[end].X)/o.joined == int(points[at].X)/o.joined {
				end++
			}
			line, err := plotter.NewLine(points[at:end])
			if err != nil {
				return nil, err
			}
			line.LineStyle = s.line()
			p.Add(line)
			at = end
		}
		if len(points) == 0 {
			continue
		}
		dots, err := plotter.NewScatter(points)
		if err != nil {
			return nil, err
		}
		dots.GlyphStyleFunc = func(i int) draw.GlyphStyle { return s.glyph(marks[i]) }
		p.Add(dots)
	}
	var labels []string
	for _, x := range o.places {
		labels = append(labels, x.label)
	}
	p.NominalX(labels...)
	p.X.Min, p.X.Max, p.X.Tick.Length = -0.3, float64(len(labels))-0.7, 0
	if high == 0 {
		low, high = 0.001, 1
	}
	p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, decades{}
	p.Y.Min, p.Y.Max = math.Pow(10, math.Floor(math.Log10(low/1.2))), math.Pow(10, math.Ceil(math.Log10(high*1.2)))
	return p, nil
}

// decades are ticks at powers of ten, with the unit.
type decades struct{}

// Ticks implements [plot.Ticker].
func (decades) Ticks(low, high float64) (all []plot.Tick) {
	for e := int(math.Round(math.Log10(low))); e <= int(math.Round(math.Log10(high))); e++ {
		v := math.Pow(10, float64(e))
		label := fmt.Sprintf("%g s", v)
		if e < 0 {
			label = fmt.Sprintf("%g ms", math.Pow(10, float64(e+3)))
		}
		all = append(all, plot.Tick{Value: v, Label: label})
	}
	return all
}

// label returns the name of a deployment for readers.
func label(c geo.Column) string {
	name := map[string]string{geo.Ostiary: "Ostiary", geo.Keystone: "Keystone"}[c.System] + ", " +
		map[string]string{geo.MariaDB: "MariaDB", geo.PostgreSQL: "PostgreSQL", geo.Galera: "Galera", geo.Raft: "Raft"}[c.Store]
	if c.Local {
		name += ", local"
	}
	return name
}

// color returns the color of a deployment: warm ones are those of the real Keystone, and pale
// ones those with --acknowledge local.
func (s *series) color() color.Color {
	of := map[string]color.RGBA{geo.MariaDB: {0x00, 0x66, 0xbb, 0xff}, geo.PostgreSQL: {0x33, 0xaa, 0xdd, 0xff}, geo.Galera: {0x00, 0x88, 0x66, 0xff}, geo.Raft: {0x55, 0x33, 0x99, 0xff}}
	if s.column.System == geo.Keystone {
		of = map[string]color.RGBA{geo.MariaDB: {0xcc, 0x22, 0x11, 0xff}, geo.Galera: {0xee, 0x88, 0x22, 0xff}}
	}
	c := of[s.column.Store]
	if s.column.Local {
		c = color.RGBA{pale(c.R), pale(c.G), pale(c.B), 0xff}
	}
	return c
}

// pale returns a part of a color half way to white.
func pale(part uint8) uint8 { return 0x80 + part/2 }

// line returns the line of a deployment: broken for --acknowledge local.
func (s *series) line() draw.LineStyle {
	l := draw.LineStyle{Color: s.color(), Width: 1.6}
	if s.column.Local {
		l.Dashes = []vg.Length{4, 3}
	}
	return l
}

// glyph returns the mark of a point: its form is that of the database, and it is hollow
// unless the cell was measured.
func (s *series) glyph(mark geo.Mark) draw.GlyphStyle {
	corners := map[string]int{geo.MariaDB: 24, geo.PostgreSQL: 4, geo.Galera: 3, geo.Raft: 5}[s.column.Store]
	return draw.GlyphStyle{Color: s.color(), Radius: 4, Shape: polygon{cmp.Or(corners, 24), mark != geo.Measured}}
}

// polygon is the form of a mark.
type polygon struct {
	corners int
	hollow  bool
}

// DrawGlyph implements [draw.GlyphDrawer].
func (g polygon) DrawGlyph(c *draw.Canvas, s draw.GlyphStyle, at vg.Point) {
	var p vg.Path
	for i := range g.corners {
		angle := math.Pi/2 + 2*math.Pi*float64(i)/float64(g.corners)
		if g.corners == 4 {
			angle += math.Pi / 4
		}
		to := vg.Point{X: at.X + s.Radius*vg.Length(math.Cos(angle)), Y: at.Y + s.Radius*vg.Length(math.Sin(angle))}
		if i == 0 {
			p.Move(to)
		} else {
			p.Line(to)
		}
	}
	p.Close()
	if g.hollow {
		c.SetColor(color.White)
		c.Fill(p)
		c.SetLineStyle(draw.LineStyle{Color: s.Color, Width: 1.4})
		c.Stroke(p)
		return
	}
	c.SetColor(s.Color)
	c.Fill(p)
}
