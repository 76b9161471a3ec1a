package replica

import (
	"sync"

	"github.com/ostiary/ostiary/storage"
)

// recentBytes bounds the entries in recent: when they take more, they are dropped.
const recentBytes = 1 << 20

// recent has the entries that the copy has applied last, so that the engine that shows them
// does not read them again. Those of a store reach its head. Each entry is read at most once,
// because its reader may keep it.
type recent struct {
	// next are the entries of the transaction that is about to be committed; nil for one
	// without entries. The caller of its writer has the turn.
	next map[storage.StoreID]*storeEntries

	mu  sync.Mutex
	all map[storage.StoreID]*recentEntries
}

type recentEntries struct {
	entries []storage.Entry
	bytes   int
}

// begin returns what recent has, and empties it: until a transaction is committed, it is not
// known which entries reach the heads.
func (r *recent) begin() map[storage.StoreID]*recentEntries {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := r.all
	r.all = nil
	return all
}

// commit adds the entries of a committed transaction to those that begin has returned. After
// a transaction without entries, such as the deletion of a store, none is known.
func (r *recent) commit(all map[storage.StoreID]*recentEntries) {
	next := r.next
	if r.next = nil; next == nil {
		return
	}
	if all == nil {
		all = map[storage.StoreID]*recentEntries{}
	}
	bytes := 0
	for id, of := range next {
		have := all[id]
		if have == nil {
			have = &recentEntries{}
			all[id] = have
		}
		have.entries = append(have.entries, of.entries...)
		for i := range of.sealed {
			have.bytes += len(of.sealed[i].Bytes)
		}
		if secretBytes(of.entries) > 0 {
			delete(all, id) // the log of the copy has no ciphertexts
		}
	}
	for _, of := range all {
		bytes += of.bytes
	}
	if bytes > recentBytes {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = all
}

// take returns the entries of a store from a revision to its head, and removes them. It
// returns nil if it does not have all of them.
func (r *recent) take(id storage.StoreID, from storage.Revision) []storage.Entry {
	r.mu.Lock()
	defer r.mu.Unlock()
	of := r.all[id]
	if of == nil || from < of.entries[0].Revision || from > of.entries[len(of.entries)-1].Revision {
		return nil
	}
	delete(r.all, id)
	return of.entries[from-of.entries[0].Revision:]
}
