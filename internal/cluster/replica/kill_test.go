package replica_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/ostiary/ostiary/internal/cluster/clustertest"
	"github.com/ostiary/ostiary/internal/cluster/replica"
	"github.com/ostiary/ostiary/internal/cluster/sharedlog/memorylog"
	"github.com/ostiary/ostiary/storage"
	"github.com/ostiary/ostiary/storage/pebble"
	"github.com/ostiary/ostiary/storage/storagetest"
)

// If these environment variables are set, the test binary is a node with a copy in a
// folder, over the log at an address, that writes until it is killed.
const (
	killedDir     = "OSTIARY_TEST_KILLED_DIR"
	killedAddress = "OSTIARY_TEST_KILLED_ADDRESS"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(killedDir); dir != "" {
		fmt.Fprintln(os.Stderr, writeUntilKilled(context.Background(), dir, os.Getenv(killedAddress)))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

const (
	killedStores  = 3
	killedWriters = 2 // concurrent writers of each store
)

// killedOptions make a node sync, store snapshots and trim the log often.
var killedOptions = replica.Options{ReportInterval: 20 * time.Millisecond, SnapshotBytes: 256 << 10}

// writeUntilKilled prints a line for each acknowledged entry.
func writeUntilKilled(ctx context.Context, dir, address string) error {
	log, err := memorylog.Dial(ctx, address)
	if err != nil {
		return err
	}
	local, err := pebble.Open(dir, pebble.Options{Copy: true, NoSync: true, MemTableBytes: 64 << 10, FS: volatileFS{vfs.Default}})
	if err != nil {
		return err
	}
	d, err := clustertest.OpenReplica(ctx, log, local, killedOptions)
	if err != nil {
		return err
	}
	var writers sync.WaitGroup
	failed := make(chan error, killedStores*killedWriters)
	for n := range uint32(killedStores) {
		l := storagetest.NewLog(n + 1)
		err := d.CreateStore(ctx, storage.StoreInfo{ID: l.ID, Incarnation: l.Incarnation, Name: fmt.Sprint(n)})
		if err != nil && !errors.Is(err, storage.ErrExists) {
			return err
		}
		for w := range killedWriters {
			writers.Go(func() { failed <- writeStore(ctx, d, n+1, w) })
		}
	}
	return <-failed
}

func writeStore(ctx context.Context, d storage.Driver, n uint32, writer int) error {
	l := storagetest.NewLog(n)
	l.Writer[1] = byte(writer)
	rng := rand.New(rand.NewPCG(uint64(n), uint64(writer)))
	for {
		err := l.Append(ctx, d, storagetest.RandomChanges(rng, 1+rng.IntN(20))...)
		var conflict *storage.ConflictError
		if errors.As(err, &conflict) {
			l.Head = conflict.Head
			continue
		}
		if err != nil {
			return err
		}
		// Each line is one write, so that lines of different writers do not mix.
		fmt.Printf("%d %d %s\n", n, l.Head.Revision, l.Head.Hash)
	}
}

// volatileFS is a file system that keeps what was not synced in the memory of the
// process, so that a kill loses it.
type volatileFS struct{ vfs.FS }

func (fs volatileFS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := fs.FS.Create(name, category)
	return volatile(f), err
}

func (fs volatileFS) OpenReadWrite(name string, category vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	f, err := fs.FS.OpenReadWrite(name, category, opts...)
	return volatile(f), err
}

func (fs volatileFS) ReuseForWrite(oldname, newname string, category vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := fs.FS.ReuseForWrite(oldname, newname, category)
	return volatile(f), err
}

// volatileFile has the bytes that were written after the last sync.
type volatileFile struct {
	vfs.File
	mu      sync.Mutex
	pending []byte
}

func volatile(f vfs.File) vfs.File {
	if f == nil {
		return nil
	}
	return &volatileFile{File: f}
}

func (f *volatileFile) Write(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.pending = append(f.pending, p...)
	return len(p), nil
}

// keep writes the pending bytes to the file. A kill does not lose what a file has, so
// nothing more is needed.
func (f *volatileFile) keep() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, err := f.File.Write(f.pending)
	f.pending = nil
	return err
}

func (f *volatileFile) Sync() error                 { return f.keep() }
func (f *volatileFile) SyncData() error             { return f.keep() }
func (f *volatileFile) SyncTo(int64) (bool, error)  { return false, nil } // it promises nothing
func (f *volatileFile) Close() error                { return errors.Join(f.keep(), f.File.Close()) }
func (f *volatileFile) Stat() (vfs.FileInfo, error) { return f.File.Stat() }

func (f *volatileFile) WriteAt(p []byte, at int64) (int, error) {
	if err := f.keep(); err != nil {
		return 0, err
	}
	return f.File.WriteAt(p, at)
}

func (f *volatileFile) Read(p []byte) (int, error) {
	if err := f.keep(); err != nil {
		return 0, err
	}
	return f.File.Read(p)
}

func (f *volatileFile) ReadAt(p []byte, at int64) (int, error) {
	if err := f.keep(); err != nil {
		return 0, err
	}
	return f.File.ReadAt(p, at)
}

// TestKilledNode kills a node under load, which loses what it has not synced. The copy
// that remains must be a state that the log had, and the node must get the rest from
// the log. No acknowledged entry is missing. OSTIARY_KILLS sets the number of kills, and
// OSTIARY_SEED when they happen.
func TestKilledNode(t *testing.T) {
	t.Parallel()
	kills, seed := envInt(t, "OSTIARY_KILLS", 4), uint64(envInt(t, "OSTIARY_SEED", int(time.Now().UnixNano())))
	t.Logf("OSTIARY_KILLS=%d OSTIARY_SEED=%d", kills, seed)
	tables := memorylog.New()
	served, err := tables.Serve("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer served.Close()
	dir, rng := t.TempDir(), rand.New(rand.NewPCG(seed, 1))
	total, lost := 0, 0
	for round := range kills {
		acked := runAndKill(t, dir, served.Address(), 20+rng.IntN(300))
		total += len(acked)
		before := copyHeads(t, dir)
		local, err := pebble.Open(dir, pebble.Options{Copy: true, NoSync: true})
		if err != nil {
			t.Fatalf("kill %d: %v", round+1, err)
		}
		d, err := clustertest.OpenReplica(t.Context(), tables.Open(), local, replica.Options{SnapshotBytes: -1})
		if err != nil {
			t.Fatalf("kill %d: %v", round+1, err)
		}
		for n := range uint32(killedStores) {
			log, err := storagetest.Verify(t.Context(), d, storagetest.NewLog(n+1).ID)
			if err != nil {
				t.Fatalf("kill %d: after the node has followed: %v", round+1, err)
			}
			// What the copy had without the log is a prefix.
			if b := before[n]; b.Revision > 0 && (int(b.Revision) > len(log) || log[b.Revision-1].Hash() != b.Hash) {
				t.Fatalf("kill %d: the copy of store %d ended at revision %d with the hash %s, which the log does not have", round+1, n+1, b.Revision, b.Hash)
			}
			lost += len(log) - int(before[n].Revision)
			mustHave(t, n+1, log, acked)
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d acknowledged entries; the copy lacked %d entries after the kills", total, lost)
	if lost == 0 {
		t.Error("no kill lost a part of the copy")
	}
}

// copyHeads verifies the copy in a folder as it is, without the log, and returns the
// heads of its stores.
func copyHeads(t *testing.T, dir string) (heads [killedStores]storage.Head) {
	t.Helper()
	local, err := pebble.Open(dir, pebble.Options{Copy: true, NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	defer local.Close()
	for n := range uint32(killedStores) {
		id := storagetest.NewLog(n + 1).ID
		_, err := storagetest.Verify(t.Context(), local, id)
		if errors.Is(err, storage.ErrNoStore) {
			continue
		}
		if err == nil {
			heads[n], err = local.Head(t.Context(), id)
		}
		if err != nil {
			t.Fatalf("the copy of store %d without the log: %v", n+1, err)
		}
	}
	return heads
}

// mustHave requires that the log of a store has the entries that were acknowledged.
func mustHave(t *testing.T, n uint32, log []storage.Entry, acked []string) {
	t.Helper()
	for _, line := range acked {
		var store uint32
		var revision int
		var hash string
		if _, err := fmt.Sscan(line, &store, &revision, &hash); err != nil {
			t.Fatalf("line %q: %v", line, err)
		}
		if store == n && (revision > len(log) || log[revision-1].Hash().String() != hash) {
			t.Fatalf("acknowledged entry %d of store %d is missing", revision, n)
		}
	}
}

// runAndKill starts a node in a process, kills it after a number of lines, and returns
// all complete lines that it printed.
func runAndKill(t *testing.T, dir, address string, lines int) (acked []string) {
	t.Helper()
	child := exec.Command(os.Args[0], "-test.run=^$")
	child.Env = append(os.Environ(), killedDir+"="+dir, killedAddress+"="+address)
	var stderr strings.Builder
	child.Stderr = &stderr
	out, err := child.StdoutPipe()
	if err == nil {
		err = child.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReader(out)
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			break // the last line is incomplete
		}
		acked = append(acked, strings.TrimSpace(line))
		if len(acked) == lines {
			if err := child.Process.Kill(); err != nil {
				t.Error(err)
			}
		}
	}
	child.Wait() // its error is that it was killed
	if len(acked) < lines {
		t.Fatalf("the node ended after %d lines: %s", len(acked), stderr.String())
	}
	return acked
}

// envInt returns the number in an environment variable, or a default.
func envInt(t *testing.T, name string, missing int) int {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return missing
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("%s=%q: expected a positive number", name, text)
	}
	return n
}
