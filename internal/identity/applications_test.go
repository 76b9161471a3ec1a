package identity_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ostiary/ostiary/internal/identity"
)

// member is a user with the role member on a project, and an own token for it.
func (d *deployment) member(name string, project string) (*identity.Record, *identity.Token) {
	d.t.Helper()
	user := d.make(identity.Record{Kind: identity.User, Name: name})
	d.grant(user.ID, project, "member")
	return user, d.token(user.ID, identity.Scope{ProjectID: project})
}

func (d *deployment) grant(user, target, role string) {
	d.t.Helper()
	d.ok(d.Grant(d.t.Context(), identity.Grant{UserID: user, Target: target, RoleID: d.find(identity.Role, role).ID}))
}

// token returns a token of a login by password.
func (d *deployment) token(user string, scope identity.Scope) *identity.Token {
	d.t.Helper()
	t, err := d.Issue(d.t.Context(), user, scope, []string{identity.MethodPassword}, nil)
	d.ok(err)
	return t
}

// application makes an application credential and returns it with its secret.
func (d *deployment) application(n identity.NewApplicationCredential) (*identity.Record, string) {
	d.t.Helper()
	if n.Name == "" {
		d.clock.move(time.Microsecond)
		n.Name = d.clock.read().String()
	}
	x, secret, err := d.CreateApplicationCredential(d.t.Context(), n)
	d.ok(err)
	return x, secret
}

// by returns a token of a login with an application credential.
func (d *deployment) by(x *identity.Record) (*identity.Token, error) {
	return d.Issue(d.t.Context(), x.Owner, identity.Scope{ApplicationCredentialID: x.ID}, []string{identity.MethodApplicationCredential}, nil)
}

// valid returns the roles of a token by name, or the error of its validation.
func (d *deployment) valid(t *identity.Token) ([]string, error) {
	v, err := d.Validate(d.t.Context(), t.Payload, t.Issued, 0)
	if err != nil {
		return nil, err
	}
	return names(v), nil
}

func names(t *identity.Token) (all []string) {
	for _, r := range t.Roles {
		all = append(all, r.Name)
	}
	slices.Sort(all)
	return all
}

func (d *deployment) equal(what string, got, want []string) {
	d.t.Helper()
	if !slices.Equal(got, want) {
		d.t.Errorf("%s: %v, want %v", what, got, want)
	}
}

func TestApplicationCredentialLogin(t *testing.T) {
	d := deploy(t)
	ctx := t.Context()
	user, own := d.member("u", d.find(identity.Project, "admin").ID)
	expires := d.clock.read().Add(30 * time.Minute)
	x, secret := d.application(identity.NewApplicationCredential{By: own, Name: "a", Expires: &expires})
	if len(secret) != 86 || strings.ContainsAny(secret, "+/=") {
		t.Errorf("secret %q: expected 86 characters of base64url", secret)
	}
	chosen, other := d.application(identity.NewApplicationCredential{By: own, Name: "b", Secret: "chosen"})
	for id, secret := range map[string]string{x.ID: secret, chosen.ID: other} {
		got, credential, err := d.LoginByApplicationCredential(ctx, id, secret)
		if err != nil || got.ID != user.ID || credential.ID != id {
			t.Errorf("login with %s: %v, %v", id, got, err)
		}
	}
	for name, login := range map[string][2]string{"wrong": {x.ID, "wrong"}, "empty": {x.ID, ""}, "of another": {x.ID, "chosen"}, "wrong chosen": {chosen.ID, secret}} {
		_, _, err := d.LoginByApplicationCredential(ctx, login[0], login[1])
		d.fails(err, identity.Unauthorized, "secret")
		if strings.Contains(err.Error(), "chosen") {
			t.Errorf("%s: the error has the secret: %v", name, err)
		}
	}
	_, _, err := d.LoginByApplicationCredential(ctx, "nope", secret)
	d.fails(err, identity.NotFound, "Could not find Application Credential: nope.")
	token, err := d.by(x)
	d.ok(err)
	if !token.Payload.Expires.Equal(expires) {
		t.Errorf("the token expires at %v, after the credential at %v", token.Payload.Expires, expires)
	}
	d.clock.move(30 * time.Minute)
	if _, err := d.valid(token); err == nil {
		t.Error("the token is valid after the end of the credential")
	}
	_, _, err = d.LoginByApplicationCredential(ctx, x.ID, secret)
	d.fails(err, identity.Unauthorized, "expired")
	_, err = d.by(x)
	d.fails(err, identity.Unauthorized, "Could not find")
}

// TestSecretsOfApplicationCredentials looks for secrets and hashes in all that the
// store shows.
func TestSecretsOfApplicationCredentials(t *testing.T) {
	d := deploy(t)
	_, own := d.member("u", d.find(identity.Project, "admin").ID)
	_, issued := d.application(identity.NewApplicationCredential{By: own})
	d.application(identity.NewApplicationCredential{By: own, Secret: "chosen-secret"})
	for _, text := range d.everything() {
		for _, secret := range []string{issued, "chosen-secret", "$sha256$", "$2b$"} {
			if strings.Contains(text, secret) {
				t.Errorf("the log shows %.20s: %s", secret, text)
			}
		}
	}
}

func TestRolesOfApplicationCredentials(t *testing.T) {
	d := deploy(t)
	ctx := t.Context()
	project := d.find(identity.Project, "admin").ID
	user, own := d.member("u", project)
	reader, member, admin := d.find(identity.Role, "reader").ID, d.find(identity.Role, "member").ID, d.find(identity.Role, "admin").ID
	for _, roles := range [][]string{{admin}, {reader, admin}, {"nope"}} {
		_, _, err := d.CreateApplicationCredential(ctx, identity.NewApplicationCredential{By: own, Name: "x", RoleIDs: roles})
		d.fails(err, identity.Invalid, "unassigned role")
	}
	all, _ := d.application(identity.NewApplicationCredential{By: own, Name: "all"})
	some, _ := d.application(identity.NewApplicationCredential{By: own, Name: "some", RoleIDs: []string{reader}})
	whole, err := d.by(all)
	d.ok(err)
	part, err := d.by(some)
	d.ok(err)
	d.equal("all roles", names(whole), []string{"member", "reader"})
	d.equal("one role", names(part), []string{"reader"})
	// A role that the user gets later is not delegated.
	d.grant(user.ID, project, "admin")
	later, err := d.valid(whole)
	d.ok(err)
	d.equal("after a grant", later, []string{"member", "reader"})
	for _, role := range []string{"admin", "member"} {
		d.ok(d.Revoke(ctx, identity.Grant{UserID: user.ID, Target: project, RoleID: d.find(identity.Role, role).ID}))
	}
	_, err = d.valid(whole)
	d.fails(err, identity.NotFound, "no role")
	_, err = d.by(all)
	d.fails(err, identity.Unauthorized, "no role")
	d.grant(user.ID, project, "reader")
	left, err := d.valid(whole)
	d.ok(err)
	d.equal("after the grant of one role", left, []string{"reader"})
	// Without a role that it carries, the credential ends.
	_, err = d.Update(ctx, identity.Role, member, nil, false, func(r *identity.Record) error {
		r.Members = r.Members.With("options", map[string]bool{"immutable": false})
		return nil
	})
	d.ok(err)
	d.ok(d.Delete(ctx, identity.Role, member))
	_, err = d.Get(ctx, identity.ApplicationCredential, all.ID)
	d.fails(err, identity.NotFound, all.ID)
	_, err = d.Get(ctx, identity.ApplicationCredential, some.ID)
	d.ok(err)
}

// TestCredentialsOfCredentials makes application credentials with a token of one.
// They never have more roles, a longer life or other access rules.
func TestCredentialsOfCredentials(t *testing.T) {
	d := deploy(t)
	ctx := t.Context()
	_, own := d.member("u", d.find(identity.Project, "admin").ID)
	reader, member := d.find(identity.Role, "reader").ID, d.find(identity.Role, "member").ID
	yes, end := true, d.clock.read().Add(24*time.Hour)
	rule := identity.Rule{Service: "compute", Method: "GET", Path: "/v2.1/**"}
	parent, _ := d.application(identity.NewApplicationCredential{By: own, RoleIDs: []string{reader}, Expires: &end, Unrestricted: &yes, Rules: []identity.Rule{rule}})
	token, err := d.by(parent)
	d.ok(err)
	child, _ := d.application(identity.NewApplicationCredential{By: token})
	if x := child.Delegation; !slices.Equal(x.RoleIDs, []string{reader}) || !x.Expires.Equal(end) || !slices.Equal(x.AccessRuleIDs, parent.Delegation.AccessRuleIDs) {
		t.Errorf("%+v has more than %+v", x, parent.Delegation)
	}
	sooner := end.Add(-time.Second)
	d.application(identity.NewApplicationCredential{By: token, Expires: &sooner, Rules: []identity.Rule{rule}})
	later := end.Add(time.Second)
	for name, n := range map[string]identity.NewApplicationCredential{
		"unassigned role":    {RoleIDs: []string{member}},
		"would expire after": {Expires: &later},
		"other access rules": {Rules: []identity.Rule{rule, {Service: "compute", Method: "POST", Path: "/v2.1/**"}}},
	} {
		n.By, n.Name = token, "more"
		_, _, err := d.CreateApplicationCredential(ctx, n)
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	restricted, _ := d.application(identity.NewApplicationCredential{By: own})
	token, err = d.by(restricted)
	d.ok(err)
	_, _, err = d.CreateApplicationCredential(ctx, identity.NewApplicationCredential{By: token, Name: "x"})
	d.fails(err, identity.Forbidden, "not allowed for managing")
	d.ok(token.ManageApplicationCredentials(false))
}

func TestBadApplicationCredentials(t *testing.T) {
	d := deploy(t)
	project := d.find(identity.Project, "admin").ID
	user, own := d.member("u", project)
	d.grant(user.ID, identity.DefaultDomain, "member")
	d.application(identity.NewApplicationCredential{By: own, Name: "taken"})
	past := d.clock.read()
	for _, x := range []struct {
		n      identity.NewApplicationCredential
		reason identity.Reason
		text   string
	}{
		{identity.NewApplicationCredential{By: own, Name: "taken"}, identity.Conflict, "Duplicate entry found with name taken."},
		{identity.NewApplicationCredential{By: own, Name: "x", Expires: &past}, identity.Invalid, "must not be before now"},
		{identity.NewApplicationCredential{By: own, Name: " "}, identity.Invalid, "1 to 255 characters"},
		{identity.NewApplicationCredential{By: own, Name: strings.Repeat("x", 256)}, identity.Invalid, "1 to 255 characters"},
		{identity.NewApplicationCredential{By: own, Name: "x", Secret: strings.Repeat("x", 73)}, identity.Invalid, "73 bytes"},
		{identity.NewApplicationCredential{By: own, Name: "x", Rules: []identity.Rule{{ID: "nope"}}}, identity.NotFound, "Could not find Access Rule: nope."},
		{identity.NewApplicationCredential{By: own, Name: "x", Rules: []identity.Rule{{Service: "s", Method: "GET", Path: "x"}}}, identity.Invalid, "begins with /"},
		{identity.NewApplicationCredential{By: own, Name: "x", Rules: []identity.Rule{{Service: "s", Method: "GET", Path: "/" + strings.Repeat("x", 225)}}}, identity.Invalid, "at most 225"},
		{identity.NewApplicationCredential{By: own, Name: "x", Rules: []identity.Rule{{Service: "s", Method: "get", Path: "/x"}}}, identity.Invalid, `"get" is not one of`},
		{identity.NewApplicationCredential{By: own, Name: "x", Rules: []identity.Rule{{Service: strings.Repeat("x", 65), Method: "GET", Path: "/x"}}}, identity.Invalid, "1 to 64"},
		{identity.NewApplicationCredential{By: d.token(user.ID, identity.Scope{}), Name: "x"}, identity.Forbidden, "scope of a project"},
		{identity.NewApplicationCredential{By: d.token(user.ID, identity.Scope{DomainID: identity.DefaultDomain}), Name: "x"}, identity.Forbidden, "scope of a project"},
	} {
		_, _, err := d.CreateApplicationCredential(t.Context(), x.n)
		d.fails(err, x.reason, x.text)
	}
	d.application(identity.NewApplicationCredential{By: own, Name: strings.Repeat("x", 255), Secret: strings.Repeat("x", 72),
		Rules: []identity.Rule{{Service: strings.Repeat("x", 64), Method: "GET", Path: "/" + strings.Repeat("x", 224)}}})
	other, theirs := d.member("other", project)
	x, _ := d.application(identity.NewApplicationCredential{By: theirs, Name: "taken", Rules: []identity.Rule{{Service: "s", Method: "GET", Path: "/x"}}})
	_, _, err := d.CreateApplicationCredential(t.Context(), identity.NewApplicationCredential{By: own, Name: "y", Rules: []identity.Rule{{ID: x.Delegation.AccessRuleIDs[0]}}})
	d.fails(err, identity.NotFound, "Could not find Access Rule")
	found, err := d.Find(t.Context(), identity.ApplicationCredential, other.ID, "taken")
	if err != nil || found.ID != x.ID {
		t.Errorf("found %v, %v", found, err)
	}
}

func TestAccessRules(t *testing.T) {
	d := deploy(t)
	ctx := t.Context()
	user, own := d.member("u", d.find(identity.Project, "admin").ID)
	get, post := identity.Rule{Service: "s", Method: "GET", Path: "/x"}, identity.Rule{Service: "s", Method: "POST", Path: "/x"}
	first, _ := d.application(identity.NewApplicationCredential{By: own, Rules: []identity.Rule{get, post, get}})
	if len(first.Delegation.AccessRuleIDs) != 2 {
		t.Errorf("rules %v, want 2", first.Delegation.AccessRuleIDs)
	}
	second, _ := d.application(identity.NewApplicationCredential{By: own, Rules: []identity.Rule{get, {ID: first.Delegation.AccessRuleIDs[1]}}})
	d.equal("the rules of the second credential", second.Delegation.AccessRuleIDs, first.Delegation.AccessRuleIDs)
	id := first.Delegation.AccessRuleIDs[0]
	d.fails(d.Delete(ctx, identity.AccessRule, id), identity.Forbidden, "May not delete access rule in use")
	token, err := d.by(first)
	d.ok(err)
	if len(token.AccessRules) != 2 || token.AccessRules[0].Rule() != (identity.Rule{ID: id, Service: "s", Method: "GET", Path: "/x"}) {
		t.Errorf("the rules of the token: %v", token.AccessRules)
	}
	d.ok(d.Delete(ctx, identity.ApplicationCredential, first.ID))
	_, err = d.valid(token)
	d.fails(err, identity.NotFound, "Could not find Application Credential")
	d.fails(d.Delete(ctx, identity.AccessRule, id), identity.Forbidden, "in use")
	d.ok(d.Delete(ctx, identity.ApplicationCredential, second.ID))
	d.ok(d.Delete(ctx, identity.AccessRule, id))
	left, err := d.Referring(ctx, identity.User, user.ID, identity.AccessRule)
	if err != nil || len(left) != 1 {
		t.Errorf("%d access rules, want 1: %v", len(left), err)
	}
}

// accessRule returns an access rule of service s with a path.
func accessRule(path string) *identity.Record {
	return &identity.Record{Kind: identity.AccessRule, Members: identity.Members{}.With("service", "s").With("method", "GET").With("path", path)}
}

func TestRulePermits(t *testing.T) {
	for _, x := range []struct {
		rule, path string
		want       bool
	}{
		{"/v3/users", "/v3/users", true}, {"/v3/users", "/v3/users/", false}, {"/v3/users", "/x/v3/users", false}, {"/v3/users", "/v3/users/x", false},
		{"/v3/users/*", "/v3/users/x", true}, {"/v3/users/*", "/v3/users/", false}, {"/v3/users/*", "/v3/users/x/y", false}, {"/v3/users/*", "/v3/users", false},
		{"/v3/{a}/*/x", "/v3/1/2/x", true}, {"/v3/{a}/*/x", "/v3/1/x", false}, {"/v3/a{b}c", "/v3/aXc", true}, {"/v3/a{b}c", "/v3/ac", false},
		{"/v3/**", "/v3/", true}, {"/v3/**", "/v3/a/b", true}, {"/v3/**/x", "/v3/a/b/x", true}, {"/v3/**/x", "/v3/a/b/y", false}, {"/***", "/a", true},
		{"/a.c", "/abc", false}, {"/a.c", "/a.c", true}, {"/(", "/(", true}, {"/{a", "/{a", true}, {"/a}", "/a}", true}, {"/[ab]", "/a", false}, {"/a|/b", "/b", false},
		{"/x", "/x\n", false}, {"/*", "/a%2Fb", true}, {"/**", "", false},
	} {
		r := accessRule(x.rule)
		if got := r.Permits("s", "GET", x.path); got != x.want {
			t.Errorf("%s permits %q: %v, want %v", x.rule, x.path, got, x.want)
		}
		if r.Permits("t", "GET", x.path) || r.Permits("s", "HEAD", x.path) {
			t.Errorf("%s permits another service or method", x.rule)
		}
	}
}

func FuzzRulePermits(f *testing.F) {
	f.Add("/v3/{a}/**/*", "/v3/x/y/z")
	f.Fuzz(func(t *testing.T, rule, path string) {
		r := accessRule(rule)
		if permitted := r.Permits("s", "GET", path); !strings.ContainsAny(rule, "*{") && permitted != (rule == path) {
			t.Errorf("%q permits %q: %v", rule, path, permitted)
		}
	})
}

// TestApplicationCredentialsEnd deletes and disables what application credentials
// depend on.
func TestApplicationCredentialsEnd(t *testing.T) {
	for name, end := range map[string]func(*deployment, *identity.Record) error{
		"user": func(d *deployment, x *identity.Record) error {
			return d.Delete(d.t.Context(), identity.User, x.Owner)
		},
		"project": func(d *deployment, x *identity.Record) error {
			return d.Delete(d.t.Context(), identity.Project, x.Delegation.ProjectID)
		},
		"domain": func(d *deployment, x *identity.Record) error {
			domain := d.domainOf(x.Owner)
			_, err := d.Update(d.t.Context(), identity.Project, domain, nil, false, func(r *identity.Record) error { r.Disabled = true; return nil })
			d.ok(err)
			return d.Delete(d.t.Context(), identity.Project, domain)
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := deploy(t)
			ctx := t.Context()
			domain := d.make(identity.Record{Kind: identity.Project, Name: "d", IsDomain: true})
			project := d.make(identity.Record{Kind: identity.Project, Name: "p", Domain: domain.ID})
			user := d.make(identity.Record{Kind: identity.User, Name: "u", Domain: domain.ID})
			d.grant(user.ID, project.ID, "member")
			x, secret := d.application(identity.NewApplicationCredential{By: d.token(user.ID, identity.Scope{ProjectID: project.ID}),
				Rules: []identity.Rule{{Service: "s", Method: "GET", Path: "/x"}}})
			token, err := d.by(x)
			d.ok(err)
			d.ok(end(d, x))
			if _, err := d.valid(token); err == nil {
				t.Error("the token is valid")
			}
			_, _, err = d.LoginByApplicationCredential(ctx, x.ID, secret)
			d.fails(err, identity.NotFound, x.ID)
			for _, s := range []*identity.Service{d.Service, d.open()} {
				for _, k := range []identity.Kind{identity.ApplicationCredential, identity.AccessRule} {
					left, _, err := s.List(ctx, identity.ListRequest{Kind: k})
					if want := map[bool]int{true: 1}[name == "project" && k == identity.AccessRule]; err != nil || len(left) != want {
						t.Errorf("%d records of kind %s, want %d: %v", len(left), k, want, err)
					}
				}
			}
		})
	}
}

// TestDisabledOwner disables and enables the owner of an application credential.
func TestDisabledOwner(t *testing.T) {
	d := deploy(t)
	user, own := d.member("u", d.find(identity.Project, "admin").ID)
	x, secret := d.application(identity.NewApplicationCredential{By: own})
	token, err := d.by(x)
	d.ok(err)
	disable := func(disabled bool) {
		t.Helper()
		_, err := d.Update(t.Context(), identity.User, user.ID, nil, false, func(r *identity.Record) error { r.Disabled = disabled; return nil })
		d.ok(err)
	}
	disable(true)
	_, _, err = d.LoginByApplicationCredential(t.Context(), x.ID, secret)
	d.fails(err, identity.Unauthorized, "disabled")
	_, err = d.by(x)
	d.fails(err, identity.Unauthorized, "disabled")
	disable(false)
	_, err = d.valid(token)
	d.fails(err, identity.NotFound, "Failed to validate token")
	_, err = d.by(x)
	d.ok(err)
}
