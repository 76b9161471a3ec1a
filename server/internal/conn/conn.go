package conn

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/peer"

	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/internal/tool/addresses"
)

// Conn is one connection of any port, with what its requests use together.
type Conn struct {
	net.Conn
	All     *Connections
	remote  remoteAddress
	Address netip.Addr // see addresses.Client
	http    bool
	opened  time.Time
	serial  int64 // later ones have larger ones

	TLS         *tls.ConnectionState // of HTTPS, after the handshake
	secured     bool                 // what it reads is encrypted
	certificate atomic.Value         // the ShownCertificate of the handshake; it holds nil if there is none
	begins      bool                 // nothing was read yet
	ahead       []byte               // was read before a wait, see arrive
	heads       heads                // of HTTP, without its encryption

	// Trusted is true once a request on the connection was accepted.
	Trusted   atomic.Bool
	Shown     atomic.Value // the key of the user whose password was accepted last
	refusals  atomic.Int32 // requests without accepted credentials before that
	delayed   atomic.Int32 // refusals that wait, see delay
	limited   atomic.Int32 // requests that limits have refused, see Pace
	busy      atomic.Int32 // requests in flight
	answered  atomic.Int32 // requests that were answered since framed has looked
	crowded   atomic.Int32 // those that were refused since then because of others without a key
	begun     atomic.Int64 // requests since it was opened, until one was accepted
	arrived   atomic.Int64 // when bytes that belong to no request in flight were read, Unix time in nanoseconds, or 0
	idleSince atomic.Int64 // when busy became 0, Unix time in nanoseconds
	public    atomic.Int32 // requests for what is public in flight, streams included
	watches   atomic.Int32 // the streams among them
	bodies    atomic.Int64 // bytes that are charged to budgets of bodies

	closed sync.Once
	mu     sync.Mutex
	gone   bool          // Close was called
	unsent int64         // response bytes that wait for the client
	sentAt int64         // when unsent last decreased, or became positive
	wake   chan struct{} // closed and replaced when unsent decreases and a response waits

	waiting atomic.Int32 // responses that wait until unsent decreases
}

// New returns a connection that was just accepted.
func New(raw net.Conn, all *Connections, isHTTP bool) *Conn {
	c := &Conn{Conn: raw, All: all, http: isHTTP, opened: time.Now(), begins: true, wake: make(chan struct{})}
	c.remote, c.Address = remoteAddress{raw.RemoteAddr(), c}, addresses.Client(raw.RemoteAddr())
	c.idleSince.Store(c.opened.UnixNano())
	return c
}

// NewDetached returns a connection that no client has.
func NewDetached(all *Connections) *Conn {
	end, _ := net.Pipe()
	c := &Conn{Conn: end, All: all, wake: make(chan struct{})}
	c.Trusted.Store(true)
	return c
}

// ConnKey is the context key of a request's connection.
type ConnKey struct{}

// WithConn is [http.Server.ConnContext].
func WithConn(ctx context.Context, raw net.Conn) context.Context {
	if c := connOfRaw(raw); c != nil {
		return context.WithValue(ctx, ConnKey{}, c)
	}
	return ctx
}

// connOfRaw returns the connection that raw is, or that raw encrypts; nil if there is
// none.
func connOfRaw(raw net.Conn) *Conn {
	if address, ok := raw.RemoteAddr().(*remoteAddress); ok {
		return address.conn
	}
	return nil
}

// Of returns the connection of a request, or otherwise if it has none.
func Of(r *http.Request, otherwise *Conn) *Conn {
	if c, ok := r.Context().Value(ConnKey{}).(*Conn); ok {
		return c
	}
	return otherwise
}

// OfCall returns the connection of a call, or nil if it has none.
func OfCall(ctx context.Context) *Conn {
	if p, ok := peer.FromContext(ctx); ok {
		if address, ok := p.Addr.(*remoteAddress); ok {
			return address.conn
		}
	}
	return nil
}

// In returns the connection of a request or a call by its context, or nil.
func In(ctx context.Context) *Conn {
	if c, ok := ctx.Value(ConnKey{}).(*Conn); ok {
		return c
	}
	return OfCall(ctx)
}

// remoteAddress is the address of a connection's client. It leads from the peer
// of a gRPC call to the connection.
type remoteAddress struct {
	net.Addr
	conn *Conn
}

// RemoteAddr returns the client's address.
func (c *Conn) RemoteAddr() net.Addr { return &c.remote }

// Read reads from the client, see [heads] for HTTP/1.
func (c *Conn) Read(p []byte) (int, error) {
	n, err := c.read(p)
	if c.http && !c.secured {
		return c.heads.read(p, n, err)
	}
	return n, err
}

// read reads from the client. The first bytes of an address that has flooded the server
// wait.
func (c *Conn) read(p []byte) (int, error) {
	if c.begins {
		c.begins = false
		c.arrive()
	}
	if len(c.ahead) > 0 {
		n := copy(p, c.ahead)
		c.ahead = c.ahead[n:]
		return n, nil
	}
	n, err := c.Conn.Read(p)
	if n > 0 && c.busy.Load() == 0 {
		c.arrived.Store(time.Now().UnixNano())
	}
	return n, err
}

// headAhead is how much of a request arrive reads, in bytes.
const headAhead = 4 << 10

// arrive waits before the connection is served if its address has flooded the server. If
// too many connections of the address wait, it closes this one. It does neither if the
// client shows an accepted key at once, over HTTP without TLS: others can have the same
// address as an attacker.
func (c *Conn) arrive() {
	wait := c.All.Standings.floodWait(c.Address)
	if wait == 0 {
		return
	}
	head := make([]byte, headAhead)
	n, err := c.Conn.Read(head)
	c.ahead = head[:n]
	if err != nil || c.All.Accepted(c.ahead) {
		return
	}
	at := c.All.Standings.beginWait(c.Address)
	if at == nil {
		c.ahead = nil
		c.All.Unauthenticated.Add(1)
		_ = c.Close() // the next read returns the reason
		return
	}
	c.arrived.Store(time.Now().Add(wait).UnixNano()) // a stop waits for what was read
	time.Sleep(wait)
	c.All.Standings.endWait(at)
}

// Begin marks the connection as busy with one more request.
func (c *Conn) Begin() {
	c.heads.begun()
	c.busy.Add(1)
	if !c.Trusted.Load() {
		c.begun.Add(1)
	}
}

// End ends a request with a context that Begin began, at a Unix time in nanoseconds, which
// is now if it is 0.
func (c *Conn) End(ctx context.Context, at int64) {
	if !c.Trusted.Load() && ctx.Err() == nil {
		c.answered.Add(1)
	}
	if c.busy.Add(-1) == 0 {
		c.arrived.Store(0)
		if at == 0 {
			at = time.Now().UnixNano()
		}
		c.idleSince.Store(at)
	}
}

// Trust marks the connection as one on which a request was accepted: from then on, it
// is closed for others only while it is idle. If busy connections have all places of
// such connections, Trust returns the refusal of the request, and marks nothing.
func (c *Conn) Trust() *door.Refusal {
	if c.Trusted.Load() {
		return nil
	}
	return c.All.trust(c)
}

// ShownCertificate is a certificate that the client of a connection has shown.
type ShownCertificate interface {
	// Forget is called when the connection is closed. It may be called several times.
	Forget()
}

// Show notes the certificate of a connection.
func (c *Conn) Show(s ShownCertificate) { c.certificate.Store(s) }

// Certificate returns the certificate of a connection, or nil if it has none.
func (c *Conn) Certificate() ShownCertificate {
	s, _ := c.certificate.Load().(ShownCertificate)
	return s
}

// hunger returns how much a connection without an accepted request has taken: the time
// since it was opened, multiplied by its requests and by what they hold. fresh is true if
// it is new and has taken nothing else yet.
func (c *Conn) hunger(now time.Time) (hunger float64, fresh bool) {
	c.mu.Lock()
	held := c.unsent
	c.mu.Unlock()
	held += c.bodies.Load()
	age, taken := now.Sub(c.opened), float64(c.begun.Load())+float64(c.refusals.Load())+float64(held)/BodyFree
	return age.Seconds() * (1 + taken), taken == 0 && age < chanceTime
}

// IsGone reports whether the server has closed the connection.
func (c *Conn) IsGone() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.gone
}

// Close closes the connection. It may be called several times.
func (c *Conn) Close() error {
	c.closed.Do(func() {
		c.All.remove(c)
		c.dropUnsent()
		if shown := c.Certificate(); shown != nil {
			shown.Forget()
		}
	})
	return c.Conn.Close()
}

// CloseWrite closes the sending side. net/http looks for this method: with it,
// a client can still read a response whose request body was not read to its end.
func (c *Conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return c.Close()
}
