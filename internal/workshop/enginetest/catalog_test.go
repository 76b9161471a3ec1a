package enginetest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/internal/workshop/failing"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/storage"
	"github.com/ostiary/ostiary/storage/memory"
)

// TestEveryCallAfterClose makes every call on a closed engine. Each must fail with ErrClosed, on a
// store that was loaded and on one that was not.
func TestEveryCallAfterClose(t *testing.T) {
	t.Parallel()
	for _, group := range [][]named{questions(), pastQuestions(), reads(), catalogCalls(), writes()} {
		for _, c := range group {
			for _, cold := range []bool{true, false} {
				if c.name == "open" || c.name == "find" || c.elsewhere { // the first two open another engine
					continue
				}
				x := newShaky(t, failing.New(memory.New()), cold)
				if err := x.engine.Close(); err != nil {
					t.Fatal(err)
				}
				if _, err := c.call(x); !errors.Is(err, authz.ErrClosed) {
					t.Errorf("%s, loaded %v: error %v, expected %v", c.name, !cold, err, authz.ErrClosed)
				}
			}
		}
	}
}

// TestEveryCallAfterDelete makes every call on a handle of a store that was deleted, and on one
// whose id another store has got since. Each must fail with ErrNoStore.
func TestEveryCallAfterDelete(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	for _, group := range [][]named{questions(), pastQuestions(), reads(), writes()} {
		for _, c := range group {
			if c.elsewhere {
				continue
			}
			for _, again := range []bool{false, true} {
				x := newShaky(t, failing.New(memory.New()), false)
				if err := x.engine.DeleteStore(ctx, shakyID); err != nil {
					t.Fatal(err)
				}
				if again {
					other := must(x.engine.CreateStore(ctx, ostiary.CreateStoreRequest{ID: shakyID}))(t)
					if _, _, err := other.WriteSchema(ctx, authz.SchemaSource{Model: documents()}); err != nil {
						t.Fatal(err)
					}
				}
				if _, err := c.call(x); !errors.Is(err, authz.ErrNoStore) {
					t.Errorf("%s, created again %v: error %v, expected %v", c.name, again, err, authz.ErrNoStore)
				}
			}
		}
	}
}

// TestEveryCallAfterDeleteElsewhere makes every call on a handle of a store that another engine
// has deleted and created again under the same id. Each call must answer as before, from memory,
// or fail with ErrNoStore. None may return or change what the new store contains.
func TestEveryCallAfterDeleteElsewhere(t *testing.T) {
	t.Parallel()
	maintenance := slices.DeleteFunc(catalogCalls(), func(c named) bool { return !slices.Contains([]string{"compact", "collect", "trim"}, c.name) })
	for _, group := range [][]named{questions(), pastQuestions(), reads(), maintenance, writes()} {
		for _, c := range group {
			if c.elsewhere {
				continue
			}
			for _, cold := range []bool{true, false} {
				t.Run(fmt.Sprintf("%s/loaded=%v", c.name, !cold), func(t *testing.T) {
					t.Parallel()
					before, err := c.call(newShaky(t, failing.New(memory.New()), cold))
					if err != nil {
						t.Fatal(err)
					}
					x := newShaky(t, failing.New(memory.New()), cold)
					other := replaceElsewhere(t, x)
					content := must(contentOf(other))(t)
					after, err := c.call(x)
					if !errors.Is(err, authz.ErrNoStore) && (err != nil || after != before) {
						t.Errorf("got %q, %v, expected %q or %v", after, err, before, authz.ErrNoStore)
					}
					if now := must(contentOf(other))(t); now != content {
						t.Errorf("the new store changed from\n%s\nto\n%s", content, now)
					}
				})
			}
		}
	}
}

// replaceElsewhere deletes the store with another engine and creates one with the same id, as
// many entries, and a document and a secret of the same names.
func replaceElsewhere(t *testing.T, x *shaky) *ostiary.Store {
	t.Helper()
	ctx := context.Background()
	e := newEngine(t, shakyOptions(x))
	if err := e.DeleteStore(ctx, shakyID); err != nil {
		t.Fatal(err)
	}
	s := must(e.CreateStore(ctx, ostiary.CreateStoreRequest{ID: shakyID}))(t)
	if _, _, err := s.WriteSchema(ctx, authz.SchemaSource{Model: documents()}); err != nil {
		t.Fatal(err)
	}
	must(s.Write(ctx, authz.WriteRequest{Add: tups(t, "document:1#owner@user:eve", "document:8#owner@user:eve"),
		Documents: []authz.Document{{Kind: "note", Key: "n", Secondary: []string{"s"}, Body: []byte("new text")}},
		Secrets:   []authz.Document{{Kind: "note", Key: "n", Body: []byte("newly hidden")}}}))(t)
	for i := range 6 {
		must(s.Write(ctx, authz.WriteRequest{Add: tups(t, fmt.Sprintf("document:%d#viewer@user:dora", i))}))(t)
	}
	return s
}

// contentOf returns what a store contains, with its past.
func contentOf(s *ostiary.Store) (string, error) {
	ctx := context.Background()
	tuples, err := collected(s.Export(ctx, authz.FullyConsistent()), rel.Tuple.String)
	past, err2 := collected(s.Export(ctx, authz.AtRevision(2)), rel.Tuple.String)
	schemas, err3 := s.Schemas(ctx)
	page, err4 := s.Changes(ctx, authz.ChangesRequest{})
	return fmt.Sprintln(tuples, past, schemas, changesText(page.Entries)), errors.Join(err, err2, err3, err4)
}

// TestStoreNames creates and updates stores with names and aliases at their bounds and one
// above, and reads them back from this engine and from another one.
func TestStoreNames(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	driver := memory.New()
	defer driver.Close()
	e := newEngine(t, ostiary.Options{Driver: driver})
	long := strings.Repeat("n", authz.NameBytesMax)
	aliases := func(n int) map[string]string {
		all := map[string]string{}
		for i := range n {
			all[fmt.Sprint("door", i)] = fmt.Sprint("alias", i)
		}
		return all
	}
	for i, c := range []struct {
		name    string
		aliases map[string]string
		err     error
	}{
		{"", nil, nil}, {long, nil, nil}, {long + "n", nil, authz.ErrBound},
		{"a", aliases(authz.AliasesMax), nil}, {"a", aliases(authz.AliasesMax + 1), authz.ErrBound},
		{"a", map[string]string{"d": long}, nil}, {"a", map[string]string{"d": long + "n"}, authz.ErrBound},
		{"a", map[string]string{long: "x"}, nil}, {"a", map[string]string{long + "n": "x"}, authz.ErrBound},
		{"a", map[string]string{"": "x"}, authz.ErrInvalidRequest}, {"a", map[string]string{"d": ""}, authz.ErrInvalidRequest},
	} {
		for _, update := range []bool{false, true} {
			var s *ostiary.Store
			var err error
			if update {
				s = must(e.CreateStore(ctx, ostiary.CreateStoreRequest{Name: "before", Aliases: map[string]string{"old": fmt.Sprint(i)}}))(t)
				err = e.UpdateStore(ctx, s.ID(), replace(c.name, c.aliases))
			} else {
				s, err = e.CreateStore(ctx, ostiary.CreateStoreRequest{Name: c.name, Aliases: c.aliases})
			}
			if !errors.Is(err, c.err) || (err == nil) != (c.err == nil) {
				t.Errorf("case %d, update %v: error %v, expected %v", i, update, err, c.err)
			}
			if s == nil {
				continue
			}
			name, all := c.name, c.aliases
			if err != nil {
				name, all = "before", map[string]string{"old": fmt.Sprint(i)}
			}
			other := must(newEngine(t, ostiary.Options{Driver: driver}).Store(ctx, s.ID()))(t)
			for _, info := range []storage.StoreInfo{s.Info(), other.Info()} {
				if info.Name != name || fmt.Sprint(info.Aliases) != fmt.Sprint(all) || info.ID != s.ID() || info.Created == 0 {
					t.Errorf("case %d, update %v: %+v", i, update, info)
				}
			}
			for door, alias := range all {
				if found := must(e.StoreByAlias(ctx, door, alias))(t); found != s {
					t.Errorf("case %d: alias %q leads to another store", i, alias)
				}
			}
			_, err = e.StoreByAlias(ctx, "old", fmt.Sprint(i))
			if gone := update && c.err == nil; gone != errors.Is(err, authz.ErrNoStore) && update {
				t.Errorf("case %d: the old alias: %v", i, err)
			}
			must(struct{}{}, e.DeleteStore(ctx, s.ID()))(t)
		}
	}
}

// TestBackground opens an engine that collects its stores in the background, and waits
// until it has removed an expired tuple.
func TestBackground(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	e := newEngine(t, ostiary.Options{Background: time.Millisecond})
	s := newStore(t, e, documents())
	from := must(s.Head(ctx))(t)
	expiring := tup(t, "document:1#owner@user:anne")
	expiring.Expires = rel.TimeOf(time.Now().Add(10 * time.Millisecond))
	lasting := tup(t, "document:1#owner@user:bob")
	must(s.Write(ctx, authz.WriteRequest{Add: []rel.Tuple{expiring, lasting}}))(t)
	s.Keep()
	for entry, err := range s.Watch(ctx, authz.WatchRequest{After: from}) {
		if err != nil {
			t.Fatal(err)
		}
		if c := entry.Changes[0]; c.Kind == storage.TupleRemove {
			if len(entry.Changes) != 1 || c.Tuple.Key() != expiring.Key() {
				t.Errorf("removed %v", entry.Changes)
			}
			break
		}
	}
	want(t, s, "document:1#owner@user:bob", "true")
}

// replace is a change of a store for UpdateStore, whatever its name and its aliases are.
func replace(name string, aliases map[string]string) func(*string, map[string]string) error {
	return func(n *string, all map[string]string) error {
		*n = name
		clear(all)
		maps.Copy(all, aliases)
		return nil
	}
}
