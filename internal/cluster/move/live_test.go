package move

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/ostiary/ostiary/internal/cluster/clustertest"
	"github.com/ostiary/ostiary/internal/cluster/replica"
	"github.com/ostiary/ostiary/internal/cluster/sharedlog"
	"github.com/ostiary/ostiary/internal/cluster/sharedlog/memorylog"
	"github.com/ostiary/ostiary/storage"
	"github.com/ostiary/ostiary/storage/kv"
	"github.com/ostiary/ostiary/storage/memory"
	"github.com/ostiary/ostiary/storage/pebble"
)

// TestWaiting looks, at the beginning of a move and at its end, for nodes that would not go on
// with TO, or that the others would not wait for. They run on FROM then, and nothing is moved.
func TestWaiting(t *testing.T) {
	t.Parallel()
	ctx, settings := t.Context(), sharedlog.DefaultSettings()
	settings.HolderLease = settings.ReadLease // no wait
	id := storage.NodeID{1}
	for name, c := range map[string]struct {
		prepare func(from, next sharedlog.Log, n sharedlog.NodeRecord) error
		want    string
	}{
		"it waits": {func(from, next sharedlog.Log, n sharedlog.NodeRecord) error {
			return sharedlog.WithNext(from, next, func() {}).Register(ctx, n)
		}, ""},
		"it does not know TO": {func(from, _ sharedlog.Log, n sharedlog.NodeRecord) error { return from.Register(ctx, n) }, "does not know TO"},
		"an earlier start knows TO": {func(from, next sharedlog.Log, n sharedlog.NodeRecord) error {
			if err := sharedlog.WithNext(from, next, func() {}).Register(ctx, n); err != nil {
				return err
			}
			n.Start++
			return from.Register(ctx, n)
		}, "does not know TO"},
		"it was moved from TO": {func(from, next sharedlog.Log, n sharedlog.NodeRecord) error {
			if err := next.Register(ctx, n); err != nil {
				return err
			}
			return from.Register(ctx, n)
		}, "does not know TO"},
		"it has longer leases": {func(from, next sharedlog.Log, n sharedlog.NodeRecord) error {
			n.HolderLease, n.ReadLease = 20*time.Second, 10*time.Second
			return sharedlog.WithNext(from, next, func() {}).Register(ctx, n)
		}, "has a holder lease of 20s and a read lease of 10s, expected those of its cluster, 700ms and 700ms"},
		"it does not run": {func(from, _ sharedlog.Log, n sharedlog.NodeRecord) error {
			n.Stopped = true
			return from.Register(ctx, n)
		}, "no node runs on FROM"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			first, next := memorylog.New().Open(), memorylog.New().Open()
			described := sharedlog.Cluster{ID: sharedlog.ClusterID{1}, Format: sharedlog.SegmentVersion, Settings: settings}
			for _, l := range []sharedlog.Log{first, next} {
				if err := l.SwapCluster(ctx, sharedlog.Cluster{}, described); err != nil {
					t.Fatal(err)
				}
			}
			m := &Move{}
			from, to := &movedLog{first, "FROM", storage.NodeID{}, m}, &movedLog{next, "TO", storage.NodeID{}, m}
			if err := c.prepare(first, next, sharedlog.NodeRecord{ID: id, Start: 1, HolderLease: settings.HolderLease, ReadLease: settings.ReadLease}); err != nil {
				t.Fatal(err)
			}
			fence, err := TakeFence(ctx, first)
			if err != nil {
				t.Fatal(err)
			}
			_, err = waitingNodes(ctx, from, to)
			_, last := m.finish(ctx, from, to, fence)
			for step, err := range map[string]error{"beginning": err, "end": last} {
				if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
					t.Errorf("at the %s: error %v, expected %q", step, err, c.want)
				}
			}
		})
	}
}

// TestResume interrupts a move after TO was filled, and repeats it when FROM has a newer
// snapshot. Nodes write meanwhile, and the move stores a snapshot.
func TestResume(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	from, next := memorylog.New(), memorylog.New()
	local, err := kv.New(memory.NewStore(), kv.Options{Copy: true})
	if err != nil {
		t.Fatal(err)
	}
	driver, err := clustertest.OpenReplica(ctx, from.Open(), local, replica.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer driver.Close()
	for attempt := range 3 {
		write := func(n int) error {
			info := storage.StoreInfo{ID: storage.StoreID{byte(n)}, Incarnation: storage.NewIncarnation(), Name: "store"}
			return errors.Join(driver.CreateStore(ctx, info), driver.Snapshot(ctx))
		}
		if err := write(2*attempt + 1); err != nil {
			t.Fatal(err)
		}
		m := &Move{}
		first, second := &movedLog{from.Open(), "FROM", storage.NodeID{}, m}, &movedLog{next.Open(), "TO", storage.NodeID{}, m}
		err := m.prepareLog(ctx, first, second)
		if err == nil {
			err = errors.Join(m.resume(ctx, first, second), write(2*attempt+2))
		}
		m.Temporary = func(f func(Folder) error) error { return f(folder(t.TempDir())) }
		at := folder(t.TempDir())
		var place replica.Place
		if err == nil {
			place, err = m.fill(ctx, at, first)
		}
		if err == nil {
			err = m.pourOnce(ctx, first, second, at, place)
		}
		if err != nil {
			t.Fatalf("attempt %d: %v", attempt, err)
		}
		if head, err := second.Head(ctx); err != nil || head.Sequence != driver.AppliedSequence() {
			t.Fatalf("after attempt %d TO ends with segment %s, expected %d: error %v", attempt, head, driver.AppliedSequence(), err)
		}
	}
}

// folder is a folder of a test.
type folder string

func (f folder) Path() string { return string(f) }
func (f folder) OpenFolder(context.Context) (*pebble.Driver, error) {
	return pebble.Open(string(f), pebble.Options{})
}
func (f folder) OpenCopy(context.Context) (*pebble.Driver, error) {
	return pebble.Open(string(f), pebble.Options{Copy: true, NoSync: true})
}
func (f folder) SecretKeyFile() string             { return string(f) + ".key" }
func (f folder) ReadSecretKey() (*[32]byte, error) { return nil, nil }
