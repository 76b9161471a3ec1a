package server

import (
	"crypto/tls"
	"fmt"
	"net"
	"sync/atomic"
)

// Certificate is a TLS certificate in files that can be read again while the
// server runs. Safe for concurrent use.
type Certificate struct {
	certFile, keyFile string
	now               atomic.Pointer[tls.Certificate]
}

// NewCertificate reads a certificate (with its chain) and its key from PEM
// files.
func NewCertificate(certFile, keyFile string) (*Certificate, error) {
	c := &Certificate{certFile: certFile, keyFile: keyFile}
	if err := c.Reload(); err != nil {
		return nil, err
	}
	return c, nil
}

// Reload reads the files again. On an error the old certificate stays.
func (c *Certificate) Reload() error {
	pair, err := tls.LoadX509KeyPair(c.certFile, c.keyFile)
	if err != nil {
		return fmt.Errorf("TLS certificate %s: %w", c.certFile, err)
	}
	c.now.Store(&pair)
	return nil
}

// config is for one protocol list: "h2" alone for gRPC.
func (c *Certificate) config(protocols ...string) *tls.Config {
	return &tls.Config{
		MinVersion:     tls.VersionTLS12,
		NextProtos:     protocols,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.now.Load(), nil },
	}
}

// listener is l with TLS for HTTP.
func (c *Certificate) listener(l net.Listener) net.Listener {
	return tls.NewListener(l, c.config("h2", "http/1.1"))
}
