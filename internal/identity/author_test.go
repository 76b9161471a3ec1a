package identity_test

import (
	"context"
	"testing"
	"time"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/internal/identity"
	"github.com/ostiary/ostiary/internal/identity/mapping"
	"github.com/ostiary/ostiary/internal/identity/settings"
	"github.com/ostiary/ostiary/storage"
)

// TestCallersWithoutToken makes each write whose caller has no token. Its entries
// name the user or the consumer whose secret the call rests on, and not the server.
// Work in the background names the collector.
func TestCallersWithoutToken(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	user, project := d.make(identity.Record{Kind: identity.User, Name: "u"}), d.make(identity.Record{Kind: identity.Project, Name: "p"})
	rules, err := identity.ParseMembers([]byte(`{"rules":[{"local":[{"user":{"name":"{0}"}}],"remote":[{"type":"OIDC-sub"}]}]}`))
	d.ok(err)
	refused, err := d.LoadRecords(t.Context(), []identity.Loaded{
		{Record: identity.Record{Kind: identity.Mapping, ID: "m", Members: rules}},
		{Record: identity.Record{Kind: identity.IdentityProvider, ID: "idp", Domain: identity.DefaultDomain, Members: identity.Members{}.With("remote_ids", []string{"issuer"})}},
		{Record: identity.Record{Kind: identity.Protocol, ID: identity.ProtocolKey("idp", "openid"), Members: identity.Members{}.With("mapping_id", "m")}},
	})
	expectRefused(t, refused, err, nil)
	_, seed := d.seed(user.ID, seedA)
	d.ok(d.Grant(t.Context(), identity.Grant{UserID: user.ID, Target: project.ID, RoleID: d.find(identity.Role, "member").ID}))
	bob := d.user("bob", "right", "")
	counting, err := identity.Open(t.Context(), d.store, settings.Deployment{Rounds: 4, Clock: d.clock.read,
		Compliance: settings.Compliance{LockoutAttempts: 2, LockoutDuration: time.Hour}})
	d.ok(err)

	consumer, secret := d.consumer()
	var request *identity.Record
	var requested string
	steps := []struct {
		name string
		call func(context.Context) (caller string, err error)
	}{
		{"a request token", func(ctx context.Context) (string, error) {
			request, requested, err = d.CreateRequestToken(ctx, d.signedBy(consumer, secret, "", "", ""), project.ID)
			return consumer.ID, err
		}},
		{"an access token", func(ctx context.Context) (string, error) {
			by, err := d.Issue(t.Context(), user.ID, identity.Scope{ProjectID: project.ID}, []string{"password"}, nil)
			d.ok(err)
			author := authz.AuthorOf(ctx)
			verifier, err := d.AuthorizeRequestToken(authz.WithAuthor(ctx, &authz.Author{Name: user.ID}), by, request.ID, []string{d.find(identity.Role, "member").ID})
			d.ok(err)
			_, _, err = d.CreateAccessToken(authz.WithAuthor(ctx, author), d.signedBy(consumer, secret, request.ID, requested, verifier))
			return user.ID, err
		}},
		{"a one-time password", func(ctx context.Context) (string, error) {
			_, err := d.LoginTOTP(ctx, user.ID, d.passcode(seed))
			return user.ID, err
		}},
		{"a federated user", func(ctx context.Context) (string, error) {
			token, err := d.LoginFederated(ctx, identity.Assertion{ProviderID: "idp", ProtocolID: "openid", Issuer: "issuer", Attributes: mapping.Assertion{"OIDC-sub": {"dan"}}})
			d.ok(err)
			return token.User.ID, nil
		}},
		{"a new password", func(ctx context.Context) (string, error) {
			return bob.ID, d.ChangePassword(ctx, bob.ID, "right", "newer")
		}},
		{"counts of logins", func(context.Context) (string, error) {
			_, err := counting.Login(t.Context(), bob.ID, "", "", "wrong")
			d.fails(err, identity.Unauthorized, "wrong password")
			return storage.CallerCollector, counting.Flush(t.Context())
		}},
	}
	for _, s := range steps {
		before, err := d.store.Head(t.Context())
		d.ok(err)
		author := &authz.Author{Name: storage.CallerLocal, Reason: "ticket 7"}
		want, err := s.call(authz.WithAuthor(t.Context(), author))
		d.ok(err)
		page, err := d.store.Changes(t.Context(), authz.ChangesRequest{After: before})
		d.ok(err)
		if len(page.Entries) == 0 {
			t.Errorf("%s made no entry", s.name)
		}
		for _, e := range page.Entries {
			if e.Origin.Caller != want {
				t.Errorf("%s: entry %d has the caller %q, want %q", s.name, e.Revision, e.Origin.Caller, want)
			}
		}
	}
	author := &authz.Author{Name: storage.CallerLocal}
	d.fails(d.ChangePassword(authz.WithAuthor(t.Context(), author), bob.ID, "wrong", "other"), identity.Unauthorized, "wrong password")
	if got := author.Name; got != storage.CallerLocal {
		t.Errorf("a wrong password makes %q the caller of the request", got)
	}
}
