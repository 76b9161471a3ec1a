package openfga_test

import (
	"fmt"
	"testing"

	openfgav1 "github.com/openfga/api/proto/openfga/v1"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/door/openfga"
	"github.com/ostiary/ostiary/internal/workshop/failing"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/schema"
	"github.com/ostiary/ostiary/storage/memory"
)

// TestChangesCost reads pages of changes at the beginning, in the middle and near the
// end of logs of several lengths, and counts the entries that the driver reads for each.
// With 60 tuples in an entry, a page of 100 needs two or three, and one may be needed to
// confirm the token. Pages inside an entry of 5,000 tuples need that entry only once; the
// 50 pages inside the newest entry also see the end of the log, which counts.
func TestChangesCost(t *testing.T) {
	t.Parallel()
	for _, log := range []struct{ entries, tuples, read int }{{10, 60, 40}, {40, 60, 160}, {160, 60, 640}, {2, 5000, 54}} {
		entries, tuples := log.entries, log.tuples
		driver := failing.New(memory.New())
		engine, err := ostiary.Open(t.Context(), ostiary.Options{Driver: driver})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { engine.Close(); driver.Close() })
		d, err := openfga.New(engine, openfga.Options{})
		if err != nil {
			t.Fatal(err)
		}
		server := d.Services[0].Impl.(openfgav1.OpenFGAServiceServer)
		store, err := engine.CreateStore(t.Context(), ostiary.CreateStoreRequest{Name: "log"})
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := store.WriteSchema(t.Context(), authz.SchemaSource{Model: &schema.Model{Types: []schema.TypeDef{
			{Name: "user"},
			{Name: "doc", Relations: []schema.RelationDef{{Name: "viewer", Rewrite: schema.Direct(), Subjects: []schema.SubjectType{{Type: "user"}}}}},
		}}}); err != nil {
			t.Fatal(err)
		}
		for e := range entries {
			var w authz.WriteRequest
			for i := range tuples {
				w.Add = append(w.Add, rel.Tuple{Object: rel.Object{Type: "doc", ID: fmt.Sprintf("%d-%d", e, i)}, Relation: "viewer", Subject: rel.Subject{Type: "user", ID: "a"}})
			}
			if _, err := store.Write(t.Context(), w); err != nil {
				t.Fatal(err)
			}
		}
		in := &openfgav1.ReadChangesRequest{StoreId: store.ID().String(), PageSize: wrapperspb.Int32(100)}
		changes, total := 0, 0
		for {
			driver.Break(failing.Fault{Only: []failing.Operation{failing.EntriesNext}})
			out, err := server.ReadChanges(t.Context(), in)
			if err != nil {
				t.Fatal(err)
			}
			if len(out.GetChanges()) == 0 {
				break
			}
			for _, c := range out.GetChanges() {
				if want := fmt.Sprintf("doc:%d-%d", changes/tuples, changes%tuples); c.GetTupleKey().GetObject() != want {
					t.Fatalf("change %d of %d entries: got %s, expected %s", changes, entries, c.GetTupleKey().GetObject(), want)
				}
				changes++
			}
			total += driver.Count()
			if read := driver.Count(); read > 4 {
				t.Errorf("%d entries: the page that ends with change %d reads %d entries, expected at most 4", entries, changes, read)
			}
			in.ContinuationToken = out.GetContinuationToken()
		}
		if changes != tuples*entries {
			t.Errorf("all pages have %d changes, expected %d", changes, tuples*entries)
		}
		if total > log.read {
			t.Errorf("%d entries of %d tuples: all pages read %d entries, expected at most %d", entries, tuples, total, log.read)
		}
	}
}
