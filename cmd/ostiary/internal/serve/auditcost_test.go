package serve

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/cmd/internal/cli"
	"github.com/ostiary/ostiary/expr/cel"
	"github.com/ostiary/ostiary/internal/trail/audit"
	"github.com/ostiary/ostiary/internal/trail/decisions"
	"github.com/ostiary/ostiary/server"
	"github.com/ostiary/ostiary/storage/pebble"
)

// costServer is a server whose requests are timed.
type costServer struct {
	address, store string
	client         http.Client
	n              int
}

// startCost starts a server on a folder, with a store of which user:x can view doc:0.
func startCost(b *testing.B, options ostiary.Options, change func(*server.Options)) *costServer {
	b.Helper()
	driver, err := pebble.Open(filepath.Join(b.TempDir(), "data"), pebble.Options{})
	if err != nil {
		b.Fatal(err)
	}
	options.Driver, options.Conditions = driver, cli.Conditions(cel.Options{})
	e, err := ostiary.Open(context.Background(), options)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { e.Close(); driver.Close() })
	doors, err := AllDoors(e, &DoorFlags{})
	if err != nil {
		b.Fatal(err)
	}
	keys, err := server.NewKeys([]server.Key{{Name: "walker", Secret: walkerKey}})
	if err != nil {
		b.Fatal(err)
	}
	o := server.Options{HTTP: "127.0.0.1:0", Doors: doors, Log: slog.New(slog.DiscardHandler), DrainTime: -1, Keys: keys, Engine: e}
	change(&o)
	srv, err := server.New(o)
	if err != nil {
		b.Fatal(err)
	}
	if err := srv.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { srv.Stop() })
	store, err := e.CreateStore(context.Background(), ostiary.CreateStoreRequest{Name: "s"})
	if err != nil {
		b.Fatal(err)
	}
	s := &costServer{address: "http://" + srv.Addresses()[0].Addr.String(), store: store.ID().String()}
	s.client.Transport = &http.Transport{MaxIdleConnsPerHost: costClients}
	s.post(b, "/schemas", `{"dialect":"openfga-dsl","source":"model\n  schema 1.1\ntype user\ntype doc\n  relations\n    define viewer: [user]\n"}`)
	s.post(b, "/write", `{"add":[{"subject":"user:x","relation":"viewer","object":"doc:0"}]}`)
	return s
}

func (s *costServer) post(b *testing.B, path, body string) {
	r, err := http.NewRequest("POST", s.address+"/ostiary/v1/stores/"+s.store+path, bytes.NewReader([]byte(body)))
	if err != nil {
		b.Error(err)
		return
	}
	r.Header.Set("Authorization", "Bearer "+walkerKey)
	r.Header.Set("Content-Type", "application/json")
	resp, err := s.client.Do(r)
	if err != nil {
		b.Error(err)
		return
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body)
	if resp.StatusCode/100 != 2 {
		b.Errorf("%s: %d %s", path, resp.StatusCode, text)
	}
}

const (
	// costClients send requests at the same time, and costPart is how many each sends in
	// a part of a run.
	costClients = 16
	costPart    = 40
)

// part returns the time of a part of a run.
func (s *costServer) part(b *testing.B, send func(s *costServer, n int)) time.Duration {
	begin := time.Now()
	var clients sync.WaitGroup
	for i := range costClients {
		first := s.n + i*costPart
		clients.Go(func() {
			for n := range costPart {
				send(s, first+n)
			}
		})
	}
	clients.Wait()
	s.n += costClients * costPart
	return time.Since(begin)
}

// ratio measures two servers in turns, and reports the rate of the first as a part of that
// of the second.
func ratio(b *testing.B, with, without *costServer, send func(s *costServer, n int)) {
	with.part(b, send)
	without.part(b, send)
	var took [2]time.Duration
	for b.Loop() {
		took[0] += with.part(b, send)
		took[1] += without.part(b, send)
	}
	b.ReportMetric(took[1].Seconds()/took[0].Seconds(), "of-rate")
	b.ReportMetric(float64(took[1].Microseconds())/float64(b.N*costClients*costPart), "µs/request-without")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkAuditOfWrites compares the rate of durable writes with an audit log to that
// without one. The goal is at least 0.9.
func BenchmarkAuditOfWrites(b *testing.B) {
	for _, required := range []bool{false, true} {
		b.Run(fmt.Sprintf("required=%v", required), func(b *testing.B) {
			key, err := audit.Key(filepath.Join(b.TempDir(), "key"))
			if err != nil {
				b.Fatal(err)
			}
			log, err := audit.OpenFolder(b.TempDir(), audit.Rotation{}, audit.Options{Key: key, Required: required})
			if err != nil {
				b.Fatal(err)
			}
			trail := audit.NewTrail(required, log)
			b.Cleanup(func() { trail.Close() })
			with := startCost(b, ostiary.Options{}, func(o *server.Options) { o.Audit = trail })
			without := startCost(b, ostiary.Options{}, func(*server.Options) {})
			ratio(b, with, without, func(s *costServer, n int) {
				s.post(b, "/write", fmt.Sprintf(`{"add":[{"subject":"user:u%d","relation":"viewer","object":"doc:%d"}]}`, n, n%100))
			})
			if lost := trail.Lost(); lost > 0 {
				b.Errorf("%d records are lost", lost)
			}
		})
	}
}

// BenchmarkDecisionLog compares the rate of checks with a whole decision log to that
// without one, over HTTP. The goal is at least 0.7.
func BenchmarkDecisionLog(b *testing.B) {
	log, err := decisions.Open(func(o audit.Options) (*audit.Log, error) { return audit.OpenFolder(b.TempDir(), audit.Rotation{}, o) },
		decisions.Options{Sample: 1, Block: true})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { log.Close() })
	with := startCost(b, ostiary.Options{Record: authz.RecordingOptions{Decided: log.Decided}}, func(*server.Options) {})
	without := startCost(b, ostiary.Options{}, func(*server.Options) {})
	ratio(b, with, without, func(s *costServer, n int) {
		s.post(b, "/check", `{"subject":"user:x","relation":"viewer","object":"doc:0"}`)
	})
	if log.Recorded() == 0 || log.Lost() > 0 {
		b.Errorf("%d decisions are logged, and %d lost", log.Recorded(), log.Lost())
	}
}
