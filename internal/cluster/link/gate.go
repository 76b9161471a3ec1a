package link

import (
	"crypto/sha256"
	"crypto/x509"
	"fmt"
	"net"
	"sync"

	"google.golang.org/grpc/credentials"

	"github.com/ostiary/ostiary/internal/cluster/certificate"
)

// gate counts the connections of other nodes, and knows the certificates of all
// connections. All methods are safe for concurrent use.
type gate struct {
	files   *certificate.Files
	refused func(remote, who string, why error)
	joins   bool // a connection may have no certificate

	mu      sync.Mutex
	pending []*conn // without a valid certificate yet, the oldest first
	open    map[*conn]struct{}
	perCert map[[32]byte]int // number of accepted connections in open by certificate
}

// conn is a connection to or from another node.
type conn struct {
	net.Conn
	gate     *gate
	accepted bool // another node has opened it
	closing  sync.Once
	closeErr error

	// The fields below belong to the mutex of the gate.
	chain  []*x509.Certificate // of the other end, once it is verified
	closed bool
}

func newGate(files *certificate.Files, refused func(string, string, error)) *gate {
	return &gate{files: files, refused: refused, open: map[*conn]struct{}{}, perCert: map[[32]byte]int{}}
}

// listen returns l with connections that the gate counts.
func (g *gate) listen(l net.Listener) net.Listener { return gatedListener{l, g} }

type gatedListener struct {
	net.Listener
	gate *gate
}

// Accept implements [net.Listener].
func (l gatedListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return l.gate.accept(c), nil
}

// accept adds a connection that has no certificate yet. If there are too many of them,
// it closes the oldest one of the address that has most.
func (g *gate) accept(c net.Conn) *conn {
	added := &conn{Conn: c, gate: g, accepted: true}
	g.mu.Lock()
	g.pending = append(g.pending, added)
	var victim *conn
	if len(g.pending) > PendingMax {
		victim = g.hungriest()
	}
	g.mu.Unlock()
	if victim != nil {
		victim.Close()
		g.refused(victim.RemoteAddr().String(), "", fmt.Errorf("more than %d connections without a certificate (PendingMax)", PendingMax))
	}
	return added
}

// hungriest returns the oldest pending connection of the address that has most.
func (g *gate) hungriest() *conn {
	count := map[string]int{}
	var found *conn
	for _, c := range g.pending {
		count[hostOf(c)]++
	}
	for _, c := range g.pending {
		if found == nil || count[hostOf(c)] > count[hostOf(found)] {
			found = c
		}
	}
	return found
}

func hostOf(c net.Conn) string {
	host, _, err := net.SplitHostPort(c.RemoteAddr().String())
	if err != nil {
		return c.RemoteAddr().String()
	}
	return host
}

// verified adds the certificates of a connection, after its handshake.
func (g *gate) verified(c *conn, info credentials.AuthInfo) error {
	chain := info.(credentials.TLSInfo).State.PeerCertificates
	g.mu.Lock()
	defer g.mu.Unlock()
	g.dropPending(c)
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

// fingerprint identifies the certificate of a connection; zero if it has none.
func fingerprint(chain []*x509.Certificate) [32]byte {
	if len(chain) == 0 {
		return [32]byte{}
	}
	return sha256.Sum256(chain[0].Raw)
}

// dropPending removes a connection from the pending ones. The caller holds g.mu.
func (g *gate) dropPending(c *conn) {
	for i, p := range g.pending {
		if p == c {
			g.pending = append(g.pending[:i], g.pending[i+1:]...)
			return
		}
	}
}

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
	g.dropPending(c)
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
			if len(c.chain) == 0 {
				continue // a node that joins has had its time
			}
			g.refused(c.RemoteAddr().String(), "", err)
		}
	}
}
