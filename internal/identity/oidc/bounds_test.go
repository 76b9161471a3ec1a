package oidc

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
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
