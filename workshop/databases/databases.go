// Package databases starts database servers for tests: PostgreSQL and MariaDB, each in
// a folder of the test, on a port of loopback. Its functions skip the test, and name
// what is missing, if the server is not installed.
package databases

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// Server is a running database server. Its data is empty at the start.
type Server struct {
	tb      testing.TB
	folder  string
	port    int
	command []string
	process *exec.Cmd
	exited  chan struct{}
	url     func(database string) string
	run     func(statement string) error // runs a statement as the administrator
	count   atomic.Int64
}

// freePort returns a port of loopback that nothing uses.
func freePort(tb testing.TB) int {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// PostgreSQL starts a PostgreSQL server. It ends with the test. It does not sync its
// files: what a killed server has written survives, but not a power cut.
func PostgreSQL(tb testing.TB) *Server {
	tb.Helper()
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	if len(found) == 0 {
		tb.Skip("PostgreSQL is not installed in /usr/lib/postgresql")
	}
	bin := filepath.Dir(found[len(found)-1])
	// PostgreSQL refuses to run as root, so its folder is one that another user reaches.
	folder, err := os.MkdirTemp("", "ostiary-postgresql-")
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = os.RemoveAll(folder) })
	as := unprivileged(tb, folder)
	s := &Server{tb: tb, folder: folder, port: freePort(tb)}
	data := filepath.Join(folder, "data")
	runCommand(tb, folder, append(as, bin+"/initdb", "-D", data, "-U", "postgres", "--auth=trust", "-E", "UTF8", "--locale=C.UTF-8", "--no-sync"))
	s.command = append(as, bin+"/postgres", "-D", data, "-h", "127.0.0.1", "-p", strconv.Itoa(s.port), "-k", folder, "-c", "fsync=off")
	s.url = func(database string) string {
		return fmt.Sprintf("postgres://postgres@127.0.0.1:%d/%s", s.port, database)
	}
	s.run = func(statement string) error {
		return exec.Command(bin+"/psql", "-h", "127.0.0.1", "-p", strconv.Itoa(s.port), "-U", "postgres", "-d", "postgres", "-qc", statement).Run()
	}
	s.Start()
	tb.Cleanup(s.Stop)
	return s
}

// MariaDB starts a MariaDB server. It ends with the test.
func MariaDB(tb testing.TB) *Server {
	tb.Helper()
	binary, err := exec.LookPath("mariadbd")
	if err != nil {
		tb.Skip("MariaDB's server, mariadbd, is not installed")
	}
	s := &Server{tb: tb, folder: tb.TempDir(), port: freePort(tb)}
	data, socket := filepath.Join(s.folder, "data"), filepath.Join(s.folder, "socket")
	name := "root"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	runCommand(tb, s.folder, []string{"mariadb-install-db", "--no-defaults", "--user=" + name, "--datadir=" + data, "--auth-root-authentication-method=normal", "--skip-test-db"})
	s.command = []string{binary, "--no-defaults", "--user=" + name, "--datadir=" + data, "--bind-address=127.0.0.1", "--port=" + strconv.Itoa(s.port), "--socket=" + socket, "--innodb-buffer-pool-size=64M"}
	s.url = func(database string) string { return fmt.Sprintf("mysql://root@127.0.0.1:%d/%s", s.port, database) }
	s.run = func(statement string) error {
		return exec.Command("mariadb", "--no-defaults", "-uroot", "-S", socket, "-e", statement).Run()
	}
	s.Start()
	tb.Cleanup(s.Stop)
	return s
}

// unprivileged returns the beginning of a command that runs as another user if this
// one is root, and gives that user a folder.
func unprivileged(tb testing.TB, folder string) []string {
	tb.Helper()
	if os.Getuid() != 0 {
		return nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		tb.Skip("there is no user postgres, and PostgreSQL refuses to run as root")
	}
	id, _ := strconv.Atoi(u.Uid)
	group, _ := strconv.Atoi(u.Gid)
	if err := os.Chown(folder, id, group); err != nil {
		tb.Fatal(err)
	}
	return []string{"setpriv", "--reuid=" + u.Uid, "--regid=" + u.Gid, "--clear-groups"}
}

func runCommand(tb testing.TB, folder string, command []string) {
	tb.Helper()
	c := exec.Command(command[0], command[1:]...)
	c.Dir = folder
	if out, err := c.CombinedOutput(); err != nil {
		tb.Fatalf("%s: %v\n%s", strings.Join(command, " "), err, out)
	}
}

// Start starts the server again after Stop or Kill, with its data.
func (s *Server) Start() {
	s.tb.Helper()
	log, err := os.OpenFile(filepath.Join(s.folder, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		s.tb.Fatal(err)
	}
	defer log.Close()
	s.process = exec.Command(s.command[0], s.command[1:]...)
	s.process.Dir, s.process.Stdout, s.process.Stderr = s.folder, log, log
	if err := s.process.Start(); err != nil {
		s.tb.Fatal(err)
	}
	exited := make(chan struct{})
	s.exited = exited
	go func() {
		_ = s.process.Wait()
		close(exited)
	}()
	for s.run("select 1") != nil {
		select {
		case <-exited:
			text, _ := os.ReadFile(filepath.Join(s.folder, "log"))
			s.tb.Fatalf("the database server has ended:\n%s", text)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// Stop stops the server. It does nothing if the server does not run.
func (s *Server) Stop() { s.end(syscall.SIGINT, syscall.SIGTERM) }

// Kill ends the server at once, as a crash does.
func (s *Server) Kill() { s.end(syscall.SIGQUIT, syscall.SIGKILL) }

// end sends a signal, the first one to PostgreSQL and the second one to MariaDB.
func (s *Server) end(postgres, mariadb syscall.Signal) {
	signal := mariadb
	if strings.Contains(strings.Join(s.command, " "), "/postgres") {
		signal = postgres
	}
	_ = s.process.Process.Signal(signal)
	<-s.exited
}

// Database makes a new, empty database and returns its URL.
func (s *Server) Database() string {
	s.tb.Helper()
	name := fmt.Sprint("test", s.count.Add(1))
	if err := s.run("create database " + name); err != nil {
		s.tb.Fatalf("create database %s: %v", name, err)
	}
	return s.url(name)
}

// Exec runs a statement as the administrator, outside of the databases of tests.
func (s *Server) Exec(statement string) {
	s.tb.Helper()
	if err := s.run(statement); err != nil {
		s.tb.Fatalf("%s: %v", statement, err)
	}
}
