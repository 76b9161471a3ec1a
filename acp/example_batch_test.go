package acp_test

import (
	"context"
	"fmt"
	"log"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/ostiary/ostiary/acp"
	driver "github.com/ostiary/ostiary/storage/pebble"
)

func ExampleBatch_Prepare() {
	ctx := context.Background()
	db, err := pebble.Open("rows", &pebble.Options{FS: vfs.NewMem(), Logger: quietLogger{}}) // the database's own
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	under, err := driver.New(db, []byte("acp/")) // access control in the same Pebble, under a prefix
	if err != nil {
		log.Fatal(err)
	}
	control, err := acp.Open(ctx, acp.Options{Driver: under})
	if err != nil {
		log.Fatal(err)
	}
	defer control.Close()
	policy, err := control.AddPolicy(ctx, alice, policyText)
	if err != nil {
		log.Fatal(err)
	}
	doc := acp.Object{Policy: policy, Resource: "document", ID: "bae-1"}
	if err := save(ctx, db, control, alice, doc, []byte("hello")); err != nil {
		log.Fatal(err)
	}
	fmt.Println(control.Access(ctx, "", "read", doc))
	// Output:
	// allow <nil>
}

// save writes a row and registers its document in one transaction.
func save(ctx context.Context, db *pebble.DB, control *acp.Engine, owner string, doc acp.Object, row []byte) error {
	batch := control.Batch()
	batch.Register(owner, doc)
	batch.Relate(owner, acp.Relationship{Object: doc, Relation: "reader", Subject: acp.ActorSubject(acp.AllActors)})
	pending, err := batch.Prepare(ctx) // validated; other changes of the collection wait until Publish or Abort
	if err != nil {
		return err
	}
	defer pending.Abort() // does nothing after Publish
	tx := db.NewBatch()
	defer tx.Close()
	if err := tx.Set([]byte("row/"+doc.ID), row, nil); err != nil {
		return err
	}
	if err := pending.AppendTo(ctx, tx); err != nil { // a *pebble.Batch, or the kv.Batch of your own store
		return err
	}
	if err := tx.Commit(pebble.Sync); err != nil {
		return err
	}
	return pending.Publish(ctx) // now visible to readers
}

// quietLogger discards Pebble's messages.
type quietLogger struct{}

func (quietLogger) Infof(string, ...any)           {}
func (quietLogger) Errorf(string, ...any)          {}
func (quietLogger) Fatalf(format string, a ...any) { log.Fatalf(format, a...) }
