package eval_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/internal/engine/eval"
	"github.com/ostiary/ostiary/internal/engine/graph/graphtest"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/schema"
)

// BenchmarkList lists documents over three hops (user, group, folder,
// document), with 100 and 1,000 entries, each time for another user, and the
// same for one user again and again. It also measures the first page of 50 and
// lists of subjects. OSTIARY_BENCH_TUPLES sets the size, as in BenchmarkCheck.
func BenchmarkList(b *testing.B) {
	shape := benchShape()
	shape.Lists = 64
	v := load(b, shape)
	bound := eval.Bind(compile(b, benchModel(false)), v)
	ctx := context.Background()
	for _, n := range []int{100, 1000} {
		for _, users := range []int{1, shape.Lists} {
			b.Run(fmt.Sprintf("Objects%d/users=%d", n, users), func(b *testing.B) {
				benchObjects(b, bound, v, shape, n, users, eval.Page{})
			})
		}
		b.Run(fmt.Sprintf("Objects%dPage50", n), func(b *testing.B) {
			benchObjects(b, bound, v, shape, n, shape.Lists, eval.Page{Limit: 50})
		})
	}
	b.Run("Objects1000ButNot", func(b *testing.B) {
		m := benchModel(false)
		banned := schema.RelationDef{Name: "banned", Rewrite: schema.Direct(), Subjects: []schema.SubjectType{{Type: "user"}, {Type: "group", Relation: "member"}}}
		d := &m.Types[len(m.Types)-1]
		seen := d.Relations[len(d.Relations)-1]
		seen.Name = "seen"
		seen.Rewrite = schema.Union(schema.Computed("owner"), schema.Arrow("parent", "viewer"))
		seen.Subjects = nil
		d.Relations[len(d.Relations)-1] = schema.RelationDef{Name: "viewer", Rewrite: schema.Exclusion(schema.Computed("seen"), schema.Computed("banned"))}
		d.Relations = append(d.Relations, seen, banned)
		benchObjects(b, eval.Bind(compile(b, m), v), v, shape, 1000, shape.Lists, eval.Page{})
	})
	b.Run("SubjectsOfFolder", func(b *testing.B) {
		b.ReportAllocs()
		for i := range b.N {
			l, err := bound.ListSubjects(ctx, v, eval.ListSubjectsQuestion{Object: shape.Folder(i % shape.Folders()), Relation: "viewer", SubjectType: "user"}, nil)
			if err != nil || len(l.IDs) == 0 {
				b.Fatal(err, l)
			}
		}
	})
	b.Run("SubjectsFan10000", func(b *testing.B) {
		b.ReportAllocs()
		for range b.N {
			l, err := bound.ListSubjects(ctx, v, eval.ListSubjectsQuestion{Object: shape.FanDocument(true), Relation: "viewer", SubjectType: "group", SubjectRelation: "member"}, nil)
			if err != nil || len(l.IDs) <= shape.Fan {
				b.Fatal(err, len(l.IDs))
			}
		}
	})
	b.Run("ExplainThreeHop", func(b *testing.B) {
		b.ReportAllocs()
		questions := shape.ThreeHop(1000)
		for i := range b.N {
			q := questions[i%len(questions)]
			x, err := bound.Explain(ctx, v, authz.Question{Object: q.Object, Relation: q.Relation, Subject: q.Subject}, nil, authz.ExplainOptions{})
			if err != nil || x.Answer.Allowed() != q.Allowed {
				b.Fatal(err, x)
			}
		}
	})
	b.Run("ExplainFan10000", func(b *testing.B) {
		b.ReportAllocs()
		for i := range b.N {
			q := authz.Question{Object: shape.FanDocument(i%2 == 0), Relation: "viewer", Subject: shape.FanUser().AsSubject()}
			x, err := bound.Explain(ctx, v, q, nil, authz.ExplainOptions{})
			if err != nil || x.Answer.Allowed() != (i%2 == 0) {
				b.Fatal(err, x)
			}
		}
	})
}

func benchObjects(b *testing.B, bound *eval.Binding, v eval.Reader, shape graphtest.Shape, n, users int, page eval.Page) {
	b.ReportAllocs()
	var subjects []rel.Subject
	for i := range users {
		subjects = append(subjects, shape.ListUser(n, i).AsSubject())
	}
	want := n
	if page.Limit > 0 {
		want = page.Limit
	}
	times := make([]time.Duration, 0, b.N)
	for i := range b.N {
		start := time.Now()
		q := eval.ListObjectsQuestion{Type: "document", Relation: "viewer", Subject: subjects[i%users], Page: page}
		l, err := bound.ListObjects(context.Background(), v, q, nil)
		if err != nil || len(l.IDs) != want {
			b.Fatal(err, len(l.IDs))
		}
		times = append(times, time.Since(start))
	}
	// On a busy machine the median and the fastest tenth are steadier than the mean.
	slices.Sort(times)
	b.ReportMetric(float64(times[len(times)/2]), "median-ns")
	b.ReportMetric(float64(times[len(times)/10]), "p10-ns")
}
