package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/cmd/ostiary/internal/cli"
	"github.com/ostiary/ostiary/internal/audit"
	"github.com/ostiary/ostiary/internal/cluster"
	"github.com/ostiary/ostiary/internal/cluster/certificate"
	"github.com/ostiary/ostiary/internal/cluster/link"
	"github.com/ostiary/ostiary/internal/cluster/quorum"
	"github.com/ostiary/ostiary/internal/logins"
	"github.com/ostiary/ostiary/server"
	"github.com/ostiary/ostiary/storage"
	"github.com/ostiary/ostiary/storage/pebble"
	"github.com/ostiary/ostiary/storage/replica"
	"github.com/ostiary/ostiary/storage/sharedlog"
)

// member is this server as a node of a cluster. It is the forwarder of the server.
type member struct {
	flags    *nodesFlags
	files    *certificate.Files
	listener net.Listener
	log      *slog.Logger
	failures *logins.Log
	refused  atomic.Uint64 // connections and calls of other nodes
	numbers  atomic.Uint64 // of forwarded requests
	trail    atomic.Pointer[audit.Trail]

	quorum *quorum.Quorum // nil if the log is in a database
	shared sharedlog.Log
	node   *cluster.Node
	link   *link.Link
	driver *replica.Driver
	local  *pebble.Driver
	self   cluster.Peer

	targets    targets
	background sync.WaitGroup
	stop       context.CancelFunc // ends what runs in the background
}

var _ server.Forwarder = (*member)(nil)

// prepareMember checks the settings of a node, and opens the port for other nodes. It
// returns nil for a server that is none.
func (f *nodesFlags) prepareMember(log *slog.Logger, failures *logins.Log) (*member, error) {
	if !f.on() {
		return nil, f.unused()
	}
	if f.next != "" && f.next == f.log {
		return nil, fmt.Errorf("%w: --next-log is the same as --log, expected another one", cli.ErrUsage)
	}
	if f.alone() {
		return &member{flags: f, log: log, failures: failures}, nil
	}
	files, err := f.files()
	if err != nil {
		return nil, err
	}
	m := &member{flags: f, files: files, log: log, failures: failures}
	if m.listener, err = net.Listen("tcp", f.listen); err != nil {
		return nil, fmt.Errorf("--nodes-listen: %w", err)
	}
	// A node without a valid certificate must not register.
	if files != nil {
		if err := link.CheckAddress(m.address(), files); err != nil {
			return nil, errors.Join(err, m.listener.Close())
		}
	}
	return m, nil
}

// address is where other nodes reach this one.
func (m *member) address() string {
	if m.flags.address != "" || m.listener == nil {
		return m.flags.address
	}
	return m.listener.Addr().String()
}

// withMember joins the cluster, runs f with an engine on the copy of the log, and leaves
// the cluster.
func (a *app) withMember(ctx context.Context, m *member, options ostiary.Options, f func(*ostiary.Engine) error) (err error) {
	if options.SecretKey, err = a.ReadSecretKey(); err != nil {
		return err
	}
	if m.local, err = a.OpenCopy(ctx); err != nil {
		return err
	}
	if err := m.join(ctx, a, replica.Fingerprint(options.SecretKey)); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.leave()) }()
	if err := awaitReads(ctx, startWait, m.node.BeforeRead, m.log); err != nil {
		return err
	}
	options.Driver = m.driver
	e, err := ostiary.Open(ctx, options)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	return f(e)
}

// startWait is how long a node that starts waits until it may answer reads.
const startWait = 30 * time.Second

// awaitReads waits until the node may answer reads: the doors read before they serve. Far
// from the log and the other nodes, the first connections alone take longer than a
// request may wait.
func awaitReads(ctx context.Context, patience time.Duration, before func(context.Context) error, log *slog.Logger) error {
	for end := time.Now().Add(patience); ; {
		err := before(ctx)
		if !errors.Is(err, storage.ErrNoLease) || !time.Now().Before(end) {
			return err
		}
		log.Info("waiting until this node may answer reads", "error", err)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// join opens the log, brings the copy to its head and connects to the other nodes. It
// closes the copy if it fails.
func (m *member) join(ctx context.Context, a *app, key storage.Hash) (err error) {
	log, err := m.openLog(ctx, a)
	if err != nil {
		return errors.Join(err, m.local.Close())
	}
	if m.quorum != nil {
		defer func() {
			if err != nil {
				err = errors.Join(err, m.quorum.Close())
			}
		}()
	}
	o := m.flags.options()
	o.Log, m.shared = log, log
	m.node = cluster.New(o)
	copied := replica.Options{Address: m.address(), Zone: m.flags.zone, Preferred: m.flags.preferred, KeyFingerprint: key, Gate: m.node.Gate()}
	toLink := link.Options{Registry: log, Files: m.files, Listener: m.listener, Refused: m.refuse}
	if m.quorum != nil {
		copied.Node, toLink.Transport = m.quorum.ID(), m.quorum.Transport()
	}
	m.driver, err = replica.Open(ctx, log, m.local, copied)
	if err != nil {
		return err
	}
	id, self := m.driver.Self()
	m.self = cluster.PeerOf(&self)
	if err := m.checkOthers(ctx, log); err != nil {
		return errors.Join(err, m.driver.Close())
	}
	if m.listener == nil {
		m.start(noLink{})
		return nil
	}
	toLink.Self, toLink.Cluster = m.self, id
	m.link, err = link.New(toLink)
	if err != nil {
		return errors.Join(err, m.driver.Close())
	}
	m.link.Attach(m.node, nil)
	m.start(m.link)
	if m.quorum != nil {
		m.quorum.PreferLead(m.node.Leads)
	}
	return nil
}

// start starts the node with what reaches other nodes.
func (m *member) start(to cluster.Link) {
	m.node.Start(m.driver, to)
	watching, stop := context.WithCancel(context.Background())
	m.stop = stop
	m.background.Go(func() { m.watchHolder(watching) })
}

// leaveTime bounds the hand-over of a node that ends.
const leaveTime = 5 * time.Second

// leave ends what join has begun.
func (m *member) leave() error {
	ctx, cancel := context.WithTimeout(context.Background(), leaveTime)
	defer cancel()
	m.stop()
	m.background.Wait()
	err := m.node.Close(ctx)
	if errors.Is(err, context.DeadlineExceeded) { // all nodes end, for example
		m.log.Warn("the node ends without having given its role back: it does not reach the log", "error", err)
		err = nil
	}
	if m.link != nil {
		err = errors.Join(err, m.link.Close())
	}
	err = errors.Join(err, m.driver.Close())
	if m.quorum != nil {
		err = errors.Join(err, m.quorum.Close())
	}
	return err
}

// handOver hands the role of the holder over before the server stops. The node goes on
// to serve: it sends writes to the next holder.
func (m *member) handOver() {
	ctx, cancel := context.WithTimeout(context.Background(), leaveTime)
	defer cancel()
	switch err := m.node.HandOver(ctx, storage.NodeID{}); {
	case err == nil:
		m.log.Info("handed the role of the node that writes over")
	case errors.Is(err, cluster.ErrAlone): // the role ends with the node
	case !errors.Is(err, storage.ErrNotHolder):
		m.log.Warn("could not hand the role of the node that writes over", "error", err)
	}
}

// refuse counts what the link refuses, and logs it in a bounded number of lines.
func (m *member) refuse(remote, who string, why error) {
	m.refused.Add(1)
	m.failures.Failed("nodes", remote, who, why.Error())
}

// Target implements [server.Forwarder].
func (m *member) Target(ctx context.Context) (server.Target, bool, error) {
	holder, own, err := m.node.AwaitHolder(ctx)
	if err != nil || own {
		return nil, own, err
	}
	if m.link == nil {
		return nil, false, fmt.Errorf("%w: %w", storage.ErrNotHolder, errNoLink)
	}
	return &heldTarget{m.link.Target(holder), &m.targets, holder}, false, nil
}

// staleReads is [server.Options.StaleReads].
func (m *member) staleReads() uint64 { return m.node.StaleReads() }

// Begin implements [server.Forwarder].
func (m *member) Begin(ctx context.Context) bool { return m.node.Begin(ctx) }

// Leads reports whether this node is the holder.
func (m *member) Leads() bool { return m.node.Leads() }

// startShift is by how many bits the number of a start is shifted in the numbers of
// requests, so that a node that was started again uses other numbers.
const startShift = 48

// Next implements [server.Forwarder].
func (m *member) Next() (ostiary.RequestID, uint64) {
	number := m.self.Start<<startShift + m.numbers.Add(1)*ostiary.RequestWrites
	return ostiary.RequestID{Node: m.self.ID, Number: number}, m.driver.AppliedSequence()
}

// ready reports whether the node can answer, and what it knows about the cluster.
func (m *member) ready() (bool, any) {
	s := m.node.Status()
	out := map[string]any{
		"node": s.Self.ID.String(), "role": roleNames[s.Role], "epoch": s.Lease.Epoch, "shown": s.Shown, "lag": s.Head - s.Shown,
		"readLeaseMillis": s.ReadRemaining.Milliseconds(),
	}
	if s.Holder != (cluster.Peer{}) {
		out["holder"] = s.Holder.ID.String()
	}
	switch {
	case s.Failure != nil:
		out["failure"] = s.Failure.Error()
	case !s.Joined:
		out["failure"] = "the node has not followed a node that writes yet"
	}
	// Until another node has taken over, no node reaches the one that writes.
	settings := m.node.Settings()
	cut := s.Failing > 2*(settings.HolderLease+settings.ReadLease)
	return s.Joined && (s.ReadRemaining > 0 || m.flags.stale || !cut), out
}

var roleNames = [...]string{cluster.Looking: "looking", cluster.Follower: "follower", cluster.Taking: "taking", cluster.Holder: "holder", cluster.Resigned: "resigned"}

// warnExpiry logs a warning if the certificate of the node expires soon.
func (m *member) warnExpiry() {
	if m.files == nil {
		return
	}
	if left := time.Until(m.files.Expires()); left < expiryWarning {
		m.log.Warn("the certificate of --nodes-certificate expires soon: run ostiary node certificate --renew, copy the files and send SIGHUP", "expires", m.files.Expires())
	}
}

const expiryWarning = 30 * 24 * time.Hour
