package openfga_test

import (
	"context"
	"fmt"

	openfgav1 "github.com/openfga/api/proto/openfga/v1"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/door/openfga"
)

// A program, for example a test, may call the service without a server.
func ExampleNew() {
	ctx := context.Background()
	engine, err := ostiary.Open(ctx, ostiary.Options{})
	if err != nil {
		panic(err)
	}
	defer engine.Close()
	d, err := openfga.New(engine, openfga.Options{})
	if err != nil {
		panic(err)
	}
	fga := d.Services[0].Impl.(openfgav1.OpenFGAServiceServer)
	store, err := fga.CreateStore(ctx, &openfgav1.CreateStoreRequest{Name: "example"})
	fmt.Println(store.GetName(), err)
	_, err = fga.Check(ctx, &openfgav1.CheckRequest{
		StoreId:  store.GetId(),
		TupleKey: &openfgav1.CheckRequestTupleKey{User: "user:anne", Relation: "viewer", Object: "document:roadmap"},
	})
	fmt.Println(err != nil)
	for _, r := range d.Routes[:3] {
		fmt.Println(r.Method, r.Pattern)
	}
	// Output:
	// example <nil>
	// true
	// POST /stores
	// GET /stores
	// GET /stores/{store_id}
}
