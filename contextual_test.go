package ostiary_test

import (
	"context"
	"testing"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/schema"
)

// A schema that is bound after the newest view was made has kinds which that
// view does not know: contextual tuples must count all the same.
func TestContextualTuplesInAnEmptyStore(t *testing.T) {
	ctx := context.Background()
	e, _ := ostiary.Open(ctx, ostiary.Options{})
	defer e.Close()
	s, err := e.CreateStore(ctx, ostiary.CreateStore{Name: "empty"})
	if err != nil {
		t.Fatal(err)
	}
	m := &schema.Model{Types: []schema.TypeDef{{Name: "user"}, {Name: "document", Relations: []schema.RelationDef{{Name: "viewer", Rewrite: schema.Direct(), Subjects: []schema.SubjectType{{Type: "user"}}}}}}}
	if _, _, err := s.WriteSchema(ctx, ostiary.SchemaSource{Model: m}); err != nil {
		t.Fatal(err)
	}
	tu, _ := rel.Parse("document:1#viewer@user:1")
	res, err := s.Check(ctx, ostiary.CheckRequest{Object: tu.Object, Relation: "viewer", Subject: tu.Subject, Ask: ostiary.Ask{Tuples: []rel.Tuple{tu}}})
	if err != nil || !res.Allowed() {
		t.Fatal(res, err)
	}
}
