package raftlog_test

import (
	"errors"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"google.golang.org/grpc"

	"github.com/ostiary/ostiary/internal/cluster/raftlog"
	"github.com/ostiary/ostiary/internal/workshop/wait"
)

// until calls do again and again in some goroutines until it fails. It returns a channel
// that is closed when all have ended.
func until(goroutines int, do func() error) <-chan struct{} {
	ended := make(chan struct{})
	var all sync.WaitGroup
	for range goroutines {
		all.Go(func() {
			for do() == nil {
			}
		})
	}
	go func() {
		defer close(ended)
		all.Wait()
	}()
	return ended
}

// closes closes node i, which must end, and so must calls. It returns the error of Close.
func (f *fleet) closes(i int, calls <-chan struct{}) (err error) {
	f.t.Helper()
	closed := make(chan error, 1)
	go func() { closed <- f.nodes[i].Close() }()
	select {
	case err = <-closed:
	case <-f.ctx().Done():
		f.t.Fatal("the node does not end")
	}
	select {
	case <-calls:
	case <-f.ctx().Done():
		f.t.Fatal("a call of the node that has ended is never answered")
	}
	return err
}

// TestCloseProposals closes a leader that has decided entries and not applied them: its
// consensus ends without an answer to them.
func TestCloseProposals(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 1)
	f.append(0, 1)
	n := f.nodes[0].Server
	goOn := raftlog.HoldMachine(n)
	var calls sync.WaitGroup
	for range 20 {
		before := raftlog.Committed(n)
		calls.Go(func() { _ = raftlog.Propose(n, map[string]any{"o": 9}) })
		wait.Until(t, "an entry is decided", func() bool { return raftlog.Committed(n) > before })
	}
	go func() {
		defer goOn()
		for !raftlog.Ended(n) {
			time.Sleep(time.Millisecond)
		}
	}()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		calls.Wait()
	}()
	if err := f.closes(0, ended); err != nil {
		t.Error(err)
	}
}

// TestCloseVerifications closes the leader while more calls ask whether it leads than its
// consensus has room for.
func TestCloseVerifications(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 3)
	f.append(0, 1)
	if err := f.closes(0, until(500, func() error { return raftlog.VerifyLeader(f.ctx(), f.nodes[0].Server) })); err != nil {
		t.Error(err)
	}
}

// TestCloseFullDisk closes a leader whose disk is full. The term of the next leader, which it
// cannot write, comes meanwhile.
func TestCloseFullDisk(t *testing.T) {
	t.Parallel()
	full, disk := fullDisk()
	f := newFleetOf(t, 3, steady, disk)
	f.append(0, 1)
	full.Store(true)
	ended := make(chan struct{})
	close(ended)
	// The node fails, unless it closes its database before it hears of the term.
	wants(t, errors.Join(f.closes(0, ended), f.nodes[0].Failed()), syscall.ENOSPC)
	f.nodes[0].server.Stop()
	f.nodes = f.nodes[1:]
}

// TestFullDiskTables lets a leader write entries, and no tables of its database: it fails by
// name, as it does when it cannot write entries. Its database would wait for ever.
func TestFullDiskTables(t *testing.T) {
	t.Parallel()
	var full, ended atomic.Bool
	fs := errorfs.Wrap(vfs.Default, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if ended.Load() && op.Kind.ReadOrWrite() == errorfs.OpIsWrite { // Close does not close the database
			return syscall.EIO
		}
		if full.Load() && op.Kind == errorfs.OpCreate && filepath.Ext(op.Path) == ".sst" {
			return syscall.ENOSPC
		}
		return nil
	}))
	f := newFleetOf(t, 1, steady, func(o *raftlog.Options) { raftlog.OnDisk(o, fs) })
	f.append(0, 1)
	full.Store(true)
	ctx := f.ctx()
	for f.nodes[0].Failed() == nil {
		if err := raftlog.ProposeWithin(ctx, f.nodes[0].Server, map[string]any{"o": 10, "d": make([]byte, 1<<20)}); err != nil && f.nodes[0].Failed() == nil {
			t.Fatalf("an entry fails: %v; the node does not", err)
		}
	}
	wants(t, f.nodes[0].Failed(), syscall.ENOSPC, "disk of the node's log")
	ended.Store(true)
	f.nodes[0].server.Stop()
	if err := f.nodes[0].Close(); err != nil {
		t.Error(err)
	}
	f.nodes = nil
}

// TestHungDisk lets the disk of the leader answer nothing any more, without an error. The leader
// fails by name, and the others go on.
func TestHungDisk(t *testing.T) {
	t.Parallel()
	var hangs atomic.Bool
	answers := make(chan struct{})
	fs := errorfs.Wrap(vfs.Default, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if hangs.Load() && op.Kind.ReadOrWrite() == errorfs.OpIsWrite {
			<-answers
			return syscall.EIO // Close does not close the database
		}
		return nil
	}))
	f := newFleetOf(t, 3, time.Second, func(o *raftlog.Options) {
		raftlog.OnDisk(o, fs)
		raftlog.WriteTimeMax(o, 5*time.Second)
	})
	f.append(0, 1)
	f.lead(0)
	hangs.Store(true)
	defer close(answers)
	head := f.append(1, 3)
	wait.Until(t, "the node fails", func() bool { return f.nodes[0].Failed() != nil })
	if err := f.nodes[0].Failed(); !strings.Contains(err.Error(), "a write has not ended within 5s") {
		t.Errorf("the node fails with %v", err)
	}
	f.nodes[0].server.Stop()
	if err := f.nodes[0].Close(); err != nil {
		t.Error(err)
	}
	f.nodes = f.nodes[1:]
	f.check(1, head)
}

// TestCloseWhileParts closes a node while another one takes the parts of its snapshot, slowly.
func TestCloseWhileParts(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 3)
	head := f.append(0, 2)
	const parts = 20
	all := func(yield func([]byte, error) bool) {
		for range parts {
			if !yield(make([]byte, 1<<20), nil) {
				return
			}
		}
	}
	if err := f.nodes[1].Log().PutSnapshot(f.ctx(), head, all); err != nil {
		t.Fatal(err)
	}
	_, found, err := f.nodes[2].Log().Snapshot(f.ctx())
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, err = range found {
		if err != nil {
			break
		}
		if n++; n == 1 {
			if err := f.nodes[1].Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err == nil {
		t.Errorf("%d parts of %d came from a node that has ended", n, parts)
	}
}

// silence takes connections at the address of a node that was stopped, and answers nothing, as
// a node does whose machine was halted.
func (f *fleet) silence(m *member) {
	f.t.Helper()
	l, err := net.Listen("tcp", m.address)
	if err != nil {
		f.t.Fatal(err)
	}
	done := make(chan struct{})
	server := grpc.NewServer(grpc.UnknownServiceHandler(func(any, grpc.ServerStream) error { <-done; return nil }))
	go server.Serve(l)
	f.t.Cleanup(func() {
		close(done)
		server.Stop()
	})
}

// TestLeaderSilent asks the leader when it does not answer any more. The calls go on with the
// next leader, and not when the connection is given up.
func TestLeaderSilent(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 3)
	f.append(0, 1)
	f.lead(0)
	head := f.append(1, 1)
	if err := raftlog.EndConsensus(f.nodes[0].Server); err != nil {
		t.Fatal(err)
	}
	f.nodes[0].server.Stop()
	f.silence(f.nodes[0])
	// The node knows the leader until it has not heard from it for some time.
	log := f.nodes[1].Log()
	defer log.Close()
	if have, err := log.Head(f.ctx()); err != nil || have != head {
		t.Fatalf("the head is %s, error %v; want %s", have, err, head)
	}
}

// TestTransferAgain makes a leader hand the lead to a node that takes connections and does not
// answer, twice. Entries go on.
func TestTransferAgain(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 3)
	f.append(0, 1)
	f.lead(0)
	silent := f.nodes[2]
	f.stop(2)
	f.silence(silent)
	f.append(0, 1) // the silent node does not have it
	to := raftlog.Member{ID: silent.ID(), Address: silent.address, Voter: true}
	if err := raftlog.Transfer(f.ctx(), f.nodes[0].Server, to); err == nil {
		t.Fatal("a node that does not answer has taken the lead over")
	}
	if err := raftlog.Transfer(f.ctx(), f.nodes[0].Server, to); err == nil || !strings.Contains(err.Error(), "another attempt is made after") {
		t.Errorf("the second attempt fails with %v", err)
	}
	f.append(0, 1)
	// No entries are taken while the node is asked.
	if err := raftlog.TimeoutNow(f.nodes[0].Server, to); err == nil || !strings.Contains(err.Error(), "did not answer within 2s") {
		t.Errorf("asking a node that does not answer fails with %v", err)
	}
	f.nodes = f.nodes[:2]
}
