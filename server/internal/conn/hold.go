package conn

import (
	"context"
	"time"

	"github.com/ostiary/ostiary/door"
)

// Held are the unsent bytes that a stream keeps for its client between its
// writes. See [door.Hold].
type Held struct {
	Conn  *Conn
	Bytes int64
}

// Set replaces the number of bytes. If the connection has too many unsent bytes,
// Set waits for at most timeout; then it closes the connection. It returns a
// refusal if a bound does not allow the bytes, and then keeps the old number.
func (h *Held) Set(ctx context.Context, bytes int64, timeout time.Duration) *door.Refusal {
	more := bytes - h.Bytes
	if more < 0 {
		h.Conn.sent(-more)
	} else if more > 0 {
		if why := h.Conn.HoldFor(ctx, more, h.Bytes, timeout); why != nil {
			return why
		}
	}
	h.Bytes = bytes
	return nil
}

// Release takes all bytes back.
func (h *Held) Release() {
	if h.Bytes > 0 {
		h.Conn.sent(h.Bytes)
		h.Bytes = 0
	}
}

// Slow returns the refusal of a response that has waited too long for its
// connection.
func (u *unsentBytes) Slow() *door.Refusal {
	return &door.Refusal{Reason: door.TimedOut, Bound: "UnsentBytesPerConnection", Limit: u.PerConnection}
}
