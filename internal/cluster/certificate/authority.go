// Package certificate makes the certificates with which the nodes of a cluster know
// each other, and uses them: its main types are [Authority], a small authority that
// signs certificates, and [Files], the certificates of a node, which can be read
// again while the node runs. Certificates of another authority work too.
//
// The package opens no connection.
package certificate

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"
)

// skew is how long before it is made a certificate becomes valid, so that a clock
// that is some hours slow accepts it.
const skew = 24 * time.Hour

// Authority signs certificates of nodes. It never changes, so it may be used
// concurrently.
type Authority struct {
	certificate *x509.Certificate
	key         crypto.Signer
}

// Pair is a certificate and its private key, both as PEM.
type Pair struct{ Certificate, Key []byte }

// NewAuthority makes an authority that is valid from now, with an allowance for slow
// clocks, to until. It returns the authority with its certificate and key. Its name is
// random, so that an error can name the authority that is meant.
func NewAuthority(now, until time.Time) (*Authority, Pair, error) {
	var id [4]byte
	if _, err := rand.Read(id[:]); err != nil {
		return nil, Pair{}, err
	}
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: "Ostiary nodes " + hex.EncodeToString(id[:])},
		KeyUsage:              x509.KeyUsageCertSign,
		BasicConstraintsValid: true,
		IsCA:                  true,
		MaxPathLenZero:        true,
	}
	pair, err := sign(template, nil, now, until)
	if err != nil {
		return nil, Pair{}, err
	}
	a, err := ReadAuthority(pair)
	return a, pair, err
}

// ReadAuthority returns the authority of a key, which is one of the certificates: a node
// trusts two while they are replaced. It fails if the key belongs to none of them, or if its
// certificate may not sign others.
func ReadAuthority(p Pair) (*Authority, error) {
	certificates, err := parse(p.Certificate)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(p.Key)
	if block == nil {
		return nil, errors.New("no PEM block in the key of the authority, expected PRIVATE KEY")
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("key of the authority: %w", err)
	}
	key, ok := parsed.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("key of the authority: a %T cannot sign", parsed)
	}
	i := slices.IndexFunc(certificates, func(c *x509.Certificate) bool {
		public, ok := c.PublicKey.(interface{ Equal(crypto.PublicKey) bool })
		return ok && public.Equal(key.Public())
	})
	if i < 0 {
		return nil, fmt.Errorf("the key does not belong to the certificate of %s", describe(certificates[0]))
	}
	a := &Authority{certificates[i], key}
	if !a.certificate.IsCA {
		return nil, fmt.Errorf("%s may not sign certificates: expected the certificate of an authority", describe(a.certificate))
	}
	return a, nil
}

// Expires returns until when the authority is valid. No certificate of it is valid
// for longer.
func (a *Authority) Expires() time.Time { return a.certificate.NotAfter }

// Fingerprint identifies the certificate of the authority.
func (a *Authority) Fingerprint() Fingerprint { return sha256.Sum256(a.certificate.Raw) }

// Join returns the certificates of all texts, each once, in the order in which they come.
// It fails if a text has none.
func Join(texts ...[]byte) ([]byte, error) {
	var out []byte
	have := map[Fingerprint]bool{}
	for _, text := range texts {
		all, err := parse(text)
		if err != nil {
			return nil, err
		}
		for _, c := range all {
			if of := Fingerprint(sha256.Sum256(c.Raw)); !have[of] {
				have[of] = true
				out = append(out, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})...)
			}
		}
	}
	return out, nil
}

// Contains reports whether a text has the certificate with a fingerprint.
func Contains(text []byte, of Fingerprint) bool {
	all, _ := parse(text)
	return slices.ContainsFunc(all, func(c *x509.Certificate) bool { return sha256.Sum256(c.Raw) == of })
}

// Name returns the name of the authority.
func (a *Authority) Name() string { return a.certificate.Subject.CommonName }

// Issue makes a certificate for a node that others reach under names, which are host
// names or IP addresses. It is valid to until, or as long as the authority if that is
// shorter. Issue fails if there is no name, or if one is neither.
func (a *Authority) Issue(names []string, now, until time.Time) (Pair, error) {
	return a.issue("", names, now, until)
}

// IssueNode is like Issue, and names the node with an id in the certificate, which no
// other node can use then, see [CheckNode].
func (a *Authority) IssueNode(id string, names []string, now, until time.Time) (Pair, error) {
	return a.issue(id, names, now, until)
}

func (a *Authority) issue(id string, names []string, now, until time.Time) (Pair, error) {
	if len(names) == 0 {
		return Pair{}, errors.New("no name for the certificate, expected one or more")
	}
	template := &x509.Certificate{
		Subject:     pkix.Name{CommonName: names[0]},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	for _, name := range names {
		if ip := net.ParseIP(name); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
			continue
		}
		if err := checkName(name); err != nil {
			return Pair{}, err
		}
		template.DNSNames = append(template.DNSNames, name)
	}
	if id != "" {
		template.URIs = []*url.URL{{Scheme: nodeScheme, Opaque: nodePrefix + id}}
	}
	if end := a.Expires(); until.After(end) {
		until = end
	}
	return sign(template, a, now, until)
}

// checkName fails unless name is a host name of letters, digits, hyphens and dots.
// A wildcard is none: each node has its own certificate.
func checkName(name string) error {
	wrong := func(why string) error {
		return fmt.Errorf("invalid name %q: %s; expected a host name or an IP address, for example node1.example", name, why)
	}
	if len(name) > 253 {
		return wrong("it has more than 253 bytes")
	}
	for label := range strings.SplitSeq(name, ".") {
		if label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' {
			return wrong(fmt.Sprintf("the part %q is not valid", label))
		}
		for _, c := range []byte(label) {
			if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' {
				return wrong(fmt.Sprintf("it contains %q", c))
			}
		}
	}
	return nil
}

// sign completes a template and signs it with the key of by, or with its own key if
// by is nil.
func sign(template *x509.Certificate, by *Authority, now, until time.Time) (Pair, error) {
	if !until.After(now) {
		return Pair{}, fmt.Errorf("a certificate that is valid until %s has expired: it is %s", until.UTC().Format(time.RFC3339), now.UTC().Format(time.RFC3339))
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Pair{}, err
	}
	if template.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127)); err != nil {
		return Pair{}, err
	}
	template.NotBefore, template.NotAfter = now.Add(-skew), until
	if by == nil {
		by = &Authority{template, key}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, by.certificate, key.Public(), by.key)
	if err != nil {
		return Pair{}, err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return Pair{}, err
	}
	return Pair{
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}),
	}, nil
}

// parse returns the certificates of a PEM text, one or more.
func parse(text []byte) ([]*x509.Certificate, error) {
	var out []*x509.Certificate
	for len(bytes.TrimSpace(text)) > 0 {
		var block *pem.Block
		if block, text = pem.Decode(text); block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			return nil, fmt.Errorf("a PEM block is a %s, expected CERTIFICATE", block.Type)
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, err
		}
		out = append(out, c)
	}
	if len(out) == 0 {
		return nil, errors.New("no certificate, expected PEM blocks CERTIFICATE")
	}
	return out, nil
}
