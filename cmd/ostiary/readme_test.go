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
	playPage(t, "../../README.md", 5)
}

// TestStartPage runs the commands of docs/start.md.
func TestStartPage(t *testing.T) {
	t.Parallel()
	playPage(t, "../../docs/start.md", 12)
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
// name after its language, and the first model, are files.
func playPage(t *testing.T, file string, least int) {
	t.Helper()
	page, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	address := freeAddress(t)
	playText(t, shell{dir: t.TempDir(), env: []string{"OSTIARY_HTTP=" + address, "OSTIARY_GRPC=127.0.0.1:0", "OSTIARY_METRICS=off"}},
		file, string(page), map[string]string{"127.0.0.1:8080": address}, least)
}

// playText plays a page as [playPage] does, with the text in place of that of the file.
// Loopback addresses become free ones, or those of used.
func playText(t *testing.T, in shell, file, text string, used map[string]string, least int) {
	t.Helper()
	if err := servers.FindAll("curl"); err != nil {
		t.Skip(err)
	}
	text = regexp.MustCompile(`127\.0\.0\.1:\d+`).ReplaceAllStringFunc(text, func(at string) string {
		if used[at] == "" {
			used[at] = freeAddress(t)
		}
		return used[at]
	})
	text = strings.Replace(text, "```fga\n", "```fga model.fga\n", 1)
	for _, block := range regexp.MustCompile("(?s)```\\w+ ([\\w.]+)\n(.*?)```").FindAllStringSubmatch(text, -1) {
		if err := os.WriteFile(filepath.Join(in.dir, block[1]), []byte(block[2]), 0o600); err != nil {
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
	for i, got := range in.run(t, commands) {
		pattern := strings.ReplaceAll(regexp.QuoteMeta(wants[i]), "…", ".*")
		if !regexp.MustCompile("^" + pattern + "$").MatchString(strings.TrimSpace(got)) {
			t.Errorf("$ %s\nprints\n%s\n%s has\n%s", commands[i], got, file, wants[i])
		}
	}
}

// machine has functions in place of what the page about installing needs: sudo, dpkg, and
// systemctl, which runs the server with the settings in etc.
const machine = `
sudo() {
	local OSTIARY_SERVER OSTIARY_TOKEN OSTIARY_CA_CERT
	unset OSTIARY_SERVER OSTIARY_TOKEN OSTIARY_CA_CERT
	if [ "$1" = -u ]; then shift 2; fi
	"$@"
}
dpkg() { [ "$1" = -i ] && mkdir -p etc/ostiary var/lib/ostiary var/backups; }
systemctl() {
	if [ "$1" = stop ] && [ -n "$server" ]; then kill "$server"; wait "$server"; fi
	if [ "$1" = start ]; then
		ostiary serve --config etc/ostiary/ostiary.yaml >serving 2>log &
		server=$!
		until [ -s serving ]; do kill -0 $server || { cat log; exit 1; }; sleep 0.05; done
	fi
}
`

// TestInstallPage runs the commands of docs/operate/install.md. The folders of the system
// are below the test's own, and root, the package and systemd are functions of the shell.
func TestInstallPage(t *testing.T) {
	t.Parallel()
	const file = "../../docs/operate/install.md"
	if err := servers.FindAll("openssl"); err != nil {
		t.Skip(err)
	}
	page, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	text := strings.NewReplacer("/etc/ostiary", dir+"/etc/ostiary", "/var/lib/ostiary", dir+"/var/lib/ostiary", "/var/backups", dir+"/var/backups",
		"-o ostiary -g ostiary ", "", "0.0.0.0:", "127.0.0.1:", "localhost:", "127.0.0.1:").Replace(string(page))
	playText(t, shell{dir: dir, before: machine}, file, text, map[string]string{}, 20)
}

// TestStartProgram compares the program in docs/start.md with examples/quickstart, and the
// output that docs/start.md describes with the program's. The third run finds the store, the
// model and the tuples of the first.
func TestStartProgram(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/start.md")
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
		t.Error("the program in docs/start.md differs from examples/quickstart/main.go")
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
				t.Errorf("docs/start.md does not show the output %q", line)
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

// shell is a shell in a folder, with variables of the environment, and commands that it
// runs before all others.
type shell struct {
	dir    string
	env    []string
	before string
}

// run runs commands in one shell and returns the output of each. The shell waits until a
// command in the background, a server, has printed a line.
func (s shell) run(t *testing.T, commands []string) []string {
	t.Helper()
	const mark = "=== end of a command ==="
	self, err := os.Executable() // under the name ostiary, the test program is the command; see TestMain
	if err == nil {
		err = os.Symlink(self, filepath.Join(s.dir, "ostiary"))
	}
	if err != nil {
		t.Fatal(err)
	}
	var script strings.Builder
	script.WriteString("trap 'kill $(jobs -p) 2>/dev/null; wait' EXIT\n" + s.before)
	for _, c := range commands {
		if background, ok := strings.CutSuffix(c, " &"); ok {
			fmt.Fprintf(&script, "%s >serving 2>/dev/null &\nuntil [ -s serving ]; do kill -0 $! || exit 1; sleep 0.05; done\ncat serving\n", background)
		} else {
			fmt.Fprintf(&script, "%s\n", c)
		}
		fmt.Fprintf(&script, "printf '\\n%%s\\n' '%s'\n", mark)
	}
	run := exec.Command("bash", "-c", script.String())
	run.Dir = s.dir
	run.Env = append(append(os.Environ(), "PATH="+s.dir+":"+os.Getenv("PATH")), s.env...)
	out, err := run.CombinedOutput()
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
