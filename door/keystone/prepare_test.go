package keystone_test

import (
	"testing"
	"time"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/door/keystone"
	"github.com/ostiary/ostiary/internal/identity"
	"github.com/ostiary/ostiary/internal/identity/settings"
	"github.com/ostiary/ostiary/storage/memory"
)

// TestPrepareOfLargeDeployment prepares a door whose store takes longer to load than
// a request waits. The door waits for it, so that the server is not ready before.
func TestPrepareOfLargeDeployment(t *testing.T) {
	t.Parallel()
	driver := memory.New()
	t.Cleanup(func() { driver.Close() })
	open := func(b authz.Bounds) *ostiary.Engine {
		e, err := ostiary.Open(t.Context(), ostiary.Options{Driver: driver, SecretKey: &[32]byte{1}, Bounds: b})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { e.Close() })
		return e
	}
	first := open(authz.Bounds{})
	store, err := first.CreateStore(t.Context(), ostiary.CreateStoreRequest{Name: "k", Aliases: map[string]string{keystone.Name: keystone.DefaultStore}})
	if err != nil {
		t.Fatal(err)
	}
	s, err := identity.Open(t.Context(), store, settings.Deployment{Rounds: 4})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Bootstrap(t.Context(), identity.BootstrapOptions{Password: "secret"}); err != nil {
		t.Fatal(err)
	}
	d, err := keystone.New(open(authz.Bounds{LoadWait: time.Nanosecond}), keystone.Options{Identity: settings.Deployment{Rounds: 4}})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Prepare(t.Context()); err != nil {
		t.Error(err)
	}
}
