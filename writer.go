package ostiary

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"sync"

	"github.com/ostiary/ostiary/graph"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/schema"
	"github.com/ostiary/ostiary/storage"
)

// submission is one writer that waits for the store's turn.
type submission struct {
	// build validates on the group's state and says what changes; it changes
	// nothing itself and may be called again, on a later state.
	build func(*group) ([]storage.Change, error)
	// ready receives once: either the answer is in head and err, or leads says
	// that this writer is the next group's leader.
	ready chan struct{}
	leads bool
	head  storage.Head
	err   error
	at    int // answered with the head after so many of the group's entries
}

// queue holds the writers that wait for one store. The first of them leads: it
// takes the turn, writes for all who wait by then, and makes the next one
// leader. So there is no writer's goroutine to start or to end.
type queue struct {
	mu      sync.Mutex
	waiting []*submission
	led     bool // somebody leads
}

// submit waits for the turn and returns the head after the writer's entry. A
// context that ends while the writer waits withdraws it; once its group is
// taken, the outcome is waited for.
func (s *Store) submit(ctx context.Context, build func(*group) ([]storage.Change, error)) (storage.Head, error) {
	if err := ctx.Err(); err != nil {
		return storage.Head{}, err
	}
	sub := &submission{build: build, ready: make(chan struct{}, 1)}
	q := &s.queue
	q.mu.Lock()
	if n := len(q.waiting); n >= s.engine.opts.Bounds.WritersWaiting {
		q.mu.Unlock()
		return storage.Head{}, &BoundError{"WritersWaiting", int64(n), int64(n + 1)}
	}
	q.waiting = append(q.waiting, sub)
	if !q.led {
		q.led, sub.leads = true, true
		q.mu.Unlock()
	} else {
		q.mu.Unlock()
		select {
		case <-sub.ready:
		case <-ctx.Done():
			if s.withdraw(sub) {
				return storage.Head{}, ctx.Err()
			}
			<-sub.ready // its group was taken, or it was made leader
		}
	}
	if sub.leads {
		s.lead(ctx, sub)
	}
	return sub.head, sub.err
}

// withdraw takes a writer that does not lead out of the queue.
func (s *Store) withdraw(sub *submission) bool {
	q := &s.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	if sub.leads {
		return false
	}
	for i, w := range q.waiting {
		if w == sub {
			q.waiting = append(q.waiting[:i], q.waiting[i+1:]...)
			return true
		}
	}
	return false
}

// lead writes the group that waits, the leader itself among it.
func (s *Store) lead(ctx context.Context, leader *submission) {
	defer s.passOn()
	if err := s.takeTurnToWrite(ctx); err != nil {
		s.remove(leader)
		leader.err = err
		return
	}
	defer s.freeTurn()
	taken := s.take()
	// One writer's deadline must not fail the others; the driver's time is
	// bounded by a setting.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.engine.opts.Bounds.AppendTime)
	defer cancel()
	s.writeGroup(ctx, taken)
	for _, sub := range taken {
		if sub != leader {
			sub.ready <- struct{}{}
		}
	}
}

// remove takes a leader that gives up out of the queue.
func (s *Store) remove(sub *submission) {
	q := &s.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	for i, w := range q.waiting {
		if w == sub {
			q.waiting = append(q.waiting[:i], q.waiting[i+1:]...)
			return
		}
	}
}

// take empties the queue up to the bound of a group.
func (s *Store) take() []*submission {
	q := &s.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	n := min(len(q.waiting), groupWrites)
	taken := q.waiting[:n:n]
	q.waiting = append([]*submission(nil), q.waiting[n:]...)
	return taken
}

// passOn makes the first who waits the leader.
func (s *Store) passOn() {
	q := &s.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) == 0 {
		q.led = false
		return
	}
	next := q.waiting[0]
	next.leads = true
	next.ready <- struct{}{}
}

// group is the writes that go into one append, on the view they are validated
// on. It belongs to the holder of the turn.
type group struct {
	s       *Store
	base    *view
	batch   *graph.Batch // base with the entries
	schemas *schemaSet
	now     rel.Time
	// compiled are schemas that a member has compiled, by id.
	compiled map[string]*schema.Schema

	// applied is set by a build that has done its changes to the batch.
	applied bool
	// kept says, once the group is published, that somebody keeps its entries.
	kept bool

	entries []storage.Entry
	heads   []storage.Head // after each entry
	memory  int64          // estimate of what the entries add
}

func (s *Store) newGroup(base *view) *group {
	return &group{s: s, base: base, batch: base.schemas.lineage.Begin(), schemas: base.schemas, now: s.engine.now()}
}

// head is the place that the group's next entry follows.
func (g *group) head() storage.Head {
	if n := len(g.heads); n > 0 {
		return g.heads[n-1]
	}
	return g.base.head
}

// ready finds the schema that admits tuples of a type.
func (g *group) ready(ctx context.Context, typ, id string) (*readySchema, error) {
	return g.s.ready(ctx, &view{head: g.base.head, graph: g.base.graph, schemas: g.schemas}, typ, id)
}

// writeGroup validates and appends until the outcome of every member is known.
func (s *Store) writeGroup(ctx context.Context, subs []*submission) {
	for try := 0; ; try++ {
		base, err := s.base(ctx)
		if err == nil && try > conflictsMax {
			err = ErrConflict
		}
		if err != nil {
			answerAll(subs, err)
			return
		}
		g := s.newGroup(base)
		members := g.collect(subs)
		if len(g.entries) == 0 {
			for _, sub := range members {
				sub.head = base.head
			}
			return
		}
		err = g.append(ctx)
		var conflict *storage.ConflictError
		switch {
		case err == nil:
			for _, sub := range members {
				sub.head = base.head
				if sub.at > 0 {
					sub.head = g.heads[sub.at-1]
				}
			}
			return
		case errors.As(err, &conflict):
			s.stale = true
			subs = members
		case len(members) > 1 && (errors.Is(err, storage.ErrEntry) || errors.Is(err, storage.ErrTooLarge) || errors.Is(err, storage.ErrFormat)):
			// One of them is to blame; the others must not suffer.
			for i := range members {
				s.writeGroup(ctx, members[i:i+1])
			}
			return
		default:
			answerAll(members, err)
			return
		}
	}
}

func answerAll(subs []*submission, err error) {
	for _, sub := range subs {
		sub.err = err
	}
}

// base returns the view to validate on; the turn is held.
func (s *Store) base(ctx context.Context) (*view, error) {
	if err := s.open(); err != nil {
		return nil, err
	}
	if s.stale {
		v, err := s.follow(ctx)
		if err != nil {
			return nil, err
		}
		s.stale = false
		return v, nil
	}
	return s.view(ctx)
}

// collect validates each writer on the group's state so far, adds the entries
// of those that pass, and returns them. The others have their error.
func (g *group) collect(subs []*submission) []*submission {
	members := make([]*submission, 0, len(subs))
	for _, sub := range subs {
		sub.err = g.enter(sub)
		if sub.err == nil {
			sub.at = len(g.entries)
			members = append(members, sub)
		}
	}
	return members
}

func (g *group) enter(sub *submission) error {
	g.applied, g.compiled = false, nil
	changes, err := sub.build(g)
	if err == nil && len(changes) > 0 {
		err = g.add(changes)
	}
	if err != nil && g.applied {
		g.rebuild()
	}
	return err
}

// add makes an entry of changes that are validated, and applies it to the
// group's state.
func (g *group) add(changes []storage.Change) error {
	if len(changes) > storage.ChangesMax {
		return &BoundError{"ChangesMax", storage.ChangesMax, int64(len(changes))}
	}
	grows, err := g.room(changes)
	if err != nil {
		return err
	}
	after := g.head()
	g.s.sequence++
	e := storage.Entry{Incarnation: g.s.incarnation, Revision: after.Revision + 1, Previous: after.Hash,
		Writer: g.s.engine.writer, Sequence: g.s.sequence, Time: max(g.now, after.Time), Changes: changes}
	g.s.buffer = storage.AppendEntry(g.s.buffer[:0], &e)
	size := len(g.s.buffer)
	for i := range changes {
		if changes[i].Kind == storage.SecretPut {
			size += len(changes[i].Document.Body)
		}
	}
	if size > storage.EntryBytesMax {
		return &BoundError{"EntryBytesMax", storage.EntryBytesMax, int64(size)}
	}
	head := storage.Head{Revision: e.Revision, Hash: sha256.Sum256(g.s.buffer), Time: e.Time}
	if cap(g.s.buffer) > 1<<20 {
		g.s.buffer = nil // a store that once wrote much does not keep it
	}
	if !g.applied {
		g.applied = true
		if g.schemas, err = applyEntry(g.batch, g.schemas, &e, g.s); err != nil {
			return err
		}
	}
	g.entries, g.heads = append(g.entries, e), append(g.heads, head)
	g.memory += grows
	for id, compiled := range g.compiled {
		g.bindCompiled(id, compiled)
	}
	return nil
}

// bindCompiled makes a schema ready that its writer has compiled already.
func (g *group) bindCompiled(id string, compiled *schema.Schema) {
	for _, b := range g.schemas.current {
		if b.row.id == id && b.ready.Load() == nil {
			if r, err := bindSchema(b.row, compiled, g.schemas.lineage); err == nil {
				b.ready.Store(r)
			}
		}
	}
	g.s.engine.cache.put(schemaKey{g.s.id, g.s.incarnation, id}, compiled)
}

// rebuild makes the batch anew of the entries so far, after one was applied
// that is not to be, or in part.
func (g *group) rebuild() {
	g.batch = g.base.schemas.lineage.Begin()
	g.schemas = g.base.schemas
	for i := range g.entries {
		// What was applied once is applied again.
		if set, err := applyEntry(g.batch, g.schemas, &g.entries[i], g.s); err == nil {
			g.schemas = set
		}
	}
}

// room refuses what would pass the memory budget, and returns an estimate of
// what the changes add.
func (g *group) room(changes []storage.Change) (grows int64, err error) {
	for i := range changes {
		switch c := &changes[i]; c.Kind {
		case storage.TupleAdd:
			grows += tupleBytes + int64(len(c.Tuple.Object.ID)+len(c.Tuple.Subject.ID)) + 6*int64(len(c.Tuple.Context))
		case storage.AttributeSet:
			grows += tupleBytes + int64(len(c.Attribute.Object.ID)+len(c.Attribute.Value))
		}
	}
	e := g.s.engine
	limit := e.opts.MemoryMax
	if limit <= 0 || grows == 0 || e.bytes.Load()+g.memory+grows <= limit {
		return grows, nil
	}
	e.DropIdle()
	if now := e.bytes.Load() + g.memory + grows; now > limit {
		return 0, fmt.Errorf("%w: %d of %d bytes", ErrMemory, now, limit)
	}
	return grows, nil
}

// tupleBytes is what a tuple with new names takes, about.
const tupleBytes = 128

// append makes the group durable and publishes its view. An answer that was
// lost is looked for in the log.
func (g *group) append(ctx context.Context) error {
	// The new view is made while the disk is waited for; nobody sees it before.
	made := make(chan struct{})
	go func() { g.batch.View(); close(made) }()
	head, err := g.s.engine.driver.Append(ctx, g.s.id, g.base.head, g.entries)
	<-made
	if err == nil && head.Hash != g.heads[len(g.heads)-1].Hash {
		err = fmt.Errorf("%w: the driver's head is not the entry's", storage.ErrDamaged)
	}
	if err != nil {
		var conflict *storage.ConflictError
		if errors.As(err, &conflict) || errors.Is(err, storage.ErrEntry) || errors.Is(err, storage.ErrTooLarge) {
			return err
		}
		if err := g.lost(ctx, err); err != nil {
			return err
		}
	}
	return g.publish()
}

// publish makes the group's view the newest.
func (g *group) publish() error {
	published, err := g.batch.Publish()
	if err != nil {
		return err
	}
	v := &view{head: g.head(), graph: published, schemas: g.schemas}
	g.kept = g.s.publish(v, g.entries, g.heads)
	return nil
}

// lost finds out whether an append that returned an error took place: nil if
// it did.
func (g *group) lost(ctx context.Context, cause error) error {
	g.s.stale = true
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), g.s.engine.opts.Bounds.AppendTime)
	defer cancel()
	head, err := g.s.engine.driver.Head(ctx, g.s.id)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUncertain, cause)
	}
	if head.Revision <= g.base.head.Revision {
		return cause
	}
	first := &g.entries[0]
	for e, err := range g.s.engine.driver.Entries(ctx, g.s.id, first.Revision) {
		if err != nil {
			return fmt.Errorf("%w: %w", ErrUncertain, cause)
		}
		if e.Writer == first.Writer && e.Sequence == first.Sequence {
			return nil // the first is there, so all are
		}
		break
	}
	return cause
}
