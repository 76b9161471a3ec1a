// Package memory keeps stores in RAM, for tests and for programs whose data
// need not outlive them. Its main type is Driver: storage/kv over Store, an
// ordered map. It never touches a disk.
package memory

import (
	"fmt"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/ostiary/ostiary/storage"
	"github.com/ostiary/ostiary/storage/kv"
)

// Driver is a storage.Driver, storage.Joiner (of a kv.Batch from Store.Batch)
// and storage.Notifier in RAM. Closing it drops the data.
type Driver struct{ *kv.Driver }

// New returns an empty driver.
func New() *Driver {
	d, err := kv.New(NewStore(), kv.Options{})
	if err != nil {
		// An empty map has no format to refuse and no disk to fail.
		panic(fmt.Sprintf("memory: %v", err))
	}
	return &Driver{d}
}

// Store is a kv.Store in RAM. Unlike a Driver it keeps its data when closed:
// a later kv.New over it finds them, which is how a test plays a restart.
//
// A version that a Scan or a Snapshot took never changes. What nobody took is
// changed where it stands, so that a commit of a few pairs copies nothing.
type Store struct {
	// writing is held by who commits.
	writing sync.Mutex
	// mu is held for reading by who looks at tree, and for writing by who changes
	// it or its nodes.
	mu   sync.RWMutex
	tree tree
	// taken says that somebody has the tree's nodes of its stamp.
	taken atomic.Bool
}

// version is one immutable state of the map.
type version struct {
	root  *node // nil: empty
	stamp uint64
}

var (
	_ kv.Store    = (*Store)(nil)
	_ kv.Snapshot = (*version)(nil)
)

// NewStore returns an empty Store.
func NewStore() *Store { return &Store{} }

// Get appends key's newest value to dst.
func (s *Store) Get(key, dst []byte) ([]byte, bool, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.tree.root.appendValue(key, dst)
}

// Scan walks the newest version.
func (s *Store) Scan(lower, upper []byte) (kv.Iterator, error) {
	return s.take().Scan(lower, upper)
}

// Snapshot returns the newest version. The nodes that are changed afterwards
// are copied, once.
func (s *Store) Snapshot() (kv.Snapshot, error) { return s.take(), nil }

func (s *Store) take() *version {
	s.mu.RLock()
	defer s.mu.RUnlock()
	s.taken.Store(true)
	return &version{s.tree.root, s.tree.stamp}
}

// Batch returns an empty batch.
func (s *Store) Batch() kv.Batch {
	b := &batch{store: s}
	b.changes = b.few[:0]
	return b
}

// Close does nothing.
func (s *Store) Close() error { return nil }

func (n *node) appendValue(key, dst []byte) ([]byte, bool, error) {
	value, ok := n.get(unsafe.String(unsafe.SliceData(key), len(key)))
	return append(dst, value...), ok, nil
}

func (v *version) Get(key, dst []byte) ([]byte, bool, error) { return v.root.appendValue(key, dst) }

func (v *version) Scan(lower, upper []byte) (kv.Iterator, error) {
	return newCursor(v.root, string(lower), string(upper)), nil
}

func (v *version) Close() error { return nil }

// batch is a list of changes, applied under the store's lock.
type batch struct {
	store   *Store
	changes []change
	few     [4]change
	done    bool
}

type change struct {
	op         op
	key, value string // of a range: lower and upper
}

type op uint8

const (
	opSet op = iota
	opDelete
	opDeleteRange
)

// jointMax is how long a value may be to share its key's memory, which may
// outlive it where the key parts two nodes.
const jointMax = 1 << 10

func (b *batch) Set(key, value []byte) error {
	c := change{op: opSet}
	if len(value) <= jointMax {
		pair := make([]byte, len(key)+len(value))
		copy(pair[copy(pair, key):], value)
		joint := unsafe.String(unsafe.SliceData(pair), len(pair)) // pair is not changed again
		c.key, c.value = joint[:len(key)], joint[len(key):]
	} else {
		c.key, c.value = string(key), string(value)
	}
	b.changes = append(b.changes, c)
	return nil
}

func (b *batch) Delete(key []byte) error {
	b.changes = append(b.changes, change{opDelete, string(key), ""})
	return nil
}

func (b *batch) DeleteRange(lower, upper []byte) error {
	b.changes = append(b.changes, change{opDeleteRange, string(lower), string(upper)})
	return nil
}

// inPlaceMax is how many changes are made while readers wait. More are made in
// a copy of the nodes that they touch.
const inPlaceMax = 1024

// Commit publishes one new version. A second Commit is an error.
func (b *batch) Commit() error {
	if b.done {
		return fmt.Errorf("%w: it was committed or closed", storage.ErrTransaction)
	}
	b.done = true
	s := b.store
	s.writing.Lock()
	defer s.writing.Unlock()
	if len(b.changes) > inPlaceMax {
		t := tree{s.tree.root, s.tree.stamp + 1}
		t.apply(b.changes)
		s.mu.Lock()
		s.tree = t
		s.taken.Store(false) // what was taken is of an older stamp
		s.mu.Unlock()
	} else {
		s.mu.Lock()
		if s.taken.Swap(false) {
			s.tree.stamp++
		}
		s.tree.apply(b.changes)
		s.mu.Unlock()
	}
	b.changes, b.few = nil, [4]change{}
	return nil
}

func (t *tree) apply(changes []change) {
	for i := range changes {
		switch c := &changes[i]; c.op {
		case opSet:
			t.set(c.key, c.value)
		case opDelete:
			t.delete(c.key)
		case opDeleteRange:
			t.deleteRange(c.key, c.value)
		}
	}
}

func (b *batch) Close() error {
	b.done, b.changes, b.few = true, nil, [4]change{}
	return nil
}
