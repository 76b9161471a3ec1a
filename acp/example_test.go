package acp_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/ostiary/ostiary/acp"
	"github.com/ostiary/ostiary/storage/pebble"
)

const policyText = `
name: documents
resources:
- name: document
  relations:
  - {name: reader, types: [actor]}
  permissions:
  - {name: read, expr: reader}
`

func Example() {
	dir, err := os.MkdirTemp("", "documents")
	if err == nil {
		err = share(context.Background(), filepath.Join(dir, "access"))
	}
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// before registration: public
	// after registration: deny
	// after sharing: allow
}

// share keeps access control in a folder. It registers a document to alice, who
// shares it with bob.
func share(ctx context.Context, folder string) error {
	driver, err := pebble.Open(folder, pebble.Options{}) // or memory.New(), or kv.New over your own store
	if err != nil {
		return err
	}
	defer driver.Close()
	control, err := acp.Open(ctx, acp.Options{Driver: driver})
	if err != nil {
		return err
	}
	defer control.Close()

	aliceKey, err := acp.GenerateKey(acp.KeyEd25519)
	if err != nil {
		return err
	}
	bobKey, err := acp.GenerateKey(acp.KeySecp256k1)
	if err != nil {
		return err
	}
	alice, bob := aliceKey.Public().DID(), bobKey.Public().DID() // did:key:z6Mk…, did:key:z7r8…

	policy, err := control.AddPolicy(ctx, alice, policyText) // the id that acp_core would give
	if err != nil {
		return err
	}
	doc := acp.Object{Policy: policy, Resource: "document", ID: "bae-1"}
	show := func(when string) error {
		access, err := control.Access(ctx, bob, "read", doc) // acp.Public, acp.Deny or acp.Allow
		fmt.Println(when+":", access)
		return err
	}
	if err := show("before registration"); err != nil {
		return err
	}
	if err := control.Register(ctx, alice, doc); err != nil { // alice owns it
		return err
	}
	if err := show("after registration"); err != nil {
		return err
	}
	if _, err := control.Relate(ctx, alice, doc, "reader", bob); err != nil { // acp.AllActors shares with everyone
		return err
	}
	return show("after sharing")
}
