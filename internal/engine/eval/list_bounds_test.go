package eval

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/expr/cel"
	"github.com/ostiary/ostiary/internal/engine/graph"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/schema"
)

// listModel has a relation for each difficult kind of list.
func listModel() *schema.Model {
	sub := func(texts ...string) []schema.SubjectType {
		var out []schema.SubjectType
		for _, text := range texts {
			s := map[string]schema.SubjectType{"user": {Type: "user"}, "user:*": {Type: "user", Wildcard: true},
				"member": {Type: "group", Relation: "member"}, "user if": {Type: "user", Condition: "c"}}[text]
			out = append(out, s)
		}
		return out
	}
	direct := func(name string, subjects ...string) schema.RelationDef {
		return schema.RelationDef{Name: name, Rewrite: schema.Direct(), Subjects: sub(subjects...)}
	}
	return &schema.Model{
		Types: []schema.TypeDef{{Name: "user"},
			{Name: "group", Relations: []schema.RelationDef{direct("member", "user", "member")}},
			{Name: "doc", Attributes: []schema.AttributeDef{{Name: "open", Type: expr.Type{Kind: expr.Bool}}}, Relations: []schema.RelationDef{
				direct("viewer", "user", "user:*", "member"),
				direct("banned", "user", "user:*", "member"),
				direct("maybe", "user if"),
				{Name: "allowed", Rewrite: schema.Exclusion(schema.Computed("viewer"), schema.Computed("banned"))},
				{Name: "public", Rewrite: schema.Union(schema.Computed("viewer"), schema.Rewrite{Op: schema.OpAttribute, Attribute: "open"})},
			}}},
		Conditions: []expr.Definition{{Name: "c", Source: "x", Params: []expr.Param{{Name: "x", Type: expr.Type{Kind: expr.Bool}}}}},
	}
}

func listView(t *testing.T, add func(tuple func(format string, args ...any), load *graph.Loader)) (*Binding, *graph.View) {
	t.Helper()
	s, err := schema.Compile(listModel(), cel.New(cel.Options{}))
	if err != nil {
		t.Fatal(err)
	}
	load := graph.New(graph.Options{}).Load()
	add(func(format string, args ...any) {
		tuple, err := rel.Parse(fmt.Sprintf(format, args...))
		if err == nil {
			err = load.Add(tuple)
		}
		if err != nil {
			t.Fatal(err)
		}
	}, load)
	v, err := load.Finish()
	if err != nil {
		t.Fatal(err)
	}
	return Bind(s, v), v
}

// TestListUnknownMax names as many unknown objects as the bound and counts one
// more.
func TestListUnknownMax(t *testing.T) {
	t.Parallel()
	for _, n := range []int{authz.UnknownMax, authz.UnknownMax + 1} {
		b, v := listView(t, func(tuple func(string, ...any), _ *graph.Loader) {
			for i := range n {
				tuple("doc:%d#maybe@user:anne with c", i)
				tuple("doc:1#maybe@user:%d with c", i)
			}
		})
		o, err := b.ListObjects(context.Background(), v, ListObjectsQuestion{Type: "doc", Relation: "maybe", Subject: rel.Subject{Type: "user", ID: "anne"}}, nil)
		if err != nil || o.UnknownCount != n || len(o.Unknown) != authz.UnknownMax || !slices.Equal(o.Reasons.Missing, []string{"x"}) || len(o.IDs) > 0 {
			t.Errorf("%d: %+v, %v", n, o, err)
		}
		s, err := b.ListSubjects(context.Background(), v, ListSubjectsQuestion{Object: rel.Object{Type: "doc", ID: "1"}, Relation: "maybe", SubjectType: "user"}, nil)
		if err != nil || s.UnknownCount != n+1 || len(s.Unknown) != authz.UnknownMax || !slices.Equal(s.Reasons.Missing, []string{"x"}) {
			t.Errorf("%d: %+v, %v", n, s, err)
		}
	}
}

// TestListNodesBound stops lists at the bound on nodes and expects its name.
// With one node more the lists are complete.
func TestListNodesBound(t *testing.T) {
	t.Parallel()
	b, v := listView(t, func(tuple func(string, ...any), _ *graph.Loader) {
		for i := range 10 {
			tuple("group:%d#member@user:anne", i)
			for j := range 10 {
				tuple("doc:%d#viewer@group:%d#member", j, i)
			}
		}
	})
	oq := ListObjectsQuestion{Type: "doc", Relation: "viewer", Subject: rel.Subject{Type: "user", ID: "anne"}}
	sq := ListSubjectsQuestion{Object: rel.Object{Type: "doc", ID: "1"}, Relation: "viewer", SubjectType: "user"}
	for nodes, bound := range map[int]string{109: authz.BoundNodes, 110: ""} {
		l, err := b.ListObjects(context.Background(), v, oq, &Env{Bounds: authz.QuestionBounds{Nodes: nodes}})
		if err != nil || l.Bound != bound || bound == "" && len(l.IDs) != 10 {
			t.Errorf("%d nodes: %+v, %v", nodes, l, err)
		}
	}
	for nodes, bound := range map[int]string{19: authz.BoundNodes, 20: ""} {
		l, err := b.ListSubjects(context.Background(), v, sq, &Env{Bounds: authz.QuestionBounds{Nodes: nodes}})
		if err != nil || l.Bound != bound || bound == "" && !slices.Equal(l.IDs, []string{"anne"}) {
			t.Errorf("%d nodes: %+v, %v", nodes, l, err)
		}
	}
}

// TestListMany lists more objects than the walk keeps before it removes
// repetitions, each reached in several ways.
func TestListMany(t *testing.T) {
	t.Parallel()
	const n = 3 * compactMin / 2
	b, v := listView(t, func(tuple func(string, ...any), _ *graph.Loader) {
		for g := range 3 {
			tuple("group:%d#member@user:anne", g)
			for i := range n {
				tuple("doc:%d#viewer@group:%d#member", i, g)
			}
		}
	})
	for _, relation := range []string{"viewer", "allowed"} {
		q := ListObjectsQuestion{Type: "doc", Relation: relation, Subject: rel.Subject{Type: "user", ID: "anne"}}
		l, err := b.ListObjects(context.Background(), v, q, nil)
		if err != nil || len(l.IDs) != n || l.More {
			t.Fatalf("%s: %d entries, more %v, %v", relation, len(l.IDs), l.More, err)
		}
		if !slices.IsSortedFunc(l.IDs, func(a, b string) int { return PositionOf(a).Compare(PositionOf(b)) }) {
			t.Error("not in order")
		}
		for limit, more := range map[int]bool{n - 1: true, n: false, n + 1: false} {
			q.Limit = limit
			if l, err := b.ListObjects(context.Background(), v, q, nil); err != nil || l.More != more || len(l.IDs) != min(limit, n) {
				t.Errorf("%s, limit %d: %d entries, more %v, %v", relation, limit, len(l.IDs), l.More, err)
			}
		}
	}
}

// TestSubjectsExcluded is a table of subjects that are excluded from a
// wildcard.
func TestSubjectsExcluded(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		tuples   []string
		ids      []string
		wildcard expr.Tristate
		excluded []string
	}{
		"nobody":            {[]string{"doc:1#viewer@user:*"}, nil, expr.True, nil},
		"one":               {[]string{"doc:1#viewer@user:*", "doc:1#banned@user:a"}, nil, expr.True, []string{"a"}},
		"one of a group":    {[]string{"doc:1#viewer@user:*", "doc:1#banned@group:g#member", "group:g#member@user:a"}, nil, expr.True, []string{"a"}},
		"named besides":     {[]string{"doc:1#viewer@user:*", "doc:1#viewer@user:b", "doc:1#banned@user:a"}, []string{"b"}, expr.True, []string{"a"}},
		"named and banned":  {[]string{"doc:1#viewer@user:*", "doc:1#viewer@user:a", "doc:1#banned@user:a"}, nil, expr.True, []string{"a"}},
		"everybody banned":  {[]string{"doc:1#viewer@user:*", "doc:1#viewer@user:a", "doc:1#banned@user:*"}, nil, expr.False, nil},
		"banned, no star":   {[]string{"doc:1#viewer@user:b", "doc:1#banned@user:a"}, []string{"b"}, expr.False, nil},
		"star of the other": {[]string{"doc:1#viewer@user:b", "doc:1#banned@user:*"}, nil, expr.False, nil},
	} {
		b, v := listView(t, func(tuple func(string, ...any), _ *graph.Loader) {
			for _, text := range c.tuples {
				tuple("%s", text)
			}
		})
		q := ListSubjectsQuestion{Object: rel.Object{Type: "doc", ID: "1"}, Relation: "allowed", SubjectType: "user"}
		l, err := b.ListSubjects(context.Background(), v, q, nil)
		if err != nil || !slices.Equal(l.IDs, c.ids) || l.Wildcard != c.wildcard || !slices.Equal(l.Excluded, c.excluded) {
			t.Errorf("%s: %+v, %v", name, l, err)
		}
	}
}

// TestListAttributes lists objects that have an attribute and no tuple.
func TestListAttributes(t *testing.T) {
	t.Parallel()
	b, v := listView(t, func(tuple func(string, ...any), load *graph.Loader) {
		tuple("doc:1#viewer@user:anne")
		tuple("doc:2#viewer@user:bob")
		tuple("doc:6#viewer@user:bob until 1970-01-01T00:00:00.000000001Z")
		for id, value := range map[string]string{"2": "false", "3": "true", "4": "false"} {
			if err := load.SetAttribute(rel.Attribute{Object: rel.Object{Type: "doc", ID: id}, Name: "open", Value: value}); err != nil {
				t.Fatal(err)
			}
		}
	})
	q := ListObjectsQuestion{Type: "doc", Relation: "public", Subject: rel.Subject{Type: "user", ID: "anne"}}
	env := &Env{Now: 1}
	for _, id := range []string{"4", "5", "6"} {
		env.Attributes = append(env.Attributes, rel.Attribute{Object: rel.Object{Type: "doc", ID: id}, Name: "open", Value: "true"})
	}
	l, err := b.ListObjects(context.Background(), v, q, env)
	slices.Sort(l.IDs)
	if err != nil || !slices.Equal(l.IDs, []string{"1", "3", "4", "5", "6"}) || l.UnknownCount != 0 {
		t.Errorf("%+v, %v", l, err)
	}
	s, err := b.ListSubjects(context.Background(), v, ListSubjectsQuestion{Object: rel.Object{Type: "doc", ID: "3"}, Relation: "public", SubjectType: "group", SubjectRelation: "member"}, nil)
	if err != nil || s.Wildcard != expr.True {
		t.Errorf("usersets that are strangers: %+v, %v", s, err)
	}
}

// TestListErrors asks for lists that cannot be answered.
func TestListErrors(t *testing.T) {
	t.Parallel()
	b, v := listView(t, func(tuple func(string, ...any), _ *graph.Loader) { tuple("doc:1#viewer@user:anne") })
	anne := rel.Subject{Type: "user", ID: "anne"}
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	rows := NewReader(noRows{})
	for name, c := range map[string]struct {
		ctx  context.Context
		r    Reader
		q    ListObjectsQuestion
		want error
	}{
		"type":      {context.Background(), v, ListObjectsQuestion{Type: "none", Relation: "viewer", Subject: anne}, ErrNoType},
		"relation":  {context.Background(), v, ListObjectsQuestion{Type: "doc", Relation: "none", Subject: anne}, ErrNoRelation},
		"cancelled": {ended, v, ListObjectsQuestion{Type: "doc", Relation: "viewer", Subject: anne}, context.Canceled},
		"one way":   {context.Background(), rows, ListObjectsQuestion{Type: "doc", Relation: "viewer", Subject: anne}, ErrReverse},
		"no names":  {context.Background(), NewReader(bothWays{}), ListObjectsQuestion{Type: "doc", Relation: "public", Subject: anne}, ErrEnumerate},
	} {
		if _, err := Bind(b.s, c.r).ListObjects(c.ctx, c.r, c.q, nil); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	stranger := rel.Subject{Type: "alien", ID: "x"}
	if l, err := b.ListObjects(context.Background(), v, ListObjectsQuestion{Type: "doc", Relation: "viewer", Subject: stranger}, nil); err != nil || len(l.IDs) > 0 {
		t.Errorf("a subject of no type: %v, %v", l, err)
	}
	for name, q := range map[string]ListSubjectsQuestion{
		"type":             {Object: rel.Object{Type: "none", ID: "1"}, Relation: "viewer", SubjectType: "user"},
		"subject type":     {Object: rel.Object{Type: "doc", ID: "1"}, Relation: "viewer", SubjectType: "none"},
		"subject relation": {Object: rel.Object{Type: "doc", ID: "1"}, Relation: "viewer", SubjectType: "group", SubjectRelation: "none"},
	} {
		if _, err := b.ListSubjects(context.Background(), v, q, nil); !errors.Is(err, ErrNoType) && !errors.Is(err, ErrNoRelation) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := b.ListSubjects(ended, v, ListSubjectsQuestion{Object: rel.Object{Type: "doc", ID: "1"}, Relation: "viewer", SubjectType: "user"}, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

type noRows struct{}

func (noRows) Subjects(rel.Object, string, func(rel.Tuple) bool) error { return nil }

type bothWays struct{ noRows }

func (bothWays) Objects(rel.Subject, string, string, func(rel.Tuple) bool) error { return nil }

// TestScopeBounds checks that the ids of a scope count as memory of the question,
// and that a list ends with its context while it reads them or sorts.
func TestScopeBounds(t *testing.T) {
	t.Parallel()
	b, v := listView(t, func(tuple func(string, ...any), _ *graph.Loader) {
		for i := range 20_000 {
			tuple("doc:%d#viewer@user:anne", i)
		}
	})
	ids := make([]string, 10_000)
	for i := range ids {
		ids[i] = fmt.Sprint(i)
	}
	q := ListObjectsQuestion{Type: "doc", Relation: "viewer", Subject: rel.Subject{Type: "user", ID: "anne"}}
	scoped := q
	scoped.Scope = map[string][]string{"doc": ids}
	for most, bound := range map[int]string{512 << 10: authz.BoundMemory, 4 << 20: ""} {
		l, err := b.ListObjects(context.Background(), v, scoped, &Env{Bounds: authz.QuestionBounds{Memory: most}})
		if err != nil || l.Bound != bound || bound == "" && len(l.IDs) != len(ids) || bound != "" && len(l.IDs) > 0 {
			t.Errorf("%d bytes: bound %q, %d ids, %v", most, l.Bound, len(l.IDs), err)
		}
	}
	for name, lq := range map[string]ListObjectsQuestion{"all": q, "scoped": scoped} {
		whole := &countdown{Context: context.Background(), calls: 1 << 30}
		if _, err := b.ListObjects(whole, v, lq, nil); err != nil {
			t.Fatal(err)
		}
		looks := 1<<30 - whole.calls
		if looks < 7 { // at the start, once in 4096 nodes and ids, before and after sorting
			t.Errorf("%s: the context was looked at %d times", name, looks)
		}
		for n := range looks { // wherever the context ends, the list does
			if l, err := b.ListObjects(&countdown{Context: context.Background(), calls: n}, v, lq, nil); err == nil || len(l.IDs) > 0 {
				t.Errorf("%s: ended at look %d of %d: %d ids, %v", name, n, looks, len(l.IDs), err)
			}
		}
	}
}
