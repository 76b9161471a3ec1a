package compare

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/internal/workshop/failing"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/storage/memory"
)

// watcher is a watch with a consumer that reads one update for each element of gate.
type watcher struct {
	*world
	request authz.WatchPermissionRequest
	gate    chan struct{}
	stop    context.CancelFunc
	updates []authz.PermissionUpdate
	err     error // of the watch, once it has ended
	// decisions are those of all pairs that the request selects, after the updates so
	// far.
	decisions map[string]string
}

// startWatch starts a watch in a goroutine of a synctest bubble, and waits until it waits.
func (w *world) startWatch(r authz.WatchPermissionRequest) *watcher {
	ctx, stop := context.WithCancel(context.Background())
	x := &watcher{world: w, request: r, gate: make(chan struct{}), stop: stop}
	at := authz.AtRevision(w.head)
	if r.After != "" {
		at = authz.AtExactly(r.After)
	}
	x.decisions = x.checked(at)
	go func() {
		defer stop()
		for u, err := range w.comparer.WatchPermission(ctx, &r) {
			if x.err = err; err == nil {
				<-x.gate
				x.updates = append(x.updates, u)
			}
		}
	}()
	synctest.Wait() // it starts at the newest revision
	return x
}

// checked returns the decisions of all pairs that the request selects, by checks.
func (x *watcher) checked(at authz.Consistency) map[string]string {
	out := map[string]string{}
	p := &x.request.PermissionSelector
	for i := range 3 {
		o := rel.Object{Type: p.ObjectType, ID: fmt.Sprint(i)}
		for _, s := range subjects(p) {
			q := authz.CheckRequest{Object: o, Relation: p.Relation, Subject: s}
			q.Context, q.Consistency = x.request.Context, at
			if p.Objects == nil || contains(p.Objects, o.ID) {
				out[fmt.Sprint(o, s)] = x.check(q).String()
			}
		}
	}
	return out
}

func contains(ids []string, id string) bool { return setOf(ids)[id] }

// drain lets the consumer read until the watch has nothing more to yield, and applies
// the updates to the decisions. Each update must continue the one before.
func (x *watcher) drain() {
	x.t.Helper()
	for blocked := true; blocked; {
		synctest.Wait()
		select {
		case x.gate <- struct{}{}:
		default:
			blocked = false
		}
	}
	for _, u := range x.updates {
		if revision, err := u.Token.Revision(); err != nil || revision != u.Revision {
			x.t.Errorf("the token of revision %d is of revision %d, error %v", u.Revision, revision, err)
		}
		if len(u.Changes)+u.UnknownCount == 0 {
			x.t.Errorf("an update at revision %d has no changes", u.Revision)
		}
		for pair, change := range outcomes(&x.request.PermissionSelector, u.Changes) {
			before, after, _ := strings.Cut(change, " ")
			if x.decisions[pair] != before {
				x.t.Errorf("%+v: %s was %s, but the update at revision %d has %s", x.request, pair, x.decisions[pair], u.Revision, change)
			}
			x.decisions[pair] = after
		}
	}
	x.updates = nil
}

// verify drains the watch and compares what it has yielded with checks.
func (x *watcher) verify() {
	x.t.Helper()
	if x.drain(); x.err != nil {
		x.t.Fatal(x.err)
	}
	if got, want := x.decisions, x.checked(authz.AtRevision(x.head)); fmt.Sprint(got) != fmt.Sprint(want) {
		x.t.Fatalf("%+v at revision %d:\ngot  %v\nwant %v", x.request, x.head, got, want)
	}
}

// TestWatches runs random watches while a store changes, and compares what they yield
// with checks of all pairs. Some consumers stop reading for some writes. Some watches
// start at an earlier revision.
func TestWatches(t *testing.T) {
	t.Parallel()
	for seed := range uint64(8) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, 300+seed, authz.Bounds{WatchBuffer: 1 + int(seed)})
			tokens := []authz.Token{""}
			// Names that nothing uses later: a compaction frees them.
			unused := tuples(t, "group:old#member@user:old", "folder:old#viewer@user:old")
			w.write(authz.WriteRequest{Add: unused})
			second := model()
			second.Types[3].Relations[5].Rewrite = second.Types[3].Relations[4].Rewrite // editor means reader
			var watches []*watcher
			for step := range 40 {
				if len(watches) < 5 {
					r := authz.WatchPermissionRequest{PermissionSelector: w.selector(w.rng.IntN(2) == 0), After: tokens[w.rng.IntN(len(tokens))], Context: w.context()}
					if r.Objects == nil && r.Subjects == nil {
						r.Subjects = []string{subjects(&r.PermissionSelector)[1].ID}
					}
					watches = append(watches, w.startWatch(r))
					watches[len(watches)-1].verify()
				}
				for range w.rng.IntN(4) {
					w.write(w.change())
				}
				switch w.rng.IntN(12) {
				case 0:
					for i := range unused {
						w.write(authz.WriteRequest{Remove: []rel.Key{unused[i].Key()}, OnMissing: authz.Ignore})
					}
					if _, err := w.timeline.Compact(t.Context()); err != nil {
						t.Fatal(err)
					}
				case 1:
					w.writeSchema(second)
				case 2:
					w.writeSchema(model())
				}
				tokens = append(tokens, w.timeline.Token(w.timeline.Loaded().Head))
				for i, x := range watches {
					if (step+i)%3 > 0 {
						x.verify()
					}
				}
				if w.rng.IntN(4) == 0 {
					watches[0].stop()
					if watches[0].drain(); !errors.Is(watches[0].err, context.Canceled) {
						t.Errorf("a watch whose context ended has error %v", watches[0].err)
					}
					watches = watches[1:]
				}
			}
			for _, x := range watches {
				x.verify()
				x.stop()
			}
		})
	}
}

// first is the permission that the tests below watch.
var first = authz.PermissionSelector{ObjectType: "doc", Relation: "viewer", SubjectType: "user", Objects: []string{"1"}}

// tuples parses tuples.
func tuples(t *testing.T, texts ...string) (all []rel.Tuple) {
	t.Helper()
	for _, text := range texts {
		all = append(all, must(rel.Parse(text))(t))
	}
	return all
}

// TestWatchesEnd ends watches in each way. A consumer that stops gets no error. After
// the last watch the store has no goroutine and no view for watches, and a new watch
// works.
func TestWatchesEnd(t *testing.T) { // not parallel: it counts goroutines
	running := func() int {
		stacks := make([]byte, 1<<20)
		return strings.Count(string(stacks[:runtime.Stack(stacks, true)]), "(*hub).run(")
	}
	deleted := errors.New("the store was deleted")
	for name, c := range map[string]struct {
		end  func(w *world, x *watcher)
		want error
	}{
		"the context ends":     {func(_ *world, x *watcher) { x.stop() }, context.Canceled},
		"the store is deleted": {func(w *world, _ *watcher) { w.timeline.Close(deleted) }, deleted},
		"the engine is closed": {func(w *world, _ *watcher) { w.runtime.Close() }, authz.ErrClosed},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, 1, authz.Bounds{})
				w.write(authz.WriteRequest{Add: tuples(t, "doc:1#owner@user:u1")})
				one, two := w.startWatch(authz.WatchPermissionRequest{PermissionSelector: first}), w.startWatch(authz.WatchPermissionRequest{PermissionSelector: first})
				for round := range 2 {
					w.write(authz.WriteRequest{Add: tuples(t, fmt.Sprintf("doc:1#viewer@user:u%d", 2*round))})
					one.verify()
					two.verify()
					if n := running(); n != 1 {
						t.Errorf("%d goroutines follow the writes for 2 watches, expected 1", n)
					}
					if round == 1 {
						break
					}
					two.stop()
					two.drain()
					if n := running(); n != 1 {
						t.Errorf("%d goroutines follow the writes for 1 watch, expected 1", n)
					}
					one.stop()
					one.drain()
					if n := running(); n != 0 || w.comparer.hub.latest != nil {
						t.Errorf("after the last watch, %d goroutines follow the writes, and the newest change is %v; expected none", n, w.comparer.hub.latest)
					}
					one, two = w.startWatch(authz.WatchPermissionRequest{PermissionSelector: first}), w.startWatch(authz.WatchPermissionRequest{PermissionSelector: first})
				}
				c.end(w, one)
				if one.drain(); !errors.Is(one.err, c.want) || !strings.Contains(one.err.Error(), "watch permission in store") {
					t.Errorf("got error %v, expected %v", one.err, c.want)
				}
				if two.stop(); c.want != context.Canceled && !errors.Is(two.err, c.want) {
					t.Errorf("the other watch has error %v, expected %v", two.err, c.want)
				}
				synctest.Wait()
				if n := running(); n != 0 {
					t.Errorf("%d goroutines follow the writes, expected none", n)
				}
			})
		})
	}
}

// TestWatchExpiry lets tuples expire while nothing is written. A watch reports them when
// they expire, those within a second together, and an entry that is older than the
// expiry does not bring them back. A watch that starts later reports none of them; one
// that continues from a token of before reports them.
func TestWatchExpiry(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, authz.Bounds{})
		start := w.now
		wait := func(until time.Duration) {
			w.setNow(start.Add(until))
			time.Sleep(10 * time.Second) // longer than each pause; the clock of the store is w.now
			synctest.Wait()
		}
		add := tuples(t, "doc:1#owner@user:u0", "doc:1#owner@user:u1", "doc:1#owner@user:u2")
		for i, seconds := range []time.Duration{10, 20, 20} {
			add[i].Expires = rel.TimeOf(start.Add(seconds * time.Second))
		}
		w.write(authz.WriteRequest{Add: add})
		token := w.timeline.Token(w.timeline.Loaded().Head)
		revision := w.head
		expect := func(x *watcher, want ...string) {
			t.Helper()
			var got []string
			for synctest.Wait(); ; synctest.Wait() {
				select {
				case x.gate <- struct{}{}:
					continue
				default:
				}
				break
			}
			for _, u := range x.updates {
				for _, c := range u.Changes {
					got = append(got, fmt.Sprintf("%s lost %t at %d, %s", c.Subject.ID, c.Lost(), u.Revision, u.Time.Sub(start)))
				}
			}
			x.updates = nil
			if x.err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("got %q, error %v; expected %q", got, x.err, want)
			}
		}
		x := w.startWatch(authz.WatchPermissionRequest{PermissionSelector: first})
		wait(9 * time.Second)
		expect(x)
		wait(10 * time.Second)
		expect(x, fmt.Sprintf("u0 lost true at %d, 10s", revision))
		wait(19 * time.Second)
		expect(x)
		wait(21 * time.Second)
		expect(x, fmt.Sprintf("u1 lost true at %d, 21s", revision), fmt.Sprintf("u2 lost true at %d, 21s", revision))
		w.setNow(start.Add(15 * time.Second)) // a clock that goes back
		w.write(authz.WriteRequest{Add: tuples(t, "doc:2#owner@user:u1")})
		expect(x)
		w.setNow(start.Add(30 * time.Second))
		later := w.startWatch(authz.WatchPermissionRequest{PermissionSelector: first})
		again := w.startWatch(authz.WatchPermissionRequest{PermissionSelector: first, After: token})
		wait(31 * time.Second)
		expect(x)
		expect(later)
		if len(again.updates) > 0 {
			t.Error("the update of the continued watch was read too early")
		}
		again.gate <- struct{}{}
		synctest.Wait()
		if again.err != nil || len(again.updates) != 1 || len(again.updates[0].Changes) != 3 {
			t.Errorf("the continued watch has %+v, error %v; expected one update with 3 changes", again.updates, again.err)
		}
		for _, x := range []*watcher{x, later, again} {
			x.stop()
		}
	})
}

// TestWatchStops lets a consumer stop after an update. It gets nothing more.
func TestWatchStops(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, authz.Bounds{})
	at := w.timeline.Token(w.timeline.Loaded().Head)
	w.write(authz.WriteRequest{Add: tuples(t, "doc:1#owner@user:u1")})
	w.write(authz.WriteRequest{Add: tuples(t, "doc:2#owner@user:u1")})
	for u, err := range w.comparer.WatchPermission(t.Context(), &authz.WatchPermissionRequest{PermissionSelector: first, After: at}) {
		if err != nil || u.Revision != 3 || !u.Time.Equal(w.now) || len(u.Changes) != 1 {
			t.Errorf("got %+v, error %v; expected one change at revision 3 and %s", u, err, w.now)
		}
		break
	}
	if w.comparer.hub.watches != 0 {
		t.Errorf("%d watches are left, expected none", w.comparer.hub.watches)
	}
}

// TestWatchBounds ends watches whose changes reach a bound, with the name of the bound, and
// keeps those whose changes are at the bound.
func TestWatchBounds(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		bounds authz.Bounds
		write  []string
		// want is the text of the error, or "".
		want string
	}{
		"as many changes":   {authz.Bounds{DifferenceChanges: 2}, []string{"doc:1#owner@user:u1", "doc:1#viewer@user:u1"}, ""},
		"too many changes":  {authz.Bounds{DifferenceChanges: 2}, []string{"doc:1#owner@user:u1", "doc:1#viewer@user:u1", "doc:1#blocked@user:u1"}, "bound DifferenceChanges exceeded: got 3, expected at most 2"},
		"as many checks":    {authz.Bounds{DifferenceChecks: 4}, []string{"doc:1#owner@user:u1", "doc:1#owner@user:u2"}, ""},
		"too many checks":   {authz.Bounds{DifferenceChecks: 3}, []string{"doc:1#owner@user:u0", "doc:1#owner@user:u1", "doc:1#owner@user:u2"}, "bound DifferenceChecks exceeded: got 4, expected at most 3"},
		"as many usersets":  {authz.Bounds{DifferenceUsersets: 4}, []string{"doc:1#owner@user:u1"}, ""},
		"too many usersets": {authz.Bounds{DifferenceUsersets: 3}, []string{"doc:1#owner@user:u1"}, "bound DifferenceUsersets exceeded: got 4, expected at most 3"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, 1, c.bounds)
				x := w.startWatch(authz.WatchPermissionRequest{PermissionSelector: first})
				w.write(authz.WriteRequest{Add: tuples(t, c.write...)})
				if c.want == "" {
					x.verify()
				} else if x.drain(); x.err == nil || !strings.HasSuffix(x.err.Error(), c.want) {
					t.Errorf("got error %v, expected %s", x.err, c.want)
				}
				x.stop()
			})
		})
	}
}

// TestWatchAfterAFailedRead makes the reads of the driver fail for a time. A watch that
// must read the log meanwhile ends with the error. A new watch works.
func TestWatchAfterAFailedRead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		driver := failing.New(memory.New())
		w := newWorldOn(t, driver, 1, authz.Bounds{WatchBuffer: 1})
		at := w.timeline.Token(w.timeline.Loaded().Head)
		slow := w.startWatch(authz.WatchPermissionRequest{PermissionSelector: first})
		w.write(authz.WriteRequest{Add: tuples(t, "doc:1#owner@user:u0")})
		synctest.Wait() // the consumer does not read this update yet
		w.write(authz.WriteRequest{Add: tuples(t, "doc:1#owner@user:u1")})
		synctest.Wait()
		w.write(authz.WriteRequest{Add: tuples(t, "doc:1#owner@user:u2")})
		driver.Break(failing.Fault{Number: 1, Only: []failing.Operation{failing.Entries}, Lasting: true})
		if slow.drain(); !errors.Is(slow.err, failing.ErrInjected) {
			t.Errorf("got error %v, expected %v", slow.err, failing.ErrInjected)
		}
		driver.Mend()
		next := w.startWatch(authz.WatchPermissionRequest{PermissionSelector: first, After: at})
		next.verify()
		w.write(authz.WriteRequest{Remove: []rel.Key{tuples(t, "doc:1#owner@user:u1")[0].Key()}})
		next.verify()
		next.stop()
	})
}
