// Command onecheck repeats one call, "check" or "write", as often as its
// arguments say: onecheck check 100. Built with coverage counts it shows which
// files one such call executes; see TestACheckInFewFiles and
// TestAWriteInFewFiles.
package main

import (
	"context"
	"fmt"
	"os"
	"strconv"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/schema"
)

func main() {
	n, err := strconv.Atoi(os.Args[2])
	if err == nil {
		err = run(context.Background(), os.Args[1], n)
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

// run makes a store and repeats the call n times.
func run(ctx context.Context, call string, n int) error {
	engine, err := ostiary.Open(ctx, ostiary.Options{})
	if err != nil {
		return err
	}
	defer engine.Close()
	store, err := engine.CreateStore(ctx, ostiary.CreateStoreRequest{Name: "one"})
	if err != nil {
		return err
	}
	if _, _, err := store.WriteSchema(ctx, authz.SchemaSource{Model: model()}); err != nil {
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
	if _, err := store.Write(ctx, authz.WriteRequest{Add: tuples}); err != nil {
		return err
	}
	repeat := map[string]func(context.Context, *ostiary.Store, int) error{"check": check, "write": write}[call]
	if repeat == nil {
		return fmt.Errorf("unknown call %q: expected check or write", call)
	}
	for i := range n {
		if err := repeat(ctx, store, i); err != nil {
			return err
		}
	}
	return nil
}

// check asks a question that is allowed over three hops.
func check(ctx context.Context, store *ostiary.Store, _ int) error {
	res, err := store.Check(ctx, authz.CheckRequest{Object: rel.Object{Type: "doc", ID: "1"},
		Relation: "viewer", Subject: rel.Subject{Type: "user", ID: "1"}})
	if err == nil && !res.Allowed() {
		err = fmt.Errorf("denied: %v", res)
	}
	return err
}

// write adds a tuple.
func write(ctx context.Context, store *ostiary.Store, i int) error {
	tuple, err := rel.Parse("group:1#member@user:" + strconv.Itoa(i+2))
	if err == nil {
		_, err = store.Write(ctx, authz.WriteRequest{Add: []rel.Tuple{tuple}})
	}
	return err
}
