//go:build linux

package fleet_test

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	_ "github.com/ostiary/ostiary/internal/permifypb" // the messages of its gRPC steps
	"github.com/ostiary/ostiary/internal/workshop/bench/servers"
	"github.com/ostiary/ostiary/internal/workshop/databases"
	"github.com/ostiary/ostiary/internal/workshop/doortest"
	"github.com/ostiary/ostiary/internal/workshop/fleet"
)

// TestScripts plays the scripts of doors on three nodes: each step goes to the next node,
// without a token. OSTIARY_SCRIPTS has patterns of paths in the folder door; the default
// is one script, because each has nodes of its own. OSTIARY_PLAY_LOG and OSTIARY_KILL_EVERY
// are those of TestSuites.
func TestScripts(t *testing.T) {
	t.Parallel()
	program, err := build()
	if err != nil {
		t.Fatal(err)
	}
	s := scripts{program: program}
	if os.Getenv("OSTIARY_PLAY_LOG") != "raft" {
		s.server = databases.PostgreSQL(t)
	}
	if text := os.Getenv("OSTIARY_KILL_EVERY"); text != "" {
		if s.kill, err = time.ParseDuration(text); err != nil {
			t.Fatal("OSTIARY_KILL_EVERY: ", err)
		}
	}
	patterns := os.Getenv("OSTIARY_SCRIPTS")
	if patterns == "" {
		patterns = "xacml/testdata/policies.http"
	}
	for pattern := range strings.FieldsSeq(patterns) {
		name, _, _ := strings.Cut(pattern, "/")
		doortest.Suite{Glob: filepath.Join("../../../door", pattern), Server: func(tb testing.TB) (http.Handler, *grpc.ClientConn) {
			tb.Helper()
			return s.start(t.Context(), tb, name)
		}}.Run(t)
	}
}

// scripts starts nodes for scripts.
type scripts struct {
	program string
	server  *databases.Server // nil for nodes that keep the log themselves
	kill    time.Duration     // how often the node that writes is killed; 0 is never
}

// start starts three nodes with a door on ports of its own, where it answers every path,
// and returns a proxy before them.
func (s *scripts) start(ctx context.Context, tb testing.TB, door string) (http.Handler, *grpc.ClientConn) {
	tb.Helper()
	folder, log := tb.TempDir(), fleet.Log{Name: "raft"}
	if s.server != nil {
		log = fleet.Log{Name: "postgres", URL: s.server.Database()}
	}
	var web, rpc []string
	f, err := fleet.Start(ctx, fleet.Options{Program: s.program, Folder: folder, Nodes: 3, Log: log,
		// On a busy machine the nodes may need some seconds to agree on one that writes.
		Flags: []string{"--request-timeout", "20s"},
		Ports: func(n *fleet.Node, host string) []string {
			for len(web) <= n.Number { // its first start
				web, rpc = append(web, freePort(tb, host)), append(rpc, freePort(tb, host))
			}
			flags := []string{"--door", door + "=http://" + web[n.Number]}
			if door == "permify" || door == "openfga" {
				flags = append(flags, "--door", door+"=grpc://"+rpc[n.Number])
			}
			return flags
		}})
	tb.Cleanup(func() {
		if err := f.Close(); err != nil {
			tb.Error(err)
		}
	})
	if err != nil {
		tb.Fatal(err)
	}
	https, calls := fleet.NewBalancer(web, false), fleet.NewBalancer(rpc, true)
	conn := dial(tb, calls)
	if s.kill > 0 {
		s.killHolders(ctx, tb, f, https, calls)
	}
	return named(https, web[0]), conn
}

// killHolders kills the node that writes every so often until the test ends.
func (s *scripts) killHolders(ctx context.Context, tb testing.TB, f *fleet.Fleet, balancers ...*fleet.Balancer) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		kills, err := f.KillHolders(ctx, s.kill, balancers...)
		if tb.Logf("the node that writes was killed %d times", kills); err != nil {
			tb.Error(err)
		}
	}()
	tb.Cleanup(func() {
		cancel()
		<-ended
	})
}

func freePort(tb testing.TB, host string) string {
	at, err := servers.FreePort(host)
	if err != nil {
		tb.Error(err)
	}
	return at
}

// named serves requests under another host. A server without keys is asked under a name
// of its machine.
func named(h http.Handler, host string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Host = host
		h.ServeHTTP(w, r)
	})
}

// dial returns a connection to a proxy before gRPC ports.
func dial(tb testing.TB, balancer *fleet.Balancer) *grpc.ClientConn {
	tb.Helper()
	at, err := balancer.Listen("127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	conn, err := grpc.NewClient(at, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		_ = conn.Close()
		_ = balancer.Close(context.Background())
	})
	return conn
}
