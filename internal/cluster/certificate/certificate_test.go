package certificate_test

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ostiary/ostiary/internal/cluster/certificate"
)

var now = time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)

// authority makes an authority.
func authority(t *testing.T) (*certificate.Authority, []byte) {
	t.Helper()
	a, pair, err := certificate.NewAuthority(now, now.AddDate(10, 0, 0))
	if err != nil {
		t.Fatal(err)
	}
	return a, pair.Certificate
}

// issue makes a certificate for names that is valid until a time.
func issue(t *testing.T, a *certificate.Authority, until time.Time, names ...string) certificate.Pair {
	t.Helper()
	p, err := a.Issue(names, now, until)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// files writes three files and opens them. The function that it returns replaces them,
// and has them read again.
func files(t *testing.T, p certificate.Pair, authorities ...[]byte) (*certificate.Files, func(certificate.Pair, ...[]byte) error) {
	t.Helper()
	return filesAt(t, now, p, authorities...)
}

// filesAt is like files, with another time.
func filesAt(t *testing.T, at time.Time, p certificate.Pair, authorities ...[]byte) (*certificate.Files, func(certificate.Pair, ...[]byte) error) {
	t.Helper()
	dir := t.TempDir()
	name := func(s string) string { return filepath.Join(dir, s) }
	put := func(p certificate.Pair, authorities ...[]byte) {
		for file, text := range map[string][]byte{"crt": p.Certificate, "key": p.Key, "ca": bytes.Join(authorities, nil)} {
			if err := os.WriteFile(name(file), text, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	put(p, authorities...)
	f, err := certificate.Open(name("crt"), name("key"), name("ca"), func() time.Time { return at })
	if err != nil {
		t.Fatal(err)
	}
	return f, func(p certificate.Pair, authorities ...[]byte) error { put(p, authorities...); return f.Reload() }
}

// shake opens a connection over loopback, and returns the errors of both ends once a
// byte went each way.
func shake(t *testing.T, dial, listen *tls.Config) (dialed, accepted error) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	exchange := func(c *tls.Conn) error {
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(time.Minute))
		if _, err := c.Write([]byte{1}); err != nil {
			return err
		}
		_, err := io.ReadFull(c, make([]byte, 1))
		return err
	}
	done := make(chan error, 1)
	go func() {
		c, err := l.Accept()
		if err == nil {
			err = exchange(tls.Server(c, listen))
		}
		done <- err
	}()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	dialed = exchange(tls.Client(c, dial))
	return dialed, <-done
}

// wants requires that err wraps ErrRefused, and has all texts.
func wants(t *testing.T, err error, texts ...string) {
	t.Helper()
	if !errors.Is(err, certificate.ErrRefused) {
		t.Fatalf("error %v, want ErrRefused", err)
	}
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("error %q does not contain %q", err, text)
		}
	}
}

func TestHandshake(t *testing.T) {
	t.Parallel()
	a, ca := authority(t)
	one, _ := files(t, issue(t, a, now.AddDate(1, 0, 0), "node1.example", "192.0.2.1"), ca)
	two, _ := files(t, issue(t, a, now.AddDate(1, 0, 0), "node2.example"), ca)
	for _, host := range []string{"node1.example", "192.0.2.1"} {
		if dialed, accepted := shake(t, two.Dial(host), one.Listen()); dialed != nil || accepted != nil {
			t.Errorf("%s: errors %v, %v", host, dialed, accepted)
		}
	}
	dialed, _ := shake(t, two.Dial("node3.example"), one.Listen())
	wants(t, dialed, "certificate for node1.example, 192.0.2.1", "is not for node3.example")
	if err := one.Covers("192.0.2.1"); err != nil {
		t.Error(err)
	}
	wants(t, one.Covers("192.0.2.2"), "node1.example", "192.0.2.2")
}

// TestHandshakeRefuses requires that both ends refuse a certificate of another
// authority, and that the error names the certificate and both authorities.
func TestHandshakeRefuses(t *testing.T) {
	t.Parallel()
	a, ca := authority(t)
	b, caOther := authority(t)
	one, _ := files(t, issue(t, a, now.AddDate(1, 0, 0), "node1.example"), ca)
	foreign, _ := files(t, issue(t, b, now.AddDate(1, 0, 0), "node2.example"), caOther)
	careless, _ := files(t, issue(t, b, now.AddDate(1, 0, 0), "node2.example"), ca, caOther)
	dialed, _ := shake(t, foreign.Dial("node1.example"), one.Listen())
	wants(t, dialed, "certificate for node1.example", a.Name(), b.Name(), "another cluster")
	dialed, accepted := shake(t, careless.Dial("node1.example"), one.Listen())
	wants(t, accepted, "certificate for node2.example", a.Name(), b.Name(), "another cluster")
	if dialed == nil {
		t.Error("a node of another cluster exchanged a byte")
	}
	bare := one.Dial("node1.example")
	bare.Certificates = nil
	if _, accepted := shake(t, bare, one.Listen()); accepted == nil {
		t.Error("a client without a certificate was accepted")
	}
	old := one.Dial("node1.example")
	old.MinVersion, old.MaxVersion = tls.VersionTLS12, tls.VersionTLS12
	if _, accepted := shake(t, old, one.Listen()); accepted == nil {
		t.Error("TLS 1.2 was accepted")
	}
}

// TestExpired requires that an expired certificate is refused by the node that has it,
// and by both ends of a connection if the clock of that node is slow.
func TestExpired(t *testing.T) {
	t.Parallel()
	a, ca := authority(t)
	short, later := issue(t, a, now.Add(time.Hour), "node2.example"), now.Add(2*time.Hour)
	slow, _ := files(t, short, ca)
	right, _ := filesAt(t, later, issue(t, a, now.AddDate(1, 0, 0), "node1.example"), ca)
	texts := []string{"certificate for node2.example", "2030-01-02T04:04:05Z", "it is 2030-01-02T05:04:05Z", "renew it"}
	_, accepted := shake(t, slow.Dial("node1.example"), right.Listen())
	wants(t, accepted, texts...)
	dialed, _ := shake(t, right.Dial("node2.example"), slow.Listen())
	wants(t, dialed, texts...)
	dir := t.TempDir()
	for file, text := range map[string][]byte{"crt": short.Certificate, "key": short.Key, "ca": ca} {
		if err := os.WriteFile(filepath.Join(dir, file), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	_, err := certificate.Open(filepath.Join(dir, "crt"), filepath.Join(dir, "key"), filepath.Join(dir, "ca"), func() time.Time { return later })
	wants(t, err, texts...)
	wants(t, right.Verify(nil, x509.ExtKeyUsageClientAuth), "there is none")
}

// TestReload requires that a certificate of a new authority is used without a restart,
// that the old one is refused once its authority is gone, and that a broken file
// changes nothing.
func TestReload(t *testing.T) {
	t.Parallel()
	a, ca := authority(t)
	b, caNew := authority(t)
	old, renewed := issue(t, a, now.AddDate(1, 0, 0), "node1.example"), issue(t, b, now.AddDate(2, 0, 0), "node1.example")
	one, put := files(t, old, ca)
	two, putTwo := files(t, issue(t, a, now.AddDate(1, 0, 0), "node2.example"), ca)
	works := func(what string) {
		t.Helper()
		if dialed, accepted := shake(t, two.Dial("node1.example"), one.Listen()); dialed != nil || accepted != nil {
			t.Fatalf("%s: errors %v, %v", what, dialed, accepted)
		}
	}
	if err := put(certificate.Pair{Certificate: old.Certificate, Key: renewed.Key}, ca); err == nil {
		t.Fatal("a key of another certificate was read")
	}
	if err := put(renewed, ca); err == nil {
		t.Fatal("a certificate of an authority that is not trusted was read")
	}
	works("after a failed reload")
	if err := errors.Join(put(old, ca, caNew), putTwo(issue(t, a, now.AddDate(1, 0, 0), "node2.example"), ca, caNew), put(renewed, ca, caNew)); err != nil {
		t.Fatal(err)
	}
	works("with two authorities")
	if !one.Expires().Equal(now.AddDate(2, 0, 0)) {
		t.Errorf("the certificate expires at %s", one.Expires())
	}
	if err := put(renewed, caNew); err != nil {
		t.Fatal(err)
	}
	_, accepted := shake(t, two.Dial("node1.example"), one.Listen())
	wants(t, accepted, "node2.example", a.Name())
}

func TestIssueRejects(t *testing.T) {
	t.Parallel()
	a, _ := authority(t)
	for _, names := range [][]string{{}, {""}, {"*.example"}, {"a..b"}, {"-a"}, {"a b"}, {"node1:7443"}, {strings.Repeat("a", 64)}, {strings.Repeat("a.", 126) + "aa"}} {
		if _, err := a.Issue(names, now, now.AddDate(1, 0, 0)); err == nil {
			t.Errorf("a certificate for %q", names)
		}
	}
	if _, err := a.Issue([]string{"n"}, now, now); err == nil {
		t.Error("a certificate that has expired")
	}
	p, err := a.Issue([]string{"n"}, now, now.AddDate(100, 0, 0))
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(p.Certificate, p.Key)
	if err != nil || !pair.Leaf.NotAfter.Equal(a.Expires()) {
		t.Errorf("valid until %s, error %v; want the end of the authority, %s", pair.Leaf.NotAfter, err, a.Expires())
	}
}

func TestReadAuthorityRejects(t *testing.T) {
	t.Parallel()
	a, _ := authority(t)
	node := issue(t, a, now.AddDate(1, 0, 0), "node1.example")
	other := issue(t, a, now.AddDate(1, 0, 0), "node1.example")
	for name, c := range map[string]struct {
		pair certificate.Pair
		text string
	}{
		"of a node":        {node, "may not sign"},
		"another key":      {certificate.Pair{Certificate: node.Certificate, Key: other.Key}, "does not belong"},
		"no key":           {certificate.Pair{Certificate: node.Certificate}, "no PEM block"},
		"no certificate":   {certificate.Pair{Key: node.Key}, "no certificate"},
		"a key instead":    {certificate.Pair{Certificate: node.Key, Key: node.Key}, "PRIVATE KEY, expected CERTIFICATE"},
		"a wrong key form": {certificate.Pair{Certificate: node.Certificate, Key: node.Certificate}, "key of the authority"},
	} {
		if _, err := certificate.ReadAuthority(c.pair); err == nil || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: error %v, want %q", name, err, c.text)
		}
	}
}
