package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
)

// plainToTLS is a part of the response of net/http's server to a request without
// TLS on a port with TLS.
const plainToTLS = "HTTP request to an HTTPS server"

// connectionError is the failure of a connection to a server.
type connectionError struct {
	text  string
	cause error
}

func (e *connectionError) Error() string { return e.text }
func (e *connectionError) Unwrap() error { return e.cause }

// explain returns the error of a request that got no response, with the reason in
// plain words where it is known.
func (r *remote) explain(err error) error {
	at := r.base
	if u, parseErr := url.Parse(r.base); parseErr == nil {
		at = u.Host
	}
	failed := func(format string, args ...any) error {
		return &connectionError{fmt.Sprintf(format, args...), err}
	}
	var lookup *net.DNSError
	var unknown x509.UnknownAuthorityError
	var name x509.HostnameError
	var record tls.RecordHeaderError
	switch {
	case errors.Is(err, syscall.ECONNREFUSED) && r.flag == "--server":
		return failed("no server listens on %s: start one with \"ostiary serve\", or correct --server", at)
	case errors.Is(err, syscall.ECONNREFUSED):
		return failed("no server listens on %s: start it, or correct %s", at, r.flag)
	case errors.As(err, &lookup) && lookup.IsNotFound:
		return failed("the host %q of %s does not exist", lookup.Name, r.flag)
	case errors.As(err, &unknown):
		return failed("the issuer of the certificate of %s is not trusted: name it with --ca-cert FILE", at)
	case errors.As(err, &name):
		return failed("the certificate of %s is for other hosts: %v", at, name)
	case errors.As(err, &record) || errors.Is(err, http.ErrSchemeMismatch):
		return failed("the server on %s does not use TLS: expected %s http://%s", at, r.flag, at)
	}
	return err
}

// foreign returns the text of an error response that has no error of OpenFGA's API
// in it.
func (e *remoteError) foreign() string {
	s := fmt.Sprintf("the server responded with status %d", e.Status)
	if e.Status == http.StatusNotFound || e.Status == http.StatusMethodNotAllowed || e.Status == http.StatusNotImplemented {
		s += " and without an error of OpenFGA's API"
		if hint := e.from.pathHint(); hint != "" {
			return s + ": " + hint
		}
		if e.from != nil {
			s += ": is " + e.from.base + " the HTTP address of an authorization server?"
		}
	}
	return s
}

// pathHint returns advice if the URL of the server has a path, or "".
func (r *remote) pathHint() string {
	if r == nil {
		return ""
	}
	u, err := url.Parse(r.base)
	if err != nil || strings.Trim(u.Path, "/") == "" {
		return ""
	}
	return fmt.Sprintf("%s has the path %s: expected %s://%s, unless a proxy serves the API below that path", r.flag, u.Path, u.Scheme, u.Host)
}
