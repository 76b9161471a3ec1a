package ostiary

import (
	"context"
	"testing"

	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/schema"
)

// TestPastInItsLineage: a view of the past is of the graph that it is asked for,
// whichever side of a compaction asked for that revision before.
func TestPastInItsLineage(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	e, err := Open(ctx, Options{})
	must(err)
	defer e.Close()
	s, err := e.CreateStore(ctx, CreateStoreRequest{Name: "past"})
	must(err)
	model := &schema.Model{Types: []schema.TypeDef{{Name: "user"}, {Name: "doc", Relations: []schema.RelationDef{
		{Name: "viewer", Rewrite: schema.Direct(), Subjects: []schema.SubjectType{{Type: "user"}}}}}}}
	_, _, err = s.WriteSchema(ctx, SchemaSource{Model: model})
	must(err)
	for _, text := range []string{"doc:1#viewer@user:1", "doc:2#viewer@user:1"} {
		tuple, err := rel.Parse(text)
		must(err)
		_, err = s.Write(ctx, WriteRequest{Add: []rel.Tuple{tuple}})
		must(err)
	}
	before := s.newest.Load()
	must(s.Compact(ctx))
	after := s.newest.Load()
	if before.graph.Lineage() == after.graph.Lineage() {
		t.Fatal("the graph was not compacted")
	}
	for _, v := range []*view{after, before, after, before} {
		past, err := s.pastView(ctx, v, v.head.Revision-1)
		must(err)
		if past.graph.Lineage() != v.graph.Lineage() || past.head.Revision != v.head.Revision-1 {
			t.Error("a view of another lineage, or revision")
		}
	}
}
