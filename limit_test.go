package ostiary_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/storage"
	"github.com/ostiary/ostiary/storage/memory"
)

// stuck is a driver whose appends wait until their context ends.
type stuck struct {
	*memory.Driver
	on chan struct{} // closed when they begin to
}

func (d *stuck) AppendSealed(ctx context.Context, id storage.StoreID, after storage.Head, entries []storage.Entry, sealed []storage.Sealed) (storage.Head, error) {
	select {
	case <-d.on:
		<-ctx.Done()
		if _, ok := ctx.Deadline(); !ok {
			return storage.Head{}, errors.New("ended without a deadline")
		}
		return storage.Head{}, ctx.Err()
	default:
		return d.Driver.AppendSealed(ctx, id, after, entries, sealed)
	}
}

// TestAppendTime: a driver that does not come back is given up after its time,
// and the next write has a time of its own.
func TestAppendTime(t *testing.T) {
	t.Parallel()
	d := &stuck{memory.New(), make(chan struct{})}
	s := newStore(t, newEngine(t, ostiary.Options{Driver: d, Bounds: ostiary.Bounds{AppendTime: 20 * time.Millisecond}}), documents())
	must(s.Write(context.Background(), ostiary.WriteRequest{Add: tups(t, "document:1#owner@user:anne")}))(t)
	close(d.on)
	for range 2 {
		if _, err := s.Write(context.Background(), ostiary.WriteRequest{Add: tups(t, "document:2#owner@user:anne")}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a write that its driver does not finish: %v", err)
		}
	}
	if head, err := d.Head(context.Background(), s.ID()); err != nil || head.Revision != must(s.Stats(context.Background()))(t).Revision {
		t.Errorf("the head is %v, %v", head, err)
	}
}
