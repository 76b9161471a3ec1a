package raftlog_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/ostiary/ostiary/internal/cluster/raftlog"
	"github.com/ostiary/ostiary/internal/cluster/sharedlog"
	"github.com/ostiary/ostiary/storage"
)

// TestPartition cuts the leader off from the two other nodes, and appends on both sides:
// only the majority succeeds, and after the cut ends the attempt of the other side never
// appears.
func TestPartition(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 3)
	head := f.append(0, 5)
	leads := 0
	for !f.nodes[leads].Leader() {
		leads = (leads + 1) % 3
		time.Sleep(time.Millisecond) // an election may be under way
	}
	f.cut(leads)
	old := f.nodes[leads].Log()
	defer old.Close()
	lost := barrier(t, head, 9)
	if err := old.Append(f.within(3*time.Second), head, lost, nil); err == nil {
		t.Fatal("a node without a majority has appended")
	}
	after := f.append((leads+1)%3, 5)
	if _, err := old.Head(f.within(2 * time.Second)); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("a node that is cut off reads the log: %v", err)
	}
	f.cut(-1)
	f.check(1, after)
	var conflict *sharedlog.ConflictError
	if err := old.Append(f.ctx(), head, lost, nil); !errors.As(err, &conflict) || conflict.Head != after {
		t.Fatalf("the attempt again: error %v, want a conflict at %s", err, after)
	}
	f.check(1, f.append(leads, 1))
}

// TestSnapshotNotRestored ends a node that has got a snapshot of the consensus, before its
// database has what the snapshot has. The next start restores it.
func TestSnapshotNotRestored(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 3)
	f.check(1, f.append(0, 5))
	f.stop(2)
	entries := filepath.Join(f.nodes[2].folder, "entries")
	before := filepath.Join(f.dir, "before")
	if err := os.CopyFS(before, os.DirFS(entries)); err != nil {
		t.Fatal(err)
	}
	head := f.append(0, 100)
	for _, m := range f.nodes[:2] {
		if err := raftlog.DropEntries(m.Server); err != nil {
			t.Fatal(err)
		}
	}
	f.start(2, f.nodes[2].address)
	f.check(1, head)
	f.stop(2)
	if err := errors.Join(os.RemoveAll(entries), os.Rename(before, entries)); err != nil {
		t.Fatal(err)
	}
	f.start(2, f.nodes[2].address)
	f.check(1, head)
	f.check(1, f.append(2, 1))
}

// TestRestoreCut ends a node while it restores a snapshot of the consensus, of which it has a
// part in its database. The next start restores all of it.
func TestRestoreCut(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 1)
	l := f.nodes[0].Log()
	defer l.Close()
	body := bytes.Repeat([]byte("secret"), 10_000)
	var all []sharedlog.SecretChange
	for i := range 100 { // more than one batch of a restoration
		key := sharedlog.SecretKey{Store: storage.StoreID{1}, Kind: "secret", Key: fmt.Sprint(i)}
		all = append(all, sharedlog.SecretChange{SecretKey: key, Digest: sha256.Sum256(body), Body: body})
	}
	if err := l.Restore(f.ctx(), sharedlog.Position{}, sharedlog.Position{}, all); err != nil {
		t.Fatal(err)
	}
	head := f.append(0, 3)
	if err := raftlog.DropEntries(f.nodes[0].Server); err != nil {
		t.Fatal(err)
	}
	f.stop(0)
	if err := raftlog.CutRestore(f.nodes[0].folder); err != nil {
		t.Fatal(err)
	}
	f.start(0, f.nodes[0].address)
	f.check(1, head)
	l = f.nodes[0].Log()
	for i := range all {
		if _, err := l.Secret(f.ctx(), all[i].SecretKey, all[i].Digest); err != nil {
			t.Fatalf("secret %d: %v", i, err)
		}
	}
}

// fullDisk returns options of a node whose disk is full once full is set.
func fullDisk() (full *atomic.Bool, change func(*raftlog.Options)) {
	full = &atomic.Bool{}
	fs := errorfs.Wrap(vfs.Default, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if full.Load() && op.Kind.ReadOrWrite() == errorfs.OpIsWrite {
			return syscall.ENOSPC
		}
		return nil
	}))
	return full, func(o *raftlog.Options) { raftlog.OnDisk(o, fs) }
}

// TestFullDisk fills the disk of one node of three, the leader: it takes part no longer,
// by name, and the others go on without what it could not write.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	full, disk := fullDisk()
	f := newFleetOf(t, 3, time.Second, disk)
	head := f.append(0, 5)
	f.check(1, head)
	full.Store(true)
	l := f.nodes[0].Log()
	defer l.Close()
	for end := time.Now().Add(time.Minute); f.nodes[0].Failed() == nil && time.Now().Before(end); {
		f.append(1, 1) // each is an entry of the full disk
	}
	wants(t, f.nodes[0].Failed(), syscall.ENOSPC, "disk of the node's log")
	if _, err := l.Head(f.ctx()); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("the node reads its log: %v", err)
	}
	f.nodes[0].server.Stop()
	if err := f.nodes[0].Close(); err != nil {
		t.Error(err)
	}
	f.nodes = f.nodes[1:]
	f.check(1, f.append(1, 3))
}
