package enginetest

import (
	"errors"
	"testing"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/storage/memory"
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
				if want == nil && !errors.Is(err, ostiary.ErrNoStore) || want != nil && (err != nil || s.ID() != want.ID()) {
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
