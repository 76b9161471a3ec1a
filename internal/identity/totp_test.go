package identity_test

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ostiary/ostiary/internal/identity"
	"github.com/ostiary/ostiary/internal/identity/totp"
	"github.com/ostiary/ostiary/internal/workshop/failing"
	"github.com/ostiary/ostiary/storage/memory"
)

// seed makes a credential with a seed of one-time passwords for a user.
func (d *deployment) seed(user, text string) (*identity.Record, totp.Seed) {
	d.t.Helper()
	r, err := d.CreateCredential(d.t.Context(), identity.Record{Owner: user, Members: identity.Members{}.With("type", identity.TypeTOTP)}, text)
	d.ok(err)
	s, _ := totp.ParseSeed(text)
	return r, s
}

// passcode is the current one-time password.
func (d *deployment) passcode(s totp.Seed) string { return s.At(totp.Step(d.clock.read())) }

const (
	seedA = "GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ"
	seedB = "JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP"
)

func TestLoginTOTP(t *testing.T) {
	d := deploy(t)
	user, other := d.make(identity.Record{Kind: identity.User, Name: "u"}), d.make(identity.Record{Kind: identity.User, Name: "v"})
	d.seed(user.ID, "not base32!")
	_, a := d.seed(user.ID, seedA)
	_, b := d.seed(user.ID, seedB)
	login := func(id, code string) error {
		u, err := d.LoginTOTP(t.Context(), id, code)
		if err == nil && u.ID != user.ID {
			t.Errorf("got user %s, want %s", u.ID, user.ID)
		}
		return err
	}
	d.ok(login(user.ID, d.passcode(a)))
	d.fails(login(user.ID, d.passcode(a)), identity.Unauthorized, "wrong one-time password") // class A: a replay
	d.ok(login(user.ID, d.passcode(b)))                                                      // another seed
	d.fails(login("nope", d.passcode(b)), identity.Unauthorized, "nope")
	d.fails(login(other.ID, d.passcode(b)), identity.Unauthorized, "wrong")
	d.fails(login(user.ID, ""), identity.Unauthorized, "wrong")
	old := d.passcode(a)
	d.clock.move(totp.Period)
	d.fails(login(user.ID, old), identity.Unauthorized, "wrong") // the replay in the next period
	again := d.open()
	_, err := again.LoginTOTP(t.Context(), user.ID, old)
	d.fails(err, identity.Unauthorized, "wrong") // and after a restart
	early := d.passcode(a)
	d.clock.move(totp.Period)
	d.ok(login(user.ID, early)) // a period late
	_, err = d.Update(t.Context(), identity.User, user.ID, nil, false, func(r *identity.Record) error { r.Disabled = true; return nil })
	d.ok(err)
	d.fails(login(user.ID, d.passcode(a)), identity.Unauthorized, "disabled")
}

// TestGuesses tries wrong one-time passwords up to the bound, and then the right
// one.
func TestGuesses(t *testing.T) {
	d := deploy(t)
	user, other := d.make(identity.Record{Kind: identity.User, Name: "u"}), d.make(identity.Record{Kind: identity.User, Name: "v"})
	_, a := d.seed(user.ID, seedA)
	_, b := d.seed(other.ID, seedB)
	try := func(id, code string) error {
		_, err := d.LoginTOTP(t.Context(), id, code)
		return err
	}
	for range 4 {
		d.fails(try(user.ID, "x"), identity.Unauthorized, "wrong one-time password")
	}
	d.ok(try(user.ID, d.passcode(a)))
	d.fails(try(user.ID, "x"), identity.Unauthorized, "wrong one-time password")
	d.fails(try(user.ID, "x"), identity.Unauthorized, "too many")
	d.ok(try(other.ID, d.passcode(b)))
	d.clock.move(totp.Period)
	d.ok(try(user.ID, d.passcode(a)))
}

// TestOnePasswordManyLogins logs in with one password at the same time through
// two services of one store. One login succeeds.
func TestOnePasswordManyLogins(t *testing.T) {
	d := deploy(t)
	user := d.make(identity.Record{Kind: identity.User, Name: "u"})
	_, a := d.seed(user.ID, seedA)
	services := []*identity.Service{d.Service, d.open()}
	var won atomic.Int64
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			if _, err := services[i%2].LoginTOTP(t.Context(), user.ID, d.passcode(a)); err == nil {
				won.Add(1)
			}
		})
	}
	wg.Wait()
	if won.Load() != 1 {
		t.Errorf("%d logins with one password", won.Load())
	}
	d.clock.move(time.Minute)
	_, err := d.LoginTOTP(t.Context(), user.ID, d.passcode(a))
	d.ok(err)
}

// TestUncheckedPasscode logs in with one-time passwords while the storage fails or
// the user's seed is malformed. Such a password was not compared with anything, so
// it is no guess, and the user can log in afterwards.
func TestUncheckedPasscode(t *testing.T) {
	for _, lasting := range []bool{false, true} {
		for number := 1; ; number++ {
			broken, hit := uncheckedPasscode(t, failing.Fault{Number: number, Lasting: lasting})
			if !hit {
				break
			}
			if !errors.Is(broken, failing.ErrInjected) || errors.As(broken, new(*identity.Error)) {
				t.Errorf("operation %d fails, lasting: %v: the login returns %v, want the error of the storage", number, lasting, broken)
			}
		}
	}
}

// uncheckedPasscode logs in with the right password more often than guesses are
// allowed, while the storage is broken, and once more when it is not. It returns an
// error of the broken storage, and whether the fault occurs in a login.
func uncheckedPasscode(t *testing.T, f failing.Fault) (broken error, hit bool) {
	t.Helper()
	driver := failing.New(memory.New())
	t.Cleanup(func() { driver.Close() })
	d := deployOn(t, driver)
	user := d.make(identity.Record{Kind: identity.User, Name: "u"})
	_, a := d.seed(user.ID, seedA)
	for range 10 {
		driver.Break(f)
		_, broken = d.LoginTOTP(t.Context(), user.ID, d.passcode(a))
		if _, hit = driver.Mend(); !hit || !errors.Is(broken, failing.ErrInjected) {
			return broken, hit || broken != nil
		}
	}
	_, err := d.LoginTOTP(t.Context(), user.ID, d.passcode(a))
	d.ok(err)
	return broken, true
}

// TestPartlyCheckedPasscode compares wrong passwords with one of two seeds, because
// the storage fails at the other. They count as guesses: an error instead of a token
// shows that the password does not fit the first seed.
func TestPartlyCheckedPasscode(t *testing.T) {
	driver := failing.New(memory.New())
	t.Cleanup(func() { driver.Close() })
	d := deployOn(t, driver)
	user := d.make(identity.Record{Kind: identity.User, Name: "u"})
	_, a := d.seed(user.ID, seedA)
	d.seed(user.ID, seedB)
	for range 5 {
		driver.Break(failing.Fault{Number: 2, Only: []failing.Operation{failing.Secret}})
		if _, err := d.LoginTOTP(t.Context(), user.ID, "x"); !errors.Is(err, failing.ErrInjected) {
			t.Errorf("got %v, want the error of the storage", err)
		}
	}
	driver.Mend()
	_, err := d.LoginTOTP(t.Context(), user.ID, d.passcode(a))
	d.fails(err, identity.Unauthorized, "too many")
}

// TestMalformedSeed logs in as a user whose seeds are malformed. No password is
// right, and none counts as a guess. With a seed that can be checked, a wrong
// password counts.
func TestMalformedSeed(t *testing.T) {
	d := deploy(t)
	user := d.make(identity.Record{Kind: identity.User, Name: "u"})
	broken, _ := d.seed(user.ID, "not base32!")
	try := func(code string) error {
		_, err := d.LoginTOTP(t.Context(), user.ID, code)
		return err
	}
	for range 10 {
		d.fails(try("123456"), identity.Unauthorized, "no seed of one-time passwords of user "+user.ID+" can be read")
	}
	_, a := d.seed(user.ID, seedA)
	d.ok(try(d.passcode(a)))
	for range 5 {
		d.fails(try("x"), identity.Unauthorized, "wrong one-time password")
	}
	d.fails(try("x"), identity.Unauthorized, "too many")
	d.clock.move(totp.Period)
	_, err := d.UpdateCredential(t.Context(), broken.ID, seedB)
	d.ok(err)
	b, err := totp.ParseSeed(seedB)
	d.ok(err)
	d.ok(try(d.passcode(b)))
}
