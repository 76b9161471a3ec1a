package commit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/internal/engine/graph"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/storage"
	"github.com/ostiary/ostiary/storage/memory"
)

// remote is the driver of the node that writes, as for a far log: an append takes a time, and so
// does its acknowledgment. A test holds them at will.
type remote struct {
	*memory.Driver
	storage.Copy // nil: nothing but the methods below is called

	commit, distance time.Duration
	pace             time.Duration // see AppendAhead
	last             chan struct{} // closed when the last append is decided

	mu        sync.Mutex
	appended  []storage.Revision // the heads of the appends
	refuse    error              // the next append fails with it
	random    *rand.Rand         // fails appends and acknowledgments, if it is set
	held      map[storage.Revision]chan error
	holding   bool
	appending sync.Mutex

	acknowledging error // of Acknowledge
}

func (d *remote) BeforeRead(context.Context) error  { return nil }
func (d *remote) BeforeWrite(context.Context) error { return nil }
func (d *remote) Confirm(context.Context) error     { return nil }
func (d *remote) Leads() bool                       { return true }
func (d *remote) Acknowledge(context.Context) error { return d.acknowledging }
func (d *remote) OnApplied(func(context.Context, []storage.StoreID) error) func() {
	return func() {}
}

func (d *remote) Append(ctx context.Context, id storage.StoreID, after storage.Head, entries []storage.Entry, sealed []storage.Sealed) (storage.Head, error) {
	head, acknowledge, err := d.append(ctx, id, after, entries, sealed)
	if err == nil {
		err = acknowledge(ctx)
	}
	return head, err
}

// AppendAhead returns when the entries are made. With pace, the next ones follow after that time
// at most, and are made in their order.
func (d *remote) AppendAhead(ctx context.Context, id storage.StoreID, after storage.Head, entries []storage.Entry, sealed []storage.Sealed) (made func(context.Context) (storage.Head, error), acknowledge func(context.Context) error, err error) {
	if d.pace == 0 {
		d.appending.Lock()
		defer d.appending.Unlock()
		time.Sleep(d.commit)
		head, acknowledge, err := d.append(ctx, id, after, entries, sealed)
		return func(context.Context) (storage.Head, error) { return head, nil }, acknowledge, err
	}
	done := make(chan struct{})
	d.mu.Lock()
	before := d.last
	d.last = done
	d.mu.Unlock()
	var head storage.Head
	var shown func(context.Context) error
	var failed error
	go func() {
		defer close(done)
		time.Sleep(d.commit)
		if before != nil {
			<-before
		}
		head, shown, failed = d.append(ctx, id, after, entries, sealed)
	}()
	select {
	case <-done:
	case <-time.After(d.pace):
	}
	return func(context.Context) (storage.Head, error) {
			<-done
			return head, failed
		}, func(ctx context.Context) error {
			return shown(ctx)
		}, nil
}

// append appends entries, without the time that it takes.
func (d *remote) append(ctx context.Context, id storage.StoreID, after storage.Head, entries []storage.Entry, sealed []storage.Sealed) (storage.Head, func(context.Context) error, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.random != nil {
		return d.appendRandom(ctx, id, after, entries, sealed)
	}
	if err := d.refuse; err != nil {
		d.refuse = nil
		return storage.Head{}, nil, err
	}
	head, err := d.Driver.Append(ctx, id, after, entries, sealed)
	if err != nil {
		return storage.Head{}, nil, err
	}
	d.appended = append(d.appended, head.Revision)
	if !d.holding {
		return head, func(context.Context) error { time.Sleep(d.distance); return nil }, nil
	}
	held := make(chan error, 1)
	d.held[head.Revision] = held
	return head, func(ctx context.Context) error {
		select {
		case err := <-held:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}, nil
}

// appendRandom appends, or fails in one of the ways of a log: refused, lost before or after it
// was made. The acknowledgment comes late, or fails.
func (d *remote) appendRandom(ctx context.Context, id storage.StoreID, after storage.Head, entries []storage.Entry, sealed []storage.Sealed) (storage.Head, func(context.Context) error, error) {
	fate, wait := d.random.IntN(20), time.Duration(d.random.IntN(400))*time.Millisecond
	switch fate {
	case 0:
		return storage.Head{}, nil, &storage.ConflictError{}
	case 1:
		return storage.Head{}, nil, errors.New("refused")
	}
	head, err := d.Driver.Append(ctx, id, after, entries, sealed)
	if err == nil && fate == 2 {
		err = storage.ErrUncertain
	}
	return head, func(context.Context) error {
		time.Sleep(wait)
		if fate == 3 {
			return storage.ErrUncertain
		}
		return nil
	}, err
}

// hold makes acknowledgments wait for acknowledge.
func (d *remote) hold() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.holding, d.held, d.appended = true, map[storage.Revision]chan error{}, nil
}

func (d *remote) acknowledge(r storage.Revision, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.held[r] <- err
}

// heads returns the heads of the appends since hold.
func (d *remote) heads() string {
	synctest.Wait()
	d.mu.Lock()
	defer d.mu.Unlock()
	return fmt.Sprint(d.appended)
}

// answers collects the writes that are answered, in their order.
type answers struct {
	t     *testing.T
	world *world
	mu    sync.Mutex
	all   []string
}

// write starts a write of a document, and returns when it waits.
func (a *answers) write(name string, w authz.WriteRequest) {
	go func() {
		token, err := a.world.queue.Write(context.Background(), &w)
		outcome := name
		switch {
		case errors.Is(err, authz.ErrUncertain):
			outcome += " uncertain"
		case err != nil:
			outcome += " refused"
		default:
			revision, _ := token.Revision()
			outcome += fmt.Sprint(" at ", revision)
		}
		a.mu.Lock()
		defer a.mu.Unlock()
		a.all = append(a.all, outcome)
	}()
	synctest.Wait()
}

func (a *answers) expect(when, want string) {
	a.t.Helper()
	synctest.Wait()
	a.mu.Lock()
	defer a.mu.Unlock()
	if got := fmt.Sprint(a.all); got != want {
		a.t.Errorf("%s: answered %s, expected %s", when, got, want)
	}
}

// shows requires the newest revision that is shown.
func (a *answers) shows(when string, want storage.Revision) {
	a.t.Helper()
	if got := a.world.timeline.Loaded().Head.Revision; got != want {
		a.t.Errorf("%s: revision %d is shown, expected %d", when, got, want)
	}
}

// ahead calls f with a store whose second revision has document 0, with the acknowledgments
// held. 0 groups are the default.
func ahead(t *testing.T, groups int, f func(*testing.T, *remote, *answers)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		d := &remote{Driver: memory.New()}
		w := newRemoteWorld(t, d, groups)
		if _, err := w.queue.Write(context.Background(), new(one(0))); err != nil {
			t.Fatal(err)
		}
		d.hold()
		f(t, d, &answers{t: t, world: w})
	})
}

func newRemoteWorld(t *testing.T, d *remote, groups int) *world {
	w := newWorldOn(t, d.Driver)
	w.runtime.Driver, w.runtime.Copy = d, d
	w.runtime.Bounds.GroupsAhead = cmp.Or(groups, w.runtime.Bounds.GroupsAhead)
	return w
}

// one is a write of one document.
func one(i int) authz.WriteRequest {
	return authz.WriteRequest{Add: []rel.Tuple{{Object: rel.Object{Type: "doc", ID: fmt.Sprint(i)}, Relation: "viewer", Subject: rel.Subject{Type: "user", ID: "anne"}}}}
}

// TestAhead requires that a group is appended before the one below it is acknowledged, and that
// no writer is answered, and nothing shown, before its group and all below are.
func TestAhead(t *testing.T) {
	t.Parallel()
	ahead(t, 0, func(t *testing.T, d *remote, a *answers) {
		a.write("first", one(1))
		a.write("second", one(2))
		a.write("third", one(3))
		if got := d.heads(); got != "[3 4 5]" {
			t.Fatalf("appended %s, expected three groups", got)
		}
		a.shows("before", 2)
		d.acknowledge(5, nil)
		d.acknowledge(4, nil)
		a.expect("the first is not acknowledged", "[]")
		a.shows("the first is not acknowledged", 2)
		d.acknowledge(3, nil)
		a.expect("all are acknowledged", "[first at 3 second at 4 third at 5]")
		a.shows("all are acknowledged", 5)
	})
}

// TestAheadOrder requires that answers come in the order of the log.
func TestAheadOrder(t *testing.T) {
	t.Parallel()
	ahead(t, 0, func(t *testing.T, d *remote, a *answers) {
		a.write("first", one(1))
		a.write("second", one(2))
		d.acknowledge(3, nil)
		a.expect("the second is not acknowledged", "[first at 3]")
		a.shows("the second is not acknowledged", 3)
		d.acknowledge(4, nil)
		a.expect("both are acknowledged", "[first at 3 second at 4]")
	})
}

// TestAheadBound requires that at most GroupsAhead groups are not acknowledged; 1 is one after the
// other.
func TestAheadBound(t *testing.T) {
	t.Parallel()
	for groups, want := range map[int]string{1: "[3]", 2: "[3 4]", 3: "[3 4 5]"} {
		ahead(t, groups, func(t *testing.T, d *remote, a *answers) {
			for i := range 3 {
				a.write(fmt.Sprint(i), one(i+1))
			}
			if got := d.heads(); got != want {
				t.Errorf("GroupsAhead %d: appended %s, expected %s", groups, got, want)
			}
			for range 3 {
				synctest.Wait()
				d.mu.Lock()
				for _, held := range d.held {
					select {
					case held <- nil:
					default:
					}
				}
				d.mu.Unlock()
			}
			a.shows("after", 5)
		})
	}
}

// TestAheadRefusal requires that a refusal, and a write that has nothing to do, are answered only
// when what they were decided on is acknowledged.
func TestAheadRefusal(t *testing.T) {
	t.Parallel()
	ahead(t, 0, func(t *testing.T, d *remote, a *answers) {
		a.write("first", one(1))
		a.write("again", one(1)) // there already: refused
		refused := one(1)
		refused.OnDuplicate = authz.Ignore
		a.write("nothing", refused)
		a.expect("the first is not acknowledged", "[]")
		a.write("second", one(2))
		a.expect("the first is not acknowledged", "[]")
		d.acknowledge(3, nil)
		synctest.Wait()
		d.acknowledge(4, nil)
		synctest.Wait()
		a.mu.Lock()
		defer a.mu.Unlock()
		if len(a.all) != 4 || a.all[0] != "first at 3" {
			t.Errorf("answered %v, expected the first write first", a.all)
		}
	})
}

// TestAheadUncertain requires that a group whose acknowledgment fails is uncertain, that those
// above it are written if theirs come, and that all are shown.
func TestAheadUncertain(t *testing.T) {
	t.Parallel()
	ahead(t, 0, func(t *testing.T, d *remote, a *answers) {
		a.write("first", one(1))
		a.write("second", one(2))
		d.acknowledging = fmt.Errorf("%w: not acknowledged", storage.ErrUncertain)
		d.acknowledge(3, d.acknowledging)
		a.expect("the first is not acknowledged", "[first uncertain]")
		d.acknowledge(4, nil)
		a.expect("the second is", "[first uncertain second at 4]")
		a.write("third", one(3))
		d.acknowledge(5, nil)
		a.expect("all are", "[first uncertain second at 4 third at 5]")
		a.shows("after", 5)
	})
}

// TestAheadConflict requires that a group that the log refuses is validated again, in order, when
// the groups below are acknowledged.
func TestAheadConflict(t *testing.T) {
	t.Parallel()
	ahead(t, 0, func(t *testing.T, d *remote, a *answers) {
		a.write("first", one(1))
		d.mu.Lock()
		d.refuse = &storage.ConflictError{}
		d.mu.Unlock()
		a.write("second", one(2))
		a.write("third", one(3))
		if got := d.heads(); got != "[3]" {
			t.Errorf("appended %s before the first is acknowledged, expected it alone", got)
		}
		d.acknowledge(3, nil)
		for _, r := range []storage.Revision{4, 5} {
			synctest.Wait()
			d.mu.Lock()
			held := d.held[r]
			d.mu.Unlock()
			if held == nil {
				t.Fatalf("revision %d was not appended", r)
			}
			held <- nil
		}
		a.expect("all are acknowledged", "[first at 3 second at 4 third at 5]")
		a.shows("all are acknowledged", 5)
	})
}

// TestAheadPlaced requires that a group is appended before the one below it is durable, if the log
// keeps their order, and is answered after it.
func TestAheadPlaced(t *testing.T) {
	t.Parallel()
	ahead(t, 0, func(t *testing.T, d *remote, a *answers) {
		d.commit, d.pace = 100*time.Millisecond, 2*returnMax
		began := time.Now()
		for i, name := range []string{"first", "second", "third"} {
			a.write(name, one(i+1))
			time.Sleep(d.pace)
		}
		time.Sleep(d.commit)
		if got := d.heads(); got != "[3 4 5]" {
			t.Fatalf("%s after the first: appended %s, expected three groups", time.Since(began), got)
		}
		d.acknowledge(5, nil)
		d.acknowledge(4, nil)
		a.expect("the first is not acknowledged", "[]")
		d.acknowledge(3, nil)
		a.expect("all are acknowledged", "[first at 3 second at 4 third at 5]")
		a.shows("all are acknowledged", 5)
	})
}

// TestAheadRefusedBelow lets the log refuse a group while two more are on their way: they are
// validated again. A writer that was refused because of the first one is not.
func TestAheadRefusedBelow(t *testing.T) {
	t.Parallel()
	ahead(t, 0, func(t *testing.T, d *remote, a *answers) {
		d.commit, d.pace = 100*time.Millisecond, 2*returnMax
		d.refuse = errors.New("refused")
		for _, w := range []struct {
			name string
			doc  int
		}{{"first", 1}, {"again", 1}, {"second", 2}, {"third", 3}} {
			a.write(w.name, one(w.doc))
			time.Sleep(d.pace)
		}
		a.expect("nothing is decided", "[]")
		for range 6 {
			time.Sleep(10 * d.commit)
			d.mu.Lock()
			for _, held := range d.held {
				select {
				case held <- nil:
				default:
				}
			}
			d.mu.Unlock()
		}
		a.shows("after", 5)
		a.mu.Lock()
		defer a.mu.Unlock()
		if got := fmt.Sprint(a.all); got != "[first refused second at 3 third at 4 again at 5]" {
			t.Errorf("answered %s, expected the first write refused and all others made, the second before the third", got)
		}
	})
}

// TestAheadLeaves requires that a group goes on when its writer has left.
func TestAheadLeaves(t *testing.T) {
	t.Parallel()
	ahead(t, 0, func(t *testing.T, d *remote, a *answers) {
		ctx, cancel := context.WithCancel(context.Background())
		go func() { _, _ = a.world.queue.Write(ctx, new(one(1))) }()
		synctest.Wait()
		cancel()
		a.write("second", one(2))
		d.acknowledge(3, nil)
		synctest.Wait()
		d.acknowledge(4, nil)
		a.expect("all are acknowledged", "[second at 4]")
		a.shows("all are acknowledged", 4)
	})
}

// TestAheadRandom writes from several writers while appends and acknowledgments fail: each write
// that was answered with a revision is shown at that time and is in the log, no other one that
// was refused is, and the view is the log's in the end.
func TestAheadRandom(t *testing.T) {
	t.Parallel()
	for seed := range uint64(60) {
		synctest.Test(t, func(t *testing.T) {
			d := &remote{Driver: memory.New(), commit: 100 * time.Millisecond}
			w := newRemoteWorld(t, d, []int{1, 2, 16}[seed%3])
			d.random = rand.New(rand.NewPCG(seed, 1))
			if seed%2 == 0 {
				d.pace = d.commit / 8
			}
			const writers, each = 8, 12
			var outcomes [writers * each]error
			var running sync.WaitGroup
			for n := range writers {
				running.Go(func() {
					for i := range each {
						token, err := w.queue.Write(context.Background(), new(one(n*each+i)))
						outcomes[n*each+i] = err
						if err != nil {
							continue
						}
						if r, _ := token.Revision(); w.timeline.Loaded().Head.Revision < r {
							t.Errorf("seed %d: a write was answered with revision %d before that is shown", seed, r)
						}
					}
				})
			}
			running.Wait()
			v, err := w.queue.confirm(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			if head, err := d.Head(context.Background(), w.info.ID); err != nil || head != v {
				t.Fatalf("seed %d: the view has the head %v, the log %v, %v", seed, v, head, err)
			}
			there := map[rel.Key]bool{}
			for _, x := range w.timeline.Loaded().Graph.Tuples(rel.Filter{}, graph.Position{}) {
				there[x.Key()] = true
			}
			for i, err := range outcomes {
				is := there[one(i).Add[0].Key()]
				if err == nil && !is || err != nil && is && !errors.Is(err, authz.ErrUncertain) {
					t.Errorf("seed %d: write %d is there: %t, and was answered with error %v", seed, i, is, err)
				}
			}
		})
	}
}

// TestAheadFigures prints what ten writers wait for on a far log, in virtual time: in distances of
// the commit and of the acknowledgment, of which a write alone needs one each.
func TestAheadFigures(t *testing.T) {
	t.Parallel()
	for _, groups := range []int{1, 2, 16, -16} {
		for _, writers := range []int{1, 10, 64} {
			synctest.Test(t, func(t *testing.T) {
				d := &remote{Driver: memory.New(), commit: 150 * time.Millisecond, distance: 150 * time.Millisecond}
				if groups < 0 { // and the commits overlap
					d.pace = d.commit / 8
				}
				w := newRemoteWorld(t, d, max(groups, -groups))
				var wait sync.WaitGroup
				var mu sync.Mutex
				var total time.Duration
				const each = 20
				for n := range writers {
					wait.Go(func() {
						time.Sleep(time.Duration(n) * 7 * time.Millisecond)
						for i := range each {
							began := time.Now()
							if _, err := w.queue.Write(context.Background(), new(one(n*each+i))); err != nil {
								t.Error(err)
							}
							mu.Lock()
							total += time.Since(began)
							mu.Unlock()
						}
					})
				}
				wait.Wait()
				t.Logf("GroupsAhead %3d, %2d writers: %.2f of commit and acknowledgment", groups, writers, float64(total)/float64(writers*each)/float64(d.commit+d.distance))
			})
		}
	}
}
