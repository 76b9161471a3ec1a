//go:build unix

// Package databases starts database servers for tests: PostgreSQL and MariaDB, each in
// a folder of the test, on a port of loopback or at a [Place]. Its functions skip the test,
// and name what is missing, if the server is not installed.
package databases

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/ostiary/ostiary/internal/workshop/bench/servers"
)

// Place is where servers run. The zero value is this machine.
type Place struct {
	// Address is the host at which clients, and the other servers of a Galera cluster, reach
	// a server, which listens on all addresses then. The default is 127.0.0.1.
	Address string
	// Start starts a program there. The default is its method Start.
	Start func(*exec.Cmd) error
}

// listens returns the address on which a server listens, and the one at which it is reached.
func (p Place) listens() (on, at string) {
	if p.Address == "" {
		return "127.0.0.1", "127.0.0.1"
	}
	return "0.0.0.0", p.Address
}

// plain returns a query of URLs of the place without TLS, which is required of other machines.
func (p Place) plain(query string) string {
	if p.Address == "" {
		return ""
	}
	return query
}

// Server is a running database server. Its data is empty at the start.
type Server struct {
	tb      testing.TB
	place   Place
	folder  string
	port    int
	command []string
	process *exec.Cmd
	exited  chan struct{}
	url     func(database string) string
	run     func(statement string) error // runs a statement as the administrator
	count   atomic.Int64
}

func (s *Server) data() string   { return filepath.Join(s.folder, "data") }
func (s *Server) socket() string { return filepath.Join(s.folder, "socket") } // of MariaDB

// freePort returns a port of loopback that nothing uses, another one each time.
func freePort(tb testing.TB) int {
	tb.Helper()
	at, err := servers.FreePort("127.0.0.1")
	if err != nil {
		tb.Fatal(err)
	}
	_, text, _ := net.SplitHostPort(at)
	port, err := strconv.Atoi(text)
	if err != nil {
		tb.Fatal(err)
	}
	return port
}

// PostgreSQL starts a PostgreSQL server. It ends with the test. It does not sync its
// files: what a killed server has written survives, but not a power cut. settings are
// NAME=VALUE. All users may connect without a password, except "locked".
func PostgreSQL(tb testing.TB, settings ...string) *Server {
	tb.Helper()
	return Place{}.PostgreSQL(tb, settings...)
}

// PostgreSQL is [PostgreSQL] with a server at a place.
func (p Place) PostgreSQL(tb testing.TB, settings ...string) *Server {
	tb.Helper()
	bin, err := servers.PostgreSQL()
	if err != nil {
		tb.Skip(err)
	}
	folder, as := unprivileged(tb, "postgres", "PostgreSQL refuses to run as root")
	s := p.postgreSQL(tb, bin, folder, as)
	runCommand(tb, folder, append(as[:len(as):len(as)], bin+"/initdb", "-D", s.data(), "-U", "postgres", "--auth=trust", "-E", "UTF8", "--locale=C.UTF-8", "--no-sync"))
	rules := "host all locked all scram-sha-256\nhost all all all trust\nlocal all all trust\nhost replication all all trust\n"
	if err := os.WriteFile(filepath.Join(s.data(), "pg_hba.conf"), []byte(rules), 0o600); err != nil { // its owner stays
		tb.Fatal(err)
	}
	for _, setting := range settings {
		s.command = append(s.command, "-c", setting)
	}
	s.Start()
	tb.Cleanup(s.Stop)
	return s
}

// postgreSQL prepares a PostgreSQL server in a folder, which has no data yet. bin is the
// folder of its programs, and as begins the command that runs it.
func (p Place) postgreSQL(tb testing.TB, bin, folder string, as []string) *Server {
	tb.Helper()
	on, at := p.listens()
	s := &Server{tb: tb, place: p, folder: folder, port: freePort(tb)}
	s.command = append(as[:len(as):len(as)], bin+"/postgres", "-D", s.data(), "-h", on, "-p", strconv.Itoa(s.port), "-k", folder, "-c", "fsync=off")
	s.url = func(database string) string {
		return fmt.Sprintf("postgres://postgres@%s:%d/%s", at, s.port, database) + p.plain("?sslmode=disable")
	}
	s.run = func(statement string) error {
		return exec.Command(bin+"/psql", "-h", folder, "-p", strconv.Itoa(s.port), "-U", "postgres", "-d", "postgres", "-qc", statement).Run()
	}
	return s
}

// MariaDB starts a MariaDB server. It ends with the test. settings are NAME=VALUE.
func MariaDB(tb testing.TB, settings ...string) *Server {
	tb.Helper()
	return Place{}.MariaDB(tb, settings...)
}

// MariaDB is [MariaDB] with a server at a place.
func (p Place) MariaDB(tb testing.TB, settings ...string) *Server {
	tb.Helper()
	binary, err := servers.Find("mariadbd")
	if err != nil {
		tb.Skip(err)
	}
	s := p.mariaDB(tb, binary, tb.TempDir(), nil)
	for _, setting := range settings {
		s.command = append(s.command, "--"+setting)
	}
	s.Start()
	tb.Cleanup(s.Stop)
	s.admit()
	return s
}

// admit lets clients of other hosts connect to a MariaDB server that has an address.
func (s *Server) admit() {
	s.tb.Helper()
	if s.place.Address != "" {
		s.Exec("create user if not exists root@'%'; grant all on *.* to root@'%'")
	}
}

// mariaDB prepares a MariaDB server in a folder. as begins the command that runs it.
func (p Place) mariaDB(tb testing.TB, binary, folder string, as []string) *Server {
	tb.Helper()
	on, at := p.listens()
	s := &Server{tb: tb, place: p, folder: folder, port: freePort(tb)}
	name := "root"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	if as != nil {
		name = "mysql"
	}
	// A server that starts removes the temporary tables of others from its folder for
	// temporary files, so each has its own.
	runCommand(tb, s.folder, append(as[:len(as):len(as)], "mariadb-install-db", "--no-defaults", "--user="+name, "--datadir="+s.data(), "--auth-root-authentication-method=normal", "--skip-test-db", "--tmpdir="+s.folder))
	s.command = append(as[:len(as):len(as)], binary, "--no-defaults", "--user="+name, "--datadir="+s.data(), "--bind-address="+on, "--port="+strconv.Itoa(s.port), "--socket="+s.socket(), "--innodb-buffer-pool-size=64M", "--tmpdir="+s.folder)
	s.url = func(database string) string {
		return fmt.Sprintf("mysql://root@%s:%d/%s", at, s.port, database) + p.plain("?tls=false")
	}
	s.run = func(statement string) error {
		return exec.Command("mariadb", "--no-defaults", "-uroot", "-S", s.socket(), "-e", statement).Run()
	}
	return s
}

// MariaDBReplica starts a read-only replica of a MariaDB server, which has the settings
// log-bin and server-id, and no databases yet.
func (s *Server) MariaDBReplica(tb testing.TB) *Server {
	tb.Helper()
	r := MariaDB(tb, "server-id=2", "read-only=1")
	r.Exec(fmt.Sprintf("change master to master_host='127.0.0.1', master_port=%d, master_user='root', master_use_gtid=slave_pos; start slave", s.port))
	return r
}

// unprivileged makes a folder. If this user is root, it also returns the beginning of a
// command that runs as another user, who has the folder then; why is why that is needed.
func unprivileged(tb testing.TB, name, why string) (folder string, as []string) {
	tb.Helper()
	folder, err := os.MkdirTemp("", "ostiary-"+name+"-") // other users cannot enter tb.TempDir
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = os.RemoveAll(folder) })
	as, err = servers.As(name, folder)
	if _, ok := errors.AsType[user.UnknownUserError](err); ok {
		tb.Skipf("there is no user %s, and %s", name, why)
	}
	if err != nil {
		tb.Fatal(err)
	}
	return folder, as
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
	s.Begin()
	s.await("answers", func() bool { return s.run("select 1") == nil })
}

// Begin is Start that does not wait until the server answers.
func (s *Server) Begin() {
	s.tb.Helper()
	log, err := os.OpenFile(filepath.Join(s.folder, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		s.tb.Fatal(err)
	}
	defer log.Close()
	s.process = exec.Command(s.command[0], s.command[1:]...)
	s.process.Dir, s.process.Stdout, s.process.Stderr = s.folder, log, log
	start := s.process.Start
	if s.place.Start != nil {
		start = func() error { return s.place.Start(s.process) }
	}
	if err := start(); err != nil {
		s.tb.Fatal(err)
	}
	exited := make(chan struct{})
	s.exited = exited
	go func() {
		_ = s.process.Wait()
		close(exited)
	}()
}

// await waits until a condition holds, and ends the test if the server ends.
func (s *Server) await(what string, holds func() bool) {
	s.tb.Helper()
	for !holds() {
		select {
		case <-s.exited:
			text, _ := os.ReadFile(filepath.Join(s.folder, "log"))
			s.tb.Fatalf("the database server has ended before it %s:\n%s", what, text[max(0, len(text)-8000):])
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

// URL returns the URL of a database.
func (s *Server) URL(database string) string { return s.url(database) }

// Exec runs a statement as the administrator, outside of the databases of tests.
func (s *Server) Exec(statement string) {
	s.tb.Helper()
	if err := s.run(statement); err != nil {
		s.tb.Fatalf("%s: %v", statement, err)
	}
}

// Folder returns a folder in which files for the server can be written. They belong to
// the user of the server after Own.
func (s *Server) Folder() string { return s.folder }

// Own gives a file to the user of the server.
func (s *Server) Own(name string) {
	s.tb.Helper()
	info, err := os.Stat(s.folder)
	if err == nil {
		owner := info.Sys().(*syscall.Stat_t)
		err = os.Chown(name, int(owner.Uid), int(owner.Gid))
	}
	if err != nil {
		s.tb.Fatal(err)
	}
}

// Pause stops the server and its processes, as a machine does that hangs, until Resume.
// It returns when none of them runs any more.
func (s *Server) Pause() {
	s.tb.Helper()
	all := s.signalAll(syscall.SIGSTOP)
	s.await("is stopped", func() bool { return !slices.ContainsFunc(all, runs) })
}

// Resume continues the server after Pause.
func (s *Server) Resume() { s.signalAll(syscall.SIGCONT) }

// signalAll sends a signal to the process and to those that it has started, and returns
// their ids.
func (s *Server) signalAll(signal syscall.Signal) []int {
	all := []int{s.process.Process.Pid}
	children, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", all[0]))
	for _, name := range children {
		text, _ := os.ReadFile(name)
		for _, field := range strings.Fields(string(text)) {
			if pid, err := strconv.Atoi(field); err == nil {
				all = append(all, pid)
			}
		}
	}
	for _, pid := range all {
		_ = syscall.Kill(pid, signal)
	}
	return all
}

// runs reports whether a thread of a process is neither stopped nor at its end: a signal
// reaches each of them on its own.
func runs(pid int) bool {
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	return slices.ContainsFunc(threads, func(name string) bool {
		text, err := os.ReadFile(name)
		_, state, _ := strings.Cut(string(text), ") ")
		return err == nil && state != "" && !strings.Contains("TZX", state[:1])
	})
}
