// Package sqllog is a shared log in the tables of an SQL database. Its main type is
// [Log]; the packages storage/postgres and storage/mysql open one, each with what is
// special to its database, see [Dialect].
//
// One segment is one row, as long as it has at most 1 MiB. An append is the insert of
// the row that follows the last one: the primary key lets one node succeed. It is one
// statement, or one round trip with all statements of a transaction, so that no
// transaction is ever open while a node does something else.
package sqllog

import (
	"context"
	crand "crypto/rand"
	"crypto/sha256"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ostiary/ostiary/storage"
	"github.com/ostiary/ostiary/storage/sharedlog"
)

// Dialect is what is special to a kind of database.
type Dialect interface {
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
	// Now is an expression for the time of the database, in microseconds since 1970.
	Now() string
	// Appended is a statement that an append makes, too, so that other nodes learn of
	// it; the zero Statement if they only ask.
	Appended() Statement
	// Listen calls wake for each append that another node has announced, until ctx
	// ends. It returns at once if the database announces nothing, or if it fails.
	Listen(ctx context.Context, wake func()) error
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
	db      *sql.DB
	dialect Dialect

	ctx        context.Context // ends with Close
	cancel     context.CancelFunc
	background sync.WaitGroup
	closing    sync.Once
	closeErr   error

	mu    sync.Mutex
	woken chan struct{} // closed when an append was noticed
}

var _ sharedlog.Log = (*Log)(nil)

const (
	// connectionsMax is how many connections a node has at most, besides the one that
	// listens.
	connectionsMax = 8
	// OpenTime bounds what Open waits for the server. One of another protocol never
	// answers.
	OpenTime = 30 * time.Second
)

// Open returns a log over a database, once check has found that the server is fit and
// has made the tables, see [Migrate]. Close closes the database, and so does Open if it
// fails.
func Open(ctx context.Context, db *sql.DB, dialect Dialect, check func(context.Context, *sql.DB) error) (*Log, error) {
	db.SetMaxOpenConns(connectionsMax)
	db.SetMaxIdleConns(connectionsMax)
	ctx, cancel := context.WithTimeout(ctx, OpenTime)
	defer cancel()
	if err := check(ctx, db); err != nil {
		_ = db.Close()
		return nil, err
	}
	return newLog(db, dialect), nil
}

// Tables are the tables of a log, each with a column.
var Tables = map[string]string{"ostiary_cluster": "one", "ostiary_log": "shard", "ostiary_part": "part", "ostiary_secret": "store", "ostiary_lease": "shard",
	"ostiary_node": "id", "ostiary_snapshot": "shard", "ostiary_snapshot_part": "part"}

// Loopback reports whether a host is this machine, so that no TLS is needed.
func Loopback(host string) bool {
	return host == "localhost" || strings.HasPrefix(host, "127.") || host == "::1"
}

func newLog(db *sql.DB, dialect Dialect) *Log {
	l := &Log{db: db, dialect: dialect, woken: make(chan struct{})}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	l.background.Go(l.listen)
	return l
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

// wake wakes the callers of Wait.
func (l *Log) wake() {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.woken)
	l.woken = make(chan struct{})
}

// pause waits for a time, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// err returns why a call may not begin.
func (l *Log) err(ctx context.Context) error {
	if l.ctx.Err() != nil {
		return storage.ErrClosed
	}
	return ctx.Err()
}

// row runs a query for one row and scans it. found is false if there is none.
func (l *Log) row(ctx context.Context, query string, arguments []any, into ...any) (found bool, err error) {
	err = l.repeat(ctx, func() error {
		return l.db.QueryRowContext(ctx, l.dialect.Rebind(query), arguments...).Scan(into...)
	})
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	return err == nil, err
}

// exec runs a statement and returns the number of rows that it changed.
func (l *Log) exec(ctx context.Context, query string, arguments ...any) (changed int64, err error) {
	err = l.repeat(ctx, func() error {
		r, err := l.db.ExecContext(ctx, l.dialect.Rebind(query), arguments...)
		if err == nil {
			changed, err = r.RowsAffected()
		}
		return err
	})
	return changed, err
}

// The times between two attempts of a statement that the database has undone, and how
// often it is repeated.
const (
	repeatMin = time.Millisecond
	repeatMax = 100 * time.Millisecond
	repeats   = 10
)

// repeat runs statements, and runs them again while the database has undone them.
func (l *Log) repeat(ctx context.Context, run func() error) error {
	if err := l.err(ctx); err != nil {
		return err
	}
	err := run()
	wait := repeatMin
	for range repeats {
		if err == nil || !l.dialect.RolledBack(err) || l.err(ctx) != nil {
			break
		}
		pause(ctx, rand.N(wait)+wait/2) // random, because others repeat theirs too
		wait = min(2*wait, repeatMax)
		err = run()
	}
	if err != nil && l.dialect.Unusable(err) { // close the idle connections
		l.db.SetMaxIdleConns(0)
		l.db.SetMaxIdleConns(connectionsMax)
	}
	return err
}

// replace runs an update of a record, if it still has the value that the caller has
// read. A node of Galera may not have that value yet, so the record is read before
// replace reports that it has another one. same reads it, and reports whether it has
// that value.
func (l *Log) replace(ctx context.Context, same func() (bool, error), query string, arguments ...any) (made bool, err error) {
	for {
		n, err := l.exec(ctx, query, arguments...)
		if err != nil || n == 1 {
			return n == 1, err
		}
		if again, err := same(); err != nil || !again {
			return false, err
		}
	}
}

// insert inserts a row, and reports whether its key was free.
func (l *Log) insert(ctx context.Context, query string, arguments ...any) (bool, error) {
	_, err := l.exec(ctx, query, arguments...)
	if err != nil && l.dialect.Duplicate(err) {
		return false, nil
	}
	return err == nil, err
}

// Cluster implements [sharedlog.Log].
func (l *Log) Cluster(ctx context.Context) (c sharedlog.Cluster, err error) {
	var id, key []byte
	found, err := l.row(ctx, "select id, epoch, format, key_fingerprint, holder_lease, read_lease, acknowledge from ostiary_cluster where one = 1", nil,
		&id, &c.Epoch, &c.Format, &key, &c.Settings.HolderLease, &c.Settings.ReadLease, &c.Settings.Acknowledge)
	if err != nil || !found {
		return sharedlog.Cluster{}, err
	}
	return c, errors.Join(fill(c.ID[:], id), fill(c.KeyFingerprint[:], key))
}

// fill copies the value of a column with a fixed length.
func fill(to, from []byte) error {
	if len(from) != len(to) {
		return fmt.Errorf("%w: a column has %d bytes, expected %d", storage.ErrDamaged, len(from), len(to))
	}
	copy(to, from)
	return nil
}

// SwapCluster implements [sharedlog.Log].
func (l *Log) SwapCluster(ctx context.Context, old, new sharedlog.Cluster) error {
	var made bool
	var err error
	if old == (sharedlog.Cluster{}) {
		made, err = l.insert(ctx, "insert into ostiary_cluster (id, epoch, format, key_fingerprint, holder_lease, read_lease, acknowledge, one) values (?, ?, ?, ?, ?, ?, ?, 1)",
			clusterColumns(&new)...)
	} else {
		same := func() (bool, error) {
			have, err := l.Cluster(ctx)
			return have == old, err
		}
		made, err = l.replace(ctx, same, `update ostiary_cluster set id = ?, epoch = ?, format = ?, key_fingerprint = ?, holder_lease = ?, read_lease = ?, acknowledge = ?
			where one = 1 and id = ? and epoch = ? and format = ? and key_fingerprint = ? and holder_lease = ? and read_lease = ? and acknowledge = ?`,
			append(clusterColumns(&new), clusterColumns(&old)...)...)
	}
	if err == nil && !made {
		err = fmt.Errorf("description of the cluster: %w", sharedlog.ErrSwap)
	}
	return err
}

// clusterColumns returns the columns of a description.
func clusterColumns(c *sharedlog.Cluster) []any {
	s := &c.Settings
	return []any{c.ID[:], int64(c.Epoch), int64(c.Format), c.KeyFingerprint[:], int64(s.HolderLease), int64(s.ReadLease), int64(s.Acknowledge)}
}

// Head implements [sharedlog.Log].
func (l *Log) Head(ctx context.Context, of sharedlog.Shard) (p sharedlog.Position, err error) {
	var hash []byte
	found, err := l.row(ctx, "select sequence, hash from ostiary_log where shard = ? order by sequence desc limit 1", []any{int64(of)}, &p.Sequence, &hash)
	if err != nil || !found {
		return sharedlog.Position{}, err
	}
	return p, fill(p.Hash[:], hash)
}

// Append implements [sharedlog.Log].
func (l *Log) Append(ctx context.Context, of sharedlog.Shard, after sharedlog.Position, record sharedlog.Record, secrets []sharedlog.SecretChange) error {
	if err := sharedlog.CheckSegment(&record); err != nil {
		return err
	}
	if err := l.err(ctx); err != nil {
		return err
	}
	if record.Sequence != after.Sequence+1 {
		return l.conflict(ctx, of)
	}
	inline, parts := record.Bytes, [][]byte(nil)
	if len(inline) > sharedlog.PartBytesMax {
		inline, parts = nil, sharedlog.Parts(record.Bytes)
		if err := l.putParts(ctx, record.Hash, parts); err != nil {
			return err
		}
	}
	statements := []Statement{{`insert into ostiary_log (shard, sequence, hash, parts, bytes)
		select ?, ?, ?, ?, ? where exists (select 1 from ostiary_log where shard = ? and sequence = ? and hash = ?)`,
		[]any{int64(of), int64(record.Sequence), record.Hash[:], len(parts), nonNil(inline), int64(of), int64(after.Sequence), after.Hash[:]}}}
	if after.Sequence == 0 {
		statements[0] = Statement{`insert into ostiary_log (shard, sequence, hash, parts, bytes)
			select ?, ?, ?, ?, ? where not exists (select 1 from ostiary_log where shard = ?)`,
			[]any{int64(of), int64(record.Sequence), record.Hash[:], len(parts), nonNil(inline), int64(of)}}
	}
	for i := range secrets {
		statements = append(statements, secretStatements(&secrets[i], of, record.Position)...)
	}
	if s := l.dialect.Appended(); s.Query != "" {
		statements = append(statements, s)
	}
	for i := range statements {
		statements[i].Query = l.dialect.Rebind(statements[i].Query)
	}
	return l.append(ctx, of, after, statements)
}

// append runs the statements of an append. A node of Galera may not have the last
// segment yet, or may not show the one that is in the place already. So the head is read
// before append reports a conflict: an append after the head is never answered with one.
func (l *Log) append(ctx context.Context, of sharedlog.Shard, after sharedlog.Position, statements []Statement) error {
	for wait := repeatMin; ; wait = min(2*wait, repeatMax) {
		var n int64
		err := l.repeat(ctx, func() (err error) {
			n, err = l.dialect.Atomic(ctx, l.db, statements)
			return err
		})
		switch {
		case err != nil && !l.dialect.Duplicate(err):
			return err
		case err == nil && n > 0:
			l.wake()
			return nil
		}
		var conflict *sharedlog.ConflictError
		if err = l.conflict(ctx, of); !errors.As(err, &conflict) || conflict.Head != after {
			return err
		}
		pause(ctx, wait)
	}
}

// restoredParts is the number of parts of a segment that is not kept: the place at which
// a log was restored.
const restoredParts = -1

// Restore implements [sharedlog.Restorer].
func (l *Log) Restore(ctx context.Context, of sharedlog.Shard, old, at sharedlog.Position, secrets []sharedlog.SecretChange) error {
	insert := func(p sharedlog.Position) Statement {
		s := Statement{"insert into ostiary_log (shard, sequence, hash, parts, bytes) select ?, ?, ?, ?, ? where",
			[]any{int64(of), int64(p.Sequence), p.Hash[:], restoredParts, []byte{}}}
		if old.Sequence > 0 {
			s.Query += " exists (select 1 from ostiary_log where shard = ? and sequence = ? and hash = ?)"
			s.Arguments = append(s.Arguments, int64(of), int64(old.Sequence), old.Hash[:])
		} else {
			s.Query += " not exists (select 1 from ostiary_log where shard = ? and sequence > 0 and parts >= 0)"
			s.Arguments = append(s.Arguments, int64(of))
		}
		return s
	}
	var statements []Statement
	if at.Sequence > old.Sequence+1 {
		// It takes the place of a segment that another node appends meanwhile.
		statements = append(statements, insert(sharedlog.Position{Sequence: old.Sequence + 1, Hash: at.Hash}))
	}
	statements = append(statements, insert(at), Statement{"delete from ostiary_log where shard = ? and sequence < ? and exists (select 1 from (select 1 from ostiary_log where shard = ? and sequence = ? and hash = ?) as restored)",
		[]any{int64(of), int64(at.Sequence), int64(of), int64(at.Sequence), at.Hash[:]}})
	const restored = " exists (select 1 from ostiary_log where shard = ? and sequence = ? and hash = ?)"
	statements = append(statements, Statement{"delete from ostiary_secret where" + restored, []any{int64(of), int64(at.Sequence), at.Hash[:]}})
	for i := range secrets {
		statements = append(statements, secretStatements(&secrets[i], of, at)...)
	}
	for i := range statements {
		statements[i].Query = l.dialect.Rebind(statements[i].Query)
	}
	var n int64
	err := l.repeat(ctx, func() (err error) {
		n, err = l.dialect.Atomic(ctx, l.db, statements)
		return err
	})
	if err != nil && l.dialect.Duplicate(err) || err == nil && n == 0 {
		return fmt.Errorf("the last segment is not %s: %w", old, sharedlog.ErrSwap)
	}
	return err
}

// nonNil returns b, as an empty value instead of null.
func nonNil(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

// conflict returns the error of an append that did not follow the last segment.
func (l *Log) conflict(ctx context.Context, of sharedlog.Shard) error {
	head, err := l.Head(ctx, of)
	if err != nil {
		return err
	}
	return &sharedlog.ConflictError{Head: head}
}

// putParts stores the parts of a large segment, which is not in the log before its row
// is.
func (l *Log) putParts(ctx context.Context, hash storage.Hash, parts [][]byte) error {
	for i, part := range parts {
		if _, err := l.insert(ctx, "insert into ostiary_part (hash, part, made, bytes) values (?, ?, "+l.dialect.Now()+", ?)", hash[:], i, part); err != nil {
			return err
		}
	}
	return nil
}

// secretName returns the name of a secret in its table, which has a fixed length.
func secretName(k *sharedlog.SecretKey) []byte {
	h := sha256.New()
	var length [8]byte
	binary.BigEndian.PutUint64(length[:], uint64(len(k.Kind)))
	h.Write(length[:])
	h.Write([]byte(k.Kind))
	h.Write([]byte(k.Key))
	return h.Sum(nil)
}

// secretStatements returns the statements of a change of a secret. They do nothing
// unless the segment was inserted.
func secretStatements(c *sharedlog.SecretChange, of sharedlog.Shard, at sharedlog.Position) []Statement {
	const inserted = " exists (select 1 from ostiary_log where shard = ? and sequence = ? and hash = ?)"
	guard := []any{int64(of), int64(at.Sequence), at.Hash[:]}
	remove := Statement{"delete from ostiary_secret where store = ? and incarnation = ?", []any{c.Store[:], c.Incarnation[:]}}
	if c.Kind != "" || !c.Removed {
		remove.Query += " and name = ?"
		remove.Arguments = append(remove.Arguments, secretName(&c.SecretKey))
	}
	remove.Query += " and" + inserted
	remove.Arguments = append(remove.Arguments, guard...)
	if c.Removed {
		return []Statement{remove}
	}
	add := Statement{"insert into ostiary_secret (store, incarnation, name, digest, body) select ?, ?, ?, ?, ? where" + inserted,
		append([]any{c.Store[:], c.Incarnation[:], secretName(&c.SecretKey), c.Digest[:], nonNil(c.Body)}, guard...)}
	return []Statement{remove, add}
}

// readRows is how many segments one query returns at most. Their memory is held while
// the caller uses them, so that no query is open meanwhile.
const readRows = 64

// segmentRow is a row of ostiary_log.
type segmentRow struct {
	sharedlog.Record
	parts int
}

// Read implements [sharedlog.Log].
func (l *Log) Read(ctx context.Context, of sharedlog.Shard, from uint64) iter.Seq2[sharedlog.Record, error] {
	return func(yield func(sharedlog.Record, error) bool) {
		from = max(from, 1)
		head, err := l.Head(ctx, of)
		for err == nil && from <= head.Sequence {
			var rows []segmentRow
			if rows, err = l.rows(ctx, of, from, head.Sequence); err != nil {
				break
			}
			for i := range rows {
				if err = l.err(ctx); err == nil {
					err = l.complete(ctx, &rows[i])
				}
				if err != nil {
					break
				}
				if !yield(rows[i].Record, nil) {
					return
				}
			}
			from += uint64(len(rows))
		}
		if err != nil {
			yield(sharedlog.Record{}, err)
		}
	}
}

// rows returns up to readRows segments without a gap, the first of which is from.
func (l *Log) rows(ctx context.Context, of sharedlog.Shard, from, to uint64) (all []segmentRow, err error) {
	err = l.query(ctx, func() { all = nil }, func(scan func(...any) error) error {
		var r segmentRow
		var hash []byte
		if err := scan(&r.Sequence, &hash, &r.parts, &r.Bytes); err != nil {
			return err
		}
		all = append(all, r)
		return fill(all[len(all)-1].Hash[:], hash)
	}, "select sequence, hash, parts, bytes from ostiary_log where shard = ? and sequence >= ? and sequence <= ? order by sequence limit ?", int64(of), int64(from), int64(to), readRows)
	if err != nil {
		return nil, err
	}
	for i := range all {
		if all[i].Sequence != from+uint64(i) {
			all = all[:i]
			break
		}
	}
	if len(all) == 0 {
		return nil, l.missing(ctx, of, from)
	}
	return all, nil
}

// query runs a query and calls each with a function that scans a row. It calls begin
// before each attempt.
func (l *Log) query(ctx context.Context, begin func(), each func(scan func(into ...any) error) error, query string, arguments ...any) error {
	return l.repeat(ctx, func() error {
		begin()
		rows, err := l.db.QueryContext(ctx, l.dialect.Rebind(query), arguments...)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			if err := each(rows.Scan); err != nil {
				return err
			}
		}
		return rows.Err()
	})
}

// missing returns why the log does not have a segment below its head.
func (l *Log) missing(ctx context.Context, of sharedlog.Shard, sequence uint64) error {
	var oldest sql.Null[uint64]
	if _, err := l.row(ctx, "select min(sequence) from ostiary_log where shard = ?", []any{int64(of)}, &oldest); err != nil {
		return err
	}
	if sequence < oldest.V {
		return fmt.Errorf("%w: segment %d of shard %d; the oldest is %d", sharedlog.ErrTrimmed, sequence, of, oldest.V)
	}
	return fmt.Errorf("%w: segment %d of shard %d is missing", storage.ErrDamaged, sequence, of)
}

// complete reads the parts of a large segment.
func (l *Log) complete(ctx context.Context, r *segmentRow) error {
	if r.parts == restoredParts {
		return fmt.Errorf("%w: segment %d: the log was restored there", sharedlog.ErrTrimmed, r.Sequence)
	}
	for i := range r.parts {
		var part []byte
		found, err := l.row(ctx, "select bytes from ostiary_part where hash = ? and part = ?", []any{r.Hash[:], i}, &part)
		if err != nil {
			return err
		}
		if !found {
			return fmt.Errorf("%w: part %d of segment %d is missing", storage.ErrDamaged, i, r.Sequence)
		}
		r.Bytes = append(r.Bytes, part...)
	}
	return nil
}

// The times between two looks at the head, while callers wait.
const (
	pollMin = 5 * time.Millisecond
	pollMax = time.Second
)

// Wait implements [sharedlog.Log].
func (l *Log) Wait(ctx context.Context, of sharedlog.Shard, after uint64) error {
	for wait := pollMin; ; wait = min(2*wait, pollMax) {
		l.mu.Lock()
		woken := l.woken
		l.mu.Unlock()
		head, err := l.Head(ctx, of)
		if err != nil || head.Sequence > after {
			return err
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-woken:
			timer.Stop()
			wait = pollMin
		case <-l.ctx.Done():
			timer.Stop()
			return storage.ErrClosed
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		}
	}
}

// staleTime is how old parts are at least that are dropped because nothing names them.
const staleTime = 24 * time.Hour

// Trim implements [sharedlog.Log].
func (l *Log) Trim(ctx context.Context, of sharedlog.Shard, below uint64) error {
	head, err := l.Head(ctx, of)
	if err != nil {
		return err
	}
	below = min(below, head.Sequence)
	var oldest sql.Null[uint64]
	if _, err := l.row(ctx, "select min(sequence) from ostiary_log where shard = ?", []any{int64(of)}, &oldest); err != nil {
		return err
	}
	for from := oldest.V; from < below; from += trimRows {
		to := min(from+trimRows, below)
		for _, query := range []string{
			"delete from ostiary_part where hash in (select hash from ostiary_log where shard = ? and sequence < ? and parts > 0)",
			"delete from ostiary_log where shard = ? and sequence < ?",
		} {
			if _, err := l.exec(ctx, query, int64(of), int64(to)); err != nil {
				return err
			}
		}
	}
	for _, query := range []string{
		"delete from ostiary_part where made < " + l.dialect.Now() + " - ? and not exists (select 1 from ostiary_log where ostiary_log.hash = ostiary_part.hash)",
		"delete from ostiary_snapshot_part where made < " + l.dialect.Now() + " - ? and attempt not in (select attempt from ostiary_snapshot)",
	} {
		if _, err := l.exec(ctx, query, staleTime.Microseconds()); err != nil {
			return err
		}
	}
	return nil
}

// trimRows is how many segments one statement drops, so that a transaction stays small:
// Galera sends it to all nodes at once.
const trimRows = 64

// Secret implements [sharedlog.Log].
func (l *Log) Secret(ctx context.Context, key sharedlog.SecretKey, digest storage.Hash) ([]byte, error) {
	var have storage.Hash
	var column, body []byte
	found, err := l.row(ctx, "select digest, body from ostiary_secret where store = ? and incarnation = ? and name = ?",
		[]any{key.Store[:], key.Incarnation[:], secretName(&key)}, &column, &body)
	if err == nil && found {
		err = fill(have[:], column)
	}
	if err == nil {
		err = sharedlog.CheckSecret(&key, digest, found, have, body)
	}
	if err != nil {
		return nil, err
	}
	return body, nil
}

// Lease implements [sharedlog.Log].
func (l *Log) Lease(ctx context.Context, of sharedlog.Shard) (lease sharedlog.Lease, err error) {
	var holder []byte
	found, err := l.row(ctx, "select holder, epoch, renewals from ostiary_lease where shard = ?", []any{int64(of)}, &holder, &lease.Epoch, &lease.Renewals)
	if err != nil || !found {
		return sharedlog.Lease{}, err
	}
	return lease, fill(lease.Holder[:], holder)
}

// SwapLease implements [sharedlog.Log].
func (l *Log) SwapLease(ctx context.Context, of sharedlog.Shard, old, new sharedlog.Lease) error {
	err := sharedlog.CheckLease(old, new)
	if err != nil {
		return err
	}
	var made bool
	if old == (sharedlog.Lease{}) {
		made, err = l.insert(ctx, "insert into ostiary_lease (shard, holder, epoch, renewals) values (?, ?, ?, ?)", int64(of), new.Holder[:], int64(new.Epoch), int64(new.Renewals))
	} else {
		same := func() (bool, error) {
			have, err := l.Lease(ctx, of)
			return have == old, err
		}
		made, err = l.replace(ctx, same, "update ostiary_lease set holder = ?, epoch = ?, renewals = ? where shard = ? and holder = ? and epoch = ? and renewals = ?",
			new.Holder[:], int64(new.Epoch), int64(new.Renewals), int64(of), old.Holder[:], int64(old.Epoch), int64(old.Renewals))
	}
	if err == nil && !made {
		err = fmt.Errorf("lease of shard %d: %w", of, sharedlog.ErrSwap)
	}
	return err
}

// Register implements [sharedlog.Log].
func (l *Log) Register(ctx context.Context, n sharedlog.Node) error {
	return l.putNode(ctx, &n, "start < ?", func(start uint64) bool { return start < n.Start }, func() (bool, error) {
		return l.insert(ctx, "insert into ostiary_node (start, address, reads_format, applied, synced, head, zone, preferred, stopped, id, seen) values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, "+l.dialect.Now()+")",
			append(nodeColumns(&n), n.ID[:])...)
	})
}

// Report implements [sharedlog.Log].
func (l *Log) Report(ctx context.Context, n sharedlog.Node) error {
	return l.putNode(ctx, &n, "start = ?", func(start uint64) bool { return start == n.Start }, func() (bool, error) { return false, nil })
}

// nodeColumns returns the columns of the record of a node, without its id and seen.
func nodeColumns(n *sharedlog.Node) []any {
	return []any{int64(n.Start), n.Address, int64(n.Reads), int64(n.Applied), int64(n.Synced), int64(n.Head), n.Zone, number(n.Preferred), number(n.Stopped)}
}

// number returns 1 for true.
func number(yes bool) int64 {
	if yes {
		return 1
	}
	return 0
}

// putNode replaces the record of a node if its start fulfills a condition, or else
// inserts it.
func (l *Log) putNode(ctx context.Context, n *sharedlog.Node, condition string, fulfills func(start uint64) bool, insert func() (bool, error)) error {
	var start uint64
	same := func() (bool, error) {
		found, err := l.row(ctx, "select start from ostiary_node where id = ?", []any{n.ID[:]}, &start)
		return found && fulfills(start), err
	}
	put, err := l.replace(ctx, same, `update ostiary_node set start = ?, address = ?, reads_format = ?, applied = ?, synced = ?, head = ?, zone = ?, preferred = ?, stopped = ?,
		seen = `+l.dialect.Now()+" where id = ? and "+condition, append(nodeColumns(n), n.ID[:], int64(n.Start))...)
	if err == nil && !put {
		put, err = insert()
	}
	if err == nil && !put {
		err = sharedlog.NodeTaken(start, n)
	}
	return err
}

// Forget implements [sharedlog.Log].
func (l *Log) Forget(ctx context.Context, id storage.NodeID) error {
	_, err := l.exec(ctx, "delete from ostiary_node where id = ?", id[:])
	return err
}

// Nodes implements [sharedlog.Log].
func (l *Log) Nodes(ctx context.Context) (all []sharedlog.Node, now time.Time, err error) {
	var micros int64
	if _, err := l.row(ctx, "select "+l.dialect.Now(), nil, &micros); err != nil {
		return nil, now, err
	}
	err = l.query(ctx, func() { all = nil }, func(scan func(...any) error) error {
		var n sharedlog.Node
		var id []byte
		var seen int64
		if err := scan(&id, &n.Start, &n.Address, &n.Reads, &n.Applied, &n.Synced, &n.Head, &n.Zone, &n.Preferred, &n.Stopped, &seen); err != nil {
			return err
		}
		n.Seen = time.UnixMicro(seen)
		all = append(all, n)
		return fill(all[len(all)-1].ID[:], id)
	}, "select id, start, address, reads_format, applied, synced, head, zone, preferred, stopped, seen from ostiary_node")
	sharedlog.SortNodes(all)
	return all, time.UnixMicro(micros), err
}

// PutSnapshot implements [sharedlog.Log].
func (l *Log) PutSnapshot(ctx context.Context, of sharedlog.Shard, at sharedlog.Position, parts iter.Seq2[[]byte, error]) error {
	var attempt [16]byte
	_, _ = crand.Read(attempt[:]) // never fails
	number := 0
	for part, err := range parts {
		if err == nil {
			err = sharedlog.CheckPart(part)
		}
		if err == nil {
			_, err = l.exec(ctx, "insert into ostiary_snapshot_part (attempt, part, made, bytes) values (?, ?, "+l.dialect.Now()+", ?)", attempt[:], number, nonNil(part))
		}
		if err != nil {
			return errors.Join(err, l.dropParts(context.WithoutCancel(ctx), attempt[:]))
		}
		number++
	}
	named, err := l.nameSnapshot(ctx, of, at, attempt[:])
	if err != nil {
		return err // whether it was named is open
	}
	if !named {
		return l.dropParts(ctx, attempt[:])
	}
	return nil // Trim drops what attempts that were interrupted have left
}

// nameSnapshot makes an attempt the snapshot of a shard, if it is newer than the one
// before, whose parts it drops.
func (l *Log) nameSnapshot(ctx context.Context, of sharedlog.Shard, at sharedlog.Position, attempt []byte) (bool, error) {
	named, err := l.insert(ctx, "insert into ostiary_snapshot (shard, sequence, hash, attempt) values (?, ?, ?, ?)", int64(of), int64(at.Sequence), at.Hash[:], attempt)
	if err != nil || named {
		return named, err
	}
	var old []byte
	if _, err := l.row(ctx, "select attempt from ostiary_snapshot where shard = ?", []any{int64(of)}, &old); err != nil {
		return false, err
	}
	n, err := l.exec(ctx, "update ostiary_snapshot set sequence = ?, hash = ?, attempt = ? where shard = ? and sequence < ?",
		int64(at.Sequence), at.Hash[:], attempt, int64(of), int64(at.Sequence))
	if err != nil || n != 1 {
		return false, err
	}
	return true, l.dropParts(ctx, old)
}

func (l *Log) dropParts(ctx context.Context, attempt []byte) error {
	_, err := l.exec(ctx, "delete from ostiary_snapshot_part where attempt = ?", attempt)
	return err
}

// Snapshot implements [sharedlog.Log].
func (l *Log) Snapshot(ctx context.Context, of sharedlog.Shard) (at sharedlog.Position, parts iter.Seq2[[]byte, error], err error) {
	var hash, attempt []byte
	found, err := l.row(ctx, "select sequence, hash, attempt from ostiary_snapshot where shard = ?", []any{int64(of)}, &at.Sequence, &hash, &attempt)
	if err == nil && !found {
		err = fmt.Errorf("shard %d: %w", of, sharedlog.ErrNoSnapshot)
	}
	if err == nil {
		err = fill(at.Hash[:], hash)
	}
	if err != nil {
		return sharedlog.Position{}, nil, err
	}
	return at, func(yield func([]byte, error) bool) {
		for number := 0; ; number++ {
			var part []byte
			found, err := l.row(ctx, "select bytes from ostiary_snapshot_part where attempt = ? and part = ?", []any{attempt, number}, &part)
			if err == nil && !found {
				err = l.stillNamed(ctx, of, attempt)
				if err == nil {
					return
				}
			}
			if err != nil {
				yield(nil, err)
				return
			}
			if !yield(part, nil) {
				return
			}
		}
	}, nil
}

// stillNamed fails with ErrNoSnapshot if a snapshot was replaced while it was read.
func (l *Log) stillNamed(ctx context.Context, of sharedlog.Shard, attempt []byte) error {
	var now []byte
	found, err := l.row(ctx, "select attempt from ostiary_snapshot where shard = ?", []any{int64(of)}, &now)
	if err == nil && (!found || !slices.Equal(now, attempt)) {
		err = fmt.Errorf("shard %d: %w: it was replaced while it was read", of, sharedlog.ErrNoSnapshot)
	}
	return err
}

// Close implements [sharedlog.Log].
func (l *Log) Close() error {
	l.closing.Do(func() {
		l.cancel()
		l.background.Wait()
		l.closeErr = l.db.Close()
	})
	return l.closeErr
}
