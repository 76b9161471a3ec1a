package oidc_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/ostiary/ostiary/internal/identity/oidc"
	"github.com/ostiary/ostiary/internal/workshop/issuers"
)

func TestVerify(t *testing.T) {
	p := issuers.NewProvider(t)
	now := time.Unix(2_000_000_000, 0)
	v := oidc.New([]oidc.Issuer{{URL: p.URL, Audiences: []string{"keystone", "other"}}}, oidc.Options{Clock: func() time.Time { return now }})
	claims := map[string]any{"iss": p.URL, "aud": []string{"x", "keystone"}, "sub": "u1", "exp": now.Unix() + 60, "iat": now.Unix(), "groups": []string{"a", "b"}}
	got, err := v.Verify(t.Context(), p.Sign(claims, -1))
	if err != nil || got.Issuer != p.URL || !slices.Equal(got.Attributes["OIDC-groups"], []string{"a", "b"}) || !slices.Equal(got.Attributes["HTTP_OIDC_SUB"], []string{"u1"}) {
		t.Fatalf("%+v %v", got, err)
	}
	with := func(name string, value any) map[string]any {
		c := maps.Clone(claims)
		if c[name] = value; value == nil {
			delete(c, name)
		}
		return c
	}
	unsigned, err := jwt.NewWithClaims(jwt.SigningMethodNone, jwt.MapClaims(claims)).SignedString(jwt.UnsafeAllowNoneSignatureType)
	if err != nil {
		t.Fatal(err)
	}
	symmetric, err := jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.MapClaims(claims)).SignedString([]byte("secret"))
	if err != nil {
		t.Fatal(err)
	}
	good := p.Sign(claims, -1)
	stranger := issuers.NewProvider(t)
	for name, text := range map[string]string{
		"another audience":   p.Sign(with("aud", "x"), -1),
		"no audience":        p.Sign(with("aud", nil), -1),
		"an expired token":   p.Sign(with("exp", now.Unix()-1), -1),
		"no expiry":          p.Sign(with("exp", nil), -1),
		"a future token":     p.Sign(with("nbf", now.Unix()+3600), -1),
		"an unknown issuer":  stranger.Sign(with("iss", stranger.URL), -1),
		"a stranger's key":   stranger.Sign(claims, -1),
		"no signature":       unsigned,
		"a shared key":       symmetric,
		"a changed token":    good[:len(good)-10] + strings.Repeat("A", 10),
		"a truncated token":  good[:len(good)-20],
		"no token":           "x",
		"a token of 16 KiB":  good + strings.Repeat("A", oidc.TokenMax),
		"no JSON":            "e30.e.x",
		"an empty text":      "",
		"an encrypted token": "a.b.c.d.e",
	} {
		if got, err := v.Verify(t.Context(), text); !errors.Is(err, oidc.ErrInvalid) {
			t.Errorf("%s: %+v %v", name, got, err)
		}
	}
}

// TestRotation verifies tokens after the provider has replaced its key, and counts
// how often tokens with unknown keys make the verifier ask the provider.
func TestRotation(t *testing.T) {
	p := issuers.NewProvider(t)
	now := time.Unix(2_000_000_000, 0)
	v := oidc.New([]oidc.Issuer{{URL: p.URL, Audiences: []string{"k"}}}, oidc.Options{Clock: func() time.Time { return now }})
	claims := map[string]any{"iss": p.URL, "aud": "k", "exp": now.Unix() + 1000}
	if _, err := v.Verify(t.Context(), p.Sign(claims, -1)); err != nil {
		t.Fatal(err)
	}
	p.Rotate()
	now = now.Add(time.Minute)
	if _, err := v.Verify(t.Context(), p.Sign(claims, -1)); err != nil {
		t.Error("after a rotation:", err)
	}
	fetched := p.Fetches.Load()
	stranger := issuers.NewProvider(t)
	for range 5 {
		stranger.Rotate()
		if _, err := v.Verify(t.Context(), stranger.Sign(claims, -1)); err == nil {
			t.Error("a token of an unknown key is valid")
		}
	}
	if n := p.Fetches.Load() - fetched; n > 0 {
		t.Errorf("%d requests for keys within the same second", n)
	}
}

// TestUnreachable asks for a provider that does not answer. That is not the fault
// of the token.
func TestUnreachable(t *testing.T) {
	p := issuers.NewProvider(t)
	text := p.Sign(map[string]any{"iss": "http://127.0.0.1:1", "aud": "k", "exp": time.Now().Unix() + 60}, -1)
	now := time.Now()
	v := oidc.New([]oidc.Issuer{{URL: "http://127.0.0.1:1", Audiences: []string{"k"}}}, oidc.Options{Clock: func() time.Time { return now }})
	for _, x := range []struct {
		after time.Duration
		want  string
	}{{0, "connection refused"}, {time.Second - 1, "failed a moment ago"}, {1, "connection refused"}} {
		now = now.Add(x.after)
		if _, err := v.Verify(t.Context(), text); err == nil || errors.Is(err, oidc.ErrInvalid) || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%v later: %v, want %q", x.after, err, x.want)
		}
	}
}

// TestTexts verifies texts of which no token can be read: the error names why.
func TestTexts(t *testing.T) {
	v := oidc.New([]oidc.Issuer{{URL: "http://127.0.0.1:1", Audiences: []string{"k"}}}, oidc.Options{})
	for text, want := range map[string]string{
		"x": "expected a signed JSON Web Token", "": "expected a signed JSON Web Token", "e30.e.x": "expected a signed JSON Web Token",
		strings.Repeat("A", 16384): "expected a signed JSON Web Token", strings.Repeat("A", 16385): "16385 bytes: expected at most 16384",
	} {
		if _, err := v.Verify(t.Context(), text); !errors.Is(err, oidc.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%.20q: %v, want %q", text, err, want)
		}
	}
}

// TestKeysUnreachable verifies a token with a new key while the provider fails to
// answer, and after it has ended. That is not the fault of the token either.
func TestKeysUnreachable(t *testing.T) {
	for name, fail := range map[string]func(*issuers.Provider){
		"a provider that fails":     func(p *issuers.Provider) { p.Fail.Store(true) },
		"a provider that has ended": (*issuers.Provider).Close,
	} {
		p := issuers.NewProvider(t)
		now := time.Unix(2_000_000_000, 0)
		v := oidc.New([]oidc.Issuer{{URL: p.URL, Audiences: []string{"k"}}}, oidc.Options{Clock: func() time.Time { return now }})
		claims := map[string]any{"iss": p.URL, "aud": "k", "exp": now.Unix() + 1000}
		known := p.Sign(claims, -1)
		if _, err := v.Verify(t.Context(), known); err != nil {
			t.Fatal(err)
		}
		p.Rotate()
		now = now.Add(time.Minute)
		fail(p)
		if _, err := v.Verify(t.Context(), p.Sign(claims, -1)); err == nil || errors.Is(err, oidc.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := v.Verify(t.Context(), known); err != nil {
			t.Errorf("%s: a key that was fetched before: %v", name, err)
		}
	}
}

// TestMoved changes the algorithm of a provider, and the address of its keys. Keys that
// are known are used until then.
func TestMoved(t *testing.T) {
	p := issuers.NewProvider(t)
	now := time.Unix(2_000_000_000, 0)
	v := oidc.New([]oidc.Issuer{{URL: p.URL, Audiences: []string{"k"}}}, oidc.Options{Clock: func() time.Time { return now }})
	claims := map[string]any{"iss": p.URL, "aud": "k", "exp": now.Unix() + 1000}
	old := p.Sign(claims, -1)
	verify := func(what, text string, want bool) {
		t.Helper()
		if _, err := v.Verify(t.Context(), text); (err == nil) != want || err != nil && !errors.Is(err, oidc.ErrInvalid) {
			t.Errorf("%s: %v, want a valid token: %t", what, err, want)
		}
	}
	verify("before", old, true)
	p.Move(jwt.SigningMethodPS256, "/keys")
	verify("a moment after the configuration was fetched", p.Sign(claims, -1), false)
	now = now.Add(10 * time.Second)
	fetches := p.Fetches.Load()
	verify("another algorithm", p.Sign(claims, -1), true)
	if p.Fetches.Load() != fetches {
		t.Error("the keys were fetched again, although they have not moved")
	}
	verify("the algorithm before", old, false)
	p.Move(jwt.SigningMethodPS256, "/moved")
	p.Rotate()
	verify("a moment after the configuration was fetched", p.Sign(claims, 0), true)
	now = now.Add(10 * time.Second)
	verify("another address", p.Sign(claims, -1), true)
	hidden, err := jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.MapClaims(claims)).SignedString([]byte("k"))
	if err != nil {
		t.Fatal(err)
	}
	verify("an algorithm for secrets, which the provider announces", hidden, false)
}

func TestParseIssuer(t *testing.T) {
	for text, want := range map[string]string{
		"https://a.example=k":            "https://a.example k",
		"https://a.example/r?=k":         "expected https://HOST[/PATH]",
		"https://a.example/realms/x=k,l": "https://a.example/realms/x k l",
		"http://127.0.0.1:8080=k":        "http://127.0.0.1:8080 k",
		"http://localhost=k":             "http://localhost k",
		"http://a.example=k":             "expected https://HOST[/PATH]",
		"https://a.example":              "expected URL=AUDIENCE",
		"https://a.example=":             "expected URL=AUDIENCE",
		"=k":                             `invalid URL ""`,
		"https://a.example/#=k":          "expected https://HOST[/PATH]",
		"https://a.example/%zz=k":        "expected https://HOST[/PATH]",
		"http://[::1]:1=k":               "http://[::1]:1 k",
		"http://127.0.0.2=k":             "http://127.0.0.2 k",
		"http://localhost.example=k":     "expected https://HOST[/PATH]",
		"http://192.0.2.1=k":             "expected https://HOST[/PATH]",
		"":                               "expected URL=AUDIENCE",
		"https://a.example=k,":           "an audience is empty",
		"ftp://a=k":                      "expected https://HOST[/PATH]",
		"https:///x=k":                   "expected https://HOST[/PATH]",
	} {
		is, err := oidc.ParseIssuer(text)
		got := strings.Join(append([]string{is.URL}, is.Audiences...), " ")
		if err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

func TestAttributes(t *testing.T) {
	a := oidc.Attributes(map[string]any{"email": "e", "n": 1.5, "yes": true, "object": map[string]any{"x": "y"}, "null": nil, "list": []any{"a", 2.0, map[string]any{}},
		"a.b": "first", "a_b": "second", "OIDC-email": "forged",
		"c.d": nil, "c_d": "only", "/09:@AZ[az{é": "edges", "none": []any{}})
	for name, want := range map[string][]string{
		"email": {"e"}, "HTTP_OIDC_CLAIM_EMAIL": {"e"}, "OIDC_CLAIM_email": {"e"}, "n": {"1.5"}, "yes": {"true"}, "list": {"a", "2"},
		"object": nil, "null": nil, "a.b": {"first"}, "a_b": {"second"}, "HTTP_OIDC_A_B": nil, "OIDC-email": nil,
		"HTTP_OIDC_C_D": {"only"}, "HTTP_OIDC__09__AZ_AZ__": {"edges"}, "HTTP_OIDC_CLAIM__09__AZ_AZ__": {"edges"}, "none": nil,
	} {
		if !slices.Equal(a[name], want) {
			t.Errorf("%s: %v, want %v", name, a[name], want)
		}
	}
}

// TestEndpoints reads where users sign in: of an unknown issuer, while the provider is away, and
// after a moment, when it is back.
func TestEndpoints(t *testing.T) {
	p := issuers.NewProvider(t)
	now := time.Now()
	v := oidc.New([]oidc.Issuer{{URL: p.URL, Audiences: []string{"k"}}}, oidc.Options{Clock: func() time.Time { return now }})
	if at, err := v.Endpoints(t.Context(), p.URL+"/other"); err == nil || !strings.Contains(err.Error(), "unknown issuer") {
		t.Error(at, err)
	}
	p.Answer(false, `{"issuer":"https://other.example"}`)
	if at, err := v.Endpoints(t.Context(), p.URL); err == nil || at != (oidc.Endpoints{}) {
		t.Error(at, err)
	}
	p.Answer(false, "")
	now = now.Add(time.Second)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if at, err := v.Endpoints(ended, p.URL); !errors.Is(err, context.Canceled) {
		t.Error(at, err)
	}
	now = now.Add(time.Second)
	if at, err := v.Endpoints(t.Context(), p.URL); err != nil || at != (oidc.Endpoints{Authorization: p.URL + "/auth", Token: p.URL + "/token"}) {
		t.Error(at, err)
	}
	if _, err := v.Verify(t.Context(), p.Sign(map[string]any{"iss": p.URL, "aud": "k", "exp": time.Now().Unix() + 1000}, -1)); err != nil {
		t.Error("a token after that:", err)
	}
}
