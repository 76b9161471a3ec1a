package postgres_test

import (
	"database/sql"
	"net/url"
	"strings"
	"testing"

	"github.com/ostiary/ostiary/internal/cluster/postgres"
	"github.com/ostiary/ostiary/internal/cluster/sharedlog/sharedlogtest"
	"github.com/ostiary/ostiary/internal/workshop/databases"
)

// TestReplica reads the log from a server with streaming replication.
func TestReplica(t *testing.T) {
	t.Parallel()
	server := databases.PostgreSQL(t)
	address := server.Database()
	replica := server.Replica(t)
	at, err := url.Parse(replica.URL("x"))
	if err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("pgx", address)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	sharedlogtest.SQL(postgres.Open).Replica(t, sharedlogtest.Replicated{URL: address + "?target_session_attrs=read-write&replica=" + at.Host,
		Primary: db, Placeholders: [2]string{"$1", "$2"},
		Hold:    func() { replica.Exec("select pg_wal_replay_pause()"); replica.AwaitPaused() },
		Release: func() { replica.Exec("select pg_wal_replay_resume()") },
		Kill:    replica.Kill, Start: replica.Start})
	for _, wrong := range []string{"host", ":1", "host:", "host:1,other:2", "u@host:1"} {
		sharedlogtest.SQL(postgres.Open).Refuses(t, strings.Replace(address, "postgres@", "postgres:hunter2@", 1)+"?replica="+url.QueryEscape(wrong), "expected HOST:PORT")
	}
}

// TestDemoted leads connections to a replica.
func TestDemoted(t *testing.T) {
	t.Parallel()
	server := databases.PostgreSQL(t)
	address := server.Database()
	replica := server.Replica(t)
	there := replica.URL(address[strings.LastIndexByte(address, '/')+1:])
	at, err := url.Parse(there)
	if err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("pgx", there)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	sharedlogtest.SQL(postgres.Open).Demoted(t, sharedlogtest.Demoted{URL: address, At: at.Host, Replica: db,
		Hold: func() { replica.Exec("select pg_wal_replay_pause()"); replica.AwaitPaused() }})
}
