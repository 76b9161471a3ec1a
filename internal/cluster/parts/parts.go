// Package parts makes a node of a cluster of its parts, and ends them in order: the log
// or the node's part in keeping it (package quorum), the copy, the rules of the nodes
// (package lease), the link to other nodes, and the engine. Its main type is [Parts].
//
// It contains no rule of its own.
package parts

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"path/filepath"
	"runtime"
	"time"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/internal/cluster/certificate"
	"github.com/ostiary/ostiary/internal/cluster/lease"
	"github.com/ostiary/ostiary/internal/cluster/link"
	"github.com/ostiary/ostiary/internal/cluster/quorum"
	"github.com/ostiary/ostiary/internal/cluster/replica"
	"github.com/ostiary/ostiary/internal/cluster/sharedlog"
	"github.com/ostiary/ostiary/storage"
)

// Options are the options of [Open].
type Options struct {
	// Local is the copy of this node. The node closes it.
	Local replica.Local
	// Log opens the log. nil means that the nodes keep it themselves, see Quorum.
	Log func(ctx context.Context) (sharedlog.Log, error)
	// Quorum is how this node takes part in keeping the log. It is not used with Log.
	Quorum QuorumOptions
	// Next returns the log that is used in place of the one that the nodes keep, see
	// [sharedlog.WithNext]. It closes that one if it fails. It is not used with Log; nil
	// changes nothing.
	Next func(ctx context.Context, log sharedlog.Log) (sharedlog.Log, error)
	// Listener is where other nodes connect. The node closes it. nil means that the node
	// is the only one on its log.
	Listener net.Listener
	// Address is where other nodes reach this one; "" if they do not.
	Address string
	// Zone is the name of the place of the node.
	Zone string
	// Files are the certificates of the node. They are required with Log and Listener.
	// Without Log, nil means that the cluster has its own authority.
	Files *certificate.Files
	// Rules are the settings of the node. Its field Copy is not used.
	Rules lease.Options
	// SecretKey is that of ostiary.Options. All nodes must have the same.
	SecretKey *[32]byte
	// Registered is called once the node is registered, and before it takes part. An error
	// of it is that of Open. nil does nothing.
	Registered func(ctx context.Context, log sharedlog.Log, self lease.Peer) error
	// Report gets what happens in the cluster. nil drops it.
	Report *slog.Logger
	// Refused is called for each connection and call of another node that is refused, see
	// [link.Options].
	Refused func(remote, who string, why error)
}

// QuorumOptions are the options of a node that keeps the log with others.
type QuorumOptions struct {
	// Folder is the data folder of the node.
	Folder string
	// Join is a token with which a new folder joins a cluster. "" makes a new folder the
	// first of a new cluster.
	Join string
	// NoVote makes the node follow only, so that no majority waits for it.
	NoVote bool
}

// Parts are what a node of a cluster is made of. All methods are safe for concurrent use.
type Parts struct {
	// Rules are the copy of the log, and decide when the node writes, acknowledges and
	// answers. They are the driver of the engine.
	Rules *lease.Keeper
	// Self is this node.
	Self lease.Peer
	// Link reaches the other nodes. nil if the node is the only one.
	Link *link.Link
	// Quorum is the node's part in keeping the log. nil if the log is elsewhere.
	Quorum *quorum.Quorum
	// Files are the certificates of the node. nil if the node is the only one.
	Files *certificate.Files
	// Log is the node's connection to the log.
	Log sharedlog.Log

	opts   Options
	engine *ostiary.Engine
}

// Open starts a node. It returns when the copy has everything that was in the log at the
// time of the call, and waits until ctx ends for a majority that keeps the log.
func Open(ctx context.Context, o Options) (*Parts, error) {
	if o.Report == nil {
		o.Report = slog.New(slog.DiscardHandler)
	}
	warnSystem(o.Report, runtime.GOOS, o.Rules.Clock)
	n := &Parts{opts: o, Files: o.Files}
	if err := n.open(ctx); err != nil {
		return nil, errors.Join(err, n.abandon())
	}
	n.Rules.Start(n.reach())
	if n.Quorum != nil {
		n.Quorum.PreferLead(n.Rules.Leads)
	}
	return n, nil
}

func (n *Parts) open(ctx context.Context) (err error) {
	if err := n.openLog(ctx); err != nil {
		return err
	}
	rules := n.opts.Rules
	rules.Copy = replica.Options{Address: n.opts.Address, Zone: n.opts.Zone, KeyFingerprint: replica.Fingerprint(n.opts.SecretKey)}
	reach := link.Options{Registry: n.Log, Files: n.Files, Listener: n.opts.Listener, Refused: n.opts.Refused}
	if n.Quorum != nil {
		rules.Copy.Node, reach.Transport = n.Quorum.ID(), n.Quorum.Transport()
	}
	local := n.opts.Local
	n.opts.Local = nil // lease.Open closes it
	if n.Rules, err = lease.Open(ctx, n.Log, local, rules); err != nil {
		return err
	}
	id, self := n.Rules.Driver.Self()
	n.Self = lease.PeerOf(&self)
	if n.opts.Registered != nil {
		if err := n.opts.Registered(ctx, n.Log, n.Self); err != nil {
			return err
		}
	}
	if n.opts.Listener == nil {
		return nil
	}
	reach.Self, reach.Cluster = n.Self, id
	if n.Link, err = link.New(reach); err != nil {
		return err
	}
	n.Link.Attach(n.Rules, nil)
	return nil
}

// openLog opens the log, or this node's part in keeping it.
func (n *Parts) openLog(ctx context.Context) (err error) {
	o := &n.opts
	if o.Log != nil {
		n.Log, err = o.Log(ctx)
		return err
	}
	n.Quorum, err = quorum.Open(ctx, quorum.Options{HolderLease: o.Rules.Settings.HolderLease, Folder: filepath.Join(o.Quorum.Folder, quorum.FolderName), Address: o.Address, Listener: o.Listener,
		Join: o.Quorum.Join, NoVote: o.Quorum.NoVote, Files: o.Files, Log: o.Report, Refused: o.Refused})
	if err != nil {
		return err
	}
	n.Log, n.Files = n.Quorum.Log(), n.Quorum.Files()
	if o.Next != nil {
		n.Log, err = o.Next(ctx, n.Log)
	}
	return err
}

// reach returns what reaches other nodes.
func (n *Parts) reach() lease.Link {
	if n.Link == nil {
		return nil
	}
	return n.Link
}

// abandon closes what Open has opened before it failed.
func (n *Parts) abandon() error {
	var errs []error
	if n.Rules != nil {
		errs = append(errs, n.Rules.Close())
	} else if n.opts.Local != nil {
		errs = append(errs, n.opts.Local.Close())
	}
	if n.Quorum != nil {
		errs = append(errs, n.Quorum.Close())
	} else if n.opts.Listener != nil {
		_ = n.opts.Listener.Close() // the link may have closed it
	}
	return errors.Join(errs...)
}

// startWait is how long a node that starts waits until it may answer reads.
const startWait = 30 * time.Second

// Engine opens the engine of the node, once the node may answer reads. It sets the driver
// and the secret key of the options. Close closes the engine. Engine is called once.
func (n *Parts) Engine(ctx context.Context, o ostiary.Options) (*ostiary.Engine, error) {
	if err := awaitReads(ctx, startWait, n.Rules.BeforeRead, n.opts.Report); err != nil {
		return nil, err
	}
	o.Driver, o.SecretKey = n.Rules, n.opts.SecretKey
	e, err := ostiary.Open(ctx, o)
	if err == nil {
		n.engine = e
	}
	return e, err
}

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

// Failed returns why the node can serve no longer, or nil. It can be called often.
func (n *Parts) Failed() error {
	if n.Quorum != nil {
		if err := n.Quorum.Failed(); err != nil {
			return err
		}
	}
	return n.Rules.Failed()
}

// closeTime bounds how long a node that ends waits for the one that writes next.
const closeTime = 5 * time.Second

// Close ends the node. If it writes, it hands that over first. Then it closes the engine,
// and after that the copy and the log.
func (n *Parts) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeTime)
	defer cancel()
	err := n.Rules.Leave(ctx)
	if errors.Is(err, context.DeadlineExceeded) { // all nodes end, for example
		n.opts.Report.Warn("the node ends without having given its role back: it does not reach the log", "error", err)
		err = nil
	}
	if n.Link != nil { // no call of another node comes any more
		err = errors.Join(err, n.Link.Close())
	}
	if n.engine != nil {
		err = errors.Join(err, n.engine.Close())
	}
	err = errors.Join(err, n.Rules.Close())
	if n.Quorum != nil {
		err = errors.Join(err, n.Quorum.Close())
	}
	return err
}
