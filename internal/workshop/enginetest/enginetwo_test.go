package enginetest

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/internal/workshop/wait"
	"github.com/ostiary/ostiary/schema"
	"github.com/ostiary/ostiary/storage"
	"github.com/ostiary/ostiary/storage/memory"
)

// twoEngines returns two engines on one driver, with a store that both have loaded.
func twoEngines(t *testing.T, driver storage.Driver) (engines [2]*ostiary.Engine, stores [2]*ostiary.Store) {
	t.Helper()
	for i := range engines {
		engines[i] = newEngine(t, ostiary.Options{Driver: driver})
	}
	stores[0] = newStore(t, engines[0], documents())
	stores[1] = must(engines[1].Store(t.Context(), stores[0].ID()))(t)
	for _, s := range stores {
		want(t, s, "document:1#owner@user:a", "false")
	}
	return engines, stores
}

// TestFollowedWrites writes on one engine and asks the other one, with the default
// consistency. Nothing but the follower brings the entries to it.
func TestFollowedWrites(t *testing.T) {
	t.Parallel()
	ctx, d := t.Context(), memory.New()
	defer d.Close()
	_, stores := twoEngines(t, d)
	for i, tuple := range []string{"document:1#owner@user:a", "document:2#owner@user:a", "document:3#owner@user:a"} {
		from, to := stores[i%2], stores[(i+1)%2]
		must(from.Write(ctx, authz.WriteRequest{Add: tups(t, tuple)}))(t)
		wait.Until(t, tuple, func() bool { return ask(t, to, tuple, authz.QueryOptions{}) == "true" })
	}
	other := documents()
	other.Types = append(other.Types, schema.TypeDef{Name: "page"})
	info, _, err := stores[0].WriteSchema(ctx, authz.SchemaSource{Model: other})
	if err != nil {
		t.Fatal(err)
	}
	wait.Until(t, "the new schema", func() bool {
		current, err := stores[1].CurrentSchema(ctx, "")
		return err == nil && current.ID == info.ID
	})
}

// TestFollowedWatch watches the log on one engine while the other one writes.
func TestFollowedWatch(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	driver := memory.New()
	defer driver.Close()
	_, stores := twoEngines(t, driver)
	after := must(stores[1].Head(ctx))(t)
	must(stores[0].Write(ctx, authz.WriteRequest{Add: tups(t, "document:1#owner@user:a")}))(t)
	n := 0
	for _, err := range stores[1].Watch(ctx, authz.WatchRequest{After: after}) {
		if err != nil {
			t.Fatal(err)
		}
		if n++; n == 3 {
			break
		}
		must(stores[0].Write(ctx, authz.WriteRequest{Add: tups(t, "document:1#owner@user:"+string(rune('a'+n)))}))(t)
	}
}

// TestFollowedDuringAppend makes an append of one engine take as long as the test
// wants. Meanwhile the other engine writes, and the first one must show it.
func TestFollowedDuringAppend(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	shared := memory.New()
	defer shared.Close()
	slow := &slowAppend{Driver: shared, begin: make(chan struct{}), end: make(chan struct{})}
	one := newEngine(t, ostiary.Options{Driver: slow})
	two := newEngine(t, ostiary.Options{Driver: shared})
	b := newStore(t, two, documents())
	a := must(one.Store(ctx, b.ID()))(t)
	want(t, a, "document:1#owner@user:b", "false")
	slow.armed.Store(true)
	written := make(chan error, 1)
	go func() {
		_, err := a.Write(ctx, authz.WriteRequest{Add: tups(t, "document:1#owner@user:a")})
		written <- err
	}()
	<-slow.begin
	token := must(b.Write(ctx, authz.WriteRequest{Add: tups(t, "document:1#owner@user:b")}))(t)
	for _, c := range []authz.Consistency{authz.AtLeast(token), authz.FullyConsistent()} {
		if got := ask(t, a, "document:1#owner@user:b", authz.QueryOptions{Consistency: c}); got != "true" {
			t.Errorf("during an append: got %s, want true", got)
		}
	}
	close(slow.end)
	if err := <-written; err != nil {
		t.Fatal(err)
	}
	for _, tuple := range []string{"document:1#owner@user:a", "document:1#owner@user:b"} {
		want(t, a, tuple, "true")
		wait.Until(t, tuple, func() bool { return ask(t, b, tuple, authz.QueryOptions{}) == "true" })
	}
}

// TestFollowedOwnEntries follows entries of this engine that are durable while the
// driver has not answered yet.
func TestFollowedOwnEntries(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	shared := memory.New()
	defer shared.Close()
	slow := &slowAppend{Driver: shared, begin: make(chan struct{}), end: make(chan struct{}), after: true}
	one := newEngine(t, ostiary.Options{Driver: slow})
	a := newStore(t, one, documents())
	want(t, a, "document:1#owner@user:a", "false")
	slow.armed.Store(true)
	written := make(chan error, 1)
	go func() {
		_, err := a.Write(ctx, authz.WriteRequest{Add: tups(t, "document:1#owner@user:a")})
		written <- err
	}()
	<-slow.begin
	if got := ask(t, a, "document:1#owner@user:a", authz.QueryOptions{Consistency: authz.FullyConsistent()}); got != "true" {
		t.Errorf("a durable entry: got %s, want true", got)
	}
	close(slow.end)
	if err := <-written; err != nil {
		t.Fatal(err)
	}
	must(a.Write(ctx, authz.WriteRequest{Add: tups(t, "document:2#owner@user:a")}))(t)
	if st := must(a.Stats(ctx))(t); st.Graph.Tuples != 2 || st.Revision != 3 {
		t.Errorf("%d tuples at revision %d, want 2 at 3", st.Graph.Tuples, st.Revision)
	}
}

// TestFollowedCatalog changes stores and aliases on one engine and uses the other one.
func TestFollowedCatalog(t *testing.T) {
	t.Parallel()
	ctx, driver := t.Context(), memory.New()
	defer driver.Close()
	engines, stores := twoEngines(t, driver)
	id := stores[0].ID()
	alias := func(door, value string) func(*string, map[string]string) error {
		return func(_ *string, all map[string]string) error { all[door] = value; return nil }
	}
	if err := engines[0].UpdateStore(ctx, id, alias("one", "x")); err != nil {
		t.Fatal(err)
	}
	if err := engines[1].UpdateStore(ctx, id, alias("two", "y")); err != nil {
		t.Fatal(err)
	}
	for i, e := range engines {
		for door, value := range map[string]string{"one": "x", "two": "y"} {
			if s, err := e.StoreByAlias(ctx, door, value); err != nil || s.ID() != id {
				t.Errorf("engine %d, alias %s of door %s: %v", i, value, door, err)
			}
		}
		if got := must(e.Store(ctx, id))(t).Info().Aliases; len(got) != 2 {
			t.Errorf("engine %d: aliases %v, want two", i, got)
		}
	}
	ended := make(chan error, 1)
	after := must(stores[1].Head(ctx))(t)
	go func() {
		for _, err := range stores[1].Watch(ctx, authz.WatchRequest{After: after}) {
			if err != nil {
				ended <- err
				return
			}
		}
	}()
	if err := engines[0].DeleteStore(ctx, id); err != nil {
		t.Fatal(err)
	}
	_, err := stores[1].Check(ctx, authz.CheckRequest{})
	if !errors.Is(err, authz.ErrNoStore) {
		t.Errorf("a check of a store that another engine has deleted: %v, want ErrNoStore", err)
	}
	if _, err := engines[1].Store(ctx, id); !errors.Is(err, authz.ErrNoStore) {
		t.Errorf("a store that another engine has deleted: %v, want ErrNoStore", err)
	}
	if err := <-ended; !errors.Is(err, authz.ErrNoStore) {
		t.Errorf("a watch of a store that another engine has deleted: %v, want ErrNoStore", err)
	}
}

// TestStoresBoundOfTwoEngines creates stores on two engines up to their bound.
func TestStoresBoundOfTwoEngines(t *testing.T) {
	t.Parallel()
	ctx, driver := t.Context(), memory.New()
	defer driver.Close()
	var engines [2]*ostiary.Engine
	for i := range engines {
		engines[i] = newEngine(t, ostiary.Options{Driver: driver, Bounds: authz.Bounds{Stores: 3}})
	}
	var bound *authz.BoundError
	for i := range 4 {
		_, err := engines[i%2].CreateStore(ctx, ostiary.CreateStoreRequest{})
		if i < 3 && err != nil || i == 3 && !errors.As(err, &bound) {
			t.Errorf("store %d of at most 3: %v", i+1, err)
		}
	}
}

// slowAppend is a driver whose next append, once it is armed, waits for the test:
// before it reaches the other driver, or after.
type slowAppend struct {
	storage.Driver
	armed      atomic.Bool
	after      bool
	begin, end chan struct{}
}

func (d *slowAppend) Append(ctx context.Context, id storage.StoreID, after storage.Head, entries []storage.Entry, sealed []storage.Sealed) (storage.Head, error) {
	if !d.armed.CompareAndSwap(true, false) {
		return d.Driver.Append(ctx, id, after, entries, sealed)
	}
	if d.after {
		head, err := d.Driver.Append(ctx, id, after, entries, sealed)
		close(d.begin)
		<-d.end
		return head, err
	}
	close(d.begin)
	<-d.end
	return d.Driver.Append(ctx, id, after, entries, sealed)
}
