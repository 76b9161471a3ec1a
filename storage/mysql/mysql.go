// Package mysql opens a shared log in a MariaDB (10.6 or later), Galera or MySQL (8)
// database. Its main function is [Open]. Package sqllog has the statements.
package mysql

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/pressly/goose/v3"

	"github.com/ostiary/ostiary/storage/sqllog"
)

// Open connects to the database of a URL, such as mysql://user:password@host/name, and
// makes its tables if there are none. The server's certificate is verified unless the
// URL has another tls parameter (false, skip-verify), or the host is of this machine.
// Open fails with storage.ErrFormat if a newer version has changed the tables.
func Open(ctx context.Context, address string) (*sqllog.Log, error) {
	config, err := parse(address)
	if err != nil {
		return nil, err
	}
	connector, err := mysql.NewConnector(config)
	if err != nil {
		return nil, fmt.Errorf("address of MariaDB or MySQL: %w", err)
	}
	log, err := sqllog.Open(ctx, sql.OpenDB(prepared{connector}), dialect{}, check)
	if err != nil {
		return nil, fmt.Errorf("MariaDB or MySQL at %s: %w", config.Addr, err)
	}
	return log, nil
}

// prepared prepares each connection.
type prepared struct{ driver.Connector }

// sessionSettings are statements of each connection; it does not matter if the server
// has no such setting. MariaDB and MySQL name the level of isolation differently as a
// variable. On Galera a read sees what was committed on any node before.
var sessionSettings = []string{"set session transaction isolation level read committed", "set session wsrep_sync_wait = 7"}

// unknownVariable is the number of the error of a setting that the server lacks.
const unknownVariable = 1193

// Connect implements [driver.Connector].
func (p prepared) Connect(ctx context.Context) (driver.Conn, error) {
	c, err := p.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	for _, s := range sessionSettings {
		_, err := c.(driver.ExecerContext).ExecContext(ctx, s, nil)
		var e *mysql.MySQLError
		if err != nil && !(errors.As(err, &e) && e.Number == unknownVariable) {
			return nil, errors.Join(err, c.Close())
		}
	}
	return c, nil
}

// parse returns the configuration of a URL.
func parse(address string) (*mysql.Config, error) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "mysql" && u.Scheme != "mariadb" {
		return nil, errors.New("address of MariaDB or MySQL: expected mysql://USER:PASSWORD@HOST/DATABASE")
	}
	c := mysql.NewConfig()
	c.User = u.User.Username()
	c.Passwd, _ = u.User.Password()
	c.Net, c.Addr = "tcp", u.Host
	if socket := u.Query().Get("socket"); socket != "" {
		c.Net, c.Addr = "unix", socket
	} else if u.Port() == "" {
		c.Addr = net.JoinHostPort(u.Hostname(), "3306")
	}
	c.DBName = strings.TrimPrefix(u.Path, "/")
	c.MultiStatements, c.InterpolateParams, c.ClientFoundRows = true, true, true
	c.Timeout = 5 * time.Second
	c.TLSConfig = "true"
	if mode := u.Query().Get("tls"); mode != "" {
		c.TLSConfig = mode
	} else if c.Net == "unix" || sqllog.Loopback(u.Hostname()) {
		c.TLSConfig = "false"
	}
	c.Params = map[string]string{"sql_mode": "'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION'", "innodb_lock_wait_timeout": "1"}
	return c, nil
}

// check migrates the tables, and checks what the log rests on.
func check(ctx context.Context, db *sql.DB) error {
	var readOnly bool
	var flush, packet int
	if err := db.QueryRowContext(ctx, "select @@read_only, @@innodb_flush_log_at_trx_commit, @@max_allowed_packet").Scan(&readOnly, &flush, &packet); err != nil {
		return err
	}
	switch {
	case readOnly:
		return errors.New("read_only is on, expected the primary")
	case flush != 1:
		return fmt.Errorf("innodb_flush_log_at_trx_commit is %d, expected 1: a commit must be durable when it is answered", flush)
	case packet < packetMin:
		return fmt.Errorf("max_allowed_packet is %d, expected %d or more", packet, packetMin)
	}
	return sqllog.Migrate(ctx, db, goose.DialectMySQL)
}

// packetMin is the size of a statement with a part of 1 MiB, each of whose bytes is
// escaped.
const packetMin = 4 << 20

// dialect implements [sqllog.Dialect].
type dialect struct{}

// Rebind implements [sqllog.Dialect].
func (dialect) Rebind(query string) string { return query }

// Atomic implements [sqllog.Dialect]. The statements are one packet.
func (dialect) Atomic(ctx context.Context, db *sql.DB, statements []sqllog.Statement) (int64, error) {
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
	text, arguments := "begin", []any(nil)
	for _, s := range statements {
		text += ";" + s.Query
		arguments = append(arguments, s.Arguments...)
	}
	var changed int64
	err = conn.Raw(func(raw any) error {
		changed, err = execAll(ctx, raw, text+";commit", arguments)
		return err
	})
	if err != nil {
		// A statement failed, and what follows it was not run: the transaction is open.
		_, rollback := conn.ExecContext(context.WithoutCancel(ctx), "rollback")
		return 0, errors.Join(err, rollback)
	}
	return changed, nil
}

// execAll runs statements on a connection of the driver, and returns the rows that the
// second one changed: the first begins the transaction.
func execAll(ctx context.Context, conn any, text string, arguments []any) (int64, error) {
	values := make([]driver.NamedValue, len(arguments))
	for i, a := range arguments {
		v, err := driver.DefaultParameterConverter.ConvertValue(a)
		if err != nil {
			return 0, err
		}
		values[i] = driver.NamedValue{Ordinal: i + 1, Value: v}
	}
	r, err := conn.(driver.ExecerContext).ExecContext(ctx, text, values)
	if err != nil {
		return 0, err
	}
	return r.(mysql.Result).AllRowsAffected()[1], nil
}

// Duplicate implements [sqllog.Dialect].
func (dialect) Duplicate(err error) bool {
	var e *mysql.MySQLError
	return errors.As(err, &e) && e.Number == 1062
}

// Now implements [sqllog.Dialect].
func (dialect) Now() string { return "cast(unix_timestamp(now(6)) * 1000000 as signed)" }

// Appended implements [sqllog.Dialect]: the database announces nothing.
func (dialect) Appended() sqllog.Statement { return sqllog.Statement{} }

// Listen implements [sqllog.Dialect].
func (dialect) Listen(context.Context, func()) error { return nil }
