package permify

import (
	"context"
	"errors"
	"testing"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/storage"
)

// only is the access of a caller who may read the stores with a name.
type only string

func (name only) Allow(_ context.Context, right authz.Right, s storage.StoreInfo) error {
	if right == authz.RightRead && s.Name == string(name) {
		return nil
	}
	return authz.ErrForbidden
}

// TestScopedFirst sends the first request to the door as a caller who may read one tenant,
// and neither read nor make the default one.
func TestScopedFirst(t *testing.T) {
	t.Parallel()
	e, _ := startOn(t, Options{}, ostiary.Options{})
	if _, err := e.CreateStore(t.Context(), tenantStore("a", "a")); err != nil {
		t.Fatal(err)
	}
	s := &service{engine: e}
	scoped := authz.WithAccess(t.Context(), only("a"))
	if _, err := s.store(scoped, "a"); err != nil {
		t.Errorf("a caller with a right on another tenant than the default one: %v", err)
	}
	if _, err := s.store(scoped, DefaultTenant); err == nil || errors.Is(err, authz.ErrNoStore) {
		t.Errorf("the default tenant, without a right on it: %v", err)
	}
	if _, err := s.store(t.Context(), DefaultTenant); err != nil {
		t.Errorf("the default tenant: %v", err)
	}
}
