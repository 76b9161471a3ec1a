package callers

import (
	"crypto/x509"
	"net/url"
	"slices"
	"strings"
	"testing"
)

// TestCertificatePatterns reads what keys match, and compares it with names.
func TestCertificatePatterns(t *testing.T) {
	t.Parallel()
	for text, c := range map[string]struct {
		has   []string // names that match
		lacks []string
	}{
		"uri:spiffe://Example.org/a":         {has: []string{"uri:spiffe://example.org/a"}, lacks: []string{"uri:spiffe://example.org/a/b", "uri:spiffe://example.org", "dns:example.org"}},
		"uri:spiffe://example.org/*":         {has: []string{"uri:spiffe://example.org/a", "uri:spiffe://example.org/a/b"}, lacks: []string{"uri:spiffe://example.org/", "uri:spiffe://example.organ/a", "uri:spiffe://example.org"}},
		"uri:urn:uuid:f81d":                  {has: []string{"uri:urn:uuid:f81d"}, lacks: []string{"uri:urn:uuid:f81d4"}},
		"dns:A.example.com":                  {has: []string{"dns:a.example.com"}, lacks: []string{"dns:b.a.example.com", "uri:a.example.com", "dns:*.example.com"}},
		"dns:*.example.com":                  {has: []string{"dns:*.example.com"}, lacks: []string{"dns:a.example.com"}},
		"email:Anne@Example.com":             {has: []string{"email:Anne@example.com"}, lacks: []string{"email:anne@example.com", "email:ben@example.com"}},
		"":                                   {},
		"web":                                {},
		"dns:":                               {},
		"ip:127.0.0.1":                       {},
		"uri:":                               {},
		"uri:*":                              {},
		"uri:spiffe:*":                       {},
		"uri:spiffe://*":                     {},
		"uri:spiffe://example.org*":          {},
		"uri:spiffe://example.org/a*":        {},
		"uri:spiffe://*/a":                   {},
		"uri:spiffe://e/*/a":                 {},
		"uri:spiffe://e/a/../b":              {},
		"uri:spiffe://e//a":                  {},
		"uri:/a":                             {},
		"uri:spiffe:///a":                    {},
		"email:example.com":                  {},
		"email:@example.com":                 {},
		"dns:a b":                            {},
		"dns:a\nb":                           {},
		"dns:" + strings.Repeat("a", 10_000): {},
	} {
		m, err := Match{Certificate: text}.valid()
		if ok := text != "" && err == nil; ok != (c.has != nil) {
			t.Errorf("%.50q: %v", text, err)
			continue
		}
		for _, name := range c.has {
			if !m.MatchesCertificate([]string{"dns:other", name}) {
				t.Errorf("%q does not match %q", text, name)
			}
		}
		if m.MatchesCertificate(c.lacks) {
			t.Errorf("%q matches one of %q", text, c.lacks)
		}
	}
	if (&Match{Issuer: "a", Claim: "b", Value: "c"}).MatchesCertificate([]string{""}) {
		t.Error("a match of tokens matches a certificate")
	}
}

// FuzzCertificatePattern: a pattern that is accepted stays the same when it is read again,
// and one without a star matches the certificate that has its name.
func FuzzCertificatePattern(f *testing.F) {
	for _, text := range []string{"uri:spiffe://Example.org/a", "uri:spiffe://example.org/*", "dns:A.b", "email:a@B", "uri:urn:x:y", "uri:a://b/%2e", "uri:a://b/?q#f"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		pattern, err := certificatePattern(text)
		if err != nil {
			return
		}
		if again, err := certificatePattern(pattern); err != nil || again != pattern {
			t.Fatalf("%q becomes %q, and then %q, %v", text, pattern, again, err)
		}
		c := &x509.Certificate{}
		switch kind, rest, _ := strings.Cut(pattern, ":"); kind {
		case "uri":
			u, err := url.Parse(rest)
			if err != nil {
				t.Fatal(err)
			}
			c.URIs = []*url.URL{u}
		case "dns":
			c.DNSNames = []string{rest}
		case "email":
			c.EmailAddresses = []string{rest}
		}
		if names := CertificateNames(c); !strings.HasSuffix(pattern, "/*") && !slices.Equal(names, []string{pattern}) {
			t.Fatalf("a certificate with %q has the names %q", pattern, names)
		}
	})
}
