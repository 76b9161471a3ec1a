package server

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/server/internal/conn"
)

// TestReleasedDeadline checks that a context that is derived from a request's
// context and outlives the request ends with an error and does not panic.
func TestReleasedDeadline(t *testing.T) {
	t.Parallel()
	l := &lazyDeadline{Context: context.Background(), deadline: time.Now().Add(time.Hour)}
	derived, cancel := context.WithCancel(l)
	defer cancel()
	if l.Err() != nil || derived.Err() != nil {
		t.Fatal(l.Err(), derived.Err())
	}
	l.release()
	<-derived.Done()
	if l.Err() != context.Canceled || derived.Err() != context.Canceled {
		t.Error(l.Err(), derived.Err())
	}
}

// TestPassedDeadline checks Err and Done of a deadline that has passed.
func TestPassedDeadline(t *testing.T) {
	t.Parallel()
	l := &lazyDeadline{Context: context.Background()}
	l.setDeadline(time.Now().Add(-time.Second), time.Millisecond)
	if err := l.Err(); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "the bound RequestTimeout is 1ms") {
		t.Error(l.Err())
	}
	<-l.Done()
	l.release()
}

// TestLazyDeadline compares a deadline with that of its parent: the earlier one counts.
// The context ends exactly then, however that is noticed.
func TestLazyDeadline(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		own, parent, ends time.Duration // 0: none
		text              string
	}{
		"its own":         {2 * time.Second, 0, 2 * time.Second, "the request took too long: the bound RequestTimeout is 2s"},
		"before parent's": {2 * time.Second, 3 * time.Second, 2 * time.Second, "the request took too long: the bound RequestTimeout is 2s"},
		"after parent's":  {2 * time.Second, time.Second, time.Second, "context deadline exceeded"},
		"with parent's":   {2 * time.Second, 2 * time.Second, 2 * time.Second, "context deadline exceeded"},
		"only parent's":   {0, time.Second, time.Second, "context deadline exceeded"},
	} {
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			parent, cancel := t.Context(), func() {}
			if c.parent > 0 {
				parent, cancel = context.WithDeadline(parent, start.Add(c.parent))
			}
			defer cancel()
			l := &lazyDeadline{Context: context.WithValue(parent, conn.ConnKey{}, "value"), door: "a door"}
			if c.own > 0 {
				l.setDeadline(start, c.own)
			}
			if at, ok := l.Deadline(); !ok || at.Sub(start) != c.ends {
				t.Errorf("%s: the deadline is after %v, %v", name, at.Sub(start), ok)
			}
			if l.Value(conn.ConnKey{}) != "value" || door.NameOf(l) != "a door" {
				t.Errorf("%s: the values are %v, %q", name, l.Value(conn.ConnKey{}), door.NameOf(l))
			}
			time.Sleep(c.ends - 1)
			synctest.Wait()
			if l.Err() != nil {
				t.Errorf("%s: before it: %v", name, l.Err())
			}
			called := false
			context.AfterFunc(l, func() { called = true })
			<-l.Done()
			if time.Since(start) != c.ends {
				t.Errorf("%s: done after %v", name, time.Since(start))
			}
			synctest.Wait()
			if err := l.Err(); err == nil || err.Error() != c.text || !errors.Is(err, context.DeadlineExceeded) || !called {
				t.Errorf("%s: %v, called %v", name, err, called)
			}
			l.release()
			l.release() // does nothing
			<-l.Done()
		})
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	l := &lazyDeadline{Context: ended}
	l.setDeadline(time.Now(), -time.Second)
	if l.Err() != context.Canceled {
		t.Error("the parent's end comes first:", l.Err())
	}
	if _, ok := (&lazyDeadline{Context: context.Background()}).Deadline(); ok {
		t.Error("there is a deadline")
	}
}
