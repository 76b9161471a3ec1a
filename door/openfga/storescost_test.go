package openfga_test

import (
	"fmt"
	"slices"
	"testing"

	openfgav1 "github.com/openfga/api/proto/openfga/v1"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/door/openfga"
	"github.com/ostiary/ostiary/internal/workshop/failing"
	"github.com/ostiary/ostiary/storage/memory"
)

// TestStoresByNameCost lists the stores of one name between many others, in pages of 5,
// and counts the stores that the driver reads for a page. The engine reads at most 64
// at once.
func TestStoresByNameCost(t *testing.T) {
	t.Parallel()
	const limit, most = 5, 64
	for _, stores := range []int{200, 2000} {
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
		var want []string
		for n := range stores {
			name := fmt.Sprint("store ", n)
			if n%(stores/20) == 7 {
				name = "wanted"
			}
			store, err := engine.CreateStore(t.Context(), ostiary.CreateStoreRequest{Name: name})
			if err != nil {
				t.Fatal(err)
			}
			if name == "wanted" {
				want = append(want, store.ID().String())
			}
		}
		slices.Sort(want)
		in := &openfgav1.ListStoresRequest{Name: "wanted", PageSize: wrapperspb.Int32(limit)}
		for page := 0; page == 0 || in.ContinuationToken != ""; page++ {
			driver.Break(failing.Fault{Only: []failing.Operation{failing.StoresNext, failing.StoresByNameNext}})
			out, err := server.ListStores(t.Context(), in)
			if err != nil {
				t.Fatal(err)
			}
			if read := driver.Count(); read > most || read < len(out.Stores) {
				t.Errorf("of %d stores, page %d reads %d, expected %d to %d", stores, page, read, len(out.Stores), most)
			}
			for _, store := range out.Stores {
				if len(want) == 0 || store.Id != want[0] || store.Name != "wanted" {
					t.Fatalf("page %d has the store %v, expected one of %v", page, store, want)
				}
				want = want[1:]
			}
			in.ContinuationToken = out.ContinuationToken
		}
		if len(want) != 0 {
			t.Errorf("of %d stores, %d with the name are missing", stores, len(want))
		}
	}
}
