package eval

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/expr/cel"
	"github.com/ostiary/ostiary/internal/engine/graph"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/schema"
)

// costly compiles conditions that are false and cost 90 units each. After
// cancelAfter evaluations it calls cancel.
type costly struct {
	evaluations, cancelAfter int
	cancel                   func()
}

func (c *costly) Compile(expr.Definition) (expr.Program, error) { return c, nil }

func (c *costly) Eval(_, _ expr.Values, _ rel.Time) expr.Result {
	if c.evaluations++; c.evaluations == c.cancelAfter {
		c.cancel()
	}
	return expr.Result{Cost: 90}
}

// costlyView has n groups in whose conditional tuples anne is, and whose
// members view doc:1; n documents that anne views conditionally; and n users
// that view doc:2 conditionally.
func costlyView(t *testing.T, n int, compiler expr.Compiler) (*Binding, *graph.View) {
	t.Helper()
	condition := []schema.SubjectType{{Type: "user", Condition: "c"}}
	rule := schema.Rewrite{Op: schema.OpRule, Rule: &schema.RuleCall{Name: "c"}}
	m := &schema.Model{
		Types: []schema.TypeDef{{Name: "user"},
			{Name: "group", Relations: []schema.RelationDef{{Name: "member", Rewrite: schema.Direct(), Subjects: condition}}},
			{Name: "doc", Relations: []schema.RelationDef{
				{Name: "viewer", Rewrite: schema.Direct(), Subjects: []schema.SubjectType{{Type: "group", Relation: "member"}}},
				{Name: "maybe", Rewrite: schema.Direct(), Subjects: condition},
				{Name: "other", Rewrite: schema.Exclusion(schema.Computed("viewer"), schema.Computed("maybe"))},
				{Name: "ruled", Rewrite: rule},
			}}},
		Conditions: []expr.Definition{{Name: "c", Source: "false"}},
	}
	s, err := schema.Compile(m, compiler)
	if err != nil {
		t.Fatal(err)
	}
	load := graph.New(graph.Options{}).Load()
	add := func(format string, args ...any) {
		tuple, err := rel.Parse(fmt.Sprintf(format, args...))
		if err == nil {
			err = load.Add(tuple)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for i := range n {
		add("group:%d#member@user:anne with c", i)
		add("doc:1#viewer@group:%d#member", i)
		add("doc:%d#maybe@user:anne with c", i+10)
		add("doc:2#maybe@user:%d with c", i)
	}
	v, err := load.Finish()
	if err != nil {
		t.Fatal(err)
	}
	return Bind(s, v), v
}

// costlyQuestions are questions that evaluate n conditions each. They return
// the bound, the cost and the error of the question.
func costlyQuestions(b *Binding, v *graph.View) map[string]func(context.Context, *Env) (string, authz.Stats, error) {
	anne := rel.Subject{Type: "user", ID: "anne"}
	check := func(object, relation string) func(context.Context, *Env) (string, authz.Stats, error) {
		return func(ctx context.Context, env *Env) (string, authz.Stats, error) {
			a, err := b.Check(ctx, v, authz.Question{Object: rel.Object{Type: "doc", ID: object}, Relation: relation, Subject: anne}, env)
			bound := ""
			if a.Reasons != nil {
				bound = a.Reasons.Bound
			}
			return bound, a.Stats, err
		}
	}
	list := func(relation string) func(context.Context, *Env) (string, authz.Stats, error) {
		return func(ctx context.Context, env *Env) (string, authz.Stats, error) {
			l, err := b.ListObjects(ctx, v, ListObjectsQuestion{Type: "doc", Relation: relation, Subject: anne}, env)
			return l.Bound, l.Stats, err
		}
	}
	return map[string]func(context.Context, *Env) (string, authz.Stats, error){
		"check":                  check("1", "viewer"),
		"check of an exclusion":  check("1", "other"),
		"list objects":           list("maybe"),
		"list objects by a rule": list("ruled"),
		"list subjects": func(ctx context.Context, env *Env) (string, authz.Stats, error) {
			l, err := b.ListSubjects(ctx, v, ListSubjectsQuestion{Object: rel.Object{Type: "doc", ID: "2"}, Relation: "maybe", SubjectType: "user"}, env)
			return l.Bound, l.Stats, err
		},
		"expand": func(ctx context.Context, env *Env) (string, authz.Stats, error) {
			tree, err := b.Expand(ctx, v, rel.Object{Type: "doc", ID: "2"}, "maybe", 3, env)
			return boundOf(tree), authz.Stats{}, err
		},
		"explain": func(ctx context.Context, env *Env) (string, authz.Stats, error) {
			x, err := b.Explain(ctx, v, authz.Question{Object: rel.Object{Type: "doc", ID: "1"}, Relation: "viewer", Subject: anne}, env, authz.ExplainOptions{})
			if err != nil || x.Answer.Reasons == nil {
				return "", authz.Stats{}, err
			}
			return x.Answer.Reasons.Bound, authz.Stats{}, err
		},
	}
}

func boundOf(t *authz.Tree) string {
	if t == nil {
		return ""
	}
	return t.Bound
}

// TestConditionCostBound asks questions at the bound of costs and one unit
// beyond it. Beyond it the answer is unknown, or the list is cut, and the bound
// has a name.
func TestConditionCostBound(t *testing.T) {
	t.Parallel()
	b, v := costlyView(t, 20, &costly{})
	for name, ask := range costlyQuestions(b, v) {
		bound, stats, err := ask(context.Background(), &Env{})
		if err != nil || bound != "" {
			t.Errorf("%s: bound %q, error %v", name, bound, err)
		}
		cost := stats.ConditionCost
		if cost == 0 { // expand and explain report no cost
			cost = 20 * (90 + authz.ConditionCostBase)
		} else if cost != stats.Conditions*(90+authz.ConditionCostBase) {
			t.Errorf("%s: cost %d for %d conditions", name, cost, stats.Conditions)
		}
		if name == "explain" {
			continue // it evaluates each condition more than once
		}
		if bound, _, err := ask(context.Background(), &Env{Bounds: authz.QuestionBounds{ConditionCost: cost}}); err != nil || bound != "" {
			t.Errorf("%s at the bound: bound %q, error %v", name, bound, err)
		}
		if bound, _, err := ask(context.Background(), &Env{Bounds: authz.QuestionBounds{ConditionCost: cost - 1}}); err != nil || bound != authz.BoundConditionCost {
			t.Errorf("%s beyond the bound: bound %q, error %v", name, bound, err)
		}
	}
}

// TestConditionsEnd cancels the context during the fifth of many evaluations.
// None follows, and the question fails with the context's error.
func TestConditionsEnd(t *testing.T) {
	t.Parallel()
	c := &costly{}
	b, v := costlyView(t, 2000, c)
	for name, ask := range costlyQuestions(b, v) {
		ctx, cancel := context.WithCancel(context.Background())
		c.evaluations, c.cancelAfter, c.cancel = 0, 5, cancel
		if _, _, err := ask(ctx, &Env{}); !errors.Is(err, context.Canceled) || c.evaluations > 5 {
			t.Errorf("%s: %d evaluations, error %v", name, c.evaluations, err)
		}
		cancel()
	}
}

// TestContextConverted lists objects with a large list in the context. It is
// converted once for the whole question, and the bound of costs ends the list.
func TestContextConverted(t *testing.T) {
	t.Parallel()
	const n, numbers = 4000, 9000
	m := listModel()
	m.Conditions[0] = expr.Definition{Name: "c", Source: "x in l", Params: []expr.Param{{Name: "x", Type: expr.Type{Kind: expr.Int}},
		{Name: "l", Type: expr.Type{Kind: expr.List, Elem: &expr.Type{Kind: expr.Int}}}}}
	s, err := schema.Compile(m, cel.New(cel.Options{}))
	if err != nil {
		t.Fatal(err)
	}
	load := graph.New(graph.Options{}).Load()
	for i := range n {
		tuple, err := rel.Parse(fmt.Sprintf(`doc:%d#maybe@user:anne with c {"x":-1}`, i))
		if err == nil {
			err = load.Add(tuple)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	v, err := load.Finish()
	if err != nil {
		t.Fatal(err)
	}
	var list []any
	for i := range numbers {
		list = append(list, float64(i))
	}
	b := Bind(s, v)
	q := ListObjectsQuestion{Type: "doc", Relation: "maybe", Subject: rel.Subject{Type: "user", ID: "anne"}}
	for most, bound := range map[int]string{1_000_000: authz.BoundConditionCost, n * 10_000: ""} {
		l, err := b.ListObjects(context.Background(), v, q, &Env{Context: expr.Values{"l": list}, Bounds: authz.QuestionBounds{ConditionCost: most}})
		if err != nil || l.Bound != bound || len(l.IDs) > 0 || l.Stats.ConditionCost > most+20_000 {
			t.Errorf("bound %d: %+v, %v", most, l, err)
		}
		if bound == "" && l.Stats.ConditionCost > n*(numbers+100)+2*numbers {
			t.Errorf("the list costs %d: the context is converted more than once", l.Stats.ConditionCost)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	if l, err := b.ListObjects(ctx, v, q, &Env{Context: expr.Values{"l": list}}); !errors.Is(err, context.DeadlineExceeded) || slices.ContainsFunc(l.IDs, func(string) bool { return true }) {
		t.Errorf("with a deadline: %d ids, %v", len(l.IDs), err)
	}
}

// TestExpandSize expands a relation at the bounds on entries and on bytes, and
// one beyond each. Beyond it the relation is cut and the bound has a name.
func TestExpandSize(t *testing.T) {
	t.Parallel()
	b, v := listView(t, func(tuple func(string, ...any), _ *graph.Loader) {
		for i := range 10 {
			tuple("doc:1#viewer@user:%d", i)
		}
	})
	const entries = 1 + 1 + 10 // the relation, its rewrite and its tuples
	bytes := len("doc1viewer") + len("doc1") + 10*len("doc1vieweruser0")
	root := func(bounds authz.QuestionBounds) *authz.Tree {
		tree, err := b.Expand(context.Background(), v, rel.Object{Type: "doc", ID: "1"}, "viewer", 1, &Env{Bounds: bounds})
		if err != nil {
			t.Fatal(err)
		}
		return tree
	}
	bytes += len(root(authz.QuestionBounds{}).Children[0].Rewrite)
	for name, c := range map[string]struct {
		bounds authz.QuestionBounds
		bound  string
	}{
		"entries":     {authz.QuestionBounds{ExpandEntries: entries}, ""},
		"entries - 1": {authz.QuestionBounds{ExpandEntries: entries - 1}, authz.BoundExpandEntries},
		"bytes":       {authz.QuestionBounds{ExpandBytes: bytes}, ""},
		"bytes - 1":   {authz.QuestionBounds{ExpandBytes: bytes - 1}, authz.BoundExpandBytes},
	} {
		tree := root(c.bounds)
		if tree.Bound != c.bound || tree.Cut != (c.bound != "") || tree.Cut == (len(tree.Children) == 1) {
			t.Errorf("%s: bound %q, cut %v, %d children; want bound %q", name, tree.Bound, tree.Cut, len(tree.Children), c.bound)
		}
	}
	if tree := root(authz.QuestionBounds{ExpandEntries: 1}); tree.Bound != authz.BoundExpandEntries {
		t.Errorf("one entry: bound %q", tree.Bound)
	}
}

// TestExpandEnds ends the context while a tree grows.
func TestExpandEnds(t *testing.T) {
	t.Parallel()
	b, v := listView(t, func(tuple func(string, ...any), _ *graph.Loader) {
		for i := range 20_000 {
			tuple("doc:1#viewer@user:%d", i)
		}
	})
	for _, calls := range []int{1, 2, 3} { // before, during, and at the end
		ctx := &countdown{Context: context.Background(), calls: calls}
		tree, err := b.Expand(ctx, v, rel.Object{Type: "doc", ID: "1"}, "viewer", 1, &Env{Bounds: authz.QuestionBounds{ExpandEntries: 30_000}})
		if !errors.Is(err, context.Canceled) || calls == 2 && len(tree.Children) == 1 && len(tree.Children[0].Leaves) > 10_000 {
			t.Errorf("after %d calls: %v", calls, err)
		}
	}
}

// countdown is a context that is canceled after a number of calls of Err.
type countdown struct {
	context.Context
	calls int
}

func (c *countdown) Err() error {
	if c.calls--; c.calls < 0 {
		return context.Canceled
	}
	return nil
}

// TestConditionBoundName checks that a condition that reaches a bound of its own
// is unknown with the name of the bound and with its error, in a check and a list.
func TestConditionBoundName(t *testing.T) {
	t.Parallel()
	b, v := costlyView(t, 10, stopping{})
	const want = expr.BoundRegexInput
	a, err := b.Check(context.Background(), v, authz.Question{Object: rel.Object{Type: "doc", ID: "2"}, Relation: "maybe", Subject: rel.Subject{Type: "user", ID: "3"}}, &Env{})
	if err != nil || a.Decision != expr.Unknown || a.Reasons.Bound != want || len(a.Reasons.Errors) != 1 {
		t.Errorf("%v (%v), %v", a.Decision, a.Reasons, err)
	}
	l, err := b.ListObjects(context.Background(), v, ListObjectsQuestion{Type: "doc", Relation: "maybe", Subject: rel.Subject{Type: "user", ID: "anne"}}, nil)
	if err != nil || l.Reasons == nil || l.Reasons.Bound != want || l.UnknownCount != 10 {
		t.Errorf("%+v, %v", l, err)
	}
	r, o := &authz.Reasons{Bound: "b"}, &authz.Reasons{Bound: "a"}
	if mergeReasons(r, &authz.Reasons{}); r.Bound != "b" {
		t.Error(r)
	}
	if mergeReasons(r, o); r.Bound != "a" {
		t.Error(r)
	}
	if mergeReasons(o, &authz.Reasons{Bound: "b"}); o.Bound != "a" {
		t.Error(o)
	}
}

// stopping compiles conditions that reach a bound.
type stopping struct{}

func (s stopping) Compile(expr.Definition) (expr.Program, error) { return s, nil }

func (stopping) Eval(_, _ expr.Values, _ rel.Time) expr.Result {
	return expr.Result{Value: expr.Unknown, Err: &expr.BoundError{Bound: expr.BoundRegexInput, Text: "too long"}}
}
