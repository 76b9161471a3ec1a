package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/internal/workshop/bench/servers"
	"github.com/ostiary/ostiary/storage"
	"github.com/ostiary/ostiary/storage/pebble"
)

// TestReadme runs the commands of README.md in order, in one shell and in an
// empty folder, and compares what they print. In README, "…" matches any text.
func TestReadme(t *testing.T) {
	t.Parallel()
	playPage(t, "../../README.md", 12)
}

// TestXACMLPage runs the commands of docs/xacml.md.
func TestXACMLPage(t *testing.T) {
	t.Parallel()
	playPage(t, "../../docs/xacml.md", 15)
}

// TestNativePage runs the commands of docs/native.md.
func TestNativePage(t *testing.T) {
	t.Parallel()
	playPage(t, "../../docs/native.md", 8)
}

// TestAuthZENPage runs the commands of docs/authzen.md.
func TestAuthZENPage(t *testing.T) {
	t.Parallel()
	playPage(t, "../../docs/authzen.md", 7)
}

// TestPermifyPage runs the commands of docs/permify.md.
func TestPermifyPage(t *testing.T) {
	t.Parallel()
	playPage(t, "../../docs/permify.md", 5)
}

// TestONAPPage runs the commands of docs/onap.md.
func TestONAPPage(t *testing.T) {
	t.Parallel()
	playPage(t, "../../docs/onap.md", 6)
}

// playPage runs the commands of a page, at least a number of them. A block with a
// name after its language, and the model of README.md, are files.
func playPage(t *testing.T, file string, least int) {
	t.Helper()
	if err := servers.FindAll("curl"); err != nil {
		t.Skip(err)
	}
	page, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	address := freeAddress(t)
	used := map[string]string{"127.0.0.1:8080": address}
	text := regexp.MustCompile(`127\.0\.0\.1:\d+`).ReplaceAllStringFunc(string(page), func(at string) string {
		if used[at] == "" {
			used[at] = freeAddress(t)
		}
		return used[at]
	})
	dir := t.TempDir()
	text = strings.Replace(text, "```fga\n", "```fga model.fga\n", 1)
	for _, block := range regexp.MustCompile("(?s)```\\w+ ([\\w.]+)\n(.*?)```").FindAllStringSubmatch(text, -1) {
		if err := os.WriteFile(filepath.Join(dir, block[1]), []byte(block[2]), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var commands, wants []string
	for _, block := range regexp.MustCompile("(?s)```console\n(.*?)```").FindAllStringSubmatch(text, -1) {
		for _, part := range strings.Split("\n"+block[1], "\n$ ")[1:] {
			command, want, _ := strings.Cut(part, "\n")
			commands, wants = append(commands, command), append(wants, strings.TrimSpace(want))
		}
	}
	if len(commands) < least {
		t.Fatalf("%s has %d commands, expected at least %d", file, len(commands), least)
	}
	for i, got := range runShell(t, dir, address, commands) {
		pattern := strings.ReplaceAll(regexp.QuoteMeta(wants[i]), "…", ".*")
		if !regexp.MustCompile("^" + pattern + "$").MatchString(strings.TrimSpace(got)) {
			t.Errorf("$ %s\nprints\n%s\n%s has\n%s", commands[i], got, file, wants[i])
		}
	}
}

// TestReadmeProgram compares the program in README.md with examples/quickstart, and the
// output that README.md describes with the program's. The third run finds the store, the
// model and the tuples of the first.
func TestReadmeProgram(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile("../../examples/quickstart/main.go")
	if err != nil {
		t.Fatal(err)
	}
	_, want, _ := strings.Cut(string(source), "\npackage main\n")
	block := regexp.MustCompile("(?s)```go\npackage main\n(.*?)```").FindSubmatch(page)
	if block == nil || string(block[1]) != want {
		t.Error("the program in README.md differs from examples/quickstart/main.go")
	}
	dir := t.TempDir()
	program := filepath.Join(dir, "quickstart")
	if out, err := exec.Command("go", "build", "-o", program, "../../examples/quickstart").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for range 3 {
		run := exec.Command(program)
		run.Dir = dir
		out, err := run.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		for line := range strings.Lines(string(out)) {
			if line = strings.TrimSpace(line); !strings.Contains(string(page), "`"+line+"`") {
				t.Errorf("README.md does not show the output %q", line)
			}
		}
	}
	driver, err := pebble.Open(filepath.Join(dir, "quickstart-data"), pebble.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer driver.Close()
	engine, err := ostiary.Open(t.Context(), ostiary.Options{Driver: driver})
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Close()
	var stores []string
	for info, err := range engine.Stores(t.Context(), storage.StoreID{}) {
		if err != nil {
			t.Fatal(err)
		}
		stores = append(stores, info.Name)
	}
	store, err := engine.OpenStore(t.Context(), "acme")
	if err != nil {
		t.Fatal(err)
	}
	stats, err := store.Stats(t.Context())
	if err != nil || !slices.Equal(stores, []string{"acme"}) || stats.Graph.Tuples != 3 {
		t.Errorf("after three runs: stores %q, %d tuples, error %v; expected acme with 3", stores, stats.Graph.Tuples, err)
	}
	if all, err := store.Schemas(t.Context()); err != nil || len(all) != 1 {
		t.Errorf("after three runs: %d models, error %v; expected 1", len(all), err)
	}
}

// runShell runs commands in one shell and returns the output of each. The shell
// waits until a command in the background, a server, has printed a line.
func runShell(t *testing.T, dir, address string, commands []string) []string {
	t.Helper()
	const mark = "=== end of a command ==="
	self, err := os.Executable() // under the name ostiary, the test program is the command; see TestMain
	if err == nil {
		err = os.Symlink(self, filepath.Join(dir, "ostiary"))
	}
	if err != nil {
		t.Fatal(err)
	}
	var script strings.Builder
	script.WriteString("trap 'kill $(jobs -p) 2>/dev/null; wait' EXIT\n")
	for _, c := range commands {
		if background, ok := strings.CutSuffix(c, " &"); ok {
			fmt.Fprintf(&script, "%s >serving 2>/dev/null &\nuntil [ -s serving ]; do kill -0 $! || exit 1; sleep 0.05; done\ncat serving\n", background)
		} else {
			fmt.Fprintf(&script, "%s\n", c)
		}
		fmt.Fprintf(&script, "printf '\\n%%s\\n' '%s'\n", mark)
	}
	shell := exec.Command("bash", "-c", script.String())
	shell.Dir = dir
	shell.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "OSTIARY_HTTP="+address, "OSTIARY_GRPC=127.0.0.1:0", "OSTIARY_METRICS=off")
	out, err := shell.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	parts := strings.Split(string(out), mark)
	if len(parts) != len(commands)+1 {
		t.Fatalf("%d of %d commands ended\n%s", len(parts)-1, len(commands), out)
	}
	return parts[:len(commands)]
}

// freeAddress returns a loopback address on which nothing listens, and whose port no other
// test and no connection takes.
func freeAddress(t *testing.T) string {
	t.Helper()
	at, err := servers.FreePort("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	return at
}
