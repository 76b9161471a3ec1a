package certificate

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"time"
)

// filesBytesMax bounds each file, in bytes.
const filesBytesMax = 1 << 20

// Files are the certificates of a node, read from three PEM files: its certificate
// with the chain, the key, and the authorities that it trusts for other nodes. All
// methods are safe for concurrent use.
type Files struct {
	certificate, key, authorities string
	now                           func() time.Time
	current                       atomic.Pointer[loaded]
}

// loaded is the content of the files. It never changes.
type loaded struct {
	own       tls.Certificate
	authority *x509.Certificate // of own
	roots     *x509.CertPool
	names     string // of the authorities
}

// Open reads the three files. now is the clock that decides what has expired;
// time.Now if it is nil. Open fails if a file cannot be read or does not have what it
// must, and if the certificate is not one that other nodes accept: not of one of the
// authorities, expired, or not for both ends of a connection.
func Open(certificate, key, authorities string, now func() time.Time) (*Files, error) {
	if now == nil {
		now = time.Now
	}
	f := &Files{certificate: certificate, key: key, authorities: authorities, now: now}
	return f, f.Reload()
}

// Reload reads the files again. Connections that are opened from then on use the new
// ones. If Reload fails, the old ones stay in use.
func (f *Files) Reload() error {
	var texts [3][]byte
	for i, name := range [...]string{f.certificate, f.key, f.authorities} {
		info, err := os.Stat(name)
		if err == nil && info.Size() > filesBytesMax {
			err = fmt.Errorf("%s has %d bytes, expected at most %d", name, info.Size(), filesBytesMax)
		}
		if err == nil {
			texts[i], err = os.ReadFile(name)
		}
		if err != nil {
			return fmt.Errorf("certificates of the node: %w", err)
		}
	}
	next, err := f.load(texts[0], texts[1], texts[2])
	if err != nil {
		return err
	}
	f.current.Store(next)
	return nil
}

func (f *Files) load(certificate, key, authorities []byte) (*loaded, error) {
	own, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return nil, fmt.Errorf("certificate %s with the key %s: %w", f.certificate, f.key, err)
	}
	trusted, err := parse(authorities)
	if err != nil {
		return nil, fmt.Errorf("authorities %s: %w", f.authorities, err)
	}
	next := &loaded{own: own, roots: x509.NewCertPool()}
	var names []string
	for _, c := range trusted {
		next.roots.AddCert(c)
		names = append(names, fmt.Sprintf("%q", c.Subject.CommonName))
	}
	next.names = strings.Join(names, ", ")
	chain := []*x509.Certificate{own.Leaf}
	for _, der := range own.Certificate[1:] {
		c, err := x509.ParseCertificate(der)
		if err != nil {
			return nil, fmt.Errorf("certificate %s: %w", f.certificate, err)
		}
		chain = append(chain, c)
	}
	for _, use := range []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth} {
		found, err := next.verify(chain, use, f.now())
		if err != nil {
			return nil, fmt.Errorf("certificate %s: %w", f.certificate, err)
		}
		next.authority = found
	}
	return next, nil
}

// ErrRefused is wrapped by the errors about certificates of other nodes.
var ErrRefused = errors.New("certificate is refused")

// verify checks the chain of a node, and returns the authority that it ends at.
func (l *loaded) verify(chain []*x509.Certificate, use x509.ExtKeyUsage, now time.Time) (*x509.Certificate, error) {
	if len(chain) == 0 {
		return nil, fmt.Errorf("%w: there is none, expected a certificate of %s", ErrRefused, l.names)
	}
	between := x509.NewCertPool()
	for _, c := range chain[1:] {
		between.AddCert(c)
	}
	found, err := chain[0].Verify(x509.VerifyOptions{Roots: l.roots, Intermediates: between, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{use}})
	if err == nil {
		return found[0][len(found[0])-1], nil
	}
	what := describe(chain[0])
	var unknown x509.UnknownAuthorityError
	var invalid x509.CertificateInvalidError
	switch {
	case errors.As(err, &unknown):
		return nil, fmt.Errorf("%w: %s is signed by %q, expected %s: it belongs to another cluster or to an authority that is not trusted", ErrRefused, what, chain[0].Issuer.CommonName, l.names)
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return nil, fmt.Errorf("%w: %s is valid from %s to %s, and it is %s: renew it, or set the clock", ErrRefused, what,
			chain[0].NotBefore.UTC().Format(time.RFC3339), chain[0].NotAfter.UTC().Format(time.RFC3339), now.UTC().Format(time.RFC3339))
	}
	return nil, fmt.Errorf("%w: %s: %w", ErrRefused, what, err)
}

// Verify checks the certificates that another node has shown, the node's own first, for
// a use: x509.ExtKeyUsageClientAuth if that node has dialed, and
// x509.ExtKeyUsageServerAuth otherwise. Connections are checked when they open; later,
// Verify decides which of them may stay.
func (f *Files) Verify(chain []*x509.Certificate, use x509.ExtKeyUsage) error {
	_, err := f.current.Load().verify(chain, use, f.now())
	return err
}

// Expires returns until when the certificate of the node is valid.
func (f *Files) Expires() time.Time { return f.current.Load().own.Leaf.NotAfter }

// Node returns the id of the node that its certificate names, see [NodeOf]; "" if it
// names none.
func (f *Files) Node() string {
	id, _ := NodeOf(f.current.Load().own.Leaf)
	return id
}

// Covers fails unless the certificate of the node is for a host.
func (f *Files) Covers(host string) error { return Covers(f.current.Load().own.Leaf, host) }

// Covers fails with an error that names both if a certificate is not for a host.
func Covers(c *x509.Certificate, host string) error {
	if err := c.VerifyHostname(host); err != nil {
		return fmt.Errorf("%w: %s is not for %s", ErrRefused, describe(c), host)
	}
	return nil
}

// Dial returns the settings of a connection to the node that others reach at host. They
// use the files as they are now. A failed handshake wraps ErrRefused if the
// certificate of the other node is the reason.
func (f *Files) Dial(host string) *tls.Config {
	now := f.current.Load()
	c := f.config(now)
	// The handshake is verified here, because the errors of package tls name neither
	// the certificate nor the authority.
	c.InsecureSkipVerify = true
	c.VerifyConnection = func(s tls.ConnectionState) error {
		if _, err := now.verify(s.PeerCertificates, x509.ExtKeyUsageServerAuth, f.now()); err != nil {
			return err
		}
		return Covers(s.PeerCertificates[0], host)
	}
	return c
}

// Listen returns the settings of a connection that another node opens. They use the
// files as they are now.
func (f *Files) Listen() *tls.Config {
	now := f.current.Load()
	c := f.config(now)
	c.ClientAuth = tls.RequireAnyClientCert
	c.VerifyConnection = func(s tls.ConnectionState) error {
		_, err := now.verify(s.PeerCertificates, x509.ExtKeyUsageClientAuth, f.now())
		return err
	}
	return c
}

func (f *Files) config(now *loaded) *tls.Config {
	return &tls.Config{
		MinVersion:   tls.VersionTLS13,
		Certificates: []tls.Certificate{now.own},
		NextProtos:   []string{"h2"},
		Time:         f.now,
		// A ticket would keep a connection's right beyond a change of the files.
		SessionTicketsDisabled: true,
	}
}

// describe names a certificate for an error.
func describe(c *x509.Certificate) string {
	names := append([]string{}, c.DNSNames...)
	for _, ip := range c.IPAddresses {
		names = append(names, ip.String())
	}
	if len(names) == 0 {
		return fmt.Sprintf("the certificate of %q", c.Subject.CommonName)
	}
	return "the certificate for " + strings.Join(names, ", ")
}
