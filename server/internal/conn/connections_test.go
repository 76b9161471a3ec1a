package conn

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"testing"
	"testing/synctest"
	"time"
)

// bounded returns connections with these bounds.
func bounded(total, perAddress int) *Connections {
	return NewConnections(Bounds{Max: total, PerAddress: perAddress})
}

// opened adds a connection from an address, which was opened so long ago, and reports
// whether the bounds allow it.
func (c *Connections) opened(t *testing.T, address netip.Addr, ago time.Duration) (*Conn, bool) {
	t.Helper()
	end, other := net.Pipe()
	t.Cleanup(func() { other.Close() })
	n := New(end, c, false)
	n.Address, n.opened = address, n.opened.Add(-ago)
	added, _ := c.Add(n)
	return n, added
}

// has reports whether a connection is neither removed nor closed.
func (c *Connections) has(n *Conn) bool {
	c.mu.Lock()
	_, left := c.all[n]
	c.mu.Unlock()
	n.mu.Lock()
	defer n.mu.Unlock()
	return left && !n.gone
}

var near, far = netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")

// TestTrustedBounds trusts connections up to the part of each bound that is for them, and
// one more: it gets a place if another one is idle. If all are busy, its request is
// refused, and it stays open and untrusted. New connections are accepted in each case.
func TestTrustedBounds(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		total, perAddress, places int
		bound                     string
	}{{40, 1000, 35, "TrustedConnectionsMax"}, {1000, 40, 35, "TrustedConnectionsPerAddress"}, {40_000, 20_000, 20_000 - 1024, "TrustedConnectionsPerAddress"}} {
		for _, busy := range []bool{true, false} {
			all := bounded(c.total, c.perAddress)
			var trusted []*Conn
			for i := range c.places {
				n, ok := all.opened(t, near, 0)
				if why := n.Trust(); !ok || why != nil {
					t.Fatalf("%s: connection %d is refused: %v, %v", c.bound, i, ok, why)
				}
				n.idleSince.Store(int64(i))
				if busy {
					n.Begin()
				}
				trusted = append(trusted, n)
			}
			more, ok := all.opened(t, near, 0)
			why := more.Trust()
			switch {
			case !ok || !all.has(more):
				t.Errorf("%s, busy %v: a new connection is refused", c.bound, busy)
			case busy && (why == nil || why.Bound != c.bound || why.Limit != int64(c.places) || more.Trusted.Load() || all.Evicted.Load() != 0):
				t.Errorf("%s: one more request: %v, trusted is %v, %d were closed", c.bound, why, more.Trusted.Load(), all.Evicted.Load())
			case !busy && (why != nil || !more.Trusted.Load() || all.has(trusted[0]) || !all.has(trusted[c.places-1])):
				t.Errorf("%s: one more request where others are idle: %v, trusted is %v", c.bound, why, more.Trusted.Load())
			}
			for i := range 2000 {
				if _, ok := all.opened(t, near, 0); !ok {
					t.Fatalf("%s, busy %v: new connection %d is refused", c.bound, busy, i)
				}
			}
			if n := all.Open(); n > c.total || busy && n > c.perAddress {
				t.Errorf("%s, busy %v: %d are open", c.bound, busy, n)
			}
			for i, n := range trusted {
				if busy && !all.has(n) {
					t.Errorf("%s: the busy connection %d with an accepted request is closed", c.bound, i)
				}
			}
		}
	}
}

// TestTrustedAgain checks that a search for idle connections that found none holds for
// fullTime.
func TestTrustedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		all := bounded(8, 1000)
		for range 7 {
			n, _ := all.opened(t, near, 0)
			n.Trust()
			n.Begin()
		}
		more, _ := all.opened(t, near, 0)
		if more.Trust() == nil {
			t.Error("one more request is accepted")
		}
		for n := range all.all {
			if n != more {
				n.End(t.Context(), 0)
			}
		}
		if more.Trust() == nil {
			t.Error("it is searched again at once")
		}
		time.Sleep(fullTime)
		if why := more.Trust(); why != nil {
			t.Error(why)
		}
	})
}

// TestSmallBounds checks bounds of which no eighth is left for untrusted connections: one
// connection is.
func TestSmallBounds(t *testing.T) {
	t.Parallel()
	all := bounded(2, 1)
	first, _ := all.opened(t, near, 0)
	if why := first.Trust(); why != nil {
		t.Error(why)
	}
	first.Begin()
	if _, ok := all.opened(t, near, 0); ok {
		t.Error("a second connection of the address is accepted")
	}
	other, ok := all.opened(t, far, 0)
	if !ok {
		t.Error("a second address is refused")
	}
	if why := other.Trust(); why == nil {
		t.Error("a second connection is trusted")
	}
	first.End(t.Context(), 0)
	if _, ok := all.opened(t, near, 0); !ok || all.has(first) {
		t.Error("the idle connection of the address is not closed for a new one")
	}
}

// TestHungriestFirst fills the part of untrusted connections, and opens more of them from
// further addresses. Each closes the hungriest one of the address that has the most,
// whether it is busy or not.
func TestHungriestFirst(t *testing.T) {
	t.Parallel()
	all := bounded(9, 1000)
	open := func(address netip.Addr, ago time.Duration, change func(*Conn)) *Conn {
		n, ok := all.opened(t, address, ago)
		if !ok {
			t.Fatal("refused")
		}
		change(n)
		return n
	}
	idle := func(*Conn) {}
	trusted := open(near, time.Hour, func(n *Conn) { n.Trust() })
	order := []*Conn{ // 5 of near and 3 of far, in the order in which they are closed
		open(near, 10*time.Second, (*Conn).Begin), // 20 s for its request
		open(near, 16*time.Second, idle),
		open(far, 9*time.Second, func(n *Conn) { n.refusals.Add(2) }),        // 27 s for its refusals
		open(near, time.Second, func(n *Conn) { n.unsent = 9 * BodyFree }),   // 10 s for its response
		open(far, 8*time.Second, func(n *Conn) { n.bodies.Store(BodyFree) }), // 16 s for its body
		open(near, 9*time.Second, idle),
		open(near, 8*time.Second, idle),
		open(far, 7*time.Second, idle),
	}
	for i := range order {
		n := open(netip.AddrFrom4([4]byte{198, 51, 100, byte(i)}), 0, idle)
		for j, old := range order {
			if all.has(old) != (j > i) {
				t.Fatalf("after new connection %d, connection %d is open: %v", i, j, all.has(old))
			}
		}
		if !all.has(n) || !all.has(trusted) {
			t.Fatal("the new connection, or that with an accepted request, is closed")
		}
	}
}

// TestManyUntrusted fills the part of untrusted connections of the default, 1,024, from
// one address, and opens one from another. The address loses the oldest 32.
func TestManyUntrusted(t *testing.T) {
	t.Parallel()
	all := bounded(16_384, 12_288)
	var conns []*Conn
	for i := range 1024 {
		n, ok := all.opened(t, near, time.Duration(2000-i)*time.Second)
		if !ok {
			t.Fatal(i)
		}
		conns = append(conns, n)
	}
	own, _ := all.opened(t, far, time.Hour)
	for i, n := range conns {
		if all.has(n) != (i >= 32) {
			t.Errorf("connection %d is open: %v", i, all.has(n))
		}
	}
	for range 5000 {
		all.opened(t, near, 0)
	}
	if !all.has(own) || all.Open() > 1024 {
		t.Errorf("the connection of the other address is open: %v; %d are open", all.has(own), all.Open())
	}
}

// TestCloseQuiet checks that a stop ends the waiting for a request on a quiet
// connection, but does not cut off a response whose end was not sent yet. It does
// neither on a connection with a request in flight.
func TestCloseQuiet(t *testing.T) {
	t.Parallel()
	all := NewConnections(Bounds{Max: 100, PerAddress: 100})
	open := func() (own *Conn, client net.Conn) {
		end, client := net.Pipe()
		t.Cleanup(func() { client.Close() })
		own = &Conn{Conn: end, All: all, http: true, wake: make(chan struct{})}
		if added, _ := all.Add(own); !added {
			t.Fatal("refused")
		}
		return own, client
	}
	quiet, client := open()
	busy, busyClient := open()
	busy.Begin()
	found, left := all.CloseQuiet(nil)
	for range 2 {
		if len(found) != 1 || !found[quiet] || left != 2 {
			t.Fatalf("%d connections are quiet, %d are left; expected 1 and 2", len(found), left)
		}
		found, left = all.CloseQuiet(found)
	}
	if _, err := quiet.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("a read of the quiet connection:", err)
	}
	go func() {
		io.WriteString(quiet, "the end")
		quiet.Close()
	}()
	if text, err := io.ReadAll(client); string(text) != "the end" || err != nil {
		t.Errorf("the client got %q, %v", text, err)
	}
	go io.WriteString(busyClient, "a body")
	if _, err := busy.Read(make([]byte, 6)); err != nil {
		t.Error("a read of the busy connection:", err)
	}
	if _, left := all.CloseQuiet(found); left != 1 {
		t.Errorf("%d connections are left, expected 1", left)
	}
}

// TestConnectionCounts adds, trusts and removes connections, and compares the counts.
// The end of a connection that was removed changes nothing.
func TestConnectionCounts(t *testing.T) {
	t.Parallel()
	all := NewConnections(Bounds{Max: 100, PerAddress: 100})
	ofAddress := func() int {
		if at := all.byAddress[near]; at != nil {
			return at.open
		}
		return 0
	}
	expect := func(open, http, untrusted, addresses, ofNear int) {
		t.Helper()
		if all.Open() != open || all.OpenHTTP() != http || len(all.untrusted) != untrusted || len(all.byAddress) != addresses || ofAddress() != ofNear {
			t.Errorf("%d are open, %d HTTP, %d untrusted, %d addresses, %d near; expected %d, %d, %d, %d, %d", all.Open(), all.OpenHTTP(), len(all.untrusted),
				len(all.byAddress), ofAddress(), open, http, untrusted, addresses, ofNear)
		}
	}
	var conns []*Conn
	for _, c := range []struct {
		http    bool
		address netip.Addr
	}{{true, near}, {false, near}, {true, far}} {
		end, other := net.Pipe()
		t.Cleanup(func() { other.Close() })
		n := &Conn{Conn: end, All: all, http: c.http, Address: c.address, wake: make(chan struct{})}
		if added, _ := all.Add(n); !added {
			t.Fatal("refused")
		}
		conns = append(conns, n)
	}
	expect(3, 2, 3, 2, 2)
	for range 2 {
		for range 2 {
			conns[0].Trust()
			expect(3, 2, 2, 2, 2)
		}
		if at := all.byAddress[near]; at.trusted != 1 {
			t.Errorf("%d of the address are trusted, expected 1", at.trusted)
		}
		for range 2 {
			all.DistrustAll()
			expect(3, 2, 3, 2, 2)
		}
		if at := all.byAddress[near]; at.trusted != 0 || conns[0].Trusted.Load() {
			t.Errorf("%d of the address are trusted, expected none", at.trusted)
		}
	}
	conns[0].Trust()
	all.Distrust(conns[0])
	expect(3, 2, 3, 2, 2)
	conns[0].Trust()
	for range 2 {
		conns[0].Close()
		all.Distrust(conns[0])
		expect(2, 1, 2, 2, 1)
	}
	for range 2 {
		all.remove(conns[1])
		expect(1, 1, 1, 1, 0)
	}
	conns[1].Trust() // it was removed
	conns[1].Close()
	expect(1, 1, 1, 1, 0)
	conns[2].CloseWrite() // a pipe has no sending side of its own
	expect(0, 0, 0, 0, 0)
}

// TestArrived checks when bytes count as the beginning of a request: if no request is in
// flight, until one ends.
func TestArrived(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		end, client := net.Pipe()
		c := &Conn{Conn: end, All: NewConnections(Bounds{Max: 10, PerAddress: 10}), wake: make(chan struct{})}
		read := func(bytes string) {
			t.Helper()
			go func() {
				if bytes == "" {
					client.Close()
				} else {
					io.WriteString(client, bytes)
				}
			}()
			if n, err := c.Read(make([]byte, 10)); n != len(bytes) || (err == nil) != (bytes != "") {
				t.Error(n, err)
			}
		}
		c.Begin()
		c.Begin()
		read("body")
		c.End(t.Context(), 0)
		if c.arrived.Load() != 0 || c.idleSince.Load() != 0 || c.busy.Load() != 1 {
			t.Error("while a request is in flight:", c.arrived.Load(), c.idleSince.Load(), c.busy.Load())
		}
		c.End(t.Context(), 0)
		ended := time.Now().UnixNano()
		time.Sleep(time.Second)
		if c.idleSince.Load() != ended || c.busy.Load() != 0 {
			t.Error("idle since", c.idleSince.Load(), "expected", ended)
		}
		read("head")
		if c.arrived.Load() != time.Now().UnixNano() {
			t.Error("the head arrived at", c.arrived.Load(), "expected", time.Now().UnixNano())
		}
		c.Begin()
		c.End(t.Context(), 0)
		read("")
		if c.arrived.Load() != 0 {
			t.Error("the end of a connection counts as a head")
		}
	})
}

// TestEvictedTogether fills the part of trusted connections with 96 idle ones: the
// longest idle three of them are closed for a new one.
func TestEvictedTogether(t *testing.T) {
	t.Parallel()
	all := bounded(109, 1000)
	var conns []*Conn
	for i := range 97 {
		n, _ := all.opened(t, near, 0)
		n.idleSince.Store(int64(i))
		if i < 96 {
			conns = append(conns, n)
		}
		n.Trust()
	}
	for i, c := range conns {
		if all.has(c) != (i >= 3) {
			t.Errorf("connection %d is open: %v", i, all.has(c))
		}
	}
	if all.Open() != 94 || all.Evicted.Load() != 3 {
		t.Errorf("%d are open, %d were closed; expected 94 and 3", all.Open(), all.Evicted.Load())
	}
}
