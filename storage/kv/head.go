package kv

import (
	"context"
	"encoding/binary"
	"sync"

	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/storage"
)

// head is the record that says a store's data exists and how far its log goes.
type head struct {
	storage.Head
	incarnation storage.Incarnation
}

// trim is the record of what is gone: entries below log, and removed rows with
// a revision up to rows.
type trim struct{ log, rows storage.Revision }

func (d *Driver) putHead(b Batch, id storage.StoreID, h head) error {
	v := make([]byte, 0, 72)
	v = appendRevision(v, h.Revision)
	v = append(v, h.Hash[:]...)
	v = appendFixed(v, uint64(h.Time))
	v = append(v, h.incarnation[:]...)
	return d.put(b, d.tableKey(id, tableHead), v)
}

// readHead returns ErrNoStore where there is no store.
func (d *Driver) readHead(r Reader, id storage.StoreID) (head, error) {
	v, found, err := d.get(r, d.tableKey(id, tableHead))
	if err != nil {
		return head{}, err
	}
	if !found {
		// The store's record without its head is a hole, not a missing store.
		_, exists, err := r.Get(d.storeKey(id), nil)
		if err == nil && exists {
			err = errRow()
		} else if err == nil {
			err = storage.ErrNoStore
		}
		return head{}, err
	}
	var h head
	if len(v) != 64 {
		return head{}, errRow()
	}
	h.Revision = storage.Revision(fixed(v))
	copy(h.Hash[:], v[8:40])
	h.Time = rel.Time(fixed(v[40:]))
	copy(h.incarnation[:], v[48:])
	return h, nil
}

func (d *Driver) putTrim(b Batch, id storage.StoreID, t trim) error {
	v := make([]byte, 0, 24)
	return d.put(b, d.tableKey(id, tableTrim), appendRevision(appendRevision(v, t.log), t.rows))
}

// readTrim is called where the head was read before, so a missing record is
// damage.
func (d *Driver) readTrim(r Reader, id storage.StoreID) (trim, error) {
	v, found, err := d.get(r, d.tableKey(id, tableTrim))
	if err != nil {
		return trim{}, err
	}
	if !found || len(v) != 16 {
		return trim{}, errRow()
	}
	return trim{storage.Revision(fixed(v)), storage.Revision(fixed(v[8:]))}, nil
}

// Head returns the newest entry's place.
func (d *Driver) Head(ctx context.Context, id storage.StoreID) (storage.Head, error) {
	done, err := d.begin(ctx)
	if err != nil {
		return storage.Head{}, err
	}
	defer done()
	h, err := d.readHead(d.store, id)
	return h.Head, failed("head of", id, err)
}

// Oldest returns what Trim left.
func (d *Driver) Oldest(ctx context.Context, id storage.StoreID) (log, rows storage.Revision, err error) {
	done, err := d.begin(ctx)
	if err != nil {
		return 0, 0, err
	}
	defer done()
	snap, err := d.store.Snapshot()
	if err != nil {
		return 0, 0, err
	}
	defer snap.Close()
	if _, err := d.readHead(snap, id); err != nil {
		return 0, 0, failed("oldest of", id, err)
	}
	t, err := d.readTrim(snap, id)
	return t.log, t.rows, failed("oldest of", id, err)
}

func appendFixed(dst []byte, n uint64) []byte { return binary.BigEndian.AppendUint64(dst, n) }

func fixed(v []byte) uint64 { return binary.BigEndian.Uint64(v) }

// turns lets one writer at a time work on a store, without a lock for stores
// that nobody writes to.
type turns struct {
	mu   sync.Mutex
	held map[storage.StoreID]*turn
}

// turn is held by whoever's value is in the channel.
type turn struct {
	taken chan struct{}
	users int
}

// take waits for the store's turn or for ctx's end.
func (t *turns) take(ctx context.Context, id storage.StoreID) (release func(), err error) {
	t.mu.Lock()
	mine := t.held[id]
	if mine == nil {
		mine = &turn{taken: make(chan struct{}, 1)}
		t.held[id] = mine
	}
	mine.users++
	t.mu.Unlock()
	select {
	case mine.taken <- struct{}{}:
		return func() { <-mine.taken; t.leave(id, mine) }, nil
	case <-ctx.Done():
		t.leave(id, mine)
		return nil, ctx.Err()
	}
}

func (t *turns) leave(id storage.StoreID, mine *turn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if mine.users--; mine.users == 0 {
		delete(t.held, id)
	}
}
