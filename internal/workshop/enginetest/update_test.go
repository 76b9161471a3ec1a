package enginetest

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"testing"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/storage/memory"
	"github.com/ostiary/ostiary/storage/storagetest"
)

// counter is a number in a store, which updates increment. Its states are kept by
// the tokens of their revisions, as a caller of Update keeps them.
type counter struct {
	store  *ostiary.Store
	mu     sync.Mutex
	states map[authz.Token]int
}

func newCounter(t *testing.T, s *ostiary.Store) *counter {
	t.Helper()
	return &counter{store: s, states: map[authz.Token]int{must(s.Head(t.Context()))(t): 0}}
}

// increment adds one to the number and returns it. built is called after each
// decision.
func (c *counter) increment(ctx context.Context, built func()) (n int, err error) {
	_, err = c.store.Update(ctx, authz.Update{
		Build: func(head authz.Token) (authz.WriteRequest, error) {
			defer built()
			c.mu.Lock()
			defer c.mu.Unlock()
			old, ok := c.states[head]
			if !ok {
				return authz.WriteRequest{}, errors.New("unknown state")
			}
			n = old + 1
			return authz.WriteRequest{Documents: []authz.Document{{Kind: "test", Key: "n", Body: []byte(strconv.Itoa(n))}}}, nil
		},
		Accepted: func(head authz.Token) {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.states[head] = n
		},
	})
	return n, err
}

// stored returns the number in the store; 0 if there is none.
func (c *counter) stored(t *testing.T) int {
	t.Helper()
	d, err := c.store.Document(t.Context(), authz.DocumentKey{Kind: "test", Key: "n"})
	if errors.Is(err, authz.ErrNoDocument) {
		return 0
	}
	return must(strconv.Atoi(string(must(d, err)(t).Body)))(t)
}

// TestUpdates increments a number from many goroutines. Each result must occur once.
func TestUpdates(t *testing.T) {
	t.Parallel()
	c := newCounter(t, newStore(t, newEngine(t, ostiary.Options{}), documents()))
	const clients, each = 8, 50
	var mu sync.Mutex
	var wait sync.WaitGroup
	seen := map[int]int{}
	for range clients {
		wait.Go(func() {
			for range each {
				n, err := c.increment(t.Context(), func() {})
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				seen[n]++
				mu.Unlock()
			}
		})
	}
	wait.Wait()
	for n := 1; n <= clients*each; n++ {
		if seen[n] != 1 {
			t.Errorf("%d is the result of %d updates, want 1", n, seen[n])
		}
	}
	if c.stored(t) != clients*each {
		t.Errorf("the store has %d, want %d", c.stored(t), clients*each)
	}
}

// TestUpdateAhead decides an update on one that is not durable yet. If that one
// fails, the update is decided again; if it succeeds, it is not.
func TestUpdateAhead(t *testing.T) {
	t.Parallel()
	failed := errors.New("the disk is gone")
	for _, outcome := range []error{nil, failed} {
		d := &storagetest.Gate{Driver: memory.New()}
		c := newCounter(t, newStore(t, newEngine(t, ostiary.Options{Driver: d}), documents()))
		d.Entered, d.Leave = make(chan struct{}, 4), make(chan error)
		type result struct {
			n   int
			err error
		}
		first, second := make(chan result, 1), make(chan result, 1)
		go func() { n, err := c.increment(context.Background(), func() {}); first <- result{n, err} }()
		<-d.Entered
		built, calls := make(chan struct{}, 9), 0
		go func() {
			n, err := c.increment(context.Background(), func() { calls++; built <- struct{}{} })
			second <- result{n, err}
		}()
		<-built // on the first one, whose append waits
		if n := c.stored(t); n != 0 {
			t.Errorf("readers see %d before it is durable", n)
		}
		d.Leave <- outcome
		<-d.Entered
		d.Leave <- nil
		a, b := <-first, <-second
		want := 2
		if outcome != nil {
			want = 1
		}
		if !errors.Is(a.err, outcome) || b.err != nil || b.n != want || calls != 3-want || c.stored(t) != want {
			t.Errorf("first append %v: results %+v and %+v after %d calls, stored %d, want %d", outcome, a, b, calls, c.stored(t), want)
		}
	}
}

// TestUpdateRefused checks an error of Build, and a panic, after which the store
// still writes.
func TestUpdateRefused(t *testing.T) {
	t.Parallel()
	c := newCounter(t, newStore(t, newEngine(t, ostiary.Options{}), documents()))
	refused := errors.New("refused")
	before := must(c.store.Head(t.Context()))(t)
	if _, err := c.store.Update(t.Context(), authz.Update{Build: func(authz.Token) (authz.WriteRequest, error) { return authz.WriteRequest{}, refused }}); err != refused {
		t.Errorf("got %v, want %v", err, refused)
	}
	if head, err := c.store.Update(t.Context(), authz.Update{Build: func(authz.Token) (authz.WriteRequest, error) { return authz.WriteRequest{}, nil }}); err != nil || head != before {
		t.Errorf("an update without changes: %v, %v, want %v", head, err, before)
	}
	for _, u := range []authz.Update{
		{Build: func(authz.Token) (authz.WriteRequest, error) { panic("broken") }},
		{Build: func(authz.Token) (authz.WriteRequest, error) { return authz.WriteRequest{}, nil }, Accepted: func(authz.Token) { panic("broken") }},
	} {
		func() {
			defer func() {
				if p := recover(); p != "broken" {
					t.Errorf("got the panic %v, want that of the function", p)
				}
			}()
			_, err := c.store.Update(t.Context(), u)
			t.Errorf("no panic, error %v", err)
		}()
	}
	if n, err := c.increment(t.Context(), func() {}); n != 1 || err != nil {
		t.Errorf("after a panic: %d, %v", n, err)
	}
}
