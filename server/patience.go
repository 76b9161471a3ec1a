package server

import (
	"net"
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

func (p *patience) round(now int64) {
	p.last.Store(now)
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		c.read.expire(now, c.Conn.SetReadDeadline)
		c.write.expire(now, c.Conn.SetWriteDeadline)
	}
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

// passed is the state of a deadline that is set on the connection itself.
const passed = -1

// deadline is nanoseconds after patience.base, 0 for none, or passed.
type deadline struct {
	at atomic.Int64
	mu sync.Mutex // orders what is set on the connection
}

func (d *deadline) set(t, base time.Time, really func(time.Time) error) error {
	at := int64(0)
	if !t.IsZero() {
		if at = int64(t.Sub(base)); at <= 0 { // long ago, as net/http says to interrupt a read
			d.mu.Lock()
			defer d.mu.Unlock()
			d.at.Store(passed)
			return really(t)
		}
	}
	if d.at.Swap(at) != passed {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.at.Load() == passed {
		return nil // it was set again meanwhile
	}
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
		really(time.Unix(1, 0))
	}
}
