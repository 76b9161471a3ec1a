package eval_test

import (
	"context"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/internal/engine/eval"
	"github.com/ostiary/ostiary/internal/engine/graph"
	"github.com/ostiary/ostiary/internal/engine/graph/graphtest"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/schema"
)

// benchQuestions is the number of different questions of a benchmark.
const benchQuestions = 1 << 18

// benchShape is the shape of the world that the benchmarks ask about: 100,000
// tuples, or the number in OSTIARY_BENCH_TUPLES. The questions are checks by
// strings, uniformly random, half of them allowed. The floor is one lookup in
// a plain Go map from string to int32 with as many entries as there are names;
// each benchmark prints its ratio to that.
func benchShape() graphtest.Shape {
	s := graphtest.Shape{Tuples: 100_000, UUID: os.Getenv("OSTIARY_BENCH_UUID") != "", Fan: 10_000}
	if n, err := strconv.Atoi(os.Getenv("OSTIARY_BENCH_TUPLES")); err == nil {
		s.Tuples = n
	}
	return s
}

// benchModel is graphtest.Model. With nested, groups may also hold groups.
func benchModel(nested bool) *schema.Model {
	user, group := schema.SubjectType{Type: "user"}, schema.SubjectType{Type: "group", Relation: "member"}
	folder := schema.SubjectType{Type: "folder"}
	members := []schema.SubjectType{user}
	if nested {
		members = append(members, group)
	}
	return &schema.Model{Types: []schema.TypeDef{
		{Name: "user"},
		{Name: "group", Relations: []schema.RelationDef{
			{Name: "member", Rewrite: schema.Direct(), Subjects: members}}},
		{Name: "folder", Relations: []schema.RelationDef{
			{Name: "viewer", Rewrite: schema.Direct(), Subjects: []schema.SubjectType{user, group}}}},
		{Name: "document", Relations: []schema.RelationDef{
			{Name: "parent", Rewrite: schema.Direct(), Subjects: []schema.SubjectType{folder}},
			{Name: "owner", Rewrite: schema.Direct(), Subjects: []schema.SubjectType{user}},
			{Name: "viewer", Subjects: []schema.SubjectType{user, group},
				Rewrite: schema.Union(schema.Direct(), schema.Computed("owner"), schema.Arrow("parent", "viewer"))}}},
	}}
}

func load(tb testing.TB, s graphtest.Shape) *graph.View {
	l := graph.New(graph.Options{}).Load()
	for t := range s.All() {
		if err := l.Add(t); err != nil {
			tb.Fatal(err)
		}
	}
	v, err := l.Finish()
	if err != nil {
		tb.Fatal(err)
	}
	return v
}

func BenchmarkCheck(b *testing.B) {
	shape := benchShape()
	v := load(b, shape)
	flat := eval.Bind(compile(b, benchModel(false)), v)
	nested := eval.Bind(compile(b, benchModel(true)), v)
	b.Run("Floor", func(b *testing.B) { benchFloor(b, shape) })
	b.Run("DirectByHand", func(b *testing.B) { benchByHand(b, directByHand(v), shape.Direct(benchQuestions)) })
	b.Run("ThreeHopByHand", func(b *testing.B) { benchByHand(b, threeHopByHand(v), shape.ThreeHop(benchQuestions)) })
	sets := []struct {
		name      string
		questions []graphtest.Question
	}{
		{"Direct", shape.Direct(benchQuestions)},
		{"DirectHot", shape.Direct(1000)},
		{"ThreeHop", shape.ThreeHop(benchQuestions)},
		{"ThreeHopHot", shape.ThreeHop(1000)},
		{"FanDenied", fan(shape, shape.FanUser(), shape.FanDocument(false), false)},
		{"FanAllowed", fan(shape, shape.FanUser(), shape.FanDocument(true), true)},
		{"MirrorDenied", fan(shape, shape.MirrorUser(), shape.MirrorDocument(false), false)},
		{"MirrorAllowed", fan(shape, shape.MirrorUser(), shape.MirrorDocument(true), true)},
	}
	for _, set := range sets {
		b.Run(set.name, func(b *testing.B) { benchCheck(b, flat, v, set.questions) })
		b.Run(set.name+"Nested", func(b *testing.B) { benchCheck(b, nested, v, set.questions) })
	}
}

func fan(s graphtest.Shape, user, document rel.Object, allowed bool) []graphtest.Question {
	return []graphtest.Question{{Object: document, Relation: "viewer", Subject: user.AsSubject(), Allowed: allowed}}
}

func benchCheck(b *testing.B, bound *eval.Binding, r eval.Reader, qs []graphtest.Question) {
	ctx, env := context.Background(), &eval.Env{}
	var stats authz.Stats
	b.ReportAllocs()
	i := 0
	t := newTimer(b)
	for b.Loop() {
		t.tick()
		q := &qs[i%len(qs)]
		i++
		a, err := bound.Check(ctx, r, authz.Question{Object: q.Object, Relation: q.Relation, Subject: q.Subject}, env)
		if err != nil || a.Allowed() != q.Allowed {
			b.Fatalf("%v: %v, %v", q, a, err)
		}
		stats.Probes += a.Stats.Probes
		stats.Nodes += a.Stats.Nodes
	}
	t.report()
	b.ReportMetric(float64(stats.Probes)/float64(i), "probes/op")
	b.ReportMetric(float64(stats.Nodes)/float64(i), "nodes/op")
}

// timer times batches of a loop, each shorter than a scheduler's time slice,
// so that the median and the fastest tenth show what the wall clock of a busy
// machine hides.
type timer struct {
	b       *testing.B
	n       int
	start   time.Time
	batches []time.Duration
}

const timerBatch = 128

func newTimer(b *testing.B) *timer { return &timer{b: b, start: time.Now()} }

func (t *timer) tick() {
	if t.n++; t.n%timerBatch == 0 {
		now := time.Now()
		t.batches = append(t.batches, now.Sub(t.start))
		t.start = now
	}
}

func (t *timer) report() {
	if len(t.batches) == 0 {
		return
	}
	slices.Sort(t.batches)
	t.b.ReportMetric(float64(t.batches[len(t.batches)/10])/timerBatch, "p10-ns/op")
	t.b.ReportMetric(float64(t.batches[len(t.batches)/2])/timerBatch, "p50-ns/op")
}

func benchFloor(b *testing.B, s graphtest.Shape) {
	floor, sum := floorOf(s), int32(0)
	t := newTimer(b)
	for b.Loop() {
		t.tick()
		sum += floor()
	}
	_ = sum
	t.report()
}

func benchByHand(b *testing.B, hand func(q *graphtest.Question) bool, qs []graphtest.Question) {
	t, i := newTimer(b), 0
	for b.Loop() {
		t.tick()
		q := &qs[i%len(qs)]
		i++
		if hand(q) != q.Allowed {
			b.Fatal(q)
		}
	}
	t.report()
}
