package link

import (
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestTurns requires that an address gets its share of handshakes and no more, that the others
// do not wait for it, and that what is counted is bounded.
func TestTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGate(nil, nil)
		flood, other := &conn{address: netip.MustParseAddr("192.0.2.1")}, &conn{address: netip.MustParseAddr("192.0.2.2")}
		now, waiting := 0, 0
		var last time.Duration
		for range 10 * HandshakesPerAddress {
			wait, err := g.turn(flood)
			switch {
			case err != nil && !strings.Contains(err.Error(), "HandshakesPerAddress"):
				t.Fatal(err)
			case err == nil && wait == 0:
				now++
			case err == nil:
				waiting, last = waiting+1, wait
			}
		}
		if want := int(handshakeWait.Seconds() * HandshakesPerSecond); now != HandshakesPerAddress+1 || waiting != want || last != handshakeWait {
			t.Errorf("%d have their turn at once, and %d wait, the last one %s; want %d, %d, %s", now, waiting, last, HandshakesPerAddress+1, want, handshakeWait)
		}
		if wait, err := g.turn(other); wait != 0 || err != nil {
			t.Errorf("another address waits %s, error %v", wait, err)
		}
		time.Sleep(time.Second)
		if wait, err := g.turn(flood); err != nil || wait != handshakeWait-time.Second+time.Second/HandshakesPerSecond {
			t.Errorf("a second later it waits %s, error %v", wait, err)
		}
		for i := range addressesMax + 100 {
			if _, err := g.turn(&conn{address: netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)})}); err != nil {
				t.Fatal(err)
			}
		}
		if len(g.turns) > addressesMax+1 {
			t.Errorf("%d addresses are counted apart", len(g.turns))
		}
		time.Sleep(time.Minute)
		if _, err := g.turn(&conn{address: netip.MustParseAddr("198.51.100.1")}); err != nil || len(g.turns) != 1 {
			t.Errorf("a minute later %d addresses are counted, error %v", len(g.turns), err)
		}
	})
}
