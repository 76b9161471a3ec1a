package ostiary_test

import (
	"context"
	"testing"

	"github.com/ostiary/ostiary"
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
	res, err := s.Check(context.Background(), ostiary.CheckRequest{Object: asked.Object, Relation: asked.Relation,
		Subject: asked.Subject, QueryOptions: ostiary.QueryOptions{Tuples: []rel.Tuple{asked}}})
	if err != nil || !res.Allowed() {
		t.Fatalf("got %v, %v, want true", res, err)
	}
}
