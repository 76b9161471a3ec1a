package enginetest

import (
	"context"
	"errors"
	"testing"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/schema"
)

// TestContextualTuplesInAnEmptyStore asks with contextual tuples in a store whose
// newest view is older than the binding of its schema. The view does not know the
// schema's kinds, but the contextual tuples must count.
func TestContextualTuplesInAnEmptyStore(t *testing.T) {
	s := newStore(t, newEngine(t, ostiary.Options{}), &schema.Model{Types: []schema.TypeDef{{Name: "user"},
		{Name: "document", Relations: []schema.RelationDef{
			{Name: "viewer", Rewrite: schema.Direct(), Subjects: []schema.SubjectType{{Type: "user"}}}}}}})
	asked := tup(t, "document:1#viewer@user:1")
	res, err := s.Check(context.Background(), authz.CheckRequest{Object: asked.Object, Relation: asked.Relation,
		Subject: asked.Subject, QueryOptions: authz.QueryOptions{Tuples: []rel.Tuple{asked}}})
	if err != nil || !res.Allowed() {
		t.Fatalf("got %v, %v, want true", res, err)
	}
}

// TestContextDepth nests maps and lists in the context of a question, at the bound
// and one level above it. A map counts as one level, and so does the value in it.
func TestContextDepth(t *testing.T) {
	t.Parallel()
	const bound = 64
	ctx := context.Background()
	s := newStore(t, newEngine(t, ostiary.Options{}), documents())
	nest := map[string]func(v any) any{
		"maps":  func(v any) any { return map[string]any{"k": v} },
		"lists": func(v any) any { return []any{v} },
	}
	for name, wrap := range nest {
		for levels, ok := range map[int]bool{bound: true, bound + 1: false} {
			var v any = "x" // one level, and the context is another one
			for range levels - 2 {
				v = wrap(v)
			}
			q := tup(t, "document:1#owner@user:anne")
			_, err := s.Check(ctx, authz.CheckRequest{Object: q.Object, Relation: q.Relation, Subject: q.Subject,
				QueryOptions: authz.QueryOptions{Context: expr.Values{"x": v}}})
			var exceeded *authz.BoundError
			switch {
			case ok && err != nil:
				t.Errorf("%d levels of %s: %v", levels, name, err)
			case !ok && (!errors.As(err, &exceeded) || exceeded.Name != "ContextDepth" || exceeded.Max != bound):
				t.Errorf("%d levels of %s: %v, expected an error that names ContextDepth", levels, name, err)
			}
		}
	}
}
