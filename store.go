package ostiary

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"

	"github.com/ostiary/ostiary/graph"
	"github.com/ostiary/ostiary/storage"
)

// Store is one isolated world of tuples, attributes, schemas and documents. It
// is a handle: its data is loaded when it is first asked, and dropped when it
// is idle. All methods are safe for concurrent use.
type Store struct {
	engine      *Engine
	id          storage.StoreID
	incarnation storage.Incarnation
	info        atomic.Pointer[storage.StoreInfo]

	// newest is the published view; nil while the store is not loaded.
	newest atomic.Pointer[view]
	// used is set by questions and cleared by DropIdle.
	used atomic.Bool

	// turn is held by who may write, publish or drop: one at a time. A writer
	// hands it on when his group is validated, and appends it then: see flight.
	turn     chan struct{}
	sequence atomic.Uint64
	// What follows belongs to the holder of the turn, but that while a group is
	// being appended only who appends it may change stale, or publish.
	flight *group
	spare  *group // memory for the next one, or nil
	stale  bool   // another's entry, or an answer lost: look before writing

	queue queue
	marks markRing
	told  atomic.Pointer[toldToken]
	past  pastCache
	watch watchers
	hub   permissionHub

	mu      sync.Mutex
	loading *loading
	gone    error         // why the handle is of no more use, if it is
	moved   chan struct{} // closed when a view is published, if anybody waits
	bytes   int64         // what this store adds to engine.bytes
	pending *Pending      // what holds the turn for an embedder's transaction

	expiring   atomic.Bool   // some tuple that was loaded or written has an expiry
	compacting chan struct{} // held by the one who compacts
}

// loading is a load under way, for all who wait for it.
type loading struct {
	done chan struct{}
	err  error
}

func newStore(e *Engine, info storage.StoreInfo) *Store {
	s := &Store{engine: e, id: info.ID, incarnation: info.Incarnation, turn: make(chan struct{}, 1), compacting: make(chan struct{}, 1)}
	s.info.Store(&info)
	return s
}

// ID returns the store's id.
func (s *Store) ID() storage.StoreID { return s.id }

// Info returns what is known of the store without loading it.
func (s *Store) Info() storage.StoreInfo {
	info := *s.info.Load()
	info.Aliases = maps.Clone(info.Aliases)
	return info
}

// Head returns the token of the newest revision published here, loading the
// store if need be.
func (s *Store) Head(ctx context.Context) (Token, error) {
	v, err := s.view(ctx)
	if err != nil {
		return "", failed("head", s.id, err)
	}
	return s.tokenAt(v.head), nil
}

// Stats are counts of a store's newest view.
type Stats struct {
	Revision storage.Revision
	Graph    graph.Stats
	Bytes    int64
	Schemas  int
}

// Stats returns counts of the newest view, loading the store if need be.
func (s *Store) Stats(ctx context.Context) (Stats, error) {
	v, err := s.view(ctx)
	if err != nil {
		return Stats{}, failed("stats", s.id, err)
	}
	return Stats{v.head.Revision, v.graph.Stats(), v.graph.Bytes(), len(v.schemas.rows)}, nil
}

// takeTurn waits for the store's turn, and for the group that is being
// appended.
func (s *Store) takeTurn(ctx context.Context) error {
	if !s.tryTurn() {
		select {
		case s.turn <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return s.land(ctx)
}

func (s *Store) tryTurn() bool {
	select {
	case s.turn <- struct{}{}:
		return true
	default:
		return false
	}
}

func (s *Store) freeTurn() { <-s.turn }

// view returns the newest view, loading it if need be.
func (s *Store) view(ctx context.Context) (*view, error) {
	if v := s.newest.Load(); v != nil {
		if !s.used.Load() {
			s.used.Store(true)
		}
		return v, nil
	}
	return s.load(ctx)
}

// load waits for the store to be loaded, starting that if nobody did. The load
// itself goes on when a caller gives up.
func (s *Store) load(ctx context.Context) (*view, error) {
	for {
		s.mu.Lock()
		if v := s.newest.Load(); v != nil || s.gone != nil {
			err := s.gone
			s.mu.Unlock()
			return v, err
		}
		l := s.loading
		if l == nil {
			l = &loading{done: make(chan struct{})}
			if !s.engine.start(func() { s.runLoad(l) }) {
				s.mu.Unlock()
				return nil, ErrClosed
			}
			s.loading = l
		}
		s.mu.Unlock()
		select {
		case <-l.done:
			if l.err != nil {
				return nil, l.err
			}
			if v := s.newest.Load(); v != nil {
				s.used.Store(true)
				return v, nil
			}
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: %w", ErrLoading, ctx.Err())
		}
	}
}

// runLoad is a load's own goroutine. The engine's Close waits for it.
func (s *Store) runLoad(l *loading) {
	v, err := s.loadView()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.loading = nil
	if errors.Is(err, errIncarnation) && s.gone == nil {
		s.gone = err
	}
	if err == nil && s.gone != nil {
		err = s.gone
	}
	if l.err = err; err == nil {
		s.newest.Store(v)
		s.account(v)
		s.engine.mu.Lock()
		s.engine.loaded[s] = struct{}{}
		s.engine.mu.Unlock()
		s.watch.look()
	}
	close(l.done)
}

// errIncarnation is an ErrNoStore for good.
var errIncarnation = fmt.Errorf("%w: it was deleted and created again", ErrNoStore)

// loadView reads the store's state within the engine's bound of loads.
func (s *Store) loadView() (*view, error) {
	e := s.engine
	select {
	case e.loads <- struct{}{}:
	case <-e.ctx.Done():
		return nil, ErrClosed
	}
	defer func() { <-e.loads }()
	if max := e.opts.MemoryMax; max > 0 && e.bytes.Load() >= max {
		e.DropIdle()
	}
	v, err := s.readState(e.ctx)
	if errors.Is(err, context.Canceled) {
		err = ErrClosed
	}
	return v, err
}

// readState builds a view of what the driver has.
func (s *Store) readState(ctx context.Context) (*view, error) {
	info, err := s.engine.driver.Store(ctx, s.id)
	if err != nil {
		return nil, err
	}
	if info.Incarnation != s.incarnation {
		return nil, errIncarnation
	}
	st, err := s.engine.driver.Load(ctx, s.id, storage.LoadOptions{})
	if err != nil {
		return nil, err
	}
	v, err := s.build(st)
	if closing := st.Close(); err == nil {
		err = closing
	}
	return v, err
}

// build fills a new lineage from a state's live rows.
func (s *Store) build(st storage.State) (*view, error) {
	lineage := graph.New(graph.Options{})
	load := lineage.Load()
	for row, err := range st.Tuples {
		if err != nil {
			return nil, err
		}
		if row.Tuple.Expires != 0 {
			s.expiring.Store(true)
		}
		if err := load.Add(row.Tuple); err != nil {
			return nil, err
		}
	}
	for row, err := range st.Attributes {
		if err != nil {
			return nil, err
		}
		if err := load.SetAttribute(row.Attribute); err != nil {
			return nil, err
		}
	}
	set := &schemaSet{lineage: lineage}
	for row, err := range st.Documents {
		if err != nil {
			return nil, err
		}
		if row.Kind == schemaKind {
			set.rows = append(set.rows, schemaRowOf(row))
		}
	}
	g, err := load.Finish()
	if err != nil {
		return nil, err
	}
	set.sort()
	set.settle(nil)
	return &view{head: st.Head, graph: g, schemas: set}, nil
}

// publish makes v the newest view; the turn is held. A handle that was closed
// meanwhile stays so. It says whether somebody keeps the entries.
func (s *Store) publish(v *view, entries []storage.Entry, heads []storage.Head) (kept bool) {
	for _, h := range heads {
		s.marks.put(h)
	}
	s.mu.Lock()
	if s.gone != nil {
		s.mu.Unlock()
		return false
	}
	s.newest.Store(v)
	if s.moved != nil {
		close(s.moved)
		s.moved = nil
	}
	if s.engine.opts.MemoryMax > 0 {
		s.account(v)
	}
	s.mu.Unlock()
	kept = s.watch.push(entries, heads)
	s.compactSoon(v)
	return kept
}

// account keeps the engine's estimate of memory; s.mu is held. v may be nil.
func (s *Store) account(v *view) {
	now := int64(0)
	if v != nil {
		now = v.graph.Bytes()
	}
	s.engine.bytes.Add(now - s.bytes)
	s.bytes = now
}

// waiter returns a channel that is closed at the next publication.
func (s *Store) waiter() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.moved == nil {
		s.moved = make(chan struct{})
	}
	return s.moved
}

// drop forgets the view if nobody writes, so that the next question loads it.
func (s *Store) drop() bool {
	if !s.tryTurn() {
		return false
	}
	defer s.freeTurn()
	if s.underWay() != nil {
		return false
	}
	s.forget()
	return true
}

// forget drops the view; the turn is held.
func (s *Store) forget() {
	s.mu.Lock()
	s.newest.Store(nil)
	s.account(nil)
	s.mu.Unlock()
	s.past.clear()
	s.marks.clear()
	s.expiring.Store(false)
	s.engine.mu.Lock()
	delete(s.engine.loaded, s)
	s.engine.mu.Unlock()
}

// close ends the handle for a reason.
func (s *Store) close(why error) {
	s.mu.Lock()
	if s.gone == nil {
		s.gone = why
	}
	s.mu.Unlock()
	s.forget()
	s.watch.end(why)
}

// state says why the handle is of no use, if it is.
func (s *Store) state() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.gone
}

// markRing remembers the marks of the newest revisions, so that fresh tokens
// are confirmed without reading the log, and of some that were asked for.
type markRing struct {
	mu    sync.RWMutex
	first storage.Revision // that marks begins with
	marks []uint64
	asked map[storage.Revision]uint64 // of revisions not in marks
}

const marksMax = 4096

func (r *markRing) put(h storage.Head) {
	r.mu.Lock()
	defer r.mu.Unlock()
	mark, next := markOf(h.Hash), r.first+storage.Revision(len(r.marks))
	switch {
	case h.Revision == next && len(r.marks) > 0:
	case h.Revision >= next: // the first, or the one after some that we did not see
		r.first, r.marks = h.Revision, r.marks[:0]
	default:
		r.putAsked(h.Revision, mark)
		return
	}
	if len(r.marks) == 2*marksMax {
		copy(r.marks, r.marks[marksMax:])
		r.first, r.marks = r.first+marksMax, r.marks[:marksMax]
	}
	r.marks = append(r.marks, mark)
}

// putAsked remembers one mark that is not the newest; mu is held.
func (r *markRing) putAsked(rev storage.Revision, mark uint64) {
	if rev >= r.first {
		r.marks[rev-r.first] = mark
		return
	}
	if r.asked == nil || len(r.asked) >= marksMax {
		r.asked = map[storage.Revision]uint64{}
	}
	r.asked[rev] = mark
}

func (r *markRing) get(rev storage.Revision) (uint64, bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if rev >= r.first && rev-r.first < storage.Revision(len(r.marks)) {
		return r.marks[rev-r.first], true
	}
	m, ok := r.asked[rev]
	return m, ok
}

func (r *markRing) clear() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.first, r.marks, r.asked = 0, nil, nil
}
