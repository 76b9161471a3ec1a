package certificate

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"fmt"
)

// Fingerprint identifies the certificate of an authority: the SHA-256 of its bytes.
type Fingerprint [sha256.Size]byte

// Fingerprint returns that of the authority of the node's own certificate.
func (f *Files) Fingerprint() Fingerprint {
	return sha256.Sum256(f.current.Load().authority.Raw)
}

// ListenJoining is like [Files.Listen], but a node without a certificate may connect
// too. It gets the authority along with the certificate, see [Joining].
func (f *Files) ListenJoining() *tls.Config {
	c := f.Listen()
	now := f.current.Load()
	c.ClientAuth = tls.RequestClientCert
	verify := c.VerifyConnection
	c.VerifyConnection = func(s tls.ConnectionState) error {
		if len(s.PeerCertificates) == 0 {
			return nil
		}
		return verify(s)
	}
	own := now.own
	own.Certificate = append(append([][]byte(nil), own.Certificate...), now.authority.Raw)
	c.Certificates = []tls.Certificate{own}
	return c
}

// Joining returns the settings of a connection of a node without a certificate to the
// node that others reach at host. Only a certificate of the authority with the
// fingerprint is accepted.
func Joining(authority Fingerprint, host string) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		NextProtos: []string{"h2"},
		// VerifyConnection verifies instead.
		InsecureSkipVerify:     true,
		SessionTicketsDisabled: true,
		VerifyConnection: func(s tls.ConnectionState) error {
			roots, between := x509.NewCertPool(), x509.NewCertPool()
			found := false
			for _, c := range s.PeerCertificates[1:] {
				if sha256.Sum256(c.Raw) == authority {
					roots.AddCert(c)
					found = true
					continue
				}
				between.AddCert(c)
			}
			own := s.PeerCertificates[0]
			if !found {
				return fmt.Errorf("%w: %s is of another authority than the token's: it belongs to another cluster", ErrRefused, describe(own))
			}
			if _, err := own.Verify(x509.VerifyOptions{Roots: roots, Intermediates: between, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}); err != nil {
				return fmt.Errorf("%w: %s: %w", ErrRefused, describe(own), err)
			}
			return Covers(own, host)
		},
	}
}
