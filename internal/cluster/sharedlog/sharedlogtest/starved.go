package sharedlogtest

import (
	"context"
	"database/sql"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/ostiary/ostiary/internal/cluster/sharedlog"
	"github.com/ostiary/ostiary/internal/workshop/wait"
	"github.com/ostiary/ostiary/storage"
)

// Starved requires that the lease is renewed while other calls wait for all connections of
// a log. db is the database of the log with its own driver, and lock are statements after
// which no other connection reads ostiary_secret, until the connection ends.
func Starved(t *testing.T, l sharedlog.Log, db *sql.DB, lock ...string) {
	t.Helper()
	locked, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, statement := range lock {
		if _, err := locked.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	var readers sync.WaitGroup
	for range 100 {
		readers.Go(func() {
			key := sharedlog.SecretKey{Store: storage.StoreID{1}, Kind: "k", Key: "k"}
			if _, err := l.Secret(ctx, key, storage.Hash{}); !errors.Is(err, context.Canceled) {
				t.Errorf("a secret in a table that is locked: error %v", err)
			}
		})
	}
	wait.Until(t, "the connections are used up", func() bool {
		short, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
		defer cancel()
		_, err := l.Head(short)
		return err != nil
	})
	var lease sharedlog.Lease
	for n := range uint64(3) {
		next := sharedlog.Lease{Holder: storage.NodeID{1}, Epoch: 1, Renewals: n + 1}
		bound, cancel := context.WithTimeout(ctx, time.Minute)
		err := l.SwapLease(bound, lease, next)
		if err == nil {
			lease, err = l.Lease(bound)
		}
		cancel()
		if err != nil || lease != next {
			t.Errorf("the lease is %+v, error %v, expected %+v", lease, err, next)
			break
		}
	}
	stop()
	readers.Wait()
	locked.Close()
}

// Far requires that the lease can be renewed although it takes longer to connect than a
// renewal may take.
func (open SQL) Far(t *testing.T, url string) {
	t.Helper()
	way, l := open.through(t, url)
	way.Delay(200 * time.Millisecond)
	var lease sharedlog.Lease
	wait.Until(t, "the lease is renewed", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		err := l.SwapLease(ctx, lease, sharedlog.Lease{Holder: storage.NodeID{1}, Epoch: 1, Renewals: 1})
		return err == nil || errors.Is(err, sharedlog.ErrSwap) // an attempt before has made it
	})
}
