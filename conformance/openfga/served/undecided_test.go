package served

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/ostiary/ostiary/conformance/openfga/servers"
)

// undecidedModel has conditions that lack a parameter, or fail.
const undecidedModel = `model
  schema 1.1
type user
type doc
  relations
    define viewer: [user with matches, user with divides, user with listed]
condition matches(team: string, wanted: string) {
  team == wanted
}
condition divides(by: int) {
  10 / by == 5
}
condition listed(names: list<string>) {
  names[3] == "x"
}
`

// TestUndecidedAtOpenFGA checks that the command line takes an undecided check of an
// OpenFGA for one: it knows it only by the text of an error. Exit codes and output must
// be those at ours, except for the text of a failure.
func TestUndecidedAtOpenFGA(t *testing.T) {
	program := servers.Program(t)
	model := filepath.Join(t.TempDir(), "model.fga")
	if err := os.WriteFile(model, []byte(undecidedModel), 0o644); err != nil {
		t.Fatal(err)
	}
	failure := regexp.MustCompile(`undecided, (parameter|condition|')[^\n]*`)
	played := map[string]string{}
	for _, s := range []*servers.Server{servers.Original(t), servers.Alone(t)} {
		var out strings.Builder
		run := func(args ...string) {
			cmd := exec.Command(program, append([]string{"--server", s.URL(""), "--store", "undecided"}, args...)...)
			text, err := cmd.CombinedOutput()
			switch {
			case args[0] == "check":
				fmt.Fprintf(&out, "%s: %d\n%s", strings.Join(args, " "), cmd.ProcessState.ExitCode(), failure.ReplaceAllString(string(text), "undecided, a failure"))
			case err != nil:
				t.Fatalf("%s at %s: %v %s", strings.Join(args, " "), s.Name, err, text)
			}
		}
		run("store", "create", "undecided")
		run("schema", "write", model)
		run("tuple", "write", "user:ann", "viewer", "doc:1", "--condition", "matches", "--context", `{"wanted":"a"}`)
		run("tuple", "write", "user:bob", "viewer", "doc:1", "--condition", "divides")
		run("tuple", "write", "user:cat", "viewer", "doc:1", "--condition", "listed")
		run("tuple", "write", "user:dan", "viewer", "doc:1", "--condition", "matches")
		for _, asked := range [][]string{{"ann"}, {"bob"}, {"cat"}, {"dan"}, {"ann", `{"team":"a"}`}, {"ann", `{"team":"b"}`},
			{"bob", `{"by":0}`}, {"bob", `{"by":"x"}`}, {"bob", `{"by":2}`}, {"cat", `{"names":["a"]}`}, {"eve"}} {
			args := []string{"check", "user:" + asked[0], "viewer", "doc:1"}
			if len(asked) > 1 {
				args = append(args, "--context", asked[1])
			}
			run(args...)
		}
		run("check", "user:ann", "none", "doc:1")
		played[s.Name] = out.String()
	}
	if n := strings.Count(played["ostiary"], "undecided, a failure"); n != 3 {
		t.Errorf("ours has %d failures, expected 3:\n%s", n, played["ostiary"])
	}
	if n := strings.Count(played["ostiary"], "undecided, missing context: "); n != 4 {
		t.Errorf("ours has %d checks that lack context, expected 4:\n%s", n, played["ostiary"])
	}
	if played["openfga"] != played["ostiary"] {
		t.Errorf("at OpenFGA:\n%s\nat ours:\n%s", played["openfga"], played["ostiary"])
	}
}
