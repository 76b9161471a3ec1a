// Package replica makes a storage driver of a log that several nodes share and of a
// copy of the state on this node. Its main type is [Driver]. Changes go to the log
// first, and then to the copy; reads use the copy alone. The copy needs no fsync,
// because the log decides what was written.
//
// The package contains no network, no database and no rule of authorization. It does
// not decide which node may write: every node may, and the log lets one of them
// succeed.
package replica

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ostiary/ostiary/internal/cluster/sharedlog"
	"github.com/ostiary/ostiary/storage"
	"github.com/ostiary/ostiary/storage/kv"
)

// Local is the driver that keeps the copy: one over package kv that was opened with
// the option Copy, for example a pebble.Driver.
type Local interface {
	storage.Driver
	// Copy returns what changes the copy.
	Copy() (*kv.Copy, error)
}

// Options are the options of [Open].
type Options struct {
	// Address is where other nodes reach this one. The registry of the log has it.
	Address string
	// Zone and Preferred are those of the record in the registry.
	Zone      string
	Preferred bool
	// Node is the id of this node, which no other one has. The default is a random one
	// for a new copy. Open fails with ErrCluster if the copy is that of another node.
	Node storage.NodeID
	// KeyFingerprint identifies the key of the secrets. All nodes must have the same.
	KeyFingerprint storage.Hash
	// ReportInterval is the time between two reports to the registry. Before each of
	// them the copy is synced. The default is 5 s.
	ReportInterval time.Duration
	// SnapshotBytes is the size of segments, in bytes, after which the node stores a
	// snapshot in the log and drops the segments behind it, see [Driver.Maintain]. The
	// default is 64 MiB; -1 turns both off.
	SnapshotBytes int64
	// Leads reports whether this node stores snapshots and trims the log. nil means that
	// it does; with several nodes, one is enough.
	Leads func() bool
	// Settings are what this node needs of the settings of the cluster, see
	// [sharedlog.Settings.Settle]. With nil the node takes the cluster as it is.
	Settings *sharedlog.Settings
	// Gate decides when this node may append. With the zero Gate every node may.
	Gate Gate
	// Pace is the least time between two segments that are on their way to the log at the
	// same time. A log that takes less for a segment is waited for. The default is 10 ms.
	Pace time.Duration
}

// Fingerprint identifies a key of secrets, for [Options]; it is zero without a key.
func Fingerprint(key *[32]byte) storage.Hash {
	if key == nil {
		return storage.Hash{}
	}
	return sha256.Sum256(append([]byte("ostiary: fingerprint of a secret key\x00"), key[:]...))
}

// Errors of replicas, for use with errors.Is.
var (
	// ErrStopped means that the node no longer serves its stores. The error also wraps
	// the reason: storage.ErrHistory, storage.ErrDamaged, storage.ErrFormat, ErrBehind,
	// sharedlog.ErrNodeTaken, or an error of the local disk.
	ErrStopped = errors.New("node has stopped serving")
	// ErrBehind means that the log no longer has what follows the copy. After a
	// restart, the node takes a snapshot.
	ErrBehind = errors.New("copy is too far behind the log")
	// ErrCluster means that the copy belongs to another cluster than the log.
	ErrCluster = errors.New("copy belongs to another cluster")
	// ErrKey means that the nodes have different keys for secrets.
	ErrKey = errors.New("key of the secrets differs from that of the other nodes")
	// ErrFenced means that another node has written with a higher epoch. The change has
	// no effect.
	ErrFenced = fmt.Errorf("%w: another one writes with a higher epoch", storage.ErrNotHolder)
)

// Driver has the methods of a [storage.Driver] over a shared log and a local copy, without
// the rules of several nodes. Who embeds it adds them: when a change is acknowledged, and
// what the node waits for before a read and before a write, see [storage.Copy]. It is no
// [storage.Joiner], because a transaction on the copy would not be in the log.
//
// A read returns the state that the node has applied, which may be older than the
// log. A change returns when the log has it and the node has applied it.
type Driver struct {
	log   sharedlog.Log
	kept  sharedlog.Log // what this node has of the log; the log itself if that is not known
	local Local
	copy  *kv.Copy
	opts  Options

	ctx        context.Context // ends when the driver is closed
	cancel     context.CancelFunc
	background sync.WaitGroup // follower, appender, reporter and maintainer
	closing    sync.Once
	closeErr   error

	stopped atomic.Pointer[error] // why the node no longer serves
	applied atomic.Pointer[state] // what the copy has
	// readable is the last sequence of the transaction that was begun to be committed last:
	// its rows can be read a moment before applied has it.
	readable atomic.Uint64
	progress progress // wakes those who wait for applied, shown or stopped
	shower   shower
	recent   recent
	own      ownWrites
	// turn holds an element while a goroutine changes the copy.
	turn chan struct{}
	// version is that of the segments that this node writes; 0 is the oldest.
	version atomic.Uint32
	// commits is how long the log took for the last segment. The goroutine that appends owns it.
	commits time.Duration
	// appending is the sequence of the last segment that this node appends, or 0.
	appending atomic.Uint64
	// offered is true while another node sends the new segments.
	offered atomic.Bool
	// reading is how long this node took to read segments from the log lately, as a
	// time.Duration, see arrivalMin.
	reading atomic.Int64
	queue   queue
	// left has the ids of stores with a write whose caller has left before the outcome.
	// Their engine is notified of its own entries, when they are read from the log.
	left      sync.Map
	deletions deletions
	// registered is true once the registry has this start. Open sets it.
	registered bool
	// settings are those of the cluster. Open sets them.
	settings sharedlog.Settings
	// opened is true once Open has succeeded.
	opened bool
	// scrubs are stores whose deleted secrets are removed from the medium.
	scrubs chan storage.StoreID
	upkeep upkeep
	// maintained is the outcome of the last call of Maintain.
	maintained atomic.Pointer[error]
}

// scrubsMax is how many stores wait to be scrubbed.
const scrubsMax = 1024

// The defaults of Options.
const (
	reportIntervalDefault = 5 * time.Second
	snapshotBytesDefault  = 64 << 20
	paceDefault           = 10 * time.Millisecond
)

// Open returns a driver over a log and a copy, once the copy has everything that was
// in the log at the time of the call. The first node creates the cluster. A new copy,
// and one that is too far behind, takes the newest snapshot of the log. Close closes
// the log and the copy, and so does Open if it fails. Open fails with
//   - [ErrCluster] if the copy belongs to another cluster, and [ErrKey] if the nodes
//     have another key;
//   - [storage.ErrHistory] if the copy has segments that the log does not have: the log
//     was restored from a backup, or lost them;
//   - [storage.ErrFormat] if the log or the copy has a newer format;
//   - [sharedlog.ErrNodeTaken] if the node was started elsewhere with a copy of its
//     data;
//   - [ErrBehind] if the log neither has what follows the copy nor a snapshot.
func Open(ctx context.Context, log sharedlog.Log, local Local, opts Options) (*Driver, error) {
	if opts.ReportInterval <= 0 {
		opts.ReportInterval = reportIntervalDefault
	}
	if opts.SnapshotBytes == 0 {
		opts.SnapshotBytes = snapshotBytesDefault
	}
	if opts.Pace <= 0 {
		opts.Pace = paceDefault
	}
	r := &Driver{log: log, kept: log, local: local, opts: opts, turn: make(chan struct{}, 1), scrubs: make(chan storage.StoreID, scrubsMax)}
	if k, ok := log.(sharedlog.Kept); ok {
		r.kept = k.Kept()
	}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	r.queue.wake = make(chan struct{}, 1)
	r.shower.attached = map[int]func(context.Context, []storage.StoreID) error{}
	r.shower.pending = map[storage.StoreID]struct{}{}
	r.shower.wake = make(chan struct{}, 1)
	r.own.stores = map[storage.StoreID]struct{}{}
	r.own.turn = make(chan struct{}, 1)
	if err := r.open(ctx); err != nil {
		r.withdraw()
		r.Close()
		return nil, fmt.Errorf("open a copy of a shared log: %w", err)
	}
	r.opened = true
	r.background.Go(r.follow)
	r.background.Go(r.append)
	r.background.Go(r.show)
	r.background.Go(r.report)
	if opts.SnapshotBytes > 0 {
		r.background.Go(r.maintain)
	}
	return r, nil
}

func (r *Driver) open(ctx context.Context) (err error) {
	if r.copy, err = r.local.Copy(); err != nil {
		return err
	}
	cluster, err := r.join(ctx)
	if err != nil {
		return err
	}
	s, err := r.readState()
	if err != nil {
		return err
	}
	if s == nil {
		s = newState(cluster.ID, r.opts.Node)
	}
	if s.cluster != cluster.ID {
		return fmt.Errorf("%w: the copy belongs to cluster %s, the log to cluster %s", ErrCluster, s.cluster, cluster.ID)
	}
	if r.opts.Node != (storage.NodeID{}) && s.node != r.opts.Node {
		return fmt.Errorf("%w: the copy is that of node %s, and this is node %s: a part of another data folder was copied", ErrCluster, s.node, r.opts.Node)
	}
	next := *s
	next.start++
	if err := r.commit(r.copy.Begin(), &next); err != nil {
		return err
	}
	if err := r.copy.Sync(); err != nil { // the number of the start must never be used again
		return err
	}
	if next.applied.Sequence == 0 {
		// A new node is registered once it has something: if it ends before that, it must
		// not hold back the trimming of the log.
		if err := r.begin(ctx); err != nil {
			return err
		}
		if err := r.copy.Sync(); err != nil {
			return err
		}
	}
	r.settings = cluster.Settings
	if err := r.log.Register(ctx, r.node(r.applied.Load().applied.Sequence)); err != nil {
		return err
	}
	r.registered = true
	// Who changes the description looks for nodes afterwards, so either this node sees the
	// change, or its record is seen.
	if cluster, err = r.join(ctx); err != nil {
		return err
	}
	if err := r.useVersion(ctx, &cluster); err != nil {
		return err
	}
	if cluster.Settings != r.settings {
		r.settings = cluster.Settings
		if err := r.log.Report(ctx, r.node(r.applied.Load().applied.Sequence)); err != nil {
			return err
		}
	}
	return r.begin(ctx) // the log may have been trimmed before the node was registered
}

// begin brings the copy to the head of the log.
func (r *Driver) begin(ctx context.Context) error {
	if r.applied.Load().applied.Sequence == 0 {
		if err := r.takeSnapshot(ctx); err != nil && !errors.Is(err, sharedlog.ErrNoSnapshot) {
			return err
		}
	}
	begun := time.Now()
	err := r.catchUp(ctx)
	if errors.Is(err, ErrBehind) {
		if err = r.takeSnapshot(ctx); errors.Is(err, sharedlog.ErrNoSnapshot) {
			err = fmt.Errorf("%w: the log has neither segment %d nor a snapshot", ErrBehind, r.applied.Load().applied.Sequence+1)
		}
		if err == nil {
			r.stopped.Store(nil)
			err = r.catchUp(ctx)
		}
	}
	r.reading.Store(max(int64(time.Since(begun)), r.reading.Load()))
	if err == nil && r.applied.Load().incomplete { // also after an earlier start that ended too early
		err = r.fetchMissing(ctx)
	}
	return err
}

// join returns the description of the cluster. It creates it if there is none.
func (r *Driver) join(ctx context.Context) (sharedlog.Cluster, error) {
	for {
		have, err := r.log.Cluster(ctx)
		if err != nil {
			return have, err
		}
		next, err := r.describe(have)
		if err != nil || next == have {
			return next, err
		}
		if err := r.log.SwapCluster(ctx, have, next); !errors.Is(err, sharedlog.ErrSwap) {
			return next, err
		}
	}
}

// describe returns the description of the cluster as this node needs it, or why it does
// not belong to the cluster.
func (r *Driver) describe(have sharedlog.Cluster) (next sharedlog.Cluster, err error) {
	next = have
	if have.ID == (sharedlog.ClusterID{}) {
		next = sharedlog.Cluster{ID: sharedlog.ClusterID(storage.NewIncarnation()), Format: sharedlog.SegmentVersion, KeyFingerprint: r.opts.KeyFingerprint}
	}
	if err := next.CheckFormat(); err != nil {
		return next, err
	}
	if next.KeyFingerprint != r.opts.KeyFingerprint {
		return next, fmt.Errorf("%w: the fingerprint is %s, expected %s", ErrKey, r.opts.KeyFingerprint, next.KeyFingerprint)
	}
	if r.opts.Settings != nil {
		next.Settings, err = r.opts.Settings.Settle(have.Settings)
	}
	return next, err
}

// useVersion makes this node write the version of segments that its cluster uses. A newer
// one than before must be readable by all nodes: if one was registered while an operator
// raised the version, that is taken back. A node may write an older one at any time.
func (r *Driver) useVersion(ctx context.Context, c *sharedlog.Cluster) error {
	version := c.Version()
	if version > max(r.version.Load(), sharedlog.SegmentVersionMin) {
		nodes, _, err := r.log.Nodes(ctx)
		if err != nil || sharedlog.CheckReads(nodes, version) != nil {
			return err // the next report looks again
		}
	}
	r.version.Store(version)
	return nil
}

// node returns the record of this node for the registry.
func (r *Driver) node(synced uint64) sharedlog.NodeRecord {
	s := r.applied.Load()
	return sharedlog.NodeRecord{ID: s.node, Start: s.start, Address: r.opts.Address, Reads: sharedlog.SegmentVersion, Applied: s.applied.Sequence, Synced: synced,
		Zone: r.opts.Zone, Preferred: r.opts.Preferred, HolderLease: r.settings.HolderLease, ReadLease: r.settings.ReadLease}
}

// report reports to the registry, and scrubs stores, until the driver is closed.
func (r *Driver) report() {
	tick := time.NewTicker(r.opts.ReportInterval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			_ = r.Report(r.ctx) // the next report has the same
		case id := <-r.scrubs:
			_ = r.copy.Scrub(r.ctx, id) // the next trim scrubs again
		case <-r.ctx.Done():
			return
		}
	}
}

// Report syncs the copy and reports to the registry what it has. It is called
// regularly; tests call it, too. If another start of the same node is registered, the
// node stops serving. From then on, the node writes the version that its cluster uses.
func (r *Driver) Report(ctx context.Context) error {
	head, err := r.log.Head(ctx) // before the record, so that a node which follows has no lag
	if err == nil {
		err = r.reportAt(ctx, head.Sequence, false)
	}
	if err != nil {
		return err
	}
	cluster, err := r.log.Cluster(ctx)
	if err == nil && cluster.CheckVersion() == nil {
		err = r.useVersion(ctx, &cluster)
	}
	return err
}

// Version returns the version of the segments that this node writes.
func (r *Driver) Version() uint32 { return max(r.version.Load(), sharedlog.SegmentVersionMin) }

// reportAt is Report with the last sequence of the log. stopped is true for the last
// report.
func (r *Driver) reportAt(ctx context.Context, head uint64, stopped bool) error {
	synced := r.applied.Load().applied.Sequence
	err := r.copy.Sync()
	if err != nil {
		return r.stop(err)
	}
	n := r.node(synced)
	n.Head, n.Stopped = max(head, n.Applied), stopped
	err = r.log.Report(ctx, n)
	if errors.Is(err, sharedlog.ErrNodeTaken) {
		return r.stop(err)
	}
	return err
}

// farewellTime bounds what the last words of a node to the registry take.
const farewellTime = time.Second

// withdraw removes the record of a node that could not be opened, unless an earlier
// start has left one: it keeps segments for the node.
func (r *Driver) withdraw() {
	if s := r.applied.Load(); r.registered && s.start == 1 {
		ctx, cancel := context.WithTimeout(context.Background(), farewellTime)
		defer cancel()
		_ = r.log.Forget(ctx, s.node)
	}
}

// farewell reports that the node has stopped.
func (r *Driver) farewell() {
	ctx, cancel := context.WithTimeout(context.Background(), farewellTime)
	defer cancel()
	_ = r.reportAt(ctx, r.AppliedSequence(), true) // the record gets old otherwise
}

// stop makes the node stop serving, because of an error, and returns the error of all
// later calls.
func (r *Driver) stop(why error) error {
	err := fmt.Errorf("%w: %w", ErrStopped, why)
	if r.stopped.CompareAndSwap(nil, &err) {
		r.progress.wake()
		return err
	}
	return *r.stopped.Load()
}

// Failed returns nil while the node serves, and otherwise why it has stopped. The
// error wraps [ErrStopped]. It costs an atomic load, so it can serve health checks.
func (r *Driver) Failed() error {
	if p := r.stopped.Load(); p != nil {
		return *p
	}
	if f, ok := r.local.(interface{ Failed() error }); ok {
		return f.Failed()
	}
	return nil
}

// check returns the error of a call that must not be served.
func (r *Driver) check() error {
	if p := r.stopped.Load(); p != nil && r.ctx.Err() == nil {
		return *p
	}
	return nil
}

// Settings returns the settings of the cluster.
func (r *Driver) Settings() sharedlog.Settings { return r.settings }

// Node returns the random id of the node, which its copy keeps.
func (r *Driver) Node() storage.NodeID { return r.applied.Load().node }

// Status is what a node knows about its place in the log.
type Status struct {
	// Node is the id of the node.
	Node storage.NodeID
	// Applied is the last sequence that the copy has.
	Applied uint64
	// Head is the last sequence of the log.
	Head uint64
	// Lease is the lease of the log; zero if no node has ever held it.
	Lease sharedlog.Lease
	// Maintenance is the error of the last [Driver.Maintain], or nil. The log grows until
	// that succeeds.
	Maintenance error
}

// Status asks the log for its head and its lease. It fails if the log cannot be
// reached; the other fields are set then.
func (r *Driver) Status(ctx context.Context) (Status, error) {
	at := r.applied.Load()
	s := Status{Node: at.node, Applied: at.applied.Sequence}
	if failed := r.maintained.Load(); failed != nil {
		s.Maintenance = *failed
	}
	head, err := r.log.Head(ctx)
	if err == nil {
		s.Head = head.Sequence
		s.Lease, err = r.log.Lease(ctx)
	}
	return s, err
}

// Close closes the log and the copy. It waits for calls that run.
func (r *Driver) Close() error {
	r.closing.Do(func() {
		r.cancel()
		r.queue.close()
		r.background.Wait()
		r.turn <- struct{}{} // nobody changes the copy from now on
		if r.opened {
			r.farewell()
		}
		r.closeErr = errors.Join(r.local.Close(), r.log.Close())
	})
	return r.closeErr
}
