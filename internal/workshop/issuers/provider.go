package issuers

import (
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/golang-jwt/jwt/v5"
)

// Provider is a provider. Its methods may be called concurrently.
type Provider struct {
	// URL is the issuer.
	URL string
	// Fetches counts the requests for keys.
	Fetches atomic.Int64
	// Fail makes requests for keys fail with status 500.
	Fail atomic.Bool

	t      testing.TB
	server *httptest.Server
	mu     sync.Mutex
	keys   []*rsa.PrivateKey
	alg    jwt.SigningMethod // of all keys
	path   string            // of the keys
	// answers are texts to send instead of the configuration (false) and the keys (true).
	answers map[bool]string
}

// NewProvider starts a provider, which ends with the test.
func NewProvider(t testing.TB) *Provider {
	t.Helper()
	p := &Provider{t: t, alg: jwt.SigningMethodRS256, path: "/keys"}
	p.Rotate()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.send(w, false)
	})
	mux.HandleFunc("GET /{keys}", func(w http.ResponseWriter, r *http.Request) {
		p.Fetches.Add(1)
		if p.Fail.Load() {
			http.Error(w, "no keys", http.StatusInternalServerError)
			return
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		if r.URL.Path != p.path {
			http.NotFound(w, r)
			return
		}
		p.send(w, true)
	})
	p.server = httptest.NewServer(mux)
	t.Cleanup(p.server.Close)
	p.URL = p.server.URL
	return p
}

// Close ends the provider before the test ends.
func (p *Provider) Close() { p.server.Close() }

// send sends a document. The caller holds p.mu.
func (p *Provider) send(w http.ResponseWriter, keys bool) {
	w.Header().Set("Content-Type", "application/json")
	if text := p.answers[keys]; text != "" {
		_, _ = w.Write([]byte(text)) // the client notices what is missing
		return
	}
	if err := json.NewEncoder(w).Encode(p.document(keys)); err != nil {
		p.t.Error(err)
	}
}

// Rotate makes a new key, which replaces the others.
func (p *Provider) Rotate() {
	p.t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		p.t.Fatal(err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.keys = append(p.keys, key)
}

// Move changes the algorithm of the keys, and their address.
func (p *Provider) Move(alg jwt.SigningMethod, path string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.alg, p.path = alg, path
}

// Sign returns a token with the claims, signed with the key of a number. The
// latest key has the highest number; -1 means the latest.
func (p *Provider) Sign(claims map[string]any, key int) string {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if key < 0 {
		key = len(p.keys) - 1
	}
	t := jwt.NewWithClaims(p.alg, jwt.MapClaims(claims))
	t.Header["kid"] = strconv.Itoa(key)
	text, err := t.SignedString(p.keys[key])
	if err != nil {
		p.t.Fatal(err)
	}
	return text
}

// SignText returns a token with a header and claims that are any texts, signed by RS256
// with the latest key. The header may name the key by the kid that [Provider.KeyID]
// returns.
func (p *Provider) SignText(header, claims string) string {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	text := base64.RawURLEncoding.EncodeToString([]byte(header)) + "." + base64.RawURLEncoding.EncodeToString([]byte(claims))
	signature, err := jwt.SigningMethodRS256.Sign(text, p.keys[len(p.keys)-1])
	if err != nil {
		p.t.Fatal(err)
	}
	return text + "." + base64.RawURLEncoding.EncodeToString(signature)
}

// KeyID returns the kid of the latest key.
func (p *Provider) KeyID() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strconv.Itoa(len(p.keys) - 1)
}

// Answer makes the provider send a text instead of a document: that of its configuration
// or, if keys is true, that of its keys. "" undoes it.
func (p *Provider) Answer(keys bool, text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.answers == nil {
		p.answers = map[bool]string{}
	}
	p.answers[keys] = text
}

// Document returns the text of a document, as the provider sends it without
// [Provider.Answer].
func (p *Provider) Document(keys bool) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	text, err := json.Marshal(p.document(keys))
	if err != nil {
		p.t.Fatal(err)
	}
	return string(text)
}

// document returns a document. The caller holds p.mu.
func (p *Provider) document(keys bool) any {
	if !keys {
		return map[string]any{"issuer": p.URL, "jwks_uri": p.URL + p.path, "authorization_endpoint": p.URL + "/auth", "token_endpoint": p.URL + "/token",
			"response_types_supported": []string{"id_token"}, "subject_types_supported": []string{"public"}, "id_token_signing_alg_values_supported": []string{"none", "HS256", p.alg.Alg()}}
	}
	i := len(p.keys) - 1 // older keys are not valid any more
	return map[string]any{"keys": []any{map[string]string{"kty": "RSA", "alg": p.alg.Alg(), "use": "sig", "kid": strconv.Itoa(i),
		"n": base64.RawURLEncoding.EncodeToString(p.keys[i].N.Bytes()), "e": base64.RawURLEncoding.EncodeToString(big.NewInt(int64(p.keys[i].E)).Bytes())}}}
}
