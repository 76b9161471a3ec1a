package sharedlogtest

import (
	"database/sql"
	"testing"

	"github.com/ostiary/ostiary/internal/cluster/sharedlog"
	"github.com/ostiary/ostiary/internal/cluster/sqllog"
)

// Run runs the suite, and damages the log through a connection of its own. database makes a
// new database and returns its URL, and raw opens it with the database's own driver.
// placeholders are those of three arguments.
func (open SQL) Run(t *testing.T, database func() string, raw func(url string) (*sql.DB, error), placeholders [3]string) {
	Run(t, func(t *testing.T) Opener {
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

// connection implements [Corrupter].
type connection struct {
	*sqllog.Log
	t            *testing.T
	db           *sql.DB
	placeholders [3]string
}

// Corrupt implements [Corrupter], for segments of one part.
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
