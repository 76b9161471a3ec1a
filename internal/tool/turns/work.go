package turns

import (
	"context"
	"sync"
	"time"
)

// Work is a request's use of the turns. All parts of a request share it, so that
// a part inside another one does not wait for the turn that the request has. The
// request keeps its turn until it has had it for long enough while others wait,
// until it waits for something else ([Pause]), or until its end ([Work.End]). The
// zero Work takes no turns. Work is safe for concurrent use; goroutines that use
// the same Work share one turn.
type Work struct {
	turns *Turns
	mu    sync.Mutex
	// since is when the request took its last turn; zero if it had none yet.
	since time.Time
	// taken is true while the request has a turn.
	taken bool
	// measured is true if the processor time of the request is measured: running is since
	// when it runs, zero while it waits, and used is the time before.
	measured bool
	running  time.Time
	used     time.Duration
}

// Use makes the work take turns of t; none if t is nil. It must be called before
// the work is used.
func (w *Work) Use(t *Turns) { w.turns = t }

// wait waits for a turn if the request has none, or has had it for long enough.
// It returns the error of ctx if that ends before.
func (w *Work) wait(ctx context.Context, large bool) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.taken {
		if !w.turns.due(time.Since(w.since), large) {
			return nil
		}
		w.taken = false
		w.turns.give()
	}
	w.stop()
	if err := w.turns.take(ctx, w.since.IsZero()); err != nil {
		return err
	}
	w.since, w.taken = time.Now(), true
	if w.measured {
		w.running = w.since
	}
	return nil
}

// Measure makes the work measure the processor time of the request from now on: the time in
// which it runs, which excludes that in which it waits for a turn or for what [Pause] is called
// for.
func (w *Work) Measure() {
	w.mu.Lock()
	w.measured = true
	w.mu.Unlock()
	w.Resume()
}

// Resume notes that the request runs again after [Work.Wait] or [Work.End], if its time is
// measured.
func (w *Work) Resume() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.measured && w.running.IsZero() {
		w.running = time.Now()
	}
}

// Used returns the processor time that was measured since the last call.
func (w *Work) Used() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.measured {
		return 0
	}
	if !w.running.IsZero() {
		now := time.Now()
		w.used += now.Sub(w.running)
		w.running = now
	}
	used := w.used
	w.used = 0
	return used
}

// Wait notes that the request waits for something and keeps its turn: it uses no processor time
// until [Work.Resume].
func (w *Work) Wait() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stop()
}

// stop notes that the request waits. The caller holds w.mu.
func (w *Work) stop() {
	if !w.running.IsZero() {
		w.used += time.Since(w.running)
		w.running = time.Time{}
	}
}

// End gives the turn of the request to the next one, if it has one. The work may
// be used again. w may be nil.
func (w *Work) End() {
	if w == nil || w.turns == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stop()
	if w.taken {
		w.taken = false
		w.turns.give()
	}
}

// Key is the key of a context's value that is the *[Work] of the request. A
// context that holds a Work itself returns it for Key, which saves an allocation.
type Key struct{}

// Carried returns what a context that holds the work returns for [Key]: nil if
// the work takes no turns.
func (w *Work) Carried() any {
	if w.turns == nil {
		return nil
	}
	return w
}

// of returns the work of the request of ctx; nil if it has none.
func of(ctx context.Context) *Work {
	w, _ := ctx.Value(Key{}).(*Work)
	return w
}

// carrier is a context with a Work.
type carrier struct {
	context.Context
	work Work
}

func (c *carrier) Value(key any) any {
	if key == (Key{}) {
		return c.work.Carried()
	}
	return c.Context.Value(key)
}

// With returns ctx and nil if ctx has a [Work], and otherwise a context with one
// that takes turns of t, and that Work, which the caller ends. A call needs it if
// its parts are inside each other, for example a batch that asks many questions. t
// may be nil.
func With(ctx context.Context, t *Turns) (context.Context, *Work) {
	if t == nil || of(ctx) != nil {
		return ctx, nil
	}
	c := &carrier{Context: ctx}
	c.work.Use(t)
	return c, &c.work
}

// Of returns the turns of an engine, whose method ShareTurn is share; nil if its
// requests take none.
func Of(share func(context.Context) (context.Context, func())) *Turns {
	ctx, end := share(context.Background())
	defer end()
	if w := of(ctx); w != nil {
		return w.turns
	}
	return nil
}

// Hold waits for a turn if the request of ctx has none. It returns the error of ctx
// if that ends before, and nil if ctx has no [Work].
func Hold(ctx context.Context) error {
	if w := of(ctx); w != nil {
		return w.wait(ctx, false)
	}
	return nil
}

// Pause gives the turn of the request of ctx to the next one, if it has one. Code
// calls it before it waits for anything but a turn: for a lock, whose owner may
// wait for a turn, for the storage, or for a client.
func Pause(ctx context.Context) { of(ctx).End() }

// stepsBetween is the number of steps of a [Part] between two looks at its context
// and its turn. They take about 0.1 ms.
const stepsBetween = 4096

// Part is a part of a request that may take long. It needs a turn once it has
// taken long. The zero Part is valid. It belongs to one goroutine.
type Part struct {
	// work is that of the request; nil if the part needed no turn yet.
	work *Work
	// own is true if ctx has no work, so that the part ends it.
	own   bool
	steps int
}

// Step counts n steps, each of about 25 ns. Once in 4096 steps it waits for the
// turn of the request. It returns the error of ctx if that has ended.
func (p *Part) Step(ctx context.Context, t *Turns, n int) error {
	if p.steps += n; p.steps < stepsBetween {
		return nil
	}
	p.steps = 0
	if err := ctx.Err(); err != nil {
		return err
	}
	return p.Wait(ctx, t, false)
}

// Wait waits for a turn if the request has none, or gives it up and waits for the
// next one if others have waited for long enough. The turns are those of the
// [Work] of ctx, and otherwise t, which may be nil. large is true if the request
// has reserved much memory. Wait returns the error of ctx if that ends before.
func (p *Part) Wait(ctx context.Context, t *Turns, large bool) error {
	if p.work == nil {
		if p.work = of(ctx); p.work == nil {
			if t == nil {
				return nil
			}
			p.work, p.own = &Work{turns: t}, true
		}
	}
	return p.work.wait(ctx, large)
}

// Pause gives the turn of the request to the next one, as the function [Pause].
func (p *Part) Pause() { p.work.End() }

// End ends the part, which may be used again for the same request. A turn of the
// [Work] of the context stays with it.
func (p *Part) End() {
	if p.own {
		p.work.End()
	}
}
