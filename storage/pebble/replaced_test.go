package pebble_test

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/ostiary/ostiary/storage"
	"github.com/ostiary/ostiary/storage/pebble"
)

// A write-ahead log that cannot be created fails the write with the reason, and
// stops the driver. Pebble panics if it sees such an error.
func TestLogCannotBeCreated(t *testing.T) {
	t.Parallel()
	for _, cause := range []syscall.Errno{syscall.ENOENT, syscall.ENOSPC, syscall.EMFILE, syscall.EACCES} {
		t.Run(cause.Error(), func(t *testing.T) {
			t.Parallel()
			base := vfs.NewMem()
			var broken atomic.Bool
			d, err := pebble.Open("data", small(errorfs.Wrap(base, errorfs.InjectorFunc(func(op errorfs.Op) error {
				creates := op.Kind == errorfs.OpCreate || op.Kind == errorfs.OpReuseForWrite
				if broken.Load() && creates && strings.HasSuffix(op.Path, ".log") {
					return &fs.PathError{Op: "open", Path: op.Path, Err: cause}
				}
				return nil
			}))))
			if err != nil {
				t.Fatal(err)
			}
			journals, err := newJournals(t.Context(), d, 1)
			if err != nil {
				t.Fatal(err)
			}
			broken.Store(true)
			rng := rand.New(rand.NewPCG(21, 22))
			for range 2000 { // a new log begins after 64 KiB
				if err = journals[0].write(t.Context(), d, rng); err != nil {
					break
				}
			}
			if !errors.Is(err, pebble.ErrFailed) || !errors.Is(err, cause) {
				t.Errorf("a write that needs a new log: error %v, want ErrFailed and %v", err, cause)
			}
			if err := d.Failed(); !errors.Is(err, pebble.ErrFailed) {
				t.Errorf("Failed returns %v, want ErrFailed", err)
			}
			if err := d.Close(); !errors.Is(err, pebble.ErrFailed) {
				t.Errorf("Close: error %v, want ErrFailed", err)
			}
			broken.Store(false)
			last := promises(journals)
			checkAfterCrash(t, base, journals, last, last, "after a log could not be created")
		})
	}
}

// A folder stays locked when its lock files are deleted.
func TestDeletedLockFiles(t *testing.T) {
	t.Parallel()
	parent := t.TempDir()
	dir := filepath.Join(parent, "data")
	d, err := pebble.Open(dir, pebble.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"LOCK", filepath.Join("pebble", "LOCK")} {
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	other := filepath.Join(parent, "link") // the same folder by another name
	if err := os.Symlink(dir, other); err != nil {
		t.Fatal(err)
	}
	second, err := pebble.Open(other, pebble.Options{})
	if err == nil {
		second.Close()
	}
	if !errors.Is(err, storage.ErrLocked) || !strings.Contains(err.Error(), "by this process") {
		t.Errorf("a second Open after the lock files were deleted: error %v, want ErrLocked by this process", err)
	}
	if err := d.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	d, err = pebble.Open(other, pebble.Options{})
	if err != nil {
		t.Fatalf("Open after Close: %v", err)
	}
	d.Close()
}

// After the folder or a part of it was removed or replaced, the next write fails
// with ErrReplaced, and the driver changes nothing in the new folder.
func TestReplacedFolder(t *testing.T) {
	t.Parallel()
	for what, replace := range map[string]func(dir string) error{
		"the folder is removed": os.RemoveAll,
		"the folder is renamed": func(dir string) error { return os.Rename(dir, dir+".old") },
		"another data folder is at the same path": func(dir string) error {
			if err := os.Rename(dir, dir+".old"); err != nil {
				return err
			}
			if err := closeNew(dir + ".new"); err != nil { // Pebble locks each path once a process
				return err
			}
			return os.Rename(dir+".new", dir)
		},
		"the folder is a copy": func(dir string) error {
			if err := os.Rename(dir, dir+".old"); err != nil {
				return err
			}
			return os.CopyFS(dir, os.DirFS(dir+".old"))
		},
		"the marker is removed": func(dir string) error { return os.Remove(filepath.Join(dir, "OSTIARY")) },
		"the marker is another file": func(dir string) error {
			name := filepath.Join(dir, "OSTIARY")
			b, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			if err := os.Rename(name, dir+".marker"); err != nil {
				return err
			}
			return os.WriteFile(name, b, 0o600)
		},
		"Pebble's files are removed": func(dir string) error { return os.RemoveAll(filepath.Join(dir, "pebble")) },
		"Pebble's files are replaced": func(dir string) error {
			if err := os.Rename(filepath.Join(dir, "pebble"), dir+".pebble"); err != nil {
				return err
			}
			return os.CopyFS(filepath.Join(dir, "pebble"), os.DirFS(dir+".pebble"))
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "data")
			d, err := pebble.Open(dir, pebble.Options{MemTableBytes: 64 << 10})
			if err != nil {
				t.Fatal(err)
			}
			journals, err := newJournals(t.Context(), d, 1)
			if err != nil {
				t.Fatal(err)
			}
			rng := rand.New(rand.NewPCG(31, 32))
			if err := journals[0].write(t.Context(), d, rng); err != nil {
				t.Fatal(err)
			}
			if err := replace(dir); err != nil {
				t.Fatal(err)
			}
			before := listingOrMissing(t, dir)
			err = journals[0].write(t.Context(), d, rng)
			if !errors.Is(err, pebble.ErrReplaced) || !errors.Is(err, pebble.ErrFailed) {
				t.Errorf("the next write: error %v, want ErrReplaced and ErrFailed", err)
			}
			if _, err := d.Head(t.Context(), journals[0].ID); !errors.Is(err, pebble.ErrReplaced) {
				t.Errorf("a read after the write: error %v, want ErrReplaced", err)
			}
			if err := d.Close(); !errors.Is(err, pebble.ErrReplaced) {
				t.Errorf("Close: error %v, want ErrReplaced", err)
			}
			if after := listingOrMissing(t, dir); after != before {
				t.Errorf("the folder before the write:\n%s\nand after Close:\n%s", before, after)
			}
		})
	}
}

// A driver that does not wait for the disk notices a removed folder as well, after a few
// more writes.
func TestReplacedUnsynced(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	d, err := pebble.Open(dir, pebble.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	journals, err := newJournals(t.Context(), d, 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(dir, dir+".old"); err != nil {
		t.Fatal(err)
	}
	rng, writes := rand.New(rand.NewPCG(33, 34)), 0
	for ; err == nil && writes < 100; writes++ {
		err = journals[0].write(t.Context(), d, rng)
	}
	if !errors.Is(err, pebble.ErrReplaced) || writes > 16 {
		t.Errorf("write %d: error %v, want ErrReplaced of the 16th at the latest", writes, err)
	}
	if _, err := d.Head(t.Context(), journals[0].ID); !errors.Is(err, pebble.ErrReplaced) {
		t.Errorf("a read after the write: error %v, want ErrReplaced", err)
	}
	if err := d.Close(); !errors.Is(err, pebble.ErrReplaced) {
		t.Errorf("Close: error %v, want ErrReplaced", err)
	}
}

// closeNew creates a data folder and closes it.
func closeNew(dir string) error {
	d, err := pebble.Open(dir, pebble.Options{})
	if err != nil {
		return err
	}
	return d.Close()
}

func listingOrMissing(t *testing.T, dir string) string {
	t.Helper()
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return "missing"
	}
	return listing(t, dir)
}

// Failed notices a removed folder without a write, so that a server without
// writers stops as well.
func TestFailedNoticesRemoval(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	d, err := pebble.Open(dir, pebble.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Failed(); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := d.Failed(); !errors.Is(err, pebble.ErrReplaced) {
		t.Errorf("Failed returns %v, want ErrReplaced", err)
	}
	if err := d.Close(); !errors.Is(err, pebble.ErrReplaced) {
		t.Errorf("Close: error %v, want ErrReplaced", err)
	}
}

// Open replaces a damaged OPTIONS file, which holds nothing but settings of
// Pebble, and keeps the damaged one. All entries are still there.
func TestDamagedOptions(t *testing.T) {
	t.Parallel()
	for _, closed := range []bool{true, false} {
		d := makeDamaged(t, closed)
		for name, content := range d.files {
			if !strings.HasPrefix(filepath.Base(name), "OPTIONS-") {
				continue
			}
			comparer := strings.Index(string(content), "comparer=") + len("comparer=")
			for what, damage := range map[string][]byte{
				"missing":             nil,
				"empty":               {},
				"zeros":               make([]byte, len(content)),
				"cut":                 content[:len(content)/2],
				"other comparer":      []byte(strings.Replace(string(content), "comparer=", "comparer=x", 1)),
				"bit of the comparer": flip(content, comparer),
				"first bit":           flip(content, 0),
			} {
				what := fmt.Sprintf("closed %v, %s: %s", closed, name, what)
				fs := d.with(t, name, damage)
				if err, behind := d.serves(t, fs, what); err != nil || behind {
					t.Errorf("%s: error %v, entries missing: %v", what, err, behind)
				}
				if err, behind := d.serves(t, fs, what+", second time"); err != nil || behind {
					t.Errorf("%s: the second Open: error %v, entries missing: %v", what, err, behind)
				}
			}
		}
	}
}

func flip(b []byte, at int) []byte {
	b = append([]byte{}, b...)
	b[at] ^= 1
	return b
}
