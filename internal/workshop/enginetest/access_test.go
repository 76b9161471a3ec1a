package enginetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/schema"
	"github.com/ostiary/ostiary/storage"
)

// upTo allows the rights up to one on the stores whose names begin with a text.
type upTo struct {
	prefix string
	up     authz.Right
}

func (n upTo) Allow(_ context.Context, right authz.Right, s storage.StoreInfo) error {
	if strings.HasPrefix(s.Name, n.prefix) && right <= n.up {
		return nil
	}
	return fmt.Errorf("%w: %s of a store", authz.ErrForbidden, right)
}

// TestAccess makes calls with each right. A caller without a right gets the same error for
// a store that exists as for one that does not.
func TestAccess(t *testing.T) {
	t.Parallel()
	e, err := ostiary.Open(t.Context(), ostiary.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	model := &schema.Model{Types: []schema.TypeDef{{Name: "user"}, {Name: "document", Relations: []schema.RelationDef{
		{Name: "viewer", Rewrite: schema.Direct(), Subjects: []schema.SubjectType{{Type: "user"}}}}}}}
	make := func(name, alias string) *ostiary.Store {
		s, err := e.CreateStore(t.Context(), ostiary.CreateStoreRequest{Name: name, Aliases: map[string]string{"native": alias}})
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := s.WriteSchema(t.Context(), authz.SchemaSource{Model: model}); err != nil {
			t.Fatal(err)
		}
		return s
	}
	mine, theirs := make("mine 1", "mine"), make("theirs", "theirs")
	system := make("system", "system")
	if err := e.UpdateStore(t.Context(), system.ID(), func(_ *string, aliases map[string]string) error {
		aliases[ostiary.SystemDoor] = "default"
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	add := authz.WriteRequest{Add: []rel.Tuple{must(rel.Parse("document:1#viewer@user:a"))(t)}, OnDuplicate: authz.Ignore}
	calls := []struct {
		name  string
		right authz.Right
		call  func(ctx context.Context, s *ostiary.Store) error
	}{
		{"by id", authz.RightRead, func(ctx context.Context, s *ostiary.Store) error { _, err := e.Store(ctx, s.ID()); return err }},
		{"by alias", authz.RightRead, func(ctx context.Context, s *ostiary.Store) error {
			_, err := e.StoreByAlias(ctx, "native", s.Info().Aliases["native"])
			return err
		}},
		{"write", authz.RightWrite, func(ctx context.Context, s *ostiary.Store) error { _, err := s.Write(ctx, add); return err }},
		{"update", authz.RightWrite, func(ctx context.Context, s *ostiary.Store) error {
			_, err := s.Update(ctx, authz.Update{Build: func(authz.Token) (authz.WriteRequest, error) { return add, nil }})
			return err
		}},
		{"import", authz.RightWrite, func(ctx context.Context, s *ostiary.Store) error {
			_, err := s.Import(ctx, func(func(rel.Tuple, error) bool) {}, authz.ImportOptions{})
			return err
		}},
		{"schema", authz.RightSchema, func(ctx context.Context, s *ostiary.Store) error {
			_, _, err := s.WriteSchema(ctx, authz.SchemaSource{Model: model})
			return err
		}},
		{"schema in a write", authz.RightSchema, func(ctx context.Context, s *ostiary.Store) error {
			_, err := s.Write(ctx, authz.WriteRequest{Schemas: []authz.SchemaSource{{Model: model}}})
			return err
		}},
		{"schema in an update", authz.RightSchema, func(ctx context.Context, s *ostiary.Store) error {
			_, err := s.Update(ctx, authz.Update{Build: func(authz.Token) (authz.WriteRequest, error) {
				return authz.WriteRequest{Schemas: []authz.SchemaSource{{Model: model}}}, nil
			}})
			return err
		}},
		{"no schema", authz.RightSchema, func(ctx context.Context, s *ostiary.Store) error {
			if _, err := s.RemoveSchema(ctx, "none"); !errors.Is(err, authz.ErrNoSchema) {
				return err
			}
			return nil
		}},
		{"rename", authz.RightAdmin, func(ctx context.Context, s *ostiary.Store) error {
			return e.UpdateStore(ctx, s.ID(), func(*string, map[string]string) error { return nil })
		}},
		{"create", authz.RightAdmin, func(ctx context.Context, s *ostiary.Store) error {
			_, err := e.CreateStore(ctx, ostiary.CreateStoreRequest{Name: s.Info().Name})
			return err
		}},
		{"delete", authz.RightAdmin, func(ctx context.Context, s *ostiary.Store) error {
			other, err := e.CreateStore(t.Context(), ostiary.CreateStoreRequest{Name: s.Info().Name})
			if err != nil {
				t.Fatal(err)
			}
			return e.DeleteStore(ctx, other.ID())
		}},
	}
	for _, c := range calls {
		for right := authz.RightRead; right <= authz.RightAdmin; right++ {
			ctx := authz.WithAccess(t.Context(), upTo{"mine", right})
			if err := c.call(ctx, mine); (err == nil) != (right >= c.right) || err != nil && !errors.Is(err, authz.ErrForbidden) {
				t.Errorf("%s with %s: %v, needs %s", c.name, right, err, c.right)
			}
			if err := c.call(ctx, theirs); !errors.Is(err, authz.ErrForbidden) {
				t.Errorf("%s of a foreign store with %s: %v", c.name, right, err)
			}
		}
		if err := c.call(t.Context(), theirs); err != nil {
			t.Errorf("%s without an access: %v", c.name, err)
		}
	}
	limited := authz.WithAccess(t.Context(), upTo{"mine", authz.RightAdmin})
	if err := e.UpdateStore(limited, mine.ID(), func(name *string, _ map[string]string) error { *name = "theirs"; return nil }); !errors.Is(err, authz.ErrForbidden) {
		t.Errorf("a store is moved out of the caller's names: %v", err)
	}
	_, existing := e.StoreByAlias(limited, "native", "theirs")
	_, missing := e.StoreByAlias(limited, "native", "nothing")
	if existing == nil || missing == nil || existing.Error() != missing.Error() {
		t.Errorf("a store of others, and none: %v, %v", existing, missing)
	}
	_, missing = e.Store(limited, storage.NewID(1))
	if !errors.Is(missing, authz.ErrForbidden) {
		t.Errorf("an unknown id: %v", missing)
	}
	if _, err := e.Store(authz.WithAccess(t.Context(), upTo{"", authz.RightRead}), storage.NewID(1)); !errors.Is(err, authz.ErrNoStore) {
		t.Errorf("an unknown id of a caller who may read all stores: %v", err)
	}
	for name, c := range map[string]struct {
		ctx  context.Context
		want []string
	}{
		"all":     {t.Context(), []string{"mine 1", "theirs"}},
		"limited": {limited, []string{"mine 1"}},
		"system":  {ostiary.WithSystemStores(t.Context()), []string{"mine 1", "system", "theirs"}},
	} {
		var names []string
		for info, err := range e.Stores(c.ctx, storage.StoreID{}) {
			if err != nil {
				t.Fatal(err)
			}
			names = append(names, info.Name)
		}
		if slices.Sort(names); !slices.Equal(slices.Compact(names), c.want) {
			t.Errorf("%s: the list is %q, want %q", name, names, c.want)
		}
		names = nil
		for info := range e.StoresByAlias(c.ctx, "native", "") {
			if names = append(names, info.Name); name == "limited" && info.Name != "mine 1" {
				t.Errorf("the list by aliases has %q", info.Name)
			}
		}
		for info := range e.StoresByName(c.ctx, "system", storage.StoreID{}) {
			if name != "system" {
				t.Errorf("%s: the list by names has %q", name, info.Name)
			}
		}
	}
}
