package memory_test

import (
	"testing"

	"github.com/ostiary/ostiary/storage"
	"github.com/ostiary/ostiary/storage/kv"
	"github.com/ostiary/ostiary/storage/memory"
	"github.com/ostiary/ostiary/storage/storagetest"
)

// driver implements storagetest.Transactor.
type driver struct {
	*kv.Driver
	store *memory.Store
}

func (d driver) Transaction() (tx any, commit func() error) {
	b := d.store.Batch()
	return b, b.Commit
}

func TestDriver(t *testing.T) {
	t.Parallel()
	storagetest.Run(t, func(t *testing.T) storagetest.Opener {
		store := memory.NewStore()
		return func() (storage.Driver, error) {
			d, err := kv.New(store, kv.Options{})
			return driver{d, store}, err
		}
	})
}

func TestNewIsEmpty(t *testing.T) {
	t.Parallel()
	d := memory.New()
	for info, err := range d.Stores(t.Context(), storage.StoreID{}) {
		t.Fatalf("a new driver has store %v, error %v", info, err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
}
