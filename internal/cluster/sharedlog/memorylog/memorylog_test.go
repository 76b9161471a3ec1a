package memorylog_test

import (
	"context"
	"errors"
	"testing"

	"github.com/ostiary/ostiary/internal/cluster/sharedlog"
	"github.com/ostiary/ostiary/internal/cluster/sharedlog/memorylog"
	"github.com/ostiary/ostiary/internal/cluster/sharedlog/sharedlogtest"
	"github.com/ostiary/ostiary/storage"
)

// connection implements sharedlogtest.Corrupter.
type connection struct {
	*memorylog.Log
	*memorylog.Tables
}

func TestLog(t *testing.T) {
	t.Parallel()
	sharedlogtest.Run(t, func(t *testing.T) sharedlogtest.Opener {
		tables := memorylog.New()
		return func() (sharedlog.Log, error) { return connection{tables.Open(), tables}, nil }
	})
}

// TestRemote runs the suite of logs on connections to a server.
func TestRemote(t *testing.T) {
	t.Parallel()
	sharedlogtest.Run(t, func(t *testing.T) sharedlogtest.Opener {
		s, err := memorylog.New().Serve("127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		return func() (sharedlog.Log, error) { return memorylog.Dial(t.Context(), s.Address()) }
	})
}

// TestWithNext runs the suite of logs on one that may be moved, and on one that was.
func TestWithNext(t *testing.T) {
	t.Parallel()
	nothing := func() {}
	t.Run("before", func(t *testing.T) {
		t.Parallel()
		sharedlogtest.Run(t, func(*testing.T) sharedlogtest.Opener {
			tables, next := memorylog.New(), memorylog.New()
			return func() (sharedlog.Log, error) { return sharedlog.WithNext(tables.Open(), next.Open(), nothing), nil }
		})
	})
	for name, format := range map[string]uint32{"after": sharedlog.FormatMoved, "after a mover that died at its end": 0} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sharedlogtest.Run(t, func(t *testing.T) sharedlogtest.Opener {
				tables, next := memorylog.New(), memorylog.New()
				move(t, tables.Open(), format)
				return func() (sharedlog.Log, error) {
					l := sharedlog.WithNext(tables.Open(), next.Open(), nothing)
					_, err := l.Cluster(t.Context())
					return l, err
				}
			})
		})
	}
}

// move makes a new log one that was moved, with a format in its description.
func move(t *testing.T, l sharedlog.Log, format uint32) {
	t.Helper()
	err := l.SwapCluster(t.Context(), sharedlog.Cluster{}, sharedlog.Cluster{ID: sharedlog.ClusterID{1}, Format: format})
	if err == nil {
		err = l.SwapLease(t.Context(), sharedlog.Lease{}, sharedlog.Lease{Holder: sharedlog.Mover(), Epoch: 1}.MovedFrom())
	}
	if err != nil {
		t.Fatal(err)
	}
}

// replicated is a log that reads from a replica, as the log of a database does.
type replicated struct {
	sharedlog.Log
	used uint64
}

func (l replicated) Replica() (sharedlog.ReplicaStatus, bool) {
	return sharedlog.ReplicaStatus{Used: l.used}, true
}

// TestReplica reports the replica of the log that is used, before and after it is moved.
func TestReplica(t *testing.T) {
	t.Parallel()
	const none = 0
	for name, used := range map[string][2]uint64{"both": {1, 2}, "old": {1, none}, "next": {none, 2}, "neither": {none, none}} {
		open := func(used uint64) (*memorylog.Tables, sharedlog.Log) {
			tables := memorylog.New()
			if used == none {
				return tables, tables.Open()
			}
			return tables, replicated{tables.Open(), used}
		}
		tables, old := open(used[0])
		_, next := open(used[1])
		l := sharedlog.WithNext(old, next, func() {})
		for i, moved := range []bool{false, true} {
			if moved {
				move(t, tables.Open(), sharedlog.FormatMoved)
				if _, err := l.Cluster(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			r, is := l.(sharedlog.Replicated)
			if !is {
				t.Fatal("a log that may be moved reports no replica")
			}
			if s, has := r.Replica(); s.Used != used[i] || has != (used[i] != none) {
				t.Errorf("%s, moved %t: the replica has answered %d reads, exists %t; expected %d reads", name, moved, s.Used, has, used[i])
			}
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
}

// waiting is a log that signals that a call of Wait has begun.
type waiting struct {
	sharedlog.Log
	waits chan struct{}
}

func (w waiting) Wait(ctx context.Context, after uint64) error {
	w.waits <- struct{}{}
	return w.Log.Wait(ctx, after)
}

// TestSwitch moves a log while a connection waits. Every method uses the next one once the
// lease is the last one of the log, and not before.
func TestSwitch(t *testing.T) {
	t.Parallel()
	tables, next := memorylog.New(), memorylog.New()
	old, moves := tables.Open(), 0
	waits := make(chan struct{}, 1)
	l := sharedlog.WithNext(waiting{old, waits}, next.Open(), func() { moves++ })
	defer l.Close()
	described := sharedlog.Cluster{ID: sharedlog.ClusterID{1}, Format: 1}
	if err := old.SwapCluster(t.Context(), sharedlog.Cluster{}, described); err != nil {
		t.Fatal(err)
	}
	node := sharedlog.NodeRecord{ID: storage.NodeID{1}, Start: 3, Applied: 5, Synced: 5}
	if err := l.Register(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	gone := sharedlog.NodeRecord{ID: storage.NodeID{2}, Start: 1} // it is forgotten in both
	if err := errors.Join(l.Register(t.Context(), gone), l.Forget(t.Context(), gone.ID)); err != nil {
		t.Fatal(err)
	}
	if all, _, err := old.Nodes(t.Context()); err != nil || len(all) != 1 {
		t.Errorf("the log has nodes %+v, error %v", all, err)
	}
	lease := sharedlog.Lease{Holder: sharedlog.Mover(), Epoch: 1, Renewals: 1}
	if err := old.SwapLease(t.Context(), sharedlog.Lease{}, lease); err != nil {
		t.Fatal(err)
	}
	if have, err := l.Lease(t.Context()); err != nil || have != lease || moves != 0 {
		t.Errorf("before the move the lease is %+v, error %v, %d moves", have, err, moves)
	}
	waited := make(chan error, 1)
	go func() { waited <- l.Wait(t.Context(), 0) }()
	<-waits
	moved := described
	moved.Format = sharedlog.FormatMoved
	if err := old.SwapCluster(t.Context(), described, moved); err != nil {
		t.Fatal(err)
	}
	if have, err := l.Cluster(t.Context()); err != nil || have != moved || moves != 0 {
		t.Errorf("with a description that the mover may take back, it is %+v, error %v, %d moves", have, err, moves)
	}
	if err := old.SwapLease(t.Context(), lease, lease.MovedFrom()); err != nil {
		t.Fatal(err)
	}
	if have, err := l.Lease(t.Context()); err != nil || have != (sharedlog.Lease{}) || moves != 1 {
		t.Errorf("after the move the lease is %+v, error %v, %d moves", have, err, moves)
	}
	if err := <-waited; err != nil {
		t.Errorf("the connection that waited: %v", err)
	}
	all, _, err := l.Nodes(t.Context())
	if err != nil || len(all) != 1 || !all[0].Stopped || all[0].Start != 3 || all[0].Synced != 0 {
		t.Errorf("the next log has nodes %+v, error %v", all, err)
	}
	if err := l.Report(t.Context(), node); err != nil {
		t.Error(err)
	}
	if head, err := l.Head(t.Context()); err != nil || head.Sequence != 0 {
		t.Errorf("head %v, error %v", head, err)
	}
}

// extend appends empty segments of a writer after a position, and returns the last one.
func extend(t *testing.T, l *memorylog.Log, head sharedlog.Position, writer storage.NodeID, total int) sharedlog.Position {
	t.Helper()
	for range total {
		s := sharedlog.Segment{Sequence: head.Sequence + 1, Previous: head.Hash, Writer: writer}
		r, err := s.Record()
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Append(t.Context(), head, r, nil); err != nil {
			t.Fatal(err)
		}
		head = r.Position
	}
	return head
}

// TestBackup restores a backup twice. What came after it is gone, and a connection that
// waits looks again.
func TestBackup(t *testing.T) {
	t.Parallel()
	tables := memorylog.New()
	l := tables.Open()
	defer l.Close()
	node := sharedlog.NodeRecord{ID: storage.NodeID{1}, Start: 1}
	if err := l.Register(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	kept := extend(t, l, sharedlog.Position{}, storage.NodeID{1}, 2)
	restore := tables.Backup()
	for i := range 2 {
		last := extend(t, l, kept, storage.NodeID{byte(i)}, 2)
		node.Start++
		if err := l.Register(t.Context(), node); err != nil {
			t.Fatalf("restore %d: %v", i, err)
		}
		woken := make(chan error)
		go func() { woken <- l.Wait(t.Context(), last.Sequence) }()
		for done := false; !done; {
			restore()
			select {
			case err := <-woken:
				if done = true; err != nil {
					t.Error(err)
				}
			default:
			}
		}
		if h, err := l.Head(t.Context()); err != nil || h != kept {
			t.Fatalf("the head is %s, error %v; want %s", h, err, kept)
		}
		node.Start = 1
	}
}

func TestRewind(t *testing.T) {
	t.Parallel()
	tables := memorylog.New()
	l := tables.Open()
	defer l.Close()
	extend(t, l, sharedlog.Position{}, storage.NodeID{1}, 3)
	tables.Rewind(1)
	if h, err := l.Head(t.Context()); err != nil || h.Sequence != 1 {
		t.Fatalf("the head is %s, error %v; want segment 1", h, err)
	}
}
