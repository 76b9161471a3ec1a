// Package sqllogtest runs the suite of shared logs on a log of package sqllog, which it
// damages through a connection of its own. Only tests use it.
package sqllogtest

import (
	"database/sql"
	"testing"

	"github.com/ostiary/ostiary/internal/cluster/sharedlog"
	"github.com/ostiary/ostiary/internal/cluster/sharedlog/sharedlogtest"
	"github.com/ostiary/ostiary/internal/cluster/sqllog"
)

// Run runs the suite. database makes a new database and returns its URL, open opens a
// log in it, and raw opens it with the database's own driver. placeholders are those of
// three arguments.
func Run(t *testing.T, database func() string, open Open, raw func(url string) (*sql.DB, error), placeholders [3]string) {
	sharedlogtest.Run(t, func(t *testing.T) sharedlogtest.Opener {
		url := database()
		db, err := raw(url)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = db.Close() })
		return func() (sharedlog.Log, error) {
			l, err := open(t.Context(), url)
			return &connection{l, t, db, placeholders}, err
		}
	})
}

// connection implements sharedlogtest.Corrupter.
type connection struct {
	*sqllog.Log
	t            *testing.T
	db           *sql.DB
	placeholders [3]string
}

// Corrupt implements sharedlogtest.Corrupter, for segments of one part.
func (c *connection) Corrupt(sequence uint64, change func([]byte) []byte) {
	p := c.placeholders
	var b []byte
	err := c.db.QueryRow("select bytes from ostiary_log where shard = 0 and sequence = "+p[0], int64(sequence)).Scan(&b)
	if err == nil {
		_, err = c.db.Exec("update ostiary_log set bytes = "+p[0]+" where shard = 0 and sequence = "+p[1], change(b), int64(sequence))
	}
	if err != nil {
		c.t.Error(err)
	}
}
