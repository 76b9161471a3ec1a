package server

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/internal/engine/journal"
	"github.com/ostiary/ostiary/internal/tool/turns"
	"github.com/ostiary/ostiary/internal/trail/traces"
)

// lazyDeadline is a context with a deadline that starts a timer only if Done is
// called. Most requests only call Err now and then, and the timer of
// [context.WithDeadline] would cost more than a tenth of a check (see
// docs/decisions/0006-server.md).
//
// Its fields are set before the first use; then its methods may be called
// concurrently.
type lazyDeadline struct {
	context.Context               // the parent
	deadline        time.Time     // zero: only the parent ends the context
	timeout         time.Duration // from which the deadline follows, for the error of Err
	door            any           // the door's name, a string, which Value returns
	work            turns.Work    // the request's use of the turns, which Value returns
	request         door.Request  // nil if there is none; Value returns it
	key             *hashedKey    // of the caller, whose access Value returns; nil without one
	stream          bool          // the end of the key ends the parent as well
	span            traces.Span   // of a request that is traced; nil of another one; Value returns it
	// journal has the author of the writes of the request. Value returns both.
	journal journal.Journal
	limits  limits // that count for the request

	// passedOn is true while another node serves the request: that one checks the key.
	passedOn atomic.Bool

	// released is set before the timer is canceled. Contexts derived from this one
	// panic if Done is closed while Err is still nil.
	released atomic.Bool

	mu     sync.Mutex
	timer  context.Context // made by the first call of Done
	cancel context.CancelFunc
}

// Deadline returns the deadline, or the parent's if there is none.
func (l *lazyDeadline) Deadline() (time.Time, bool) {
	if l.deadline.IsZero() {
		return l.Context.Deadline()
	}
	return l.deadline, true
}

// Err returns why the context ended, or nil. It is a *[door.Refusal] as well once what the
// caller has shown is no longer accepted, see keyEnded, and once the request has used up a limit
// of processor time. Its error for a deadline that has
// passed is a *[door.Refusal] that names the bound RequestTimeout, and for
// errors.Is also [context.DeadlineExceeded]. It compares the deadline with the
// clock and needs no timer.
func (l *lazyDeadline) Err() error {
	err := l.Context.Err()
	switch {
	case l.keyEnded():
		return &door.Refusal{Reason: door.BadCredentials}
	case err != nil:
		return err
	case l.released.Load():
		return context.Canceled
	case l.limits.measured.Load():
		// A stream, or a request that has changed something, goes on, and is charged.
		if why := l.limits.of.spend(!l.stream && !l.journal.Changed()); why != nil {
			return why
		}
	}
	switch {
	case l.deadline.IsZero() || time.Now().Before(l.deadline):
		return nil
	}
	return &door.Refusal{Reason: door.TimedOut, Bound: "RequestTimeout", Time: l.timeout}
}

// keyEnded reports whether the request must end because its caller is no longer accepted. A
// request that has changed something gets its answer nevertheless, for example the secret of
// the key that it has made, if its access refuses further changes.
func (l *lazyDeadline) keyEnded() bool {
	if l.key == nil || !l.key.ended() {
		return false
	}
	answered := l.passedOn.Load() || l.key.grant != nil && l.journal.Changed()
	return l.stream || !answered
}

// Value returns the name of the door for [door.NameKey], the request's use of the
// turns for [turns.Key], the author of its writes for [authz.AuthorKey], its journal for [journal.Key], the request for
// [door.RequestKey], what the caller may do for [authz.AccessKey], and the span for [traces.Key].
func (l *lazyDeadline) Value(key any) any {
	switch key {
	case door.NameKey{}:
		return l.door
	case turns.Key{}:
		return l.work.Carried()
	case authz.AuthorKey{}:
		return &l.journal.Author
	case journal.Key{}:
		return &l.journal
	case door.RequestKey{}:
		return l.request
	case traces.Key{}:
		return l.span
	case authz.AccessKey{}:
		if l.key != nil && l.key.grant != nil {
			name, _ := l.door.(string)
			return l.key.grant.Through(name)
		}
		return nil
	}
	return l.Context.Value(key)
}

// Done returns a channel that is closed when the context ends. The first call
// starts the timer.
func (l *lazyDeadline) Done() <-chan struct{} {
	return l.timed().Done()
}

// AfterFunc calls f when the context has ended. [context.AfterFunc] and contexts
// derived from this one use it, which saves a goroutine for each of them.
func (l *lazyDeadline) AfterFunc(f func()) (stop func() bool) {
	return context.AfterFunc(l.timed(), f)
}

// timed returns a context with a timer, or the parent if there is no deadline.
func (l *lazyDeadline) timed() context.Context {
	if l.deadline.IsZero() {
		return l.Context
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.timer == nil {
		l.timer, l.cancel = context.WithDeadline(l.Context, l.deadline)
	}
	return l.timer
}

// setDeadline sets the deadline to start plus timeout, unless the parent's is
// earlier.
func (l *lazyDeadline) setDeadline(start time.Time, timeout time.Duration) {
	deadline := start.Add(timeout)
	if parent, ok := l.Context.Deadline(); !ok || deadline.Before(parent) {
		l.deadline, l.timeout = deadline, timeout
	}
}

// release ends the context, its timer and its turn.
func (l *lazyDeadline) release() {
	l.work.End()
	if l.limits.measured.Load() {
		l.limits.of.spend(false)
	}
	l.released.Store(true)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cancel != nil {
		l.cancel()
	}
}
