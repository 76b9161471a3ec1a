package identity

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/internal/identity/settings"
	"github.com/ostiary/ostiary/storage/memory"
)

// TestCountsOfFlush reads the count of a user's wrong passwords while it is stored. No
// wrong password is seen twice, and none is missing afterwards.
func TestCountsOfFlush(t *testing.T) {
	t.Parallel()
	driver := memory.New()
	defer driver.Close()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	e, err := ostiary.Open(t.Context(), ostiary.Options{Driver: driver})
	must(err)
	defer e.Close()
	store, err := e.CreateStore(t.Context(), ostiary.CreateStoreRequest{})
	must(err)
	s, err := Open(t.Context(), store, settings.Deployment{Compliance: settings.Compliance{LockoutAttempts: settings.LockoutAttemptsMax}})
	must(err)
	bob := &Record{Kind: User, ID: "bob", Name: "bob"}
	refused, err := s.LoadRecords(t.Context(), []Loaded{{Record: Record{Kind: Project, ID: DefaultDomain, Name: "d", IsDomain: true}}, {Record: *bob}})
	must(err)
	if len(refused) > 0 {
		t.Fatal(refused)
	}
	var wrong atomic.Int64
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for wrong.Load() < 500 {
			if seen := s.activity("bob").Failures; int64(seen) > wrong.Load() {
				t.Errorf("%d wrong passwords are seen after %d", seen, wrong.Load())
				return
			}
			_, _ = s.at(t.Context())
		}
	}()
	for range 500 {
		wrong.Add(1)
		must(s.wrongPassword(t.Context(), bob))
		must(s.Flush(t.Context()))
	}
	<-ended
	if n := s.activity("bob").Failures; n != 500 || len(s.activities.counted) != 0 {
		t.Errorf("%d wrong passwords are stored, and %d counts are left; want 500 and 0", n, len(s.activities.counted))
	}
}

// TestCountedMeanwhile ends a flush after further logins.
func TestCountedMeanwhile(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	second := now.Add(time.Second)
	stored := activity{Failures: 2, Failed: now, Cleared: now}
	for name, x := range map[string]struct{ counted, left activity }{
		"nothing":        {stored, activity{}},
		"wrong password": {activity{Failures: 3, Failed: second, Cleared: now}, activity{Failures: 1, Failed: second}},
		"right password": {activity{Cleared: second}, activity{Cleared: second}},
		"both":           {activity{Failures: 1, Failed: second, Cleared: second}, activity{Failures: 1, Failed: second, Cleared: second}},
	} {
		for _, made := range []bool{true, false} {
			a := activities{counted: map[string]activity{"bob": stored}}
			some := a.begin(&directory{})
			a.counted["bob"] = x.counted
			a.end(some, made)
			want := x.left
			if !made {
				want = x.counted
			}
			if left, present := a.counted["bob"]; left != want || present != (want != activity{}) || a.before != nil {
				t.Errorf("%s, stored %v: left %+v, want %+v", name, made, left, want)
			}
		}
	}
}
