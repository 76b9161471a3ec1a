package keystone_test

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/ostiary/ostiary/door"
)

// BenchmarkValidate measures GET /v3/auth/tokens in the process, without a
// network: two tokens are decrypted, and the roles of both are computed.
func BenchmarkValidate(b *testing.B) {
	c := newCloud(b)
	for _, path := range []string{"/v3/auth/tokens", "/v3/auth/tokens?nocatalog"} {
		b.Run(path, func(b *testing.B) { c.benchmarkValidate(b, path, c.admin) })
	}
}

// BenchmarkValidateDelegated measures the same, without the catalog, for tokens of
// an application credential and of a trust.
func BenchmarkValidateDelegated(b *testing.B) {
	a := newActors(b)
	for name, token := range map[string]string{
		"application credential": a.by(a.application(`"name":"x"`)),
		"trust":                  a.useTrust("bob", a.trust("")["id"]).header.Get("X-Subject-Token"),
	} {
		b.Run(name, func(b *testing.B) { a.benchmarkValidate(b, "/v3/auth/tokens?nocatalog", token) })
	}
}

// benchmarkValidate validates a token as the administrator.
func (c *cloud) benchmarkValidate(b *testing.B, path, subject string) {
	b.ReportAllocs()
	r := httptest.NewRequest("GET", path, strings.NewReader(""))
	r.Header.Set("X-Auth-Token", c.admin)
	r.Header.Set("X-Subject-Token", subject)
	var p door.Params
	route, _ := c.router.Find("GET", "/v3/auth/tokens", &p)
	for b.Loop() {
		w := httptest.NewRecorder()
		route.Serve(w, r, p)
		if w.Code != 200 {
			b.Fatal(w.Code, w.Body)
		}
	}
}
