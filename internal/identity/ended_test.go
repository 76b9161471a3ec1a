package identity_test

import (
	"testing"

	"github.com/ostiary/ostiary/internal/identity"
)

// TestDisabledDomains disables the domain of a user, and that of a project in which
// the user has a role. Neither a login nor a token works meanwhile.
func TestDisabledDomains(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	set := func(id string, disabled bool) {
		_, err := d.Update(t.Context(), identity.Project, id, nil, false, func(r *identity.Record) error { r.Disabled = disabled; return nil })
		d.ok(err)
	}
	secret := "pass"
	home, other := d.make(identity.Record{Kind: identity.Project, Name: "home", IsDomain: true}), d.make(identity.Record{Kind: identity.Project, Name: "other", IsDomain: true})
	project := d.make(identity.Record{Kind: identity.Project, Name: "p", Domain: other.ID})
	user, err := d.Create(t.Context(), identity.Record{Kind: identity.User, Name: "u", Domain: home.ID}, &secret)
	d.ok(err)
	d.grant(user.ID, project.ID, "member")
	unscoped, scoped := d.token(user.ID, identity.Scope{}), d.token(user.ID, identity.Scope{ProjectID: project.ID})
	check := func(what string, login, token, scope bool) {
		t.Helper()
		_, loginErr := d.Login(t.Context(), user.ID, "", "", secret)
		_, tokenErr := d.valid(unscoped)
		_, scopeErr := d.valid(scoped)
		_, issueErr := d.Issue(t.Context(), user.ID, identity.Scope{ProjectID: project.ID}, []string{"password"}, nil)
		targets, err := d.Targets(t.Context(), user.ID)
		d.ok(err)
		if (loginErr == nil) != login || (tokenErr == nil) != token || (scopeErr == nil) != scope || (issueErr == nil) != scope {
			t.Errorf("%s: login %v, token %v, scoped token %v, new token %v", what, loginErr, tokenErr, scopeErr, issueErr)
		}
		if reachable := len(targets) == 1; what != "without the user's domain" && reachable != scope {
			t.Errorf("%s: targets %v", what, targets)
		}
	}
	check("before", true, true, true)
	set(home.ID, true)
	check("without the user's domain", false, false, false)
	set(home.ID, false)
	set(other.ID, true)
	check("without the project's domain", true, true, false)
	set(other.ID, false)
	check("after", true, true, true)
}

// TestLeftGroup removes a user from a group. The tokens from before are not valid
// any more, whether the group gave their roles or not, and new ones lack its roles.
func TestLeftGroup(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	user, group := d.make(identity.Record{Kind: identity.User, Name: "u"}), d.make(identity.Record{Kind: identity.Group, Name: "g"})
	project := d.make(identity.Record{Kind: identity.Project, Name: "p"})
	d.ok(d.AddMember(t.Context(), group.ID, user.ID))
	d.grant(user.ID, project.ID, "reader")
	d.ok(d.Grant(t.Context(), identity.Grant{GroupID: group.ID, Target: project.ID, RoleID: d.find(identity.Role, "member").ID}))
	tokens := []*identity.Token{d.token(user.ID, identity.Scope{}), d.token(user.ID, identity.Scope{ProjectID: project.ID})}
	d.equal("roles of a member", d.roles(user.ID, project.ID), []string{"member", "reader"})
	d.ok(d.RemoveMember(t.Context(), group.ID, user.ID))
	for i, x := range tokens {
		if _, err := d.valid(x); err == nil {
			t.Errorf("token %d is valid after the user left the group", i)
		}
	}
	roles, err := d.valid(d.token(user.ID, identity.Scope{ProjectID: project.ID}))
	d.ok(err)
	d.equal("roles of a new token", roles, []string{"reader"})
}

// TestRolesOfDomains grants a role of a domain on projects outside of it and on the
// system, and makes a global role imply it. In the domain itself the role gives what
// it implies.
func TestRolesOfDomains(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	home, other := d.make(identity.Record{Kind: identity.Project, Name: "home", IsDomain: true}), d.make(identity.Record{Kind: identity.Project, Name: "other", IsDomain: true})
	inside, outside := d.make(identity.Record{Kind: identity.Project, Name: "p", Domain: home.ID}), d.make(identity.Record{Kind: identity.Project, Name: "p", Domain: other.ID})
	role, second := d.make(identity.Record{Kind: identity.Role, Name: "r", Domain: home.ID}), d.make(identity.Record{Kind: identity.Role, Name: "s", Domain: home.ID})
	member := d.find(identity.Role, "member")
	user := d.make(identity.Record{Kind: identity.User, Name: "u"})
	d.fails(d.Imply(t.Context(), member.ID, role.ID), identity.Forbidden, "cannot imply role "+role.ID)
	d.ok(d.Imply(t.Context(), second.ID, role.ID))
	d.ok(d.Imply(t.Context(), role.ID, member.ID))
	for _, target := range []string{outside.ID, d.find(identity.Project, "admin").ID} {
		d.fails(d.Grant(t.Context(), identity.Grant{UserID: user.ID, Target: target, RoleID: role.ID}), identity.Forbidden, "cannot be granted on "+target)
	}
	d.fails(d.Grant(t.Context(), identity.Grant{UserID: user.ID, Target: identity.System, RoleID: role.ID}), identity.Invalid, "cannot be granted on the system")
	for _, target := range []string{home.ID, inside.ID} {
		d.ok(d.Grant(t.Context(), identity.Grant{UserID: user.ID, Target: target, RoleID: second.ID}))
		d.equal("roles on "+target, d.roles(user.ID, target), []string{"member", "reader"})
	}
	roles, err := d.valid(d.token(user.ID, identity.Scope{ProjectID: inside.ID}))
	d.ok(err)
	d.equal("roles of a token", roles, []string{"member", "reader"})
}

// TestUpdateOfDelegatedEC2 replaces the content of an EC2 credential that was made
// with delegated rights, as an import can bring one. The delegation stays.
func TestUpdateOfDelegatedEC2(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	user, project := d.make(identity.Record{Kind: identity.User, Name: "u"}), d.make(identity.Record{Kind: identity.Project, Name: "p"})
	for _, name := range []string{"trust_id", "app_cred_id", "access_token_id"} {
		id := identity.EC2ID(name)
		with := func(more string) string { return `{"access":"` + name + `","secret":"s"` + more + `}` }
		refused, err := d.LoadRecords(t.Context(), []identity.Loaded{{Record: identity.Record{Kind: identity.Credential, ID: id, Owner: user.ID,
			Members: identity.Members{}.With("type", identity.TypeEC2).With("project_id", project.ID)}, Secret: with(`,"` + name + `":"x"`)}})
		expectRefused(t, refused, err, nil)
		for _, text := range []string{with(""), with(`,"` + name + `":null`), with(`,"` + name + `":"y"`)} {
			_, err := d.UpdateCredential(t.Context(), id, text)
			d.fails(err, identity.Invalid, name+" can not be updated")
		}
		_, err = d.UpdateCredential(t.Context(), id, with(`,"`+name+`":"x","more":1`))
		d.ok(err)
		_, err = d.LoginEC2(t.Context(), name, func(string) error { return nil })
		d.fails(err, identity.Unauthorized, "delegated rights")
	}
}

// TestRolesOfAccessTokens takes roles from a user who gave them to a consumer. A
// token of the access token has those that are left, and never another role that
// the user has.
func TestRolesOfAccessTokens(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	user, project := d.make(identity.Record{Kind: identity.User, Name: "u"}), d.make(identity.Record{Kind: identity.Project, Name: "p"})
	a, _ := d.accessToken(user.ID, project.ID) // for the role member, which implies reader
	d.grant(user.ID, project.ID, "manager")
	x, err := d.Issue(t.Context(), user.ID, identity.Scope{AccessTokenID: a.ID}, []string{"oauth1"}, nil)
	d.ok(err)
	roles, err := d.valid(x)
	d.ok(err)
	d.equal("roles", roles, []string{"member", "reader"})
	d.grant(user.ID, project.ID, "reader")
	for _, name := range []string{"manager", "member"} {
		d.ok(d.Revoke(t.Context(), identity.Grant{UserID: user.ID, Target: project.ID, RoleID: d.find(identity.Role, name).ID}))
	}
	roles, err = d.valid(x)
	d.ok(err)
	d.equal("roles that are left", roles, []string{"reader"})
}
