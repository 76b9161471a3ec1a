package sqllog

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

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

// err returns why a call may not begin.
func (l *Log) err(ctx context.Context) error {
	if l.ctx.Err() != nil {
		return storage.ErrClosed
	}
	return ctx.Err()
}

// row runs a query for one row and scans it. found is false if there is none.
func (l *Log) row(ctx context.Context, query string, arguments []any, into ...any) (found bool, err error) {
	return scanned(l.repeat(ctx, func() error {
		return l.db.QueryRowContext(ctx, l.dialect.Rebind(query), arguments...).Scan(into...)
	}))
}

// scanned returns the outcome of the scan of a row: found is false if there was none.
func scanned(err error) (found bool, _ error) {
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

// query runs a query and calls each with a function that scans a row. It calls begin
// before each attempt.
func (l *Log) query(ctx context.Context, begin func(), each func(scan func(into ...any) error) error, query string, arguments ...any) error {
	return l.repeat(ctx, func() error {
		begin()
		return l.scan(ctx, l.db, each, query, arguments...)
	})
}

// scan runs a query once, and calls each with a function that scans a row.
func (l *Log) scan(ctx context.Context, db *sql.DB, each func(scan func(into ...any) error) error, query string, arguments ...any) error {
	rows, err := db.QueryContext(ctx, l.dialect.Rebind(query), arguments...)
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
}

// rebind gives statements the placeholders of the database, and returns them.
func (l *Log) rebind(statements []Statement) []Statement {
	for i := range statements {
		statements[i].Query = l.dialect.Rebind(statements[i].Query)
	}
	return statements
}

// atomic runs statements of rebind in one transaction, see [Dialect], and returns the
// number of rows that the first one changed.
func (l *Log) atomic(ctx context.Context, statements []Statement) (changed int64, err error) {
	err = l.repeat(ctx, func() (err error) {
		changed, err = l.dialect.Atomic(ctx, l.db, statements)
		return err
	})
	return changed, err
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
