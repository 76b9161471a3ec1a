package graph

import (
	"fmt"
	"testing"

	"github.com/ostiary/ostiary/rel"
)

// arriving loads n documents in order, every tenth with a second relation, and
// calls other after the i-th to add something in between.
func arriving(t *testing.T, n int, other func(l *Loader, i int)) *View {
	t.Helper()
	g := New(Options{})
	l := g.Load()
	for i := range n {
		for _, relation := range []string{"owner", "parent"}[:1+(i+1)%10/9] {
			must(t, l.Add(arrivingTuple(i, relation)))
		}
		other(l, i)
	}
	v, err := l.Finish()
	must(t, err)
	check(t, v)
	for i := range n {
		k, _ := v.Kind(KindName{Type: "doc", Relation: "owner"})
		if _, ok := v.Node(k, fmt.Sprintf("d%07d", i)); !ok {
			t.Fatalf("document %d is not found", i)
		}
	}
	return v
}

func arrivingTuple(i int, relation string) rel.Tuple {
	return rel.Tuple{Object: rel.Object{Type: "doc", ID: fmt.Sprintf("d%07d", i)}, Relation: relation,
		Subject: rel.Subject{Type: "user", ID: fmt.Sprint(i % 100)}}
}

// Names that come in order, few or many, are put into the index once: at the
// end of the load, or before the first search for one of them.
func TestArrivals(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 50, 5_000, 3 * indexAtOnce} {
		v := arriving(t, n, func(*Loader, int) {})
		if got := v.Stats().Names; got != n+min(n, 100) {
			t.Fatalf("%d names of %d documents", got, n)
		}
		b := v.Lineage().Begin()
		for i := range n {
			must(t, b.Add(arrivingTuple(i, "reader")))
		}
		v, err := b.Publish()
		must(t, err)
		check(t, v)
		if got := v.Stats().Names; got != n+min(n, 100) {
			t.Fatalf("%d names after a second relation of %d documents", got, n)
		}
	}
}

// A name that comes out of order, as a subject, with an attribute, or by a
// write during the load, finds the names that came in order.
func TestArrivalsMixed(t *testing.T) {
	t.Parallel()
	const n = 2 * indexAtOnce
	for what, other := range map[string]func(l *Loader, i int){
		"subject": func(l *Loader, i int) {
			if i == n-100 {
				must(t, l.Add(rel.Tuple{Object: rel.Object{Type: "folder", ID: "1"}, Relation: "of", Subject: rel.Subject{Type: "doc", ID: "d0000007"}}))
			}
		},
		"wildcard": func(l *Loader, i int) {
			if i == 30 {
				must(t, l.Add(rel.Tuple{Object: rel.Object{Type: "folder", ID: "1"}, Relation: "of", Subject: rel.Subject{Type: "doc", ID: rel.Wildcard}}))
			}
		},
		"back": func(l *Loader, i int) {
			if i == n/2 {
				must(t, l.Add(arrivingTuple(3, "reader")))
				must(t, l.Add(arrivingTuple(n-1, "reader")))
			}
		},
		"attribute": func(l *Loader, i int) {
			if i%1000 == 0 {
				must(t, l.SetAttribute(rel.Attribute{Object: rel.Object{Type: "doc", ID: fmt.Sprintf("d%07d", i)}, Name: "a", Value: "1"}))
			}
		},
		"batch": func(l *Loader, i int) {
			if i == n-7 {
				must(t, l.wait())
				must(t, l.g.Begin().Add(arrivingTuple(n-9000, "reader")))
			}
		},
	} {
		v, extra := arriving(t, n, other), 0
		if what == "subject" {
			extra = 1
		} else if what == "wildcard" {
			extra = 2
		}
		if got := v.Stats().Names; got != n+100+extra {
			t.Errorf("%s: %d names of %d documents", what, got, n)
		}
	}
}
