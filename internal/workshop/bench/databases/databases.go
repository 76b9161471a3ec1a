// Package databases measures the library on a log in an SQL database, together with the
// bare database: the same bytes in a table without anything around it, over the same
// connection and in the same run. Its main function is [Run].
//
// The package never uses a database that has a log already.
package databases

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/internal/cluster/lease"
	"github.com/ostiary/ostiary/internal/cluster/mysql"
	"github.com/ostiary/ostiary/internal/cluster/postgres"
	"github.com/ostiary/ostiary/internal/cluster/replica"
	"github.com/ostiary/ostiary/internal/cluster/sharedlog"
	"github.com/ostiary/ostiary/internal/cluster/sqllog"
	"github.com/ostiary/ostiary/internal/workshop/bench"
	"github.com/ostiary/ostiary/internal/workshop/bench/geo/delay"
	"github.com/ostiary/ostiary/schema"
	"github.com/ostiary/ostiary/storage/pebble"
)

// Options are what [Run] needs.
type Options struct {
	// Address is the URL of a database, as postgres.Open and mysql.Open have it, with one
	// host. Its user must be allowed to make tables. Run removes its tables at the end.
	Address string
	// Delays are how far away the database is, one way. The default is 0.
	Delays []time.Duration
	// Duration is how long each cell is measured. The default is 5 s.
	Duration time.Duration
	// Tuples is how many tuples the snapshot has at least. The default is 500,000.
	Tuples int
	// Folder is where the copies of the nodes are, for the time of the run.
	Folder string
	// Emit receives each record. An error ends the run.
	Emit func(bench.Record) error
	// Progress, if not nil, receives the title of the current step.
	Progress func(title string, done, total int)
}

// durationDefault and tuplesDefault are the defaults of Options.
const (
	durationDefault = 5 * time.Second
	tuplesDefault   = 500_000
)

// Workload is the workload of the records.
const Workload = "database"

// The peers of the records.
const (
	peerOwn   = "ostiary"
	peerBare  = "bare"  // the database, or the library on a folder
	peerFloor = "floor" // the database and a copy: what a node cannot avoid
)

// Run measures appends, starts and reads at each delay, and emits the records of a cell
// for both peers, one after the other. It fails if the database has a log, or if nothing
// ended in the time of a cell.
func Run(ctx context.Context, o Options) error {
	if len(o.Delays) == 0 {
		o.Delays = []time.Duration{0}
	}
	if o.Duration <= 0 {
		o.Duration = durationDefault
	}
	if o.Tuples <= 0 {
		o.Tuples = tuplesDefault
	}
	if o.Progress == nil {
		o.Progress = func(string, int, int) {}
	}
	emit := o.Emit
	o.Emit = func(r bench.Record) error {
		if r.N == 0 && r.Failed() == 0 {
			return fmt.Errorf("nothing of %q ended in %v: choose a longer time", r.Cell, o.Duration)
		}
		return emit(r)
	}
	for i, d := range o.Delays {
		if err := o.at(ctx, d, i); err != nil {
			return fmt.Errorf("at a delay of %s: %w", d, err)
		}
	}
	return nil
}

// kind returns what opens a log and a pool of connections to a database.
func kind(scheme string) (open func(context.Context, string) (*sqllog.Log, error), raw func(string) (*sql.DB, error), err error) {
	switch scheme {
	case "postgres", "postgresql":
		return postgres.Open, postgres.Database, nil
	case "mysql", "mariadb":
		return mysql.Open, mysql.Database, nil
	}
	return nil, nil, fmt.Errorf("unknown scheme %q, expected postgres or mysql", scheme)
}

// at measures with the database at a delay.
func (o *Options) at(ctx context.Context, away time.Duration, number int) (err error) {
	address, end, err := o.away(away)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	open, raw, err := kind(address.Scheme)
	if err != nil {
		return err
	}
	m := &measurement{Options: o, away: away, folder: filepath.Join(o.Folder, fmt.Sprint("delay", number)), open: func(ctx context.Context) (*sqllog.Log, error) { return open(ctx, address.String()) }}
	if m.bare, err = raw(address.String()); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.bare.Close()) }()
	if m.store, err = describe(ctx, m.bare, address.Scheme); err != nil {
		return err
	}
	if err := os.MkdirAll(m.folder, 0o700); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(m.folder)) }()
	return m.run(ctx)
}

// away returns the URL of the database through a proxy with a delay.
func (o *Options) away(d time.Duration) (at *url.URL, end func() error, err error) {
	at, err = url.Parse(o.Address)
	if err != nil {
		return nil, nil, errors.New("address of the database: expected SCHEME://USER:PASSWORD@HOST/DATABASE") // it may have a password
	}
	if d == 0 {
		return at, func() error { return nil }, nil
	}
	if at.Port() == "" {
		return nil, nil, errors.New("address of the database: expected a port, for a delay")
	}
	hosts, err := delay.OpenLoopback(2, func(int, int) time.Duration { return d })
	if err != nil {
		return nil, nil, err
	}
	if at.Host, err = hosts.Forward(0, 1, at.Host); err != nil {
		return nil, nil, errors.Join(err, hosts.Close())
	}
	return at, hosts.Close, nil
}

// describe returns the name and the version of a database.
func describe(ctx context.Context, db *sql.DB, scheme string) (string, error) {
	query := "select version()"
	if strings.HasPrefix(scheme, "postgres") {
		query = "show server_version"
	}
	var version string
	if err := db.QueryRowContext(ctx, query).Scan(&version); err != nil {
		return "", err
	}
	version, _, _ = strings.Cut(version, " ")
	if number, rest, _ := strings.Cut(version, "-"); strings.HasPrefix(rest, "MariaDB") {
		return "MariaDB " + number, nil
	}
	if query != "select version()" {
		return "PostgreSQL " + version, nil
	}
	return "MySQL " + version, nil
}

// measurement measures with the database at one delay.
type measurement struct {
	*Options
	away   time.Duration
	folder string
	store  string // name and version of the database
	open   func(context.Context) (*sqllog.Log, error)
	bare   *sql.DB

	log    sharedlog.Log // a connection of its own
	node   *node
	alone  *node // on a folder, without the log
	floor  *floor
	loaded int // tuples of the store
}

// run makes the tables, measures each cell, and removes the tables.
func (m *measurement) run(ctx context.Context) (err error) {
	if m.log, err = m.open(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.log.Close()) }()
	if has, err := m.log.Cluster(ctx); err != nil || has != (sharedlog.Cluster{}) {
		return errors.Join(err, errors.New("the database has a log, expected an empty database"))
	}
	defer func() { err = errors.Join(err, m.clean(context.WithoutCancel(ctx))) }()
	if _, err := m.bare.ExecContext(ctx, bareTable(m.store)); err != nil {
		return err
	}
	if m.node, err = m.onLog(ctx, "node", pebble.Options{Copy: true, NoSync: true}); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.node.close()) }()
	if m.alone, err = onFolder(ctx, filepath.Join(m.folder, "alone")); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.alone.close()) }()
	if m.floor, err = openFloor(m.folder); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.floor.copied.Close()) }()
	for _, cell := range []func(context.Context) error{m.one, m.writers, m.groups, m.start, m.reads} {
		if err := cell(ctx); err != nil {
			return err
		}
	}
	return nil
}

// clean removes the tables.
func (m *measurement) clean(ctx context.Context) error {
	tables := append(slices.Sorted(maps.Keys(sqllog.Tables)), "ostiary_migrations", "ostiary_bare")
	for _, t := range tables {
		if _, err := m.bare.ExecContext(ctx, "drop table if exists "+t); err != nil {
			return err
		}
	}
	return nil
}

// node is a node of the library.
type node struct {
	engine *ostiary.Engine
	store  *ostiary.Store
	driver *lease.Keeper // nil without a log
	close  func() error
}

// onLog returns a node on the log, with a copy in a folder.
func (m *measurement) onLog(ctx context.Context, name string, options pebble.Options) (*node, error) {
	copied, err := pebble.Open(filepath.Join(m.folder, name), options)
	if err != nil {
		return nil, err
	}
	log, err := m.open(ctx)
	if err != nil {
		return nil, errors.Join(err, copied.Close())
	}
	driver, err := lease.Open(ctx, log, copied, lease.Options{Copy: replica.Options{SnapshotBytes: -1}})
	if err != nil {
		return nil, err
	}
	driver.Start(nil)
	n := &node{driver: driver}
	return n, n.open(ctx, ostiary.Options{Driver: driver}, func() error {
		return errors.Join(driver.Leave(context.WithoutCancel(ctx)), driver.Close())
	})
}

// onFolder returns a node without a log.
func onFolder(ctx context.Context, folder string) (*node, error) {
	driver, err := pebble.Open(folder, pebble.Options{})
	if err != nil {
		return nil, err
	}
	n := &node{}
	return n, n.open(ctx, ostiary.Options{Driver: driver}, driver.Close)
}

// open opens the engine and makes the store. end closes the driver.
func (n *node) open(ctx context.Context, options ostiary.Options, end func() error) (err error) {
	if n.engine, err = ostiary.Open(ctx, options); err != nil {
		return errors.Join(err, end())
	}
	n.close = func() error { return errors.Join(n.engine.Close(), end()) }
	if n.store, err = n.engine.CreateStore(ctx, ostiary.CreateStoreRequest{Name: "bench"}); err == nil {
		_, _, err = n.store.WriteSchema(ctx, authz.SchemaSource{Model: &schema.Model{Types: []schema.TypeDef{{Name: "user"}, {Name: "document", Relations: []schema.RelationDef{
			{Name: "viewer", Rewrite: schema.Direct(), Subjects: []schema.SubjectType{{Type: "user"}}}}}}}})
	}
	if err != nil {
		return errors.Join(err, n.close())
	}
	return nil
}
