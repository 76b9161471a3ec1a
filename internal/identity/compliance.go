package identity

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/ostiary/ostiary/internal/identity/password"
)

// Compliance are rules for passwords and logins: the options of Keystone's
// section security_compliance. The zero value has no rules.
type Compliance struct {
	// LockoutAttempts is the number of wrong passwords after which a user is locked;
	// 0 means never. The right password resets the number.
	LockoutAttempts int
	// LockoutDuration is how long a user stays locked after the last wrong password.
	// The default is [LockoutDurationDefault]. If it is negative, users stay locked
	// until an administrator updates them.
	LockoutDuration time.Duration
	// ExpiresDays is how many days a new password is valid; 0 means forever.
	ExpiresDays int
	// UniqueCount is the number of previous passwords, the current one included, that
	// users cannot choose when they change their password; 0 allows all.
	UniqueCount int
	// MinimumAgeDays is how many days users keep a password that they chose before
	// they can change it again; 0 means none. It is less than ExpiresDays.
	MinimumAgeDays int
	// Pattern is a regular expression that new passwords match, in the form of
	// [password.ParsePattern]; "" allows all.
	Pattern string
	// PatternDescription explains Pattern in the error of a password that does not
	// match.
	PatternDescription string
	// ChangeUponFirstUse makes users change a password that an administrator set
	// before they can log in.
	ChangeUponFirstUse bool
	// InactiveDays is the number of days without a login after which a user counts as
	// disabled; 0 means never.
	InactiveDays int

	pattern *password.Pattern // parsed from Pattern; nil for none
}

// LockoutDurationDefault is the default of [Compliance.LockoutDuration].
const LockoutDurationDefault = 30 * time.Minute

// Bounds of [Compliance].
const (
	// UniqueCountMax bounds UniqueCount, because a change of a password verifies as
	// many hashes.
	UniqueCountMax = 50
	// DaysMax bounds the numbers of days.
	DaysMax = 36_500
	// LockoutAttemptsMax bounds LockoutAttempts.
	LockoutAttemptsMax = 1_000_000
)

// Validate fails if a setting is malformed or out of its bounds.
func (o Options) Validate() error {
	return o.prepare() // of a copy
}

// prepare is like Validate, and completes the settings.
func (o *Options) prepare() error {
	return errors.Join(o.Methods.Validate(), o.Limits.Validate(), validateRounds(o.Rounds), o.Compliance.prepare())
}

// validateRounds fails if a number of rounds of bcrypt is out of its bounds; 0 means
// the default.
func validateRounds(rounds int) error {
	if rounds != 0 && (rounds < password.RoundsMin || rounds > password.RoundsMax) {
		return fmt.Errorf("invalid number %d of rounds of bcrypt: expected %d to %d", rounds, password.RoundsMin, password.RoundsMax)
	}
	return nil
}

// prepare checks the rules, and completes them.
func (c *Compliance) prepare() error {
	for _, x := range []struct {
		name       string
		value, max int
	}{
		{"lockout attempts", c.LockoutAttempts, LockoutAttemptsMax}, {"days until a password expires", c.ExpiresDays, DaysMax}, {"unique passwords", c.UniqueCount, UniqueCountMax},
		{"minimum days of a password", c.MinimumAgeDays, DaysMax}, {"days without a login", c.InactiveDays, DaysMax},
	} {
		if x.value < 0 || x.value > x.max {
			return fmt.Errorf("invalid number %d of %s: expected 0 to %d", x.value, x.name, x.max)
		}
	}
	if c.ExpiresDays > 0 && c.MinimumAgeDays >= c.ExpiresDays {
		return fmt.Errorf("invalid minimum of %d days of a password that expires after %d days: expected fewer days", c.MinimumAgeDays, c.ExpiresDays)
	}
	if c.LockoutDuration == 0 {
		c.LockoutDuration = LockoutDurationDefault
	}
	if c.Pattern == "" {
		return nil
	}
	var err error
	c.pattern, err = password.ParsePattern(c.Pattern)
	return err
}

// Resource options of users that exempt them from rules.
const (
	optionIgnoreFirstUse   = "ignore_change_password_upon_first_use"
	optionIgnoreExpiry     = "ignore_password_expiry"
	optionIgnoreLockout    = "ignore_lockout_failure_attempts"
	optionIgnoreInactivity = "ignore_user_inactivity"
)

// newPassword returns the description of a password that a user gets at a time.
// options are the resource options that the user has from then on.
func (c *Compliance) newPassword(options Members, byOwner bool, now time.Time) *Password {
	p := &Password{Changed: now, ByOwner: byOwner}
	if c.ExpiresDays > 0 && !options.Bool(optionIgnoreExpiry, false) {
		expires := now.AddDate(0, 0, c.ExpiresDays).Truncate(time.Second)
		p.Expires = &expires
	}
	if c.ChangeUponFirstUse && !byOwner && !options.Bool(optionIgnoreFirstUse, false) {
		p.Expires = &now
	}
	return p
}

// expired returns whether a user's password has expired or must be changed.
func (r *Record) expired(now time.Time) bool {
	return r.Password != nil && r.Password.Expires != nil && !now.Before(*r.Password.Expires) && !r.options().Bool(optionIgnoreExpiry, false)
}

// check fails with Invalid if a new password does not match the pattern.
func (c *Compliance) check(secret *string) error {
	if secret == nil || c.pattern == nil || c.pattern.Match(*secret) {
		return nil
	}
	return failf(Invalid, "The password does not match the requirements: %s.", strings.TrimSuffix(c.PatternDescription, "."))
}

// mayChange fails with Invalid if a user must not change the own password: because
// of the option lock_password, or because the user chose it too recently.
func (c *Compliance) mayChange(r *Record, now time.Time) error {
	if r.options().Bool(optionLockPassword, false) {
		return failf(Invalid, "You cannot change your password at this time due to password policy disallowing password changes. Please contact your administrator to reset your password.")
	}
	if r.Password == nil || !r.Password.ByOwner || c.MinimumAgeDays == 0 {
		return nil
	}
	until := r.Password.Changed.AddDate(0, 0, c.MinimumAgeDays)
	if !now.Before(until) {
		return nil
	}
	return failf(Invalid, "You cannot change your password at this time due to the minimum password age. Once you change your password, it must be used for %d day(s) before it can be changed. Please try again in %d day(s) or contact your administrator to reset your password.",
		c.MinimumAgeDays, int(until.Sub(now).Hours()/24))
}

// locked returns whether a user is locked because of wrong passwords.
func (c *Compliance) locked(r *Record, a activity, now time.Time) bool {
	if c.LockoutAttempts == 0 || a.Failures < c.LockoutAttempts || r.options().Bool(optionIgnoreLockout, false) {
		return false
	}
	return c.LockoutDuration < 0 || now.Before(a.Failed.Add(c.LockoutDuration))
}

// inactive returns whether a user has not logged in for too long. A user who has
// never logged in is active since the record exists; a user without a date of
// that is active.
func (c *Compliance) inactive(r *Record, a activity, now time.Time) bool {
	if c.InactiveDays == 0 || r.Kind != User || r.options().Bool(optionIgnoreInactivity, false) {
		return false
	}
	last := a.Used
	if last.IsZero() {
		last = r.Created
	}
	return !last.IsZero() && int(day(now).Sub(day(last)).Hours()/24) >= c.InactiveDays
}

// day returns the day of a time in UTC.
func day(t time.Time) time.Time { return t.UTC().Truncate(24 * time.Hour) }
