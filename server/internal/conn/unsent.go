package conn

import (
	"context"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/mem"

	"github.com/ostiary/ostiary/door"
)

const (
	// unsentOverhead is added to the bytes of each response: what gRPC keeps for
	// it besides the message.
	unsentOverhead = 512
	// unsentSmall is the capacity of the buffers for small messages. gRPC reports
	// the end of a buffer only if it is larger than 1024 bytes.
	unsentSmall = 1025
	// stalledAfter is how long a connection must have sent nothing before it may
	// be closed in favor of others.
	stalledAfter = time.Second
)

// unsentBytes counts the response bytes that wait for slow clients: responses that
// gRPC holds, large writes over HTTP, and what streams declare with [door.Hold].
type unsentBytes struct {
	Max, PerConnection int64 // the bounds Options.UnsentBytesTotal and -PerConnection
	Total              atomic.Int64
}

// Reserve counts n bytes of a response to c in the total. If the total exceeds
// its bound, reserve closes the connection with the most unsent bytes among
// those that have sent nothing for a second. If there is none, it returns the
// refusal. A caller without a refusal must call release or [Conn.hold].
func (u *unsentBytes) Reserve(c *Conn, n int64) *door.Refusal {
	for u.Total.Add(n) > u.Max {
		u.Total.Add(-n)
		stalled := c.All.stalled(stalledAfter)
		if stalled == nil || stalled == c {
			return &door.Refusal{Reason: door.TooMany, Bound: "UnsentBytesTotal", Limit: u.Max}
		}
		stalled.Close()
	}
	return nil
}

// Release takes n bytes out of the total.
func (u *unsentBytes) Release(n int64) { u.Total.Add(-n) }

// Await waits until c holds fewer unsent bytes than its bound, without own, the
// bytes of the response that waits. It closes the connection if that takes longer
// than timeout. It reports whether the response may be sent.
func (c *Conn) Await(ctx context.Context, own int64, timeout time.Duration) bool {
	if c.Roomy(own) {
		return true
	}
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	c.waiting.Add(1)
	defer c.waiting.Add(-1)
	for {
		c.mu.Lock()
		wake, fits, gone := c.wake, c.unsent-own < c.All.Unsent.PerConnection, c.gone
		c.mu.Unlock()
		switch {
		case gone:
			return false
		case fits:
			return true
		}
		select {
		case <-wake:
		case <-ctx.Done():
			return false
		case <-timer.C:
			c.Close()
			return false
		}
	}
}

// HoldFor counts n more unsent bytes of a response that holds own already. It waits while the
// connection has too many, at most for timeout; then it closes the connection. It returns a
// refusal if a bound does not allow the bytes.
func (c *Conn) HoldFor(ctx context.Context, n, own int64, timeout time.Duration) *door.Refusal {
	unsent := &c.All.Unsent
	if !c.Await(ctx, own, timeout) {
		return unsent.Slow()
	}
	if why := unsent.Reserve(c, n); why != nil {
		return why
	}
	c.hold(n)
	return nil
}

// writePart is the size of the parts in which a large response is written.
const writePart = 64 << 10

// WriteHeld writes p, which holdFor has counted, to w in parts.
func (c *Conn) WriteHeld(w io.Writer, p []byte) (written int, err error) {
	left := int64(len(p))
	defer func() { c.sent(left) }()
	for len(p) > 0 && err == nil {
		var n int
		n, err = w.Write(p[:min(len(p), writePart)])
		p, written = p[n:], written+n
		c.sent(int64(n))
		left -= int64(n)
	}
	return written, err
}

// Roomy reports whether c holds fewer unsent bytes than its bound, without own.
func (c *Conn) Roomy(own int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.unsent-own < c.All.Unsent.PerConnection && !c.gone
}

// hold counts n bytes, which reserve has counted in the total, as unsent bytes
// of the connection, until sent.
func (c *Conn) hold(n int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.gone {
		c.All.Unsent.Release(n)
		return
	}
	if c.unsent == 0 {
		c.sentAt = time.Now().UnixNano()
	}
	c.unsent += n
}

// sent ends hold of n bytes.
func (c *Conn) sent(n int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.gone {
		return // dropUnsent has released all
	}
	c.unsent -= n
	c.sentAt = time.Now().UnixNano()
	c.All.Unsent.Release(n)
	if c.waiting.Load() > 0 {
		close(c.wake)
		c.wake = make(chan struct{})
	}
}

// dropUnsent ends all holds of a connection that is closed.
func (c *Conn) dropUnsent() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.gone = true
	c.All.Unsent.Release(c.unsent)
	c.unsent = 0
	close(c.wake)
	c.wake = make(chan struct{})
}

// unsentSince returns the unsent bytes of a connection that has sent nothing
// since before, and otherwise 0.
func (c *Conn) unsentSince(before int64) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sentAt > before {
		return 0
	}
	return c.unsent
}

// small recycles the buffers of small messages.
var small = sync.Pool{New: func() any {
	b := make([]byte, 0, unsentSmall)
	return &b
}}

// unsentSize returns what a response of n bytes counts.
func unsentSize(capacity int) int64 { return int64(capacity) + unsentOverhead }

// Get is never called. It makes conn a [mem.BufferPool].
func (c *Conn) Get(n int) *[]byte {
	b := make([]byte, n)
	return &b
}

// Put is called when gRPC has sent a response, or has given it up.
func (c *Conn) Put(b *[]byte) {
	c.sent(unsentSize(cap(*b)))
	if cap(*b) == unsentSmall {
		*b = (*b)[:0]
		small.Put(b)
	}
}

// Outgoing is an encoded gRPC response on its way to a connection.
type Outgoing struct {
	conn *Conn
	data *[]byte
}

// NewOutgoing returns an outgoing response with the bytes of data. It may keep
// data.
func NewOutgoing(c *Conn, data []byte) Outgoing {
	if len(data) < unsentSmall {
		b := small.Get().(*[]byte)
		*b = append((*b)[:0], data...)
		return Outgoing{c, b}
	}
	if cap(data) == unsentSmall {
		data = append(make([]byte, 0, unsentSmall+1), data...) // not one of small
	}
	return Outgoing{c, &data}
}

func (o Outgoing) Size() int64 { return unsentSize(cap(*o.data)) }

// Buffers hands the response to gRPC.
func (o Outgoing) Buffers() mem.BufferSlice {
	o.conn.hold(o.Size())
	return mem.BufferSlice{mem.NewBuffer(o.data, o.conn)}
}
