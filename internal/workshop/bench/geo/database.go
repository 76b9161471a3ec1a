package geo

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/ostiary/ostiary/internal/workshop/bench/servers"
)

// The services of a host, for [delay.Hosts].
const (
	serviceDatabase = "database"
	serviceHTTP     = "http"
	serviceNodes    = "nodes"
	serviceMetrics  = "metrics"
	serviceGRPC     = "grpc"
)

// name, secret and database of the account in each database server.
const account = "geo"

// missing returns what a column needs and this machine does not have, or "".
func (o *Options) missing(c Column) string {
	var err error
	switch c.Store {
	case MariaDB:
		err = servers.FindAll("mariadbd", "mariadb-install-db")
	case Galera:
		_, err = servers.Galera()
	case Raft:
		if text, helpErr := output(o.Program, "serve", "--help"); helpErr != nil || !strings.Contains(text, "--cluster") {
			err = errors.New("this program has no --cluster")
		}
	case PostgreSQL:
		_, err = servers.PostgreSQL()
	}
	what := ""
	if err != nil {
		what = err.Error()
	}
	if what == "" && c.System == Keystone && o.Keystone == "" {
		what = "no Python environment with Keystone was given"
	}
	return what
}

// startDatabases starts the database servers of the cell.
func (d *deployment) startDatabases(ctx context.Context) error {
	for n, host := range d.at {
		var err error
		switch d.cell.Store {
		case PostgreSQL:
			err = d.startPostgreSQL(host)
		default:
			err = d.startMariaDB(n, host)
		}
		if err != nil {
			return err
		}
		driver, source, err := d.source(host)
		if err != nil {
			return err
		}
		db, err := sql.Open(driver, source)
		if err != nil {
			return err
		}
		db.SetMaxOpenConns(1)
		d.statements = append(d.statements, db)
		err = d.await(ctx, fmt.Sprintf("%s of instance %d", d.cell.Store, host+1), func(ctx context.Context) error {
			if d.cell.Store != Galera {
				return db.PingContext(ctx)
			}
			var name, state string
			if err := db.QueryRowContext(ctx, "show status like 'wsrep_local_state_comment'").Scan(&name, &state); err != nil {
				return err
			}
			if state != "Synced" {
				return fmt.Errorf("the state of Galera is %q, expected Synced", state)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	if d.cell.Store == PostgreSQL {
		_, err := d.statements[0].ExecContext(ctx, "create extension if not exists pg_stat_statements")
		return err
	}
	return nil
}

// source returns the driver and the address of a database, without delay.
func (d *deployment) source(host int) (driver, source string, err error) {
	at, err := d.hosts.Client(host, serviceDatabase)
	if d.cell.Store == PostgreSQL {
		return "pgx", fmt.Sprintf("postgres://%s@%s/%s?sslmode=disable", account, at, account), err
	}
	return "mysql", fmt.Sprintf("%s:%s@tcp(%s)/", account, account, at), err
}

// connections is the setting of a database server for how many clients it takes: by default
// it takes too few for 45 instances.
func (d *deployment) connections() string {
	return fmt.Sprintf("max_connections=%d", 100+connectionsMax*d.cell.Instances)
}

// connectionsMax is the connections that the setting has room for, for each instance: a
// node of ours has at most 11.
const connectionsMax = 20

// startMariaDB starts the n-th server of MariaDB or Galera, on an instance.
func (d *deployment) startMariaDB(n, host int) error {
	port, err := d.hosts.Port(host, serviceDatabase)
	if err != nil {
		return err
	}
	data := filepath.Join(d.folder, fmt.Sprintf("database-%d", host+1))
	if n == 0 {
		err = copyFolder(d.template, data)
	} else {
		err = errors.Join(os.Mkdir(data, 0o700), servers.Give(data, mariadbUser())) // Galera copies the first one
	}
	if err != nil {
		return err
	}
	command := append(mariadbd(data), "--bind-address="+d.hosts.Bind(host), "--port="+strconv.Itoa(port), "--"+d.connections())
	if d.cell.Store == Galera {
		provider, err := servers.Galera()
		if err != nil {
			return err
		}
		var peers []string
		for _, peer := range d.at {
			peers = append(peers, d.address(peer))
		}
		command = append(command, "--wsrep-on=ON", "--wsrep-provider="+provider, "--wsrep-cluster-name=geo", "--wsrep-cluster-address=gcomm://"+strings.Join(peers, ","),
			"--wsrep-node-address="+d.address(host), "--wsrep-sst-method=rsync", "--binlog-format=ROW", "--innodb-autoinc-lock-mode=2")
		if d.cell.System == Keystone {
			command = append(command, "--wsrep-sync-wait=15") // as in the study; we set our own
		}
		if n == 0 {
			command = append(command, "--wsrep-new-cluster")
		}
	}
	return d.start(&d.databases, host, "mariadbd", syscall.SIGTERM, nil, command...)
}

// mariadbUser returns the user that runs MariaDB: mysql if this process is root. Galera
// copies databases with rsync, which as root gives up its rights.
func mariadbUser() *user.User {
	u, err := user.Current()
	if err != nil {
		u = &user.User{Uid: strconv.Itoa(os.Getuid()), Gid: strconv.Itoa(os.Getgid()), Username: "root"}
	}
	if u.Uid == "0" {
		if other, err := user.Lookup("mysql"); err == nil {
			return other
		}
	}
	return u
}

// mariadbd returns the beginning of the command that starts MariaDB on a folder.
func mariadbd(data string) []string {
	return []string{"mariadbd", "--no-defaults", "--user=" + mariadbUser().Username, "--datadir=" + data, "--socket=" + filepath.Join(data, "socket"), "--innodb-buffer-pool-size=128M", "--skip-name-resolve"}
}

// templateMariaDB makes a data folder of MariaDB with the account and its database.
func templateMariaDB(ctx context.Context, data string) error {
	if err := run(ctx, filepath.Dir(data), nil, "mariadb-install-db", "--no-defaults", "--user="+mariadbUser().Username, "--datadir="+data, "--auth-root-authentication-method=normal", "--skip-test-db"); err != nil {
		return err
	}
	lines := []string{"use mysql;", "delete from global_priv where User='';", "flush privileges;", "create database " + account + ";", "create database keystone;",
		"create user '" + account + "'@'%' identified by '" + account + "';", "grant all on *.* to '" + account + "'@'%';", "shutdown;"}
	first := data + ".sql"
	if err := os.WriteFile(first, []byte(strings.Join(lines, "\n")+"\n"), 0o644); err != nil {
		return err
	}
	command := append(mariadbd(data), "--skip-networking", "--init-file="+first)
	err := run(ctx, filepath.Dir(data), nil, command...)
	if err != nil {
		return err
	}
	return os.Remove(first)
}

// startPostgreSQL starts PostgreSQL on an instance. It refuses to run as root.
func (d *deployment) startPostgreSQL(host int) error {
	port, err := d.hosts.Port(host, serviceDatabase)
	if err != nil {
		return err
	}
	bin, err := servers.PostgreSQL()
	if err != nil {
		return err
	}
	as, err := servers.As("postgres", d.folder)
	if err != nil {
		return err
	}
	data := filepath.Join(d.folder, fmt.Sprintf("database-%d", host+1))
	if err := copyFolder(d.template, data); err != nil {
		return err
	}
	command := append(as, filepath.Join(bin, "postgres"), "-D", data, "-h", d.hosts.Bind(host), "-p", strconv.Itoa(port), "-k", data, "-c", "shared_preload_libraries=pg_stat_statements", "-c", d.connections())
	return d.start(&d.databases, host, "postgres", syscall.SIGINT, nil, command...)
}

// templatePostgreSQL makes a data folder of PostgreSQL that trusts every client.
func templatePostgreSQL(ctx context.Context, data string) error {
	bin, err := servers.PostgreSQL()
	if err != nil {
		return err
	}
	as, err := servers.As("postgres", filepath.Dir(data))
	if err != nil {
		return err
	}
	if err := run(ctx, filepath.Dir(data), nil, append(as, filepath.Join(bin, "initdb"), "-D", data, "-U", account, "--auth=trust", "-E", "UTF8", "--locale=C.UTF-8", "--no-sync")...); err != nil {
		return err
	}
	rules, err := os.OpenFile(filepath.Join(data, "pg_hba.conf"), os.O_APPEND|os.O_WRONLY, 0)
	if err == nil {
		_, err = rules.WriteString("host all all 0.0.0.0/0 trust\n")
		err = errors.Join(err, rules.Close())
	}
	if err != nil {
		return err
	}
	command := append(as, filepath.Join(bin, "postgres"), "--single", "-D", data, "postgres")
	single := exec.CommandContext(ctx, command[0], command[1:]...)
	single.Stdin = strings.NewReader("create database " + account + "\n")
	if out, err := single.CombinedOutput(); err != nil {
		return fmt.Errorf("create a database: %w: %s", err, tail(out))
	}
	return nil
}

// copyFolder copies a folder with its owners.
func copyFolder(from, to string) error {
	if out, err := exec.Command("cp", "-a", from, to).CombinedOutput(); err != nil {
		return fmt.Errorf("copy %s: %w: %s", from, err, out)
	}
	return nil
}

// bareTimes is of how many inserts bareCommit takes the median, and bareBytes how large each is.
const (
	bareTimes = 15
	bareBytes = 300
)

// bareCommit returns the median time of an insert into a table of the database, by a
// connection from the place of the node that writes.
func (d *deployment) bareCommit(ctx context.Context) (time.Duration, error) {
	host := d.database(0)
	_, source, err := d.source(host)
	if err != nil {
		return 0, err
	}
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return d.hosts.Dial(ctx, 0, host, serviceDatabase)
	}
	var db *sql.DB
	table := account + ".bare"
	if d.cell.Store == PostgreSQL {
		config, err := pgx.ParseConfig(source)
		if err != nil {
			return 0, err
		}
		config.DialFunc = dial
		db, table = stdlib.OpenDB(*config), "bare"
	} else {
		config, err := mysql.ParseDSN(source)
		if err != nil {
			return 0, err
		}
		config.DialFunc = dial
		connector, err := mysql.NewConnector(config)
		if err != nil {
			return 0, err
		}
		db = sql.OpenDB(connector)
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	if _, err := db.ExecContext(ctx, "create table "+table+" (id bigint primary key, bytes varchar(1000))"); err != nil {
		return 0, err
	}
	var times []time.Duration
	for i := range bareTimes {
		begin := time.Now()
		// Without parameters, it is one message.
		if _, err := db.ExecContext(ctx, fmt.Sprintf("insert into %s values (%d, '%s')", table, i, strings.Repeat("x", bareBytes))); err != nil {
			return 0, err
		}
		times = append(times, time.Since(begin))
	}
	if _, err := db.ExecContext(ctx, "drop table "+table); err != nil {
		return 0, err
	}
	slices.Sort(times)
	return times[len(times)/2], nil
}

// executed returns the number of statements that all database servers have executed.
func (d *deployment) executed(ctx context.Context) (sum Statements, err error) {
	for _, db := range d.statements {
		var s Statements
		if d.cell.Store == PostgreSQL {
			err = db.QueryRowContext(ctx, `select coalesce(sum(calls) filter (where query ilike 'select%'), 0)::bigint, coalesce(sum(calls) filter (where query ~* '^\s*(insert|update|delete|with)'), 0)::bigint from pg_stat_statements`).Scan(&s.Reads, &s.Writes)
		} else {
			err = db.QueryRowContext(ctx, `select cast(sum(if(variable_name = 'Com_select', variable_value, 0)) as integer), cast(sum(if(variable_name in ('Com_delete', 'Com_insert', 'Com_update', 'Com_replace'), variable_value, 0)) as integer) from information_schema.global_status`).Scan(&s.Reads, &s.Writes)
		}
		if err != nil {
			return sum, err
		}
		sum.Reads, sum.Writes = sum.Reads+s.Reads, sum.Writes+s.Writes
	}
	return sum, nil
}
