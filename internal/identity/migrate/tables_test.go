package migrate_test

import (
	"bytes"
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
)

// tables is a database whose queries have given results. It does not run SQL: the
// rows of a query are those of the file with the name of its first table, which are
// JSON objects by columns. Real databases run the queries in conformance/keystone.
type tables struct {
	rows map[string][]map[string]any // by the name of the first table
	// more is added to the counts of all tables.
	more int
	// after is how many queries succeed before all fail with errLost; negative means
	// all of them.
	after int
	// used are the columns that queries asked for, by table.
	used map[string]map[string]bool
}

// errLost is the error of a lost connection.
var errLost = errors.New("the connection is lost")

// open returns the database of the files of a script.
func open(t *testing.T, files []txtar.File) (*tables, *sql.DB) {
	t.Helper()
	x := &tables{rows: map[string][]map[string]any{}, after: -1, used: map[string]map[string]bool{}}
	for _, f := range files {
		if strings.HasPrefix(f.Name, "want") {
			continue
		}
		x.rows[f.Name] = nil
		for line := range bytes.Lines(f.Data) {
			dec := json.NewDecoder(bytes.NewReader(line))
			dec.UseNumber()
			var values map[string]any
			if err := dec.Decode(&values); err != nil {
				t.Fatalf("%s: %v in %s", f.Name, err, line)
			}
			x.rows[f.Name] = append(x.rows[f.Name], values)
		}
	}
	db := sql.OpenDB(x)
	t.Cleanup(func() { db.Close() })
	return x, db
}

func (x *tables) Connect(context.Context) (driver.Conn, error) { return conn{x}, nil }
func (x *tables) Driver() driver.Driver                        { return nil }

type conn struct{ *tables }

func (c conn) Prepare(query string) (driver.Stmt, error) {
	return nil, fmt.Errorf("prepare of %s", query)
}
func (c conn) Close() error              { return nil }
func (c conn) Begin() (driver.Tx, error) { return nil, errors.New("a transaction without options") }
func (c conn) Commit() error             { return errors.New("nothing must be written") }
func (c conn) Rollback() error           { return nil }

func (c conn) BeginTx(_ context.Context, o driver.TxOptions) (driver.Tx, error) {
	if !o.ReadOnly || sql.IsolationLevel(o.Isolation) != sql.LevelRepeatableRead {
		return nil, fmt.Errorf("transaction with options %+v", o)
	}
	return c, nil
}

func (c conn) ExecContext(_ context.Context, query string, _ []driver.NamedValue) (driver.Result, error) {
	if query != "SET SESSION sql_mode = 'ANSI_QUOTES'" {
		return nil, fmt.Errorf("unexpected statement %s", query)
	}
	return driver.RowsAffected(0), nil
}

// selection reads the columns and the first table of a query.
var (
	selection = regexp.MustCompile(`(?s)^SELECT (.*?) FROM \(?(?:SELECT \w+ FROM )?("(?:[^"]|"")+"|\w+(?:\.\w+)?)(.*)$`)
	column    = regexp.MustCompile(`(?:AS |\.|^|\s)"?(\w+)"?$`)
)

func (c conn) QueryContext(_ context.Context, query string, _ []driver.NamedValue) (driver.Rows, error) {
	if c.after == 0 {
		return nil, errLost
	}
	c.after--
	part := selection.FindStringSubmatch(query)
	if part == nil {
		return nil, fmt.Errorf("unexpected query %s", query)
	}
	table, condition := part[2], part[3]
	if name, quoted := strings.CutPrefix(table, `"`); quoted {
		table = strings.ReplaceAll(strings.TrimSuffix(name, `"`), `""`, `"`)
	}
	if table == "information_schema.tables" {
		r := &result{names: []string{"name"}}
		for name := range c.rows {
			r.rows = append(r.rows, []driver.Value{name})
		}
		return r, nil
	}
	rows := c.rows[table]
	switch table {
	case "project":
		rows = projectsWhere(rows, condition)
	case "trust":
		rows = where(rows, func(r map[string]any) bool {
			return (r["deleted_at"] == nil) == !strings.Contains(condition, "IS NOT NULL")
		})
	}
	if part[1] == "count(*)" {
		return &result{names: []string{"count"}, rows: [][]driver.Value{{int64(records(rows) + c.more)}}}, nil
	}
	return c.result(table, part[1], rows), nil
}

// projectsWhere applies the conditions that select domains or projects.
func projectsWhere(rows []map[string]any, condition string) []map[string]any {
	domains := !strings.Contains(condition, "NOT ")
	return where(rows, func(r map[string]any) bool {
		return (r["is_domain"] == true) == domains && r["id"] != "<<keystone.domain.root>>"
	})
}

func where(rows []map[string]any, selected func(map[string]any) bool) (some []map[string]any) {
	for _, r := range rows {
		if selected(r) {
			some = append(some, r)
		}
	}
	return some
}

// records counts the records that rows belong to.
func records(rows []map[string]any) (n int) {
	seen := map[any]bool{}
	for i, r := range rows {
		id, named := r["id"]
		if !named {
			id = i
		}
		if !seen[id] {
			seen[id] = true
			n++
		}
	}
	return n
}

func (c conn) result(table, columns string, rows []map[string]any) *result {
	r := &result{}
	if c.used[table] == nil {
		c.used[table] = map[string]bool{}
	}
	for part := range strings.SplitSeq(columns, ",") {
		name := column.FindStringSubmatch(strings.TrimSpace(part))[1]
		c.used[table][name] = true
		r.names = append(r.names, name)
	}
	for _, values := range rows {
		var out []driver.Value
		for _, name := range r.names {
			switch v := values[name].(type) {
			case json.Number:
				n, _ := v.Int64()
				out = append(out, n)
			default:
				out = append(out, v)
			}
		}
		r.rows = append(r.rows, out)
	}
	return r
}

// unused returns the columns of the files that no query asked for.
func (x *tables) unused() (names []string) {
	for table, rows := range x.rows {
		for _, r := range rows {
			for name := range r {
				if x.used[table] != nil && !x.used[table][name] && name != "deleted_at" {
					names = append(names, table+"."+name)
				}
			}
		}
	}
	return names
}

type result struct {
	names []string
	rows  [][]driver.Value
}

func (r *result) Columns() []string { return r.names }
func (r *result) Close() error      { return nil }
func (r *result) Next(to []driver.Value) error {
	if len(r.rows) == 0 {
		return io.EOF
	}
	copy(to, r.rows[0])
	r.rows = r.rows[1:]
	return nil
}
