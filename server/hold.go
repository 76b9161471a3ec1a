package server

import (
	"context"
	"time"

	"github.com/ostiary/ostiary/door"
)

// held are the unsent bytes that a stream keeps for its client between its
// writes. See [door.Hold].
type held struct {
	conn  *conn
	bytes int64
}

// set replaces the number of bytes. If the connection has too many unsent bytes,
// set waits for at most timeout; then it closes the connection. It returns a
// refusal if a bound does not allow the bytes, and then keeps the old number.
func (h *held) set(ctx context.Context, bytes int64, timeout time.Duration) *door.Refusal {
	more := bytes - h.bytes
	if more < 0 {
		h.conn.sent(-more)
	} else if more > 0 {
		if why := h.conn.holdFor(ctx, more, h.bytes, timeout); why != nil {
			return why
		}
	}
	h.bytes = bytes
	return nil
}

// release takes all bytes back.
func (h *held) release() {
	if h.bytes > 0 {
		h.conn.sent(h.bytes)
		h.bytes = 0
	}
}

// slow returns the refusal of a response that has waited too long for its
// connection.
func (u *unsentBytes) slow() *door.Refusal {
	return &door.Refusal{Reason: door.TimedOut, Bound: "UnsentBytesPerConnection", Limit: u.perConnection}
}
