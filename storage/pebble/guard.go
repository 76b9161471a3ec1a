package pebble

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"

	"github.com/ostiary/ostiary/storage"
)

// guard makes all calls fail after a failed write. The outcome of such a write is
// unknown. So from then on the driver neither reads nor writes (see guardedFS)
// until the folder is opened again, and Pebble's recovery determines what is on
// disk.
type guard struct {
	failed     atomic.Pointer[error]     // the failed write; nil while all writes succeed
	compactErr atomic.Pointer[error]     // why Pebble cannot compact; nil if it can
	folder     atomic.Pointer[originals] // nil: the folder is being opened or closed, or not on disk
	unsynced   atomic.Uint32             // writes that checkUnsynced was asked for
	logf       func(format string, args ...any)

	mu      sync.Mutex
	waiting map[*context.CancelCauseFunc]struct{} // contexts of watch
	blocked chan struct{}                         // closed to end block; nil: block returns at once
}

// ErrFailed is wrapped by the errors of all calls after a failed write, for
// example to a full disk. The program must close the driver and open the folder
// again.
var ErrFailed = errors.New("a write to the data folder failed; open it again")

// checkRead returns why the driver must not read; nil if it may.
func (g *guard) checkRead() error {
	if err := g.failed.Load(); err != nil {
		return *err
	}
	return nil
}

// checkWrite returns why the driver must not write; nil if it may.
func (g *guard) checkWrite() error {
	if err := g.checkFolder(); err != nil {
		return err
	}
	return g.checkCompaction()
}

// unsyncedMax is how many writes that do not wait for the disk follow a look at the
// folder without another one.
const unsyncedMax = 16

// checkUnsynced is checkWrite for a write that does not wait for the disk. To look at the
// folder takes a fifth of the time of such a write, so it looks before every
// unsyncedMax-th one.
func (g *guard) checkUnsynced() error {
	if g.unsynced.Add(1)%unsyncedMax == 1 {
		return g.checkWrite()
	}
	if err := g.checkRead(); err != nil {
		return err
	}
	return g.checkCompaction()
}

// checkCompaction returns why Pebble cannot compact; nil if it can.
func (g *guard) checkCompaction() error {
	if err := g.compactErr.Load(); err != nil {
		return fmt.Errorf("data cannot be compacted: %w", *err)
	}
	return nil
}

// checkFolder is like checkRead. It also fails, and makes all later calls fail, if
// the folder is no longer the one that was opened.
func (g *guard) checkFolder() error {
	if o := g.folder.Load(); o != nil && g.failed.Load() == nil {
		if err := o.check(); err != nil {
			g.fail(err)
		}
	}
	return g.checkRead()
}

// fail makes all later calls fail. Only the first cause is kept.
func (g *guard) fail(cause error) {
	err := cause
	if !errors.Is(cause, ErrFailed) {
		err = fmt.Errorf("%w: %w", ErrFailed, cause)
	}
	if g.failed.CompareAndSwap(nil, &err) {
		g.log("%v", []any{err})
	}
	g.cancel(err)
}

// watch returns a context for waiting for Pebble's background work. The context
// ends when that work fails. Pebble would retry forever, and the caller would wait
// forever.
func (g *guard) watch(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.waiting == nil {
		g.waiting = map[*context.CancelCauseFunc]struct{}{}
	}
	g.waiting[&cancel] = struct{}{}
	if err := g.checkWrite(); err != nil {
		cancel(err)
	}
	return ctx, func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		delete(g.waiting, &cancel)
		cancel(nil)
	}
}

// cancel ends the contexts of watch.
func (g *guard) cancel(cause error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for cancel := range g.waiting {
		(*cancel)(cause)
	}
}

// startBlocking makes block wait. The driver calls it when the folder is open.
func (g *guard) startBlocking() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.blocked = make(chan struct{})
}

// stopBlocking ends all calls of block. The driver calls it before it closes the
// folder.
func (g *guard) stopBlocking() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.blocked != nil {
		close(g.blocked)
		g.blocked = nil
	}
}

// block waits until the folder is closed, and returns the failure. It is called
// when a file is read that was not created because of the failure. The reader is
// a compaction of Pebble; without the wait it would retry in a busy loop.
func (g *guard) block() error {
	g.mu.Lock()
	blocked := g.blocked
	g.mu.Unlock()
	if blocked != nil {
		<-blocked
	}
	return g.checkRead()
}

// Infof logs a message of Pebble. With Errorf and Fatalf it makes guard a
// pebble.Logger.
func (g *guard) Infof(format string, args ...any) { g.log(format, args) }

// Errorf logs an error of Pebble.
func (g *guard) Errorf(format string, args ...any) { g.log(format, args) }

// Fatalf handles an error after which Pebble expects the process to end. A library
// must not end the process, so Fatalf calls fail and returns.
func (g *guard) Fatalf(format string, args ...any) {
	cause := fmt.Errorf(format, args...)
	for _, a := range args {
		if err, ok := a.(error); ok {
			cause = classify(err)
		}
	}
	g.fail(cause)
}

func (g *guard) log(format string, args []any) {
	if g.logf != nil {
		g.logf(format, args...)
	}
}

// listener returns a listener that records whether Pebble can compact. While it
// cannot, the driver rejects writes; otherwise they would accumulate until Pebble
// stalls them. A later compaction that succeeds ends this, unless the data is
// damaged.
func (g *guard) listener() *pebble.EventListener {
	return &pebble.EventListener{
		BackgroundError: func(err error) {
			g.log("%v", []any{err})
			err = classify(err)
			g.compactErr.Store(&err)
			g.cancel(err)
		},
		CompactionEnd: func(info pebble.CompactionInfo) {
			if err := g.compactErr.Load(); info.Err == nil && err != nil && !errors.Is(*err, storage.ErrDamaged) {
				g.compactErr.Store(nil)
			}
		},
		DataCorruption: func(info pebble.DataCorruptionInfo) { g.log("%s", []any{info}) },
	}
}

// classify adds storage.ErrDamaged to errors of Pebble about damaged data.
func classify(err error) error {
	if err == nil || errors.Is(err, storage.ErrDamaged) {
		return err
	}
	if pebble.IsCorruptionError(err) {
		return fmt.Errorf("%w: %w", storage.ErrDamaged, err)
	}
	return err
}
