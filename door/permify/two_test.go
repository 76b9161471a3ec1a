package permify

import (
	"slices"
	"sync"
	"testing"

	ostiary "github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/internal/permifypb"
	"github.com/ostiary/ostiary/storage"
	"github.com/ostiary/ostiary/storage/memory"
)

// TestTwoEngines uses tenants through two engines on one driver. The default tenant is
// created once, and a deleted one does not come back: not on the other engine, and not
// on one that starts later.
func TestTwoEngines(t *testing.T) {
	t.Parallel()
	driver := memory.New()
	defer driver.Close()
	node := func() *service {
		e, _ := startOn(t, Options{}, ostiary.Options{Driver: driver})
		return &service{engine: e}
	}
	tenants := func(s *service) (ids []string) {
		t.Helper()
		list, err := s.ListTenants(t.Context(), &permifypb.TenantListRequest{})
		if err != nil {
			t.Fatal(err)
		}
		for _, tenant := range list.Tenants {
			ids = append(ids, tenant.Id)
		}
		return ids
	}
	check := func(what string, s *service, want ...string) {
		t.Helper()
		if got := tenants(s); !slices.Equal(got, want) {
			t.Errorf("%s: tenants %v, want %v", what, got, want)
		}
	}
	a, b, late := node(), node(), node()
	var first sync.WaitGroup
	for _, s := range []*service{a, b, a, b} {
		first.Go(func() {
			if _, err := s.ListTenants(t.Context(), &permifypb.TenantListRequest{}); err != nil {
				t.Error(err)
			}
		})
	}
	first.Wait()
	check("a", a, DefaultTenant)
	check("b", b, DefaultTenant)
	stores := 0
	for _, err := range a.engine.Stores(t.Context(), storage.StoreID{}) {
		if stores++; err != nil {
			t.Fatal(err)
		}
	}
	if stores != 1 {
		t.Errorf("%d stores after the first requests, want 1", stores)
	}
	if _, err := a.CreateTenant(t.Context(), &permifypb.TenantCreateRequest{Id: "other", Name: "Other"}); err != nil {
		t.Fatal(err)
	}
	check("b", b, "other", DefaultTenant)
	for range 2 { // it may be created and deleted again
		if _, err := a.DeleteTenant(t.Context(), &permifypb.TenantDeleteRequest{Id: DefaultTenant}); err != nil {
			t.Fatal(err)
		}
		for what, s := range map[string]*service{"a": a, "b": b, "one without a request so far": late, "a new one": node()} {
			check(what+", after the deletion", s, "other")
		}
		if _, err := b.CreateTenant(t.Context(), &permifypb.TenantCreateRequest{Id: DefaultTenant, Name: "again"}); err != nil {
			t.Fatal(err)
		}
		check("a, created again", a, "other", DefaultTenant)
	}
}
