package identity

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/internal/btree"
)

// activityKind is the kind of the documents of activities, after documentPrefix.
const activityKind = "activity"

// activity is what a service counts about the logins of a user.
type activity struct {
	Failures int       `json:"failures,omitempty"` // wrong passwords since the last right one
	Failed   time.Time `json:"failed,omitzero"`    // time of the last wrong password
	Used     time.Time `json:"used,omitzero"`      // day of the last login
}

// activities counts the logins of users in memory. [Service.Flush] stores what has
// changed, so a wrong password makes no entry of the log. It is bounded by the
// number of users.
type activities struct {
	mu      sync.Mutex
	changed map[string]activity // what is not stored yet, by user
}

// activity returns the activity of a user.
func (s *Service) activity(user string) activity {
	s.activities.mu.Lock()
	defer s.activities.mu.Unlock()
	return s.newestActivity(user)
}

// newestActivity returns the activity of a user. The caller holds the lock. It reads
// the newest directory, not that of a request: counts may have been stored while the
// request waited for its password hash.
func (s *Service) newestActivity(user string) activity {
	a, changed := s.activities.changed[user]
	if !changed {
		a, _ = s.current.Load().activities.Get(user)
	}
	return a
}

// count changes the activity of a user by a function, which returns false if
// nothing changes.
func (s *Service) count(user string, f func(*activity) bool) {
	s.activities.mu.Lock()
	defer s.activities.mu.Unlock()
	a := s.newestActivity(user)
	if f(&a) {
		if s.activities.changed == nil {
			s.activities.changed = map[string]activity{}
		}
		s.activities.changed[user] = a
	}
}

// wrongPassword counts a wrong password of a user. A locked user stays locked for
// as long as without it.
func (s *Service) wrongPassword(user *Record) {
	c, now := &s.options.Compliance, s.now()
	if c.LockoutAttempts == 0 {
		return
	}
	s.count(user.ID, func(a *activity) bool {
		if c.locked(user, *a, now) {
			return false
		}
		if a.Failures >= c.LockoutAttempts { // the lock has ended
			a.Failures = 0
		}
		a.Failures, a.Failed = a.Failures+1, now
		return true
	})
}

// rightPassword forgets the wrong passwords of a user, and returns whether the
// user is locked. The password was verified meanwhile, so another login can have
// locked the user.
func (s *Service) rightPassword(user *Record) (locked bool) {
	now := s.now()
	s.count(user.ID, func(a *activity) bool {
		if locked = s.options.Compliance.locked(user, *a, now); locked || a.Failures == 0 {
			return false
		}
		a.Failures, a.Failed = 0, time.Time{}
		return true
	})
	return locked
}

// used records that a user logged in today.
func (s *Service) used(user string) {
	if s.options.Compliance.InactiveDays == 0 {
		return
	}
	today := day(s.now())
	s.count(user, func(a *activity) bool {
		old := a.Used
		a.Used = today
		return !old.Equal(today)
	})
}

// enabled starts the counts of a user again, after an administrator enabled the
// user.
func (s *Service) enabled(user string) {
	s.used(user)
	s.count(user, func(a *activity) bool {
		failed := a.Failures > 0
		a.Failures, a.Failed = 0, time.Time{}
		return failed
	})
}

// present returns the record as callers see it: a user who has not logged in for
// too long is disabled.
func (s *Service) present(r *Record) *Record {
	if r == nil || r.Disabled || !s.isInactive(r) {
		return r
	}
	x := *r
	x.Disabled = true
	return &x
}

func (s *Service) isInactive(r *Record) bool {
	c := &s.options.Compliance
	return c.InactiveDays > 0 && r.Kind == User && c.inactive(r, s.activity(r.ID), s.now())
}

// flushMax bounds the users whose activity one entry of the log stores.
const flushMax = 1000

// Flush stores the wrong passwords and the days of logins that were counted in
// memory since the last call. A process calls it at intervals, and before it ends;
// what is not flushed is lost with the process. Flush writes nothing if nothing
// has changed. Its entries have the caller [ostiary.CallerCollector] if ctx has no
// author.
func (s *Service) Flush(ctx context.Context) error {
	ctx = collecting(ctx)
	for {
		n, err := s.flushSome(ctx)
		if err != nil || n < flushMax {
			return err
		}
	}
}

// flushSome stores the activities of at most flushMax users.
func (s *Service) flushSome(ctx context.Context) (int, error) {
	s.activities.mu.Lock()
	some := make(map[string]activity, min(len(s.activities.changed), flushMax))
	for user, a := range s.activities.changed {
		if len(some) < flushMax {
			some[user] = a
		}
	}
	s.activities.mu.Unlock()
	if len(some) == 0 {
		return 0, nil
	}
	_, err := s.write(ctx, func(d *directory) (w ostiary.WriteRequest, err error) {
		for user, a := range some {
			if _, err := d.get(User, user); err == nil { // otherwise the user was deleted
				w.Documents = append(w.Documents, a.document(user))
			}
		}
		return w, nil
	})
	if err == nil {
		_, err = s.at(ctx) // the newest directory has the counts before the map loses them
	}
	if err != nil {
		return 0, err
	}
	s.activities.mu.Lock()
	defer s.activities.mu.Unlock()
	for user, a := range some {
		if s.activities.changed[user] == a { // otherwise it has changed since
			delete(s.activities.changed, user)
		}
	}
	return len(some), nil
}

// document returns the document of a user's activity.
func (a activity) document(user string) ostiary.Document {
	body, err := json.Marshal(a)
	if err != nil {
		panic(err) // numbers and times
	}
	return ostiary.Document{Kind: documentPrefix + activityKind, Key: user, Secondary: []string{bucket(user)}, Body: body}
}

// putActivity reads the document of an activity into the directory.
func (d *directory) putActivity(user string, body []byte) error {
	var a activity
	if err := json.Unmarshal(body, &a); err != nil {
		return fmt.Errorf("activity of user %s: %w", user, err)
	}
	d.activities.Set(user, a)
	return nil
}

// activityMap is the stored activities by user.
type activityMap = btree.Map[string, activity]
