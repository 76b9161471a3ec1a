package btree

import (
	"fmt"
	"strings"
	"testing"

	"github.com/ostiary/ostiary/internal/workshop/golden"
)

// shape returns the number of keys of each node, a line for each level. Equal numbers in a
// row are shown once, with their count.
func shape(m *Map[int, int]) string {
	if m.root == nil {
		return "empty\n"
	}
	var out strings.Builder
	for level := []*node[int, int]{m.root}; len(level) > 0; {
		var next []*node[int, int]
		for i := 0; i < len(level); {
			n := 1
			for i+n < len(level) && len(level[i+n].keys) == len(level[i].keys) {
				n++
			}
			fmt.Fprintf(&out, " %dx%d", n, len(level[i].keys))
			for _, same := range level[i : i+n] {
				next = append(next, same.kids...)
			}
			i += n
		}
		out.WriteByte('\n')
		level = next
	}
	return out.String()
}

// ascending returns a map with the keys from 0 to n-1.
func ascending(n int) *Map[int, int] {
	m := &Map[int, int]{}
	for i := range n {
		m.Set(i, i)
	}
	return m
}

// TestShapes prints the nodes of trees after insertions and removals in a fixed order:
// how full they are decides how much memory and time a map needs.
func TestShapes(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	show := func(title string, m *Map[int, int]) {
		fmt.Fprintf(&out, "## %s: %d entries\n%s\n", title, m.Len(), shape(m))
	}
	for _, n := range []int{0, 1, 63, 64, 65, 126, 127, 200, 5000} {
		show(fmt.Sprint("ascending ", n), ascending(n))
	}
	for _, n := range []int{64, 65, 200, 5000} {
		m := &Map[int, int]{}
		for i := range n {
			m.Set(n-i, i)
		}
		show(fmt.Sprint("descending ", n), m)
	}
	mixed := &Map[int, int]{}
	for i := range 5000 {
		mixed.Set(i*3571%5003, i)
	}
	show("mixed 5000", mixed)
	for _, keep := range []int{2, 3, 4, 5, 8, 64, 5000} {
		m := ascending(5000)
		for i := range 5000 {
			if i%keep > 0 {
				m.Delete(i)
			}
		}
		show(fmt.Sprint("each of ", keep, ", removed upwards"), m)
		m = ascending(5000)
		for i := range 5000 {
			if k := 4999 - i; k%keep > 0 {
				m.Delete(k)
			}
		}
		show(fmt.Sprint("each of ", keep, ", removed downwards"), m)
	}
	// The first leaf has 63 keys, the second one 62 or fewer. How many of the second must
	// be removed until the two fit into one, and which side joins.
	for _, first := range []int{0, 1, 14, 15, 16, 46, 47, 48, 49, 62} {
		for _, second := range []int{0, 1, 14, 15, 16, 46, 47, 48, 49, 62} {
			m := ascending(200)
			for i := range first {
				m.Delete(i)
			}
			for i := range second {
				m.Delete(63 + i)
			}
			show(fmt.Sprint("first without ", first, ", second without ", second), m)
		}
	}
	for _, c := range [][2]int{{0, 5000}, {0, 4999}, {1, 5000}, {100, 110}, {100, 200}, {63, 126}, {62, 127}, {10, 4990}, {2500, 5000}, {0, 2500}, {5, 5}, {6, 5}, {5000, 6000}} {
		m := ascending(5000)
		m.DeleteRange(c[0], c[1])
		show(fmt.Sprint("without the range ", c), m)
	}
	golden.Equal(t, "testdata/shapes.txt", out.String())
}

// TestAscendStops checks that Ascend makes no call after one that returned false.
func TestAscendStops(t *testing.T) {
	t.Parallel()
	m := ascending(300)
	for _, from := range []int{0, 62, 63, 64, 150} {
		for stop := from; stop < 300; stop += 7 {
			last := -1
			m.Ascend(from, func(k, _ int) bool {
				if last >= stop {
					t.Errorf("from %d: a call with key %d after the end at %d", from, k, stop)
				}
				last = k
				return k < stop
			})
			if last != stop {
				t.Errorf("from %d: ended at %d, expected %d", from, last, stop)
			}
		}
	}
}

// TestCursorEnds calls Next before Seek and after the end.
func TestCursorEnds(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 1, 64, 65, 300} {
		c := ascending(n).Cursor()
		if c.Next() {
			t.Errorf("%d entries: Next before Seek", n)
		}
		if c.Seek(n) || c.Next() {
			t.Errorf("%d entries: an entry behind the last", n)
		}
		c.Seek(0)
		if found := c.Seek(n - 1); found != (n > 0) || c.Next() || c.Next() {
			t.Errorf("%d entries: Seek to the last returned %v, or an entry follows it", n, found)
		}
	}
}
