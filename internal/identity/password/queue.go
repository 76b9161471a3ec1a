package password

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Caller is for whom a [Pool] computes a hash.
type Caller struct {
	Address string // of the client; "" if it is not known
	User    string // any text that names the user who logs in; "" if none does
	// Known is true if the caller has been authenticated already. Then the results of
	// Verify are not counted.
	Known bool
}

// callerKey is the key of the Caller in a context.
type callerKey struct{}

// WithCaller returns a context whose hashes are computed for a caller.
func WithCaller(ctx context.Context, c Caller) context.Context {
	return context.WithValue(ctx, callerKey{}, c)
}

// callerOf returns the caller of a context, or the zero Caller.
func callerOf(ctx context.Context) Caller {
	c, _ := ctx.Value(callerKey{}).(Caller)
	return c
}

// pair names the user at the address.
func (c Caller) pair() string { return c.Address + "\x00" + c.User }

// Bounds of what a queue remembers.
const (
	// rememberedMax bounds each of the maps of a queue. A full one is emptied.
	rememberedMax = 4096
	// suspectFor is how long an address or a user at an address waits behind others
	// after a wrong password.
	suspectFor = 10 * time.Minute
)

// queue gives the threads of a pool to those who wait for one. Callers whose
// passwords were wrong lately come last. Among the others the addresses take turns,
// and so do the users at each address. Its methods may be called concurrently.
type queue struct {
	now func() time.Time
	max int // largest number of waiters

	mu      sync.Mutex
	free    int // threads that compute nothing
	waiting []*waiter
	count   *atomic.Int64        // of the waiting ones, for PoolOptions.Waiting
	turn    int                  // number of threads that were given so far
	served  map[string]int       // latest turn of each address and of each pair
	wrong   map[string]time.Time // latest wrong password of each address and of each pair
	right   map[string]time.Time // latest right password of each pair
}

// waiter waits for a thread.
type waiter struct {
	Caller
	work   work
	result chan outcome
}

// work identifies a verification of a user's password; the zero value is other work.
// It depends on the user, so that the time of two logins with one password does not
// show which users do not exist, all of which have one hash.
type work [sha256.Size]byte

// verification returns the work of a verification for a caller.
func verification(c Caller, password, hash string) work {
	if c.User == "" {
		return work{}
	}
	h := sha256.New()
	for _, s := range [...]string{c.User, password, hash} {
		fmt.Fprintf(h, "%d %s", len(s), s)
	}
	return work(h.Sum(nil))
}

// outcome ends the wait of a waiter.
type outcome struct {
	err error // ErrBusy for a waiter that lost its place; the error of its context
	// done is true if a thread did the same work for another waiter, and ok is its result.
	// Otherwise the waiter has a thread.
	done, ok bool
}

func newQueue(threads, longest int) *queue {
	return &queue{now: time.Now, max: longest, free: threads,
		count: new(atomic.Int64), served: map[string]int{}, wrong: map[string]time.Time{}, right: map[string]time.Time{}}
}

// acquire waits for a thread, which release gives back, or for the result of the same
// work. It fails with ErrBusy and with the error of ctx.
func (q *queue) acquire(ctx context.Context, work work) outcome {
	w := &waiter{callerOf(ctx), work, make(chan outcome, 1)}
	q.mu.Lock()
	if q.free > 0 {
		q.free--
		q.serve(w)
		q.mu.Unlock()
		return outcome{}
	}
	q.waiting = append(q.waiting, w)
	q.count.Add(1)
	if len(q.waiting) > q.max {
		last := q.last()
		q.remove(last)
		last.result <- outcome{err: fmt.Errorf("%w: at most %d may wait (QueueMax)", ErrBusy, q.max)}
	}
	q.mu.Unlock()
	select {
	case o := <-w.result:
		return o
	case <-ctx.Done():
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.remove(w) {
		return outcome{err: ctx.Err()}
	}
	return <-w.result // it was decided at the same time
}

// release gives a thread to the next waiter.
func (q *queue) release() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) == 0 {
		q.free++
		return
	}
	w := slices.MinFunc(q.waiting, q.compare)
	q.remove(w)
	q.serve(w)
	w.result <- outcome{}
}

// share gives the result of a verification to all who wait for the same.
func (q *queue) share(done work, ok bool) {
	if done == (work{}) {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	before := len(q.waiting)
	q.waiting = slices.DeleteFunc(q.waiting, func(w *waiter) bool {
		if w.work != done {
			return false
		}
		w.result <- outcome{done: true, ok: ok}
		return true
	})
	q.count.Add(int64(len(q.waiting) - before))
}

// serve notes that a waiter gets a thread. The caller holds the lock.
func (q *queue) serve(w *waiter) {
	q.turn++
	for _, key := range []string{w.Address, w.pair()} {
		remember(q.served, key, q.turn)
	}
}

// remember sets a value of a bounded map.
func remember[V any](m map[string]V, key string, value V) {
	if len(m) >= rememberedMax {
		clear(m)
	}
	m[key] = value
}

// remove removes a waiter, and returns whether it was waiting. The caller holds the
// lock.
func (q *queue) remove(w *waiter) bool {
	i := slices.Index(q.waiting, w)
	if i >= 0 {
		q.waiting = slices.Delete(q.waiting, i, i+1)
		q.count.Add(-1)
	}
	return i >= 0
}

// Classes of waiters. A lower one is served first.
const (
	trusted = iota // authenticated, or right lately, or without a wrong password at the address
	unknown        // another user at an address with wrong passwords
	suspect        // the password of this user at this address was wrong lately
)

// class returns the class of a caller. The caller of class holds the lock.
func (q *queue) class(c Caller) int {
	lately := func(m map[string]time.Time, key string) bool {
		at, ok := m[key]
		return ok && q.now().Sub(at) < suspectFor
	}
	switch {
	case c.Known:
		return trusted
	case lately(q.wrong, c.pair()):
		return suspect
	case lately(q.wrong, c.Address) && q.right[c.pair()].IsZero():
		return unknown
	}
	return trusted
}

// compare orders waiters: by class, then by when their addresses and users were
// served last. Of equal ones the first that waits is the first.
func (q *queue) compare(a, b *waiter) int {
	return cmp.Or(cmp.Compare(q.class(a.Caller), q.class(b.Caller)), cmp.Compare(q.served[a.Address], q.served[b.Address]),
		cmp.Compare(q.served[a.pair()], q.served[b.pair()]))
}

// last returns the waiter that loses its place in a full queue: the newest one of the
// user with the most waiters, at the address with the most waiters, in the last class.
func (q *queue) last() *waiter {
	waiters := map[string]int{}
	for _, w := range q.waiting {
		waiters[w.Address]++
		waiters[w.pair()]++
	}
	newest := slices.Clone(q.waiting)
	slices.Reverse(newest)
	return slices.MaxFunc(newest, func(a, b *waiter) int {
		return cmp.Or(cmp.Compare(q.class(a.Caller), q.class(b.Caller)), cmp.Compare(waiters[a.Address], waiters[b.Address]),
			cmp.Compare(waiters[a.pair()], waiters[b.pair()]))
	})
}

// learn notes whether the password of a caller was right.
func (q *queue) learn(c Caller, right bool) {
	if c.Known {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if right {
		delete(q.wrong, c.pair())
		remember(q.right, c.pair(), q.now())
		return
	}
	delete(q.right, c.pair())
	remember(q.wrong, c.Address, q.now())
	remember(q.wrong, c.pair(), q.now())
}
