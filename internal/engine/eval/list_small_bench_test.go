package eval_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/internal/engine/eval"
	"github.com/ostiary/ostiary/internal/engine/graph"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/schema"
)

// BenchmarkListContextual lists 20 profiles of ten projects for a subject that
// is a group member by a contextual tuple, with two more such tuples. The
// floor sorts 20 ids and builds the list.
func BenchmarkListContextual(b *testing.B) {
	self := []schema.SubjectType{{Type: "identity"}, {Type: "group", Relation: "member"}}
	direct := func(name string, or ...schema.Rewrite) schema.RelationDef {
		return schema.RelationDef{Name: name, Rewrite: schema.Union(append([]schema.Rewrite{schema.Direct()}, or...)...), Subjects: self}
	}
	via := schema.RelationDef{Name: "project", Rewrite: schema.Direct(), Subjects: []schema.SubjectType{{Type: "project"}}}
	s := compile(b, &schema.Model{Types: []schema.TypeDef{
		{Name: "identity", Relations: []schema.RelationDef{direct("can_view"), direct("can_delete")}},
		{Name: "group", Relations: []schema.RelationDef{{Name: "member", Rewrite: schema.Direct(), Subjects: self[:1]}}},
		{Name: "project", Relations: []schema.RelationDef{direct("operator"),
			direct("edits", schema.Computed("operator")), direct("deletes", schema.Computed("operator")),
			direct("views", schema.Computed("operator"), schema.Computed("edits"), schema.Computed("deletes"))}},
		{Name: "profile", Relations: []schema.RelationDef{via,
			direct("can_edit", schema.Arrow("project", "edits")), direct("can_delete", schema.Arrow("project", "deletes")),
			direct("can_view", schema.Computed("can_edit"), schema.Computed("can_delete"), schema.Arrow("project", "views"))}},
	}})
	g := graph.New(graph.Options{})
	for _, k := range s.Kinds { // as a store does for its schemas
		if _, err := g.Intern(graph.KindName(k)); err != nil {
			b.Fatal(err)
		}
	}
	load := g.Load()
	for p := range 10 {
		for _, t := range []string{"project:%d#operator@group:ops#member", "profile:%[1]d-default#project@project:%[1]d", "profile:%[1]d-small#project@project:%[1]d"} {
			if err := load.Add(parsed(b, fmt.Sprintf(t, p))); err != nil {
				b.Fatal(err)
			}
		}
	}
	v, err := load.Finish()
	if err != nil {
		b.Fatal(err)
	}
	bound := eval.Bind(s, v)
	env := &eval.Env{Tuples: []rel.Tuple{parsed(b, "identity:anne#can_view@identity:anne"),
		parsed(b, "identity:anne#can_delete@identity:anne"), parsed(b, "group:ops#member@identity:anne")}}
	anne := rel.Subject{Type: "identity", ID: "anne"}
	q := eval.ListObjectsQuestion{Type: "profile", Relation: "can_view", Subject: anne}
	list, err := bound.ListObjects(context.Background(), v, q, env)
	if err != nil || len(list.IDs) != 20 {
		b.Fatal(list, err)
	}
	b.Run("list", func(b *testing.B) {
		besideFloor(b, func() {
			ids := slices.Clone(list.IDs)
			slices.SortFunc(ids, func(a, b string) int { return eval.PositionOf(a).Compare(eval.PositionOf(b)) })
		}, func() {
			if l, err := bound.ListObjects(context.Background(), v, q, env); err != nil || len(l.IDs) != 20 {
				b.Fatal(l, err)
			}
		})
	})
	b.Run("check", func(b *testing.B) {
		b.ReportAllocs()
		q := authz.Question{Object: rel.Object{Type: "profile", ID: "3-small"}, Relation: "can_view", Subject: anne}
		for range b.N {
			if a, err := bound.Check(context.Background(), v, q, env); err != nil || !a.Allowed() {
				b.Fatal(a, err)
			}
		}
	})
}

// BenchmarkListAttribute lists a page of 100, and all, of 100,000 notes of
// which 30,000 are public, without those whose owner has blocked the subject.
// The floor reads one attribute of as many objects as the page must visit.
func BenchmarkListAttribute(b *testing.B) {
	const notes, owners = 100_000, 20_000
	users := []schema.SubjectType{{Type: "user"}}
	m := &schema.Model{Options: schema.Options{UnsetAttributeIsZero: true}, Types: []schema.TypeDef{
		{Name: "user", Relations: []schema.RelationDef{{Name: "blocked", Rewrite: schema.Direct(), Subjects: users}, {Name: "follower", Rewrite: schema.Direct(), Subjects: users}}},
		{Name: "note", Attributes: []schema.AttributeDef{{Name: "public", Type: expr.Type{Kind: expr.Bool}}}, Relations: []schema.RelationDef{{Name: "owner", Rewrite: schema.Direct(), Subjects: users},
			{Name: "view", Rewrite: schema.Exclusion(schema.Union(schema.Rewrite{Op: schema.OpAttribute, Attribute: "public"}, schema.Arrow("owner", "follower")), schema.Arrow("owner", "blocked"))}}},
	}}
	g := graph.New(graph.Options{})
	load := g.Load()
	for i := range notes {
		if err := load.Add(parsed(b, fmt.Sprintf("note:%d#owner@user:%d", i, i%owners))); err != nil {
			b.Fatal(err)
		}
		if err := load.SetAttribute(rel.Attribute{Object: rel.Object{Type: "note", ID: fmt.Sprint(i)}, Name: "public", Value: fmt.Sprint(i%10 < 3)}); err != nil {
			b.Fatal(err)
		}
	}
	for i := range owners {
		for j := range 3 {
			if err := load.Add(parsed(b, fmt.Sprintf("user:%d#%s@user:%d", i, []string{"blocked", "follower", "follower"}[j], (i*7+j+1)%owners))); err != nil {
				b.Fatal(err)
			}
		}
	}
	v, err := load.Finish()
	if err != nil {
		b.Fatal(err)
	}
	bound := eval.Bind(compile(b, m), v)
	for _, limit := range []int{100, 0} {
		b.Run(fmt.Sprintf("limit=%d", limit), func(b *testing.B) {
			n := 0
			ask := func() {
				n++
				q := eval.ListObjectsQuestion{Type: "note", Relation: "view", Subject: rel.Subject{Type: "user", ID: fmt.Sprint(n % owners)},
					Page: eval.Page{Limit: limit, UnknownPerPage: true}}
				if l, err := bound.ListObjects(context.Background(), v, q, nil); err != nil || len(l.IDs) < 100 {
					b.Fatal(len(l.IDs), err)
				}
			}
			ask()
			besideFloor(b, func() {
				found, all := 0, v.Ordered("note", eval.OrderHash)
				for x := all.Next(); x != 0 && (limit == 0 || found < limit); x = all.Next() {
					if value, _ := v.Attribute(x, "public"); value == "true" {
						found++
					}
				}
			}, ask)
		})
	}
}

func parsed(b *testing.B, s string) rel.Tuple {
	t, err := rel.Parse(s)
	if err != nil {
		b.Fatal(err)
	}
	return t
}

// besideFloor measures work and its floor in turns and reports the medians.
func besideFloor(b *testing.B, floor, work func()) {
	b.ReportAllocs()
	var floors, works []time.Duration
	for range b.N {
		start := time.Now()
		floor()
		middle := time.Now()
		work()
		floors, works = append(floors, middle.Sub(start)), append(works, time.Since(middle))
	}
	slices.Sort(floors)
	slices.Sort(works)
	low, at := floors[len(floors)/2], works[len(works)/2]
	b.ReportMetric(float64(low), "floor-ns")
	b.ReportMetric(float64(at), "median-ns")
	b.ReportMetric(float64(at)/float64(max(low, 1)), "x-floor")
}
