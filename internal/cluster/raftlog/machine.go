package raftlog

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/cockroachdb/pebble/v2"
	consensus "github.com/hashicorp/raft"
	"github.com/vmihailenco/msgpack/v5"

	"github.com/ostiary/ostiary/internal/cluster/sharedlog"
	"github.com/ostiary/ostiary/storage"
)

// The second bytes of the keys of a machine.
const (
	machineMeta    = 'a' // see meta
	machineState   = 'b' // see stateRecord
	machineNode    = 'c' // the registry
	machineSecret  = 'd' // digest and ciphertext
	machineSegment = 'e' // hash and bytes of a segment
	machinePart    = 'f' // a part of the segment of a later append, by the index of its entry
	machineToken   = 'g' // see tokenRecord
	machineServer  = 'h' // whether a server may take part, see serverState
)

// machine is the shared log as the applied entries of the consensus make it. It keeps
// what is small in memory, and everything in the database. A commit of the database is
// not synced: the entries are on disk, and a machine that lost its last changes
// applies them again.
type machine struct {
	db *pebble.DB

	mu      sync.RWMutex
	meta    meta
	state   stateRecord
	nodes   map[storage.NodeID]sharedlog.NodeRecord
	tokens  map[storage.Hash]tokenRecord
	servers map[string]serverState
	changed chan struct{}   // closed when something was applied
	failed  error           // why the machine can apply nothing more
	report  func(error)     // gets failed; nil drops it
	ended   <-chan struct{} // closed when the node has ended
}

// meta is what the machine knows besides segments and nodes.
type meta struct {
	Applied uint64            `msgpack:"i"` // index of the last entry
	Cluster sharedlog.Cluster `msgpack:"c"`
}

// stateRecord is what the machine knows of the segments.
type stateRecord struct {
	Head      sharedlog.Position `msgpack:"h"`
	Oldest    uint64             `msgpack:"o"` // sequence of the oldest segment
	Lease     sharedlog.Lease    `msgpack:"l"`
	Snapshots []partsRecord      `msgpack:"s"` // newest first, one of each server

	written bool // the database has the record
}

// partsRecord names a server that has the parts of a snapshot.
type partsRecord struct {
	At     sharedlog.Position `msgpack:"a"`
	Server string             `msgpack:"v"`
}

// snapshotsMax is how many servers the machine remembers for the snapshots.
const snapshotsMax = 8

var _ consensus.BatchingFSM = (*machine)(nil)

func openMachine(db *pebble.DB) (*machine, error) {
	m := &machine{db: db, changed: make(chan struct{})}
	return m, m.load()
}

// load reads from the database what the machine keeps in memory.
func (m *machine) load() error {
	m.meta, m.state, m.nodes = meta{}, stateRecord{Oldest: 1}, map[storage.NodeID]sharedlog.NodeRecord{}
	m.tokens, m.servers = map[storage.Hash]tokenRecord{}, map[string]serverState{}
	if err := m.loadRange([]byte{keyMachine}, []byte{keyMachine, machineSecret}); err != nil {
		return err
	}
	if err := m.loadRange([]byte{keyMachine, machineToken}, []byte{keyMachine + 1}); err != nil {
		return err
	}
	return m.meta.Cluster.CheckVersion()
}

// fail makes the machine apply nothing more, and returns why. The others apply what this
// one cannot, so this node no longer has the same state.
func (m *machine) fail(why error) error {
	m.failed = why
	if m.report != nil {
		m.report(why)
	}
	return why
}

// wasRemoved reports whether a server has lost its right to take part. It is a member until it
// has left the members, too.
func (m *machine) wasRemoved(server string) bool {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.servers[server] == serverRemoved
}

func (m *machine) loadRange(from, to []byte) error {
	it, err := m.db.NewIter(&pebble.IterOptions{LowerBound: from, UpperBound: to})
	if err != nil {
		return err
	}
	defer it.Close()
	for ok := it.First(); ok && err == nil; ok = it.Next() {
		key := it.Key()[1:]
		switch key[0] {
		case machineMeta:
			err = msgpack.Unmarshal(it.Value(), &m.meta)
		case machineState:
			m.state.written = true
			err = msgpack.Unmarshal(it.Value(), &m.state)
		case machineNode:
			var n sharedlog.NodeRecord
			err = msgpack.Unmarshal(it.Value(), &n)
			m.nodes[n.ID] = n
		case machineToken:
			var t tokenRecord
			err = msgpack.Unmarshal(it.Value(), &t)
			m.tokens[storage.Hash(key[1:])] = t
		case machineServer:
			var s serverState
			err = msgpack.Unmarshal(it.Value(), &s)
			m.servers[string(key[1:])] = s
		default:
			err = fmt.Errorf("%w: a row %q of the shared log is unknown to this version", storage.ErrFormat, key[0])
		}
	}
	if err == nil {
		err = it.Error()
	}
	return err
}

// stateKey returns the key of the state. As in segmentKey, four bytes have the number of the
// log: there is one, 0.
func stateKey() []byte { return []byte{keyMachine, machineState, 0, 0, 0, 0} }

func nodeKey(id storage.NodeID) []byte { return append([]byte{keyMachine, machineNode}, id[:]...) }

func segmentKey(sequence uint64) []byte {
	return binary.BigEndian.AppendUint64([]byte{keyMachine, machineSegment, 0, 0, 0, 0}, sequence)
}

// secretKey returns the key of a secret, or the beginning of the keys of all secrets of
// a store if the kind is empty.
func secretKey(k *sharedlog.SecretKey) []byte {
	key := append([]byte{keyMachine, machineSecret}, k.Store[:]...)
	key = append(key, k.Incarnation[:]...)
	if k.Kind == "" {
		return key
	}
	key = binary.AppendUvarint(key, uint64(len(k.Kind)))
	return append(append(key, k.Kind...), k.Key...)
}

// after returns the key that follows all keys that begin with prefix, none of which
// has only bytes of 0xff.
func after(prefix []byte) []byte {
	end := append([]byte(nil), prefix...)
	for i := len(end) - 1; i >= 0; i-- {
		if end[i]++; end[i] != 0 {
			return end[:i+1]
		}
	}
	return nil
}

// Apply implements [consensus.FSM].
func (m *machine) Apply(entry *consensus.Log) any { return m.ApplyBatch([]*consensus.Log{entry})[0] }

// ApplyBatch implements [consensus.BatchingFSM]. The result of a command is an error or
// nil.
func (m *machine) ApplyBatch(entries []*consensus.Log) []any {
	results := make([]any, len(entries))
	m.mu.Lock()
	defer m.mu.Unlock()
	w := machineWriter{machine: m, batch: m.db.NewBatch()}
	defer func() { _ = w.batch.Close() }()
	for i, e := range entries {
		if m.failed != nil {
			results[i] = m.failed
			continue
		}
		if e.Index <= m.meta.Applied {
			continue // before the last start
		}
		before := m.meta.Applied
		m.meta.Applied = e.Index
		if e.Type != consensus.LogCommand {
			continue
		}
		if err := w.applyEntry(e); err != nil {
			results[i] = err
		}
		if m.failed != nil {
			m.meta.Applied = before // so that the next start does not go on without it
		}
	}
	if err := w.commit(); err != nil && m.failed == nil {
		// What is in memory is not in the database.
		_ = m.fail(fmt.Errorf("database of the shared log: %w", err))
		for i := range results {
			results[i] = m.failed
		}
	}
	close(m.changed)
	m.changed = make(chan struct{})
	return results
}

// machineWriter applies commands to the memory of a machine and to a batch.
type machineWriter struct {
	*machine
	batch   *pebble.Batch
	changes bool // of the state
}

// commit commits the batch, with the records of what has changed in memory.
func (w *machineWriter) commit() error {
	if w.changes {
		if err := w.set(stateKey(), &w.state); err != nil {
			return err
		}
	}
	if err := w.set([]byte{keyMachine, machineMeta}, &w.meta); err != nil {
		return err
	}
	return w.batch.Commit(pebble.NoSync)
}

// set adds a record to the batch.
func (w *machineWriter) set(key []byte, record any) error {
	b, err := msgpack.Marshal(record)
	if err == nil {
		err = w.batch.Set(key, b, nil)
	}
	return err
}

// change returns the state, for a change.
func (w *machineWriter) change() *stateRecord {
	w.changes, w.state.written = true, true
	return &w.state
}

// applyEntry makes the change of an entry, or returns why it may not be made.
func (w *machineWriter) applyEntry(e *consensus.Log) error {
	c, err := decodeCommand(e.Data)
	if err != nil {
		return w.fail(fmt.Errorf("entry %d: %w", e.Index, err))
	}
	return w.apply(c)
}

// apply makes one change, or returns why it may not be made.
func (w *machineWriter) apply(c *command) error {
	switch c.Operation {
	case opAppend:
		return w.append(c)
	case opTrim:
		return w.trim(c.Below)
	case opCluster:
		return w.setCluster(c.Cluster[0], c.Cluster[1])
	case opLease:
		s := w.change()
		if s.Lease != c.Lease[0] {
			return fmt.Errorf("lease of shard 0: %w", sharedlog.ErrSwap)
		}
		s.Lease = c.Lease[1]
		return nil
	case opRegister, opReport:
		have, ok := w.nodes[c.Node.ID]
		if c.Operation == opRegister && ok && have.Start >= c.Node.Start || c.Operation == opReport && (!ok || have.Start != c.Node.Start) {
			return sharedlog.NodeTaken(have.Start, &c.Node)
		}
		if err := sharedlog.CheckReads([]sharedlog.NodeRecord{c.Node}, w.meta.Cluster.Version()); err != nil {
			return err
		}
		w.nodes[c.Node.ID] = c.Node
		return w.set(nodeKey(c.Node.ID), &c.Node)
	case opForget:
		if have := w.nodes[c.Node.ID]; have.Removed() {
			return nil
		}
		delete(w.nodes, c.Node.ID)
		return w.batch.Delete(nodeKey(c.Node.ID), nil)
	case opSnapshot:
		w.addSnapshot(c)
		return nil
	case opNothing:
		return nil
	case opPart:
		return w.batch.Set(partKeyOf(w.meta.Applied), c.Part, nil)
	case opToken:
		return w.addToken(c)
	case opAdmit:
		return w.admit(c)
	case opDismiss:
		return w.setServer(c.Server, serverRemoved)
	case opRestore:
		return w.restore(c)
	}
	return w.fail(fmt.Errorf("%w: operation %d of the consensus is unknown to this version", storage.ErrFormat, c.Operation))
}

// setCluster replaces the description of the cluster. A version comes into use only while
// every registered node reads it, and from then on no other one is registered.
func (w *machineWriter) setCluster(old, new sharedlog.Cluster) error {
	if w.meta.Cluster != old {
		return fmt.Errorf("description of the cluster: %w", sharedlog.ErrSwap)
	}
	if new.Version() > old.Version() {
		nodes := slices.Collect(maps.Values(w.nodes))
		sharedlog.SortNodes(nodes)
		if err := sharedlog.CheckReads(nodes, new.Version()); err != nil {
			return err
		}
	}
	w.meta.Cluster = new
	if err := new.CheckVersion(); err != nil {
		return w.fail(err)
	}
	return nil
}

func (w *machineWriter) append(c *command) error {
	s := w.change()
	if s.Head != c.After || c.Record.Sequence != c.After.Sequence+1 {
		return &sharedlog.ConflictError{Head: s.Head}
	}
	if err := w.join(c); err != nil {
		return err
	}
	value := append(append(make([]byte, 0, len(c.Record.Hash)+len(c.Record.Bytes)), c.Record.Hash[:]...), c.Record.Bytes...)
	if err := w.batch.Set(segmentKey(c.Record.Sequence), value, nil); err != nil {
		return err
	}
	for i := range c.Secrets {
		if err := w.secret(&c.Secrets[i]); err != nil {
			return err
		}
	}
	s.Head = c.Record.Position
	return nil
}

// partsKept is how many entries of the consensus a part outlives, if the append that it
// was made for never comes.
const partsKept = 1000

func partKeyOf(index uint64) []byte {
	return binary.BigEndian.AppendUint64([]byte{keyMachine, machinePart}, index)
}

// join sets the bytes of a segment that came in parts, and drops these.
func (w *machineWriter) join(c *command) error {
	if len(c.Parts) == 0 {
		return nil
	}
	if err := w.batch.Commit(pebble.NoSync); err != nil { // it may have the parts
		return err
	}
	w.batch = w.db.NewBatch()
	for _, index := range c.Parts {
		part, closer, err := w.db.Get(partKeyOf(index))
		if err != nil {
			return fmt.Errorf("part %d of segment %d: %w", index, c.Record.Sequence, err)
		}
		c.Record.Bytes = append(c.Record.Bytes, part...)
		if err := closer.Close(); err != nil {
			return err
		}
		if err := w.batch.Delete(partKeyOf(index), nil); err != nil {
			return err
		}
	}
	if w.meta.Applied <= partsKept {
		return nil
	}
	return w.batch.DeleteRange(partKeyOf(0), partKeyOf(w.meta.Applied-partsKept), nil)
}

// restore makes a position the last one, without segments, and replaces all
// secrets.
func (w *machineWriter) restore(c *command) error {
	s := w.change()
	if s.Head != c.After {
		return fmt.Errorf("the last segment is %s, expected %s: %w", s.Head, c.After, sharedlog.ErrSwap)
	}
	if err := w.join(c); err != nil {
		return err
	}
	secrets, err := decodeSecrets(c.Record.Bytes)
	if err != nil {
		return err
	}
	all := segmentKey(0)[:6]
	if err := w.batch.DeleteRange(all, after(all), nil); err != nil {
		return err
	}
	if err := w.batch.DeleteRange([]byte{keyMachine, machineSecret}, []byte{keyMachine, machineSecret + 1}, nil); err != nil {
		return err
	}
	for i := range secrets {
		if err := w.secret(&secrets[i]); err != nil {
			return err
		}
	}
	s.Head, s.Oldest = c.Record.Position, c.Record.Sequence+1
	return nil
}

func (w *machineWriter) secret(c *sharedlog.SecretChange) error {
	key := secretKey(&c.SecretKey)
	switch {
	case !c.Removed:
		return w.batch.Set(key, append(append([]byte(nil), c.Digest[:]...), c.Body...), nil)
	case c.Kind != "":
		return w.batch.Delete(key, nil)
	}
	return w.batch.DeleteRange(key, after(key), nil)
}

func (w *machineWriter) trim(below uint64) error {
	s := w.change()
	if below = min(below, s.Head.Sequence); below <= s.Oldest {
		return nil
	}
	s.Oldest = below
	return w.batch.DeleteRange(segmentKey(0), segmentKey(below), nil)
}

// addSnapshot remembers the server that has a snapshot, in place of its older one.
func (w *machineWriter) addSnapshot(c *command) {
	s := w.change()
	next := []partsRecord{{c.SnapshotAt, c.Server}}
	for _, have := range s.Snapshots {
		if have.Server == c.Server {
			if have.At.Sequence >= c.SnapshotAt.Sequence {
				return
			}
			continue
		}
		next = append(next, have)
	}
	for i := 1; i < len(next) && next[i-1].At.Sequence < next[i].At.Sequence; i++ {
		next[i-1], next[i] = next[i], next[i-1]
	}
	s.Snapshots = next[:min(len(next), snapshotsMax)]
}

// wait returns when ready does, which is called with the machine locked after each
// change.
func (m *machine) wait(ctx context.Context, closed <-chan struct{}, ready func() bool) error {
	for {
		m.mu.RLock()
		ok, changed, failed := ready(), m.changed, m.failed
		m.mu.RUnlock()
		switch {
		case ok:
			return nil
		case failed != nil:
			return failed
		}
		select {
		case <-changed:
		case <-closed:
			return storage.ErrClosed
		case <-m.ended:
			return storage.ErrClosed
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// read calls yield with the segments from a sequence on, as they are now.
func (m *machine) read(from uint64, yield func(sharedlog.Record) error) error {
	m.mu.RLock()
	s := m.state
	view := m.db.NewSnapshot()
	m.mu.RUnlock()
	defer view.Close()
	if from < s.Oldest {
		return fmt.Errorf("%w: segment %d of shard 0; the oldest is %d", sharedlog.ErrTrimmed, from, s.Oldest)
	}
	it, err := view.NewIter(&pebble.IterOptions{LowerBound: segmentKey(from), UpperBound: segmentKey(s.Head.Sequence + 1)})
	if err != nil {
		return err
	}
	defer it.Close()
	next := from
	for ok := it.First(); ok; ok = it.Next() {
		r := sharedlog.Record{Position: sharedlog.Position{Sequence: binary.BigEndian.Uint64(it.Key()[6:])}}
		value := it.Value()
		if r.Sequence != next || len(value) < len(r.Hash) {
			return fmt.Errorf("%w: segment %d of shard 0 is missing or cut", storage.ErrDamaged, next)
		}
		copy(r.Hash[:], value)
		r.Bytes = append([]byte(nil), value[len(r.Hash):]...)
		if err := yield(r); err != nil {
			return err
		}
		next++
	}
	if err := it.Error(); err != nil {
		return err
	}
	if next <= s.Head.Sequence {
		return fmt.Errorf("%w: segment %d of shard 0 is missing", storage.ErrDamaged, next)
	}
	return nil
}

// secret returns the digest and the ciphertext of a secret, as it is now.
func (m *machine) secret(key *sharedlog.SecretKey) (digest storage.Hash, body []byte, found bool, err error) {
	value, closer, err := m.db.Get(secretKey(key))
	if errors.Is(err, pebble.ErrNotFound) {
		return digest, nil, false, nil
	}
	if err != nil {
		return digest, nil, false, err
	}
	defer closer.Close()
	n := copy(digest[:], value)
	return digest, append([]byte(nil), value[n:]...), true, nil
}
