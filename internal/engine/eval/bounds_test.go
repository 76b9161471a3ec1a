package eval_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"testing"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/internal/engine/eval"
	"github.com/ostiary/ostiary/internal/engine/graph"
	"github.com/ostiary/ostiary/internal/engine/graph/graphtest"
	"github.com/ostiary/ostiary/internal/workshop/oracle"
	"github.com/ostiary/ostiary/rel"
)

// world loads the tuples of a script, and those that more yields, into a
// graph.
func world(t testing.TB, script string, more func(yield func(rel.Tuple))) (*eval.Binding, *graph.View) {
	t.Helper()
	s, err := oracle.ParseScript(script)
	if err != nil {
		t.Fatal(err)
	}
	compiled := compile(t, &s.World.Model)
	l := graph.New(graph.Options{}).Load()
	add := func(x rel.Tuple) {
		if err := l.Add(x); err != nil {
			t.Fatal(err)
		}
	}
	for _, x := range s.World.Stored {
		add(x)
	}
	if more != nil {
		more(add)
	}
	v, err := l.Finish()
	if err != nil {
		t.Fatal(err)
	}
	return eval.Bind(compiled, v), v
}

func tupleOf(t testing.TB, text string) rel.Tuple {
	t.Helper()
	x, err := rel.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func ask(t testing.TB, b *eval.Binding, r eval.Reader, key string, env *eval.Env) authz.Answer {
	t.Helper()
	k := tupleOf(t, key).Key()
	a, err := b.Check(context.Background(), r, authz.Question{Object: k.Object, Relation: k.Relation, Subject: k.Subject}, env)
	if err != nil {
		t.Fatalf("%s: %v", key, err)
	}
	return a
}

// chain yields tuples for n hops from doc:0 to user:1 through relation r.
func chain(t testing.TB, n int) func(func(rel.Tuple)) {
	return func(add func(rel.Tuple)) {
		for i := range n {
			add(tupleOf(t, fmt.Sprintf("doc:%d#r@doc:%d#r", i, i+1)))
		}
		add(tupleOf(t, fmt.Sprintf("doc:%d#r@user:1", n)))
	}
}

const chainModel = "type user\ntype doc\nrelation r [user, doc#r]: direct\n"

// TestDepthBound asks for membership through exactly as many hops as the
// bound, which is true, and through one more, which is unknown. Without a
// proof the answer is false. All modes agree.
func TestDepthBound(t *testing.T) {
	t.Parallel()
	for _, bound := range []int{0, 1, 7, 60} {
		most := bound
		if bound == 0 {
			most = authz.DepthDefault
		}
		env := &eval.Env{Bounds: authz.QuestionBounds{Depth: bound}}
		for name, mode := range modes {
			b, v := world(t, chainModel, chain(t, most))
			if a := ask(t, b.Force(mode), v, "doc:0#r@user:1", env); a.Decision != expr.True {
				t.Errorf("%s: %d hops = %s", name, most, a.Decision)
			}
			b, v = world(t, chainModel, chain(t, most+1))
			a := ask(t, b.Force(mode), v, "doc:0#r@user:1", env)
			if a.Decision != expr.Unknown || a.Reasons.Bound != authz.BoundDepth || a.Reasons.Cycle {
				t.Errorf("%s: %d hops = %s (%s)", name, most+1, a.Decision, a.Reasons)
			}
			if a := ask(t, b.Force(mode), v, "doc:0#r@user:2", env); a.Decision != expr.False {
				t.Errorf("%s: without a proof: %s", name, a.Decision)
			}
		}
	}
}

// TestNodesBound gives a question exactly the nodes that it visits, which is
// enough, and one less, which makes it unknown.
func TestNodesBound(t *testing.T) {
	t.Parallel()
	b, v := world(t, chainModel, chain(t, 20))
	for name, mode := range modes {
		f := b.Force(mode)
		full := ask(t, f, v, "doc:0#r@user:2", &eval.Env{})
		at := ask(t, f, v, "doc:0#r@user:2", &eval.Env{Bounds: authz.QuestionBounds{Nodes: full.Stats.Nodes}})
		if at.Decision != expr.False {
			t.Errorf("%s: at the bound of %d: %s (%s)", name, full.Stats.Nodes, at.Decision, at.Reasons)
		}
		if full.Stats.Nodes == 1 {
			continue // the walk from the subject visits no node, and 0 means the default bound
		}
		past := ask(t, f, v, "doc:0#r@user:2", &eval.Env{Bounds: authz.QuestionBounds{Nodes: full.Stats.Nodes - 1}})
		if past.Decision != expr.Unknown || past.Reasons.Bound != authz.BoundNodes {
			t.Errorf("%s: past the bound: %s (%s)", name, past.Decision, past.Reasons)
		}
	}
}

// TestLongChains asks about chains of 100,000 objects, also with an operator
// on each object. They neither overflow the stack nor take long.
func TestLongChains(t *testing.T) {
	t.Parallel()
	const n = 100_000
	long := &eval.Env{Bounds: authz.QuestionBounds{Depth: 2 * n}}
	models := map[string]string{
		"union":        chainModel,
		"intersection": "type user\ntype doc\nrelation s [user, doc#r]: direct\nrelation r: and(s, s)\n",
		"exclusion":    "type user\ntype doc\nrelation no [user]: direct\nrelation s [user, doc#r]: direct\nrelation r: but(s, no)\n",
		"negation":     "type user\ntype doc\nrelation s [user, doc#r]: direct\nrelation w [user, user:*]: direct\nrelation r: but(w, s)\n",
	}
	for model, text := range models {
		t.Run(model, func(t *testing.T) {
			t.Parallel()
			relation := "s"
			if model == "union" {
				relation = "r"
			}
			b, v := world(t, text, func(add func(rel.Tuple)) {
				for i := range n {
					add(tupleOf(t, fmt.Sprintf("doc:%d#%s@doc:%d#r", i, relation, i+1)))
					if model == "negation" {
						add(tupleOf(t, fmt.Sprintf("doc:%d#w@user:*", i)))
					}
				}
				if model != "negation" {
					add(tupleOf(t, fmt.Sprintf("doc:%d#%s@user:1", n, relation)))
				}
			})
			for _, mode := range []eval.Mode{eval.ModeAuto, eval.ModeSolver} {
				f := b.Force(mode)
				if a := ask(t, f, v, "doc:0#r@user:1", long); (a.Decision == expr.True) == (model == "negation") {
					t.Errorf("within the bound: %s (%s)", a.Decision, a.Reasons)
				}
				if model == "negation" {
					continue
				}
				if a := ask(t, f, v, "doc:0#r@user:1", &eval.Env{}); a.Decision != expr.Unknown || a.Reasons.Bound != authz.BoundDepth {
					t.Errorf("beyond the bound: %s (%s)", a.Decision, a.Reasons)
				}
			}
		})
	}
}

// TestNestedSearches counts the nodes where each of n documents asks for the
// same n nested groups, on data that can be read from the object's side only.
// The work of nested searches must not multiply.
func TestNestedSearches(t *testing.T) {
	t.Parallel()
	const n = 4_000
	script, err := oracle.ParseScript(`type user
type group
relation m [user, group#m]: direct
type doc
relation parent [doc]: direct
relation in [group#m]: direct
relation no [user]: direct
relation v: or(but(in, no), from(parent, v))
`)
	if err != nil {
		t.Fatal(err)
	}
	var tuples []rel.Tuple
	for i := range n {
		tuples = append(tuples, tupleOf(t, fmt.Sprintf("doc:%d#parent@doc:%d", i, i+1)),
			tupleOf(t, fmt.Sprintf("doc:%d#in@group:0#m", i)), tupleOf(t, fmt.Sprintf("group:%d#m@group:%d#m", i, i+1)))
	}
	s := compile(t, &script.World.Model)
	data := rowsOf(tuples, nil)
	for name, r := range map[string]eval.Reader{"both ways": eval.NewReader(data), "one way": eval.NewReader(oneWay{data})} {
		a := ask(t, eval.Bind(s, r), r, "doc:0#v@user:1", &eval.Env{Bounds: authz.QuestionBounds{Nodes: 10 * n * n}})
		if a.Decision != expr.False || a.Stats.Nodes > 200_000 {
			t.Errorf("%s: %s (%s), %d nodes", name, a.Decision, a.Reasons, a.Stats.Nodes)
		}
	}
}

// TestCancelled expects an error if the context ends before or during a
// question.
func TestCancelled(t *testing.T) {
	t.Parallel()
	b, v := world(t, chainModel, chain(t, 20_000))
	k := tupleOf(t, "doc:0#r@user:1").Key()
	for name, mode := range modes {
		ctx := &countedContext{Context: context.Background(), left: 2}
		_, err := b.Force(mode).Check(ctx, v, authz.Question{Object: k.Object, Relation: k.Relation, Subject: k.Subject}, &eval.Env{})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// countedContext is canceled after a number of calls of Err.
type countedContext struct {
	context.Context
	left int
}

func (c *countedContext) Err() error {
	if c.left--; c.left < 0 {
		return context.Canceled
	}
	return nil
}

// TestFanOut asks where one side of a fan-out is small. Only that side is
// read: the work is the same for 100 groups and for 10,000.
func TestFanOut(t *testing.T) {
	t.Parallel()
	shapes := []graphtest.Shape{{Tuples: graphtest.TuplesMin, Fan: 100}, {Tuples: graphtest.TuplesMin, Fan: 10_000}}
	for _, nested := range []bool{false, true} {
		for _, name := range []string{"fan", "fan-allowed", "mirror", "mirror-allowed"} {
			t.Run(name+"/"+strconv.FormatBool(nested), func(t *testing.T) {
				t.Parallel()
				var probes []int
				for _, shape := range shapes {
					v := load(t, shape)
					b := eval.Bind(compile(t, benchModel(nested)), v)
					user := name[:len(name)-len("-allowed")*btoi(len(name) > len("mirror"))]
					a := ask(t, b, v, "document:"+name+"#viewer@user:"+user, &eval.Env{})
					if a.Allowed() != (len(name) > len("mirror")) {
						t.Errorf("%s", a.Decision)
					}
					if a.Stats.Probes > 50 || a.Stats.Nodes > 50 {
						t.Errorf("%d probes, %d nodes", a.Stats.Probes, a.Stats.Nodes)
					}
					probes = append(probes, a.Stats.Probes+a.Stats.Nodes)
				}
				if probes[1] >= 2*probes[0] {
					t.Errorf("100 groups cost %d, 10,000 cost %d", probes[0], probes[1])
				}
			})
		}
	}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// TestAllocations expects no allocation in a check without conditions and
// contextual tuples.
func TestAllocations(t *testing.T) {
	shape := graphtest.Shape{Tuples: graphtest.TuplesMin, Fan: 100}
	v := load(t, shape)
	b := eval.Bind(compile(t, benchModel(true)), v)
	qs := append(shape.Direct(50), shape.ThreeHop(50)...)
	qs = append(qs, fan(shape, shape.FanUser(), shape.FanDocument(true), true)...)
	qs = append(qs, fan(shape, shape.FanUser(), shape.FanDocument(false), false)...)
	ctx, env := context.Background(), &eval.Env{}
	all := func() {
		for _, q := range qs {
			a, err := b.Check(ctx, v, authz.Question{Object: q.Object, Relation: q.Relation, Subject: q.Subject}, env)
			if err != nil || a.Allowed() != q.Allowed {
				t.Fatalf("%v: %v, %v", q, a, err)
			}
		}
	}
	// The pool of scratch may be emptied by a collection at any time.
	if n := testing.AllocsPerRun(20, all); n > 2 {
		t.Errorf("%d questions allocate %v times", len(qs), n)
	}
}
