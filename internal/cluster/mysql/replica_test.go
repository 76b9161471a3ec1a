package mysql_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/ostiary/ostiary/internal/cluster/mysql"
	"github.com/ostiary/ostiary/internal/cluster/sharedlog/sharedlogtest"
	"github.com/ostiary/ostiary/internal/workshop/databases"
)

// TestReplica reads the log from a server that follows the binary log of another one.
func TestReplica(t *testing.T) {
	t.Parallel()
	server := databases.MariaDB(t, "log-bin=binlog", "server-id=1", "sync-binlog=1")
	replica := server.MariaDBReplica(t)
	address := server.Database()
	at, err := url.Parse(replica.URL("x"))
	if err != nil {
		t.Fatal(err)
	}
	sharedlogtest.SQL(mysql.Open).Replica(t, sharedlogtest.Replicated{URL: address + "?replica=" + at.Host,
		Primary: raw(t, address), Placeholders: [2]string{"?", "?"},
		Hold:    func() { replica.Exec("stop slave sql_thread") },
		Release: func() { replica.Exec("start slave") },
		Kill:    replica.Kill, Start: replica.Start})
}

// TestDemoted leads connections to a replica, and then makes a server read-only under its
// connections.
func TestDemoted(t *testing.T) {
	t.Parallel()
	server := databases.MariaDB(t, "log-bin=binlog", "server-id=1", "sync-binlog=1")
	replica := server.MariaDBReplica(t)
	address := server.Database()
	there := replica.URL(address[strings.LastIndexByte(address, '/')+1:])
	at, err := url.Parse(there)
	if err != nil {
		t.Fatal(err)
	}
	sharedlogtest.SQL(mysql.Open).Demoted(t, sharedlogtest.Demoted{URL: address, At: at.Host, Replica: raw(t, there),
		Hold: func() { replica.Exec("stop slave sql_thread") }})

	l := open(t, address)
	if _, err := l.Head(t.Context()); err != nil {
		t.Fatal(err)
	}
	server.Exec("set global read_only = 1")
	if head, err := l.Head(t.Context()); err == nil || !strings.Contains(err.Error(), "expected the primary") {
		t.Errorf("a server that was made read-only answers the head %s, error %v", head, err)
	}
	server.Exec("set global read_only = 0")
	if _, err := l.Head(t.Context()); err != nil {
		t.Error(err)
	}
}
