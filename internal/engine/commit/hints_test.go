package commit

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/internal/engine/snapshot"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/storage"
)

// hinted is a driver that keeps the changes of the last append as it got them, with
// their hints. If conflicts is set, its appends fail because another process was first.
type hinted struct {
	storage.Driver
	last      []storage.Change
	appends   int
	conflicts bool
}

func (d *hinted) Append(ctx context.Context, id storage.StoreID, after storage.Head, entries []storage.Entry, sealed []storage.Sealed) (storage.Head, error) {
	d.appends++
	d.last = append([]storage.Change(nil), entries[len(entries)-1].Changes...)
	if d.conflicts {
		return storage.Head{}, &storage.ConflictError{}
	}
	return d.Driver.Append(ctx, id, after, entries, sealed)
}

// TestFreshHints writes tuples that the store has or lacks, and checks which additions
// have the hint that the store lacks the tuple. A wrong hint would lose a row of the past.
func TestFreshHints(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	now := time.Date(2100, 1, 1, 12, 0, 0, 0, time.UTC)
	w.runtime.Clock = func() time.Time { return now }
	d := &hinted{Driver: w.driver}
	w.runtime.Driver = d
	until := func(at time.Time) []rel.Tuple {
		x := viewer("1", "a")
		x.Expires = rel.TimeOf(at)
		return []rel.Tuple{x}
	}
	for _, x := range []struct {
		name string
		r    authz.WriteRequest
		want string // kinds of the changes, with the hint
	}{
		{"a new tuple", authz.WriteRequest{Add: until(now.Add(time.Minute))}, "[1 true]"},
		{"another expiry", authz.WriteRequest{Add: until(now.Add(time.Hour)), OnDuplicate: authz.Replace}, "[1 false]"},
		{"a tuple that has expired", authz.WriteRequest{Add: []rel.Tuple{viewer("1", "a")}}, "[2 false 1 true]"},
		{"a tuple that a filter of the write removes", authz.WriteRequest{Add: []rel.Tuple{viewer("1", "a")},
			RemoveMatching: []storage.Filter{{Target: storage.FilterTuples, Tuple: rel.Filter{ObjectID: "1"}}}}, "[9 false 1 true]"},
		{"a removal", authz.WriteRequest{Remove: []rel.Key{viewer("1", "a").Key()}}, "[2 false]"},
		{"a tuple that was removed", authz.WriteRequest{Add: []rel.Tuple{viewer("1", "a")}}, "[1 true]"},
	} {
		if x.name == "a tuple that has expired" {
			now = now.Add(2 * time.Hour)
		}
		if _, err := w.queue.Write(t.Context(), &x.r); err != nil {
			t.Fatalf("%s: %v", x.name, err)
		}
		var got []any
		for _, c := range d.last {
			got = append(got, c.Kind, c.Fresh)
		}
		if fmt.Sprint(got) != x.want {
			t.Errorf("%s: changes %v, expected %s", x.name, got, x.want)
		}
	}
}

// TestConflictsMax writes to a store in which another process is always first. The write
// fails after a bounded number of attempts.
func TestConflictsMax(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	d := &hinted{Driver: w.driver, conflicts: true}
	w.runtime.Driver = d
	_, err := w.queue.Write(t.Context(), &authz.WriteRequest{Add: []rel.Tuple{viewer("1", "a")}})
	if !errors.Is(err, authz.ErrConflict) || d.appends != conflictsMax+2 {
		t.Errorf("%d appends, error %v, expected %d and %v", d.appends, err, conflictsMax+2, authz.ErrConflict)
	}
	if want := fmt.Sprintf("in each of %d attempts", d.appends); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v, expected %q", err, want)
	}
	d.conflicts = false
	if _, err := w.queue.Write(t.Context(), &authz.WriteRequest{Add: []rel.Tuple{viewer("1", "a")}}); err != nil {
		t.Error(err)
	}
}

// TestEntryBytes writes documents that do not fit in one entry, and fewer of them.
func TestEntryBytes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var r authz.WriteRequest
	for i := range storage.EntryBytesMax >> 20 {
		r.Documents = append(r.Documents, authz.Document{Kind: "note", Key: fmt.Sprint(i), Body: make([]byte, 1<<20)})
	}
	var bound *authz.BoundError
	_, err := w.queue.Write(t.Context(), &r)
	if !errors.As(err, &bound) || bound.Name != "EntryBytesMax" || bound.Max != storage.EntryBytesMax || bound.Got <= bound.Max || bound.Got > bound.Max+1000 {
		t.Errorf("error %v, expected that the entry has a little more than %d bytes", err, storage.EntryBytesMax)
	}
	r.Documents = r.Documents[1:]
	if _, err := w.queue.Write(t.Context(), &r); err != nil {
		t.Error(err)
	}
}

// TestIdleStoresMakeRoom writes a tuple for which the memory budget has no room until
// another store, which is idle, is dropped from memory.
func TestIdleStoresMakeRoom(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	info := storage.StoreInfo{ID: storage.NewID(7), Incarnation: storage.NewIncarnation(), Created: 1}
	if err := w.driver.CreateStore(t.Context(), info); err != nil {
		t.Fatal(err)
	}
	other := snapshot.NewTimeline(w.runtime, info)
	if _, err := other.Newest(t.Context()); err != nil {
		t.Fatal(err)
	}
	write := func(id string) error {
		w.runtime.MemoryMax = w.runtime.Bytes()
		_, err := w.queue.Write(t.Context(), &authz.WriteRequest{Add: []rel.Tuple{viewer(id, "a")}})
		return err
	}
	if err := write("1"); !errors.Is(err, authz.ErrMemory) || other.Loaded() == nil {
		t.Errorf("no store is idle: error %v, expected %v", err, authz.ErrMemory)
	}
	if err := write("2"); err != nil || other.Loaded() != nil {
		t.Errorf("the other store is idle: error %v, its view %v", err, other.Loaded())
	}
}
