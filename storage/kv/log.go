package kv

import (
	"context"
	"crypto/sha256"
	"fmt"
	"iter"

	"github.com/ostiary/ostiary/storage"
)

// Entries implements [storage.Driver]. It checks the hash of each entry: the next
// entry or the head contains it.
func (d *Driver) Entries(ctx context.Context, id storage.StoreID, from storage.Revision) iter.Seq2[storage.Entry, error] {
	return func(yield func(storage.Entry, error) bool) {
		done, err := d.begin(ctx)
		if err != nil {
			yield(storage.Entry{}, err)
			return
		}
		defer done()
		snap, err := d.store.Snapshot()
		if err == nil {
			defer snap.Close()
			err = d.entries(ctx, snap, id, max(from, 1), yield)
		}
		if err != nil {
			yield(storage.Entry{}, wrap("log of", id, err))
		}
	}
}

func (d *Driver) entries(ctx context.Context, r Reader, id storage.StoreID, from storage.Revision, yield func(storage.Entry, error) bool) error {
	h, err := d.readHead(r, id)
	if err != nil {
		return err
	}
	t, err := d.readTrim(r, id)
	if err != nil {
		return err
	}
	if from < t.log {
		return fmt.Errorf("%w: revision %d; the oldest is %d", storage.ErrTrimmed, from, t.log)
	}
	if from > h.Revision {
		return nil
	}
	var previous storage.Hash
	next, stopped := from, false
	err = d.scan(ctx, r, d.logKey(id, from), successor(d.logKey(id, h.Revision)), func(key, value []byte) (bool, error) {
		e, err := storage.DecodeEntry(value)
		if err != nil {
			return false, err
		}
		if e.Revision != next || e.Incarnation != h.incarnation || next > from && e.Previous != previous || next == 1 && e.Previous != (storage.Hash{}) {
			return false, fmt.Errorf("%w: entry %d does not follow its predecessor", storage.ErrDamaged, next)
		}
		previous = sha256.Sum256(value)
		if next == h.Revision && previous != h.Hash {
			return false, fmt.Errorf("%w: the hash of entry %d is not that of the head", storage.ErrDamaged, next)
		}
		next++
		stopped = !yield(e, nil)
		return !stopped, nil
	})
	if err == nil && !stopped && next != h.Revision+1 {
		return fmt.Errorf("%w: entry %d is missing", storage.ErrDamaged, next)
	}
	return err
}

// EntryHead implements [storage.Driver]. It checks the bytes of the entry with
// their checksum, and not with a hash.
func (d *Driver) EntryHead(ctx context.Context, id storage.StoreID, r storage.Revision) (storage.Entry, error) {
	done, err := d.begin(ctx)
	if err != nil {
		return storage.Entry{}, err
	}
	defer done()
	snap, err := d.store.Snapshot()
	if err != nil {
		return storage.Entry{}, wrap("log of", id, err)
	}
	defer snap.Close()
	e, err := d.entryHead(snap, id, r)
	return e, wrap("log of", id, err)
}

func (d *Driver) entryHead(snap Reader, id storage.StoreID, r storage.Revision) (storage.Entry, error) {
	h, err := d.readHead(snap, id)
	if err != nil {
		return storage.Entry{}, err
	}
	t, err := d.readTrim(snap, id)
	switch {
	case err != nil:
		return storage.Entry{}, err
	case r == 0 || r > h.Revision:
		return storage.Entry{}, fmt.Errorf("%w: revision %d; the newest is %d", storage.ErrNoEntry, r, h.Revision)
	case r < t.log:
		return storage.Entry{}, fmt.Errorf("%w: revision %d; the oldest is %d", storage.ErrTrimmed, r, t.log)
	}
	value, found, err := d.get(snap, d.logKey(id, r))
	if err != nil {
		return storage.Entry{}, err
	}
	if !found {
		return storage.Entry{}, fmt.Errorf("%w: entry %d is missing", storage.ErrDamaged, r)
	}
	e, err := storage.DecodeEntryHead(value)
	if err == nil && (e.Revision != r || e.Incarnation != h.incarnation) {
		err = fmt.Errorf("%w: entry %d is that of another revision or store", storage.ErrDamaged, r)
	}
	return e, err
}

// Trim implements [storage.Driver]. It deletes ranges of keys in one batch, so its
// cost does not depend on their size.
func (d *Driver) Trim(ctx context.Context, id storage.StoreID, log, rows storage.Revision) error {
	done, err := d.begin(ctx)
	if err != nil {
		return err
	}
	defer done()
	lock, err := d.locks.lock(ctx, id)
	if err != nil {
		return err
	}
	defer lock.unlock()
	h, err := d.readHead(d.store, id)
	if err != nil {
		return wrap("trim", id, err)
	}
	b := d.store.Batch()
	defer b.Close()
	trimmed, err := d.stageTrim(b, id, h, log, rows)
	if err == nil && trimmed {
		err = b.Commit()
	}
	if err == nil {
		err = d.scrub(ctx, id)
	}
	return wrap("trim", id, err)
}

// scrub removes the deleted secrets of a store from the medium.
func (d *Driver) scrub(ctx context.Context, id storage.StoreID) error {
	s, ok := d.store.(Scrubber)
	if !ok {
		return nil
	}
	secrets := d.tableKey(id, tableSecrets)
	return s.Scrub(ctx, secrets, successor(secrets))
}

// stageTrim adds the trimming of a store with the head h to b. It returns false if
// there is nothing to trim.
func (d *Driver) stageTrim(b Batch, id storage.StoreID, h head, log, rows storage.Revision) (bool, error) {
	t, err := d.readTrim(d.store, id)
	if err != nil {
		return false, err
	}
	log, rows = min(log, h.Revision+1), min(rows, h.Revision)
	if log <= t.log && rows <= t.rows {
		return false, nil
	}
	return true, d.trim(b, id, t, trim{max(log, t.log), max(rows, t.rows)})
}

// trim adds the deletion of what lies between two trim records to b, and the new
// record.
func (d *Driver) trim(b Batch, id storage.StoreID, old, next trim) error {
	if next.log > old.log {
		if err := b.DeleteRange(d.logKey(id, old.log), d.logKey(id, next.log)); err != nil {
			return err
		}
	}
	if next.rows > old.rows {
		for _, t := range [...]table{tableTuplesRemoved, tableAttributesRemoved, tableDocumentsRemoved} {
			lower := appendRevision(d.tableKey(id, t), old.rows+1)
			upper := appendRevision(d.tableKey(id, t), next.rows+1)
			if err := b.DeleteRange(lower, upper); err != nil {
				return err
			}
		}
	}
	return d.putTrim(b, id, next)
}
