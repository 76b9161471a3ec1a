package graph

import (
	"errors"
	"fmt"
	"testing"

	"github.com/ostiary/ostiary/rel"
)

var (
	longObject = rel.Object{Type: "doc", ID: "long"}
	userKind   = KindName{Type: "user"}
	viewerKind = KindName{Type: "doc", Relation: "viewer"}
)

// viewer returns the i-th tuple of a long forward list, or of the long reverse
// list of user:long.
func viewer(i int, back bool) rel.Tuple {
	if back {
		return rel.Tuple{Object: rel.Object{Type: "doc", ID: fmt.Sprint(i)}, Relation: "viewer", Subject: rel.Subject{Type: "user", ID: "long"}}
	}
	return rel.Tuple{Object: longObject, Relation: "viewer", Subject: rel.Subject{Type: "user", ID: fmt.Sprint(i)}}
}

// longList returns the list of the tuples that viewer returns.
func longList(t *testing.T, v *View, back bool) List {
	t.Helper()
	user, ok1 := v.Kind(userKind)
	view, ok2 := v.Kind(viewerKind)
	if !ok1 || !ok2 {
		return List{}
	}
	if back {
		n, _ := v.Node(user, "long")
		return v.Reverse(n, view)
	}
	n, _ := v.Node(view, "long")
	return v.Forward(n, user)
}

// Lists with about as many edges as fit inline or into a chunk keep their edges
// when they grow and shrink by one, in both directions, whether they are loaded
// or written by a batch (G3).
func TestListBounds(t *testing.T) {
	t.Parallel()
	for _, size := range []int{
		1, 2, inlineMax - 1, inlineMax, inlineMax + 1,
		chunkMax - 1, chunkMax, chunkMax + 1, 2*chunkMax - 1, 2 * chunkMax, 2*chunkMax + 1,
	} {
		for _, back := range []bool{false, true} {
			for _, loaded := range []bool{false, true} {
				t.Run(fmt.Sprint(size, back, loaded), func(t *testing.T) {
					t.Parallel()
					listBounds(t, size, back, loaded)
				})
			}
		}
	}
}

func listBounds(t *testing.T, size int, back, loaded bool) {
	g := New(Options{})
	if loaded {
		l := g.Load()
		for i := range size {
			must(t, l.Add(viewer(i, back)))
		}
		_, err := l.Finish()
		must(t, err)
	} else {
		b := g.Begin()
		for i := range size {
			must(t, b.Add(viewer(i, back)))
		}
		_, err := b.Publish()
		must(t, err)
	}
	full := g.View()
	b := g.Begin()
	for step, want := range []int{size + 1, size, size - 1} {
		if step == 0 {
			must(t, b.Add(viewer(size, back)))
		} else if !b.Remove(viewer(size/step, back).Key()) {
			t.Fatal("nothing to remove")
		}
		v, err := b.Publish()
		must(t, err)
		check(t, v)
		if l := longList(t, v, back); l.Len() != want {
			t.Fatalf("step %d: %d edges, want %d", step, l.Len(), want)
		}
	}
	check(t, full)
	if l := longList(t, full, back); l.Len() != size {
		t.Fatalf("the older view has %d edges now, not %d", l.Len(), size)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A list of 70,000 edges stays correct while parts of it are removed and added,
// and a change of one edge copies little.
func TestLongList(t *testing.T) {
	t.Parallel()
	const size = 70_000
	for _, back := range []bool{false, true} {
		g := New(Options{})
		l := g.Load()
		for i := range size {
			must(t, l.Add(viewer(i, back)))
		}
		first, err := l.Finish()
		must(t, err)
		r, want := random(3), size
		for range 6 {
			b := g.Begin()
			from, n := r.IntN(size), r.IntN(size/2)
			for i := from; i < min(size, from+n); i++ {
				tu := viewer(i, back)
				switch had := b.Has(tu.Key()); {
				case r.IntN(8) == 0:
					tu.Expires = 5
					must(t, b.Add(tu))
					if !had {
						want++
					}
				case had && r.IntN(4) > 0:
					b.Remove(tu.Key())
					want--
				}
			}
			v, err := b.Publish()
			must(t, err)
			if got := longList(t, v, back).Len(); got != want {
				t.Fatalf("%d edges, want %d", got, want)
			}
			if r.IntN(3) == 0 {
				check(t, v)
			}
		}
		check(t, g.View())
		for v := g.View(); v.Len() > 0; v = g.View() { // until it is empty
			b := g.Begin()
			left := v.Len()
			for _, tu := range v.Tuples(rel.Filter{}, Position{}) {
				if left--; left%97 != 0 || v.Len() < 200 {
					b.Remove(tu.Key())
				}
			}
			_, err := b.Publish()
			must(t, err)
			check(t, g.View())
		}
		if st := g.View().Stats(); st.LiveNames != 0 || st.LiveNodes != 0 || g.View().DeadShare() != 1 {
			t.Fatalf("%+v", st)
		}
		check(t, first)
		if longList(t, first, back).Len() != size {
			t.Fatal("the first view changed")
		}
	}
}

// A long list that shrinks everywhere does not end in many tiny chunks, in
// whatever order its edges are removed.
func TestCrumbs(t *testing.T) {
	t.Parallel()
	const size, keep = 60_000, 100
	for _, down := range []bool{false, true} {
		g := New(Options{})
		l := g.Load()
		for i := range size {
			must(t, l.Add(viewer(i, false)))
		}
		_, err := l.Finish()
		must(t, err)
		for from := 0; from < size; from += 300 {
			b := g.Begin()
			for i := from; i < from+300; i++ {
				at := i
				if down {
					at = size - 1 - i
				}
				if at%keep != 0 {
					b.Remove(viewer(at, false).Key())
				}
			}
			_, err := b.Publish()
			must(t, err)
		}
		check(t, g.View())
		if l := longList(t, g.View(), false); l.Len() != size/keep || l.Chunks() > 2*size/keep/(chunkMax/2)+1 {
			t.Errorf("down %v: %d edges in %d chunks", down, l.Len(), l.Chunks())
		}
	}
}

// A list made by ListOfChunks finds the edges of its chunks and no others.
func TestFind(t *testing.T) {
	t.Parallel()
	for chunks := range 6 {
		var first []Edge
		var rest [][]Edge
		n := 0
		for c := range chunks {
			var chunk []Edge
			for range 3 {
				n++
				chunk = append(chunk, EdgeTo(Node(2*n), n%2 == 0))
			}
			if c == 0 {
				first = chunk
			} else {
				rest = append(rest, chunk)
			}
		}
		l := ListOfChunks(n, first, rest)
		if l.Chunks() != chunks {
			t.Fatalf("%d chunks, want %d", l.Chunks(), chunks)
		}
		for i := range 2*n + 4 {
			e, ok := l.Find(Node(i))
			if want := i > 0 && i <= 2*n && i%2 == 0; ok != want || ok && (e.Node() != Node(i) || e.Detailed() != (i/2%2 == 0)) {
				t.Fatalf("%d of %d: %v, %v", i, n, e, ok)
			}
		}
	}
}

// A write that passes a bound of the lineage by one fails with the documented
// error and changes nothing.
func TestBounds(t *testing.T) {
	t.Parallel()
	g := New(Options{NodesMax: 3 * blockSize}) // one block is reserved
	b := g.Begin()
	for i := range blockSize {
		tu := viewer(i, true)
		tu.Subject.ID = fmt.Sprint(i)
		must(t, b.Add(tu))
	}
	v, err := b.Publish()
	must(t, err)
	b = g.Begin()
	if err := b.Add(viewer(blockSize, true)); !errors.Is(err, ErrFull) {
		t.Fatalf("a node above the bound: %v", err)
	}
	known := viewer(0, true)
	known.Subject.ID = "1"
	must(t, b.Add(known))
	if got, err := b.Publish(); err != nil || got.Len() != v.Len()+1 {
		t.Fatal(err)
	}
	check(t, g.View())

	b = New(Options{}).Begin()
	for _, n := range []int{0, rel.IDBytesMax + 1} {
		long := viewer(0, true)
		long.Object.ID = string(make([]byte, n))
		if err := b.Add(long); !errors.Is(err, rel.ErrName) {
			t.Fatalf("an id of %d bytes: %v", n, err)
		}
	}
	long := viewer(0, true)
	long.Object.ID = string(make([]byte, rel.IDBytesMax))
	must(t, b.Add(long))
	check(t, b.View())
	for _, context := range []string{"[]", "null", "1", "{", `{"a":1} {`} {
		bad := viewer(0, true)
		bad.Condition, bad.Context = "c", context
		if err := b.Add(bad); !errors.Is(err, ErrContext) {
			t.Fatalf("context %s: %v", context, err)
		}
	}
	if err := b.Add(rel.Tuple{Object: long.Object, Subject: long.Subject}); !errors.Is(err, rel.ErrName) {
		t.Fatalf("no relation: %v", err)
	}
}
