// Package proxies puts nginx and HAProxy in front of the program and checks that
// every answer is right, and belongs to its request.
package proxies

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// front is where clients reach the program: over HTTP/1.1, over HTTP/2 without
// TLS ("" if it cannot be reached so), and for gRPC.
type front struct {
	http1, http2, grpc string
}

// TestDirect attacks the program without a proxy.
func TestDirect(t *testing.T) {
	p := launch(t)
	p.attack(t, front{p.http, "", p.grpc})
}

// TestNginx attacks it through nginx.
func TestNginx(t *testing.T) {
	path := find(t, "nginx")
	p := launch(t)
	f := front{free(t), free(t), free(t)}
	config := fmt.Sprintf(`daemon off; master_process off; pid nginx.pid; error_log error.log;
events { worker_connections 4096; }
http {
	access_log off; client_max_body_size 0; proxy_ignore_client_abort on; keepalive_requests 1000000;
	client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi; uwsgi_temp_path uwsgi; scgi_temp_path scgi;
	upstream program { server %s; keepalive 4; }
	server { listen %s; location / { proxy_pass http://program; proxy_http_version 1.1; proxy_set_header Connection ""; } }
	server { listen %s http2; location / { proxy_pass http://program; proxy_http_version 1.1; proxy_set_header Connection ""; } }
	server { listen %s http2; location / { grpc_pass grpc://%s; } }
}`, p.http, f.http1, f.http2, f.grpc, p.grpc)
	dir := t.TempDir()
	runProxy(t, dir, config, f, path, "-p", dir, "-e", "error.log", "-c", filepath.Join(dir, "config"))
	p.attack(t, f)
}

// TestHAProxy attacks it through HAProxy.
func TestHAProxy(t *testing.T) {
	path := find(t, "haproxy")
	p := launch(t)
	f := front{free(t), free(t), free(t)}
	config := fmt.Sprintf(`global
	maxconn 8000
defaults
	mode http
	timeout connect 5s
	timeout client 30s
	timeout server 30s
	http-reuse always
frontend http1
	bind %s
	default_backend program
frontend http2
	bind %s proto h2
	default_backend program
frontend grpc
	bind %s proto h2
	default_backend calls
backend program
	server program %s
backend calls
	server calls %s proto h2
`, f.http1, f.http2, f.grpc, p.http, p.grpc)
	dir := t.TempDir()
	runProxy(t, dir, config, f, path, "-db", "-q", "-f", filepath.Join(dir, "config"))
	p.attack(t, f)
}

// TestExamples requires that HAProxy accepts the configurations of examples/cluster and
// packaging/compose, without a warning.
func TestExamples(t *testing.T) {
	path := find(t, "haproxy")
	for _, name := range []string{"examples/cluster/haproxy.cfg", "packaging/compose/haproxy.cfg"} {
		check := exec.Command(path, "-c", "-f", filepath.Join("../..", name))
		check.Env = append(os.Environ(), "PORT=8080", "N1=8081", "N2=8082", "N3=8083")
		if out, err := check.CombinedOutput(); err != nil || strings.Contains(string(out), "[WARNING]") || strings.Contains(string(out), "[ALERT]") {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
}

// find returns the path of a proxy. It installs the proxy if the test may, and skips the
// test if there is no such program.
func find(t *testing.T, name string) string {
	t.Helper()
	if out, err := exec.Command("bash", "../../internal/workshop/bench/servers/install.sh", name).Output(); err != nil {
		t.Skip(strings.TrimSpace(string(out)))
	}
	path, err := exec.LookPath(name)
	if err != nil {
		path = "/usr/sbin/" + name // which is not in the PATH of every user
	}
	return path
}

// runProxy writes a configuration and starts a proxy with it.
func runProxy(t *testing.T, dir, config string, f front, path string, args ...string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, "config"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, args...)
	cmd.Dir = dir
	start(t, cmd)
	for _, address := range []string{f.http1, f.http2, f.grpc} {
		reachable(t, address)
	}
	t.Cleanup(func() {
		if text, err := os.ReadFile(filepath.Join(dir, "error.log")); err == nil && strings.Contains(string(text), "[alert]") {
			t.Errorf("the proxy's log: %.2000s", text)
		}
	})
}
