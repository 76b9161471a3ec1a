//go:build linux

package fleet

import (
	"net"
	"sync"
	"time"
)

// Fault is what happens to the bytes of a [Path]. The zero value lets them pass.
type Fault struct {
	// Cut ends every connection, and refuses new ones.
	Cut bool
	// Hang holds all bytes back. They pass when it ends, as after a lost packet.
	Hang bool
	// Delay is how much longer bytes take, in each direction.
	Delay time.Duration
}

// Path is the way from a node to the database, or to another node. Its methods are safe
// for concurrent use.
type Path struct {
	mu      sync.Mutex
	fault   Fault
	changed chan struct{} // closed at the next change of fault
	open    map[net.Conn]struct{}
}

func newPath() *Path {
	return &Path{changed: make(chan struct{}), open: map[net.Conn]struct{}{}}
}

// Set sets the fault of the path; Fault{} ends it.
func (p *Path) Set(f Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fault = f
	close(p.changed)
	p.changed = make(chan struct{})
	if f.Cut {
		for c := range p.open {
			reset(c)
		}
	}
}

// Fault returns the fault of the path.
func (p *Path) Fault() Fault {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.fault
}

// reset ends a connection at once, so that its other end gets an error.
func reset(c net.Conn) {
	if t, ok := c.(*net.TCPConn); ok {
		_ = t.SetLinger(0)
	}
	_ = c.Close()
}

// add notes a connection. It returns false if the path is cut.
func (p *Path) add(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.fault.Cut {
		return false
	}
	p.open[c] = struct{}{}
	return true
}

func (p *Path) remove(c net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.open, c)
}

// pass returns when bytes that were read at a time may be written.
func (p *Path) pass(read time.Time) {
	for {
		p.mu.Lock()
		fault, changed := p.fault, p.changed
		p.mu.Unlock()
		left := time.Until(read.Add(fault.Delay))
		switch {
		case fault.Cut, !fault.Hang && left <= 0:
			return
		case fault.Hang:
			<-changed
		default:
			select {
			case <-changed:
			case <-time.After(left):
			}
		}
	}
}

// join carries bytes between two connections until both have ended.
func (p *Path) join(a, b net.Conn) {
	var both sync.WaitGroup
	both.Go(func() { p.carry(a, b) })
	both.Go(func() { p.carry(b, a) })
	both.Wait()
}

// chunkBytes is the size of what is read at once, and chunksMax how much of it is on the
// way in one direction.
const (
	chunkBytes = 16 << 10
	chunksMax  = 256
)

type chunk struct {
	bytes []byte
	read  time.Time
}

// carry carries what it reads from one connection to another one.
func (p *Path) carry(to, from net.Conn) {
	queue := make(chan chunk, chunksMax)
	go func() {
		defer close(queue)
		for {
			b := make([]byte, chunkBytes)
			n, err := from.Read(b)
			if n > 0 {
				queue <- chunk{b[:n], time.Now()}
			}
			if err != nil {
				return
			}
		}
	}()
	for c := range queue {
		p.pass(c.read)
		if _, err := to.Write(c.bytes); err != nil {
			_ = from.Close()
			for range queue { // the reader ends
			}
		}
	}
	if t, ok := to.(*net.TCPConn); ok {
		_ = t.CloseWrite()
	}
}

// relay listens on loopback, and carries each connection over a path to an address.
type relay struct {
	listener net.Listener
	to       string
	pathOf   func(c net.Conn) *Path
}

// newRelay starts a relay. pathOf returns the path of a connection.
func newRelay(to string, pathOf func(c net.Conn) *Path) (*relay, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	r := &relay{l, to, pathOf}
	go r.serve()
	return r, nil
}

func (r *relay) address() string { return r.listener.Addr().String() }

// serve accepts connections until the listener is closed.
func (r *relay) serve() {
	for {
		c, err := r.listener.Accept()
		if err != nil {
			return
		}
		go r.connect(c)
	}
}

func (r *relay) connect(c net.Conn) {
	defer c.Close()
	p := r.pathOf(c)
	if !p.add(c) {
		reset(c)
		return
	}
	defer p.remove(c)
	to, err := net.Dial("tcp", r.to)
	if err != nil {
		reset(c)
		return
	}
	defer to.Close()
	if p.add(to) {
		defer p.remove(to)
		p.join(c, to)
	}
}
