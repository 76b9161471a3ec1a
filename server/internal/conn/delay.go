package conn

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
	// refusalsLongest is the number of refusals after which no refusal waits longer.
	refusalsLongest = float64(refusalWaitMax / refusalStep)
	// delayedPerConnection, delayedPerAddress and delayedMax bound the refusals that
	// wait, on one connection, on those of one address, and on all. Above them the
	// connection is closed. Of an address, only those count that wait because of it.
	delayedPerConnection = 64
	delayedPerAddress    = 64
	delayedMax           = 1024
)

// refusalWait returns how long a refusal waits of which so many came before it, beyond
// those that are free.
func refusalWait(n float64) time.Duration {
	return max(min(time.Duration(n*float64(refusalStep)), refusalWaitMax), 0)
}

// DelayRefusal delays the refusal of a request without accepted credentials,
// unless another request on its connection was accepted. So a client without a
// key cannot keep the server busy with refusals, nor with new connections for them:
// gRPC reads nothing from the connection meanwhile, and HTTP/1 no further request. The
// delay grows with the refusals of the connection and with those of its address, see
// [standings]. It ends with ctx, and with stopping, which ends when the server stops. If the
// client has left meanwhile, DelayRefusal closes the connection: whoever waits does not read its end,
// and each refusal of what was received before would wait again.
func (c *Conn) DelayRefusal(ctx, stopping context.Context) {
	if c.Trusted.Load() || c.IsGone() {
		return
	}
	at, wait := c.All.Standings.refuse(c.Address)
	if at != nil && wait > 0 {
		defer c.All.Standings.endRefusal(at)
	}
	wait = max(wait, refusalWait(float64(c.refusals.Add(1)-refusalsFree)))
	if wait == 0 {
		return
	}
	defer c.delayed.Add(-1)
	defer c.All.waiting.Add(-1)
	if mine, all := c.delayed.Add(1), c.All.waiting.Add(1); at == nil || mine > delayedPerConnection || all > delayedMax {
		c.All.Unauthenticated.Add(1)
		go c.Close()
		return
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		if ended(c.Conn) {
			_ = c.Close()
		}
	case <-ctx.Done():
	case <-stopping.Done():
	}
}

const (
	// pacedFree is how many requests of a connection limits may refuse before refusals wait.
	pacedFree = 10
	// Each further refusal waits paceStep longer than the one before, at most paceMax.
	paceStep = 10 * time.Millisecond
	paceMax  = 200 * time.Millisecond
	// pacedMax bounds the refusals that wait. Above it, none waits.
	pacedMax = 4096
)

// Pace delays the answer to a request of a known caller that a limit has refused, if limits
// have refused several requests of the connection. It ends with ctx, and with stopping.
func (c *Conn) Pace(ctx, stopping context.Context) {
	wait := min(time.Duration(c.limited.Add(1)-pacedFree)*paceStep, paceMax)
	if wait <= 0 {
		return
	}
	defer c.All.paced.Add(-1)
	if c.All.paced.Add(1) > pacedMax {
		return
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	case <-stopping.Done():
	}
}
