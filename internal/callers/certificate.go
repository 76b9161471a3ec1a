package callers

import (
	"crypto/x509"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/storage"
)

// Kinds of names in certificates, as they are written before a name.
const (
	kindURI   = "uri:"
	kindDNS   = "dns:"
	kindEmail = "email:"
)

// CertificateNames returns the alternative names of a certificate that a [Match] can have:
// its URIs as uri:URI, its DNS names as dns:NAME, and its e-mail addresses as
// email:ADDRESS, in this order. Hosts are in lower case. It leaves out names that are too
// long for a match, that have control characters or no host, and URIs with an empty
// segment, "." or "..". The common name of a certificate is none of its names.
func CertificateNames(c *x509.Certificate) (names []string) {
	for _, u := range c.URIs {
		names = append(names, kindURI+uriText(u))
	}
	for _, name := range c.DNSNames {
		names = append(names, kindDNS+strings.ToLower(name))
	}
	for _, address := range c.EmailAddresses {
		names = append(names, kindEmail+emailText(address))
	}
	return slices.DeleteFunc(names, func(name string) bool {
		return strings.Contains(name, "*") && strings.HasPrefix(name, kindURI) || !validCertificateName(name)
	})
}

// uriText returns a URI in the form in which it is compared.
func uriText(u *url.URL) string {
	lower := *u
	lower.Host = strings.ToLower(u.Host)
	return lower.String()
}

// emailText returns an address with its host in lower case.
func emailText(address string) string {
	at := strings.LastIndexByte(address, '@') + 1
	return address[:at] + strings.ToLower(address[at:])
}

// validCertificateName reports whether a certificate may have a name.
func validCertificateName(name string) bool {
	kind, rest, _ := strings.Cut(name, ":")
	o := storage.Origin{Caller: rest}
	if rest == "" || len(name) > authz.NameBytesMax || o.Invalid() != "" || strings.Contains(rest, " ") {
		return false
	}
	switch kind + ":" {
	case kindURI:
		u, err := url.Parse(rest)
		return err == nil && u.Scheme != "" && (u.Opaque != "" || u.Host != "" && (u.Path == "" || u.Path == path.Clean(u.Path) || u.Path == path.Clean(u.Path)+"/"))
	case kindDNS:
		return true
	case kindEmail:
		return strings.IndexByte(rest, '@') > 0
	}
	return false
}

// certificatePattern returns what a key matches, in the form in which names are compared.
func certificatePattern(text string) (string, error) {
	kind, rest, _ := strings.Cut(text, ":")
	switch kind += ":"; kind {
	case kindURI:
		if u, err := url.Parse(rest); err == nil {
			rest = uriText(u)
		}
	case kindDNS:
		rest = strings.ToLower(rest)
	case kindEmail:
		rest = emailText(rest)
	}
	pattern := kind + rest
	if len(text) > authz.NameBytesMax {
		return "", &authz.BoundError{Name: "NameBytesMax", Max: authz.NameBytesMax, Got: int64(len(text))}
	}
	plain := pattern
	if kind == kindURI {
		if start, open := strings.CutSuffix(rest, "/*"); open && strings.Contains(start, "://") {
			plain = kind + start
		}
		if strings.Contains(plain, "*") {
			plain = ""
		}
	}
	if !validCertificateName(plain) {
		return "", invalid("invalid name of a certificate %.100q: expected uri:URI (a star after its last slash matches each URI that begins with it), dns:NAME or email:ADDRESS, "+
			"for example uri:spiffe://example.org/ci", text)
	}
	return pattern, nil
}

// MatchesCertificate reports whether the match is for a certificate, and one of the names,
// which [CertificateNames] has returned, is the one that it has.
func (m *Match) MatchesCertificate(names []string) bool {
	if m.Certificate == "" {
		return false
	}
	if start, open := strings.CutSuffix(m.Certificate, "*"); open && strings.HasPrefix(start, kindURI) {
		return slices.ContainsFunc(names, func(name string) bool { return len(name) > len(start) && strings.HasPrefix(name, start) })
	}
	return slices.Contains(names, m.Certificate)
}
