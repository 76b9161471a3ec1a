package pebble_test

import (
	"testing"

	"github.com/ostiary/ostiary/storage"
	"github.com/ostiary/ostiary/storage/pebble"
	"github.com/ostiary/ostiary/storage/storagetest"
)

// driver implements storagetest.Transactor.
type driver struct{ *pebble.Driver }

func (d driver) Transaction() (tx any, commit func() error) {
	b := d.Batch()
	return b, func() error { return b.Commit(nil) }
}

func TestDriver(t *testing.T) {
	t.Parallel()
	storagetest.Run(t, func(t *testing.T) storagetest.Opener {
		dir := t.TempDir()
		return func() (storage.Driver, error) {
			d, err := pebble.Open(dir, pebble.Options{})
			return driver{d}, err
		}
	})
}
