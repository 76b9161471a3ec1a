package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// certificate writes a self-signed certificate for 127.0.0.1 and its key:
// certificate CERT KEY. With further arguments, another one has signed it, and it has a DNS
// name: certificate CERT KEY CA-CERT CA-KEY NAME.
func certificate(ts *testscript.TestScript, neg bool, args []string) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	ts.Check(err)
	template := x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true}
	parent, signer := &template, any(key)
	if len(args) > 2 {
		template.SerialNumber, template.Subject.CommonName, template.IsCA, template.DNSNames = big.NewInt(2), "leaf", false, args[4:]
		pair, err := tls.LoadX509KeyPair(ts.MkAbs(args[2]), ts.MkAbs(args[3]))
		ts.Check(err)
		parent, signer = pair.Leaf, pair.PrivateKey
	}
	cert, err := x509.CreateCertificate(rand.Reader, &template, parent, &key.PublicKey, signer)
	ts.Check(err)
	der, err := x509.MarshalPKCS8PrivateKey(key)
	ts.Check(err)
	for i, block := range []pem.Block{{Type: "CERTIFICATE", Bytes: cert}, {Type: "PRIVATE KEY", Bytes: der}} {
		ts.Check(os.WriteFile(ts.MkAbs(args[i]), pem.EncodeToMemory(&block), 0o600))
	}
}
