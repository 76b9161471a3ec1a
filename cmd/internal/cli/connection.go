package cli

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"time"

	"github.com/ostiary/ostiary/door/native/client"
)

// plainToTLS is a part of the response of net/http's server to a request without
// TLS on a port with TLS.
const plainToTLS = "HTTP request to an HTTPS server"

// http2Settings is a part of net/http's error for a response that begins with a
// settings frame of HTTP/2, as those of a gRPC server do.
const http2Settings = `malformed HTTP response "\x00\x00`

// ConnectionError is the failure of a connection to a server.
type ConnectionError struct {
	text  string
	cause error
}

func (e *ConnectionError) Error() string { return e.text }
func (e *ConnectionError) Unwrap() error { return e.cause }

// ConnectionFailed returns the error of a failed connection, with a text in place of
// that of its cause.
func ConnectionFailed(text string, cause error) error { return &ConnectionError{text, cause} }

// brokenHandshake reports whether a server may have closed a connection because of the
// certificate of the client. With TLS 1.3, the client notices it at any later step.
func brokenHandshake(err error) bool {
	return strings.Contains(err.Error(), "remote error: tls: ") || strings.Contains(err.Error(), "client conn could not be established") ||
		errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, io.EOF)
}

// failed returns the error of a request that got no response, with the reason in
// plain words where it is known.
func (s *Server) failed(err error) error {
	at := s.URL
	if u, parseErr := url.Parse(s.URL); parseErr == nil {
		at = u.Host
	}
	failed := func(format string, args ...any) error {
		return ConnectionFailed(fmt.Sprintf(format, args...), err)
	}
	var lookup *net.DNSError
	var unknown x509.UnknownAuthorityError
	var name x509.HostnameError
	var record tls.RecordHeaderError
	switch {
	case errors.Is(err, syscall.ECONNREFUSED) && s.Flag == "--server":
		return failed("no server listens on %s: start one with \"ostiary serve\", or correct --server", at)
	case errors.Is(err, syscall.ECONNREFUSED):
		return failed("no server listens on %s: start it, or correct %s", at, s.Flag)
	case errors.As(err, &lookup) && lookup.IsNotFound:
		return failed("the host %q of %s does not exist", lookup.Name, s.Flag)
	case errors.As(err, &unknown):
		return failed("the issuer of the certificate of %s is not trusted: name it with --ca-cert FILE", at)
	case errors.As(err, &name):
		return failed("the certificate of %s is for other hosts: %v", at, name)
	case strings.Contains(err.Error(), "remote error: tls: certificate required"):
		return failed("the server on %s requires a client certificate: set --client-cert and --client-key", at)
	case s.App.clientCert != "" && brokenHandshake(err):
		return failed("the server on %s closed the connection: it does not accept the certificate of --client-cert (%v)", at, err)
	case strings.Contains(err.Error(), http2Settings), wasClosed(err) && servesHTTP2(at):
		return failed("%s is a port for gRPC: expected the HTTP address of the server, for example %s http://127.0.0.1:8080", at, s.Flag)
	case errors.Is(err, io.EOF):
		return failed("the server on %s closed the connection: if it uses TLS, expected %s https://%s", at, s.Flag, at)
	case errors.As(err, &record) || errors.Is(err, http.ErrSchemeMismatch):
		return failed("the server on %s does not use TLS: expected %s http://%s", at, s.Flag, at)
	}
	return err
}

// otherProtocol returns the protocol of an error response that is none of OpenFGA's
// API, or "" if it does not know the protocol. The doors of OpenStack Identity and
// ONAP, and the originals, name themselves in headers. Permify's API and other
// gateways of gRPC have an error with a number.
func otherProtocol(e *client.Error) string {
	if strings.HasPrefix(e.Header.Get("Content-Type"), "application/grpc") {
		return "gRPC"
	}
	if e.Status != http.StatusNotFound {
		return ""
	}
	var gateway struct {
		Code    int
		Details []any
	}
	switch {
	case e.Header.Get("X-Openstack-Request-Id") != "":
		return "OpenStack Identity (Keystone)"
	case e.Header.Get("X-Onap-Requestid") != "":
		return "ONAP's policy framework"
	case json.Unmarshal(e.Body, &gateway) == nil && gateway.Code == 5 && gateway.Details != nil: // NOT_FOUND
		return "Permify's API, or another one that is not OpenFGA's"
	}
	return ""
}

// foreign returns the text of an error response with a status and without an error of
// OpenFGA's API in it.
func (s *Server) foreign(status int) string {
	text := fmt.Sprintf("the server responded with status %d", status)
	if status != http.StatusNotFound && status != http.StatusMethodNotAllowed && status != http.StatusNotImplemented {
		return text
	}
	text += " and without an error of OpenFGA's API: "
	if hint := s.pathHint(); hint != "" {
		return text + hint
	}
	return text + "is " + s.URL + " the HTTP address of an authorization server?"
}

// pathHint returns advice if the URL of the server has a path, or "".
func (s *Server) pathHint() string {
	u, err := url.Parse(s.URL)
	if err != nil || strings.Trim(u.Path, "/") == "" {
		return ""
	}
	return fmt.Sprintf("%s has the path %s: expected %s://%s, unless a proxy serves the API below that path", s.Flag, u.Path, u.Scheme, u.Host)
}

// wasClosed reports whether the server closed a connection without a response.
func wasClosed(err error) bool {
	// greetedFirst is in the error of net/http if the greeting came before the request was
	// sent. That error has no type.
	const greetedFirst = "readLoopPeekFailLocked"
	return errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) ||
		strings.Contains(err.Error(), greetedFirst)
}

// servesHTTP2 reports whether a port greets a client that sends nothing with a
// SETTINGS frame of HTTP/2, as servers of gRPC do (RFC 9113, sections 3.4 and 4.1).
// Such a server closes a connection of HTTP/1.1, and sometimes before its greeting
// can be read.
func servesHTTP2(at string) bool {
	c, err := net.DialTimeout("tcp", at, time.Second)
	if err != nil {
		return false
	}
	defer c.Close()
	c.SetReadDeadline(time.Now().Add(time.Second))
	head := make([]byte, 9)
	_, err = io.ReadFull(c, head)
	return err == nil && head[3] == 4
}
