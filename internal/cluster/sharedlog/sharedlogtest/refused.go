package sharedlogtest

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"

	"github.com/ostiary/ostiary/internal/cluster/sqllog"
	"github.com/ostiary/ostiary/storage"
)

// SQL opens the log in the database of a URL.
type SQL func(ctx context.Context, url string) (*sqllog.Log, error)

// Refuses requires that a log cannot be opened, with an error that has texts, and not the
// password hunter2. It returns the error.
func (open SQL) Refuses(t *testing.T, url string, texts ...string) error {
	t.Helper()
	l, err := open(t.Context(), url)
	if err == nil {
		l.Close()
		t.Fatalf("%s: opened, expected an error with %q", url, texts)
	}
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("error %q, expected %q", err, text)
		}
	}
	if strings.Contains(err.Error(), "hunter2") {
		t.Errorf("the error has the password: %v", err)
	}
	return err
}

// opens requires that a log can be opened.
func (open SQL) opens(t *testing.T, url string) {
	t.Helper()
	l, err := open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
}

// Rights opens a log as a user that lacks rights. some gives the user the right to read
// all tables, and to insert into ostiary_log and update it; all gives it all rights.
func (open SQL) Rights(t *testing.T, url, user string, some, all func()) {
	t.Helper()
	open.opens(t, url)
	some()
	err := open.Refuses(t, user, "lacks rights", "DELETE on ostiary_log", "INSERT on ostiary_secret", "UPDATE on ostiary_lease")
	if strings.Contains(err.Error(), "INSERT on ostiary_log") {
		t.Errorf("the error names a right that the user has: %v", err)
	}
	all()
	open.opens(t, user)
}

// Newer opens a log whose tables a newer version has changed. exec runs a statement there.
func (open SQL) Newer(t *testing.T, url string, exec func(statement string)) {
	t.Helper()
	exec("insert into ostiary_migrations (version_id, is_applied) values (99, true)")
	if err := open.Refuses(t, url, "version 99"); !errors.Is(err, storage.ErrFormat) {
		t.Errorf("error %v, expected storage.ErrFormat", err)
	}
}

// UsedUp opens a log on a server whose connections others use, those of db, and reads one
// that was opened before. text is that of the error.
func (open SQL) UsedUp(t *testing.T, url string, db *sql.DB, text string) {
	t.Helper()
	l, err := open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if _, err := l.Head(t.Context()); err != nil {
		t.Fatal(err)
	}
	for err == nil { // until the server refuses
		_, err = db.Conn(t.Context())
	}
	open.Refuses(t, url, text)
	if _, err := l.Head(t.Context()); err != nil {
		t.Errorf("a log that was open before: %v", err)
	}
}
