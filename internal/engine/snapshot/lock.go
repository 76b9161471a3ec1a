package snapshot

import (
	"context"
	"sync"
	"time"

	"github.com/ostiary/ostiary/internal/tool/turns"
)

// WriteLock is the lock of a store's writers. Its holder alone may append or drop
// views, with one exception: a writer releases the lock before it appends its group,
// and registers the group with SetAppending. Until the latch of that group opens, the
// appending writer alone appends. Views are published without the lock: a
// publication fails if another one came first.
type WriteLock struct {
	held chan struct{} // holds one element while the lock is held
	// appending opens when the group that is being appended is finished; nil if
	// there is none. Only the holder of the lock reads and sets it.
	appending *Latch
}

// TryLock takes the lock if it is free.
func (l *WriteLock) TryLock() bool {
	select {
	case l.held <- struct{}{}:
		return true
	default:
		return false
	}
}

// Unlock releases the lock.
func (l *WriteLock) Unlock() { <-l.held }

// LockWithin takes the lock. It returns false if the lock was not free within
// the time, and an error if ctx ended before.
func (l *WriteLock) LockWithin(ctx context.Context, within time.Duration) (bool, error) {
	turns.Pause(ctx)
	timer := time.NewTimer(within)
	defer timer.Stop()
	select {
	case l.held <- struct{}{}:
		return true, nil
	case <-ctx.Done():
		return false, ctx.Err()
	case <-timer.C:
		return false, nil
	}
}

// LockIdle takes the lock and waits until no group is being appended. After an
// error the lock is not held.
func (l *WriteLock) LockIdle(ctx context.Context) error {
	if !l.TryLock() {
		turns.Pause(ctx)
		select {
		case l.held <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return l.WaitIdle(ctx)
}

// WaitIdle waits until no group is being appended. The caller holds the lock;
// after an error WaitIdle has released it.
func (l *WriteLock) WaitIdle(ctx context.Context) error {
	if !l.Appending() {
		return nil
	}
	turns.Pause(ctx)
	select {
	case <-l.appending.channel():
		return nil
	case <-ctx.Done():
		l.Unlock()
		return ctx.Err()
	}
}

// Appending reports whether a group is being appended. The caller holds the
// lock.
func (l *WriteLock) Appending() bool {
	if l.appending != nil && l.appending.Opened() {
		l.appending = nil
	}
	return l.appending != nil
}

// SetAppending registers the latch of the group that is going to be appended,
// or nil. The caller holds the lock.
func (l *WriteLock) SetAppending(finished *Latch) { l.appending = finished }

// Latch is closed at first and opens once. The zero Latch is closed. It makes a
// channel only if a goroutine waits for it.
type Latch struct {
	mu     sync.Mutex
	isOpen bool
	ch     chan struct{} // nil until a goroutine waits
}

// Open opens the latch and wakes all who wait for it.
func (l *Latch) Open() {
	l.mu.Lock()
	l.isOpen = true
	if l.ch != nil {
		close(l.ch)
	}
	l.mu.Unlock()
}

// Reset closes the latch again. No other goroutine may use it at that time.
func (l *Latch) Reset() { l.isOpen, l.ch = false, nil }

// Opened reports whether the latch is open.
func (l *Latch) Opened() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.isOpen
}

// Wait waits until the latch opens.
func (l *Latch) Wait() {
	if !l.Opened() {
		<-l.channel()
	}
}

// channel returns a channel that is closed when the latch opens.
func (l *Latch) channel() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ch == nil {
		l.ch = make(chan struct{})
		if l.isOpen {
			close(l.ch)
		}
	}
	return l.ch
}
