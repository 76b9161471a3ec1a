package cli

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"unicode"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/door/native"
	"github.com/ostiary/ostiary/door/native/client"
	"github.com/ostiary/ostiary/door/openfga"
	"github.com/ostiary/ostiary/internal/callers"
	"github.com/ostiary/ostiary/storage/pebble"
)

// headerAuthentication is set by a server that did not check the caller's key.
const headerAuthentication = "Ostiary-Authentication"

// ErrUnsupported means that a command does not work with --server.
var ErrUnsupported = errors.New("not supported with --server")

// Unsupported returns the error for a command that needs a folder.
func Unsupported(what string) error {
	return fmt.Errorf("%w: %s works on a folder", ErrUnsupported, what)
}

// WithClient calls f with a client of the server of --server, or else of the doors on
// the data folder, which it opens and closes. The doors get requests without a network,
// so both ways give the same answers and errors. With create, a missing folder is
// created. guard decides which stores of the folder may be changed; nil allows all.
func (a *App) WithClient(ctx context.Context, create bool, guard Guard, f func(*client.Client) error) error {
	if a.Server != "" {
		s := &Server{App: a, URL: a.Server, Flag: "--server", Token: a.Token}
		c, err := s.Client(nil)
		if err != nil {
			return err
		}
		return f(c)
	}
	options := ostiary.Options{Bounds: authz.Bounds{FutureWait: noWait}, Guard: guard}
	return a.WithData(ctx, create, options, func(e *ostiary.Engine, _ *pebble.Driver) error {
		var cause error // of the last failure, which the door hides from clients
		handler, err := folderHandler(e, func(err error) { cause = err })
		if err != nil {
			return err
		}
		a.engine = e
		defer func() { a.engine = nil }()
		return f(client.New("http://folder", client.Options{Transport: client.Handler(handler), Explain: func(e *client.Error) {
			if cause != nil && e.Status >= http.StatusInternalServerError {
				e.Kind, e.Text, cause = cause, cause.Error(), nil
			}
			explainOpenFGA(e)
		}}))
	})
}

// ExpectCallers notes in the folder that WithClient has opened that its stores come from a
// server that requires authentication, see [callers.Registry.Expect].
func (a *App) ExpectCallers(ctx context.Context, source string) error {
	return callers.New(a.engine, callers.Options{}).Expect(ctx, callers.Expected{Source: source})
}

// folderHandler returns the handler of the native door and the OpenFGA door on an
// engine. report gets the causes of failures.
func folderHandler(e *ostiary.Engine, report func(error)) (http.Handler, error) {
	ours, err := native.New(e, native.Options{Dialects: Dialects(), Report: report, Callers: callers.New(e, callers.Options{Doors: DoorNames[:]})})
	if err != nil {
		return nil, err
	}
	theirs, err := openfga.New(e, openfga.Options{Report: report})
	if err != nil {
		return nil, err
	}
	return door.NewRouter(append(ours.Routes, theirs.Routes...))
}

// Server is a server that a flag names.
type Server struct {
	App   *App
	URL   string
	Flag  string // --server or --from
	Token string
	// Anonymous leaves out the key and the certificate of the client.
	Anonymous bool
}

// Client returns a client of the server. wrap, if not nil, wraps the transport.
func (s *Server) Client(wrap func(http.RoundTripper) http.RoundTripper) (*client.Client, error) {
	t, err := s.transport()
	if err != nil {
		return nil, err
	}
	if wrap != nil {
		t.next = wrap(t.next)
	}
	return client.New(s.URL, client.Options{Transport: t, Explain: s.explain}), nil
}

// Transport returns what sends requests to the server, with the key and the certificate of
// the client. It fails with [ErrUsage] if the URL is none of a server.
func (s *Server) Transport() (http.RoundTripper, error) { return s.transport() }

func (s *Server) transport() (t *serverTransport, err error) {
	if s.App.ambiguous && s.Flag == "--server" {
		return nil, fmt.Errorf("%w: the variable OSTIARY_DATA names a folder and OSTIARY_SERVER a server: select one with --data or --server", ErrUsage)
	}
	u, err := url.Parse(s.URL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("%w: invalid %s %q: expected http://HOST:PORT or https://HOST:PORT", ErrUsage, s.Flag, s.URL)
	}
	if i := strings.IndexFunc(s.Token, unicode.IsControl); i >= 0 {
		return nil, fmt.Errorf("%w: the key of %s or --%s has a line break or another control character after %d bytes: expected a key on one line", ErrUsage, EnvName(s.tokenFlag()), s.tokenFlag(), i)
	}
	t = &serverTransport{server: s}
	t.next, err = s.App.transport(!s.Anonymous)
	return t, err
}

// serverTransport adds the key and the reason to requests, and explains failures of
// the connection.
type serverTransport struct {
	server *Server
	next   http.RoundTripper
}

// RoundTrip implements [http.RoundTripper].
func (t *serverTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	a := t.server.App
	r = r.Clone(r.Context())
	if a.reason != "" {
		r.Header.Set(headerReason, a.reason)
	}
	if t.server.Token != "" {
		r.Header.Set("Authorization", "Bearer "+t.server.Token)
	}
	resp, err := t.next.RoundTrip(r)
	if err != nil {
		return nil, t.server.failed(err)
	}
	if resp.Header.Get(headerAuthentication) != "" && !a.notedNoKeys {
		a.notedNoKeys = true
		a.Note("warning: the server at %s has no keys: it checked no key, and accepts requests without one", t.server.URL)
	}
	return resp, nil
}

// certificatesBytesMax bounds the file of --ca-cert, in bytes.
const certificatesBytesMax = 1 << 20

// HasClientCertificate reports whether commands show a certificate to servers.
func (a *App) HasClientCertificate() bool { return a.clientCert != "" }

// transport returns the transport to servers, with the certificates to trust and, if certified
// is true, that of the client.
func (a *App) transport(certified bool) (http.RoundTripper, error) {
	t := http.DefaultTransport.(*http.Transport)
	if a.CaCert != "" {
		var err error
		if t, err = Trusting(a.CaCert); err != nil {
			return nil, err
		}
	}
	switch {
	case a.clientCert == "" && a.clientKey == "" || !certified:
		return t, nil
	case a.clientCert == "" || a.clientKey == "":
		return nil, fmt.Errorf("%w: --client-cert and --client-key must be set together", ErrUsage)
	}
	own, err := tls.LoadX509KeyPair(a.clientCert, a.clientKey)
	if err != nil {
		return nil, fmt.Errorf("--client-cert %s: %w", a.clientCert, err)
	}
	t = t.Clone()
	if t.TLSClientConfig == nil {
		t.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	t.TLSClientConfig.Certificates = []tls.Certificate{own}
	return t, nil
}

// Trusting returns a transport that also trusts the certificates of a PEM file.
func Trusting(file string) (*http.Transport, error) {
	text, err := ReadFile(file, certificatesBytesMax)
	if err != nil {
		return nil, err
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%w: --ca-cert %s: expected certificates in PEM format", ErrUsage, file)
	}
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	return t, nil
}

// explain gives an error response the text that a user of the command line needs.
func (s *Server) explain(e *client.Error) {
	explainOpenFGA(e)
	u, _ := url.Parse(s.URL) // Client has checked it
	switch other := otherProtocol(e); {
	case bytes.Contains(e.Body, []byte(plainToTLS)):
		e.Text = fmt.Sprintf("the server on %s uses TLS: expected %s https://%s", u.Host, s.Flag, u.Host)
		e.Kind = ConnectionFailed(e.Text, nil)
	case other != "":
		e.Code, e.Text = "", fmt.Sprintf("%s serves %s: expected the HTTP address of OpenFGA's API, which is --http of ostiary serve", s.URL, other)
	case e.Code == "":
		e.Text = s.foreign(e.Status)
	case e.Status == http.StatusUnauthorized:
		e.Text = s.keyRefused()
	case e.Status >= http.StatusInternalServerError && e.Kind == nil:
		e.Text = "server error " + e.Code + ": " + e.Message
	case e.Status == http.StatusNotFound || e.Status == http.StatusBadRequest:
		if hint := s.pathHint(); hint != "" {
			e.Text = e.Message + "; " + hint
		}
	}
}

// keyRefused returns the text for a response that accepts no key of this client.
func (s *Server) keyRefused() string {
	flag := s.tokenFlag()
	if s.Token == "" {
		return fmt.Sprintf("the server at %s requires a key: set the variable %s, or --%s", s.URL, EnvName(flag), flag)
	}
	return fmt.Sprintf("the server at %s does not accept the key of %s or --%s", s.URL, EnvName(flag), flag)
}

// tokenFlag is the name of the flag of the key.
func (s *Server) tokenFlag() string {
	if s.Flag == "--from" {
		return "from-token"
	}
	return "token"
}

// explainOpenFGA sets the kind of an error of OpenFGA's API that has one, but no code
// of its own for it.
func explainOpenFGA(e *client.Error) {
	for _, known := range [...]struct {
		code, message string
		kind          error
	}{
		{"store_id_not_found", "", authz.ErrNoStore},
		{"authorization_model_not_found", "", authz.ErrNoSchema}, {"latest_authorization_model_not_found", "", authz.ErrNoSchema},
		{"write_failed_due_to_invalid_input", "cannot delete a tuple which does not exist", authz.ErrTupleMissing},
		{"write_failed_due_to_invalid_input", "a tuple which already exists", authz.ErrTupleExists},
		{"", authz.ErrImporting.Error(), authz.ErrImporting},
	} {
		if e.Kind == nil && (known.code == "" || e.Code == known.code) && strings.Contains(e.Message, known.message) {
			e.Kind = known.kind
		}
	}
}

// NativeMissing explains the error of a server without the native API. It returns
// other errors unchanged.
func NativeMissing(err error) error {
	if client.IsForeign(err) {
		return fmt.Errorf("this needs the native API, which only ostiary serve has: %w", err)
	}
	return err
}
