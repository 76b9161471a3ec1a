package server

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

// TestConnectionBounds opens connections up to each bound and one more, where all
// are busy and where all are idle. The other bounds have room.
func TestConnectionBounds(t *testing.T) {
	t.Parallel()
	near, far := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
	for name, c := range map[string]struct {
		max, perAddress, untrustedMax int
		trusted                       bool
		address                       netip.Addr // of the others
	}{
		"in total":                    {max: 4, perAddress: 100, untrustedMax: 100, trusted: true, address: far},
		"per address":                 {max: 100, perAddress: 4, untrustedMax: 100, trusted: true, address: near},
		"without an accepted request": {max: 100, perAddress: 100, untrustedMax: 4, address: far},
	} {
		for _, busy := range []bool{true, false} {
			all := &connections{max: c.max, perAddress: c.perAddress, untrustedMax: c.untrustedMax, all: map[*conn]struct{}{}, byAddress: map[netip.Addr]int{}}
			open := func(address netip.Addr) (*conn, bool) {
				end, other := net.Pipe()
				t.Cleanup(func() { other.Close() })
				n := &conn{Conn: end, all: all, address: address, wake: make(chan struct{})}
				return n, all.add(n)
			}
			for range 4 {
				n, ok := open(c.address)
				if !ok {
					t.Fatalf("%s: refused below the bound", name)
				}
				if c.trusted {
					n.trust()
				}
				if busy {
					n.begin()
				}
			}
			if _, ok := open(near); ok == busy {
				t.Errorf("%s, busy %v: one more connection: accepted is %v", name, busy, ok)
			}
			want := int64(1)
			if busy {
				want = 0
			}
			if all.open() != 4 || all.evicted.Load() != want {
				t.Errorf("%s, busy %v: %d are open and %d were closed, expected 4 and %d", name, busy, all.open(), all.evicted.Load(), want)
			}
		}
	}
}

// addIdle adds a connection that is idle since a Unix time in nanoseconds.
func addIdle(t *testing.T, all *connections, since int64) *conn {
	t.Helper()
	end, other := net.Pipe()
	t.Cleanup(func() { other.Close() })
	n := &conn{Conn: end, all: all, wake: make(chan struct{})}
	n.idleSince.Store(since)
	if !all.add(n) {
		t.Fatal("refused")
	}
	return n
}

// TestEvictedFirst fills the bound with idle connections. Those without an accepted
// request are closed before the others, and the longest idle first.
func TestEvictedFirst(t *testing.T) {
	t.Parallel()
	all := &connections{max: 4, perAddress: 100, untrustedMax: 100, all: map[*conn]struct{}{}, byAddress: map[netip.Addr]int{}}
	open := func(idleSince int64, trusted bool) *conn {
		n := addIdle(t, all, idleSince)
		if trusted {
			n.trust()
		}
		return n
	}
	order := []*conn{open(7, false), open(8, false), open(1, true), open(2, true)}
	for i, next := range order {
		open(100+int64(i), true)
		if _, left := all.all[next]; left || all.open() != 4 {
			t.Errorf("connection %d is not closed as number %d", i, i+1)
		}
	}
}

// TestCloseQuiet checks that a stop ends the waiting for a request on a quiet
// connection, but does not cut off a response whose end was not sent yet. It does
// neither on a connection with a request in flight.
func TestCloseQuiet(t *testing.T) {
	t.Parallel()
	all := newConnections(&Options{ConnectionsMax: 100, ConnectionsPerAddress: 100})
	open := func() (own *conn, client net.Conn) {
		end, client := net.Pipe()
		t.Cleanup(func() { client.Close() })
		own = &conn{Conn: end, all: all, http: true, wake: make(chan struct{})}
		if !all.add(own) {
			t.Fatal("refused")
		}
		return own, client
	}
	quiet, client := open()
	busy, busyClient := open()
	busy.begin()
	found, left := all.closeQuiet(nil)
	for range 2 {
		if len(found) != 1 || !found[quiet] || left != 2 {
			t.Fatalf("%d connections are quiet, %d are left; expected 1 and 2", len(found), left)
		}
		found, left = all.closeQuiet(found)
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
	if _, left := all.closeQuiet(found); left != 1 {
		t.Errorf("%d connections are left, expected 1", left)
	}
}

// TestConnectionCounts adds, trusts and removes connections, and compares the counts.
// The end of a connection that was removed changes nothing.
func TestConnectionCounts(t *testing.T) {
	t.Parallel()
	all := newConnections(&Options{ConnectionsMax: 100, ConnectionsPerAddress: 100})
	near, far := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
	expect := func(open, http, untrusted, addresses, ofNear int) {
		t.Helper()
		if all.open() != open || all.openHTTP() != http || all.untrusted != untrusted || len(all.byAddress) != addresses || all.byAddress[near] != ofNear {
			t.Errorf("%d are open, %d HTTP, %d untrusted, %d addresses, %d near; expected %d, %d, %d, %d, %d", all.open(), all.openHTTP(), all.untrusted,
				len(all.byAddress), all.byAddress[near], open, http, untrusted, addresses, ofNear)
		}
	}
	var conns []*conn
	for _, c := range []struct {
		http    bool
		address netip.Addr
	}{{true, near}, {false, near}, {true, far}} {
		end, other := net.Pipe()
		t.Cleanup(func() { other.Close() })
		n := &conn{Conn: end, all: all, http: c.http, address: c.address, wake: make(chan struct{})}
		if !all.add(n) {
			t.Fatal("refused")
		}
		conns = append(conns, n)
	}
	expect(3, 2, 3, 2, 2)
	for range 2 {
		conns[0].trust()
		expect(3, 2, 2, 2, 2)
	}
	for range 2 {
		conns[0].Close()
		expect(2, 1, 2, 2, 1)
	}
	for range 2 {
		all.remove(conns[1])
		expect(1, 1, 1, 1, 0)
	}
	conns[1].trust() // it was removed
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
		c := &conn{Conn: end, all: newConnections(&Options{ConnectionsMax: 10, ConnectionsPerAddress: 10}), wake: make(chan struct{})}
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
		c.begin()
		c.begin()
		read("body")
		c.end()
		if c.arrived.Load() != 0 || c.idleSince.Load() != 0 || c.busy.Load() != 1 {
			t.Error("while a request is in flight:", c.arrived.Load(), c.idleSince.Load(), c.busy.Load())
		}
		c.end()
		ended := time.Now().UnixNano()
		time.Sleep(time.Second)
		if c.idleSince.Load() != ended || c.busy.Load() != 0 {
			t.Error("idle since", c.idleSince.Load(), "expected", ended)
		}
		read("head")
		if c.arrived.Load() != time.Now().UnixNano() {
			t.Error("the head arrived at", c.arrived.Load(), "expected", time.Now().UnixNano())
		}
		c.begin()
		c.end()
		read("")
		if c.arrived.Load() != 0 {
			t.Error("the end of a connection counts as a head")
		}
	})
}

// TestEvictedTogether fills the bound with 96 idle connections: the longest idle three
// of them are closed for a new one.
func TestEvictedTogether(t *testing.T) {
	t.Parallel()
	all := &connections{max: 96, perAddress: 1000, untrustedMax: 1000, all: map[*conn]struct{}{}, byAddress: map[netip.Addr]int{}}
	var conns []*conn
	for i := range 96 {
		conns = append(conns, addIdle(t, all, int64(i)))
	}
	addIdle(t, all, 1000)
	for i, c := range conns {
		if _, left := all.all[c]; left != (i >= 3) || c.gone == left {
			t.Errorf("connection %d: left is %v, closed %v", i, left, c.gone)
		}
	}
	if all.open() != 94 || all.evicted.Load() != 3 {
		t.Errorf("%d are open, %d were closed; expected 94 and 3", all.open(), all.evicted.Load())
	}
}
