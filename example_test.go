package ostiary_test

import (
	"context"
	"fmt"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/schema"
)

// This example embeds an engine in memory. It writes a schema and two tuples, and
// asks two questions.
func Example() {
	ctx := context.Background()
	engine, _ := ostiary.Open(ctx, ostiary.Options{})
	defer engine.Close()
	store, _ := engine.CreateStore(ctx, ostiary.CreateStoreRequest{Name: "example"})
	store.WriteSchema(ctx, ostiary.SchemaSource{Model: &schema.Model{Types: []schema.TypeDef{
		{Name: "user"},
		{Name: "team", Relations: []schema.RelationDef{{Name: "member", Rewrite: schema.Direct(), Subjects: []schema.SubjectType{{Type: "user"}}}}},
		{Name: "page", Relations: []schema.RelationDef{{Name: "reader", Rewrite: schema.Direct(), Subjects: []schema.SubjectType{{Type: "team", Relation: "member"}}}}},
	}}})
	team, page, anne := rel.Object{Type: "team", ID: "docs"}, rel.Object{Type: "page", ID: "start"}, rel.Subject{Type: "user", ID: "anne"}
	store.Write(ctx, ostiary.WriteRequest{Add: []rel.Tuple{{Object: team, Relation: "member", Subject: anne},
		{Object: page, Relation: "reader", Subject: rel.Subject{Type: "team", ID: "docs", Relation: "member"}}}})
	for _, who := range []string{"anne", "bob"} {
		answer, err := store.Check(ctx, ostiary.CheckRequest{Object: page, Relation: "reader", Subject: rel.Subject{Type: "user", ID: who}})
		fmt.Println(who, answer.Allowed(), err)
	}
	// Output:
	// anne true <nil>
	// bob false <nil>
}
