package replica

import (
	"context"
	"fmt"
	"iter"
	"sync/atomic"

	"github.com/ostiary/ostiary/internal/cluster/sharedlog"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/storage"
)

// This file has the methods of storage.Driver: those that change something make a
// request, and the others ask the copy. A method that changes something also returns the
// segment of the change, which its caller acknowledges, or the zero position if there was
// nothing to append.

// Append is that of [storage.Driver]. On a conflict in the log it catches up and tries
// again, unless the head of the store moved. It settles an attempt whose answer was
// lost, as long as ctx does not end.
func (r *Driver) Append(ctx context.Context, id storage.StoreID, after storage.Head, entries []storage.Entry, sealed []storage.Sealed) (head storage.Head, at sharedlog.Position, err error) {
	if len(entries) == 0 {
		head, err = r.compare(ctx, id, after)
		return head, at, err
	}
	q, err := r.newAppend(ctx, id, after, entries, sealed)
	if err != nil {
		return head, at, err
	}
	if err := r.submit(ctx, q); err != nil {
		return head, at, wrap("append to", id, err)
	}
	return q.head, q.at, nil
}

// AppendAhead is Append of some entries in two steps: it returns when entries that follow
// these may be appended, and made returns as Append does. On a log that keeps the order of
// appends, that is before these are durable; see [sharedlog.Pipeline].
func (r *Driver) AppendAhead(ctx context.Context, id storage.StoreID, after storage.Head, entries []storage.Entry, sealed []storage.Sealed) (made func(ctx context.Context) (storage.Head, sharedlog.Position, error), err error) {
	q, err := r.newAppend(ctx, id, after, entries, sealed)
	if err != nil {
		return nil, err
	}
	q.next = make(chan struct{})
	err = r.enqueue(ctx, q)
	if err == nil {
		select {
		case <-q.next:
		case <-q.done:
			err = q.err
		case <-ctx.Done():
			err = q.wait(ctx, &r.left)
		}
	}
	if err != nil {
		return nil, wrap("append to", id, err)
	}
	return func(ctx context.Context) (storage.Head, sharedlog.Position, error) {
		if err := r.await(ctx, q); err != nil {
			return storage.Head{}, sharedlog.Position{}, wrap("append to", id, err)
		}
		return q.head, q.at, nil
	}, nil
}

// newAppend returns the request of an append of some entries.
func (r *Driver) newAppend(ctx context.Context, id storage.StoreID, after storage.Head, entries []storage.Entry, sealed []storage.Sealed) (*request, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	var last storage.Head
	var err error
	if sealed == nil {
		last, sealed, err = storage.Seal(after, entries)
	} else {
		last, err = storage.ChainSealed(after, entries, sealed)
	}
	if err != nil {
		return nil, r.invalid(ctx, id, after, err)
	}
	size := sharedlog.EntriesBytes(sealed)
	if size > sharedlog.EntriesBytesMax {
		return nil, fmt.Errorf("append to store %s: %w: %d bytes of entries exceed the limit SegmentBytesMax, which is %d", id, storage.ErrTooLarge, size, sharedlog.SegmentBytesMax)
	}
	return &request{id: id, incarnation: entries[0].Incarnation, after: after, entries: entries, sealed: sealed, bytes: size + secretBytes(entries), last: last}, nil
}

// secretOverhead is what a log needs at most to store a secret, besides its ciphertext.
const secretOverhead = 1 << 10

// secretBytes returns what the secrets of entries add to an append: they are not in the
// segment. A log in a database sends them at once.
func secretBytes(entries []storage.Entry) (size int) {
	for i := range entries {
		for j := range entries[i].Changes {
			if c := &entries[i].Changes[j]; c.Kind == storage.SecretPut {
				size += len(c.Document.Body) + secretOverhead
			}
		}
	}
	return size
}

// compare compares the head of a store with after, as Append does without entries.
func (r *Driver) compare(ctx context.Context, id storage.StoreID, after storage.Head) (storage.Head, error) {
	if err := r.Confirm(ctx); err != nil {
		return storage.Head{}, err
	}
	head, err := r.local.Head(ctx, id)
	if err == nil && (head.Revision != after.Revision || head.Hash != after.Hash) {
		err = &storage.ConflictError{Head: head}
	}
	if err != nil {
		return storage.Head{}, wrap("append to", id, err)
	}
	return head, nil
}

// invalid returns the error of entries that cannot follow after: a conflict if after
// is not the head of the store, otherwise why.
func (r *Driver) invalid(ctx context.Context, id storage.StoreID, after storage.Head, why error) error {
	if _, err := r.compare(ctx, id, after); err != nil {
		return err
	}
	return wrap("append to", id, why)
}

// CreateStore is that of [storage.Driver].
func (r *Driver) CreateStore(ctx context.Context, info storage.StoreInfo) (sharedlog.Position, error) {
	return r.changeCatalog(ctx, sharedlog.CreateStore, nil, info)
}

// UpdateStore is that of [storage.Driver].
func (r *Driver) UpdateStore(ctx context.Context, old, info storage.StoreInfo) (sharedlog.Position, error) {
	return r.changeCatalog(ctx, sharedlog.UpdateStore, &old, info)
}

// DeleteStore is that of [storage.Driver].
func (r *Driver) DeleteStore(ctx context.Context, id storage.StoreID) (sharedlog.Position, error) {
	info, err := r.Store(ctx, id)
	if err != nil {
		// The copy may be older than what the caller knows.
		if err = r.Confirm(ctx); err == nil {
			info, err = r.Store(ctx, id)
		}
	}
	if err != nil {
		return sharedlog.Position{}, wrap("delete", id, err)
	}
	return r.changeCatalog(ctx, sharedlog.DeleteStore, nil, info)
}

func (r *Driver) changeCatalog(ctx context.Context, op sharedlog.CatalogOp, old *storage.StoreInfo, info storage.StoreInfo) (at sharedlog.Position, err error) {
	c := sharedlog.CatalogChange{Op: op, Store: info}
	q := &request{id: info.ID, incarnation: info.Incarnation, old: old, catalog: &c}
	if err := r.submit(ctx, q); err != nil {
		return at, err
	}
	return q.at, nil
}

// Trim is that of [storage.Driver]. It is a segment, so every node trims at the same place
// of the log.
func (r *Driver) Trim(ctx context.Context, id storage.StoreID, log, rows storage.Revision) (at sharedlog.Position, err error) {
	t := sharedlog.StoreTrim{Store: id, Log: log, Rows: rows}
	q := &request{id: id, trim: &t}
	if err := r.submit(ctx, q); err != nil {
		return at, wrap("trim", id, err)
	}
	return q.at, r.copy.Scrub(ctx, id)
}

func wrap(op string, id storage.StoreID, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s store %s: %w", op, id, err)
}

// Format implements [storage.Driver]. It returns the layout of the copy.
func (r *Driver) Format(ctx context.Context) (int, error) {
	if err := r.check(); err != nil {
		return 0, err
	}
	return r.local.Format(ctx)
}

// Store implements [storage.Driver].
func (r *Driver) Store(ctx context.Context, id storage.StoreID) (storage.StoreInfo, error) {
	if err := r.check(); err != nil {
		return storage.StoreInfo{}, err
	}
	return r.local.Store(ctx, id)
}

// StoreByAlias implements [storage.Driver].
func (r *Driver) StoreByAlias(ctx context.Context, door, alias string) (storage.StoreInfo, error) {
	if err := r.check(); err != nil {
		return storage.StoreInfo{}, err
	}
	return r.local.StoreByAlias(ctx, door, alias)
}

// Stores implements [storage.Driver].
func (r *Driver) Stores(ctx context.Context, after storage.StoreID) iter.Seq2[storage.StoreInfo, error] {
	return checked(r, func() iter.Seq2[storage.StoreInfo, error] { return r.local.Stores(ctx, after) })
}

// StoresByAlias implements [storage.Driver].
func (r *Driver) StoresByAlias(ctx context.Context, door, after string) iter.Seq2[storage.StoreInfo, error] {
	return checked(r, func() iter.Seq2[storage.StoreInfo, error] { return r.local.StoresByAlias(ctx, door, after) })
}

// StoresByName implements [storage.Driver].
func (r *Driver) StoresByName(ctx context.Context, name string, after storage.StoreID) iter.Seq2[storage.StoreInfo, error] {
	return checked(r, func() iter.Seq2[storage.StoreInfo, error] { return r.local.StoresByName(ctx, name, after) })
}

// Head implements [storage.Driver]. It returns the head that the node has applied.
func (r *Driver) Head(ctx context.Context, id storage.StoreID) (storage.Head, error) {
	if err := r.check(); err != nil {
		return storage.Head{}, err
	}
	return r.local.Head(ctx, id)
}

// EntryHead implements [storage.Driver].
func (r *Driver) EntryHead(ctx context.Context, id storage.StoreID, at storage.Revision) (storage.Entry, error) {
	if err := r.check(); err != nil {
		return storage.Entry{}, err
	}
	return r.local.EntryHead(ctx, id, at)
}

// Entries implements [storage.Driver].
func (r *Driver) Entries(ctx context.Context, id storage.StoreID, from storage.Revision) iter.Seq2[storage.Entry, error] {
	return checked(r, func() iter.Seq2[storage.Entry, error] {
		if entries := r.recent.take(id, from); len(entries) > 0 && ctx.Err() == nil && r.ctx.Err() == nil {
			return func(yield func(storage.Entry, error) bool) {
				for i := range entries {
					if !yield(entries[i], nil) {
						return
					}
				}
			}
		}
		return r.local.Entries(ctx, id, from)
	})
}

// Load implements [storage.Driver].
func (r *Driver) Load(ctx context.Context, id storage.StoreID, opts storage.LoadOptions) (storage.State, error) {
	if err := r.check(); err != nil {
		return storage.State{}, err
	}
	return r.local.Load(ctx, id, opts)
}

// Rows implements [storage.Driver].
func (r *Driver) Rows(ctx context.Context, id storage.StoreID, keys []rel.Key) ([]storage.TupleRow, error) {
	if err := r.check(); err != nil {
		return nil, err
	}
	return r.local.Rows(ctx, id, keys)
}

// Document implements [storage.Driver].
func (r *Driver) Document(ctx context.Context, id storage.StoreID, kind, key string) (storage.Document, error) {
	if err := r.check(); err != nil {
		return storage.Document{}, err
	}
	return r.local.Document(ctx, id, kind, key)
}

// DocumentsBy implements [storage.Driver].
func (r *Driver) DocumentsBy(ctx context.Context, id storage.StoreID, kind, secondary string) iter.Seq2[storage.Document, error] {
	return checked(r, func() iter.Seq2[storage.Document, error] { return r.local.DocumentsBy(ctx, id, kind, secondary) })
}

// Secret implements [storage.Driver]. It fails with [storage.ErrSecretReplaced] if the
// secret was replaced or removed by an entry that the node has not applied yet.
func (r *Driver) Secret(ctx context.Context, id storage.StoreID, kind, key string) (storage.Document, error) {
	if err := r.check(); err != nil {
		return storage.Document{}, err
	}
	return r.local.Secret(ctx, id, kind, key)
}

// Oldest implements [storage.Driver].
func (r *Driver) Oldest(ctx context.Context, id storage.StoreID) (log, rows storage.Revision, err error) {
	if err := r.check(); err != nil {
		return 0, 0, err
	}
	return r.local.Oldest(ctx, id)
}

// Notify implements [storage.Driver].
func (r *Driver) Notify(ctx context.Context, own storage.WriterID) <-chan storage.StoreID {
	return r.local.Notify(ctx, own)
}

// CatalogChanges implements [storage.Driver].
func (r *Driver) CatalogChanges() *atomic.Uint64 { return r.local.CatalogChanges() }

// Creations implements [storage.Driver].
func (r *Driver) Creations() *atomic.Uint64 { return r.local.Creations() }

// CountStores implements [storage.Driver].
func (r *Driver) CountStores(ctx context.Context) (int, error) {
	if err := r.check(); err != nil {
		return 0, err
	}
	return r.local.CountStores(ctx)
}

// checked returns a sequence that fails if the node does not serve when it is read.
func checked[T any](r *Driver, seq func() iter.Seq2[T, error]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		if err := r.check(); err != nil {
			var zero T
			yield(zero, err)
			return
		}
		seq()(yield)
	}
}
