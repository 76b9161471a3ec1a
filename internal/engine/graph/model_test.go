package graph

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/ostiary/ostiary/rel"
)

func random(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, seed)) }

// model is a simple implementation, with maps of strings, that a graph is
// compared with.
type model struct {
	tuples map[rel.Key]rel.Tuple
	attrs  map[rel.Attribute]string // by attribute with an empty Value
}

func newModel() model {
	return model{map[rel.Key]rel.Tuple{}, map[rel.Attribute]string{}}
}

func (m model) clone() model { return model{maps.Clone(m.tuples), maps.Clone(m.attrs)} }

func (m model) matching(f rel.Filter) (ts []rel.Tuple) {
	for k, t := range m.tuples {
		if f.Match(k) && !(f.SubjectPlain && f.SubjectRelation != "") {
			ts = append(ts, t)
		}
	}
	return ts
}

// world generates random tuples with few names, so that the same names occur
// often.
type world struct {
	*rand.Rand
	ids int
}

func (w world) object() rel.Object {
	types := []string{"doc", "group", "user"}
	return rel.Object{Type: types[w.IntN(len(types))], ID: fmt.Sprint("n", w.IntN(w.ids))}
}

func (w world) key() rel.Key {
	relations := []string{"viewer", "member", "owner"}
	k := rel.Key{Object: w.object(), Relation: relations[w.IntN(3)], Subject: w.object().AsSubject()}
	if w.IntN(6) == 0 { // some lists are long
		k.Object.ID, k.Relation = "n0", "viewer"
	}
	if w.IntN(6) == 0 {
		k.Subject = rel.Subject{Type: "user", ID: "n0"}
	}
	switch w.IntN(6) {
	case 0:
		k.Subject.ID = rel.Wildcard
	case 1:
		k.Subject.Relation = relations[w.IntN(3)]
	}
	return k
}

func (w world) tuple() rel.Tuple {
	k := w.key()
	t := rel.Tuple{Object: k.Object, Relation: k.Relation, Subject: k.Subject}
	switch w.IntN(8) {
	case 0:
		t.Condition = "always"
	case 1:
		t.Condition, t.Context = "range", fmt.Sprintf(`{"max":%d}`, w.IntN(5))
	case 2:
		t.Expires = rel.Time(1 + w.IntN(9))
	}
	return t
}

func (w world) attribute() rel.Attribute {
	return rel.Attribute{Object: w.object(), Name: fmt.Sprint("a", w.IntN(3)), Value: fmt.Sprint(w.IntN(100))}
}

func (w world) filter() (f rel.Filter) {
	k := w.key()
	if w.IntN(2) == 0 {
		f.ObjectType = k.Object.Type
	}
	if w.IntN(2) == 0 {
		f.ObjectID = k.Object.ID
	}
	if w.IntN(3) == 0 {
		f.Relation = k.Relation
	}
	if w.IntN(2) == 0 {
		f.SubjectType = k.Subject.Type
	}
	if w.IntN(2) == 0 {
		f.SubjectID = k.Subject.ID
	}
	if w.IntN(4) == 0 {
		f.SubjectRelation = k.Subject.Relation
	}
	f.SubjectPlain = w.IntN(4) == 0
	return f
}

// step does one random operation on the graph and on the model.
func (w world) step(t *testing.T, b *Batch, m model) {
	t.Helper()
	switch op := w.IntN(100); {
	case op < 10:
		w.addAbsent(t, b, m)
	case op < 55:
		tu := w.tuple()
		if err := b.Add(tu); err != nil {
			t.Fatal(err)
		}
		m.tuples[tu.Key()] = tu
	case op < 85:
		k := w.key()
		_, had := m.tuples[k]
		delete(m.tuples, k)
		if b.Remove(k) != had {
			t.Fatalf("remove %v: want existed %v", k, had)
		}
	case op < 87:
		f := w.filter()
		if f == (rel.Filter{}) {
			return
		}
		gone := m.matching(f)
		for _, tu := range gone {
			delete(m.tuples, tu.Key())
		}
		if len(gone) > 0 && !b.MayMatch(f) {
			t.Fatalf("%+v may not match %v", f, gone)
		}
		if n := b.RemoveMatching(f); n != len(gone) {
			t.Fatalf("%+v removed %d, want %d", f, n, len(gone))
		}
	case op < 94:
		a := w.attribute()
		if err := b.SetAttribute(a); err != nil {
			t.Fatal(err)
		}
		v := a.Value
		a.Value = ""
		m.attrs[a] = v
	case op < 95:
		a := w.attribute()
		gone := 0
		for k := range m.attrs {
			if k.Object.Type == a.Object.Type && k.Name == a.Name {
				delete(m.attrs, k)
				gone++
			}
		}
		if n := b.RemoveAttributes(a.Object.Type, "", a.Name); n != gone {
			t.Fatalf("removing %s of all %s: %d, want %d", a.Name, a.Object.Type, n, gone)
		}
	default:
		a := w.attribute()
		a.Value = ""
		_, had := m.attrs[a]
		delete(m.attrs, a)
		if b.RemoveAttribute(a.Object, a.Name) != had {
			t.Fatalf("remove %v: want existed %v", a, had)
		}
	}
	k := w.key()
	if got, ok := b.Get(k); ok != b.Has(k) || ok && got != m.tuples[k] || !ok && m.tuples[k] != (rel.Tuple{}) {
		t.Fatalf("%v: the batch has %v, %v, the model %v", k, got, ok, m.tuples[k])
	}
}

// addAbsent adds some tuples, of which some may already exist.
func (w world) addAbsent(t *testing.T, b *Batch, m model) {
	t.Helper()
	tuples := make([]rel.Tuple, w.IntN([]int{3, 200}[w.IntN(2)]))
	for i := range tuples {
		tuples[i] = w.tuple()
	}
	broken := len(tuples)
	if w.IntN(4) == 0 && broken > 0 {
		broken = w.IntN(broken)
		tuples[broken].Context = "{"
	}
	want := 0
	for ; want < broken; want++ {
		if _, ok := m.tuples[tuples[want].Key()]; ok {
			break
		}
		m.tuples[tuples[want].Key()] = tuples[want]
	}
	n, err := b.AddAbsent(tuples)
	if n != want || errors.Is(err, ErrContext) != (n == broken && n < len(tuples)) || err != nil && n != broken {
		t.Fatalf("of %d tuples %d were added, want %d (%d is broken): %v", len(tuples), n, want, broken, err)
	}
}

// same compares a view with a model.
func (w world) same(t *testing.T, v *View, m model) {
	t.Helper()
	check(t, v)
	if v.Len() != len(m.tuples) {
		t.Fatalf("%d tuples, want %d", v.Len(), len(m.tuples))
	}
	for k, want := range m.tuples {
		if got, ok := v.Get(k); !ok || got != want {
			t.Fatalf("%v is %v, %v, want %v", k, got, ok, want)
		}
	}
	for range 50 {
		k := w.key()
		if got, ok := v.Get(k); got != m.tuples[k] || ok != (got != rel.Tuple{}) {
			t.Fatalf("%v is %v, %v, want %v", k, got, ok, m.tuples[k])
		}
	}
	for range 10 {
		w.sameTuples(t, v, m, w.filter())
	}
	w.sameTuples(t, v, m, rel.Filter{})
	world{random(uint64(len(m.tuples))), w.ids}.sameNames(t, v, m)
	w.sameAttributes(t, v, m)
	w.sameObjects(t, v, m)
	if w.IntN(5) == 0 {
		w.sameUse(t, v, m)
		w.sameStats(t, v, m)
	}
}

// sameUse compares InUse and IsSubject with the model, for all objects and wildcards.
func (w world) sameUse(t *testing.T, v *View, m model) {
	t.Helper()
	type subject struct {
		rel.Object
		relation string
	}
	tuples, subjects, attributes := map[rel.Object]bool{}, map[subject]bool{}, map[rel.Object]bool{}
	for k := range m.tuples {
		tuples[k.Object], tuples[k.Subject.Object()] = true, true
		subjects[subject{k.Subject.Object(), k.Subject.Relation}] = true
	}
	for a := range m.attrs {
		attributes[a.Object] = true
	}
	for _, typ := range []string{"doc", "group", "user"} {
		for o := v.Ordered(typ, rank); ; {
			n := o.Next()
			if n == 0 {
				break
			}
			object := v.Object(n)
			for _, star := range []bool{false, true} {
				counts := star || object.ID != rel.Wildcard
				for _, withAttributes := range []bool{false, true} {
					want := tuples[object] && counts || withAttributes && attributes[object]
					if got := v.InUse(n, withAttributes, star); got != want {
						t.Fatalf("%v in use, attributes %v, star %v: %v", object, withAttributes, star, got)
					}
				}
				for _, relation := range []string{"", "member", "none"} {
					if got := v.IsSubject(n, relation, star); got != (subjects[subject{object, relation}] && counts) {
						t.Fatalf("%v is a subject with relation %q, star %v: %v", object, relation, star, got)
					}
				}
			}
		}
	}
}

// sameStats compares the counts, the share of dead names and the expiring tuples with
// the model.
func (w world) sameStats(t *testing.T, v *View, m model) {
	t.Helper()
	names := map[rel.Object]bool{}
	type node struct {
		rel.Object
		relation string
	}
	nodes := map[node]bool{}
	detailed, expiring := 0, map[rel.Key]rel.Tuple{}
	for k, tu := range m.tuples {
		names[k.Object], names[k.Subject.Object()] = true, true
		nodes[node{k.Object, k.Relation}], nodes[node{k.Subject.Object(), k.Subject.Relation}] = true, true
		if tu.Condition != "" || tu.Expires != 0 {
			detailed++
		}
		if tu.Expires != 0 {
			expiring[k] = tu
		}
	}
	for a := range m.attrs {
		names[a.Object], nodes[node{a.Object, ""}] = true, true
	}
	st := v.Stats()
	want := Stats{Tuples: len(m.tuples), Detailed: detailed, Attributes: len(m.attrs), LiveNodes: len(nodes), LiveNames: len(names),
		Kinds: st.Kinds, Nodes: st.Nodes, Names: st.Names}
	if st != want || st.Names < st.LiveNames || st.Nodes < st.LiveNodes || st.Nodes < st.Names {
		t.Fatalf("got %+v, want %+v", st, want)
	}
	if dead := v.DeadShare() * float64(st.Names); math.Abs(dead-float64(st.Names-st.LiveNames)) > 1e-6 {
		t.Fatalf("%v names are dead of %+v", dead, st)
	}
	for tu := range v.Expiring() {
		if expiring[tu.Key()] != tu {
			t.Fatalf("%v expires, want %v", tu, expiring[tu.Key()])
		}
		delete(expiring, tu.Key())
	}
	if len(expiring) > 0 {
		t.Fatalf("%v do not expire", expiring)
	}
	for range v.Expiring() { // the caller may stop
		break
	}
}

// sameTuples compares the tuples that a filter selects, read in pages.
func (w world) sameTuples(t *testing.T, v *View, m model, f rel.Filter) {
	t.Helper()
	got := map[rel.Key]bool{}
	size, at, more := 1+w.IntN(200), Position{}, true
	for more {
		more = false
		n := 0
		for p, tu := range v.Tuples(f, at) {
			k := tu.Key()
			if where, ok := v.Position(k); !ok || where != p {
				t.Fatalf("%v has position %v, its key has %v, %v", tu, p, where, ok)
			}
			if got[k] || m.tuples[k] != tu || !f.Match(k) {
				t.Fatalf("%+v in pages of %d: %v, twice %v", f, size, tu, got[k])
			}
			got[k], at = true, p
			if n++; n == size {
				more = true
				break
			}
		}
	}
	if want := len(m.matching(f)); len(got) != want {
		t.Fatalf("%+v in pages of %d: %d tuples, want %d", f, size, len(got), want)
	}
}

func (w world) sameAttributes(t *testing.T, v *View, m model) {
	t.Helper()
	n := 0
	for a := range v.Attributes("", "", "") {
		n++
		key := a
		key.Value = ""
		if m.attrs[key] != a.Value {
			t.Fatalf("%v, want %v", a, m.attrs[key])
		}
		k, ok := v.Kind(KindName{Type: a.Object.Type})
		node, ok2 := v.Node(k, a.Object.ID)
		if got, ok3 := v.Attribute(node, a.Name); !ok || !ok2 || !ok3 || got != a.Value {
			t.Fatalf("%v is %q %v %v %v", a, got, ok, ok2, ok3)
		}
	}
	if n != len(m.attrs) {
		t.Fatalf("%d attributes, want %d", n, len(m.attrs))
	}
	for range 8 {
		a := w.attribute()
		for _, part := range []*string{&a.Object.Type, &a.Object.ID, &a.Name} {
			if w.IntN(2) == 0 {
				*part = ""
			}
		}
		want := 0
		for k := range m.attrs {
			if (a.Object.Type == "" || a.Object.Type == k.Object.Type) && (a.Object.ID == "" || a.Object.ID == k.Object.ID) && (a.Name == "" || a.Name == k.Name) {
				want++
			}
		}
		for range v.Attributes(a.Object.Type, a.Object.ID, a.Name) {
			want--
		}
		if want != 0 {
			t.Fatalf("%v lacks %d attributes", a, want)
		}
	}
}

func (w world) sameObjects(t *testing.T, v *View, m model) {
	t.Helper()
	want := map[rel.Object]bool{}
	for k := range m.tuples {
		want[k.Object] = true
		if !k.Subject.IsWildcard() {
			want[k.Subject.Object()] = true
		}
	}
	for _, typ := range []string{"doc", "group", "user", "nothing"} {
		for n := range v.Objects(typ) {
			o := v.Object(n)
			if o.Type != typ || !want[o] {
				t.Fatalf("%v is not an object of %s, or comes twice", o, typ)
			}
			delete(want, o)
		}
	}
	if len(want) > 0 {
		t.Fatalf("objects missing: %v", want)
	}
	if w.IntN(3) == 0 {
		w.sameOrder(t, v, m)
	}
}

// rank is equal for many ids. All uses of one lineage must have the same rank.
func rank(id string) uint64 { return uint64(len(id))<<40 | uint64(id[0]&1) }

// sameOrder compares Ordered and InUse with the model.
func (w world) sameOrder(t *testing.T, v *View, m model) {
	t.Helper()
	for _, typ := range []string{"doc", "group", "user", "nothing"} {
		attributes := w.IntN(2) == 0
		expected := map[string]bool{}
		for k := range m.tuples {
			for _, o := range []rel.Object{k.Object, k.Subject.Object()} {
				if o.Type == typ && (o != k.Subject.Object() || !k.Subject.IsWildcard()) {
					expected[o.ID] = true
				}
			}
		}
		for k := range m.attrs {
			if attributes && k.Object.Type == typ {
				expected[k.Object.ID] = true
			}
		}
		want := slices.SortedFunc(maps.Keys(expected), func(a, b string) int {
			return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a, b))
		})
		var got []string
		o := v.Ordered(typ, rank)
		from := uint64(w.IntN(3)) << 40
		o.Skip(from)
		left := o.Len()
		want = slices.DeleteFunc(want, func(id string) bool { return rank(id)>>32 < from>>32 })
		for n := o.Next(); n != 0; n = o.Next() {
			if o.Len() >= left || o.Len() < 0 {
				t.Fatalf("%d objects are left after %d", o.Len(), left)
			}
			left = o.Len()
			if v.FirstNode(n) != n {
				t.Fatalf("%v is not the first node of %s:%s", n, typ, v.ID(n))
			}
			if v.InUse(n, attributes, false) {
				got = append(got, v.ID(n))
			}
		}
		if !slices.Equal(got, want) || o.Len() != 0 {
			t.Fatalf("%s in order: want %v, got %v", typ, want, got)
		}
	}
}

// undo changes the batch, whose view equals after, so that its next view equals
// before.
func undo(t *testing.T, b *Batch, before, after model) {
	t.Helper()
	for k, tu := range before.tuples {
		if after.tuples[k] != tu {
			if err := b.Add(tu); err != nil {
				t.Fatal(err)
			}
		}
	}
	for k := range after.tuples {
		if _, ok := before.tuples[k]; !ok && !b.Remove(k) {
			t.Fatalf("%v does not exist, so it cannot be undone", k)
		}
	}
	for a, v := range before.attrs {
		if after.attrs[a] != v {
			if err := b.SetAttribute(rel.Attribute{Object: a.Object, Name: a.Name, Value: v}); err != nil {
				t.Fatal(err)
			}
		}
	}
	for a := range after.attrs {
		if _, ok := before.attrs[a]; !ok {
			b.RemoveAttribute(a.Object, a.Name)
		}
	}
}

// A graph and a model agree on random operations: at every revision that was
// kept, at revisions derived by undoing, and after compaction (G1 to G8).
func TestAgainstModel(t *testing.T) {
	t.Parallel()
	for seed := range uint64(9) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			againstModel(t, seed)
		})
	}
}

func againstModel(t *testing.T, seed uint64) {
	w := world{random(seed), []int{5, 40, 300}[seed%3]}
	type past struct {
		v *View
		m model
	}
	g, m := New(Options{}), newModel()
	kept := []past{{g.View(), m.clone()}}
	for range 25 {
		b := g.Begin()
		before := []*Batch{}
		for range 1 + w.IntN([]int{4, 60, 600}[w.IntN(3)]) {
			w.step(t, b, m)
			if w.IntN(150) == 0 {
				w.same(t, b.View(), m)
			}
			if w.IntN(200) == 0 {
				on := g.BeginOn(b.View())
				before, b = append(before, b), &on
			}
		}
		for i, earlier := range before {
			if _, err := b.Publish(); i == 0 && earlier.View() != g.View() && !errors.Is(err, ErrStale) {
				t.Fatal("published before the view that it is based on:", err)
			}
			if _, err := earlier.Publish(); err != nil {
				t.Fatal(err)
			}
		}
		v, err := b.Publish()
		if err != nil || v != g.View() {
			t.Fatal(err)
		}
		kept = append(kept, past{v, m.clone()})
		w.same(t, v, m)
		old := kept[w.IntN(len(kept))]
		w.same(t, old.v, old.m)
		back := g.From(v)
		undo(t, back, old.m, m)
		w.same(t, back.View(), old.m)
		if g.View() != v {
			t.Fatal("a detached batch was published")
		}
		if w.IntN(6) == 0 {
			if g, err = Compact(v); err != nil {
				t.Fatal(err)
			}
			if d := g.View().DeadShare(); d != 0 {
				t.Fatalf("%.3f of the names are dead after compaction", d)
			}
			kept = []past{{g.View(), m.clone()}}
			w.same(t, g.View(), m)
		}
	}
}

// A load gives the same view as batches with the same tuples, in whatever order
// they come.
func TestLoader(t *testing.T) {
	t.Parallel()
	for seed := range uint64(12) {
		w := world{random(seed), []int{5, 40, 4000}[seed%3]}
		m := newModel()
		for range []int{0, 10, 8_000}[seed/2%3] {
			tu := w.tuple()
			m.tuples[tu.Key()] = tu
			if a := w.attribute(); w.IntN(20) == 0 {
				m.attrs[rel.Attribute{Object: a.Object, Name: a.Name}] = a.Value
			}
		}
		g := New(Options{})
		l := g.Load()
		tuples := slices.Collect(maps.Values(m.tuples))
		if seed >= 6 { // in the order of a store
			slices.SortFunc(tuples, func(a, b rel.Tuple) int { return cmp.Compare(a.Key().String(), b.Key().String()) })
		}
		for _, tu := range tuples {
			if err := l.Add(tu); err != nil {
				t.Fatal(err)
			}
		}
		for a, v := range m.attrs {
			a.Value = v
			if err := l.SetAttribute(a); err != nil {
				t.Fatal(err)
			}
		}
		v, err := l.Finish()
		if err != nil || v != g.View() {
			t.Fatal(err)
		}
		w.same(t, v, m)
	}
}

// Sorting edits by counting gives the same order as sorting by comparison.
func TestSortedEdits(t *testing.T) {
	t.Parallel()
	w := random(3)
	for range 200 {
		nodes, base := 1+w.IntN([]int{1, 50, 5_000_000}[w.IntN(3)]), w.IntN(NodeMax/2)
		all := map[edit]bool{}
		for range w.IntN(2000) {
			all[edit{Node(base + w.IntN(nodes)), side(w.IntN(4)), EdgeTo(Node(w.IntN(1000)), false), false}] = true
		}
		edits := slices.Collect(maps.Keys(all))
		want := slices.SortedFunc(maps.Keys(all), edit.order)
		var p pending
		if got := p.sortEdits(edits); !slices.Equal(got, want) {
			t.Fatalf("%d edits of %d nodes from %d on", len(want), nodes, base)
		}
	}
}
