// Package sqllog is a shared log in the tables of an SQL database. Its main type is
// [Log]; the packages internal/cluster/postgres and internal/cluster/mysql open one, each with what is
// special to its database, see [Dialect].
//
// One segment is one row, as long as it has at most 1 MiB. An append is the insert of
// the row that follows the last one: the primary key lets one node succeed. It is one
// statement, or one round trip with all statements of a transaction, so that no
// transaction is ever open while a node does something else.
package sqllog

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ostiary/ostiary/internal/cluster/sharedlog"
)

// Dialect is what is special to a kind of database.
type Dialect interface {
	// System is the name of the database in traces.
	System() string
	// Rebind returns a statement with ? as placeholders in the form of the database.
	Rebind(query string) string
	// Atomic runs statements in one transaction and one round trip. It returns the
	// number of rows that the first one changed. If it fails, no statement had an
	// effect, or, if the connection broke, the outcome is open.
	Atomic(ctx context.Context, db *sql.DB, statements []Statement) (int64, error)
	// Duplicate reports whether an error means that a key exists.
	Duplicate(err error) bool
	// RolledBack reports whether an error means that the database has undone a statement,
	// or all those of [Dialect.Atomic], in favor of another transaction: a deadlock, a
	// failed certification of Galera, or a serialization failure. They had no effect, and
	// can be repeated.
	RolledBack(err error) bool
	// Unusable reports whether an error means that the server does not serve, although
	// its connections work. A new connection may reach another one.
	Unusable(err error) bool
	// Primary is an expression that is true on a server that takes writes, and false on a
	// replica.
	Primary() string
	// Now is an expression for the time of the database, in microseconds since 1970.
	Now() string
	// Announced returns the insert of a segment as a statement that also announces the
	// segment to other nodes if it was inserted, and changes as many rows. It returns the
	// insert itself if other nodes only ask.
	Announced(insert Statement, sequence uint64) Statement
	// Listen calls wake for each append that a node has announced, with sequence 0 if it
	// is unknown, until ctx ends. It returns at once if the database announces nothing, or
	// if it fails.
	Listen(ctx context.Context, wake func(sequence uint64)) error
}

// Statement is a statement with ? as placeholders, and its arguments.
type Statement struct {
	// Query is the text.
	Query string
	// Arguments are the values of the placeholders.
	Arguments []any
}

// Log is a connection pool to a shared log. It implements [sharedlog.Log].
type Log struct {
	*pool
	// leases are connections for the lease alone: a holder whose renewal waits behind other
	// calls loses its lease.
	leases  *pool
	replica *replica // nil without one
	// pipeline is the connection for appends that overlap, or nil; wanted gets an element when
	// there was none.
	pipeline atomic.Pointer[Pipeline]
	wanted   chan struct{}

	cancel     context.CancelFunc
	background sync.WaitGroup
	closing    sync.Once

	mu      sync.Mutex
	woken   chan struct{} // closed when an append was noticed
	noticed uint64        // the last sequence that was noticed, until Wait has returned for it
}

var (
	_ sharedlog.Log        = (*Log)(nil)
	_ sharedlog.Pipeline   = (*Log)(nil)
	_ sharedlog.Replicated = (*Log)(nil)
)

const (
	// connectionsMax is how many connections a node has at most, and leaseConnectionsMax how
	// many more for the lease. One listens.
	connectionsMax      = 8
	leaseConnectionsMax = 2
	// OpenTime bounds what Open waits for the server. One of another protocol never
	// answers.
	OpenTime = 30 * time.Second
)

// Open returns a log over a database, once check has found that the server is fit and
// has made the tables, see [Migrate]. Close closes the connections.
func Open(ctx context.Context, connector driver.Connector, dialect Dialect, check func(context.Context, *sql.DB) error) (*Log, error) {
	db := sql.OpenDB(connector)
	ctx, cancel := context.WithTimeout(ctx, OpenTime)
	defer cancel()
	if err := check(ctx, db); err != nil {
		_ = db.Close()
		return nil, err
	}
	return newLog(db, sql.OpenDB(connector), dialect), nil
}

// Tables are the tables of a log, each with a column.
var Tables = map[string]string{"ostiary_cluster": "one", "ostiary_log": "shard", "ostiary_part": "part", "ostiary_secret": "store", "ostiary_lease": "shard",
	"ostiary_node": "id", "ostiary_snapshot": "shard", "ostiary_snapshot_part": "part"}

// Loopback reports whether a host is this machine, so that no TLS is needed.
func Loopback(host string) bool {
	return host == "localhost" || strings.HasPrefix(host, "127.") || host == "::1"
}

func newLog(db, leases *sql.DB, dialect Dialect) *Log {
	l := &Log{woken: make(chan struct{}), wanted: make(chan struct{}, 1)}
	ctx, cancel := context.WithCancel(context.Background())
	l.cancel = cancel
	l.pool = newPool(ctx, db, dialect, connectionsMax)
	l.leases = newPool(ctx, leases, dialect, leaseConnectionsMax)
	l.background.Go(l.listen)
	l.background.Go(l.keepLeases)
	if p, is := dialect.(Pipeliner); is {
		l.background.Go(func() { l.keepPipeline(p) })
	}
	return l
}

// keepLeases makes a connection for the lease ahead, and another one when calls have lost
// it. Such a call has less time than it takes to connect to a database far away, or to the
// second host of an address whose first one is gone.
func (l *Log) keepLeases() {
	for {
		bound, cancel := context.WithTimeout(l.ctx, OpenTime)
		conn, err := l.leases.db.Conn(bound)
		cancel()
		if err == nil {
			_ = conn.Close() // it is idle now
		} else {
			pause(l.ctx, repeatMax)
		}
		select {
		case <-l.leases.late:
		case <-l.ctx.Done():
			return
		}
	}
}

// The times between two attempts to listen.
const (
	listenRetryMin = 50 * time.Millisecond
	listenRetryMax = 5 * time.Second
)

// listen wakes callers of Wait when another node announces an append.
func (l *Log) listen() {
	for wait := listenRetryMin; l.ctx.Err() == nil; wait = min(2*wait, listenRetryMax) {
		began := time.Now()
		if err := l.dialect.Listen(l.ctx, l.wake); err == nil {
			return
		}
		if time.Since(began) > listenRetryMax {
			wait = listenRetryMin
		}
		pause(l.ctx, wait)
	}
}

// wake wakes the callers of Wait, because the log has another segment. They ask for the head if
// sequence is 0.
func (l *Log) wake(sequence uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if sequence > 0 && sequence <= l.noticed {
		return
	}
	l.noticed = max(sequence, l.noticed)
	close(l.woken)
	l.woken = make(chan struct{})
}

// Close implements [sharedlog.Log].
func (l *Log) Close() error {
	l.closing.Do(func() {
		l.cancel()
		l.background.Wait()
		// Nothing depends on how a connection ends. A broken one cannot be ended in order.
		_, _ = l.db.Close(), l.leases.db.Close()
		if l.replica != nil {
			_ = l.replica.db.Close()
		}
	})
	return nil
}
