package raftlog

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/cockroachdb/pebble/v2"
	consensus "github.com/hashicorp/raft"

	"github.com/ostiary/ostiary/internal/cluster/sharedlog"
	"github.com/ostiary/ostiary/storage"
)

// This file writes and restores snapshots of a machine.

// Snapshot implements [consensus.FSM]. This snapshot is the whole shared log, and it
// is not a snapshot in the sense of package sharedlog: it lets the consensus drop
// entries, and start a new node.
func (m *machine) Snapshot() (consensus.FSMSnapshot, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if m.failed != nil {
		return nil, m.failed
	}
	return &machineSnapshot{m.db, m.db.NewSnapshot(), m.ended}, nil
}

type machineSnapshot struct {
	db    *pebble.DB
	view  *pebble.Snapshot
	ended <-chan struct{} // see machine
}

// Persist implements [consensus.FSMSnapshot]. Afterwards the consensus drops entries, so
// what they led to must be on disk.
func (s *machineSnapshot) Persist(sink consensus.SnapshotSink) error {
	err := s.persist(sink)
	if err == nil {
		err = s.db.LogData(nil, pebble.Sync)
	}
	if err != nil {
		_ = sink.Cancel()
		return err
	}
	return sink.Close()
}

func (s *machineSnapshot) persist(to io.Writer) error {
	it, err := s.view.NewIter(&pebble.IterOptions{LowerBound: []byte{keyMachine}, UpperBound: []byte{keyMachine + 1}})
	if err != nil {
		return err
	}
	defer it.Close()
	out := bufio.NewWriterSize(to, 1<<20)
	for ok := it.First(); ok; ok = it.Next() {
		if isClosed(s.ended) {
			return storage.ErrClosed // Close waits for it
		}
		for _, b := range [][]byte{it.Key(), it.Value()} {
			var length [binary.MaxVarintLen64]byte
			if _, err := out.Write(length[:binary.PutUvarint(length[:], uint64(len(b)))]); err != nil {
				return err
			}
			if _, err := out.Write(b); err != nil {
				return err
			}
		}
	}
	if err := it.Error(); err != nil {
		return err
	}
	return out.Flush()
}

// Release implements [consensus.FSMSnapshot].
func (s *machineSnapshot) Release() { _ = s.view.Close() }

// restoreBytes is the size of the batches in which a snapshot is restored.
const restoreBytes = 4 << 20

// Restore implements [consensus.FSM].
func (m *machine) Restore(from io.ReadCloser) error {
	defer from.Close()
	m.mu.Lock()
	defer m.mu.Unlock()
	err := m.restore(bufio.NewReaderSize(from, 1<<20))
	if err == nil {
		err = m.load()
	}
	if err != nil {
		err = m.fail(fmt.Errorf("snapshot of the consensus: %w", err))
	}
	close(m.changed)
	m.changed = make(chan struct{})
	return err
}

// restore replaces everything in the database. What has the last applied entry is written
// last: a machine that was restored in part has none, see Server.restored.
func (m *machine) restore(from *bufio.Reader) error {
	var applied []byte
	if err := m.db.DeleteRange([]byte{keyMachine}, []byte{keyMachine + 1}, pebble.NoSync); err != nil {
		return err
	}
	for {
		batch := m.db.NewBatch()
		last := false
		for batch.Len() < restoreBytes {
			key, err := readBytes(from)
			if errors.Is(err, io.EOF) {
				last = true
				break
			}
			var value []byte
			if err == nil {
				value, err = readBytes(from)
			}
			if err == nil && (len(key) < 2 || key[0] != keyMachine) {
				err = fmt.Errorf("%w: unknown key %x", storage.ErrDamaged, key)
			}
			switch {
			case err == nil && key[1] == machineMeta:
				applied = value
			case err == nil:
				err = batch.Set(key, value, nil)
			}
			if err != nil {
				_ = batch.Close()
				return err
			}
		}
		if last {
			if err := batch.Set([]byte{keyMachine, machineMeta}, applied, nil); err != nil {
				_ = batch.Close()
				return err
			}
		}
		sync := pebble.NoSync
		if last {
			sync = pebble.Sync
		}
		if err := errors.Join(batch.Commit(sync), batch.Close()); err != nil || last {
			return err
		}
	}
}

// readBytes reads a length and as many bytes. It fails with io.EOF only at the end of a
// pair's predecessor.
func readBytes(from *bufio.Reader) ([]byte, error) {
	n, err := binary.ReadUvarint(from)
	if err != nil {
		return nil, err
	}
	if n > 2*sharedlog.SegmentBytesMax {
		return nil, fmt.Errorf("%w: value of %d bytes", storage.ErrDamaged, n)
	}
	b := make([]byte, n)
	if _, err = io.ReadFull(from, b); errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return b, err
}
