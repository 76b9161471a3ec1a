package graph

import (
	"slices"
	"testing"

	"github.com/ostiary/ostiary/rel"
)

// edgesOf returns a copy of a list's edges.
func edgesOf(l List) []Edge {
	var all []Edge
	for i := range l.Chunks() {
		all = append(all, l.Chunk(i)...)
	}
	return all
}

// A list that grows at its end shares its memory with the lists before it. None
// of them changes, whether the batch in between was published, was dropped, was
// started on an older view, or removed something (G8).
func TestGrowingList(t *testing.T) {
	t.Parallel()
	type seen struct {
		v    *View
		want []Edge
	}
	for _, back := range []bool{false, true} {
		g := New(Options{})
		r, next, others := random(11), 0, 0
		var kept []seen
		add := func(b *Batch, n int) {
			for range n {
				must(t, b.Add(viewer(next, back)))
				next++
			}
		}
		keep := func(v *View) {
			kept = append(kept, seen{v, edgesOf(longList(t, v, back))})
		}
		for range 3 * chunkMax {
			switch r.IntN(12) {
			case 0: // a batch that is never published, read through its own view
				b := g.Begin()
				add(b, 1+r.IntN(3))
				keep(b.View())
			case 1: // a batch on a view of the past
				if len(kept) > 0 {
					b := g.From(kept[r.IntN(len(kept))].v)
					add(b, 1)
					keep(b.View())
				}
			case 2: // the last edge is removed, and new nodes are added behind it
				b := g.Begin()
				if l := edgesOf(longList(t, g.View(), back)); len(l) > 0 {
					end := l[len(l)-1-r.IntN(min(3, len(l)))].Node()
					b.Remove(viewerOf(g.View(), end, back).Key())
				}
				_, err := b.Publish()
				must(t, err)
			case 3: // a batch that goes on after its first view
				b := g.Begin()
				add(b, 1)
				keep(b.View())
				add(b, 2)
				_, err := b.Publish()
				must(t, err)
			default:
				b := g.Begin()
				add(b, 1+r.IntN(2)*r.IntN(90))
				_, err := b.Publish()
				must(t, err)
				others++
			}
			if r.IntN(8) == 0 {
				keep(g.View())
			}
		}
		if longList(t, g.View(), back).Chunks() < 4 || others == 0 {
			t.Fatal("the list did not grow")
		}
		check(t, g.View())
		for i, k := range kept {
			if got := edgesOf(longList(t, k.v, back)); !slices.Equal(got, k.want) {
				t.Fatalf("view %d has another list of %d edges, it was %d", i, len(got), len(k.want))
			}
			if i%97 == 0 {
				check(t, k.v)
			}
		}
	}
}

// viewerOf returns the tuple of the long list that is the edge to n.
func viewerOf(v *View, n Node, back bool) rel.Tuple {
	if back {
		return rel.Tuple{Object: v.Object(n), Relation: "viewer", Subject: rel.Subject{Type: "user", ID: "long"}}
	}
	return rel.Tuple{Object: longObject, Relation: "viewer", Subject: v.Subject(n)}
}
