package raftlog_test

import (
	"errors"
	"testing"
	"time"

	"github.com/ostiary/ostiary/internal/cluster/raftlog"
	"github.com/ostiary/ostiary/internal/cluster/sharedlog"
	"github.com/ostiary/ostiary/internal/workshop/wait"
	"github.com/ostiary/ostiary/storage"
)

// TestVersion raises the version of the log to one that this program does not know. A
// registered node that does not read it prevents that, no such node is registered
// afterwards, and a node whose program does not know it stops and does not start again.
func TestVersion(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 1)
	l := f.nodes[0].Log()
	defer l.Close()
	first := sharedlog.Cluster{ID: sharedlog.ClusterID{1}, Format: sharedlog.SegmentVersion}
	next := first
	next.Format++
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	ok(l.SwapCluster(f.ctx(), sharedlog.Cluster{}, first))
	older := sharedlog.NodeRecord{ID: storage.NodeID{7}, Start: 1, Address: "older:1", Reads: first.Format}
	newer := sharedlog.NodeRecord{ID: storage.NodeID{8}, Start: 1, Address: "newer:1", Reads: next.Format}
	ok(l.Register(f.ctx(), older))
	ok(l.Register(f.ctx(), newer))
	wants(t, l.SwapCluster(f.ctx(), first, next), storage.ErrFormat, "older:1 reads up to version 1")
	if have, err := l.Cluster(f.ctx()); err != nil || have != first {
		t.Fatalf("after a refusal the cluster is %+v, error %v", have, err)
	}
	older.Reads = next.Format
	ok(l.Report(f.ctx(), older))
	wants(t, l.SwapCluster(f.ctx(), first, next), storage.ErrFormat, "version 2")
	wants(t, f.nodes[0].Failed(), storage.ErrFormat, "this version reads up to 1")
	folder := f.nodes[0].folder
	f.stop(0)
	f.nodes = nil
	_, err := raftlog.Open(raftlog.Options{Folder: folder, Address: "127.0.0.1:1", Dial: f.dial})
	wants(t, err, storage.ErrFormat, "this version reads up to 1")
}

// TestRegisterOlder refuses to register a node that does not read the version in use.
func TestRegisterOlder(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 1)
	l := f.nodes[0].Log()
	defer l.Close()
	if err := l.SwapCluster(f.ctx(), sharedlog.Cluster{}, sharedlog.Cluster{ID: sharedlog.ClusterID{1}, Format: sharedlog.SegmentVersion}); err != nil {
		t.Fatal(err)
	}
	wants(t, l.Register(f.ctx(), sharedlog.NodeRecord{ID: storage.NodeID{7}, Start: 1, Address: "older:1"}), storage.ErrFormat, "older:1 reads up to version 0")
	if all, _, err := l.Nodes(f.ctx()); err != nil || len(all) != 0 {
		t.Fatalf("the registry has %+v, error %v", all, err)
	}
}

// TestUnknownCommand has an entry of the consensus that a later version has written. A
// leader refuses to propose it. A node that gets it stops: it does not go on without what
// the others have made of it.
func TestUnknownCommand(t *testing.T) {
	t.Parallel()
	for name, command := range map[string]map[string]any{
		"field":     {"o": 9, "later": true},
		"operation": {"o": 200},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t, 1)
			f.append(0, 1) // so that the node leads
			at := raftlog.Applied(f.nodes[0].Server)
			if name == "field" {
				wants(t, raftlog.ProposeHere(f.nodes[0].Server, command), storage.ErrFormat, "later")
				if raftlog.Applied(f.nodes[0].Server) != at || f.nodes[0].Failed() != nil {
					t.Fatalf("the refused entry was applied, or the node failed: %v", f.nodes[0].Failed())
				}
			}
			wants(t, raftlog.Propose(f.nodes[0].Server, command), storage.ErrFormat)
			wait.Until(t, "the node stops", func() bool { return errors.Is(f.nodes[0].Failed(), storage.ErrFormat) })
			l := f.nodes[0].Log()
			defer l.Close()
			_, err := l.Head(f.within(time.Minute))
			wants(t, err, storage.ErrFormat)
			// The next start of the same program does not go on without the entry either.
			f.stop(0)
			f.start(0, f.nodes[0].address)
			wait.Until(t, "the node stops again", func() bool { return errors.Is(f.nodes[0].Failed(), storage.ErrFormat) })
		})
	}
}

// TestUnknownRow opens a folder with a row that a later version has written.
func TestUnknownRow(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 1)
	f.append(0, 1)
	folder := f.nodes[0].folder
	f.stop(0)
	f.nodes = nil
	if err := raftlog.AddUnknownRow(folder); err != nil {
		t.Fatal(err)
	}
	_, err := raftlog.Open(raftlog.Options{Folder: folder, Address: "127.0.0.1:1", Dial: f.dial})
	wants(t, err, storage.ErrFormat, "row")
}
