package snapshot

import (
	"container/list"
	"context"
	"fmt"
	"sync"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/internal/engine/graph"
	"github.com/ostiary/ostiary/internal/tool/turns"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/storage"
)

// pastCache keeps the past views of a store that were read last. Concurrent
// requests for the same revision build its view once.
type pastCache struct {
	mu    sync.Mutex
	order list.List // of *pastEntry, the last read first
	at    map[storage.Revision]*list.Element
}

// pastEntry is a past view that is built, or being built.
type pastEntry struct {
	revision storage.Revision
	done     chan struct{} // closed when view or err is set
	view     *View
	err      error
}

func (c *pastCache) clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.order.Init()
	c.at = nil
}

// entry returns the entry of a revision. If created is true the caller must
// build its view. The cache keeps at most limit entries.
func (c *pastCache) entry(r storage.Revision, limit int) (p *pastEntry, created bool) {
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
	for c.order.Len() > limit {
		c.remove(c.order.Back())
	}
	return p, true
}

func (c *pastCache) remove(e *list.Element) {
	delete(c.at, e.Value.(*pastEntry).revision)
	c.order.Remove(e)
}

// drop removes an entry that has an error or another lineage, so that the next
// request builds the view again.
func (c *pastCache) drop(p *pastEntry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.at[p.revision]; e != nil && e.Value.(*pastEntry) == p {
		c.remove(e)
	}
}

// ClearPast drops the cached past views.
func (t *Timeline) ClearPast() { t.past.clear() }

// PastView returns the view at r, which is not later than v. The view has the
// lineage of v: a cached view may have the lineage of before or after a
// compaction, and is then built again.
func (t *Timeline) PastView(ctx context.Context, v *View, r storage.Revision) (*View, error) {
	if r == v.Head.Revision {
		p := *v
		p.Past = true
		return &p, nil
	}
	for {
		p, created := t.past.entry(r, t.Runtime.Bounds.PastViews)
		if created {
			p.view, p.err = t.buildPast(ctx, v, r)
			if p.err != nil {
				t.past.drop(p)
			}
			close(p.done)
			return p.view, p.err
		}
		select {
		case <-p.done:
		default:
			turns.Pause(ctx) // the request that builds the view waits for turns
			select {
			case <-p.done:
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		if p.err == nil && p.view.Graph.Lineage() == v.Graph.Lineage() {
			return p.view, nil
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		// The entry has another lineage, or the request that built it failed, perhaps
		// because its own context ended.
		t.past.drop(p)
	}
}

// buildPast undoes the changes after r on v: it removes the rows that were
// added and restores the rows that were removed. If a key changed several
// times, the result has the row that existed at r, or no row if none existed.
// The driver's state may be newer than v.
func (t *Timeline) buildPast(ctx context.Context, v *View, r storage.Revision) (*View, error) {
	u := undo{timeline: t, ctx: ctx, to: r, head: storage.Head{Revision: r}}
	defer u.part.End()
	st, err := t.Runtime.Driver.Load(ctx, t.ID, storage.LoadOptions{RemovedAfter: &r, RemovedOnly: true})
	if err != nil {
		return nil, err
	}
	defer st.Close()
	if st.Oldest > r {
		return nil, fmt.Errorf("%w: the oldest readable revision is %d", authz.ErrTooOld, st.Oldest)
	}
	u.batch = v.schemas.lineage.From(v.Graph)
	if err := u.removeAdded(ctx, st.Head.Revision); err != nil {
		return nil, err
	}
	set := &schemaSet{lineage: v.schemas.lineage}
	for _, row := range v.schemas.rows {
		if row.Revision <= r {
			set.rows = append(set.rows, row)
		}
	}
	if v.importing <= r {
		u.importing = v.importing
	}
	if err := u.restoreRemoved(st, set); err != nil {
		return nil, err
	}
	if err := t.ConfirmRead(ctx, nil); err != nil {
		return nil, err
	}
	set.sort()
	set.chooseCurrent(v.schemas)
	return &View{Head: u.head, Graph: u.batch.View(), schemas: set, importing: u.importing, Past: true}, nil
}

// undo changes a batch back to an earlier revision.
type undo struct {
	timeline *Timeline
	batch    *graph.Batch
	to       storage.Revision
	head     storage.Head // of the revision to
	changes  int
	ctx      context.Context
	part     turns.Part
	// importing is that of the view at the revision to.
	importing storage.Revision
}

// stepsPerChange is the number of steps of turns.Part that an undone change takes.
const stepsPerChange = 40

// step counts a change. It bounds the memory of the batch, and takes turns.
func (u *undo) step() error {
	if u.changes++; u.changes%100_000 == 0 {
		u.batch.View()
	}
	return u.part.Step(u.ctx, u.timeline.Runtime.Turns, stepsPerChange)
}

// removeAdded removes what the entries after u.to, up to the revision through,
// have added.
func (u *undo) removeAdded(ctx context.Context, through storage.Revision) error {
	r := u.timeline.Runtime
	from, oldest := max(u.to, 1), rel.Time(0)
	if r.Window > 0 {
		oldest = r.Now() - rel.Time(r.Window)
	}
	for e, err := range r.Driver.Entries(ctx, u.timeline.ID, from) {
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
				return fmt.Errorf("%w: revision %d is older than the window", authz.ErrTooOld, u.to)
			}
		}
		for i := range e.Changes {
			switch c := &e.Changes[i]; c.Kind {
			case storage.TupleAdd:
				u.batch.Remove(c.Tuple.Key())
			case storage.AttributeSet:
				u.batch.RemoveAttribute(c.Attribute.Object, c.Attribute.Name)
			}
			if err := u.step(); err != nil {
				return err
			}
		}
	}
	return nil
}

// restoreRemoved puts back the rows that existed at u.to and were removed later.
func (u *undo) restoreRemoved(st storage.State, set *schemaSet) error {
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
		u.timeline.NoteExpiry(&row.Tuple)
		if err := u.step(); err != nil {
			return err
		}
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
		if err := u.step(); err != nil {
			return err
		}
	}
	for row, err := range st.Documents {
		if err != nil {
			return err
		}
		switch {
		case row.Created > u.to:
		case marksImport(row.Kind, row.Key):
			u.importing = row.Created
		case row.Kind == SchemaKind:
			set.add(schemaInfoOf(row))
		}
	}
	return nil
}
