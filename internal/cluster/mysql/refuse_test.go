package mysql_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ostiary/ostiary/internal/cluster/mysql"
	"github.com/ostiary/ostiary/internal/cluster/sharedlog"
	"github.com/ostiary/ostiary/internal/cluster/sharedlog/sharedlogtest"
	"github.com/ostiary/ostiary/internal/workshop/databases"
	"github.com/ostiary/ostiary/internal/workshop/wait"
	"github.com/ostiary/ostiary/storage"
)

// raw opens the database of a URL with the driver alone.
func raw(t *testing.T, address string) *sql.DB {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("mysql", "root@tcp("+u.Host+")"+u.Path+"?multiStatements=true")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

func execute(t *testing.T, address, statement string) {
	t.Helper()
	if _, err := raw(t, address).Exec(statement); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

// TestRefused opens logs on databases that are not fit. Each error names the reason, and
// none has a password.
func TestRefused(t *testing.T) {
	t.Parallel()
	server := databases.MariaDB(t)
	fails := func(address string, texts ...string) {
		t.Helper()
		sharedlogtest.SQL(mysql.Open).Refuses(t, address, texts...)
	}
	server.Exec("create user locked@'%' identified by 'right'; create user limited@'%'")
	url := server.Database()
	name := url[strings.LastIndexByte(url, '/')+1:]
	as := func(user string) string { return strings.Replace(url, "root@", user+"@", 1) }
	fails(as("locked:hunter2"), "Access denied")
	fails("mysql://u:hunter2@127.0.0.1:1/x", "connection refused")
	fails("mysql://u:hunter2@127.0.0.1", "expected mysql://USER")
	fails("mysql://u:hunter2@127.0.0.1/x?charset=utf8", `unknown parameter "charset"`)
	fails("mysql://u:hunter2@127.0.0.1:1,127.0.0.1:2/x", "connection refused")

	server.Exec("grant select on " + name + ".* to limited@'%'")
	fails(as("limited"), "version of the tables", "CREATE command denied")
	sharedlogtest.SQL(mysql.Open).Rights(t, url, as("limited"),
		func() { server.Exec("grant insert, update on " + name + ".ostiary_log to limited@'%'") },
		func() { server.Exec("grant insert, update, delete on " + name + ".* to limited@'%'") })
	sharedlogtest.SQL(mysql.Open).Newer(t, url, func(statement string) { execute(t, url, statement) })

	// DDL is no transaction here: a migration that was cut off is completed.
	half := server.Database()
	open(t, half).Close()
	execute(t, half, "drop table ostiary_node, ostiary_snapshot, ostiary_cluster; delete from ostiary_migrations where version_id > 0")
	l := open(t, half)
	if _, _, err := l.Nodes(t.Context()); err != nil {
		t.Error(err)
	}

	first := server.Database()
	open(t, first).Close()
	execute(t, first, "delete from ostiary_migrations") // before the first version was written
	open(t, first).Close()

	second := server.Database()
	open(t, second).Close()
	for _, statement := range []string{
		"alter table ostiary_node drop column stopped, drop column preferred, drop column zone, drop column head", // between the two statements
		"select 1", // before the version was written
	} {
		execute(t, second, statement+"; delete from ostiary_migrations where version_id > 1")
		l := open(t, second)
		if err := l.Register(t.Context(), sharedlog.NodeRecord{ID: storage.NodeID{1}, Start: 1, Zone: "z"}); err != nil && !errors.Is(err, sharedlog.ErrNodeTaken) {
			t.Errorf("after %q: %v", statement, err)
		}
		if all, _, err := l.Nodes(t.Context()); err != nil || len(all) != 1 || all[0].Zone != "z" {
			t.Errorf("after %q the nodes are %v, error %v", statement, all, err)
		}
	}

	server.Exec("set global read_only = 1")
	fails(url, "read_only is on", "expected the primary")
	server.Exec("set global read_only = 0; set global innodb_flush_log_at_trx_commit = 2")
	fails(url, "innodb_flush_log_at_trx_commit is 2")
	server.Exec("set global innodb_flush_log_at_trx_commit = 1; set global max_allowed_packet = 1048576")
	fails(url, "max_allowed_packet is 1048576")

	binary := databases.MariaDB(t, "log-bin=binlog", "server-id=1", "sync-binlog=1")
	url = binary.Database()
	l = open(t, url)
	binary.Exec("set global sync_binlog = 0")
	fails(url, "sync_binlog is 0 although the server has a binary log, expected 1")
	binary.Kill() // its settings are those of its start again
	binary.Start()
	wait.Until(t, "the log is read again", func() bool {
		_, err := l.Head(t.Context())
		return err == nil
	})
	binary.Kill()
	binary.Start()
	binary.Exec("set global innodb_flush_log_at_trx_commit = 0") // there is no connection now
	wait.Until(t, "a server that was started again with other settings is refused", func() bool {
		_, err := l.Head(t.Context())
		if err == nil {
			t.Fatal("the log is read")
		}
		return strings.Contains(err.Error(), "innodb_flush_log_at_trx_commit is 0")
	})
}

// TestTogether lets several nodes make the tables at once.
func TestTogether(t *testing.T) {
	t.Parallel()
	server := databases.MariaDB(t)
	sharedlogtest.SQL(mysql.Open).Together(t, server.Database)
}

// TestSettings runs the suite on a server whose settings break what a log rests on,
// unless each session has its own.
func TestSettings(t *testing.T) {
	t.Parallel()
	server := databases.MariaDB(t, "autocommit=0", "sql-mode=ANSI,NO_BACKSLASH_ESCAPES", "transaction-isolation=SERIALIZABLE", "character-set-server=latin1")
	server.Exec("set global sql_safe_updates = 1")
	sharedlogtest.Run(t, func(t *testing.T) sharedlogtest.Opener {
		url := server.Database()
		return func() (sharedlog.Log, error) { return mysql.Open(context.Background(), url) }
	})
}

// TestCertificate connects to a server whose certificate is for another host, and to one
// whose certificate is right.
func TestCertificate(t *testing.T) {
	t.Parallel()
	files := sharedlogtest.Certificates(t, "other.example", "127.0.0.1")
	file := func(name string) string { return filepath.Join(files, name) }
	for name, fits := range map[string]bool{"other.example": false, "127.0.0.1": true} {
		server := databases.MariaDB(t, "ssl-cert="+file(name+".crt"), "ssl-key="+file(name+".key"), "ssl-ca="+file("ca.crt"))
		url := server.Database()
		_, err := mysql.Open(t.Context(), url+"?ca="+file("ca.crt"))
		if fits != (err == nil) || !fits && !strings.Contains(err.Error(), "other.example") && !strings.Contains(err.Error(), "doesn't contain any IP SANs") {
			t.Errorf("certificate for %s: error %v", name, err)
		}
		if _, err := mysql.Open(t.Context(), url+"?tls=true"); fits && (err == nil || !strings.Contains(err.Error(), "unknown authority")) {
			t.Errorf("an authority that the system does not know: error %v", err)
		}
	}
	if err := os.WriteFile(file("empty"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := mysql.Open(t.Context(), "mysql://u@127.0.0.1/x?ca="+file("empty")); err == nil || !strings.Contains(err.Error(), "expected PEM") {
		t.Errorf("a file without certificates: error %v", err)
	}
}

// TestFull fills the files of a server. Appends fail with an error that names it, and
// what was appended before is read.
func TestFull(t *testing.T) {
	t.Parallel()
	server := databases.MariaDB(t, "innodb-file-per-table=0", "innodb-data-file-path=ibdata1:12M:autoextend:max:20M")
	l := open(t, server.Database())
	var after sharedlog.Position
	body := bytes.Repeat([]byte{1}, 500<<10)
	for {
		r := sharedlog.Record{Position: sharedlog.Position{Sequence: after.Sequence + 1, Hash: storage.Hash{byte(after.Sequence + 1)}}, Bytes: body}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		err := l.Append(ctx, after, r, nil)
		cancel()
		if err != nil {
			if !strings.Contains(err.Error(), "is full") {
				t.Errorf("error %v, expected one about a full table", err)
			}
			break
		}
		if after = r.Position; after.Sequence > 100 {
			t.Fatal("20 MiB take more than 50 MiB")
		}
	}
	if head, err := l.Head(t.Context()); err != nil || head != after || after.Sequence < 2 {
		t.Errorf("the head is %s, error %v, expected %s", head, err, after)
	}
}

// TestUsedUp opens a log on a server whose connections others use, and reads one that
// was opened before.
func TestUsedUp(t *testing.T) {
	t.Parallel()
	server := databases.MariaDB(t, "max-connections=10")
	url := server.Database()
	sharedlogtest.SQL(mysql.Open).UsedUp(t, url, raw(t, url), "Too many connections")
}

// TestPaused stops the server, as a machine does that hangs.
func TestPaused(t *testing.T) {
	t.Parallel()
	server := databases.MariaDB(t)
	sharedlogtest.Paused(t, open(t, server.Database()), server.Pause, server.Resume)
}

// TestStarved lets calls wait for all connections.
func TestStarved(t *testing.T) {
	t.Parallel()
	url := databases.MariaDB(t).Database()
	sharedlogtest.Starved(t, open(t, url), raw(t, url), "lock tables ostiary_secret write")
}

// TestFar renews a lease far from the server.
func TestFar(t *testing.T) {
	t.Parallel()
	sharedlogtest.SQL(mysql.Open).Far(t, databases.MariaDB(t).Database())
}

// TestLargePacket appends a segment whose secrets are more than the server takes at once. The
// append has no effect, and the next ones are made.
func TestLargePacket(t *testing.T) {
	t.Parallel()
	l := open(t, databases.MariaDB(t, "max-allowed-packet=4M").Database())
	commit := func(size int) error {
		t.Helper()
		record := following(t, sharedlog.Position{}, 1)
		secrets := make([]sharedlog.SecretChange, 5)
		for i := range secrets {
			body := bytes.Repeat([]byte{byte(i)}, size)
			secrets[i] = sharedlog.SecretChange{SecretKey: sharedlog.SecretKey{Store: storage.StoreID{byte(i)}, Kind: "k", Key: "k"}, Digest: sha256.Sum256(body), Body: body}
		}
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		return sharedlog.Commit(ctx, l, sharedlog.Position{}, record, secrets)
	}
	if err := commit(1 << 20); !errors.Is(err, storage.ErrTooLarge) || errors.Is(err, storage.ErrUncertain) {
		t.Errorf("secrets of 5 MiB: error %v, expected storage.ErrTooLarge", err)
	}
	if err := commit(600 << 10); err != nil { // the zeros are escaped
		t.Errorf("secrets of 2.9 MiB: %v", err)
	}
}
