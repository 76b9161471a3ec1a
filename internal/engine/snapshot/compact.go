package snapshot

import (
	"context"

	"github.com/ostiary/ostiary/internal/engine/graph"
	"github.com/ostiary/ostiary/internal/tool/turns"
	"github.com/ostiary/ostiary/storage"
)

// A lineage only grows: a name stays in it after its last tuple is removed. A
// compaction copies the graph into a new lineage without the unused names.
// Readers of earlier views keep the old lineage alive.
const (
	deadShareMax = 0.3     // compact if more than this share of the names is unused,
	deadNamesMin = 100_000 // and at least so many names are
)

func needsCompaction(v *graph.View) bool {
	st := v.Stats()
	return st.Names-st.LiveNames >= deadNamesMin && v.DeadShare() > deadShareMax
}

// CompactIfNeeded compacts the graph if many of its names are unused, and
// returns whether it did.
func (t *Timeline) CompactIfNeeded(ctx context.Context) (bool, error) {
	v, err := t.Current(ctx)
	if err != nil || !needsCompaction(v.Graph) {
		return false, err
	}
	return t.Compact(ctx)
}

// Compact frees the memory of unused names. It holds the write lock only to
// apply the entries that were written during the compaction. It returns false
// if the store was dropped meanwhile.
func (t *Timeline) Compact(ctx context.Context) (bool, error) {
	turns.Pause(ctx)
	select {
	case t.compacting <- struct{}{}:
	case <-ctx.Done():
		return false, ctx.Err()
	}
	return t.compact(ctx)
}

// compact compacts the graph. The caller has put an element into t.compacting;
// compact takes it out.
func (t *Timeline) compact(ctx context.Context) (bool, error) {
	defer func() { <-t.compacting }()
	v, err := t.Current(ctx)
	if err != nil {
		return false, err
	}
	lineage, err := graph.Compact(v.Graph)
	if err != nil {
		return false, err
	}
	set := &schemaSet{lineage: lineage, rows: v.schemas.rows}
	set.chooseCurrent(v.schemas)
	c := compaction{timeline: t, view: &View{Head: v.Head, Graph: lineage.View(), schemas: set, importing: v.importing}}
	for c.behind() > followMax {
		if err := c.follow(ctx); err != nil {
			return false, err
		}
	}
	if err := t.Lock.LockIdle(ctx); err != nil {
		return false, err
	}
	defer t.Lock.Unlock()
	if err := c.follow(ctx); err != nil {
		return false, err
	}
	newest := t.newest.Load()
	if newest == nil || newest.Head != c.view.Head || !t.publishCompacted(newest, c.view) {
		return false, nil // dropped, loaded again or followed: the new lineage is obsolete
	}
	t.past.clear()
	return true, nil
}

// compaction brings a compacted lineage up to the newest view. The lineage is
// not published yet.
type compaction struct {
	timeline *Timeline
	view     *View // of the new lineage
}

// behind returns how many revisions the newest view is ahead.
func (c *compaction) behind() storage.Revision {
	if v := c.timeline.newest.Load(); v != nil && v.Head.Revision > c.view.Head.Revision {
		return v.Head.Revision - c.view.Head.Revision
	}
	return 0
}

func (c *compaction) follow(ctx context.Context) error {
	n := c.behind()
	if n == 0 {
		return nil
	}
	t, head := c.timeline, c.view.Head
	through := head.Revision + n
	d := t.Draft(c.view)
	for e, err := range t.Runtime.Driver.Entries(ctx, t.ID, head.Revision+1) {
		if err != nil {
			return err
		}
		if e.Revision > through {
			break
		}
		next := headOf(&e)
		if err := d.Apply(e.Changes, next); err != nil {
			return err
		}
		head = next
	}
	v := d.View(head)
	if _, err := d.Batch.Publish(); err != nil {
		return err
	}
	c.view = v
	return nil
}

// compactSoon starts a compaction if v needs one, so that the graph does not
// grow without limit where Collect is never called.
func (t *Timeline) compactSoon(v *View) {
	if !needsCompaction(v.Graph) {
		return
	}
	select {
	case t.compacting <- struct{}{}:
	default:
		return // one is in progress
	}
	// A later write tries again what fails now.
	if !t.Runtime.Start(func() { _, _ = t.compact(t.Runtime.ctx) }) {
		<-t.compacting
	}
}
