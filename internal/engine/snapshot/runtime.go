package snapshot

import (
	"cmp"
	"context"
	"errors"
	goruntime "runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/internal/engine/eval"
	"github.com/ostiary/ostiary/internal/engine/journal"
	"github.com/ostiary/ostiary/internal/tool/turns"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/storage"
)

// Config is the part of an engine's options that its timelines use. All fields
// are set: defaults are filled in by the engine.
type Config struct {
	// Driver keeps the data.
	Driver storage.Driver
	// Bounds limit requests, past views, loads and cached schemas.
	Bounds authz.Bounds
	// Conditions compiles the conditions of schemas. Nil rejects schemas that have
	// conditions.
	Conditions expr.Compiler
	// Clock returns the current time.
	Clock func() time.Time
	// Window is how long a revision stays readable after its successor; 0 or less
	// keeps all revisions.
	Window time.Duration
	// LogWindow is how long log entries are kept; 0 or less keeps all of them.
	LogWindow time.Duration
	// MemoryMax is the budget, in bytes, for the newest views of all loaded stores and
	// their bound schemas; 0 or less means no limit.
	MemoryMax int64
	// Room returns why a change of so many bytes is refused, or nil. frees is true if the
	// change removes data and adds none. If it is nil, nothing is refused.
	Room func(bytes int, frees bool) error
	// Step is authz.RecordingOptions.Step. Nil is not called.
	Step func(ctx context.Context, name string) (context.Context, func(err error, figures ...any))
}

// Runtime is what the timelines of one engine share: the configuration, the
// cache of compiled schemas, the memory accounting and the goroutines. All
// methods are safe for concurrent use.
type Runtime struct {
	Config
	// Copy is the driver, if it is a storage.Copy, otherwise nil.
	Copy    storage.Copy
	catalog *atomic.Uint64 // storage.Driver.CatalogChanges
	schemas schemaCache
	others  otherSchemas
	large   largeEntries
	bytes   atomic.Int64  // of the newest views and their current schemas
	loads   chan struct{} // one element for each load in progress
	// compilations has one element for each schema that is being compiled.
	compilations chan struct{}

	// lag counts what the subscriptions of all stores buffer.
	lag lagBudget

	// QuestionsMemory is the memory that all questions may use together.
	QuestionsMemory *eval.MemoryBudget
	// Turns are the turns that long requests take.
	Turns *turns.Turns

	mu     sync.Mutex
	loaded map[*Timeline]struct{} // timelines that hold a view

	// starting is held while a goroutine starts and while closed is set, so that no
	// goroutine starts after Close.
	starting sync.Mutex
	closed   atomic.Bool
	running  sync.WaitGroup
	ctx      context.Context // ends with Close
	stop     context.CancelFunc
}

// NewRuntime returns a runtime with the configuration. It starts no goroutine.
func NewRuntime(c Config) *Runtime {
	r := &Runtime{Config: c, loaded: map[*Timeline]struct{}{}, loads: make(chan struct{}, c.Bounds.Loads),
		compilations: make(chan struct{}, cmp.Or(c.Bounds.Compilations, max(1, goruntime.GOMAXPROCS(0)/2)))}
	r.QuestionsMemory, r.Turns = eval.NewMemoryBudget(c.Bounds.QuestionsMemory), turns.OfProcessors()
	r.schemas.max, r.schemas.bytesMax = c.Bounds.SchemasCached, c.Bounds.SchemasCachedBytes
	r.others.bytesMax = othersBytesMax
	r.lag.max = int64(c.Bounds.WatchChanges)
	if r.Room == nil {
		r.Room = func(int, bool) error { return nil }
	}
	r.catalog = c.Driver.CatalogChanges()
	r.Copy, _ = c.Driver.(storage.Copy)
	r.ctx, r.stop = context.WithCancel(context.Background())
	return r
}

// Begin begins a step. It returns ctx and nil if the step is not traced.
func (r *Runtime) Begin(ctx context.Context, name string) (_ context.Context, end func(err error, figures ...any)) {
	if r.Step == nil {
		return ctx, nil
	}
	return r.Step(ctx, name)
}

// BeforeWrite returns when this node may write. See [storage.Copy]. It notes in the journal
// of ctx that another node writes.
func (r *Runtime) BeforeWrite(ctx context.Context) error {
	if r.Copy == nil {
		return nil
	}
	err := r.Copy.BeforeWrite(ctx)
	if errors.Is(err, storage.ErrNotHolder) {
		journal.Of(ctx).Refuse()
	}
	return err
}

// Confirm returns when the driver has everything that was durable at the time of the
// call. See [storage.Copy].
func (r *Runtime) Confirm(ctx context.Context) error {
	if r.Copy == nil {
		return nil
	}
	return r.Copy.Confirm(ctx)
}

// Acknowledge returns when readers on other nodes see everything that the driver shows.
// See [storage.Copy].
func (r *Runtime) Acknowledge(ctx context.Context) error {
	if r.Copy == nil {
		return nil
	}
	return r.Copy.Acknowledge(ctx)
}

// Leads reports whether this node does what one of several has to do. See [storage.Copy].
func (r *Runtime) Leads() bool { return r.Copy == nil || r.Copy.Leads() }

// Now returns the current time of the clock.
func (r *Runtime) Now() rel.Time { return rel.TimeOf(r.Clock()) }

// Context returns a context that ends when the runtime is closed.
func (r *Runtime) Context() context.Context { return r.ctx }

// Closed reports whether Close was called.
func (r *Runtime) Closed() bool { return r.closed.Load() }

// Start runs task in a goroutine that Close waits for. The task must end when
// [Runtime.Context] ends. Start returns false, without starting the task, after
// Close.
func (r *Runtime) Start(task func()) bool {
	r.starting.Lock()
	defer r.starting.Unlock()
	if r.closed.Load() {
		return false
	}
	r.running.Add(1)
	go func() {
		defer r.running.Done()
		task()
	}()
	return true
}

// Close ends [Runtime.Context] and waits for the goroutines. It returns false
// if the runtime was closed before.
func (r *Runtime) Close() bool {
	r.starting.Lock()
	again := r.closed.Swap(true)
	r.starting.Unlock()
	if again {
		return false
	}
	r.stop()
	r.running.Wait()
	return true
}

// Bytes returns the estimated size of the newest views of all loaded stores and of
// their bound schemas. Without a budget, writes do not update the estimate, so Bytes does.
func (r *Runtime) Bytes() int64 {
	if r.MemoryMax <= 0 {
		for _, t := range r.Loaded() {
			t.accountAgain()
		}
	}
	return r.bytes.Load() + r.others.size()
}

// Loaded returns the timelines that hold a view.
func (r *Runtime) Loaded() []*Timeline {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make([]*Timeline, 0, len(r.loaded))
	for t := range r.loaded {
		all = append(all, t)
	}
	return all
}

// DropIdle drops the views of the timelines that were not read since the last
// call, and returns how many it dropped.
func (r *Runtime) DropIdle() int {
	n := 0
	for _, t := range r.Loaded() {
		if !t.used.Swap(false) && t.drop() {
			n++
		}
	}
	return n
}
