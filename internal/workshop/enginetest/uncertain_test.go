package enginetest

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/internal/cluster/clustertest"
	"github.com/ostiary/ostiary/internal/cluster/replica"
	"github.com/ostiary/ostiary/internal/cluster/sharedlog"
	"github.com/ostiary/ostiary/internal/cluster/sharedlog/memorylog"
	"github.com/ostiary/ostiary/internal/workshop/wait"
	"github.com/ostiary/ostiary/storage"
	"github.com/ostiary/ostiary/storage/kv"
	"github.com/ostiary/ostiary/storage/memory"
)

// lossyLog is a connection to a shared log that loses answers of appends while lossy
// is set, and all requests while down is set.
type lossyLog struct {
	sharedlog.Log
	lossy, down atomic.Bool
}

func (l *lossyLog) Append(ctx context.Context, after sharedlog.Position, record sharedlog.Record, secrets []sharedlog.SecretChange) error {
	lost := errors.New("the connection was lost")
	if l.down.Load() {
		return lost
	}
	err := l.Log.Append(ctx, after, record, secrets)
	if l.lossy.Load() {
		l.down.Store(true)
		return lost
	}
	return err
}

// openReplica opens an engine on a replica in memory.
func openReplica(t *testing.T, log sharedlog.Log, bounds authz.Bounds) *ostiary.Engine {
	t.Helper()
	local, err := kv.New(memory.NewStore(), kv.Options{Copy: true})
	if err != nil {
		t.Fatal(err)
	}
	d, err := clustertest.OpenReplica(t.Context(), log, local, replica.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return newEngine(t, ostiary.Options{Driver: d, Bounds: bounds})
}

// TestUncertainIsNotFailed loses the answer or the request of an append until the
// append's time is over. The write is never reported as failed, and it is made. If the
// entry is in the log, the node sees it there. Otherwise the write is uncertain, and a
// client that repeats it gets the answer of the first attempt, once; any other write
// that creates the tuple is refused.
func TestUncertainIsNotFailed(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	for _, reached := range []bool{true, false} {
		t.Run(fmt.Sprint("reached=", reached), func(t *testing.T) {
			t.Parallel()
			log := &lossyLog{Log: memorylog.New().Open()}
			s := newStore(t, openReplica(t, log, authz.Bounds{AppendTime: 3 * time.Second}), documents())
			must(s.Write(ctx, authz.WriteRequest{Add: tups(t, "document:1#owner@user:anne")}))(t)
			write := authz.WriteRequest{Add: tups(t, "document:2#owner@user:anne")}
			if reached {
				log.lossy.Store(true)
			} else {
				log.down.Store(true)
			}
			_, err := s.Write(ctx, write)
			if reached {
				must(struct{}{}, err)(t)
			} else {
				wantKind(t, err, authz.ErrUncertain)
			}
			// Nothing else can be appended before the write is settled.
			_, err = s.Write(ctx, authz.WriteRequest{Add: tups(t, "document:3#owner@user:anne")})
			if err == nil {
				t.Error("a write was made while the log cannot be reached")
			}
			log.lossy.Store(false)
			log.down.Store(false)
			wait.Until(t, "the write is shown", func() bool {
				return ask(t, s, "document:2#owner@user:anne", authz.QueryOptions{}) == "true"
			})
			other := write
			other.Origin.Caller = "somebody else"
			_, err = s.Write(ctx, other)
			wantKind(t, err, authz.ErrTupleExists)
			if !reached {
				if token, err := s.Write(ctx, write); err != nil || token == "" {
					t.Fatalf("the repeated write fails with %v", err)
				}
			}
			_, err = s.Write(ctx, write)
			wantKind(t, err, authz.ErrTupleExists)
		})
	}
}

// outcome is a driver whose next append fails with an error.
type outcome struct {
	storage.Driver
	err atomic.Pointer[error]
}

func (d *outcome) Append(ctx context.Context, id storage.StoreID, after storage.Head, entries []storage.Entry, sealed []storage.Sealed) (storage.Head, error) {
	if err := d.err.Swap(nil); err != nil {
		return storage.Head{}, *err
	}
	return d.Driver.Append(ctx, id, after, entries, sealed)
}

// TestUncertainThatFailed repeats an uncertain write that was not made. It is made
// then, and a later repetition is refused.
func TestUncertainThatFailed(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	d := &outcome{Driver: memory.New()}
	s := newStore(t, newEngine(t, ostiary.Options{Driver: d}), documents())
	lost := fmt.Errorf("%w: the connection was lost", storage.ErrUncertain)
	d.err.Store(&lost)
	write := authz.WriteRequest{Add: tups(t, "document:2#owner@user:anne")}
	_, err := s.Write(ctx, write)
	wantKind(t, err, authz.ErrUncertain)
	want(t, s, "document:2#owner@user:anne", "false")
	must(s.Write(ctx, write))(t)
	_, err = s.Write(ctx, write)
	wantKind(t, err, authz.ErrTupleExists)
}

// TestUnacknowledgedIsShown makes a write whose acknowledgement fails. The node has the
// write, and so have the other nodes: it shows the write, although the outcome is
// uncertain for the caller.
func TestUnacknowledgedIsShown(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	local, err := kv.New(memory.NewStore(), kv.Options{Copy: true})
	if err != nil {
		t.Fatal(err)
	}
	var failing atomic.Bool
	d, err := clustertest.OpenReplica(t.Context(), memorylog.New().Open(), local, replica.Options{})
	if err != nil {
		t.Fatal(err)
	}
	d.Acknowledged = func(context.Context, sharedlog.Position) error {
		if failing.Load() {
			return errors.New("a node does not answer")
		}
		return nil
	}
	s := newStore(t, newEngine(t, ostiary.Options{Driver: d}), documents())
	failing.Store(true)
	_, err = s.Write(ctx, authz.WriteRequest{Add: tups(t, "document:1#owner@user:anne")})
	wantKind(t, err, authz.ErrUncertain)
	if got := ask(t, s, "document:1#owner@user:anne", authz.QueryOptions{}); got != "true" {
		t.Errorf("the node answers %s, want true", got)
	}
}
