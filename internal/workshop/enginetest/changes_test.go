package enginetest

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/storage"
)

// TestChangesAfterRevision reads the log after each of its revisions, by number
// and by token. Both must return the same entries.
func TestChangesAfterRevision(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, d disk) {
		ctx, clock := context.Background(), newClock()
		x := start(t, d, ostiary.Options{Clock: clock.Now, Bounds: authz.Bounds{FutureWait: time.Millisecond}})
		s := newStore(t, x.engine, documents())
		const last = 12
		times := []time.Time{{}, clock.Now()}
		for i := storage.Revision(2); i <= last; i++ {
			clock.Advance(time.Second)
			times = append(times, clock.Now())
			must(s.Write(ctx, authz.WriteRequest{Add: tups(t, fmt.Sprintf("document:%d#owner@user:a", i))}))(t)
		}
		for r := storage.Revision(0); r <= last; r++ {
			page := must(s.Changes(ctx, authz.ChangesRequest{AfterRevision: r, Limit: 3}))(t)
			for i, e := range page.Entries {
				if e.Revision != r+1+storage.Revision(i) {
					t.Errorf("after %d: entry %d is revision %d", r, i, e.Revision)
				}
			}
			if want := min(3, last-int(r)); len(page.Entries) != want || page.More != (int(r)+want < last) {
				t.Errorf("after %d: %d entries, more: %v", r, len(page.Entries), page.More)
			}
			same := must(s.Changes(ctx, authz.ChangesRequest{After: page.Next, Limit: 3}))(t)
			next := must(s.Changes(ctx, authz.ChangesRequest{AfterRevision: r + storage.Revision(len(page.Entries)), Limit: 3}))(t)
			if fmt.Sprint(same) != fmt.Sprint(next) {
				t.Errorf("after %d: %v, by token %v", r, next, same)
			}
			for since := 1; since <= last; since++ {
				page := must(s.Changes(ctx, authz.ChangesRequest{AfterRevision: r, Since: times[since], Limit: 1}))(t)
				first := storage.Revision(0)
				if len(page.Entries) > 0 {
					first = page.Entries[0].Revision
				}
				if want := max(r+1, storage.Revision(since)); first != want && want <= last {
					t.Errorf("after %d and since %d: %d", r, since, first)
				}
			}
		}
		_, err := s.Changes(ctx, authz.ChangesRequest{AfterRevision: last + 1})
		wantKind(t, err, authz.ErrFuture)
		if err := s.Trim(ctx, 5, 5); err != nil {
			t.Fatal(err)
		}
		_, err = s.Changes(ctx, authz.ChangesRequest{AfterRevision: 3})
		wantKind(t, err, authz.ErrTooOld)
		if page := must(s.Changes(ctx, authz.ChangesRequest{AfterRevision: 4}))(t); page.Entries[0].Revision != 5 {
			t.Errorf("after 4 of a log that begins with 5: %+v", page)
		}
	})
}

// TestChangesPageBound reads pages whose entries have 100,000 changes together,
// which is the bound of a page, and one change fewer. An entry is never divided.
func TestChangesPageBound(t *testing.T) {
	t.Parallel()
	const bound = 100_000
	for _, c := range []struct {
		first   int // the number of changes of the first entry
		entries int // the number of entries on the first page
	}{
		{bound - 1, 2}, {bound, 1},
	} {
		ctx := context.Background()
		s := newStore(t, newEngine(t, ostiary.Options{}), documents())
		owners := func(yield func(rel.Tuple, error) bool) {
			for i := range c.first {
				if !yield(rel.Tuple{Object: rel.Object{Type: "document", ID: "1"}, Relation: "owner", Subject: rel.Subject{Type: "user", ID: strconv.Itoa(i)}}, nil) {
					return
				}
			}
		}
		must(s.Import(ctx, owners, authz.ImportOptions{EntryTuples: bound}))(t)
		for _, user := range []string{"a", "b"} {
			must(s.Write(ctx, authz.WriteRequest{Add: tups(t, "document:2#owner@user:"+user)}))(t)
		}
		const schemaRevision = 1
		page := must(s.Changes(ctx, authz.ChangesRequest{AfterRevision: schemaRevision}))(t)
		if len(page.Entries) != c.entries || len(page.Entries[0].Changes) != c.first || !page.More {
			t.Errorf("after %d changes: %d entries, more: %v; expected %d entries and more", c.first, len(page.Entries), page.More, c.entries)
		}
		next := must(s.Changes(ctx, authz.ChangesRequest{After: page.Next}))(t)
		if len(next.Entries) != 3-c.entries || next.More {
			t.Errorf("the second page after %d changes: %d entries, more: %v; expected %d entries and no more", c.first, len(next.Entries), next.More, 3-c.entries)
		}
	}
}
