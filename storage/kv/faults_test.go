//go:build faults

package kv_test

import (
	"math/rand/v2"
	"testing"

	"github.com/ostiary/ostiary/internal/fault"
	"github.com/ostiary/ostiary/storage"
	"github.com/ostiary/ostiary/storage/memory"
	"github.com/ostiary/ostiary/storage/storagetest"
)

// Each seeded fault of storage makes the state differ from what follows from
// the log, within few random entries.
func TestFaults(t *testing.T) {
	defer fault.Switch(fault.None)
	for f := fault.StorageRemovedRowLost; f <= fault.StorageFilterIgnoresSubject; f++ {
		fault.Switch(f)
		d := memory.New()
		l := storagetest.NewLog(1)
		if err := d.CreateStore(t.Context(), storage.StoreInfo{ID: l.ID, Incarnation: l.Incarnation}); err != nil {
			t.Fatal(err)
		}
		rng := rand.New(rand.NewPCG(1, uint64(f)))
		caught := false
		for n := range 50 {
			if err := l.Append(t.Context(), d, storagetest.RandomChanges(rng, 10)...); err != nil {
				t.Fatal(err)
			}
			if _, err := storagetest.Verify(t.Context(), d, l.ID); err != nil {
				t.Logf("fault %d: caught after %d entries: %v", f, n+1, err)
				caught = true
				break
			}
		}
		if !caught {
			t.Errorf("fault %d is not caught", f)
		}
	}
}
