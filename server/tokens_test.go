package server

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/internal/callers"
	"github.com/ostiary/ostiary/internal/cluster/forward"
	"github.com/ostiary/ostiary/internal/identity/oidc"
	"github.com/ostiary/ostiary/internal/workshop/issuers"
	"github.com/ostiary/ostiary/storage"
)

// tokenWorld is an engine with a store, keys that match tokens, and a provider.
type tokenWorld struct {
	testing.TB
	*Keys
	engine   *ostiary.Engine
	store    *ostiary.Store
	provider *issuers.Provider
	now      time.Time
	claims   map[string]any
}

func newTokenWorld(t testing.TB) *tokenWorld {
	t.Helper()
	w := &tokenWorld{TB: t, provider: issuers.NewProvider(t), now: time.Unix(2_000_000_000, 0)}
	clock := func() time.Time { return w.now }
	e, err := ostiary.Open(t.Context(), ostiary.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	w.engine = e
	if w.store, err = e.CreateStore(t.Context(), ostiary.CreateStoreRequest{Name: "a"}); err != nil {
		t.Fatal(err)
	}
	registry := callers.New(e, callers.Options{Clock: clock, Doors: []string{"native", "openfga"}})
	w.Keys = &Keys{stored: registry, tokens: newTokens(oidc.New([]oidc.Issuer{{URL: w.provider.URL, Audiences: []string{"ostiary"}}}, oidc.Options{Clock: clock, Skew: 30 * time.Second}), registry, slog.New(slog.DiscardHandler))}
	w.make("readers", "native", "read")
	w.make("writers", "openfga", "write")
	w.claims = map[string]any{"iss": w.provider.URL, "aud": "ostiary", "sub": "anne", "exp": w.now.Unix() + 600, "groups": []string{"others", "readers"}}
	return w
}

// make makes a key for the tokens of a group.
func (w *tokenWorld) make(group, door, right string) {
	w.Helper()
	made, err := w.stored.Create(w.Context(), callers.NewKey{Name: group, Stores: []string{"a"}, Rights: []string{right}, Doors: []string{door},
		Match: callers.Match{Issuer: w.provider.URL, Claim: "groups", Value: group}})
	if err != nil || made.Secret != "" {
		w.Fatalf("%+v %v", made, err)
	}
}

// with returns the claims with another value of one of them; nil removes it.
func (w *tokenWorld) with(name string, value any) map[string]any {
	c := maps.Clone(w.claims)
	if c[name] = value; value == nil {
		delete(c, name)
	}
	return c
}

func (w *tokenWorld) ask(token string) (*hashedKey, door.Reason) {
	return w.check(w.Context(), []string{"Bearer " + token}, false, true)
}

// TestTokenScope asks what the callers with tokens may do: what each key that matches
// allows, through its own doors only.
func TestTokenScope(t *testing.T) {
	t.Parallel()
	w := newTokenWorld(t)
	may := func(k *hashedKey, door string, right authz.Right) bool {
		err := k.grant.Through(door).Allow(t.Context(), right, w.store.Info())
		if err != nil && !errors.Is(err, authz.ErrForbidden) {
			t.Error(err)
		}
		return err == nil
	}
	both, why := w.ask(w.provider.Sign(w.with("groups", []string{"writers", "readers"}), -1))
	if why != 0 {
		t.Fatal(why)
	}
	if c := both.caller; c.Method != "oidc" || c.ID != "anne" || c.Owner != w.provider.URL || both.author != w.provider.URL+"#anne" {
		t.Errorf("the caller is %+v, %q", c, both.author)
	}
	one, _ := w.ask(w.provider.Sign(w.claims, -1))
	text, _ := w.ask(w.provider.Sign(w.with("groups", "readers"), -1))
	for _, c := range []struct {
		key   *hashedKey
		door  string
		right authz.Right
		want  bool
	}{
		{both, "native", authz.RightRead, true}, {both, "native", authz.RightWrite, false}, {both, "openfga", authz.RightWrite, true}, {both, "xacml", authz.RightRead, false},
		{one, "native", authz.RightRead, true}, {one, "openfga", authz.RightRead, false}, {text, "native", authz.RightRead, true},
	} {
		if got := may(c.key, c.door, c.right); got != c.want {
			t.Errorf("%s through %s with %d keys: %t", c.right, c.door, len(c.key.matched.IDs()), got)
		}
	}
	nobody, why := w.ask(w.provider.Sign(w.with("groups", "others"), -1))
	if why != 0 {
		t.Fatal(why)
	}
	if refusal := nobody.opens(t.Context(), "native"); refusal == nil || refusal.Reason != door.Forbidden || !strings.Contains(refusal.Detail, "no key matches the token of "+w.provider.URL+"#anne") {
		t.Errorf("no match: %v", refusal)
	}
	// A node that writes finds the same keys, and the caller.
	at := w.live(t.Context(), &forward.Head{Keys: both.forwardIDs(), Origin: storage.Origin{Caller: both.author}})
	if at == nil || at.caller != both.caller || at.author != both.author || !may(at, "openfga", authz.RightWrite) || may(at, "native", authz.RightWrite) {
		t.Errorf("forwarded: %+v", at)
	}
	// A revocation ends streams, and applies to the next request of the same token.
	stream, release := both.until()
	defer release()
	if _, err := w.stored.Revoke(t.Context(), "writers"); err != nil {
		t.Fatal(err)
	}
	<-stream.Done()
	if !both.ended() {
		t.Error("a request of a revoked key goes on")
	}
	if _, err := w.stored.Create(t.Context(), callers.NewKey{Name: "nested", Stores: []string{"a"}, Rights: []string{"schema"}, Match: callers.Match{Issuer: w.provider.URL, Claim: "/realm_access/roles", Value: "schemas"}}); err != nil {
		t.Fatal(err)
	}
	for _, roles := range []string{"schemas", "others"} {
		nested, why := w.ask(w.provider.Sign(w.with("realm_access", map[string]any{"roles": []string{"x", roles}}), -1))
		if why != 0 || may(nested, "native", authz.RightSchema) != (roles == "schemas") {
			t.Errorf("a token with the role %s: reason %d, its right is wrong", roles, why)
		}
	}
	if both, _ = w.ask(w.provider.Sign(w.with("groups", []string{"writers", "readers"}), -1)); may(both, "openfga", authz.RightWrite) || !may(both, "native", authz.RightRead) {
		t.Error("after the revocation of one of two keys, its right remains, or that of the other one does not")
	}
	if w.live(t.Context(), &forward.Head{Keys: at.forwardIDs()}) != nil {
		t.Error("the node that writes accepts a revoked key")
	}
}

// TestOnEnd stops what the end of a key has begun: stop waits for it.
func TestOnEnd(t *testing.T) {
	t.Parallel()
	ended, end := context.WithCancel(t.Context())
	k := &hashedKey{removed: ended, remove: end}
	began, goOn, returned := make(chan struct{}), make(chan struct{}), false
	stop := k.onEnd(func() {
		close(began)
		<-goOn
		returned = true
	})
	k.onEnd(func() { t.Error("it was stopped before") })()
	k.remove()
	<-began
	time.AfterFunc(50*time.Millisecond, func() { close(goOn) })
	if stop(); !returned {
		t.Error("stop does not wait")
	}
}

// TestTokensRefused sends tokens that are not valid.
func TestTokensRefused(t *testing.T) {
	t.Parallel()
	w := newTokenWorld(t)
	stranger := issuers.NewProvider(t)
	stranger.Rotate()
	sign := func(m jwt.SigningMethod, key any) string {
		text, err := jwt.NewWithClaims(m, jwt.MapClaims(w.claims)).SignedString(key)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	good := w.provider.Sign(w.claims, -1)
	ends := w.now.Unix()
	for name, text := range map[string]string{
		"no algorithm": sign(jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType), "a shared secret": sign(jwt.SigningMethodHS256, []byte("n")),
		"another audience": w.provider.Sign(w.with("aud", "other"), -1), "no audience": w.provider.Sign(w.with("aud", nil), -1),
		"expired": w.provider.Sign(w.with("exp", ends-31), -1), "no expiry": w.provider.Sign(w.with("exp", nil), -1), "not yet valid": w.provider.Sign(w.with("nbf", ends+400), -1),
		"a foreign issuer": stranger.Sign(w.with("iss", stranger.URL), -1), "a foreign kid": stranger.Sign(w.claims, -1), "a foreign key with a known kid": stranger.Sign(w.claims, 0),
		"no subject": w.provider.Sign(w.with("sub", nil), -1), "a subject with a control character": w.provider.Sign(w.with("sub", "a\nb"), -1), "a long subject": w.provider.Sign(w.with("sub", strings.Repeat("a", 257)), -1),
		"a changed token": good[:len(good)-10] + strings.Repeat("A", 10), "a token of 17 KiB": good + strings.Repeat("A", 17<<10), "no token": "a.b.c", "the name of a key": "readers",
	} {
		if key, why := w.ask(text); key != nil || why != door.BadCredentials {
			t.Errorf("%s: %+v, reason %d", name, key, why)
		}
	}
	if key, why := w.ask(w.provider.Sign(w.with("exp", ends-29), -1)); why != 0 || key == nil {
		t.Errorf("a token that expired within the skew: reason %d", why)
	}
	if len(w.tokens.known) != 1 {
		t.Errorf("%d tokens are remembered, want the valid one", len(w.tokens.known))
	}
}

// TestTokensRemembered checks that a token is verified once, and until it ends.
func TestTokensRemembered(t *testing.T) {
	t.Parallel()
	w := newTokenWorld(t)
	good := w.provider.Sign(w.claims, -1)
	if w.shownIn([]byte("GET / HTTP/1.1\r\nAuthorization: Bearer " + good + "\r\n\r\n")) {
		t.Error("a token is accepted before it was verified")
	}
	first, why := w.ask(good)
	if why != 0 {
		t.Fatal(why)
	}
	w.provider.Close()
	if again, _ := w.ask(good); again != first {
		t.Error("the second request with a token has another key")
	}
	if !w.shownIn([]byte("GET / HTTP/1.1\r\nAuthorization: Bearer " + good + "\r\n\r\n")) {
		t.Error("a token that was verified is not known")
	}
	w.now = w.now.Add(630 * time.Second)
	if !first.ended() {
		t.Error("a request goes on after its token has expired")
	}
	if _, why := w.ask(good); why != door.BadCredentials || len(w.tokens.known) != 0 {
		t.Errorf("an expired token: reason %d, %d remembered", why, len(w.tokens.known))
	}
	for i := range tokensMax + 1 {
		w.tokens.remember([32]byte{byte(i), byte(i >> 8)}, &token{})
	}
	if n := len(w.tokens.known); n != tokensMax {
		t.Errorf("%d tokens are remembered, want %d", n, tokensMax)
	}
}

// TestTokensUnsure asks with a token of a new key while its provider does not answer in a
// useful way, so the token cannot be checked. Tokens of known keys are accepted.
func TestTokensUnsure(t *testing.T) {
	t.Parallel()
	for name, serve := range map[string]http.HandlerFunc{
		"slow": func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"huge": func(w http.ResponseWriter, _ *http.Request) {
			w.Write([]byte(`{"keys":[` + strings.Repeat(" ", 2<<20) + `]}`))
		},
		"gone":        http.NotFound,
		"not JSON":    func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("<html>")) },
		"unavailable": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newTokenWorld(t)
			var broken bool
			bad := httptest.NewServer(serve)
			t.Cleanup(bad.Close)
			clock := func() time.Time { return w.now }
			w.tokens = newTokens(oidc.New([]oidc.Issuer{{URL: w.provider.URL, Audiences: []string{"ostiary"}}}, oidc.Options{Clock: clock,
				Transport: transportFunc(func(r *http.Request) (*http.Response, error) {
					if broken {
						r = r.Clone(r.Context())
						r.URL.Host = strings.TrimPrefix(bad.URL, "http://")
					}
					return http.DefaultTransport.RoundTrip(r)
				})}), w.stored, slog.New(slog.DiscardHandler))
			known, other := w.provider.Sign(w.claims, -1), w.provider.Sign(w.with("sub", "ben"), -1)
			if _, why := w.ask(known); why != 0 {
				t.Fatal(why)
			}
			broken = true
			w.provider.Rotate()
			w.now = w.now.Add(time.Minute)
			rotated := w.provider.Sign(w.claims, -1)
			for range 2 { // the second one is within the pause between requests for keys
				if _, why := w.ask(rotated); why != door.Unsure {
					t.Errorf("a token of a key that cannot be known: reason %d", why)
				}
			}
			if _, why := w.ask(other); why != 0 {
				t.Errorf("a token of a known key: reason %d", why)
			}
			if name == "slow" {
				return // its request still goes on
			}
			broken = false
			w.now = w.now.Add(time.Minute)
			if _, why := w.ask(rotated); why != 0 {
				t.Errorf("after the provider has recovered: reason %d", why)
			}
		})
	}
}

// BenchmarkToken is what a token adds to a request: "known" one that was verified before,
// which is found and asked for its door and for one store, and "first" the verification.
func BenchmarkToken(b *testing.B) {
	w := newTokenWorld(b)
	text, info := w.provider.Sign(w.claims, -1), w.store.Info()
	for _, name := range []string{"known", "first"} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			before := processorTime()
			defer func() { b.ReportMetric(float64(processorTime()-before)/float64(b.N), "cpu-ns/op") }()
			for b.Loop() {
				if name == "first" {
					clear(w.tokens.known)
				}
				key, why := w.ask(text)
				if why != 0 || key.grant.Opens(b.Context(), "native") != nil || key.grant.Through("native").Allow(b.Context(), authz.RightRead, info) != nil {
					b.Fatal(why)
				}
			}
		})
	}
}

type transportFunc func(*http.Request) (*http.Response, error)

func (f transportFunc) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
