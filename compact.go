package ostiary

import (
	"context"

	"github.com/ostiary/ostiary/graph"
	"github.com/ostiary/ostiary/storage"
)

// A lineage only grows: names that nothing refers to any more stay until the
// graph is compacted into a new lineage. Readers keep the old one as long as
// they need it.
const (
	deadShareMax = 0.3     // of names, from which on it is worth it
	deadNamesMin = 100_000 // below, it does not matter
)

func wantsCompaction(v *graph.View) bool {
	st := v.Stats()
	return st.Names-st.LiveNames >= deadNamesMin && v.DeadShare() > deadShareMax
}

// Compact reclaims the memory of names that are no longer used. It holds the
// store's turn only for what was written meanwhile.
func (s *Store) Compact(ctx context.Context) error {
	_, err := s.compact(ctx)
	return failed("compact", s.id, err)
}

func (s *Store) compact(ctx context.Context) (bool, error) {
	select {
	case s.compacting <- struct{}{}:
	case <-ctx.Done():
		return false, ctx.Err()
	}
	return s.compactHeld(ctx)
}

// compactHeld compacts; s.compacting is held, and free afterwards.
func (s *Store) compactHeld(ctx context.Context) (bool, error) {
	defer func() { <-s.compacting }()
	v, err := s.view(ctx)
	if err != nil {
		return false, err
	}
	lineage, err := graph.Compact(v.graph)
	if err != nil {
		return false, err
	}
	set := &schemaSet{lineage: lineage, rows: v.schemas.rows}
	set.settle(v.schemas)
	m := move{s: s, view: &view{head: v.head, graph: lineage.View(), schemas: set}}
	for m.behind() > followMax {
		if err := m.follow(ctx); err != nil {
			return false, err
		}
	}
	if err := s.takeTurn(ctx); err != nil {
		return false, err
	}
	defer s.freeTurn()
	if err := m.follow(ctx); err != nil {
		return false, err
	}
	newest := s.newest.Load()
	if newest == nil || newest.head != m.view.head {
		return false, nil // dropped, or another history: the new lineage is of no use
	}
	s.past.clear()
	s.publish(m.view, nil, nil)
	return true, nil
}

// move brings a compacted lineage, which nobody else sees yet, up to the
// store's newest view.
type move struct {
	s    *Store
	view *view
}

func (m *move) behind() storage.Revision {
	if v := m.s.newest.Load(); v != nil && v.head.Revision > m.view.head.Revision {
		return v.head.Revision - m.view.head.Revision
	}
	return 0
}

func (m *move) follow(ctx context.Context) error {
	n := m.behind()
	if n == 0 {
		return nil
	}
	through := m.view.head.Revision + n
	b := m.view.schemas.lineage.Begin()
	next := *m.view
	for e, err := range m.s.engine.driver.Entries(ctx, m.s.id, m.view.head.Revision+1) {
		if err != nil {
			return err
		}
		if e.Revision > through {
			break
		}
		set, err := applyEntry(b, next.schemas, &e, m.s)
		if err != nil {
			return err
		}
		next.schemas = set
		next.head = storage.Head{Revision: e.Revision, Hash: e.Hash(), Time: e.Time}
	}
	g, err := b.Publish()
	if err != nil {
		return err
	}
	next.graph = g
	m.view = &next
	return nil
}

// compactSoon starts a compaction where the newest view wants one: churn must
// not grow memory for ever, whether or not anybody calls Collect.
func (s *Store) compactSoon(v *view) {
	if !wantsCompaction(v.graph) {
		return
	}
	select {
	case s.compacting <- struct{}{}:
	default:
		return // one is under way
	}
	// What fails now is tried again after a later write.
	if !s.engine.start(func() { _, _ = s.compactHeld(s.engine.ctx) }) {
		<-s.compacting
	}
}
