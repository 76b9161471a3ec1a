package mysql_test

import (
	"net/url"
	"testing"

	"github.com/ostiary/ostiary/storage/mysql"
	"github.com/ostiary/ostiary/storage/sqllog/sqllogtest"
	"github.com/ostiary/ostiary/workshop/databases"
)

// TestReplica reads the log from a server that follows the binary log of another one.
func TestReplica(t *testing.T) {
	t.Parallel()
	server := databases.MariaDB(t, "log-bin=binlog", "server-id=1")
	replica := server.MariaDBReplica(t)
	address := server.Database()
	at, err := url.Parse(replica.URL("x"))
	if err != nil {
		t.Fatal(err)
	}
	sqllogtest.Open(mysql.Open).Replica(t, sqllogtest.Replicated{URL: address + "?replica=" + at.Host,
		Primary: raw(t, address), Placeholders: [2]string{"?", "?"},
		Hold:    func() { replica.Exec("stop slave sql_thread") },
		Release: func() { replica.Exec("start slave") },
		Kill:    replica.Kill, Start: replica.Start})
}
