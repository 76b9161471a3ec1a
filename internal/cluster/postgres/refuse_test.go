package postgres_test

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ostiary/ostiary/internal/cluster/postgres"
	"github.com/ostiary/ostiary/internal/cluster/sharedlog"
	"github.com/ostiary/ostiary/internal/cluster/sharedlog/sharedlogtest"
	"github.com/ostiary/ostiary/internal/workshop/databases"
	"github.com/ostiary/ostiary/internal/workshop/wait"
)

// with returns a URL with another user and password.
func with(address, user, password string) string {
	u, err := url.Parse(address)
	if err != nil {
		panic(err) // the test made it
	}
	u.User = url.UserPassword(user, password)
	return u.String()
}

// TestRefused opens logs on databases that are not fit. Each error names the reason, and
// none has a password.
func TestRefused(t *testing.T) {
	t.Parallel()
	server := databases.PostgreSQL(t)
	fails := func(address string, texts ...string) {
		t.Helper()
		sharedlogtest.SQL(postgres.Open).Refuses(t, address, texts...)
	}
	exec := func(address, statement string) {
		t.Helper()
		db, err := sql.Open("pgx", address)
		if err == nil {
			_, err = db.Exec(statement)
			db.Close()
		}
		if err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
	server.Exec("create role locked login password 'right'")
	server.Exec("create role limited login")
	fails(with(server.Database(), "locked", "hunter2"), "password authentication failed")
	fails("postgres://u:hunter2@127.0.0.1:1/x", "connection refused")
	fails("postgres://u:hunter2@127.0.0.1:5432", "expected postgres://USER")
	fails("postgres://u:hunter2@127.0.0.1:port/x", "expected postgres://USER")

	url := server.Database()
	fails(with(url, "limited", ""), "version of the tables", "permission denied for schema public")
	sharedlogtest.SQL(postgres.Open).Rights(t, url, with(url, "limited", ""),
		func() {
			exec(url, "grant select on all tables in schema public to limited; grant insert, update on ostiary_log to limited")
		},
		func() { exec(url, "grant insert, update, delete on all tables in schema public to limited") })
	sharedlogtest.SQL(postgres.Open).Newer(t, url, func(statement string) { exec(url, statement) })
	half := server.Database()
	exec(half, "create table ostiary_log (one int)")
	fails(half, "migrate the tables", "ostiary_log")
	exec(half, "drop table ostiary_log")
	open(t, half).Close()

	weak := server.Database()
	exec(weak, "alter role limited set synchronous_commit = off")
	fails(weak+"?synchronous_commit=off", "synchronous_commit is off")
	fails(weak+"?default_transaction_read_only=on", "transaction_read_only is on")
	// The settings of the database are those of the operator; the session has its own.
	exec(weak, "alter database "+weak[strings.LastIndexByte(weak, '/')+1:]+" set default_transaction_isolation = 'serializable'; alter role postgres in database "+weak[strings.LastIndexByte(weak, '/')+1:]+" set synchronous_commit = off")
	open(t, weak).Close()

	replica := server.Replica(t)
	name := url[strings.LastIndexByte(url, '/')+1:]
	fails(replica.URL(name), "read-only replica", "expected the primary")
}

// open opens a log.
func open(t *testing.T, url string) sharedlog.Log {
	t.Helper()
	l, err := postgres.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// TestCertificate connects to a server whose certificate is for another host, and to one
// whose certificate is right.
func TestCertificate(t *testing.T) {
	t.Parallel()
	files := sharedlogtest.Certificates(t, "other.example", "127.0.0.1")
	for name, fits := range map[string]bool{"other.example": false, "127.0.0.1": true} {
		server := databases.PostgreSQL(t)
		for _, kind := range []string{"crt", "key"} {
			text, err := os.ReadFile(filepath.Join(files, name+"."+kind))
			to := filepath.Join(server.Folder(), "server."+kind)
			if err == nil {
				err = os.WriteFile(to, text, 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
			server.Own(to)
			server.Exec(fmt.Sprintf("alter system set ssl_%s_file = '%s'", map[string]string{"crt": "cert", "key": "key"}[kind], to))
		}
		server.Exec("alter system set ssl = on")
		server.Exec("select pg_reload_conf()")
		address := server.Database() + "?sslmode=verify-full&sslrootcert=" + filepath.Join(files, "ca.crt")
		var err error
		wait.Until(t, "TLS is on", func() bool {
			var l sharedlog.Log
			if l, err = postgres.Open(t.Context(), address); err == nil {
				l.Close()
			}
			return err == nil || !strings.Contains(err.Error(), "refused TLS")
		})
		if fits != (err == nil) || !fits && !strings.Contains(err.Error(), "certificate is valid for other.example, not 127.0.0.1") && !strings.Contains(err.Error(), "doesn't contain any IP SANs") {
			t.Errorf("certificate for %s: error %v", name, err)
		}
	}
}

// TestUsedUp opens a log on a server whose connections others use, and reads one
// that was opened before.
func TestUsedUp(t *testing.T) {
	t.Parallel()
	server := databases.PostgreSQL(t, "max_connections=8", "superuser_reserved_connections=0")
	url := server.Database()
	db, err := sql.Open("pgx", url)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	sharedlogtest.SQL(postgres.Open).UsedUp(t, url, db, "too many clients")
}

// TestPaused stops the server, as a machine does that hangs. Calls end with their
// contexts, and an append is settled when the server goes on.
func TestPaused(t *testing.T) {
	t.Parallel()
	server := databases.PostgreSQL(t)
	sharedlogtest.Paused(t, open(t, server.Database()), server.Pause, server.Resume)
}

// TestStarved lets calls wait for all connections.
func TestStarved(t *testing.T) {
	t.Parallel()
	url := databases.PostgreSQL(t).Database()
	db, err := sql.Open("pgx", url)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	sharedlogtest.Starved(t, open(t, url+"?lock_timeout=0"), db, "begin", "lock table ostiary_secret in access exclusive mode")
}

// TestSerializable runs the suite with the level of isolation that needs repetitions.
func TestSerializable(t *testing.T) {
	t.Parallel()
	server := databases.PostgreSQL(t)
	sharedlogtest.Run(t, func(t *testing.T) sharedlogtest.Opener {
		url := server.Database() + "?default_transaction_isolation=serializable"
		return func() (sharedlog.Log, error) { return postgres.Open(context.Background(), url) }
	})
}

// TestBouncer runs the suite through PgBouncer in transaction mode.
func TestBouncer(t *testing.T) {
	t.Parallel()
	server := databases.PostgreSQL(t)
	through := server.Bouncer(t)
	sharedlogtest.Run(t, func(t *testing.T) sharedlogtest.Opener {
		if strings.HasSuffix(t.Name(), "lost_answers") {
			t.Skip("PgBouncer 1.18 ends with \"server in bad state: 11\" when many statements are canceled")
		}
		url := server.Database()
		url = through(url[strings.LastIndexByte(url, '/')+1:])
		return func() (sharedlog.Log, error) {
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			return postgres.Open(ctx, url)
		}
	})
}

// TestTogether lets several nodes make the tables at once, also through PgBouncer in
// transaction mode.
func TestTogether(t *testing.T) {
	t.Parallel()
	server := databases.PostgreSQL(t)
	sharedlogtest.SQL(postgres.Open).Together(t, server.Database)
	through := server.Bouncer(t)
	sharedlogtest.SQL(postgres.Open).Together(t, func() string {
		url := server.Database()
		return through(url[strings.LastIndexByte(url, '/')+1:])
	})
}

// TestTogetherSlowly makes the tables by several nodes at once, on a server that is so slow
// that the transaction with the lock of a migration ends before the migration does.
func TestTogetherSlowly(t *testing.T) {
	t.Parallel()
	server := databases.PostgreSQL(t)
	sharedlogtest.SQL(postgres.Open).Together(t, func() string {
		url := server.Database()
		db, err := sql.Open("pgx", url)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		for _, statement := range []string{
			"create function slowly() returns event_trigger language plpgsql as $$ begin perform pg_sleep(0.7); end $$",
			"create event trigger slowly on ddl_command_start when tag in ('ALTER TABLE') execute function slowly()",
		} {
			if _, err := db.ExecContext(t.Context(), statement); err != nil {
				t.Fatal(err)
			}
		}
		return url
	})
}

// TestFar renews a lease far from the server.
func TestFar(t *testing.T) {
	t.Parallel()
	sharedlogtest.SQL(postgres.Open).Far(t, databases.PostgreSQL(t).Database())
}

// TestGone requires that the server soon notices a node that is gone without closing its
// connections: its kernel asks each idle connection within some seconds.
func TestGone(t *testing.T) {
	t.Parallel()
	server := databases.PostgreSQL(t)
	address := server.Database()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(u.Port())
	if err != nil {
		t.Fatal(err)
	}
	l := open(t, address)
	if _, err := l.Head(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat("/proc/net/tcp"); err != nil {
		t.Skip(err)
	}
	wait.Until(t, "the kernel of the server asks each connection within ten seconds", func() bool {
		text, err := os.ReadFile("/proc/net/tcp")
		if err != nil {
			t.Fatal(err)
		}
		soon, other := 0, 0
		for line := range strings.Lines(string(text)) {
			// The number, the addresses of both ends, the state, the queues, and the timer:
			// 02 is that of keepalives, with the hundredths of a second that are left.
			fields := strings.Fields(line)
			if len(fields) < 6 || !strings.HasSuffix(fields[1], fmt.Sprintf(":%04X", port)) || fields[3] != "01" {
				continue
			}
			kind, left, _ := strings.Cut(fields[5], ":")
			if n, err := strconv.ParseInt(left, 16, 64); err == nil && kind == "02" && n <= 1000 {
				soon++
			} else {
				other++
			}
		}
		return soon > 0 && other == 0
	})
}
