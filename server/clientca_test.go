package server_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/internal/callers"
	"github.com/ostiary/ostiary/internal/workshop/issuers"
	"github.com/ostiary/ostiary/server"
)

const webID = "spiffe://example.org/ns/prod/web"

// clientsWorld is a server with TLS that asks for client certificates.
type clientsWorld struct {
	*testing.T
	*running
	authority *issuers.Authority
	file      string // of the authorities
	clients   *server.ClientCA
	registry  *callers.Registry
	secret    string // of the key "secret"
}

func newClientsWorld(t *testing.T, required bool) *clientsWorld {
	t.Helper()
	w := &clientsWorld{T: t, authority: issuers.NewAuthority(t, "ours"), file: filepath.Join(t.TempDir(), "ca.pem")}
	w.trust(w.authority)
	var err error
	if w.clients, err = server.NewClientCA(w.file, required); err != nil {
		t.Fatal(err)
	}
	e, err := ostiary.Open(t.Context(), ostiary.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	w.registry = callers.New(e, callers.Options{Doors: []string{"echo", "other"}})
	w.key("web", "", "uri:"+webID)
	w.key("prod", "", "uri:spiffe://example.org/ns/prod/*")
	w.key("mail", "", "email:anne@EXAMPLE.com")
	w.key("host", "", "dns:Web.Example.com")
	w.key("elsewhere", "other", "dns:other.example.com")
	w.key("prometheus", callers.MetricsDoor, "dns:prometheus.example.com")
	w.secret = w.key("secret", "", "")
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { w.registry.Follow(ctx); close(done) }()
	t.Cleanup(func() { cancel(); <-done })
	certificate, err := server.NewCertificate(issuers.WriteCertificate(t, t.TempDir(), "server", w.authority.Issue(nil)))
	if err != nil {
		t.Fatal(err)
	}
	preshared, err := server.NewKeys([]server.Key{{Name: "file", Secret: "of-the-file"}})
	if err != nil {
		t.Fatal(err)
	}
	w.running = start(t, server.Options{TLS: certificate, ClientCA: w.clients, Keys: preshared, Callers: w.registry, MetricsTLS: true, Engine: e})
	return w
}

// trust writes the file of authorities.
func (w *clientsWorld) trust(all ...*issuers.Authority) {
	w.Helper()
	var text bytes.Buffer
	for _, a := range all {
		text.Write(a.PEM)
	}
	if err := os.WriteFile(w.file, text.Bytes(), 0o600); err != nil {
		w.Fatal(err)
	}
}

// key makes a key for a door, and returns its secret.
func (w *clientsWorld) key(name, door, match string) string {
	w.Helper()
	n := callers.NewKey{Name: name, Stores: []string{"*"}, Rights: []string{"read"}, Match: callers.Match{Certificate: match}}
	if door != "" {
		n.Doors = []string{door}
	}
	made, err := w.registry.Create(w.Context(), n)
	if err != nil {
		w.Fatal(err)
	}
	return made.Secret
}

// get sends a request with a certificate and a bearer, if they are not empty, over HTTP
// with a connection of its own. It returns the body, with a status that is not 200 before
// it, or the error of the connection.
func (w *clientsWorld) get(port, path, bearer string, own ...tls.Certificate) string {
	w.Helper()
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: w.authority.Trust(own...), DisableKeepAlives: true}}
	req, err := http.NewRequest(http.MethodGet, "https://"+w.at[port]+path, nil)
	if err != nil {
		w.Fatal(err)
	}
	if bearer != "" {
		req.Header.Set("Authorization", "Bearer "+bearer)
	}
	resp, err := client.Do(req)
	if err != nil {
		return "error: " + err.Error()
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body)
	if resp.StatusCode != http.StatusOK {
		return fmt.Sprintf("%d %s", resp.StatusCode, body)
	}
	return string(body)
}

// call is get over gRPC.
func (w *clientsWorld) call(bearer string, own ...tls.Certificate) string {
	w.Helper()
	conn := w.dial(w, grpc.WithTransportCredentials(credentials.NewTLS(w.authority.Trust(own...))))
	defer conn.Close()
	ctx, cancel := context.WithTimeout(w.Context(), time.Minute)
	defer cancel()
	if bearer != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+bearer)
	}
	var out wrapperspb.StringValue
	if err := conn.Invoke(ctx, "/test.Echo/Echo", wrapperspb.String(""), &out); err != nil {
		return "error: " + status.Convert(err).Message()
	}
	return out.Value
}

// TestClientCertificates sends requests with certificates of many kinds over HTTP and gRPC.
func TestClientCertificates(t *testing.T) {
	t.Parallel()
	w := newClientsWorld(t, false)
	stranger := issuers.NewAuthority(t, "ours") // with the name of the other one
	client := func(change func(*x509.Certificate)) tls.Certificate {
		return w.authority.Issue(func(c *x509.Certificate) { c.IPAddresses = nil; change(c) })
	}
	dns := func(names ...string) tls.Certificate {
		return client(func(c *x509.Certificate) { c.DNSNames = names })
	}
	root, _ := pem.Decode(w.authority.PEM)
	chain := func(n int) tls.Certificate { // the same authority again and again
		c := dns("web.example.com")
		c.Certificate = append(c.Certificate, slices.Repeat([][]byte{root.Bytes}, n-1)...)
		return c
	}
	var many []string
	for i := range 101 {
		many = append(many, fmt.Sprintf("h%d.example.com", i))
	}
	if got := w.get("http", "/echo/caller", "", stranger.Client(webID)); !strings.HasPrefix(got, "error: ") {
		t.Errorf("another authority: %q", got)
	}
	// The log has the reason of the first refusal of an address, and counts the others.
	wait(t, func() bool { return strings.Contains(w.logs.String(), "the client certificate has ") })
	for name, c := range map[string]struct {
		own    []tls.Certificate
		bearer string
		want   string // of HTTP, with a space
	}{
		"none":                      {want: "credentials are required"},
		"a URI of two keys":         {own: []tls.Certificate{w.authority.Client(webID)}, want: "mtls uri:" + webID},
		"a URI below another":       {own: []tls.Certificate{w.authority.Client("spiffe://EXAMPLE.org/ns/prod/db")}, want: "mtls uri:spiffe://example.org/ns/prod/db"},
		"a DNS name":                {own: []tls.Certificate{dns("WEB.example.com")}, want: "mtls dns:web.example.com"},
		"the second of two names":   {own: []tls.Certificate{dns("unknown.example.com", "web.example.com")}, want: "mtls dns:unknown.example.com"},
		"an address":                {own: []tls.Certificate{client(func(c *x509.Certificate) { c.EmailAddresses = []string{"anne@example.COM"} })}, want: "mtls email:anne@example.com"},
		"the folder of a URI":       {own: []tls.Certificate{w.authority.Client("spiffe://example.org/ns/prod/")}, want: "no key matches the certificate of uri:spiffe://example.org/ns/prod/:"},
		"a longer segment":          {own: []tls.Certificate{w.authority.Client("spiffe://example.org/ns/production/web")}, want: "no key matches"},
		"dots":                      {own: []tls.Certificate{w.authority.Client("spiffe://example.org/ns/prod/../test/web")}, want: "no key matches the certificate of sha256:"},
		"escaped dots":              {own: []tls.Certificate{w.authority.Client("spiffe://example.org/ns/prod/%2e%2e/test/web")}, want: "no key matches the certificate of sha256:"},
		"the pattern itself":        {own: []tls.Certificate{w.authority.Client("spiffe://example.org/ns/prod/*")}, want: "no key matches the certificate of sha256:"},
		"another scheme":            {own: []tls.Certificate{w.authority.Client("https://example.org/ns/prod/web")}, want: "no key matches"},
		"another case of an user":   {own: []tls.Certificate{client(func(c *x509.Certificate) { c.EmailAddresses = []string{"Anne@example.com"} })}, want: "no key matches"},
		"a wildcard":                {own: []tls.Certificate{dns("*.example.com")}, want: "no key matches the certificate of dns:*.example.com"},
		"only a common name":        {own: []tls.Certificate{client(func(c *x509.Certificate) { c.Subject.CommonName = "web.example.com" })}, want: "no key matches the certificate of sha256:"},
		"a long name":               {own: []tls.Certificate{w.authority.Client("spiffe://example.org/" + strings.Repeat("a", 300))}, want: "no key matches the certificate of sha256:"},
		"another door":              {own: []tls.Certificate{dns("other.example.com")}, want: "the key is not for the door echo"},
		"an unknown one and a key":  {own: []tls.Certificate{dns("unknown.example.com")}, bearer: w.secret, want: "key secret"},
		"one and a preshared key":   {own: []tls.Certificate{w.authority.Client(webID)}, bearer: "of-the-file", want: "preshared file"},
		"one and a wrong key":       {own: []tls.Certificate{w.authority.Client(webID)}, bearer: "wrong", want: "the credentials are not accepted"},
		"another authority":         {own: []tls.Certificate{stranger.Client(webID)}, want: "error: "},
		"its own authority":         {own: []tls.Certificate{selfSigned(t)}, want: "error: "},
		"another authority and key": {own: []tls.Certificate{stranger.Client(webID)}, bearer: w.secret, want: "error: "},
		"expired": {own: []tls.Certificate{client(func(c *x509.Certificate) {
			c.DNSNames, c.NotAfter = []string{"web.example.com"}, time.Now().Add(-time.Minute)
		})}, want: "error: "},
		"not yet valid": {own: []tls.Certificate{client(func(c *x509.Certificate) {
			c.DNSNames, c.NotBefore = []string{"web.example.com"}, time.Now().Add(time.Minute)
		})}, want: "error: "},
		"for servers only": {own: []tls.Certificate{client(func(c *x509.Certificate) {
			c.DNSNames, c.ExtKeyUsage = []string{"web.example.com"}, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
		})}, want: "error: "},
		"a chain of four": {own: []tls.Certificate{chain(4)}, want: "mtls dns:web.example.com"},
		"a chain of five": {own: []tls.Certificate{chain(5)}, want: "error: "},
		"101 names":       {own: []tls.Certificate{dns(many...)}, want: "error: "},
	} {
		got := w.get("http", "/echo/caller", c.bearer, c.own...)
		if strings.HasPrefix(c.want, "error: ") != strings.HasPrefix(got, "error: ") || !strings.Contains(got, strings.TrimPrefix(c.want, "error: ")) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
		got = w.call(c.bearer, c.own...)
		if accepted := !strings.HasPrefix(c.want, "error: ") && strings.Count(c.want, " ") == 1; accepted != !strings.HasPrefix(got, "error: ") || accepted && got != strings.ReplaceAll(c.want, " ", "") {
			t.Errorf("%s over gRPC: %q, want %q", name, got, c.want)
		}
	}
	log := w.logs.String()
	for _, why := range []string{"login failed", "the client certificate has "} {
		if !strings.Contains(log, why) {
			t.Errorf("the log lacks %q", why)
		}
	}
}

// selfSigned returns a certificate that nobody else has signed.
func selfSigned(t *testing.T) tls.Certificate {
	return issuers.NewAuthority(t, webID).Client(webID)
}

// TestClientCertificateRequired: without a certificate there is no connection.
func TestClientCertificateRequired(t *testing.T) {
	t.Parallel()
	w := newClientsWorld(t, true)
	for _, path := range []string{"/healthz", "/echo/open", "/echo/caller"} {
		if got := w.get("http", path, w.secret); !strings.Contains(got, "certificate required") {
			t.Errorf("%s without a certificate: %s", path, got)
		}
	}
	if got := w.call(w.secret); !strings.HasPrefix(got, "error: ") {
		t.Errorf("gRPC without a certificate: %s", got)
	}
	own := w.authority.Client("spiffe://example.org/unknown")
	if got := w.get("http", "/echo/caller", w.secret, own); got != "key secret" {
		t.Errorf("a key with a certificate that matches nothing: %s", got)
	}
}

// TestClientCertificateMetrics reads metrics as callers of many kinds.
func TestClientCertificateMetrics(t *testing.T) {
	t.Parallel()
	w := newClientsWorld(t, false)
	named := func(name string) tls.Certificate {
		return w.authority.Issue(func(c *x509.Certificate) { c.DNSNames = []string{name} })
	}
	for _, c := range []struct {
		bearer, want string
		own          []tls.Certificate
	}{
		{want: "401 "}, {bearer: "wrong", want: "401 "}, {bearer: "of-the-file", want: "# HELP"}, {bearer: w.secret, want: "# HELP"},
		{own: []tls.Certificate{named("prometheus.example.com")}, want: "# HELP"}, {own: []tls.Certificate{named("other.example.com")}, want: "403 "}, {own: []tls.Certificate{named("x")}, want: "403 "},
	} {
		if got := w.get("metrics", "/metrics", c.bearer, c.own...); !strings.HasPrefix(got, c.want) {
			t.Errorf("metrics with %q and %d certificates: %.100s, want %s", c.bearer, len(c.own), got, c.want)
		}
	}
	if got := w.get("metrics", "/healthz", ""); !strings.Contains(got, "SERVING") {
		t.Errorf("health: %s", got)
	}
	if got := w.get("http", "/echo/caller", "", named("prometheus.example.com")); !strings.HasPrefix(got, "403 ") {
		t.Errorf("a key for metrics through a door: %s", got)
	}
}

// clientStream is a stream on a connection that stays open.
type clientStream struct {
	lines *bufio.Reader
	again func() string // another request on the connection
	rpc   grpc.ServerStreamingClient[wrapperspb.StringValue]
}

// stream begins a stream over HTTP and one over gRPC with a certificate.
func (w *clientsWorld) streams(own tls.Certificate) *clientStream {
	w.Helper()
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: w.authority.Trust(own), ForceAttemptHTTP2: true}}
	w.Cleanup(client.CloseIdleConnections)
	get := func(path string) *http.Response {
		resp, err := client.Get("https://" + w.at["http"] + path)
		if err != nil {
			return nil
		}
		w.Cleanup(func() { resp.Body.Close() })
		return resp
	}
	resp := get("/echo/stream")
	if resp == nil || resp.ProtoMajor != 2 {
		w.Fatal("no stream over HTTP/2")
	}
	s := &clientStream{lines: bufio.NewReader(resp.Body), again: func() string {
		resp := get("/echo/caller")
		if resp == nil {
			return "error"
		}
		body, _ := io.ReadAll(resp.Body)
		return fmt.Sprint(resp.StatusCode, " ", string(body))
	}}
	conn := w.dial(w, grpc.WithTransportCredentials(credentials.NewTLS(w.authority.Trust(own))))
	raw, err := conn.NewStream(w.Context(), &grpc.StreamDesc{ServerStreams: true}, "/test.Echo/Stream")
	if err != nil {
		w.Fatal(err)
	}
	s.rpc = &grpc.GenericClientStream[wrapperspb.StringValue, wrapperspb.StringValue]{ClientStream: raw}
	if err := raw.SendMsg(wrapperspb.String("")); err != nil {
		w.Fatal(err)
	}
	raw.CloseSend()
	if line, err := s.lines.ReadString('\n'); line != "begin\n" {
		w.Fatal(line, err)
	}
	if first, err := s.rpc.Recv(); err != nil || first.Value != "begin" {
		w.Fatal(first, err)
	}
	return s
}

// ended waits until both streams have ended.
func (s *clientStream) ended(t *testing.T) {
	t.Helper()
	io.Copy(io.Discard, s.lines)
	for {
		if _, err := s.rpc.Recv(); err != nil {
			return
		}
	}
}

// TestClientCertificateRevoked revokes the key of a certificate whose connection is open,
// with streams.
func TestClientCertificateRevoked(t *testing.T) {
	t.Parallel()
	w := newClientsWorld(t, false)
	s, other := w.streams(w.authority.Issue(func(c *x509.Certificate) { c.DNSNames = []string{"web.example.com"} })), w.streams(w.authority.Client(webID))
	if _, err := w.registry.Revoke(t.Context(), "host"); err != nil {
		t.Fatal(err)
	}
	s.ended(t)
	if got := s.again(); !strings.HasPrefix(got, "403 ") {
		t.Errorf("after the revocation: %s", got)
	}
	if got := other.again(); got != "200 mtls uri:"+webID {
		t.Errorf("another certificate: %s", got)
	}
}

// TestClientAuthoritiesReplaced replaces the authorities while clients of the old and of
// the new one have connections.
func TestClientAuthoritiesReplaced(t *testing.T) {
	t.Parallel()
	w := newClientsWorld(t, false)
	next := issuers.NewAuthority(t, "next")
	if got := w.get("http", "/echo/caller", "", next.Client(webID)); !strings.HasPrefix(got, "error: ") {
		t.Errorf("a certificate of an authority that is not known yet: %s", got)
	}
	w.trust(w.authority, next)
	if err := w.clients.Reload(); err != nil {
		t.Fatal(err)
	}
	old, kept := w.streams(w.authority.Client(webID)), w.streams(next.Client(webID))
	for name, text := range map[string]string{"empty": "", "no PEM": "x", "a leaf": string(leafPEM(t, w.authority)), "a key": "-----BEGIN PRIVATE KEY-----\nAA==\n-----END PRIVATE KEY-----\n",
		"broken": "-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n"} {
		if err := os.WriteFile(w.file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := w.clients.Reload(); err == nil {
			t.Errorf("a file that is %s is accepted", name)
		}
	}
	if got := old.again(); got != "200 mtls uri:"+webID {
		t.Errorf("after files that are not accepted: %s", got)
	}
	w.trust(next)
	if err := w.clients.Reload(); err != nil {
		t.Fatal(err)
	}
	old.ended(t)
	if got := old.again(); got != "error" {
		t.Errorf("a certificate of the old authority: %s", got)
	}
	if got := kept.again(); got != "200 mtls uri:"+webID {
		t.Errorf("a certificate of the new authority: %s", got)
	}
}

func leafPEM(t *testing.T, a *issuers.Authority) []byte {
	t.Helper()
	file, _ := issuers.WriteCertificate(t, t.TempDir(), "leaf", a.Client(webID))
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TestClientCertificateEnds: a connection ends when its certificate does.
func TestClientCertificateEnds(t *testing.T) {
	t.Parallel()
	w := newClientsWorld(t, false)
	var ends time.Time
	s := w.streams(w.authority.Issue(func(c *x509.Certificate) {
		ends = time.Now().Add(5 * time.Second).Truncate(time.Second)
		c.DNSNames, c.NotAfter = []string{"web.example.com"}, ends
	}))
	s.ended(t)
	if time.Now().Before(ends) {
		t.Error("the streams ended before the certificate")
	}
	// The request of a stream can end a moment before its connection: until then, requests
	// on the connection are refused.
	wait(t, func() bool {
		got := s.again()
		if strings.HasPrefix(got, "200") {
			t.Fatalf("a request with an expired certificate: %s", got)
		}
		return got == "error"
	})
}

// TestClientOptions: options that would not do what they seem to.
func TestClientOptions(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(file, issuers.NewAuthority(t, "a").PEM, 0o600); err != nil {
		t.Fatal(err)
	}
	clients, err := server.NewClientCA(file, false)
	if err != nil {
		t.Fatal(err)
	}
	registry := callers.New(nil, callers.Options{})
	for name, o := range map[string]server.Options{
		"authorities without TLS":  {ClientCA: clients, Callers: registry},
		"authorities without keys": {ClientCA: clients, TLS: &server.Certificate{}},
		"metrics without TLS":      {MetricsTLS: true, Callers: registry},
	} {
		if _, err := server.New(o); err == nil {
			t.Errorf("%s are accepted", name)
		}
	}
}
