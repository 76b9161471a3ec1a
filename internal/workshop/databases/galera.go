//go:build unix

package databases

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ostiary/ostiary/internal/workshop/bench/servers"
)

// Galera starts a Galera cluster of n MariaDB servers. A server that has lost its data
// gets it from another one with rsync.
func Galera(tb testing.TB, n int) []*Server {
	tb.Helper()
	return GaleraAt(tb, make([]Place, n)...)
}

// GaleraAt is [Galera] with a server at each place.
func GaleraAt(tb testing.TB, places ...Place) []*Server {
	tb.Helper()
	provider, err := servers.Galera()
	if err != nil {
		tb.Skip(err)
	}
	binary, err := servers.Find("mariadbd")
	if err != nil {
		tb.Skip(err)
	}
	all := make([]*Server, len(places))
	addresses := make([]string, len(places))
	for i, p := range places {
		on, at := p.listens()
		folder, as := unprivileged(tb, "mysql", "rsync hands Galera's files to another user if it runs as root")
		s := p.mariaDB(tb, binary, folder, as)
		base, ist, sst := freePort(tb), freePort(tb), freePort(tb)
		addresses[i] = fmt.Sprint(at, ":", base)
		s.command = append(s.command, "--wsrep-on=ON", "--binlog-format=ROW", "--innodb-autoinc-lock-mode=2",
			"--wsrep-provider="+provider, "--wsrep-node-name=node"+strconv.Itoa(i), "--wsrep-node-address="+addresses[i],
			fmt.Sprintf("--wsrep-provider-options=gmcast.listen_addr=tcp://%s:%d;ist.recv_addr=%s:%d;gcache.size=16M", on, base, at, ist),
			"--wsrep-sst-method=rsync", fmt.Sprintf("--wsrep-sst-receive-address=%s:%d", at, sst))
		all[i] = s
	}
	for i, s := range all {
		plain := s.command
		if i == 0 {
			s.command = append(plain[:len(plain):len(plain)], "--wsrep-new-cluster", "--wsrep-cluster-address=gcomm://")
		}
		rejoin := append(plain[:len(plain):len(plain)], "--wsrep-cluster-address=gcomm://"+strings.Join(addresses, ","))
		if i > 0 {
			s.command = rejoin
		}
		s.Start()
		s.command = rejoin
		tb.Cleanup(s.Kill)
		s.AwaitSynced()
		if i == 0 {
			s.admit()
		}
	}
	return all
}

// AwaitSynced waits until a server of a Galera cluster serves all that the others have.
func (s *Server) AwaitSynced() {
	s.tb.Helper()
	s.await("serves what the other nodes have", s.isSynced)
}

func (s *Server) isSynced() bool {
	return s.Status("wsrep_ready") == "ON" && s.Status("wsrep_local_state_comment") == "Synced"
}

// rejoinsMax is how often Rejoin starts a server.
const rejoinsMax = 50

// Rejoin starts a server of a Galera cluster again after Kill, and again if it ends because it
// did not reach the others, until it serves all that they have.
func (s *Server) Rejoin() {
	s.tb.Helper()
	for range rejoinsMax {
		s.Begin()
		for running := true; running; {
			if s.isSynced() {
				return
			}
			select {
			case <-s.exited:
				running = false
			case <-time.After(100 * time.Millisecond):
			}
		}
	}
	s.tb.Fatalf("the server has ended %d times before it joined the others", rejoinsMax)
}

// Status returns a status variable of a MariaDB server, or "".
func (s *Server) Status(name string) string {
	out, _ := exec.Command("mariadb", "--no-defaults", "-uroot", "-S", s.socket(), "-NBe", "show status like '"+name+"'").Output()
	_, value, _ := strings.Cut(strings.TrimSpace(string(out)), "\t")
	return value
}

// LoseData removes the data of a server that does not run.
func (s *Server) LoseData() {
	s.tb.Helper()
	for _, name := range []string{"grastate.dat", "gvwstate.dat", "galera.cache"} {
		if err := os.RemoveAll(filepath.Join(s.data(), name)); err != nil {
			s.tb.Fatal(err)
		}
	}
}
