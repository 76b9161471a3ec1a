package server

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"
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
