package identity_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/ostiary/ostiary/internal/identity"
)

// TestListByName compares the lists of records with a name, which an index finds,
// with those that visit all records. Names of the records are in several domains,
// repeat, begin each other and contain NUL.
func TestListByName(t *testing.T) {
	d := deploy(t)
	load := func(records ...identity.Loaded) {
		if refused, err := d.LoadRecords(t.Context(), records); err != nil || refused != nil {
			t.Fatal(refused, err)
		}
	}
	names := []string{"a", "ab", "a\x00", "a\x00d1", "A"}
	kinds := []identity.Kind{identity.User, identity.Group, identity.Project, identity.Role, identity.CatalogService}
	load(identity.Loaded{Record: identity.Record{Kind: identity.IdentityProvider, ID: "idp", Domain: identity.DefaultDomain}})
	for i, domain := range []string{"d1", "d10", "d0"} {
		load(identity.Loaded{Record: identity.Record{Kind: identity.Project, ID: domain, Name: names[i], IsDomain: true}})
		for j, name := range names {
			for _, k := range kinds {
				r := identity.Record{Kind: k, ID: fmt.Sprintf("%s%d-%d-%d", k, (7*i+3*j)%11, i, j), Name: name, Domain: domain}
				switch k {
				case identity.CatalogService:
					r.Domain = ""
				case identity.User: // and one whom an identity provider vouches for
					f := r
					f.ID, f.Federated = "f"+r.ID, &identity.Federated{ProviderID: "idp", ProtocolID: "p", UniqueID: r.ID}
					load(identity.Loaded{Record: f})
				}
				load(identity.Loaded{Record: r})
			}
		}
	}
	ids := func(r identity.ListRequest) (ids []string, more bool) {
		all, more, err := d.List(t.Context(), r)
		d.ok(err)
		for _, x := range all {
			ids = append(ids, x.ID)
		}
		return ids, more
	}
	check := func() {
		t.Helper()
		for _, k := range kinds {
			for _, name := range append(names, "none", "a\x00d") {
				all, _ := ids(identity.ListRequest{Kind: k, Match: func(r *identity.Record) bool { return r.Name == name }})
				visited := 0
				visit := func(*identity.Record) bool { visited++; return true }
				for _, after := range append([]string{"", "~"}, all...) {
					want := slices.DeleteFunc(slices.Clone(all), func(id string) bool { return id <= after })
					for _, limit := range []int{0, 1, len(want), len(want) + 1} {
						cut, more := want, false
						if limit > 0 && len(want) > limit {
							cut, more = want[:limit], true
						}
						visited = 0
						got, gotMore := ids(identity.ListRequest{Kind: k, Name: name, After: after, Limit: limit, Match: visit})
						if !slices.Equal(got, cut) || gotMore != more || visited > len(want) {
							t.Errorf("%s with name %q after %q, limit %d: %q, more %t, after %d visits; want %q, more %t", k, name, after, limit, got, gotMore, visited, cut, more)
						}
					}
				}
			}
		}
	}
	check()
	for _, k := range kinds { // the index follows changes
		all, _ := ids(identity.ListRequest{Kind: k, Name: "a"})
		d.ok(d.rename(k, all[0], "renamed"))
		if k != identity.Project {
			d.ok(d.Delete(t.Context(), k, all[1]))
		}
		if got, _ := ids(identity.ListRequest{Kind: k, Name: "renamed"}); !slices.Equal(got, all[:1]) {
			t.Errorf("%s after a change: %q", k, got)
		}
	}
	check()
	d.Service = d.open()
	check()
}

// rename changes the name of a record.
func (d *deployment) rename(k identity.Kind, id, name string) error {
	_, err := d.Update(d.t.Context(), k, id, nil, false, func(r *identity.Record) error { r.Name = name; return nil })
	return err
}

// TestNameInEachDomain finds a name in the domain that is asked for, and not the
// name of a federated user.
func TestNameInEachDomain(t *testing.T) {
	d := deploy(t)
	other := d.make(identity.Record{Kind: identity.Project, Name: "other", IsDomain: true}).ID
	d.make(identity.Record{Kind: identity.IdentityProvider, ID: "idp", Domain: other})
	refused, err := d.LoadRecords(t.Context(), []identity.Loaded{{Record: identity.Record{Kind: identity.User, ID: "0", Name: "bob", Domain: other,
		Federated: &identity.Federated{ProviderID: "idp", ProtocolID: "p", UniqueID: "u"}}}})
	if d.ok(err); refused != nil {
		t.Fatal(refused)
	}
	mine := d.make(identity.Record{Kind: identity.User, Name: "bob"})
	_, err = d.Find(t.Context(), identity.User, other, "bob")
	d.fails(err, identity.NotFound, "Could not find user: bob.")
	theirs := d.make(identity.Record{Kind: identity.User, Name: "bob", Domain: other})
	for domain, want := range map[string]string{identity.DefaultDomain: mine.ID, other: theirs.ID} {
		if got, err := d.Find(t.Context(), identity.User, domain, "bob"); err != nil || got.ID != want {
			t.Errorf("bob of domain %s: %v %v, want %s", domain, got, err, want)
		}
	}
	_, err = d.Create(t.Context(), identity.Record{Kind: identity.User, Name: "bob", Domain: other}, nil)
	d.fails(err, identity.Conflict, "Duplicate entry found with name bob at domain ID "+other)
}
