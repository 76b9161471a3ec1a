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

// guard is what stands between a failed write and everything after it. Once the
// outcome of a write to the folder is unknown, the guard blows: from then on
// nothing is answered and nothing on disk is changed (see fuse), until the
// folder is opened again and Pebble's recovery finds out what is there.
type guard struct {
	blown   atomic.Pointer[error]
	failing atomic.Pointer[error]
	logf    func(format string, args ...any)

	mu      sync.Mutex
	waiting map[*context.CancelCauseFunc]struct{} // see until
	parking chan struct{}                         // see park; nil: do not
}

// ErrFailed is the kind of error of every call after a write whose outcome is
// unknown (a full or failing disk). Opening the folder again is the way on.
var ErrFailed = errors.New("a write to the data folder failed; open it again")

// reading says why nothing may be answered; nil otherwise.
func (g *guard) reading() error {
	if err := g.blown.Load(); err != nil {
		return *err
	}
	return nil
}

// writing says why nothing may be written; nil otherwise.
func (g *guard) writing() error {
	if err := g.reading(); err != nil {
		return err
	}
	if err := g.failing.Load(); err != nil {
		return fmt.Errorf("data cannot be compacted: %w", *err)
	}
	return nil
}

// blow makes every later call fail; the first cause is kept.
func (g *guard) blow(cause error) {
	err := fmt.Errorf("%w: %w", ErrFailed, cause)
	if g.blown.CompareAndSwap(nil, &err) {
		g.log("%v", []any{err})
	}
	g.cancel(err)
}

// until returns a context for waiting on Pebble's background work, which ends
// when that fails: Pebble tries again for ever, and whoever waits would, too.
func (g *guard) until(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.waiting == nil {
		g.waiting = map[*context.CancelCauseFunc]struct{}{}
	}
	g.waiting[&cancel] = struct{}{}
	if err := g.writing(); err != nil {
		cancel(err)
	}
	return ctx, func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		delete(g.waiting, &cancel)
		cancel(nil)
	}
}

func (g *guard) cancel(cause error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for cancel := range g.waiting {
		(*cancel)(cause)
	}
}

// opened and closing enclose the time in which park parks.
func (g *guard) opened() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.parking = make(chan struct{})
}

func (g *guard) closing() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.parking != nil {
		close(g.parking)
		g.parking = nil
	}
}

// park holds a reader of a file that was never made, which can only be one of
// Pebble's compactions, until the folder is closed: it would fail and begin
// again without a pause. It returns why the guard has blown.
func (g *guard) park() error {
	g.mu.Lock()
	parking := g.parking
	g.mu.Unlock()
	if parking != nil {
		<-parking
	}
	return g.reading()
}

// Infof, Errorf and Fatalf make guard a pebble.Logger.
func (g *guard) Infof(format string, args ...any) { g.log(format, args) }

// Errorf logs.
func (g *guard) Errorf(format string, args ...any) { g.log(format, args) }

// Fatalf blows the guard where Pebble would end the process, which a library
// must not, and returns, after which Pebble's caller returns too.
func (g *guard) Fatalf(format string, args ...any) {
	cause := fmt.Errorf(format, args...)
	for _, a := range args {
		if err, ok := a.(error); ok {
			cause = named(err)
		}
	}
	g.blow(cause)
}

func (g *guard) log(format string, args []any) {
	if g.logf != nil {
		g.logf(format, args...)
	}
}

// listener notes that Pebble cannot compact, so that writes are refused rather
// than pile up until they stall. What a compaction could not read for once it
// tries again; damage stays.
func (g *guard) listener() *pebble.EventListener {
	return &pebble.EventListener{
		BackgroundError: func(err error) {
			g.log("%v", []any{err})
			err = named(err)
			g.failing.Store(&err)
			g.cancel(err)
		},
		CompactionEnd: func(info pebble.CompactionInfo) {
			if err := g.failing.Load(); info.Err == nil && err != nil && !errors.Is(*err, storage.ErrDamaged) {
				g.failing.Store(nil)
			}
		},
		DataCorruption: func(info pebble.DataCorruptionInfo) { g.log("%s", []any{info}) },
	}
}

// named gives Pebble's errors of damage our kind.
func named(err error) error {
	if err == nil || errors.Is(err, storage.ErrDamaged) {
		return err
	}
	if pebble.IsCorruptionError(err) {
		return fmt.Errorf("%w: %w", storage.ErrDamaged, err)
	}
	return err
}
