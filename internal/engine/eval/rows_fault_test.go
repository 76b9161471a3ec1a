package eval_test

import (
	"context"
	"errors"
	"testing"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/internal/engine/eval"
	"github.com/ostiary/ostiary/internal/workshop/oracle"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/schema"
)

// faultyRows are rows of which one read fails. They also return tuples that were not
// requested, and each tuple twice.
type faultyRows struct {
	*rows
	left int // reads up to the one that fails; 0: none fails
	hit  bool
}

func (r *faultyRows) fault() error {
	if r.left == 0 {
		return nil
	}
	if r.left--; r.left > 0 {
		return nil
	}
	r.hit = true
	return errRows
}

// noisy yields each tuple twice, and after it tuples that differ from it in one part.
func noisy(yield func(rel.Tuple) bool) func(rel.Tuple) bool {
	return func(t rel.Tuple) bool {
		for _, change := range []func(*rel.Tuple){
			func(*rel.Tuple) {}, func(*rel.Tuple) {},
			func(o *rel.Tuple) { o.Object.ID, o.Subject.ID = "noise", "noise" }, func(o *rel.Tuple) { o.Object.Type, o.Subject.Type = "noise", "noise" },
			func(o *rel.Tuple) { o.Relation, o.Subject.ID = "noise", "noise" },
		} {
			other := t
			if change(&other); !yield(other) {
				return false
			}
		}
		return true
	}
}

func (r *faultyRows) Subjects(o rel.Object, relation string, yield func(rel.Tuple) bool) error {
	if err := r.rows.Subjects(o, relation, noisy(yield)); err != nil {
		return err
	}
	return r.fault() // after the tuples, so that the reader has some of them
}

func (r *faultyRows) Objects(s rel.Subject, typ, relation string, yield func(rel.Tuple) bool) error {
	if err := r.rows.Objects(s, typ, relation, noisy(yield)); err != nil {
		return err
	}
	return r.fault()
}

func (r *faultyRows) Probe(k rel.Key) (rel.Tuple, bool, error) {
	if err := r.fault(); err != nil {
		return rel.Tuple{}, false, err
	}
	return r.rows.Probe(k)
}

func (r *faultyRows) Attribute(o rel.Object, name string) (string, bool, error) {
	if err := r.fault(); err != nil {
		return "", false, err
	}
	return r.rows.Attribute(o, name)
}

// TestEachReadFails makes each read of rows fail in turn, for questions about random
// worlds in every mode. The error is the question's. Without a fault, rows that return
// too much give the right answers.
func TestEachReadFails(t *testing.T) {
	t.Parallel()
	faults := 0
	for seed := uint64(1); seed < 16; seed++ {
		w := oracle.Random(seed)
		s, err := schema.Compile(&w.Model, oracle.Conditions{})
		if err != nil {
			continue
		}
		w.Contextual = admitted(s, w.Contextual)
		o, err := oracle.New(w, oracle.Conditions{})
		if err != nil {
			t.Fatal(err)
		}
		data, env := rowsOf(w.Stored, w.Attributes), envOf(&w)
		for _, sub := range oracle.Subjects(seed, &w, 2) {
			for _, q := range questions(s, &w, sub) {
				want := o.Members(sub, q.Object).Truth(q.Object, q.Relation)
				for name, mode := range modes {
					for n := 0; ; n++ {
						broken := &faultyRows{rows: data, left: n}
						r := eval.NewReader(broken)
						got, err := eval.Bind(s, r).Force(mode).Check(context.Background(), r, q, env)
						if n > 0 && !broken.hit {
							break
						}
						if n == 0 && (err != nil || got.Decision != want) {
							t.Fatalf("seed %d, %s: %s = %s, %v; want %s", seed, name, oracle.Question(q), got.Decision, err, want)
						}
						if n > 0 && (!errors.Is(err, errRows) || got.Allowed()) {
							t.Fatalf("seed %d, %s: read %d of %s fails: %s, %v", seed, name, n, oracle.Question(q), got.Decision, err)
						}
						faults += min(n, 1)
					}
				}
			}
		}
	}
	if faults < 1000 {
		t.Errorf("only %d reads failed", faults)
	}
}

// TestEachBound answers questions about random worlds with each bound on nodes and on
// the cost of conditions, and with a context that ends at each look. A bound makes an
// answer unknown and is named; it never changes a decision.
func TestEachBound(t *testing.T) {
	t.Parallel()
	bounded := map[string]int{}
	for seed := uint64(1); seed < 20; seed++ {
		w := oracle.Random(seed)
		s, err := schema.Compile(&w.Model, oracle.Conditions{})
		if err != nil {
			continue
		}
		w.Contextual = admitted(s, w.Contextual)
		v := viewOf(t, &w)
		for _, sub := range oracle.Subjects(seed, &w, 2) {
			for _, q := range questions(s, &w, sub) {
				for name, mode := range modes {
					b := eval.Bind(s, v).Force(mode)
					whole, err := b.Check(context.Background(), v, q, envOf(&w))
					if err != nil {
						t.Fatal(err)
					}
					for n := 1; n < 60; n++ {
						nodes, cost := envOf(&w), envOf(&w)
						nodes.Bounds.Nodes, cost.Bounds.ConditionCost = n, n*authz.ConditionCostBase
						reached := 0
						for bound, env := range map[string]*eval.Env{authz.BoundNodes: nodes, authz.BoundConditionCost: cost} {
							got, err := b.Check(context.Background(), v, q, env)
							switch {
							case err != nil:
								t.Fatal(err)
							case got.Decision == whole.Decision && got.Reasons.String() == whole.Reasons.String():
							case got.Decision != expr.Unknown || got.Reasons == nil || got.Reasons.Bound != bound && (whole.Reasons == nil || got.Reasons.Bound != whole.Reasons.Bound):
								t.Fatalf("seed %d, %s: %s with the bound %s of %d = %s (%s), without it %s (%s)", seed, name, oracle.Question(q), bound, n, got.Decision, got.Reasons, whole.Decision, whole.Reasons)
							default:
								bounded[bound]++
								reached++
							}
						}
						if reached == 0 && n > 10 {
							break
						}
					}
				}
			}
		}
	}
	if bounded[authz.BoundNodes] < 1000 || bounded[authz.BoundConditionCost] < 20 {
		t.Errorf("bounds were reached %v times", bounded)
	}
}
