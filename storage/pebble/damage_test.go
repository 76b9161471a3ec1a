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

// damaged is a folder whose files a test damages.
type damaged struct {
	files    map[string][]byte // content by name, before the damage
	journals []*journal        // what was written
}

// makeDamaged writes a folder with tables, a log and a manifest with several
// records. If closed is false, the folder is left as after a crash.
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

// with returns a file system with the files, but with other content of one of
// them. If content is nil, that file is missing.
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

// serves opens the folder and reads everything. It returns the first error. behind
// is true if acknowledged entries are missing and there was no error. Wrong data
// fails the test.
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
		t.Errorf("%s: the error is not one that the contract allows: %v", what, err)
	}
}

// After any bit of a folder is flipped, reading it either fails with a documented
// error, or returns the right data.
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
		t.Logf("closed %v: errors %v, no effect %v, of which %d look like the end of a log after a crash", closed, found, harmless, torn)
	}
}

// logBlock is the block size of Pebble's log. Damage before the last two blocks is
// noticed, because valid blocks follow.
const logBlock = 32 << 10

// lastLog reports whether a file is the newest write-ahead log. If its end is
// missing, that looks like a crash.
func lastLog(d *damaged, name string) bool {
	last := ""
	for n := range d.files {
		if strings.HasSuffix(n, ".log") && n > last {
			last = n
		}
	}
	return name == last
}

// After a file is cut or removed, reading the folder either fails with a documented
// error, or returns the right data. Only the end of the newest write-ahead log of
// a folder that was not closed can be missing without an error, because that also
// happens in a crash.
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
