package door

import (
	"context"
	"errors"
	"time"
)

type holdKey struct{}

// WithHold returns a context whose [Hold] calls hold. The server sets it for
// streams. hold may be called while a response is written, but not concurrently.
func WithHold(ctx context.Context, hold func(bytes int64) error) context.Context {
	return context.WithValue(ctx, holdKey{}, hold)
}

// Hold declares that a stream keeps about so many bytes in memory while its
// client reads, besides the bytes of the current write: for example a page of a
// list of which the first lines are sent. The bytes count as unsent until the
// next call of Hold, which replaces their number, or until the stream ends. Hold
// waits if the connection has too many unsent bytes. It returns a *[Refusal] if
// it waits too long or if all connections together have too many. It returns nil
// for a context without bounds.
//
// ctx is the context of the request or of the gRPC stream. Hold must not be
// called concurrently for one stream.
func Hold(ctx context.Context, bytes int) error {
	if hold, ok := ctx.Value(holdKey{}).(func(int64) error); ok {
		return hold(int64(bytes))
	}
	return nil
}

const (
	// holdWait is how long [AwaitHold] waits for memory.
	holdWait = 30 * time.Second
	// holdRetry is how often it tries.
	holdRetry = 20 * time.Millisecond
)

// AwaitHold is [Hold] for a stream that may be late, such as a watch. While all
// connections together have too many unsent bytes, it waits, for 30 seconds at
// most.
func AwaitHold(ctx context.Context, bytes int) error {
	var timeout <-chan time.Time
	for {
		err := Hold(ctx, bytes)
		if why, ok := errors.AsType[*Refusal](err); !ok || why.Reason != TooMany {
			return err
		}
		if timeout == nil {
			timeout = time.After(holdWait)
		}
		select {
		case <-time.After(holdRetry):
		case <-timeout:
			return err
		case <-ctx.Done():
			return err
		}
	}
}
