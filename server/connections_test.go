package server

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"testing"
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

// TestEvictedFirst fills the bound with idle connections. Those without an accepted
// request are closed before the others, and the longest idle first.
func TestEvictedFirst(t *testing.T) {
	t.Parallel()
	all := &connections{max: 4, perAddress: 100, untrustedMax: 100, all: map[*conn]struct{}{}, byAddress: map[netip.Addr]int{}}
	open := func(idleSince int64, trusted bool) *conn {
		end, other := net.Pipe()
		t.Cleanup(func() { other.Close() })
		n := &conn{Conn: end, all: all, wake: make(chan struct{})}
		n.idleSince.Store(idleSince)
		if !all.add(n) {
			t.Fatal("refused")
		}
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
