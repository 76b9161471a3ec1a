package raftlog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
	consensus "github.com/hashicorp/raft"
	"github.com/vmihailenco/msgpack/v5"

	"github.com/ostiary/ostiary/storage"
)

// The first bytes of the keys in the database of a node.
const (
	keyEntry   = 'l' // entries of the consensus, by index
	keyStable  = 's' // what the consensus must not forget
	keyMachine = 'm' // the shared log, see machine
	keyPart    = 'p' // parts of snapshots that this node has made
)

// store keeps the log of the consensus and what it must not forget. It implements
// [consensus.LogStore] and [consensus.StableStore]. Entries are on disk when StoreLogs
// returns, and so is everything that was written to the database before.
type store struct {
	db *pebble.DB
	// failed returns why the disk has failed, or nil, and fail makes it fail. Pebble
	// returns nil from a write that has failed for ever, after it has reported the failure.
	failed func() error
	fail   func(error)
	// running is true once the consensus runs. It ends the process with a stack trace if it
	// cannot read an entry or write its term: instead, it waits then for ever.
	running atomic.Bool
	syncs   atomic.Uint64 // see [Server.Syncs]
	writes  atomic.Uint64 // beginnings and ends of writes of entries: odd while one is under way

	using    sync.WaitGroup // calls that use the database, see use
	usingMu  sync.Mutex
	isClosed bool

	mu          sync.RWMutex
	first, last uint64 // indexes of the entries; 0 for none
}

var (
	_ consensus.LogStore    = (*store)(nil)
	_ consensus.StableStore = (*store)(nil)
)

func openStore(db *pebble.DB, failed func() error, fail func(error)) (*store, error) {
	s := &store{db: db, failed: failed, fail: fail}
	it, err := db.NewIter(&pebble.IterOptions{LowerBound: []byte{keyEntry}, UpperBound: []byte{keyEntry + 1}})
	if err != nil {
		return nil, err
	}
	if it.First() {
		s.first = binary.BigEndian.Uint64(it.Key()[1:])
	}
	if it.Last() {
		s.last = binary.BigEndian.Uint64(it.Key()[1:])
	}
	return s, it.Close()
}

// use keeps the database open until done is called. It fails with storage.ErrClosed once
// close was called.
func (s *store) use() (done func(), err error) {
	s.usingMu.Lock()
	defer s.usingMu.Unlock()
	if s.isClosed {
		return nil, storage.ErrClosed
	}
	s.using.Add(1)
	return s.using.Done, nil
}

// close closes the database when no call uses it any more.
func (s *store) close() error {
	s.usingMu.Lock()
	s.isClosed = true
	s.usingMu.Unlock()
	s.using.Wait()
	return s.db.Close()
}

func entryKey(index uint64) []byte {
	return binary.BigEndian.AppendUint64([]byte{keyEntry}, index)
}

// FirstIndex implements [consensus.LogStore].
func (s *store) FirstIndex() (uint64, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.first, nil
}

// LastIndex implements [consensus.LogStore].
func (s *store) LastIndex() (uint64, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.last, nil
}

// GetLog implements [consensus.LogStore].
func (s *store) GetLog(index uint64, into *consensus.Log) error {
	b, closer, err := s.db.Get(entryKey(index))
	if errors.Is(err, pebble.ErrNotFound) {
		return consensus.ErrLogNotFound
	}
	if err != nil {
		return err
	}
	defer closer.Close()
	if len(b) == 0 || msgpack.Unmarshal(b[1:], into) != nil || into.Index != index {
		return s.end(fmt.Errorf("%w: entry %d of the consensus", storage.ErrDamaged, index))
	}
	return nil
}

// end makes the store fail, and never returns if the consensus runs: the node is cut
// off, and its process ends in order.
func (s *store) end(why error) error {
	if s.running.Load() {
		s.fail(why)
		select {}
	}
	return why
}

// StoreLog implements [consensus.LogStore].
func (s *store) StoreLog(entry *consensus.Log) error {
	return s.StoreLogs([]*consensus.Log{entry})
}

// StoreLogs implements [consensus.LogStore].
func (s *store) StoreLogs(entries []*consensus.Log) error {
	if len(entries) == 0 {
		return nil
	}
	batch := s.db.NewBatch()
	defer batch.Close()
	for _, e := range entries {
		b, err := msgpack.Marshal(e)
		if err == nil {
			err = batch.Set(entryKey(e.Index), append([]byte{byte(e.Type)}, b...), nil)
		}
		if err != nil {
			return err
		}
	}
	s.syncs.Add(1)
	s.writes.Add(1)
	err := errors.Join(batch.Commit(pebble.Sync), s.failed())
	s.writes.Add(1)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.first == 0 {
		s.first = entries[0].Index
	}
	s.last = entries[len(entries)-1].Index
	return nil
}

// writeTimeMax is how long a write of entries may take.
const writeTimeMax = 30 * time.Second

// watch makes the store fail when a write takes longer than some time, until ended is closed.
// The heartbeats of a leader go on without its disk, so no other node would lead, and nothing
// would be decided. It looks at the same write several times: a process that was halted goes
// on after any time.
func (s *store) watch(ended <-chan struct{}, most time.Duration) {
	const looks = 5
	look := time.NewTicker(most / looks)
	defer look.Stop()
	for seen, times := uint64(0), 0; ; {
		select {
		case <-look.C:
		case <-ended:
			return
		}
		if now := s.writes.Load(); now != seen || now%2 == 0 {
			seen, times = now, 0
		} else if times++; times == looks {
			s.fail(fmt.Errorf("disk of the node's log: a write has not ended within %s", most))
			return
		}
	}
}

// lastApplicable returns the index of the last entry up to index that the machine gets:
// others are the consensus's own. It returns 0 if the log no longer has it.
func (s *store) lastApplicable(index uint64) (uint64, error) {
	done, err := s.use()
	if err != nil {
		return 0, err
	}
	defer done()
	for ; index > 0; index-- {
		b, closer, err := s.db.Get(entryKey(index))
		if errors.Is(err, pebble.ErrNotFound) {
			return 0, nil
		}
		if err != nil {
			return 0, err
		}
		kind := consensus.LogType(b[0])
		if err := closer.Close(); err != nil {
			return 0, err
		}
		if kind == consensus.LogCommand || kind == consensus.LogConfiguration {
			return index, nil
		}
	}
	return 0, nil
}

// DeleteRange implements [consensus.LogStore].
func (s *store) DeleteRange(low, high uint64) error {
	// It need not be on disk: whoever writes an entry later makes this durable too.
	if err := s.db.DeleteRange(entryKey(low), entryKey(high+1), pebble.NoSync); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case low <= s.first && high >= s.last:
		s.first, s.last = 0, 0
	case low <= s.first:
		s.first = max(s.first, high+1)
	default:
		s.last = min(s.last, low-1)
	}
	return nil
}

func stableKey(key []byte) []byte { return append([]byte{keyStable}, key...) }

// Set implements [consensus.StableStore]. The consensus ends the process if it fails, and may
// still be busy with a heartbeat when it has ended, which then waits for ever.
func (s *store) Set(key, value []byte) error {
	done, err := s.use()
	if err != nil {
		if s.running.Load() {
			select {}
		}
		return err
	}
	defer done()
	if err := errors.Join(s.db.Set(stableKey(key), value, pebble.Sync), s.failed()); err != nil {
		return s.end(err)
	}
	return nil
}

// Get implements [consensus.StableStore].
func (s *store) Get(key []byte) ([]byte, error) {
	b, closer, err := s.db.Get(stableKey(key))
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer closer.Close()
	return append([]byte(nil), b...), nil
}

// SetUint64 implements [consensus.StableStore].
func (s *store) SetUint64(key []byte, value uint64) error {
	return s.Set(key, binary.BigEndian.AppendUint64(nil, value))
}

// GetUint64 implements [consensus.StableStore].
func (s *store) GetUint64(key []byte) (uint64, error) {
	b, err := s.Get(key)
	if err != nil || len(b) != 8 {
		return 0, err
	}
	return binary.BigEndian.Uint64(b), nil
}
