package changelog

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/internal/engine/commit"
	"github.com/ostiary/ostiary/internal/engine/snapshot"
	"github.com/ostiary/ostiary/internal/workshop/failing"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/storage"
	"github.com/ostiary/ostiary/storage/memory"
)

// writeLarge writes one entry that adds n tuples, with ids from "type 0" on.
func writeLarge(t *testing.T, q *commit.Queue, typ string, n int) {
	t.Helper()
	var request authz.WriteRequest
	for i := range n {
		request.Add = append(request.Add, rel.Tuple{Object: rel.Object{Type: typ, ID: fmt.Sprint(typ, i)}, Relation: "viewer", Subject: rel.Subject{Type: "user", ID: "a"}})
	}
	if _, err := q.Write(t.Context(), &request); err != nil {
		t.Fatal(err)
	}
}

// TestLargeEntryAgain reads an entry several times, as a client does that reads its
// changes in pages. The driver reads an entry of 1,000 changes only once, and the pages
// are the same as those of a reader that has read nothing before.
func TestLargeEntryAgain(t *testing.T) {
	t.Parallel()
	for size, again := range map[int]int{999: 1, 1000: 0} {
		driver := failing.New(memory.New())
		timeline, queue := newStoreOn(t, driver, authz.Bounds{}, time.Now)
		writeLarge(t, queue, "doc", size)
		writeLarge(t, queue, "note", 3)
		before := snapshot.NewTimeline(timeline.Runtime, timeline.Info())
		for what, r := range map[string]authz.ChangesRequest{
			"one entry":   {AfterRevision: 1, Limit: 1},
			"few changes": {AfterRevision: 1, ChangesEnough: 100},
			"all":         {AfterRevision: 1},
			"the newest":  {AfterRevision: 2},
			"of a type":   {AfterRevision: 1, Limit: 1, Types: []string{"doc"}},
			"of others":   {AfterRevision: 1, Limit: 1, Types: []string{"note"}},
		} {
			want := ""
			for i := range 3 {
				driver.Break(failing.Fault{Only: []failing.Operation{failing.EntriesNext}})
				page, err := Read(t.Context(), before, r)
				if err != nil {
					t.Fatal(err)
				}
				text := fmt.Sprint(page.More, page.Next)
				for _, e := range page.Entries {
					text += fmt.Sprint(e.Revision, e.Time, e.Origin, e.Token, len(e.Changes), e.Changes[0].Tuple)
				}
				if i == 0 {
					want = text
				} else if text != want {
					t.Errorf("%d changes, %s, the %dth time: got %s, expected %s", size, what, i+1, text, want)
				}
				ends := what == "one entry" || what == "few changes" || what == "of a type"
				if read := driver.Count(); i > 0 && ends && read != again {
					t.Errorf("%d changes, %s, the %dth time: %d entries were read, expected %d", size, what, i+1, read, again)
				}
			}
		}
	}
}

// TestLargeEntryGone reads a large entry again after the log was trimmed, and after the
// store was deleted and created again: it is not returned then.
func TestLargeEntryGone(t *testing.T) {
	t.Parallel()
	read := func(timeline *snapshot.Timeline) error {
		page, err := Read(t.Context(), timeline, authz.ChangesRequest{AfterRevision: 1, Limit: 1})
		if err == nil && (len(page.Entries) != 1 || len(page.Entries[0].Changes) != 2000) {
			t.Errorf("got %d entries", len(page.Entries))
		}
		return err
	}
	kept := func() *snapshot.Timeline {
		timeline, queue := newStore(t)
		writeLarge(t, queue, "doc", 2000)
		write(t, queue, "doc", 9000, 2)
		if err := read(timeline); err != nil || timeline.Large(2, nil) == nil {
			t.Fatalf("error %v, kept %v", err, timeline.Large(2, nil))
		}
		return timeline
	}
	timeline := kept()
	if err := timeline.Trim(t.Context(), 3, 3); err != nil {
		t.Fatal(err)
	}
	if err := read(timeline); !errors.Is(err, authz.ErrTooOld) {
		t.Errorf("after a trim: error %v, expected %v", err, authz.ErrTooOld)
	}
	timeline = kept()
	driver := timeline.Runtime.Driver
	if err := driver.DeleteStore(t.Context(), timeline.ID); err != nil {
		t.Fatal(err)
	}
	info := storage.StoreInfo{ID: timeline.ID, Incarnation: storage.NewIncarnation(), Created: 1}
	if err := driver.CreateStore(t.Context(), info); err != nil {
		t.Fatal(err)
	}
	if err := read(timeline); !errors.Is(err, authz.ErrNoStore) {
		t.Errorf("after a deletion: error %v, expected %v", err, authz.ErrNoStore)
	}
	if e := snapshot.NewTimeline(timeline.Runtime, info).Large(2, nil); e != nil {
		t.Errorf("the new store has the entry %d of the old one", e.Head.Revision)
	}
}

// TestLargeEntryOfTypes checks that the types of a kept entry are those of its reader,
// also if the reader changes its request.
func TestLargeEntryOfTypes(t *testing.T) {
	t.Parallel()
	timeline, queue := newStore(t)
	writeLarge(t, queue, "doc", 1000)
	types := []string{"doc"}
	if _, err := Read(t.Context(), timeline, authz.ChangesRequest{AfterRevision: 1, Types: types}); err != nil {
		t.Fatal(err)
	}
	types[0] = "note"
	for _, other := range [][]string{nil, {"note"}, {"doc", "note"}} {
		if timeline.Large(2, other) != nil {
			t.Errorf("the entry was kept for %v, expected for doc only", other)
		}
	}
	if e := timeline.Large(2, []string{"doc"}); e == nil || !slices.Equal(e.Types, []string{"doc"}) {
		t.Errorf("got %v, expected the entry for doc", e)
	}
}
