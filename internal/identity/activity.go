package identity

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/internal/engine/journal"
	"github.com/ostiary/ostiary/internal/tool/btree"
	"github.com/ostiary/ostiary/storage"
)

// activityKind is the kind of the documents of activities, after documentPrefix.
const activityKind = "activity"

// activity is what is counted about the logins of a user.
type activity struct {
	Failures int       `json:"failures,omitempty"` // wrong passwords since Cleared
	Failed   time.Time `json:"failed,omitzero"`    // time of the last wrong password
	// Cleared is the time up to which wrong passwords are forgotten: that of a right
	// password, or of the last wrong one before a lock that has ended.
	Cleared time.Time `json:"cleared,omitzero"`
	Used    time.Time `json:"used,omitzero"` // day of the last login
}

// with returns the activity with what a process counted since it read a. Other
// processes may have changed a meanwhile.
func (a activity) with(counted activity) activity {
	if !counted.Cleared.IsZero() && !a.Failed.After(counted.Cleared) {
		a.Failures, a.Failed = 0, time.Time{}
	}
	if !counted.Failed.Before(a.Cleared) {
		a.Failures, a.Failed = a.Failures+counted.Failures, later(a.Failed, counted.Failed)
	}
	a.Cleared, a.Used = later(a.Cleared, counted.Cleared), later(a.Used, counted.Used)
	return a
}

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// clear forgets wrong passwords up to a time.
func (a *activity) clear(at time.Time) { *a = activity{Cleared: at, Used: a.Used} }

// activities counts the logins of users in memory. [Service.Flush] stores what was
// counted, so a wrong password makes no entry of the log. It is bounded by the
// number of users.
type activities struct {
	flushing sync.Mutex          // held by the one call of Flush that stores counts
	mu       sync.Mutex          // guards the fields below
	counted  map[string]activity // what is not stored yet, by user
	// before are the stored activities before the write of a Flush; nil while none
	// writes. They keep counts from being seen twice: stored and not stored.
	before *activityMap
}

// activity returns the activity of a user.
func (s *Service) activity(user string) activity {
	s.activities.mu.Lock()
	defer s.activities.mu.Unlock()
	return s.stored(user).with(s.activities.counted[user])
}

// stored returns the stored activity of a user. The caller holds the lock. It reads
// the newest directory, not that of a request: counts may have been stored while the
// request waited for its password hash.
func (s *Service) stored(user string) activity {
	all := s.activities.before
	if all == nil {
		all = &s.documents.Loaded().Value.activities
	}
	a, _ := all.Get(user)
	return a
}

// count changes what is counted about a user, by a function that also gets the
// activity with it.
func (s *Service) count(user string, f func(a activity, counted *activity)) {
	s.activities.mu.Lock()
	defer s.activities.mu.Unlock()
	old := s.activities.counted[user]
	counted := old
	if f(s.stored(user).with(old), &counted); counted == old {
		return
	}
	if s.activities.counted == nil {
		s.activities.counted = map[string]activity{}
	}
	s.activities.counted[user] = counted
}

// wrongPassword counts a wrong password of a user. A locked user stays locked for
// as long as without it. On one of several nodes, a user who is locked from now on is
// stored as such before wrongPassword returns, so that every node refuses the user.
func (s *Service) wrongPassword(ctx context.Context, user *Record) error {
	c, now := &s.compliance, s.now()
	if c.LockoutAttempts == 0 {
		return nil
	}
	if err := s.lead(ctx); err != nil {
		return err
	}
	locks := false
	s.count(user.ID, func(a activity, counted *activity) {
		if c.locked(user, a, now) {
			return
		}
		if counted.Failures > 0 && counted.Failed.Before(a.Cleared) { // another process has forgotten what this one counted
			counted.clear(a.Cleared)
		}
		failures := a.Failures + 1
		if a.Failures >= c.LockoutAttempts { // the lock has ended
			counted.clear(a.Failed)
			failures = 1
		}
		counted.Failures, counted.Failed = counted.Failures+1, now
		locks = failures >= c.LockoutAttempts
	})
	if !locks || s.options.Leads == nil {
		return nil
	}
	by := &journal.Journal{Author: authz.Author{Name: storage.CallerCollector}, Frees: true} // otherwise a full disk unlocks
	err := s.flush(journal.With(ctx, by))
	if by.Forwardable() {
		journal.Of(ctx).Refuse()
	}
	return err
}

// rightPassword forgets the wrong passwords of a user, and returns whether the
// user is locked. The password was verified meanwhile, so another login can have
// locked the user.
func (s *Service) rightPassword(user *Record) (locked bool) {
	now := s.now()
	s.count(user.ID, func(a activity, counted *activity) {
		if locked = s.compliance.locked(user, a, now); !locked && a.Failures > 0 {
			counted.clear(now)
		}
	})
	return locked
}

// used records that a user logged in today.
func (s *Service) used(user string) {
	if s.compliance.InactiveDays == 0 {
		return
	}
	today := day(s.now())
	s.count(user, func(a activity, counted *activity) {
		if a.Used.Before(today) {
			counted.Used = today
		}
	})
}

// enabled starts the counts of a user again, after an administrator enabled the
// user.
func (s *Service) enabled(user string) {
	s.used(user)
	now := s.now()
	s.count(user, func(a activity, counted *activity) {
		if a.Failures > 0 {
			counted.clear(now)
		}
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

// active returns whether a user and its domain are enabled, and the user has not
// been inactive for too long.
func (s *Service) active(d *directory, user *Record) bool {
	domain, err := d.get(Project, user.Domain)
	return err == nil && !user.Disabled && !domain.Disabled && !s.isInactive(user)
}

func (s *Service) isInactive(r *Record) bool {
	c := &s.compliance
	return c.InactiveDays > 0 && r.Kind == User && c.inactive(r, s.activity(r.ID), s.now())
}

// flushMax bounds the users whose activity one entry of the log stores.
const flushMax = 1000

// Flush stores the wrong passwords and the days of logins that were counted in
// memory since the last call. It adds them to what other processes have stored. A
// process calls it at intervals, and before it ends; what is not flushed is lost with
// the process. Flush writes nothing if nothing was counted. Its entries have the caller
// [storage.CallerCollector] if ctx has no author.
//
// On one of several nodes, only the node that writes stores counts.
func (s *Service) Flush(ctx context.Context) error {
	if s.lead(ctx) != nil {
		return nil
	}
	return s.flush(collecting(ctx))
}

// flush stores the counts.
func (s *Service) flush(ctx context.Context) error {
	s.activities.flushing.Lock()
	defer s.activities.flushing.Unlock()
	for {
		n, err := s.flushSome(ctx)
		if err != nil || n < flushMax {
			return err
		}
	}
}

// flushSome stores the counts of at most flushMax users.
func (s *Service) flushSome(ctx context.Context) (int, error) {
	some := s.activities.begin(s.documents.Loaded().Value)
	if len(some) == 0 {
		return 0, nil
	}
	_, err := s.write(ctx, func(d *directory) (w authz.WriteRequest, err error) {
		for user, counted := range some {
			if _, err := d.get(User, user); err == nil { // otherwise the user was deleted
				stored, _ := d.activities.Get(user)
				w.Documents = append(w.Documents, stored.with(counted).document(user))
			}
		}
		return w, nil
	})
	made := err == nil
	if made {
		_, err = s.at(ctx) // so that the loaded directory has what ends to be counted
	}
	s.activities.end(some, made)
	return len(some), err
}

// begin returns the counts of at most flushMax users, which the caller stores. Until
// end is called, the stored activities are those of d.
func (a *activities) begin(d *directory) map[string]activity {
	a.mu.Lock()
	defer a.mu.Unlock()
	some := make(map[string]activity, min(len(a.counted), flushMax))
	for user, counted := range a.counted {
		if len(some) < flushMax {
			some[user] = counted
		}
	}
	if len(some) > 0 {
		a.before = &d.activities
	}
	return some
}

// end ends what begin began. made is true if the counts are stored; then what was
// counted since is left.
func (a *activities) end(some map[string]activity, made bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.before = nil
	if !made {
		return
	}
	for user, stored := range some {
		counted := a.counted[user]
		switch {
		case counted == stored:
			delete(a.counted, user)
		case counted.Cleared == stored.Cleared: // otherwise all that it has is newer
			counted.Failures -= stored.Failures
			counted.Cleared = time.Time{}
			a.counted[user] = counted
		}
	}
}

// document returns the document of a user's activity.
func (a activity) document(user string) authz.Document {
	body, err := json.Marshal(a)
	if err != nil {
		panic(err) // numbers and times
	}
	return authz.Document{Kind: documentPrefix + activityKind, Key: user, Body: body}
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
