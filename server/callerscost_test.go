package server

import (
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/internal/callers"
	"github.com/ostiary/ostiary/internal/tool/turns"
	"github.com/ostiary/ostiary/internal/workshop/issuers"
	"github.com/ostiary/ostiary/server/internal/conn"
)

// BenchmarkCallers is the processor time that the authentication of a caller adds to a
// request which looks up one store, for callers of each kind. The alternative is the same
// request to a server without keys. All kinds take turns, without a network. Run it with
// -benchtime 400000x.
func BenchmarkCallers(b *testing.B) {
	w := newTokenWorld(b)
	w.now = time.Now()
	w.claims["exp"] = w.now.Unix() + 3600
	made, err := w.stored.Create(b.Context(), callers.NewKey{Name: "k", Stores: []string{"a*"}, Rights: []string{"read"}})
	if err == nil {
		_, err = w.stored.Create(b.Context(), callers.NewKey{Name: "c", Stores: []string{"a*"}, Rights: []string{"read"}, Match: callers.Match{Certificate: "dns:web"}})
	}
	if err != nil {
		b.Fatal(err)
	}
	lookup := &door.Door{Name: "native", Prefixes: []string{"/lookup"}, Routes: []door.Route{{Method: "GET", Pattern: "/lookup", Name: "Lookup", Serve: func(rw http.ResponseWriter, r *http.Request, _ door.Params) {
		if _, err := w.engine.Store(r.Context(), w.store.ID()); err != nil {
			panic(err)
		}
		rw.WriteHeader(http.StatusNoContent)
	}}}}
	shown, authorities := certificateOf(b, "web")
	kinds := []struct {
		name, bearer string
		shown        *clientCertificate
	}{{name: "none"}, {name: "preshared", bearer: "of-the-file"}, {name: "key", bearer: made.Secret}, {name: "token", bearer: w.provider.Sign(w.claims, -1)}, {name: "certificate", shown: shown}}
	rounds := make([]func(n int), len(kinds))
	for i, kind := range kinds {
		o := Options{HTTP: "127.0.0.1:0", Doors: []*door.Door{lookup}, Engine: w.engine, Log: slog.New(slog.DiscardHandler)}
		if kind.name != "none" {
			if o.Keys, err = NewKeys([]Key{{Secret: "of-the-file"}}); err != nil {
				b.Fatal(err)
			}
			o.Callers, o.TLS, o.ClientCA = w.stored, &Certificate{}, authorities
		}
		s, err := New(o)
		if err != nil {
			b.Fatal(err)
		}
		s.shared.keys.withTokens(w.tokens)
		if kind.shown != nil {
			s.shared.detached.Show(kind.shown)
		}
		r, err := http.NewRequest(http.MethodGet, "http://localhost/lookup", nil)
		if err != nil {
			b.Fatal(err)
		}
		r.RequestURI = "/lookup"
		if kind.bearer != "" {
			r.Header.Set("Authorization", "Bearer "+kind.bearer)
		}
		answer := &statusOnly{header: http.Header{}}
		rounds[i] = func(n int) {
			for range n {
				clear(answer.header)
				answer.status = 0
				if s.Handler().ServeHTTP(answer, r); answer.status != http.StatusNoContent {
					b.Fatalf("%s: status %d", kind.name, answer.status)
				}
			}
		}
		rounds[i](2000)
	}
	const turns = 21
	more := make([][]float64, len(kinds))
	b.ResetTimer()
	for range turns {
		var alone float64
		for i, round := range rounds {
			runtime.GC()
			n := max(b.N/turns/len(kinds), 1)
			before := processorTime()
			round(n)
			spent := float64(processorTime()-before) / float64(n)
			if i == 0 {
				alone = spent
			}
			more[i] = append(more[i], spent-alone)
			if i == 0 {
				more[i][len(more[i])-1] = spent
			}
		}
	}
	for i, kind := range kinds {
		slices.Sort(more[i])
		b.ReportMetric(more[i][turns/2], kind.name+"-ns")
	}
	b.ReportMetric(0, "ns/op")
}

// withTokens makes the keys accept tokens. k may be nil.
func (k *Keys) withTokens(t *tokens) {
	if k != nil {
		k.tokens = t
	}
}

// processorTime returns what the process has used so far, in nanoseconds.
func processorTime() int64 {
	var u syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return u.Utime.Nano() + u.Stime.Nano()
}

// certificateOf returns a certificate with a DNS name as a connection has it, and its
// authorities.
func certificateOf(t testing.TB, name string) (*clientCertificate, *ClientCA) {
	t.Helper()
	authority, file := issuers.NewAuthority(t, "authority"), filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(file, authority.PEM, 0o600); err != nil {
		t.Fatal(err)
	}
	authorities, err := NewClientCA(file, false)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(authority.Issue(func(c *x509.Certificate) { c.DNSNames = []string{name} }).Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	c := conn.NewDetached(conn.NewConnections(conn.Bounds{}))
	if err := authorities.show(c, &tls.ConnectionState{PeerCertificates: []*x509.Certificate{leaf}, VerifiedChains: [][]*x509.Certificate{{leaf}}}); err != nil {
		t.Fatal(err)
	}
	return c.Certificate().(*clientCertificate), authorities
}

// statusOnly is a response writer that keeps the status.
type statusOnly struct {
	header http.Header
	status int
}

func (s *statusOnly) Header() http.Header         { return s.header }
func (s *statusOnly) WriteHeader(status int)      { s.status = status }
func (s *statusOnly) Write(p []byte) (int, error) { return len(p), nil }

// BenchmarkLimits is what limits add to a request: nothing is set, none counts for the caller,
// and a request and processor time that count for the key, its maker and a store.
func BenchmarkLimits(b *testing.B) {
	w := newTokenWorld(b)
	limits := turns.Limits{Requests: &turns.Rate{PerSecond: turns.PerSecondMax, Burst: turns.BurstMax}, ProcessorMillis: &turns.Rate{PerSecond: turns.PerSecondMax, Burst: turns.BurstMax}}
	kind := func(name string, set func() error) {
		if err := set(); err != nil {
			b.Fatal(err)
		}
		b.Run(name, func(b *testing.B) {
			s := &shared{keys: w.Keys, metrics: newMetrics()}
			p := &passage{shared: s, op: &operation{}, door: &servedDoor{Door: &door.Door{Name: "native"}}, start: time.Now()}
			key := &hashedKey{caller: door.Caller{Method: methodPreshared, ID: "team~ci"}, author: "team~ci"}
			info := w.store.Info()
			p.ctx.work.Use(turns.New(1))
			b.ReportAllocs()
			for b.Loop() {
				p.start, p.ctx.key = time.Now(), key
				p.ctx.limits.of, p.ctx.journal.Gate = nil, nil
				p.ctx.limits.measured.Store(false)
				if why := p.share(); why != nil {
					b.Fatal(why)
				}
				if p.ctx.journal.Gate != nil {
					if err := p.EnterStore(info); err != nil {
						b.Fatal(err)
					}
				}
				p.ctx.release()
				p.ctx.released.Store(false)
			}
		})
	}
	kind("none", func() error { return nil })
	w.stored.Avoid(func() []string { return []string{"team", "team~ci", "other"} })
	set := func(name string) error { return w.stored.SetLimits(b.Context(), name, limits) }
	kind("of-others", func() error { return set("other") })
	kind("key", func() error { return set("team~ci") })
	kind("key-and-maker", func() error { return set("team") })
	kind("key-maker-and-store", func() error { return w.stored.SetStoreLimits(b.Context(), w.store.Info(), limits) })
}
