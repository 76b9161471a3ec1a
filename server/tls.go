package server

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/internal/trail/audit"
	"github.com/ostiary/ostiary/internal/trail/logins"
	"github.com/ostiary/ostiary/server/internal/conn"
)

// Certificate is a TLS certificate read from files, which can be read again
// while the server runs. It may be used concurrently.
type Certificate struct {
	certFile, keyFile string
	current           atomic.Pointer[tls.Certificate]
}

// NewCertificate reads a certificate with its chain, and its key, from PEM
// files.
func NewCertificate(certFile, keyFile string) (*Certificate, error) {
	c := &Certificate{certFile: certFile, keyFile: keyFile}
	if err := c.Reload(); err != nil {
		return nil, err
	}
	return c, nil
}

// Reload reads the files again. New connections use the new certificate. If
// Reload returns an error, the old certificate stays in use.
func (c *Certificate) Reload() error {
	pair, err := tls.LoadX509KeyPair(c.certFile, c.keyFile)
	if err != nil {
		return fmt.Errorf("TLS certificate %s: %w", c.certFile, err)
	}
	c.current.Store(&pair)
	return nil
}

// config returns a TLS configuration for these ALPN protocols: "h2" alone for
// gRPC. clients may be nil.
func (c *Certificate) config(clients *ClientCA, protocols ...string) *tls.Config {
	return clients.setup(&tls.Config{
		MinVersion:     tls.VersionTLS12,
		NextProtos:     protocols,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.current.Load(), nil },
	})
}

// listener returns l with TLS for HTTP/1.1 and HTTP/2.
func (c *Certificate) listener(l net.Listener, s *shared) net.Listener {
	return conn.NewSecuredListener(l, c.config(s.clients, "h2", "http/1.1"), s.shaken)
}

// shaken ends the handshake of a connection, which has failed with err unless that is nil. It
// notes the certificate that the client has shown, and returns an error if the connection
// must be closed. c is nil for a connection of a test.
func (s *shared) shaken(c *conn.Conn, remote net.Addr, state *tls.ConnectionState, err error) error {
	if err == nil && c != nil && state != nil {
		err = s.clients.show(c, state)
	}
	if err != nil {
		s.badHandshake(remote, err)
	}
	return err
}

// badHandshake logs and records a handshake that failed because of the client's
// certificate. It does nothing for other errors.
func (s *shared) badHandshake(remote net.Addr, err error) {
	var wrong *tls.CertificateVerificationError
	var authority x509.UnknownAuthorityError
	var invalid x509.CertificateInvalidError
	why, class := "the client certificate is not valid for a client", logins.Refused
	switch {
	case errors.Is(err, errClientCertificate):
		why = err.Error()
	case !errors.As(err, &wrong):
		return
	case errors.As(err, &authority):
		why, class = "the client certificate has another authority", logins.Authority
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		why, class = "the client certificate has expired, or is not valid yet", logins.Expired
	}
	s.metrics.refused(door.BadCredentials)
	s.loginFailed(nameTLS, logins.Failure{Credential: logins.CredentialCertificate, Reason: class}, remote.String(), "", why)
	_ = s.trail.Refused(&audit.Record{Time: time.Now(), Kind: audit.KindRefusal, Door: nameTLS, From: remote.String(), Outcome: audit.Refused, Why: why}) // it has no effect
}

// nameTLS is the door of refused handshakes in logs.
const nameTLS = "tls"
