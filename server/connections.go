package server

import (
	"cmp"
	"context"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// evictedShare: when a bound on connections is reached, the oldest 1/32 of the
	// idle connections are closed together, so that a flood of new connections
	// does not search all connections for each of them.
	evictedShare = 32
	// untrustedShare: ConnectionsMax divided by it bounds the idle connections
	// that have not yet sent an accepted request.
	untrustedShare = 8
	untrustedMax   = 1024 // bounds them as well
)

// connections are the open connections of all ports. They are bounded in total,
// per remote address, and as long as no request on them was accepted. When a
// bound is reached, idle connections are closed to make room: first those
// without an accepted request, then the others, the longest idle first. If there
// is no idle connection, the new one is refused.
//
// Its methods may be called concurrently.
type connections struct {
	max, perAddress, untrustedMax int // the bounds

	unsent  unsentBytes  // of all connections
	refused atomic.Int64 // new connections that were closed at once
	evicted atomic.Int64 // idle connections that were closed to make room
	// unauthenticated are connections that were closed because too many of their
	// refusals waited. waiting is how many wait on all connections.
	unauthenticated atomic.Int64
	waiting         atomic.Int32

	mu        sync.Mutex
	all       map[*conn]struct{}
	byAddress map[netip.Addr]int
	untrusted int
	http      int // how many of them are on HTTP ports
}

func newConnections(o *Options) *connections {
	return &connections{max: o.ConnectionsMax, perAddress: o.ConnectionsPerAddress,
		untrustedMax: min(max(o.ConnectionsMax/untrustedShare, 1), untrustedMax),
		unsent:       unsentBytes{max: o.UnsentBytesTotal, perConnection: o.UnsentBytesPerConnection},
		all:          map[*conn]struct{}{}, byAddress: map[netip.Addr]int{}}
}

// openHTTP returns how many connections of HTTP ports are open. gRPC ports need
// no such count, because a graceful stop of grpc-go waits for its own
// connections.
func (c *connections) openHTTP() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.http
}

// open returns how many connections are open.
func (c *connections) open() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.all)
}

// listener returns a listener that accepts the connections of l within the
// bounds. isHTTP is true for HTTP ports.
func (c *connections) listener(l net.Listener, isHTTP bool) net.Listener {
	return boundedListener{l, c, isHTTP}
}

type boundedListener struct {
	net.Listener
	connections *connections
	http        bool
}

// Accept waits for the next connection that the bounds allow. It closes those
// that they do not allow.
func (l boundedListener) Accept() (net.Conn, error) {
	for {
		raw, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		c := &conn{Conn: raw, all: l.connections, http: l.http, wake: make(chan struct{})}
		c.remote = remoteAddress{raw.RemoteAddr(), c}
		if tcp, ok := raw.RemoteAddr().(*net.TCPAddr); ok {
			c.address = tcp.AddrPort().Addr().Unmap()
		}
		c.idleSince.Store(time.Now().UnixNano())
		if l.connections.add(c) {
			boundSocket(raw)
			return c, nil
		}
		l.connections.refused.Add(1)
		raw.Close()
	}
}

// add adds a new connection, and closes idle ones if that is needed. It reports
// whether the bounds allow the connection.
func (c *connections) add(n *conn) bool {
	c.mu.Lock()
	var closing []*conn
	defer func() {
		c.mu.Unlock()
		for _, old := range closing {
			old.Close()
		}
	}()
	if c.untrusted >= c.untrustedMax {
		closing = c.evict(func(old *conn) bool { return !old.trusted.Load() })
	}
	if c.byAddress[n.address] >= c.perAddress {
		closing = append(closing, c.evict(func(old *conn) bool { return old.address == n.address })...)
	}
	if len(c.all) >= c.max {
		closing = append(closing, c.evict(func(*conn) bool { return true })...)
	}
	if len(c.all) >= c.max || c.byAddress[n.address] >= c.perAddress || c.untrusted >= c.untrustedMax {
		return false
	}
	c.all[n] = struct{}{}
	c.byAddress[n.address]++
	c.untrusted++
	if n.http {
		c.http++
	}
	return true
}

// evict removes the longest idle of the connections that match and returns them.
// The caller holds mu and closes them.
func (c *connections) evict(match func(*conn) bool) (closing []*conn) {
	type idle struct {
		*conn
		trusted bool
		since   int64
	}
	var candidates []idle
	for old := range c.all {
		if old.busy.Load() == 0 && match(old) {
			candidates = append(candidates, idle{old, old.trusted.Load(), old.idleSince.Load()})
		}
	}
	slices.SortFunc(candidates, func(a, b idle) int {
		if a.trusted != b.trusted {
			if b.trusted {
				return -1
			}
			return 1
		}
		return cmp.Compare(a.since, b.since)
	})
	if len(candidates) > 0 {
		candidates = candidates[:max(len(candidates)/evictedShare, 1)]
	}
	for _, old := range candidates {
		c.removeLocked(old.conn)
		closing = append(closing, old.conn)
	}
	c.evicted.Add(int64(len(closing)))
	return closing
}

// remove removes a connection. It does nothing if the connection was removed
// before.
func (c *connections) remove(old *conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.removeLocked(old)
}

func (c *connections) removeLocked(old *conn) {
	if _, open := c.all[old]; !open {
		return
	}
	delete(c.all, old)
	if c.byAddress[old.address]--; c.byAddress[old.address] == 0 {
		delete(c.byAddress, old.address)
	}
	if !old.trusted.Load() {
		c.untrusted--
	}
	if old.http {
		c.http--
	}
}

// closeQuiet ends the connections of HTTP ports on which no request is in flight
// or on its way. It keeps those that were not quiet before, at the last call,
// because a request may be between two steps of net/http. It returns the
// connections that are quiet now and how many are left, with those that are
// ending.
//
// It does not close a connection, because its goroutine may have read a request
// that is not in flight yet, or may not have sent the end of a response, however
// long ago that was: the system can suspend it at any time. It ends the goroutine's
// next read instead, so that net/http closes the connection if it waits for a
// request.
func (c *connections) closeQuiet(before map[*conn]bool) (quiet map[*conn]bool, left int) {
	quiet = map[*conn]bool{}
	since := time.Now().Add(-headGrace).UnixNano()
	c.mu.Lock()
	defer c.mu.Unlock()
	for old := range c.all {
		if !old.http {
			continue
		}
		left++
		if at := old.arrived.Load(); old.busy.Load() > 0 || at > since || readable(old.Conn) {
			continue
		}
		quiet[old] = true
		if before[old] {
			_ = old.SetReadDeadline(time.Unix(1, 0))
		}
	}
	return quiet, left
}

// headGrace is how long a stopping server waits for the rest of a request's
// head.
const headGrace = time.Second

// stalled returns the connection with the most unsent bytes among those that
// have sent nothing for at least d, or nil if there is none.
func (c *connections) stalled(d time.Duration) (found *conn) {
	before, most := time.Now().Add(-d).UnixNano(), int64(0)
	c.mu.Lock()
	defer c.mu.Unlock()
	for old := range c.all {
		if n := old.unsentSince(before); n > most {
			found, most = old, n
		}
	}
	return found
}

// conn is one connection of any port, with what its requests use together.
type conn struct {
	net.Conn
	all     *connections
	remote  remoteAddress
	address netip.Addr // the remote address, without the port
	http    bool

	// trusted is true once a request on the connection was accepted.
	trusted   atomic.Bool
	refusals  atomic.Int32 // requests without accepted credentials before that
	delayed   atomic.Int32 // refusals that wait, see delay
	busy      atomic.Int32 // requests in flight
	arrived   atomic.Int64 // when bytes that belong to no request in flight were read, Unix time in nanoseconds, or 0
	idleSince atomic.Int64 // when busy became 0, Unix time in nanoseconds
	public    atomic.Int32 // gRPC calls of public methods in flight
	bodies    atomic.Int64 // bytes that are charged to budgets of bodies

	closed sync.Once
	mu     sync.Mutex
	gone   bool          // Close was called
	unsent int64         // response bytes that wait for the client
	sentAt int64         // when unsent last decreased, or became positive
	wake   chan struct{} // closed and replaced when unsent decreases and a response waits

	waiting atomic.Int32 // responses that wait until unsent decreases
}

// newDetached returns a connection that no client has.
func newDetached(all *connections) *conn {
	end, _ := net.Pipe()
	c := &conn{Conn: end, all: all, wake: make(chan struct{})}
	c.trusted.Store(true)
	return c
}

// connKey is the context key of a request's connection.
type connKey struct{}

// withConn is [http.Server.ConnContext].
func withConn(ctx context.Context, raw net.Conn) context.Context {
	if address, ok := raw.RemoteAddr().(*remoteAddress); ok {
		return context.WithValue(ctx, connKey{}, address.conn)
	}
	return ctx
}

// connOf returns the connection of a request, or otherwise if it has none.
func connOf(r *http.Request, otherwise *conn) *conn {
	if c, ok := r.Context().Value(connKey{}).(*conn); ok {
		return c
	}
	return otherwise
}

// remoteAddress is the address of a connection's client. It leads from the peer
// of a gRPC call to the connection.
type remoteAddress struct {
	net.Addr
	conn *conn
}

// RemoteAddr returns the client's address.
func (c *conn) RemoteAddr() net.Addr { return &c.remote }

// Read reads from the client.
func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 && c.busy.Load() == 0 {
		c.arrived.Store(time.Now().UnixNano())
	}
	return n, err
}

// begin marks the connection as busy with one more request.
func (c *conn) begin() {
	c.busy.Add(1)
}

// end ends a request that begin began.
func (c *conn) end() {
	if c.busy.Add(-1) == 0 {
		c.arrived.Store(0)
		c.idleSince.Store(time.Now().UnixNano())
	}
}

// trust marks the connection as one on which a request was accepted.
func (c *conn) trust() {
	if c.trusted.Load() {
		return
	}
	c.all.mu.Lock()
	defer c.all.mu.Unlock()
	if _, open := c.all.all[c]; open && !c.trusted.Load() {
		c.all.untrusted--
		c.trusted.Store(true)
	}
}

// Close closes the connection. It may be called several times.
func (c *conn) Close() error {
	c.closed.Do(func() {
		c.all.remove(c)
		c.dropUnsent()
	})
	return c.Conn.Close()
}

// CloseWrite closes the sending side. net/http looks for this method: with it,
// a client can still read a response whose request body was not read to its end.
func (c *conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return c.Close()
}
