// Package memory keeps stores in RAM, for tests and for programs whose data
// need not outlive them. Its main type is Driver: storage/kv over Store, an
// ordered map whose versions are immutable. It never touches a disk.
package memory

import (
	"fmt"
	"sync"
	"sync/atomic"

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
type Store struct {
	root    atomic.Pointer[version]
	writing sync.Mutex
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
func NewStore() *Store {
	s := &Store{}
	s.root.Store(&version{})
	return s
}

// Get appends key's newest value to dst.
func (s *Store) Get(key, dst []byte) ([]byte, bool, error) { return s.root.Load().Get(key, dst) }

// Scan walks the newest version.
func (s *Store) Scan(lower, upper []byte) (kv.Iterator, error) {
	return s.root.Load().Scan(lower, upper)
}

// Snapshot returns the newest version; it costs nothing.
func (s *Store) Snapshot() (kv.Snapshot, error) { return s.root.Load(), nil }

// Batch returns an empty batch.
func (s *Store) Batch() kv.Batch { return &batch{store: s} }

// Close does nothing.
func (s *Store) Close() error { return nil }

func (v *version) Get(key, dst []byte) ([]byte, bool, error) {
	value, ok := v.root.get(string(key))
	return append(dst, value...), ok, nil
}

func (v *version) Scan(lower, upper []byte) (kv.Iterator, error) {
	return newCursor(v.root, string(lower), string(upper)), nil
}

func (v *version) Close() error { return nil }

// batch is a list of changes, applied under the store's lock.
type batch struct {
	store   *Store
	changes []change
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

func (b *batch) Set(key, value []byte) error {
	b.changes = append(b.changes, change{opSet, string(key), string(value)})
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

// Commit publishes one new version. A second Commit is an error.
func (b *batch) Commit() error {
	if b.done {
		return fmt.Errorf("%w: it was committed or closed", storage.ErrTransaction)
	}
	b.done = true
	s := b.store
	s.writing.Lock()
	defer s.writing.Unlock()
	old := s.root.Load()
	t := tree{root: old.root, stamp: old.stamp + 1}
	for _, c := range b.changes {
		switch c.op {
		case opSet:
			t.set(c.key, c.value)
		case opDelete:
			t.delete(c.key)
		case opDeleteRange:
			t.deleteRange(c.key, c.value)
		}
	}
	s.root.Store(&version{t.root, t.stamp})
	b.changes = nil
	return nil
}

func (b *batch) Close() error {
	b.done, b.changes = true, nil
	return nil
}
