package eval

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/internal/engine/graph"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/schema"
)

// ringView has two rings of n groups: each group's members are the next one's,
// without those that are blocked, and each group blocks whom the next blocks.
func ringView(t *testing.T, n int) (*Binding, *graph.View) {
	t.Helper()
	user, group := schema.SubjectType{Type: "user"}, func(relation string) schema.SubjectType {
		return schema.SubjectType{Type: "group", Relation: relation}
	}
	m := &schema.Model{Types: []schema.TypeDef{{Name: "user"}, {Name: "group", Relations: []schema.RelationDef{
		{Name: "added", Rewrite: schema.Direct(), Subjects: []schema.SubjectType{user, group("member")}},
		{Name: "blocked", Rewrite: schema.Direct(), Subjects: []schema.SubjectType{user, group("blocked")}},
		{Name: "member", Rewrite: schema.Exclusion(schema.Computed("added"), schema.Computed("blocked"))},
	}}}}
	s, err := schema.Compile(m, nil)
	if err != nil {
		t.Fatal(err)
	}
	load := graph.New(graph.Options{}).Load()
	for i := range n {
		for _, text := range []string{fmt.Sprintf("group:%d#added@group:%d#member", i, (i+1)%n), fmt.Sprintf("group:%d#blocked@group:%d#blocked", i, (i+1)%n)} {
			tuple, err := rel.Parse(text)
			if err == nil {
				err = load.Add(tuple)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	tuple, err := rel.Parse("group:7#added@user:anne")
	if err == nil {
		err = load.Add(tuple)
	}
	v, loadErr := load.Finish()
	if err != nil || loadErr != nil {
		t.Fatal(err, loadErr)
	}
	return Bind(s, v), v
}

func ringQuestion(object string) authz.Question {
	return authz.Question{Object: rel.Object{Type: "group", ID: object}, Relation: "member", Subject: rel.Subject{Type: "user", ID: "anne"}}
}

// TestRingsOfGroups checks over rings of 10,000 groups below an exclusion. Each
// group is a state of the equations once, so the work and the memory are
// proportional to the groups. (Searches of the subtracted side once visited the
// whole ring for each group.)
func TestRingsOfGroups(t *testing.T) {
	const n = 10_000
	b, v := ringView(t, n)
	for object, want := range map[string]expr.Tristate{"0": expr.True, "8": expr.Unknown} { // 7 hops; n-1 hops
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		a, err := b.Check(context.Background(), v, ringQuestion(object), &Env{})
		runtime.ReadMemStats(&after)
		if err != nil || a.Decision != want || want == expr.Unknown && a.Reasons.Bound != authz.BoundDepth {
			t.Errorf("group %s: %v (%v), %v", object, a.Decision, a.Reasons, err)
		}
		if a.Stats.Nodes > 40*n {
			t.Errorf("group %s: %d nodes", object, a.Stats.Nodes)
		}
		if allocated := after.TotalAlloc - before.TotalAlloc; allocated > 120<<20 { // the most at any time is about half of it
			t.Errorf("group %s: %d MiB allocated", object, allocated>>20)
		}
	}
}

// TestMemoryBound asks questions that exceed the bound on memory. They are
// unknown, or cut, and the bound has a name. All memory is returned.
func TestMemoryBound(t *testing.T) {
	t.Parallel()
	b, v := ringView(t, 2000)
	budget := NewMemoryBudget(64 << 20)
	env := &Env{Memory: budget, Bounds: authz.QuestionBounds{Memory: 512 << 10}}
	a, err := b.Check(context.Background(), v, ringQuestion("8"), env)
	if err != nil || a.Decision != expr.Unknown || a.Reasons.Bound != authz.BoundMemory {
		t.Errorf("check: %v (%v), %v", a.Decision, a.Reasons, err)
	}
	env.Bounds.Memory = 0
	if a, err := b.Check(context.Background(), v, ringQuestion("8"), env); err != nil || a.Reasons.Bound != authz.BoundDepth {
		t.Errorf("check with the default bound: %v (%v), %v", a.Decision, a.Reasons, err)
	}
	few, docs := listView(t, func(tuple func(string, ...any), _ *graph.Loader) {
		for i := range 10_000 {
			tuple("doc:%d#viewer@user:anne", i)
			tuple("doc:1#viewer@user:%d", i)
		}
	})
	for most, bound := range map[int]string{256 << 10: authz.BoundMemory, 8 << 20: ""} {
		env.Bounds.Memory = most
		o, err := few.ListObjects(context.Background(), docs, ListObjectsQuestion{Type: "doc", Relation: "viewer", Subject: rel.Subject{Type: "user", ID: "anne"}}, env)
		if err != nil || o.Bound != bound || bound == "" && len(o.IDs) != 10_000 {
			t.Errorf("list objects in %d bytes: bound %q, %d ids, %v", most, o.Bound, len(o.IDs), err)
		}
		s, err := few.ListSubjects(context.Background(), docs, ListSubjectsQuestion{Object: rel.Object{Type: "doc", ID: "1"}, Relation: "viewer", SubjectType: "user"}, env)
		if err != nil || s.Bound != bound || bound == "" && len(s.IDs) != 10_001 {
			t.Errorf("list subjects in %d bytes: bound %q, %d ids, %v", most, s.Bound, len(s.IDs), err)
		}
	}
	env.Bounds.Memory = 0
	many, groups := costlyView(t, 20_000, holds{})
	for name, ask := range costlyQuestions(many, groups) {
		if _, _, err := ask(context.Background(), env); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if budget.free != 64<<20 {
			t.Fatalf("%s: %d bytes are free at the end, want all", name, budget.free)
		}
	}
	if budget.free != 64<<20 {
		t.Errorf("%d bytes are free at the end, want all", budget.free)
	}
}

// holds compiles conditions that are true.
type holds struct{}

func (holds) Compile(expr.Definition) (expr.Program, error) { return holds{}, nil }

func (holds) Eval(_, _ expr.Values, _ rel.Time) expr.Result { return expr.Result{Value: expr.True} }

// TestMemoryEstimate holds the estimate of a question's memory against what the
// question allocates.
func TestMemoryEstimate(t *testing.T) {
	b, v := ringView(t, 10_000)
	q := ringQuestion("8")
	var own query
	own.start(context.Background(), b, v, q.Subject, &Env{})
	id, err := b.relation("group", "member")
	if err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.GC() // the second one frees what pools hold, which would count as less memory afterwards
	runtime.ReadMemStats(&before)
	s := own.buildAndSolve(id, own.anchor(q.Object), q.Object)
	runtime.GC()
	runtime.ReadMemStats(&after)
	real := int(after.HeapAlloc - before.HeapAlloc)
	if !s.complete || own.memory.used < real || own.memory.used > 4*real {
		t.Errorf("estimated %d KiB, used %d KiB", own.memory.used>>10, real>>10)
	}
	runtime.KeepAlive(s)
}

// TestMemoryTotal asks in parallel with a budget for one question at a time.
// The questions wait for each other. Where the budget is too small for any, the
// answer is unknown and names the budget.
func TestMemoryTotal(t *testing.T) {
	t.Parallel()
	b, v := ringView(t, 1000)
	budget := NewMemoryBudget(1200 << 10)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var wait sync.WaitGroup
	for range 8 {
		wait.Go(func() {
			a, err := b.Check(ctx, v, ringQuestion("8"), &Env{Memory: budget})
			if err != nil || a.Reasons.Bound != authz.BoundDepth && a.Reasons.Bound != authz.BoundMemoryTotal {
				t.Errorf("%v (%v), %v", a.Decision, a.Reasons, err)
			}
		})
	}
	wait.Wait()
	if budget.free != 1200<<10 {
		t.Errorf("%d bytes are free at the end, want all", budget.free)
	}
	synctest.Test(t, func(t *testing.T) { // the time is virtual: the answer comes before the deadline
		short, cancelShort := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancelShort()
		a, err := b.Check(short, v, ringQuestion("8"), &Env{Memory: NewMemoryBudget(300 << 10)})
		if err != nil || a.Decision != expr.Unknown || a.Reasons.Bound != authz.BoundMemoryTotal {
			t.Errorf("a budget that is too small: %v (%v), %v", a.Decision, a.Reasons, err)
		}
	})
}

// TestReserve reserves the whole budget, which is granted, and one byte more,
// which is granted once another reservation is returned.
func TestReserve(t *testing.T) {
	t.Parallel()
	m := NewMemoryBudget(100)
	ctx := context.Background()
	if !m.reserve(ctx, 100, 0) || m.reserve(ctx, 1, 0) {
		t.Error("a budget of 100 must grant 100 and no more")
	}
	time.AfterFunc(10*time.Millisecond, func() { m.release(100) })
	if !m.reserve(ctx, 60, time.Minute) {
		t.Error("not granted after memory was returned")
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	if m.reserve(ended, 60, time.Minute) {
		t.Error("granted more than is free")
	}
}
