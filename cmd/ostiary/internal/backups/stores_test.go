package backups

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/schema"
	"github.com/ostiary/ostiary/storage"
	"github.com/ostiary/ostiary/storage/memory"
)

// TestReplay replays a log up to each revision: the head of the copy is that entry, and its state
// is what the writes until then have made. A log without its beginning is refused.
func TestReplay(t *testing.T) {
	ctx := t.Context()
	from := memory.New()
	e, err := ostiary.Open(ctx, ostiary.Options{Driver: from})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	s, err := e.CreateStore(ctx, ostiary.CreateStoreRequest{Name: "docs"})
	if err != nil {
		t.Fatal(err)
	}
	model := &schema.Model{Types: []schema.TypeDef{{Name: "user"}, {Name: "doc",
		Relations: []schema.RelationDef{{Name: "viewer", Rewrite: schema.Direct(), Subjects: []schema.SubjectType{{Type: "user"}}}}}}}
	if _, _, err := s.WriteSchema(ctx, authz.SchemaSource{Model: model}); err != nil {
		t.Fatal(err)
	}
	tuple := func(i int) rel.Tuple {
		parsed, err := rel.Parse(fmt.Sprintf("doc:%d#viewer@user:anne", i))
		if err != nil {
			t.Fatal(err)
		}
		return parsed
	}
	for i := range 20 {
		w := authz.WriteRequest{Add: []rel.Tuple{tuple(i)}}
		if i%3 == 2 {
			w.Remove = []rel.Key{tuple(i - 2).Key()}
		}
		if _, err := s.Write(ctx, w); err != nil {
			t.Fatal(err)
		}
	}
	id := s.Info().ID
	for revision := storage.Revision(1); revision <= 21; revision++ {
		to := memory.New()
		if err := replay(ctx, from, to, id, revision, func(storage.Revision) {}); err != nil {
			t.Fatal(err)
		}
		want, err := from.EntryHead(ctx, id, revision)
		if err != nil {
			t.Fatal(err)
		}
		head, err := to.Head(ctx, id)
		if err != nil || head.Revision != revision || head.Time != want.Time {
			t.Fatalf("head %v, %v, expected revision %d", head, err, revision)
		}
		keys := []rel.Key{tuple(0).Key(), tuple(int(revision) - 2 + 1).Key()}
		if revision > 1 {
			keys = append(keys, tuple(int(revision)-2).Key())
		}
		rows, err := to.Rows(ctx, id, keys)
		if err != nil {
			t.Fatal(err)
		}
		live := func(r storage.TupleRow) bool { return r.Tuple.Object.ID != "" }
		if got := live(rows[0]); got != (revision >= 2 && revision < 4) {
			t.Errorf("revision %d has doc:0: %v", revision, got)
		}
		if live(rows[1]) || revision > 1 && !live(rows[2]) {
			t.Errorf("revision %d has not the last tuple alone: %v", revision, rows)
		}
	}
	err = replay(ctx, from, memory.New(), id, 22, nil)
	if !errors.Is(err, storage.ErrNoEntry) {
		t.Errorf("revision 22: %v, expected %v", err, storage.ErrNoEntry)
	}
	if err := from.Trim(ctx, id, 3, 0); err != nil {
		t.Fatal(err)
	}
	if err := replay(context.Background(), from, memory.New(), id, 10, func(storage.Revision) {}); !errors.Is(err, storage.ErrTrimmed) {
		t.Errorf("a trimmed log: %v, expected %v", err, storage.ErrTrimmed)
	}
}
