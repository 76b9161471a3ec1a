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
	return d.put(b, d.tableKey(id, tableHead), appendHead(make([]byte, 0, 72), h))
}

func appendHead(v []byte, h head) []byte {
	v = appendRevision(v, h.Revision)
	v = append(v, h.Hash[:]...)
	v = appendFixed(v, uint64(h.Time))
	return append(v, h.incarnation[:]...)
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
	// last is the one that was free last: in held, as long as no other is free,
	// since who writes mostly writes to that store again. nil before the first.
	last *turn
}

// turn is held by whoever's value is in the channel.
type turn struct {
	of    *turns
	id    storage.StoreID
	taken chan struct{}
	users int
}

// take waits for the store's turn or for ctx's end.
func (t *turns) take(ctx context.Context, id storage.StoreID) (*turn, error) {
	mine := t.enter(id)
	select {
	case mine.taken <- struct{}{}:
		return mine, nil
	default:
	}
	select {
	case mine.taken <- struct{}{}:
		return mine, nil
	case <-ctx.Done():
		mine.leave()
		return nil, ctx.Err()
	}
}

func (t *turns) enter(id storage.StoreID) *turn {
	t.mu.Lock()
	defer t.mu.Unlock()
	mine := t.last
	if mine == nil || mine.id != id {
		mine = t.held[id]
	}
	if mine == nil {
		mine = &turn{of: t, id: id, taken: make(chan struct{}, 1)}
		t.held[id] = mine
	}
	mine.users++
	return mine
}

// release hands the turn on.
func (mine *turn) release() {
	<-mine.taken
	mine.leave()
}

func (mine *turn) leave() {
	t := mine.of
	t.mu.Lock()
	defer t.mu.Unlock()
	if mine.users--; mine.users > 0 || mine == t.last {
		return
	}
	if t.last != nil && t.last.users == 0 {
		delete(t.held, t.last.id)
	}
	t.last = mine
}

// heads remembers the heads that this driver wrote, of the stores whose heads
// nobody else writes: those that an embedder's transaction never moved.
type heads struct {
	mu     sync.Mutex
	known  map[storage.StoreID]head
	joined map[storage.StoreID]struct{}
}

const headsMax = 4096

func (h *heads) get(id storage.StoreID) (head, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	is, ok := h.known[id]
	return is, ok
}

func (h *heads) put(id storage.StoreID, is head) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, ok := h.joined[id]; ok {
		return
	}
	if h.known == nil || len(h.known) >= headsMax {
		h.known = map[storage.StoreID]head{}
	}
	h.known[id] = is
}

func (h *heads) forget(id storage.StoreID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.known, id)
}

// join forgets a head for good.
func (h *heads) join(id storage.StoreID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.known, id)
	if h.joined == nil {
		h.joined = map[storage.StoreID]struct{}{}
	}
	h.joined[id] = struct{}{}
}
