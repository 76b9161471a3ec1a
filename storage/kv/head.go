package kv

import (
	"context"
	"encoding/binary"
	"sync"

	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/storage"
)

// head is the record of the newest entry of a store. Every store has one.
type head struct {
	storage.Head                     // zero while the log is empty
	incarnation  storage.Incarnation // incarnation of the store
}

// trim is the record of what has been trimmed.
type trim struct {
	log  storage.Revision // entries below this revision are trimmed
	rows storage.Revision // removed rows up to this revision are trimmed
}

func (d *Driver) putHead(b Batch, id storage.StoreID, h head) error {
	return d.put(b, d.tableKey(id, tableHead), appendHead(make([]byte, 0, 72), h))
}

func appendHead(v []byte, h head) []byte {
	v = appendRevision(v, h.Revision)
	v = append(v, h.Hash[:]...)
	v = appendFixed(v, uint64(h.Time))
	return append(v, h.incarnation[:]...)
}

// readHead returns the head of a store. It fails with ErrNoStore if the store
// does not exist.
func (d *Driver) readHead(r Reader, id storage.StoreID) (head, error) {
	v, found, err := d.get(r, d.tableKey(id, tableHead))
	if err != nil {
		return head{}, err
	}
	if !found {
		// A store that has a record but no head is damaged.
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

// readTrim returns what has been trimmed from a store that has a head. A missing
// record is damage.
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

// Head implements [storage.Driver].
func (d *Driver) Head(ctx context.Context, id storage.StoreID) (storage.Head, error) {
	done, err := d.begin(ctx)
	if err != nil {
		return storage.Head{}, err
	}
	defer done()
	h, err := d.readHead(d.store, id)
	return h.Head, wrap("head of", id, err)
}

// Oldest implements [storage.Driver].
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
		return 0, 0, wrap("oldest of", id, err)
	}
	t, err := d.readTrim(snap, id)
	return t.log, t.rows, wrap("oldest of", id, err)
}

func appendFixed(dst []byte, n uint64) []byte { return binary.BigEndian.AppendUint64(dst, n) }

func fixed(v []byte) uint64 { return binary.BigEndian.Uint64(v) }

// storeLocks has one lock for each store that is being written.
type storeLocks struct {
	mu   sync.Mutex
	used map[storage.StoreID]*storeLock
	// idle is the lock that lost its last user most recently; nil if there is none.
	// It stays in used, because the next writer often writes the same store.
	idle *storeLock
}

// storeLock is a lock whose waiters can give up.
type storeLock struct {
	locks *storeLocks
	id    storage.StoreID
	held  chan struct{} // contains a value while the lock is held
	users int           // calls that hold the lock or wait for it; guarded by locks.mu
}

// lock waits until no other writer uses the store, or until ctx ends.
func (s *storeLocks) lock(ctx context.Context, id storage.StoreID) (*storeLock, error) {
	l := s.use(id)
	select {
	case l.held <- struct{}{}:
		return l, nil
	default:
	}
	select {
	case l.held <- struct{}{}:
		return l, nil
	case <-ctx.Done():
		l.leave()
		return nil, ctx.Err()
	}
}

// use returns the lock of a store and counts the caller as a user.
func (s *storeLocks) use(id storage.StoreID) *storeLock {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.idle
	if l == nil || l.id != id {
		l = s.used[id]
	}
	if l == nil {
		l = &storeLock{locks: s, id: id, held: make(chan struct{}, 1)}
		s.used[id] = l
	}
	l.users++
	return l
}

// unlock releases the lock.
func (l *storeLock) unlock() {
	<-l.held
	l.leave()
}

// leave ends a use of the lock.
func (l *storeLock) leave() {
	s := l.locks
	s.mu.Lock()
	defer s.mu.Unlock()
	if l.users--; l.users > 0 || l == s.idle {
		return
	}
	if s.idle != nil && s.idle.users == 0 {
		delete(s.used, s.idle.id)
	}
	s.idle = l
}

// heads caches the heads of stores that only this driver moves. It has no heads
// of stores that were ever changed in a transaction of the embedding program.
type heads struct {
	mu     sync.Mutex
	known  map[storage.StoreID]head
	joined map[storage.StoreID]struct{} // stores that are never cached
}

// headsMax is the maximum number of heads in the cache.
const headsMax = 4096

func (h *heads) get(id storage.StoreID) (head, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	cached, ok := h.known[id]
	return cached, ok
}

func (h *heads) put(id storage.StoreID, newest head) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, ok := h.joined[id]; ok {
		return
	}
	if h.known == nil || len(h.known) >= headsMax {
		h.known = map[storage.StoreID]head{}
	}
	h.known[id] = newest
}

func (h *heads) forget(id storage.StoreID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.known, id)
}

func (h *heads) forgetAll() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.known = nil
}

// forgetAlways forgets the head of a store and never caches it again.
func (h *heads) forgetAlways(id storage.StoreID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.known, id)
	if h.joined == nil {
		h.joined = map[storage.StoreID]struct{}{}
	}
	h.joined[id] = struct{}{}
}
