//go:build linux

package fleet_test

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	_ "github.com/ostiary/ostiary/door/permify/basev1" // the messages of its gRPC steps
	"github.com/ostiary/ostiary/internal/bench/servers"
	"github.com/ostiary/ostiary/workshop/databases"
	"github.com/ostiary/ostiary/workshop/doortest"
	"github.com/ostiary/ostiary/workshop/fleet"
)

// TestScripts plays the scripts of doors on three nodes: each step goes to the next node,
// without a token. OSTIARY_SCRIPTS has patterns of paths in the folder door; the default
// is one script, because each has nodes of its own.
func TestScripts(t *testing.T) {
	t.Parallel()
	program, err := build()
	if err != nil {
		t.Fatal(err)
	}
	s := scripts{program, databases.PostgreSQL(t)}
	patterns := os.Getenv("OSTIARY_SCRIPTS")
	if patterns == "" {
		patterns = "xacml/testdata/policies.http"
	}
	for pattern := range strings.FieldsSeq(patterns) {
		name, _, _ := strings.Cut(pattern, "/")
		doortest.Suite{Glob: filepath.Join("../../door", pattern), Server: func(tb testing.TB) (http.Handler, *grpc.ClientConn) {
			tb.Helper()
			return s.start(t.Context(), tb, name)
		}}.Run(t)
	}
}

// scripts starts nodes for scripts.
type scripts struct {
	program string
	server  *databases.Server
}

// start starts three nodes with a door on ports of its own, where it answers every path,
// and returns a proxy before them.
func (s *scripts) start(ctx context.Context, tb testing.TB, door string) (http.Handler, *grpc.ClientConn) {
	tb.Helper()
	folder := tb.TempDir()
	var web, rpc []string
	f, err := fleet.Start(ctx, fleet.Options{Program: s.program, Folder: folder, Nodes: 3, Log: fleet.Log{Name: "postgres", URL: s.server.Database()},
		// On a busy machine the nodes may need some seconds to agree on one that writes.
		Flags: []string{"--request-timeout", "20s"},
		Ports: func(_ *fleet.Node, host string) (flags []string) {
			at := [2]string{}
			for i := range at {
				free, err := servers.FreePort(host)
				if err != nil {
					tb.Error(err)
				}
				at[i] = free
			}
			web, flags = append(web, at[0]), []string{"--door", door + "=http://" + at[0]}
			if door == "permify" || door == "openfga" {
				rpc, flags = append(rpc, at[1]), append(flags, "--door", door+"=grpc://"+at[1])
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
	return named(fleet.NewBalancer(web, false), web[0]), dial(tb, rpc)
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
func dial(tb testing.TB, to []string) *grpc.ClientConn {
	tb.Helper()
	balancer := fleet.NewBalancer(to, true)
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
