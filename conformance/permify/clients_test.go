// Package permify tests our server with Permify's own clients, unchanged: the
// Node client over gRPC, the Python client over REST, and k6 with the load that
// Permify publishes. It installs them into the folder .work, which git ignores.
// If a registry cannot be reached, the test is skipped with a message, which fails in CI.
package permify

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

const (
	// installTime bounds one installation, and flowTime one client's flow.
	installTime = 5 * time.Minute
	flowTime    = 2 * time.Minute
)

// TestClients runs each client's flow.
func TestClients(t *testing.T) {
	server := serve(t)
	t.Run("node", func(t *testing.T) {
		t.Parallel()
		need(t, "node", "npm")
		dir := work(t, "node", "package.json", "flow.mjs")
		if _, err := os.Stat(filepath.Join(dir, "node_modules", "@permify")); err != nil {
			install(t, dir, "npm", "npm", "install", "--no-audit", "--no-fund", "--ignore-scripts")
		}
		flow(t, dir, "node", "flow.mjs", server.grpc)
	})
	t.Run("python", func(t *testing.T) {
		t.Parallel()
		need(t, "python3")
		dir := work(t, "python", "requirements.txt", "flow.py")
		python := filepath.Join(dir, "venv", "bin", "python")
		if out, err := exec.Command(python, "-c", "import permify").CombinedOutput(); err != nil {
			t.Logf("%s", out)
			install(t, dir, "PyPI", "python3", "-m", "venv", "venv")
			install(t, dir, "PyPI", python, "-m", "pip", "install", "--quiet", "-r", "requirements.txt")
		}
		flow(t, dir, python, "-W", "ignore", "flow.py", "http://"+server.http)
	})
	t.Run("k6", func(t *testing.T) {
		t.Parallel()
		underLoad(t, server)
	})
}

// work returns a client's folder in .work, with copies of the given files.
func work(t *testing.T, name string, files ...string) string {
	t.Helper()
	dir, err := filepath.Abs(filepath.Join(".work", name))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, f), text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// need installs programs that are missing, and skips the test if it cannot.
func need(t *testing.T, programs ...string) {
	t.Helper()
	install := exec.Command("bash", append([]string{"../../internal/workshop/bench/servers/install.sh"}, programs...)...)
	if out, err := install.Output(); err != nil {
		t.Skip(strings.TrimSpace(string(out)))
	}
}

// install runs an installer of packages of a registry, and skips the test if it fails.
func install(t *testing.T, dir, registry, name string, args ...string) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), installTime)
	defer stop()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Skipf("needs the client of %s, which cannot be installed: %s: %v\n%s", registry, cmd, err, out)
	}
}

// flow runs a client's script, which must print "ok" at the end.
func flow(t *testing.T, dir, name string, args ...string) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), flowTime)
	defer stop()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil || !bytes.HasSuffix(bytes.TrimSpace(out), []byte("ok")) {
		t.Errorf("%s: %v\n%s", cmd, err, out)
	}
}

// addresses are the addresses of a running server.
type addresses struct{ http, grpc string }

// serve builds our server and runs it in memory until the test ends.
func serve(t *testing.T) addresses {
	t.Helper()
	binary := os.Getenv("OSTIARY_BIN") // a program that is built already
	if binary == "" {
		binary = filepath.Join(t.TempDir(), "ostiary")
		build := exec.Command("go", "build", "-o", binary, "./cmd/ostiary")
		build.Dir = "../.."
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	a := addresses{free(t), free(t)}
	cmd := exec.Command(binary, "serve", "--data", "memory", "--http", a.http, "--grpc", a.grpc, "--metrics", "off")
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Error(err)
		}
		if err := cmd.Wait(); err != nil {
			t.Errorf("the server exited: %v\n%s", err, &log)
		}
	})
	if err := ready(t.Context(), "http://"+a.http+"/healthz"); err != nil {
		t.Fatal(err)
	}
	return a
}

// free returns a free loopback address.
func free(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// ready waits until a server reports that it is serving, three minutes at most.
func ready(ctx context.Context, url string) error {
	ctx, stop := context.WithTimeout(ctx, 3*time.Minute)
	defer stop()
	for tick := time.NewTicker(50 * time.Millisecond); ; {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		if res, err := http.DefaultClient.Do(req); err == nil {
			body, _ := io.ReadAll(res.Body)
			res.Body.Close()
			if res.StatusCode == http.StatusOK && strings.Contains(string(body), "SERVING") {
				tick.Stop()
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the server did not start: %w", ctx.Err())
		case <-tick.C:
		}
	}
}
