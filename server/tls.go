package server

import (
	"crypto/tls"
	"fmt"
	"net"
	"sync/atomic"

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
