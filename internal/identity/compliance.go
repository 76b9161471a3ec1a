package identity

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/ostiary/ostiary/internal/identity/password"
	"github.com/ostiary/ostiary/internal/identity/settings"
	"github.com/ostiary/ostiary/internal/identity/token"
)

// compliance are the rules of a service.
type compliance struct {
	settings.Compliance
	// pattern is parsed from Pattern; nil for none.
	pattern *password.Pattern
}

// Validate fails if a setting of a deployment is malformed or out of its bounds.
func Validate(o settings.Deployment) error {
	_, err := newCompliance(o.Compliance)
	return errors.Join(token.Methods(o.Methods).Validate(), validateLimits(o.Limits), validateRounds(o.Rounds), err)
}

// validateRounds fails if a number of rounds of bcrypt is out of its bounds; 0 means
// the default.
func validateRounds(rounds int) error {
	if rounds != 0 && (rounds < password.RoundsMin || rounds > password.RoundsMax) {
		return fmt.Errorf("invalid number %d of rounds of bcrypt: expected %d to %d", rounds, password.RoundsMin, password.RoundsMax)
	}
	return nil
}

// newCompliance checks rules, and completes them.
func newCompliance(rules settings.Compliance) (compliance, error) {
	c := compliance{Compliance: rules}
	for _, x := range []struct {
		name       string
		value, max int
	}{
		{"lockout attempts", c.LockoutAttempts, settings.LockoutAttemptsMax}, {"days until a password expires", c.ExpiresDays, settings.DaysMax}, {"unique passwords", c.UniqueCount, settings.UniqueCountMax},
		{"minimum days of a password", c.MinimumAgeDays, settings.DaysMax}, {"days without a login", c.InactiveDays, settings.DaysMax},
	} {
		if x.value < 0 || x.value > x.max {
			return c, fmt.Errorf("invalid number %d of %s: expected 0 to %d", x.value, x.name, x.max)
		}
	}
	if c.ExpiresDays > 0 && c.MinimumAgeDays >= c.ExpiresDays {
		return c, fmt.Errorf("invalid minimum of %d days of a password that expires after %d days: expected fewer days", c.MinimumAgeDays, c.ExpiresDays)
	}
	if c.LockoutDuration == 0 {
		c.LockoutDuration = settings.LockoutDurationDefault
	}
	if c.Pattern == "" {
		return c, nil
	}
	var err error
	c.pattern, err = password.ParsePattern(c.Pattern)
	return c, err
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
func (c *compliance) newPassword(options Members, byOwner bool, now time.Time) *Password {
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
func (c *compliance) check(secret *string) error {
	if secret == nil || c.pattern == nil || c.pattern.Match(*secret) {
		return nil
	}
	return failf(Invalid, "The password does not match the requirements: %s.", strings.TrimSuffix(c.PatternDescription, "."))
}

// mayChange fails with Invalid if a user must not change the own password: because
// of the option lock_password, or because the user chose it too recently.
func (c *compliance) mayChange(r *Record, now time.Time) error {
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
func (c *compliance) locked(r *Record, a activity, now time.Time) bool {
	if c.LockoutAttempts == 0 || a.Failures < c.LockoutAttempts || r.options().Bool(optionIgnoreLockout, false) {
		return false
	}
	return c.LockoutDuration < 0 || now.Before(a.Failed.Add(c.LockoutDuration))
}

// inactive returns whether a user has not logged in for too long. A user who has
// never logged in is active since the record exists; a user without a date of
// that is active.
func (c *compliance) inactive(r *Record, a activity, now time.Time) bool {
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
