package postgres_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/ostiary/ostiary/internal/cluster/postgres"
	"github.com/ostiary/ostiary/internal/workshop/databases"
)

// TestWaitForLost announces a segment that the log does not have: a fail-over has lost it,
// or another user of the database has sent the announcement. Waiting for it must not
// return again and again.
func TestWaitForLost(t *testing.T) {
	t.Parallel()
	url := databases.PostgreSQL(t).Database()
	log, err := postgres.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { log.Close() })
	db, err := sql.Open("pgx", url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	var schema string
	if err := db.QueryRow("select current_schema()").Scan(&schema); err != nil {
		t.Fatal(err)
	}
	announce, stop := context.WithCancel(t.Context())
	announced := make(chan error, 1)
	go func() { // until the log listens
		for announce.Err() == nil {
			if _, err := db.Exec("select pg_notify('ostiary_log', $1)", fmt.Sprint("0 1000 ", schema)); err != nil {
				announced <- err
				return
			}
			time.Sleep(5 * time.Millisecond)
		}
		announced <- nil
	}()
	err = log.Wait(t.Context(), 0)
	stop()
	if err := errors.Join(err, <-announced); err != nil {
		t.Fatal(err)
	}
	const times = 1000 // more than were announced meanwhile
	for range times {
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		err = log.Wait(ctx, 0)
		cancel()
		if err != nil {
			break
		}
	}
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the log is empty, and Wait has returned %d times: %v, expected that it waits", times, err)
	}
}
