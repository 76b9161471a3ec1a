package kv

import (
	"context"
	"fmt"

	"github.com/ostiary/ostiary/storage"
)

// Append commits entries and the state that follows from them in one batch.
// Writers of one store wait for each other; the engine's groups make that the
// rare case.
func (d *Driver) Append(ctx context.Context, id storage.StoreID, after storage.Head, entries []storage.Entry) (storage.Head, error) {
	return d.append(ctx, id, after, entries, nil)
}

// AppendSealed is Append for entries whose canonical bytes the caller has.
func (d *Driver) AppendSealed(ctx context.Context, id storage.StoreID, after storage.Head, entries []storage.Entry, sealed []storage.Sealed) (storage.Head, error) {
	if sealed == nil {
		sealed = []storage.Sealed{}
	}
	return d.append(ctx, id, after, entries, sealed)
}

// append is both; sealed is nil where it is to be made.
func (d *Driver) append(ctx context.Context, id storage.StoreID, after storage.Head, entries []storage.Entry, sealed []storage.Sealed) (storage.Head, error) {
	done, err := d.begin(ctx)
	if err != nil {
		return storage.Head{}, err
	}
	defer done()
	release, err := d.turns.take(ctx, id)
	if err != nil {
		return storage.Head{}, err
	}
	defer release()
	b := d.store.Batch()
	defer b.Close()
	next, err := d.stage(ctx, b, id, after, entries, sealed)
	if err != nil {
		return storage.Head{}, failed("append to", id, err)
	}
	if len(entries) == 0 {
		return next, nil
	}
	// From here on the context is not asked: the caller learns what happened.
	if err := b.Commit(); err != nil {
		return storage.Head{}, failed("append to", id, err)
	}
	d.moved.note(id)
	return next, nil
}

// AppendTo adds entries and their state to the embedder's transaction tx: what
// the Store's Join accepts, or one of its own Batches where it has no Join. The
// embedder commits it, durably if it is to be durable. tx must hold no earlier
// AppendTo to the same store.
func (d *Driver) AppendTo(ctx context.Context, tx any, id storage.StoreID, after storage.Head, entries []storage.Entry) (storage.Head, error) {
	done, err := d.begin(ctx)
	if err != nil {
		return storage.Head{}, err
	}
	defer done()
	b, err := d.join(tx)
	if err != nil {
		return storage.Head{}, failed("append to", id, err)
	}
	release, err := d.turns.take(ctx, id)
	if err != nil {
		return storage.Head{}, err
	}
	defer release()
	if before, ok := d.moved.pending()[id]; ok && before != after {
		d.moved.note(id) // the transaction before this one was committed
	}
	next, err := d.stage(ctx, b, id, after, entries, nil)
	if err != nil {
		return storage.Head{}, failed("append to", id, err)
	}
	d.moved.join(id, after)
	return next, nil
}

func (d *Driver) join(tx any) (Batch, error) {
	if j, ok := d.store.(Joiner); ok {
		return j.Join(tx)
	}
	if b, ok := tx.(Batch); ok {
		return b, nil
	}
	return nil, fmt.Errorf("%w: %T", storage.ErrTransaction, tx)
}

// stage checks entries against the store's head and adds what they do to b. On
// an error b holds nothing or must not be committed; only checks that need no
// batch come before the first change to it.
func (d *Driver) stage(ctx context.Context, b Batch, id storage.StoreID, after storage.Head, entries []storage.Entry, sealed []storage.Sealed) (storage.Head, error) {
	h, err := d.readHead(d.store, id)
	if err != nil {
		return storage.Head{}, err
	}
	if h.Revision != after.Revision || h.Hash != after.Hash {
		return storage.Head{}, &storage.ConflictError{Head: h.Head}
	}
	if len(entries) == 0 {
		return h.Head, nil
	}
	if entries[0].Incarnation != h.incarnation {
		return storage.Head{}, fmt.Errorf("%w: they are of another incarnation", storage.ErrEntry)
	}
	var next storage.Head
	if sealed == nil {
		next, sealed, err = storage.Seal(h.Head, entries)
	} else {
		next, err = storage.Sealing(h.Head, entries, sealed)
	}
	if err != nil {
		return storage.Head{}, err
	}
	w := writer{d: d, ctx: ctx, id: id, b: b, entries: entries}
	if err := w.collect(); err != nil {
		return storage.Head{}, err
	}
	if err := w.apply(); err != nil {
		return storage.Head{}, err
	}
	for i := range entries {
		w.key = d.appendLogKey(w.key[:0], id, entries[i].Revision)
		if err := d.put(b, w.key, sealed[i].Bytes); err != nil {
			return storage.Head{}, err
		}
	}
	return next, d.putHead(b, id, head{next, h.incarnation})
}
