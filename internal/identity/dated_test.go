package identity_test

import (
	"context"
	"testing"
	"time"

	"github.com/ostiary/ostiary/internal/identity"
	"github.com/ostiary/ostiary/storage/memory"
	"github.com/ostiary/ostiary/storage/storagetest"
)

// TestTokensBeforeRevocations makes tokens while a revocation is decided and not
// durable yet, in a later second. They are not valid once the revocation is
// acknowledged; those that are made then are.
func TestTokensBeforeRevocations(t *testing.T) {
	t.Parallel()
	gate := &storagetest.Gate{Driver: memory.New()}
	t.Cleanup(func() { gate.Close() })
	d := deployOn(t, gate)
	project := d.make(identity.Record{Kind: identity.Project, Name: "p"})
	for what, revoke := range map[string]func(ctx context.Context, user, group *identity.Record, from *identity.Token) error{
		"a reset password": func(ctx context.Context, user, _ *identity.Record, _ *identity.Token) error {
			secret := "new"
			_, err := d.Update(ctx, identity.User, user.ID, &secret, false, func(*identity.Record) error { return nil })
			return err
		},
		"a changed password": func(ctx context.Context, user, _ *identity.Record, _ *identity.Token) error {
			return d.ChangePassword(ctx, user.ID, "old", "new")
		},
		"a user who was disabled": func(ctx context.Context, user, _ *identity.Record, _ *identity.Token) error {
			for _, disabled := range []bool{true, false} {
				if _, err := d.Update(ctx, identity.User, user.ID, nil, false, func(r *identity.Record) error { r.Disabled = disabled; return nil }); err != nil {
					return err
				}
			}
			return nil
		},
		"a left group": func(ctx context.Context, user, group *identity.Record, _ *identity.Token) error {
			return d.RemoveMember(ctx, group.ID, user.ID)
		},
		"a deleted group": func(ctx context.Context, _, group *identity.Record, _ *identity.Token) error {
			return d.Delete(ctx, identity.Group, group.ID)
		},
		"a revoked token": func(ctx context.Context, _, _ *identity.Record, from *identity.Token) error {
			return d.RevokeToken(ctx, from)
		},
	} {
		t.Run(what, func(t *testing.T) {
			ctx := t.Context()
			user := d.user(what, "old", "")
			d.grant(user.ID, project.ID, "member")
			group := d.make(identity.Record{Kind: identity.Group, Name: what})
			d.ok(d.AddMember(ctx, group.ID, user.ID))
			from := d.token(user.ID, identity.Scope{})
			login := func(secret string, from *identity.Token) *identity.Token {
				t.Helper()
				ctx := identity.WithProof(ctx, "")
				if from != nil {
					d.ok(d.RelyOn(ctx, from))
				} else if _, err := d.Login(ctx, user.ID, "", "", secret); err != nil {
					t.Fatal(err)
				}
				x, err := d.Issue(ctx, user.ID, identity.Scope{ProjectID: project.ID}, []string{"password"}, from)
				d.ok(err)
				return x
			}
			gate.Entered, gate.Leave = make(chan struct{}, 9), make(chan error, 9)
			ended := make(chan error, 1)
			go func() { ended <- revoke(ctx, user, group, from) }()
			<-gate.Entered
			d.clock.move(2 * time.Second)
			x := login("old", from)
			if what != "a revoked token" {
				x = login("old", nil)
			}
			for range cap(gate.Leave) {
				gate.Leave <- nil
			}
			d.ok(<-ended)
			gate.Entered, gate.Leave = nil, nil
			if _, err := d.valid(x); err == nil {
				t.Errorf("a token from before is valid after %s", what)
			}
			secret := "old"
			if d.login(user, secret) != nil {
				secret = "new"
			}
			if _, err := d.valid(login(secret, nil)); err != nil {
				t.Errorf("a token from after %s: %v", what, err)
			}
		})
	}
}

// TestRegroupedMeanwhile makes a token of a federated user while a login with other groups is
// decided and not durable yet, in a later second. It is not valid after that login.
func TestRegroupedMeanwhile(t *testing.T) {
	t.Parallel()
	gate := &storagetest.Gate{Driver: memory.New()}
	t.Cleanup(func() { gate.Close() })
	d := deployOn(t, gate)
	d.federate()
	from := d.federated("one")
	gate.Entered, gate.Leave = make(chan struct{}, 9), make(chan error, 9)
	ended := make(chan *identity.Token, 1)
	go func() { ended <- d.federated("two") }()
	<-gate.Entered
	d.clock.move(2 * time.Second)
	x, err := d.Issue(t.Context(), from.User.ID, identity.Scope{}, []string{"token"}, from)
	d.ok(err)
	for range cap(gate.Leave) {
		gate.Leave <- nil
	}
	after := <-ended
	if _, err := d.valid(x); err == nil {
		t.Error("a token with the groups from before is valid")
	}
	if _, err := d.valid(after); err != nil {
		t.Errorf("the token of the later login: %v", err)
	}
}

// TestRevokedBetween revokes the tokens of a user in the middle of a login with the
// password until then: after each look at the clock. The login fails, or its token is
// not valid.
func TestRevokedBetween(t *testing.T) {
	t.Parallel()
	for n := int64(1); ; n++ {
		d := deploy(t)
		bob := d.user("bob", "old", "")
		done := false
		s, _ := d.at(n, func() {
			done = true
			d.ok(d.set(bob, "new", false))
			d.clock.move(2 * time.Second)
		})
		ctx := identity.WithProof(t.Context(), "")
		_, err := s.Login(ctx, bob.ID, "", "", "old")
		if err == nil {
			var x *identity.Token
			if x, err = s.Issue(ctx, bob.ID, identity.Scope{}, []string{"password"}, nil); err == nil {
				_, err = d.valid(x)
			}
		}
		if !done {
			if n < 3 {
				t.Errorf("the clock is read %d times", n)
			}
			return
		}
		if err == nil {
			t.Errorf("reset at look %d at the clock: a token of the old password is valid", n)
		}
	}
}
