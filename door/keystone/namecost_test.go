package keystone

import (
	"fmt"
	"net/url"
	"slices"
	"testing"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/internal/identity"
	"github.com/ostiary/ostiary/internal/identity/settings"
	"github.com/ostiary/ostiary/storage/memory"
)

// TestUsersByNameCost lists the users with a name among others, as the route does, and
// counts the users that the list visits: those with the name, and no others.
func TestUsersByNameCost(t *testing.T) {
	t.Parallel()
	for _, others := range []int{20, 2000} {
		driver := memory.New()
		engine, err := ostiary.Open(t.Context(), ostiary.Options{Driver: driver, SecretKey: &[32]byte{1}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { engine.Close(); driver.Close() })
		store, err := engine.CreateStore(t.Context(), ostiary.CreateStoreRequest{})
		if err != nil {
			t.Fatal(err)
		}
		directory, err := identity.Open(t.Context(), store, settings.Deployment{Rounds: 4})
		if err != nil {
			t.Fatal(err)
		}
		if err := directory.Bootstrap(t.Context(), identity.BootstrapOptions{Password: "secret"}); err != nil {
			t.Fatal(err)
		}
		var all []identity.Loaded
		for i := range others {
			all = append(all, identity.Loaded{Record: identity.Record{Kind: identity.User, ID: fmt.Sprint("id", i), Name: fmt.Sprint("user", i), Domain: identity.DefaultDomain}})
		}
		for part := range slices.Chunk(all, 300) {
			if refused, err := directory.LoadRecords(t.Context(), part); err != nil || refused != nil {
				t.Fatal(refused, err)
			}
		}
		c := &call{id: directory, query: url.Values{"name": {"user7"}, "domain_id": {identity.DefaultDomain}}}
		match, err := c.filter(users)
		if err != nil {
			t.Fatal(err)
		}
		visited := 0
		request, err := c.page(users, func(r *identity.Record) bool { visited++; return match(r) })
		if err != nil {
			t.Fatal(err)
		}
		found, _, err := directory.List(t.Context(), request)
		if err != nil || len(found) != 1 || found[0].ID != "id7" || visited != 1 {
			t.Errorf("among %d users: %d found, %d visited, error %v; expected one of each", others, len(found), visited, err)
		}
	}
}
