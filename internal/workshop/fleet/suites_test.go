//go:build linux

package fleet_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ostiary/ostiary/internal/workshop/databases"
)

// suites are commands in folders of conformance that start a server, by their names.
var suites = map[string]struct{ folder, command string }{
	"openfga":  {"openfga", "go test ./served -run 'TestSuites|TestGoSDK|TestJavaScriptSDK|TestPythonSDK|TestCLI' -count=1 -timeout 20m"},
	"permify":  {"permify", "go test . -run TestClients -count=1 -timeout 10m"},
	"keystone": {"keystone", "bash run.sh compliance"},
	"tempest":  {"keystone", "bash run.sh tempest"},
}

// TestSuites plays suites of other projects on three nodes: each request goes to the next
// node, without a token. OSTIARY_SUITES names them; without it the test is skipped,
// because they take minutes. OSTIARY_PLAY_LOG is the log, PostgreSQL or raft, and
// OSTIARY_KILL_EVERY is how often the node that writes is killed, for example 20s.
func TestSuites(t *testing.T) {
	names := strings.Fields(os.Getenv("OSTIARY_SUITES"))
	if len(names) == 0 {
		t.Skip("OSTIARY_SUITES is not set")
	}
	program, err := build()
	if err != nil {
		t.Fatal(err)
	}
	if program, err = filepath.Abs(program); err != nil {
		t.Fatal(err)
	}
	asone := filepath.Join(t.TempDir(), "asone")
	if out, err := exec.Command("go", "build", "-o", asone, "./asone").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	server := ""
	if os.Getenv("OSTIARY_PLAY_LOG") != "raft" {
		server = databases.PostgreSQL(t).Database()
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			suite, ok := suites[name]
			if !ok {
				t.Fatalf("OSTIARY_SUITES has %q", name)
			}
			run := exec.CommandContext(t.Context(), "bash", "-c", suite.command)
			run.Dir = filepath.Join("../../../conformance", suite.folder)
			run.Env = append(os.Environ(), "OSTIARY_BIN="+asone, "ASONE_PROGRAM="+program, "ASONE_SERVER="+server, "ASONE_KILL="+os.Getenv("OSTIARY_KILL_EVERY"))
			out, err := run.CombinedOutput()
			t.Logf("%s", out[max(0, len(out)-outputShown):])
			if err != nil {
				t.Error(err)
			}
		})
	}
}

// outputShown is how much of the output of a suite is printed, in bytes.
const outputShown = 8000
