package enginetest

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/storage"
	"github.com/ostiary/ostiary/storage/memory"
	"github.com/ostiary/ostiary/storage/pebble"
)

// TestAliasesAreNotRememberedTooLong checks that an engine sees at once when
// another engine over the same driver moves, removes or adds an alias.
func TestAliasesAreNotRememberedTooLong(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	driver := memory.New()
	defer driver.Close()
	open := func() *ostiary.Engine {
		e, err := ostiary.Open(ctx, ostiary.Options{Driver: driver})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { e.Close() })
		return e
	}
	one, two := open(), open()
	create := func(alias string) *ostiary.Store {
		s, err := one.CreateStore(ctx, ostiary.CreateStoreRequest{Aliases: map[string]string{"door": alias}})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	expect := func(alias string, want *ostiary.Store) {
		t.Helper()
		for range 2 {
			for _, e := range []*ostiary.Engine{one, two} {
				s, err := e.StoreByAlias(ctx, "door", alias)
				if want == nil && !errors.Is(err, authz.ErrNoStore) || want != nil && (err != nil || s.ID() != want.ID()) {
					t.Fatalf("%s: %v, %v", alias, s, err)
				}
			}
		}
	}
	a := create("a")
	expect("a", a)
	expect("b", nil)
	b := create("b")
	expect("b", b)
	if err := two.UpdateStore(ctx, b.ID(), replace("", map[string]string{"door": "c"})); err != nil {
		t.Fatal(err)
	}
	expect("b", nil)
	expect("c", b)
	if err := two.UpdateStore(ctx, a.ID(), replace("", map[string]string{"door": "b"})); err != nil {
		t.Fatal(err)
	}
	expect("b", a)
	expect("a", nil)
	if err := one.DeleteStore(ctx, a.ID()); err != nil {
		t.Fatal(err)
	}
	expect("b", nil)
	again := create("b")
	expect("b", again)
}

// aliasReads is a driver that counts the reads of aliases.
type aliasReads struct {
	*memory.Driver
	reads atomic.Int64
}

func (d *aliasReads) StoreByAlias(ctx context.Context, door, alias string) (storage.StoreInfo, error) {
	d.reads.Add(1)
	return d.Driver.StoreByAlias(ctx, door, alias)
}

// TestMissingAliasesAreRemembered asks for aliases that no store has. While no store is
// created, updated or deleted, an alias is read once, however often it is asked for, and
// others that are asked for meanwhile are forgotten when there are too many.
func TestMissingAliasesAreRemembered(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	driver := &aliasReads{Driver: memory.New()}
	defer driver.Close()
	e, err := ostiary.Open(ctx, ostiary.Options{Driver: driver})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	ask := func(times int, alias string, want error) {
		t.Helper()
		for range times {
			if _, err := e.StoreByAlias(ctx, "door", alias); !errors.Is(err, want) || (want == nil) != (err == nil) {
				t.Fatalf("%s: got %v, want %v", alias, err, want)
			}
		}
	}
	reads := func(want int64) {
		t.Helper()
		if got := driver.reads.Swap(0); got != want {
			t.Errorf("%d reads, want %d", got, want)
		}
	}
	ask(100, "a", authz.ErrNoStore)
	reads(1)
	ask(100, "b", authz.ErrNoStore)
	ask(100, "a", authz.ErrNoStore)
	reads(1)
	s, err := e.CreateStore(ctx, ostiary.CreateStoreRequest{Aliases: map[string]string{"door": "a"}})
	if err != nil {
		t.Fatal(err)
	}
	ask(100, "a", nil)
	ask(100, "b", authz.ErrNoStore)
	reads(2)
	if err := e.UpdateStore(ctx, s.ID(), replace("", map[string]string{"door": "b"})); err != nil {
		t.Fatal(err)
	}
	ask(100, "a", authz.ErrNoStore)
	ask(100, "b", nil)
	reads(2)
	if err := e.DeleteStore(ctx, s.ID()); err != nil {
		t.Fatal(err)
	}
	ask(100, "b", authz.ErrNoStore)
	reads(1)
	for i := range 1000 {
		ask(1, fmt.Sprint("other", i), authz.ErrNoStore)
	}
	reads(1000)
	ask(2, "b", authz.ErrNoStore)
	reads(1)
}

// BenchmarkMissingAlias asks for an alias that no store has, as each request does for the
// system store.
func BenchmarkMissingAlias(b *testing.B) {
	driver, err := pebble.Open(b.TempDir(), pebble.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer driver.Close()
	e, err := ostiary.Open(b.Context(), ostiary.Options{Driver: driver})
	if err != nil {
		b.Fatal(err)
	}
	defer e.Close()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := e.StoreByAlias(b.Context(), "door", "a"); err == nil {
			b.Fatal("found")
		}
	}
}
