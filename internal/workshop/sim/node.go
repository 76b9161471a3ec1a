package sim

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/internal/cluster/clustertest"
	"github.com/ostiary/ostiary/internal/cluster/lease"
	"github.com/ostiary/ostiary/internal/cluster/replica"
	"github.com/ostiary/ostiary/internal/cluster/sharedlog"
	"github.com/ostiary/ostiary/internal/cluster/sharedlog/memorylog"
	"github.com/ostiary/ostiary/internal/workshop/history"
	"github.com/ostiary/ostiary/storage"
)

// surroundings are all that the product's code of a node gets from outside.
type surroundings struct {
	clock       func() time.Time // of the machine
	log         sharedlog.Log    // the connection to the log
	disk        medium           // of the local copy
	window      time.Duration    // of the engine
	logWindow   time.Duration    // of the engine
	groupsAhead int              // of the engine
	pace        time.Duration    // of the copy
	// peers is the connection to the other nodes, and timer the clock of the leases. With
	// nil every node writes, and nothing waits for other nodes.
	peers lease.Link
	timer lease.Clock
	// low reports whether the disk of the node has so little room that others do its work.
	low func() bool
	// show is called before the engine shows what other nodes have written. It may be
	// nil.
	show func(ctx context.Context)
}

// product is the code of a node, as the server runs it.
type product struct {
	node   *lease.Keeper // nil without peers
	driver *replica.Driver
	engine *ostiary.Engine
}

// reportInterval is the time between two reports of a node, and the longest tail of
// its copy that is not synced.
const reportInterval = 700 * time.Millisecond

// start starts the product's code of one node. It is the only place that does.
func start(ctx context.Context, s surroundings) (p product, err error) {
	local, err := s.disk.open()
	if err != nil {
		return p, err
	}
	opts := replica.Options{ReportInterval: reportInterval, Pace: s.pace}
	var d storage.Driver
	if s.peers != nil {
		if p.node, err = lease.Open(ctx, s.log, local, lease.Options{Clock: s.timer, Copy: opts, Low: s.low}); err != nil {
			return p, err
		}
		d, p.driver = p.node, p.node.Driver
	} else {
		free, err := clustertest.OpenReplica(ctx, s.log, local, opts)
		if err != nil {
			return p, err
		}
		d, p.driver = free, free.Driver
	}
	if s.show != nil {
		p.driver.OnApplied(func(ctx context.Context, _ []storage.StoreID) error {
			s.show(ctx)
			return nil
		})
	}
	p.engine, err = ostiary.Open(ctx, ostiary.Options{Driver: d, Clock: s.clock, Bounds: authz.Bounds{GroupsAhead: s.groupsAhead}, Window: s.window, LogWindow: s.logWindow, SecretKey: &[32]byte{1}})
	if err == nil && p.node != nil {
		p.node.Start(s.peers)
	}
	return p, err
}

// close closes the node, as at an orderly end: it hands its role over.
func (p *product) close() error {
	if p.node != nil {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = p.node.Leave(ctx) // without another node, the role ends with its lease
	}
	return errors.Join(p.engine.Close(), p.driver.Close())
}

// server is a log, which notes its segments.
type server struct {
	*memorylog.Log
	tables *memorylog.Tables
	world  *world
	*noted
}

// noted are the segments that a log has ever had, also after it was moved.
type noted struct {
	mu       sync.Mutex
	segments [][]byte // the segment with sequence n is at n-1
}

// newServer returns a new log.
func (w *world) newServer(n *noted) *server {
	tables := memorylog.New()
	return &server{Log: tables.Open(), tables: tables, world: w, noted: n}
}

func (s *server) Append(ctx context.Context, after sharedlog.Position, record sharedlog.Record, secrets []sharedlog.SecretChange) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.Log.Append(ctx, after, record, secrets)
	switch {
	case err != nil:
	case record.Sequence > uint64(len(s.segments)):
		s.segments = append(s.segments, record.Bytes)
	case !bytes.Equal(s.segments[record.Sequence-1], record.Bytes): // moved from the other log
		s.world.fail("a log and the one that it was moved to have different segments %d", record.Sequence)
	}
	return err
}

// head returns the sequence of the last segment.
func (n *noted) head() uint64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	return uint64(len(n.segments))
}

// machine is what of a node outlives its processes.
type machine struct {
	world  *world
	number int
	skew   atomic.Int64 // of the clock, in ns

	disk medium
	low  atomic.Bool    // the disk is below its reserve
	id   storage.NodeID // of the disk

	process atomic.Pointer[process] // the newest one; nil before the first
	// lost is true once the node refuses to serve for good, because the log was restored.
	lost bool
}

// process is one start of a node.
type process struct {
	product
	world   *world
	machine *machine
	random  func(n int) int
	gate    gate
	link    *link
	peers   *peers // nil unless the nodes are coordinated
	disk    medium
	killed  atomic.Bool
	// began is the last sequence of the log when the process was started. The numbers of
	// known count the processes of the run.
	began uint64
	known history.Process
	// knew is the last sequence of the process when the log was restored without it; 0
	// if the log had all that the process had.
	knew atomic.Uint64
}

// start starts a process of the node, and tries again while faults prevent it.
func (m *machine) start() {
	w := m.world
	for w.ctx.Err() == nil {
		p := &process{world: w, machine: m, random: w.random, disk: m.disk, known: history.Process{Number: int(w.processes.Add(1))}}
		p.link = &link{log: w.log, of: p, state: &state{}}
		onLog := func(l *link) sharedlog.Log {
			if w.pipelined {
				return &pipeline{link: l}
			}
			return l
		}
		p.began = w.log.head()
		s := surroundings{clock: m.clock, log: onLog(p.link), disk: m.disk, window: w.window, logWindow: w.logWindow, low: m.low.Load, groupsAhead: w.groupsAhead, pace: time.Duration(1 + w.random(int(travelMax)))}
		if w.network != nil {
			p.peers = w.newPeers(p)
			s.peers, s.timer = p.peers, p.peers.host
		}
		if w.slowViews {
			s.show = p.show
		}
		if w.next != nil {
			s.log = sharedlog.WithNext(s.log, onLog(&link{log: w.next, of: p, state: p.link.state}), func() {})
		}
		limit := 10 * time.Second
		if w.random(4) == 0 { // the start is cut off
			limit = time.Duration(w.random(int(30 * time.Millisecond)))
		}
		ctx, cancel := context.WithTimeout(w.ctx, limit)
		var err error
		p.product, err = start(ctx, s)
		cancel()
		if err == nil {
			p.peers.attach(p.node)
			m.process.Store(p)
			return
		}
		if p.driver != nil {
			_ = p.driver.Close()
		}
		m.disk = m.disk.crashed(w.random(2) == 0, w.random)
		if w.restored.Load() && isOtherHistory(err) {
			m.lost = true
			return
		}
		if !isFault(err) {
			w.fail("a node does not start: node %d: %w", m.number, err)
			m.lost = true
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// show takes as long as views take that are slow to follow.
func (p *process) show(ctx context.Context) {
	select {
	case <-time.After(time.Duration(p.random(int(viewMax)))):
	case <-ctx.Done():
	}
}

// viewMax is how long slow views take at most to show a change. A node gets no read lease
// before it shows what the holder has named.
const viewMax = 200 * time.Millisecond

// clock is the clock of the machine.
func (m *machine) clock() time.Time { return time.Now().Add(time.Duration(m.skew.Load())) }

// registered checks the record with which a process enters the registry of a log.
func (p *process) registered(log sharedlog.Log, n sharedlog.NodeRecord) {
	m := p.machine
	m.id = n.ID
	if n.Stopped {
		return // it waits until the log is moved
	}
	nodes, _, err := log.Nodes(context.Background())
	if err != nil {
		panic(err) // the log is in RAM
	}
	for _, had := range nodes {
		if had.ID == n.ID && n.Applied < had.Synced && !m.world.restored.Load() {
			m.world.fail("a node has less than it reported as synced: node %d has segment %d after a crash, but it reported segment %d", m.number, n.Applied, had.Synced)
		}
	}
}

// isFault reports whether an error comes from a fault that the simulation makes.
func isFault(err error) bool {
	return errors.Is(err, errLink) || errors.Is(err, errFull) || errors.Is(err, context.DeadlineExceeded)
}

// isOtherHistory reports whether an error is what a node must answer whose copy does
// not follow from a restored log.
func isOtherHistory(err error) bool {
	return errors.Is(err, storage.ErrHistory) || errors.Is(err, sharedlog.ErrNodeTaken) || errors.Is(err, replica.ErrBehind)
}

// kill ends the process at once. With lost, the machine loses what was not synced.
func (m *machine) kill(lost bool) {
	p := m.process.Load()
	p.link.dead.Store(true)
	p.killed.Store(true)
	p.peers.cut()
	m.disk = p.disk.crashed(lost, m.world.random)
	p.resume()
	// What is left of the process in this program ends in the background.
	m.world.late.Go(func() { _ = p.close() })
}

// stop ends the process in order: the disk is synced.
func (m *machine) stop() {
	p := m.process.Load()
	if err := p.close(); err != nil {
		m.world.fail("node %d: close: %w", m.number, err)
	}
	p.killed.Store(true)
	m.disk = p.disk.crashed(false, m.world.random)
}
