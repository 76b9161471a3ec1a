package identity_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/internal/identity"
	"github.com/ostiary/ostiary/rel"
)

// lines returns a line for each record and each tuple of the deployment.
func (d *deployment) lines() (lines []string) {
	d.t.Helper()
	for _, k := range []identity.Kind{identity.User, identity.Group, identity.Project, identity.Role, identity.Region, identity.CatalogService, identity.Endpoint,
		identity.RegisteredLimit, identity.Limit, identity.DomainConfig, identity.Credential, identity.EndpointGroup, identity.Policy} {
		all, _, err := d.List(d.t.Context(), identity.ListRequest{Kind: k})
		d.ok(err)
		for _, r := range all {
			lines = append(lines, fmt.Sprint(k, " ", r.ID, " ", r.Domain, " ", r.Parent, " ", r.Owner, " ", r.Members.Text("project_id")))
		}
	}
	for t, err := range d.store.Tuples(d.t.Context(), rel.Filter{}, authz.Consistency{}) {
		d.ok(err)
		lines = append(lines, t.String())
	}
	slices.Sort(lines)
	return lines
}

// TestDeleteLeavesOthers deletes one of two equal records of each kind. All lines
// that name it are gone, and no other one.
func TestDeleteLeavesOthers(t *testing.T) {
	d := deploy(t)
	ctx := t.Context()
	two := func(r identity.Record) (ids []string) {
		for _, name := range []string{"one", "two"} {
			r.Name = name
			ids = append(ids, d.make(r).ID)
		}
		return ids
	}
	domains := two(identity.Record{Kind: identity.Project, IsDomain: true})
	users, groups := two(identity.Record{Kind: identity.User, Domain: domains[0]}), two(identity.Record{Kind: identity.Group, Domain: domains[0]})
	projects, roles := two(identity.Record{Kind: identity.Project, Domain: domains[0]}), two(identity.Record{Kind: identity.Role})
	inOther := d.make(identity.Record{Kind: identity.User, Name: "three", Domain: domains[1]}).ID
	services, regions := two(identity.Record{Kind: identity.CatalogService}), two(identity.Record{Kind: identity.Region})
	below := two(identity.Record{Kind: identity.Project, Domain: domains[1]})
	deep := d.make(identity.Record{Kind: identity.Project, Name: "deep", Domain: domains[1], Parent: below[0]}).ID
	d.make(identity.Record{Kind: identity.Role, Name: "of the domain", Domain: domains[1]})
	d.make(identity.Record{Kind: identity.Group, Name: "of the domain", Domain: domains[1]})
	for i, service := range services {
		d.make(identity.Record{Kind: identity.Endpoint, Parent: service, Members: identity.Members{}.With("region_id", regions[0])})
		d.make(identity.Record{Kind: identity.Credential, Owner: users[i], Members: identity.Members{}.With("project_id", projects[i])})
	}
	prior := d.find(identity.Role, "reader").ID
	last := d.make(identity.Record{Kind: identity.Role, Name: "last"}).ID
	for _, r := range roles {
		d.ok(d.Imply(ctx, prior, r))
		d.ok(d.Imply(ctx, r, last))
		for _, target := range append([]string{identity.System, deep}, slices.Concat(projects, domains)...) {
			for _, inherited := range []bool{false, target != identity.System} {
				for _, u := range append([]string{inOther}, users...) {
					d.ok(d.Grant(ctx, identity.Grant{UserID: u, Target: target, RoleID: r, Inherited: inherited}))
				}
				for _, g := range groups {
					d.ok(d.Grant(ctx, identity.Grant{GroupID: g, Target: target, RoleID: r, Inherited: inherited}))
				}
			}
		}
	}
	for _, g := range groups {
		for _, u := range append([]string{inOther}, users...) {
			d.ok(d.AddMember(ctx, g, u))
		}
	}
	for _, x := range []struct {
		kind identity.Kind
		id   string
	}{{identity.Group, groups[0]}, {identity.User, users[0]}, {identity.Project, projects[0]}, {identity.Role, roles[0]},
		{identity.CatalogService, services[0]}, {identity.Region, regions[1]}, {identity.Project, domains[1]}} {
		names := []string{x.id}
		if x.id == domains[1] {
			_, err := d.Update(ctx, identity.Project, x.id, nil, false, func(r *identity.Record) error { r.Disabled = true; return nil })
			d.ok(err)
			for _, line := range d.lines() {
				if f := strings.Split(line, " "); len(f) > 2 && f[2] == x.id {
					names = append(names, f[1])
				}
			}
			if len(names) != 7 {
				t.Fatalf("the domain has %d records, want 6", len(names)-1)
			}
		}
		var want []string
		gone := 0
		for _, line := range d.lines() {
			if slices.ContainsFunc(names, func(id string) bool { return strings.Contains(line, id) }) {
				gone++
			} else {
				want = append(want, line)
			}
		}
		d.ok(d.Delete(ctx, x.kind, x.id))
		if got := d.lines(); !slices.Equal(got, want) || gone < 1 {
			t.Errorf("after deleting %s %v, %d lines remain, want %d of %d:\n%s\nwant\n%s", x.kind, names, len(got), len(want), len(want)+gone, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		d.fails(d.Delete(ctx, x.kind, x.id), identity.NotFound, "")
	}
	d.fails(d.Delete(ctx, identity.Region, regions[0]), identity.Forbidden, "have associated endpoints")
}
