package eval_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/internal/engine/eval"
	"github.com/ostiary/ostiary/internal/engine/graph"
	"github.com/ostiary/ostiary/internal/engine/graph/graphtest"
)

// BenchmarkBeside measures the evaluator, a plan written by hand and a plain
// Go map in turns, one batch each, and prints the ratio of each turn: the
// median, and the distance of the quartiles in percent of it. A slow phase of
// the machine slows all three, so the ratios stay stable.
func BenchmarkBeside(b *testing.B) {
	shape := benchShape()
	v := load(b, shape)
	flat := eval.Bind(compile(b, benchModel(false)), v)
	floor, direct, hops := floorOf(shape), directByHand(v), threeHopByHand(v)
	sets := []struct {
		name      string
		questions []graphtest.Question
		hand      func(q *graphtest.Question) bool
	}{
		{"Direct", shape.Direct(benchQuestions), direct},
		{"DirectHot", shape.Direct(1000), direct},
		{"ThreeHop", shape.ThreeHop(benchQuestions), hops},
		{"ThreeHopHot", shape.ThreeHop(1000), hops},
		{"FanDenied", fan(shape, shape.FanUser(), shape.FanDocument(false), false), nil},
		{"FanAllowed", fan(shape, shape.FanUser(), shape.FanDocument(true), true), nil},
		{"MirrorDenied", fan(shape, shape.MirrorUser(), shape.MirrorDocument(false), false), nil},
	}
	for _, set := range sets {
		b.Run(set.name, func(b *testing.B) {
			t := &turns{qs: set.questions, floor: floor, hand: set.hand}
			t.run(b, flat, v)
		})
	}
}

// turns measures one batch of questions in three ways.
type turns struct {
	qs    []graphtest.Question
	floor func() int32
	hand  func(q *graphtest.Question) bool
	// times are those of the floor, the plan by hand and the evaluator.
	times [3][]float64
}

func (t *turns) run(b *testing.B, bound *eval.Binding, r eval.Reader) {
	ctx, env := context.Background(), &eval.Env{}
	at, sum := 0, int32(0)
	next := func() *graphtest.Question {
		q := &t.qs[at%len(t.qs)]
		at++
		return q
	}
	for b.Loop() {
		t.batch(0, func() { sum += t.floor() })
		if t.hand != nil {
			t.batch(1, func() {
				if q := next(); t.hand(q) != q.Allowed {
					b.Fatal(q)
				}
			})
		}
		t.batch(2, func() {
			q := next()
			a, err := bound.Check(ctx, r, authz.Question{Object: q.Object, Relation: q.Relation, Subject: q.Subject}, env)
			if err != nil || a.Allowed() != q.Allowed {
				b.Fatalf("%v: %v, %v", q, a, err)
			}
		})
	}
	_ = sum
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(median(t.times[2]), "p50-ns")
	t.ratio(b, 0, "floors")
	if t.hand != nil {
		t.ratio(b, 1, "hands")
	}
}

func (t *turns) batch(which int, do func()) {
	start := time.Now()
	for range timerBatch {
		do()
	}
	t.times[which] = append(t.times[which], float64(time.Since(start))/timerBatch)
}

func (t *turns) ratio(b *testing.B, to int, unit string) {
	r := make([]float64, len(t.times[2]))
	for i := range r {
		r[i] = t.times[2][i] / t.times[to][i]
	}
	m := median(r)
	b.ReportMetric(m, unit)
	b.ReportMetric(100*(r[len(r)*3/4]-r[len(r)/4])/m, unit+"-spread%")
}

func median(x []float64) float64 {
	slices.Sort(x)
	return x[len(x)/2]
}

// floorOf returns one random lookup in a plain Go map from string to int32
// with as many entries as there are documents.
func floorOf(s graphtest.Shape) func() int32 {
	m := map[string]int32{}
	names := make([]string, s.Documents())
	for i := range names {
		names[i] = s.Document(i).String()
		m[names[i]] = int32(i)
	}
	x := uint32(1)
	return func() int32 {
		x = x*1664525 + 1013904223
		return m[names[int(x>>4)%len(names)]]
	}
}

// directByHand measures what the graph costs: the same questions by a plan
// written by hand for this one model.
func directByHand(v *graph.View) func(q *graphtest.Question) bool {
	owner, _ := v.Kind(graph.KindName{Type: "document", Relation: "owner"})
	user, _ := v.Kind(graph.KindName{Type: "user"})
	return func(q *graphtest.Question) bool {
		o, _ := v.Node(owner, q.Object.ID)
		u, _ := v.Node(user, q.Subject.ID)
		_, ok := v.Forward(o, user).Find(u)
		return ok
	}
}

func threeHopByHand(v *graph.View) func(q *graphtest.Question) bool {
	parent, _ := v.Kind(graph.KindName{Type: "document", Relation: "parent"})
	folder, _ := v.Kind(graph.KindName{Type: "folder"})
	viewer, _ := v.Kind(graph.KindName{Type: "folder", Relation: "viewer"})
	member, _ := v.Kind(graph.KindName{Type: "group", Relation: "member"})
	user, _ := v.Kind(graph.KindName{Type: "user"})
	return func(q *graphtest.Question) bool {
		u, _ := v.Node(user, q.Subject.ID)
		d, _ := v.Node(parent, q.Object.ID)
		mine, got := v.Reverse(u, member), false
		for _, f := range v.Forward(d, folder).Chunk(0) {
			n, _ := v.Sibling(f.Node(), viewer)
			for _, g := range v.Forward(n, member).Chunk(0) {
				_, ok := mine.Find(g.Node())
				got = got || ok
			}
		}
		return got
	}
}
