package commit

import (
	"context"
	"testing"
	"time"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/internal/engine/errs"
	"github.com/ostiary/ostiary/internal/engine/snapshot"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/schema"
	"github.com/ostiary/ostiary/storage"
	"github.com/ostiary/ostiary/storage/memory"
)

// TestPastInItsLineage requests a past revision on views of before and after a
// compaction, in turns. The past view must always have the lineage of the view
// that it is requested on, although the cache may hold the other one.
func TestPastInItsLineage(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	timeline, queue := newStore(t, ctx)
	model := &schema.Model{Types: []schema.TypeDef{{Name: "user"}, {Name: "doc", Relations: []schema.RelationDef{
		{Name: "viewer", Rewrite: schema.Direct(), Subjects: []schema.SubjectType{{Type: "user"}}}}}}}
	if _, _, err := queue.WriteSchema(ctx, &authz.SchemaSource{Model: model}); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"doc:1#viewer@user:1", "doc:2#viewer@user:1"} {
		tuple, err := rel.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := queue.Write(ctx, &authz.WriteRequest{Add: []rel.Tuple{tuple}}); err != nil {
			t.Fatal(err)
		}
	}
	before := timeline.Loaded()
	if _, err := timeline.Compact(ctx); err != nil {
		t.Fatal(err)
	}
	after := timeline.Loaded()
	if before.Graph.Lineage() == after.Graph.Lineage() {
		t.Fatal("the graph was not compacted")
	}
	for _, v := range []*snapshot.View{after, before, after, before} {
		past, err := timeline.PastView(ctx, v, v.Head.Revision-1)
		if err != nil {
			t.Fatal(err)
		}
		if past.Graph.Lineage() != v.Graph.Lineage() || past.Head.Revision != v.Head.Revision-1 {
			t.Errorf("past view of revision %d: want revision %d in the lineage of its view", past.Head.Revision, v.Head.Revision-1)
		}
	}
}

// newStore returns an empty store in memory.
func newStore(t *testing.T, ctx context.Context) (*snapshot.Timeline, *Queue) {
	t.Helper()
	driver := memory.New()
	info := storage.StoreInfo{ID: storage.NewID(1), Incarnation: storage.NewIncarnation(), Created: 1}
	if err := driver.CreateStore(ctx, info); err != nil {
		t.Fatal(err)
	}
	runtime := snapshot.NewRuntime(snapshot.Config{Driver: driver, Bounds: errs.WithDefaults(authz.Bounds{}), Clock: time.Now})
	t.Cleanup(func() { runtime.Close(); driver.Close() })
	timeline := snapshot.NewTimeline(runtime, info)
	return timeline, NewQueue(NewShared(runtime, nil), timeline)
}
