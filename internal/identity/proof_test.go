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

// at opens a service whose n-th reading of the clock from now on runs f. A call reads
// the clock where it verifies and where it writes. It returns how often the clock was
// read.
func (d *deployment) at(n int64, f func()) (s *identity.Service, reads *atomic.Int64) {
	d.t.Helper()
	reads = &atomic.Int64{}
	var open atomic.Bool
	clock := func() time.Time {
		if open.Load() && reads.Add(1) == n {
			f()
		}
		return d.clock.read()
	}
	s, err := identity.Open(d.t.Context(), d.store, settings.Deployment{Clock: clock, Rounds: 4})
	d.ok(err)
	open.Store(true)
	return s, reads
}

// reset sets a password as an administrator does.
func (d *deployment) reset(user *identity.Record, secret string) {
	d.t.Helper()
	_, err := d.Update(d.t.Context(), identity.User, user.ID, &secret, false, func(*identity.Record) error { return nil })
	d.ok(err)
}

// TestVerifyThenAct changes what a call verifies after the call has read it, and
// before the call acts: it makes no token and writes nothing.
func TestVerifyThenAct(t *testing.T) {
	t.Parallel()
	// Each case prepares a deployment, and returns what happens meanwhile and the
	// call.
	type act = func(s *identity.Service) error
	cases := map[string]func(d *deployment, bob *identity.Record) (meanwhile func(), call act){
		"login, reset": func(d *deployment, bob *identity.Record) (func(), act) {
			return func() { d.reset(bob, "new") }, func(s *identity.Service) error {
				_, err := s.Login(t.Context(), bob.ID, "", "", "old")
				return err
			}
		},
		"login, reset to the same password": func(d *deployment, bob *identity.Record) (func(), act) {
			return func() { d.reset(bob, "old") }, func(s *identity.Service) error {
				_, err := s.Login(t.Context(), bob.ID, "", "", "old")
				return err
			}
		},
		"login, user deleted": func(d *deployment, bob *identity.Record) (func(), act) {
			return func() { d.ok(d.Delete(t.Context(), identity.User, bob.ID)) }, func(s *identity.Service) error {
				_, err := s.Login(t.Context(), bob.ID, "", "", "old")
				return err
			}
		},
		"login, user disabled": func(d *deployment, bob *identity.Record) (func(), act) {
			return func() { d.disable(identity.User, bob.ID) }, func(s *identity.Service) error {
				_, err := s.Login(t.Context(), bob.ID, "", "", "old")
				return err
			}
		},
		"login, domain disabled": func(d *deployment, bob *identity.Record) (func(), act) {
			return func() { d.disable(identity.Project, bob.Domain) }, func(s *identity.Service) error {
				_, err := s.Login(t.Context(), bob.ID, "", "", "old")
				return err
			}
		},
		"change of a password, reset": func(d *deployment, bob *identity.Record) (func(), act) {
			return func() { d.reset(bob, "new") }, func(s *identity.Service) error {
				err := s.ChangePassword(t.Context(), bob.ID, "old", "mine")
				if _, err := d.Login(t.Context(), bob.ID, "", "", "new"); err != nil {
					t.Error("after the reset:", err)
				}
				return err
			}
		},
		"one-time password, other seed": func(d *deployment, bob *identity.Record) (func(), act) {
			r, seed := d.seed(bob.ID, seedA)
			code := d.passcode(seed)
			return func() { _, err := d.UpdateCredential(t.Context(), r.ID, seedB); d.ok(err) }, func(s *identity.Service) error {
				_, err := s.LoginTOTP(t.Context(), bob.ID, code)
				return err
			}
		},
		"one-time password, user disabled": func(d *deployment, bob *identity.Record) (func(), act) {
			_, seed := d.seed(bob.ID, seedA)
			return func() { d.disable(identity.User, bob.ID) }, func(s *identity.Service) error {
				_, err := s.LoginTOTP(t.Context(), bob.ID, d.passcode(seed))
				return err
			}
		},
		"application credential, deleted": func(d *deployment, bob *identity.Record) (func(), act) {
			x := d.chosen(bob)
			return func() { d.ok(d.Delete(t.Context(), identity.ApplicationCredential, x.ID)) }, func(s *identity.Service) error {
				_, _, err := s.LoginByApplicationCredential(t.Context(), x.ID, "chosen")
				return err
			}
		},
		"application credential, user disabled": func(d *deployment, bob *identity.Record) (func(), act) {
			x := d.chosen(bob)
			return func() { d.disable(identity.User, bob.ID) }, func(s *identity.Service) error {
				_, _, err := s.LoginByApplicationCredential(t.Context(), x.ID, "chosen")
				return err
			}
		},
		"new application credential, reset": func(d *deployment, bob *identity.Record) (func(), act) {
			by, end := d.scoped(bob), d.clock.read().Add(time.Minute)
			return func() { d.reset(bob, "new") }, func(s *identity.Service) error {
				_, _, err := s.CreateApplicationCredential(t.Context(), identity.NewApplicationCredential{By: by, Name: "x", Secret: "chosen", Expires: &end})
				return err
			}
		},
		"new trust, reset": func(d *deployment, bob *identity.Record) (func(), act) {
			by, end := d.scoped(bob), d.clock.read().Add(time.Minute)
			return func() { d.reset(bob, "new") }, func(s *identity.Service) error {
				_, err := s.CreateTrust(t.Context(), identity.NewTrust{By: by, TrustorID: bob.ID, TrusteeID: d.find(identity.User, "admin").ID, ProjectID: by.Scope.ProjectID, RoleIDs: []string{d.find(identity.Role, "member").ID}, Expires: &end})
				return err
			}
		},
		"EC2 request, other secret": func(d *deployment, bob *identity.Record) (func(), act) {
			return nil, func(s *identity.Service) error {
				r, b, err := d.CreateEC2(t.Context(), bob.ID, d.scoped(bob).Scope.ProjectID)
				d.ok(err)
				_, err = s.LoginEC2(t.Context(), b.Access, func(secret string) error {
					_, err := d.UpdateCredential(t.Context(), r.ID, strings.Replace(`{"access":"A","secret":"other"}`, "A", b.Access, 1))
					return err
				})
				return err
			}
		},
		"EC2 request, key made again": func(d *deployment, bob *identity.Record) (func(), act) {
			return nil, func(s *identity.Service) error {
				r, b, err := d.CreateEC2(t.Context(), bob.ID, d.scoped(bob).Scope.ProjectID)
				d.ok(err)
				_, err = s.LoginEC2(t.Context(), b.Access, func(secret string) error {
					d.ok(d.Delete(t.Context(), identity.Credential, r.ID))
					_, err := d.CreateCredential(t.Context(), *r, strings.Replace(`{"access":"A","secret":"other"}`, "A", b.Access, 1))
					return err
				})
				return err
			}
		},
		"OAuth 1 login, access token deleted": func(d *deployment, bob *identity.Record) (func(), act) {
			project := d.scoped(bob).Scope.ProjectID
			c, secret, a, accessSecret := d.oauthAccess(bob, project)
			return func() { d.ok(d.Delete(t.Context(), identity.AccessToken, a.ID)) }, func(s *identity.Service) error {
				_, _, err := s.LoginOAuth1(t.Context(), d.signedBy(c, secret, a.ID, accessSecret, ""))
				return err
			}
		},
		"OAuth 1 access token, authorized again": func(d *deployment, bob *identity.Record) (func(), act) {
			by := d.scoped(bob)
			c, secret := d.consumer()
			r, requested := d.requestToken(c, secret, by.Scope.ProjectID)
			role := []string{d.find(identity.Role, "member").ID}
			verifier, err := d.AuthorizeRequestToken(t.Context(), by, r.ID, role)
			d.ok(err)
			return func() { _, err := d.AuthorizeRequestToken(t.Context(), by, r.ID, role); d.ok(err) }, func(s *identity.Service) error {
				_, _, err := s.CreateAccessToken(t.Context(), d.signedBy(c, secret, r.ID, requested, verifier))
				return err
			}
		},
		"OAuth 1 request token, consumer deleted": func(d *deployment, bob *identity.Record) (func(), act) {
			c, secret := d.consumer()
			project := d.scoped(bob).Scope.ProjectID
			return func() { d.ok(d.Delete(t.Context(), identity.Consumer, c.ID)) }, func(s *identity.Service) error {
				_, _, err := s.CreateRequestToken(t.Context(), d.signedBy(c, secret, "", "", ""), project)
				return err
			}
		},
	}
	for name, prepare := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := deploy(t)
			meanwhile, call := prepare(d, d.user("bob", "old", ""))
			s, _ := d.at(1, func() {
				if meanwhile != nil {
					meanwhile()
				}
			})
			err := call(s)
			if !errors.Is(err, &identity.Error{Reason: identity.Unauthorized}) {
				t.Errorf("got %v, want Unauthorized", err)
			}
		})
	}
}

func (d *deployment) disable(k identity.Kind, id string) {
	d.t.Helper()
	_, err := d.Update(d.t.Context(), k, id, nil, false, func(r *identity.Record) error { r.Disabled = true; return nil })
	d.ok(err)
}

// scoped returns a token of a user with the role member on a project.
func (d *deployment) scoped(user *identity.Record) *identity.Token {
	d.t.Helper()
	project, err := d.Create(d.t.Context(), identity.Record{Kind: identity.Project, Name: "of " + user.Name}, nil)
	if err != nil {
		project = d.find(identity.Project, "of "+user.Name)
	}
	d.grant(user.ID, project.ID, "member")
	return d.token(user.ID, identity.Scope{ProjectID: project.ID})
}

// chosen makes an application credential with the secret "chosen".
func (d *deployment) chosen(user *identity.Record) *identity.Record {
	d.t.Helper()
	x, _, err := d.CreateApplicationCredential(d.t.Context(), identity.NewApplicationCredential{By: d.scoped(user), Name: "c", Secret: "chosen"})
	d.ok(err)
	return x
}

// oauthAccess makes a consumer and an access token.
func (d *deployment) oauthAccess(user *identity.Record, project string) (consumer *identity.Record, secret string, access *identity.Record, accessSecret string) {
	d.t.Helper()
	by := d.token(user.ID, identity.Scope{ProjectID: project})
	consumer, secret = d.consumer()
	r, requested := d.requestToken(consumer, secret, project)
	verifier, err := d.AuthorizeRequestToken(d.t.Context(), by, r.ID, []string{d.find(identity.Role, "member").ID})
	d.ok(err)
	access, accessSecret, err = d.CreateAccessToken(d.t.Context(), d.signedBy(consumer, secret, r.ID, requested, verifier))
	d.ok(err)
	return consumer, secret, access, accessSecret
}

// TestChangeAfterReset resets a password at each reading of the clock by a change of
// the old one, until the change is decided.
func TestChangeAfterReset(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	bob := d.user("bob", "old", "")
	s, reads := d.at(0, nil)
	_, err := s.Login(t.Context(), bob.ID, "", "", "old")
	d.ok(err)
	last := reads.Load() + 1 // the first reading of Update, before it hashes the new password
	if last < 4 {
		t.Fatalf("a login reads the clock %d times", last-1)
	}
	for n := int64(1); n <= last; n++ {
		d := deploy(t)
		bob := d.user("bob", "old", "")
		s, reads := d.at(n, func() { d.reset(bob, "new") })
		d.fails(s.ChangePassword(t.Context(), bob.ID, "old", "mine"), identity.Unauthorized, "was changed while it was verified")
		if _, err := s.Login(t.Context(), bob.ID, "", "", "new"); err != nil || reads.Load() < n {
			t.Errorf("reset at reading %d: %v", n, err)
		}
	}
}

// TestParallelChanges changes one password eight times at the same time. One change
// wins, and the password is that one's.
func TestParallelChanges(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	bob := d.user("bob", "old", "")
	other := d.open() // as another process would
	var all sync.WaitGroup
	var won atomic.Int64
	passwords := []string{"a", "b", "c", "d", "e", "f", "g", "h"}
	for i, secret := range passwords {
		s := []*identity.Service{d.Service, other}[i%2]
		all.Go(func() {
			switch err := s.ChangePassword(t.Context(), bob.ID, "old", secret); {
			case err == nil && !won.CompareAndSwap(0, int64(i+1)):
				t.Errorf("%s replaced an acknowledged password", secret)
			case err != nil && !errors.Is(err, &identity.Error{Reason: identity.Unauthorized}):
				t.Error(err)
			}
		})
	}
	all.Wait()
	if won.Load() == 0 {
		t.Fatal("no change succeeded")
	}
	_, err := d.Login(t.Context(), bob.ID, "", "", passwords[won.Load()-1])
	d.ok(err)
}

// TestProof uses what a request has verified after it has ended: for a token, for a
// receipt, and for writes.
func TestProof(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	bob := d.user("bob", "old", "")
	for what, act := range map[string]func(s *identity.Service) (before func() error, after func() error){
		"token after a password": func(s *identity.Service) (func() error, func() error) {
			ctx := identity.WithProof(t.Context(), "")
			return func() error { _, err := s.Login(ctx, bob.ID, "", "", "old"); return err },
				func() error {
					_, err := s.Issue(ctx, bob.ID, identity.Scope{}, []string{"password"}, nil)
					return err
				}
		},
		"receipt after a password": func(s *identity.Service) (func() error, func() error) {
			ctx := identity.WithProof(t.Context(), "")
			return func() error { _, err := s.Login(ctx, bob.ID, "", "", "old"); return err },
				func() error { _, _, err := s.NewReceipt(ctx, bob.ID, []string{"password"}); return err }
		},
		"token after a receipt": func(s *identity.Service) (func() error, func() error) {
			ctx := identity.WithProof(t.Context(), "")
			return func() error {
					r, issued, err := s.NewReceipt(t.Context(), bob.ID, []string{"password"})
					d.ok(err)
					_, err = s.UseReceipt(ctx, r, issued, bob.ID)
					return err
				}, func() error {
					_, err := s.Issue(ctx, bob.ID, identity.Scope{}, []string{"password"}, nil)
					return err
				}
		},
		"record after a token": func(s *identity.Service) (func() error, func() error) {
			ctx := identity.WithProof(t.Context(), "")
			return func() error { return s.RelyOn(ctx, d.token(bob.ID, identity.Scope{})) },
				func() error {
					_, err := s.Create(ctx, identity.Record{Kind: identity.Project, Name: "after"}, nil)
					return err
				}
		},
		"credential after a token": func(s *identity.Service) (func() error, func() error) {
			ctx := identity.WithProof(t.Context(), "")
			return func() error { return s.RelyOn(ctx, d.token(bob.ID, identity.Scope{})) },
				func() error { _, err := s.CreateCredential(ctx, identity.Record{Owner: bob.ID}, "x"); return err }
		},
		"token after a token": func(s *identity.Service) (func() error, func() error) {
			var from *identity.Token
			return func() error { from = d.token(bob.ID, identity.Scope{}); return nil },
				func() error {
					_, err := s.Issue(t.Context(), bob.ID, identity.Scope{}, []string{"token"}, from)
					return err
				}
		},
	} {
		before, after := act(d.Service)
		d.ok(before())
		d.ok(after())
		d.reset(bob, "new")
		if err := after(); !errors.Is(err, &identity.Error{Reason: identity.Unauthorized}) {
			t.Errorf("%s: got %v, want Unauthorized", what, err)
		}
		d.reset(bob, "old")
	}
}

// TestRescopeOfRevoked makes a token from one that was made from another one, and is
// revoked meanwhile. Its event covers neither the first nor the new one.
func TestRescopeOfRevoked(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	bob := d.user("bob", "old", "")
	first := d.token(bob.ID, identity.Scope{})
	second, err := d.Issue(t.Context(), bob.ID, identity.Scope{}, []string{"token"}, first)
	d.ok(err)
	d.ok(d.RevokeToken(t.Context(), second))
	_, err = d.Issue(t.Context(), bob.ID, identity.Scope{}, []string{"token"}, second)
	d.fails(err, identity.Unauthorized, "not valid any more")
	_, err = d.Issue(t.Context(), bob.ID, identity.Scope{}, []string{"token"}, first)
	d.ok(err)
}

// TestLaterRoles makes an application credential with a token from before its user
// gained one role and lost another one. It has neither.
func TestLaterRoles(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	bob := d.user("bob", "old", "")
	project := d.scoped(bob).Scope.ProjectID
	d.grant(bob.ID, project, "service")
	by := d.token(bob.ID, identity.Scope{ProjectID: project})
	d.grant(bob.ID, project, "manager")
	d.ok(d.Revoke(t.Context(), identity.Grant{UserID: bob.ID, Target: project, RoleID: d.find(identity.Role, "service").ID}))
	x, _, err := d.CreateApplicationCredential(t.Context(), identity.NewApplicationCredential{By: by, Name: "c"})
	d.ok(err)
	var names []string
	for _, id := range x.Delegation.RoleIDs {
		r, err := d.Get(t.Context(), identity.Role, id)
		d.ok(err)
		names = append(names, r.Name)
	}
	slices.Sort(names)
	d.equal("roles", names, []string{"member", "reader"})
}
