package snapshot

import (
	"slices"
	"sync/atomic"

	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/storage"
)

// LargeEntry is an entry of a log with many changes, as a reader got it: a client
// that reads its changes in pages needs it again for each page.
type LargeEntry struct {
	Head    storage.Head
	Time    rel.Time
	Origin  storage.Origin
	Types   []string         // the object types that the reader selected
	Changes []storage.Change // the selected changes; they must not be changed

	id          storage.StoreID
	incarnation storage.Incarnation
}

// largeMin is the number of selected changes from which an entry is kept.
const largeMin = 1000

// largeEntries keeps the last large entry that was read from the log of any store.
// There is only one, because an entry may have storage.ChangesMax changes. It is safe
// for concurrent use.
type largeEntries struct{ last atomic.Pointer[LargeEntry] }

// KeepLarge keeps an entry of the log of t if it is large.
func (t *Timeline) KeepLarge(e LargeEntry) {
	if len(e.Changes) >= largeMin {
		e.id, e.incarnation, e.Types = t.ID, t.Incarnation, slices.Clone(e.Types)
		t.Runtime.large.last.Store(&e)
	}
}

// Large returns the entry of a revision if it was kept for a reader of these types,
// otherwise nil. The caller checks that the log still has the entry.
func (t *Timeline) Large(r storage.Revision, types []string) *LargeEntry {
	e := t.Runtime.large.last.Load()
	if e == nil || e.Head.Revision != r || e.id != t.ID || e.incarnation != t.Incarnation || !slices.Equal(e.Types, types) {
		return nil
	}
	return e
}
