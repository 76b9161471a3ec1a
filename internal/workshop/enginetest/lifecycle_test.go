package enginetest

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/schema"
	"github.com/ostiary/ostiary/storage"
)

func TestManyStores(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	d := disks()[0]
	x := start(t, d, ostiary.Options{})
	const stores = 2000
	ids := map[storage.StoreID]bool{}
	for i := range stores {
		s := must(x.engine.CreateStore(ctx, ostiary.CreateStoreRequest{Name: fmt.Sprint(i), Aliases: map[string]string{"door": fmt.Sprint("a", i)}}))(t)
		ids[s.ID()] = true
	}
	if n := x.engine.Bytes(); n != 0 {
		t.Errorf("stores that were never asked use %d bytes, want 0", n)
	}
	one := must(x.engine.StoreByAlias(ctx, "door", "a1234"))(t)
	if one.Info().Name != "1234" {
		t.Errorf("found %v by its alias, want store 1234", one.Info())
	}
	for info, err := range x.engine.Stores(ctx, storage.StoreID{}) {
		if err != nil || !ids[info.ID] {
			t.Fatalf("listed %v, %v, which was not created", info, err)
		}
		delete(ids, info.ID)
	}
	if len(ids) > 0 {
		t.Errorf("%d stores are missing from the list", len(ids))
	}
}

func TestIdleStoresAreDropped(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, d disk) {
		ctx := context.Background()
		x := start(t, d, ostiary.Options{})
		s := newStore(t, x.engine, documents())
		token := must(s.Write(ctx, authz.WriteRequest{Add: tups(t, "document:1#owner@user:a")}))(t)
		if x.engine.DropIdle() != 0 {
			t.Error("a store in use was dropped")
		}
		if x.engine.DropIdle() != 1 || x.engine.Bytes() != 0 {
			t.Error("an idle store was not dropped")
		}
		want(t, s, "document:1#owner@user:a", "true")
		if got := ask(t, s, "document:1#owner@user:a", authz.QueryOptions{Consistency: authz.AtExactly(token)}); got != "true" {
			t.Errorf("at the token: got %s, want true", got)
		}
		x.engine.DropIdle()
		x.engine.DropIdle()
		must(s.Write(ctx, authz.WriteRequest{Add: tups(t, "document:2#owner@user:a")}))(t)
		want(t, s, "document:2#owner@user:a", "true")
	})
}

func TestKeptStoresAreNotDropped(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, d disk) {
		x := start(t, d, ostiary.Options{})
		kept, other := newStore(t, x.engine, documents()), newStore(t, x.engine, documents())
		kept.Keep()
		x.engine.DropIdle()
		if n := x.engine.DropIdle(); n != 1 {
			t.Errorf("dropped %d stores, want 1", n)
		}
		if got := x.engine.LoadedStores(); !slices.Equal(got, []storage.StoreID{kept.ID()}) {
			t.Errorf("loaded %v, want only the kept store %v, not %v", got, kept.ID(), other.ID())
		}
	})
}

// TestLoadsAreShared asks a store from many goroutines, while another goroutine
// keeps dropping it.
func TestLoadsAreShared(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	e := newEngine(t, ostiary.Options{Bounds: authz.Bounds{Loads: 1}})
	s := newStore(t, e, documents())
	must(s.Write(ctx, authz.WriteRequest{Add: tups(t, "document:1#owner@user:a")}))(t)
	var all sync.WaitGroup
	for g := range 8 {
		all.Add(1)
		go func() {
			defer all.Done()
			for i := range 200 {
				switch {
				case g == 0:
					e.DropIdle()
				case g == 1:
					if _, err := s.Write(ctx, authz.WriteRequest{Add: tups(t, fmt.Sprintf("document:x%d#owner@user:a", i))}); err != nil {
						t.Error(err)
					}
				default:
					want(t, s, "document:1#owner@user:a", "true")
				}
			}
		}()
	}
	all.Wait()
	if st := must(s.Stats(ctx))(t); st.Graph.Tuples != 201 {
		t.Errorf("the store has %d tuples", st.Graph.Tuples)
	}
}

func TestClosedEngine(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	before := runtime.NumGoroutine()
	e := must(ostiary.Open(ctx, ostiary.Options{Background: time.Hour}))(t)
	s := newStore(t, e, documents())
	unloaded := must(e.CreateStore(ctx, ostiary.CreateStoreRequest{}))(t)
	p := must(s.Prepare(ctx, authz.WriteRequest{Add: tups(t, "document:1#owner@user:a")}))(t)
	p.Abort()
	must(struct{}{}, e.Close())(t)
	must(struct{}{}, e.Close())(t)
	_ = before
	for name, call := range map[string]func() error{
		"create": func() error { _, err := e.CreateStore(ctx, ostiary.CreateStoreRequest{}); return err },
		"find":   func() error { _, err := e.Store(ctx, s.ID()); return err },
		"check": func() error {
			_, err := s.Check(ctx, authz.CheckRequest{Object: rel.Object{Type: "document", ID: "1"}, Relation: "owner", Subject: rel.Subject{Type: "user", ID: "a"}})
			return err
		},
		"load": func() error { _, err := unloaded.Read(ctx, authz.ReadRequest{}); return err },
		"write": func() error {
			_, err := s.Write(ctx, authz.WriteRequest{Add: tups(t, "document:1#owner@user:a")})
			return err
		},
		"document": func() error {
			_, err := s.Document(ctx, authz.DocumentKey{Kind: "a", Key: "b"})
			return err
		},
		"delete": func() error { return e.DeleteStore(ctx, s.ID()) },
	} {
		t.Run(name, func(t *testing.T) { wantKind(t, call(), authz.ErrClosed) })
	}
}

// TestNamespaces writes schemas of several namespaces. The newest schema of each
// namespace is current at the same time.
func TestNamespaces(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, d disk) {
		ctx := context.Background()
		x := start(t, d, ostiary.Options{})
		s := newStore(t, x.engine, documents())
		write := func(m *schema.Model) authz.SchemaInfo {
			info, _, err := s.WriteSchema(ctx, authz.SchemaSource{Model: m, Dialect: "test", Source: []byte("as it was")})
			return must(info, err)(t)
		}
		model := func(ns string) *schema.Model {
			m := documents()
			m.Namespace = ns
			return m
		}
		a, b := write(model("a")), write(model("b"))
		must(s.Write(ctx, authz.WriteRequest{Add: tups(t, "a/document:1#owner@a/user:x", "b/document:1#owner@b/user:y", "document:1#owner@user:z")}))(t)
		narrow := documents()
		narrow.Types[3].Relations[2].Rewrite = schema.Direct()
		older := must(s.CurrentSchema(ctx, ""))(t)
		newer := write(narrow)
		for range 2 {
			want(t, s, "a/document:1#viewer@a/user:x", "true")
			want(t, s, "b/document:1#viewer@b/user:y", "true")
			want(t, s, "b/document:1#viewer@b/user:x", "false")
			want(t, s, "document:1#viewer@user:z", "false")
			if got := ask(t, s, "document:1#viewer@user:z", authz.QueryOptions{SchemaID: older.ID}); got != "true" {
				t.Errorf("under the older schema: %s", got)
			}
			infos := must(s.Schemas(ctx))(t)
			if len(infos) != 4 || infos[0] != newer || infos[1] != b || infos[2] != a || infos[3] != older {
				t.Errorf("schemas: %v", infos)
			}
			back := must(s.Schema(ctx, b.ID))(t)
			if back.Namespace != "b" || back.Dialect != "test" || string(back.Source) != "as it was" || len(back.Model.Types) != 4 {
				t.Errorf("read back: %v", back)
			}
			s = x.again(s)
		}
		before := must(s.RemoveSchema(ctx, newer.ID))(t)
		want(t, s, "document:1#viewer@user:z", "true")
		_, err := s.RemoveSchema(ctx, newer.ID)
		wantKind(t, err, authz.ErrNoSchema)
		_, err = s.Schema(ctx, newer.ID)
		wantKind(t, err, authz.ErrNoSchema)
		r := must(before.Revision())(t)
		// A past revision is answered under the schema that was current then, although it
		// was removed since.
		if got := ask(t, s, "document:1#viewer@user:z", authz.QueryOptions{Consistency: authz.AtRevision(r - 1)}); got != "false" {
			t.Errorf("in the past: %s", got)
		}
		_, _, err = s.WriteSchema(ctx, authz.SchemaSource{Model: &schema.Model{Types: []schema.TypeDef{{Name: "user"}, {Name: "user"}}}})
		wantKind(t, err, authz.ErrInvalidSchema)
		_, _, err = s.WriteSchema(ctx, authz.SchemaSource{Model: model("a/b")})
		wantKind(t, err, authz.ErrInvalidName)
	})
}

// TestTwoEngines writes through two engines over one driver. Each must see the
// writes of the other.
func TestTwoEngines(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, d disk) {
		ctx := context.Background()
		x := start(t, d, ostiary.Options{})
		other := newEngine(t, ostiary.Options{Driver: x.driver})
		a := newStore(t, x.engine, documents())
		b := must(other.Store(ctx, a.ID()))(t)
		must(b.Stats(ctx))(t)
		var all sync.WaitGroup
		for i, s := range []*ostiary.Store{a, b} {
			all.Add(1)
			go func() {
				defer all.Done()
				for n := range 30 {
					if _, err := s.Write(ctx, authz.WriteRequest{Add: tups(t, fmt.Sprintf("document:%d-%d#owner@user:a", i, n))}); err != nil {
						t.Error(err)
					}
				}
			}()
		}
		all.Wait()
		token := must(a.Write(ctx, authz.WriteRequest{Add: tups(t, "document:last#owner@user:a")}))(t)
		for _, at := range []authz.Consistency{authz.AtLeast(token), authz.AtExactly(token), authz.FullyConsistent()} {
			if got := ask(t, b, "document:last#owner@user:a", authz.QueryOptions{Consistency: at}); got != "true" {
				t.Errorf("at %v: got %s, want true", at, got)
			}
		}
		if st := must(b.Stats(ctx))(t); st.Graph.Tuples != 61 {
			t.Errorf("the store has %d tuples", st.Graph.Tuples)
		}
	})
}

// TestRecreatedElsewhere lets another engine delete a store and create it again.
// The old handles must fail, and a new handle must find the new store.
func TestRecreatedElsewhere(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	x := start(t, disks()[0], ostiary.Options{})
	other := newEngine(t, ostiary.Options{Driver: x.driver})
	create := ostiary.CreateStoreRequest{Name: "same", Aliases: map[string]string{"door": "same"}}
	old := must(x.engine.CreateStore(ctx, create))(t)
	unloaded := must(x.engine.CreateStore(ctx, ostiary.CreateStoreRequest{}))(t)
	create.ID = old.ID()
	must(old.Stats(ctx))(t)
	for _, id := range []storage.StoreID{old.ID(), unloaded.ID()} {
		must(struct{}{}, other.DeleteStore(ctx, id))(t)
		create.ID = id
		must(other.CreateStore(ctx, create))(t)
		create.Aliases = nil
	}
	found := must(x.engine.StoreByAlias(ctx, "door", "same"))(t)
	must(found.Stats(ctx))(t)
	if found == old {
		t.Error("the alias returned the handle of the deleted store")
	}
	_, err := old.Stats(ctx)
	wantKind(t, err, authz.ErrNoStore)
	_, err = unloaded.Stats(ctx)
	wantKind(t, err, authz.ErrNoStore)
	must(must(x.engine.Store(ctx, unloaded.ID()))(t).Stats(ctx))(t)
}

// TestWatchOutlivesTheView lets another engine write while the watched store is
// not loaded. The watch must not miss an entry.
func TestWatchOutlivesTheView(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, d disk) {
		ctx := context.Background()
		x := start(t, d, ostiary.Options{})
		other := newEngine(t, ostiary.Options{Driver: x.driver})
		s := newStore(t, x.engine, documents())
		elsewhere := must(other.Store(ctx, s.ID()))(t)
		from := must(s.Head(ctx))(t)
		write := func(s *ostiary.Store, i int) {
			must(s.Write(ctx, authz.WriteRequest{Add: tups(t, fmt.Sprintf("document:%d#owner@user:a", i))}))(t)
		}
		write(s, 0)
		n := 0
		for e, err := range s.Watch(ctx, authz.WatchRequest{After: from}) {
			if err != nil || e.Changes[0].Tuple.Object.ID != fmt.Sprint(n) {
				t.Fatalf("entry %d is %v, %v", n, e, err)
			}
			switch n++; n {
			case 1:
				x.engine.DropIdle()
				x.engine.DropIdle()
				write(elsewhere, 1)
				must(s.Stats(ctx))(t) // loads the store
			case 2:
				write(elsewhere, 2)
				write(s, 3)
			}
			if n == 4 {
				break
			}
		}
	})
}
