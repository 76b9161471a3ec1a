package lease_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ostiary/ostiary/internal/cluster/lease"
)

// newLowWorld starts three nodes, and returns what makes each of them low.
func newLowWorld(t *testing.T) (*world, map[*node]*atomic.Bool) {
	t.Helper()
	low := map[*node]*atomic.Bool{}
	w := newWorld(t, 3, func(_ int, n *node) {
		low[n] = new(atomic.Bool)
		n.options.Low = low[n].Load
	})
	return w, low
}

// TestLowFollower takes the room from a follower: it gives its read lease up and gets none while
// it is low, reads on it still see each acknowledged write, and no write waits for it. With
// room it has a lease again.
func TestLowFollower(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, low := newLowWorld(t)
		holder := w.holder()
		follower := w.others(holder)[0]
		w.mustWrite()
		low[follower].Store(true)
		time.Sleep(readLease)
		for range 50 {
			if s := follower.cluster.Status(); s.ReadRemaining > 0 || s.Role != lease.Follower || s.Failure != nil {
				t.Fatalf("a node without room: %+v", s)
			}
			begun := time.Now()
			object := w.mustWrite()
			if took := time.Since(begun); took > 4*oneWay {
				t.Errorf("a write beside a node without room took %v", took)
			}
			w.mustShow(object, w.nodes...)
			if took := time.Since(begun); took > 20*oneWay {
				t.Errorf("reads of three nodes took %v", took)
			}
			time.Sleep(readLease / 3)
		}
		if err := w.forward(t, follower, "forwarded"); err != nil {
			t.Errorf("a write that a node without room sends to the holder: %v", err)
		}
		if s := holder.cluster.Status(); s.Role != lease.Holder {
			t.Errorf("the holder with room is %+v", s)
		}
		low[follower].Store(false)
		w.settle()
		w.mustShow(w.mustWrite(), w.nodes...)
	})
}

// TestLowQuestions counts what a follower without room asks: as often as one with a lease.
func TestLowQuestions(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, low := newLowWorld(t)
		follower := w.others(w.holder())[0]
		count := func() int64 {
			var messages atomic.Int64
			w.network.SetDelay(func() time.Duration {
				messages.Add(1)
				return oneWay
			})
			time.Sleep(20 * readLease)
			return messages.Load()
		}
		leased := count()
		low[follower].Store(true)
		time.Sleep(2 * readLease)
		if n := count(); n > leased*5/4 {
			t.Errorf("in twenty read leases the nodes have sent %d messages, and %d while all had room", n, leased)
		}
	})
}

// TestLowHolder takes the room from the holder: it hands its role over to a node that has room,
// and no write fails. When no other node has room, the holder keeps the role.
func TestLowHolder(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, low := newLowWorld(t)
		first := w.holder()
		full := w.others(first)[0]
		last := w.others(first)[1]
		low[full].Store(true)
		time.Sleep(2 * readLease)
		low[first].Store(true)
		for begun := time.Now(); last.cluster.Status().Role != lease.Holder; time.Sleep(10 * time.Millisecond) {
			if time.Since(begun) > 5*time.Second {
				t.Fatalf("after 5 s the node with room is %+v", last.cluster.Status())
			}
			if err := w.forward(t, full, fmt.Sprint(time.Now().UnixNano())); err != nil {
				t.Errorf("a write meanwhile: %v", err)
			}
		}
		w.mustShow(w.mustWrite(), w.nodes...)
		low[last].Store(true)
		time.Sleep(20 * holderLease)
		if s := last.cluster.Status(); s.Role != lease.Holder {
			t.Errorf("where no node has room, the holder is %+v", s)
		}
		w.mustShow(w.mustWrite(), w.nodes...) // the engine refuses what adds data, not the keeper
		for _, n := range w.nodes {
			low[n].Store(false)
		}
		w.settle()
	})
}

// TestLowTakeOver stops a holder: the node with room takes over first, whoever looks first, and
// without one, a node without room does after LowWait holder leases.
func TestLowTakeOver(t *testing.T) {
	bubble(t, func(t *testing.T) {
		for range 5 {
			w, low := newLowWorld(t)
			holder := w.holder()
			full, other := w.others(holder)[0], w.others(holder)[1]
			low[full].Store(true)
			time.Sleep(2 * readLease)
			holder.host.Pause()
			if got := w.otherHolder(holder); got != other {
				t.Error("a node without room has taken over before one with room")
			}
			low[other].Store(true)
			time.Sleep(holderLease) // the other node follows it
			other.host.Pause()
			paused := time.Now()
			for full.cluster.Status().Role != lease.Holder {
				time.Sleep(time.Millisecond)
			}
			if took := time.Since(paused); took < lease.LowWait*holderLease || took > (lease.LowWait+4)*holderLease {
				t.Errorf("the only node, without room, has taken over after %v", took)
			}
			if _, err := full.write(within(t, 5*time.Second)); err != nil {
				t.Error(err)
			}
			holder.host.Resume()
			other.host.Resume()
			low[other].Store(false)
			low[full].Store(false)
			w.settle()
			for _, n := range w.nodes {
				n.stop(t)
			}
		}
	})
}
