package password

import (
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/ostiary/ostiary/internal/tool/turns"
	"github.com/ostiary/ostiary/internal/trail/traces"
)

// ErrBusy is the cause of a failed hash when [PoolOptions.QueueMax] others already
// wait for a thread.
var ErrBusy = errors.New("too many password hashes are waiting")

// QueueMaxDefault is the default of [PoolOptions.QueueMax]. With two threads and
// hashes of 200 ms, the last one waits for 25 seconds. A hash whose request ends
// earlier leaves the queue.
const QueueMaxDefault = 256

// PoolOptions are the settings of a [Pool]. The zero value is useful.
type PoolOptions struct {
	// Threads is the number of hashes that are computed at the same time. The
	// default is the number of processors.
	Threads int
	// QueueMax is the largest number of hashes that wait for a thread. If more come,
	// those of the callers with the most waiting hashes, and with wrong passwords, fail
	// with [ErrBusy] first. The default is [QueueMaxDefault].
	QueueMax int
	// Waiting is set to the number of hashes that wait. Nil is not set.
	Waiting *atomic.Int64
}

// Pool computes hashes on operating system threads of their own, which have a
// low priority on Linux. The threads end with their hashes, so a Pool needs no
// Close. Its methods may be called concurrently.
//
// A hash that runs occupies one of the processors of Go's scheduler
// (GOMAXPROCS), and Go takes a processor from a goroutine only every 10 ms. So a
// program whose other work must not wait raises GOMAXPROCS by Threads: the
// operating system then divides the processors, and prefers the other threads.
type Pool struct {
	queue *queue
}

// NewPool returns a pool. It starts no thread.
func NewPool(o PoolOptions) *Pool {
	if o.Threads <= 0 {
		o.Threads = runtime.NumCPU()
	}
	if o.QueueMax <= 0 {
		o.QueueMax = QueueMaxDefault
	}
	if o.Waiting == nil {
		o.Waiting = new(atomic.Int64)
	}
	q := newQueue(o.Threads, o.QueueMax)
	q.count = o.Waiting
	return &Pool{q}
}

// Hash is like the function [Hash]. It also fails with [ErrBusy], and with the
// error of ctx if that ends first.
func (p *Pool) Hash(ctx context.Context, password string, rounds int) (hash string, err error) {
	if o := p.run(ctx, work{}, func() { hash, err = Hash(password, rounds) }); o.err != nil {
		return "", o.err
	}
	return hash, err
}

// Verify is like the function [Verify]. It also fails with [ErrBusy], and with the
// error of ctx if that ends first. Calls that wait at the same time for one user,
// password and hash share one computation.
func (p *Pool) Verify(ctx context.Context, password, hash string) (ok bool, err error) {
	same := verification(callerOf(ctx), password, hash)
	o := p.run(ctx, same, func() {
		if ok, err = Verify(password, hash); err == nil {
			p.queue.share(same, ok)
		}
	})
	if o.err != nil {
		return false, o.err
	}
	if o.done {
		ok = o.ok
	}
	p.queue.learn(callerOf(ctx), ok)
	return ok, err
}

// Computed returns how many hashes the pool has begun to compute.
func (p *Pool) Computed() int {
	p.queue.mu.Lock()
	defer p.queue.mu.Unlock()
	return p.queue.turn
}

// run calls f on a thread of low priority, as soon as one is free. The queue chooses
// which call gets it. It does not call f if that fails, or if another call did the same
// work meanwhile. If ctx ends while f runs, run waits for f: hashes cannot be
// interrupted, and f writes to variables of the caller.
func (p *Pool) run(ctx context.Context, same work, f func()) outcome {
	turns.Pause(ctx)
	_, part := traces.Start(ctx, "hash", traces.Internal)
	came := time.Now()
	o := p.queue.acquire(ctx, same)
	if part != nil {
		part.Set("ostiary.wait_us", int(time.Since(came).Microseconds()))
		defer part.End()
	}
	if o.err != nil || o.done {
		return o
	}
	done := make(chan struct{})
	go func() {
		defer func() {
			p.queue.release()
			close(done)
		}()
		// The thread is never unlocked, so it ends with this goroutine and no other
		// goroutine runs with its priority.
		runtime.LockOSThread()
		lowerPriority()
		f()
	}()
	<-done
	return outcome{}
}
