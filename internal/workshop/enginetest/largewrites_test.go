package enginetest

import (
	"context"
	"fmt"
	"testing"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/storage"
)

// TestLargeWritesWatched makes writes of many sizes while a watcher waits, and then reads its
// entries, and those of the log: each has the changes of its own write.
func TestLargeWritesWatched(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	s := newStore(t, newEngine(t, ostiary.Options{}), documents())
	from := must(s.Head(ctx))(t)
	sizes := []int{1, 2, 16, 17, 63, 64, 65, 1000, 100, 3000, 1000, 40, 40, 1}
	tuple := func(write, i int) rel.Tuple {
		return rel.Tuple{Object: rel.Object{Type: "document", ID: fmt.Sprintf("%d-%d", write, i)}, Relation: "owner", Subject: rel.Subject{Type: "user", ID: "anne"}}
	}
	write := func(n int) {
		w := authz.WriteRequest{OnMissing: authz.Fail}
		for i := range sizes[n] {
			w.Add = append(w.Add, tuple(n, i))
		}
		if n > 0 { // its kind of change is in the memory of the write before
			w.Remove = append(w.Remove, tuple(n-1, 0).Key())
		}
		must(s.Write(ctx, w))(t)
	}
	check := func(n int, changes []storage.Change) {
		t.Helper()
		var added, removed int
		for i := range changes {
			switch c := &changes[i]; c.Kind {
			case storage.TupleAdd:
				if c.Tuple != tuple(n, added) {
					t.Fatalf("write %d: tuple %d is %v", n, added, c.Tuple)
				}
				added++
			case storage.TupleRemove:
				if c.Tuple.Key() != tuple(n-1, 0).Key() {
					t.Fatalf("write %d removes %v", n, c.Tuple)
				}
				removed++
			default:
				t.Fatalf("write %d has a change of kind %d", n, c.Kind)
			}
		}
		if added != sizes[n] || removed != min(n, 1) {
			t.Fatalf("write %d adds %d tuples and removes %d, expected %d and %d", n, added, removed, sizes[n], min(n, 1))
		}
	}
	write(0)
	n := 0
	for e, err := range s.Watch(ctx, authz.WatchRequest{After: from}) {
		if err != nil {
			t.Fatal(err)
		}
		check(n, e.Changes)
		if n == 0 {
			for later := 1; later < len(sizes); later++ {
				write(later)
			}
		}
		if n++; n == len(sizes) {
			break
		}
	}
	page := must(s.Changes(ctx, authz.ChangesRequest{After: from, Limit: len(sizes)}))(t)
	for n := range page.Entries {
		check(n, page.Entries[n].Changes)
	}
	if len(page.Entries) != len(sizes) {
		t.Errorf("the log has %d entries, expected %d", len(page.Entries), len(sizes))
	}
}
