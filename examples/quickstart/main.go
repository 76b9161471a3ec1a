// Command quickstart is the library example of README.md: one model, three
// tuples, two checks and a list.
package main

import (
	"context"
	"fmt"
	"log"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/door/openfga/language"
)

const model = `model
  schema 1.1
type user
type folder
  relations
    define viewer: [user]
type document
  relations
    define parent: [folder]
    define viewer: [user] or viewer from parent
`

func main() {
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	engine, err := ostiary.Open(ctx, ostiary.Options{}) // in memory; set Driver to keep the data
	if err != nil {
		return err
	}
	defer engine.Close()
	store, err := engine.CreateStore(ctx, ostiary.CreateStoreRequest{Name: "acme"})
	if err != nil {
		return err
	}
	parsed, _, err := language.ParseDSL([]byte(model))
	if err != nil {
		return err
	}
	if _, _, err := store.WriteSchema(ctx, ostiary.SchemaSource{Model: parsed}); err != nil {
		return err
	}
	var tuples []ostiary.Tuple
	for _, text := range []string{"folder:plans#viewer@user:anne", "document:roadmap#parent@folder:plans", "document:notes#viewer@user:bob"} {
		tuple, err := ostiary.ParseTuple(text)
		if err != nil {
			return err
		}
		tuples = append(tuples, tuple)
	}
	if _, err := store.Write(ctx, ostiary.WriteRequest{Add: tuples}); err != nil {
		return err
	}
	roadmap := ostiary.Object{Type: "document", ID: "roadmap"}
	for _, name := range []string{"anne", "bob"} {
		user := ostiary.Subject{Type: "user", ID: name}
		result, err := store.Check(ctx, ostiary.CheckRequest{Object: roadmap, Relation: "viewer", Subject: user})
		if err != nil {
			return err
		}
		fmt.Println(name, "views the roadmap:", result.Allowed())
	}
	list, err := store.ListObjects(ctx, ostiary.ListObjectsRequest{
		Type: "document", Relation: "viewer", Subject: ostiary.Subject{Type: "user", ID: "anne"}})
	if err != nil {
		return err
	}
	fmt.Println("anne views:", list.IDs)
	return nil
}
