package move

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/ostiary/ostiary/internal/cluster/replica"
	"github.com/ostiary/ostiary/internal/cluster/sharedlog"
	"github.com/ostiary/ostiary/internal/cluster/sharedlog/memorylog"
	"github.com/ostiary/ostiary/storage"
)

// wantError requires an error of a kind with a text.
func wantError(t *testing.T, err error, text string, kind error) {
	t.Helper()
	if !errors.Is(err, kind) || !strings.Contains(err.Error(), text) {
		t.Errorf("error %v, expected %q and %v", err, text, kind)
	}
}

// TestCompare finds each kind of difference.
func TestCompare(t *testing.T) {
	t.Parallel()
	id, other := storage.StoreID{1}, storage.StoreID{2}
	content := func() Content {
		return Content{Stores: map[storage.StoreID]StoreContent{id: {Head: storage.Head{Revision: 1}}}, Place: replica.Place{At: sharedlog.Position{Sequence: 1}}}
	}
	for name, change := range map[string]func(*Content){
		"belongs to cluster": func(c *Content) { c.Cluster[0] = 1 },
		"ends with segment":  func(c *Content) { c.At.Hash[0] = 1 },
		"only one of them":   func(c *Content) { c.Stores[other] = StoreContent{} },
		"ends with revision": func(c *Content) {
			c.Stores[id] = StoreContent{Head: storage.Head{Revision: 1, Hash: storage.Hash{1}}}
		},
		"but the rows have": func(c *Content) { c.State[0] = 1 },
		"with revision 1 (0000": func(c *Content) {
			c.Stores[id] = StoreContent{Incarnation: storage.Incarnation{1}, Head: storage.Head{Revision: 1}}
		},
	} {
		one, two := content(), content()
		if err := one.Compare(&two); err != nil {
			t.Errorf("the same differ: %v", err)
		}
		change(&two)
		wantError(t, one.Compare(&two), name, ErrDiffers)
		wantError(t, two.Compare(&one), name, ErrDiffers)
	}
}

// TestFence takes the role of the node that writes, which ends in one of two ways: a node
// takes the role back, and the log is not moved; or it is moved, and only a move back gives
// the role to a node.
func TestFence(t *testing.T) {
	t.Parallel()
	tables := memorylog.New()
	log := tables.Open()
	defer log.Close()
	described := sharedlog.Cluster{ID: sharedlog.ClusterID{1}, Format: 1, Settings: sharedlog.Settings{HolderLease: time.Hour, ReadLease: time.Minute}}
	if err := log.SwapCluster(t.Context(), sharedlog.Cluster{}, described); err != nil {
		t.Fatal(err)
	}
	take := func() *Fence {
		t.Helper()
		fence, err := TakeFence(t.Context(), log)
		if err != nil {
			t.Fatal(err)
		}
		return fence
	}
	lease := func() sharedlog.Lease {
		t.Helper()
		l, err := log.Lease(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	fence := take()
	if err := fence.Renew(t.Context()); err != nil {
		t.Error(err)
	}
	if err := fence.Release(t.Context()); err != nil || lease().Renewals == 0 {
		t.Errorf("while nodes may have read leases, the lease was made vacant: %+v, error %v", lease(), err)
	}
	if err := log.SwapLease(t.Context(), lease(), sharedlog.Lease{Holder: storage.NodeID{1}, Epoch: lease().Epoch + 1, Renewals: 1}); err != nil {
		t.Fatal(err)
	}
	wantError(t, fence.Renew(t.Context()), "", sharedlog.ErrSwap)
	wantError(t, fence.End(t.Context()), "", sharedlog.ErrSwap)
	if lease().Moved() {
		t.Errorf("the lease that a node has taken back is %+v", lease())
	}
	fence = take()
	for range 2 { // the answer of the first one may be lost
		if err := fence.End(t.Context()); err != nil || !lease().Moved() {
			t.Errorf("the lease of a log that was moved is %+v, error %v", lease(), err)
		}
	}
	_, err := TakeFence(t.Context(), log)
	wantError(t, err, "", sharedlog.ErrMoved)
	if err := SetMoved(t.Context(), log, false); err != nil || lease().Renewals != 0 {
		t.Errorf("the lease of a log that is used again is %+v, error %v, expected a vacant one", lease(), err)
	}
	described.Settings = sharedlog.Settings{}
	old, err := log.Cluster(t.Context())
	if err == nil {
		err = log.SwapCluster(t.Context(), old, described)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := take().Release(t.Context()); err != nil || lease().Renewals != 0 {
		t.Errorf("the lease that was released is %+v, error %v, expected a vacant one", lease(), err)
	}
}
