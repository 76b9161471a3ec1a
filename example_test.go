package ostiary_test

import (
	"context"
	"fmt"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/door/openfga/language"
	"github.com/ostiary/ostiary/rel"
)

// This example embeds an engine in memory. It writes a schema and two tuples, and
// asks two questions.
func Example() {
	ctx := context.Background()
	engine, _ := ostiary.Open(ctx, ostiary.Options{})
	defer engine.Close()
	store, _ := engine.CreateStore(ctx, ostiary.CreateStoreRequest{Name: "example"})
	model, _, err := language.ParseDSL([]byte(`model
  schema 1.1
type user
type team
  relations
    define member: [user]
type page
  relations
    define reader: [team#member]
`))
	if err != nil {
		panic(err)
	}
	store.WriteSchema(ctx, ostiary.SchemaSource{Model: model})
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
