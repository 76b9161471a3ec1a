package identity_test

import (
	"testing"
	"time"

	"github.com/ostiary/ostiary/internal/identity"
	"github.com/ostiary/ostiary/internal/identity/mapping"
)

// ahead revokes the tokens of a user several times in one second, so that the next token of
// the user is dated later than the clock.
func (d *deployment) ahead(user *identity.Record) {
	d.t.Helper()
	for range 6 {
		d.ok(d.RevokeTokensOf(d.t.Context(), user.ID))
	}
}

// federate makes a provider of identities, whose users have the groups that it asserts: "one"
// and "two".
func (d *deployment) federate() {
	d.t.Helper()
	rules, err := identity.ParseMembers([]byte(`{"rules":[{"local":[{"user":{"name":"{0}"},"groups":"{1}","domain":{"id":"default"}}],"remote":[{"type":"OIDC-sub"},{"type":"groups"}]}]}`))
	d.ok(err)
	refused, err := d.LoadRecords(d.t.Context(), []identity.Loaded{
		{Record: identity.Record{Kind: identity.Mapping, ID: "m", Members: rules}},
		{Record: identity.Record{Kind: identity.IdentityProvider, ID: "idp", Domain: identity.DefaultDomain, Members: identity.Members{}.With("remote_ids", []string{"issuer"})}},
		{Record: identity.Record{Kind: identity.Protocol, ID: identity.ProtocolKey("idp", "openid"), Members: identity.Members{}.With("mapping_id", "m")}},
	})
	expectRefused(d.t, refused, err, nil)
	d.make(identity.Record{Kind: identity.Group, Name: "one"})
	d.make(identity.Record{Kind: identity.Group, Name: "two"})
}

// federated returns a token of a user of the provider, whom it asserts to be in a group.
func (d *deployment) federated(group string) *identity.Token {
	d.t.Helper()
	x, err := d.LoginFederated(d.t.Context(), identity.Assertion{ProviderID: "idp", ProtocolID: "openid", Issuer: "issuer",
		Attributes: mapping.Assertion{"OIDC-sub": {"dan"}, "groups": {group}}})
	d.ok(err)
	return x
}

// TestRevokedAhead makes tokens that are dated later than the clock, because the tokens of
// one of their users were revoked several times in one second, and ends each in that second,
// in each way that there is. The token is not valid any more, neither then nor later. A token
// of a login afterwards is valid, if there still can be one.
func TestRevokedAhead(t *testing.T) {
	t.Parallel()
	type act = func() error
	own := func(p *parties, scope identity.Scope) *identity.Token {
		p.ahead(p.anne)
		return p.token(p.anne.ID, scope)
	}
	project := func(p *parties) *identity.Token { return own(p, identity.Scope{ProjectID: p.project}) }
	// trusted is a token that bob made with a trust of anne. Tokens of the hurried user
	// were revoked in the same second.
	trusted := func(p *parties, impersonation bool, hurried *identity.Record) *identity.Token {
		n := p.new()
		n.Impersonation = impersonation
		x := p.trust(n)
		p.ahead(hurried)
		return p.used(p.bob, x)
	}
	// redelegated is a token that carl made with a trust of bob, who redelegates one of anne.
	redelegated := func(p *parties, hurried *identity.Record) *identity.Token {
		n := p.new()
		n.Redelegation = true
		p.grant(p.bob.ID, p.project, "member")
		from := p.used(p.bob, p.trust(n))
		x := p.trust(identity.NewTrust{By: from, TrustorID: p.bob.ID, TrusteeID: p.carl.ID, ProjectID: p.project, RoleIDs: []string{p.member}})
		p.ahead(hurried)
		return p.used(p.carl, x)
	}
	reset := func(p *parties, user *identity.Record) act {
		return func() error { return p.Service.RevokeTokensOf(t.Context(), user.ID) }
	}
	// switched disables a record and enables it again.
	switched := func(p *parties, k identity.Kind, id string) act {
		return func() error {
			p.disable(k, id)
			_, err := p.Update(t.Context(), k, id, nil, false, func(r *identity.Record) error { r.Disabled = false; return nil })
			return err
		}
	}
	remove := func(p *parties, k identity.Kind, id string) act {
		return func() error { return p.Delete(t.Context(), k, id) }
	}
	for what, make := range map[string]func(p *parties) (*identity.Token, act){
		"the token": func(p *parties) (*identity.Token, act) {
			x := project(p)
			return x, func() error { return p.RevokeToken(t.Context(), x) }
		},
		"a token that was made from another one": func(p *parties) (*identity.Token, act) {
			from := project(p)
			x, err := p.Issue(t.Context(), p.anne.ID, identity.Scope{}, []string{"token"}, from)
			p.ok(err)
			return x, func() error { return p.RevokeToken(t.Context(), x) }
		},
		"the token that it was made from": func(p *parties) (*identity.Token, act) {
			from := project(p)
			x, err := p.Issue(t.Context(), p.anne.ID, identity.Scope{}, []string{"token"}, from)
			p.ok(err)
			return x, func() error { return p.RevokeToken(t.Context(), from) }
		},
		"the earlier token that a token of a trust was made from": func(p *parties) (*identity.Token, act) {
			n := p.new()
			trust := p.trust(n)
			p.ahead(p.anne)
			from := p.token(p.bob.ID, identity.Scope{}) // dated by the clock, unlike the token of the trust
			x, err := p.Issue(t.Context(), p.bob.ID, identity.Scope{TrustID: trust.ID}, []string{"token"}, from)
			p.ok(err)
			return x, func() error { return p.RevokeToken(t.Context(), from) }
		},
		"all tokens of the user":  func(p *parties) (*identity.Token, act) { return project(p), reset(p, p.anne) },
		"an unscoped token":       func(p *parties) (*identity.Token, act) { return own(p, identity.Scope{}), reset(p, p.anne) },
		"a user who was disabled": func(p *parties) (*identity.Token, act) { return project(p), switched(p, identity.User, p.anne.ID) },
		"a reset password": func(p *parties) (*identity.Token, act) {
			user := p.user("eve", "old", "")
			p.ok(p.set(user, "newer", false))
			return p.token(user.ID, identity.Scope{}), func() error { return p.set(user, "newest", false) }
		},
		"a changed password": func(p *parties) (*identity.Token, act) {
			user := p.user("eve", "old", "")
			p.ok(p.ChangePassword(t.Context(), user.ID, "old", "newer"))
			return p.token(user.ID, identity.Scope{}), func() error { return p.ChangePassword(t.Context(), user.ID, "newer", "newest") }
		},
		"a left group": func(p *parties) (*identity.Token, act) {
			group := p.make(identity.Record{Kind: identity.Group, Name: "g"})
			p.ok(p.AddMember(t.Context(), group.ID, p.anne.ID))
			return project(p), func() error { return p.RemoveMember(t.Context(), group.ID, p.anne.ID) }
		},
		"a deleted group": func(p *parties) (*identity.Token, act) {
			group := p.make(identity.Record{Kind: identity.Group, Name: "g"})
			p.ok(p.AddMember(t.Context(), group.ID, p.anne.ID))
			return project(p), remove(p, identity.Group, group.ID)
		},
		"a deleted user":    func(p *parties) (*identity.Token, act) { return project(p), remove(p, identity.User, p.anne.ID) },
		"a deleted project": func(p *parties) (*identity.Token, act) { return project(p), remove(p, identity.Project, p.project) },
		"a deleted role": func(p *parties) (*identity.Token, act) {
			role := p.make(identity.Record{Kind: identity.Role, Name: "r"})
			other := p.make(identity.Record{Kind: identity.Project, Name: "other"})
			p.grant(p.anne.ID, other.ID, "r")
			return own(p, identity.Scope{ProjectID: other.ID}), remove(p, identity.Role, role.ID)
		},
		"a removed grant": func(p *parties) (*identity.Token, act) {
			return project(p), func() error {
				return p.Revoke(t.Context(), identity.Grant{UserID: p.anne.ID, Target: p.project, RoleID: p.member})
			}
		},
		"a deleted domain": func(p *parties) (*identity.Token, act) {
			domain := p.make(identity.Record{Kind: identity.Project, Name: "d", IsDomain: true})
			p.grant(p.anne.ID, domain.ID, "member")
			return own(p, identity.Scope{DomainID: domain.ID}), func() error {
				p.disable(identity.Project, domain.ID)
				return p.Delete(t.Context(), identity.Project, domain.ID)
			}
		},
		"a deleted application credential": func(p *parties) (*identity.Token, act) {
			p.own = p.token(p.anne.ID, identity.Scope{ProjectID: p.project})
			c, _ := p.application(identity.NewApplicationCredential{By: p.own})
			p.ahead(p.anne)
			x, err := p.by(c)
			p.ok(err)
			return x, remove(p, identity.ApplicationCredential, c.ID)
		},
		"the user of an application credential": func(p *parties) (*identity.Token, act) {
			c, _ := p.application(identity.NewApplicationCredential{By: p.own})
			p.ahead(p.anne)
			x, err := p.by(c)
			p.ok(err)
			return x, reset(p, p.anne)
		},
		"a deleted access token of OAuth 1": func(p *parties) (*identity.Token, act) {
			_, _, access, _ := p.oauthAccess(p.anne, p.project)
			return own(p, identity.Scope{AccessTokenID: access.ID}), remove(p, identity.AccessToken, access.ID)
		},
		"a deleted consumer of OAuth 1": func(p *parties) (*identity.Token, act) {
			consumer, _, access, _ := p.oauthAccess(p.anne, p.project)
			return own(p, identity.Scope{AccessTokenID: access.ID}), remove(p, identity.Consumer, consumer.ID)
		},
		"the user of an access token": func(p *parties) (*identity.Token, act) {
			_, _, access, _ := p.oauthAccess(p.anne, p.project)
			return own(p, identity.Scope{AccessTokenID: access.ID}), reset(p, p.anne)
		},
		"the user of an EC2 credential": func(p *parties) (*identity.Token, act) {
			p.ahead(p.anne)
			x, err := p.Issue(t.Context(), p.anne.ID, identity.Scope{ProjectID: p.project}, []string{identity.MethodEC2}, nil)
			p.ok(err)
			return x, reset(p, p.anne)
		},
		"a deleted trust": func(p *parties) (*identity.Token, act) {
			x := trusted(p, false, p.anne)
			return x, remove(p, identity.Trust, x.Trust.ID)
		},
		"the token of a trust": func(p *parties) (*identity.Token, act) {
			x := trusted(p, true, p.anne)
			return x, func() error { return p.RevokeToken(t.Context(), x) }
		},
		"the trustor after the trustor": func(p *parties) (*identity.Token, act) { return trusted(p, false, p.anne), reset(p, p.anne) },
		"the trustor after the trustee": func(p *parties) (*identity.Token, act) { return trusted(p, true, p.bob), reset(p, p.anne) },
		"the trustee after the trustor": func(p *parties) (*identity.Token, act) { return trusted(p, true, p.anne), reset(p, p.bob) },
		"a trustee who was disabled after the trustor": func(p *parties) (*identity.Token, act) {
			return trusted(p, false, p.anne), switched(p, identity.User, p.bob.ID)
		},
		"the first trustor after the last trustee": func(p *parties) (*identity.Token, act) { return redelegated(p, p.carl), reset(p, p.anne) },
		"the last trustee after the first trustor": func(p *parties) (*identity.Token, act) { return redelegated(p, p.anne), reset(p, p.carl) },
		"a redelegating user after the trustee":    func(p *parties) (*identity.Token, act) { return redelegated(p, p.carl), reset(p, p.bob) },
		"a group that a provider takes": func(p *parties) (*identity.Token, act) {
			p.federate()
			p.ahead(p.federated("one").User)
			return p.federated("one"), func() error { p.federated("two"); return nil }
		},
		"the user of a provider": func(p *parties) (*identity.Token, act) {
			p.federate()
			p.ahead(p.federated("one").User)
			x := p.federated("one")
			return x, reset(p, x.User)
		},
		"a deleted provider": func(p *parties) (*identity.Token, act) {
			p.federate()
			p.ahead(p.federated("one").User)
			return p.federated("one"), remove(p, identity.IdentityProvider, "idp")
		},
	} {
		t.Run(what, func(t *testing.T) {
			p := newParties(t)
			x, end := make(p)
			if _, err := p.valid(x); err != nil {
				t.Fatal("before:", err)
			}
			if !x.Issued.After(p.clock.read()) {
				t.Fatalf("the token is dated %v, the clock is %v", x.Issued, p.clock.read())
			}
			p.ok(end())
			for range 3 {
				if _, err := p.valid(x); err == nil {
					t.Errorf("the token is valid at %v, issued %v", p.clock.read(), x.Issued)
				}
				p.clock.move(5 * time.Second)
			}
			p.clock.move(-15 * time.Second)
			for _, user := range []*identity.Record{p.anne, p.bob, p.carl} {
				if next, err := p.Issue(t.Context(), user.ID, identity.Scope{}, []string{"password"}, nil); err == nil {
					if _, err = p.valid(next); err != nil {
						t.Errorf("a token of %s afterwards: %v", user.Name, err)
					}
				} else if what != "a deleted user" {
					t.Errorf("a login of %s afterwards: %v", user.Name, err)
				}
			}
		})
	}
}

// TestRevokedTooOften revokes a user's tokens so often within one second that a new token
// would be dated too far from the clock to be valid. No token is made until the clock is near.
func TestRevokedTooOften(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	bob := d.user("bob", "old", "")
	for range 302 {
		d.ok(d.RevokeTokensOf(t.Context(), bob.ID))
	}
	_, err := d.Issue(t.Context(), bob.ID, identity.Scope{}, []string{"password"}, nil)
	d.fails(err, identity.Unauthorized, "a token can be made 2s later")
	d.clock.move(2 * time.Second)
	_, err = d.valid(d.token(bob.ID, identity.Scope{}))
	d.ok(err)
}
