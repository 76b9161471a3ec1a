package ratios

import (
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/ostiary/ostiary/rel"
)

// measured is one case: what one operation is, and how many of ours and of
// theirs make one round, so that each side's turn is long enough to time.
type measured struct {
	name         string
	ours, theirs int
	run          func(e Engine, d *Data, i int)
	// after undoes an operation outside the measured time.
	after func(e Engine, d *Data, i int)
}

func cases() []measured {
	list := func(relation, user string, want int) func(Engine, *Data, int) {
		return func(e Engine, _ *Data, _ int) {
			if got := e.List(relation, user); got != want {
				panic(fmt.Sprintf("list of %d objects, want %d", got, want))
			}
		}
	}
	return []measured{
		{name: "check-direct", ours: 2000, theirs: 50, run: func(e Engine, d *Data, i int) {
			q := d.Direct[i%len(d.Direct)]
			e.Check(q.Document, "owner", q.User)
		}},
		{name: "check-3-hop", ours: 1000, theirs: 10, run: func(e Engine, d *Data, i int) {
			q := d.ThreeHops[i%len(d.ThreeHops)]
			e.Check(q.Document, "viewer", q.User)
		}},
		{name: "batch-50", ours: 50, theirs: 1, run: func(e Engine, d *Data, i int) {
			first := (i * 50) % (len(d.ThreeHops) - 50)
			e.Batch(d.ThreeHops[first : first+50])
		}},
		{name: "list-100-direct", ours: 50, theirs: 2, run: list("owner", "ownslist100", 100)},
		{name: "list-1000-direct", ours: 20, theirs: 1, run: list("owner", "ownslist1000", 1000)},
		{name: "list-100-3-hop", ours: 50, theirs: 2, run: list("viewer", "seeslist100", 100)},
		{name: "list-1000-3-hop", ours: 20, theirs: 1, run: list("viewer", "seeslist1000", 1000)},
		{
			name: "write-100", ours: 5, theirs: 1,
			run:   func(e Engine, _ *Data, i int) { e.Write(fresh(i)) },
			after: func(e Engine, _ *Data, i int) { e.Remove(fresh(i)) },
		},
	}
}

// fresh are 100 tuples that the data does not hold.
func fresh(i int) []rel.Tuple {
	var out []rel.Tuple
	for n := range 100 {
		out = append(out, rel.Tuple{
			Object:   rel.Object{Type: "document", ID: fmt.Sprint("new", i, "-", n)},
			Relation: "owner", Subject: rel.Subject{Type: "user", ID: fmt.Sprint("u", n)},
		})
	}
	return out
}

// sides are loaded once a process and shape.
type sides struct {
	once         sync.Once
	data         *Data
	ours, theirs Engine
}

// BenchmarkRatios asks both in turns. It reports the median of one operation
// of each in ns, theirs divided by ours, and the spread of ours and of theirs
// (a quarter of the rounds is below, a quarter above, in per cent of the
// median). Shapes: 2,835 tuples; with OSTIARY_LONG=1 also 67 k, whose loading
// takes OpenFGA a minute or more.
func BenchmarkRatios(b *testing.B) {
	shapes := []Shape{Small()}
	if os.Getenv("OSTIARY_LONG") != "" {
		shapes = append(shapes, Large())
	}
	for _, shape := range shapes {
		var s sides
		b.Run(shape.Name, func(b *testing.B) {
			s.once.Do(func() {
				s.data = shape.Make()
				s.ours, s.theirs = Library(b.Context(), s.data), Original(b.Context(), s.data)
			})
			for _, c := range cases() {
				b.Run(c.name, func(b *testing.B) { compare(b, c, &s) })
			}
		})
	}
}

// turn is one side's part of a round: the time of one operation, in ns.
func (c *measured) turn(e Engine, d *Data, n int, next *int) float64 {
	first := *next
	start := time.Now()
	for range n {
		c.run(e, d, *next)
		*next++
	}
	took := time.Since(start)
	if c.after != nil {
		for i := first; i < *next; i++ {
			c.after(e, d, i)
		}
	}
	return float64(took.Nanoseconds()) / float64(n)
}

func compare(b *testing.B, c measured, s *sides) {
	var ours, theirs []float64
	var i, j int
	for b.Loop() {
		ours = append(ours, c.turn(s.ours, s.data, c.ours, &i))
		theirs = append(theirs, c.turn(s.theirs, s.data, c.theirs, &j))
	}
	mine, mySpread := middle(ours)
	own, ownSpread := middle(theirs)
	b.ReportMetric(0, "ns/op") // the time of a round has no meaning
	b.ReportMetric(mine, "ours-ns")
	b.ReportMetric(own, "theirs-ns")
	b.ReportMetric(own/mine, "ratio")
	b.ReportMetric(mySpread, "ours-spread-%")
	b.ReportMetric(ownSpread, "theirs-spread-%")
}

// middle returns the median and the distance between the quartiles in per
// cent of it.
func middle(times []float64) (median, spread float64) {
	slices.Sort(times)
	n := len(times)
	median = times[n/2]
	return median, 100 * (times[n*3/4] - times[n/4]) / median
}

// TestShapes keeps the two engines agreed on what is measured.
func TestShapes(t *testing.T) {
	d := Small().Make()
	if len(d.Tuples) != 2835 {
		t.Errorf("%d tuples, want 2835", len(d.Tuples))
	}
	ours, theirs := Library(t.Context(), d), Original(t.Context(), d)
	defer ours.Close()
	defer theirs.Close()
	granted := 0
	for _, q := range d.ThreeHops {
		a, b := ours.Check(q.Document, "viewer", q.User), theirs.Check(q.Document, "viewer", q.User)
		if a != b {
			t.Errorf("check %v: ours %v, theirs %v", q, a, b)
		}
		if a {
			granted++
		}
	}
	if granted < len(d.ThreeHops)/3 || granted > len(d.ThreeHops)*2/3 {
		t.Errorf("%d of %d are granted, want about half", granted, len(d.ThreeHops))
	}
	for _, c := range cases() {
		for _, e := range []Engine{ours, theirs} {
			c.run(e, d, 0) // lists panic on a wrong length
			if c.after != nil {
				c.after(e, d, 0)
			}
		}
	}
}
