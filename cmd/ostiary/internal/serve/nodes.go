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
	"github.com/ostiary/ostiary/cmd/internal/cli"
	"github.com/ostiary/ostiary/internal/cluster/certificate"
	"github.com/ostiary/ostiary/internal/cluster/forward"
	"github.com/ostiary/ostiary/internal/cluster/lease"
	"github.com/ostiary/ostiary/internal/cluster/link"
	"github.com/ostiary/ostiary/internal/cluster/move"
	"github.com/ostiary/ostiary/internal/cluster/parts"
	"github.com/ostiary/ostiary/internal/cluster/quorum"
	"github.com/ostiary/ostiary/internal/cluster/sharedlog"
	"github.com/ostiary/ostiary/internal/trail/audit"
	"github.com/ostiary/ostiary/internal/trail/logins"
	"github.com/ostiary/ostiary/storage"
	"github.com/ostiary/ostiary/storage/pebble"
)

// member is this server as a node of a cluster. It is the forwarder of the server.
type member struct {
	flags    *nodesFlags
	files    *certificate.Files
	listener net.Listener
	log      *slog.Logger
	failures *logins.Log
	disks    *disks        // nil without a reserve
	refused  atomic.Uint64 // connections and calls of other nodes
	numbers  atomic.Uint64 // of forwarded requests
	trail    atomic.Pointer[audit.Trail]

	*parts.Parts // nil before the node has started
	local        *pebble.Driver
	own          *quorum.Alone // the log in the data folder of the only node; nil if there is none
	moves        move.Background
	ends         context.Context // when the node ends

	targets    targets
	background sync.WaitGroup
	// endBackground ends the work of background, and returns when it has ended.
	endBackground func()
}

var _ forward.Forwarder = (*member)(nil)

// prepareMember checks the settings of a node, and opens the port for other nodes. It
// returns nil for a server that is none.
func (f *nodesFlags) prepareMember(log *slog.Logger, failures *logins.Log) (*member, error) {
	if !f.on() {
		return nil, f.unused()
	}
	if f.next != "" && f.next == f.log {
		return nil, fmt.Errorf("%w: --next-log is the same as --log, expected another one", cli.ErrUsage)
	}
	if f.own() && !f.alone() {
		return nil, fmt.Errorf("%w: --next-log without --log and --cluster: the server is the only node of the log in its folder, expected no settings for other nodes", cli.ErrUsage)
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
	o := m.options(a)
	if o.SecretKey, err = a.ReadSecretKey(); err != nil {
		return err
	}
	if m.flags.own() {
		if m.own, err = a.ownLog(ctx, o.SecretKey); err != nil {
			return err
		}
	}
	if m.local, err = a.OpenCopy(ctx); err != nil {
		if m.own != nil {
			err = errors.Join(err, m.own.Close())
		}
		return err
	}
	o.Local = m.local
	stop := m.refuseCommands(a.Data)
	m.Parts, err = parts.Open(ctx, o)
	if stop(); err != nil {
		return err
	}
	watching, stop := context.WithCancel(context.Background())
	m.ends = watching
	m.background.Go(func() { m.watchHolder(watching) })
	m.endBackground = func() {
		stop()
		m.background.Wait()
	}
	defer func() {
		m.endBackground()
		err = errors.Join(err, m.Close())
	}()
	e, err := m.Engine(ctx, options)
	if err != nil {
		return err
	}
	return f(e)
}

// options returns the options of the node, without its copy and its key.
func (m *member) options(a *app) parts.Options {
	f := m.flags
	o := parts.Options{Quorum: parts.QuorumOptions{Folder: a.Data, Join: f.quorum.join, NoVote: !f.quorum.vote}, Listener: m.listener, Address: m.address(), Zone: f.zone, Files: m.files,
		Rules: f.options(), Registered: m.checkOthers, Report: m.log, Refused: m.refuse}
	o.Rules.Low = m.disks.low
	switch {
	case f.own():
		o.Log = func(ctx context.Context) (sharedlog.Log, error) { return m.withNext(ctx, a, m.own) }
	case !f.quorum.on():
		o.Log = func(ctx context.Context) (sharedlog.Log, error) { return m.openLogs(ctx, a) }
	case f.next != "":
		o.Next = func(ctx context.Context, log sharedlog.Log) (sharedlog.Log, error) { return m.withNext(ctx, a, log) }
	}
	return o
}

// leaveTime bounds the hand-over of a node that ends.
const leaveTime = 5 * time.Second

// handOver hands the role of the holder over before the server stops. The node goes on
// to serve: it sends writes to the next holder.
func (m *member) handOver() {
	ctx, cancel := context.WithTimeout(context.Background(), leaveTime)
	defer cancel()
	switch err := m.Rules.HandOver(ctx, storage.NodeID{}); {
	case err == nil:
		m.log.Info("handed the role of the node that writes over")
	case errors.Is(err, lease.ErrAlone): // the role ends with the node
	case !errors.Is(err, storage.ErrNotHolder):
		m.log.Warn("could not hand the role of the node that writes over", "error", err)
	}
}

// refuse counts what the link refuses, and logs it in a bounded number of lines.
func (m *member) refuse(remote, who string, why error) {
	m.refused.Add(1)
	m.failures.Failed("nodes", remote, who, why.Error())
}

// Target implements [forward.Forwarder].
func (m *member) Target(ctx context.Context) (forward.Target, bool, error) {
	holder, own, err := m.Rules.AwaitHolder(ctx)
	if err != nil || own {
		return nil, own, err
	}
	if m.Link == nil {
		return nil, false, fmt.Errorf("%w: %w", storage.ErrNotHolder, errNoLink)
	}
	return &heldTarget{m.Link.Target(holder), &m.targets, holder}, false, nil
}

// staleReads is [server.Options.StaleReads].
func (m *member) staleReads() uint64 { return m.Rules.StaleReads() }

// Begin implements [forward.Forwarder].
func (m *member) Begin(ctx context.Context) bool { return m.Rules.Begin(ctx) }

// Leads reports whether this node is the holder.
func (m *member) Leads() bool { return m.Rules.Leads() }

// startShift is by how many bits the number of a start is shifted in the numbers of
// requests, so that a node that was started again uses other numbers.
const startShift = 48

// Next implements [forward.Forwarder].
func (m *member) Next() (storage.RequestID, uint64) {
	number := m.Self.Start<<startShift + m.numbers.Add(1)*storage.RequestWrites
	return storage.RequestID{Node: m.Self.ID, Number: number}, m.Rules.AppliedSequence()
}

// ready reports whether the node can answer, and what it knows about the cluster.
func (m *member) ready() (bool, any) {
	s := m.Rules.Status()
	out := map[string]any{
		"node": s.Self.ID.String(), "role": roleNames[s.Role], "epoch": s.Lease.Epoch, "shown": s.Shown, "lag": s.Head - s.Shown,
		"readLeaseMillis": s.ReadRemaining.Milliseconds(), "version": m.Rules.Version(),
	}
	if s.Holder != (lease.Peer{}) {
		out["holder"] = s.Holder.ID.String()
	}
	if text := m.disks.text(); text != "" {
		out["disk"] = text
	}
	switch {
	case s.Failure != nil:
		out["failure"] = s.Failure.Error()
	case !s.Joined:
		out["failure"] = "the node has not followed a node that writes yet"
	}
	// Until another node has taken over, no node reaches the one that writes.
	settings := m.Rules.Settings()
	cut := s.Failing > 2*(settings.HolderLease+settings.ReadLease)
	return s.Joined && (s.ReadRemaining > 0 || m.flags.stale || !cut), out
}

// starting returns what is known about the node before it serves.
func (m *member) starting() any {
	why := "the node starts: it reads the log"
	if m.flags.quorum.on() {
		why = "the node starts: it waits until a majority of the nodes that keep the log runs, and answers"
	}
	return map[string]any{"failure": why}
}

var roleNames = [...]string{lease.Looking: "looking", lease.Follower: "follower", lease.Taking: "taking", lease.Holder: "holder", lease.Resigned: "resigned"}

// warnExpiry logs a warning if the certificate of the node expires soon.
func (m *member) warnExpiry() {
	if m.Files == nil {
		return
	}
	if left := time.Until(m.Files.Expires()); left < expiryWarning {
		m.log.Warn("the certificate of --nodes-certificate expires soon: run ostiary node certificate --renew, copy the files and send SIGHUP", "expires", m.Files.Expires())
	}
}

const expiryWarning = 30 * 24 * time.Hour
