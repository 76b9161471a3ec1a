package graph_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"

	"github.com/ostiary/ostiary/internal/engine/graph"
	"github.com/ostiary/ostiary/internal/engine/graph/graphtest"
	"github.com/ostiary/ostiary/rel"
)

func parse(tb testing.TB, s string) rel.Tuple {
	tb.Helper()
	t, err := rel.Parse(s)
	if err != nil {
		tb.Fatal(err)
	}
	return t
}

func write(tb testing.TB, g *graph.Graph, tuples ...string) *graph.View {
	tb.Helper()
	b := g.Begin()
	for _, s := range tuples {
		if err := b.Add(parse(tb, s)); err != nil {
			tb.Fatal(err)
		}
	}
	v, err := b.Publish()
	if err != nil {
		tb.Fatal(err)
	}
	return v
}

// Subjects of different kinds are in different lists.
func TestKinds(t *testing.T) {
	t.Parallel()
	v := write(t, graph.New(graph.Options{}),
		"doc:1#viewer@user:anne", "doc:1#viewer@user:*", "doc:1#viewer@group:eng#member", "doc:1#owner@user:anne")
	view, _ := v.Kind(graph.KindName{Type: "doc", Relation: "viewer"})
	doc, ok := v.Node(view, "1")
	if !ok {
		t.Fatal("no doc:1#viewer")
	}
	for _, name := range []graph.KindName{
		{Type: "user"}, {Type: "user", Wildcard: true}, {Type: "group", Relation: "member"},
	} {
		k, ok := v.Kind(name)
		l := v.Forward(doc, k)
		if !ok || l.Len() != 1 || v.KindOf(l.Chunk(0)[0].Node()) != k {
			t.Fatalf("%v: %v, %d edges", name, ok, l.Len())
		}
		back := v.Reverse(l.Chunk(0)[0].Node(), view)
		if back.Len() != 1 || back.Chunk(0)[0].Node() != doc {
			t.Fatalf("%v: %d edges back", name, back.Len())
		}
	}
	owner, _ := v.Kind(graph.KindName{Type: "doc", Relation: "owner"})
	if n, ok := v.Sibling(doc, owner); !ok || v.ID(n) != "1" || v.KindOf(n) != owner {
		t.Fatal("doc:1#owner is no sibling of doc:1#viewer")
	}
	for _, name := range []graph.KindName{{Type: "doc", Wildcard: true}, {Type: "group", Relation: "owner"}} {
		if _, ok := v.Kind(name); ok {
			t.Fatalf("kind %v was never written", name)
		}
	}
	if k, _ := v.Kind(graph.KindName{Type: "group"}); k != 0 {
		if _, ok := v.Node(k, "eng"); ok {
			t.Fatal("group:eng is in no tuple")
		}
	}
}

// A kind or node number that a view does not have means one without a name
// and lists.
func TestUnknownNumbers(t *testing.T) {
	t.Parallel()
	g := graph.New(graph.Options{})
	old := g.View()
	v := write(t, g, "doc:1#viewer@user:anne")
	known, _ := v.Kind(graph.KindName{Type: "user"})
	anne, _ := v.Node(known, "anne")
	for _, view := range []*graph.View{old, v} {
		for _, n := range []graph.Node{0, 1, 1 << 20, graph.NodeMax, graph.NodeMax + 1, 1<<32 - 1} {
			for _, k := range []graph.Kind{0, known, 1 << 20, graph.KindMax, 1<<32 - 1} {
				_, sibling := view.Sibling(n, k)
				_, probe := view.Probe(n, anne)
				_, found := view.Node(k, "nobody")
				_, attr := view.Attribute(n, "x")
				if sibling || probe || found || attr || view.Forward(n, k).Len() > 0 || view.Reverse(n, k).Len() > 0 ||
					view.KindOf(n) != 0 || view.FirstNode(n) != 0 || view.InUse(n, true, true) || view.IsSubject(n, "", true) || view.ID(n) != "" || view.Detail(n, anne).Condition != "" {
					t.Fatalf("node %d, kind %d is known", n, k)
				}
			}
		}
	}
	if old.Len() != 0 || old.Forward(anne, known).Len() != 0 {
		t.Fatal("the empty view has a node, kind or list")
	}
	if _, ok := old.Get(parse(t, "doc:1#viewer@user:anne").Key()); ok {
		t.Fatal("the empty view has a tuple")
	}
}

// A replaced tuple has the new condition in the new view, and the old one in
// the old view.
func TestReplace(t *testing.T) {
	t.Parallel()
	g := graph.New(graph.Options{})
	steps := []string{
		"doc:1#viewer@user:anne",
		`doc:1#viewer@user:anne with range {"max":5}`,
		`doc:1#viewer@user:anne with range {"max":6}`,
		"doc:1#viewer@user:anne with range until 2030-01-01T00:00:00Z",
		"doc:1#viewer@user:anne until 2031-01-01T00:00:00Z",
		"doc:1#viewer@user:anne",
	}
	var views []*graph.View
	for _, s := range steps {
		views = append(views, write(t, g, s))
	}
	for i, v := range views {
		want := parse(t, steps[i])
		if got, ok := v.Get(want.Key()); !ok || got != want || v.Len() != 1 {
			t.Fatalf("step %d: %v, want %v", i, got, want)
		}
	}
	v := views[2]
	k, _ := v.Kind(graph.KindName{Type: "doc", Relation: "viewer"})
	doc, _ := v.Node(k, "1")
	k, _ = v.Kind(graph.KindName{Type: "user"})
	anne, _ := v.Node(k, "anne")
	if d := v.Detail(doc, anne); fmt.Sprint(d.Values["max"]) != "6" {
		t.Fatalf("%+v", d)
	}
}

// Publish fails if another batch was published since, and for detached batches.
// A Loader fails if a key is given twice, and on a lineage in use.
func TestStale(t *testing.T) {
	t.Parallel()
	g := graph.New(graph.Options{})
	first, second, back := g.Begin(), g.Begin(), g.From(g.View())
	for _, b := range []*graph.Batch{first, second, back} {
		if err := b.Add(parse(t, "doc:1#viewer@user:anne")); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := first.Publish(); err != nil {
		t.Fatal(err)
	}
	for _, b := range []*graph.Batch{second, back} {
		if _, err := b.Publish(); !errors.Is(err, graph.ErrStale) {
			t.Fatal(err)
		}
	}
	if _, err := first.Publish(); err != nil {
		t.Fatal(err)
	}
	if _, err := g.Load().Finish(); !errors.Is(err, graph.ErrStale) {
		t.Fatal(err)
	}
	for _, s := range []string{"doc:1#viewer@user:anne", "doc:1#viewer@user:anne with c"} {
		l := graph.New(graph.Options{}).Load()
		for _, s := range []string{"doc:1#viewer@user:anne", "doc:1#viewer@user:bob", s} {
			if err := l.Add(parse(t, s)); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := l.Finish(); !errors.Is(err, graph.ErrDuplicate) {
			t.Fatal(err)
		}
	}
	l := graph.New(graph.Options{}).Load()
	for range 2 {
		if err := l.SetAttribute(rel.Attribute{Object: rel.Object{Type: "doc", ID: "1"}, Name: "a", Value: "1"}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := l.Finish(); !errors.Is(err, graph.ErrDuplicate) {
		t.Fatal(err)
	}
}

// Reads by names do not allocate.
func TestNoAllocation(t *testing.T) {
	g := load(t, graphtest.Shape{Tuples: graphtest.TuplesMin, Fan: 2000})
	v := write(t, g, `document:c#viewer@user:anne with range {"max":5}`)
	viewer, user := kind(t, v, "document", "viewer"), kind(t, v, "user", "")
	parent, folder := kind(t, v, "document", "parent"), kind(t, v, "folder", "")
	member := kind(t, v, "group", "member")
	found := 0
	for what, read := range map[string]func(){
		"kind": func() { v.Kind(graph.KindName{Type: "document", Relation: "viewer"}) },
		"lists": func() {
			d, _ := v.Node(parent, "d77")
			f := v.Forward(d, folder).Chunk(0)[0].Node()
			p, _ := v.Sibling(f, folder)
			found += v.Reverse(p, parent).Len() + len(v.ID(p)) + int(v.KindOf(p))
		},
		"long": func() {
			d, _ := v.Node(viewer, "fan")
			g, _ := v.Node(member, "lone-1234")
			if _, ok := v.Forward(d, member).Find(g); ok {
				found++
			}
		},
		"detail": func() {
			d, _ := v.Node(viewer, "c")
			u, _ := v.Node(user, "anne")
			if e, ok := v.Probe(d, u); ok && e.Detailed() && v.Detail(d, u).Condition == "range" {
				found++
			}
		},
		"attribute": func() { v.Attribute(1<<6, "none") },
	} {
		before := found
		if n := testing.AllocsPerRun(100, read); n != 0 {
			t.Errorf("%s allocates %.1f times", what, n)
		}
		if found == before && what != "kind" && what != "attribute" {
			t.Errorf("%s found nothing", what)
		}
	}
}

// Readers of any view need no lock while one writer publishes, a past view is
// derived and the lineage is compacted. The race detector checks that. The test
// checks that no view shows a write in part: two tuples always appear and
// disappear together.
func TestRace(t *testing.T) {
	t.Parallel()
	g := graph.New(graph.Options{})
	first := write(t, g, "doc:0#viewer@user:0", "doc:0#owner@user:0")
	done := make(chan struct{})
	var readers sync.WaitGroup
	for r := range 2 {
		readers.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(r), 1))
			for {
				select {
				case <-done:
					return
				default:
					readPair(t, g.View(), rng.IntN(2000))
					if rng.IntN(50) == 0 {
						readInOrder(t, g.View())
						readInOrder(t, first)
					}
				}
			}
		})
	}
	readers.Go(func() {
		for i := range 20 {
			b := g.From(first)
			if err := b.Add(parse(t, fmt.Sprintf("past:%d#viewer@user:0", i))); err != nil {
				t.Error(err)
			}
			if n := b.View().Len(); n != 3 {
				t.Errorf("the past has %d tuples", n)
			}
			if _, err := graph.Compact(g.View()); err != nil {
				t.Error(err)
			}
		}
	})
	rng := rand.New(rand.NewPCG(9, 9))
	for range 1500 {
		i, b := rng.IntN(2000), g.Begin()
		a, o := parse(t, fmt.Sprintf("doc:%d#viewer@user:%d", i, i%7)), parse(t, fmt.Sprintf("doc:%d#owner@user:%d", i, i%11))
		if b.Remove(a.Key()) {
			b.Remove(o.Key())
		} else if err := errors.Join(b.Add(a), b.Add(o)); err != nil {
			t.Fatal(err)
		}
		if _, err := b.Publish(); err != nil {
			t.Fatal(err)
		}
	}
	close(done)
	readers.Wait()
	if first.Len() != 2 {
		t.Fatal("the first view changed")
	}
}

func readPair(t *testing.T, v *graph.View, i int) {
	_, viewer := v.Get(rel.Key{Object: rel.Object{Type: "doc", ID: fmt.Sprint(i)}, Relation: "viewer", Subject: rel.Subject{Type: "user", ID: fmt.Sprint(i % 7)}})
	_, owner := v.Get(rel.Key{Object: rel.Object{Type: "doc", ID: fmt.Sprint(i)}, Relation: "owner", Subject: rel.Subject{Type: "user", ID: fmt.Sprint(i % 11)}})
	if viewer != owner {
		t.Errorf("doc:%d has only one of its two tuples: %v %v", i, viewer, owner)
	}
}

// readInOrder compares the objects in order with those in any order.
func readInOrder(t *testing.T, v *graph.View) {
	want, got := 0, 0
	for range v.Objects("doc") {
		want++
	}
	last := uint64(0)
	rank := func(id string) uint64 { return uint64(len(id))<<40 | uint64(id[len(id)-1]) }
	o := v.Ordered("doc", rank)
	for n := o.Next(); n != 0; n = o.Next() {
		if v.InUse(n, true, false) {
			got++
		}
		if r := rank(v.ID(n)); r < last {
			t.Errorf("%s is out of order", v.ID(n))
		} else {
			last = r
		}
	}
	if got != want {
		t.Errorf("%d objects in order, %d without", got, want)
	}
}

// The estimate of memory is close to what the heap holds, and both are within
// the goal of 70 bytes a tuple with short names.
func TestBytes(t *testing.T) {
	before := heap()
	g := load(t, graphtest.Shape{Tuples: 200_000})
	v := g.View()
	held, tuples := heap()-before, int64(v.Len())
	if est := v.Bytes(); est < held*85/100 || est > held*115/100 {
		t.Errorf("the estimate is %d bytes, the heap holds %d", est, held)
	}
	if held/tuples > 70 {
		t.Errorf("%d bytes a tuple", held/tuples)
	}
	runtime.KeepAlive(g)
}

// The estimate of memory is close to what the heap holds for stores of few tuples, and
// for those in which kinds or attributes need most of it.
func TestBytesOfShapes(t *testing.T) {
	for what, c := range map[string]struct {
		stores, add int
		tuple       func(i int) string
	}{
		"small stores": {500, 1, func(i int) string { return fmt.Sprintf("doc:%d#viewer@user:anne", i) }},
		"kinds":        {1, 10_000, func(i int) string { return fmt.Sprintf("doc:%d#viewer%d@user:anne", i, i) }},
		"contexts":     {1, 5000, func(i int) string { return fmt.Sprintf(`doc:1#viewer@user:%d with c {"n":%d}`, i, i) }},
	} {
		before, all, estimate := heap(), []*graph.View{}, int64(0)
		for range c.stores {
			tuples := make([]string, c.add)
			for i := range tuples {
				tuples[i] = c.tuple(i)
			}
			v := write(t, graph.New(graph.Options{}), tuples...)
			all, estimate = append(all, v), estimate+v.Bytes()
		}
		if held := heap() - before; estimate < held*80/100 || estimate > held*120/100 {
			t.Errorf("%s: the estimate is %d bytes, the heap holds %d", what, estimate, held)
		}
		runtime.KeepAlive(all)
	}
}

// If tuples are added and removed for a long time, the memory of tuples stays
// bounded, and Compact bounds that of names.
func TestChurn(t *testing.T) {
	t.Parallel()
	g := graph.New(graph.Options{})
	const live, rounds = 500, 20
	key := func(i int) rel.Tuple {
		return parse(t, fmt.Sprintf("doc:%d#viewer@user:%d with range {\"max\":%d}", i, i%50, i))
	}
	first := int64(0)
	for r := range rounds {
		b := g.Begin()
		for i := r * live; i < (r+1)*live; i++ {
			if err := b.Add(key(i)); err != nil {
				t.Fatal(err)
			}
			if r > 0 && !b.Remove(key(i-live).Key()) {
				t.Fatal(i)
			}
		}
		v, err := b.Publish()
		if err != nil {
			t.Fatal(err)
		}
		if v.Len() != live || v.Stats().Detailed != live {
			t.Fatalf("%+v", v.Stats())
		}
		if r == 0 {
			first = v.Bytes()
		}
	}
	if d := g.View().DeadShare(); d < 0.9 || d > 0.96 {
		t.Errorf("%.2f of the names are dead", d)
	}
	c, err := graph.Compact(g.View())
	if err != nil {
		t.Fatal(err)
	}
	if got := c.View().Bytes(); c.View().DeadShare() != 0 || got > first*11/10 {
		t.Errorf("%d bytes after compaction, %d at first; %.2f dead", got, first, c.View().DeadShare())
	}
}
