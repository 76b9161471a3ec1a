package databases

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Replica starts a read-only replica of a PostgreSQL server.
func (s *Server) Replica(tb testing.TB) *Server {
	tb.Helper()
	folder, as := unprivileged(tb, "postgres", "PostgreSQL refuses to run as root")
	data := filepath.Join(folder, "data")
	binary := ""
	for _, field := range s.command {
		if strings.HasSuffix(field, "/postgres") && filepath.IsAbs(field) && binary == "" {
			binary = field
		}
	}
	runCommand(tb, folder, append(as[:len(as):len(as)], filepath.Dir(binary)+"/pg_basebackup", "-h", "127.0.0.1", "-p", strconv.Itoa(s.port), "-U", "postgres", "-D", data, "-R", "-X", "stream", "-c", "fast", "--no-sync"))
	r := &Server{tb: tb, folder: folder, port: freePort(tb)}
	r.command = append(as[:len(as):len(as)], binary, "-D", data, "-h", "127.0.0.1", "-p", strconv.Itoa(r.port), "-k", folder, "-c", "fsync=off")
	r.url = func(database string) string {
		return fmt.Sprintf("postgres://postgres@127.0.0.1:%d/%s", r.port, database)
	}
	r.run = func(statement string) error {
		return exec.Command(filepath.Dir(binary)+"/psql", "-h", "127.0.0.1", "-p", strconv.Itoa(r.port), "-U", "postgres", "-d", "postgres", "-qc", statement).Run()
	}
	r.Start()
	tb.Cleanup(r.Stop)
	return r
}

// Bouncer starts PgBouncer in transaction mode in front of a PostgreSQL server. It
// returns the URL of a database through it.
func (s *Server) Bouncer(tb testing.TB) func(database string) string {
	tb.Helper()
	binary, err := exec.LookPath("pgbouncer")
	if err != nil {
		tb.Skip("PgBouncer is not installed: it is in Debian's package pgbouncer")
	}
	folder, as := unprivileged(tb, "postgres", "PgBouncer refuses to run as root")
	port := freePort(tb)
	settings := fmt.Sprintf("[databases]\n* = host=127.0.0.1 port=%d\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = %d\nunix_socket_dir =\nauth_type = any\npool_mode = transaction\nmax_client_conn = 500\ndefault_pool_size = 10\n", s.port, port)
	settings = strings.Replace(settings, "* = host=127.0.0.1", "* = user=postgres host=127.0.0.1", 1)
	name := filepath.Join(folder, "pgbouncer.ini")
	if err := os.WriteFile(name, []byte(settings), 0o644); err != nil {
		tb.Fatal(err)
	}
	cmd := exec.Command(append(as[:len(as):len(as)], binary, "-q", name)[0], append(as[:len(as):len(as)], binary, "-q", name)[1:]...)
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	exited := make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(exited)
	}()
	tb.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-exited
	})
	for {
		c, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err == nil {
			c.Close()
			break
		}
		select {
		case <-exited:
			tb.Fatalf("PgBouncer has ended: %s", out.String())
		case <-time.After(20 * time.Millisecond):
		}
	}
	return func(database string) string {
		return fmt.Sprintf("postgres://postgres@127.0.0.1:%d/%s", port, database)
	}
}
