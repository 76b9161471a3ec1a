package kv

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/storage"
)

// CreateStore implements [storage.Driver]. It adds the record of the store, its
// aliases and its empty head.
func (d *Driver) CreateStore(ctx context.Context, info storage.StoreInfo) error {
	done, err := d.beginCatalog(ctx)
	if err != nil {
		return err
	}
	defer done()
	b := d.store.Batch()
	defer b.Close()
	if err := d.stageCreate(b, info); err != nil {
		return wrap("create", info.ID, err)
	}
	defer d.creations.Add(1) // also after an error that leaves the outcome open
	if err := b.Commit(); err != nil {
		d.stores.forget()
		return wrap("create", info.ID, err)
	}
	d.stores.add(1)
	return nil
}

// stageCreate adds a new store to b.
func (d *Driver) stageCreate(b Batch, info storage.StoreInfo) error {
	_, exists, err := d.store.Get(d.storeKey(info.ID), nil)
	if err == nil && exists {
		err = storage.ErrExists
	}
	if err == nil {
		err = d.putInfo(b, info, storage.StoreInfo{})
	}
	if err == nil {
		err = d.putHead(b, info.ID, head{incarnation: info.Incarnation})
	}
	if err == nil {
		err = d.putTrim(b, info.ID, trim{log: 1})
	}
	return err
}

// UpdateStore implements [storage.Driver].
func (d *Driver) UpdateStore(ctx context.Context, old, info storage.StoreInfo) error {
	done, err := d.beginCatalog(ctx)
	if err != nil {
		return err
	}
	defer done()
	b := d.store.Batch()
	defer b.Close()
	if err := d.stageUpdate(b, &old, info); err != nil {
		return wrap("update", info.ID, err)
	}
	defer d.changed(info.ID) // also after an error that leaves the outcome open
	return wrap("update", info.ID, b.Commit())
}

// stageUpdate adds a new name and new aliases of a store to b. If old is not nil, the
// store must have those of old.
func (d *Driver) stageUpdate(b Batch, old *storage.StoreInfo, info storage.StoreInfo) error {
	current, err := d.infoOf(info.ID, info.Incarnation)
	if err != nil {
		return err
	}
	if old != nil && (current.Name != old.Name || !maps.Equal(current.Aliases, old.Aliases)) {
		return storage.ErrChanged
	}
	info.Created = current.Created
	return d.putInfo(b, info, current)
}

// infoOf returns the record of a store, or ErrNoStore if the store is missing or has
// another incarnation.
func (d *Driver) infoOf(id storage.StoreID, incarnation storage.Incarnation) (storage.StoreInfo, error) {
	info, err := d.info(d.store, id)
	if err == nil && info.Incarnation != incarnation {
		err = fmt.Errorf("%w with this incarnation", storage.ErrNoStore)
	}
	return info, err
}

// changed makes others read a store again that was updated or deleted.
func (d *Driver) changed(id storage.StoreID) {
	d.catalogChanges.Add(1)
	d.watchers.notify(id)
}

// beginCatalog registers a call that changes stores or aliases, and waits for
// other such calls. The caller must call done at the end.
func (d *Driver) beginCatalog(ctx context.Context) (done func(), err error) {
	end, err := d.begin(ctx)
	if err != nil {
		return nil, err
	}
	d.catalog.Lock()
	return func() {
		d.catalog.Unlock()
		end()
	}, nil
}

// putInfo writes the record of a store. It deletes the rows of the old name and
// the old aliases, and adds the new ones. A new store has the zero old.
func (d *Driver) putInfo(b Batch, info, old storage.StoreInfo) error {
	if old.ID != (storage.StoreID{}) {
		if err := d.deleteNames(b, old); err != nil {
			return err
		}
	}
	if err := d.put(b, d.nameKey(info.Name, info.ID), bytes.Clone(info.ID[:])); err != nil {
		return err
	}
	for door, alias := range info.Aliases {
		key := d.aliasKey(door, alias)
		owner, used, err := d.get(d.store, key)
		if err != nil {
			return err
		}
		if used && !bytes.Equal(owner, info.ID[:]) {
			return fmt.Errorf("%w: alias %q of door %q", storage.ErrExists, alias, door)
		}
		if err := d.put(b, key, append([]byte(nil), info.ID[:]...)); err != nil {
			return err
		}
	}
	v := append([]byte(nil), info.Incarnation[:]...)
	v = appendFixed(v, uint64(info.Created))
	texts := []string{info.Name}
	for _, door := range slices.Sorted(maps.Keys(info.Aliases)) {
		texts = append(texts, door, info.Aliases[door])
	}
	return d.put(b, d.storeKey(info.ID), appendTexts(v, texts))
}

// deleteNames deletes the rows that find a store by its name and its aliases.
func (d *Driver) deleteNames(b Batch, info storage.StoreInfo) error {
	if err := b.Delete(d.nameKey(info.Name, info.ID)); err != nil {
		return err
	}
	for door, alias := range info.Aliases {
		if err := b.Delete(d.aliasKey(door, alias)); err != nil {
			return err
		}
	}
	return nil
}

// parseInfo reads the record of a store.
func parseInfo(id storage.StoreID, v []byte) (storage.StoreInfo, error) {
	info := storage.StoreInfo{ID: id}
	if len(v) < 24 {
		return info, errRow()
	}
	copy(info.Incarnation[:], v)
	info.Created = rel.Time(fixed(v[16:]))
	texts, rest, ok := splitTexts(v[24:])
	if !ok || len(rest) != 0 || len(texts)%2 != 1 {
		return info, errRow()
	}
	info.Name = texts[0]
	if len(texts) > 1 {
		info.Aliases = make(map[string]string, len(texts)/2)
		for pair := range slices.Chunk(texts[1:], 2) {
			info.Aliases[pair[0]] = pair[1]
		}
	}
	return info, nil
}

// info returns the record of a store, or ErrNoStore.
func (d *Driver) info(r Reader, id storage.StoreID) (storage.StoreInfo, error) {
	v, found, err := d.get(r, d.storeKey(id))
	if err != nil {
		return storage.StoreInfo{}, err
	}
	if !found {
		return storage.StoreInfo{}, storage.ErrNoStore
	}
	return parseInfo(id, v)
}

// DeleteStore implements [storage.Driver]. It deletes the record, the name, the
// aliases and all data in one batch.
func (d *Driver) DeleteStore(ctx context.Context, id storage.StoreID) error {
	done, err := d.beginCatalog(ctx)
	if err != nil {
		return err
	}
	defer done()
	lock, err := d.locks.lock(ctx, id)
	if err != nil {
		return err
	}
	defer lock.unlock()
	info, err := d.info(d.store, id)
	if err != nil {
		return wrap("delete", id, err)
	}
	b := d.store.Batch()
	defer b.Close()
	if err := d.stageDelete(b, info); err != nil {
		return wrap("delete", id, err)
	}
	defer d.changed(id) // also after an error that leaves the outcome open
	if err := b.Commit(); err != nil {
		d.stores.forget()
		return wrap("delete", id, err)
	}
	d.deleted(id)
	return nil
}

// stageDelete adds the deletion of a store to b.
func (d *Driver) stageDelete(b Batch, info storage.StoreInfo) error {
	content := d.contentKey(info.ID)
	err := b.DeleteRange(content, successor(content))
	if err == nil {
		err = d.deleteNames(b, info)
	}
	if err == nil {
		err = b.Delete(d.storeKey(info.ID))
	}
	return err
}

// deleted forgets a store whose deletion was committed.
func (d *Driver) deleted(id storage.StoreID) {
	d.stores.add(-1)
	d.watchers.forget(id)
	d.heads.forget(id)
}

// Store implements [storage.Driver].
func (d *Driver) Store(ctx context.Context, id storage.StoreID) (storage.StoreInfo, error) {
	done, err := d.begin(ctx)
	if err != nil {
		return storage.StoreInfo{}, err
	}
	defer done()
	info, err := d.info(d.store, id)
	return info, wrap("read", id, err)
}

// CatalogChanges implements [storage.Driver]. The number covers all changes,
// because no other Driver uses the prefix.
func (d *Driver) CatalogChanges() *atomic.Uint64 { return &d.catalogChanges }

// Creations implements [storage.Driver].
func (d *Driver) Creations() *atomic.Uint64 { return &d.creations }

// CountStores implements [storage.Driver]. The first call reads the records of
// all stores; the driver counts later changes.
func (d *Driver) CountStores(ctx context.Context) (int, error) {
	if n, ok := d.stores.count(); ok {
		return n, nil
	}
	done, err := d.beginCatalog(ctx)
	if err != nil {
		return 0, err
	}
	defer done()
	if n, ok := d.stores.count(); ok {
		return n, nil
	}
	n := 0
	for _, err := range d.Stores(ctx, storage.StoreID{}) {
		if err != nil {
			return 0, err
		}
		n++
	}
	d.stores.set(n)
	return n, nil
}

// storeCount is the number of stores once it was counted. All methods are safe for
// concurrent use.
type storeCount struct {
	mu      sync.Mutex
	counted bool
	stores  int
}

func (c *storeCount) count() (stores int, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stores, c.counted
}

func (c *storeCount) set(stores int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.counted, c.stores = true, stores
}

func (c *storeCount) add(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stores += n
}

// forget makes the next call of CountStores count again.
func (c *storeCount) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.counted = false
}

// StoreByAlias implements [storage.Driver].
func (d *Driver) StoreByAlias(ctx context.Context, door, alias string) (storage.StoreInfo, error) {
	done, err := d.begin(ctx)
	if err != nil {
		return storage.StoreInfo{}, err
	}
	defer done()
	snap, err := d.store.Snapshot()
	if err != nil {
		return storage.StoreInfo{}, err
	}
	defer snap.Close()
	v, found, err := d.get(snap, d.aliasKey(door, alias))
	if err != nil {
		return storage.StoreInfo{}, fmt.Errorf("alias %q of door %q: %w", alias, door, err)
	}
	if !found {
		return storage.StoreInfo{}, fmt.Errorf("%w: alias %q of door %q", storage.ErrNoStore, alias, door)
	}
	return d.named(snap, v)
}

// named returns the description of the store whose id is the row of a name or of an
// alias.
func (d *Driver) named(r Reader, row []byte) (storage.StoreInfo, error) {
	var id storage.StoreID
	if len(row) != len(id) {
		return storage.StoreInfo{}, errRow()
	}
	copy(id[:], row)
	info, err := d.info(r, id)
	return info, wrap("read", id, err)
}

// StoresByAlias implements [storage.Driver].
func (d *Driver) StoresByAlias(ctx context.Context, door, after string) iter.Seq2[storage.StoreInfo, error] {
	area := appendPart(append(bytes.Clone(d.prefix), areaAlias), door)
	return d.storesNamed(ctx, append(d.aliasKey(door, after), 0), successor(area))
}

// StoresByName implements [storage.Driver].
func (d *Driver) StoresByName(ctx context.Context, name string, after storage.StoreID) iter.Seq2[storage.StoreInfo, error] {
	area := appendPart(append(bytes.Clone(d.prefix), areaName), name)
	lower := area
	if after != (storage.StoreID{}) {
		lower = append(d.nameKey(name, after), 0)
	}
	return d.storesNamed(ctx, lower, successor(area))
}

// storesNamed yields the stores whose ids are the rows of a range of keys.
func (d *Driver) storesNamed(ctx context.Context, lower, upper []byte) iter.Seq2[storage.StoreInfo, error] {
	return func(yield func(storage.StoreInfo, error) bool) {
		err := d.scanNamed(ctx, lower, upper, func(info storage.StoreInfo) bool { return yield(info, nil) })
		if err != nil {
			yield(storage.StoreInfo{}, err)
		}
	}
}

func (d *Driver) scanNamed(ctx context.Context, lower, upper []byte, yield func(storage.StoreInfo) bool) error {
	done, err := d.begin(ctx)
	if err != nil {
		return err
	}
	defer done()
	snap, err := d.store.Snapshot()
	if err != nil {
		return err
	}
	defer snap.Close()
	return d.scan(ctx, snap, lower, upper, func(_, value []byte) (bool, error) {
		info, err := d.named(snap, value)
		return err == nil && yield(info), err
	})
}

// Stores implements [storage.Driver].
func (d *Driver) Stores(ctx context.Context, after storage.StoreID) iter.Seq2[storage.StoreInfo, error] {
	return func(yield func(storage.StoreInfo, error) bool) {
		done, err := d.begin(ctx)
		if err != nil {
			yield(storage.StoreInfo{}, err)
			return
		}
		defer done()
		area := append(bytes.Clone(d.prefix), areaStore)
		lower := area
		if after != (storage.StoreID{}) {
			lower = append(d.storeKey(after), 0)
		}
		err = d.scan(ctx, d.store, lower, successor(area), func(key, value []byte) (bool, error) {
			var id storage.StoreID
			if len(key) != len(area)+len(id) {
				return false, errRow()
			}
			copy(id[:], key[len(area):])
			info, err := parseInfo(id, value)
			if err != nil {
				return false, err
			}
			return yield(info, nil), nil
		})
		if err != nil {
			yield(storage.StoreInfo{}, err)
		}
	}
}

// scan calls row for each pair of a range, with the value that verify returns,
// until row returns false or an error. It returns ErrClosed soon after Close, and
// the context's error soon after ctx has ended.
func (d *Driver) scan(ctx context.Context, r Reader, lower, upper []byte, row func(key, value []byte) (more bool, err error)) (err error) {
	it, err := r.Scan(lower, upper)
	if err != nil {
		return err
	}
	defer func() {
		if closing := it.Close(); err == nil {
			err = closing
		}
	}()
	for n := 0; it.Next(); n++ {
		if d.closed.Load() {
			return storage.ErrClosed
		}
		if n%256 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		key := it.Key()
		value, err := d.verify(key, it.Value())
		if err != nil {
			return err
		}
		more, err := row(key, value)
		if err != nil || !more {
			return err
		}
	}
	return it.Err()
}

// wrap adds the operation and the store to an error. It returns nil for nil.
func wrap(op string, id storage.StoreID, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s store %s: %w", op, id, err)
}
