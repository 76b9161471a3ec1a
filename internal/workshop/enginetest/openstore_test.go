package enginetest

import (
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/storage"
	"github.com/ostiary/ostiary/storage/memory"
)

// TestOpenStore opens stores by their names: all calls of two engines on one driver get one
// store, a store that was created by name is found, and a name of two stores is refused.
func TestOpenStore(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	driver := memory.New()
	defer driver.Close()
	var engines [2]*ostiary.Engine
	for i := range engines {
		e, err := ostiary.Open(ctx, ostiary.Options{Driver: driver})
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		engines[i] = e
	}
	var wait sync.WaitGroup
	var got [16]storage.StoreID
	for i := range got {
		wait.Go(func() {
			s, err := engines[i%2].OpenStore(ctx, "acme")
			if err != nil {
				t.Error(err)
				return
			}
			got[i] = s.ID()
		})
	}
	wait.Wait()
	for _, id := range got {
		if id != got[0] || id == (storage.StoreID{}) {
			t.Fatalf("stores %s and %s, expected one", got[0], id)
		}
	}

	name := func(err error, want string) {
		t.Helper()
		if !errors.Is(err, authz.ErrInvalidRequest) || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, expected %q", err, want)
		}
	}
	_, err := engines[0].OpenStore(ctx, "")
	name(err, "the name is empty")
	var twins [2]*ostiary.Store
	for i := range twins {
		if twins[i], err = engines[0].CreateStore(ctx, ostiary.CreateStoreRequest{Name: "twin"}); err != nil {
			t.Fatal(err)
		}
		s, err := engines[1].OpenStore(ctx, "twin")
		if i == 0 && (err != nil || s.ID() != twins[0].ID()) {
			t.Errorf("a store with the name: %v, error %v", s, err)
		}
		if i == 1 {
			name(err, twins[0].ID().String())
			name(err, twins[1].ID().String())
		}
	}
	long := strings.Repeat("x", authz.NameBytesMax+1)
	if _, err := engines[0].OpenStore(ctx, long); err == nil || !strings.Contains(err.Error(), "NameBytesMax") {
		t.Errorf("a long name: error %v", err)
	}
}
