package password

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync"
	"testing"
)

// waiters returns the number of calls that wait.
func (p *Pool) waiters() int {
	p.queue.mu.Lock()
	defer p.queue.mu.Unlock()
	return len(p.queue.waiting)
}

// occupy takes all threads of a pool until the returned function is called.
func occupy(t *testing.T, p *Pool) (release func()) {
	t.Helper()
	begun, end := make(chan struct{}), make(chan struct{})
	var all sync.WaitGroup
	threads := p.queue.free
	for range threads {
		all.Go(func() {
			_ = p.run(context.Background(), work{}, func() { begun <- struct{}{}; <-end })
		})
	}
	for range threads {
		<-begun
	}
	return func() { close(end); all.Wait() }
}

func TestPool(t *testing.T) {
	t.Parallel()
	p := NewPool(PoolOptions{Threads: 1})
	hash, err := p.Hash(t.Context(), "secret", RoundsMin)
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]bool{"secret": true, "Secret": false} {
		if ok, err := p.Verify(t.Context(), text, hash); ok != want || err != nil {
			t.Errorf("%s: %v, %v", text, ok, err)
		}
	}
	if _, err := p.Verify(t.Context(), "secret", "x"); !errors.Is(err, ErrMalformed) {
		t.Errorf("got %v, want ErrMalformed", err)
	}
	if _, err := p.Hash(t.Context(), "secret", RoundsMin-1); err == nil {
		t.Error("no error for too few rounds")
	}
}

// TestPoolSharesVerifications lets logins wait at the same time, of which those of one
// user with one password need one hash. Others need one each: a user who does not exist
// has the hash of another who does not exist, and no login may be faster for it.
func TestPoolSharesVerifications(t *testing.T) {
	t.Parallel()
	hash, err := Hash("secret", RoundsMin)
	if err != nil {
		t.Fatal(err)
	}
	p := NewPool(PoolOptions{Threads: 1})
	release := occupy(t, p)
	var all sync.WaitGroup
	verify := func(count int, user, password string, want bool) {
		for range count {
			all.Go(func() {
				ctx := WithCaller(t.Context(), Caller{Address: "a", User: user})
				if ok, err := p.Verify(ctx, password, hash); ok != want || err != nil {
					t.Errorf("%q with %q: %v, %v", user, password, ok, err)
				}
			})
		}
	}
	verify(50, "anne", "secret", true)
	verify(20, "anne", "Secret", false)
	verify(20, "bob", "secret", true)
	verify(3, "", "secret", true)
	for p.waiters() < 50+20+20+3 {
		runtime.Gosched()
	}
	release()
	all.Wait()
	if got, want := p.Computed(), 1+1+1+1+3; got != want {
		t.Errorf("computed %d hashes, want %d", got, want)
	}
}

// TestPoolDefaults makes pools with the defaults, and with values of its own.
func TestPoolDefaults(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		o                 PoolOptions
		threads, queueMax int
	}{
		{PoolOptions{}, runtime.NumCPU(), 256}, {PoolOptions{Threads: -1, QueueMax: -1}, runtime.NumCPU(), 256},
		{PoolOptions{Threads: 1, QueueMax: 1}, 1, 1}, {PoolOptions{Threads: 5, QueueMax: 100}, 5, 100},
	} {
		if p := NewPool(x.o); p.queue.free != x.threads || p.queue.max != x.queueMax {
			t.Errorf("%+v: %d threads and a queue of %d, want %d and %d", x.o, p.queue.free, p.queue.max, x.threads, x.queueMax)
		}
	}
}

// TestPoolQueueMax fills a queue, and adds one more.
func TestPoolQueueMax(t *testing.T) {
	t.Parallel()
	p := NewPool(PoolOptions{Threads: 2, QueueMax: 3})
	release := occupy(t, p)
	ctx, cancel := context.WithCancel(t.Context())
	results := make(chan error)
	for range p.queue.max {
		go func() { results <- p.run(ctx, work{}, func() { t.Error("a canceled call ran") }).err }()
	}
	for p.waiters() < p.queue.max {
		runtime.Gosched() // the goroutines have no event that shows that they wait
	}
	hash, err := Hash("secret", RoundsMin)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := p.Hash(t.Context(), "secret", RoundsMin); got != "" || !errors.Is(err, ErrBusy) || !strings.Contains(err.Error(), "at most 3") {
		t.Errorf("got %q and %v, want ErrBusy", got, err)
	}
	if ok, err := p.Verify(t.Context(), "secret", hash); ok || !errors.Is(err, ErrBusy) {
		t.Errorf("got %v and %v, want ErrBusy", ok, err)
	}
	cancel()
	for range p.queue.max {
		if err := <-results; !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want Canceled", err)
		}
	}
	if n := p.waiters(); n != 0 {
		t.Errorf("%d calls wait although all have ended", n)
	}
	release()
	if err := p.run(t.Context(), work{}, func() {}).err; err != nil {
		t.Error("after the queue was full:", err)
	}
}
