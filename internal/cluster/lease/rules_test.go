package lease_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/internal/cluster/lease"
	"github.com/ostiary/ostiary/internal/cluster/move"
	"github.com/ostiary/ostiary/internal/cluster/replica"
	"github.com/ostiary/ostiary/internal/cluster/sharedlog"
	"github.com/ostiary/ostiary/internal/cluster/sharedlog/memorylog"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/storage"
	"github.com/ostiary/ostiary/storage/memory"
)

// The durations of the rules.
const (
	holderLease = sharedlog.HolderLeaseDefault
	readLease   = sharedlog.ReadLeaseDefault
)

// within returns a context that ends after a time.
func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// TestHolderPaused pauses the holder for 10 s: another node takes over after the lease,
// acknowledges at once, because no read lease ends later, and the paused node shows the
// new writes when it goes on (C1, C2, C3, C4).
func TestHolderPaused(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, 3, nil)
		old := w.holder()
		before := w.mustWrite()
		own := old.cluster.Status().HolderRemaining
		paused := time.Now()
		old.host.Pause()
		others := w.others(old)
		for others[0].cluster.Status().Role < lease.Taking && others[1].cluster.Status().Role < lease.Taking {
			time.Sleep(time.Millisecond)
		}
		if took := time.Since(paused); took < own {
			t.Errorf("the lease was taken after %v, and the holder had it for %v", took, own)
		}
		var object string
		err := storage.ErrNotHolder
		for err != nil {
			for _, n := range others {
				if object, err = n.write(within(t, 3*time.Second)); err == nil {
					break
				}
				if !errors.Is(err, storage.ErrNotHolder) {
					t.Fatal(err)
				}
			}
			time.Sleep(time.Millisecond)
		}
		took := time.Since(paused)
		if took < holderLease-holderLease/3 || took > holderLease*11/10+20*time.Millisecond {
			t.Errorf("the next write was acknowledged after %v", took)
		}
		w.mustShow(before, others...)
		w.mustShow(object, others...)
		time.Sleep(10*time.Second - time.Since(paused))
		old.host.Resume()
		w.mustShow(object, old)
		if _, err := old.write(within(t, time.Second)); !errors.Is(err, storage.ErrNotHolder) {
			t.Errorf("a write on the node that was paused: %v", err)
		}
		w.settle()
		w.mustShow(w.mustWrite(), w.nodes...)
	})
}

// TestFollowerPaused pauses a follower for 10 s: one write waits until its read lease is
// over, later ones do not; when it goes on, its reads show all of them (C5, C7).
func TestFollowerPaused(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, 3, nil)
		holder := w.holder()
		slow := w.others(holder)[0]
		slow.host.Pause()
		begun := time.Now()
		objects := []string{w.mustWrite()}
		if took := time.Since(begun); took < readLease/2 || took > readLease*11/10+20*time.Millisecond {
			t.Errorf("the first write took %v, expected what was left of a read lease", took)
		}
		for range 5 {
			begun = time.Now()
			objects = append(objects, w.mustWrite())
			if took := time.Since(begun); took > 20*time.Millisecond {
				t.Errorf("a later write took %v", took)
			}
		}
		var group sync.WaitGroup
		for _, object := range objects { // these reads arrive while the node is paused
			group.Go(func() { w.mustShow(object, slow) })
		}
		time.Sleep(10 * time.Second)
		slow.host.Resume()
		for _, object := range objects {
			w.mustShow(object, slow)
		}
		group.Wait()
		w.settle()
	})
}

// TestQuestionsWhileLeaseIsOver cuts the holder from the log until its lease is over, while
// readers that never pause ask on the others, which may not take over. After the renewal every
// node has a read lease again, and its reads ask the log no more.
func TestQuestionsWhileLeaseIsOver(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, 3, func(i int, n *node) {
			if i > 0 {
				n.options.Reluctance = -1
			}
		})
		holder := w.holder()
		object := w.mustWrite()
		reading, stop := context.WithCancel(t.Context())
		var readers sync.WaitGroup
		for _, n := range w.others(holder) {
			for range 3 {
				readers.Go(func() {
					for reading.Err() == nil {
						if ok, err := n.has(reading, object, authz.Acknowledged()); !ok && reading.Err() == nil {
							t.Errorf("a read: %t, error %v", ok, err)
						}
						time.Sleep(oneWay / 10)
					}
				})
			}
		}
		holder.host.CutLog(true)
		for holder.cluster.Leads() {
			time.Sleep(time.Millisecond)
		}
		time.Sleep(holderLease)
		holder.host.CutLog(false)
		w.settle()
		stop()
		readers.Wait()
		time.Sleep(2 * holderLease)
		for i, n := range w.nodes {
			if n.cluster.Status().ReadRemaining == 0 {
				t.Errorf("node %d has lost its read lease: %+v", i, n.cluster.Status())
			}
		}
		w.mustShow(w.mustWrite(), w.nodes...)
	})
}

// TestBothPaused pauses the holder and another node in turn.
func TestBothPaused(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, 3, nil)
		for range 3 {
			for _, n := range w.nodes {
				n.host.Pause()
				time.Sleep(10 * time.Second)
				n.host.Resume()
				time.Sleep(50 * time.Millisecond)
				w.mustShow(w.mustWrite(), w.nodes...)
			}
		}
	})
}

// TestClocks gives each node another time, and clocks that run 5 % too fast and too
// slow.
func TestClocks(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, 3, func(i int, n *node) {
			n.host.Offset = time.Duration(i) * time.Hour
			n.host.Rate = 0.95 + float64(i)*0.05
		})
		for range 5 {
			w.mustShow(w.mustWrite(), w.nodes...)
			holder := w.holder()
			holder.host.Pause()
			time.Sleep(3 * time.Second)
			object := w.otherHolder(holder).mustWrite(t)
			holder.host.Resume()
			w.mustShow(object, w.nodes...)
			w.settle()
		}
	})
}

// TestWallClocks gives the nodes times of day that are an hour apart, and the role of the
// holder to each of them in turn: leases and reads are as always, and the times of entries
// do not go back.
func TestWallClocks(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, 3, func(i int, n *node) { n.wall = time.Duration(1-i) * time.Hour })
		for range 2 {
			for _, n := range w.nodes {
				if holder := w.holder(); holder != n {
					if err := holder.cluster.HandOver(t.Context(), n.cluster.Self().ID); err != nil {
						t.Fatal(err)
					}
				}
				for range 3 {
					begun := time.Now()
					w.mustShow(w.mustWrite(), w.nodes...)
					if took := time.Since(begun); took > 200*time.Millisecond {
						t.Errorf("a write took %v", took)
					}
				}
				w.settle()
			}
		}
		for i, n := range w.nodes {
			s, err := n.engine.Store(t.Context(), w.id)
			if err != nil {
				t.Fatal(err)
			}
			page, err := s.Changes(t.Context(), authz.ChangesRequest{})
			if err != nil || len(page.Entries) < 18 {
				t.Fatalf("node %d has %d entries, error %v", i, len(page.Entries), err)
			}
			for k := range page.Entries[1:] {
				if before, at := page.Entries[k].Time, page.Entries[k+1].Time; at.Before(before) {
					t.Errorf("node %d: an entry of %v follows one of %v", i, at, before)
				}
			}
		}
	})
}

// otherHolder waits until another node is the holder.
func (w *world) otherHolder(but *node) *node {
	w.t.Helper()
	for range 10_000 {
		for _, n := range w.others(but) {
			if s := n.cluster.Status(); s.Role == lease.Holder && s.Acknowledges {
				return n
			}
		}
		time.Sleep(time.Millisecond)
	}
	w.t.Fatal("no other node became the holder")
	return nil
}

func (n *node) mustWrite(t *testing.T) string {
	t.Helper()
	object, err := n.write(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return object
}

// writeWhenHeld writes once there is a holder, which must be this node.
func (n *node) writeWhenHeld(t *testing.T) string {
	t.Helper()
	object, err := n.write(t.Context())
	for errors.Is(err, authz.ErrNoHolder) {
		time.Sleep(time.Millisecond)
		object, err = n.write(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	return object
}

// TestHandOver hands the role over while writers write through AwaitHolder, as a server
// does: no write fails.
func TestHandOver(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, 3, nil)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var group sync.WaitGroup
		var mu sync.Mutex
		var worst time.Duration
		written := 0
		for c := range 4 {
			group.Go(func() {
				for i := 0; ctx.Err() == nil; i++ {
					begun := time.Now()
					if err := w.forward(t, w.nodes[c%3], fmt.Sprint(c, "-", i)); err != nil {
						t.Errorf("a write during a hand-over: %v", err)
					}
					mu.Lock()
					worst = max(worst, time.Since(begun))
					written++
					mu.Unlock()
				}
			})
		}
		for range 10 {
			time.Sleep(300 * time.Millisecond)
			holder := w.holder()
			to := w.others(holder)[0]
			begun := time.Now()
			if err := holder.cluster.HandOver(t.Context(), to.cluster.Self().ID); err != nil {
				t.Fatal(err)
			}
			if next := w.otherHolder(holder); next != to {
				t.Errorf("another node than the chosen one is the holder")
			}
			if took := time.Since(begun); took > 50*time.Millisecond {
				t.Errorf("the hand-over took %v", took)
			}
		}
		cancel()
		group.Wait()
		if worst > 100*time.Millisecond {
			t.Errorf("the slowest of %d writes took %v", written, worst)
		}
		w.settle()
		for _, n := range w.nodes {
			for c := range 4 {
				w.mustShow(fmt.Sprint(c, "-0"), n)
			}
		}
	})
}

// TestAcknowledgedByNext hands the role over while a write waits for the read lease of a node
// that is paused. The next holder acknowledges it as soon as that node has given the lease up,
// for example to a client that asks again; the holder before, for which the write still waits,
// must show it as the others do (C4, C7).
func TestAcknowledgedByNext(t *testing.T) {
	for name, cut := range map[string]bool{"leased": false, "confirmed": true} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				w := newWorld(t, 3, func(_ int, n *node) { n.options.DrainWait = time.Millisecond })
				old := w.holder()
				next, paused := w.others(old)[0], w.others(old)[1]
				w.mustWrite()
				paused.host.Pause()
				written := make(chan error, 1)
				go func() { written <- old.writeObject(within(t, 10*time.Second), "pending") }()
				time.Sleep(10 * time.Millisecond)
				if err := old.cluster.HandOver(t.Context(), next.cluster.Self().ID); err != nil {
					t.Fatal(err)
				}
				w.network.Cut(old.host, next.host, cut)
				paused.host.Resume()
				if cut { // what the next holder has granted to the old one runs out
					time.Sleep(50 * time.Millisecond)
				}
				if err := next.cluster.Acknowledge(within(t, 500*time.Millisecond)); err != nil {
					t.Fatalf("the next holder does not acknowledge the write: %v", err)
				}
				w.mustShow("pending", next, paused, old)
				select {
				case err := <-written:
					t.Errorf("the write waits no longer (error %v), so the test shows nothing", err)
				default:
				}
				if err := <-written; err != nil && !errors.Is(err, authz.ErrUncertain) {
					t.Errorf("the write: %v", err)
				}
			})
		})
	}
}

// forward writes at the holder as a node does for a client.
func (w *world) forward(t *testing.T, at *node, object string) error {
	t.Helper()
	for {
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		peer, own, err := at.cluster.AwaitHolder(ctx)
		if err == nil && !own {
			for _, n := range w.nodes {
				if n.cluster != nil && n.cluster.Self() == peer {
					time.Sleep(oneWay)
					if own = n.cluster.Begin(ctx); own {
						err = n.writeObject(ctx, object)
					}
					break
				}
			}
		} else if err == nil {
			err = at.writeObject(ctx, object)
		}
		cancel()
		if err != nil || own {
			return err
		}
		time.Sleep(oneWay)
	}
}

// TestNothingToDoByNext hands the role over while a write waits for the read lease of a node
// that is cut off. A client asks the next holder for the same write, which has nothing to do:
// it must not be answered before that node's read lease is over either (C4), because the
// client takes the write for made.
func TestNothingToDoByNext(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, 3, func(_ int, n *node) { n.options.DrainWait = time.Millisecond })
		old := w.holder()
		next, far := w.others(old)[0], w.others(old)[1]
		w.mustWrite()
		w.network.Cut(old.host, far.host, true)
		w.network.Cut(next.host, far.host, true)
		far.host.CutLog(true)
		written := make(chan error, 1)
		go func() { written <- old.writeObject(within(t, 10*time.Second), "pending") }()
		time.Sleep(10 * time.Millisecond)
		if err := old.cluster.HandOver(t.Context(), next.cluster.Self().ID); err != nil {
			t.Fatal(err)
		}
		if far.cluster.Status().ReadRemaining == 0 {
			t.Error("the node that is cut off has no read lease, so the test shows nothing")
		}
		s, err := next.engine.Store(t.Context(), w.id)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Write(within(t, 3*time.Second), authz.WriteRequest{Add: []rel.Tuple{tuple("pending")}, OnDuplicate: authz.Ignore}); err != nil {
			t.Fatal(err)
		}
		if ok, err := far.has(t.Context(), "pending", authz.Acknowledged()); !ok && err == nil {
			t.Error("a read on the node that is cut off does not have the write that the next holder has answered as made")
		}
		<-written
	})
}

// TestAcknowledgedByEarlier asks the holder before to acknowledge what the next one has
// appended: it cannot know which nodes have read leases, so it must not.
func TestAcknowledgedByEarlier(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, 3, nil)
		old := w.holder()
		next, far := w.others(old)[0], w.others(old)[1]
		w.mustWrite()
		if err := old.cluster.HandOver(t.Context(), next.cluster.Self().ID); err != nil {
			t.Fatal(err)
		}
		w.settle()
		if err := next.cluster.Acknowledge(t.Context()); err != nil {
			t.Errorf("the next holder does not acknowledge what it has: %v", err)
		}
		time.Sleep(2 * readLease) // what the holder before has granted is over
		w.network.Cut(next.host, far.host, true)
		far.host.CutLog(true)
		written := make(chan error, 1)
		go func() { written <- next.writeObject(within(t, 10*time.Second), "pending") }()
		for shows := false; !shows; time.Sleep(time.Millisecond) {
			var err error
			if shows, err = old.has(t.Context(), "pending", authz.MinimizeLatency()); err != nil {
				t.Fatal(err)
			}
		}
		if err := old.cluster.Acknowledge(within(t, time.Second)); !errors.Is(err, storage.ErrNotHolder) {
			t.Errorf("the holder before acknowledges a write of the next one: error %v; the node that is cut off has a read lease for %v", err, far.cluster.Status().ReadRemaining)
		}
		if err := <-written; err != nil {
			t.Error(err)
		}
	})
}

// TestPassedOn passes a write on from a node without a read lease, for which the write does
// not wait, while the holder's engine is still about to show a change of the catalog. Once the
// first node shows what the holder names with its answer, it shows the write, also to a read
// that waits for nothing.
func TestPassedOn(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, 2, func(_ int, n *node) { n.slow = 50 * time.Millisecond })
		holder := w.holder()
		first := w.others(holder)[0]
		w.network.Cut(holder.host, first.host, true)
		for first.cluster.Status().ReadRemaining > 0 {
			time.Sleep(10 * time.Millisecond)
		}
		time.Sleep(readLease) // by the holder's clock, it is over a little later
		if _, err := holder.engine.CreateStore(t.Context(), ostiary.CreateStoreRequest{}); err != nil {
			t.Fatal(err)
		}
		object := holder.mustWrite(t)
		if at, shown := holder.driver.AppliedSequence(), holder.driver.Shown(); shown >= at {
			t.Errorf("the holder's engine shows segment %d of %d already, so the test shows nothing", shown, at)
		}
		at, err := holder.cluster.Reached()
		if err != nil {
			t.Fatal(err)
		}
		if err := first.cluster.WaitShown(within(t, time.Second), at); err != nil {
			t.Fatal(err)
		}
		if ok, err := first.has(t.Context(), object, authz.MinimizeLatency()); !ok || err != nil {
			t.Errorf("with segment %d, the first node shows the write: %t, error %v", at, ok, err)
		}
	})
}

// TestPassedOnToStopped stops the holder while it appends a write that a node without a read
// lease has passed on: another process has taken its place in the registry. The write counts
// as made, and the copy of the holder lacks it, so that no sequence that the holder could name
// makes the first node show the write.
func TestPassedOnToStopped(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, 2, func(_ int, n *node) {
			n.wrap = func(l sharedlog.Log) sharedlog.Log { return &takenLog{Log: l, node: n} }
		})
		holder := w.holder()
		first := w.others(holder)[0]
		w.network.Cut(holder.host, first.host, true)
		for first.cluster.Status().ReadRemaining > 0 {
			time.Sleep(10 * time.Millisecond)
		}
		time.Sleep(readLease) // by the holder's clock, it is over a little later
		before := holder.driver.AppliedSequence()
		holder.log.(*takenLog).taken.Store(true)
		if _, err := holder.write(t.Context()); err != nil {
			t.Fatal(err)
		}
		if at := holder.driver.AppliedSequence(); at != before {
			t.Errorf("the copy of the holder has segment %d, so the test shows nothing", at)
		}
		if at, err := holder.cluster.Reached(); !errors.Is(err, sharedlog.ErrNodeTaken) {
			t.Errorf("the holder has stopped and names segment %d, which is not the write; error %v", at, err)
		}
	})
}

// takenLog is a log in which another process takes the place of a node while that appends.
type takenLog struct {
	sharedlog.Log
	node  *node
	taken atomic.Bool
}

func (l *takenLog) Append(ctx context.Context, after sharedlog.Position, r sharedlog.Record, secrets []sharedlog.SecretChange) error {
	err := l.Log.Append(ctx, after, r, secrets)
	if l.taken.Load() {
		_ = l.node.driver.Report(ctx)
	}
	return err
}

func (l *takenLog) Report(ctx context.Context, n sharedlog.NodeRecord) error {
	if l.taken.Load() {
		return sharedlog.ErrNodeTaken
	}
	return l.Log.Report(ctx, n)
}

// TestClose closes the holder: a follower takes over at once, and reads go on.
func TestClose(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, 3, nil)
		holder := w.holder()
		object := w.mustWrite()
		begun := time.Now()
		closed := holder.cluster
		if _, err := closed.Reached(); err != nil {
			t.Error(err)
		}
		holder.stop(t)
		if _, err := closed.Reached(); !errors.Is(err, storage.ErrClosed) {
			t.Errorf("a closed node shows something: error %v", err)
		}
		next := w.holder()
		if took := time.Since(begun); took > 50*time.Millisecond {
			t.Errorf("after %v another node is the holder", took)
		}
		w.mustShow(object, w.others(holder)...)
		w.mustShow(next.mustWrite(t), w.others(holder)...)
	})
}

// TestFollowerCloses closes a follower: it gives its read lease up (C6), so that no write
// waits for it. One that is killed does not.
func TestFollowerCloses(t *testing.T) {
	for name, end := range map[string]func(t *testing.T, n *node){"closed": func(t *testing.T, n *node) { n.stop(t) }, "killed": func(t *testing.T, n *node) { n.kill(t) }} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				w := newWorld(t, 3, nil)
				holder := w.holder()
				w.mustWrite()
				leaves := w.others(holder)[0]
				end(t, leaves)
				begun := time.Now()
				object := holder.mustWrite(t)
				if took := time.Since(begun); (took < 50*time.Millisecond) != (name == "closed") {
					t.Errorf("a write took %v", took)
				}
				leaves.start(t)
				w.settle()
				w.mustShow(object, w.nodes...)
			})
		})
	}
}

// TestCloseAcknowledges closes the holder while a write waits for a node that is cut off:
// the write is acknowledged.
func TestCloseAcknowledges(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, 2, nil)
		holder := w.holder()
		w.network.Cut(w.others(holder)[0].host, holder.host, true)
		written := make(chan error, 1)
		go func() {
			_, err := holder.write(t.Context())
			written <- err
		}()
		time.Sleep(10 * oneWay)
		closed := holder.cluster.Leave(within(t, 5*time.Second))
		if err := <-written; err != nil || closed != nil {
			t.Errorf("the write: %v; Close: %v", err, closed)
		}
	})
}

// TestAlone starts a node that is alone, and again after it was closed and killed.
func TestAlone(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, 1, nil)
		n := w.nodes[0]
		for i, end := range []func(){func() { n.stop(t) }, func() { n.kill(t) }} {
			object := w.mustWrite()
			end()
			n.start(t)
			begun := time.Now()
			w.holder()
			longest := []time.Duration{20 * time.Millisecond, holderLease * 12 / 10}[i]
			if took := time.Since(begun); took > longest {
				t.Errorf("end %d: it is the holder after %v, expected at most %v", i, took, longest)
			}
			w.mustShow(object, n)
		}
		w.mustWrite() // loads the store
		begun := time.Now()
		w.mustWrite()
		if took := time.Since(begun); took > 2*oneWay {
			t.Errorf("a write took %v, expected a commit", took)
		}
	})
}

// TestHolderKilled kills the holder under load: nothing that was acknowledged is lost,
// and reads go on.
func TestHolderKilled(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, 3, nil)
		for range 3 {
			holder := w.holder()
			var objects []string
			for range 10 {
				objects = append(objects, w.mustWrite())
			}
			holder.kill(t)
			others := w.others(holder)
			for begun := time.Now(); time.Since(begun) < 2*time.Second; time.Sleep(10 * time.Millisecond) {
				w.mustShow(objects[len(objects)-1], others...)
			}
			for _, object := range objects {
				w.mustShow(object, others...)
			}
			holder.start(t)
			w.settle()
			for _, object := range objects {
				w.mustShow(object, holder)
			}
		}
	})
}

// TestReadsWaitForHolder cuts a follower from the others, and from the log for as long as a
// cluster with a long holder lease may need to agree on the next holder. A read waits for
// the log meanwhile, also one that arrives while another one waits.
func TestReadsWaitForHolder(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const holderLease = 4 * time.Second
		w := newWorld(t, 3, func(_ int, n *node) { n.options.Settings.HolderLease = holderLease })
		holder := w.holder()
		far, near := w.others(holder)[0], w.others(holder)[1]
		w.network.Cut(far.host, holder.host, true)
		w.network.Cut(far.host, near.host, true)
		far.host.CutLog(true)
		object := w.mustWrite() // waits for the lease
		var reads sync.WaitGroup
		for i := range 3 {
			reads.Go(func() {
				time.Sleep(time.Duration(i) * time.Second)
				if there, err := far.has(t.Context(), object, authz.Acknowledged()); !there || err != nil {
					t.Errorf("read %d: %v, error %v", i, there, err)
				}
			})
		}
		time.Sleep(holderLease * 5 / 4)
		far.host.CutLog(false)
		reads.Wait()
		far.host.CutLog(true)
		begun := time.Now()
		for range 2 {
			reads.Go(func() {
				if _, err := far.has(t.Context(), object, authz.Acknowledged()); !errors.Is(err, authz.ErrNoLease) {
					t.Errorf("a read without a lease and the log: error %v", err)
				}
			})
			time.Sleep(holderLease)
		}
		reads.Wait()
		if took := time.Since(begun); took > 3*holderLease+10*time.Millisecond {
			t.Errorf("the reads took %v", took)
		}
	})
}

// TestStaleReadWaitsOnce cuts a follower with stale reads off. A request that reads several
// times waits once for a lease, also if its wait and the look at the log end at the same
// time, which is decided by chance.
func TestStaleReadWaitsOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, 2, func(_ int, n *node) { n.options.StaleReads = true })
		holder := w.holder()
		far := w.others(holder)[0]
		for range 50 {
			w.network.Cut(far.host, holder.host, true)
			far.host.CutLog(true)
			time.Sleep(sharedlog.HolderLeaseDefault) // the read lease is over
			begun := time.Now()
			for range 3 {
				if err := far.cluster.BeforeRead(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			if took := time.Since(begun); took > 2*sharedlog.HolderLeaseDefault+10*time.Millisecond {
				t.Fatalf("three reads took %v", took)
			}
			w.network.Cut(far.host, holder.host, false)
			far.host.CutLog(false)
			before := far.cluster.StaleReads()
			for {
				if err := far.cluster.BeforeRead(t.Context()); err != nil {
					t.Fatal(err)
				}
				n := far.cluster.StaleReads()
				if n == before {
					break
				}
				before = n
				time.Sleep(100 * time.Millisecond)
			}
		}
	})
}

// TestCutOff cuts a follower from the holder and the log: its reads fail once its read
// lease is over, unless stale reads are set or the read is local.
func TestCutOff(t *testing.T) {
	for _, stale := range []bool{false, true} {
		t.Run(fmt.Sprint("stale reads ", stale), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				w := newWorld(t, 3, func(_ int, n *node) { n.options.StaleReads = stale })
				holder := w.holder()
				far, near := w.others(holder)[0], w.others(holder)[1]
				seen := w.mustWrite()
				w.network.Cut(far.host, holder.host, true)
				w.network.Cut(far.host, near.host, true)
				far.host.CutLog(true)
				w.mustShow(seen, far)
				object := w.mustWrite() // waits for the lease
				begun := time.Now()
				there, err := far.has(t.Context(), object, authz.Acknowledged())
				switch {
				case stale && (err != nil || there || far.cluster.StaleReads() == 0):
					t.Errorf("a stale read: %v, %d stale reads, error %v", there, far.cluster.StaleReads(), err)
				case !stale && !errors.Is(err, authz.ErrNoLease):
					t.Errorf("a read without a lease: %v, error %v", there, err)
				}
				if took := time.Since(begun); took > 2*sharedlog.HolderLeaseDefault+10*time.Millisecond {
					t.Errorf("the read took %v", took)
				}
				if there, err := far.has(t.Context(), seen, authz.MinimizeLatency()); !there || err != nil {
					t.Errorf("a local read: %v, error %v", there, err)
				}
				far.host.CutLog(false)
				time.Sleep(2 * time.Second)
				w.mustShow(object, far) // the log names the head
				w.network.Cut(far.host, holder.host, false)
				w.network.Cut(far.host, near.host, false)
				w.settle()
				before := far.cluster.StaleReads()
				w.mustShow(object, far)
				if n := far.cluster.StaleReads(); n != before || !stale && n != 0 {
					t.Errorf("%d stale reads with a lease, and %d before", n, before)
				}
			})
		})
	}
}

// quietLog is a log that announces nothing while it is quiet. The answer with its head
// takes long then.
type quietLog struct {
	sharedlog.Log
	quiet     atomic.Bool
	headTakes time.Duration
}

func (l *quietLog) Wait(ctx context.Context, after uint64) error {
	err := l.Log.Wait(ctx, after)
	if l.quiet.Load() {
		<-ctx.Done()
	}
	return err
}

func (l *quietLog) Head(ctx context.Context) (sharedlog.Position, error) {
	at, err := l.Log.Head(ctx)
	if l.quiet.Load() {
		time.Sleep(l.headTakes)
	}
	return at, err
}

// TestWriteOfCutFollower cuts a follower from the other nodes, but not from the log, and its
// stream goes on, as over a network that loses all packets. Once the holder has not answered
// for the time of a lease, the node sends it no more writes: they wait, and fail as those that
// no node takes. Afterwards it finds the holder again.
func TestWriteOfCutFollower(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, 3, func(_ int, n *node) { n.w.network.KeepAlive = time.Minute })
		holder := w.holder()
		far := w.others(holder)[0]
		for _, other := range w.others(far) {
			w.network.Cut(far.host, other.host, true)
		}
		time.Sleep(2 * holderLease)
		if s := far.cluster.Status(); s.Role != lease.Follower || s.ReadRemaining > 0 {
			t.Fatalf("the node that is cut off: %+v", s)
		}
		if to, _, err := far.cluster.AwaitHolder(within(t, time.Second)); !errors.Is(err, storage.ErrNotHolder) {
			t.Errorf("a write is sent to node %x: %v", to.ID[:4], err)
		}
		waiting := make(chan error, 1)
		go func() {
			_, _, err := far.cluster.AwaitHolder(within(t, time.Minute))
			waiting <- err
		}()
		for _, other := range w.others(far) {
			w.network.Cut(far.host, other.host, false)
		}
		if err := <-waiting; err != nil {
			t.Errorf("a write that waits until the node is connected again: %v", err)
		}
		w.settle()
	})
}

// TestEarlierConfirmation requires that a read without a lease does not rest on a look at
// the head that began before it arrived (C7).
func TestEarlierConfirmation(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const takes = 400 * time.Millisecond
		logs := map[*node]*quietLog{}
		w := newWorld(t, 2, func(_ int, n *node) {
			n.wrap = func(l sharedlog.Log) sharedlog.Log {
				logs[n] = &quietLog{Log: l, headTakes: takes}
				return logs[n]
			}
		})
		holder := w.holder()
		far := w.others(holder)[0]
		w.network.Cut(far.host, holder.host, true)
		logs[far].quiet.Store(true)
		w.mustShow(w.mustWrite(), far) // the write waits for the lease
		earlier := make(chan error, 1)
		go func() {
			_, err := far.has(t.Context(), "none", authz.Acknowledged())
			earlier <- err
		}()
		time.Sleep(takes / 4)
		object := w.mustWrite()
		if len(earlier) > 0 {
			t.Fatal("the first look at the head has ended too early")
		}
		w.mustShow(object, far)
		if err := <-earlier; err != nil {
			t.Error(err)
		}
	})
}

// TestLogGone takes the log from all nodes: reads go on within the leases and then fail,
// writes fail, and all goes on when the log is there again.
func TestLogGone(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, 3, nil)
		object := w.mustWrite()
		for _, n := range w.nodes {
			n.host.CutLog(true)
		}
		w.mustShow(object, w.nodes...)
		time.Sleep(holderLease + readLease)
		for _, n := range w.nodes {
			if _, err := n.has(t.Context(), object, authz.Acknowledged()); !errors.Is(err, authz.ErrNoLease) {
				t.Errorf("a read without leases and log: %v", err)
			}
			if _, err := n.write(within(t, 2*time.Second)); !errors.Is(err, authz.ErrNoHolder) {
				t.Errorf("a write without leases and log: %v", err)
			}
		}
		for _, n := range w.nodes {
			n.host.CutLog(false)
		}
		w.settle()
		w.mustShow(w.mustWrite(), w.nodes...)
	})
}

// TestSlowToShow makes a node slow to show what it has applied: a write waits for it, and
// so does its read lease (C6).
func TestSlowToShow(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, 3, func(i int, n *node) {
			if i == 2 {
				n.slow = 30 * time.Millisecond
			}
		})
		slow := w.nodes[2]
		for range 5 {
			begun := time.Now()
			w.mustShow(w.mustWrite(), slow)
			if took := time.Since(begun); took < slow.slow || took > 2*slow.slow {
				t.Errorf("a write and a read took %v, expected some more than %v", took, slow.slow)
			}
		}
	})
}

// cutAndWrite cuts a follower from all others, writes, and reads on it at the moment at
// which the write is acknowledged: the read must not miss it.
func (w *world) cutAndWrite(far *node) {
	w.t.Helper()
	for _, n := range w.others(far) {
		w.network.Cut(far.host, n.host, true)
	}
	far.host.CutLog(true)
	object := w.mustWrite()
	if there, err := far.has(w.t.Context(), object, authz.Acknowledged()); err == nil && !there {
		w.t.Error("a node that is cut off does not show an acknowledged write")
	}
	for _, n := range w.others(far) {
		w.network.Cut(far.host, n.host, false)
	}
	far.host.CutLog(false)
	w.settle()
}

// TestCutAndWrite writes while a node with a slow clock has a read lease that it cannot
// give up. Its stream may end before the lease (C5).
func TestCutAndWrite(t *testing.T) {
	for _, keepAlive := range []time.Duration{time.Second, 50 * time.Millisecond} {
		t.Run(keepAlive.String(), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				w := newWorld(t, 3, func(i int, n *node) {
					n.w.network.KeepAlive = keepAlive
					n.host.Rate = []float64{1.04, 0.96, 0.96}[i]
				})
				for range 10 {
					w.cutAndWrite(w.nodes[2])
					time.Sleep(37 * time.Millisecond)
				}
			})
		})
	}
}

// TestShrinkingLeases cuts the holder, whose clock is fast, from the log, so that each of its
// grants is shorter than the one before and ends at the same time. A grant does not take back what
// an earlier one allows for a slow clock (C5).
func TestShrinkingLeases(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, 3, func(i int, n *node) { n.host.Rate = []float64{1.04, 0.96, 0.96}[i] })
		first, far := w.nodes[0], w.nodes[2]
		for alone := 500 * time.Millisecond; alone < holderLease-100*time.Millisecond; alone += 10 * time.Millisecond {
			if holder := w.holder(); holder != first {
				if err := holder.cluster.HandOver(within(t, time.Second), first.cluster.Self().ID); err != nil {
					t.Fatal(err)
				}
				w.settle()
			}
			first.host.CutLog(true)
			time.Sleep(alone)
			first.host.CutLog(false)
			w.cutAndWrite(far)
		}
	})
}

// TestHandOverWaits hands the role over, or gives it back, while a third node, which
// reaches neither of the two, has a read lease of the old holder (C4).
func TestHandOverWaits(t *testing.T) {
	for _, resigns := range []bool{false, true} {
		t.Run(fmt.Sprint("resigns ", resigns), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				w := newWorld(t, 3, nil)
				holder := w.holder()
				next, far := w.others(holder)[0], w.others(holder)[1]
				w.network.Cut(far.host, holder.host, true)
				w.network.Cut(far.host, next.host, true)
				far.host.CutLog(true)
				if resigns {
					w.network.Cut(holder.host, next.host, true)
					if err := holder.cluster.Leave(t.Context()); err != nil {
						t.Fatal(err)
					}
				} else if err := holder.cluster.HandOver(t.Context(), next.cluster.Self().ID); err != nil {
					t.Fatal(err)
				}
				object := next.writeWhenHeld(t)
				if there, err := far.has(t.Context(), object, authz.Acknowledged()); err == nil && !there {
					t.Error("a node with a read lease of the old holder does not show a write of the new one")
				}
			})
		})
	}
}

// TestHelloGivesUp hands the role over while a third node is slow to show what the new
// holder has: with its hello it gives up the read lease of the old one.
func TestHelloGivesUp(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var late atomic.Bool // the question that follows a hello is late
		w := newWorld(t, 3, func(_ int, n *node) {
			n.slow = 100 * time.Millisecond
			n.host.Tamper = func(m lease.Message) []lease.Message {
				if _, is := m.(lease.Renew); is && late.Load() {
					time.Sleep(300 * time.Millisecond)
				}
				return []lease.Message{m}
			}
		})
		for range 3 {
			holder := w.holder()
			next, third := w.others(holder)[0], w.others(holder)[1]
			late.Store(true)
			if err := holder.cluster.HandOver(t.Context(), next.cluster.Self().ID); err != nil {
				t.Fatal(err)
			}
			w.otherHolder(holder)
			w.mustShow(next.mustWrite(t), third, holder)
			late.Store(false)
			w.settle()
		}
	})
}

// TestAppendOfOldHolder pauses the holder between its decision to append and the append.
// When it goes on, another node is the holder: the write fails, or is visible (C3).
func TestAppendOfOldHolder(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, 3, func(_ int, n *node) {
			n.options.Settings = sharedlog.Settings{HolderLease: 300 * time.Millisecond, ReadLease: 200 * time.Millisecond}
		})
		old := w.holder()
		var group sync.WaitGroup
		group.Go(func() {
			err := old.writeObject(t.Context(), "late")
			if err == nil {
				w.mustShow("late", w.others(old)...)
			} else if !errors.Is(err, authz.ErrNoHolder) {
				t.Errorf("the write of the old holder: %v", err)
			}
		})
		time.Sleep(oneWay / 2)
		old.host.Pause()
		w.otherHolder(old)
		time.Sleep(200 * time.Millisecond)
		old.host.Resume()
		group.Wait()
	})
}

// TestOwnLease measures the own lease of a holder far from the log, and what it grants
// when it can no longer renew it (C1, C2).
func TestOwnLease(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var mu sync.Mutex
		var ends time.Time // of the last grant
		w := newWorld(t, 2, func(i int, n *node) {
			n.host.Tamper = func(m lease.Message) []lease.Message {
				if g, is := m.(lease.Grant); is && g.Duration > 0 {
					mu.Lock()
					ends = time.Now().Add(g.Duration)
					mu.Unlock()
				}
				return []lease.Message{m}
			}
		})
		const far = 100 * time.Millisecond
		w.network.SetDelay(func() time.Duration { return far })
		time.Sleep(3 * time.Second)
		holder := w.holder()
		other := w.others(holder)[0]
		var own, read time.Duration
		for range 2000 {
			own = max(own, holder.cluster.Status().HolderRemaining)
			read = max(read, other.cluster.Status().ReadRemaining)
			time.Sleep(time.Millisecond)
		}
		if own < holderLease/2 || own > holderLease-2*far {
			t.Errorf("after a renewal, which takes %v, the own lease lasts %v", 2*far, own)
		}
		if read < readLease/4 || read > readLease-2*far {
			t.Errorf("after a question, which takes %v, the read lease lasts %v", 2*far, read)
		}
		holder.host.CutLog(true)
		until := time.Now().Add(holder.cluster.Status().HolderRemaining)
		time.Sleep(holderLease)
		mu.Lock()
		defer mu.Unlock()
		if ends.After(until.Add(2 * far)) { // a renewal may have been under way
			t.Errorf("a grant ends %v after the own lease", ends.Sub(until))
		}
	})
}

// TestNoHolder asks for a holder where there is none: the caller waits for its deadline.
func TestNoHolder(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, 2, func(i int, n *node) {
			if i == 1 {
				n.options.Reluctance = -1
			}
		})
		holder := w.holder()
		other := w.others(holder)[0]
		holder.kill(t)
		time.Sleep(5 * time.Second)
		begun := time.Now()
		_, _, err := other.cluster.AwaitHolder(within(t, 2*time.Second))
		if took := time.Since(begun); !errors.Is(err, storage.ErrNotHolder) || took != 2*time.Second {
			t.Errorf("after %v: %v", took, err)
		}
		_, err = other.write(within(t, 2*time.Second))
		if !errors.Is(err, authz.ErrNoHolder) {
			t.Error(err)
		}
		holder.start(t)
		w.settle()
	})
}

// TestMoved moves the log of nodes. A mover that was paused has lost its role to a node, and
// moves nothing. Once the log was moved no node writes, until it is used again.
func TestMoved(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, 2, nil)
		log := w.tables.Open()
		defer log.Close()
		fence := func() *move.Fence {
			t.Helper()
			f, err := move.TakeFence(t.Context(), log)
			if err != nil {
				t.Fatal(err)
			}
			return f
		}
		paused := fence()
		time.Sleep(2 * holderLease)
		w.settle()
		w.mustWrite()
		if err := paused.End(t.Context()); !errors.Is(err, sharedlog.ErrSwap) {
			t.Errorf("a mover that was paused moved the log: error %v", err)
		}
		if err := fence().End(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * holderLease)
		for i, n := range w.nodes {
			if _, err := n.write(within(t, holderLease)); !errors.Is(err, authz.ErrNoHolder) {
				t.Errorf("node %d has written to a log that was moved: error %v", i, err)
			}
		}
		if err := move.SetMoved(t.Context(), log, false); err != nil {
			t.Fatal(err)
		}
		w.settle()
		w.mustWrite()
	})
}

// TestMovedReads moves the log of three nodes to another one. One of them no longer reaches
// anything, and has a read lease of the holder before the move (C4). Another one does not look
// at the lease, and reads without one (C7). A fourth one does not know the other log, because
// an operator has forgotten it.
func TestMovedReads(t *testing.T) {
	bubble(t, func(t *testing.T) {
		next := memorylog.New()
		var blind atomic.Pointer[node]
		w := newWorld(t, 4, func(i int, n *node) {
			if i == 3 {
				return
			}
			n.wrap = func(l sharedlog.Log) sharedlog.Log {
				l = sharedlog.WithNext(l, n.host.Log(next.Open()), func() {})
				return blindLog{l, func() bool { return blind.Load() == n }}
			}
		})
		from, to := w.tables.Open(), next.Open()
		defer from.Close()
		defer to.Close()
		described, err := from.Cluster(t.Context())
		if err == nil {
			err = to.SwapCluster(t.Context(), sharedlog.Cluster{}, described)
		}
		if err != nil {
			t.Fatal(err)
		}
		holder := w.holder()
		far, other, forgotten := w.others(holder)[0], w.others(holder)[1], w.nodes[3]
		fence, err := move.TakeFence(t.Context(), from)
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range w.others(far) {
			w.network.Cut(far.host, n.host, true)
		}
		far.host.CutLog(true)
		time.Sleep(time.Until(fence.LeasesEnd()))
		w.network.Cut(other.host, holder.host, true)
		blind.Store(holder)
		if _, err := replica.Mirror(t.Context(), from, to, func(uint64) {}); err != nil {
			t.Fatal(err)
		}
		if err := fence.End(t.Context()); err != nil {
			t.Fatal(err)
		}
		object := other.writeWhenHeld(t)
		if there, err := far.has(t.Context(), object, authz.Acknowledged()); err == nil && !there {
			t.Error("a node with a read lease of the holder before the move does not show a write after it")
		}
		if there, err := holder.has(t.Context(), object, authz.Acknowledged()); err == nil && !there {
			t.Error("a node that has read the head of the log before the move does not show a write after it")
		}
		for name, c := range map[string]authz.Consistency{"a default": authz.Acknowledged(), "a fully consistent": authz.FullyConsistent()} {
			there, err := forgotten.has(t.Context(), object, c)
			if !errors.Is(err, authz.ErrNoLease) {
				t.Errorf("a node that does not know the log after the move answers %s read of a write there: %v, error %v", name, there, err)
			}
		}
	})
}

// readLog counts the reads of segments.
type readLog struct {
	sharedlog.Log
	reads *atomic.Int64
}

func (l readLog) Read(ctx context.Context, from uint64) iter.Seq2[sharedlog.Record, error] {
	l.reads.Add(1)
	return l.Log.Read(ctx, from)
}

// TestLatePushes writes far from the followers, to which the holder's segments come later than
// the news of them: they wait for them, and read the log no more once they know how long that
// takes.
func TestLatePushes(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var reads atomic.Int64
		var far atomic.Bool
		w := newWorld(t, 3, func(_ int, n *node) {
			n.wrap = func(l sharedlog.Log) sharedlog.Log { return readLog{l, &reads} }
			n.host.Tamper = func(m lease.Message) []lease.Message {
				if _, is := m.(lease.Segment); is && far.Load() {
					time.Sleep(100 * time.Millisecond)
				}
				return []lease.Message{m}
			}
		})
		w.network.SetDelay(func() time.Duration { return 100 * time.Millisecond })
		far.Store(true)
		time.Sleep(2 * holderLease)
		w.settle()
		for range 3 {
			w.mustWrite()
		}
		before := reads.Load()
		for range 10 {
			object := w.mustWrite()
			w.mustShow(object, w.nodes...)
		}
		if n := reads.Load() - before; n > 0 {
			t.Errorf("the log was read %d times for segments that the holder has sent", n)
		}
	})
}

// blindLog is a log whose lease can be read late only.
type blindLog struct {
	sharedlog.Log
	blind func() bool
}

func (l blindLog) Lease(ctx context.Context) (sharedlog.Lease, error) {
	if l.blind() {
		time.Sleep(10 * holderLease)
	}
	return l.Log.Lease(ctx)
}

// TestRenewalAnswersLost loses the answers of the log to a holder that nobody else reaches
// any more: it renews its lease once, and tries that again for nearly as long as it lasts. It
// may then not count from the last attempt (C1).
func TestRenewalAnswersLost(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, 2, func(_ int, n *node) {
			n.wrap = func(l sharedlog.Log) sharedlog.Log { return &lossyLease{Log: l} }
		})
		holder := w.holder()
		other := w.others(holder)[0]
		log := holder.log.(*lossyLease)
		w.network.Cut(holder.host, other.host, true)
		log.swaps.Store(true)
		log.reads.Store(true)
		before := log.made.Load()
		for log.made.Load() == before {
			time.Sleep(time.Millisecond)
		}
		renewed := time.Now()
		time.Sleep(holderLease * 8 / 10)
		log.reads.Store(false)
		for tried := log.tried.Load(); log.tried.Load() == tried; {
			time.Sleep(time.Millisecond)
		}
		time.Sleep(5 * oneWay) // it has read the lease
		holder.host.CutLog(true)
		object := other.writeWhenHeld(t)
		if took := time.Since(renewed); took > 2*holderLease {
			t.Fatalf("the next holder has written %v after the last renewal", took)
		}
		if there, err := holder.has(t.Context(), object, authz.Acknowledged()); err == nil && !there {
			t.Error("a holder that counts its lease from a renewal that was not made does not show a write")
		}
	})
}

// lossyLease is a log whose answers about the lease are lost.
type lossyLease struct {
	sharedlog.Log
	swaps, reads atomic.Bool // those that are lost
	made, tried  atomic.Int64
}

var errAnswerLost = errors.New("the answer is lost")

func (l *lossyLease) SwapLease(ctx context.Context, old, new sharedlog.Lease) error {
	err := l.Log.SwapLease(ctx, old, new)
	if !l.swaps.Load() {
		return err
	}
	l.tried.Add(1)
	if err == nil {
		l.made.Add(1)
	}
	return errAnswerLost
}

func (l *lossyLease) Lease(ctx context.Context) (sharedlog.Lease, error) {
	if l.reads.Load() {
		return sharedlog.Lease{}, errAnswerLost
	}
	return l.Log.Lease(ctx)
}

// TestLeaseGoesBack makes the lease of the log an older one, as a database does that takes
// over without the last changes, at the moment at which the holder dies.
func TestLeaseGoesBack(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, 3, nil)
		restore := w.tables.Backup()
		time.Sleep(5 * time.Second)
		holder := w.holder()
		restore()
		holder.kill(t)
		w.settle()
		w.mustWrite()
	})
}

// TestLateFollower makes the acknowledgements of a follower late: the holder suspends it
// after three, and writes are quick again.
func TestLateFollower(t *testing.T) {
	bubble(t, func(t *testing.T) {
		slow := make(chan struct{})
		var once sync.Once
		w := newWorld(t, 3, func(i int, n *node) {
			if i == 2 {
				n.host.Tamper = func(m lease.Message) []lease.Message {
					select {
					case <-slow:
						if _, is := m.(lease.Applied); is {
							time.Sleep(200 * time.Millisecond)
						}
					default:
					}
					return []lease.Message{m}
				}
			}
		})
		for range 10 {
			w.mustWrite()
		}
		once.Do(func() { close(slow) })
		quick := 0
		for range 60 {
			begun := time.Now()
			object := w.mustWrite()
			if time.Since(begun) < 20*time.Millisecond {
				quick++
			}
			w.mustShow(object, w.nodes...)
			time.Sleep(20 * time.Millisecond)
		}
		if quick < 40 {
			t.Errorf("%d of 60 writes were quick, expected 40 or more", quick)
		}
		suspended := 0
		for _, f := range w.holder().cluster.Status().Followers {
			if f.Suspended {
				suspended++
			}
		}
		if suspended != 1 {
			t.Errorf("%d followers are suspended, expected 1", suspended)
		}
	})
}

// TestTampered sends messages that break a rule: the stream ends, and the node gets
// another one.
func TestTampered(t *testing.T) {
	var hash storage.Hash
	hash[0] = 1
	for name, tamper := range map[string]func(m lease.Message) []lease.Message{
		"a sequence that was not sent": func(m lease.Message) []lease.Message {
			if a, is := m.(lease.Applied); is {
				a.Position.Sequence += 1000
				return []lease.Message{a}
			}
			return nil
		},
		"a hash that was not sent": func(m lease.Message) []lease.Message {
			if a, is := m.(lease.Applied); is {
				a.Position.Hash = hash
				return []lease.Message{a}
			}
			return nil
		},
		"a replayed acknowledgement": func(m lease.Message) []lease.Message {
			if a, is := m.(lease.Applied); is {
				return []lease.Message{a, a}
			}
			return nil
		},
		"a replayed question": func(m lease.Message) []lease.Message {
			if a, is := m.(lease.Renew); is {
				return []lease.Message{a, a}
			}
			return nil
		},
		"a grant of a follower": func(m lease.Message) []lease.Message {
			if _, is := m.(lease.Renew); is {
				return []lease.Message{lease.Grant{}}
			}
			return nil
		},
		"a lease of another epoch that is given up": func(m lease.Message) []lease.Message {
			if _, is := m.(lease.Renew); is {
				return []lease.Message{lease.GiveUp{Epoch: 1 << 40}}
			}
			return nil
		},
		"a replayed grant": func(m lease.Message) []lease.Message {
			if a, is := m.(lease.Grant); is {
				return []lease.Message{a, a}
			}
			return nil
		},
		"a replayed segment": func(m lease.Message) []lease.Message {
			if a, is := m.(lease.Segment); is {
				return []lease.Message{a, a}
			}
			return nil
		},
		"a grant of another epoch": func(m lease.Message) []lease.Message {
			if a, is := m.(lease.Grant); is {
				a.Epoch++
				return []lease.Message{a}
			}
			return nil
		},
		"garbage as a segment": func(m lease.Message) []lease.Message {
			if a, is := m.(lease.Segment); is {
				a.Bytes = []byte("garbage")
				return []lease.Message{a}
			}
			return nil
		},
	} {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				var mu sync.Mutex
				left := 0
				w := newWorld(t, 3, func(_ int, n *node) {
					n.host.Tamper = func(m lease.Message) []lease.Message {
						mu.Lock()
						defer mu.Unlock()
						if left > 0 {
							if out := tamper(m); out != nil {
								left--
								return out
							}
						}
						return []lease.Message{m}
					}
				})
				for range 3 {
					w.mustWrite()
				}
				opened := func() (sum int) {
					for _, n := range w.nodes {
						sum += n.host.Opened()
					}
					return sum
				}
				before := opened()
				mu.Lock()
				left = 3
				mu.Unlock()
				for range 20 {
					w.mustShow(w.mustWrite(), w.nodes...)
					time.Sleep(100 * time.Millisecond)
				}
				if left != 0 {
					t.Errorf("%d messages were not tampered with", left)
				}
				w.settle()
				w.mustShow(w.mustWrite(), w.nodes...)
				// A segment that does not follow the copy is read from the log instead.
				if harmless := strings.HasPrefix(name, "garbage"); harmless != (opened() == before) {
					t.Errorf("%d streams were opened again", opened()-before)
				}
			})
		})
	}
}

// TestRefused opens streams that the holder must refuse.
func TestRefused(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, 2, nil)
		holder := w.holder()
		other := w.others(holder)[0]
		epoch := holder.cluster.Status().Lease.Epoch
		id, _ := holder.driver.Self()
		good := lease.Hello{Version: lease.Version, Cluster: id, Node: other.cluster.Self(), To: holder.cluster.Self(), Epoch: epoch, Settings: holder.cluster.Settings()}
		for name, change := range map[string]func(h *lease.Hello){
			"cluster":           func(h *lease.Hello) { h.Cluster[0]++ },
			"reads messages":    func(h *lease.Hello) { h.Version = 0 },
			"is not registered": func(h *lease.Hello) { h.Node.ID[0]++ },
			"is registered":     func(h *lease.Hello) { h.Node.Start++ },
			"and this is start": func(h *lease.Hello) { h.To.Start++ },
			"of epoch":          func(h *lease.Hello) { h.Epoch++ },
			`holder lease "2s"`: func(h *lease.Hello) { h.Settings.HolderLease = 2 * time.Second },
			`expected "700ms"`:  func(h *lease.Hello) { h.Settings.ReadLease = time.Second },
			`acknowledge "loc`:  func(h *lease.Hello) { h.Settings.Acknowledge = sharedlog.AcknowledgeLocal },
		} {
			h := good
			change(&h)
			stream, err := other.host.Follow(t.Context(), holder.cluster.Self(), h)
			if err == nil {
				_, err = stream.Recv()
			}
			if err == nil || !strings.Contains(err.Error(), name) {
				t.Errorf("%s: %v", name, err)
			}
			if want := lease.ErrPeer; name != "of epoch" && !errors.Is(err, want) {
				t.Errorf("%s: %v, expected ErrPeer", name, err)
			}
		}
		m := lease.HandOver{Cluster: id, From: holder.cluster.Self(), To: other.cluster.Self(), Lease: holder.cluster.Status().Lease}
		for name, change := range map[string]func(m *lease.HandOver){
			"cluster":   func(m *lease.HandOver) { m.Cluster[0]++ },
			"hands its": func(m *lease.HandOver) { m.To.Start++ },
			"the lease": func(m *lease.HandOver) { m.From.ID[0]++ },
			"lease of":  func(m *lease.HandOver) { m.Lease.Holder[0]++ },
			"meanwhile": func(m *lease.HandOver) { m.Lease.Renewals += 1000 },
		} {
			m := m
			change(&m)
			if err := other.cluster.TakeOver(t.Context(), holder.cluster.Self(), m); err == nil || !strings.Contains(err.Error(), name) {
				t.Errorf("%s: %v", name, err)
			}
		}
		w.settle()
		w.mustShow(w.mustWrite(), w.nodes...)
	})
}

// TestSettings changes the settings of the cluster while a node is suspended: it cannot
// take the role over, because its lease is another one, and the holder refuses it. A node
// that names no settings has those of the cluster, and one that names others does not
// open.
func TestSettings(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, 2, func(i int, n *node) {
			if i == 0 {
				n.options.Settings = sharedlog.Settings{HolderLease: 2 * time.Second}
			}
		})
		want := sharedlog.Settings{HolderLease: 2 * time.Second, ReadLease: readLease, Acknowledge: sharedlog.AcknowledgeLeased}
		for _, n := range w.nodes {
			if have := n.cluster.Settings(); have != want {
				t.Errorf("the settings are %+v, want %+v", have, want)
			}
		}
		third := &node{w: w, host: w.network.Host(), disk: memory.NewStore(), options: lease.Options{Settings: sharedlog.Settings{HolderLease: time.Second}}}
		err := third.open(t)
		if !errors.Is(err, sharedlog.ErrSettings) || !strings.Contains(err.Error(), `holder lease "1s", expected "2s"`) {
			t.Errorf("a node with another holder lease: %v", err)
		}
		log := w.tables.Open()
		if all, _, err := log.Nodes(t.Context()); err != nil || len(all) != 2 {
			t.Errorf("the registry has %+v, error %v, after a node was refused", all, err)
		}
		asleep, other := w.nodes[0], w.nodes[1]
		asleep.host.Pause()
		defer asleep.host.Resume()
		other.stop(t)
		old, err := log.Cluster(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		next := old
		next.Settings.HolderLease = 10 * time.Second
		if err := log.SwapCluster(t.Context(), old, next); err != nil {
			t.Fatal(err)
		}
		other.start(t)
		time.Sleep(20 * time.Second)
		if s := other.cluster.Status(); s.Role != lease.Holder {
			t.Fatalf("the other node: %+v", s)
		}
		asleep.host.Resume()
		time.Sleep(5 * time.Second) // more than its holder lease, and less than the new one
		if s := asleep.cluster.Status(); !errors.Is(s.Failure, lease.ErrPeer) {
			t.Errorf("the node that was suspended: %+v", s)
		}
		w.network.Cut(asleep.host, other.host, true)
		other.host.Pause()
		time.Sleep(5 * time.Second)
		other.host.Resume()
		if s := asleep.cluster.Status(); s.Role >= lease.Taking || !errors.Is(s.Failure, sharedlog.ErrSettings) {
			t.Errorf("the node that was suspended, while no node renews the lease: %+v", s)
		}
		if s := other.cluster.Status(); s.Role != lease.Holder {
			t.Errorf("the other node: %+v", s)
		}
		w.network.Cut(asleep.host, other.host, false)
	})
}

// TestShorterLeases makes the leases of a cluster shorter and restarts one node. The node
// that writes hangs, or resigns, while the third node, which was not restarted and cannot
// be reached, has a read lease of it. The restarted node writes nothing that the third
// one does not show (C3, C4). Once all nodes have the shorter leases, it waits for these
// alone.
func TestShorterLeases(t *testing.T) {
	for _, resigns := range []bool{false, true} {
		t.Run(fmt.Sprint(resigns), func(t *testing.T) { bubble(t, func(t *testing.T) { shorterLeases(t, resigns) }) })
	}
}

func shorterLeases(t *testing.T, resigns bool) {
	long := sharedlog.Settings{HolderLease: 30 * time.Second, ReadLease: 20 * time.Second}
	w := newWorld(t, 3, func(i int, n *node) {
		if i == 0 {
			n.options.Settings = long
		}
	})
	old, restarted, far := w.nodes[0], w.nodes[1], w.nodes[2]
	old.options.Settings = sharedlog.Settings{}
	log := w.tables.Open()
	have, err := log.Cluster(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	next := have
	next.Settings.HolderLease, next.Settings.ReadLease = time.Second, readLease
	if err := log.SwapCluster(t.Context(), have, next); err != nil {
		t.Fatal(err)
	}
	restarted.stop(t)
	restarted.start(t)
	time.Sleep(5 * time.Second)
	if s := old.cluster.Status(); s.Role != lease.Holder {
		t.Fatalf("the node that writes: %+v", s)
	}
	if left := far.cluster.Status().ReadRemaining; left < 10*time.Second {
		t.Fatalf("the third node has a read lease for %s", left)
	}
	for _, n := range w.others(far) {
		w.network.Cut(far.host, n.host, true)
	}
	far.host.CutLog(true)
	begun := time.Now()
	if resigns {
		old.stop(t)
	} else {
		old.host.Pause()
		defer old.host.Resume()
	}
	object := ""
	for object == "" && time.Since(begun) < time.Minute {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		if written, err := restarted.write(ctx); err == nil {
			object = written
		}
		cancel()
		time.Sleep(100 * time.Millisecond)
	}
	if object == "" {
		t.Fatalf("the restarted node: %+v", restarted.cluster.Status())
	}
	if there, err := far.has(t.Context(), object, authz.Acknowledged()); err == nil && !there {
		t.Errorf("%s after the change, the third node, with a read lease for %s, does not show an acknowledged write", time.Since(begun), far.cluster.Status().ReadRemaining)
	}
	for _, n := range w.others(far) {
		w.network.Cut(far.host, n.host, false)
	}
	far.host.CutLog(false)
	old.host.Resume()
	for _, n := range []*node{far, old} {
		n.stop(t)
		n.start(t)
	}
	w.settle()
	holder := w.holder()
	holder.host.Pause()
	begun = time.Now()
	w.otherHolder(holder)
	if took := time.Since(begun); took > 2*time.Second {
		t.Errorf("with the shorter leases on all nodes, another one takes over after %s", took)
	}
	holder.host.Resume()
}

// TestPrefer starts a preferred node last: the role goes to it once it has caught up, and
// again after it was started again, and no write fails. A preferred holder keeps the role.
func TestPrefer(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, 3, func(i int, n *node) { n.options.Preferred = i == 2 })
		preferred := w.nodes[2]
		awaitRole := func() {
			t.Helper()
			for begun := time.Now(); preferred.cluster.Status().Role != lease.Holder; time.Sleep(10 * time.Millisecond) {
				if time.Since(begun) > 5*time.Second {
					t.Fatalf("after 5 s the preferred node is %+v", preferred.cluster.Status())
				}
				if err := w.forward(t, w.nodes[0], fmt.Sprint(time.Now().UnixNano())); err != nil {
					t.Errorf("a write meanwhile: %v", err)
				}
			}
		}
		awaitRole()
		epoch := preferred.cluster.Status().Lease.Epoch
		time.Sleep(20 * time.Second)
		if s := preferred.cluster.Status(); s.Role != lease.Holder || s.Lease.Epoch != epoch {
			t.Errorf("the preferred node did not keep the role: %+v", s)
		}
		preferred.stop(t)
		w.holder()
		preferred.start(t)
		awaitRole()
		w.mustShow(w.mustWrite(), w.nodes...)
	})
}

// TestAloneAgain kills the only node: its next start takes the lease over at once, and
// not if another node is registered.
func TestAloneAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		for _, total := range []int{1, 2} {
			w := newWorld(t, total, nil)
			holder := w.holder()
			w.mustWrite()
			for _, n := range w.nodes {
				n.host.Pause() // it never goes on
			}
			again := &node{w: w, host: w.network.Host(), disk: holder.disk}
			begun := time.Now()
			again.start(t)
			for again.cluster.Status().Role != lease.Holder {
				time.Sleep(time.Millisecond)
			}
			if took := time.Since(begun); (took < 100*time.Millisecond) != (total == 1) {
				t.Errorf("one of %d nodes takes over from its earlier start after %v", total, took)
			}
			again.mustWrite(t)
			for _, n := range w.nodes {
				n.host.Resume()
			}
		}
	})
}

// TestRemovedAlone removes a node that no longer reaches the log, but still has a read lease.
// The holder is killed then, and starts again as the only node that is registered.
func TestRemovedAlone(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, 2, nil)
		holder := w.holder()
		gone := w.others(holder)[0]
		gone.host.CutLog(true)
		if err := w.tables.Open().Forget(t.Context(), gone.cluster.Self().ID); err != nil {
			t.Fatal(err)
		}
		holder.host.Pause() // it never goes on
		again := &node{w: w, host: w.network.Host(), disk: holder.disk}
		again.start(t)
		object := again.mustWrite(t)
		if there, err := gone.has(t.Context(), object, authz.Acknowledged()); err == nil && !there {
			t.Error("a removed node with a read lease of the earlier start of the holder does not show a write")
		}
		holder.host.Resume()
	})
}

// TestRemovedVacant removes a node as TestRemovedAlone does. The role of the holder is then
// taken and given back by a command that moves logs, which knows as little of the node.
func TestRemovedVacant(t *testing.T) {
	t.Parallel()
	for phase := range 12 { // of the renewals
		t.Run(fmt.Sprint(phase), func(t *testing.T) {
			bubble(t, func(t *testing.T) { removedVacant(t, time.Duration(phase)*holderLease/36) })
		})
	}
}

func removedVacant(t *testing.T, phase time.Duration) {
	t.Helper()
	w := newWorld(t, 3, func(i int, n *node) {
		if i == 1 {
			n.options.Reluctance = -1 // it holds the role, and does not take it back
		}
	})
	if err := w.holder().cluster.HandOver(t.Context(), w.nodes[1].cluster.Self().ID); err != nil {
		t.Fatal(err)
	}
	w.settle()
	time.Sleep(phase)
	gone := w.nodes[2]
	gone.host.CutLog(true)
	log := w.tables.Open()
	if err := log.Forget(t.Context(), gone.cluster.Self().ID); err != nil {
		t.Fatal(err)
	}
	fence, err := move.TakeFence(t.Context(), log)
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Until(fence.LeasesEnd()))
	if err := fence.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	object := w.nodes[0].writeWhenHeld(t)
	if there, err := gone.has(t.Context(), object, authz.Acknowledged()); err == nil && !there {
		t.Error("a removed node with a read lease of the last holder does not show a write")
	}
}

// TestRemoved removes a node from the registry: the holder refuses it, and it stops
// serving.
func TestRemoved(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, 3, nil)
		holder := w.holder()
		gone := w.others(holder)[0]
		if err := w.tables.Open().Forget(t.Context(), gone.cluster.Self().ID); err != nil {
			t.Fatal(err)
		}
		time.Sleep(6 * time.Second) // it reports to the registry
		if _, err := gone.has(t.Context(), "1", authz.Acknowledged()); err == nil {
			t.Error("a removed node answers")
		}
		begun := time.Now()
		w.mustWrite()
		if took := time.Since(begun); took > 20*time.Millisecond {
			t.Errorf("a write took %v after a node was removed", took)
		}
		object := w.mustWrite()
		gone.stop(t)
		gone.start(t) // it registers again
		w.settle()
		w.mustShow(object, gone)
	})
}

// TestNewAddress restarts a follower at a new address, while the read lease of its earlier
// start lasts: the holder shows one node, which is gone once and back once.
func TestNewAddress(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, 3, nil)
		holder := w.holder()
		n := w.others(holder)[0]
		earlier := n.cluster.Self()
		n.kill(t)
		n.address = "there"
		restarted := make(chan struct{})
		go func() {
			defer close(restarted)
			time.Sleep(readLease / 3)
			n.start(t)
		}()
		var seen []string
		for range 4 * holderLease / (10 * time.Millisecond) {
			var now []string
			for _, f := range holder.cluster.Status().Followers {
				if f.Node.ID == earlier.ID {
					now = append(now, fmt.Sprintf("start +%d %s %t", f.Node.Start-earlier.Start, f.Node.Address, f.Connected))
				}
			}
			if text := strings.Join(now, ", "); len(seen) == 0 || seen[len(seen)-1] != text {
				seen = append(seen, text)
			}
			time.Sleep(10 * time.Millisecond)
		}
		<-restarted
		if want := []string{"start +0 here false", "start +1 there true"}; !slices.Equal(seen, want) {
			t.Errorf("the holder shows %q, expected %q", seen, want)
		}
	})
}

// TestEarlierStart reports how long the holder waits for a node whose earlier start has a
// read lease and cannot acknowledge: a later start shows the time of both.
func TestEarlierStart(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, 2, nil)
		holder := w.holder()
		n := w.others(holder)[0]
		id := n.cluster.Self().ID
		n.kill(t)
		of := func() lease.FollowerStatus {
			for _, f := range holder.cluster.Status().Followers {
				if f.Node.ID == id {
					return f
				}
			}
			return lease.FollowerStatus{}
		}
		before := of()
		n.host.Tamper = func(m lease.Message) []lease.Message { // the new start has no read lease at first
			if _, is := m.(lease.Renew); is {
				time.Sleep(readLease / 4)
			}
			return []lease.Message{m}
		}
		started := make(chan struct{})
		go func() {
			defer close(started)
			n.start(t)
		}()
		after := of()
		for range 10_000 {
			if after.Node.Start > before.Node.Start {
				break
			}
			time.Sleep(oneWay)
			after = of()
		}
		if after.Node.Start == before.Node.Start || after.Remaining <= 0 || after.Remaining > before.Remaining {
			t.Errorf("the holder shows %+v before and %+v after the restart", before, after)
		}
		<-started
	})
}

// TestClonedFolder starts a copy of a node's folder: the second start of one number is
// refused, and a later one stops the first node.
func TestClonedFolder(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, 3, nil)
		holder := w.holder()
		first := w.others(holder)[0]
		clone := &node{w: w, host: w.network.Host(), disk: cloneDisk(t, first.disk)}
		clone.start(t) // it has the same rows; its start is one higher
		object := w.mustWrite()
		w.mustShow(object, clone)
		if _, err := first.has(t.Context(), object, authz.Acknowledged()); err == nil {
			w.mustShow(object, first)
		}
		time.Sleep(6 * time.Second)
		if _, err := first.has(t.Context(), object, authz.Acknowledged()); err == nil {
			t.Error("a node answers whose folder was started elsewhere")
		}
	})
}

// TestPushQueue lets the queue to a follower overflow: it reads the log.
func TestPushQueue(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, 3, func(_ int, n *node) { n.options.PushBytes = 10 })
		for range 5 {
			w.mustShow(w.mustWrite(), w.nodes...)
		}
	})
}

// TestAcknowledgeLocal answers a write at its commit.
func TestAcknowledgeLocal(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, 3, func(_ int, n *node) { n.options.Settings.Acknowledge = sharedlog.AcknowledgeLocal })
		w.others(w.holder())[0].host.Pause()
		begun := time.Now()
		object := w.mustWrite()
		if took := time.Since(begun); took > 2*oneWay {
			t.Errorf("a write took %v, expected a commit", took)
		}
		w.others(w.holder())[0].host.Resume()
		time.Sleep(50 * time.Millisecond)
		w.mustShow(object, w.nodes...)
	})
}
