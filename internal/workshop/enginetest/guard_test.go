package enginetest

import (
	"context"
	"errors"
	"iter"
	"maps"
	"testing"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/schema"
	"github.com/ostiary/ostiary/storage"
)

// TestGuard opens an engine whose guard keeps the stores with an alias for a door. Every
// change of such a store fails with the guard's error and changes nothing, and so does
// one that would give or take the alias. Reads, and changes of other stores, work.
func TestGuard(t *testing.T) {
	t.Parallel()
	kept := errors.New("the store is kept")
	on := true
	e := must(ostiary.Open(t.Context(), ostiary.Options{Guard: func(_ context.Context, store storage.StoreInfo) error {
		if on && store.Aliases["door"] != "" {
			return kept
		}
		return nil
	}}))(t)
	t.Cleanup(func() { e.Close() })
	on = false
	aliases := map[string]string{"door": "a"}
	guarded := must(e.CreateStore(t.Context(), ostiary.CreateStoreRequest{Name: "guarded", Aliases: aliases}))(t)
	open := must(e.CreateStore(t.Context(), ostiary.CreateStoreRequest{Name: "open"}))(t)
	model := authz.SchemaSource{Model: &schema.Model{Types: []schema.TypeDef{{Name: "user"}, {Name: "doc",
		Relations: []schema.RelationDef{{Name: "viewer", Rewrite: schema.Direct(), Subjects: []schema.SubjectType{{Type: "user"}}}}}}}}
	tuple := must(rel.Parse("doc:1#viewer@user:anne"))(t)
	write := authz.WriteRequest{Add: []rel.Tuple{tuple}, OnDuplicate: authz.Ignore}
	var tuples iter.Seq2[rel.Tuple, error] = func(yield func(rel.Tuple, error) bool) { yield(tuple, nil) }
	first := map[*ostiary.Store]authz.SchemaInfo{}
	for _, s := range []*ostiary.Store{guarded, open} {
		for range 2 { // the second one stays when the first one is removed
			info, _, err := s.WriteSchema(t.Context(), model)
			if err != nil {
				t.Fatal(err)
			}
			if _, exists := first[s]; !exists {
				first[s] = info
			}
		}
	}
	on = true
	for name, change := range map[string]func(s *ostiary.Store) error{
		"write": func(s *ostiary.Store) error { _, err := s.Write(t.Context(), write); return err },
		"update": func(s *ostiary.Store) error {
			_, err := s.Update(t.Context(), authz.Update{Build: func(authz.Token) (authz.WriteRequest, error) { return write, nil }})
			return err
		},
		"import": func(s *ostiary.Store) error {
			_, err := s.Import(t.Context(), tuples, authz.ImportOptions{OnDuplicate: authz.Ignore})
			return err
		},
		"write schema":  func(s *ostiary.Store) error { _, _, err := s.WriteSchema(t.Context(), model); return err },
		"remove schema": func(s *ostiary.Store) error { _, err := s.RemoveSchema(t.Context(), first[s].ID); return err },
		"rename": func(s *ostiary.Store) error {
			return e.UpdateStore(t.Context(), s.ID(), replace("renamed", s.Info().Aliases))
		},
		"other aliases": func(s *ostiary.Store) error { return e.UpdateStore(t.Context(), s.ID(), replace(s.Info().Name, nil)) },
	} {
		before := guarded.Info()
		head := must(guarded.Head(t.Context()))(t)
		if err := change(guarded); !errors.Is(err, kept) {
			t.Errorf("%s of a guarded store: %v, expected the guard's error", name, err)
		}
		if after := guarded.Info(); after.Name != before.Name || !maps.Equal(after.Aliases, before.Aliases) || must(guarded.Head(t.Context()))(t) != head {
			t.Errorf("%s changed the guarded store: %+v, before %+v", name, after, before)
		}
		if err := change(open); err != nil {
			t.Errorf("%s of another store: %v", name, err)
		}
	}
	if _, err := guarded.Prepare(t.Context(), write); !errors.Is(err, kept) {
		t.Errorf("prepare for a guarded store: %v, expected the guard's error", err)
	}
	if err := e.UpdateStore(t.Context(), open.ID(), replace("open", aliases)); !errors.Is(err, kept) {
		t.Errorf("an alias that makes a store guarded: %v, expected the guard's error", err)
	}
	if err := e.DeleteStore(t.Context(), guarded.ID()); !errors.Is(err, kept) {
		t.Errorf("deletion of a guarded store: %v, expected the guard's error", err)
	}
	if _, err := e.Store(t.Context(), guarded.ID()); err != nil {
		t.Errorf("the guarded store: %v", err)
	}
	if err := e.DeleteStore(t.Context(), open.ID()); err != nil {
		t.Errorf("deletion of another store: %v", err)
	}
}
