package server

import (
	"context"
	"time"
)

const (
	// refusalsFree is how many requests without accepted credentials a connection
	// may send before they are delayed.
	refusalsFree = 3
	// Each further refusal waits refusalStep longer than the one before, at most
	// refusalWaitMax.
	refusalStep    = 10 * time.Millisecond
	refusalWaitMax = time.Second
	// delayedPerConnection and delayedMax bound the refusals that wait, on one
	// connection and on all. Above them the connection is closed.
	delayedPerConnection = 64
	delayedMax           = 1024
)

// delayRefusal delays the refusal of a request without accepted credentials,
// unless another request on its connection was accepted. So a client without a
// key cannot keep the server busy with refusals: gRPC reads nothing from the
// connection meanwhile, and HTTP/1 no further request. The delay ends when ctx
// does or when the server stops.
func (s *shared) delayRefusal(ctx context.Context, c *conn) {
	if c.trusted.Load() {
		return
	}
	wait := min(time.Duration(c.refusals.Add(1)-refusalsFree)*refusalStep, refusalWaitMax)
	if wait <= 0 {
		return
	}
	defer c.delayed.Add(-1)
	defer c.all.waiting.Add(-1)
	if mine, all := c.delayed.Add(1), c.all.waiting.Add(1); mine > delayedPerConnection || all > delayedMax {
		c.all.unauthenticated.Add(1)
		go c.Close()
		return
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	case <-s.stopping.Done():
	}
}
