// Package postgres opens a shared log in a PostgreSQL database, version 13 or later.
// It checks the settings that the log rests on. Its main function is [Open]. It has no
// statement that package sqllog could have.
package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"

	"github.com/ostiary/ostiary/internal/cluster/sqllog"
)

// channel is the name under which appends are announced.
const channel = "ostiary_log"

// Open connects to the database of a URL, such as postgres://user:password@host/name,
// and makes its tables if there are none. See [Database] for the URL. A PgBouncer in
// transaction mode can be between: Open notices it, and prepares no statements then; it
// cannot pass on the announcements of appends, so nodes ask. The parameter replica of the
// URL is HOST:PORT of a replica, from which segments and snapshots are read, see
// [sqllog.Log.UseReplica]. Open fails with storage.ErrFormat if a newer version has
// changed the tables.
func Open(ctx context.Context, address string) (*sqllog.Log, error) {
	address, replica, err := sqllog.CutReplica(address)
	if err != nil {
		return nil, fmt.Errorf("address of PostgreSQL: %w", err)
	}
	config, err := parse(address)
	if err != nil {
		return nil, err
	}
	config.DefaultQueryExecMode = pgx.QueryExecModeExec
	if config.ValidateConnect == nil { // the URL has no target_session_attrs
		config.ValidateConnect = isPrimary
	}
	for name, value := range map[string]string{
		"application_name":                    "ostiary",
		"default_transaction_isolation":       "read committed",
		"synchronous_commit":                  "on",
		"idle_in_transaction_session_timeout": "500",
		"lock_timeout":                        "500",
		// Of the server. A node that is cut off while it sends an append would keep the
		// place of the next segment locked for two hours, which are the defaults of Linux.
		"tcp_keepalives_idle":     seconds(sqllog.GoneTime / 2),
		"tcp_keepalives_interval": "1",
		"tcp_keepalives_count":    seconds(sqllog.GoneTime / 2),
	} {
		if _, set := config.RuntimeParams[name]; !set {
			config.RuntimeParams[name] = value
		}
	}
	if err := adapt(ctx, config); err != nil {
		return nil, fmt.Errorf("PostgreSQL at %s: %w", config.Host, err)
	}
	log, err := sqllog.Open(ctx, stdlib.GetConnector(*config, stdlib.OptionShouldPing(mayBeGone)), &dialect{config}, check)
	if err != nil {
		return nil, fmt.Errorf("PostgreSQL at %s: %w", config.Host, err)
	}
	if replica == "" {
		return log, nil
	}
	pool, err := replicaPool(replica)
	if err != nil {
		return nil, errors.Join(err, log.Close())
	}
	log.UseReplica(pool)
	return log, nil
}

// seconds returns a duration as a setting.
func seconds(d time.Duration) string { return strconv.Itoa(int(d.Seconds())) }

// isPrimary refuses a connection to a replica, so that the next host of the URL is tried.
func isPrimary(ctx context.Context, conn *pgconn.PgConn) error {
	results, err := conn.Exec(ctx, "select pg_is_in_recovery()").ReadAll()
	if err == nil && string(results[0].Rows[0][0]) != "f" {
		err = errors.New("the server is a read-only replica, expected the primary")
	}
	return err
}

// replicaPool returns a pool of connections to a replica, whose statements are not
// prepared.
func replicaPool(address string) (*sql.DB, error) {
	config, err := parse(address)
	if err != nil {
		return nil, err
	}
	config.DefaultQueryExecMode = pgx.QueryExecModeExec
	config.ValidateConnect = nil // the primary's URL may ask for a server that can write
	return stdlib.OpenDB(*config), nil
}

// mayBeGone reports whether a connection that was idle must be tested with a round trip:
// the server has closed it. Far from the server, a test of each would double the time of a
// write after a second of silence.
func mayBeGone(_ context.Context, p stdlib.ShouldPingParams) bool {
	return p.IdleDuration > time.Second && p.Conn.PgConn().CheckConn() != nil
}

// adapt removes the settings of a session if PgBouncer refuses them. They are those of the
// server or of the user then, and check reads them. If a pooler is between, adapt
// leaves it so that statements are not prepared, and otherwise they are: the server plans
// each of them once.
func adapt(ctx context.Context, config *pgx.ConnConfig) error {
	ctx, cancel := context.WithTimeout(ctx, sqllog.OpenTime)
	defer cancel()
	conn, err := pgx.ConnectConfig(ctx, config)
	if code(err) == "08P01" && strings.Contains(err.Error(), "unsupported startup parameter") {
		config.RuntimeParams = map[string]string{"application_name": "ostiary"}
		return nil
	}
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	// A pooler chooses a server for each transaction, so it has a number of its own for
	// the connection.
	var pid uint32
	if err := conn.QueryRow(ctx, "select pg_backend_pid()").Scan(&pid); err != nil {
		return err
	}
	if pid == conn.PgConn().PID() {
		config.DefaultQueryExecMode = pgx.QueryExecModeCacheStatement
	}
	return nil
}

// Database returns a pool of connections to the database of a URL, with the settings of
// the server. The URL may have several hosts, separated by commas. The server's
// certificate is verified unless the URL has another sslmode, or the host is this
// machine.
func Database(address string) (*sql.DB, error) {
	config, err := parse(address)
	if err != nil {
		return nil, err
	}
	return stdlib.OpenDB(*config), nil
}

// parse returns the configuration of a URL.
func parse(address string) (*pgx.ConnConfig, error) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "postgres" && u.Scheme != "postgresql" || strings.Trim(u.Path, "/") == "" {
		return nil, errors.New("address of PostgreSQL: expected postgres://USER:PASSWORD@HOST/DATABASE")
	}
	q := u.Query()
	if !q.Has("sslmode") && !local(u.Hostname()) {
		q.Set("sslmode", "verify-full")
		u.RawQuery = q.Encode()
	}
	config, err := pgx.ParseConfig(u.String())
	if err != nil {
		return nil, fmt.Errorf("address of PostgreSQL: %w", err) // has no password
	}
	config.DialFunc = sqllog.Dial
	return config, nil
}

// local reports whether a host is this machine, or the folder of a socket.
func local(host string) bool {
	return host == "" || strings.HasPrefix(host, "/") || sqllog.Loopback(host)
}

// check migrates the tables, and checks what the log rests on.
func check(ctx context.Context, db *sql.DB) error {
	var commit, version, isolation, readOnly string
	if err := db.QueryRowContext(ctx, `select current_setting('synchronous_commit'), current_setting('server_version_num'),
		current_setting('transaction_isolation'), current_setting('transaction_read_only')`).Scan(&commit, &version, &isolation, &readOnly); err != nil {
		return err
	}
	number, _ := strconv.Atoi(version)
	switch {
	case number < 130000:
		return fmt.Errorf("the server has version %s, expected 13 or later", version)
	case commit == "off" || commit == "local":
		return fmt.Errorf("synchronous_commit is %s, expected on: a commit must be durable when it is answered", commit)
	case readOnly != "off":
		return fmt.Errorf("transaction_read_only is %s, expected off", readOnly)
	case isolation == "read uncommitted":
		return fmt.Errorf("transaction_isolation is %s, expected read committed or above", isolation)
	}
	if err := sqllog.Migrate(ctx, db, goose.DialectPostgres); err != nil {
		return err
	}
	return rights(ctx, db)
}

// rights fails and names the rights that the user lacks.
func rights(ctx context.Context, db *sql.DB) error {
	tables := slices.Sorted(maps.Keys(sqllog.Tables))
	var missing sql.NullString
	err := db.QueryRowContext(ctx, `select string_agg(p || ' on ' || t, ', ' order by t, p) from unnest(string_to_array($1, ',')) t, unnest(array['SELECT', 'INSERT', 'UPDATE', 'DELETE']) p
		where not has_table_privilege(t, p)`, strings.Join(tables, ",")).Scan(&missing)
	if err == nil && missing.Valid {
		err = fmt.Errorf("the user lacks rights: %s", missing.String)
	}
	return err
}

// dialect implements [sqllog.Dialect].
type dialect struct{ config *pgx.ConnConfig }

// System implements [sqllog.Dialect].
func (*dialect) System() string { return "postgresql" }

// Rebind implements [sqllog.Dialect].
func (*dialect) Rebind(query string) string {
	var b strings.Builder
	number := 0
	for _, c := range query {
		if c != '?' {
			b.WriteRune(c)
			continue
		}
		number++
		b.WriteByte('$')
		b.WriteString(strconv.Itoa(number))
	}
	return b.String()
}

// Atomic implements [sqllog.Dialect]. A batch is one transaction.
func (*dialect) Atomic(ctx context.Context, db *sql.DB, statements []sqllog.Statement) (changed int64, err error) {
	if len(statements) == 1 {
		r, err := db.ExecContext(ctx, statements[0].Query, statements[0].Arguments...)
		if err != nil {
			return 0, err
		}
		return r.RowsAffected()
	}
	conn, err := db.Conn(ctx)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	err = conn.Raw(func(driver any) error {
		batch := &pgx.Batch{}
		for _, s := range statements {
			batch.Queue(s.Query, s.Arguments...)
		}
		results := driver.(*stdlib.Conn).Conn().SendBatch(ctx, batch)
		for i := range statements {
			tag, err := results.Exec()
			if err != nil {
				_ = results.Close()
				return err
			}
			if i == 0 {
				changed = tag.RowsAffected()
			}
		}
		return results.Close()
	})
	return changed, err
}

// code returns the SQLSTATE of an error of the server, or "".
func code(err error) string {
	var e *pgconn.PgError
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

// Duplicate implements [sqllog.Dialect].
func (*dialect) Duplicate(err error) bool { return code(err) == "23505" }

// RolledBack implements [sqllog.Dialect]: a serialization failure, or a deadlock.
func (*dialect) RolledBack(err error) bool { return code(err) == "40001" || code(err) == "40P01" }

// Unusable implements [sqllog.Dialect]: a server that has become read-only.
func (*dialect) Unusable(err error) bool { return code(err) == "25006" }

// Primary implements [sqllog.Dialect].
func (*dialect) Primary() string { return "not pg_is_in_recovery()" }

// Now implements [sqllog.Dialect].
func (*dialect) Now() string {
	return "cast(extract(epoch from clock_timestamp()) * 1000000 as bigint)"
}

// Announced implements [sqllog.Dialect].
func (*dialect) Announced(insert sqllog.Statement, sequence uint64) sqllog.Statement {
	return sqllog.Statement{Query: "with appended as (" + insert.Query + " returning 1) select pg_notify('" + channel + "', ? || current_schema()) from appended",
		Arguments: append(insert.Arguments[:len(insert.Arguments):len(insert.Arguments)], fmt.Sprint("0 ", sequence, " "))}
}

// announced passes on what was announced, unless it is about a log in another schema of
// the database. Earlier versions announced an empty text: some append to some log.
func announced(text, schema string, wake func(uint64)) {
	if text == "" {
		wake(0)
		return
	}
	number, rest, _ := strings.Cut(text, " ")
	at, in, _ := strings.Cut(rest, " ")
	sequence, err := strconv.ParseUint(at, 10, 64)
	if number == "0" && in == schema && err == nil {
		wake(sequence)
	}
}

// Listen implements [sqllog.Dialect].
func (d *dialect) Listen(ctx context.Context, wake func(uint64)) error {
	conn, err := pgx.ConnectConfig(ctx, d.config.Copy())
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if _, err := conn.Exec(ctx, "listen "+channel); err != nil {
		return err
	}
	var schema string
	if err := conn.QueryRow(ctx, "select current_schema()").Scan(&schema); err != nil {
		return err
	}
	for {
		n, err := conn.WaitForNotification(ctx)
		if err != nil {
			return err
		}
		announced(n.Payload, schema, wake)
	}
}
