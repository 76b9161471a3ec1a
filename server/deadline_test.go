package server

import (
	"context"
	"testing"
	"time"
)

// TestReleasedLimit: a context derived from a request's outlives the request,
// and then ends with an error rather than a panic.
func TestReleasedLimit(t *testing.T) {
	t.Parallel()
	l := &limit{Context: context.Background(), deadline: time.Now().Add(time.Hour)}
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
