package sharedlogtest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/ostiary/ostiary/internal/cluster/sharedlog"
	"github.com/ostiary/ostiary/storage"
)

// Paused requires that calls end with their contexts while the server is paused, and that
// an append that was begun meanwhile is settled once.
func Paused(t *testing.T, l sharedlog.Log, pause, resume func()) {
	t.Helper()
	s := sharedlog.Segment{Sequence: 1, Writer: storage.NodeID{1}}
	r, err := s.Record()
	if err != nil {
		t.Fatal(err)
	}
	pause()
	defer resume()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := l.Head(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("head: error %v, expected that of the context", err)
	}
	ctx, cancel = context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if err := sharedlog.Commit(ctx, l, sharedlog.Position{}, r, nil); !errors.Is(err, storage.ErrUncertain) {
		t.Errorf("append: error %v, expected storage.ErrUncertain", err)
	}
	ctx, cancel = context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if err := l.PutSnapshot(ctx, r.Position, func(yield func([]byte, error) bool) { yield([]byte{1}, nil) }); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("snapshot: error %v, expected that of the context", err)
	}
	resume()
	if err := sharedlog.Commit(t.Context(), l, sharedlog.Position{}, r, nil); err != nil {
		t.Errorf("append after the pause: %v", err)
	}
	if head, err := l.Head(t.Context()); err != nil || head != r.Position {
		t.Errorf("after the pause the head is %s, error %v, expected %s", head, err, r.Position)
	}
}
