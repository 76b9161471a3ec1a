package changelog

import (
	"context"
	"errors"
	"fmt"
	"strings"
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

// TestStorageFails makes each operation of the driver fail in turn, while the log is read
// and watched. See failing.Each for what must hold.
func TestStorageFails(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for name, request := range map[string]func(tokens []authz.Token) authz.ChangesRequest{
		"all": func([]authz.Token) authz.ChangesRequest { return authz.ChangesRequest{} },
		"after a token": func(tokens []authz.Token) authz.ChangesRequest {
			return authz.ChangesRequest{After: tokens[2], Limit: 1}
		},
		"after a revision": func([]authz.Token) authz.ChangesRequest {
			return authz.ChangesRequest{AfterRevision: 2, Types: []string{"note"}}
		},
		"after the newest": func([]authz.Token) authz.ChangesRequest { return authz.ChangesRequest{AfterRevision: 5} },
		"since a time": func([]authz.Token) authz.ChangesRequest {
			return authz.ChangesRequest{Since: start.Add(3 * time.Second)}
		},
		"watch": nil,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			failing.Each(t, func(t *testing.T, d *failing.Driver) failing.Scenario {
				now := start.Add(time.Second)
				timeline, queue := newStoreOn(t, d, authz.Bounds{WatchBuffer: 4, PageItems: 3}, func() time.Time { return now })
				tokens := []authz.Token{""}
				for i, typ := range []string{"doc", "note", "doc", "note"} {
					tokens = append(tokens, timeline.Token(timeline.Loaded().Head))
					now = now.Add(time.Second)
					write(t, queue, typ, i, 1)
				}
				timeline = snapshot.NewTimeline(timeline.Runtime, timeline.Info()) // with nothing in memory
				return failing.Scenario{Optional: []failing.Operation{failing.CloseState}, Call: func() (string, error) {
					if request != nil {
						page, err := Read(ctx, timeline, request(tokens))
						out := fmt.Sprint(page.More)
						for _, e := range page.Entries {
							out += fmt.Sprint(" ", e.Revision)
						}
						return out, err
					}
					out := ""
					for e, err := range Watch(ctx, timeline, authz.WatchRequest{After: tokens[1]}) {
						if err != nil {
							return "", err
						}
						if out += fmt.Sprint(" ", e.Revision); e.Revision == 5 {
							break
						}
					}
					return out, nil
				}}
			})
		})
	}
}

// TestLargePages reads entries with many changes. A page ends after 100,000 changes, and
// has at least one entry.
func TestLargePages(t *testing.T) {
	t.Parallel()
	timeline, queue := newStoreWith(t, authz.Bounds{}, time.Now)
	n := 0
	for _, size := range []int{50_000, 49_999, 1, 2, 100_000, 3} {
		_, err := queue.Import(context.Background(), func(yield func(rel.Tuple, error) bool) {
			for range size {
				n++
				if !yield(rel.Tuple{Object: rel.Object{Type: "doc", ID: fmt.Sprint(n)}, Relation: "viewer", Subject: rel.Subject{Type: "user", ID: "a"}}, nil) {
					return
				}
			}
		}, authz.ImportOptions{EntryTuples: size})
		if err != nil {
			t.Fatal(err)
		}
	}
	got := ""
	for r := (authz.ChangesRequest{AfterRevision: 1}); ; {
		page, err := Read(context.Background(), timeline, r)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range page.Entries {
			got += fmt.Sprint(len(e.Changes), " ")
		}
		if got += fmt.Sprint("more ", page.More, ", "); !page.More {
			break
		}
		r.After = page.Next
	}
	if want := "50000 49999 1 more true, 2 100000 more true, 3 more false, "; got != want {
		t.Errorf("got pages of %s, expected %s", got, want)
	}
}

// TestEntryOfEachSource checks the revision, the time and the token of entries that come
// from a page, from the log of a watch, and as they are published, with and without types.
func TestEntryOfEachSource(t *testing.T) {
	t.Parallel()
	for _, types := range [][]string{nil, {"doc"}} {
		now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		timeline, queue := newStoreWith(t, authz.Bounds{}, func() time.Time { return now })
		at := timeline.Token(timeline.Loaded().Head)
		var times []time.Time
		var tokens []authz.Token
		next := func() {
			now = now.Add(time.Second)
			write(t, queue, "doc", len(times), 1)
			times, tokens = append(times, now), append(tokens, timeline.Token(timeline.Loaded().Head))
		}
		verify := func(source string, e authz.ChangeEntry) {
			i := int(e.Revision) - 2
			if !e.Time.Equal(times[i]) || e.Token != tokens[i] || len(e.Changes) != 1 {
				t.Errorf("%s, types %v: got %+v, expected the time %s and the token %s", source, types, e, times[i], tokens[i])
			}
		}
		next()
		next()
		page, err := Read(t.Context(), timeline, authz.ChangesRequest{After: at, Types: types})
		if err != nil || len(page.Entries) != 2 || page.Next != tokens[1] {
			t.Fatalf("got %+v, error %v", page, err)
		}
		for _, e := range page.Entries {
			verify("a page", e)
		}
		_, err = watched(timeline, authz.WatchRequest{After: at, Types: types}, 5, func(e authz.ChangeEntry) {
			verify("a watch", e)
			if e.Revision == 3 {
				next()
				next()
			}
		})
		if err != nil {
			t.Error(err)
		}
	}
}

// TestReadAfterTrim reads a log whose beginning was dropped.
func TestReadAfterTrim(t *testing.T) {
	t.Parallel()
	timeline, queue := newStore(t)
	first := timeline.Token(timeline.Loaded().Head)
	write(t, queue, "doc", 0, 5)
	if err := timeline.Trim(t.Context(), 4, 4); err != nil {
		t.Fatal(err)
	}
	for _, r := range []authz.ChangesRequest{{}, {After: first}, {AfterRevision: 1}, {Since: time.Unix(1, 0)}} {
		if page, err := Read(t.Context(), timeline, r); !errors.Is(err, authz.ErrTooOld) {
			t.Errorf("%+v: got %+v, error %v, expected %v", r, page, err, authz.ErrTooOld)
		}
	}
	for _, err := range Watch(t.Context(), timeline, authz.WatchRequest{After: first}) {
		if !errors.Is(err, authz.ErrTooOld) {
			t.Errorf("a watch: error %v, expected %v", err, authz.ErrTooOld)
		}
	}
	page, err := Read(t.Context(), timeline, authz.ChangesRequest{AfterRevision: 4})
	if err != nil || len(page.Entries) != 2 || page.Entries[0].Revision != 5 {
		t.Errorf("after the last one that was dropped: got %+v, error %v", page, err)
	}
}

// TestStoreOfAnotherIncarnation reads a log after another engine has deleted the store and
// created one with the same id.
func TestStoreOfAnotherIncarnation(t *testing.T) {
	t.Parallel()
	timeline, queue := newStore(t)
	write(t, queue, "doc", 0, 2)
	d := timeline.Runtime.Driver
	if err := d.DeleteStore(t.Context(), timeline.ID); err != nil {
		t.Fatal(err)
	}
	info := storage.StoreInfo{ID: timeline.ID, Incarnation: storage.NewIncarnation(), Created: 1}
	if err := d.CreateStore(t.Context(), info); err != nil {
		t.Fatal(err)
	}
	other := snapshot.NewTimeline(timeline.Runtime, info)
	if _, err := commit.NewQueue(commit.NewShared(timeline.Runtime, nil), other).Write(t.Context(), &authz.WriteRequest{RemoveMatching: []storage.Filter{{Target: storage.FilterDocuments, DocumentKind: "k"}}}); err != nil {
		t.Fatal(err)
	}
	if page, err := Read(t.Context(), timeline, authz.ChangesRequest{}); !errors.Is(err, authz.ErrNoStore) || len(page.Entries) > 0 {
		t.Errorf("got %+v, error %v, expected %v", page, err, authz.ErrNoStore)
	}
}

// TestSubscriptionsEnd checks that nothing keeps the entries of a store after its watches
// have ended, in each way.
func TestSubscriptionsEnd(t *testing.T) {
	t.Parallel()
	timeline, queue := newStore(t)
	at := timeline.Token(timeline.Loaded().Head)
	write(t, queue, "doc", 0, 3)
	for name, end := range map[string]func(e authz.ChangeEntry, cancel func()) bool{
		"the consumer stops in the log":     func(e authz.ChangeEntry, _ func()) bool { return true },
		"the consumer stops at a new entry": func(e authz.ChangeEntry, _ func()) bool { return e.Revision > 4 },
		"the context ends":                  func(e authz.ChangeEntry, cancel func()) bool { cancel(); return false },
		"the watch reads the log and goes on": func(e authz.ChangeEntry, cancel func()) bool {
			if e.Revision == 3 {
				cancel()
			}
			return false
		},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		wrote := false
		for e, err := range Watch(ctx, timeline, authz.WatchRequest{After: at}) {
			if err != nil || end(e, cancel) {
				break
			}
			if e.Revision == 4 && !wrote {
				wrote = true
				write(t, queue, "doc", len(name)*100, 1)
			}
		}
		cancel()
		draft := timeline.Draft(timeline.Loaded())
		if kept, err := timeline.Publish(&draft, timeline.Loaded(), nil, nil); kept || err != nil {
			t.Errorf("%s: a subscription is left", name)
		}
	}
}

// TestWatchMisses makes a watch miss entries in each way. It reads them from the log.
func TestWatchMisses(t *testing.T) {
	t.Parallel()
	for name, miss := range map[string]func(t *testing.T, timeline *snapshot.Timeline, queue *commit.Queue){
		"the store was dropped from memory": func(t *testing.T, timeline *snapshot.Timeline, queue *commit.Queue) {
			timeline.Runtime.DropIdle()
			if timeline.Runtime.DropIdle() != 1 {
				t.Error("the store was not dropped from memory")
			}
			write(t, queue, "doc", 10, 2)
		},
		"another process wrote, and the first of its entries was not published": func(t *testing.T, timeline *snapshot.Timeline, _ *commit.Queue) {
			other := snapshot.NewTimeline(timeline.Runtime, timeline.Info())
			write(t, commit.NewQueue(commit.NewShared(timeline.Runtime, nil), other), "doc", 10, 2)
			for e, err := range timeline.Runtime.Driver.Entries(t.Context(), timeline.ID, 6) {
				if err != nil {
					t.Fatal(err)
				}
				draft := timeline.Draft(timeline.Loaded())
				if _, err := timeline.Publish(&draft, other.Loaded(), []storage.Entry{e}, []storage.Head{other.Loaded().Head}); err != nil {
					t.Error(err)
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			timeline, queue := newStore(t)
			at := timeline.Token(timeline.Loaded().Head)
			write(t, queue, "doc", 0, 2)
			got, err := watched(timeline, authz.WatchRequest{After: at}, 6, func(e authz.ChangeEntry) {
				switch e.Revision {
				case 3: // the last entry of the log
					write(t, queue, "doc", 2, 1)
				case 4:
					miss(t, timeline, queue)
				}
			})
			if err != nil || fmt.Sprint(got) != "[2 3 4 5 6]" {
				t.Errorf("got revisions %v, error %v, expected 2 to 6", got, err)
			}
		})
	}
}

// TestWatchCannotGoOn ends a watch that has read a long log, because the storage fails when
// it looks for newer entries.
func TestWatchCannotGoOn(t *testing.T) {
	t.Parallel()
	d := failing.New(memory.New())
	timeline, queue := newStoreOn(t, d, authz.Bounds{WatchBuffer: 4, PageItems: 3}, time.Now)
	drop := func() {
		timeline.Runtime.DropIdle()
		timeline.Runtime.DropIdle()
		d.Break(failing.Fault{Number: 1, Lasting: true, Only: []failing.Operation{failing.Load}})
	}
	at := timeline.Token(timeline.Loaded().Head)
	write(t, queue, "doc", 0, 3) // more than half of WatchBuffer
	got, err := watched(timeline, authz.WatchRequest{After: at}, 9, func(e authz.ChangeEntry) {
		if e.Revision == 4 {
			drop()
		}
	})
	if !errors.Is(err, failing.ErrInjected) || fmt.Sprint(got) != "[2 3 4]" {
		t.Errorf("got revisions %v, error %v, expected 2 to 4 and %v", got, err, failing.ErrInjected)
	}
	d.Mend()
	if _, err := timeline.Newest(t.Context()); err != nil {
		t.Fatal(err)
	}
	drop()
	if got, err := watched(timeline, authz.WatchRequest{}, 9, func(authz.ChangeEntry) {}); !errors.Is(err, failing.ErrInjected) || len(got) > 0 {
		t.Errorf("a watch of what is to come: got revisions %v, error %v, expected %v", got, err, failing.ErrInjected)
	}
}

// TestStoreEndsInLongLog deletes a store when a watch has read its long log.
func TestStoreEndsInLongLog(t *testing.T) {
	t.Parallel()
	timeline, queue := newStore(t)
	at := timeline.Token(timeline.Loaded().Head)
	write(t, queue, "doc", 0, 3)
	got, err := watched(timeline, authz.WatchRequest{After: at}, 9, func(e authz.ChangeEntry) {
		if e.Revision == 4 {
			timeline.Close(authz.ErrNoStore)
		}
	})
	if !errors.Is(err, authz.ErrNoStore) || fmt.Sprint(got) != "[2 3 4]" {
		t.Errorf("got revisions %v, error %v, expected 2 to 4 and %v", got, err, authz.ErrNoStore)
	}
}

// TestPlacesRefused reads and watches from places that the log does not have.
func TestPlacesRefused(t *testing.T) {
	t.Parallel()
	timeline, _ := newStoreWith(t, authz.Bounds{FutureWait: time.Millisecond}, time.Now)
	other, _ := newStore(t)
	for name, c := range map[string]struct {
		after authz.Token
		kind  error
		text  string
	}{
		"no token":               {"none", authz.ErrToken, "none"},
		"a token of another one": {other.Token(other.Loaded().Head), authz.ErrToken, "another store"},
		"a revision to come":     {timeline.Token(storage.Head{Revision: 2}), authz.ErrFuture, "revision 2, the newest is 1"},
	} {
		if page, err := Read(t.Context(), timeline, authz.ChangesRequest{After: c.after}); !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: a page %+v, error %v, expected %v", name, page, err, c.kind)
		}
		var got error
		for _, err := range Watch(t.Context(), timeline, authz.WatchRequest{After: c.after}) {
			got = err
		}
		if !errors.Is(got, c.kind) || !strings.Contains(got.Error(), c.text) {
			t.Errorf("%s: a watch ends with %v, expected %v", name, got, c.kind)
		}
	}
	empty := storage.StoreInfo{ID: storage.NewID(2), Incarnation: storage.NewIncarnation(), Created: 1}
	if err := timeline.Runtime.Driver.CreateStore(t.Context(), empty); err != nil {
		t.Fatal(err)
	}
	for _, timeline := range []*snapshot.Timeline{timeline, snapshot.NewTimeline(timeline.Runtime, empty)} {
		next := storage.Revision(1)
		if timeline.Loaded() != nil {
			next = 2
		}
		if page, err := Read(t.Context(), timeline, authz.ChangesRequest{AfterRevision: next}); !errors.Is(err, authz.ErrFuture) {
			t.Errorf("after revision %d, which is to come: %+v, error %v, expected %v", next, page, err, authz.ErrFuture)
		}
	}
}
