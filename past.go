package ostiary

import (
	"container/list"
	"context"
	"fmt"
	"sync"

	"github.com/ostiary/ostiary/graph"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/storage"
)

// pastCache keeps a store's last asked views of the past, and builds each once
// however many ask.
type pastCache struct {
	mu    sync.Mutex
	order list.List // of *pastEntry, newest first
	at    map[storage.Revision]*list.Element
}

type pastEntry struct {
	revision storage.Revision
	done     chan struct{}
	view     *view
	err      error
}

func (c *pastCache) clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.order.Init()
	c.at = nil
}

// entry returns the place of a revision; mine says that the caller must fill it.
func (c *pastCache) entry(r storage.Revision, most int) (p *pastEntry, mine bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.at[r]; e != nil {
		c.order.MoveToFront(e)
		return e.Value.(*pastEntry), false
	}
	if c.at == nil {
		c.at = map[storage.Revision]*list.Element{}
	}
	p = &pastEntry{revision: r, done: make(chan struct{})}
	c.at[r] = c.order.PushFront(p)
	for c.order.Len() > most {
		c.remove(c.order.Back())
	}
	return p, true
}

func (c *pastCache) remove(e *list.Element) {
	delete(c.at, e.Value.(*pastEntry).revision)
	c.order.Remove(e)
}

// drop forgets an entry that could not be filled, or is of no use to who asks, so
// that the next one tries.
func (c *pastCache) drop(p *pastEntry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.at[p.revision]; e != nil && e.Value.(*pastEntry) == p {
		c.remove(e)
	}
}

// pastView returns the view at r, which v's history holds, in v's lineage: what
// is kept may be of the graph before it was compacted, or after, if v is not.
func (s *Store) pastView(ctx context.Context, v *view, r storage.Revision) (*view, error) {
	if r == v.head.Revision {
		p := *v
		p.past = true
		return &p, nil
	}
	for {
		p, mine := s.past.entry(r, s.engine.opts.Bounds.PastViews)
		if mine {
			p.view, p.err = s.buildPast(ctx, v, r)
			if p.err != nil {
				s.past.drop(p)
			}
			close(p.done)
			return p.view, p.err
		}
		select {
		case <-p.done:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		if p.err == nil && p.view.graph.Lineage() == v.graph.Lineage() {
			return p.view, nil
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		// It is of another lineage, or who tried failed for a reason of his own (his
		// context).
		s.past.drop(p)
	}
}

// buildPast undoes on v what happened after r. What was added since is removed
// and what was removed since is put back; a key that was touched more than
// once ends as the row that lived at r, if there is one. It does not matter
// that v may be older than the state that the driver reads.
func (s *Store) buildPast(ctx context.Context, v *view, r storage.Revision) (*view, error) {
	st, err := s.engine.driver.Load(ctx, s.id, storage.LoadOptions{RemovedAfter: &r, RemovedOnly: true})
	if err != nil {
		return nil, err
	}
	defer st.Close()
	if st.Oldest > r {
		return nil, fmt.Errorf("%w: the past is complete from revision %d on", ErrTooOld, st.Oldest)
	}
	u := undo{s: s, batch: v.schemas.lineage.From(v.graph), to: r, head: storage.Head{Revision: r}}
	if err := u.removeAdded(ctx, st.Head.Revision); err != nil {
		return nil, err
	}
	set := &schemaSet{lineage: v.schemas.lineage}
	for _, row := range v.schemas.rows {
		if row.created <= r {
			set.rows = append(set.rows, row)
		}
	}
	if err := u.restore(st, set); err != nil {
		return nil, err
	}
	set.sort()
	set.settle(v.schemas)
	return &view{head: u.head, graph: u.batch.View(), schemas: set, past: true}, nil
}

// undo is one walk back.
type undo struct {
	s     *Store
	batch *graph.Batch
	to    storage.Revision
	head  storage.Head // of `to`
	steps int
}

// step keeps the batch's memory bounded.
func (u *undo) step() {
	if u.steps++; u.steps%100_000 == 0 {
		u.batch.View()
	}
}

// removeAdded reads the log from u.to to the revision `through`.
func (u *undo) removeAdded(ctx context.Context, through storage.Revision) error {
	from := max(u.to, 1)
	oldest := rel.Time(0)
	if w := u.s.engine.opts.Window; w > 0 {
		oldest = u.s.engine.now() - rel.Time(w)
	}
	for e, err := range u.s.engine.driver.Entries(ctx, u.s.id, from) {
		if err != nil {
			return err
		}
		switch {
		case e.Revision > through:
			return nil
		case e.Revision == u.to:
			u.head.Time = e.Time
			continue
		case e.Revision == u.to+1:
			u.head.Hash = e.Previous
			if e.Time < oldest {
				return fmt.Errorf("%w: revision %d ended before the window", ErrTooOld, u.to)
			}
		}
		for i := range e.Changes {
			switch c := &e.Changes[i]; c.Kind {
			case storage.TupleAdd:
				u.batch.Remove(c.Tuple.Key())
			case storage.AttributeSet:
				u.batch.RemoveAttribute(c.Attribute.Object, c.Attribute.Name)
			}
			u.step()
		}
	}
	return nil
}

// restore puts back what lived at u.to and was removed since.
func (u *undo) restore(st storage.State, set *schemaSet) error {
	for row, err := range st.Tuples {
		if err != nil {
			return err
		}
		if row.Created > u.to {
			continue
		}
		if err := u.batch.Add(row.Tuple); err != nil {
			return err
		}
		if row.Tuple.Expires != 0 {
			u.s.expiring.Store(true)
		}
		u.step()
	}
	for row, err := range st.Attributes {
		if err != nil {
			return err
		}
		if row.Created > u.to {
			continue
		}
		if err := u.batch.SetAttribute(row.Attribute); err != nil {
			return err
		}
		u.step()
	}
	for row, err := range st.Documents {
		if err != nil {
			return err
		}
		if row.Kind == schemaKind && row.Created <= u.to {
			set.add(schemaRowOf(row))
		}
	}
	return nil
}
