// Package kv lays a storage driver's log and state out over any ordered
// key-value store with atomic batches. Its main type is Driver; what it asks of
// the store below is Store, a handful of methods that an embedder can write
// over his own. It knows the layout (docs/format.md) and nothing of files,
// caches or caches' sizes, and no rule of authorization.
package kv

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"hash/crc32"
	"sync"
	"sync/atomic"

	"github.com/ostiary/ostiary/storage"
)

// FormatVersion is the layout that this package writes.
const FormatVersion = 1

// Reader reads keys in order of their bytes. Damage that the store finds must
// be an error that wraps storage.ErrDamaged.
type Reader interface {
	// Get appends key's value to dst. found is false for an absent key.
	Get(key, dst []byte) (value []byte, found bool, err error)
	// Scan returns an iterator, before its first key, over lower <= key < upper,
	// on the data of the moment of the call.
	Scan(lower, upper []byte) (Iterator, error)
}

// Iterator walks keys upwards. It is used by one goroutine.
type Iterator interface {
	// Next moves to the next key; false is the end or an error.
	Next() bool
	// Seek moves to the first key at or after key. It is only called with
	// ascending keys, from anywhere before them.
	Seek(key []byte) bool
	// Key and Value are valid until the next move.
	Key() []byte
	Value() []byte
	// Err returns what ended the walk early.
	Err() error
	Close() error
}

// Snapshot is a Reader on the data of the moment it was taken.
type Snapshot interface {
	Reader
	Close() error
}

// Batch collects changes, of which later ones win, and commits all or none.
// It copies the bytes it is given.
type Batch interface {
	Set(key, value []byte) error
	Delete(key []byte) error
	// DeleteRange deletes lower <= key < upper.
	DeleteRange(lower, upper []byte) error
	// Commit makes the changes visible and durable before it returns.
	Commit() error
	// Close frees the batch; what was not committed is dropped.
	Close() error
}

// Store is an ordered key-value store. It is safe for concurrent use, and a
// Get or Scan that begins after a Commit returned sees its changes.
type Store interface {
	Reader
	Snapshot() (Snapshot, error)
	Batch() Batch
	Close() error
}

// Joiner is an optional power of a Store: it turns an embedder's transaction
// into a Batch on which Commit is never called. A Store without it accepts its
// own Batch as a transaction.
type Joiner interface {
	Join(tx any) (Batch, error)
}

// Scrubber is an optional power of a Store: to rewrite what it keeps of a range
// of keys so that no deleted or replaced value is left in it.
type Scrubber interface {
	Scrub(ctx context.Context, lower, upper []byte) error
}

// Options of New. The zero value is useful.
type Options struct {
	// Prefix stands before every key, so that a store of the embedder's can hold
	// other data too. It must not be another prefix's prefix. Default none.
	Prefix []byte
	// MustExist refuses a prefix without a format record as ErrDamaged, where the
	// caller knows that there was one. Default: write it into an empty prefix.
	MustExist bool
}

// Driver is a storage.Driver over a Store; it is also a storage.Joiner and a
// storage.Notifier. One Driver at a time may work on one prefix of a Store.
type Driver struct {
	store  Store
	prefix []byte
	// castagnoli is the polynomial's table, which MakeTable makes once for all.
	castagnoli *crc32.Table

	catalog sync.Mutex // held by changes of which stores and aliases exist
	turns   turns
	moved   moved
	heads   heads
	rows    [3]*rowKind // as writer.plans
	writers sync.Pool   // of *writer
	done    func()      // end, made once

	closed         atomic.Bool
	catalogChanges atomic.Uint64
	mu             sync.Mutex // guards what follows
	idle           *sync.Cond
	active         int
	open           map[*picture]struct{}
}

var (
	_ storage.Driver   = (*Driver)(nil)
	_ storage.Joiner   = (*Driver)(nil)
	_ storage.Notifier = (*Driver)(nil)
)

// New returns a driver over store, whose prefix must hold nothing or what an
// earlier driver wrote; else ErrFormat. Close closes store too. New starts no
// goroutine.
func New(store Store, opts Options) (*Driver, error) {
	var instance [8]byte
	rand.Read(instance[:])
	d := &Driver{
		store:  store,
		prefix: bytes.Clone(opts.Prefix),
		turns:  turns{held: map[storage.StoreID]*turn{}},
		moved:  newMoved(hex.EncodeToString(instance[:])),
		open:   map[*picture]struct{}{},
		rows:   [3]*rowKind{tupleRows(), attributeRows(), documentRows()},

		castagnoli: crc32.MakeTable(crc32.Castagnoli),
	}
	d.done = d.end
	d.writers.New = func() any { return &writer{d: d} }
	d.idle = sync.NewCond(&d.mu)
	if err := d.checkFormat(opts.MustExist); err != nil {
		return nil, err
	}
	return d, nil
}

// checkFormat reads the format record, or writes it where there is nothing yet.
func (d *Driver) checkFormat(mustExist bool) error {
	key := d.formatKey()
	_, found, err := d.readFormat(key)
	if err != nil || found {
		return err
	}
	if mustExist {
		return errNoFormat()
	}
	if err := d.empty(); err != nil {
		return err
	}
	b := d.store.Batch()
	defer b.Close()
	if err := d.put(b, key, append([]byte(formatMagic), FormatVersion)); err != nil {
		return err
	}
	return b.Commit()
}

func (d *Driver) readFormat(key []byte) (version int, found bool, err error) {
	v, found, err := d.store.Get(key, nil)
	if err != nil || !found {
		return 0, false, err
	}
	v, err = d.verify(key, v)
	if err != nil {
		return 0, false, err
	}
	if len(v) != len(formatMagic)+1 || string(v[:len(formatMagic)]) != formatMagic {
		return 0, false, fmt.Errorf("%w: the format record is not ours", storage.ErrFormat)
	}
	version = int(v[len(formatMagic)])
	if version != FormatVersion {
		return 0, false, fmt.Errorf("%w: layout %d, this build knows up to %d", storage.ErrFormat, version, FormatVersion)
	}
	return version, true, nil
}

// empty refuses to move in among keys that somebody else wrote.
func (d *Driver) empty() error {
	lower := d.prefix
	it, err := d.store.Scan(lower, successor(append(bytes.Clone(lower), 0xfe)))
	if err != nil {
		return err
	}
	taken := it.Next()
	if err := it.Err(); err != nil {
		it.Close()
		return err
	}
	if err := it.Close(); err != nil {
		return err
	}
	if taken {
		return fmt.Errorf("%w: the prefix holds keys but no format record", storage.ErrFormat)
	}
	return nil
}

// Format returns FormatVersion; there is no older layout to upgrade from yet.
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

// Begin is for a driver that adds calls of its own: Close waits until done was
// called. It returns ErrClosed after Close, and the error of a ctx that ended.
func (d *Driver) Begin(ctx context.Context) (done func(), err error) { return d.begin(ctx) }

// begin registers a call, so that Close can wait for it, unless d is closed or
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

func (d *Driver) end() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.active--; d.active == 0 {
		d.idle.Broadcast()
	}
}

// Close refuses new calls, ends sequences that are being read with ErrClosed at
// their next row, waits for running calls, closes what States are left open
// and then the Store. Calling it from inside a sequence's loop never returns.
// A second Close returns nil.
func (d *Driver) Close() error {
	d.mu.Lock()
	if d.closed.Swap(true) {
		d.mu.Unlock()
		return nil
	}
	for d.active > 0 {
		d.idle.Wait()
	}
	left := make([]*picture, 0, len(d.open))
	for p := range d.open {
		left = append(left, p)
	}
	d.mu.Unlock()
	d.moved.close()
	var first error
	for _, p := range left {
		if err := p.close(); err != nil && first == nil {
			first = err
		}
	}
	if err := d.store.Close(); err != nil && first == nil {
		first = err
	}
	return first
}
