package identity_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/internal/identity"
	"github.com/ostiary/ostiary/internal/identity/settings"
	"github.com/ostiary/ostiary/rel"
)

// TestPermissions compares a permission with the effective roles, for grants on the
// project, above it, to a group, and of roles that imply others.
func TestPermissions(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	missing, err := d.SetPermissions(t.Context(), settings.Permissions{"compute_create": {"member", "nosuch"}, "compute_list": {"reader"}})
	d.ok(err)
	if fmt.Sprint(missing) != "[nosuch]" {
		t.Errorf("missing: %v", missing)
	}
	top := d.make(identity.Record{Kind: identity.Project, Name: "top"})
	below := d.make(identity.Record{Kind: identity.Project, Name: "below", Parent: top.ID})
	group := d.make(identity.Record{Kind: identity.Group, Name: "g"})
	users := map[string]*identity.Record{}
	for _, name := range []string{"member", "reader", "manager", "inherited", "grouped", "none"} {
		users[name] = d.user(name, "x", "")
	}
	role := func(name string) string { return d.find(identity.Role, name).ID }
	for _, g := range []identity.Grant{
		{UserID: users["member"].ID, Target: below.ID, RoleID: role("member")},
		{UserID: users["reader"].ID, Target: below.ID, RoleID: role("reader")},
		{UserID: users["manager"].ID, Target: below.ID, RoleID: role("manager")},
		{UserID: users["inherited"].ID, Target: top.ID, RoleID: role("member"), Inherited: true},
		{GroupID: group.ID, Target: below.ID, RoleID: role("member")},
		{UserID: users["none"].ID, Target: top.ID, RoleID: role("member")},
	} {
		d.ok(d.Grant(t.Context(), g))
	}
	d.ok(d.AddMember(t.Context(), group.ID, users["grouped"].ID))
	holds := func(user, permission string) bool {
		t.Helper()
		a, err := d.store.Check(t.Context(), authz.CheckRequest{Object: rel.Object{Type: "project", ID: below.ID}, Relation: permission,
			Subject: rel.Subject{Type: "user", ID: users[user].ID}})
		d.ok(err)
		return a.Decision == expr.True
	}
	compare := func(permission, by string) {
		t.Helper()
		for name, u := range users {
			want := strings.Contains(strings.Join(d.roles(u.ID, below.ID), " "), by)
			if got := holds(name, permission); got != want {
				t.Errorf("%s of %s: %v, want %v", permission, name, got, want)
			}
		}
	}
	compare("compute_create", "member")
	compare("compute_list", "reader")

	// The same permissions write nothing; other ones replace them.
	head := d.head()
	_, err = d.SetPermissions(t.Context(), settings.Permissions{"compute_create": {"member"}, "compute_list": {"reader"}})
	d.ok(err)
	if d.head() != head {
		t.Error("the same permissions made an entry of the log")
	}
	_, err = d.SetPermissions(t.Context(), settings.Permissions{"compute_create": {"manager"}})
	d.ok(err)
	compare("compute_create", "manager")
	if _, err := d.store.Check(t.Context(), authz.CheckRequest{Object: rel.Object{Type: "project", ID: below.ID}, Relation: "compute_list",
		Subject: rel.Subject{Type: "user", ID: "x"}}); err == nil {
		t.Error("a permission that was removed can be asked about")
	}
}

func TestPermissionsValidate(t *testing.T) {
	t.Parallel()
	many := settings.Permissions{}
	for i := range settings.PermissionsMax {
		many[fmt.Sprintf("p%d", i)] = nil
	}
	if err := identity.ValidatePermissions(many); err != nil {
		t.Error(err)
	}
	many["more"] = nil
	for want, p := range map[string]settings.Permissions{
		"PermissionsMax":                      many,
		`invalid permission ""`:               {"": nil},
		`invalid permission "compute:create"`: {"compute:create": nil},
		"expected 1 to 40 letters":            {strings.Repeat("a", settings.PermissionBytesMax+1): nil},
		"have a relation of this name":        {"parent": nil},
	} {
		if err := identity.ValidatePermissions(p); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	if err := identity.ValidatePermissions(settings.Permissions{strings.Repeat("a", settings.PermissionBytesMax): nil}); err != nil {
		t.Error(err)
	}
}
