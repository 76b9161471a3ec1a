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
	write *pebble.WriteOptions
	guard *guard
	// closing ends what Open began; nil where the embedder owns db.
	closing func() error
}

var (
	_ kv.Store    = (*store)(nil)
	_ kv.Joiner   = (*store)(nil)
	_ kv.Scrubber = (*store)(nil)
)

func (s *store) Get(key, dst []byte) ([]byte, bool, error) {
	if err := s.guard.reading(); err != nil {
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
		return dst, false, named(err)
	}
	dst = append(dst, v...)
	return dst, true, named(closer.Close())
}

func (s *store) Scan(lower, upper []byte) (kv.Iterator, error) { return s.scan(s.db, lower, upper) }

func (s *store) scan(r pebble.Reader, lower, upper []byte) (kv.Iterator, error) {
	if err := s.guard.reading(); err != nil {
		return nil, err
	}
	it, err := r.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
	if err != nil {
		return nil, named(err)
	}
	return &iterator{it: it}, nil
}

func (s *store) Snapshot() (kv.Snapshot, error) {
	if err := s.guard.reading(); err != nil {
		return nil, err
	}
	return &snapshot{s.db.NewSnapshot(), s}, nil
}

func (s *store) Batch() kv.Batch { return &batch{Batch: s.db.NewBatch(), store: s} }

// Join accepts the embedder's *pebble.Batch of the same database.
func (s *store) Join(tx any) (kv.Batch, error) {
	b, ok := tx.(*pebble.Batch)
	if !ok || b == nil {
		return nil, fmt.Errorf("%w: %T, want *pebble.Batch", storage.ErrTransaction, tx)
	}
	if err := s.guard.writing(); err != nil {
		return nil, err
	}
	return &batch{Batch: b, store: s}, nil
}

// Scrub rewrites the range's tables, so that deleted values are in none. What
// the write-ahead log held goes when Pebble recycles it.
func (s *store) Scrub(ctx context.Context, lower, upper []byte) error {
	if err := s.guard.writing(); err != nil {
		return err
	}
	ctx, done := s.guard.until(ctx)
	defer done()
	if err := s.db.Compact(ctx, lower, upper, false); err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return named(err)
	}
	return s.guard.reading()
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
	if err := s.store.guard.reading(); err != nil {
		return dst, false, err
	}
	return get(s.Snapshot, key, dst)
}

func (s *snapshot) Scan(lower, upper []byte) (kv.Iterator, error) {
	return s.store.scan(s.Snapshot, lower, upper)
}

func (s *snapshot) Close() error { return named(s.Snapshot.Close()) }

// iterator turns Pebble's iterator, which must be told where to begin, into one
// that begins before the first key.
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
func (i *iterator) Err() error    { return named(i.it.Error()) }
func (i *iterator) Close() error  { return named(i.it.Close()) }

type batch struct {
	*pebble.Batch
	store *store
}

// batchBytesMax bounds a batch: some 25 million rows that one filter removes.
// Pebble panics at 4 GiB.
const batchBytesMax = 7 << 29

// room refuses what would pass the bound.
func (b *batch) room(key, value []byte) error {
	if n := b.Batch.Len() + len(key) + len(value); n > batchBytesMax {
		return fmt.Errorf("%w: a transaction has at most %d bytes", storage.ErrTooLarge, batchBytesMax)
	}
	return nil
}

func (b *batch) Set(key, value []byte) error {
	if err := b.room(key, value); err != nil {
		return err
	}
	return named(b.Batch.Set(key, value, nil))
}

func (b *batch) Delete(key []byte) error {
	if err := b.room(key, nil); err != nil {
		return err
	}
	return named(b.Batch.Delete(key, nil))
}

func (b *batch) Close() error { return named(b.Batch.Close()) }

func (b *batch) DeleteRange(lower, upper []byte) error {
	return named(b.Batch.DeleteRange(lower, upper, nil))
}

// Commit reports what Pebble regards as the process's end: after a write whose
// outcome is unknown the guard refuses everything until the next Open.
func (b *batch) Commit() error {
	if err := b.store.guard.writing(); err != nil {
		return err
	}
	if err := b.Batch.Commit(b.store.write); err != nil {
		return named(err)
	}
	return b.store.guard.reading()
}
