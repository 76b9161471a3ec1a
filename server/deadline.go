package server

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// limit is a context with a deadline that costs a timer only where somebody
// waits for it: most requests ask Err now and then, and are done. The zero
// deadline is none.
type limit struct {
	context.Context
	deadline time.Time
	clock    *patience // may be nil

	// over is set before the timer is given up: whoever sees Done closed must
	// see an Err, or contexts derived from this one panic.
	over atomic.Bool

	mu     sync.Mutex
	timer  context.Context
	cancel context.CancelFunc
}

// Deadline is when the time is up.
func (l *limit) Deadline() (time.Time, bool) {
	if l.deadline.IsZero() {
		return l.Context.Deadline()
	}
	return l.deadline, true
}

// Err says why it ended, without a timer.
func (l *limit) Err() error {
	err := l.Context.Err()
	switch {
	case err != nil:
		return err
	case l.over.Load():
		return context.Canceled
	case l.deadline.IsZero() || l.clock != nil && l.clock.early(l.deadline) || time.Now().Before(l.deadline):
		return nil
	}
	return context.DeadlineExceeded
}

// Done makes the timer that Err can do without.
func (l *limit) Done() <-chan struct{} {
	if l.deadline.IsZero() {
		return l.Context.Done()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.timer == nil {
		l.timer, l.cancel = context.WithDeadline(l.Context, l.deadline)
	}
	return l.timer.Done()
}

// AfterFunc calls f when the context has ended; it spares contexts that are
// derived from this one a goroutine each.
func (l *limit) AfterFunc(f func()) (stop func() bool) {
	l.Done()
	if l.deadline.IsZero() {
		return context.AfterFunc(l.Context, f)
	}
	return context.AfterFunc(l.timer, f)
}

// release ends the timer, if there is one.
func (l *limit) release() {
	l.over.Store(true)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cancel != nil {
		l.cancel()
	}
}
