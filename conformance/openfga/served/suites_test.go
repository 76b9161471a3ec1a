// Package served runs suites, clients and single requests against running
// servers: ours and OpenFGA. See README.md in the folder above.
package served

import (
	"os"
	"testing"

	openfgav1 "github.com/openfga/api/proto/openfga/v1"
	"github.com/openfga/openfga/tests"
	"github.com/openfga/openfga/tests/check"
	"github.com/openfga/openfga/tests/listobjects"
	"github.com/openfga/openfga/tests/listusers"

	"github.com/ostiary/ostiary/conformance/openfga/overhttp"
	"github.com/ostiary/ostiary/conformance/openfga/servers"
)

// server starts the server for suites and flows: ours, or with
// OSTIARY_AGAINST=openfga the original, to show that a script itself is right.
func server(t *testing.T) *servers.Server {
	t.Helper()
	switch against := os.Getenv("OSTIARY_AGAINST"); against {
	case "", "ostiary":
		return servers.Ours(t, "--openfga-inline-expressions")
	case "openfga":
		return servers.Original(t, "--experimentals", "inline_expressions")
	default:
		t.Fatalf("OSTIARY_AGAINST=%s is no server", against)
		return nil
	}
}

// TestSuitesHTTP plays the original's worlds and matrices over HTTP. Each
// answer is also compared with the form that the original's gateway gives it.
func TestSuitesHTTP(t *testing.T) {
	play(t, overhttp.New("http://"+server(t).HTTP))
}

// TestSuitesGRPC plays them over gRPC.
func TestSuitesGRPC(t *testing.T) {
	play(t, openfgav1.NewOpenFGAServiceClient(server(t).Dial(t)))
}

func play(t *testing.T, c tests.ClientInterface) {
	t.Run("CheckWorlds", func(t *testing.T) { check.RunAllTests(t, c) })
	t.Run("ListObjectsWorlds", func(t *testing.T) { listobjects.RunAllTests(t, c) })
	t.Run("ListUsersWorlds", func(t *testing.T) { listusers.RunAllTests(t, c) })
	t.Run("CheckMatrix", func(t *testing.T) { check.RunMatrixTests(t, "memory", "stored", c) })
	t.Run("ListObjectsMatrix", func(t *testing.T) { listobjects.RunMatrixTests(t, "memory", "stored", c) })
}
