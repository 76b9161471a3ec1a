package pebble_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/ostiary/ostiary/storage"
	"github.com/ostiary/ostiary/storage/pebble"
	"github.com/ostiary/ostiary/storage/storagetest"
)

// small returns options with which Pebble flushes and compacts all the time.
func small(fs vfs.FS) pebble.Options {
	return pebble.Options{FS: fs, MemTableBytes: 64 << 10, CacheBytes: 1 << 20}
}

// journal records what the writer of a store knows about its log.
type journal struct {
	*storagetest.Log
	mu    sync.Mutex
	acked []storage.Head // entries that were acknowledged, in order
	asked storage.Head   // the last entry for which Append was called
}

// write appends one random entry and records the outcome.
func (j *journal) write(ctx context.Context, d storage.Driver, rng *rand.Rand) error {
	e := j.Entry(j.Head, storagetest.RandomChanges(rng, 1+rng.IntN(30))...)
	j.mu.Lock()
	j.asked = storage.Head{Revision: e.Revision, Hash: e.Hash(), Time: e.Time}
	j.mu.Unlock()
	head, err := d.Append(ctx, j.ID, j.Head, []storage.Entry{e}, nil)
	if err != nil {
		j.Sequence--
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.Head = head
	j.acked = append(j.acked, head)
	return nil
}

// promise is a copy of a journal at one time.
type promise struct {
	acked []storage.Head
	asked storage.Head
}

func (j *journal) promise() promise {
	j.mu.Lock()
	defer j.mu.Unlock()
	return promise{j.acked[:len(j.acked):len(j.acked)], j.asked}
}

// kept checks a store after a crash between two promises. It must have all entries
// that were acknowledged before the crash, and no entries but those that were
// written before or during it. Its state must follow from its log.
func kept(ctx context.Context, d storage.Driver, id storage.StoreID, before, after promise) error {
	log, err := storagetest.Verify(ctx, d, id)
	if err != nil {
		return err
	}
	if len(log) < len(before.acked) {
		return fmt.Errorf("store %s: %d entries were acknowledged, but it has only %d", id, len(before.acked), len(log))
	}
	known := after.acked
	if n := len(known); after.asked.Revision == storage.Revision(n+1) {
		known = append(known[:n:n], after.asked)
	}
	if len(log) > len(known) {
		return fmt.Errorf("store %s: %d entries were written, but it has %d", id, len(known), len(log))
	}
	for i, e := range log {
		if e.Hash() != known[i].Hash {
			return fmt.Errorf("store %s: entry %d is not what was written", id, i+1)
		}
	}
	return nil
}

func newJournals(ctx context.Context, d storage.Driver, n uint32) ([]*journal, error) {
	var out []*journal
	for i := range n {
		j := &journal{Log: storagetest.NewLog(i + 1)}
		if err := d.CreateStore(ctx, storage.StoreInfo{ID: j.ID, Incarnation: j.Incarnation}); err != nil {
			return nil, err
		}
		out = append(out, j)
	}
	return out, nil
}

// A crash that drops any part of the data that was not synced does not lose an
// acknowledged entry, and does not leave a part of an entry. OSTIARY_WORLDS
// multiplies the number of crashes.
func TestCrashDropsUnsyncedData(t *testing.T) {
	t.Parallel()
	const seed = 7
	crashes := 20 * worlds(t)
	t.Logf("seed %d", seed)
	ctx := t.Context()
	fs := vfs.NewCrashableMem()
	d, err := pebble.Open("data", small(fs))
	if err != nil {
		t.Fatal(err)
	}
	journals, err := newJournals(ctx, d, 3)
	if err != nil {
		t.Fatal(err)
	}
	var stop atomic.Bool
	var writers sync.WaitGroup
	var written atomic.Int64
	for i, j := range journals {
		rng := rand.New(rand.NewPCG(seed, uint64(i)))
		writers.Go(func() {
			for !stop.Load() && written.Load() < int64(50*crashes) {
				if err := j.write(ctx, d, rng); err != nil {
					t.Errorf("append: %v", err)
					return
				}
				written.Add(1)
			}
		})
	}
	rng := rand.New(rand.NewPCG(seed, 99))
	for n := range crashes {
		percent := []int{0, 50, 100, 10}[n%4]
		before := promises(journals)
		clone := fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: rng})
		checkAfterCrash(t, clone, journals, before, promises(journals), fmt.Sprintf("crash %d, %d %% of the unsynced data kept", n, percent))
	}
	stop.Store(true)
	writers.Wait()
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	last := promises(journals)
	checkAfterCrash(t, fs.CrashClone(vfs.CrashCloneCfg{}), journals, last, last, "after Close")
	t.Logf("%d entries written, %d crashes", written.Load(), crashes)
}

// worlds returns the factor by which OSTIARY_WORLDS makes a random test longer.
func worlds(t *testing.T) int {
	t.Helper()
	text := os.Getenv("OSTIARY_WORLDS")
	if text == "" {
		return 1
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("OSTIARY_WORLDS is %q, expected a positive number", text)
	}
	return n
}

func promises(journals []*journal) (out []promise) {
	for _, j := range journals {
		out = append(out, j.promise())
	}
	return out
}

// checkAfterCrash opens the folder after a crash, checks each store, and appends to
// it.
func checkAfterCrash(t *testing.T, fs vfs.FS, journals []*journal, before, after []promise, what string) {
	t.Helper()
	d, err := pebble.Open("data", small(fs))
	if err != nil {
		t.Errorf("%s: %v", what, err)
		return
	}
	for i, j := range journals {
		err := kept(t.Context(), d, j.ID, before[i], after[i])
		if err == nil {
			err = writesOn(t.Context(), d, j.Log)
		}
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := d.Close(); err != nil {
		t.Errorf("%s: closing: %v", what, err)
	}
}

// writesOn appends an entry to a store.
func writesOn(ctx context.Context, d storage.Driver, l *storagetest.Log) error {
	l = &storagetest.Log{ID: l.ID, Incarnation: l.Incarnation}
	var err error
	if l.Head, err = d.Head(ctx, l.ID); err != nil {
		return err
	}
	return l.Append(ctx, d, storagetest.RandomChanges(rand.New(rand.NewPCG(1, 1)), 5)...)
}

// Each operation of the file system fails in turn: once alone, and once together
// with all later operations. After opening the folder again, all acknowledged
// entries exist. The test opens either the files as they are, or files with synced
// data only, by turns; with OSTIARY_WORLDS above 1 it opens both.
func TestEveryOperationFails(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"once", "from then on"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			n := 1
			for ; ; n++ {
				if !failNth(t, n, mode == "from then on") {
					break
				}
				if t.Failed() {
					t.Fatalf("operation %d", n)
				}
			}
			t.Logf("%d operations failed in turn", n-1)
		})
	}
}

// failNth runs faultScript with the n-th operation failing. It returns false if
// the script has fewer operations.
func failNth(t *testing.T, n int, onwards bool) (injected bool) {
	t.Helper()
	base := vfs.NewCrashableMem()
	var count atomic.Int64
	var off atomic.Bool
	fs := errorfs.Wrap(base, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if off.Load() || op.Kind == errorfs.OpFileClose {
			return nil
		}
		if at := count.Add(1); at == int64(n) || onwards && at > int64(n) {
			if op.Kind.ReadOrWrite() == errorfs.OpIsRead {
				return syscall.EIO
			}
			return syscall.ENOSPC
		}
		return nil
	}))
	journals := faultScript(t, fs)
	injected = count.Load() >= int64(n)
	off.Store(true)
	last := promises(journals)
	percents := []int{n % 2 * 100}
	if worlds(t) > 1 {
		percents = []int{0, 100}
	}
	for _, percent := range percents {
		clone := base.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: rand.New(rand.NewPCG(1, 2))})
		checkAfterCrash(t, clone, journals, last, last, fmt.Sprintf("operation %d failed, %d %% of the unsynced data kept", n, percent))
	}
	return injected
}

// faultScript opens, writes, reads, trims and closes. It continues after errors as
// long as the driver allows it.
func faultScript(t *testing.T, fs vfs.FS) (journals []*journal) {
	t.Helper()
	ctx := t.Context()
	d, err := pebble.Open("data", pebble.Options{FS: fs, MemTableBytes: 16 << 10, CacheBytes: 1 << 20})
	if err != nil {
		return nil
	}
	defer d.Close() // its error is an injected one
	rng := rand.New(rand.NewPCG(3, 4))
	for i := range uint32(2) {
		j := &journal{Log: storagetest.NewLog(i + 1)}
		if err := d.CreateStore(ctx, storage.StoreInfo{ID: j.ID, Incarnation: j.Incarnation}); err != nil {
			return journals
		}
		journals = append(journals, j)
	}
	for i := range 24 {
		j := journals[i%2]
		err := j.write(ctx, d, rng)
		var conflict *storage.ConflictError
		switch {
		case errors.As(err, &conflict):
			t.Errorf("write %d: a conflict, although Head was read after the failed write before: %v", i, err)
		case err != nil:
			// The outcome is unknown until the head can be read again.
			head, err := d.Head(ctx, j.ID)
			if err != nil {
				return journals
			}
			if head != j.Head {
				j.acked = append(j.acked, head)
				j.Head = head
			}
		}
		if i == 16 {
			storagetest.Verify(ctx, d, j.ID)
			d.Trim(ctx, j.ID, 1, 0)
		}
	}
	return journals
}

// fillable returns a file system over base, and a function after whose call the nth
// write and all later ones fail, because the disk is full; 0 makes none fail.
func fillable(base vfs.FS) (_ vfs.FS, fill func(nth int64)) {
	var from, writes atomic.Int64
	fs := errorfs.Wrap(base, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind == errorfs.OpFileClose || op.Kind.ReadOrWrite() != errorfs.OpIsWrite {
			return nil
		}
		if nth := from.Load(); nth > 0 && writes.Add(1) >= nth {
			return syscall.ENOSPC
		}
		return nil
	}))
	return fs, func(nth int64) {
		writes.Store(0)
		from.Store(nth)
	}
}

// A write to a full disk fails with the error of the operating system. After it
// all calls fail until the folder is opened again. All acknowledged entries exist
// then.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	base := vfs.NewMem()
	fs, fill := fillable(base)
	d, err := pebble.Open("data", small(fs))
	if err != nil {
		t.Fatal(err)
	}
	journals, err := newJournals(ctx, d, 1)
	if err != nil {
		t.Fatal(err)
	}
	j, rng := journals[0], rand.New(rand.NewPCG(5, 6))
	for range 20 {
		if err := j.write(ctx, d, rng); err != nil {
			t.Fatal(err)
		}
	}
	fill(1)
	if err := j.write(ctx, d, rng); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("a write to a full disk: error %v, want ENOSPC", err)
	}
	if err := j.write(ctx, d, rng); !errors.Is(err, pebble.ErrFailed) || !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("a second write: error %v, want ErrFailed and ENOSPC", err)
	}
	if err := d.Failed(); !errors.Is(err, pebble.ErrFailed) {
		t.Fatal(err)
	}
	if _, err := d.Head(ctx, j.ID); !errors.Is(err, pebble.ErrFailed) {
		t.Errorf("a read after the failed write: error %v, want ErrFailed", err)
	}
	if err := d.Close(); !errors.Is(err, pebble.ErrFailed) {
		t.Errorf("Close: error %v, want ErrFailed", err)
	}
	fill(0)
	checkAfterCrash(t, base, journals, promises(journals), promises(journals), "after a full disk")
}

// Opening a folder on a full disk fails with the error of the operating system, whichever
// write of Open is the first that fails. Later the folder opens with its entries.
func TestOpenOnFullDisk(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	base := vfs.NewMem()
	fs, fill := fillable(base)
	d, err := pebble.Open("data", small(fs))
	if err != nil {
		t.Fatal(err)
	}
	journals, err := newJournals(ctx, d, 1)
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(7, 8))
	for range 20 {
		if err := journals[0].write(ctx, d, rng); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	for n := int64(1); ; n++ {
		fill(n)
		d, err := pebble.Open("data", small(fs))
		fill(0)
		if err == nil {
			d.Close()
			t.Logf("%d writes", n-1)
			break
		}
		if !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("write %d fails: error %v, want ENOSPC", n, err)
		}
	}
	checkAfterCrash(t, base, journals, promises(journals), promises(journals), "after a full disk")
}

// TestCrashAtFirstOpen loses what is not on disk right after a folder was made: whatever
// its writes wait for, it opens again.
func TestCrashAtFirstOpen(t *testing.T) {
	t.Parallel()
	for _, opts := range []pebble.Options{{}, {NoSync: true}, {NoSync: true, Copy: true}} {
		fs := vfs.NewCrashableMem()
		opts.FS = fs
		d, err := pebble.Open("data", opts)
		if err != nil {
			t.Fatal(err)
		}
		opts.FS = fs.CrashClone(vfs.CrashCloneCfg{})
		if err := d.Close(); err != nil {
			t.Error(err)
		}
		again, err := pebble.Open("data", opts)
		if err != nil {
			t.Errorf("without sync %t, a copy %t: %v", opts.NoSync, opts.Copy, err)
			continue
		}
		if err := again.Close(); err != nil {
			t.Error(err)
		}
	}
}
