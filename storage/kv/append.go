package kv

import (
	"context"
	"fmt"

	"github.com/ostiary/ostiary/storage"
)

// Append implements [storage.Driver]. It commits the entries and the changes of
// the state in one batch. Writers of the same store wait for each other. This is
// rare, because the engine groups the writes of a store.
func (d *Driver) Append(ctx context.Context, id storage.StoreID, after storage.Head, entries []storage.Entry, sealed []storage.Sealed) (storage.Head, error) {
	done, err := d.begin(ctx)
	if err != nil {
		return storage.Head{}, err
	}
	defer done()
	lock, err := d.locks.lock(ctx, id)
	if err != nil {
		return storage.Head{}, err
	}
	defer lock.unlock()
	b := d.store.Batch()
	defer b.Close()
	next, err := d.stage(ctx, b, id, after, entries, sealed)
	if err != nil {
		return storage.Head{}, wrap("append to", id, err)
	}
	if len(entries) == 0 {
		return next.Head, nil
	}
	// From here on ctx is ignored, so that the caller learns the outcome.
	if err := b.Commit(); err != nil {
		d.heads.forget(id)
		return storage.Head{}, wrap("append to", id, err)
	}
	d.heads.put(id, next)
	d.watchers.moved(id, entries[len(entries)-1].Writer)
	return next.Head, nil
}

// AppendTo implements [storage.Joiner]. tx is a transaction that the Join method
// of the Store accepts; if the Store is not a [Joiner], tx is one of its Batches.
// The embedding program commits tx and is responsible for durability. tx must not
// contain an earlier AppendTo to the same store.
func (d *Driver) AppendTo(ctx context.Context, tx any, id storage.StoreID, after storage.Head, entries []storage.Entry) (storage.Head, error) {
	done, err := d.begin(ctx)
	if err != nil {
		return storage.Head{}, err
	}
	defer done()
	b, err := d.join(tx)
	if err != nil {
		return storage.Head{}, wrap("append to", id, err)
	}
	lock, err := d.locks.lock(ctx, id)
	if err != nil {
		return storage.Head{}, err
	}
	defer lock.unlock()
	d.heads.forgetAlways(id) // the head moves when tx is committed, which d does not notice
	if before, ok := d.watchers.joinedHead(id); ok && before != after {
		d.watchers.moved(id, storage.WriterID{}) // the previous transaction was committed
	}
	next, err := d.stage(ctx, b, id, after, entries, nil)
	if err != nil {
		return storage.Head{}, wrap("append to", id, err)
	}
	d.watchers.join(id, after)
	return next.Head, nil
}

// join returns a Batch that adds its changes to tx.
func (d *Driver) join(tx any) (Batch, error) {
	if j, ok := d.store.(Joiner); ok {
		return j.Join(tx)
	}
	if b, ok := tx.(Batch); ok {
		return b, nil
	}
	return nil, fmt.Errorf("%w: it has type %T, expected a batch of the store", storage.ErrTransaction, tx)
}

// stage checks that the entries follow the head of the store, and adds their
// changes to b. It returns the new head. All checks come before the first change
// of b; if a later step fails, b must not be committed.
func (d *Driver) stage(ctx context.Context, b Batch, id storage.StoreID, after storage.Head, entries []storage.Entry, sealed []storage.Sealed) (head, error) {
	h, known := d.heads.get(id)
	if !known {
		var err error
		if h, err = d.readHead(d.store, id); err != nil {
			return head{}, err
		}
	}
	if h.Revision != after.Revision || h.Hash != after.Hash {
		return head{}, &storage.ConflictError{Head: h.Head}
	}
	if len(entries) == 0 {
		return h, nil
	}
	if entries[0].Incarnation != h.incarnation {
		return head{}, fmt.Errorf("%w: the incarnation of the entries differs from the incarnation of the store", storage.ErrEntry)
	}
	var err error
	if sealed == nil {
		h.Head, sealed, err = storage.Seal(h.Head, entries)
	} else {
		h.Head, err = storage.ChainSealed(h.Head, entries, sealed)
	}
	if err != nil {
		return head{}, err
	}
	w := d.writers.Get().(*writer)
	w.ctx, w.id, w.b, w.entries = ctx, id, b, entries
	err = w.write(sealed, h)
	w.reset()
	d.writers.Put(w)
	return h, err
}
