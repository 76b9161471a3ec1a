package server

import (
	"context"
	"errors"
	"net"
	"os"
	"testing"
	"time"
)

// connected is a connection that patience watches, with its client's end.
func (p *patience) connected(t *testing.T) (client, conn net.Conn) {
	t.Helper()
	raw, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := p.listener(raw)
	defer l.Close()
	if client, err = net.Dial("tcp", raw.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if conn, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		client.Close()
		conn.Close()
	})
	return client, conn
}

// TestPatience: a deadline ends a read in the round after it passed, not
// before; a new one lets reads on; one long ago ends a read at once.
func TestPatience(t *testing.T) {
	t.Parallel()
	p := newPatience()
	client, conn := p.connected(t)
	read := func() <-chan error {
		done := make(chan error, 1)
		go func() {
			_, err := conn.Read(make([]byte, 1))
			done <- err
		}()
		return done
	}
	timedOut := func(err error) bool { return errors.Is(err, os.ErrDeadlineExceeded) }
	conn.SetReadDeadline(p.base.Add(time.Hour))
	done := read()
	p.round(int64(time.Hour) - 1)
	client.Write([]byte("x"))
	if err := <-done; err != nil {
		t.Error("before the deadline:", err)
	}
	done = read()
	p.round(int64(time.Hour))
	if err := <-done; !timedOut(err) {
		t.Error("at the deadline:", err)
	}
	if err := <-read(); !timedOut(err) {
		t.Error("after the deadline:", err)
	}
	conn.SetDeadline(time.Time{})
	p.round(int64(2 * time.Hour))
	done = read()
	client.Write([]byte("x"))
	if err := <-done; err != nil {
		t.Error("without a deadline:", err)
	}
	done = read()
	conn.SetReadDeadline(time.Unix(1, 0))
	if err := <-done; !timedOut(err) {
		t.Error("long ago:", err)
	}
	conn.SetReadDeadline(time.Time{})
	conn.SetReadDeadline(time.Unix(1, 0)) // nobody reads
	client.Write([]byte("x"))
	if err := <-read(); !timedOut(err) {
		t.Error("begun after a deadline:", err)
	}
	conn.SetReadDeadline(time.Time{})
	if err := <-read(); err != nil {
		t.Error("what came meanwhile:", err)
	}
	conn.SetWriteDeadline(p.base.Add(time.Second))
	p.round(int64(time.Minute))
	if _, err := conn.Write([]byte("x")); !timedOut(err) {
		t.Error("a write after its deadline:", err)
	}
	conn.Close()
	conn.Close()
	if len(p.conns) != 0 {
		t.Error("a closed connection is still watched")
	}
}

// TestPatienceRace: a read that begins while its deadline passes ends, and the
// next one reads.
func TestPatienceRace(t *testing.T) {
	t.Parallel()
	p := newPatience()
	client, conn := p.connected(t)
	b := make([]byte, 1)
	for i := range 5_000 {
		done := make(chan error)
		go func() {
			_, err := conn.Read(make([]byte, 1))
			done <- err
		}()
		conn.SetReadDeadline(time.Unix(1, 0))
		if err := <-done; !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatal(i, err)
		}
		conn.SetReadDeadline(time.Time{})
		client.Write(b)
		if _, err := conn.Read(b); err != nil {
			t.Fatal(i, err)
		}
	}
}

// TestEarly: far deadlines are told by the rounds' clock, near ones and all
// while no rounds go by the real one.
func TestEarly(t *testing.T) {
	t.Parallel()
	p := newPatience()
	at := func(d time.Duration) time.Time { return p.base.Add(d) }
	if p.early(at(time.Hour)) {
		t.Error("early without rounds")
	}
	p.round(int64(time.Second))
	for d, want := range map[time.Duration]bool{
		time.Second + 2*patienceRound + 1: true, time.Second + 2*patienceRound: false, time.Second: false, 0: false,
	} {
		if p.early(at(d)) != want {
			t.Errorf("%v: %v", d, !want)
		}
	}
	over := &limit{Context: context.Background(), deadline: time.Now().Add(-time.Nanosecond), clock: p}
	if over.Err() != context.DeadlineExceeded {
		t.Error(over.Err())
	}
}
