package changelog

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/ostiary/ostiary/internal/commit"
	"github.com/ostiary/ostiary/internal/errs"
	"github.com/ostiary/ostiary/internal/limits"
	"github.com/ostiary/ostiary/internal/snapshot"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/storage"
	"github.com/ostiary/ostiary/storage/failing"
)

// TestStorageFails makes each operation of the driver fail in turn, while the log is read
// and watched. See failing.Each for what must hold.
func TestStorageFails(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for name, request := range map[string]func(tokens []snapshot.Token) Request{
		"all":              func([]snapshot.Token) Request { return Request{} },
		"after a token":    func(tokens []snapshot.Token) Request { return Request{After: tokens[2], Limit: 1} },
		"after a revision": func([]snapshot.Token) Request { return Request{AfterRevision: 2, Types: []string{"note"}} },
		"after the newest": func([]snapshot.Token) Request { return Request{AfterRevision: 5} },
		"since a time":     func([]snapshot.Token) Request { return Request{Since: start.Add(3 * time.Second)} },
		"watch":            nil,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			failing.Each(t, func(t *testing.T, d *failing.Driver) failing.Scenario {
				now := start.Add(time.Second)
				timeline, queue := newStoreOn(t, d, limits.Bounds{WatchBuffer: 4, PageItems: 3}, func() time.Time { return now })
				tokens := []snapshot.Token{""}
				for i, typ := range []string{"doc", "note", "doc", "note"} {
					tokens = append(tokens, timeline.Token(timeline.Loaded().Head))
					now = now.Add(time.Second)
					write(t, queue, typ, i, 1)
				}
				timeline = snapshot.NewTimeline(timeline.Runtime, timeline.ID, timeline.Incarnation) // with nothing in memory
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
					for e, err := range Watch(ctx, timeline, WatchRequest{After: tokens[1]}) {
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
	timeline, queue := newStoreWith(t, limits.Bounds{}, time.Now)
	n := 0
	for _, size := range []int{50_000, 49_999, 1, 2, 100_000, 3} {
		_, err := queue.Import(context.Background(), func(yield func(rel.Tuple, error) bool) {
			for range size {
				n++
				if !yield(rel.Tuple{Object: rel.Object{Type: "doc", ID: fmt.Sprint(n)}, Relation: "viewer", Subject: rel.Subject{Type: "user", ID: "a"}}, nil) {
					return
				}
			}
		}, commit.ImportOptions{EntryTuples: size})
		if err != nil {
			t.Fatal(err)
		}
	}
	got := ""
	for r := (Request{AfterRevision: 1}); ; {
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
		timeline, queue := newStoreWith(t, limits.Bounds{}, func() time.Time { return now })
		at := timeline.Token(timeline.Loaded().Head)
		var times []time.Time
		var tokens []snapshot.Token
		next := func() {
			now = now.Add(time.Second)
			write(t, queue, "doc", len(times), 1)
			times, tokens = append(times, now), append(tokens, timeline.Token(timeline.Loaded().Head))
		}
		verify := func(source string, e Entry) {
			i := int(e.Revision) - 2
			if !e.Time.Equal(times[i]) || e.Token != tokens[i] || len(e.Changes) != 1 {
				t.Errorf("%s, types %v: got %+v, expected the time %s and the token %s", source, types, e, times[i], tokens[i])
			}
		}
		next()
		next()
		page, err := Read(t.Context(), timeline, Request{After: at, Types: types})
		if err != nil || len(page.Entries) != 2 || page.Next != tokens[1] {
			t.Fatalf("got %+v, error %v", page, err)
		}
		for _, e := range page.Entries {
			verify("a page", e)
		}
		_, err = watched(timeline, WatchRequest{After: at, Types: types}, 5, func(e Entry) {
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
	for _, r := range []Request{{}, {After: first}, {AfterRevision: 1}, {Since: time.Unix(1, 0)}} {
		if page, err := Read(t.Context(), timeline, r); !errors.Is(err, errs.ErrTooOld) {
			t.Errorf("%+v: got %+v, error %v, expected %v", r, page, err, errs.ErrTooOld)
		}
	}
	for _, err := range Watch(t.Context(), timeline, WatchRequest{After: first}) {
		if !errors.Is(err, errs.ErrTooOld) {
			t.Errorf("a watch: error %v, expected %v", err, errs.ErrTooOld)
		}
	}
	page, err := Read(t.Context(), timeline, Request{AfterRevision: 4})
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
	other := snapshot.NewTimeline(timeline.Runtime, info.ID, info.Incarnation)
	if _, err := commit.NewQueue(commit.NewShared(timeline.Runtime, nil), other).Write(t.Context(), &commit.WriteRequest{RemoveMatching: []storage.Filter{{Target: storage.FilterDocuments, DocumentKind: "k"}}}); err != nil {
		t.Fatal(err)
	}
	if page, err := Read(t.Context(), timeline, Request{}); !errors.Is(err, errs.ErrNoStore) || len(page.Entries) > 0 {
		t.Errorf("got %+v, error %v, expected %v", page, err, errs.ErrNoStore)
	}
}

// TestSubscriptionsEnd checks that nothing keeps the entries of a store after its watches
// have ended, in each way.
func TestSubscriptionsEnd(t *testing.T) {
	t.Parallel()
	timeline, queue := newStore(t)
	at := timeline.Token(timeline.Loaded().Head)
	write(t, queue, "doc", 0, 3)
	for name, end := range map[string]func(e Entry, cancel func()) bool{
		"the consumer stops in the log":     func(e Entry, _ func()) bool { return true },
		"the consumer stops at a new entry": func(e Entry, _ func()) bool { return e.Revision > 4 },
		"the context ends":                  func(e Entry, cancel func()) bool { cancel(); return false },
		"the watch reads the log and goes on": func(e Entry, cancel func()) bool {
			if e.Revision == 3 {
				cancel()
			}
			return false
		},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		wrote := false
		for e, err := range Watch(ctx, timeline, WatchRequest{After: at}) {
			if err != nil || end(e, cancel) {
				break
			}
			if e.Revision == 4 && !wrote {
				wrote = true
				write(t, queue, "doc", len(name)*100, 1)
			}
		}
		cancel()
		if timeline.Publish(timeline.Loaded(), nil, nil) {
			t.Errorf("%s: a subscription is left", name)
		}
	}
}
