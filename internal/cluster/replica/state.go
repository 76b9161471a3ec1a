package replica

import (
	"encoding/binary"
	"fmt"

	"github.com/ostiary/ostiary/internal/cluster/sharedlog"
	"github.com/ostiary/ostiary/storage"
	"github.com/ostiary/ostiary/storage/kv"
)

// state is the record of a copy. It is written in the same batch as the rows, so the
// rows are always those that follow from the log up to it. A state never changes.
type state struct {
	cluster sharedlog.ClusterID
	applied sharedlog.Position // the last segment that was applied
	epoch   uint64             // epoch of that segment
	catalog uint64             // number of catalog changes so far
	node    storage.NodeID     // the id of this node
	start   uint64             // number of the start of this node
	bytes   uint64             // of all segments so far
	// incomplete is true if the copy is that of a snapshot, without its secrets.
	incomplete bool
	// passed are the segments since the last commit. The next one writes a mark of each.
	passed []sharedlog.Position
}

// The first byte of the record.
const (
	stateComplete   = 2
	stateIncomplete = 3
)

const stateBytes = 1 + 16 + 8 + 32 + 8 + 8 + 16 + 8 + 8

// newState returns the state of an empty copy of a new node. A zero id is replaced by a
// random one.
func newState(cluster sharedlog.ClusterID, node storage.NodeID) *state {
	if node == (storage.NodeID{}) {
		node = storage.NodeID(storage.NewIncarnation())
	}
	return &state{cluster: cluster, node: node}
}

// follow moves the state to the next segment, which has a size in bytes.
func (s *state) follow(at sharedlog.Position, epoch uint64, bytes int) {
	s.applied, s.epoch = at, epoch
	s.passed = append(s.passed[:len(s.passed):len(s.passed)], at)
	s.bytes += uint64(bytes)
}

func (s *state) encode() []byte {
	b := append(make([]byte, 0, stateBytes), stateComplete)
	if s.incomplete {
		b[0] = stateIncomplete
	}
	b = append(b, s.cluster[:]...)
	b = binary.BigEndian.AppendUint64(b, s.applied.Sequence)
	b = append(b, s.applied.Hash[:]...)
	b = binary.BigEndian.AppendUint64(b, s.epoch)
	b = binary.BigEndian.AppendUint64(b, s.catalog)
	b = append(b, s.node[:]...)
	b = binary.BigEndian.AppendUint64(b, s.start)
	return binary.BigEndian.AppendUint64(b, s.bytes)
}

func decodeState(b []byte) (*state, error) {
	if len(b) == 0 || b[0] != stateComplete && b[0] != stateIncomplete {
		return nil, fmt.Errorf("%w: the record of the copy has %d bytes and an unknown version", storage.ErrFormat, len(b))
	}
	if len(b) != stateBytes {
		return nil, fmt.Errorf("%w: the record of the copy has %d bytes, expected %d", storage.ErrDamaged, len(b), stateBytes)
	}
	s := &state{incomplete: b[0] == stateIncomplete}
	copy(s.cluster[:], b[1:])
	s.applied.Sequence = binary.BigEndian.Uint64(b[17:])
	copy(s.applied.Hash[:], b[25:])
	s.epoch = binary.BigEndian.Uint64(b[57:])
	s.catalog = binary.BigEndian.Uint64(b[65:])
	copy(s.node[:], b[73:])
	s.start = binary.BigEndian.Uint64(b[89:])
	s.bytes = binary.BigEndian.Uint64(b[97:])
	return s, nil
}

// readState returns the state of the copy, or nil if it is empty.
func (r *Driver) readState() (*state, error) {
	record, err := r.copy.Record()
	if err != nil || record == nil {
		return nil, err
	}
	return decodeState(record)
}

// commit commits a transaction that leads to a state, and closes it. changed are the
// stores whose changes the engines do not have yet.
func (r *Driver) commit(tx *kv.Transaction, next *state, changed ...storage.StoreID) error {
	defer tx.Close()
	r.readable.Store(next.applied.Sequence)
	recent := r.recent.begin()
	for _, at := range next.passed {
		if err := tx.SetMark(at.Sequence, at.Hash[:]); err != nil {
			return err
		}
	}
	if err := tx.SetRecord(next.encode()); err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		return err
	}
	r.recent.commit(recent)
	if len(changed) > 0 {
		r.shower.changed(changed)
	}
	r.setApplied(next)
	return nil
}

// setApplied publishes what the copy has, and wakes those who wait for it.
func (r *Driver) setApplied(next *state) {
	if next.passed != nil {
		committed := *next
		committed.passed = nil
		next = &committed
	}
	r.applied.Store(next)
	r.shower.settled(next.applied.Sequence)
	r.progress.wake()
}
