// Package cluster lets a program that embeds the engine be a node of a cluster without
// a database: the nodes keep their log themselves, and each has a copy of all stores in
// its own folder. [Open] starts a node, and [Node.Engine] opens its engine.
//
// Every node answers reads with every write that was acknowledged before. One node at
// a time writes, see [Node.Writes]. A write through the engine of another one fails with
// authz.ErrNoHolder and has no effect: the program sends it to the node of
// [Node.Writer]. docs/cluster.md describes the guarantees; the commands of ostiary serve
// work on the same folders.
package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/internal/cluster/lease"
	"github.com/ostiary/ostiary/internal/cluster/parts"
	"github.com/ostiary/ostiary/internal/cluster/sharedlog"
	"github.com/ostiary/ostiary/internal/trail/logins"
	"github.com/ostiary/ostiary/storage"
	"github.com/ostiary/ostiary/storage/pebble"
)

// Options are the options of [Open].
type Options struct {
	// Folder is the data folder of the node. It is made if it is missing. Never copy it,
	// and never restore it from a backup: the node would have forgotten what it has
	// decided.
	Folder string
	// Listen is the TCP address for other nodes. The default is a free port of 127.0.0.1.
	Listen string
	// Address is where other nodes reach this one, HOST:PORT. The default is the address
	// of the listener.
	Address string
	// Join is a token of [Node.Token] of another node, with which a new folder joins its
	// cluster. "" makes a new folder the first of a new cluster. A folder that belongs to
	// a cluster does not use it.
	Join string
	// SecretKey is that of ostiary.Options. All nodes must have the same.
	SecretKey *[32]byte
	// NoVote makes the node follow only, so that no majority waits for it. Only the first
	// five nodes vote.
	NoVote bool
	// Settings are those of the cluster. The first node of a cluster decides; Open fails
	// with ErrSettings if a node has another value than its cluster. 0 means the value of
	// the cluster. To change one, serve a folder of the cluster and use ostiary node settings.
	Settings
	// StaleReads lets reads be answered from the copy, which may be old, while the node
	// reaches neither the node that writes nor the majority. They fail otherwise.
	StaleReads bool
	// Log gets what happens in the cluster. nil drops it. Of what the node refuses, it gets
	// the first of each address in a minute, and then their number.
	Log *slog.Logger
}

// Node is a node of a cluster. All methods are safe for concurrent use.
type Node struct {
	parts    *parts.Parts
	failures *logins.Log
}

// Open starts a node, and returns when its copy has everything that was written before.
// It waits for a majority of the nodes until ctx ends. Close ends the node.
func Open(ctx context.Context, o Options) (*Node, error) {
	settings := o.Settings.shared()
	if err := settings.Or(sharedlog.DefaultSettings()).Check(); err != nil {
		return nil, err
	}
	if o.Listen == "" {
		o.Listen = "127.0.0.1:0"
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	local, err := pebble.Open(o.Folder, pebble.Options{Copy: true, NoSync: true}) // the log is synced
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", o.Listen)
	if err != nil {
		return nil, errors.Join(err, local.Close())
	}
	if o.Address == "" {
		o.Address = listener.Addr().String()
	}
	failures := logins.New(o.Log)
	refused := func(remote, who string, why error) { failures.Failed("nodes", remote, who, why.Error()) }
	n, err := parts.Open(ctx, parts.Options{Local: local, Quorum: parts.QuorumOptions{Folder: o.Folder, Join: o.Join, NoVote: o.NoVote},
		Listener: listener, Address: o.Address, Rules: lease.Options{Settings: settings, StaleReads: o.StaleReads}, SecretKey: o.SecretKey, Report: o.Log, Refused: refused})
	if err != nil {
		failures.Close()
		return nil, named(err)
	}
	return &Node{n, failures}, nil
}

// Engine opens the engine of the node, once the node may answer reads. It sets the fields
// Driver and SecretKey of the options. It is called once, and Close closes the engine.
func (n *Node) Engine(ctx context.Context, o ostiary.Options) (*ostiary.Engine, error) {
	return n.parts.Engine(ctx, o)
}

// Writes reports whether this node is the one that writes. It costs an atomic load.
func (n *Node) Writes() bool { return n.parts.Rules.Leads() }

// Writer waits until a node writes, and returns its id and the address at which other
// nodes reach it; own is true if it is this node. It fails when ctx ends.
func (n *Node) Writer(ctx context.Context) (id storage.NodeID, address string, own bool, err error) {
	for {
		if at, own, ok := n.parts.Rules.Holder(); ok {
			return at.ID, at.Address, own, nil
		}
		select {
		case <-time.After(writerPoll):
		case <-ctx.Done():
			return id, "", false, fmt.Errorf("no node writes: %w", ctx.Err())
		}
	}
}

// writerPoll is the time between two looks of Writer.
const writerPoll = 10 * time.Millisecond

// HandOver makes another node the one that writes; the zero id means the one that has
// most. It fails with an error that wraps storage.ErrNotHolder if this node does not
// write.
func (n *Node) HandOver(ctx context.Context, to storage.NodeID) error {
	return n.parts.Rules.HandOver(ctx, to)
}

// Settings returns the settings of the cluster.
func (n *Node) Settings() Settings { return settingsOf(n.parts.Rules.Settings()) }

// ID returns the random id of the node, which its folder keeps.
func (n *Node) ID() storage.NodeID { return n.parts.Quorum.ID() }

// Token makes a token with which one new folder can join, until some time has passed.
// Who has it can make a node, which has all data.
func (n *Node) Token(ctx context.Context, valid time.Duration) (string, error) {
	t, err := n.parts.Quorum.Token(ctx, valid)
	if err != nil {
		return "", named(err)
	}
	return t.String(), nil
}

// Nodes returns the registered nodes in ascending order of their ids, and the time of
// the clock of their Seen.
func (n *Node) Nodes(ctx context.Context) ([]Record, time.Time, error) {
	log := n.parts.Quorum.Log()
	defer log.Close()
	all, now, err := log.Nodes(ctx)
	var out []Record
	for i := range all {
		out = append(out, recordOf(&all[i]))
	}
	return out, now, named(err)
}

// Remove removes a node for ever: a majority no longer counts it, and the others refuse
// it. Its place can be taken by a new folder.
func (n *Node) Remove(ctx context.Context, id storage.NodeID) error {
	log := n.parts.Quorum.Log()
	defer log.Close()
	return named(errors.Join(sharedlog.Remove(ctx, log, id), n.parts.Quorum.Remove(ctx, id)))
}

// Failed returns why the node can serve no longer, or nil. It can be called often.
func (n *Node) Failed() error { return n.parts.Failed() }

// Close ends the node and its engine. If it writes, it hands that over first.
func (n *Node) Close() error {
	err := n.parts.Close()
	n.failures.Close()
	return err
}
