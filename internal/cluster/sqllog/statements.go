package sqllog

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/ostiary/ostiary/internal/trail/traces"
	"github.com/ostiary/ostiary/storage"
)

// pause waits for a time, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// pool are connections to the database.
type pool struct {
	db      *sql.DB
	dialect Dialect
	max     int             // number of connections
	ctx     context.Context // ends with Close
	late    chan struct{}   // gets an element when a call has ended before its statement
	answer  time.Duration   // answerTime, except in tests
}

// answerTime bounds how long a statement waits for the next thing that the server sends.
// Calls without an end would wait for ever for a server that hangs, or for a pooler that
// waits for one that is gone, although another server has taken over.
const answerTime = 30 * time.Second

// errSilent means that the outcome of a statement is open.
var errSilent = errors.New("the database does not answer")

// bounded runs a statement until the server sends nothing for answerTime: run calls
// answered when it has sent something.
func (p *pool) bounded(ctx context.Context, run func(ctx context.Context, answered func()) error) error {
	bound, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	timer := time.AfterFunc(p.answer, func() { cancel(errSilent) })
	defer timer.Stop()
	err := run(bound, func() { timer.Reset(p.answer) })
	if err != nil && ctx.Err() == nil && context.Cause(bound) == errSilent {
		return fmt.Errorf("%w: it has sent nothing for %s", errSilent, p.answer)
	}
	return err
}

func newPool(ctx context.Context, db *sql.DB, dialect Dialect, max int) *pool {
	db.SetMaxOpenConns(max)
	db.SetMaxIdleConns(max)
	return &pool{db, dialect, max, ctx, make(chan struct{}, 1), answerTime}
}

// err returns why a call may not begin.
func (p *pool) err(ctx context.Context) error {
	if p.ctx.Err() != nil {
		return storage.ErrClosed
	}
	return ctx.Err()
}

// errReplica means that a server cannot tell what the log has.
var errReplica = errors.New("the server is a read-only replica or was made read-only, expected the primary")

// row runs a query for one row and scans it. found is false if there is none. It fails with
// errReplica if the server that has answered is not the primary: another one may answer than
// the one that was connected to, after a fail-over or through a pooler.
func (p *pool) row(ctx context.Context, query string, arguments []any, into ...any) (found bool, err error) {
	query = "select " + p.dialect.Primary() + ", own.* from (select 1 as one) as always left join (" +
		strings.Replace(query, "select ", "select 1 as found, ", 1) + ") as own on true"
	err = p.repeat(ctx, func() error {
		return p.scan(ctx, p.db, func(scan func(...any) error) error {
			var primary bool
			var has sql.Null[int64]
			columns := []any{&primary, &has}
			for range into { // they are null if there is no row
				columns = append(columns, new(any))
			}
			if err := scan(columns...); err != nil {
				return err
			}
			if !primary {
				return errReplica
			}
			if found = has.Valid; !found {
				return nil
			}
			return scan(append([]any{new(any), new(any)}, into...)...)
		}, query, arguments...)
	})
	return found && err == nil, err
}

// scanned returns the outcome of the scan of a row: found is false if there was none.
func scanned(err error) (found bool, _ error) {
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	return err == nil, err
}

// begin begins the part of a traced request that waits for the database. A statement has
// placeholders, and so no content; its arguments are left out. The caller calls end.
func (p *pool) begin(ctx context.Context, query string) (_ context.Context, end func(error)) {
	ctx, part := traces.Start(ctx, "sql", traces.Client)
	if part == nil {
		return ctx, func(error) {}
	}
	part.Set("db.system.name", p.dialect.System())
	part.Set("db.query.text", query)
	return ctx, func(err error) {
		if err != nil {
			part.Fail("_OTHER", err)
		}
		part.End()
	}
}

// exec runs a statement and returns the number of rows that it changed.
func (p *pool) exec(ctx context.Context, query string, arguments ...any) (changed int64, err error) {
	ctx, end := p.begin(ctx, query)
	defer func() { end(err) }()
	err = p.repeat(ctx, func() error {
		return p.bounded(ctx, func(ctx context.Context, _ func()) error {
			r, err := p.db.ExecContext(ctx, p.dialect.Rebind(query), arguments...)
			if err == nil {
				changed, err = r.RowsAffected()
			}
			return err
		})
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
func (p *pool) repeat(ctx context.Context, run func() error) error {
	if err := p.err(ctx); err != nil {
		return err
	}
	err := run()
	wait := repeatMin
	for range repeats {
		if err == nil || !p.dialect.RolledBack(err) || p.err(ctx) != nil {
			break
		}
		pause(ctx, rand.N(wait)+wait/2) // random, because others repeat theirs too
		wait = min(2*wait, repeatMax)
		err = run()
	}
	if errors.Is(err, errReplica) || err != nil && p.dialect.Unusable(err) { // close the idle connections
		p.db.SetMaxIdleConns(0)
		p.db.SetMaxIdleConns(p.max)
	}
	if err != nil && ctx.Err() != nil {
		select {
		case p.late <- struct{}{}:
		default:
		}
	}
	return err
}

// query runs a query and calls each with a function that scans a row. It calls begin
// before each attempt.
func (p *pool) query(ctx context.Context, begin func(), each func(scan func(into ...any) error) error, query string, arguments ...any) error {
	return p.repeat(ctx, func() error {
		begin()
		return p.scan(ctx, p.db, each, query, arguments...)
	})
}

// scan runs a query once, and calls each with a function that scans a row.
func (p *pool) scan(ctx context.Context, db *sql.DB, each func(scan func(into ...any) error) error, query string, arguments ...any) (err error) {
	ctx, end := p.begin(ctx, query)
	defer func() { end(err) }()
	return p.bounded(ctx, func(ctx context.Context, answered func()) error {
		rows, err := db.QueryContext(ctx, p.dialect.Rebind(query), arguments...)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			answered()
			if err := each(rows.Scan); err != nil {
				return err
			}
		}
		return rows.Err()
	})
}

// rebind gives statements the placeholders of the database, and returns them.
func (p *pool) rebind(statements []Statement) []Statement {
	for i := range statements {
		statements[i].Query = p.dialect.Rebind(statements[i].Query)
	}
	return statements
}

// atomic runs statements of rebind in one transaction, see [Dialect], and returns the
// number of rows that the first one changed.
func (p *pool) atomic(ctx context.Context, statements []Statement) (changed int64, err error) {
	ctx, end := p.begin(ctx, statements[0].Query)
	defer func() { end(err) }()
	err = p.repeat(ctx, func() (err error) {
		changed, err = p.dialect.Atomic(ctx, p.db, statements)
		return err
	})
	return changed, err
}

// replace runs an update of a record, if it still has the value that the caller has
// read. A node of Galera may not have that value yet, so the record is read before
// replace reports that it has another one. same reads it, and reports whether it has
// that value.
func (p *pool) replace(ctx context.Context, same func() (bool, error), query string, arguments ...any) (made bool, err error) {
	for {
		n, err := p.exec(ctx, query, arguments...)
		if err != nil || n == 1 {
			return n == 1, err
		}
		if again, err := same(); err != nil || !again {
			return false, err
		}
	}
}

// insert inserts a row, and reports whether its key was free.
func (p *pool) insert(ctx context.Context, query string, arguments ...any) (bool, error) {
	_, err := p.exec(ctx, query, arguments...)
	if err != nil && p.dialect.Duplicate(err) {
		return false, nil
	}
	return err == nil, err
}

// fill copies the value of a column with a fixed length.
func fill(to, from []byte) error {
	if len(from) != len(to) {
		return fmt.Errorf("%w: a column has %d bytes, expected %d", storage.ErrDamaged, len(from), len(to))
	}
	copy(to, from)
	return nil
}

// nonNil returns b, as an empty value instead of null.
func nonNil(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

// number returns 1 for true.
func number(yes bool) int64 {
	if yes {
		return 1
	}
	return 0
}
