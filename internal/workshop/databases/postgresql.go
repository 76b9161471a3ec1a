//go:build unix

package databases

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/ostiary/ostiary/internal/workshop/bench/servers"
)

// Replica starts a read-only replica of a PostgreSQL server.
func (s *Server) Replica(tb testing.TB) *Server {
	tb.Helper()
	folder, as := unprivileged(tb, "postgres", "PostgreSQL refuses to run as root")
	bin, err := servers.PostgreSQL()
	if err != nil {
		tb.Skip(err)
	}
	r := s.place.postgreSQL(tb, bin, folder, as)
	runCommand(tb, folder, append(as[:len(as):len(as)], bin+"/pg_basebackup", "-h", "127.0.0.1", "-p", strconv.Itoa(s.port), "-U", "postgres", "-D", r.data(), "-R", "-X", "stream", "-c", "fast", "--no-sync"))
	r.Start()
	tb.Cleanup(r.Stop)
	return r
}

// AwaitPaused waits until a replica no longer applies what it gets, after
// pg_wal_replay_pause.
func (s *Server) AwaitPaused() {
	s.tb.Helper()
	s.await("pauses", func() bool {
		return s.run("do $$ begin if pg_get_wal_replay_pause_state() <> 'paused' then raise 'not yet'; end if; end $$") == nil
	})
}

// Bouncer starts PgBouncer in transaction mode in front of a PostgreSQL server. It
// returns the URL of a database through it.
func (s *Server) Bouncer(tb testing.TB) func(database string) string {
	tb.Helper()
	binary, err := servers.Find("pgbouncer")
	if err != nil {
		tb.Skip(err)
	}
	folder, as := unprivileged(tb, "postgres", "PgBouncer refuses to run as root")
	b := &Server{tb: tb, folder: folder, port: freePort(tb)}
	settings := fmt.Sprintf("[databases]\n* = user=postgres host=127.0.0.1 port=%d\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = %d\nunix_socket_dir =\nauth_type = any\npool_mode = transaction\nmax_client_conn = 500\ndefault_pool_size = 10\n", s.port, b.port)
	name := filepath.Join(folder, "pgbouncer.ini")
	if err := os.WriteFile(name, []byte(settings), 0o644); err != nil {
		tb.Fatal(err)
	}
	b.command = append(as[:len(as):len(as)], binary, "-q", name)
	b.Begin()
	tb.Cleanup(b.Kill)
	at := net.JoinHostPort("127.0.0.1", strconv.Itoa(b.port))
	b.await("accepts connections", func() bool {
		c, err := net.Dial("tcp", at)
		if err == nil {
			c.Close()
		}
		return err == nil
	})
	return func(database string) string { return "postgres://postgres@" + at + "/" + database }
}
