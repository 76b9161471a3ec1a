package ostiary

import (
	"context"
	"sync"
	"time"
)

// limited is a context that ends at a deadline of its own and not when the
// one it has its values from does. It costs little until somebody waits for
// its end, which a driver in memory, or one whose disk is quick, never does.
type limited struct {
	values context.Context
	time   time.Duration

	mu       sync.Mutex
	deadline time.Time       // the zero time until somebody asks: then time begins
	timed    context.Context // nil until somebody waits
	end      context.CancelFunc
}

var _ context.Context = (*limited)(nil)

// limit returns a context that ends after the time that the driver may take.
// One writer's deadline must not fail the others.
func (s *Store) limit(ctx context.Context) *limited {
	return &limited{values: ctx, time: s.engine.opts.Bounds.AppendTime}
}

// Deadline is context.Context's.
func (l *limited) Deadline() (time.Time, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.begin()
	return l.deadline, true
}

// Value is context.Context's.
func (l *limited) Value(key any) any { return l.values.Value(key) }

// Done is context.Context's.
func (l *limited) Done() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.wait().Done()
}

// Err is context.Context's.
func (l *limited) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.begin() || l.timed == nil && time.Now().Before(l.deadline) {
		return nil
	}
	return l.wait().Err()
}

// begin begins the time if it has not begun; mu is held.
func (l *limited) begin() (now bool) {
	if now = l.deadline.IsZero(); now {
		l.deadline = time.Now().Add(l.time)
	}
	return now
}

// wait begins to watch the time; mu is held.
func (l *limited) wait() context.Context {
	if l.timed == nil {
		l.begin()
		l.timed, l.end = context.WithDeadline(context.WithoutCancel(l.values), l.deadline)
	}
	return l.timed
}

// release gives up what waiting took. Nobody uses l afterwards.
func (l *limited) release() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.timed != nil {
		l.end()
	}
}
