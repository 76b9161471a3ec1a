package node

import (
	"strings"
	"testing"
	"time"

	"github.com/ostiary/ostiary/internal/cluster/sharedlog"
	"github.com/ostiary/ostiary/internal/cluster/sharedlog/memorylog"
	"github.com/ostiary/ostiary/storage"
)

// TestState gives each state of a node.
func TestState(t *testing.T) {
	t.Parallel()
	now := time.Now()
	id := storage.NodeID{1}
	held := sharedlog.Lease{Holder: id, Epoch: 1, Renewals: 1}
	for want, c := range map[string]struct {
		ago     time.Duration
		lease   sharedlog.Lease
		stopped bool
	}{
		stateHolder:  {time.Second, held, false},
		stateLive:    {lateTime - 1, sharedlog.Lease{Holder: id, Epoch: 2}, false}, // it has resigned
		stateLate:    {lateTime, held, false},
		stateGone:    {sharedlog.RunsTime, held, false},
		stateStopped: {time.Second, held, true},
	} {
		n := sharedlog.NodeRecord{ID: id, Seen: now.Add(-c.ago), Stopped: c.stopped}
		if have := state(&n, c.lease, now); have != want {
			t.Errorf("state %q, want %q", have, want)
		}
	}
}

// TestUpgrade raises the version of segments: not while a node cannot read it, which is
// named; and no lower version is set.
func TestUpgrade(t *testing.T) {
	t.Parallel()
	log := memorylog.New().Open()
	if _, err := Upgrade(t.Context(), log, UpgradeOptions{2}); err == nil || !strings.Contains(err.Error(), "no cluster yet") {
		t.Errorf("without a cluster: %v", err)
	}
	first := sharedlog.Cluster{ID: sharedlog.ClusterID{1}, Format: 1}
	if err := log.SwapCluster(t.Context(), sharedlog.Cluster{}, first); err != nil {
		t.Fatal(err)
	}
	older := sharedlog.NodeRecord{ID: storage.NodeID{7}, Start: 1, Address: "older:1", Reads: 1}
	for _, n := range []sharedlog.NodeRecord{older, {ID: storage.NodeID{8}, Start: 1, Address: "newer:1", Reads: 2}} {
		if err := log.Register(t.Context(), n); err != nil {
			t.Fatal(err)
		}
	}
	_, err := Upgrade(t.Context(), log, UpgradeOptions{2})
	if err == nil || !strings.Contains(err.Error(), "older:1 reads up to version 1 of segments, expected 2") || strings.Contains(err.Error(), "newer") {
		t.Errorf("with an older node: %v", err)
	}
	if have, err := log.Cluster(t.Context()); err != nil || have != first {
		t.Errorf("after a refusal the cluster is %+v, error %v", have, err)
	}
	older.Reads = 2
	if err := log.Report(t.Context(), older); err != nil {
		t.Fatal(err)
	}
	for _, want := range []uint32{1, 2} {
		if before, err := Upgrade(t.Context(), log, UpgradeOptions{2}); err != nil || before.Before != want {
			t.Errorf("version %+v before, error %v, want %d", before, err, want)
		}
	}
	if have, err := log.Cluster(t.Context()); err != nil || have.Format != 2 {
		t.Errorf("after the upgrade the cluster is %+v, error %v", have, err)
	}
	if _, err := Upgrade(t.Context(), log, UpgradeOptions{1}); err == nil || !strings.Contains(err.Error(), "reads up to 1") {
		t.Errorf("by an older program: %v", err)
	}
}

// TestLeasesThatDoNotFit refuses leases with which a cluster is not available for longer
// than one read lease, or whose nodes are late at the first delay, and changes nothing.
func TestLeasesThatDoNotFit(t *testing.T) {
	t.Parallel()
	log := memorylog.New().Open()
	first := sharedlog.Cluster{ID: sharedlog.ClusterID{1}, Settings: sharedlog.DefaultSettings()}
	if err := log.SwapCluster(t.Context(), sharedlog.Cluster{}, first); err != nil {
		t.Fatal(err)
	}
	for _, want := range []sharedlog.Settings{{HolderLease: 700 * time.Millisecond}, {ReadLease: time.Second}, {HolderLease: 250 * time.Millisecond, ReadLease: 200 * time.Millisecond}, {ReadLease: 299 * time.Millisecond}} {
		if _, err := ChangeRunning(t.Context(), log, want); err == nil || !strings.Contains(err.Error(), "expected a holder lease longer than the read lease, and both at least 300ms") {
			t.Errorf("%+v: %v", want, err)
		}
	}
	if have, err := log.Cluster(t.Context()); err != nil || have != first {
		t.Errorf("after the refusals the cluster is %+v, error %v", have, err)
	}
	if _, err := ChangeRunning(t.Context(), log, sharedlog.Settings{HolderLease: 701 * time.Millisecond, ReadLease: 300 * time.Millisecond}); err != nil {
		t.Error(err)
	}
}
