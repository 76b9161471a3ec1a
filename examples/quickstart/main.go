// Command quickstart is the library example of docs/start.md: one model, three
// tuples, two checks and a list.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/door/openfga/language"
	"github.com/ostiary/ostiary/storage/pebble"
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
	driver, err := pebble.Open("quickstart-data", pebble.Options{}) // a folder, made if it is missing
	if err != nil {
		return err
	}
	defer driver.Close()
	engine, err := ostiary.Open(ctx, ostiary.Options{Driver: driver})
	if err != nil {
		return err
	}
	defer engine.Close()
	store, err := engine.OpenStore(ctx, "acme") // the second run finds it
	if err != nil {
		return err
	}
	if _, err := store.CurrentSchema(ctx, ""); errors.Is(err, authz.ErrNoSchema) {
		if err := fill(ctx, store); err != nil {
			return err
		}
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

// fill writes the model and the tuples of a new store.
func fill(ctx context.Context, store *ostiary.Store) error {
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
	_, err = store.Write(ctx, ostiary.WriteRequest{Add: tuples})
	return err
}
