// Package quorum makes a node of a shared log without a database: the nodes keep the
// log themselves (package raft) and reach each other over one port (package link). Its
// main type is [Quorum], the part of one node. A new node joins with a token, see
// [Token], and gets the certificates of the cluster with it.
//
// The package neither applies what the log has, nor knows which node writes.
package quorum

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"

	"github.com/ostiary/ostiary/internal/cluster/certificate"
	"github.com/ostiary/ostiary/internal/cluster/link"
	"github.com/ostiary/ostiary/internal/cluster/quorum/wire"
	"github.com/ostiary/ostiary/internal/cluster/raftlog"
	"github.com/ostiary/ostiary/internal/cluster/sharedlog"
	"github.com/ostiary/ostiary/storage"
)

// FolderName is the name of the folder of a node in its data folder.
const FolderName = "cluster"

// Options are the options of [Open]. All fields without a default are required.
type Options struct {
	// Folder keeps the part of this node. It is made if it is missing.
	Folder string
	// Address is where other nodes reach this one, and Listener is where they connect.
	// Open closes the listener if it fails.
	Address  string
	Listener net.Listener
	// Join is a token with which a new folder joins a cluster. "" makes a new folder the
	// first of a new cluster. It is not used if the folder belongs to a cluster.
	Join string
	// Files are the certificates of the node. nil means that the cluster has its own
	// authority, whose key every node has in its folder.
	Files *certificate.Files
	// HolderLease is the one of the cluster that a new folder begins; 0 means the default.
	// A longer one lets the consensus wait longer for its leader, as nodes that are far
	// apart need, see [raftlog.Options].
	HolderLease time.Duration
	// NoVote makes the node follow only, so that no majority waits for it.
	NoVote bool
	// Log gets what the consensus reports. nil drops it.
	Log *slog.Logger
	// Refused is called for each connection and call of another node that is refused, see
	// [link.TransportOptions].
	Refused func(remote, who string, why error)
}

// Quorum is the part of one node. All methods are safe for concurrent use.
type Quorum struct {
	opts      Options
	state     state
	files     *certificate.Files
	transport *link.Transport
	node      *raftlog.Server

	ctx        context.Context // ends with Close
	cancel     context.CancelFunc
	background sync.WaitGroup
	appends    atomic.Pointer[func() bool] // see PreferLead

	authority sync.Mutex // held while files of certificates are replaced
	rotation  rotation
	rotating  sync.Mutex // held by Rotate
}

// Open starts the part of a node, and joins the cluster. It waits for the other nodes
// until ctx ends: a cluster of which no majority runs has no log. It fails with
// raftlog.ErrToken if the token is refused, and with raftlog.ErrRefused if the other nodes
// refuse this one.
func Open(ctx context.Context, o Options) (*Quorum, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Refused == nil {
		o.Refused = func(string, string, error) {}
	}
	q := &Quorum{opts: o}
	q.ctx, q.cancel = context.WithCancel(context.Background())
	if err := q.open(ctx); err != nil {
		o.Listener.Close()
		q.Close()
		return nil, err
	}
	return q, nil
}

func (q *Quorum) open(ctx context.Context) error {
	if err := q.prepare(ctx); err != nil {
		return err
	}
	var err error
	q.transport, err = link.NewTransport(link.TransportOptions{Address: q.opts.Address, Files: q.files, Listener: q.opts.Listener,
		Refused: q.opts.Refused, Join: func(to grpc.ServiceRegistrar) { wire.RegisterJoinServer(to, joinService{quorum: q}) }})
	if err != nil {
		return err
	}
	o := raftlog.Options{Folder: q.file(logName), Address: q.opts.Address, Dial: q.transport.Dial, Log: q.opts.Log,
		Certified: link.CheckCaller, Peers: q.state.Peers, ID: q.state.ID.String(), First: q.state.Cluster == "", HolderLease: q.state.HolderLease}
	if !q.state.Begun {
		o.Cluster = q.state.Cluster
	}
	if q.node, err = raftlog.Open(o); err != nil {
		return err
	}
	q.state.Cluster, q.state.Begun = q.node.Cluster(), true
	if err := q.state.write(q.opts.Folder); err != nil {
		return err
	}
	q.node.Register(q.transport)
	wire.RegisterAuthorityServer(q.transport, authorityService{quorum: q})
	q.transport.Serve()
	if err := q.enter(ctx, q.isVoter()); err != nil {
		return fmt.Errorf("join the other nodes: %w", err)
	}
	q.background.Go(q.upkeep)
	return nil
}

// logName is the folder of the log in the folder of the node.
const logName = "log"

func (q *Quorum) file(name string) string { return filepath.Join(q.opts.Folder, name) }

// prepare reads or makes the state and the certificates of the folder. A new one joins.
func (q *Quorum) prepare(ctx context.Context) (err error) {
	if err := os.MkdirAll(q.opts.Folder, 0o700); err != nil {
		return err
	}
	if q.state, err = readState(q.opts.Folder); err != nil {
		return err
	}
	q.state.HolderLease = cmp.Or(q.state.HolderLease, q.opts.HolderLease)
	_, err = os.Stat(q.file(logName))
	switch gone := errors.Is(err, fs.ErrNotExist); {
	case err != nil && !gone:
		return err
	case gone && q.state.Begun:
		// A node that has forgotten what it has decided must not vote again.
		return fmt.Errorf("%w: %s is gone, so this node has lost its part of the log: remove the node with \"ostiary node remove %s\" through another one, and join with a new folder", storage.ErrDamaged, q.file(logName), q.state.ID)
	case gone && q.state.Cluster == "" && q.opts.Join != "":
		if err := q.join(ctx); err != nil {
			return fmt.Errorf("join a cluster: %w", err)
		}
	case q.opts.Join != "" && q.opts.Files == nil:
		if err := q.rejoin(ctx); errors.Is(err, raftlog.ErrRefused) {
			return fmt.Errorf("--join with a folder that has joined: %w", err)
		} else if err != nil {
			q.opts.Log.Warn("the token to join is not used: the folder has joined a cluster, and goes on with it", "why", err)
		}
	}
	if err := q.state.write(q.opts.Folder); err != nil {
		return err
	}
	if q.files = q.opts.Files; q.files != nil {
		return nil
	}
	q.files, err = ownFiles(q.opts.Folder, q.state.ID.String(), q.opts.Address, q.state.Cluster == "")
	return err
}

// Syncs returns how often the node has waited for its disk to keep entries of the log, see
// [raftlog.Server.Syncs].
func (q *Quorum) Syncs() uint64 { return q.node.Syncs() }

// own returns the record of this node, as it knows it; the zero Member if it is none.
func (q *Quorum) own() raftlog.Member {
	members, _ := q.node.Members()
	for _, m := range members {
		if m.ID == q.node.ID() {
			return m
		}
	}
	return raftlog.Member{}
}

func (q *Quorum) isVoter() bool { return q.own().Voter }

// The pauses between two attempts to reach the other nodes.
const (
	enterPause    = 100 * time.Millisecond
	enterPauseMax = 2 * time.Second
)

// enter returns when this node is a member with its address, and votes or not.
func (q *Quorum) enter(ctx context.Context, voter bool) error {
	pause := enterPause
	for {
		if have := q.own(); have.Address == q.opts.Address && have.Voter == voter {
			return nil
		}
		err := q.enterOnce(ctx, voter)
		if err == nil {
			return nil
		}
		if errors.Is(err, raftlog.ErrRefused) || q.node.Failed() != nil {
			return err
		}
		q.opts.Log.Warn("the node waits for the other nodes", "error", err)
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		case <-q.ctx.Done():
			return storage.ErrClosed
		}
		pause = min(2*pause, enterPauseMax)
	}
}

// enterTime bounds one attempt through one node.
const enterTime = 15 * time.Second

// enterOnce asks each node that this one knows to add it, or itself if it leads.
func (q *Quorum) enterOnce(ctx context.Context, voter bool) error {
	ctx, cancel := context.WithTimeout(ctx, enterTime)
	defer cancel()
	own := q.own()
	if q.node.Leader() {
		return q.node.Add(ctx, raftlog.Member{ID: q.node.ID(), Address: q.opts.Address, Voter: voter})
	}
	var errs []error
	for _, at := range q.peers() {
		if at == q.opts.Address || at == own.Address {
			continue
		}
		err := q.node.AddSelf(ctx, at, voter)
		if err == nil || errors.Is(err, raftlog.ErrRefused) {
			return err
		}
		errs = append(errs, err)
	}
	if len(errs) == 0 {
		return fmt.Errorf("no node is known at another address than that of this node, %s", q.opts.Address)
	}
	return errors.Join(errs...)
}

// peers returns the addresses of other nodes, as far as this one knows.
func (q *Quorum) peers() []string {
	var all []string
	members, _ := q.node.Members()
	for _, m := range members {
		if m.ID != q.node.ID() {
			all = append(all, m.Address)
		}
	}
	if len(members) == 0 {
		return q.state.Peers
	}
	return all
}

// upkeepInterval is the time between two looks at what upkeep does.
const upkeepInterval = 2 * time.Second

// upkeep makes the node a voter once it has caught up, if there is room for one, and
// renews the certificate, and leads if it should, until the quorum is closed.
func (q *Quorum) upkeep() {
	for {
		ctx, cancel := context.WithTimeout(q.ctx, enterTime)
		if err := q.vote(ctx); err != nil && q.ctx.Err() == nil {
			q.opts.Log.Warn("the node does not vote yet", "error", err)
		}
		cancel()
		if err := q.lead(); err != nil && q.ctx.Err() == nil {
			q.opts.Log.Warn("the node that writes does not lead the consensus", "error", err)
		}
		if q.opts.Files == nil {
			if err := q.renew(); err != nil {
				q.opts.Log.Warn("the certificate of this node cannot be renewed", "error", err)
			}
		}
		select {
		case <-time.After(upkeepInterval):
		case <-q.ctx.Done():
			return
		}
	}
}

// PreferLead makes the node lead the consensus while appends returns true, which then
// saves a message between nodes for each write.
func (q *Quorum) PreferLead(appends func() bool) { q.appends.Store(&appends) }

// lead makes the node lead if it should.
func (q *Quorum) lead() error {
	appends := q.appends.Load()
	if appends == nil || !(*appends)() || q.node.Leader() || !q.isVoter() {
		return nil
	}
	ctx, cancel := context.WithTimeout(q.ctx, enterTime)
	defer cancel()
	return q.node.TakeLead(ctx)
}

// vote makes the node a voter if it should be one and has everything that is decided:
// before, writes would wait for it.
func (q *Quorum) vote(ctx context.Context) error {
	if q.opts.NoVote == !q.isVoter() {
		return nil
	}
	if q.opts.NoVote {
		return q.enterOnce(ctx, false)
	}
	members, err := q.node.Members()
	voters := 0
	for _, m := range members {
		if m.Voter {
			voters++
		}
	}
	if err != nil || voters >= raftlog.VotersMax {
		return err
	}
	log := q.node.Log()
	defer log.Close()
	if _, err := log.Head(ctx); err != nil {
		return err
	}
	if err := q.enterOnce(ctx, true); err != nil {
		return err
	}
	q.opts.Log.Info("the node votes")
	return nil
}

// ID returns the id of the node, which its folder keeps.
func (q *Quorum) ID() storage.NodeID { return q.state.ID }

// Log returns a connection to the log.
func (q *Quorum) Log() sharedlog.Log { return q.node.Log() }

// Transport returns the port of the node.
func (q *Quorum) Transport() *link.Transport { return q.transport }

// Files returns the certificates of the node.
func (q *Quorum) Files() *certificate.Files { return q.files }

// OwnAuthority reports whether the nodes make their certificates themselves, so that the
// folder of each has the key of their authority.
func (q *Quorum) OwnAuthority() bool { return q.opts.Files == nil }

// Members returns the nodes that keep the log, as this one knows them.
func (q *Quorum) Members() ([]raftlog.Member, error) { return q.node.Members() }

// AwaitLeader returns when a node leads those that keep the log, see [raftlog.Server.AwaitLeader].
func (q *Quorum) AwaitLeader(ctx context.Context) error { return q.node.AwaitLeader(ctx) }

// Remove removes a node from those that keep the log, see [raftlog.Server.Remove].
func (q *Quorum) Remove(ctx context.Context, id storage.NodeID) error {
	return q.node.Remove(ctx, id.String())
}

// Failed returns why the node can take part no longer, or nil.
func (q *Quorum) Failed() error { return q.node.Failed() }

// Close stops the part of the node. Connections to the log fail afterwards.
func (q *Quorum) Close() error {
	q.cancel()
	q.background.Wait()
	var err error
	if q.node != nil {
		err = q.node.Close()
	}
	if q.transport != nil {
		err = errors.Join(err, q.transport.Close())
	}
	return err
}
