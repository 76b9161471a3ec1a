package pebble_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/ostiary/ostiary/storage"
	"github.com/ostiary/ostiary/storage/pebble"
	"github.com/ostiary/ostiary/storage/storagetest"
)

// damaged is a folder, its files' contents, and what a whole one answers.
type damaged struct {
	files    map[string][]byte
	journals []*journal
}

// makeDamaged writes a folder with tables, a log and a manifest that has seen
// flushes. closed says whether it is left by Close or by a crash.
func makeDamaged(t *testing.T, closed bool) *damaged {
	t.Helper()
	ctx := t.Context()
	fs := vfs.NewCrashableMem()
	d, err := pebble.Open("data", pebble.Options{FS: fs, MemTableBytes: 32 << 10})
	if err != nil {
		t.Fatal(err)
	}
	out := &damaged{files: map[string][]byte{}}
	if out.journals, err = newJournals(ctx, d, 2); err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(11, 12))
	for i := range 80 {
		if err := out.journals[i%2].write(ctx, d, rng); err != nil {
			t.Fatal(err)
		}
	}
	var left vfs.FS = fs
	if !closed {
		left = fs.CrashClone(vfs.CrashCloneCfg{})
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	readAll(t, left, "data", out.files)
	return out
}

func readAll(t *testing.T, fs vfs.FS, dir string, into map[string][]byte) {
	t.Helper()
	names, err := fs.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		name = path.Join(dir, name)
		if info, err := fs.Stat(name); err != nil {
			t.Fatal(err)
		} else if info.IsDir() {
			readAll(t, fs, name, into)
			continue
		}
		f, err := fs.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(f)
		if err != nil {
			t.Fatal(err)
		}
		f.Close()
		into[name] = b
	}
}

// with returns a file system with the files, one of them replaced; nil removes
// it.
func (d *damaged) with(t *testing.T, name string, content []byte) vfs.FS {
	t.Helper()
	fs := vfs.NewMem()
	for n, b := range d.files {
		if n == name {
			if b = content; b == nil {
				continue
			}
		}
		if err := fs.MkdirAll(path.Dir(n), 0o700); err != nil {
			t.Fatal(err)
		}
		f, err := fs.Create(n, vfs.WriteCategoryUnspecified)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Write(b); err != nil {
			t.Fatal(err)
		}
		f.Close()
	}
	return fs
}

// serves opens the folder and reads everything. It returns an error of ours or
// nil if all was right; behind says that acknowledged entries were missing
// without an error. Wrong data fail the test.
func (d *damaged) serves(t *testing.T, fs vfs.FS, what string) (err error, behind bool) {
	t.Helper()
	defer func() {
		if p := recover(); p != nil {
			t.Errorf("%s: panic: %v", what, p)
		}
	}()
	drv, err := pebble.Open("data", pebble.Options{FS: fs})
	if err != nil {
		return err, false
	}
	defer drv.Close()
	for _, j := range d.journals {
		log, err := storagetest.Verify(t.Context(), drv, j.ID)
		if err != nil {
			return err, false
		}
		for i, e := range log {
			if i >= len(j.acked) || e.Hash() != j.acked[i].Hash {
				t.Errorf("%s: entry %d is not what was written", what, i+1)
			}
		}
		behind = behind || len(log) < len(j.acked)
	}
	return readSecrets(t.Context(), drv, d.journals), behind
}

func readSecrets(ctx context.Context, d storage.Driver, journals []*journal) error {
	for _, j := range journals {
		for _, key := range []string{"a", "b"} {
			if _, err := d.Secret(ctx, j.ID, "key", key); err != nil && !errors.Is(err, storage.ErrNoDocument) {
				return err
			}
		}
	}
	return nil
}

func checkNamed(t *testing.T, err error, what string) {
	t.Helper()
	if err != nil && !errors.Is(err, storage.ErrDamaged) && !errors.Is(err, storage.ErrFormat) && !errors.Is(err, storage.ErrNoStore) {
		t.Errorf("%s: the error has no name: %v", what, err)
	}
}

// A flipped bit anywhere in a folder is a named error, or the data are right.
func TestFlippedBits(t *testing.T) {
	t.Parallel()
	const seed = 13
	for _, closed := range []bool{true, false} {
		d := makeDamaged(t, closed)
		rng := rand.New(rand.NewPCG(seed, 1))
		torn := 0
		found, harmless := map[string]int{}, map[string]int{}
		for name, content := range d.files {
			if len(content) == 0 {
				continue
			}
			for n := range 24 * worlds(t) {
				bit := rng.IntN(8 * len(content))
				if n == 0 {
					bit = 8*len(content) - 1
				}
				flipped := slices.Clone(content)
				flipped[bit/8] ^= 1 << (bit % 8)
				what := fmt.Sprintf("closed %v, bit %d of %s (%d bytes), seed %d", closed, bit, name, len(content), seed)
				err, behind := d.serves(t, d.with(t, name, flipped), what)
				checkNamed(t, err, what)
				if behind && err == nil && (!lastLog(d, name) || bit/8 < len(content)-2*logBlock) {
					t.Errorf("%s: acknowledged entries are missing without an error", what)
				}
				if behind && err == nil {
					torn++
				}
				if err != nil {
					found[path.Ext(name)]++
				} else {
					harmless[path.Ext(name)]++
				}
			}
		}
		t.Logf("closed %v: found %v, harmless %v, of them %d taken for a torn end", closed, found, harmless, torn)
	}
}

// logBlock is the block of Pebble's log; damage before the last one or two shows
// by what stands behind it.
const logBlock = 32 << 10

// lastLog says whether the file is the newest write-ahead log, whose torn end
// looks like that of a crash.
func lastLog(d *damaged, name string) bool {
	last := ""
	for n := range d.files {
		if strings.HasSuffix(n, ".log") && n > last {
			last = n
		}
	}
	return name == last
}

// A file that was cut short or removed is a named error, or the data are right.
// Only the newest write-ahead log of a folder that was not closed may lose its
// end unnoticed: a crash cuts it so, too.
func TestCutFiles(t *testing.T) {
	t.Parallel()
	for _, closed := range []bool{true, false} {
		d := makeDamaged(t, closed)
		for name, content := range d.files {
			cuts := []int{-1, 0, 1, len(content) / 2, len(content) - 1, len(content) - 7, len(content) * 3 / 4}
			for _, cut := range cuts {
				if cut >= len(content) || cut < -1 {
					continue
				}
				var left []byte
				if cut >= 0 {
					left = append([]byte{}, content[:cut]...)
				}
				what := fmt.Sprintf("closed %v, %s cut from %d to %d bytes", closed, name, len(content), cut)
				err, behind := d.serves(t, d.with(t, name, left), what)
				checkNamed(t, err, what)
				if behind && err == nil && (closed || !lastLog(d, name)) {
					t.Errorf("%s: acknowledged entries are missing without an error", what)
				}
			}
		}
	}
}
