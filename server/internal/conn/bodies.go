package conn

import (
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/ostiary/ostiary/door"
)

// BodyFree is the size up to which a body is not charged, in bytes. RequestsMax
// bounds such bodies.
const BodyFree = 16 << 10

// BodiesBudget bounds the bytes of request bodies and gRPC messages in flight,
// in total and per connection. A body is charged before it is read, with the
// length that the client announces, or else with each part. If the total is
// exhausted, the connection with the oldest body that has not arrived is closed if
// its charge is older than a second: its client has announced a body and holds it
// back. The new body waits until the memory of the old one is free. If there is no
// such connection, the new body is refused.
//
// It may be used concurrently.
type BodiesBudget struct {
	Name               string // the bound's name in refusals, for example "BodyBytesTotal"
	Max, PerConnection int64

	mu             sync.Mutex
	total          int64
	closing        int64         // the part of total whose connections were closed
	freed          chan struct{} // closed when a charge ends; nil if no body waits
	oldest, newest *Charge
}

// bodyWait is how long a new body waits for the memory of a closed connection.
const bodyWait = time.Second

// Charge is what one request has charged.
type Charge struct {
	budget     *BodiesBudget
	conn       *Conn
	bytes      int64
	used       bool // add was called
	arrived    bool // the whole body was read
	closing    bool // the connection was closed to make room
	since      time.Time
	prev, next *Charge // older and newer charges
}

// Held returns the charged bytes.
func (b *BodiesBudget) Held() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.total
}

// NewCharge returns a charge of 0 bytes for a request on c.
func (b *BodiesBudget) NewCharge(c *Conn) Charge { return Charge{budget: b, conn: c} }

// Add charges n more bytes, or returns the refusal and charges nothing.
func (ch *Charge) Add(n int64) *door.Refusal {
	b := ch.budget
	ch.used = true
	b.mu.Lock()
	defer b.mu.Unlock()
	if ch.conn.bodies.Load()+n > b.PerConnection {
		return &door.Refusal{Reason: door.TooMany, Bound: "BodyBytesPerConnection", Limit: b.PerConnection}
	}
	if b.total+n > b.Max && !b.makeRoom(ch.conn, n) {
		return &door.Refusal{Reason: door.TooMany, Bound: b.Name, Limit: b.Max}
	}
	if ch.bytes == 0 {
		ch.since = time.Now()
		ch.prev = b.newest
		if b.newest != nil {
			b.newest.next = ch
		} else {
			b.oldest = ch
		}
		b.newest = ch
	}
	ch.bytes += n
	if ch.closing {
		b.closing += n
	}
	ch.conn.bodies.Add(n)
	b.total += n
	return nil
}

// Release ends the charge. The charge may be used for another body afterwards.
func (ch *Charge) Release() {
	if !ch.used {
		return
	}
	ch.budget.mu.Lock()
	defer ch.budget.mu.Unlock()
	ch.budget.unlink(ch)
}

// Whole marks the body as arrived. Its client holds nothing back, so its connection
// is not closed for others.
func (ch *Charge) Whole() {
	if !ch.used {
		return
	}
	ch.budget.mu.Lock()
	defer ch.budget.mu.Unlock()
	ch.arrived = true
}

// makeRoom waits until n more bytes fit, and closes connections that hold a body
// back. It reports whether the bytes fit. The caller holds mu, which makeRoom
// releases while it waits.
func (b *BodiesBudget) makeRoom(own *Conn, n int64) bool {
	timeout := time.NewTimer(bodyWait)
	defer timeout.Stop()
	for b.total+n > b.Max {
		if b.total-b.closing+n > b.Max {
			if !b.closeOldest(own) {
				return false
			}
			continue
		}
		freed := b.wait()
		b.mu.Unlock()
		select {
		case <-freed:
			b.mu.Lock()
		case <-timeout.C:
			b.mu.Lock()
			return b.total+n <= b.Max
		}
	}
	return true
}

// wait returns a channel that is closed when the next charge ends. The caller
// holds mu.
func (b *BodiesBudget) wait() <-chan struct{} {
	if b.freed == nil {
		b.freed = make(chan struct{})
	}
	return b.freed
}

// closeOldest closes the connection with the oldest body that is held back, unless
// it is own. It reports whether there is one. The caller holds mu.
func (b *BodiesBudget) closeOldest(own *Conn) bool {
	old := b.oldest
	for old != nil && (old.closing || old.arrived) {
		old = old.next
	}
	if old == nil || old.conn == own || time.Since(old.since) < stalledAfter {
		return false
	}
	b.close(old.conn)
	return true
}

// Acquire takes a place of limit, whose requests are all charged to b. If there is
// none, it closes the connection with the oldest body that is held back and waits
// for a place.
func (b *BodiesBudget) Acquire(limit *Limiter, own *Conn) *door.Refusal {
	why := limit.Acquire()
	if why == nil {
		return nil
	}
	timeout := time.NewTimer(bodyWait)
	defer timeout.Stop()
	b.mu.Lock()
	freed, found := b.wait(), b.closeOldest(own) || b.closing > 0
	b.mu.Unlock()
	for found && why != nil {
		select {
		case <-freed:
		case <-timeout.C:
			return why
		}
		b.mu.Lock()
		freed = b.wait()
		b.mu.Unlock()
		why = limit.Acquire()
	}
	return why
}

// close closes a connection. Its charges end with their requests. The caller
// holds mu.
func (b *BodiesBudget) close(c *Conn) {
	for ch := b.oldest; ch != nil; ch = ch.next {
		if ch.conn == c && !ch.closing {
			ch.closing = true
			b.closing += ch.bytes
		}
	}
	go c.Close()
}

// unlink removes a charge from the list and from the sums. The caller holds mu.
func (b *BodiesBudget) unlink(ch *Charge) {
	if ch.bytes == 0 {
		return
	}
	if ch.prev != nil {
		ch.prev.next = ch.next
	} else {
		b.oldest = ch.next
	}
	if ch.next != nil {
		ch.next.prev = ch.prev
	} else {
		b.newest = ch.prev
	}
	if ch.closing {
		b.closing -= ch.bytes
	}
	b.total -= ch.bytes
	ch.conn.bodies.Add(-ch.bytes)
	ch.bytes, ch.prev, ch.next, ch.closing, ch.arrived = 0, nil, nil, false, false
	if b.freed != nil {
		close(b.freed)
		b.freed = nil
	}
}

// Body replaces the body of a request by one that notes its end, if its length is known and was
// charged, and by one that charges what it reads beyond the bytes that are free, if not.
func (ch *Charge) Body(r *http.Request, free int64) {
	switch {
	case r.ContentLength < 0:
		r.Body = &chargedBody{ReadCloser: r.Body, charge: ch, paid: free}
	case r.ContentLength > free:
		r.Body = countedBody{r.Body, ch}
	}
}

// countedBody is a request body of known length, which is charged.
type countedBody struct {
	io.ReadCloser
	charge *Charge
}

// Read reads a part.
func (b countedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err == io.EOF {
		b.charge.Whole()
	}
	return n, err
}

// chargedBody is a request body of unknown length. Each part is charged before
// it is read.
type chargedBody struct {
	io.ReadCloser
	charge *Charge
	read   int64
	paid   int64 // bytes that were charged, bodyFree included
}

// Read reads a part. It returns a *[door.Refusal] if the budget is exhausted.
func (b *chargedBody) Read(p []byte) (int, error) {
	if want := b.read + int64(len(p)); want > b.paid {
		// Charge in steps, so that a body of many small parts takes the lock rarely.
		n := max(want-b.paid, BodyFree)
		if why := b.charge.Add(n); why != nil {
			return 0, why
		}
		b.paid += n
	}
	n, err := b.ReadCloser.Read(p)
	b.read += int64(n)
	if err == io.EOF {
		b.charge.Whole()
	}
	return n, err
}
