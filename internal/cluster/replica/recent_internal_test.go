package replica

import (
	"testing"

	"github.com/ostiary/ostiary/storage"
)

// TestRecent requires that recent returns the entries of a store up to its head, once each,
// and nothing when it lacks some of them or cannot know that it has all.
func TestRecent(t *testing.T) {
	t.Parallel()
	var r recent
	one, two := storage.StoreID{1}, storage.StoreID{2}
	apply := func(next map[storage.StoreID]*storeEntries) {
		all := r.begin()
		if r.take(one, 1) != nil || r.take(two, 1) != nil {
			t.Error("entries while a transaction is committed")
		}
		r.next = next
		r.commit(all)
	}
	some := func(size int, kind storage.ChangeKind, revisions ...storage.Revision) *storeEntries {
		of := &storeEntries{}
		for _, n := range revisions {
			of.entries = append(of.entries, storage.Entry{Revision: n, Changes: []storage.Change{{Kind: kind}}})
			of.sealed = append(of.sealed, storage.Sealed{Bytes: make([]byte, size)})
		}
		return of
	}
	wants := func(what string, id storage.StoreID, from storage.Revision, want ...storage.Revision) {
		t.Helper()
		have := r.take(id, from)
		if len(have) != len(want) {
			t.Errorf("%s: %d entries, expected %d", what, len(have), len(want))
			return
		}
		for i := range have {
			if have[i].Revision != want[i] {
				t.Errorf("%s: revision %d, expected %d", what, have[i].Revision, want[i])
			}
		}
	}
	apply(map[storage.StoreID]*storeEntries{one: some(1, storage.TupleAdd, 3, 4), two: some(1, storage.TupleAdd, 1)})
	wants("a revision before", one, 2)
	apply(map[storage.StoreID]*storeEntries{one: some(1, storage.TupleAdd, 5)})
	wants("a revision after", one, 6)
	wants("two transactions", one, 4, 4, 5)
	wants("taken", one, 4)
	wants("another store", two, 1, 1)

	apply(map[storage.StoreID]*storeEntries{one: some(1, storage.TupleAdd, 6)})
	apply(nil)
	wants("a change of the catalog", one, 6)

	apply(map[storage.StoreID]*storeEntries{one: some(1, storage.TupleAdd, 7), two: some(1, storage.TupleAdd, 2)})
	apply(map[storage.StoreID]*storeEntries{one: some(1, storage.SecretPut, 8)})
	wants("a secret", one, 7)
	wants("no secret", two, 2, 2)

	apply(map[storage.StoreID]*storeEntries{one: some(recentBytes/2, storage.TupleAdd, 9, 10)})
	apply(map[storage.StoreID]*storeEntries{two: some(1, storage.TupleAdd, 3)})
	wants("too many bytes", one, 9)
	wants("after them", two, 3)
	apply(map[storage.StoreID]*storeEntries{one: some(recentBytes/2, storage.TupleAdd, 11, 12)})
	wants("as many bytes as fit", one, 11, 11, 12)
}
