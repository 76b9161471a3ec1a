package raftlog

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"path/filepath"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	consensus "github.com/hashicorp/raft"
	"google.golang.org/grpc"

	"github.com/ostiary/ostiary/storage"
)

// Options are the options of [Open].
type Options struct {
	// Folder keeps the log of this node. It is made if it is missing.
	Folder string
	// Address is where the other nodes reach this one. It is what their Dial gets.
	Address string
	// Dial returns a connection to the node with an address. The node does not close
	// it. It is called often, so it should return the same connection again.
	Dial func(ctx context.Context, address string) (*grpc.ClientConn, error)
	// ID is the id of a new folder, which no other node has. The default is a random one.
	// Open fails with ErrRefused if the folder has another id.
	ID string
	// First makes this node the first one of a new log, if its folder is new.
	// Without it a new node waits until [Server.Add] of another node adds it.
	First bool
	// Cluster is the name of the log that a new folder becomes a part of, see
	// [Server.Cluster]. It is not used with First. Open fails for a new folder without both.
	Cluster string
	// Peers are addresses of other nodes, which the node asks for the members while its own
	// part of the log may not have them.
	Peers []string
	// Certified fails unless the certificate with which a call came is that of the node
	// with an id, which others reach at an address; "" if the address is not known. It is
	// asked for each call. named is true if the certificate itself names a node. Nil takes
	// each caller for the node that it names, as a test may whose server only its own nodes
	// reach.
	Certified func(ctx context.Context, id, address string) (named bool, err error)
	// Log gets what the consensus reports. Nil drops it.
	Log *slog.Logger
	// HolderLease is the one of the cluster of a new folder, see [sharedlog.Settings]; 0
	// means the default. A folder whose log has settings does not use it.
	HolderLease time.Duration
	// Heartbeat is how long a node waits for the leader before it wants to lead. It must be
	// longer than the longest round trip between voters. The default is three tenths of
	// the holder lease, and at least 300 ms.
	Heartbeat time.Duration
	// SnapshotEntries is after how many entries the consensus drops old ones. The
	// default is 8192.
	SnapshotEntries uint64

	fs         vfs.FS // of tests
	versionMax int    // of tests: the only version that the node speaks; 0 means the constants

	writeTimeMax time.Duration // of tests; 0 means the constant
}

// defaults of Options.
const (
	heartbeatMin           = 300 * time.Millisecond
	snapshotEntriesDefault = 8192
)

// Server is the server of this node in the consensus. It is a voter, or only a follower.
// All methods are safe for concurrent use.
type Server struct {
	opts    Options
	id      consensus.ServerID
	process string        // random, for each Open
	opened  chan struct{} // closed when Open has succeeded
	db      *pebble.DB
	entries *store
	machine *machine
	raft    *consensus.Raft

	incoming chan net.Conn // connections of the consensus that others have opened
	trans    *transport    // nil before it is opened

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	broken chan struct{} // closed when the disk has failed

	looking sync.Mutex // held while members are looked up, see lookUp

	mu       sync.Mutex
	rounds   int    // that are under way, see verifyLeader
	next     *round // the one that begins when another one ends; nil if no call waits for it
	catching *round // the question of calls that catch up; nil if there is none
	barrier  uint64 // the term in which everything before it is known to be committed
	cluster  string // see Cluster
	failed   error  // why the node can take part no longer
	// transferred has when a server did not take the lead over, see transfer.
	transferred map[string]time.Time
	disk        error // why its disk has failed

	closing  sync.Once
	closeErr error
}

// keyID is the key of the random id of a node.
var keyID = []byte("ostiary-id")

// Open starts the node of a folder. It does not wait for a leader. The caller must
// register the node at the server whose connections Dial reaches, before or soon
// after. Open fails with an error of the disk, or if another process has the folder.
func Open(opts Options) (*Server, error) {
	n := newNode(opts)
	if err := n.open(); err != nil {
		n.Close()
		return nil, fmt.Errorf("open the node's log in %s: %w", opts.Folder, err)
	}
	return n, nil
}

// newNode returns a node that has nothing open yet.
func newNode(opts Options) *Server {
	if opts.SnapshotEntries == 0 {
		opts.SnapshotEntries = snapshotEntriesDefault
	}
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	n := &Server{opts: opts, process: randomID(), opened: make(chan struct{}), incoming: make(chan net.Conn), broken: make(chan struct{}), transferred: map[string]time.Time{}}
	n.ctx, n.cancel = context.WithCancel(context.Background())
	return n
}

// openDatabase opens the database of the folder, and reads who the node is. A new folder
// is an error if it must exist.
func (n *Server) openDatabase(mustExist bool) (err error) {
	log := pebbleLog{n.opts.Log, n.failDisk}
	options := &pebble.Options{FS: n.opts.fs, Logger: log, EventListener: log.listener(), FormatMajorVersion: pebble.FormatNewest, ErrorIfNotExists: mustExist}
	if n.db, err = pebble.Open(filepath.Join(n.opts.Folder, "entries"), options); err != nil {
		return err
	}
	if n.entries, err = openStore(n.db, n.diskFailed, n.failDisk); err != nil {
		return err
	}
	if n.machine, err = openMachine(n.db); err != nil {
		return err
	}
	n.machine.report, n.machine.ended = n.fail, n.ctx.Done()
	if n.opts.Heartbeat <= 0 {
		n.opts.Heartbeat = max(heartbeatMin, 3*n.HolderLease()/10)
	}
	if n.id, err = serverID(n.entries, n.opts.ID); err != nil {
		return err
	}
	n.cluster, err = clusterName(n.entries)
	return err
}

func (n *Server) open() error {
	if err := n.openDatabase(false); err != nil {
		return err
	}
	if err := n.checkRecovered(); err != nil {
		return err
	}
	if err := n.joinCluster(); err != nil {
		return err
	}
	snapshots, config, err := n.configure()
	if err != nil {
		return err
	}
	if n.opts.First {
		first := consensus.Configuration{Servers: []consensus.Server{{ID: n.id, Address: consensus.ServerAddress(n.opts.Address)}}}
		err := consensus.BootstrapCluster(config, n.entries, n.entries, snapshots, n.trans, first)
		if err != nil && !errors.Is(err, consensus.ErrCantBootstrap) {
			return err
		}
	}
	cached, err := consensus.NewLogCache(512, n.entries)
	if err != nil {
		return err
	}
	if config.NoSnapshotRestoreOnStart, err = n.restored(snapshots); err != nil {
		return err
	}
	if n.raft, err = consensus.NewRaft(config, n.machine, cached, n.entries, snapshots, n.trans); err == nil {
		close(n.opened)
		n.entries.running.Store(true)
		go n.entries.watch(n.ctx.Done(), cmp.Or(n.opts.writeTimeMax, writeTimeMax))
	}
	return errors.Join(err, n.Failed())
}

// restored reports whether the machine has what the newest snapshot has. It has less if the
// node ended after it had got the snapshot, and before it had restored all of it.
func (n *Server) restored(snapshots consensus.SnapshotStore) (bool, error) {
	list, err := snapshots.List()
	return len(list) == 0 || n.machine.meta.Applied >= list[0].Index, err
}

// configure returns the snapshots of the consensus and its settings, and opens its
// transport.
func (n *Server) configure() (*consensus.FileSnapshotStore, *consensus.Config, error) {
	logger := newConsensusLog(n.opts.Log)
	snapshots, err := consensus.NewFileSnapshotStoreWithLogger(n.opts.Folder, 2, logger)
	if err != nil {
		return nil, nil, err
	}
	n.trans = &transport{consensus.NewNetworkTransportWithConfig(&consensus.NetworkTransportConfig{
		Stream: (*streamLayer)(n), MaxPool: 3, MaxRPCsInFlight: requestsMax, Timeout: 10 * time.Second, Logger: logger}), 2 * n.opts.Heartbeat}
	config := consensus.DefaultConfig()
	config.LocalID = n.id
	config.Logger = logger
	config.HeartbeatTimeout, config.ElectionTimeout = n.opts.Heartbeat, n.opts.Heartbeat
	config.LeaderLeaseTimeout = n.opts.Heartbeat
	config.CommitTimeout = min(n.opts.Heartbeat/10, commitTimeMax)
	config.SnapshotThreshold, config.TrailingLogs = n.opts.SnapshotEntries, n.opts.SnapshotEntries/2
	config.SnapshotInterval = 10 * time.Second
	config.NoLegacyTelemetry = true
	return snapshots, config, nil
}

// requestsMax is how many requests with entries, or with what is decided, may be on their way
// to a follower. With the two of the library, an entry for a follower that is far away waits
// for the answer to an earlier request.
const requestsMax = 32

// commitTimeMax is the longest time after which an idle leader makes known what is decided.
// A read through a follower waits for that, however long the heartbeat is.
const commitTimeMax = 100 * time.Millisecond

// serverID returns the id of the server that a folder keeps, and sets it in a new
// folder; "" means a random one.
func serverID(s *store, id string) (consensus.ServerID, error) {
	b, err := s.Get(keyID)
	switch {
	case err != nil:
		return "", err
	case len(b) == 0 && id == "":
		id = randomID()
		fallthrough
	case len(b) == 0:
		return consensus.ServerID(id), s.Set(keyID, []byte(id))
	case id != "" && id != string(b):
		return "", fmt.Errorf("%w: it is that of node %s, and this is node %s: a part of another folder was copied", ErrRefused, b, id)
	}
	return consensus.ServerID(b), nil
}

func randomID() string {
	random := make([]byte, 16)
	_, _ = rand.Read(random) // never fails
	return hex.EncodeToString(random)
}

// ID returns the random id of the node, which its folder keeps.
func (n *Server) ID() string { return string(n.id) }

// HolderLease returns the holder lease of the settings of the log, or that of the options
// if the log has none yet.
func (n *Server) HolderLease() time.Duration {
	n.machine.mu.RLock()
	defer n.machine.mu.RUnlock()
	return cmp.Or(n.machine.meta.Cluster.Settings.HolderLease, n.opts.HolderLease)
}

// Log returns a connection to the shared log.
func (n *Server) Log() *Log { return &Log{node: n, closed: make(chan struct{})} }

// closeTime is how long Close waits for the consensus, which may wait for a disk that does
// not answer.
const closeTime = 20 * time.Second

// Close stops the node. The others go on if they are a majority.
func (n *Server) Close() error {
	n.closing.Do(func() { n.closeErr = n.close() })
	return n.closeErr
}

func (n *Server) close() (err error) {
	if n.raft != nil && n.diskFailed() == nil && n.Leader() {
		ctx, cancel := context.WithTimeout(n.ctx, 5*n.opts.Heartbeat)
		_ = n.await(ctx, n.raft.LeadershipTransfer) // so that the others need no election
		cancel()
	}
	if n.trans != nil {
		err = n.trans.Close()
	}
	n.cancel()
	ended := make(chan error, 1)
	go func() { ended <- n.end() }()
	select {
	case endErr := <-ended:
		return errors.Join(err, endErr)
	case <-n.broken: // the consensus may be in the middle of a write, and end never
		return err
	case <-time.After(closeTime):
		return errors.Join(err, fmt.Errorf("the node's log did not end within %s: its disk may not answer", closeTime))
	}
}

// end returns when the consensus has ended, and closes the database.
func (n *Server) end() error {
	if n.raft != nil {
		if err := n.raft.Shutdown().Error(); err != nil {
			return err
		}
	}
	switch {
	case n.diskFailed() != nil || n.db == nil:
		return nil
	case n.entries == nil:
		return n.db.Close()
	}
	return n.entries.close()
}

// Leader reports whether this node leads, as far as it knows.
func (n *Server) Leader() bool { return n.raft.State() == consensus.Leader }

// Syncs returns how often the node has waited for its disk to keep entries of the log
// since it was opened. Entries that arrive meanwhile share the next time.
func (n *Server) Syncs() uint64 { return n.entries.syncs.Load() }

// await returns the error of an answer of the consensus. It does not wait for it longer than
// until ctx or the node ends: a question that the consensus has when it ends, or when its
// disk does not answer, is never answered.
func (n *Server) await(ctx context.Context, ask func() consensus.Future) error {
	answer := make(chan error, 1)
	go func() { answer <- ask().Error() }()
	var err error
	select {
	case err = <-answer:
	case <-ctx.Done():
		return ctx.Err()
	case <-n.ctx.Done():
		return errEnded
	}
	switch {
	case errors.Is(err, consensus.ErrNotLeader), errors.Is(err, consensus.ErrEnqueueTimeout), errors.Is(err, consensus.ErrLeadershipTransferInProgress):
		return fmt.Errorf("%w: %w", errNotLeader, err)
	case errors.Is(err, consensus.ErrRaftShutdown):
		return errEnded
	}
	return err
}

// propose makes a command on the leader, waits until it is applied there, and returns
// its index. It fails with errNotLeader if this node did not begin, and with errEnded if
// the outcome is open because the consensus has ended.
func (n *Server) propose(ctx context.Context, c []byte) (uint64, error) {
	return n.applied(ctx, func() consensus.ApplyFuture { return n.raft.Apply(c, memberTimeout) })
}

// applied waits until a command is applied on the leader, and returns its index, see propose.
func (n *Server) applied(ctx context.Context, ask func() consensus.ApplyFuture) (uint64, error) {
	var f consensus.ApplyFuture
	err := n.await(ctx, func() consensus.Future {
		f = ask()
		return f
	})
	if err != nil {
		return 0, err
	}
	if err, ok := f.Response().(error); ok {
		return 0, err
	}
	return f.Index(), nil
}

// index returns an index of the consensus that covers everything that was decided
// before the call. Only the leader knows one; else it fails with errNotLeader.
func (n *Server) index(ctx context.Context) (uint64, error) {
	term := n.raft.CurrentTerm()
	n.mu.Lock()
	known := n.barrier == term
	n.mu.Unlock()
	if !known {
		// Until a new leader has committed something, it may not know how far its
		// predecessor was.
		if err := n.await(ctx, func() consensus.Future { return n.raft.Barrier(memberTimeout) }); err != nil {
			return 0, fmt.Errorf("%w: %w", errNotLeader, err)
		}
		n.mu.Lock()
		n.barrier = max(n.barrier, term)
		n.mu.Unlock()
	}
	at := n.raft.CommitIndex()
	if err := n.verifyLeader(ctx); err != nil {
		return 0, fmt.Errorf("%w: %w", errNotLeader, err)
	}
	if n.raft.CurrentTerm() != term {
		return 0, errNotLeader
	}
	at, err := n.entries.lastApplicable(at)
	if errors.Is(err, storage.ErrClosed) {
		return 0, fmt.Errorf("%w: %w", errNotLeader, errEnded)
	}
	if err != nil || at > 0 {
		return at, err
	}
	// The log begins with entries that no machine gets. One that it gets ends that.
	nothing, err := (&command{Operation: opNothing}).encode()
	if err != nil {
		return 0, err
	}
	return n.propose(ctx, nothing)
}

// streamLayer is a node as the listener and dialer of its consensus.
type streamLayer Server

var _ consensus.StreamLayer = (*streamLayer)(nil)

// Accept implements [net.Listener].
func (l *streamLayer) Accept() (net.Conn, error) {
	select {
	case c := <-l.incoming:
		return c, nil
	case <-l.ctx.Done():
		return nil, io.EOF
	}
}

// Close implements [net.Listener].
func (l *streamLayer) Close() error { return nil }

// Addr implements [net.Listener].
func (l *streamLayer) Addr() net.Addr { return nodeAddress(l.opts.Address) }

// Dial implements [consensus.StreamLayer].
func (l *streamLayer) Dial(address consensus.ServerAddress, timeout time.Duration) (net.Conn, error) {
	return (*Server)(l).dialStream(string(address), timeout)
}
