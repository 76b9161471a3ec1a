package server

import (
	"context"
	"sync"
	"time"
)

// limit is a context with a deadline that costs a timer only where somebody
// waits for it: most requests ask Err now and then, and are done. The zero
// deadline is none.
type limit struct {
	context.Context
	deadline time.Time

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
	if err := l.Context.Err(); err != nil || l.deadline.IsZero() || time.Now().Before(l.deadline) {
		return err
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

// release ends the timer, if there is one.
func (l *limit) release() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cancel != nil {
		l.cancel()
	}
}
