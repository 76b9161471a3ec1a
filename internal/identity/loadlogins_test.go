package identity_test

import (
	"strings"
	"testing"
	"time"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/internal/identity"
	"github.com/ostiary/ostiary/internal/identity/mapping"
	"github.com/ostiary/ostiary/internal/identity/password"
	"github.com/ostiary/ostiary/internal/identity/settings"
)

// TestLoadOfHistory loads users with previous passwords, wrong passwords and days
// of logins, to which the rules for passwords apply.
func TestLoadOfHistory(t *testing.T) {
	t.Parallel()
	d := deploy(t).comply(settings.Compliance{UniqueCount: 3, LockoutAttempts: 2, InactiveDays: 10})
	var hashes []string
	for _, secret := range []string{"third", "second", "first"} {
		hash, err := password.Hash(secret, 4)
		d.ok(err)
		hashes = append(hashes, hash)
	}
	now := d.clock.read()
	user := func(id string, l identity.Loaded) identity.Loaded {
		l.Record = identity.Record{Kind: identity.User, ID: id, Name: id, Created: now.AddDate(-1, 0, 0), Password: &identity.Password{}}
		l.Secret, l.Before = hashes[0], hashes[1:]
		return l
	}
	refused, err := d.LoadRecords(t.Context(), []identity.Loaded{
		user("active", identity.Loaded{Used: now}),
		user("locked", identity.Loaded{Used: now, Failures: 2, Failed: now}),
		user("idle", identity.Loaded{Used: now.AddDate(0, 0, -10)}),
		user("new", identity.Loaded{}),
	})
	expectRefused(t, refused, err, nil)
	get := func(id string) *identity.Record {
		r, err := d.Get(t.Context(), identity.User, id)
		d.ok(err)
		return r
	}
	d.ok(d.login(get("active"), "third"))
	d.fails(d.login(get("locked"), "third"), identity.Unauthorized, "is locked")
	d.fails(d.login(get("idle"), "third"), identity.Unauthorized, "disabled")
	d.fails(d.login(get("new"), "third"), identity.Unauthorized, "disabled")
	for _, secret := range []string{"third", "second", "first"} {
		d.fails(d.set(get("active"), secret, true), identity.Invalid, "identical to a previous password")
	}
	d.ok(d.set(get("active"), "fourth", true))
}

// TestLoadOfManyHashes loads more previous passwords than the rules can ask for. The
// newest ones are kept.
func TestLoadOfManyHashes(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	l := identity.Loaded{Secret: "current", Record: identity.Record{Kind: identity.User, ID: "u", Name: "u", Password: &identity.Password{}}}
	for range settings.UniqueCountMax {
		l.Before = append(l.Before, "before")
	}
	l.Before[settings.UniqueCountMax-1] = "oldest"
	refused, err := d.LoadRecords(t.Context(), []identity.Loaded{l})
	expectRefused(t, refused, err, nil)
	text := d.secretText("identity/password", "u")
	if lines := strings.Split(text, "\n"); len(lines) != settings.UniqueCountMax || lines[0] != "current" || lines[len(lines)-1] != "before" {
		t.Errorf("%d hashes, %q to %q", len(lines), lines[0], lines[len(lines)-1])
	}
}

// TestLoadOfFederatedUser loads a user with an id that is not the one that a first
// login gives. A login finds the user by the id at the identity provider.
func TestLoadOfFederatedUser(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	rules, err := identity.ParseMembers([]byte(`{"rules":[{"local":[{"user":{"name":"{0}"}}],"remote":[{"type":"OIDC-sub"}]}]}`))
	d.ok(err)
	dan := identity.Record{Kind: identity.User, ID: "old", Name: "dan", Domain: identity.DefaultDomain,
		Federated: &identity.Federated{ProviderID: "idp", ProtocolID: "openid", UniqueID: "dan"}}
	twin := dan
	twin.ID = "twin"
	refused, err := d.LoadRecords(t.Context(), []identity.Loaded{
		{Record: identity.Record{Kind: identity.Mapping, ID: "m", Members: rules}},
		{Record: identity.Record{Kind: identity.IdentityProvider, ID: "idp", Domain: identity.DefaultDomain, Members: identity.Members{}.With("remote_ids", []string{"issuer"})}},
		{Record: identity.Record{Kind: identity.Protocol, ID: identity.ProtocolKey("idp", "openid"), Members: identity.Members{}.With("mapping_id", "m")}},
		{Record: identity.Record{Kind: identity.Protocol, ID: identity.ProtocolKey("idp", "saml"), Members: identity.Members{}.With("mapping_id", "m")}},
		{Record: dan}, {Record: twin},
	})
	expectRefused(t, refused, err, map[int]identity.Reason{5: identity.Conflict})
	for protocol, found := range map[string]bool{"openid": true, "saml": false} {
		token, err := d.LoginFederated(t.Context(), identity.Assertion{ProviderID: "idp", ProtocolID: protocol, Issuer: "issuer", Attributes: mapping.Assertion{"OIDC-sub": {"dan"}}})
		d.ok(err)
		if (token.User.ID == "old") != found {
			t.Errorf("the login with %s is of user %s", protocol, token.User.ID)
		}
	}
	d.ok(d.Delete(t.Context(), identity.User, "old"))
	refused, err = d.LoadRecords(t.Context(), []identity.Loaded{{Record: twin}})
	expectRefused(t, refused, err, nil)
}

// TestLoadOfSecrets loads records whose secrets or ids are missing or have the wrong
// form.
func TestLoadOfSecrets(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	project := d.find(identity.Project, "admin").ID
	end := d.clock.read().Add(time.Hour)
	record := func(k identity.Kind, id string) identity.Record {
		return identity.Record{Kind: k, ID: id, Parent: "program", Delegation: &identity.Delegation{ProjectID: project, Expires: &end}}
	}
	config := func(domain, options string) identity.Record {
		m, err := identity.ParseMembers([]byte(options))
		d.ok(err)
		return identity.Record{Kind: identity.DomainConfig, ID: domain, Domain: domain, Members: m}
	}
	refused, err := d.LoadRecords(t.Context(), []identity.Loaded{
		{Record: identity.Record{Kind: identity.Consumer, ID: "program"}, Secret: "s"},
		{Record: identity.Record{Kind: identity.Consumer, ID: "bare"}},
		{Record: record(identity.RequestToken, "short"), Secret: strings.Repeat("s", 31)},
		{Record: record(identity.RequestToken, "long"), Secret: strings.Repeat("s", 33)},
		{Record: record(identity.RequestToken, "good"), Secret: strings.Repeat("s", 32), Verifier: "VERIFIER"},
		{Record: record(identity.AccessToken, "bare")},
		{Record: record(identity.AccessToken, "good"), Secret: "s"},
		{Record: config(identity.DefaultDomain, `{}`)},
		{Record: config(identity.DefaultDomain, `{"site":{"a":1}}`)},
		{Record: config(project, `{"ldap":{"url":"u"}}`)},
		{Record: config(identity.DefaultDomain, `{}`), Secret: `"of ldap"`},
		{Record: identity.Record{Kind: identity.Protocol, ID: "none"}},
		{Record: identity.Record{Kind: identity.EndpointFilter, Connects: map[identity.Kind]string{identity.Project: project, identity.Endpoint: "none"}}},
	})
	expectRefused(t, refused, err, map[int]identity.Reason{1: identity.Invalid, 2: identity.Invalid, 3: identity.Invalid, 5: identity.Invalid,
		7: identity.Forbidden, 8: identity.Forbidden, 9: identity.NotFound, 11: identity.Invalid, 12: identity.NotFound})
	for _, r := range refused {
		if strings.Contains(r.Err.Error(), "sss") {
			t.Errorf("the error has a secret: %v", r.Err)
		}
	}
	if got := d.secretText("identity/request_token-secret", "good"); got != strings.Repeat("s", 32)+" VERIFIER" {
		t.Errorf("the secret of the request token is %q", got)
	}
	if r, err := d.Get(t.Context(), identity.DomainConfig, identity.DefaultDomain); err != nil || !r.HasSecret || d.secretText("identity/domain_config-secret", r.ID) != `"of ldap"` {
		t.Errorf("configuration %v, error %v", r, err)
	}
}

// secretText returns a secret of the store.
func (d *deployment) secretText(kind, key string) string {
	d.t.Helper()
	s, err := d.store.Secret(d.t.Context(), authz.DocumentKey{Kind: kind, Key: key})
	d.ok(err)
	return string(s.Body)
}
