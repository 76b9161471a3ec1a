package server

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ostiary/ostiary/internal/callers"
	"github.com/ostiary/ostiary/server/internal/conn"
)

const (
	// certificateNamesMax is the largest number of names of a client certificate.
	certificateNamesMax = 100
	// certificatesMax is the largest number of certificates that a client shows, its own
	// and those of authorities in between. To verify them, each is tried as the issuer of
	// each: ten that were made for it take a thousand times as long as one.
	certificatesMax = 4
)

// errClientCertificate is the error of a client certificate whose form is not accepted.
var errClientCertificate = errors.New("client certificate")

// ClientCA has the authorities (CA) whose client certificates a server accepts. They are
// read from a file, which can be read again while the server runs. It may be used
// concurrently.
type ClientCA struct {
	file     string
	required bool

	mu    sync.Mutex // guards the changes of pool, and shown
	pool  atomic.Pointer[x509.CertPool]
	shown map[*clientCertificate]struct{} // of open connections
}

// NewClientCA reads the certificates of authorities from a PEM file. If required is true,
// every connection needs a certificate of one of them; otherwise clients may do without.
func NewClientCA(file string, required bool) (*ClientCA, error) {
	a := &ClientCA{file: file, required: required, shown: map[*clientCertificate]struct{}{}}
	if err := a.Reload(); err != nil {
		return nil, err
	}
	return a, nil
}

// Reload reads the file again. It closes the connections of clients whose certificates
// have no authority any more. If Reload returns an error, the old authorities stay in use.
func (a *ClientCA) Reload() error {
	pool, err := readAuthorities(a.file)
	if err != nil {
		return fmt.Errorf("client authorities %s: %w", a.file, err)
	}
	a.mu.Lock()
	a.pool.Store(pool)
	var closing []*conn.Conn
	for shown := range a.shown {
		if _, err := verifyClient(shown.chain, pool); err != nil {
			closing = append(closing, shown.conn)
		}
	}
	a.mu.Unlock()
	for _, c := range closing {
		_ = c.Close()
	}
	return nil
}

// readAuthorities reads certificates of authorities, of which one at least has not expired.
func readAuthorities(file string) (*x509.CertPool, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	pool, n, valid := x509.NewCertPool(), 0, false
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			return nil, fmt.Errorf("block %d is %q: expected certificates of authorities only", n+1, block.Type)
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if n++; err != nil {
			return nil, fmt.Errorf("certificate %d: %w", n, err)
		}
		if !c.BasicConstraintsValid || !c.IsCA {
			return nil, fmt.Errorf("certificate %d (%s) is not that of an authority: expected one with CA:TRUE", n, c.Subject)
		}
		valid = valid || time.Now().Before(c.NotAfter)
		pool.AddCert(c)
	}
	switch {
	case n == 0:
		return nil, errors.New("expected certificates of authorities in PEM format, and found none")
	case !valid:
		return nil, errors.New("every certificate has expired")
	}
	return pool, nil
}

// setup makes a server with a configuration ask for client certificates. a may be nil.
func (a *ClientCA) setup(c *tls.Config) *tls.Config {
	if a == nil {
		return c
	}
	c.ClientAuth = tls.RequestClientCert // VerifyConnection verifies it
	if a.required {
		c.ClientAuth = tls.RequireAnyClientCert
	}
	// A session that is resumed would have the certificate of an earlier time.
	c.SessionTicketsDisabled = true
	c.VerifyConnection = func(s tls.ConnectionState) error {
		chain := s.PeerCertificates
		if len(chain) == 0 {
			return nil
		}
		if len(chain) > certificatesMax { // before they are verified
			return fmt.Errorf("%w: a chain of %d certificates, the bound is %d", errClientCertificate, len(chain), certificatesMax)
		}
		if _, err := verifyClient(chain, a.pool.Load()); err != nil {
			return err
		}
		if n := len(callers.CertificateNames(chain[0])); n > certificateNamesMax {
			return fmt.Errorf("%w: %d alternative names, the bound is %d", errClientCertificate, n, certificateNamesMax)
		}
		return nil
	}
	base := c.Clone()
	c.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		now := base.Clone()
		now.ClientCAs = a.pool.Load()
		return now, nil
	}
	return c
}

// clientCertificate is the certificate that the client of a connection has shown, and whose
// authority is known. The server closes the connection when it expires.
type clientCertificate struct {
	credential
	authorities *ClientCA
	conn        *conn.Conn
	chain       []*x509.Certificate // the client's first
	names       []string            // see callers.CertificateNames
	expiry      *time.Timer
}

var _ finder = (*clientCertificate)(nil) // see Keys.identify

// verifyClient returns the chains from the certificate of a client, the first of those that
// it has shown, to authorities of a pool. It fails if the certificate is not valid now.
func verifyClient(shown []*x509.Certificate, pool *x509.CertPool) ([][]*x509.Certificate, error) {
	others := x509.NewCertPool()
	for _, c := range shown[1:] {
		others.AddCert(c)
	}
	chains, err := shown[0].Verify(x509.VerifyOptions{Roots: pool, Intermediates: others, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	if err != nil {
		return nil, &tls.CertificateVerificationError{UnverifiedCertificates: shown, Err: err}
	}
	return chains, nil
}

// show notes the certificate of a connection whose handshake is done. It fails if its
// authority is not known any more. a may be nil.
func (a *ClientCA) show(c *conn.Conn, state *tls.ConnectionState) error {
	if a == nil || len(state.PeerCertificates) == 0 {
		return nil
	}
	chain := state.PeerCertificates
	sum := sha256.Sum256(chain[0].Raw)
	s := &clientCertificate{authorities: a, conn: c, chain: chain, names: callers.CertificateNames(chain[0])}
	s.certificate = "sha256:" + hex.EncodeToString(sum[:])
	s.author, s.fulfills = certificateCaller+s.certificate, s.matches
	if len(s.names) > 0 && validName(certificateCaller+s.names[0]) {
		s.author = certificateCaller + s.names[0]
	}
	if err := s.keep(); err != nil {
		return err
	}
	c.Show(s)
	if c.IsGone() {
		s.Forget()
	}
	return nil
}

// keep makes the server close the connection when the certificate ends. It fails if the
// authorities have changed since the handshake has begun, and the certificate has none.
func (s *clientCertificate) keep() error {
	a := s.authorities
	a.mu.Lock()
	defer a.mu.Unlock()
	chains, err := verifyClient(s.chain, a.pool.Load())
	if err != nil {
		return err
	}
	s.ends = latestEnd(chains)
	s.expiry = time.AfterFunc(time.Until(s.ends), func() { _ = s.conn.Close() })
	a.shown[s] = struct{}{}
	return nil
}

// Forget is called when the connection is closed. It may be called several times.
func (s *clientCertificate) Forget() {
	s.expiry.Stop()
	s.authorities.mu.Lock()
	defer s.authorities.mu.Unlock()
	delete(s.authorities.shown, s)
}

// latestEnd returns when the chain ends that lasts longest.
func latestEnd(chains [][]*x509.Certificate) (end time.Time) {
	for _, chain := range chains {
		ends := chain[0].NotAfter
		for _, c := range chain[1:] {
			if c.NotAfter.Before(ends) {
				ends = c.NotAfter
			}
		}
		if ends.After(end) {
			end = ends
		}
	}
	return end
}

func (s *clientCertificate) matches(m callers.Match) bool { return m.MatchesCertificate(s.names) }
