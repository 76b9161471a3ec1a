package graph_test

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/ostiary/ostiary/internal/engine/graph"
	"github.com/ostiary/ostiary/internal/engine/graph/graphtest"
	"github.com/ostiary/ostiary/rel"
)

// The benchmarks measure names, lists and writes on data from graphtest:
// 100,000 tuples, or the number in OSTIARY_BENCH_TUPLES. If OSTIARY_BENCH_UUID
// is set, ids have 36 bytes. Questions are given by strings and uniformly
// random. Floor is a lookup in a plain Go map from string to int32 with as many
// names.

const benchQuestions = 1 << 18

func benchShape() graphtest.Shape {
	s := graphtest.Shape{Tuples: 100_000, UUID: os.Getenv("OSTIARY_BENCH_UUID") != "", Lists: 10, Fan: 10_000}
	if n, err := strconv.Atoi(os.Getenv("OSTIARY_BENCH_TUPLES")); err == nil {
		s.Tuples = n
	}
	return s
}

func load(tb testing.TB, s graphtest.Shape) *graph.Graph {
	g := graph.New(graph.Options{})
	l := g.Load()
	for t := range s.All() {
		if err := l.Add(t); err != nil {
			tb.Fatal(err)
		}
	}
	if _, err := l.Finish(); err != nil {
		tb.Fatal(err)
	}
	return g
}

func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// busy reports the processor time of an operation in addition to the elapsed
// time. It is the steadier figure if other programs use the processor too.
func busy(b *testing.B) func() {
	start := cpu()
	return func() { b.ReportMetric(float64(cpu()-start)/float64(b.N), "cpu-ns/op") }
}

// BenchmarkGraph loads the data once and measures many operations on it.
func BenchmarkGraph(b *testing.B) {
	s := benchShape()
	before := heap()
	start, idle := time.Now(), cpu()
	g := load(b, s)
	took, worked := time.Since(start), cpu()-idle
	v := g.View()
	st := v.Stats()
	perTuple := func(n int64) float64 { return float64(n) / float64(st.Tuples) }
	held := heap() - before
	idle = cpu()
	made := 0
	for range s.All() {
		made++
	}
	making := cpu() - idle
	fmt.Printf("%d tuples, %.2f names and %.2f nodes a tuple; heap %.1f bytes a tuple, accounted %.1f; loaded in %v (%.0f k/s), %v of processor time, of which generating took %v\n",
		st.Tuples, perTuple(int64(st.Names)), perTuple(int64(st.Nodes)), perTuple(held), perTuple(v.Bytes()),
		took.Round(time.Millisecond), float64(st.Tuples)/took.Seconds()/1e3, worked.Round(time.Millisecond), making.Round(time.Millisecond))

	b.Run("Floor", func(b *testing.B) { benchFloor(b, s) })
	b.Run("Direct", func(b *testing.B) { benchDirect(b, v, s) })
	b.Run("ThreeHop", func(b *testing.B) { benchThreeHop(b, v, s) })
	b.Run("List1000", func(b *testing.B) { benchList(b, v, s) })
	b.Run("Fan", func(b *testing.B) { benchFan(b, v, s) })
	for _, n := range []int{1, 10, 1000} {
		b.Run(fmt.Sprint("Write", n), func(b *testing.B) { benchWrite(b, g, s, n) })
	}
	b.Run("WriteLong", func(b *testing.B) { benchWriteLong(b, g, s, s.FanDocument(false)) })
	b.Run("Compact", func(b *testing.B) {
		defer busy(b)()
		for b.Loop() {
			if _, err := graph.Compact(v); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(v.Len()), "ns/tuple")
	})
	runtime.KeepAlive(g)
}

func benchFloor(b *testing.B, s graphtest.Shape) {
	if s.Tuples > 10_000_000 {
		b.Skip("takes too much memory")
	}
	m := make(map[string]int32, s.Documents())
	for i := range s.Documents() {
		m[s.Document(i).ID] = int32(i)
	}
	qs := s.Direct(benchQuestions)
	defer busy(b)()
	b.ResetTimer()
	hits := 0
	for i := 0; b.Loop(); i++ {
		if _, ok := m[qs[i%len(qs)].Object.ID]; ok {
			hits++
		}
	}
	if hits == 0 {
		b.Fatal("no hit")
	}
}

func kind(tb testing.TB, v *graph.View, typ, relation string) graph.Kind {
	k, ok := v.Kind(graph.KindName{Type: typ, Relation: relation})
	if !ok {
		tb.Fatal(typ, relation)
	}
	return k
}

func benchDirect(b *testing.B, v *graph.View, s graphtest.Shape) {
	qs := s.Direct(benchQuestions)
	owner, user := kind(b, v, "document", "owner"), kind(b, v, "user", "")
	b.ReportAllocs()
	defer busy(b)()
	b.ResetTimer()
	for i := 0; b.Loop(); i++ {
		q := &qs[i%len(qs)]
		got := false
		if o, ok := v.Node(owner, q.Object.ID); ok {
			if u, ok := v.Node(user, q.Subject.ID); ok {
				_, got = v.Probe(o, u)
			}
		}
		if got != q.Allowed {
			b.Fatalf("%+v is %v", q, got)
		}
	}
}

func benchThreeHop(b *testing.B, v *graph.View, s graphtest.Shape) {
	qs := s.ThreeHop(benchQuestions)
	parent, folder := kind(b, v, "document", "parent"), kind(b, v, "folder", "")
	viewer, member := kind(b, v, "folder", "viewer"), kind(b, v, "group", "member")
	user := kind(b, v, "user", "")
	b.ReportAllocs()
	defer busy(b)()
	b.ResetTimer()
	for i := 0; b.Loop(); i++ {
		q := &qs[i%len(qs)]
		got := false
		u, _ := v.Node(user, q.Subject.ID)
		d, _ := v.Node(parent, q.Object.ID)
		mine := v.Reverse(u, member)
		for _, f := range v.Forward(d, folder).Chunk(0) {
			n, _ := v.Sibling(f.Node(), viewer)
			for _, e := range v.Forward(n, member).Chunk(0) {
				if _, ok := mine.Find(e.Node()); ok {
					got = true
				}
			}
		}
		if got != q.Allowed {
			b.Fatalf("%+v is %v", q, got)
		}
	}
}

func benchList(b *testing.B, v *graph.View, s graphtest.Shape) {
	member, folderViewer := kind(b, v, "group", "member"), kind(b, v, "folder", "viewer")
	folder, parent, user := kind(b, v, "folder", ""), kind(b, v, "document", "parent"), kind(b, v, "user", "")
	b.ReportAllocs()
	defer busy(b)()
	bytes := 0
	for i := 0; b.Loop(); i++ {
		u, _ := v.Node(user, s.ListUser(1000, i%s.Lists).ID)
		n := 0
		for _, g := range v.Reverse(u, member).Chunk(0) {
			for _, fv := range v.Reverse(g.Node(), folderViewer).Chunk(0) {
				f, _ := v.Sibling(fv.Node(), folder)
				docs := v.Reverse(f, parent)
				for c := range docs.Chunks() {
					for _, d := range docs.Chunk(c) {
						bytes += len(v.ID(d.Node()))
						n++
					}
				}
			}
		}
		if n != 1000 {
			b.Fatal(n)
		}
	}
}

// benchFan intersects a list of 5 with one of 10,000.
func benchFan(b *testing.B, v *graph.View, s graphtest.Shape) {
	viewer, member, user := kind(b, v, "document", "viewer"), kind(b, v, "group", "member"), kind(b, v, "user", "")
	for i := 0; b.Loop(); i++ {
		u, _ := v.Node(user, s.FanUser().ID)
		d, _ := v.Node(viewer, s.FanDocument(i%2 == 0).ID)
		mine, shared, got := v.Reverse(u, member), v.Forward(d, member), false
		for _, e := range mine.Chunk(0) {
			if _, ok := shared.Find(e.Node()); ok {
				got = true
			}
		}
		if got != (i%2 == 0) {
			b.Fatal(got)
		}
	}
}

// benchWrite adds new documents with a parent and an owner. It publishes a
// batch for every n tuples.
func benchWrite(b *testing.B, g *graph.Graph, s graphtest.Shape, n int) {
	b.ReportAllocs()
	defer busy(b)()
	id := 0
	tuples := 0
	for b.Loop() {
		batch := g.Begin()
		for range n {
			d := rel.Object{Type: "document", ID: "new-" + strconv.Itoa(n) + "-" + strconv.Itoa(b.N) + "-" + strconv.Itoa(id/2)}
			t := rel.Tuple{Object: d, Relation: "parent", Subject: s.Folder(id * 7919 % s.Folders()).AsSubject()}
			if id%2 == 1 {
				t.Relation, t.Subject = "owner", s.User(id*104729%s.Users()).AsSubject()
			}
			if err := batch.Add(t); err != nil {
				b.Fatal(err)
			}
			id++
		}
		if _, err := batch.Publish(); err != nil {
			b.Fatal(err)
		}
		tuples += n
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(tuples), "ns/tuple")
}

// BenchmarkMillion writes single tuples to a list of a million.
func BenchmarkMillion(b *testing.B) {
	s := graphtest.Shape{Tuples: graphtest.TuplesMin}
	g := graph.New(graph.Options{})
	l := g.Load()
	doc := rel.Object{Type: "document", ID: "all"}
	for i := range 1_000_000 {
		u := rel.Subject{Type: "group", ID: strconv.Itoa(i), Relation: "member"}
		if err := l.Add(rel.Tuple{Object: doc, Relation: "viewer", Subject: u}); err != nil {
			b.Fatal(err)
		}
	}
	if _, err := l.Finish(); err != nil {
		b.Fatal(err)
	}
	benchWriteLong(b, g, s, doc)
}

// benchWriteLong adds tuples to a long list and removes them again, one in each
// batch.
func benchWriteLong(b *testing.B, g *graph.Graph, s graphtest.Shape, long rel.Object) {
	b.ReportAllocs()
	defer busy(b)()
	for i := 0; b.Loop(); i++ {
		batch := g.Begin()
		t := rel.Tuple{Object: long, Relation: "viewer", Subject: s.Group(i / 2 % s.Groups()).AsSubject()}
		t.Subject.Relation = "member"
		if i%2 == 0 {
			if err := batch.Add(t); err != nil {
				b.Fatal(err)
			}
		} else if !batch.Remove(t.Key()) {
			b.Fatal(t)
		}
		if _, err := batch.Publish(); err != nil {
			b.Fatal(err)
		}
	}
}
