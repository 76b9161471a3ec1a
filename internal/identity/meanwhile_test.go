package identity_test

import (
	"testing"
	"time"

	"github.com/ostiary/ostiary/internal/identity"
	"github.com/ostiary/ostiary/internal/identity/settings"
)

// meanwhile opens a service whose next reading of the clock runs what run is set
// to. So a test can do something in the middle of a call.
func (d *deployment) meanwhile(c settings.Compliance) (s *identity.Service, run *func()) {
	d.t.Helper()
	run = new(func())
	clock := func() time.Time {
		if f := *run; f != nil {
			*run = nil
			f()
		}
		return d.clock.read()
	}
	s, err := identity.Open(d.t.Context(), d.store, settings.Deployment{Clock: clock, Rounds: 4, Compliance: c})
	d.ok(err)
	return s, run
}

// TestLockedMeanwhile logs in with the right password while others lock the user.
func TestLockedMeanwhile(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	bob := d.user("bob", "right", "")
	s, run := d.meanwhile(settings.Compliance{LockoutAttempts: 3, LockoutDuration: time.Minute})
	wrong := func(times int) func() {
		return func() {
			for range times {
				if _, err := s.Login(t.Context(), bob.ID, "", "", "wrong"); err == nil {
					t.Error("a wrong password is accepted")
				}
			}
		}
	}
	*run = wrong(2)
	_, err := s.Login(t.Context(), bob.ID, "", "", "right")
	d.ok(err)
	*run = wrong(3)
	_, err = s.Login(t.Context(), bob.ID, "", "", "right")
	d.fails(err, identity.Unauthorized, "was locked after wrong passwords meanwhile")
	_, err = s.Login(t.Context(), bob.ID, "", "", "right")
	d.fails(err, identity.Unauthorized, "is locked after wrong passwords")
	// A wrong password that is verified when the lock has begun neither ends nor
	// extends it.
	d.clock.move(time.Minute)
	*run = func() { wrong(3)(); d.clock.move(30 * time.Second) }
	_, err = s.Login(t.Context(), bob.ID, "", "", "wrong")
	d.fails(err, identity.Unauthorized, "wrong password")
	_, err = s.Login(t.Context(), bob.ID, "", "", "right")
	d.fails(err, identity.Unauthorized, "is locked after wrong passwords")
	d.clock.move(30 * time.Second)
	_, err = s.Login(t.Context(), bob.ID, "", "", "right")
	d.ok(err)
}

// TestPasscodeUsedMeanwhile logs in with a one-time password that another login
// uses at the same time.
func TestPasscodeUsedMeanwhile(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	bob := d.make(identity.Record{Kind: identity.User, Name: "bob"})
	_, seed := d.seed(bob.ID, seedA)
	s, run := d.meanwhile(settings.Compliance{})
	*run = func() {
		_, err := s.LoginTOTP(t.Context(), bob.ID, d.passcode(seed))
		d.ok(err)
	}
	_, err := s.LoginTOTP(t.Context(), bob.ID, d.passcode(seed))
	d.fails(err, identity.Unauthorized, "was used before")
}
