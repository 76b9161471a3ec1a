// Package kv implements a storage driver over any ordered key-value store with
// atomic batches. Its main types are [Driver], the driver, and [Store], the
// interface that the key-value store must have. An embedding program can
// implement Store over its own database.
//
// The package defines the layout of keys and values, which docs/format.md
// describes. It does not open files and does not manage caches.
package kv

import (
	"bytes"
	"context"
	"fmt"
	"hash/crc32"
	"sync"
	"sync/atomic"

	"github.com/ostiary/ostiary/storage"
)

// FormatVersion is the number of the layout that this package writes. Layout 2
// may have entries of version 2, which programs for layout 1 cannot read. Layout 3
// has rows for the names of stores, which programs for layout 2 would not keep up
// to date. [New] upgrades older layouts in place.
const FormatVersion = 3

// Reader reads pairs of keys and values. Keys are ordered by their bytes. If the
// reader finds damaged data, its error must wrap [storage.ErrDamaged].
type Reader interface {
	// Get appends the value of key to dst and returns the result. If the key does
	// not exist, found is false.
	Get(key, dst []byte) (value []byte, found bool, err error)
	// Scan returns an iterator over the keys from lower up to, but not including,
	// upper. The iterator reads the data as of the call, and is before its first
	// key.
	Scan(lower, upper []byte) (Iterator, error)
}

// Iterator walks keys in ascending order. It is used by one goroutine.
type Iterator interface {
	// Next moves to the next key. It returns false at the end and after an error.
	Next() bool
	// Seek moves to the first key that is not below key. It returns false at the
	// end and after an error. The driver only seeks forward.
	Seek(key []byte) bool
	// Key returns the current key. It is valid until the next move.
	Key() []byte
	// Value returns the current value. It is valid until the next move.
	Value() []byte
	// Err returns the error that ended the walk; nil if it reached the end.
	Err() error
	// Close frees the iterator.
	Close() error
}

// Snapshot is a [Reader] of the data at the time when it was taken.
type Snapshot interface {
	Reader
	// Close frees the snapshot.
	Close() error
}

// Batch collects changes. A later change of a key replaces an earlier one. A
// batch copies the bytes that it gets. It is used by one goroutine.
type Batch interface {
	// Set sets the value of key.
	Set(key, value []byte) error
	// Delete deletes key. It does nothing if the key does not exist.
	Delete(key []byte) error
	// DeleteRange deletes the keys from lower up to, but not including, upper.
	DeleteRange(lower, upper []byte) error
	// Commit makes all changes visible, or none if it fails. The changes are
	// durable when it returns.
	Commit() error
	// Close frees the batch. It drops changes that were not committed.
	Close() error
}

// KeyBytesMax is the size of the largest key that the engine makes, without the prefix of
// [Options]: that of a secondary key of a document. A byte 00 or 01 of a name takes two bytes.
// The suite of package storagetest uses longer names, and keys of 2 MiB.
const KeyBytesMax = 1 + 16 + 1 + 3*(2*1024+1)

// Store is an ordered key-value store. It is safe for concurrent use. A read
// that begins after a Commit has returned sees the changes. It takes keys of at
// least [KeyBytesMax] bytes and the prefix. A longer one may be an error of Set.
type Store interface {
	Reader
	// Snapshot returns a snapshot of the data as of the call.
	Snapshot() (Snapshot, error)
	// Batch returns an empty batch.
	Batch() Batch
	// Close frees the store. The driver calls it once, after all other calls.
	Close() error
}

// Joiner is an optional interface of a [Store] whose data can be changed in a
// transaction of the embedding program. If a Store is not a Joiner,
// [Driver.AppendTo] accepts its batches as transactions.
type Joiner interface {
	// Join returns a Batch that adds its changes to tx. The driver never calls
	// Commit or Close of that Batch. If Join cannot use tx, its error must wrap
	// storage.ErrTransaction.
	Join(tx any) (Batch, error)
}

// Scrubber is an optional interface of a [Store] that keeps deleted values on
// its medium for some time.
type Scrubber interface {
	// Scrub rewrites the data of the keys from lower up to, but not including,
	// upper. Afterwards it contains no deleted or replaced values.
	Scrub(ctx context.Context, lower, upper []byte) error
}

// Options are the options of [New]. The zero value uses all keys of the Store.
type Options struct {
	// Prefix is the beginning of all keys of the driver. Keys without it may belong
	// to the embedding program or to other drivers. No prefix may be the beginning
	// of another one. The default is no prefix.
	Prefix []byte
	// Copy opens a copy of a log that several nodes share, see [Copy]. The data of a
	// copy can be opened only as a copy, and other data only without Copy.
	Copy bool
	// MustExist makes New fail with ErrDamaged if there is no format record. Set it
	// if the data is known to exist. By default New writes the record if there are
	// no keys with the prefix.
	MustExist bool
}

// Driver is a [storage.Driver] over a [Store]. It is also a [storage.Joiner]. Only one
// Driver at a time may use a prefix of a Store.
type Driver struct {
	store      Store
	prefix     []byte      // beginning of all keys
	copy       atomic.Bool // whether the data is a copy of a shared log
	castagnoli *crc32.Table

	catalog  sync.Mutex // held while stores and aliases are changed
	locks    storeLocks // one writer at a time for each store
	watchers watchers
	heads    heads
	rows     [3]*rowKind // by the indexes of writer.plans
	writers  sync.Pool   // of *writer
	done     func()      // the method end; a field, so that begin does not allocate it

	closed         atomic.Bool
	catalogChanges atomic.Uint64
	creations      atomic.Uint64
	stores         storeCount
	mu             sync.Mutex              // guards active and open
	idle           *sync.Cond              // signals that active is 0
	active         int                     // running calls
	open           map[*openState]struct{} // States that are not closed
}

var (
	_ storage.Driver = (*Driver)(nil)
	_ storage.Joiner = (*Driver)(nil)
)

// ErrCopy means that data is a copy of a shared log, and was not opened as one. It wraps
// [storage.ErrFormat].
var ErrCopy = fmt.Errorf("%w: the data is a copy of a shared log, and must be opened as one", storage.ErrFormat)

// ErrNoCopy means that data was opened as a copy of a shared log, and is none. It wraps
// [storage.ErrFormat].
var ErrNoCopy = fmt.Errorf("%w: the data is not a copy of a shared log", storage.ErrFormat)

// New returns a driver over store. It fails with [storage.ErrFormat] if keys with
// the prefix exist that no driver of this package wrote, or if their layout is
// unknown. It upgrades an older layout in place. [Driver.Close] closes the store,
// too. New starts no goroutine.
func New(store Store, opts Options) (*Driver, error) {
	d := &Driver{
		store:    store,
		prefix:   bytes.Clone(opts.Prefix),
		locks:    storeLocks{used: map[storage.StoreID]*storeLock{}},
		watchers: newWatchers(),
		open:     map[*openState]struct{}{},
		rows:     [3]*rowKind{tupleRows(), attributeRows(), documentRows()},

		castagnoli: crc32.MakeTable(crc32.Castagnoli),
	}
	d.copy.Store(opts.Copy)
	d.done = d.end
	d.writers.New = func() any { return &writer{d: d} }
	d.idle = sync.NewCond(&d.mu)
	if err := d.checkFormat(opts.MustExist); err != nil {
		return nil, err
	}
	return d, nil
}

// checkFormat checks the format record. If there are no keys with the prefix, or
// if the layout is older, it writes the record. An upgrade also adds the rows of
// names. It changes nothing else, because the rows of older layouts stay valid.
func (d *Driver) checkFormat(mustExist bool) error {
	key := d.formatKey()
	version, found, err := d.readFormat(key)
	if err != nil || found && version == FormatVersion {
		return err
	}
	if !found {
		if mustExist {
			return errNoFormat()
		}
		if err := d.checkUnused(); err != nil {
			return err
		}
	}
	b := d.store.Batch()
	defer b.Close()
	if found {
		for info, err := range d.Stores(context.Background(), storage.StoreID{}) {
			if err != nil {
				return err
			}
			if err := d.put(b, d.nameKey(info.Name, info.ID), bytes.Clone(info.ID[:])); err != nil {
				return err
			}
		}
	}
	if err := d.put(b, key, append([]byte(d.magic()), FormatVersion)); err != nil {
		return err
	}
	return b.Commit()
}

// readFormat returns the version in the format record.
func (d *Driver) readFormat(key []byte) (version int, found bool, err error) {
	v, found, err := d.store.Get(key, nil)
	if err != nil || !found {
		return 0, false, err
	}
	v, err = d.verify(key, v)
	if err != nil {
		return 0, false, err
	}
	magic := d.magic()
	if n := len(v) - 1; n < 0 || string(v[:n]) != magic {
		switch {
		case n >= 0 && string(v[:n]) == copyMagic:
			return 0, false, ErrCopy
		case n >= 0 && string(v[:n]) == formatMagic:
			return 0, false, ErrNoCopy
		}
		return 0, false, fmt.Errorf("%w: the format record was not written by Ostiary", storage.ErrFormat)
	}
	version = int(v[len(magic)])
	if version < 1 || version > FormatVersion {
		return 0, false, fmt.Errorf("%w: layout %d, but this version reads layouts 1 to %d", storage.ErrFormat, version, FormatVersion)
	}
	return version, true, nil
}

// magic returns the beginning of the format record.
func (d *Driver) magic() string {
	if d.copy.Load() {
		return copyMagic
	}
	return formatMagic
}

// checkUnused returns ErrFormat if there are keys with the prefix.
func (d *Driver) checkUnused() error {
	lower := d.prefix
	it, err := d.store.Scan(lower, successor(append(bytes.Clone(lower), 0xfe)))
	if err != nil {
		return err
	}
	used := it.Next()
	if err := it.Err(); err != nil {
		it.Close()
		return err
	}
	if err := it.Close(); err != nil {
		return err
	}
	if used {
		return fmt.Errorf("%w: the prefix has keys but no format record", storage.ErrFormat)
	}
	return nil
}

// Format returns [FormatVersion], since [New] upgrades older layouts.
func (d *Driver) Format(ctx context.Context) (int, error) {
	done, err := d.begin(ctx)
	if err != nil {
		return 0, err
	}
	defer done()
	version, found, err := d.readFormat(d.formatKey())
	if err == nil && !found {
		err = errNoFormat()
	}
	return version, err
}

func errNoFormat() error {
	return fmt.Errorf("%w: the format record is missing", storage.ErrDamaged)
}

// Begin registers a call of a driver that embeds this one and has additional
// methods. The caller must call done at the end of the call; Close waits for it.
// Begin fails with [storage.ErrClosed] after Close, and with the error of ctx if
// ctx has ended.
func (d *Driver) Begin(ctx context.Context) (done func(), err error) { return d.begin(ctx) }

// begin registers a call, so that Close waits for it. It fails if d is closed or
// ctx has ended.
func (d *Driver) begin(ctx context.Context) (done func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed.Load() {
		return nil, storage.ErrClosed
	}
	d.active++
	return d.done, nil
}

// end is the end of a call that begin registered.
func (d *Driver) end() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.active--; d.active == 0 {
		d.idle.Broadcast()
	}
}

// Close rejects new calls and ends sequences that are being read at their next
// row. It waits for running calls, and then closes the open States and the Store.
// A call from inside the loop over a sequence never returns, because it waits for
// the loop. A second call returns nil.
func (d *Driver) Close() error {
	d.mu.Lock()
	if d.closed.Swap(true) {
		d.mu.Unlock()
		return nil
	}
	for d.active > 0 {
		d.idle.Wait()
	}
	states := make([]*openState, 0, len(d.open))
	for p := range d.open {
		states = append(states, p)
	}
	d.mu.Unlock()
	d.watchers.close()
	var first error
	for _, p := range states {
		if err := p.close(); err != nil && first == nil {
			first = err
		}
	}
	if err := d.store.Close(); err != nil && first == nil {
		first = err
	}
	return first
}
