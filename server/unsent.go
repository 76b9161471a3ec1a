package server

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
	max, perConnection int64 // the bounds Options.UnsentBytesTotal and -PerConnection
	total              atomic.Int64
}

// reserve counts n bytes of a response to c in the total. If the total exceeds
// its bound, reserve closes the connection with the most unsent bytes among
// those that have sent nothing for a second. If there is none, it returns the
// refusal. A caller without a refusal must call release or [conn.hold].
func (u *unsentBytes) reserve(c *conn, n int64) *door.Refusal {
	for u.total.Add(n) > u.max {
		u.total.Add(-n)
		stalled := c.all.stalled(stalledAfter)
		if stalled == nil || stalled == c {
			return &door.Refusal{Reason: door.TooMany, Bound: "UnsentBytesTotal", Limit: u.max}
		}
		stalled.Close()
	}
	return nil
}

// release takes n bytes out of the total.
func (u *unsentBytes) release(n int64) { u.total.Add(-n) }

// await waits until c holds fewer unsent bytes than its bound, without own, the
// bytes of the response that waits. It closes the connection if that takes longer
// than timeout. It reports whether the response may be sent.
func (c *conn) await(ctx context.Context, own int64, timeout time.Duration) bool {
	if c.roomy(own) {
		return true
	}
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	c.waiting.Add(1)
	defer c.waiting.Add(-1)
	for {
		c.mu.Lock()
		wake, fits, gone := c.wake, c.unsent-own < c.all.unsent.perConnection, c.gone
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

// holdFor counts n more unsent bytes of a response that holds own already. It waits while the
// connection has too many, at most for timeout; then it closes the connection. It returns a
// refusal if a bound does not allow the bytes.
func (c *conn) holdFor(ctx context.Context, n, own int64, timeout time.Duration) *door.Refusal {
	unsent := &c.all.unsent
	if !c.await(ctx, own, timeout) {
		return unsent.slow()
	}
	if why := unsent.reserve(c, n); why != nil {
		return why
	}
	c.hold(n)
	return nil
}

// writePart is the size of the parts in which a large response is written.
const writePart = 64 << 10

// writeHeld writes p, which holdFor has counted, to w in parts.
func (c *conn) writeHeld(w io.Writer, p []byte) (written int, err error) {
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

// roomy reports whether c holds fewer unsent bytes than its bound, without own.
func (c *conn) roomy(own int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.unsent-own < c.all.unsent.perConnection && !c.gone
}

// hold counts n bytes, which reserve has counted in the total, as unsent bytes
// of the connection, until sent.
func (c *conn) hold(n int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.gone {
		c.all.unsent.release(n)
		return
	}
	if c.unsent == 0 {
		c.sentAt = time.Now().UnixNano()
	}
	c.unsent += n
}

// sent ends hold of n bytes.
func (c *conn) sent(n int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.gone {
		return // dropUnsent has released all
	}
	c.unsent -= n
	c.sentAt = time.Now().UnixNano()
	c.all.unsent.release(n)
	if c.waiting.Load() > 0 {
		close(c.wake)
		c.wake = make(chan struct{})
	}
}

// dropUnsent ends all holds of a connection that is closed.
func (c *conn) dropUnsent() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.gone = true
	c.all.unsent.release(c.unsent)
	c.unsent = 0
	close(c.wake)
	c.wake = make(chan struct{})
}

// unsentSince returns the unsent bytes of a connection that has sent nothing
// since before, and otherwise 0.
func (c *conn) unsentSince(before int64) int64 {
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
func (c *conn) Get(n int) *[]byte {
	b := make([]byte, n)
	return &b
}

// Put is called when gRPC has sent a response, or has given it up.
func (c *conn) Put(b *[]byte) {
	c.sent(unsentSize(cap(*b)))
	if cap(*b) == unsentSmall {
		*b = (*b)[:0]
		small.Put(b)
	}
}

// outgoing is an encoded gRPC response on its way to a connection.
type outgoing struct {
	conn *conn
	data *[]byte
}

// newOutgoing returns an outgoing response with the bytes of data. It may keep
// data.
func newOutgoing(c *conn, data []byte) outgoing {
	if len(data) < unsentSmall {
		b := small.Get().(*[]byte)
		*b = append((*b)[:0], data...)
		return outgoing{c, b}
	}
	if cap(data) == unsentSmall {
		data = append(make([]byte, 0, unsentSmall+1), data...) // not one of small
	}
	return outgoing{c, &data}
}

func (o outgoing) size() int64 { return unsentSize(cap(*o.data)) }

// buffers hands the response to gRPC.
func (o outgoing) buffers() mem.BufferSlice {
	o.conn.hold(o.size())
	return mem.BufferSlice{mem.NewBuffer(o.data, o.conn)}
}
