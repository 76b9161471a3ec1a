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

	"github.com/ostiary/ostiary/internal/workshop/bench/servers"
)

// Galera starts a Galera cluster of n MariaDB servers. A server that has lost its data
// gets it from another one with rsync.
func Galera(tb testing.TB, n int) []*Server {
	tb.Helper()
	provider, err := servers.Galera()
	if err != nil {
		tb.Skip(err)
	}
	binary, err := servers.Find("mariadbd")
	if err != nil {
		tb.Skip(err)
	}
	all := make([]*Server, n)
	addresses := make([]string, n)
	for i := range n {
		folder, as := unprivileged(tb, "mysql", "rsync hands Galera's files to another user if it runs as root")
		s := mariaDB(tb, binary, folder, as)
		base, ist, sst := freePort(tb), freePort(tb), freePort(tb)
		addresses[i] = fmt.Sprint("127.0.0.1:", base)
		s.command = append(s.command, "--wsrep-on=ON", "--binlog-format=ROW", "--innodb-autoinc-lock-mode=2",
			"--wsrep-provider="+provider, "--wsrep-node-name=node"+strconv.Itoa(i), "--wsrep-node-address="+addresses[i],
			fmt.Sprintf("--wsrep-provider-options=gmcast.listen_addr=tcp://127.0.0.1:%d;ist.recv_addr=127.0.0.1:%d;gcache.size=16M", base, ist),
			"--wsrep-sst-method=rsync", fmt.Sprintf("--wsrep-sst-receive-address=127.0.0.1:%d", sst))
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
	}
	return all
}

// AwaitSynced waits until a server of a Galera cluster serves all that the others have.
func (s *Server) AwaitSynced() {
	s.tb.Helper()
	s.await("serves what the other nodes have", func() bool {
		return s.Status("wsrep_ready") == "ON" && s.Status("wsrep_local_state_comment") == "Synced"
	})
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
