// Package oidc verifies signed tokens of OpenID Connect providers, and turns their
// claims into attributes for the mappings of Identity. Its main type is [Verifier].
//
// It contacts the providers of its configuration only: a token that names another
// issuer is refused before anything is fetched.
package oidc

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"

	"github.com/ostiary/ostiary/internal/tool/jsonread"
	"github.com/ostiary/ostiary/internal/trail/traces"
)

// Bounds of what a verifier reads and fetches.
const (
	// TokenMax is the largest number of bytes of a token.
	TokenMax = 16 << 10
	// documentMax is the largest number of bytes of a document of a provider.
	documentMax = 1 << 20
	// fetchTimeout bounds one request to a provider.
	fetchTimeout = 10 * time.Second
	// fetchInterval is the shortest time between two requests for keys, because a
	// token with an unknown key causes one before it is verified.
	fetchInterval = time.Second
	// configureInterval is the shortest time between two requests for the configuration
	// of a provider, whose algorithms and whose address of the keys can change.
	configureInterval = 10 * time.Second
)

// algorithms are those for public keys. A provider may announce others: they are not
// accepted.
var algorithms = []string{oidc.RS256, oidc.RS384, oidc.RS512, oidc.PS256, oidc.PS384, oidc.PS512, oidc.ES256, oidc.ES384, oidc.ES512, oidc.EdDSA}

// ErrInvalid is the cause of every [Verifier.Verify] that fails because of the
// token.
var ErrInvalid = errors.New("invalid token of an identity provider")

// Issuer is a provider whose tokens are accepted.
type Issuer struct {
	// URL identifies the provider, and is where its configuration is found (OpenID
	// Connect Discovery 1.0).
	URL string
	// Audiences are the audiences that a token may be for. A token needs one of
	// them, so that a token for another service is not accepted.
	Audiences []string
}

// ParseIssuer reads an issuer in the form URL=AUDIENCE[,AUDIENCE]. The URL must
// begin with https://, except on the loopback interface.
func ParseIssuer(text string) (Issuer, error) {
	i := strings.LastIndexByte(text, '=')
	if i < 0 || i == len(text)-1 {
		return Issuer{}, fmt.Errorf("invalid issuer %q: expected URL=AUDIENCE[,AUDIENCE], for example https://login.example.com=keystone", text)
	}
	is := Issuer{URL: text[:i], Audiences: strings.Split(text[i+1:], ",")}
	if err := is.Validate(); err != nil {
		return Issuer{}, err
	}
	return is, nil
}

// Validate fails if the URL does not begin with https://, except on the loopback
// interface, or if there is no audience, or an empty one.
func (is Issuer) Validate() error {
	u, err := url.Parse(is.URL)
	if err != nil || u.Host == "" || u.Scheme != "https" && !(u.Scheme == "http" && loopback(u.Hostname())) || strings.ContainsAny(is.URL, "?#") {
		return fmt.Errorf("invalid URL %q of an issuer: expected https://HOST[/PATH]", is.URL)
	}
	if len(is.Audiences) == 0 || slices.Contains(is.Audiences, "") {
		return fmt.Errorf("invalid issuer %q: an audience is empty", is.URL)
	}
	return nil
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// Verifier verifies tokens. Its methods may be called concurrently. It starts no
// goroutine.
type Verifier struct {
	clock   func() time.Time
	skew    time.Duration
	issuers map[string]*provider
}

// provider is an issuer with its keys, which the first token fetches.
type provider struct {
	issuer     Issuer
	client     *http.Client
	fetcher    *fetcher   // of the client
	mu         sync.Mutex // guards what follows; held while the configuration is fetched
	tried      time.Time  // when the configuration was last asked for
	keys       oidc.KeySet
	configured configuration
	endpoints  Endpoints
	verifier   atomic.Pointer[oidc.IDTokenVerifier] // nil before the first configuration
}

// configuration is what a provider announces.
type configuration struct {
	Keys       string   `json:"jwks_uri"`
	Algorithms []string `json:"id_token_signing_alg_values_supported"`
}

// Options are settings of [New].
type Options struct {
	// Clock returns the current time. Nil means [time.Now].
	Clock func() time.Time
	// Transport sends the requests to providers. Nil means [http.DefaultTransport].
	Transport http.RoundTripper
	// Skew is how long after its expiry a token is still accepted, because the clock of
	// the provider may differ. A token may begin up to 5 minutes in the future.
	Skew time.Duration
}

// New returns a verifier for the issuers.
func New(issuers []Issuer, o Options) *Verifier {
	if o.Clock == nil {
		o.Clock = time.Now
	}
	if o.Transport == nil {
		o.Transport = http.DefaultTransport
	}
	v := &Verifier{clock: o.Clock, skew: o.Skew, issuers: map[string]*provider{}}
	for _, is := range issuers {
		f := &fetcher{clock: o.Clock, next: o.Transport}
		v.issuers[is.URL] = &provider{issuer: is, fetcher: f, client: &http.Client{Timeout: fetchTimeout, Transport: f}}
	}
	return v
}

// Verified is what a token asserts.
type Verified struct {
	Issuer     string              // URL of the issuer
	Subject    string              // the claim "sub"
	Ends       time.Time           // when the token is no longer accepted
	Claims     map[string]any      // as the token has them; numbers are [json.Number]
	Attributes map[string][]string // claims, by the names of [Attributes]
}

// Verify verifies the signature, the issuer, the audience and the times of a
// signed token. It fails with [ErrInvalid], or with another error if the keys of
// the provider cannot be fetched.
func (v *Verifier) Verify(ctx context.Context, text string) (*Verified, error) {
	p, claims, err := v.read(text)
	if err != nil {
		return nil, err
	}
	verifier, err := p.open(ctx, v)
	if err != nil {
		return nil, err
	}
	var cause error // of a signature that was not verified
	noting := context.WithValue(oidc.ClientContext(ctx, p.client), causeKey{}, &cause)
	t, err := verifier.Verify(noting, text)
	if err != nil && ctx.Err() == nil && p.reconfigure(ctx, v, verifier) {
		cause = nil
		t, err = p.verifier.Load().Verify(noting, text)
	}
	switch {
	case err != nil && (errors.Is(cause, errFetch) || ctx.Err() != nil):
		return nil, fmt.Errorf("%w of %s: %w", errFetch, p.issuer.URL, err)
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if !slices.ContainsFunc(t.Audience, func(a string) bool { return slices.Contains(p.issuer.Audiences, a) }) {
		return nil, fmt.Errorf("%w: it is for %.200q: expected one of %q", ErrInvalid, t.Audience, p.issuer.Audiences)
	}
	return &Verified{Issuer: p.issuer.URL, Subject: t.Subject, Ends: t.Expiry.Add(v.skew), Claims: claims, Attributes: Attributes(claims)}, nil
}

// read returns the claims of a token, and the provider that it names. The signature is
// not verified yet.
func (v *Verifier) read(text string) (*provider, map[string]any, error) {
	if len(text) > TokenMax {
		return nil, nil, fmt.Errorf("%w: it has %d bytes: expected at most %d", ErrInvalid, len(text), TokenMax)
	}
	claims, err := jsonread.JWT(text)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	issuer, _ := claims["iss"].(string)
	p := v.issuers[issuer]
	if p == nil {
		return nil, nil, fmt.Errorf("%w: unknown issuer %.200q", ErrInvalid, issuer)
	}
	return p, claims, nil
}

// open returns the verifier of the provider. It fetches the configuration if there is none
// yet. After a failure it waits for a while before it tries again.
func (p *provider) open(ctx context.Context, v *Verifier) (*oidc.IDTokenVerifier, error) {
	if known := p.verifier.Load(); known != nil {
		return known, nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if known := p.verifier.Load(); known != nil {
		return known, nil
	}
	if v.clock().Sub(p.tried) < fetchInterval {
		return nil, fmt.Errorf("%w of %s failed a moment ago", errFetch, p.issuer.URL)
	}
	if err := p.configure(context.WithoutCancel(ctx), v); err != nil {
		return nil, err
	}
	return p.verifier.Load(), nil
}

// Endpoints are the addresses of a provider at which users sign in to a program.
type Endpoints struct{ Authorization, Token string }

// Client is a program in which users of a provider sign in.
type Client struct {
	// Issuer is the URL of the provider, and ID the one that the program has there.
	Issuer, ID string
	// Scopes are asked for besides openid.
	Scopes []string
	// Endpoints returns where users sign in now, as [Verifier.Endpoints] does.
	Endpoints func(context.Context) (Endpoints, error)
	// Report, if set, is called when the provider stops to answer as it should.
	Report func(error)
}

// Client returns the client of an issuer whose audiences are its id and its scopes.
func (v *Verifier) Client(is Issuer) Client {
	return Client{Issuer: is.URL, ID: is.Audiences[0], Scopes: is.Audiences[1:], Endpoints: func(ctx context.Context) (Endpoints, error) { return v.Endpoints(ctx, is.URL) }}
}

// Endpoints fetches the configuration of an issuer, and returns its endpoints. It fails if there
// is no such issuer, or if its configuration cannot be read now.
func (v *Verifier) Endpoints(ctx context.Context, issuer string) (Endpoints, error) {
	p := v.issuers[issuer]
	if p == nil {
		return Endpoints{}, fmt.Errorf("unknown issuer %.200q", issuer)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.configure(ctx, v); err != nil {
		return Endpoints{}, err
	}
	return p.endpoints, nil
}

// reconfigure fetches the configuration again, because a token was refused by old: the
// provider may have changed its algorithm. It reports whether there is another verifier
// now. It fetches nothing if that was done a moment ago, or is being done.
func (p *provider) reconfigure(ctx context.Context, v *Verifier, old *oidc.IDTokenVerifier) bool {
	if p.mu.TryLock() {
		defer p.mu.Unlock()
		if v.clock().Sub(p.tried) >= configureInterval {
			p.configure(context.WithoutCancel(ctx), v) // after a failure, the old configuration is kept
		}
	}
	return p.verifier.Load() != old
}

// configure fetches the configuration. It keeps the keys that are known, unless they have
// another address. The caller holds p.mu. Those who do it for a request of a client pass a
// context that does not end with it, so that clients that leave cannot prevent it.
func (p *provider) configure(ctx context.Context, v *Verifier) error {
	found, err := oidc.NewProvider(oidc.ClientContext(ctx, p.client), p.issuer.URL)
	p.tried = v.clock()
	var c configuration
	if err == nil {
		err = found.Claims(&c)
	}
	if err != nil {
		return fmt.Errorf("%w of %s: %w", errFetch, p.issuer.URL, err)
	}
	p.endpoints = Endpoints{found.Endpoint().AuthURL, found.Endpoint().TokenURL}
	known := p.keys != nil && c.Keys == p.configured.Keys
	if known && slices.Equal(c.Algorithms, p.configured.Algorithms) {
		return nil
	}
	if !known {
		p.keys = keySet{oidc.NewRemoteKeySet(oidc.ClientContext(context.Background(), p.client), c.Keys)}
	}
	p.configured = c
	p.verifier.Store(oidc.NewVerifier(p.issuer.URL, p.keys, &oidc.Config{
		SkipClientIDCheck:    true, // Verify checks the audience
		SupportedSigningAlgs: slices.DeleteFunc(slices.Clone(c.Algorithms), func(name string) bool { return !slices.Contains(algorithms, name) }),
		Now:                  func() time.Time { return v.clock().Add(-v.skew) },
	}))
	return nil
}

// keySet verifies signatures. It notes why one was not verified in the error to which the
// context points under causeKey, because [oidc.IDTokenVerifier] hides it.
type keySet struct{ oidc.KeySet }

type causeKey struct{}

// VerifySignature implements [oidc.KeySet].
func (k keySet) VerifySignature(ctx context.Context, text string) ([]byte, error) {
	payload, err := k.KeySet.VerifySignature(ctx, text)
	if cause, ok := ctx.Value(causeKey{}).(*error); ok {
		*cause = err
	}
	return payload, err
}

// errFetch is the cause of an error that is not the fault of a token.
var errFetch = errors.New("reading the configuration or the keys")

// fetcher sends requests to a provider: few of them, and with bounded responses.
type fetcher struct {
	clock func() time.Time
	next  http.RoundTripper
	mu    sync.Mutex
	last  map[string]fetch // the latest request, by path
}

// fetch is a request to a provider.
type fetch struct {
	at     time.Time
	failed bool
}

// RoundTrip implements [http.RoundTripper]. It refuses a request for the same
// path within fetchInterval.
func (f *fetcher) RoundTrip(r *http.Request) (_ *http.Response, err error) {
	path := r.URL.Path
	if err := f.admit(path); err != nil {
		return nil, err
	}
	r, end := traced(r)
	defer func() { end(err) }()
	response, err := f.next.RoundTrip(r)
	var text []byte
	if err == nil {
		text, err = io.ReadAll(io.LimitReader(response.Body, documentMax+1))
		response.Body.Close()
	}
	switch {
	case err != nil:
	case len(text) > documentMax:
		err = fmt.Errorf("%s has more than %d bytes", path, documentMax)
	case response.StatusCode != http.StatusOK:
		err = fmt.Errorf("%s has status %s and the body %.100q", path, response.Status, text)
	default:
		if err = checkDocument(text); err != nil {
			err = fmt.Errorf("%s: %w", path, err)
		}
	}
	if err != nil {
		f.fail(path)
		return nil, fmt.Errorf("%w: %w", errFetch, err)
	}
	response.Body = io.NopCloser(bytes.NewReader(text))
	return response, nil
}

// traced returns a request as a part of the traced request that waits for it, if there is one:
// with the headers by which the provider continues the trace. The caller calls end.
func traced(r *http.Request) (_ *http.Request, end func(error)) {
	ctx, part := traces.Start(r.Context(), r.Method, traces.Client)
	if part == nil {
		return r, func(error) {}
	}
	r = r.Clone(ctx)
	part.Set("http.request.method", r.Method)
	part.Set("server.address", r.URL.Hostname())
	part.Inject(r.Header.Set)
	return r, func(err error) {
		if err != nil {
			part.Fail("_OTHER", err)
		}
		part.End()
	}
}

// documentNames are the names in the documents of a provider that decide which keys are
// accepted (OpenID Connect Discovery 1.0, section 3; RFC 7517, section 4).
type documentNames struct {
	Issuer string `json:"issuer"`
	configuration
	Keys []struct {
		Type      string `json:"kty"`
		Use       string `json:"use"`
		ID        string `json:"kid"`
		Algorithm string `json:"alg"`
		Curve     string `json:"crv"`
		X         string `json:"x"`
		Y         string `json:"y"`
		Modulus   string `json:"n"`
		Exponent  string `json:"e"`
	} `json:"keys"`
}

// checkDocument fails unless every reader finds the same in a document of a provider.
func checkDocument(text []byte) error { return jsonread.Unmarshal(text, &documentNames{}) }

// fail notes that a request for a path failed.
func (f *fetcher) fail(path string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.last[path] = fetch{f.last[path].at, true}
}

func (f *fetcher) admit(path string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.clock()
	if last, known := f.last[path]; known && now.Sub(last.at) < fetchInterval {
		if last.failed {
			return fmt.Errorf("%w: %s failed a moment ago", errFetch, path)
		}
		return fmt.Errorf("%s was fetched a moment ago", path)
	}
	if f.last == nil {
		f.last = map[string]fetch{}
	}
	f.last[path] = fetch{at: now}
	return nil
}

// Attributes returns claims under the names that mappings for Keystone use: the
// claim "email" is "email", "OIDC-email", "OIDC_CLAIM_email", "HTTP_OIDC_EMAIL"
// and "HTTP_OIDC_CLAIM_EMAIL". In the names in capital letters every character
// other than a letter or a digit is "_". A name that two claims would have is
// left out. Numbers and booleans are texts; objects are left out.
func Attributes(claims map[string]any) map[string][]string {
	a := map[string][]string{}
	uses := map[string]int{}
	for name, value := range claims {
		values := Values(value)
		if len(values) == 0 {
			continue
		}
		capital := strings.Map(func(c rune) rune {
			if c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' {
				return c
			}
			return '_'
		}, strings.ToUpper(name))
		for _, n := range []string{name, "OIDC-" + name, "OIDC_CLAIM_" + name, "HTTP_OIDC_" + capital, "HTTP_OIDC_CLAIM_" + capital} {
			a[n] = values
			uses[n]++
		}
	}
	maps.DeleteFunc(a, func(n string, _ []string) bool { return uses[n] > 1 })
	return a
}

// Values returns the texts of a claim: its own, or those of its list.
func Values(claim any) (values []string) {
	list, ok := claim.([]any)
	if !ok {
		return texts(claim)
	}
	for _, v := range list {
		values = append(values, texts(v)...)
	}
	return values
}

// texts returns a value of a claim as a text, or nothing if it is an object, a
// list or null.
func texts(value any) []string {
	switch v := value.(type) {
	case string:
		return []string{v}
	case bool, float64, json.Number:
		text, _ := json.Marshal(v) // cannot fail for these types
		return []string{string(text)}
	}
	return nil
}
