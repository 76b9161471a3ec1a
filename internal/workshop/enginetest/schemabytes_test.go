package enginetest

import (
	"context"
	"errors"
	"strconv"
	"testing"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/schema"
)

// TestSchemasCountAsMemory writes models of 1,000 relations to one store. The
// memory of the current one, and of earlier ones that questions name, counts as
// memory of the store. Earlier ones have a bound, and a model beyond MemoryMax is
// refused.
func TestSchemasCountAsMemory(t *testing.T) {
	t.Parallel()
	const relations, budget = 2_000, 24 << 20
	ctx := context.Background()
	x := start(t, disks()[0], ostiary.Options{MemoryMax: budget})
	s := newStore(t, x.engine, documents())
	must(s.Write(ctx, authz.WriteRequest{Add: tups(t, "document:1#owner@user:a")}))(t)
	large := schema.TypeDef{Name: "document"}
	for i := range relations {
		large.Relations = append(large.Relations, schema.RelationDef{Name: "owner" + strconv.Itoa(i), Rewrite: schema.Direct(), Subjects: []schema.SubjectType{{Type: "user"}}})
	}
	model := &schema.Model{Types: []schema.TypeDef{{Name: "user"}, large}}
	var ids []string
	for range 12 {
		info, _, err := s.WriteSchema(ctx, authz.SchemaSource{Model: model})
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, info.ID)
	}
	current := x.engine.Bytes()
	if current < relations*500 || current > 8<<20 {
		t.Errorf("with one schema in use: %d bytes, expected about 2 MB", current)
	}
	highest := int64(0)
	for _, id := range ids {
		ask(t, s, "document:1#owner1@user:a", authz.QueryOptions{SchemaID: id})
		highest = max(highest, x.engine.Bytes())
	}
	if highest < current*3 || highest > current+16<<20 {
		t.Errorf("with all schemas in use: %d bytes, expected more than %d and at most 16 MiB more", highest, current*3)
	}
	for {
		large.Relations = append(large.Relations, large.Relations...)
		for i := range large.Relations {
			large.Relations[i].Name = "owner" + strconv.Itoa(i)
		}
		model.Types[1] = large
		_, _, err := s.WriteSchema(ctx, authz.SchemaSource{Model: model})
		if errors.Is(err, authz.ErrMemory) {
			return
		}
		if err != nil {
			t.Fatal("models beyond MemoryMax:", err)
		}
	}
}
