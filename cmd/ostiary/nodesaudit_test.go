package main

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ostiary/ostiary/door/native/client"
)

// auditedCall is what the record of a request in an audit log has.
type auditedCall struct {
	Kind, Operation, Outcome string
	Caller                   struct {
		ID, Method, Certificate string
		Keys                    []string
	}
	Changes []struct {
		Store    string
		Revision uint64
	}
}

// audited returns the records of requests that write which a node has.
func (c *nodes) audited(p *process) (calls []auditedCall) {
	c.Helper()
	files, err := filepath.Glob(filepath.Join(c.audit(p), "audit-*.jsonl"))
	if err != nil || len(files) == 0 {
		c.Fatalf("node %d has no audit log: %v", p.number, err)
	}
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			c.Fatal(err)
		}
		for line := range bytes.Lines(data) {
			var call auditedCall
			if err := json.Unmarshal(line, &call); err != nil {
				c.Fatalf("%v in %s", err, line)
			}
			if call.Kind == "write" || call.Kind == "refusal" {
				calls = append(calls, call)
			}
		}
	}
	return calls
}

// audit is the folder of a node's audit log.
func (c *nodes) audit(p *process) string { return c.file(fmt.Sprint("audit", p.number)) }

// TestNodesAudit writes with a client certificate at the node that writes, and at one that
// passes the write on. The log of the store has the caller of the certificate either way,
// and only the node that got the request from the client has a record of it, with the
// revision that the other one made. The node that writes knows of a revocation.
func TestNodesAudit(t *testing.T) {
	t.Parallel()
	const web = "certificate/dns:web.example.com"
	c := startNodes(t, 0)
	c.run("node", "certificate", "--folder", c.file("clients"), "127.0.0.1", "web.example.com")
	served := []string{"--auth", "keys", "--tls-cert", c.file("clients/127.0.0.1.crt"), "--tls-key", c.file("clients/127.0.0.1.key"),
		"--tls-client-ca", c.file("clients/ca.crt"), "--auth-keys-file", c.file("keys"), "--audit-required"}
	const first = "0123456789abcdef0123456789abcdef"
	if err := os.WriteFile(c.file("keys"), []byte(first+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for i := range 2 {
		p := &process{number: i}
		c.all = append(c.all, p)
		c.flags = append(slices.Concat(patientFlags, served), "--audit-folder", c.audit(p))
		c.start(p)
		p.http = strings.Replace(p.http, "http:", "https:", 1)
	}
	holder := c.holder()
	other := c.all[1-holder.number]

	pem, err := os.ReadFile(c.file("clients/ca.crt"))
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	pair, err := tls.LoadX509KeyPair(c.file("clients/web.example.com.crt"), c.file("clients/web.example.com.key"))
	if err != nil {
		t.Fatal(err)
	}
	as := func(p *process, pairs ...tls.Certificate) *client.Client {
		transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, Certificates: pairs}}
		t.Cleanup(transport.CloseIdleConnections)
		if len(pairs) > 0 {
			return client.New(p.http, client.Options{Transport: transport})
		}
		return client.New(p.http, client.Options{Transport: bearerOf{first, transport}})
	}

	key := client.NewKey{Name: "web", Stores: []string{"*"}, Rights: []string{"admin"}, MatchCertificate: "dns:web.example.com"}
	if _, err := as(holder).CreateKey(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	key.MatchCertificate = ""
	for i, p := range []*process{other, holder} {
		before := [2]int{len(c.audited(holder)), len(c.audited(other))}
		key.Name = fmt.Sprint("child", i)
		made, err := as(p, pair).CreateKey(t.Context(), key)
		if err != nil || made.Creator != web {
			t.Fatalf("a write with a certificate at node %d: made by %q, %v", p.number, made.Creator, err)
		}
		for j, at := range []*process{holder, other} {
			calls := c.audited(at)[before[j]:]
			if at != p {
				if len(calls) != 0 {
					t.Errorf("node %d has records of a request to node %d: %+v", at.number, p.number, calls)
				}
				continue
			}
			if len(calls) != 1 {
				t.Errorf("node %d has %d records of a request, expected one: %+v", at.number, len(calls), calls)
				continue
			}
			call := calls[0]
			if call.Kind != "write" || call.Operation != "CreateKey" || call.Outcome != "made" || call.Caller.ID != web || call.Caller.Certificate == "" ||
				!slices.Equal(call.Caller.Keys, []string{"web"}) || len(call.Changes) != 1 || call.Changes[0].Revision == 0 {
				t.Errorf("node %d has the record %+v", at.number, call)
			}
		}
	}

	if err := as(holder).RevokeKey(t.Context(), "web"); err != nil {
		t.Fatal(err)
	}
	before := len(c.audited(holder))
	key.Name = "late"
	if _, err := as(other, pair).CreateKey(t.Context(), key); err == nil || !strings.Contains(err.Error(), "no key matches the certificate") {
		t.Errorf("a write after the key of the certificate was revoked: %v", err)
	}
	if calls := c.audited(holder)[before:]; len(calls) != 0 {
		t.Errorf("the holder has records of a refused request to the other node: %+v", calls)
	}
	for _, p := range c.all {
		c.run("audit", "verify", "--running", "--key", filepath.Join(c.folder(p), "audit.key.pub"), c.audit(p))
	}
}
