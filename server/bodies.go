package server

import (
	"io"
	"sync"
	"time"

	"github.com/ostiary/ostiary/door"
)

// bodyFree is the size up to which a body is not charged, in bytes. RequestsMax
// bounds such bodies.
const bodyFree = 16 << 10

// bodiesBudget bounds the bytes of request bodies and gRPC messages in flight,
// in total and per connection. A body is charged before it is read, with the
// length that the client announces, or else with each part. If the total is
// exhausted, the connection with the oldest charge is closed if the charge is
// older than a second: its client has announced a body and holds it back.
// Otherwise the new body is refused.
//
// It may be used concurrently.
type bodiesBudget struct {
	max, perConnection int64

	mu             sync.Mutex
	total          int64
	oldest, newest *charge
}

// charge is what one request has charged.
type charge struct {
	budget     *bodiesBudget
	conn       *conn
	bytes      int64
	used       bool // add was called
	since      time.Time
	prev, next *charge // older and newer charges
}

// held returns the charged bytes.
func (b *bodiesBudget) held() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.total
}

// newCharge returns a charge of 0 bytes for a request on c.
func (b *bodiesBudget) newCharge(c *conn) charge { return charge{budget: b, conn: c} }

// add charges n more bytes, or returns the refusal and charges nothing.
func (ch *charge) add(n int64) *door.Refusal {
	b := ch.budget
	ch.used = true
	b.mu.Lock()
	defer b.mu.Unlock()
	if ch.conn.bodies+n > b.perConnection {
		return &door.Refusal{Reason: door.TooMany, Bound: "BodyBytesPerConnection", Limit: b.perConnection}
	}
	for b.total+n > b.max {
		old := b.oldest
		if old == nil || old.conn == ch.conn || time.Since(old.since) < stalledAfter {
			return &door.Refusal{Reason: door.TooMany, Bound: "BodyBytesTotal", Limit: b.max}
		}
		b.drop(old.conn)
		go old.conn.Close()
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
	ch.conn.bodies += n
	b.total += n
	return nil
}

// release ends the charge. The charge may be used for another body afterwards.
func (ch *charge) release() {
	if !ch.used {
		return
	}
	ch.budget.mu.Lock()
	defer ch.budget.mu.Unlock()
	ch.budget.unlink(ch)
}

// drop releases all charges of a connection. The caller holds mu.
func (b *bodiesBudget) drop(c *conn) {
	for ch := b.oldest; ch != nil; {
		next := ch.next
		if ch.conn == c {
			b.unlink(ch)
		}
		ch = next
	}
}

// unlink removes a charge from the list and from the sums. The caller holds mu.
func (b *bodiesBudget) unlink(ch *charge) {
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
	b.total -= ch.bytes
	ch.conn.bodies -= ch.bytes
	ch.bytes, ch.prev, ch.next = 0, nil, nil
}

// chargedBody is a request body of unknown length. Each part is charged before
// it is read.
type chargedBody struct {
	io.ReadCloser
	charge *charge
	read   int64
	paid   int64 // bytes that were charged, bodyFree included
}

// Read reads a part. It returns a *[door.Refusal] if the budget is exhausted.
func (b *chargedBody) Read(p []byte) (int, error) {
	if want := b.read + int64(len(p)); want > b.paid {
		// Charge in steps, so that a body of many small parts takes the lock rarely.
		n := max(want-b.paid, bodyFree)
		if why := b.charge.add(n); why != nil {
			return 0, why
		}
		b.paid += n
	}
	n, err := b.ReadCloser.Read(p)
	b.read += int64(n)
	return n, err
}
