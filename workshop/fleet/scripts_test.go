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

	"github.com/ostiary/ostiary/workshop/databases"
	"github.com/ostiary/ostiary/workshop/doortest"
	"github.com/ostiary/ostiary/workshop/fleet"
)

// TestScripts plays the scripts of doors on three nodes: each step goes to the next node,
// without a token. OSTIARY_SCRIPTS is a pattern of paths in the folder door; the default
// is one script, because each has nodes of its own.
func TestScripts(t *testing.T) {
	t.Parallel()
	program, err := build()
	if err != nil {
		t.Fatal(err)
	}
	server := databases.PostgreSQL(t)
	patterns := os.Getenv("OSTIARY_SCRIPTS")
	if patterns == "" {
		patterns = "xacml/testdata/policies.http"
	}
	for pattern := range strings.FieldsSeq(patterns) {
		doortest.Suite{Glob: filepath.Join("../../door", pattern), Server: func(tb testing.TB) (http.Handler, *grpc.ClientConn) {
			f, err := fleet.Start(t.Context(), fleet.Options{Program: program, Folder: tb.TempDir(), Nodes: 3, Log: fleet.Log{Name: "postgres", URL: server.Database()}})
			tb.Cleanup(func() {
				if err := f.Close(); err != nil {
					tb.Error(err)
				}
			})
			if err != nil {
				tb.Fatal(err)
			}
			web, rpc := f.Balance()
			at, err := rpc.Listen("127.0.0.1:0")
			if err != nil {
				tb.Fatal(err)
			}
			conn, err := grpc.NewClient(at, grpc.WithTransportCredentials(insecure.NewCredentials()))
			if err != nil {
				tb.Fatal(err)
			}
			tb.Cleanup(func() {
				_ = conn.Close()
				_ = rpc.Close(context.Background())
			})
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				r.Host = f.Nodes[0].HTTP // a server without keys is asked under a name of its machine
				web.ServeHTTP(w, r)
			}), conn
		}}.Run(t)
	}
}
