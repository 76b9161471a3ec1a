package conn

import (
	"context"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ostiary/ostiary/door"
)

// unsentConns returns n connections that share the bounds on unsent bytes.
func unsentConns(n int, total, perConnection int64) (*unsentBytes, []*Conn) {
	all := NewConnections(Bounds{Max: 100, PerAddress: 100, UnsentTotal: total, UnsentPerConnection: perConnection})
	conns := make([]*Conn, n)
	for i := range conns {
		conns[i] = NewDetached(all)
		all.Add(conns[i])
	}
	return &all.Unsent, conns
}

// TestStalled fills the total. A further response closes the connection that has the
// most unsent bytes among those that have sent nothing for stalledAfter, but never its
// own.
func TestStalled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		u, c := unsentConns(4, 100, 1000)
		hold := func(i int, n int64) *door.Refusal {
			why := u.Reserve(c[i], n)
			if why == nil {
				c[i].hold(n)
			}
			return why
		}
		for i, n := range []int64{20, 50, 29, 1} {
			if why := hold(i, n); why != nil {
				t.Fatal(why)
			}
		}
		refused := func(i int) {
			t.Helper()
			if why := hold(i, 1); why == nil || why.Error() != "the server has too many requests: the bound UnsentBytesTotal is 100" || why.Reason != door.TooMany || u.Total.Load() != 100 {
				t.Errorf("%v, %d bytes are unsent", why, u.Total.Load())
			}
		}
		time.Sleep(stalledAfter - 1)
		refused(3)
		c[1].sent(1) // of its 50
		hold(3, 1)
		time.Sleep(1)
		refused(2) // the first two stalled ones are its own, with 29 bytes, and the one with 20
		if c[0].gone || c[1].gone || c[2].gone {
			t.Error("a connection was closed for the one that has most")
		}
		if why := hold(3, 1); why != nil || !c[2].gone || c[0].gone || c[1].gone || u.Total.Load() != 72 {
			t.Errorf("%v, closed are %v, %v, %v, %d bytes are unsent", why, c[0].gone, c[1].gone, c[2].gone, u.Total.Load())
		}
		// What a closed connection holds does not count.
		c[2].sent(29)
		if u.Reserve(c[2], 10) == nil {
			c[2].hold(10)
		}
		c[2].Close()
		if u.Total.Load() != 72 {
			t.Error(u.Total.Load())
		}
		for i := range c {
			c[i].Close()
		}
		if u.Total.Load() != 0 {
			t.Error(u.Total.Load())
		}
	})
}

// TestAwait lets responses wait for their connection, until bytes are sent, the time is
// up, the client leaves, or the connection is closed.
func TestAwait(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		own   int64
		then  func(c *Conn, leave func())
		fits  bool
		after time.Duration
		gone  bool
	}{
		"its own bytes":     {1, func(*Conn, func()) {}, true, 0, false},
		"one byte is sent":  {0, func(c *Conn, _ func()) { c.sent(1) }, true, time.Second, false},
		"none is sent":      {0, func(*Conn, func()) {}, false, 5 * time.Second, true},
		"the client leaves": {0, func(_ *Conn, leave func()) { leave() }, false, time.Second, false},
		"it is closed":      {0, func(c *Conn, _ func()) { c.Close() }, false, time.Second, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			u, conns := unsentConns(1, 1000, 100)
			u.Reserve(conns[0], 100)
			conns[0].hold(100)
			ctx, leave := context.WithCancel(t.Context())
			defer leave()
			time.AfterFunc(time.Second, func() { c.then(conns[0], leave) })
			begin := time.Now()
			fits := conns[0].Await(ctx, c.own, 5*time.Second)
			if fits != c.fits || time.Since(begin) != c.after || conns[0].gone != c.gone || conns[0].waiting.Load() != 0 {
				t.Errorf("%s: fits is %v after %v, closed is %v, %d wait", name, fits, time.Since(begin), conns[0].gone, conns[0].waiting.Load())
			}
			if conns[0].Roomy(c.own) != (c.fits && !c.gone) {
				t.Errorf("%s: roomy is %v", name, !c.fits)
			}
		})
	}
	_, conns := unsentConns(1, 1000, 100)
	conns[0].Close()
	if conns[0].Roomy(0) || conns[0].Await(t.Context(), 0, time.Hour) {
		t.Error("a closed connection has room")
	}
}

// TestHeld changes what a stream keeps.
func TestHeld(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		u, conns := unsentConns(2, 100, 50)
		h, other := Held{Conn: conns[0]}, Held{Conn: conns[1]}
		for _, n := range []int64{10, 50, 50, 20, 60, 0, 60} {
			if why := h.Set(t.Context(), n, time.Second); why != nil || h.Bytes != n || u.Total.Load() != n || conns[0].unsent != n {
				t.Errorf("%d bytes: %v, %d, %d, %d", n, why, h.Bytes, u.Total.Load(), conns[0].unsent)
			}
		}
		since := conns[0].sentAt
		time.Sleep(stalledAfter / 2)
		if why := h.Set(t.Context(), 60, time.Second); why != nil || conns[0].sentAt != since {
			t.Error("the same number of bytes counts as sent:", why)
		}
		if why := other.Set(t.Context(), 41, time.Second); why == nil || other.Bytes != 0 || u.Total.Load() != 60 {
			t.Errorf("%v, %d, %d", why, other.Bytes, u.Total.Load())
		}
		same := Held{Conn: conns[0]}
		why := same.Set(t.Context(), 1, time.Second)
		if why == nil || why.Error() != "the request took too long: the bound UnsentBytesPerConnection is 50" || why.Reason != door.TimedOut {
			t.Error(why)
		}
		h.Release()
		h.Release()
		if u.Total.Load() != 0 || h.Bytes != 0 {
			t.Error(u.Total.Load(), h.Bytes)
		}
	})
}

// TestOutgoing sends messages around the size of the recycled buffers: the buffer is
// counted while gRPC has it.
func TestOutgoing(t *testing.T) {
	t.Parallel()
	u, conns := unsentConns(1, 1<<20, 1<<20)
	for _, c := range []struct{ bytes, capacity, counted int }{
		{0, 0, unsentSmall}, {1, 1, unsentSmall}, {unsentSmall - 1, unsentSmall - 1, unsentSmall}, {unsentSmall - 1, 5000, unsentSmall},
		{unsentSmall, unsentSmall, unsentSmall + 1}, {unsentSmall, 5000, 5000}, {5000, 5000, 5000}, {5000, 6000, 6000},
	} {
		data := make([]byte, c.bytes, c.capacity)
		for i := range data {
			data[i] = byte(i)
		}
		out := NewOutgoing(conns[0], data)
		if out.Size() < int64(c.counted+unsentOverhead) || out.Size() > int64(c.counted+unsentOverhead+300) { // append rounds up
			t.Errorf("%d bytes of %d count %d, want %d", c.bytes, c.capacity, out.Size(), c.counted+unsentOverhead)
		}
		if why := u.Reserve(conns[0], out.Size()); why != nil {
			t.Fatal(why)
		}
		buffers := out.Buffers()
		if string(buffers.Materialize()) != string(data) || conns[0].unsent != out.Size() {
			t.Errorf("%d bytes: another content, or %d unsent", c.bytes, conns[0].unsent)
		}
		buffers.Free()
		if u.Total.Load() != 0 || conns[0].unsent != 0 {
			t.Errorf("%d bytes: %d and %d are unsent", c.bytes, u.Total.Load(), conns[0].unsent)
		}
		if small := small.Get().(*[]byte); cap(*small) != unsentSmall || len(*small) != 0 {
			t.Errorf("after %d bytes a small buffer has %d of %d", c.bytes, len(*small), cap(*small))
		}
	}
}

// cutWriter takes so many bytes and then fails.
type cutWriter struct{ left int }

func (w *cutWriter) Write(p []byte) (int, error) {
	n := min(len(p), w.left)
	if w.left -= n; n < len(p) {
		return n, io.ErrClosedPipe
	}
	return n, nil
}

// TestWriteLarge writes a large response whose client leaves: what was not written does
// not count as unsent afterwards.
func TestWriteLarge(t *testing.T) {
	t.Parallel()
	const bytes = 3*writePart + 5
	for _, taken := range []int{0, 1, writePart, writePart + 1, bytes - 1, bytes} {
		u, conns := unsentConns(1, 1<<20, 1<<20)
		if why := conns[0].HoldFor(t.Context(), bytes, 0, time.Minute); why != nil {
			t.Fatal(why)
		}
		n, err := conns[0].WriteHeld(&cutWriter{taken}, make([]byte, bytes))
		if n != taken || (err == nil) != (taken == bytes) || u.Total.Load() != 0 || conns[0].unsent != 0 {
			t.Errorf("%d bytes taken: %d, %v; %d and %d are unsent", taken, n, err, u.Total.Load(), conns[0].unsent)
		}
	}
}
