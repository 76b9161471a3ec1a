// Package sim plays several nodes on one shared log, with faults, in virtual time. The
// nodes are engines on replicas, with the product's own code; only the link to the log
// and the disk below a copy are injected. [Run] plays one seed and checks the promises
// to the callers. The order of goroutines is not part of the seed.
package sim

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/schema"
	"github.com/ostiary/ostiary/storage"
	"github.com/ostiary/ostiary/storage/kv"
	"github.com/ostiary/ostiary/storage/memory"
	"github.com/ostiary/ostiary/storage/replica"
	"github.com/ostiary/ostiary/storage/sharedlog"
	"github.com/ostiary/ostiary/storage/sharedlog/memorylog"
	"github.com/ostiary/ostiary/storage/storagetest"
)

const (
	nodesTotal   = 3
	clientsTotal = 4
	writesEach   = 12
	faultsTotal  = 12
)

// errLink is the error of a request or an answer that is lost.
var errLink = errors.New("the connection was lost")

// link is the connection of one node to the log.
type link struct {
	sharedlog.Log
	random func(n int) int
	// down loses all requests, lossy every second answer of an append.
	down, lossy atomic.Bool
}

// pass waits as a network does, and returns an error if the request is lost.
func (l *link) pass(ctx context.Context) error {
	select {
	case <-time.After(time.Duration(l.random(3000)) * time.Microsecond):
	case <-ctx.Done():
		return ctx.Err()
	}
	if l.down.Load() {
		return errLink
	}
	return nil
}

func (l *link) Append(ctx context.Context, shard sharedlog.Shard, after sharedlog.Position, record sharedlog.Record, secrets []sharedlog.SecretChange) error {
	if err := l.pass(ctx); err != nil {
		return err
	}
	err := l.Log.Append(ctx, shard, after, record, secrets)
	if l.lossy.Load() && l.random(2) == 0 {
		return errLink
	}
	if lost := l.pass(ctx); lost != nil {
		return lost
	}
	return err
}

func (l *link) Head(ctx context.Context, shard sharedlog.Shard) (sharedlog.Position, error) {
	if err := l.pass(ctx); err != nil {
		return sharedlog.Position{}, err
	}
	return l.Log.Head(ctx, shard)
}

func (l *link) Read(ctx context.Context, shard sharedlog.Shard, from uint64) iter.Seq2[sharedlog.Record, error] {
	if err := l.pass(ctx); err != nil {
		return func(yield func(sharedlog.Record, error) bool) { yield(sharedlog.Record{}, err) }
	}
	return l.Log.Read(ctx, shard, from)
}

// node is one node of a run.
type node struct {
	tables *memorylog.Tables
	random func(n int) int

	disk   *memory.Store
	synced *memory.Store // what survives a crash
	link   *link
	driver *replica.Driver
	engine atomic.Pointer[ostiary.Engine]
}

// start opens the node.
func (n *node) start(ctx context.Context) error {
	local, err := kv.New(n.disk, kv.Options{Copy: true})
	if err != nil {
		return err
	}
	n.link = &link{Log: n.tables.Open(), random: n.random}
	d, err := replica.Open(ctx, n.link, local, replica.Options{})
	if err != nil {
		return err
	}
	n.driver = d
	n.synced = clone(n.disk) // Open has synced the number of the start
	e, err := ostiary.Open(ctx, ostiary.Options{Driver: d})
	n.engine.Store(e)
	return err
}

// stop closes the node. Calls that run fail or end.
func (n *node) stop() error { return errors.Join(n.engine.Load().Close(), n.driver.Close()) }

// restart kills the node and starts it again, with or without what was not synced.
func (n *node) restart(ctx context.Context, loseTail bool) error {
	if err := n.stop(); err != nil {
		return err
	}
	if loseTail {
		n.disk = n.synced
	}
	return n.start(ctx)
}

// clone copies the pairs of a store.
func clone(from *memory.Store) *memory.Store {
	to := memory.NewStore()
	it, err := from.Scan(nil, []byte{0xff})
	if err != nil {
		panic(err) // a store in memory has no errors
	}
	b := to.Batch()
	for it.Next() {
		_ = b.Set(it.Key(), it.Value())
	}
	if err := b.Commit(); err != nil {
		panic(err)
	}
	return to
}

// world is one run.
type world struct {
	ctx    context.Context
	nodes  []*node
	id     storage.StoreID
	random func(n int) int

	mu       sync.Mutex
	outcomes map[string]error // of each write, by its tuple
	wrong    []error
}

// fail records a broken promise.
func (w *world) fail(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wrong = append(w.wrong, fmt.Errorf(format, args...))
}

// Run plays a seed in a bubble of testing/synctest. It returns every promise that was
// broken:
//   - an acknowledged write is on every node that is asked for full consistency or
//     with the token of the write, and is never lost;
//   - a write that failed, other than with ErrUncertain or because its node was killed,
//     never takes effect;
//   - in the end all nodes have the same log, and the state that follows from it.
func Run(ctx context.Context, seed uint64) error {
	var mu sync.Mutex
	source := rand.New(rand.NewPCG(seed, 1))
	w := &world{ctx: ctx, outcomes: map[string]error{}, random: func(n int) int {
		mu.Lock()
		defer mu.Unlock()
		return source.IntN(n)
	}}
	if err := w.open(); err != nil {
		return fmt.Errorf("seed %d: open: %w", seed, err)
	}
	var group sync.WaitGroup
	for c := range clientsTotal {
		group.Go(func() { w.client(c) })
	}
	group.Go(w.disturb)
	group.Wait()
	w.judge()
	for _, n := range w.nodes {
		if err := n.stop(); err != nil {
			w.fail("close: %w", err)
		}
	}
	if err := errors.Join(w.wrong...); err != nil {
		return fmt.Errorf("seed %d: %w", seed, err)
	}
	return nil
}

func (w *world) open() error {
	tables := memorylog.New()
	for range nodesTotal {
		n := &node{tables: tables, random: w.random, disk: memory.NewStore()}
		if err := n.start(w.ctx); err != nil {
			return err
		}
		w.nodes = append(w.nodes, n)
	}
	s, err := w.nodes[0].engine.Load().CreateStore(w.ctx, ostiary.CreateStoreRequest{})
	if err != nil {
		return err
	}
	w.id = s.ID()
	viewer := schema.RelationDef{Name: "viewer", Rewrite: schema.Direct(), Subjects: []schema.SubjectType{{Type: "user"}}}
	model := schema.Model{Types: []schema.TypeDef{{Name: "user"}, {Name: "doc", Relations: []schema.RelationDef{viewer}}}}
	_, _, err = s.WriteSchema(w.ctx, ostiary.SchemaSource{Model: &model})
	time.Sleep(time.Second) // the other nodes follow
	return err
}

func tuple(object string) rel.Tuple {
	return rel.Tuple{Object: rel.Object{Type: "doc", ID: object}, Relation: "viewer", Subject: rel.Subject{Type: "user", ID: "anne"}}
}

// client writes, and reads each write on another node.
func (w *world) client(c int) {
	for i := range writesEach {
		object := fmt.Sprint(c, "-", i)
		token, err := w.write(object)
		w.mu.Lock()
		w.outcomes[object] = err
		w.mu.Unlock()
		if err == nil {
			w.read(object, ostiary.FullyConsistent())
			w.read(object, ostiary.AtLeast(token))
		}
		time.Sleep(time.Duration(w.random(200)) * time.Millisecond)
	}
}

func (w *world) write(object string) (ostiary.Token, error) {
	n := w.nodes[w.random(nodesTotal)]
	s, err := n.engine.Load().Store(w.ctx, w.id)
	if err != nil {
		return "", err
	}
	return s.Write(w.ctx, ostiary.WriteRequest{Add: []rel.Tuple{tuple(object)}})
}

// read requires that a node shows a tuple, unless the node cannot answer.
func (w *world) read(object string, c ostiary.Consistency) {
	n := w.nodes[w.random(nodesTotal)]
	ctx, cancel := context.WithTimeout(w.ctx, 3*time.Second)
	defer cancel()
	s, err := n.engine.Load().Store(ctx, w.id)
	if err != nil {
		return
	}
	t := tuple(object)
	r, err := s.Check(ctx, ostiary.CheckRequest{Object: t.Object, Relation: t.Relation, Subject: t.Subject, QueryOptions: ostiary.QueryOptions{Consistency: c}})
	if err == nil && r.Decision.String() != "true" {
		w.fail("a node answers %s to the acknowledged write %s", r.Decision, object)
	}
}

// disturb makes faults.
func (w *world) disturb() {
	for range faultsTotal {
		time.Sleep(time.Duration(w.random(300)) * time.Millisecond)
		n := w.nodes[w.random(nodesTotal)]
		switch w.random(4) {
		case 0:
			n.link.down.Store(true)
			time.Sleep(time.Duration(w.random(4000)) * time.Millisecond)
			n.link.down.Store(false)
		case 1:
			n.link.lossy.Store(true)
			time.Sleep(time.Duration(w.random(1000)) * time.Millisecond)
			n.link.lossy.Store(false)
		default:
			if err := n.restart(w.ctx, w.random(2) == 0); err != nil {
				w.fail("restart: %w", err)
				return
			}
		}
	}
}

// judge checks the promises once all links work.
func (w *world) judge() {
	time.Sleep(10 * time.Second) // what is uncertain is settled
	var first storage.Head
	for i, n := range w.nodes {
		s, err := n.engine.Load().Store(w.ctx, w.id)
		if err != nil {
			w.fail("node %d: %w", i, err)
			continue
		}
		for object, outcome := range w.outcomes {
			t := tuple(object)
			r, err := s.Check(w.ctx, ostiary.CheckRequest{Object: t.Object, Relation: t.Relation, Subject: t.Subject, QueryOptions: ostiary.QueryOptions{Consistency: ostiary.FullyConsistent()}})
			switch there := err == nil && r.Decision.String() == "true"; {
			case err != nil:
				w.fail("node %d: %w", i, err)
			case outcome == nil && !there:
				w.fail("node %d has lost the acknowledged write %s", i, object)
			case outcome != nil && !errors.Is(outcome, ostiary.ErrUncertain) && !errors.Is(outcome, ostiary.ErrClosed) && there:
				w.fail("node %d has the write %s, which failed with %w", i, object, outcome)
			}
		}
		local, err := kv.New(clone(n.disk), kv.Options{Copy: true})
		if err != nil {
			w.fail("node %d: %w", i, err)
			continue
		}
		if _, err := storagetest.Verify(w.ctx, local, w.id); err != nil {
			w.fail("node %d: %w", i, err)
		}
		head, err := local.Head(w.ctx, w.id)
		if i == 0 {
			first = head
		}
		if err != nil || head != first {
			w.fail("node %d has the head %+v, node 0 %+v, error %w", i, head, first, err)
		}
	}
}
