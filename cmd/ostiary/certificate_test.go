package main

import (
	"crypto/x509"
	"os"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/ostiary/ostiary/internal/workshop/issuers"
)

// certificates returns a command that writes the certificate of a new authority to
// AUTHORITY.pem and, for each NAME, a certificate of it for 127.0.0.1 and DNS to NAME.pem,
// with its key in NAME.key: certificates AUTHORITY [NAME=DNS]...
func certificates(t *testing.T) func(*testscript.TestScript, bool, []string) {
	return func(ts *testscript.TestScript, neg bool, args []string) {
		if neg || len(args) == 0 {
			ts.Fatalf("usage: certificates AUTHORITY [NAME=DNS]...")
		}
		authority := issuers.NewAuthority(t, "authority") // all have this name, so that a client sends also a stranger's certificate
		ts.Check(os.WriteFile(ts.MkAbs(args[0]+".pem"), authority.PEM, 0o600))
		for _, arg := range args[1:] {
			name, dns, ok := strings.Cut(arg, "=")
			if !ok {
				ts.Fatalf("invalid argument %q: expected NAME=DNS", arg)
			}
			issuers.WriteCertificate(t, ts.MkAbs("."), name, authority.Issue(func(c *x509.Certificate) { c.DNSNames = []string{dns} }))
		}
	}
}
