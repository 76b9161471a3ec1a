package identity_test

import (
	"strings"
	"testing"
	"time"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/internal/identity"
	"github.com/ostiary/ostiary/internal/identity/settings"
)

// comply opens a service of the deployment's store with rules.
func (d *deployment) comply(c settings.Compliance) *deployment {
	d.t.Helper()
	s, err := identity.Open(d.t.Context(), d.store, settings.Deployment{Clock: d.clock.read, Rounds: 4, Compliance: c, ExpiredWindow: 2000 * time.Hour})
	if err != nil {
		d.t.Fatal(err)
	}
	out := *d
	out.Service = s
	return &out
}

// user creates a user with a password and resource options, in JSON.
func (d *deployment) user(name, secret, options string) *identity.Record {
	d.t.Helper()
	members, err := identity.ParseMembers([]byte(`{"options":{` + options + `}}`))
	d.ok(err)
	r, err := d.Create(d.t.Context(), identity.Record{Kind: identity.User, Name: name, Members: members}, &secret)
	d.ok(err)
	return r
}

// login logs in by password.
func (d *deployment) login(user *identity.Record, secret string) error {
	_, err := d.Login(d.t.Context(), user.ID, "", "", secret)
	return err
}

// set sets a password, as the user or as an administrator.
func (d *deployment) set(user *identity.Record, secret string, byOwner bool) error {
	_, err := d.Update(d.t.Context(), identity.User, user.ID, &secret, byOwner, func(*identity.Record) error { return nil })
	return err
}

func (d *deployment) head() authz.Token {
	d.t.Helper()
	head, err := d.store.Head(d.t.Context())
	d.ok(err)
	return head
}

func TestLockout(t *testing.T) {
	t.Parallel()
	d := deploy(t).comply(settings.Compliance{LockoutAttempts: 3, LockoutDuration: time.Minute})
	bob, free := d.user("bob", "right", ""), d.user("free", "right", `"ignore_lockout_failure_attempts":true`)
	head := d.head()
	for range 2 {
		d.fails(d.login(bob, "wrong"), identity.Unauthorized, "wrong password")
	}
	d.ok(d.login(bob, "right")) // begins again
	for range 3 {
		d.fails(d.login(bob, "wrong"), identity.Unauthorized, "wrong password")
		d.fails(d.login(free, "wrong"), identity.Unauthorized, "wrong password")
	}
	d.fails(d.login(bob, "right"), identity.Unauthorized, "is locked")
	d.ok(d.login(free, "right"))
	if d.head() != head {
		t.Error("a wrong password made an entry of the log")
	}

	// Another process sees the lock when it is stored, by one entry.
	other := d.comply(settings.Compliance{LockoutAttempts: 3, LockoutDuration: time.Minute})
	d.ok(other.login(bob, "right"))
	d.ok(d.Flush(t.Context()))
	if d.entries(head) != 1 {
		t.Errorf("%d entries, want 1", d.entries(head))
	}
	head = d.head()
	d.ok(d.Flush(t.Context()))
	if d.head() != head {
		t.Error("a flush without a change made an entry")
	}
	d.fails(other.login(bob, "right"), identity.Unauthorized, "is locked")

	// The lock ends after a minute without an attempt that counts.
	d.clock.move(59 * time.Second)
	d.fails(d.login(bob, "wrong"), identity.Unauthorized, "is locked")
	d.clock.move(time.Second)
	d.fails(d.login(bob, "wrong"), identity.Unauthorized, "wrong password")
	d.ok(d.login(bob, "right"))
}

// entries returns the number of log entries after a token.
func (d *deployment) entries(after authz.Token) int {
	d.t.Helper()
	page, err := d.store.Changes(d.t.Context(), authz.ChangesRequest{After: after})
	d.ok(err)
	return len(page.Entries)
}

// TestLockoutForever: only an administrator ends the lock.
func TestLockoutForever(t *testing.T) {
	t.Parallel()
	d := deploy(t).comply(settings.Compliance{LockoutAttempts: 1, LockoutDuration: -1})
	bob := d.user("bob", "right", "")
	d.fails(d.login(bob, "wrong"), identity.Unauthorized, "wrong password")
	d.clock.move(10_000 * time.Hour)
	d.fails(d.login(bob, "right"), identity.Unauthorized, "is locked")
	_, err := d.Update(t.Context(), identity.User, bob.ID, nil, false, func(r *identity.Record) error { r.Disabled = false; return nil })
	d.ok(err)
	d.ok(d.login(bob, "right"))
	// Counts of a deleted user are not stored.
	d.fails(d.login(bob, "wrong"), identity.Unauthorized, "wrong password")
	d.ok(d.Flush(t.Context()))
	d.ok(d.Delete(t.Context(), identity.User, bob.ID))
	d.ok(d.Flush(t.Context()))
	head := d.head()
	eve := d.user("eve", "right", "")
	d.fails(d.login(eve, "wrong"), identity.Unauthorized, "wrong password")
	d.ok(d.Delete(t.Context(), identity.User, eve.ID))
	d.ok(d.Flush(t.Context()))
	if n := d.entries(head); n != 2 {
		t.Errorf("%d entries for a creation and a deletion, want 2", n)
	}
}

func TestPasswordExpiry(t *testing.T) {
	t.Parallel()
	d := deploy(t).comply(settings.Compliance{ExpiresDays: 10, MinimumAgeDays: 2})
	bob, free := d.user("bob", "one", ""), d.user("free", "one", `"ignore_password_expiry":true`)
	if bob.Password.Expires == nil || bob.Password.Expires.Sub(d.clock.read()) != 240*time.Hour || free.Password.Expires != nil {
		t.Errorf("expires %v and %v", bob.Password.Expires, free.Password.Expires)
	}
	d.clock.move(240*time.Hour - time.Second)
	d.ok(d.login(bob, "one"))
	d.clock.move(time.Second)
	d.fails(d.login(bob, "one"), identity.PasswordAge, "The password is expired and needs to be changed for user: "+bob.ID)
	d.fails(d.login(bob, "two"), identity.Unauthorized, "wrong password")
	d.ok(d.login(free, "one"))
	// A password that an administrator set may be changed at once, and a chosen one
	// after two days. An administrator may always set one.
	d.ok(d.set(bob, "two", true))
	d.ok(d.login(bob, "two"))
	d.clock.move(48*time.Hour - time.Second)
	d.fails(d.set(bob, "three", true), identity.Invalid, "it must be used for 2 day(s)")
	d.ok(d.set(bob, "three", false))
	d.ok(d.set(bob, "four", true))
	d.clock.move(48 * time.Hour)
	d.ok(d.set(bob, "five", true))
}

func TestPasswordHistory(t *testing.T) {
	t.Parallel()
	d := deploy(t).comply(settings.Compliance{UniqueCount: 3})
	bob := d.user("bob", "p0", "")
	for _, secret := range []string{"p1", "p2"} {
		d.ok(d.set(bob, secret, true))
	}
	for _, secret := range []string{"p0", "p1", "p2"} {
		d.fails(d.set(bob, secret, true), identity.Invalid, "must be unique is 3")
	}
	d.ok(d.set(bob, "p3", false))
	d.fails(d.set(bob, "p1", true), identity.Invalid, "must be unique is 3")
	d.ok(d.set(bob, "p0", true))
	d.ok(d.set(bob, "p0", false)) // administrators may repeat a password
	d.ok(d.login(bob, "p0"))
	// Without the rule, only the current hash is kept.
	plain := d.comply(settings.Compliance{})
	d.ok(plain.set(bob, "p4", true))
	d.ok(d.set(bob, "p0", true))
	locked := d.user("locked", "p0", `"lock_password":true`)
	d.fails(d.set(locked, "p1", true), identity.Invalid, "disallowing password changes")
}

func TestPasswordPattern(t *testing.T) {
	t.Parallel()
	d := deploy(t).comply(settings.Compliance{Pattern: `^(?=.*\d)(?=.*[a-z]).{7,}$`, PatternDescription: "seven characters with a letter and a digit."})
	weak := "abcdefg"
	_, err := d.Create(t.Context(), identity.Record{Kind: identity.User, Name: "bob"}, &weak)
	d.fails(err, identity.Invalid, "The password does not match the requirements: seven characters with a letter and a digit.")
	bob := d.user("bob", "abcdef1", "")
	for _, byOwner := range []bool{true, false} {
		d.fails(d.set(bob, weak, byOwner), identity.Invalid, "does not match")
		d.ok(d.set(bob, "abcdef2", byOwner))
	}
}

func TestFirstUse(t *testing.T) {
	t.Parallel()
	d := deploy(t).comply(settings.Compliance{ChangeUponFirstUse: true, ExpiresDays: 5})
	bob, free := d.user("bob", "one", ""), d.user("free", "one", `"ignore_change_password_upon_first_use":true`)
	d.fails(d.login(bob, "one"), identity.PasswordAge, "needs to be changed")
	d.ok(d.login(free, "one"))
	d.ok(d.set(bob, "two", true))
	d.ok(d.login(bob, "two"))
	d.ok(d.set(bob, "three", false))
	d.fails(d.login(bob, "three"), identity.PasswordAge, "needs to be changed")
}

func TestInactivity(t *testing.T) {
	t.Parallel()
	rules := settings.Compliance{InactiveDays: 30}
	d := deploy(t).comply(rules)
	bob, free := d.user("bob", "one", ""), d.user("free", "one", `"ignore_user_inactivity":true`)
	member := d.find(identity.Role, "member")
	project := d.make(identity.Record{Kind: identity.Project, Name: "p"})
	d.ok(d.Grant(t.Context(), identity.Grant{UserID: bob.ID, Target: project.ID, RoleID: member.ID}))
	disabled := func(d *deployment) bool {
		d.t.Helper()
		r, err := d.Get(t.Context(), identity.User, bob.ID)
		d.ok(err)
		list, _, err := d.List(t.Context(), identity.ListRequest{Kind: identity.User, Match: func(r *identity.Record) bool { return r.Name == "bob" && r.Disabled }})
		d.ok(err)
		found, err := d.Find(t.Context(), identity.User, identity.DefaultDomain, "bob")
		d.ok(err)
		if (len(list) == 1) != r.Disabled || found.Disabled != r.Disabled {
			t.Errorf("get: %v, find: %v, list: %v", r.Disabled, found.Disabled, len(list))
		}
		return r.Disabled
	}
	d.clock.move(29 * 24 * time.Hour)
	head := d.head()
	d.ok(d.login(bob, "one"))
	if d.head() != head {
		t.Error("a login made an entry of the log")
	}
	token, err := d.Issue(t.Context(), bob.ID, identity.Scope{ProjectID: project.ID}, []string{"password"}, nil)
	d.ok(err)
	d.clock.move(29 * 24 * time.Hour)
	if disabled(d) || !disabled(d.comply(rules)) {
		t.Error("the login is not known, or another process knows it before it is stored")
	}
	d.ok(d.Flush(t.Context()))
	if disabled(d.comply(rules)) {
		t.Error("the login is not stored")
	}
	d.clock.move(24 * time.Hour)
	if !disabled(d) {
		t.Error("the user is enabled after 30 days without a login")
	}
	d.fails(d.login(bob, "one"), identity.Unauthorized, "disabled")
	_, err = d.Validate(t.Context(), token.Payload, token.Issued, 1000*time.Hour)
	d.fails(err, identity.NotFound, "disabled")
	d.ok(d.login(free, "one"))
	_, err = d.Update(t.Context(), identity.User, bob.ID, nil, false, func(r *identity.Record) error { r.Disabled = false; return nil })
	d.ok(err)
	d.ok(d.login(bob, "one"))
}

// TestRehash: the right password replaces a hash of another cost, a wrong one does
// not.
func TestRehash(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	bob := d.user("bob", "one", "")
	stored := func() string {
		d.t.Helper()
		s, err := d.store.Secret(t.Context(), authz.DocumentKey{Kind: "identity/password", Key: bob.ID})
		d.ok(err)
		return string(s.Body)
	}
	s, err := identity.Open(t.Context(), d.store, settings.Deployment{Clock: d.clock.read, Rounds: 5})
	d.ok(err)
	d.Service = s
	d.fails(d.login(bob, "two"), identity.Unauthorized, "wrong")
	if !strings.HasPrefix(stored(), "$2b$04$") {
		t.Error("a wrong password replaced the hash:", stored()[:7])
	}
	d.ok(d.login(bob, "one"))
	if !strings.HasPrefix(stored(), "$2b$05$") {
		t.Error("the hash was not replaced:", stored()[:7])
	}
	head := d.head()
	d.ok(d.login(bob, "one"))
	if d.head() != head {
		t.Error("a hash with the right cost was replaced")
	}
	// A write after an entry that has only a secret.
	d.make(identity.Record{Kind: identity.Project, Name: "p"})
}

// TestPasswordCache: a cached password does not outlive its time or a change.
func TestPasswordCache(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	s, err := identity.Open(t.Context(), d.store, settings.Deployment{Clock: d.clock.read, Rounds: 4, PasswordCache: time.Minute})
	d.ok(err)
	d.Service = s
	bob := d.user("bob", "one", "")
	d.ok(d.login(bob, "one"))
	d.ok(d.login(bob, "one"))
	d.fails(d.login(bob, "two"), identity.Unauthorized, "wrong password")
	d.ok(d.set(bob, "two", false))
	d.fails(d.login(bob, "one"), identity.Unauthorized, "wrong password")
	d.ok(d.login(bob, "two"))
	d.clock.move(time.Minute)
	d.ok(d.login(bob, "two"))
}

// TestComplianceBounds: settings at their bounds, and one above.
func TestComplianceBounds(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	for _, x := range []struct {
		c    settings.Compliance
		want string // of the error
	}{
		{settings.Compliance{UniqueCount: settings.UniqueCountMax, ExpiresDays: settings.DaysMax, MinimumAgeDays: settings.DaysMax - 1, InactiveDays: settings.DaysMax, LockoutAttempts: settings.LockoutAttemptsMax}, ""},
		{settings.Compliance{UniqueCount: settings.UniqueCountMax + 1}, "invalid number 51 of unique passwords"},
		{settings.Compliance{ExpiresDays: settings.DaysMax + 1}, "invalid number 36501 of days until a password expires"},
		{settings.Compliance{MinimumAgeDays: settings.DaysMax + 1}, "invalid number 36501 of minimum days"},
		{settings.Compliance{InactiveDays: settings.DaysMax + 1}, "invalid number 36501 of days without a login"},
		{settings.Compliance{LockoutAttempts: settings.LockoutAttemptsMax + 1}, "invalid number 1000001 of lockout attempts"},
		{settings.Compliance{LockoutAttempts: -1}, "expected 0 to 1000000"},
		{settings.Compliance{ExpiresDays: 2, MinimumAgeDays: 2}, "expected fewer days"},
		{settings.Compliance{Pattern: "("}, "invalid pattern"},
	} {
		_, err := identity.Open(t.Context(), d.store, settings.Deployment{Compliance: x.c})
		if (err == nil) != (x.want == "") || err != nil && !strings.Contains(err.Error(), x.want) {
			t.Errorf("%+v: got %v, want %q", x.c, err, x.want)
		}
	}
}

// TestLockoutDuringFlush checks that a wrong password counts although the counts
// before it are stored while its hash is computed.
func TestLockoutDuringFlush(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	bob := d.user("bob", "right", "")
	var flush func()
	s, err := identity.Open(t.Context(), d.store, settings.Deployment{Rounds: 4, Compliance: settings.Compliance{LockoutAttempts: 2, LockoutDuration: time.Hour},
		Clock: func() time.Time { // Login asks for the time before it verifies the password
			if f := flush; f != nil {
				flush = nil
				f()
			}
			return d.clock.read()
		}})
	d.ok(err)
	x := *d
	x.Service = s
	d.fails(x.login(bob, "wrong"), identity.Unauthorized, "wrong password")
	flush = func() { d.ok(s.Flush(t.Context())) }
	d.fails(x.login(bob, "wrong"), identity.Unauthorized, "wrong password")
	d.fails(x.login(bob, "right"), identity.Unauthorized, "is locked")
	flush = func() { d.ok(s.Flush(t.Context())) }
	d.fails(x.login(bob, "right"), identity.Unauthorized, "is locked")
}
