package raftlog

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"
	consensus "github.com/hashicorp/raft"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/ostiary/ostiary/internal/cluster/raftlog/wire"
	"github.com/ostiary/ostiary/internal/cluster/sharedlog"
	"github.com/ostiary/ostiary/storage"
)

// Log is a connection to the shared log on one node. It implements [sharedlog.Log].
// While there is no leader, calls wait until their context ends.
type Log struct {
	node    *Server
	closing sync.Once
	closed  chan struct{}
	kept    bool // reads ask no other node
}

var (
	_ sharedlog.Log      = (*Log)(nil)
	_ sharedlog.Kept     = (*Log)(nil)
	_ sharedlog.Pipeline = (*Log)(nil)
	_ sharedlog.Restorer = (*Log)(nil)
)

// Kept implements [sharedlog.Kept].
func (l *Log) Kept() sharedlog.Log { return &Log{node: l.node, closed: l.closed, kept: true} }

// leaderWait is the time between two looks for a leader.
const leaderWait = 10 * time.Millisecond

// err returns why a call may not begin.
func (l *Log) err(ctx context.Context) error {
	if isClosed(l.closed) {
		return storage.ErrClosed
	}
	if err := l.node.Failed(); err != nil {
		return err
	}
	if l.node.ctx.Err() != nil {
		return storage.ErrClosed
	}
	return ctx.Err()
}

// ask calls the leader until one has begun with the request. here is what this node
// does if it leads, and there is the call of another node.
func (n *Server) ask(ctx context.Context, closed <-chan struct{}, here func(ctx context.Context) outcome, there func(ctx context.Context, address string) (outcome, error)) (o outcome, err error) {
	for {
		switch address, id := n.raft.LeaderWithID(); {
		case id == n.id:
			o = here(ctx)
		case address != "":
			led, cancel := n.whileLeads(ctx, id)
			o, err = there(led, string(address))
			cancel()
			if err != nil {
				return o, fmt.Errorf("leader %s: %w", address, err)
			}
		default:
			o = outcome{Kind: "notleader", Text: "there is no leader"}
		}
		if err = o.err(); !errors.Is(err, errNotLeader) {
			if ended := ctx.Err(); ended != nil && err != nil {
				err = fmt.Errorf("%w: %w", ended, err)
			}
			return o, err
		}
		if failed := n.Failed(); failed != nil {
			return o, failed
		}
		timer := time.NewTimer(leaderWait)
		select {
		case <-timer.C:
		case <-closed:
			return o, storage.ErrClosed
		case <-n.ctx.Done():
			return o, storage.ErrClosed
		case <-ctx.Done():
			timer.Stop()
			return o, fmt.Errorf("%w: %w", ctx.Err(), err)
		}
	}
}

// whileLeads returns a context that ends when another node leads than the one with an id. A
// leader whose machine was halted answers nothing, and keeps its connections for some time.
func (n *Server) whileLeads(ctx context.Context, id consensus.ServerID) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		look := time.NewTicker(n.opts.Heartbeat / 4)
		defer look.Stop()
		for ctx.Err() == nil {
			select {
			case <-look.C:
				if _, leads := n.raft.LeaderWithID(); leads != "" && leads != id {
					cancel()
				}
			case <-ctx.Done():
			}
		}
	}()
	return ctx, cancel
}

// change proposes a command to the leader.
func (l *Log) change(ctx context.Context, c *command) error {
	if err := l.err(ctx); err != nil {
		return err
	}
	b, err := c.encode()
	if err != nil {
		return err
	}
	_, err = l.node.ask(ctx, l.closed, func(ctx context.Context) outcome { return outcomeOf(l.node.proposeHere(ctx, b)) }, func(ctx context.Context, address string) (outcome, error) {
		return l.node.proposeTo(ctx, address, b)
	})
	return err
}

// proposeTo sends a command to another node in chunks.
func (n *Server) proposeTo(ctx context.Context, address string, c []byte) (o outcome, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	to, err := n.dial(ctx, address)
	if err != nil {
		return o, err
	}
	stream, err := to.Propose(ctx)
	if err != nil {
		return o, err
	}
	for chunk := range slices.Chunk(c, chunkBytes) {
		if err := stream.Send(wrapperspb.Bytes(chunk)); err != nil && !errors.Is(err, io.EOF) {
			return o, err
		}
	}
	answer, err := stream.CloseAndRecv()
	if err != nil {
		return o, err
	}
	return decodeOutcome(answer.GetValue())
}

// unary is a method of a node with one request and one answer.
type unary func(to wire.RaftClient, ctx context.Context, request *wrapperspb.BytesValue, options ...grpc.CallOption) (*wrapperspb.BytesValue, error)

// call calls a unary method of another node.
func (n *Server) call(ctx context.Context, address string, method unary, request []byte) (o outcome, err error) {
	to, err := n.dial(ctx, address)
	if err != nil {
		return o, err
	}
	answer, err := method(to, ctx, wrapperspb.Bytes(request))
	if err != nil {
		return o, err
	}
	return decodeOutcome(answer.GetValue())
}

// callAgain is like call, for a request that may be made twice: a node that cannot be
// reached is one that does not lead.
func (n *Server) callAgain(ctx context.Context, address string, method unary, request []byte) (outcome, error) {
	o, err := n.call(ctx, address, method, request)
	if err != nil && !errors.Is(err, ErrRefused) {
		return outcome{Kind: "notleader", Text: err.Error()}, nil
	}
	return o, err
}

// confirm returns when this node has everything that was decided before the call, with
// the leader's clock.
func (l *Log) confirm(ctx context.Context) (time.Time, error) {
	if err := l.err(ctx); err != nil {
		return time.Time{}, err
	}
	n := l.node
	if l.kept {
		return time.Now(), nil
	}
	o, err := n.ask(ctx, l.closed, n.serveIndex, func(ctx context.Context, address string) (outcome, error) {
		return n.callAgain(ctx, address, wire.RaftClient.Index, nil)
	})
	if err == nil {
		err = n.machine.wait(ctx, l.closed, func() bool { return n.machine.meta.Applied >= o.Index })
	}
	return o.Time, err
}

// look calls read with the machine locked, once this node has everything that was
// decided before the call.
func (l *Log) look(ctx context.Context, read func(m *machine)) (time.Time, error) {
	now, err := l.confirm(ctx)
	if err == nil {
		l.node.machine.mu.RLock()
		defer l.node.machine.mu.RUnlock()
		read(l.node.machine)
	}
	return now, err
}

// Cluster implements [sharedlog.Log].
func (l *Log) Cluster(ctx context.Context) (c sharedlog.Cluster, err error) {
	_, err = l.look(ctx, func(m *machine) { c = m.meta.Cluster })
	return c, err
}

// SwapCluster implements [sharedlog.Log].
func (l *Log) SwapCluster(ctx context.Context, old, new sharedlog.Cluster) error {
	return l.change(ctx, &command{Operation: opCluster, Cluster: [2]sharedlog.Cluster{old, new}})
}

// Head implements [sharedlog.Log].
func (l *Log) Head(ctx context.Context) (p sharedlog.Position, err error) {
	_, err = l.look(ctx, func(m *machine) { p = m.state.Head })
	return p, err
}

// Newest implements [sharedlog.Newester].
func (l *Log) Newest(ctx context.Context) (p sharedlog.Position, err error) {
	moved := false
	if _, err = l.look(ctx, func(m *machine) { p, moved = m.state.Head, m.state.Lease.Moved() }); err == nil && moved {
		err = sharedlog.ErrMoved
	}
	return p, err
}

// Append implements [sharedlog.Log].
func (l *Log) Append(ctx context.Context, after sharedlog.Position, record sharedlog.Record, secrets []sharedlog.SecretChange) error {
	if err := sharedlog.CheckSegment(&record); err != nil {
		return err
	}
	return l.change(ctx, &command{Operation: opAppend, After: after, Record: record, Secrets: secrets})
}

// BeginAppend implements [sharedlog.Pipeline]. The order is kept on the leader, for a segment
// that is one entry of the consensus.
func (l *Log) BeginAppend(ctx context.Context, after sharedlog.Position, record sharedlog.Record, secrets []sharedlog.SecretChange) (outcome func() error, ordered bool) {
	n := l.node
	if _, id := n.raft.LeaderWithID(); id != n.id || len(record.Bytes) > partBytes || l.err(ctx) != nil {
		return func() error { return l.Append(ctx, after, record, secrets) }, false
	}
	b, err := (&command{Operation: opAppend, After: after, Record: record, Secrets: secrets}).encode()
	if err != nil {
		return func() error { return err }, false
	}
	f := n.raft.Apply(b, n.opts.Heartbeat)
	return func() error {
		_, err := n.applied(ctx, func() consensus.ApplyFuture { return f })
		return err
	}, true
}

// errStop ends a read whose caller wants no more.
var errStop = errors.New("stop")

// Read implements [sharedlog.Log].
func (l *Log) Read(ctx context.Context, from uint64) iter.Seq2[sharedlog.Record, error] {
	return func(yield func(sharedlog.Record, error) bool) {
		_, err := l.confirm(ctx)
		var done func()
		if err == nil {
			done, err = l.node.entries.use()
		}
		if err == nil {
			defer done()
			err = l.node.machine.read(max(from, 1), func(r sharedlog.Record) error {
				if err := l.err(ctx); err != nil {
					return err
				}
				if !yield(r, nil) {
					return errStop
				}
				return nil
			})
		}
		if err != nil && !errors.Is(err, errStop) {
			yield(sharedlog.Record{}, err)
		}
	}
}

// Wait implements [sharedlog.Log]. It looks at this node alone.
func (l *Log) Wait(ctx context.Context, after uint64) error {
	if err := l.err(ctx); err != nil {
		return err
	}
	m := l.node.machine
	return m.wait(ctx, l.closed, func() bool { return m.state.Head.Sequence > after })
}

// Trim implements [sharedlog.Log].
func (l *Log) Trim(ctx context.Context, below uint64) error {
	return l.change(ctx, &command{Operation: opTrim, Below: below})
}

// Restore implements [sharedlog.Restorer].
func (l *Log) Restore(ctx context.Context, old, at sharedlog.Position, secrets []sharedlog.SecretChange) error {
	b, err := encodeSecrets(secrets)
	if err != nil {
		return err
	}
	return l.change(ctx, &command{Operation: opRestore, After: old, Record: sharedlog.Record{Position: at, Bytes: b}})
}

// Secret implements [sharedlog.Log].
func (l *Log) Secret(ctx context.Context, key sharedlog.SecretKey, digest storage.Hash) ([]byte, error) {
	if _, err := l.confirm(ctx); err != nil {
		return nil, err
	}
	done, err := l.node.entries.use()
	if err != nil {
		return nil, err
	}
	defer done()
	have, body, found, err := l.node.machine.secret(&key)
	if err == nil {
		err = sharedlog.CheckSecret(&key, digest, found, have, body)
	}
	if err != nil {
		return nil, err
	}
	return body, nil
}

// Lease implements [sharedlog.Log].
func (l *Log) Lease(ctx context.Context) (lease sharedlog.Lease, err error) {
	_, err = l.look(ctx, func(m *machine) { lease = m.state.Lease })
	return lease, err
}

// SwapLease implements [sharedlog.Log].
func (l *Log) SwapLease(ctx context.Context, old, new sharedlog.Lease) error {
	if err := sharedlog.CheckLease(old, new); err != nil {
		return err
	}
	return l.change(ctx, &command{Operation: opLease, Lease: [2]sharedlog.Lease{old, new}})
}

// Register implements [sharedlog.Log].
func (l *Log) Register(ctx context.Context, n sharedlog.NodeRecord) error {
	return l.change(ctx, &command{Operation: opRegister, Node: n})
}

// Report implements [sharedlog.Log].
func (l *Log) Report(ctx context.Context, n sharedlog.NodeRecord) error {
	return l.change(ctx, &command{Operation: opReport, Node: n})
}

// Forget implements [sharedlog.Log].
func (l *Log) Forget(ctx context.Context, id storage.NodeID) error {
	return l.change(ctx, &command{Operation: opForget, Node: sharedlog.NodeRecord{ID: id}})
}

// Nodes implements [sharedlog.Log].
func (l *Log) Nodes(ctx context.Context) (all []sharedlog.NodeRecord, now time.Time, err error) {
	now, err = l.look(ctx, func(m *machine) { all = slices.Collect(maps.Values(m.nodes)) })
	return sharedlog.Registered(all), now, err
}

func partKey(sequence uint64, part uint32) []byte {
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint64([]byte{keyPart, 0, 0, 0, 0}, sequence), part)
}

// PutSnapshot implements [sharedlog.Log]. The parts stay on this node, and the log
// remembers that they are here, because every node has the same state.
func (l *Log) PutSnapshot(ctx context.Context, at sharedlog.Position, parts iter.Seq2[[]byte, error]) error {
	var have []partsRecord
	if _, err := l.look(ctx, func(m *machine) { have = slices.Clone(m.state.Snapshots) }); err != nil {
		return err
	}
	if len(have) > 0 && have[0].At.Sequence >= at.Sequence {
		return nil
	}
	db, number := l.node.db, uint32(0)
	if err := db.DeleteRange(partKey(at.Sequence, 0), partKey(at.Sequence+1, 0), pebble.NoSync); err != nil {
		return err
	}
	for part, err := range parts {
		if err == nil {
			err = l.err(ctx)
		}
		if err == nil {
			err = sharedlog.CheckPart(part)
		}
		if err == nil {
			err = db.Set(partKey(at.Sequence, number), part, pebble.NoSync)
		}
		if err != nil {
			return err
		}
		number++
	}
	if err := db.LogData(nil, pebble.Sync); err != nil {
		return err
	}
	if err := l.change(ctx, &command{Operation: opSnapshot, SnapshotAt: at, Server: l.node.ID()}); err != nil {
		return err
	}
	// Older ones of this node are no longer named.
	return db.DeleteRange(partKey(0, 0), partKey(at.Sequence, 0), pebble.NoSync)
}

// parts calls yield with the parts of a snapshot that this node has made. It has nothing of
// the database open meanwhile: another node may take them slowly while this one ends.
func (n *Server) parts(sequence uint64, yield func([]byte) error) error {
	for number := uint32(0); ; number++ {
		part, err := n.part(partKey(sequence, number))
		if err == nil {
			err = yield(part)
		}
		if err != nil {
			if errors.Is(err, pebble.ErrNotFound) {
				err = nil
			}
			return err
		}
	}
}

// part returns one part of a snapshot, or pebble.ErrNotFound after the last one.
func (n *Server) part(key []byte) ([]byte, error) {
	done, err := n.entries.use()
	if err != nil {
		return nil, err
	}
	defer done()
	b, closer, err := n.db.Get(key)
	if err != nil {
		return nil, err
	}
	part := slices.Clone(b)
	return part, closer.Close()
}

// Snapshot implements [sharedlog.Log]. The parts come from the node that has made them.
func (l *Log) Snapshot(ctx context.Context) (sharedlog.Position, iter.Seq2[[]byte, error], error) {
	var all []partsRecord
	if _, err := l.look(ctx, func(m *machine) { all = slices.Clone(m.state.Snapshots) }); err != nil {
		return sharedlog.Position{}, nil, err
	}
	if len(all) == 0 {
		return sharedlog.Position{}, nil, fmt.Errorf("shard 0: %w", sharedlog.ErrNoSnapshot)
	}
	members, err := l.node.Members()
	if err != nil {
		return sharedlog.Position{}, nil, err
	}
	for _, r := range all {
		for _, m := range members {
			if m.ID == r.Server && (m.ID == l.node.ID() || l.node.reachable(ctx, m.Address)) {
				return r.At, l.partsOf(ctx, r, m), nil
			}
		}
	}
	return sharedlog.Position{}, nil, fmt.Errorf("shard 0: %w: none of the nodes that have one can be reached", sharedlog.ErrNoSnapshot)
}

// reachable reports whether a node answers.
func (n *Server) reachable(ctx context.Context, address string) bool {
	ctx, cancel := context.WithTimeout(ctx, 10*n.opts.Heartbeat)
	defer cancel()
	_, err := n.call(ctx, address, wire.RaftClient.Index, nil)
	return err == nil
}

// partsOf returns the parts of a snapshot that a member has. They end with
// ErrNoSnapshot if it was replaced meanwhile.
func (l *Log) partsOf(ctx context.Context, r partsRecord, m Member) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		pass := func(part []byte) error {
			if err := l.err(ctx); err != nil {
				return err
			}
			if !yield(part, nil) {
				return errStop
			}
			return nil
		}
		err := l.eachPart(ctx, r.At.Sequence, m, pass)
		if err == nil {
			err = l.stillNamed(ctx, r)
		}
		if err != nil && !errors.Is(err, errStop) {
			yield(nil, err)
		}
	}
}

func (l *Log) eachPart(ctx context.Context, sequence uint64, m Member, pass func([]byte) error) error {
	if m.ID == l.node.ID() {
		return l.node.parts(sequence, pass)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	to, err := l.node.dial(ctx, m.Address)
	if err != nil {
		return err
	}
	request := binary.BigEndian.AppendUint64(make([]byte, 4), sequence)
	stream, err := to.Parts(ctx, wrapperspb.Bytes(request))
	if err != nil {
		return err
	}
	for {
		part, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = pass(part.GetValue())
		}
		if err != nil {
			return err
		}
	}
}

// stillNamed fails with ErrNoSnapshot if a snapshot was replaced, so that what was read
// of it may not be all of it.
func (l *Log) stillNamed(ctx context.Context, r partsRecord) error {
	named := false
	_, err := l.look(ctx, func(m *machine) { named = slices.Contains(m.state.Snapshots, r) })
	if err == nil && !named {
		err = fmt.Errorf("shard 0: %w: it was replaced while it was read", sharedlog.ErrNoSnapshot)
	}
	return err
}

// Close implements [sharedlog.Log]. The node goes on.
func (l *Log) Close() error {
	l.closing.Do(func() { close(l.closed) })
	return nil
}
