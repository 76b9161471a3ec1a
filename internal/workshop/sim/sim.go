// Package sim plays several nodes on one shared log, with faults, in virtual time. The
// nodes run the product's own code: engines on replicas, in some runs with the leases of
// package cluster. Only the clocks, the connections to the log and to other nodes, and the
// disk below the copy are injected. [Run] plays one seed and checks
// the promises to the callers in the history of all calls. The order of goroutines is
// not part of the seed.
package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing/synctest"
	"time"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/internal/cluster/clustertest"
	"github.com/ostiary/ostiary/schema"
	"github.com/ostiary/ostiary/storage"
	"github.com/ostiary/ostiary/storage/memory"
)

const (
	nodesTotal   = 3
	clientsTotal = 4
	callsEach    = 30
	// settleTime is how long the nodes have, once all faults have ended, until they must
	// agree.
	settleTime = 15 * time.Second
	// callsTime is how long all calls of a run may take. A client makes its calls one after
	// the other, and none of them may take more than some seconds.
	callsTime = 20 * time.Minute
	// farMax is how much longer than on a near log an append takes at most on one that is far
	// away.
	farMax = 100 * time.Millisecond
	// stallsOf is how many coordinated runs there are for one at whose end the log stalls.
	stallsOf = 3
	// filesEvery is how many runs there are for one with folders of Pebble, which takes
	// several times as long.
	filesEvery = 8
)

// errStuck is the error of a run with a call that does not return. It cannot be ended: its
// goroutines are left behind.
var errStuck = errors.New("a call does not return")

// world is one run.
type world struct {
	ctx         context.Context
	log         *server
	next        *server // where the log is moved to; nil if it stays
	machines    []*machine
	processes   atomic.Int64
	id          storage.StoreID // of the store that the clients use
	random      func(n int) int
	window      time.Duration
	logWindow   time.Duration
	groupsAhead int           // see Run
	pipelined   bool          // the log keeps the order of appends
	far         time.Duration // how much longer an append takes then, at most
	onFiles     bool          // the copies are folders of Pebble
	slowViews   bool          // views are slow to show what other nodes have written
	// network connects the nodes if they are coordinated: one of them writes, and the
	// others have read leases. Otherwise every node writes.
	network *clustertest.Network

	stalls gate // closed while the log does not answer, see stall

	// over is closed when the clients have ended.
	over chan struct{}
	// late are messages and processes that nobody waits for.
	late     sync.WaitGroup
	restored atomic.Bool // the log was restored from a backup
	record   record

	mu    sync.Mutex
	peers []*peers // of all processes so far
	wrong []error
}

// fail records a broken promise.
func (w *world) fail(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wrong = append(w.wrong, fmt.Errorf(format, args...))
}

// Run plays a seed in a bubble of testing/synctest, in which it is called. groupsAhead is how
// many groups of writes of one store may overlap; 0 means 1, 2 or 16, by the seed. It returns
// every promise that was broken; docs/testing.md lists them.
func Run(ctx context.Context, seed uint64, groupsAhead int) error {
	w := newWorld(ctx, seed)
	if groupsAhead > 0 {
		w.groupsAhead = groupsAhead
	}
	if err := w.play(); err != nil {
		w.fail("%w", err)
	}
	if len(w.wrong) == 0 {
		w.judge()
	}
	if err := errors.Join(w.wrong...); err != nil {
		return fmt.Errorf("seed %d: %w", seed, err)
	}
	return nil
}

func newWorld(ctx context.Context, seed uint64) *world {
	var mu sync.Mutex
	source := rand.New(rand.NewPCG(seed, 1))
	w := &world{ctx: ctx, over: make(chan struct{}), random: func(n int) int {
		mu.Lock()
		defer mu.Unlock()
		return source.IntN(n)
	}}
	w.log = w.newServer(&noted{})
	w.groupsAhead = []int{16, 1, 2}[seed%3]
	if w.pipelined = w.random(4) > 0; w.pipelined && w.random(2) == 0 {
		w.far = farMax
	}
	w.window, w.logWindow = 24*time.Hour, 0
	if w.random(3) == 0 { // trims
		w.window, w.logWindow = time.Second, time.Second
	}
	if w.random(5) < 2 {
		w.network = clustertest.NewNetwork()
		w.network.SetDelay(func() time.Duration { return time.Duration(w.random(int(travelMax))) })
		if w.random(3) == 0 {
			w.next = w.newServer(w.log.noted)
		}
		w.slowViews = w.random(2) == 0
	}
	w.onFiles = w.random(filesEvery) == 0
	for i := range nodesTotal {
		w.machines = append(w.machines, &machine{world: w, number: i, disk: w.newMedium()})
	}
	return w
}

// newMedium returns an empty disk.
func (w *world) newMedium() medium {
	if w.onFiles {
		return newFolder()
	}
	return newDisk(memory.NewStore())
}

// play plays the run: the clients and the faults, and then a time without faults.
func (w *world) play() error {
	var clients, faults sync.WaitGroup
	stuck := false
	defer func() {
		if !stuck {
			w.end()
		}
	}()
	for _, m := range w.machines {
		m.start()
	}
	if len(w.wrong) > 0 {
		return nil
	}
	if err := w.open(); err != nil {
		return fmt.Errorf("the first store cannot be created: %w", err)
	}
	clientsTotal := clientsTotal
	if w.far > 0 { // so that writes overlap
		clientsTotal *= 2
	}
	for i := range clientsTotal {
		c := &client{world: w, number: i}
		clients.Go(c.run)
	}
	clients.Go(w.enemies)
	for _, m := range w.machines {
		faults.Go(m.disturb)
	}
	if w.next != nil {
		faults.Go(w.move)
	} else if w.random(6) == 0 {
		faults.Go(w.restore)
	}
	if stuck = !within(callsTime, &clients); stuck {
		return errStuck
	}
	close(w.over)
	faults.Wait()
	time.Sleep(settleTime)
	for _, m := range w.machines {
		if failed := m.process.Load().driver.Failed(); failed != nil && !m.lost { // at the end of the faults
			m.recover(m.process.Load(), failed)
			time.Sleep(settleTime)
		}
	}
	if w.network != nil && w.random(stallsOf) == 0 {
		w.stall()
		time.Sleep(settleTime)
	}
	synctest.Wait()
	return w.agree()
}

// within waits for a group for a limited time, and reports whether it has ended.
func within(limit time.Duration, group *sync.WaitGroup) bool {
	ended := make(chan struct{})
	go func() {
		group.Wait()
		close(ended)
	}()
	select {
	case <-ended:
		return true
	case <-time.After(limit):
		return false
	}
}

// end stops all that still runs.
func (w *world) end() {
	for _, m := range w.machines {
		if p := m.process.Load(); p != nil && !p.killed.Load() {
			p.resume()
			_ = p.close()
		}
	}
	w.late.Wait()
	time.Sleep(time.Second) // messages to nodes that have ended
}

// open creates the store, and waits until all nodes have it.
func (w *world) open() error {
	time.Sleep(3 * time.Second) // coordinated nodes choose the one that writes
	var holder *process
	err := w.forward(w.ctx, w.machines[0].process.Load(), func(p *process) error {
		holder = p
		s, err := p.engine.CreateStore(w.ctx, ostiary.CreateStoreRequest{})
		if err == nil {
			w.id = s.ID()
		}
		return err
	})
	if err != nil {
		return err
	}
	s, err := holder.engine.Store(w.ctx, w.id)
	if err != nil {
		return err
	}
	user := []schema.SubjectType{{Type: "user"}}
	viewer := schema.RelationDef{Name: "viewer", Rewrite: schema.Direct(), Subjects: user}
	parent := schema.RelationDef{Name: "parent", Rewrite: schema.Direct(), Subjects: []schema.SubjectType{{Type: "folder"}}}
	view := schema.RelationDef{Name: "view", Rewrite: schema.Union(schema.Computed("viewer"), schema.Arrow("parent", "viewer"))}
	model := schema.Model{Types: []schema.TypeDef{{Name: "user"}, {Name: "folder", Relations: []schema.RelationDef{viewer}},
		{Name: "doc", Relations: []schema.RelationDef{viewer, parent, view}}}}
	if _, _, err = s.WriteSchema(w.ctx, authz.SchemaSource{Model: &model}); err != nil {
		return err
	}
	time.Sleep(time.Second)
	return nil
}
