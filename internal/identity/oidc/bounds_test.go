package oidc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"

	"github.com/ostiary/ostiary/internal/workshop/issuers"
)

// TestBounds checks that every request to a provider ends, and that no more than
// documentMax bytes of its response are read.
func TestBounds(t *testing.T) {
	v := New([]Issuer{{URL: "https://a.example"}, {URL: "https://b.example"}}, Options{})
	for url, p := range v.issuers {
		if p.client.Timeout != 10*time.Second || p.issuer.URL != url {
			t.Errorf("%s: the client of %s has a time of %s", url, p.issuer.URL, p.client.Timeout)
		}
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := 1 << 20
		if r.URL.Path == "/huge" {
			n++
		}
		io.WriteString(w, `{"a":"`+strings.Repeat("0", n-8)+`"}`)
	}))
	defer server.Close()
	now := time.Unix(2_000_000_000, 0)
	client := http.Client{Transport: &fetcher{clock: func() time.Time { return now }, next: http.DefaultTransport}}
	get := func(path string) (int, error) {
		response, err := client.Get(server.URL + path)
		if err != nil {
			return 0, err
		}
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		return len(text), err
	}
	for _, x := range []struct {
		after time.Duration
		path  string
		n     int
	}{{0, "/a", 1 << 20}, {0, "/b", 1 << 20}, {time.Second - 1, "/a", 0}, {1, "/a", 1 << 20}, {0, "/a", 0}, {0, "/huge", 0}} {
		now = now.Add(x.after)
		if n, err := get(x.path); n != x.n || (err == nil) != (x.n > 0) {
			t.Errorf("%s %v later: %d bytes, %v, want %d bytes", x.path, x.after, n, err, x.n)
		}
	}
}

// failedKeys are keys whose latest request, which another token has sent, failed.
type failedKeys struct{}

func (failedKeys) VerifySignature(context.Context, string) ([]byte, error) {
	return nil, fmt.Errorf("fetching keys %w", errFetch)
}

// TestSharedFailure verifies a token with the failure of a request that another one has sent,
// as go-oidc shares it: that is not the fault of the token.
func TestSharedFailure(t *testing.T) {
	p := issuers.NewProvider(t)
	v := New([]Issuer{{URL: p.URL, Audiences: []string{"k"}}}, Options{})
	text := p.Sign(map[string]any{"iss": p.URL, "aud": "k", "exp": time.Now().Unix() + 1000}, -1)
	if _, err := v.Verify(t.Context(), text); err != nil {
		t.Fatal(err)
	}
	v.issuers[p.URL].verifier.Store(oidc.NewVerifier(p.URL, keySet{failedKeys{}}, &oidc.Config{SkipClientIDCheck: true}))
	if _, err := v.Verify(t.Context(), text); !errors.Is(err, errFetch) || errors.Is(err, ErrInvalid) {
		t.Error(err)
	}
}
