package enginetest

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/storage"
	"github.com/ostiary/ostiary/storage/memory"
)

// stuck is a driver whose appends block until their context ends, once blocking is
// closed.
type stuck struct {
	*memory.Driver
	blocking chan struct{}
}

func (d *stuck) Append(ctx context.Context, id storage.StoreID, after storage.Head, entries []storage.Entry, sealed []storage.Sealed) (storage.Head, error) {
	select {
	case <-d.blocking:
		<-ctx.Done()
		if _, ok := ctx.Deadline(); !ok {
			return storage.Head{}, errors.New("ended without a deadline")
		}
		return storage.Head{}, ctx.Err()
	default:
		return d.Driver.Append(ctx, id, after, entries, sealed)
	}
}

// TestAppendTime writes through a driver that never returns. Each write must fail
// after Bounds.AppendTime, also the write after a failed one.
func TestAppendTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { // a busy machine would need longer for the first writes
		d := &stuck{memory.New(), make(chan struct{})}
		s := newStore(t, newEngine(t, ostiary.Options{Driver: d, Bounds: authz.Bounds{AppendTime: 20 * time.Millisecond}}), documents())
		must(s.Write(context.Background(), authz.WriteRequest{Add: tups(t, "document:1#owner@user:anne")}))(t)
		close(d.blocking)
		for range 2 {
			if _, err := s.Write(context.Background(), authz.WriteRequest{Add: tups(t, "document:2#owner@user:anne")}); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("a write that the driver does not finish: got %v, want a deadline error", err)
			}
		}
		if head, err := d.Head(context.Background(), s.ID()); err != nil || head.Revision != must(s.Stats(context.Background()))(t).Revision {
			t.Errorf("the driver's head is %v, %v, want the store's revision", head, err)
		}
	})
}
