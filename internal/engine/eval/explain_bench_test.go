package eval_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/internal/engine/eval"
	"github.com/ostiary/ostiary/internal/engine/graph/graphtest"
)

// BenchmarkExplain explains the questions of BenchmarkCheck and prints the
// ratio to checks of the same questions, measured in turns.
func BenchmarkExplain(b *testing.B) {
	shape := benchShape()
	v := load(b, shape)
	bound := eval.Bind(compile(b, benchModel(false)), v)
	for _, set := range []struct {
		name      string
		questions []graphtest.Question
		allowed   bool
	}{
		{"DirectAllowed", shape.Direct(1 << 14), true}, {"DirectDenied", shape.Direct(1 << 14), false},
		{"ThreeHopAllowed", shape.ThreeHop(1 << 14), true}, {"ThreeHopDenied", shape.ThreeHop(1 << 14), false},
	} {
		var qs []graphtest.Question
		for _, q := range set.questions {
			if q.Allowed == set.allowed {
				qs = append(qs, q)
			}
		}
		b.Run(set.name, func(b *testing.B) { benchExplain(b, bound, v, qs) })
	}
}

func benchExplain(b *testing.B, bound *eval.Binding, r eval.Reader, qs []graphtest.Question) {
	ctx, env := context.Background(), &eval.Env{}
	t := &turns{qs: qs}
	at := 0
	next := func() authz.Question {
		q := &qs[at%len(qs)]
		at++
		return authz.Question{Object: q.Object, Relation: q.Relation, Subject: q.Subject}
	}
	b.ReportAllocs()
	for b.Loop() {
		t.batch(0, func() {
			if _, err := bound.Check(ctx, r, next(), env); err != nil {
				b.Fatal(err)
			}
		})
		t.batch(2, func() {
			x, err := bound.Explain(ctx, r, next(), env, authz.ExplainOptions{})
			if err != nil || x.Because == nil {
				b.Fatal(x, err)
			}
		})
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(median(t.times[2]), "p50-ns")
	t.ratio(b, 0, "checks")
}

// BenchmarkExplainJSON writes the explanations of BenchmarkExplain as JSON.
func BenchmarkExplainJSON(b *testing.B) {
	shape := benchShape()
	v := load(b, shape)
	bound := eval.Bind(compile(b, benchModel(false)), v)
	for _, allowed := range []bool{true, false} {
		b.Run(fmt.Sprint("ThreeHop ", allowed), func(b *testing.B) {
			for _, q := range shape.ThreeHop(100) {
				if q.Allowed != allowed {
					continue
				}
				x, err := bound.Explain(context.Background(), v, authz.Question{Object: q.Object, Relation: q.Relation, Subject: q.Subject}, nil, authz.ExplainOptions{})
				if err != nil {
					b.Fatal(err)
				}
				b.ReportAllocs()
				for b.Loop() {
					if _, err := json.Marshal(x); err != nil {
						b.Fatal(err)
					}
				}
				return
			}
		})
	}
}
