package identity

import (
	"context"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/internal/engine/journal"
)

// lead fails with [authz.ErrNoHolder] if this process is one of several nodes and
// another one writes. What is counted in memory, such as wrong passwords, is counted by
// the node that writes alone: so the request has to be sent there.
func (s *Service) lead(ctx context.Context) error {
	if s.options.Leads == nil || s.options.Leads() {
		return nil
	}
	journal.Of(ctx).Refuse()
	return authz.ErrNoHolder
}

// mayCount reports whether a login of a user may have to be counted: if wrong passwords
// lock users and the user is not locked yet, or if the day of the login is not noted
// yet. user may be nil.
func (s *Service) mayCount(user *Record) bool {
	c := &s.compliance
	if user == nil {
		return c.LockoutAttempts > 0
	}
	a, now := s.activity(user.ID), s.now()
	return c.LockoutAttempts > 0 && !c.locked(user, a, now) || c.InactiveDays > 0 && a.Used.Before(day(now))
}
