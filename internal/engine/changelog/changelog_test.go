package changelog

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/internal/engine/commit"
	"github.com/ostiary/ostiary/internal/engine/errs"
	"github.com/ostiary/ostiary/internal/engine/snapshot"
	"github.com/ostiary/ostiary/internal/workshop/golden"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/schema"
	"github.com/ostiary/ostiary/storage"
	"github.com/ostiary/ostiary/storage/memory"
)

// newStore returns a store in memory with a schema, at revision 1, on pages of at most
// three entries. A watcher may lag by four entries.
func newStore(t *testing.T) (*snapshot.Timeline, *commit.Queue) {
	t.Helper()
	return newStoreWith(t, authz.Bounds{WatchBuffer: 4, PageItems: 3}, time.Now)
}

func newStoreWith(t *testing.T, bounds authz.Bounds, clock func() time.Time) (*snapshot.Timeline, *commit.Queue) {
	t.Helper()
	return newStoreOn(t, memory.New(), bounds, clock)
}

func newStoreOn(t *testing.T, driver storage.Driver, bounds authz.Bounds, clock func() time.Time) (*snapshot.Timeline, *commit.Queue) {
	t.Helper()
	ctx := context.Background()
	info := storage.StoreInfo{ID: storage.NewID(1), Incarnation: storage.NewIncarnation(), Created: 1}
	if err := driver.CreateStore(ctx, info); err != nil {
		t.Fatal(err)
	}
	runtime := snapshot.NewRuntime(snapshot.Config{Driver: driver, Bounds: errs.WithDefaults(bounds), Clock: clock})
	t.Cleanup(func() { runtime.Close(); driver.Close() })
	timeline := snapshot.NewTimeline(runtime, info)
	queue := commit.NewQueue(commit.NewShared(runtime, nil), timeline)
	var types []schema.TypeDef
	for _, name := range []string{"user", "doc", "note"} {
		types = append(types, schema.TypeDef{Name: name, Relations: []schema.RelationDef{
			{Name: "viewer", Rewrite: schema.Direct(), Subjects: []schema.SubjectType{{Type: "user"}}}}})
	}
	if _, _, err := queue.WriteSchema(ctx, &authz.SchemaSource{Model: &schema.Model{Types: types}}); err != nil {
		t.Fatal(err)
	}
	return timeline, queue
}

// write adds n tuples of a type, each in an entry of its own.
func write(t *testing.T, q *commit.Queue, typ string, from, n int) {
	t.Helper()
	for i := range n {
		tuple := rel.Tuple{Object: rel.Object{Type: typ, ID: fmt.Sprint(from + i)}, Relation: "viewer", Subject: rel.Subject{Type: "user", ID: "a"}}
		if _, err := q.Write(context.Background(), &authz.WriteRequest{Add: []rel.Tuple{tuple}}); err != nil {
			t.Fatal(err)
		}
	}
}

// TestSelects prints which changes a request sees, by the types that it selects.
func TestSelects(t *testing.T) {
	t.Parallel()
	object := rel.Object{Type: "doc", ID: "1"}
	tuple := rel.Tuple{Object: object, Relation: "viewer", Subject: rel.Subject{Type: "user", ID: "a"}}
	filter := func(target storage.FilterTarget, typ string) storage.Filter {
		f := storage.Filter{Target: target, ObjectType: typ, DocumentKind: "k"}
		if target == storage.FilterTuples {
			f.Tuple.ObjectType, f.ObjectType = typ, ""
		}
		return f
	}
	changes := []struct {
		name   string
		change storage.Change
	}{
		{"add a tuple", storage.Change{Kind: storage.TupleAdd, Tuple: tuple}},
		{"remove a tuple", storage.Change{Kind: storage.TupleRemove, Tuple: tuple}},
		{"set an attribute", storage.Change{Kind: storage.AttributeSet, Attribute: rel.Attribute{Object: object, Name: "n"}}},
		{"remove an attribute", storage.Change{Kind: storage.AttributeRemove, Attribute: rel.Attribute{Object: object, Name: "n"}}},
		{"put a document", storage.Change{Kind: storage.DocumentPut, Document: storage.Document{Kind: "k", Key: "d"}}},
		{"remove a document", storage.Change{Kind: storage.DocumentRemove, Document: storage.Document{Kind: "k", Key: "d"}}},
		{"put a secret", storage.Change{Kind: storage.SecretPut, Document: storage.Document{Kind: "k", Key: "d"}}},
		{"remove a secret", storage.Change{Kind: storage.SecretRemove, Document: storage.Document{Kind: "k", Key: "d"}}},
		{"remove tuples of a type", storage.Change{Kind: storage.RemoveByFilter, Filter: filter(storage.FilterTuples, "doc")}},
		{"remove tuples of any type", storage.Change{Kind: storage.RemoveByFilter, Filter: filter(storage.FilterTuples, "")}},
		{"remove attributes of a type", storage.Change{Kind: storage.RemoveByFilter, Filter: filter(storage.FilterAttributes, "doc")}},
		{"remove attributes of any type", storage.Change{Kind: storage.RemoveByFilter, Filter: filter(storage.FilterAttributes, "")}},
		{"remove documents", storage.Change{Kind: storage.RemoveByFilter, Filter: filter(storage.FilterDocuments, "")}},
	}
	var out strings.Builder
	fmt.Fprintf(&out, "%-32s all    doc    note   note,doc\n", "change")
	for _, c := range changes {
		fmt.Fprintf(&out, "%-32s", c.name)
		for _, types := range [][]string{nil, {"doc"}, {"note"}, {"note", "doc"}} {
			fmt.Fprintf(&out, " %-6v", len(visibleChanges(&storage.Entry{Changes: []storage.Change{c.change}}, types)) == 1)
		}
		out.WriteByte('\n')
	}
	golden.Equal(t, "testdata/selects.txt", strings.ReplaceAll(out.String(), " \n", "\n"))
}

// TestCopies checks that what a request gets can be changed, and does not show hints
// to the driver.
func TestCopies(t *testing.T) {
	t.Parallel()
	body := []byte("body")
	e := storage.Entry{Changes: []storage.Change{
		{Kind: storage.SecretPut},
		{Kind: storage.DocumentPut, Document: storage.Document{Kind: "k", Body: body}},
		{Kind: storage.TupleAdd, Fresh: true},
	}}
	got := visibleChanges(&e, nil)
	if len(got) != 2 || got[0].Kind != storage.DocumentPut || got[1].Kind != storage.TupleAdd || got[1].Fresh {
		t.Fatalf("got %v", got)
	}
	got[0].Document.Body[0] = 'x'
	if string(body) != "body" || !e.Changes[2].Fresh {
		t.Errorf("the entry was changed: %q, %v", body, e.Changes[2])
	}
}

// TestPages reads the log in pages of each length, with and without types.
func TestPages(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	timeline, queue := newStore(t)
	for i := range 4 {
		write(t, queue, "doc", i, 1)
		write(t, queue, "note", i, 1)
	}
	for limit := 1; limit <= 3; limit++ {
		for _, types := range [][]string{nil, {"note"}} {
			var got []storage.Revision
			for r := (authz.ChangesRequest{Limit: limit, Types: types}); ; {
				page, err := Read(ctx, timeline, r)
				if err != nil {
					t.Fatal(err)
				}
				for _, e := range page.Entries {
					got = append(got, e.Revision)
				}
				if len(page.Entries) > limit || page.More && len(page.Entries) < limit {
					t.Errorf("limit %d: a page has %d entries, more: %v", limit, len(page.Entries), page.More)
				}
				if r.After = page.Next; !page.More {
					break
				}
			}
			want := "[1 2 3 4 5 6 7 8 9]"
			if types != nil {
				want = "[3 5 7 9]"
			}
			if fmt.Sprint(got) != want {
				t.Errorf("limit %d, types %v: got revisions %v, expected %s", limit, types, got, want)
			}
		}
	}
	_, err := Read(ctx, timeline, authz.ChangesRequest{Limit: 4})
	if !errors.Is(err, authz.ErrBound) {
		t.Errorf("a limit above PageItems: %v", err)
	}
	for _, token := range []authz.Token{"x", timeline.Token(storage.Head{Revision: 3})} {
		if _, err := Read(ctx, timeline, authz.ChangesRequest{After: token}); !errors.Is(err, authz.ErrToken) {
			t.Errorf("after token %q: %v", token, err)
		}
		for _, err := range Watch(ctx, timeline, authz.WatchRequest{After: token}) {
			if !errors.Is(err, authz.ErrToken) {
				t.Errorf("a watch after token %q: %v", token, err)
			}
		}
	}
	page, err := Read(ctx, timeline, authz.ChangesRequest{AfterRevision: 9})
	if newest := timeline.Loaded().Head; err != nil || page.Next != timeline.Token(newest) || page.More || len(page.Entries) != 0 {
		t.Errorf("after the newest revision: %v, %v", page, err)
	}
}

// watched watches a store until it has seen revision last or the watch ends. It calls
// during with each entry.
func watched(timeline *snapshot.Timeline, r authz.WatchRequest, last storage.Revision, during func(authz.ChangeEntry)) (got []storage.Revision, err error) {
	for e, err := range Watch(context.Background(), timeline, r) {
		if err != nil {
			return got, err
		}
		got = append(got, e.Revision)
		if during(e); e.Revision == last {
			break
		}
	}
	return got, nil
}

// TestWatchLag writes while a watch reads the log. A watch that begins up to half of
// WatchBuffer entries behind buffers what is written meanwhile, and falls behind if that
// is more than WatchBuffer. One that begins further behind reads the log again.
func TestWatchLag(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		before, during int
		behind         bool
	}{
		{1, 4, false}, {1, 5, true}, {2, 4, false}, {2, 5, true}, {3, 5, false}, {3, 20, false}, {7, 20, false},
	} {
		t.Run(fmt.Sprint(c.before, c.during), func(t *testing.T) {
			t.Parallel()
			timeline, queue := newStore(t)
			from := timeline.Token(timeline.Loaded().Head)
			write(t, queue, "doc", 0, c.before)
			last := storage.Revision(1 + c.before + c.during)
			got, err := watched(timeline, authz.WatchRequest{After: from}, last, func(e authz.ChangeEntry) {
				if e.Revision == 2 {
					write(t, queue, "doc", c.before, c.during)
				}
			})
			want := last
			if c.behind {
				want = storage.Revision(1 + c.before)
				var behind *authz.WatchError
				if !errors.As(err, &behind) || !errors.Is(err, authz.ErrWatchBehind) {
					t.Fatalf("error %v, expected %v", err, authz.ErrWatchBehind)
				}
				if r, err := behind.Resume.Revision(); err != nil || r < want {
					t.Errorf("resume after revision %d, %v; expected at least %d", r, err, want)
				} else {
					want = r
				}
				if got, want := behind.Error(), "watcher fell behind: resume after token "+string(behind.Resume); got != want {
					t.Errorf("got %q, expected %q", got, want)
				}
			} else if err != nil {
				t.Fatal(err)
			}
			for i, r := range got {
				if r != storage.Revision(i+2) {
					t.Errorf("entry %d has revision %d", i, r)
				}
			}
			if len(got) != int(want)-1 {
				t.Errorf("got revisions %v, expected 2 to %d", got, want)
			}
		})
	}
}

// TestSince reads the entries from each time on, and those after each revision and from a
// time on. Revision r was written at second r.
func TestSince(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	now := start.Add(time.Second)
	timeline, queue := newStoreWith(t, authz.Bounds{FutureWait: time.Millisecond}, func() time.Time { return now })
	const last = 6
	for r := 2; r <= last; r++ {
		now = start.Add(time.Duration(r) * time.Second)
		write(t, queue, "doc", r, 1)
	}
	for after := range last + 1 {
		for _, since := range []time.Duration{-1, 0, 1, time.Second - 1, time.Second, time.Second + 1, 3*time.Second - 1, 3 * time.Second, 3*time.Second + 1, last * time.Second, last*time.Second + 1} {
			page, err := Read(context.Background(), timeline, authz.ChangesRequest{AfterRevision: storage.Revision(after), Since: start.Add(since)})
			if err != nil {
				t.Fatal(err)
			}
			first := max(after+1, int((since+time.Second-1)/time.Second), 1)
			if len(page.Entries) != last-first+1 || len(page.Entries) > 0 && page.Entries[0].Revision != storage.Revision(first) {
				t.Errorf("after %d and since %v: %d entries, expected those from revision %d on", after, since, len(page.Entries), first)
			}
			if r, err := page.Next.Revision(); page.Next == "" || err != nil || r != last {
				t.Errorf("after %d and since %v: the next page follows revision %d, %v", after, since, r, err)
			}
		}
	}
	if _, err := Read(context.Background(), timeline, authz.ChangesRequest{AfterRevision: last + 1}); !errors.Is(err, authz.ErrFuture) {
		t.Errorf("after a revision that does not exist: %v", err)
	}
}

// TestNoEntries reads the log of an empty store: the pages have no token until there is
// an entry.
func TestNoEntries(t *testing.T) {
	t.Parallel()
	driver := memory.New()
	info := storage.StoreInfo{ID: storage.NewID(1), Incarnation: storage.NewIncarnation(), Created: 1}
	if err := driver.CreateStore(context.Background(), info); err != nil {
		t.Fatal(err)
	}
	runtime := snapshot.NewRuntime(snapshot.Config{Driver: driver, Bounds: errs.WithDefaults(authz.Bounds{}), Clock: time.Now})
	t.Cleanup(func() { runtime.Close(); driver.Close() })
	timeline := snapshot.NewTimeline(runtime, info)
	first, err := Read(context.Background(), timeline, authz.ChangesRequest{})
	if err != nil || len(first.Entries) != 0 || first.More {
		t.Errorf("got %v, %v", first, err)
	}
	next, err := Read(context.Background(), timeline, authz.ChangesRequest{After: first.Next})
	if err != nil || len(next.Entries) != 0 || next.Next != first.Next {
		t.Errorf("the next page: %v, %v", next, err)
	}
}

// TestWatchPages watches a log that is longer than a page, while entries are written
// that come both with a page and as they are published.
func TestWatchPages(t *testing.T) {
	t.Parallel()
	timeline, queue := newStoreWith(t, authz.Bounds{WatchBuffer: 12, PageItems: 3}, time.Now)
	from := timeline.Token(timeline.Loaded().Head)
	write(t, queue, "doc", 0, 5)
	got, err := watched(timeline, authz.WatchRequest{After: from}, 9, func(e authz.ChangeEntry) {
		if e.Revision == 2 {
			write(t, queue, "doc", 5, 3)
		}
	})
	if err != nil || fmt.Sprint(got) != "[2 3 4 5 6 7 8 9]" {
		t.Errorf("got revisions %v, %v", got, err)
	}
}

// TestWatchEnds ends watches in each way, while they read the log and while they wait.
func TestWatchEnds(t *testing.T) {
	t.Parallel()
	for _, at := range []storage.Revision{2, 4} {
		for name, kind := range map[string]error{"context": authz.ErrCanceled, "store": authz.ErrNoStore, "consumer": nil} {
			t.Run(fmt.Sprint(name, at), func(t *testing.T) {
				t.Parallel()
				timeline, queue := newStore(t)
				from := timeline.Token(timeline.Loaded().Head)
				write(t, queue, "doc", 0, 2)
				ctx, cancel := context.WithCancel(context.Background())
				defer cancel()
				var ended error
				n := 0
				for e, err := range Watch(ctx, timeline, authz.WatchRequest{After: from}) {
					if ended = err; err != nil {
						continue
					}
					if n++; e.Revision == 3 && at == 4 {
						write(t, queue, "doc", 2, 1)
					}
					if e.Revision == at {
						switch name {
						case "context":
							cancel()
						case "store":
							timeline.Close(authz.ErrNoStore)
						}
						if name == "consumer" {
							break
						}
					}
				}
				if !errors.Is(ended, kind) || (kind == nil) != (ended == nil) || n != int(at)-1 && (at != 2 || n != 2 || kind == nil) {
					t.Errorf("after %d entries: error %v, expected %v", n, ended, kind)
				}
			})
		}
	}
}

// TestWatchTypes watches one type, without secrets, hints and other types, from the log
// and as entries are published.
func TestWatchTypes(t *testing.T) {
	t.Parallel()
	timeline, queue := newStore(t)
	from := timeline.Token(timeline.Loaded().Head)
	write(t, queue, "note", 0, 1)
	write(t, queue, "doc", 0, 1)
	check := func(e authz.ChangeEntry) {
		if len(e.Changes) != 1 || e.Changes[0].Tuple.Object.Type != "doc" || e.Changes[0].Fresh || e.Time.IsZero() || e.Token == "" {
			t.Errorf("entry %+v", e)
		}
		if e.Revision == 3 {
			write(t, queue, "note", 1, 1)
			write(t, queue, "doc", 1, 1)
		}
	}
	got, err := watched(timeline, authz.WatchRequest{After: from, Types: []string{"doc"}}, 5, check)
	if err != nil || fmt.Sprint(got) != "[3 5]" {
		t.Errorf("one type: got revisions %v, %v", got, err)
	}
	// The first entry comes from the log, the others as they are published.
	write(t, queue, "note", 2, 1)
	got, err = watched(timeline, authz.WatchRequest{After: from}, 9, func(e authz.ChangeEntry) {
		if e.Revision == 6 {
			// An entry without visible changes is not yielded.
			if _, err := queue.Write(context.Background(), &authz.WriteRequest{RemoveSecrets: []authz.DocumentKey{{Kind: "k", Key: "d"}}}); err != nil {
				t.Error(err)
			}
			write(t, queue, "doc", 2, 2)
		}
		if e.Time.IsZero() || e.Token == "" {
			t.Errorf("entry %+v", e)
		}
		for i := range e.Changes {
			if e.Changes[i].Fresh {
				t.Errorf("revision %d shows a hint", e.Revision)
			}
		}
	})
	if err != nil || fmt.Sprint(got) != "[2 3 4 5 6 8 9]" {
		t.Errorf("all types: got revisions %v, %v", got, err)
	}
}

// TestWatchNow watches without a token: the first entry is the one after the revision that was
// the newest when the watch began.
func TestWatchNow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		timeline, queue := newStore(t)
		write(t, queue, "doc", 0, 2)
		got := ""
		go func() {
			for e, err := range Watch(t.Context(), timeline, authz.WatchRequest{}) {
				got += fmt.Sprintf("%d %v, ", e.Revision, err)
			}
		}()
		synctest.Wait()
		write(t, queue, "doc", 2, 2)
		synctest.Wait()
		timeline.Close(authz.ErrNoStore)
		synctest.Wait()
		if want := fmt.Sprintf("4 <nil>, 5 <nil>, 0 %v, ", errs.Wrap("watch", timeline.ID, authz.ErrNoStore)); got != want {
			t.Errorf("got revisions %s, expected %s", got, want)
		}
		for _, err := range Watch(t.Context(), timeline, authz.WatchRequest{}) {
			if !errors.Is(err, authz.ErrNoStore) {
				t.Errorf("a watch of a closed store: %v", err)
			}
		}
	})
}
