package permify

import (
	"context"
	"fmt"
	"iter"
	"testing"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/internal/permifypb"
	"github.com/ostiary/ostiary/storage"
	"github.com/ostiary/ostiary/storage/memory"
)

// countedStores is a driver that counts the stores that it yields.
type countedStores struct {
	storage.Driver
	yielded int
}

func (c *countedStores) count(all iter.Seq2[storage.StoreInfo, error]) iter.Seq2[storage.StoreInfo, error] {
	return func(yield func(storage.StoreInfo, error) bool) {
		for info, err := range all {
			c.yielded++
			if !yield(info, err) {
				return
			}
		}
	}
}

func (c *countedStores) Stores(ctx context.Context, after storage.StoreID) iter.Seq2[storage.StoreInfo, error] {
	return c.count(c.Driver.Stores(ctx, after))
}

func (c *countedStores) StoresByAlias(ctx context.Context, door, after string) iter.Seq2[storage.StoreInfo, error] {
	return c.count(c.Driver.StoresByAlias(ctx, door, after))
}

// TestPagesOfTenants lists tenants between stores of other doors. Each page reads
// the same number of stores, whatever their number and the place of the page are.
func TestPagesOfTenants(t *testing.T) {
	t.Parallel()
	const limit, most = 10, 64
	for _, tenants := range []int{200, 2000} {
		driver := &countedStores{Driver: memory.New()}
		e, _ := startOn(t, Options{}, ostiary.Options{Driver: driver})
		s := &service{engine: e}
		for n := range tenants {
			for _, aliases := range []map[string]string{{Name: fmt.Sprintf("s-%05d", (n*7)%tenants)}, {"other": fmt.Sprint(n)}} {
				if _, err := e.CreateStore(t.Context(), ostiary.CreateStoreRequest{Aliases: aliases}); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := s.ensureDefaultTenant(t.Context()); err != nil { // which counts all stores
			t.Fatal(err)
		}
		token, seen := "", 0
		for page := 0; page == 0 || token != ""; page++ {
			driver.yielded = 0
			out, err := s.ListTenants(t.Context(), &permifypb.TenantListRequest{PageSize: limit, ContinuousToken: token})
			if err != nil {
				t.Fatal(err)
			}
			for _, tenant := range out.Tenants {
				if want := fmt.Sprintf("s-%05d", seen); tenant.Id != want && seen < tenants {
					t.Errorf("of %d tenants, number %d is %s: expected %s", tenants, seen, tenant.Id, want)
				}
				seen++
			}
			left := tenants + 1 - seen // with the default tenant, t1, whose id is the last
			if token = out.ContinuousToken; (token == "") != (left == 0) {
				t.Errorf("of %d tenants, after %d: token %q", tenants, seen, token)
			}
			if want := min(most, left+len(out.Tenants)); driver.yielded != want {
				t.Errorf("of %d tenants, page %d reads %d stores: expected %d", tenants, page, driver.yielded, want)
			}
		}
		if seen != tenants+1 {
			t.Errorf("%d tenants are listed of %d", seen, tenants+1)
		}
	}
}
