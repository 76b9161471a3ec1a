package link

import (
	"crypto/sha256"
	"crypto/x509"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc/credentials"

	"github.com/ostiary/ostiary/internal/cluster/certificate"
	"github.com/ostiary/ostiary/internal/tool/addresses"
)

// gate counts the connections of other nodes, and knows the certificates of all
// connections. All methods are safe for concurrent use.
type gate struct {
	files   *certificate.Files
	refused func(remote, who string, why error)

	mu      sync.Mutex
	pending places // in the handshake
	joining places // without a certificate, after the handshake
	open    map[*conn]struct{}
	perCert map[[32]byte]int         // number of accepted connections in open by certificate
	turns   map[netip.Addr]time.Time // see turn
}

// conn is a connection to or from another node.
type conn struct {
	net.Conn
	gate     *gate
	address  netip.Addr    // of the other end, see addresses.Client
	accepted bool          // another node has opened it
	wait     time.Duration // before the handshake, see turn
	closing  sync.Once
	closeErr error

	// The fields below belong to the mutex of the gate.
	chain  []*x509.Certificate // of the other end, once it is verified
	closed bool
	last   *time.Timer // closes a connection without a certificate
	asked  bool        // see asks
}

func newGate(files *certificate.Files, refused func(string, string, error)) *gate {
	return &gate{files: files, refused: refused, open: map[*conn]struct{}{}, perCert: map[[32]byte]int{}, turns: map[netip.Addr]time.Time{},
		pending: places{most: PendingMax, perAddress: PendingPerAddress, why: "in the handshake", bound: "Pending"},
		joining: places{most: JoiningMax, perAddress: JoiningPerAddress, why: "without a certificate", bound: "Joining"}}
}

// listen returns l with connections that the gate counts.
func (g *gate) listen(l net.Listener) net.Listener { return gatedListener{l, g} }

type gatedListener struct {
	net.Listener
	gate *gate
}

// Accept implements [net.Listener]. It closes connections of an address that has no turn for
// them.
func (l gatedListener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		accepted, err := l.gate.accept(c)
		if err == nil {
			return accepted, nil
		}
		l.gate.refused(c.RemoteAddr().String(), "", err)
		if tcp, ok := c.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0) // nothing is left of it
		}
		_ = c.Close()
	}
}

// accept adds a connection that has no certificate yet, or fails if its address has no turn.
func (g *gate) accept(c net.Conn) (*conn, error) {
	added := &conn{Conn: c, gate: g, address: addresses.Client(c.RemoteAddr()), accepted: true}
	var err error
	if added.wait, err = g.turn(added); err != nil {
		return nil, err
	}
	g.mu.Lock()
	victim, why := g.pending.add(added)
	g.mu.Unlock()
	g.evict(victim, why)
	return added, nil
}

// turn returns how long the handshake of a connection has to wait because of the others of its
// address: each costs about a millisecond of a processor, whoever calls. It fails if that is too
// long.
func (g *gate) turn(c *conn) (time.Duration, error) {
	const each = time.Second / HandshakesPerSecond
	now := time.Now()
	g.mu.Lock()
	defer g.mu.Unlock()
	address := c.address
	if _, counted := g.turns[address]; !counted && len(g.turns) >= addressesMax {
		maps.DeleteFunc(g.turns, func(_ netip.Addr, end time.Time) bool { return end.Before(now) })
		if len(g.turns) >= addressesMax {
			address = netip.Addr{} // further ones are counted together
		}
	}
	end := g.turns[address] // of all handshakes so far, if they were one after the other
	if end.Before(now) {
		end = now
	}
	wait := end.Sub(now) - HandshakesPerAddress*each
	if wait > handshakeWait {
		return 0, fmt.Errorf("more than %d handshakes of one address, and then %d a second (HandshakesPerAddress, HandshakesPerSecond)", HandshakesPerAddress, HandshakesPerSecond)
	}
	g.turns[address] = end.Add(each)
	return max(wait, 0), nil
}

// join adds a connection that has no certificate after its handshake. It ends soon unless
// a request comes, see asks.
func (g *gate) join(c *conn) {
	g.mu.Lock()
	g.pending.drop(c)
	var victim *conn
	var why error
	if !c.closed {
		victim, why = g.joining.add(c)
		c.last = time.AfterFunc(HandshakeTime, func() { _ = c.Close() })
	}
	g.mu.Unlock()
	g.evict(victim, why)
}

// asks gives a connection without a certificate the time for an answer, once.
func (c *conn) asks() {
	c.gate.mu.Lock()
	defer c.gate.mu.Unlock()
	if !c.asked && !c.closed {
		c.asked = true
		c.last.Reset(JoinTime)
	}
}

// evict closes a connection, if it is not nil, because another one has its place.
func (g *gate) evict(victim *conn, why error) {
	if victim != nil {
		_ = victim.Close()
		g.refused(victim.RemoteAddr().String(), "", why)
	}
}

// places are connections that are bounded, in total and by the address of the other end, the
// oldest first. The caller of the methods holds the mutex of the gate.
type places struct {
	all              []*conn
	most, perAddress int
	why, bound       string // for errors
}

// add adds a connection. If there are too many, it returns the one that is to be closed, and
// why: the oldest one of the address that has most, or of the same address.
func (p *places) add(c *conn) (victim *conn, why error) {
	p.all = append(p.all, c)
	count := map[netip.Addr]int{}
	for _, other := range p.all {
		count[other.address]++
	}
	bound, suffix, most := p.perAddress, "PerAddress", count[c.address]
	if most <= bound {
		if bound, suffix = p.most, "Max"; len(p.all) <= bound {
			return nil, nil
		}
		for _, n := range count {
			most = max(most, n)
		}
	}
	for _, other := range p.all {
		if count[other.address] == most {
			return other, fmt.Errorf("more than %d connections %s (%s%s)", bound, p.why, p.bound, suffix)
		}
	}
	return nil, nil
}

// drop removes a connection.
func (p *places) drop(c *conn) {
	p.all = slices.DeleteFunc(p.all, func(other *conn) bool { return other == c })
}

// verified adds the certificates of a connection, after its handshake.
func (g *gate) verified(c *conn, info credentials.AuthInfo) error {
	chain := info.(credentials.TLSInfo).State.PeerCertificates
	g.mu.Lock()
	defer g.mu.Unlock()
	g.pending.drop(c)
	if c.closed {
		return net.ErrClosed
	}
	if c.accepted {
		key := fingerprint(chain)
		switch {
		case len(g.open) >= ConnectionsMax:
			return fmt.Errorf("%d connections are open (ConnectionsMax)", len(g.open))
		case g.perCert[key] >= ConnectionsPerCertificate:
			return fmt.Errorf("%d connections with this certificate are open (ConnectionsPerCertificate)", g.perCert[key])
		}
		g.perCert[key]++
	}
	c.chain = chain
	g.open[c] = struct{}{}
	return nil
}

// fingerprint identifies the certificate of a connection.
func fingerprint(chain []*x509.Certificate) [32]byte { return sha256.Sum256(chain[0].Raw) }

// Close implements [net.Conn].
func (c *conn) Close() error {
	c.closing.Do(func() {
		c.gate.drop(c)
		c.closeErr = c.Conn.Close()
	})
	return c.closeErr
}

func (g *gate) drop(c *conn) {
	g.mu.Lock()
	defer g.mu.Unlock()
	c.closed = true
	g.pending.drop(c)
	g.joining.drop(c)
	if c.last != nil {
		c.last.Stop()
	}
	if _, ok := g.open[c]; !ok {
		return
	}
	delete(g.open, c)
	if key := fingerprint(c.chain); c.accepted {
		if g.perCert[key]--; g.perCert[key] == 0 {
			delete(g.perCert, key)
		}
	}
}

// verify closes the connections whose certificates are no longer valid.
func (g *gate) verify() {
	type other struct {
		*conn
		chain []*x509.Certificate
	}
	var all []other
	g.mu.Lock()
	for c := range g.open {
		all = append(all, other{c, c.chain})
	}
	g.mu.Unlock()
	for _, c := range all {
		use := x509.ExtKeyUsageServerAuth
		if c.accepted {
			use = x509.ExtKeyUsageClientAuth
		}
		if err := g.files.Verify(c.chain, use); err != nil {
			c.Close()
			g.refused(c.RemoteAddr().String(), "", err)
		}
	}
}
