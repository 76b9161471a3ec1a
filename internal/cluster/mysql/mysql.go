// Package mysql opens a shared log in a MariaDB (10.6 or later), Galera or MySQL (8)
// database, and checks the settings that the log rests on. Its main function is [Open].
// It has no statement that package sqllog could have.
package mysql

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/pressly/goose/v3"

	"github.com/ostiary/ostiary/internal/cluster/sqllog"
)

// Open connects to the database of a URL, such as mysql://user:password@host/name, and
// makes its tables if there are none. See [Database] for the URL. Its parameter replica is
// HOST:PORT of a replica, from which segments and snapshots are read, see
// [sqllog.Log.UseReplica]. Open fails with
// storage.ErrFormat if a newer version has changed the tables.
func Open(ctx context.Context, address string) (*sqllog.Log, error) {
	address, replica, err := sqllog.CutReplica(address)
	if err != nil {
		return nil, fmt.Errorf("address of MariaDB or MySQL: %w", err)
	}
	servers, err := parse(address)
	if err != nil {
		return nil, err
	}
	servers.fit = servers.isFit
	log, err := sqllog.Open(ctx, prepared{servers}, dialect{&servers.packet}, check)
	if err != nil {
		return nil, fmt.Errorf("MariaDB or MySQL at %s: %w", servers, err)
	}
	if replica == "" {
		return log, nil
	}
	pool, err := Database(replica)
	if err != nil {
		return nil, errors.Join(err, log.Close())
	}
	log.UseReplica(pool)
	return log, nil
}

// Database returns a pool of connections to the database of a URL, with the settings of
// the server. The URL may have several hosts, separated by commas: a connection is made
// to the first one that answers. The server's certificate is verified unless the URL has
// another tls parameter (false, skip-verify), or the host is this machine. The
// parameter ca is a PEM file with the authorities of the certificate, in place of those of
// the system. With the parameter socket the connection uses that file.
func Database(address string) (*sql.DB, error) {
	servers, err := parse(address)
	if err != nil {
		return nil, err
	}
	return sql.OpenDB(servers), nil
}

// servers connects to the first server that answers, starting with the last one that did.
type servers struct {
	connectors []driver.Connector
	addresses  []string
	fit        func(context.Context, driver.Conn) error // why a server cannot be used; nil without conditions
	last       atomic.Int64
	packet     atomic.Int64 // max_allowed_packet at the last connection
}

// String returns the addresses.
func (s *servers) String() string { return strings.Join(s.addresses, ",") }

// Driver implements [driver.Connector].
func (s *servers) Driver() driver.Driver { return s.connectors[0].Driver() }

// Connect implements [driver.Connector].
func (s *servers) Connect(ctx context.Context) (driver.Conn, error) {
	var failures []error
	first := s.last.Load()
	for i := range s.connectors {
		at := (int(first) + i) % len(s.connectors)
		c, err := s.connectors[at].Connect(ctx)
		if err == nil {
			err = s.usable(ctx, c)
		}
		if err == nil {
			s.last.Store(int64(at))
			return c, nil
		}
		failures = append(failures, err)
	}
	return nil, errors.Join(failures...)
}

// usable closes a connection to a server that cannot be used.
func (s *servers) usable(ctx context.Context, c driver.Conn) error {
	err := ready(ctx, c)
	if err == nil && s.fit != nil {
		err = s.fit(ctx, c)
	}
	if err != nil {
		return errors.Join(err, c.Close())
	}
	return nil
}

// ready fails on a node of Galera that does not serve.
func ready(ctx context.Context, c driver.Conn) error {
	status := map[string]string{}
	err := each(ctx, c, "show global status where variable_name in ('wsrep_provider_name', 'wsrep_cluster_status', 'wsrep_ready')", 2, func(row []string) {
		status[row[0]] = row[1]
	})
	if err == nil && status["wsrep_provider_name"] != "" && (status["wsrep_cluster_status"] != "Primary" || status["wsrep_ready"] != "ON") {
		err = fmt.Errorf("the node of Galera does not serve: wsrep_cluster_status is %s and wsrep_ready is %s, expected Primary (the node is with the majority of nodes) and ON", status["wsrep_cluster_status"], status["wsrep_ready"])
	}
	return err
}

// each calls yield with the rows of a query, which have a number of columns.
func each(ctx context.Context, c driver.Conn, query string, columns int, yield func(row []string)) error {
	rows, err := c.(driver.QueryerContext).QueryContext(ctx, query, nil)
	if err != nil {
		return err
	}
	values, texts := make([]driver.Value, columns), make([]string, columns)
	for err = rows.Next(values); err == nil; err = rows.Next(values) {
		for i, v := range values {
			if b, is := v.([]byte); is {
				v = string(b)
			}
			texts[i] = fmt.Sprint(v)
		}
		yield(texts)
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return errors.Join(err, rows.Close())
}

// primary is an expression that is 0 on a server that is read-only, and otherwise 1. Newer
// versions name the values.
const primary = "cast(@@global.read_only as char) in ('0', 'OFF')"

// isFit fails on a server whose settings break what the log rests on. It looks at each
// connection: the server may have been restarted with other settings, or be another one.
func (s *servers) isFit(ctx context.Context, c driver.Conn) error {
	var why error
	err := each(ctx, c, "select "+primary+", @@global.innodb_flush_log_at_trx_commit, @@global.log_bin, @@global.sync_binlog, @@global.max_allowed_packet", 5, func(row []string) {
		packet, _ := strconv.ParseInt(row[4], 10, 64)
		s.packet.Store(packet)
		switch {
		case row[0] != "1":
			why = errors.New("read_only is on, expected the primary")
		case row[1] != "1":
			why = fmt.Errorf("innodb_flush_log_at_trx_commit is %s, expected 1: a commit must be durable when it is answered", row[1])
		case row[2] == "1" && row[3] != "1":
			why = fmt.Errorf("sync_binlog is %s although the server has a binary log, expected 1: after a crash the server undoes what the binary log lacks", row[3])
		case packet < packetMin:
			why = fmt.Errorf("max_allowed_packet is %s, expected %d or more", row[4], packetMin)
		}
	})
	return errors.Join(err, why)
}

// prepared prepares each connection for the log.
type prepared struct{ *servers }

// sessionSettings are statements of each connection; it does not matter if the server
// has no such setting. MariaDB and MySQL name the level of isolation differently as a
// variable. On Galera a read waits for what was committed on any node before. A write does
// not, because that costs a round trip between the nodes: package sqllog reads before it
// reports that a write found another value.
// With wsrep_dirty_reads a read does not wait, whatever wsrep_sync_wait is.
var sessionSettings = []string{"set session transaction isolation level read committed", "set session wsrep_sync_wait = 1, session wsrep_dirty_reads = 0"}

// unknownVariable is the number of the error of a setting that the server lacks.
const unknownVariable = 1193

// Connect implements [driver.Connector].
func (p prepared) Connect(ctx context.Context) (driver.Conn, error) {
	c, err := p.servers.Connect(ctx)
	if err != nil {
		return nil, err
	}
	for _, s := range sessionSettings {
		if _, err := c.(driver.ExecerContext).ExecContext(ctx, s, nil); err != nil && number(err) != unknownVariable {
			return nil, errors.Join(err, c.Close())
		}
	}
	return c, nil
}

// parse returns what connects to the servers of a URL.
func parse(address string) (*servers, error) {
	hosts, rest := hostsOf(address)
	u, err := url.Parse(rest)
	if err != nil || u.Scheme != "mysql" && u.Scheme != "mariadb" || strings.Trim(u.Path, "/") == "" {
		return nil, errors.New("address of MariaDB or MySQL: expected mysql://USER:PASSWORD@HOST/DATABASE") // u may have a password
	}
	s := &servers{}
	for _, host := range hosts {
		u.Host = host
		c, err := config(u)
		if err != nil {
			return nil, fmt.Errorf("address of MariaDB or MySQL: %w", err)
		}
		connector, err := mysql.NewConnector(c)
		if err != nil {
			return nil, fmt.Errorf("address of MariaDB or MySQL: %w", err)
		}
		s.connectors = append(s.connectors, connector)
		s.addresses = append(s.addresses, c.Addr)
	}
	return s, nil
}

// hostsOf returns the hosts of a URL, and the URL with the first one of them.
func hostsOf(address string) (hosts []string, rest string) {
	scheme, after, _ := strings.Cut(address, "://")
	end := strings.IndexAny(after, "/?#")
	if end < 0 {
		end = len(after)
	}
	begin := strings.LastIndexByte(after[:end], '@') + 1
	hosts = strings.Split(after[begin:end], ",")
	return hosts, scheme + "://" + after[:begin] + hosts[0] + after[end:]
}

// config returns the configuration of a URL with one host.
func config(u *url.URL) (*mysql.Config, error) {
	c := mysql.NewConfig()
	c.User = u.User.Username()
	c.Passwd, _ = u.User.Password()
	c.Net, c.Addr = "tcp", u.Host
	for name := range u.Query() {
		if name != "socket" && name != "tls" && name != "ca" {
			return nil, fmt.Errorf("unknown parameter %q, expected ca, socket or tls", name)
		}
	}
	if socket := u.Query().Get("socket"); socket != "" {
		c.Net, c.Addr = "unix", socket
	} else if u.Hostname() == "" {
		return nil, errors.New("it has no host")
	} else if u.Port() == "" {
		c.Addr = net.JoinHostPort(u.Hostname(), "3306")
	}
	c.DBName = strings.Trim(u.Path, "/")
	c.MultiStatements, c.InterpolateParams, c.ClientFoundRows, c.ParseTime = true, true, true, true
	c.Timeout = 5 * time.Second
	switch mode, ca := u.Query().Get("tls"), u.Query().Get("ca"); {
	case ca != "":
		pem, err := os.ReadFile(ca)
		if err != nil {
			return nil, err
		}
		c.TLS = &tls.Config{ServerName: u.Hostname(), RootCAs: x509.NewCertPool()}
		if !c.TLS.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s has no certificate, expected PEM", ca)
		}
	case mode != "":
		c.TLSConfig = mode
	case c.Net == "unix" || sqllog.Loopback(u.Hostname()):
		c.TLSConfig = "false"
	default:
		c.TLSConfig = "true"
	}
	c.Params = map[string]string{"autocommit": "1", "sql_mode": "'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION'", "sql_safe_updates": "0", "innodb_lock_wait_timeout": "1"}
	c.DialFunc = sqllog.Dial
	return c, nil
}

// check migrates the tables, and checks what the log rests on.
func check(ctx context.Context, db *sql.DB) error {
	var autocommit bool
	var mode string
	err := db.QueryRowContext(ctx, "select @@autocommit, @@sql_mode").Scan(&autocommit, &mode)
	if err != nil {
		return err
	}
	// MariaDB and MySQL name it differently.
	var name, isolation string
	if err := db.QueryRowContext(ctx, "show session variables where variable_name in ('tx_isolation', 'transaction_isolation')").Scan(&name, &isolation); err != nil {
		return err
	}
	switch {
	case !autocommit:
		return errors.New("autocommit is off although this program turns it on: something between this program and the server drops settings of a session")
	case !strings.Contains(mode, "STRICT_ALL_TABLES"):
		return fmt.Errorf("sql_mode is %q although this program sets STRICT_ALL_TABLES: something between this program and the server drops settings of a session", mode)
	case isolation != "READ-COMMITTED":
		return fmt.Errorf("%s is %s although this program sets READ-COMMITTED: something between this program and the server drops settings of a session", name, isolation)
	}
	if err := sqllog.Migrate(ctx, db, goose.DialectMySQL); err != nil {
		return err
	}
	return rights(ctx, db)
}

// rights fails and names the rights that the user lacks. It runs statements that change
// nothing: all of them at once, unless one is denied.
func rights(ctx context.Context, db *sql.DB) error {
	type probe struct{ right, query string }
	var probes []probe
	for table, column := range sqllog.Tables {
		probes = append(probes, probe{"SELECT on " + table, "select " + column + " from " + table + " limit 0"},
			probe{"INSERT on " + table, "insert into " + table + " select * from " + table + " where 1 = 0"},
			probe{"UPDATE on " + table, "update " + table + " set " + column + " = " + column + " where 1 = 0"},
			probe{"DELETE on " + table, "delete from " + table + " where 1 = 0"})
	}
	slices.SortFunc(probes, func(a, b probe) int { return strings.Compare(a.right, b.right) })
	var all []string
	for _, p := range probes {
		all = append(all, p.query)
	}
	_, err := db.ExecContext(ctx, strings.Join(all, ";"))
	if err == nil || !denied(err) {
		return err
	}
	var missing []string
	for _, p := range probes {
		if _, err := db.ExecContext(ctx, p.query); denied(err) {
			missing = append(missing, p.right)
		}
	}
	return fmt.Errorf("the user lacks rights: %s", strings.Join(missing, ", "))
}

// denied reports whether an error means that the user lacks a right.
func denied(err error) bool { return number(err) == 1142 || number(err) == 1143 }

// packetMin is the size of a statement with a part of 1 MiB, each of whose bytes is
// escaped.
const packetMin = 4 << 20

// dialect implements [sqllog.Dialect].
type dialect struct{ packet *atomic.Int64 }

// System implements [sqllog.Dialect].
func (dialect) System() string { return "mysql" }

// Rebind implements [sqllog.Dialect].
func (dialect) Rebind(query string) string { return query }

// Atomic implements [sqllog.Dialect]. The statements are one packet. The server ends a
// connection that sends a larger one than it allows, which is no answer: the append would be
// tried for ever.
func (d dialect) Atomic(ctx context.Context, db *sql.DB, statements []sqllog.Statement) (int64, error) {
	if len(statements) == 1 {
		r, err := db.ExecContext(ctx, statements[0].Query, statements[0].Arguments...)
		if err != nil {
			return 0, err
		}
		return r.RowsAffected()
	}
	if size, most := packetSize(statements), int(d.packet.Load()); size > most {
		return 0, fmt.Errorf("%w: %d bytes, and max_allowed_packet is %d", sqllog.ErrStatements, size, most)
	}
	conn, err := db.Conn(ctx)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	// Galera would wait in "begin" as in a read.
	text, arguments := "set autocommit = 0", []any(nil)
	for _, s := range statements {
		text += ";" + s.Query
		arguments = append(arguments, s.Arguments...)
	}
	var changed int64
	err = conn.Raw(func(raw any) error {
		changed, err = execAll(ctx, raw, text+";commit;set autocommit = 1", arguments)
		return err
	})
	if err != nil {
		// A statement failed, and what follows it was not run: the transaction is open.
		_, rollback := conn.ExecContext(context.WithoutCancel(ctx), "rollback;set autocommit = 1")
		if rollback != nil { // do not use it again
			_ = conn.Raw(func(any) error { return driver.ErrBadConn })
		}
		return 0, err
	}
	return changed, nil
}

// packetSize returns the size of the packet with statements, or a little more.
func packetSize(statements []sqllog.Statement) int {
	const apart, number = 64, 24 // what surrounds the statements and each text, and the digits of a number
	size := apart
	for _, s := range statements {
		size += len(s.Query) + 1
		for _, a := range s.Arguments {
			size += number
			if b, is := a.([]byte); is {
				size += len(b)
				for _, c := range b {
					if strings.IndexByte("\x00\n\r\x1a'\"\\", c) >= 0 { // it is escaped
						size++
					}
				}
			}
		}
	}
	return size
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

// number returns the number of an error of the server, or 0.
func number(err error) uint16 {
	var e *mysql.MySQLError
	if errors.As(err, &e) {
		return e.Number
	}
	return 0
}

// Duplicate implements [sqllog.Dialect].
func (dialect) Duplicate(err error) bool { return number(err) == 1062 }

// RolledBack implements [sqllog.Dialect]: a deadlock, or a failed certification. (When
// another transaction held a lock for too long, 1205, a part may have been done.)
func (dialect) RolledBack(err error) bool { return number(err) == 1213 }

// Unusable implements [sqllog.Dialect]: a node of Galera without a quorum, or a server
// that has become read-only.
func (dialect) Unusable(err error) bool {
	switch number(err) {
	case 1047, 1290, 1792, 1836:
		return true
	}
	return false
}

// Primary implements [sqllog.Dialect].
func (dialect) Primary() string { return primary }

// Now implements [sqllog.Dialect]. The time of a session has one hour twice when daylight
// saving time ends.
func (dialect) Now() string { return "timestampdiff(microsecond, '1970-01-01', utc_timestamp(6))" }

// Announced implements [sqllog.Dialect]: the database announces nothing.
func (dialect) Announced(insert sqllog.Statement, _ uint64) sqllog.Statement {
	return insert
}

// Listen implements [sqllog.Dialect].
func (dialect) Listen(context.Context, func(uint64)) error { return nil }
