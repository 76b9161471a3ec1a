package password

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// order queues callers while the only thread is taken, and returns the order in which
// they get it.
func (q *queue) order(t *testing.T, callers ...Caller) (got []string) {
	t.Helper()
	synctest.Wait()
	if err := q.acquire(t.Context(), work{}).err; err != nil {
		t.Fatal(err)
	}
	for _, c := range callers {
		go func() {
			name := c.Address + " " + c.User
			if err := q.acquire(WithCaller(t.Context(), c), work{}).err; errors.Is(err, ErrBusy) {
				got = append(got, name+" busy")
				return
			}
			got = append(got, name)
			q.release()
		}()
		synctest.Wait()
	}
	q.release()
	synctest.Wait()
	return got
}

// TestQueueOrder checks the order of service: addresses take turns, then users, and
// wrong passwords come last.
func TestQueueOrder(t *testing.T) {
	caller := func(address, user string) Caller { return Caller{Address: address, User: user} }
	for name, x := range map[string]struct {
		max     int
		before  func(*queue)
		callers []Caller
		want    string
	}{
		"first come": {9, nil, []Caller{caller("a", "1"), caller("b", "2"), caller("c", "3")}, "a 1, b 2, c 3"},
		"addresses":  {9, nil, []Caller{caller("a", "1"), caller("a", "2"), caller("a", "3"), caller("b", "4")}, "a 1, b 4, a 2, a 3"},
		"users":      {9, nil, []Caller{caller("a", "1"), caller("a", "1"), caller("a", "1"), caller("a", "2")}, "a 1, a 2, a 1, a 1"},
		"wrong user": {9, func(q *queue) { q.learn(caller("a", "1"), false) },
			[]Caller{caller("a", "1"), caller("a", "2"), caller("b", "1")}, "b 1, a 2, a 1"},
		"right again": {9, func(q *queue) { q.learn(caller("a", "1"), false); q.learn(caller("a", "1"), true) },
			[]Caller{caller("a", "2"), caller("a", "1"), caller("b", "2")}, "a 1, b 2, a 2"},
		"known caller": {9, func(q *queue) { q.learn(caller("a", "1"), false) },
			[]Caller{caller("a", "1"), caller("a", "1"), {"a", "1", true}}, "a 1, a 1, a 1"},
		"known results": {9, func(q *queue) { q.learn(Caller{"a", "1", true}, false) },
			[]Caller{caller("a", "1"), caller("b", "2")}, "a 1, b 2"},
		"forgotten": {9, func(q *queue) { q.learn(caller("a", "1"), false); time.Sleep(suspectFor) },
			[]Caller{caller("a", "1"), caller("b", "2")}, "a 1, b 2"},
		"full": {3, func(q *queue) { q.learn(caller("a", "1"), false) },
			[]Caller{caller("a", "1"), caller("b", "2"), caller("b", "3"), caller("c", "4"), caller("d", "5")}, "a 1 busy, b 3 busy, b 2, c 4, d 5"},
		"full of suspects": {2, func(q *queue) { q.learn(caller("a", "1"), false) },
			[]Caller{caller("a", "1"), caller("a", "1"), caller("a", "1"), caller("b", "2")}, "a 1 busy, a 1 busy, b 2, a 1"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := newQueue(1, x.max)
				if x.before != nil {
					x.before(q)
				}
				if got := strings.Join(q.order(t, x.callers...), ", "); got != x.want {
					t.Errorf("got  %s\nwant %s", got, x.want)
				}
				if q.free != 1 || len(q.waiting) != 0 {
					t.Errorf("%d threads are free and %d calls wait", q.free, len(q.waiting))
				}
			})
		})
	}
}

// TestQueueFlood queues 120 wrong logins at a time at one address, with other names
// each time, and 62 right ones of users at the same address. All right ones are served
// within the deadline of 30 s, and each of them before the wrong ones that wait.
func TestQueueFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(2, QueueMaxDefault)
		attack, stop := context.WithCancel(t.Context())
		hash := func(ctx context.Context, c Caller, right bool) error {
			ctx, cancel := context.WithTimeout(WithCaller(ctx, c), 30*time.Second)
			defer cancel()
			if err := q.acquire(ctx, work{}).err; err != nil {
				return err
			}
			time.Sleep(300 * time.Millisecond)
			q.release()
			q.learn(c, right)
			return nil
		}
		for i := range 120 {
			go func() {
				for attack.Err() == nil {
					_ = hash(attack, Caller{Address: "a", User: fmt.Sprint("wrong", i)}, false)
				}
			}()
		}
		time.Sleep(time.Minute)
		failed := make(chan error, 62)
		for i := range 62 {
			go func() { failed <- hash(t.Context(), Caller{Address: "a", User: fmt.Sprint("right", i)}, true) }()
		}
		for range 62 {
			if err := <-failed; err != nil {
				t.Error(err)
			}
		}
		stop()
		synctest.Wait()
		time.Sleep(time.Minute)
	})
}

// TestQueueMemory bounds what a queue remembers.
func TestQueueMemory(t *testing.T) {
	q := newQueue(1, 1)
	for i := range 3 * rememberedMax {
		c := Caller{Address: fmt.Sprint(i), User: "u"}
		if err := q.acquire(WithCaller(t.Context(), c), work{}).err; err != nil {
			t.Fatal(err)
		}
		q.release()
		q.learn(c, i%2 == 0)
	}
	if sizes := []int{len(q.served), len(q.wrong), len(q.right)}; slices.Max(sizes) > rememberedMax {
		t.Errorf("%v entries", sizes)
	}
}
