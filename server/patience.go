package server

import (
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// patience watches connections' deadlines in rounds. net/http moves deadlines
// five times a request, each a change to a timer of the runtime; here each is a
// store, and only a deadline that passed, found in the next round, reaches the
// connection.
type patience struct {
	base  time.Time
	last  atomic.Int64 // when the last round began, in nanoseconds after base; 0 while none go
	mu    sync.Mutex
	conns map[*patientConn]struct{}
}

// patienceRound is how late a deadline may be noticed.
const patienceRound = 250 * time.Millisecond

func newPatience() *patience {
	return &patience{base: time.Now(), conns: map[*patientConn]struct{}{}}
}

// run goes its rounds until end is closed.
func (p *patience) run(end <-chan struct{}) {
	tick := time.NewTicker(patienceRound)
	defer tick.Stop()
	defer p.last.Store(0)
	for {
		select {
		case <-end:
			return
		case <-tick.C:
			p.round(int64(time.Since(p.base)))
		}
	}
}

// round sets the deadlines that have passed by now on their connections.
func (p *patience) round(now int64) {
	p.last.Store(now)
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		c.read.expire(now, c.Conn.SetReadDeadline)
		c.write.expire(now, c.Conn.SetWriteDeadline)
	}
}

// open is how many connections there are.
func (p *patience) open() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.conns)
}

// early says that a time is still to come, as far as the last round tells: it
// spares most requests a look at the clock. Of a time within the next two
// rounds it says nothing.
func (p *patience) early(t time.Time) bool {
	last := p.last.Load()
	return last != 0 && int64(t.Sub(p.base))-last > int64(2*patienceRound)
}

// listener gives each connection of l the patience.
func (p *patience) listener(l net.Listener) net.Listener { return patientListener{l, p} }

type patientListener struct {
	net.Listener
	p *patience
}

// Accept waits for the next connection.
func (l patientListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &patientConn{Conn: conn, p: l.p}
	c.write.inside.Store(1) // writes do not ask first
	l.p.mu.Lock()
	l.p.conns[c] = struct{}{}
	l.p.mu.Unlock()
	return c, nil
}

// patientConn is a connection with deadlines that are looked at in rounds.
type patientConn struct {
	net.Conn
	p           *patience
	read, write deadline
}

// Read reads. One that comes after its deadline fails without asking the
// connection.
func (c *patientConn) Read(b []byte) (int, error) {
	c.read.inside.Add(1)
	defer c.read.inside.Add(-1)
	if c.read.at.Load() == passed {
		return 0, os.ErrDeadlineExceeded
	}
	return c.Conn.Read(b)
}

// SetReadDeadline is net.Conn's, noticed a round later.
func (c *patientConn) SetReadDeadline(t time.Time) error {
	return c.read.set(t, c.p.base, c.Conn.SetReadDeadline)
}

// SetWriteDeadline is net.Conn's, noticed a round later.
func (c *patientConn) SetWriteDeadline(t time.Time) error {
	return c.write.set(t, c.p.base, c.Conn.SetWriteDeadline)
}

// SetDeadline sets both.
func (c *patientConn) SetDeadline(t time.Time) error {
	if err := c.SetReadDeadline(t); err != nil {
		return err
	}
	return c.SetWriteDeadline(t)
}

// CloseWrite is for net/http, which lets a client read the answer before a
// connection with an unread body goes away.
func (c *patientConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return c.Close()
}

// Close closes the connection and forgets it.
func (c *patientConn) Close() error {
	c.p.mu.Lock()
	delete(c.p.conns, c)
	c.p.mu.Unlock()
	return c.Conn.Close()
}

// passed is the state of a deadline that is over.
const passed = -1

// deadline is nanoseconds after patience.base, 0 for none, or passed. One that
// passed is set on the connection itself only if somebody is inside: either he
// sees that it passed, or he is seen. After each request net/http ends a read
// that has often not begun.
type deadline struct {
	at     atomic.Int64
	inside atomic.Int32
	mu     sync.Mutex // orders what is set on the connection
	real   bool       // it is set there
}

func (d *deadline) set(t, base time.Time, really func(time.Time) error) error {
	at := int64(0)
	if !t.IsZero() {
		if at = int64(t.Sub(base)); at <= 0 { // long ago, as net/http says to interrupt a read
			d.mu.Lock()
			defer d.mu.Unlock()
			if d.at.Store(passed); d.inside.Load() == 0 {
				return nil
			}
			d.real = true
			return really(t)
		}
	}
	return d.move(at, really)
}

// move changes a deadline to one that is to come, or to none.
func (d *deadline) move(at int64, really func(time.Time) error) error {
	if d.at.Swap(at) != passed {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.real || d.at.Load() == passed { // it was set again meanwhile
		return nil
	}
	d.real = false
	return really(time.Time{})
}

// expire ends what waits on the connection, if the time is up. The connection
// may be closed: then nothing waits.
func (d *deadline) expire(now int64, really func(time.Time) error) {
	at := d.at.Load()
	if at <= 0 || at > now {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.at.CompareAndSwap(at, passed) {
		d.real = true
		really(time.Unix(1, 0))
	}
}
