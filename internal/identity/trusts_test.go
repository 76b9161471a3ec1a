package identity_test

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ostiary/ostiary/internal/identity"
	"github.com/ostiary/ostiary/internal/identity/settings"
)

// parties are the users of the tests of trusts: anne has the role member on the
// project, the others have no role.
type parties struct {
	*deployment
	project           string
	anne, bob, carl   *identity.Record
	own               *identity.Token // of anne
	member, reader    string
	unscoped, bobOwns *identity.Token // of anne and of bob
}

func newParties(t *testing.T) *parties {
	d := deploy(t)
	p := &parties{deployment: d, project: d.make(identity.Record{Kind: identity.Project, Name: "p"}).ID,
		member: d.find(identity.Role, "member").ID, reader: d.find(identity.Role, "reader").ID}
	p.anne, p.own = d.member("anne", p.project)
	p.bob, p.carl = d.make(identity.Record{Kind: identity.User, Name: "bob"}), d.make(identity.Record{Kind: identity.User, Name: "carl"})
	p.unscoped, p.bobOwns = d.token(p.anne.ID, identity.Scope{}), d.token(p.bob.ID, identity.Scope{})
	return p
}

// new returns a trust from anne to bob for the role member.
func (p *parties) new() identity.NewTrust {
	return identity.NewTrust{By: p.own, TrustorID: p.anne.ID, TrusteeID: p.bob.ID, ProjectID: p.project, RoleIDs: []string{p.member}}
}

func (p *parties) trust(n identity.NewTrust) *identity.Record {
	p.t.Helper()
	x, err := p.CreateTrust(p.t.Context(), n)
	p.ok(err)
	return x
}

// use returns a token that a user makes with a trust.
func (p *parties) use(user *identity.Record, x *identity.Record) (*identity.Token, error) {
	return p.Issue(p.t.Context(), user.ID, identity.Scope{TrustID: x.ID}, []string{identity.MethodPassword}, nil)
}

func (p *parties) used(user *identity.Record, x *identity.Record) *identity.Token {
	p.t.Helper()
	token, err := p.use(user, x)
	p.ok(err)
	return token
}

func number(n int) *int { return &n }

func TestTrust(t *testing.T) {
	p := newParties(t)
	end := p.clock.read().Add(10 * time.Minute)
	for _, impersonation := range []bool{true, false} {
		n := p.new()
		n.Impersonation, n.Expires = impersonation, &end
		token := p.used(p.bob, p.trust(n))
		want := p.bob
		if impersonation {
			want = p.anne
		}
		if token.User.ID != want.ID || token.Payload.UserID != p.bob.ID || token.Scope.ProjectID != p.project || !token.Payload.Expires.Equal(end) {
			t.Errorf("impersonation %v: %+v", impersonation, token)
		}
		p.equal("roles", names(token), []string{"member", "reader"})
	}
	for _, user := range []*identity.Record{p.anne, p.carl} {
		_, err := p.use(user, p.trust(p.new()))
		p.fails(err, identity.Forbidden, "not the trustee")
	}
	_, err := p.use(p.bob, &identity.Record{ID: "nope"})
	p.fails(err, identity.Unauthorized, "Could not find trust: nope.")
	_, err = p.Issue(t.Context(), p.bob.ID, identity.Scope{TrustID: "a", ApplicationCredentialID: "b"}, []string{"password"}, nil)
	p.fails(err, identity.Unauthorized, "cannot have")
}

func TestBadTrusts(t *testing.T) {
	p := newParties(t)
	past := p.clock.read()
	yes := true
	credential, _ := p.application(identity.NewApplicationCredential{By: p.own, Unrestricted: &yes})
	byCredential, err := p.by(credential)
	p.ok(err)
	for _, x := range []struct {
		name   string
		change func(*identity.NewTrust)
		reason identity.Reason
		text   string
	}{
		{"no roles", func(n *identity.NewTrust) { n.RoleIDs = nil }, identity.Forbidden, "At least one role"},
		{"a role that is not held", func(n *identity.NewTrust) { n.RoleIDs = append(n.RoleIDs, p.find(identity.Role, "admin").ID) }, identity.NotFound, "Could not find role"},
		{"an unknown role", func(n *identity.NewTrust) { n.RoleIDs = []string{"nope"} }, identity.NotFound, "Could not find role: nope."},
		{"another trustor", func(n *identity.NewTrust) { n.TrustorID = p.bob.ID }, identity.Forbidden, "should match the trustor"},
		{"another's token", func(n *identity.NewTrust) { n.By = p.bobOwns }, identity.Forbidden, "should match the trustor"},
		{"an application credential", func(n *identity.NewTrust) { n.By = byCredential }, identity.Forbidden, "Delegated tokens cannot manage trusts."},
		{"an unknown trustee", func(n *identity.NewTrust) { n.TrusteeID = "nope" }, identity.NotFound, "Could not find user: nope."},
		{"no project", func(n *identity.NewTrust) { n.ProjectID = "" }, identity.NotFound, "Could not find project"},
		{"a domain", func(n *identity.NewTrust) { n.ProjectID = identity.DefaultDomain }, identity.NotFound, "Could not find project"},
		{"the system", func(n *identity.NewTrust) { n.ProjectID = identity.System }, identity.NotFound, "Could not find project"},
		{"another project", func(n *identity.NewTrust) { n.ProjectID = p.find(identity.Project, "admin").ID }, identity.NotFound, "Could not find role"},
		{"the past", func(n *identity.NewTrust) { n.Expires = &past }, identity.Invalid, "must not be before now"},
		{"no uses", func(n *identity.NewTrust) { n.Uses = number(0) }, identity.Invalid, "positive"},
		{"uses and redelegation", func(n *identity.NewTrust) { n.Uses, n.Redelegation = number(1), true }, identity.Invalid, "must not be set if redelegation"},
		{"too many redelegations", func(n *identity.NewTrust) {
			n.Redelegation, n.Redelegations = true, number(identity.RedelegationsMax+1)
		}, identity.Forbidden, "greater than allowed 3"},
		{"negative redelegations", func(n *identity.NewTrust) { n.Redelegation, n.Redelegations = true, number(-1) }, identity.Forbidden, "greater than allowed"},
	} {
		n := p.new()
		x.change(&n)
		_, err := p.CreateTrust(t.Context(), n)
		if !errors.Is(err, &identity.Error{Reason: x.reason}) || !strings.Contains(err.Error(), x.text) {
			t.Errorf("%s: %v, want %q", x.name, err, x.text)
		}
	}
	for _, x := range []struct {
		change func(*identity.NewTrust)
		want   int
	}{
		{func(*identity.NewTrust) {}, 0}, {func(n *identity.NewTrust) { n.Redelegations = number(2) }, 0}, {func(n *identity.NewTrust) { n.Redelegation = true }, 3},
		{func(n *identity.NewTrust) { n.Redelegation, n.Redelegations = true, number(2) }, 2}, {func(n *identity.NewTrust) { n.Redelegation, n.Redelegations = true, number(0) }, 0},
		{func(n *identity.NewTrust) { n.By = p.unscoped }, 0}, {func(n *identity.NewTrust) { n.RoleIDs = []string{p.reader} }, 0},
	} {
		n := p.new()
		x.change(&n)
		if got := p.trust(n).Delegation.Redelegations; got != x.want {
			t.Errorf("%+v: %d redelegations, want %d", n, got, x.want)
		}
	}
}

// TestTrustUses makes tokens with a trust from several processes at once: as many
// as it has uses.
func TestTrustUses(t *testing.T) {
	p := newParties(t)
	n := p.new()
	n.Uses = number(5)
	x := p.trust(n)
	services := []*identity.Service{p.Service, p.open(), p.open()}
	var made, refused atomic.Int32
	var group sync.WaitGroup
	for i := range 24 {
		group.Go(func() {
			_, err := services[i%3].Issue(t.Context(), p.bob.ID, identity.Scope{TrustID: x.ID}, []string{"password"}, nil)
			switch {
			case err == nil:
				made.Add(1)
			case errors.Is(err, &identity.Error{Reason: identity.Unauthorized}):
				refused.Add(1)
			default:
				t.Error(err)
			}
		})
	}
	group.Wait()
	if made.Load() != 5 || refused.Load() != 19 {
		t.Errorf("%d tokens were made and %d refused, want 5 and 19", made.Load(), refused.Load())
	}
	_, err := p.TrustOf(t.Context(), x.ID)
	p.fails(err, identity.NotFound, x.ID)
	left, err := p.Get(t.Context(), identity.Trust, x.ID)
	if err != nil || *left.Delegation.Uses != 0 {
		t.Errorf("%+v, %v", left, err)
	}
}

// TestFailedLoginsUseNoTrust checks that only a token counts as a use.
func TestFailedLoginsUseNoTrust(t *testing.T) {
	p := newParties(t)
	n := p.new()
	n.Uses = number(1)
	x := p.trust(n)
	_, err := p.use(p.carl, x)
	p.fails(err, identity.Forbidden, "not the trustee")
	_, err = p.Update(t.Context(), identity.User, p.bob.ID, nil, false, func(r *identity.Record) error {
		r.Members = r.Members.With("options", map[string]any{"multi_factor_auth_rules": [][]string{{"password", "totp"}}})
		return nil
	})
	p.ok(err)
	if _, err := p.use(p.bob, x); err == nil {
		t.Error("a login with too few factors made a token")
	}
	_, err = p.Update(t.Context(), identity.User, p.bob.ID, nil, false, func(r *identity.Record) error { r.Members = nil; return nil })
	p.ok(err)
	token := p.used(p.bob, x)
	// The token of the last use stays valid.
	_, err = p.valid(token)
	p.ok(err)
	_, err = p.use(p.bob, x)
	p.fails(err, identity.Unauthorized, "no uses left")
}

func TestRedelegation(t *testing.T) {
	p := newParties(t)
	end := p.clock.read().Add(time.Hour)
	for _, impersonation := range []bool{true, false} {
		if !impersonation { // bob redelegates as himself, so he must have the role
			p.grant(p.bob.ID, p.project, "member")
			p.grant(p.carl.ID, p.project, "member")
		}
		n := p.new()
		n.Redelegation, n.Impersonation, n.Expires = true, impersonation, &end
		first := p.trust(n)
		token := p.used(p.bob, first)
		again := identity.NewTrust{By: token, TrustorID: token.User.ID, TrusteeID: p.carl.ID, ProjectID: p.project, RoleIDs: []string{p.member},
			Impersonation: impersonation, Redelegation: true}
		second := p.trust(again)
		if x := second.Delegation; x.SourceID != first.ID || x.Redelegations != 2 || !x.Expires.Equal(end) {
			t.Errorf("%+v", x)
		}
		third := again
		third.By, third.TrusteeID = p.used(p.carl, second), p.bob.ID
		third.TrustorID = third.By.User.ID
		earlier, earliest := end.Add(-time.Second), end.Add(-2*time.Second) // the chain returns to the same users
		third.Expires = &earlier
		thirdTrust := p.trust(third)
		fourth := third
		fourth.By, fourth.TrusteeID = p.used(p.bob, thirdTrust), p.carl.ID
		fourth.TrustorID, fourth.Expires = fourth.By.User.ID, &earliest
		last := p.trust(fourth)
		if last.Delegation.Redelegations != 0 {
			t.Errorf("%+v", last.Delegation)
		}
		fifth := fourth
		fifth.By, fifth.TrusteeID = p.used(p.carl, last), p.bob.ID
		fifth.TrustorID = fifth.By.User.ID
		_, err := p.CreateTrust(t.Context(), fifth)
		p.fails(err, identity.Forbidden, "does not allow redelegation")
		p.checkRedelegations(again)
		// A chain ends as a whole.
		deep := p.used(p.carl, last)
		p.ok(p.Delete(t.Context(), identity.Trust, second.ID))
		_, err = p.valid(deep)
		p.fails(err, identity.NotFound, "Could not find trust")
		for _, x := range []*identity.Record{second, thirdTrust, last} {
			_, err := p.Get(t.Context(), identity.Trust, x.ID)
			p.fails(err, identity.NotFound, x.ID)
		}
		_, err = p.valid(token)
		p.ok(err)
	}
}

// checkRedelegations tries to redelegate more than a trust gives.
func (p *parties) checkRedelegations(good identity.NewTrust) {
	p.t.Helper()
	later := p.clock.read().Add(time.Hour + time.Second)
	admin := p.find(identity.Project, "admin").ID
	p.grant(p.anne.ID, admin, "member")
	p.grant(p.anne.ID, p.project, "manager")
	for _, x := range []struct {
		change func(*identity.NewTrust)
		text   string
	}{
		{func(n *identity.NewTrust) { n.Expires = &later }, "Requested expiration time is more"},
		{func(n *identity.NewTrust) { n.RoleIDs = append(n.RoleIDs, p.find(identity.Role, "manager").ID) }, "not in redelegated trust"},
		{func(n *identity.NewTrust) { n.RoleIDs = []string{p.reader} }, "not in redelegated trust"},
		{func(n *identity.NewTrust) { n.ProjectID = admin }, "for another project"},
		{func(n *identity.NewTrust) { n.Uses, n.Redelegation = number(1), false }, "must not be set in order to redelegate"},
		{func(n *identity.NewTrust) { n.Redelegations = number(3) }, "Modifying"},
		{func(n *identity.NewTrust) { n.Redelegations = number(1) }, "Modifying"},
	} {
		n := good
		x.change(&n)
		_, err := p.CreateTrust(p.t.Context(), n)
		p.fails(err, identity.Forbidden, x.text)
	}
	for _, redelegation := range []bool{true, false} {
		if n := good; !n.Impersonation {
			n.Impersonation, n.Redelegation = true, redelegation
			_, err := p.CreateTrust(p.t.Context(), n)
			p.fails(err, identity.Forbidden, "Impersonation is not allowed")
		}
	}
}

// TestTrustorsLoseRoles takes roles from the trustors of a chain. Neither the
// trust nor its tokens work without all of its roles.
func TestTrustorsLoseRoles(t *testing.T) {
	p := newParties(t)
	p.grant(p.bob.ID, p.project, "member")
	n := p.new()
	n.Redelegation, n.RoleIDs = true, []string{p.member, p.reader}
	token := p.used(p.bob, p.trust(n))
	second := p.trust(identity.NewTrust{By: token, TrustorID: p.bob.ID, TrusteeID: p.carl.ID, ProjectID: p.project, RoleIDs: []string{p.member}})
	deep := p.used(p.carl, second)
	for _, user := range []*identity.Record{p.anne, p.bob} {
		g := identity.Grant{UserID: user.ID, Target: p.project, RoleID: p.member}
		p.ok(p.Revoke(t.Context(), g))
		p.grant(user.ID, p.project, "reader")
		_, err := p.valid(deep)
		p.fails(err, identity.NotFound, "no longer has role")
		_, err = p.use(p.carl, second)
		p.fails(err, identity.Forbidden, "no longer has role")
		p.ok(p.Grant(t.Context(), g))
		_, err = p.valid(deep)
		p.ok(err)
	}
}

// TestTrustsEnd changes what trusts depend on.
func TestTrustsEnd(t *testing.T) {
	disable := func(p *parties, k identity.Kind, id string) {
		_, err := p.Update(p.t.Context(), k, id, nil, false, func(r *identity.Record) error { r.Disabled = true; return nil })
		p.ok(err)
	}
	for name, x := range map[string]struct {
		end   func(*parties)
		login string // text of the error of a login; "" for a login that succeeds
		gone  bool   // the trust does not exist any more
	}{
		"trustor deleted":  {func(p *parties) { p.ok(p.Delete(p.t.Context(), identity.User, p.anne.ID)) }, "Could not find trust", true},
		"trustee deleted":  {func(p *parties) { p.ok(p.Delete(p.t.Context(), identity.User, p.bob.ID)) }, "Could not find", true},
		"project deleted":  {func(p *parties) { p.ok(p.Delete(p.t.Context(), identity.Project, p.project)) }, "Could not find trust", true},
		"role deleted":     {func(p *parties) { p.deleteRole("member") }, "no longer has role", false},
		"trustor disabled": {func(p *parties) { disable(p, identity.User, p.anne.ID) }, "disabled", false},
		"trustee disabled": {func(p *parties) { disable(p, identity.User, p.bob.ID) }, "disabled", false},
		"project disabled": {func(p *parties) { disable(p, identity.Project, p.project) }, "disabled", false},
		"expired":          {func(p *parties) { p.clock.move(time.Minute) }, "Could not find trust", false},
		"trustor's new password": {func(p *parties) {
			_, err := p.Update(p.t.Context(), identity.User, p.anne.ID, ref("new"), false, func(*identity.Record) error { return nil })
			p.ok(err)
		}, "", false},
		"trustee's new password": {func(p *parties) {
			_, err := p.Update(p.t.Context(), identity.User, p.bob.ID, ref("new"), false, func(*identity.Record) error { return nil })
			p.ok(err)
		}, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			p := newParties(t)
			end := p.clock.read().Add(time.Minute)
			n := p.new()
			n.Impersonation, n.Expires = true, &end
			trust := p.trust(n)
			token := p.used(p.bob, trust)
			x.end(p)
			if _, err := p.valid(token); !errors.Is(err, &identity.Error{Reason: identity.NotFound}) {
				t.Errorf("the token: %v, want NotFound", err)
			}
			fresh, err := p.use(p.bob, trust)
			if x.login == "" {
				p.ok(err)
				_, err = p.valid(fresh)
				p.ok(err)
			} else if err == nil || !strings.Contains(err.Error(), x.login) {
				t.Errorf("login: %v, want %q", err, x.login)
			}
			for _, s := range []*identity.Service{p.Service, p.open()} {
				if _, err := s.Get(t.Context(), identity.Trust, trust.ID); errors.Is(err, &identity.Error{Reason: identity.NotFound}) != x.gone {
					t.Errorf("the trust: %v", err)
				}
			}
		})
	}
}

func (p *parties) deleteRole(name string) {
	p.t.Helper()
	id := p.find(identity.Role, name).ID
	_, err := p.Update(p.t.Context(), identity.Role, id, nil, false, func(r *identity.Record) error { r.Members = nil; return nil })
	p.ok(err)
	p.ok(p.Delete(p.t.Context(), identity.Role, id))
}

// TestDeleteTrust deletes trusts with tokens of trusts.
func TestDeleteTrust(t *testing.T) {
	p := newParties(t)
	n := p.new()
	n.Redelegation, n.Impersonation = true, true
	mine, other := p.trust(n), p.trust(n)
	token := p.used(p.bob, mine)
	below := p.trust(identity.NewTrust{By: token, TrustorID: p.anne.ID, TrusteeID: p.carl.ID, ProjectID: p.project, RoleIDs: []string{p.member}})
	p.fails(p.DeleteTrust(t.Context(), token, other.ID), identity.Forbidden, "cannot delete another trust")
	p.fails(p.DeleteTrust(t.Context(), p.used(p.carl, below), mine.ID), identity.Forbidden, "cannot delete another trust")
	p.fails(p.DeleteTrust(t.Context(), token, "nope"), identity.NotFound, "nope")
	p.ok(p.DeleteTrust(t.Context(), token, below.ID))
	p.ok(p.DeleteTrust(t.Context(), token, mine.ID))
	p.ok(p.DeleteTrust(t.Context(), p.own, other.ID))
	left, err := p.Referring(t.Context(), identity.User, p.anne.ID, identity.Trust)
	if err != nil || len(left) != 0 {
		t.Errorf("%d trusts are left: %v", len(left), err)
	}
}

// TestForeignDelegations validates tokens that name a delegation of another user
// or of another project, as a server that shares the keys could make them.
func TestForeignDelegations(t *testing.T) {
	p := newParties(t)
	other := p.make(identity.Record{Kind: identity.Project, Name: "other"}).ID
	for _, user := range []*identity.Record{p.anne, p.bob} {
		for _, project := range []string{p.project, other} {
			p.grant(user.ID, project, "member")
		}
	}
	credential, _ := p.application(identity.NewApplicationCredential{By: p.own})
	byCredential, err := p.by(credential)
	p.ok(err)
	for _, good := range []*identity.Token{byCredential, p.used(p.bob, p.trust(p.new()))} {
		for _, change := range []func(*identity.Token){
			func(t *identity.Token) { t.Payload.ProjectID = other },
			func(t *identity.Token) { t.Payload.UserID = p.carl.ID },
			func(t *identity.Token) {
				t.Payload.UserID = map[string]string{p.anne.ID: p.bob.ID, p.bob.ID: p.anne.ID}[t.Payload.UserID]
			},
		} {
			payload := *good.Payload
			bad := &identity.Token{Payload: &payload, Issued: good.Issued}
			change(bad)
			if _, err := p.valid(bad); !errors.Is(err, &identity.Error{Reason: identity.NotFound}) {
				t.Errorf("%+v: %v, want NotFound", payload, err)
			}
		}
	}
}

// TestRemoveEndedTrusts removes trusts that have expired, and one without uses left
// once its token has ended. Others stay, and lists by user find them.
func TestRemoveEndedTrusts(t *testing.T) {
	p := newParties(t)
	end := p.clock.read().Add(10 * time.Minute)
	expiring, single := p.new(), p.new()
	expiring.Expires, single.Uses = &end, number(1)
	ends, used, stays := p.trust(expiring), p.trust(single), p.trust(p.new())
	p.used(p.bob, used)
	check := func(removed int, want ...*identity.Record) {
		t.Helper()
		n, err := p.RemoveEndedTrusts(t.Context())
		p.ok(err)
		view, err := p.View(t.Context())
		p.ok(err)
		for _, user := range [][2]string{{"", ""}, {p.anne.ID, ""}, {"", p.bob.ID}, {p.anne.ID, p.bob.ID}} {
			var got, ids []string
			for r, err := range view.Trusts(t.Context(), user[0], user[1]) {
				p.ok(err)
				got = append(got, r.ID)
			}
			for _, r := range want {
				ids = append(ids, r.ID)
			}
			slices.Sort(ids)
			p.equal("trusts", got, ids)
		}
		for r := range view.Trusts(t.Context(), p.bob.ID, "") {
			t.Errorf("bob is the trustor of %s", r.ID)
		}
		if n != removed {
			t.Errorf("removed %d, want %d", n, removed)
		}
	}
	check(0, ends, used, stays)
	p.clock.move(10 * time.Minute)
	check(1, used, stays)
	p.clock.move(time.Hour + settings.ExpiredWindowDefault)
	check(1, stays)
}
