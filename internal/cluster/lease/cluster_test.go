package lease_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/internal/cluster/clustertest"
	"github.com/ostiary/ostiary/internal/cluster/lease"
	"github.com/ostiary/ostiary/internal/cluster/replica"
	"github.com/ostiary/ostiary/internal/cluster/sharedlog"
	"github.com/ostiary/ostiary/internal/cluster/sharedlog/memorylog"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/schema"
	"github.com/ostiary/ostiary/storage"
	"github.com/ostiary/ostiary/storage/kv"
	"github.com/ostiary/ostiary/storage/memory"
)

// world is a cluster in a bubble.
type world struct {
	t       testing.TB
	tables  *memorylog.Tables
	network *clustertest.Network
	nodes   []*node
	id      storage.StoreID
	next    int
}

// node is one node of a world.
type node struct {
	w       *world
	host    *clustertest.Host
	disk    *memory.Store
	options lease.Options
	// slow is how long the node takes to show what another node has written.
	slow time.Duration
	// wrap returns the log that the node uses; nil means the connection of the host.
	wrap func(sharedlog.Log) sharedlog.Log
	// bootClock is true for the clock of the machine instead of that of the host.
	bootClock bool
	// address is where the node is registered; "" means "here".
	address string
	// wall is by how much the time of day of the node's engine is late or early.
	wall    time.Duration
	log     sharedlog.Log // that of wrap
	cluster *lease.Keeper
	driver  *replica.Driver // that of cluster, also after its end
	engine  *ostiary.Engine
	mu      sync.Mutex // guards cluster and engine against use
}

// oneWay is how long a message takes.
const oneWay = time.Millisecond

// newWorld starts nodes. change may change the options of each of them.
func newWorld(t testing.TB, total int, change func(i int, n *node)) *world {
	t.Helper()
	w := &world{t: t, tables: memorylog.New(), network: clustertest.NewNetwork()}
	w.network.SetDelay(func() time.Duration { return oneWay })
	for i := range total {
		n := &node{w: w, host: w.network.Host(), disk: memory.NewStore()}
		if change != nil {
			change(i, n)
		}
		w.nodes = append(w.nodes, n)
		n.start(t)
		if i == 0 {
			w.holder()
		}
	}
	w.createStore()
	w.settle()
	return w
}

// start starts a node, and closes it with the test.
func (n *node) start(t testing.TB) {
	t.Helper()
	if err := n.open(t); err != nil {
		t.Fatal(err)
	}
}

// open is start, with the error of a node that may not start.
func (n *node) open(t testing.TB) error {
	t.Helper()
	o := n.options
	o.Clock, o.Copy.Address = n.host, cmp.Or(n.address, "here")
	n.log = n.host.Log(n.w.tables.Open())
	if n.wrap != nil {
		n.log = n.wrap(n.log)
	}
	if n.bootClock {
		o.Clock = nil
	}
	local, err := kv.New(n.disk, kv.Options{Copy: true})
	if err != nil {
		t.Fatal(err)
	}
	c, err := lease.Open(t.Context(), n.log, local, o)
	if err != nil {
		return err
	}
	if n.slow > 0 {
		c.OnApplied(func(context.Context, []storage.StoreID) error {
			time.Sleep(n.slow)
			return nil
		})
	}
	e, err := ostiary.Open(t.Context(), ostiary.Options{Driver: c, Clock: func() time.Time { return time.Now().Add(n.wall) }})
	if err != nil {
		t.Fatal(err)
	}
	c.Start(n.host)
	n.host.Attach(c)
	n.mu.Lock()
	n.cluster, n.driver, n.engine = c, c.Driver, e
	n.mu.Unlock()
	t.Cleanup(func() { n.stop(t) })
	return nil
}

// stop stops the node if it runs.
func (n *node) stop(t testing.TB) {
	if n.cluster == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	n.host.Resume()
	_ = n.cluster.Leave(ctx)
	n.close(t)
}

func (n *node) close(t testing.TB) {
	n.mu.Lock()
	n.cluster = nil
	n.mu.Unlock()
	if err := errors.Join(n.engine.Close(), n.driver.Close()); err != nil {
		t.Error(err)
	}
}

// cloneDisk copies the pairs of a store.
func cloneDisk(t testing.TB, from *memory.Store) *memory.Store {
	t.Helper()
	to := memory.NewStore()
	it, err := from.Scan(nil, []byte{0xff})
	if err != nil {
		t.Fatal(err)
	}
	b := to.Batch()
	for it.Next() {
		_ = b.Set(it.Key(), it.Value())
	}
	if err := errors.Join(b.Commit(), it.Close()); err != nil {
		t.Fatal(err)
	}
	return to
}

// kill ends the node without a hand-over.
func (n *node) kill(t testing.TB) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	n.host.CutLog(true)
	_ = n.cluster.Leave(ctx)
	n.host.CutLog(false)
	n.close(t)
}

// holder waits until a node is the holder and acknowledges, and returns it.
func (w *world) holder() *node {
	w.t.Helper()
	for range 10_000 {
		for _, n := range w.nodes {
			if n.cluster == nil {
				continue
			}
			if s := n.cluster.Status(); s.Role == lease.Holder && s.Acknowledges && s.HolderRemaining > 0 {
				return n
			}
		}
		time.Sleep(time.Millisecond)
	}
	w.t.Fatal("no node is the holder")
	return nil
}

// others returns the nodes but one.
func (w *world) others(but *node) (out []*node) {
	for _, n := range w.nodes {
		if n != but && n.cluster != nil {
			out = append(out, n)
		}
	}
	return out
}

// settle waits until every node has a read lease.
func (w *world) settle() {
	w.t.Helper()
	w.holder()
	for range 10_000 {
		all := true
		for _, n := range w.nodes {
			all = all && (n.cluster == nil || n.cluster.Status().ReadRemaining > 0)
		}
		if all {
			return
		}
		time.Sleep(time.Millisecond)
	}
	for i, n := range w.nodes {
		w.t.Logf("node %d: %+v", i, n.cluster.Status())
	}
	w.t.Fatal("not every node has a read lease")
}

func (w *world) createStore() {
	w.t.Helper()
	s, err := w.holder().engine.CreateStore(w.t.Context(), ostiary.CreateStoreRequest{})
	if err != nil {
		w.t.Fatal(err)
	}
	w.id = s.ID()
	viewer := schema.RelationDef{Name: "viewer", Rewrite: schema.Direct(), Subjects: []schema.SubjectType{{Type: "user"}}}
	model := schema.Model{Types: []schema.TypeDef{{Name: "user"}, {Name: "doc", Relations: []schema.RelationDef{viewer}}}}
	if _, _, err = s.WriteSchema(w.t.Context(), authz.SchemaSource{Model: &model}); err != nil {
		w.t.Fatal(err)
	}
}

func tuple(object string) rel.Tuple {
	return rel.Tuple{Object: rel.Object{Type: "doc", ID: object}, Relation: "viewer", Subject: rel.Subject{Type: "user", ID: "anne"}}
}

// write writes a tuple that no other write has, and returns its object.
func (n *node) write(ctx context.Context) (object string, err error) {
	n.w.next++
	object = fmt.Sprint(n.w.next)
	return object, n.writeObject(ctx, object)
}

func (n *node) writeObject(ctx context.Context, object string) error {
	return n.writeWith(ctx, n.engine, object)
}

func (n *node) writeWith(ctx context.Context, e *ostiary.Engine, object string) error {
	s, err := e.StoreAt(ctx, n.w.id, authz.MinimizeLatency()) // the write waits
	if err == nil {
		_, err = s.Write(ctx, authz.WriteRequest{Add: []rel.Tuple{tuple(object)}})
	}
	return err
}

// has asks whether the node shows a tuple.
func (n *node) has(ctx context.Context, object string, c authz.Consistency) (bool, error) {
	return n.hasWith(ctx, n.engine, object, c)
}

func (n *node) hasWith(ctx context.Context, e *ostiary.Engine, object string, c authz.Consistency) (bool, error) {
	s, err := e.StoreAt(ctx, n.w.id, c)
	if err != nil {
		return false, err
	}
	t := tuple(object)
	r, err := s.Check(ctx, authz.CheckRequest{Object: t.Object, Relation: t.Relation, Subject: t.Subject, QueryOptions: authz.QueryOptions{Consistency: c}})
	return r.Decision.String() == "true", err
}

// mustWrite writes at the holder.
func (w *world) mustWrite() string {
	w.t.Helper()
	object, err := w.holder().write(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	return object
}

// mustShow requires that default reads on some nodes show an object.
func (w *world) mustShow(object string, nodes ...*node) {
	w.t.Helper()
	for _, n := range nodes {
		if ok, err := n.has(w.t.Context(), object, authz.Acknowledged()); !ok || err != nil {
			w.t.Fatalf("a default read of the acknowledged write %s: %v, error %v", object, ok, err)
		}
	}
}

// bubble runs a test in virtual time.
func bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, f)
}

// TestAcknowledgedIsShown writes at the holder; each write is visible on every node
// without a wait.
func TestAcknowledgedIsShown(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, 3, nil)
		holder := w.holder()
		w.mustWrite() // from now on the followers expect the segments from the holder
		for range 20 {
			begun := time.Now()
			object := w.mustWrite()
			if took := time.Since(begun); took > 4*oneWay {
				t.Errorf("a write took %v, expected a commit and a round trip, which are %v", took, 4*oneWay)
			}
			begun = time.Now()
			w.mustShow(object, w.nodes...)
			if took := time.Since(begun); took != 0 {
				t.Errorf("reads on three nodes took %v with read leases", took)
			}
		}
		for _, n := range w.others(holder) {
			if _, err := n.write(t.Context()); !errors.Is(err, storage.ErrNotHolder) {
				t.Errorf("a write on a follower: %v", err)
			}
		}
	})
}
