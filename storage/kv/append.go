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
	turn, err := d.turns.take(ctx, id)
	if err != nil {
		return storage.Head{}, err
	}
	defer turn.release()
	b := d.store.Batch()
	defer b.Close()
	next, err := d.stage(ctx, b, id, after, entries, sealed)
	if err != nil {
		return storage.Head{}, failed("append to", id, err)
	}
	if len(entries) == 0 {
		return next.Head, nil
	}
	// From here on the context is not asked: the caller learns what happened.
	if err := b.Commit(); err != nil {
		d.heads.forget(id)
		return storage.Head{}, failed("append to", id, err)
	}
	d.heads.put(id, next)
	d.moved.note(id)
	return next.Head, nil
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
	turn, err := d.turns.take(ctx, id)
	if err != nil {
		return storage.Head{}, err
	}
	defer turn.release()
	d.heads.join(id) // it moves when the embedder commits
	if before, ok := d.moved.pending()[id]; ok && before != after {
		d.moved.note(id) // the transaction before this one was committed
	}
	next, err := d.stage(ctx, b, id, after, entries, nil)
	if err != nil {
		return storage.Head{}, failed("append to", id, err)
	}
	d.moved.join(id, after)
	return next.Head, nil
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
		return head{}, fmt.Errorf("%w: they are of another incarnation", storage.ErrEntry)
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
