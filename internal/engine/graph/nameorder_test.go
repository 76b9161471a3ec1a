package graph

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/ostiary/ostiary/rel"
)

func compareKeys(a, b rel.Key) int {
	return cmp.Or(strings.Compare(a.Object.Type, b.Object.Type), strings.Compare(a.Relation, b.Relation),
		strings.Compare(a.Object.ID, b.Object.ID), compareSubjects(&a.Subject, &b.Subject))
}

// sameNames compares the pages of random lists with the model.
func (w world) sameNames(t *testing.T, v *View, m model) {
	t.Helper()
	for range 10 {
		w.sameNamedTuples(t, v, m, w.filter())
	}
	w.sameNamedTuples(t, v, m, rel.Filter{})
	w.sameNamedAttributes(t, v, m)
}

// sameNamedTuples compares the pages of a NameOrder with the model. Pages are small, so
// that even short lists of neighbors are long for a page.
func (w world) sameNamedTuples(t *testing.T, v *View, m model, f rel.Filter) {
	t.Helper()
	want := m.matching(f)
	slices.SortFunc(want, func(a, b rel.Tuple) int { return compareKeys(a.Key(), b.Key()) })
	order := NameOrder{View: v, Page: 1 + w.IntN(3), Visit: func() bool { return true }}
	var got []rel.Tuple
	var after *rel.Key
	if w.IntN(4) == 0 { // begin at any place
		k := w.key()
		after = &k
		want = slices.DeleteFunc(want, func(t rel.Tuple) bool { return compareKeys(t.Key(), k) <= 0 })
	}
	size := 1 + w.IntN(40)
	for more := true; more; {
		more = false
		n := 0
		for tu := range order.Tuples(f, after) {
			got = append(got, tu)
			if n++; n == size {
				more = true
				break
			}
		}
		if len(got) > 0 {
			k := got[len(got)-1].Key()
			after = &k
		}
	}
	if !slices.Equal(got, want) {
		t.Fatalf("%+v in pages of %d, for %d: got %d tuples, expected %d; they differ at %d", f, size, order.Page, len(got), len(want), differAt(got, want))
	}
}

// sameNamedAttributes is like sameNamedTuples for attributes.
func (w world) sameNamedAttributes(t *testing.T, v *View, m model) {
	t.Helper()
	for range 4 {
		f := w.attribute()
		for _, part := range []*string{&f.Object.Type, &f.Object.ID, &f.Name} {
			if w.IntN(2) == 0 {
				*part = ""
			}
		}
		var want []rel.Attribute
		for k, value := range m.attrs {
			if (f.Object.Type == "" || f.Object.Type == k.Object.Type) && (f.Object.ID == "" || f.Object.ID == k.Object.ID) && (f.Name == "" || f.Name == k.Name) {
				k.Value = value
				want = append(want, k)
			}
		}
		slices.SortFunc(want, func(a, b rel.Attribute) int {
			return cmp.Or(strings.Compare(a.Object.Type, b.Object.Type), strings.Compare(a.Object.ID, b.Object.ID), strings.Compare(a.Name, b.Name))
		})
		order := NameOrder{View: v, Page: 1 + w.IntN(3), Visit: func() bool { return true }}
		var got []rel.Attribute
		var after *rel.Attribute
		size := 1 + w.IntN(10)
		for more := true; more; {
			more = false
			n := 0
			for a := range order.Attributes(f.Object.Type, f.Object.ID, f.Name, after) {
				got = append(got, a)
				if n++; n == size {
					more = true
					break
				}
			}
			if len(got) > 0 {
				after = &got[len(got)-1]
			}
		}
		if !slices.Equal(got, want) {
			t.Fatalf("%v in pages of %d: got %d attributes, expected %d; they differ at %d", f, size, len(got), len(want), differAt(got, want))
		}
	}
}

// TestByID adds random names in groups of random sizes, and compares the order of their
// nodes with a sorted list after each group.
func TestByID(t *testing.T) {
	t.Parallel()
	const seed = 7
	t.Logf("seed %d", seed)
	rng := random(seed)
	prefixes := []string{"", "a", "document-2026-", "document-2026-\x00\x00\x00\x00\x00\x00\x00\x00", "\x00", strings.Repeat("long ", 40)}
	g := New(Options{})
	kind, err := g.Intern(KindName{Type: "doc", Relation: "viewer"})
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]Node{}
	groups := []int{1, 5, 3000, 1, 2, 40, 700, 1, 1, 9000, 13, 1}
	for _, size := range groups {
		g.mu.Lock()
		for range size {
			id := prefixes[rng.IntN(len(prefixes))] + fmt.Sprint(rng.IntN(1<<(4+rng.IntN(16)))) + strings.Repeat("\x00", rng.IntN(2))
			n, err := g.node(kind, id)
			if err != nil {
				t.Fatal(err)
			}
			known[id] = n
		}
		view := &View{g: g, symbols: g.symbols, nodeCount: g.nodeCount}
		g.mu.Unlock()
		want := make([]string, 0, len(known))
		for id := range known {
			want = append(want, id)
		}
		slices.Sort(want)
		order := view.byID(kind)
		if order.count != len(want) {
			t.Fatalf("%d nodes are ordered, expected %d", order.count, len(want))
		}
		for i, c := range order.chunks {
			if len(c) == 0 || len(c) > idChunkMax {
				t.Fatalf("chunk %d of %d has %d nodes", i, len(order.chunks), len(c))
			}
		}
		if got := g.ids.bytes.Load(); got != order.bytes() || got < int64(4*len(want)) {
			t.Fatalf("%d bytes are counted for %d nodes", got, len(want))
		}
		for range 20 {
			from := ""
			if rng.IntN(4) > 0 {
				from = want[rng.IntN(len(want))] + []string{"", "\x00", "5"}[rng.IntN(3)]
			}
			at, _ := slices.BinarySearch(want, from)
			walk := order.from(from)
			for _, id := range want[at:] {
				if n := walk.next(); n != known[id] {
					t.Fatalf("from %q: got %q, expected %q", from, view.id(n), id)
				}
			}
			if n := walk.next(); n != 0 {
				t.Fatalf("from %q: got %q after the last one", from, view.id(n))
			}
		}
	}
}

// TestPageVisits counts what a page of 100 visits, at the beginning, in the middle and
// near the end of lists of several sizes. The counts must be equal.
func TestPageVisits(t *testing.T) {
	t.Parallel()
	const page = 100
	filters := []struct {
		name   string
		filter rel.Filter
	}{
		{"all", rel.Filter{}},
		{"a type", rel.Filter{ObjectType: "doc"}},
		{"a relation of a type", rel.Filter{ObjectType: "doc", Relation: "viewer"}},
		{"a relation and a type of subjects", rel.Filter{Relation: "viewer", SubjectType: "user"}},
		{"a subject", rel.Filter{SubjectType: "user", SubjectID: "everywhere"}},
		{"a subject and a relation of a type", rel.Filter{ObjectType: "doc", Relation: "owner", SubjectType: "user", SubjectID: "everywhere"}},
		{"an object", rel.Filter{ObjectType: "doc", ObjectID: "shared"}},
		{"an object and a relation", rel.Filter{ObjectType: "doc", ObjectID: "shared", Relation: "member"}},
	}
	visits := map[string]map[string]int{} // by filter and place
	for _, size := range []int{2_000, 8_000, 32_000} {
		g := New(Options{})
		l := g.Load()
		add := func(object, relation, subject string) {
			if err := l.Add(rel.Tuple{Object: rel.Object{Type: "doc", ID: object}, Relation: relation, Subject: rel.Subject{Type: "user", ID: subject}}); err != nil {
				t.Fatal(err)
			}
		}
		for i := range size {
			add(fmt.Sprintf("%06d", i*7919%size), "viewer", fmt.Sprintf("u%06d", i))
			add(fmt.Sprintf("%06d", i), "owner", "everywhere")
			add("shared", "member", fmt.Sprintf("u%06d", i*7919%size))
			if err := l.SetAttribute(rel.Attribute{Object: rel.Object{Type: "doc", ID: fmt.Sprintf("%06d", i)}, Name: "a", Value: "1"}); err != nil {
				t.Fatal(err)
			}
		}
		v, err := l.Finish()
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		order := NameOrder{View: v, Page: page, Visit: func() bool { n++; return true }}
		record := func(list, place string) {
			t.Helper()
			if visits[list] == nil {
				visits[list] = map[string]int{}
			}
			if before, ok := visits[list][place]; ok && before != n || n > 4*page+page || n < page {
				t.Errorf("%s, %s of %d: a page visits %d, expected %d as for the smaller list", list, place, size, n, before)
			}
			visits[list][place] = n
		}
		for _, f := range filters {
			var all []rel.Key
			for tu := range order.Tuples(f.filter, nil) {
				all = append(all, tu.Key())
			}
			for place, at := range map[string]int{"beginning": -1, "middle": len(all) / 2, "end": len(all) - page - 1} {
				var after *rel.Key
				if at >= 0 {
					after = &all[at]
				}
				n = 0
				read := 0
				for tu := range order.Tuples(f.filter, after) {
					if tu.Key() != all[at+1+read] {
						t.Fatalf("%s, %s of %d: got %v, expected %v", f.name, place, size, tu, all[at+1+read])
					}
					if read++; read == page {
						break
					}
				}
				record(f.name, place)
			}
		}
		for place, at := range map[string]int{"beginning": 0, "middle": size / 2, "end": size - page - 1} {
			n = 0
			read := 0
			after := &rel.Attribute{Object: rel.Object{Type: "doc", ID: fmt.Sprintf("%06d", at)}, Name: "a"}
			for range order.Attributes("doc", "", "a", after) {
				if read++; read == page {
					break
				}
			}
			record("attributes", place)
		}
	}
}

// TestStoppedOrder ends an iteration at each of its visits.
func TestStoppedOrder(t *testing.T) {
	t.Parallel()
	g := New(Options{})
	b := g.Begin()
	for i := range 40 {
		for _, subject := range []string{"a", fmt.Sprint(i)} {
			if err := b.Add(rel.Tuple{Object: rel.Object{Type: "doc", ID: fmt.Sprint(i)}, Relation: "viewer", Subject: rel.Subject{Type: "user", ID: subject}}); err != nil {
				t.Fatal(err)
			}
		}
	}
	v := b.View()
	for _, f := range []rel.Filter{{}, {SubjectType: "user", SubjectID: "a"}, {ObjectType: "doc", ObjectID: "1"}} {
		for _, page := range []int{1, 100} {
			whole := 0
			order := NameOrder{View: v, Page: page, Visit: func() bool { whole++; return true }}
			for range order.Tuples(f, nil) {
			}
			for last := range whole {
				n := 0
				order := NameOrder{View: v, Page: page, Visit: func() bool { n++; return n <= last }}
				for range order.Tuples(f, nil) {
				}
				if n != last+1 {
					t.Fatalf("%+v: %d visits after the order to stop at %d", f, n, last)
				}
			}
		}
	}
}

// differAt returns the first index at which two lists differ.
func differAt[T comparable](a, b []T) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}
	return min(len(a), len(b))
}
