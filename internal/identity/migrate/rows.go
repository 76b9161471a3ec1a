package migrate

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/ostiary/ostiary/internal/identity"
)

// Dialect is the kind of a database.
type Dialect string

// The dialects.
const (
	MySQL    Dialect = "mysql" // MySQL and MariaDB; the connection must return times as time.Time in UTC
	Postgres Dialect = "postgres"
)

// reader reads a database in one transaction. Only one query can be open at a time.
type reader struct {
	dialect Dialect
	tx      *sql.Tx
	tables  map[string]bool // names of the tables of the database
}

// begin opens the transaction on one connection.
func begin(ctx context.Context, db *sql.DB, dialect Dialect) (r *reader, end func(), err error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, nil, err
	}
	end = func() { conn.Close() } // nothing is written
	if dialect == MySQL {
		// Names such as "user" and "limit" are quoted as PostgreSQL quotes them.
		if _, err := conn.ExecContext(ctx, "SET SESSION sql_mode = 'ANSI_QUOTES'"); err != nil {
			end()
			return nil, nil, err
		}
	}
	tx, err := conn.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true})
	if err != nil {
		end()
		return nil, nil, err
	}
	r = &reader{dialect: dialect, tx: tx, tables: map[string]bool{}}
	closeConn := end
	end = func() { tx.Rollback(); closeConn() }
	if err := r.listTables(ctx); err != nil {
		end()
		return nil, nil, err
	}
	return r, end, nil
}

// listTables reads the names of the tables, and fails if they are not Keystone's.
func (r *reader) listTables(ctx context.Context) error {
	schema := "DATABASE()"
	if r.dialect == Postgres {
		schema = "ANY (current_schemas(false))"
	}
	err := r.each(ctx, "SELECT table_name AS name FROM information_schema.tables WHERE table_schema = "+schema, func(x row) error {
		r.tables[x.text("name")] = true
		return nil
	})
	if err == nil && (!r.tables["local_user"] || !r.tables["assignment"]) {
		err = fmt.Errorf("the database is not Keystone's: expected the tables local_user and assignment, found %d other tables", len(r.tables))
	}
	return err
}

// count returns the number of rows of a table that a condition selects.
func (r *reader) count(ctx context.Context, table string) (n int, err error) {
	err = r.tx.QueryRowContext(ctx, "SELECT count(*) FROM "+table).Scan(&n)
	return n, err
}

// row is a row of a result. Its values are text, whatever their types are.
type row struct {
	columns map[string]int
	values  []sql.NullString
}

// each calls f for each row of a query.
func (r *reader) each(ctx context.Context, query string, f func(row) error) error {
	rows, err := r.tx.QueryContext(ctx, query)
	if err != nil {
		return err
	}
	defer rows.Close()
	names, err := rows.Columns()
	if err != nil {
		return err
	}
	columns := map[string]int{}
	for i, name := range names {
		columns[strings.ToLower(name)] = i
	}
	for rows.Next() {
		x := row{columns, make([]sql.NullString, len(names))}
		targets := make([]any, len(names))
		for i := range targets {
			targets[i] = &x.values[i]
		}
		if err := rows.Scan(targets...); err != nil {
			return err
		}
		if err := f(x); err != nil {
			return err
		}
	}
	return rows.Err()
}

// group calls f for each group of successive rows with the same id. A group has
// the rows of one record, which a join repeats.
func (r *reader) group(ctx context.Context, query string, f func([]row) error) error {
	var same []row
	err := r.each(ctx, query, func(x row) error {
		if len(same) > 0 && same[0].text("id") != x.text("id") {
			if err := f(same); err != nil {
				return err
			}
			same = same[:0]
		}
		if len(same) >= GroupMax {
			return fmt.Errorf("the record %.64q has more than %d options, tags, passwords and roles (GroupMax)", x.text("id"), GroupMax)
		}
		same = append(same, x)
		return nil
	})
	if err == nil && len(same) > 0 {
		err = f(same)
	}
	return err
}

// GroupMax bounds the rows of one record.
const GroupMax = 100_000

// null returns whether a column is NULL.
func (x row) null(column string) bool { return !x.values[x.columns[column]].Valid }

// text returns a column, and "" for NULL.
func (x row) text(column string) string { return x.values[x.columns[column]].String }

// yes returns whether a boolean column is true.
func (x row) yes(column string) bool {
	v := x.text(column)
	return v == "1" || v == "true" || v == "t"
}

// number returns a column that is a whole number, and 0 for NULL.
func (x row) number(column string) int64 {
	n, _ := strconv.ParseInt(x.text(column), 10, 64) // the column's type is an integer
	return n
}

// micros returns a column that is a time in microseconds, or nil for NULL.
func (x row) micros(column string) *time.Time {
	if x.null(column) {
		return nil
	}
	t := time.UnixMicro(x.number(column)).UTC()
	return &t
}

// time returns a column that is a time in UTC. It fails if the column has another
// form than RFC 3339, for example because it is NULL.
func (x row) time(column string) (time.Time, error) {
	t, err := time.Parse(time.RFC3339Nano, x.text(column))
	if err != nil {
		return t, invalid(column, fmt.Sprintf("invalid time %.64q: expected RFC 3339, for example 2026-01-02T15:04:05Z", x.text(column)))
	}
	return t.UTC(), nil
}

// timeOrZero is like time, but returns the zero time for NULL.
func (x row) timeOrZero(column string) (time.Time, error) {
	if x.null(column) {
		return time.Time{}, nil
	}
	return x.time(column)
}

// invalid returns the error of a column that cannot be read.
func invalid(column, text string) error {
	return &identity.Error{Reason: identity.Invalid, Field: column, Text: "column " + column + ": " + text}
}

// extra returns the members of the column "extra", a JSON object, without those
// that other columns hold.
func (x row) extra(others ...string) (identity.Members, error) {
	text := x.text("extra")
	if text == "" || text == "null" {
		return nil, nil
	}
	m, err := identity.ParseMembers([]byte(text))
	if err != nil {
		return nil, invalid("extra", err.Error())
	}
	return m.Without(append(others, "id", "links")...), nil
}

// with sets a member to the text of a column, unless that is NULL.
func (x row) with(m identity.Members, member, column string) identity.Members {
	if x.null(column) {
		return m
	}
	return m.With(member, x.text(column))
}

// distinct returns the values of a column that are not NULL or empty, each once.
func distinct(rows []row, column string) (values []string) {
	seen := map[string]bool{}
	for _, x := range rows {
		if v := x.text(column); v != "" && !seen[v] {
			seen[v] = true
			values = append(values, v)
		}
	}
	return values
}

// resourceOptions returns the resource options of the rows of a record, as an
// object. It reports options that are not in names, and those that are not JSON.
func (m *migration) resourceOptions(rows []row, names map[string]string) identity.Members {
	all, seen := identity.Members{}, map[string]bool{}
	for _, x := range rows {
		id, value := x.text("option_id"), x.text("option_value")
		if id == "" || seen[id] {
			continue
		}
		seen[id] = true
		switch name, known := names[id]; {
		case !known:
			m.incomplete(x.text("id"), fmt.Errorf("option %.64q is left out: it is not known", id))
		case !json.Valid([]byte(value)):
			m.incomplete(x.text("id"), fmt.Errorf("option %s is left out: expected JSON, got %.64q", name, value))
		default:
			all = all.With(name, json.RawMessage(value))
		}
	}
	return all
}
