package graph

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/ostiary/ostiary/rel"
)

// TestTable adds references to a table, of which many have the same tag, and looks
// them up.
func TestTable(t *testing.T) {
	t.Parallel()
	for _, reserved := range []int{0, 7, 5000} {
		var tab table
		if tab.findNear(1) != 0 || tab.bytes() != 0 {
			t.Error("an empty table has references")
		}
		if p := tab.find(1); p.next() != 0 {
			t.Error("an empty table has references")
		}
		if reserved > 0 {
			tab.reserve(reserved)
		}
		before := tab.bytes()
		r, want := random(uint64(reserved)), map[uint32][]uint32{}
		tag := func() uint32 { // near each other, also at both ends of the table
			return []uint32{0, 1<<31 - 20, 1<<32 - 40}[r.IntN(3)] + uint32(r.IntN(40))
		}
		if reserved > 0 {
			tag = r.Uint32
		}
		for ref := uint32(1); ref <= 3000; ref++ {
			at := tag()
			tab.add(at, ref)
			want[at] = append(want[at], ref)
			if ref == 1000 && reserved > 0 {
				tab.reserve(reserved - 1000) // it has this room already, if it has any
			}
			if tab.bytes() > 0 && int(ref)*8 > int(tab.bytes()) {
				t.Fatalf("%d references in %d bytes", ref, tab.bytes())
			}
			if ref%500 == 0 {
				sameTable(t, &tab, want, r)
			}
		}
		if reserved == 5000 && tab.bytes() != before {
			t.Errorf("the table grew from %d to %d bytes, but it had room", before, tab.bytes())
		}
	}
}

// nearest returns the first reference of a search within four slots.
func nearest(p probe) uint32 {
	if p.at+4 > len(p.slots) {
		return 0
	}
	for i := range 4 {
		if v := p.slots[p.at+i].Load(); uint32(v>>32) == p.tag {
			return uint32(v)
		}
	}
	return 0
}

func sameTable(t *testing.T, tab *table, want map[uint32][]uint32, r *rand.Rand) {
	t.Helper()
	for range 200 { // tags that are likely to be absent
		if at := r.Uint32(); want[at] == nil {
			want[at] = nil
		}
	}
	for at, refs := range want {
		var got []uint32
		p := tab.find(at)
		for ref := p.next(); ref != 0; ref = p.next() {
			got = append(got, ref)
		}
		if near, expected := tab.findNear(at), nearest(tab.find(at)); near != expected {
			t.Fatalf("tag %d: %d is near, want %d", at, near, expected)
		}
		slices.Sort(got)
		if !slices.Equal(got, refs) {
			t.Fatalf("tag %d: %v, want %v", at, got, refs)
		}
	}
}

// TestLineageBounds reaches bounds of a lineage that would need too much data
// otherwise.
func TestLineageBounds(t *testing.T) {
	t.Parallel()
	full := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, ErrFull) {
			t.Errorf("%s: error %v, want ErrFull", what, err)
		}
	}
	kinds := func(n int) *Graph {
		g := New(Options{})
		g.symbols.kinds, g.open = make([]kindInfo, n, KindMax+2), make([]openBlock, n, KindMax+2)
		return g
	}
	g := kinds(KindMax - 1)
	_, err := g.Intern(KindName{Type: "doc", Relation: "viewer"})
	must(t, err) // two kinds: the plain one, too
	_, err = g.Intern(KindName{Type: "doc", Relation: "viewer"})
	must(t, err)
	_, err = g.Intern(KindName{Type: "doc", Relation: "owner"})
	full("a kind above the bound", err)
	b := g.Begin()
	full("an object's kind", b.Add(viewer(1, false)))
	g = kinds(KindMax)
	_, err = g.Intern(KindName{Type: "doc", Relation: "viewer"})
	full("a relation of a new type", err)
	_, err = g.Intern(KindName{Type: "doc"})
	must(t, err)

	g = kinds(KindMax - 1) // room for the kinds of an object, not for that of its subject
	full("a subject's kind", g.Begin().Add(viewer(1, false)))
	g = kinds(KindMax + 1)
	n, err := g.Begin().AddAbsent([]rel.Tuple{viewer(1, false)})
	full(fmt.Sprint("AddAbsent of ", n), err)
	full("an attribute's kind", g.Begin().SetAttribute(rel.Attribute{Object: longObject, Name: "a", Value: "1"}))
	l := g.Load()
	full("a loaded tuple", l.Add(viewer(1, false)))
	full("a loaded attribute", l.SetAttribute(rel.Attribute{Object: longObject, Name: "a", Value: "1"}))

	g = New(Options{})
	g.symbols.attributes = make([]string, AttributeNamesMax-1, AttributeNamesMax+1)
	must(t, g.Begin().SetAttribute(rel.Attribute{Object: longObject, Name: "a", Value: "1"}))
	full("a name of an attribute", g.Begin().SetAttribute(rel.Attribute{Object: longObject, Name: "b", Value: "1"}))

	g = New(Options{})
	k, err := g.Intern(userKind)
	must(t, err)
	_, _, err = g.addName(k, typeMax, "anne")
	must(t, err)
	_, _, err = g.addName(k, typeMax+1, "anne")
	full("a type", err)
	g.names = arena{chunks: make([][]uint32, 1<<16), used: 1 << 32}
	_, _, err = g.addName(k, 1, "anne")
	full("a name", err)

	a := arena{chunks: make([][]uint32, 1<<16-1), used: 1<<32 - arenaChunk}
	at, words, ok := a.alloc(arenaChunk)
	if !ok || at != 1<<32-arenaChunk || len(words) != arenaChunk {
		t.Errorf("the last chunk: offset %d, %d words, %v", at, len(words), ok)
	}
	if _, _, ok := a.alloc(1); ok {
		t.Error("an offset of more than 32 bits")
	}
	for nodes, want := range map[int]int{-1: NodeMax, 0: NodeMax, 1: 1, NodeMax: NodeMax, NodeMax + 1: NodeMax} {
		if got := New(Options{NodesMax: nodes}).opts.NodesMax; got != want {
			t.Errorf("NodesMax %d is %d", nodes, got)
		}
	}
}

// TestLoaderRefuses gives a Loader tuples that it refuses, among others that it adds.
func TestLoaderRefuses(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", rel.IDBytesMax+1)
	good := rel.Tuple{Object: longObject, Relation: "viewer", Subject: rel.Subject{Type: "user", ID: "anne"}}
	wrong := func(change func(*rel.Tuple)) rel.Tuple {
		tu := good
		change(&tu)
		return tu
	}
	cases := map[string]struct {
		tuple rel.Tuple
		want  error
	}{
		"no relation":  {wrong(func(tu *rel.Tuple) { tu.Relation = "" }), rel.ErrName},
		"no object":    {wrong(func(tu *rel.Tuple) { tu.Object.ID = "" }), rel.ErrName},
		"long object":  {wrong(func(tu *rel.Tuple) { tu.Object.ID = long }), rel.ErrName},
		"no subject":   {wrong(func(tu *rel.Tuple) { tu.Subject.ID = "" }), rel.ErrName},
		"long subject": {wrong(func(tu *rel.Tuple) { tu.Subject.ID = long }), rel.ErrName},
		"no context":   {wrong(func(tu *rel.Tuple) { tu.Context = "[1]" }), ErrContext},
	}
	l := New(Options{}).Load()
	for what, c := range cases {
		if err := l.Add(c.tuple); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", what, err)
		}
	}
	must(t, l.Add(good))
	if err := l.SetAttribute(rel.Attribute{Object: rel.Object{Type: "doc"}, Name: "a", Value: "1"}); !errors.Is(err, rel.ErrName) {
		t.Errorf("an attribute without an object: %v", err)
	}
	v, err := l.Finish()
	must(t, err)
	check(t, v)
	if got, ok := v.Get(good.Key()); !ok || got != good || v.Len() != 1 {
		t.Errorf("%d tuples, %v", v.Len(), got)
	}
	g := v.Lineage()
	for what, c := range cases {
		b := g.Begin()
		if n, err := b.AddAbsent([]rel.Tuple{viewer(1, true), c.tuple, viewer(2, true)}); n != 1 || !errors.Is(err, c.want) {
			t.Errorf("%s: AddAbsent added %d, %v", what, n, err)
		}
		if err := b.Add(c.tuple); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", what, err)
		}
		if got := b.View(); got.Len() != 2 {
			t.Errorf("%s: %d tuples", what, got.Len())
		}
	}
}

// TestLoaderFull loads more nodes than the lineage may have. The error may come some
// tuples late, and stays.
func TestLoaderFull(t *testing.T) {
	t.Parallel()
	for _, n := range []int{2 * blockSize, 5 * resolveCount} {
		for _, attribute := range []bool{false, true} {
			l := New(Options{NodesMax: 4 * blockSize}).Load()
			var err error
			for i := 0; i < n && err == nil; i++ {
				tu := viewer(i, true)
				tu.Object.ID = fmt.Sprint(n - i) // not in order
				err = l.Add(tu)
				if attribute && err == nil {
					err = l.SetAttribute(rel.Attribute{Object: rel.Object{Type: "doc", ID: fmt.Sprint(i)}, Name: "a", Value: "1"})
				}
			}
			if n > 4*resolveCount && err == nil || err != nil && !errors.Is(err, ErrFull) {
				t.Errorf("%d tuples, attributes %v: %v", n, attribute, err)
			}
			if v, err := l.Finish(); attribute && !errors.Is(err, ErrFull) || !attribute && (err == nil) != (n <= 2*blockSize) {
				t.Errorf("finished with %v, %v", v, err)
			}
		}
	}
}

// TestDuplicate gives a Loader a tuple twice, with the object's nodes before and after
// the subject's. The error names the tuple.
func TestDuplicate(t *testing.T) {
	t.Parallel()
	for _, first := range []rel.Tuple{viewer(7, false), {Object: rel.Object{Type: "user", ID: "x"}, Relation: "friend", Subject: rel.Subject{Type: "user", ID: "y"}}} {
		l := New(Options{}).Load()
		must(t, l.Add(first))
		for i := range 200 {
			must(t, l.Add(viewer(i, true)))
		}
		twice := viewer(77, true)
		twice.Condition = "c"
		must(t, l.Add(twice))
		v, err := l.Finish()
		if v != nil || !errors.Is(err, ErrDuplicate) || !strings.HasSuffix(err.Error(), ": "+twice.Key().String()) {
			t.Errorf("%v, %v, want an error about %v", v, err, twice.Key())
		}
	}
}

// TestMayMatch asks for tuples whose object or relation never had one.
func TestMayMatch(t *testing.T) {
	t.Parallel()
	g := New(Options{})
	b := g.Begin()
	must(t, b.Add(viewer(1, false)))
	for f, want := range map[rel.Filter]bool{
		{ObjectType: "doc", ObjectID: "long", Relation: "viewer"}:                 true,
		{ObjectType: "doc", ObjectID: "long", Relation: "viewer", SubjectID: "x"}: true,
		{ObjectType: "doc", ObjectID: "long", Relation: "owner"}:                  false,
		{ObjectType: "doc", ObjectID: "other", Relation: "viewer"}:                false,
		{ObjectType: "folder", ObjectID: "long", Relation: "viewer"}:              false,
		{ObjectType: "doc", ObjectID: "long"}:                                     true,
		{ObjectID: "other", Relation: "viewer"}:                                   true,
		{ObjectType: "doc", Relation: "owner"}:                                    true,
		{}:                                                                        true,
	} {
		if got := b.MayMatch(f); got != want {
			t.Errorf("%+v: %v", f, got)
		}
	}
}

// TestAbsentAttributes reads and removes attributes that do not exist, in a view that
// has others.
func TestAbsentAttributes(t *testing.T) {
	t.Parallel()
	g := New(Options{})
	b := g.Begin()
	must(t, b.SetAttribute(rel.Attribute{Object: longObject, Name: "size", Value: "1"}))
	must(t, b.Add(viewer(1, false)))
	v, err := b.Publish()
	must(t, err)
	k, _ := v.Kind(viewerKind)
	viewers, _ := v.Node(k, "long")
	user, _ := v.Kind(userKind)
	one, _ := v.Node(user, "1")
	if got, ok := v.Attribute(viewers, "size"); got != "1" || !ok {
		t.Errorf("the attribute is %q, %v", got, ok)
	}
	for _, c := range []struct {
		n    Node
		name string
	}{{viewers, "other"}, {one, "size"}, {0, "size"}, {NodeMax, "size"}, {viewers, ""}} {
		if got, ok := v.Attribute(c.n, c.name); got != "" || ok {
			t.Errorf("attribute %q of node %d is %q, %v", c.name, c.n, got, ok)
		}
	}
	for _, c := range []struct{ typ, id, name string }{{"folder", "long", "size"}, {"doc", "other", "size"}, {"doc", "long", "other"}, {"user", "1", "size"}} {
		if b.RemoveAttribute(rel.Object{Type: c.typ, ID: c.id}, c.name) {
			t.Errorf("attribute %+v existed", c)
		}
		for a := range v.Attributes(c.typ, c.id, c.name) {
			t.Errorf("attribute %+v is %v", c, a)
		}
	}
	if b.View() != v {
		t.Error("a batch that changes nothing makes another view")
	}
	if n := b.RemoveAttributes("doc", "", ""); n != 1 || !b.RemoveAttribute(longObject, "size") == (n == 0) {
		t.Errorf("%d attributes removed", n)
	}
}

// TestSegmentBytes compares the size of segments with that of their parts.
func TestSegmentBytes(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, inlineMax, inlineMax + 1, chunkMax, chunkMax + 1, 5 * chunkMax, 5*chunkMax + 7} {
		for _, grown := range []bool{false, true} {
			g := New(Options{})
			b := g.Begin()
			for i := range n {
				must(t, b.Add(viewer(i, false)))
				if grown && i%100 == 99 {
					_, err := b.Publish()
					must(t, err)
				}
			}
			v, err := b.Publish()
			must(t, err)
			k, _ := v.Kind(viewerKind)
			o, _ := v.Node(k, "long")
			s := v.segment(o)
			want := int64(cap(s.words)) * int64(unsafe.Sizeof(Edge(0)))
			if s.long != nil {
				for _, l := range *s.long {
					want += int64(unsafe.Sizeof(l)) + int64(len(l.first))*int64(unsafe.Sizeof(Edge(0)))
					if m := l.chunked; m != nil {
						want += int64(unsafe.Sizeof(*m)) + int64(cap(m.last))*int64(unsafe.Sizeof(Edge(0)))
						for _, c := range m.rest {
							want += int64(unsafe.Sizeof(c)) + int64(len(c))*int64(unsafe.Sizeof(Edge(0)))
						}
					}
				}
			}
			if got := s.bytes(); got != want {
				t.Errorf("%d edges, grown %v: %d bytes, want %d", n, grown, got, want)
			}
		}
	}
}

// TestCollision gives names, kinds and names of attributes the same place in the index
// as others.
func TestCollision(t *testing.T) {
	t.Parallel()
	g := New(Options{})
	b := g.Begin()
	must(t, b.Add(viewer(1, false)))
	must(t, b.SetAttribute(rel.Attribute{Object: longObject, Name: "size", Value: "1"}))
	_, err := b.Publish()
	must(t, err)
	user, _ := g.View().Kind(userKind)
	one, _ := g.View().Node(user, "1")
	h := g.nameHash(g.symbols.kinds[user].typ, "2")
	g.nameIndex[h>>(64-shardBits)].add(uint32(h), g.symbols.nameOffset(one))
	g.kindIndex.add(g.kindTag(KindName{Type: "folder"}), uint32(user))
	size, _ := g.symbols.findAttribute(g, "size")
	g.attributeIndex.add(g.attributeTag("other"), size)

	v := g.View()
	if n, ok := v.Node(user, "2"); ok {
		t.Errorf("user:2 is node %d", n)
	}
	if x, y := v.Names(user, "2", user, "1"); x.record != nil || y.record == nil {
		t.Error("user:2 is found, or user:1 is not")
	}
	if x, y := v.Names(user, "1", user, "2"); x.record == nil || y.record != nil {
		t.Error("user:2 is found, or user:1 is not")
	}
	if k, ok := v.Kind(KindName{Type: "folder"}); ok {
		t.Errorf("folder is kind %d", k)
	}
	doc, _ := v.Kind(KindName{Type: "doc"})
	long, _ := v.Node(doc, "long")
	if value, ok := v.Attribute(long, "other"); ok {
		t.Errorf("the attribute other is %s", value)
	}
	must(t, b.Add(viewer(2, false)))
	must(t, b.SetAttribute(rel.Attribute{Object: rel.Object{Type: "folder", ID: "1"}, Name: "other", Value: "2"}))
	v, err = b.Publish()
	must(t, err)
	check(t, v)
	for id := range 2 {
		if _, ok := v.Get(viewer(id+1, false).Key()); !ok {
			t.Errorf("the tuple of user:%d is missing", id+1)
		}
	}
	if st := v.Stats(); st.Names != 4 || st.LiveNames != 4 || st.Attributes != 2 {
		t.Errorf("%+v", st)
	}
}

// TestDroppedNodes reads nodes that only a dropped batch used.
func TestDroppedNodes(t *testing.T) {
	t.Parallel()
	g := New(Options{})
	dropped := g.Begin()
	for i := range 3 << branchAt >> 1 {
		must(t, dropped.Add(viewer(i, true)))
	}
	b := g.Begin()
	must(t, b.Add(viewer(1, false)))
	v, err := b.Publish()
	must(t, err)
	check(t, v)
	if st := v.Stats(); st.LiveNames != 2 || st.Names < 1<<branchAt {
		t.Errorf("%+v", st)
	}
	for n := range Node(len(v.blocks)) << blockBits {
		known := v.ID(n) == "long" && v.Object(n) == longObject || v.Object(n) == rel.Object{Type: "user", ID: "1"}
		if v.InUse(n, true, true) != known || v.IsSubject(n, "", true) && v.Object(n).Type != "user" {
			t.Fatalf("node %d (%v): in use %v", n, v.Object(n), v.InUse(n, true, true))
		}
		if v.Forward(n, v.KindOf(n)).Len() > 0 {
			t.Fatalf("node %d has a list", n)
		}
	}
}
