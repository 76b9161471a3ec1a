package raftlog

import (
	"context"
	"errors"
	"io"
	"net"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	consensus "github.com/hashicorp/raft"
	"github.com/vmihailenco/msgpack/v5"

	"github.com/ostiary/ostiary/storage"
)

// Heartbeat returns how long a node waits for the leader.
func Heartbeat(n *Server) time.Duration { return n.raft.ReloadableConfig().HeartbeatTimeout }

// DropEntries makes a snapshot of the consensus, and drops the entries before it.
func DropEntries(n *Server) error {
	c := n.raft.ReloadableConfig()
	c.TrailingLogs = 1
	if err := n.raft.ReloadConfig(c); err != nil {
		return err
	}
	return n.raft.Snapshot().Error()
}

// Corrupt replaces the stored bytes of a segment on one node. It returns false if the
// node does not have it.
func Corrupt(n *Server, sequence uint64, change func([]byte) []byte) bool {
	key := segmentKey(sequence)
	value, closer, err := n.db.Get(key)
	if err != nil {
		return false
	}
	value = append([]byte(nil), value...)
	_ = closer.Close()
	head := len(storage.Hash{})
	return n.db.Set(key, append(value[:head:head], change(value[head:])...), pebble.NoSync) == nil
}

// SpeakOnly makes a node of the options speak one version of the calls alone.
func SpeakOnly(o *Options, version int) { o.versionMax = version }

// OnDisk makes a node of the options use a file system.
func OnDisk(o *Options, fs vfs.FS) { o.fs = fs }

// WriteTimeMax makes a node of the options fail when a write of entries takes longer.
func WriteTimeMax(o *Options, most time.Duration) { o.writeTimeMax = most }

// CorruptEntries replaces the bytes of all stored entries of the consensus. The node of
// the folder must not run.
func CorruptEntries(folder string) error {
	n, err := openFolder(folder)
	if err != nil {
		return err
	}
	for index := n.entries.first; index <= n.entries.last; index++ {
		if err := n.db.Set(entryKey(index), []byte{0, 0xc1}, pebble.Sync); err != nil {
			return err
		}
	}
	return n.Close()
}

// CutRestore restores the newest snapshot of the consensus in a folder, as a node does that
// has got it, and stops before its end. The node of the folder must not run.
func CutRestore(folder string) error {
	n, err := openFolder(folder)
	if err != nil {
		return err
	}
	snapshots, _, err := n.configure()
	if err != nil {
		return err
	}
	list, err := snapshots.List()
	if err != nil {
		return err
	}
	_, from, err := snapshots.Open(list[0].ID)
	if err != nil {
		return err
	}
	if err := n.machine.Restore(io.NopCloser(io.LimitReader(from, list[0].Size-1))); err == nil {
		return errors.New("a snapshot was restored without its last byte")
	}
	return errors.Join(from.Close(), n.Close())
}

// Transfer makes a leader hand the lead to another node, as that one asks for it.
func Transfer(ctx context.Context, n *Server, to Member) error { return n.transfer(ctx, to) }

// Dismiss makes the first step of the removal of a server.
func Dismiss(n *Server, server string) error {
	b, err := (&command{Operation: opDismiss, Server: server}).encode()
	if err == nil {
		_, err = n.propose(context.Background(), b)
	}
	return err
}

// Expire makes all tokens of a node expire, as this node knows them.
func Expire(n *Server) {
	n.machine.mu.Lock()
	defer n.machine.mu.Unlock()
	for token, t := range n.machine.tokens {
		t.Until = time.Time{}
		n.machine.tokens[token] = t
	}
}

// VerifyLeader asks the consensus of a node whether it leads.
func VerifyLeader(ctx context.Context, n *Server) error { return n.verifyLeader(ctx) }

// EndConsensus ends the consensus of a node, as the first step of Close.
func EndConsensus(n *Server) error { return n.raft.Shutdown().Error() }

// Pipeline returns a pipeline of entries from a node to another one.
func Pipeline(from *Server, to Member) (consensus.AppendPipeline, error) {
	return from.trans.AppendEntriesPipeline(consensus.ServerID(to.ID), consensus.ServerAddress(to.Address))
}

// TimeoutNow asks another node to lead, as a leader does that hands that on.
func TimeoutNow(from *Server, to Member) error {
	return from.trans.TimeoutNow(consensus.ServerID(to.ID), consensus.ServerAddress(to.Address), &consensus.TimeoutNowRequest{}, &consensus.TimeoutNowResponse{})
}

// Elect makes the only voter of a new log lead at once. By itself it first waits for a leader,
// at least as long as a heartbeat.
func Elect(n *Server) error {
	here, there := net.Pipe()
	n.incoming <- there
	trans := consensus.NewNetworkTransport(pipe{here, there}, 1, 10*time.Second, io.Discard)
	defer trans.Close()
	return trans.TimeoutNow(n.id, "", &consensus.TimeoutNowRequest{RPCHeader: consensus.RPCHeader{ProtocolVersion: consensus.ProtocolVersionMax}}, &consensus.TimeoutNowResponse{})
}

// pipe is a consensus.StreamLayer of one connection.
type pipe struct{ here, there net.Conn }

// Dial implements [consensus.StreamLayer].
func (p pipe) Dial(consensus.ServerAddress, time.Duration) (net.Conn, error) { return p.here, nil }

// Accept implements [net.Listener]. No connection comes.
func (p pipe) Accept() (net.Conn, error) { return nil, io.EOF }

// Close implements [net.Listener].
func (p pipe) Close() error { return errors.Join(p.here.Close(), p.there.Close()) }

// Addr implements [net.Listener].
func (p pipe) Addr() net.Addr { return p.here.LocalAddr() }

// Propose makes an entry of the consensus of any fields, and ProposeHere as another node
// asks for it.
func Propose(n *Server, command map[string]any) error {
	return ProposeWithin(context.Background(), n, command)
}

// ProposeWithin is like Propose.
func ProposeWithin(ctx context.Context, n *Server, command map[string]any) error {
	b, err := msgpack.Marshal(command)
	if err == nil {
		_, err = n.propose(ctx, b)
	}
	return err
}

// ProposeHere is like Propose.
func ProposeHere(n *Server, command map[string]any) error {
	b, err := msgpack.Marshal(command)
	if err == nil {
		err = n.proposeHere(context.Background(), b)
	}
	return err
}

// HoldMachine lets a node apply nothing until goOn is called.
func HoldMachine(n *Server) (goOn func()) {
	n.machine.mu.Lock()
	return n.machine.mu.Unlock
}

// Committed returns the last entry that is decided, as a node knows it, and Ended reports
// whether its consensus has ended or is about to.
func Committed(n *Server) uint64 { return n.raft.CommitIndex() }

// Ended is explained at Committed.
func Ended(n *Server) bool { return n.raft.State() == consensus.Shutdown }

// Applied returns the last entry that a node has applied.
func Applied(n *Server) uint64 {
	n.machine.mu.RLock()
	defer n.machine.mu.RUnlock()
	return n.machine.meta.Applied
}

// AddUnknownRow adds a row to the shared log of a folder whose node does not run.
func AddUnknownRow(folder string) error {
	n, err := openFolder(folder)
	if err != nil {
		return err
	}
	return errors.Join(n.db.Set([]byte{keyMachine, 'z'}, nil, pebble.Sync), n.Close())
}
