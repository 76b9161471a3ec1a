package mysql

import (
	"database/sql"
	"fmt"
	"net/url"
	"testing"
	"time"

	"github.com/ostiary/ostiary/internal/workshop/databases"
)

// TestNow asks a server for the time in the hour that comes twice when daylight saving time
// ends.
func TestNow(t *testing.T) {
	if _, err := time.LoadLocation("Europe/Berlin"); err != nil {
		t.Skip(err)
	}
	t.Setenv("TZ", "Europe/Berlin") // of the server
	u, err := url.Parse(databases.MariaDB(t).Database())
	if err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("mysql", "root@tcp("+u.Host+")"+u.Path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, at := range []time.Time{time.Date(2026, 10, 25, 0, 30, 0, 0, time.UTC), time.Date(2026, 10, 25, 1, 30, 0, 0, time.UTC)} {
		var micros int64
		var local string
		query := "select " + dialect{}.Now() + ", cast(now() as char)"
		conn, err := db.Conn(t.Context())
		if err == nil {
			_, err = conn.ExecContext(t.Context(), fmt.Sprint("set timestamp = ", at.Unix()))
		}
		if err == nil {
			err = conn.QueryRowContext(t.Context(), query).Scan(&micros, &local)
		}
		if err != nil {
			t.Fatal(err)
		}
		conn.Close()
		if local[11:13] != "02" {
			t.Fatalf("at %s the server has the time %s, expected 2 o'clock", at, local)
		}
		if got := time.UnixMicro(micros).UTC(); !got.Equal(at) {
			t.Errorf("the time is %s, expected %s", got, at)
		}
	}
}
