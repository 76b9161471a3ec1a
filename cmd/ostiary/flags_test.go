package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ostiary/ostiary/cmd/internal/benchmark"
	"github.com/ostiary/ostiary/cmd/internal/cli"
	"github.com/ostiary/ostiary/internal/cluster/sharedlog/memorylog"
	"github.com/ostiary/ostiary/internal/workshop/bench/servers"
	"github.com/ostiary/ostiary/internal/workshop/issuers"
)

// shownMax is how many flags the help of a command shows at most.
const shownMax = 60

// TestShownFlags checks that no help shows more flags than a reader can take in, that
// --help-all shows all, and that the help points there.
func TestShownFlags(t *testing.T) {
	t.Parallel()
	printed := func(program func(*cli.App) *cobra.Command, args ...string) string {
		var out bytes.Buffer
		a := &cli.App{In: strings.NewReader(""), Out: &out, Err: &out, Lookup: func(string) (string, bool) { return "", false }}
		if code := a.Execute(context.Background(), program(a), args); code != cli.ExitOK {
			t.Errorf("%q exits with %d:\n%s", args, code, out.String())
		}
		return out.String()
	}
	listed := func(text, name string) bool { return strings.Contains(text, "--"+name+" ") }
	for _, program := range []func(*cli.App) *cobra.Command{root, benchmark.Root} {
		var walk func(cmd *cobra.Command)
		walk = func(cmd *cobra.Command) {
			for _, sub := range cmd.Commands() {
				walk(sub)
			}
			if cmd.DisableFlagParsing {
				return
			}
			path := strings.Fields(cmd.CommandPath())[1:]
			short, long := printed(program, append(path, "--help")...), printed(program, append(path, "--help-all")...)
			shown, rare := 0, 0
			cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
				if !listed(long, f.Name) {
					t.Errorf("%s --help-all does not show --%s", cmd.CommandPath(), f.Name)
				}
				if listed(short, f.Name) {
					shown++
				}
				if cli.IsRare(f) {
					rare++
				} else if !listed(short, f.Name) {
					t.Errorf("%s --help does not show --%s", cmd.CommandPath(), f.Name)
				}
			})
			if shown > shownMax {
				t.Errorf("%s --help shows %d flags, expected at most %d: cli.Rare is for those that few deployments need", cmd.CommandPath(), shown, shownMax)
			}
			if points := strings.Contains(short, fmt.Sprintf("\n%d more flags are", rare)) && strings.Contains(short, "--help-all\" shows them"); points != (rare > 0) {
				t.Errorf("%s --help, which leaves out %d flags, points to --help-all: %t\n%s", cmd.CommandPath(), rare, points, short)
			}
			cmd.InheritedFlags().VisitAll(func(f *pflag.Flag) {
				if f.Name != "help-all" && listed(short, f.Name) && cmd.LocalFlags().Lookup(f.Name) == nil && strings.Contains(short, "\n      --"+f.Name+" ") || !listed(long, f.Name) {
					t.Errorf("%s: --%s, a flag of every command, is in --help, or not in --help-all", cmd.CommandPath(), f.Name)
				}
			})
		}
		a := &cli.App{Lookup: func(string) (string, bool) { return "", false }}
		walk(program(a))
	}
}

// serveFlags returns all flags of serve itself.
func serveFlags(t *testing.T) (all []*pflag.Flag) {
	t.Helper()
	a := &cli.App{Lookup: func(string) (string, bool) { return "", false }}
	cmd, _, err := root(a).Find([]string{"serve"})
	if err != nil {
		t.Fatal(err)
	}
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if f.Name != "help" {
			all = append(all, f)
		}
	})
	return all
}

// everySetting returns a value of each flag of serve, with which a server starts, for a node
// of a log in a database or of a cluster without one. Each of these lacks the flags that the
// other one needs.
func everySetting(t *testing.T, database bool) map[string]string {
	t.Helper()
	dir := t.TempDir()
	file := func(name, text string) string {
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	collector := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(collector.Close)
	provider := issuers.NewProvider(t)
	certificates := filepath.Join(dir, "certificates")
	(&nodes{T: t}).run("node", "certificate", "--folder", certificates, "127.0.0.1")
	authority, certificate, key := filepath.Join(certificates, "ca.crt"), filepath.Join(certificates, "127.0.0.1.crt"), filepath.Join(certificates, "127.0.0.1.key")
	log := func() string {
		server, err := memorylog.New().Serve("127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { server.Close() })
		return "workshop://" + server.Address()
	}
	address, err := servers.FreePort("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{
		"config": file("empty.yaml", "{}\n"),
		"http":   "127.0.0.1:0", "grpc": "127.0.0.1:0", "metrics": "127.0.0.1:0", "doors": "openfga,native,keystone", "door": "authzen=http://127.0.0.1:0",
		"auth": "keys", "auth-keys-file": file("keys", "someone "+strings.Repeat("k", 40)+"\n"), "auth-users-file": file("users", "onap "+strings.Repeat("p", 20)+"\n"),
		"auth-oidc-issuer": provider.URL, "auth-oidc-audience": "ostiary", "console-oidc": provider.URL + "=console,groups",
		"tls-cert": certificate, "tls-key": key, "tls-client-ca": authority, "cors": "https://app.example",
		"nodes-listen": address, "nodes-address": address,
		"acknowledge": "leased", "holder-lease": "1s", "read-lease": "700ms", "zone": "here", "next-log": log(),
		"audit-folder": filepath.Join(dir, "audit"), "audit-otlp": collector.URL, "audit-key": filepath.Join(dir, "audit.key"),
		"decision-log": filepath.Join(dir, "decisions"), "decision-mask": "secret",
		"traces-content": "false", // true needs a variable that is no setting; the tests of traces have it
		"read-only":      "false", // not for nodes; TestReadOnlyDisk has it
		"authzen-store":  "files", "authzen-url": "https://pdp.example.com", "xacml-relations": "01ARZ3NDEKTSV4RRFFQ69G5FAV",
		"keystone-url": "https://identity.example.com", "keystone-oidc": provider.URL + "=keystone", "keystone-policy": file("policy.yaml", "{}\n"),
		"keystone-permissions": file("permissions.yaml", "compute_create: [member]\n"), "keystone-notifications": filepath.Join(dir, "notifications"),
		"keystone-password-regex": "^.{7,}$", "keystone-password-regex-description": "at least 7 characters",
		"keystone-keys": filepath.Join(dir, "fernet"), "keystone-receipt-keys": filepath.Join(dir, "receipts"),
	}
	if database {
		out["log"], out["cluster"] = log(), "false"
		out["nodes-certificate"], out["nodes-key"], out["nodes-ca"] = certificate, key, authority
	} else {
		first := startNodesOn(t, "", 1)
		out["join"] = strings.TrimSpace(first.run("node", "token", "--data", first.folder(first.all[0])))
	}
	for _, f := range serveFlags(t) {
		value, set := out[f.Name]
		switch {
		case set:
		case f.Value.Type() == "bool":
			value = "true"
		default:
			value = strings.Trim(f.DefValue, "[]")
		}
		if out[f.Name] = value; value == "" {
			delete(out, f.Name)
		}
	}
	return out
}

// TestEverySetting starts serve with all flags at once on the line, in the environment and in
// a configuration file. --log with its certificates and --join exclude each other, so there
// are two lines; every other flag is on both.
func TestEverySetting(t *testing.T) {
	t.Parallel()
	alone := map[string]bool{"log": true, "nodes-certificate": true, "nodes-key": true, "nodes-ca": true, "join": false} // with --log or not
	for name, database := range map[string]bool{"database": true, "cluster": false} {
		for _, way := range []string{"line", "environment", "file"} {
			t.Run(name+"/"+way, func(t *testing.T) {
				t.Parallel()
				settings := everySetting(t, database)
				for _, f := range serveFlags(t) {
					if with, one := alone[f.Name]; (settings[f.Name] == "") != (one && with != database) {
						t.Fatalf("--%s has the value %q: add one to everySetting", f.Name, settings[f.Name])
					}
				}
				args := []string{"serve", "--json", "--data", filepath.Join(t.TempDir(), "data")}
				env := os.Environ()
				var file strings.Builder
				for _, name := range slices.Sorted(maps.Keys(settings)) {
					switch value := settings[name]; {
					case way == "line":
						args = append(args, "--"+name+"="+value)
					case way == "environment":
						env = append(env, cli.EnvName(name)+"="+value)
					case name == "config":
						args = append(args, "--config", value)
					default:
						fmt.Fprintf(&file, "%s: %q\n", name, value)
					}
				}
				if way == "file" {
					if err := os.WriteFile(settings["config"], []byte(file.String()), 0o600); err != nil {
						t.Fatal(err)
					}
				}
				startsAndStops(t, env, args...)
			})
		}
	}
}

// startsAndStops starts a server, waits until it is ready, and stops it. It must print no error
// and exit with 0.
func startsAndStops(t *testing.T, env []string, args ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "ostiary", args...)
	cmd.Env = env
	var stderr lockedBuffer
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	serves := false
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		var at struct{ HTTP, GRPC string }
		if json.Unmarshal(lines.Bytes(), &at) == nil && at.HTTP != "" && at.GRPC != "" && !serves {
			for serves = true; !strings.Contains(stderr.String(), "msg=ready") && ctx.Err() == nil; time.Sleep(10 * time.Millisecond) {
			}
			if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Error(err)
			}
		}
	}
	if err := cmd.Wait(); err != nil || !serves {
		t.Errorf("serves %t, ends with %v\n%.6000s", serves, err, stderr.String())
	}
}
