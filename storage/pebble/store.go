package pebble

import (
	"context"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"github.com/ostiary/ostiary/storage"
	"github.com/ostiary/ostiary/storage/kv"
)

// store is a kv.Store over Pebble.
type store struct {
	db    *pebble.DB
	write *pebble.WriteOptions // whether a commit waits for the disk
	guard *guard
	// readOnly refuses all writes.
	readOnly bool
	// closing closes the folder; nil if db belongs to the embedding program.
	closing func() error
}

var (
	_ kv.Store    = (*store)(nil)
	_ kv.Joiner   = (*store)(nil)
	_ kv.Scrubber = (*store)(nil)
	_ kv.Syncer   = (*store)(nil)
)

func (s *store) Get(key, dst []byte) ([]byte, bool, error) {
	if err := s.guard.checkRead(); err != nil {
		return dst, false, err
	}
	return get(s.db, key, dst)
}

func get(r pebble.Reader, key, dst []byte) ([]byte, bool, error) {
	v, closer, err := r.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return dst, false, nil
	}
	if err != nil {
		return dst, false, classify(err)
	}
	dst = append(dst, v...)
	return dst, true, classify(closer.Close())
}

func (s *store) Scan(lower, upper []byte) (kv.Iterator, error) { return s.scan(s.db, lower, upper) }

func (s *store) scan(r pebble.Reader, lower, upper []byte) (kv.Iterator, error) {
	if err := s.guard.checkRead(); err != nil {
		return nil, err
	}
	it, err := r.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
	if err != nil {
		return nil, classify(err)
	}
	return &iterator{it: it}, nil
}

func (s *store) Snapshot() (kv.Snapshot, error) {
	if err := s.guard.checkRead(); err != nil {
		return nil, err
	}
	return &snapshot{s.db.NewSnapshot(), s}, nil
}

func (s *store) Batch() kv.Batch { return &batch{Batch: s.db.NewBatch(), store: s} }

// Join accepts a *pebble.Batch of the same database.
func (s *store) Join(tx any) (kv.Batch, error) {
	b, ok := tx.(*pebble.Batch)
	if !ok || b == nil {
		return nil, fmt.Errorf("%w: it has type %T, expected *pebble.Batch", storage.ErrTransaction, tx)
	}
	if err := s.guard.checkWrite(); err != nil {
		return nil, err
	}
	return &batch{Batch: b, store: s}, nil
}

// Scrub implements [kv.Scrubber]: it rewrites the tables of the range. A deleted
// value may stay in a write-ahead log until Pebble overwrites it.
func (s *store) Scrub(ctx context.Context, lower, upper []byte) error {
	if s.readOnly {
		return errReadOnly
	}
	if err := s.guard.checkWrite(); err != nil {
		return err
	}
	ctx, done := s.guard.watch(ctx)
	defer done()
	if err := s.db.Compact(ctx, lower, upper, false); err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return classify(err)
	}
	return s.guard.checkRead()
}

// Sync implements [kv.Syncer]: it waits until the write-ahead log is on disk.
func (s *store) Sync() error {
	if s.readOnly {
		return errReadOnly
	}
	if err := s.guard.checkWrite(); err != nil {
		return err
	}
	if err := s.db.LogData(nil, pebble.Sync); err != nil {
		return classify(err)
	}
	return s.guard.checkRead()
}

func (s *store) Close() error {
	if s.closing == nil {
		return nil
	}
	return s.closing()
}

type snapshot struct {
	*pebble.Snapshot
	store *store
}

func (s *snapshot) Get(key, dst []byte) ([]byte, bool, error) {
	if err := s.store.guard.checkRead(); err != nil {
		return dst, false, err
	}
	return get(s.Snapshot, key, dst)
}

func (s *snapshot) Scan(lower, upper []byte) (kv.Iterator, error) {
	return s.store.scan(s.Snapshot, lower, upper)
}

func (s *snapshot) Close() error { return classify(s.Snapshot.Close()) }

// iterator is a kv.Iterator over a Pebble iterator. Unlike that, it starts before
// its first key.
type iterator struct {
	it    *pebble.Iterator
	begun bool
}

func (i *iterator) Next() bool {
	if !i.begun {
		i.begun = true
		return i.it.First()
	}
	return i.it.Next()
}

func (i *iterator) Seek(key []byte) bool {
	i.begun = true
	return i.it.SeekGE(key)
}

func (i *iterator) Key() []byte   { return i.it.Key() }
func (i *iterator) Value() []byte { return i.it.Value() }
func (i *iterator) Err() error    { return classify(i.it.Error()) }
func (i *iterator) Close() error  { return classify(i.it.Close()) }

type batch struct {
	*pebble.Batch
	store *store
}

// batchBytesMax is the maximum size of a batch in bytes. It is enough to remove
// about 25 million rows with one filter. Pebble panics at 4 GiB.
const batchBytesMax = 7 << 29

// checkSize returns ErrTooLarge if a change would exceed batchBytesMax.
func (b *batch) checkSize(key, value []byte) error {
	if n := b.Batch.Len() + len(key) + len(value); n > batchBytesMax {
		return fmt.Errorf("%w: a transaction cannot exceed %d bytes", storage.ErrTooLarge, batchBytesMax)
	}
	return nil
}

func (b *batch) Set(key, value []byte) error {
	if err := b.checkSize(key, value); err != nil {
		return err
	}
	return classify(b.Batch.Set(key, value, nil))
}

func (b *batch) Delete(key []byte) error {
	if err := b.checkSize(key, nil); err != nil {
		return err
	}
	return classify(b.Batch.Delete(key, nil))
}

func (b *batch) Close() error { return classify(b.Batch.Close()) }

func (b *batch) DeleteRange(lower, upper []byte) error {
	return classify(b.Batch.DeleteRange(lower, upper, nil))
}

// Commit commits the batch. It also fails if the guard noticed a failed write.
func (b *batch) Commit() error {
	if b.store.readOnly {
		return errReadOnly
	}
	check := b.store.guard.checkWrite
	if !b.store.write.Sync {
		check = b.store.guard.checkUnsynced
	}
	if err := check(); err != nil {
		return err
	}
	if err := b.Batch.Commit(b.store.write); err != nil {
		return classify(err)
	}
	return b.store.guard.checkRead()
}
