// Package memory keeps stores in RAM, for tests and for programs whose data
// need not outlive the process. Its main types are [Driver], a storage driver,
// and [Store], the sorted map below it. The package never touches a disk.
package memory

import (
	"fmt"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/ostiary/ostiary/internal/tool/btree"
	"github.com/ostiary/ostiary/storage"
	"github.com/ostiary/ostiary/storage/kv"
)

// Driver is a [storage.Driver] in RAM, and a [storage.Joiner] of the batches that
// [Store.Batch] returns. Close drops the data.
type Driver struct{ *kv.Driver }

// New returns an empty driver.
func New() *Driver {
	d, err := kv.New(NewStore(), kv.Options{})
	if err != nil {
		// kv.New fails only on a disk error or an unknown format. An empty map has
		// neither.
		panic(fmt.Sprintf("memory: %v", err))
	}
	return &Driver{d}
}

// Store is a [kv.Store] in RAM. Unlike a [Driver] it keeps its data when it is
// closed: a later [kv.New] over the same Store finds them. Tests use this to
// simulate a restart.
//
// Scan and Snapshot return a version of the map that never changes. As long as
// no version was returned, a commit changes the map in place and copies nothing.
type Store struct {
	committing sync.Mutex   // held during a commit: there is one at a time
	mu         sync.RWMutex // guards pairs
	pairs      pairs
	// shared is true once the current version of pairs was returned to a reader.
	// The next commit then starts a new version. Readers set it under mu's read
	// lock, so it is atomic.
	shared atomic.Bool
}

// pairs is a sorted map of keys and values.
type pairs = btree.Map[string, string]

// version is one immutable state of a Store's pairs.
type version struct{ pairs pairs }

var (
	_ kv.Store    = (*Store)(nil)
	_ kv.Snapshot = (*version)(nil)
)

// NewStore returns an empty Store.
func NewStore() *Store { return &Store{} }

// Get appends the newest value of key to dst.
func (s *Store) Get(key, dst []byte) ([]byte, bool, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return appendValue(&s.pairs, key, dst)
}

// Scan walks the newest version.
func (s *Store) Scan(lower, upper []byte) (kv.Iterator, error) {
	return s.newest().Scan(lower, upper)
}

// Snapshot returns the newest version in constant time.
func (s *Store) Snapshot() (kv.Snapshot, error) { return s.newest(), nil }

func (s *Store) newest() *version {
	s.mu.RLock()
	defer s.mu.RUnlock()
	s.shared.Store(true)
	return &version{s.pairs}
}

// Clone returns a Store with the newest version, in constant time. Later commits of
// one of them do not change the other. Tests keep what a crash leaves with it.
func (s *Store) Clone() *Store {
	c := &Store{pairs: s.newest().pairs}
	c.shared.Store(true)
	return c
}

// Batch returns an empty batch.
func (s *Store) Batch() kv.Batch {
	b := &batch{store: s}
	b.changes = b.few[:0]
	return b
}

// Close does nothing.
func (s *Store) Close() error { return nil }

func appendValue(p *pairs, key, dst []byte) ([]byte, bool, error) {
	value, ok := p.Get(unsafe.String(unsafe.SliceData(key), len(key)))
	return append(dst, value...), ok, nil
}

func (v *version) Get(key, dst []byte) ([]byte, bool, error) { return appendValue(&v.pairs, key, dst) }

func (v *version) Scan(lower, upper []byte) (kv.Iterator, error) {
	return &iterator{cursor: v.pairs.Cursor(), lower: string(lower), upper: string(upper)}, nil
}

func (v *version) Close() error { return nil }

// batch is a list of changes that Commit applies together.
type batch struct {
	store   *Store
	changes []change
	few     [4]change // memory for the first changes
	done    bool      // committed or closed
}

// change is one change of a batch.
type change struct {
	op         op
	key, value string // for opDeleteRange: the lower and the upper bound
}

type op uint8

const (
	opSet op = iota
	opDelete
	opDeleteRange
)

// jointMax is the length in bytes up to which a value shares one allocation
// with its key. An inner node of the map may keep a key, and with it the whole
// allocation, after the pair is deleted; so long values get their own.
const jointMax = 1 << 10

func (b *batch) Set(key, value []byte) error {
	c := change{op: opSet}
	if len(value) <= jointMax {
		pair := make([]byte, len(key)+len(value))
		copy(pair[copy(pair, key):], value)
		joint := unsafe.String(unsafe.SliceData(pair), len(pair)) // pair does not change from here on
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

// inPlaceMax is the number of changes up to which a commit changes the map in
// place while readers wait. A larger commit prepares a new version without
// blocking readers, and copies the nodes that it changes.
const inPlaceMax = 1024

// Commit publishes one new version. A second Commit, and one after Close, fails
// with [storage.ErrTransaction].
func (b *batch) Commit() error {
	if b.done {
		return fmt.Errorf("%w: the batch is already committed or closed", storage.ErrTransaction)
	}
	b.done = true
	s := b.store
	s.committing.Lock()
	defer s.committing.Unlock()
	if len(b.changes) > inPlaceMax {
		next := s.pairs.Edit() // only commits write pairs, and this is the only one
		apply(&next, b.changes)
		s.mu.Lock()
		s.pairs = next
		s.shared.Store(false)
		s.mu.Unlock()
	} else {
		s.mu.Lock()
		if s.shared.Swap(false) {
			s.pairs = s.pairs.Edit()
		}
		apply(&s.pairs, b.changes)
		s.mu.Unlock()
	}
	b.changes, b.few = nil, [4]change{}
	return nil
}

func apply(p *pairs, changes []change) {
	for i := range changes {
		switch c := &changes[i]; c.op {
		case opSet:
			p.Set(c.key, c.value)
		case opDelete:
			p.Delete(c.key)
		case opDeleteRange:
			p.DeleteRange(c.key, c.value)
		}
	}
}

func (b *batch) Close() error {
	b.done, b.changes, b.few = true, nil, [4]change{}
	return nil
}

// iterator is a kv.Iterator over the keys of a version from lower up to, but
// not including, upper.
type iterator struct {
	cursor       btree.Cursor[string, string]
	lower, upper string
	begun        bool   // Next or Seek was called
	key, value   []byte // memory for what Key and Value return
}

func (it *iterator) Next() bool {
	if !it.begun {
		return it.seek(it.lower)
	}
	return it.cursor.Next() && it.cursor.Key() < it.upper
}

func (it *iterator) Seek(key []byte) bool { return it.seek(max(string(key), it.lower)) }

func (it *iterator) seek(key string) bool {
	it.begun = true
	return it.cursor.Seek(key) && it.cursor.Key() < it.upper
}

// Key returns a copy, because a caller may change the bytes but not the map's
// string.
func (it *iterator) Key() []byte {
	it.key = append(it.key[:0], it.cursor.Key()...)
	return it.key
}

func (it *iterator) Value() []byte {
	it.value = append(it.value[:0], it.cursor.Value()...)
	return it.value
}

func (it *iterator) Err() error { return nil }

func (it *iterator) Close() error { return nil }
