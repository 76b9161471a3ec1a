// Command onecheck asks one question as often as its argument says. Built with
// coverage counts, what asking more often executes more often is one
// Check's: see TestACheckInFewFiles.
package main

import (
	"context"
	"fmt"
	"os"
	"strconv"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/schema"
)

func main() {
	n, err := strconv.Atoi(os.Args[1])
	if err == nil {
		err = ask(context.Background(), n)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
}

// model is a document in a folder shared with a group: a check of three hops.
func model() *schema.Model {
	user := schema.SubjectType{Type: "user"}
	member := schema.SubjectType{Type: "group", Relation: "member"}
	return &schema.Model{Types: []schema.TypeDef{
		{Name: "user"},
		{Name: "group", Relations: []schema.RelationDef{
			{Name: "member", Rewrite: schema.Direct(), Subjects: []schema.SubjectType{user}}}},
		{Name: "folder", Relations: []schema.RelationDef{
			{Name: "viewer", Rewrite: schema.Direct(), Subjects: []schema.SubjectType{member}}}},
		{Name: "doc", Relations: []schema.RelationDef{
			{Name: "parent", Rewrite: schema.Direct(), Subjects: []schema.SubjectType{{Type: "folder"}}},
			{Name: "owner", Rewrite: schema.Direct(), Subjects: []schema.SubjectType{user}},
			{Name: "viewer", Rewrite: schema.Union(schema.Computed("owner"), schema.Arrow("parent", "viewer"))}}},
	}}
}

func ask(ctx context.Context, n int) error {
	engine, err := ostiary.Open(ctx, ostiary.Options{})
	if err != nil {
		return err
	}
	defer engine.Close()
	store, err := engine.CreateStore(ctx, ostiary.CreateStoreRequest{Name: "one"})
	if err != nil {
		return err
	}
	if _, _, err := store.WriteSchema(ctx, ostiary.SchemaSource{Model: model()}); err != nil {
		return err
	}
	var tuples []rel.Tuple
	for _, s := range []string{"doc:1#parent@folder:1", "folder:1#viewer@group:1#member", "group:1#member@user:1"} {
		t, err := rel.Parse(s)
		if err != nil {
			return err
		}
		tuples = append(tuples, t)
	}
	if _, err := store.Write(ctx, ostiary.WriteRequest{Add: tuples}); err != nil {
		return err
	}
	for range n {
		res, err := store.Check(ctx, ostiary.CheckRequest{Object: rel.Object{Type: "doc", ID: "1"},
			Relation: "viewer", Subject: rel.Subject{Type: "user", ID: "1"}})
		if err != nil {
			return err
		}
		if !res.Allowed() {
			return fmt.Errorf("denied: %v", res)
		}
	}
	return nil
}
