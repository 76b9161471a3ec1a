package forward

import (
	"context"
	"errors"
	"time"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/internal/engine/journal"
)

const (
	// forwardWait is how long the server waits before it sends a request to another node
	// again, and twice as long each time, at most forwardWaitMax.
	forwardWait    = time.Millisecond
	forwardWaitMax = 10 * time.Millisecond
)

// Sender finds the node that writes, for all requests of a server.
type Sender struct {
	Forwarder
	Engine *ostiary.Engine
	// Timeout bounds the wait of a request that has no deadline for the node that writes; 0
	// is no bound.
	Timeout time.Duration
}

// Sending is a request that writes, on one of several nodes. The server sends it to
// the node that writes, or serves it itself if it is that node.
type Sending struct {
	*Sender
	// Own serves the request on this node. It returns false if this node may not write
	// any more; then the request had no effect.
	Own func() bool
	// Other sends the request to another node.
	Other func(t Target, as *Head) error
	// Again prepares the request for being sent or served once more. It returns false if
	// that is not possible, because the body was read.
	Again func() bool
	wait  time.Duration
}

// Run serves the request on the node that writes. It returns nil once the request is
// answered, a *[door.Refusal] if it is not, and otherwise the error of a response that
// broke off.
func (f *Sending) Run(ctx context.Context, as Head) error {
	as.Origin.Request, as.After = f.Next()
	for first := true; ; first = false {
		if !first && !f.Again() {
			return f.outcome(&as)
		}
		target, own, err := f.target(ctx)
		if why, ok := errors.AsType[*door.Refusal](err); ok && why.Reason == door.NoHolder && !as.Repeated {
			return why
		}
		if err != nil {
			return f.outcome(&as)
		}
		if deadline, ok := ctx.Deadline(); ok {
			as.Timeout = max(time.Until(deadline), time.Millisecond)
		}
		switch {
		case own && as.Repeated:
			// The other node may have written, and this one has become the holder.
			if err := f.repeat(ctx, &as); err != nil || f.Own() {
				return err
			}
		case own:
			if f.Own() {
				return nil
			}
		default:
			err := f.Other(target, &as)
			if err == nil {
				return nil
			}
			if broken, ok := errors.AsType[*BrokenResponse](err); ok {
				return broken
			}
			as.Repeated = as.Repeated || !errors.Is(err, ErrNotBegun)
		}
		if !f.pause(ctx) {
			return f.outcome(&as)
		}
	}
}

// outcome returns the refusal of a request that no node has answered. At the deadline, too,
// its outcome is not known if a node may have begun with it.
func (f *Sending) outcome(as *Head) *door.Refusal {
	if as.Repeated {
		return &door.Refusal{Reason: door.Lost}
	}
	return &door.Refusal{Reason: door.NoHolder}
}

// pause waits before the next attempt. It returns false if ctx ends.
func (f *Sending) pause(ctx context.Context) bool {
	f.wait = min(max(2*f.wait, forwardWait), forwardWaitMax)
	timer := time.NewTimer(f.wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}

// target returns the node that writes. It waits until there is one, for a stream at most
// as long as for another request.
func (s *Sender) target(ctx context.Context) (t Target, own bool, err error) {
	if _, bounded := ctx.Deadline(); !bounded && s.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, s.Timeout)
		defer cancel()
	}
	return s.Target(ctx)
}

// repeat makes the writes of ctx look for what the request has written already.
func (s *Sender) repeat(ctx context.Context, as *Head) error {
	made, err := s.Engine.FindRequest(ctx, as.Origin.Request, as.After)
	if err != nil {
		return &door.Refusal{Reason: door.Lost}
	}
	j := journal.Of(ctx)
	j.Request, j.Made, j.Repeated = as.Origin.Request, made, true
	return nil
}

// BrokenResponse is the error of a response of which a part was sent.
type BrokenResponse struct{ Cause error }

// Error has the cause.
func (b *BrokenResponse) Error() string {
	return "the response of another node broke off: " + b.Cause.Error()
}

// Unwrap returns the cause.
func (b *BrokenResponse) Unwrap() error { return b.Cause }
