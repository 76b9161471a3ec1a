package pebble_test

import (
	"crypto/sha256"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"testing"

	"github.com/ostiary/ostiary/storage"
	"github.com/ostiary/ostiary/storage/pebble"
)

// filesOf returns the digests of the files of a folder.
func filesOf(t *testing.T, dir string) map[string][32]byte {
	t.Helper()
	all := map[string][32]byte{}
	if err := filepath.WalkDir(dir, func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		text, err := os.ReadFile(name)
		all[name] = sha256.Sum256(text)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return all
}

// TestReadOnly opens folders for reads only: one that was closed, and a copy of one that was not.
// All that was written is there, writes fail, and no file is made, changed or removed.
func TestReadOnly(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	dir := filepath.Join(t.TempDir(), "data")
	d, err := pebble.Open(dir, pebble.Options{})
	if err != nil {
		t.Fatal(err)
	}
	info := storage.StoreInfo{ID: storage.StoreID{1}, Incarnation: storage.Incarnation{1}, Name: "one"}
	if err := d.CreateStore(ctx, info); err != nil {
		t.Fatal(err)
	}
	killed := filepath.Join(t.TempDir(), "killed")
	if err := os.CopyFS(killed, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	if _, err := pebble.Open(dir, pebble.Options{ReadOnly: true}); !errors.Is(err, storage.ErrLocked) {
		t.Errorf("a folder that is open: %v", err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	for name, dir := range map[string]string{"closed": dir, "killed": killed} {
		before := filesOf(t, dir)
		d, err := pebble.Open(dir, pebble.Options{ReadOnly: true})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if _, err := pebble.Open(dir, pebble.Options{}); !errors.Is(err, storage.ErrLocked) {
			t.Errorf("%s: a second driver: %v", name, err)
		}
		if got, err := d.Store(ctx, info.ID); err != nil || got.Name != "one" {
			t.Errorf("%s: the store is %v, %v", name, got, err)
		}
		if err := d.CreateStore(ctx, storage.StoreInfo{ID: storage.StoreID{2}, Incarnation: storage.Incarnation{2}}); !errors.Is(err, storage.ErrNotHolder) {
			t.Errorf("%s: a new store: %v", name, err)
		}
		if err := d.DeleteStore(ctx, info.ID); !errors.Is(err, storage.ErrNotHolder) {
			t.Errorf("%s: a deletion: %v", name, err)
		}
		if err := errors.Join(d.Failed(), d.Close()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if after := filesOf(t, dir); !maps.Equal(before, after) {
			t.Errorf("%s: the files were %v, and are %v", name, before, after)
		}
		again, err := pebble.Open(dir, pebble.Options{})
		if err != nil {
			t.Fatalf("%s: open for writes afterwards: %v", name, err)
		}
		if err := again.Close(); err != nil {
			t.Error(err)
		}
	}
	missing := filepath.Join(t.TempDir(), "missing")
	if _, err := pebble.Open(missing, pebble.Options{ReadOnly: true}); !errors.Is(err, storage.ErrFormat) {
		t.Errorf("a missing folder: %v", err)
	}
	if _, err := os.Stat(missing); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing folder was made: %v", err)
	}
}

// TestReadOnlyOlder opens folders of older formats for reads only: they would have to be upgraded.
func TestReadOnlyOlder(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	if err := os.CopyFS(dir, os.DirFS("testdata/golden-v1")); err != nil {
		t.Fatal(err)
	}
	before := filesOf(t, dir)
	if _, err := pebble.Open(dir, pebble.Options{ReadOnly: true}); !errors.Is(err, storage.ErrFormat) {
		t.Errorf("a folder of format 1: %v", err)
	}
	if !maps.Equal(before, filesOf(t, dir)) {
		t.Error("the folder was changed")
	}
}
