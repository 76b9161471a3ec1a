package identity_test

import (
	"testing"

	"github.com/ostiary/ostiary/internal/identity"
	"github.com/ostiary/ostiary/internal/identity/password"
	"github.com/ostiary/ostiary/internal/identity/settings"
)

// TestWrongLoginsAlike checks that a wrong login computes a hash of each form in use,
// whether the user exists and whatever the form of its hash, so that the time of the
// answer does not depend on whether a name exists.
func TestWrongLoginsAlike(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	s, err := identity.Open(t.Context(), d.store, settings.Deployment{Clock: d.clock.read, Rounds: 4, Compliance: settings.Compliance{LockoutAttempts: 3}})
	d.ok(err)
	imported := func(id string, rounds int) identity.Loaded {
		hash, err := password.Hash("secret", rounds)
		d.ok(err)
		return identity.Loaded{Record: identity.Record{Kind: identity.User, ID: id, Name: id, Created: d.clock.read(), Password: &identity.Password{}}, Secret: hash}
	}
	refused, err := s.LoadRecords(t.Context(), []identity.Loaded{imported("same", 4), imported("slow", 6), imported("locked", 5)})
	expectRefused(t, refused, err, nil)
	wrong := func(id, secret string) int {
		before := s.HashesComputed()
		if _, err := s.Login(t.Context(), id, "", "", secret); err == nil {
			t.Error(id, "logs in")
		}
		return s.HashesComputed() - before
	}
	if n := wrong("absent", "x"); n != 1 {
		t.Errorf("%d hashes before another form was seen, expected 1", n)
	}
	for range 3 { // locks the user
		wrong("locked", "x")
	}
	wrong("slow", "x")
	for id, secret := range map[string]string{"absent": "x", "same": "x", "slow": "x", "locked": "secret"} {
		if n := wrong(id, secret); n != 3 {
			t.Errorf("%s: %d hashes, expected one of each of 3 forms", id, n)
		}
	}
	before := s.HashesComputed()
	if _, err := s.Login(t.Context(), "same", "", "", "secret"); err != nil || s.HashesComputed()-before > 1 {
		t.Errorf("a right login computes %d hashes: %v", s.HashesComputed()-before, err)
	}
}
