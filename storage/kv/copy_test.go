package kv_test

import (
	"errors"
	"testing"

	"github.com/ostiary/ostiary/storage"
	"github.com/ostiary/ostiary/storage/kv"
	"github.com/ostiary/ostiary/storage/memory"
)

// TestCopyIsNoStoreOfItsOwn requires that data is opened as what it is. A program that
// opens a copy as data of its own would write entries that the log does not have.
func TestCopyIsNoStoreOfItsOwn(t *testing.T) {
	t.Parallel()
	for _, isCopy := range []bool{true, false} {
		store := memory.NewStore()
		d, err := kv.New(store, kv.Options{Copy: isCopy})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := d.Copy(); isCopy != (err == nil) {
			t.Errorf("copy %v: the method Copy has the error %v", isCopy, err)
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := kv.New(store, kv.Options{Copy: !isCopy}); !errors.Is(err, storage.ErrFormat) {
			t.Errorf("opening with Copy %v what was made with %v: error %v, want ErrFormat", !isCopy, isCopy, err)
		}
		if _, err := kv.New(store, kv.Options{Copy: isCopy, MustExist: true}); err != nil {
			t.Errorf("opening again with Copy %v: %v", isCopy, err)
		}
	}
}
