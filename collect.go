package ostiary

import (
	"context"
	"errors"
	"fmt"

	"github.com/ostiary/ostiary/graph"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/storage"
)

// CollectResult says what Collect did.
type CollectResult struct {
	// Expired is how many expired tuples were removed.
	Expired int
	// Log and Rows are what was trimmed, as storage.Driver.Oldest tells it.
	Log, Rows storage.Revision
	// Compacted says that the memory of names no longer used was reclaimed.
	Compacted bool
}

// Collect tidies a store up: expired tuples become real removals, what is
// older than the windows is trimmed, and the graph is compacted where many of
// its names are dead. No answer depends on it, but what is below the window
// becomes ErrTooOld. Options.Background calls it.
func (s *Store) Collect(ctx context.Context) (CollectResult, error) {
	c, err := s.collect(ctx)
	return c, failed("collect", s.id, err)
}

func (s *Store) collect(ctx context.Context) (c CollectResult, err error) {
	if c.Expired, err = s.removeExpired(ctx); err != nil {
		return c, err
	}
	if c.Log, c.Rows, err = s.trim(ctx); err != nil {
		return c, err
	}
	v, err := s.view(ctx)
	if err == nil && wantsCompaction(v.graph) {
		c.Compacted, err = s.compact(ctx)
	}
	return c, err
}

// expiredBatch is how many expired tuples one entry removes.
const expiredBatch = 1000

// removeExpired writes removals of what is expired, a batch at a time.
func (s *Store) removeExpired(ctx context.Context) (int, error) {
	v, err := s.view(ctx)
	if err != nil || !s.expiring.Load() {
		return 0, err
	}
	removed := 0
	var keys []rel.Key
	flush := func() error {
		n, err := s.removeKeys(ctx, keys)
		removed += n
		keys = keys[:0]
		return err
	}
	now, n := s.engine.now(), 0
	for _, t := range v.graph.Tuples(rel.Filter{}, graph.Position{}) {
		if n++; n%4096 == 0 && ctx.Err() != nil {
			return removed, ctx.Err()
		}
		if !t.Expired(now) {
			continue
		}
		if keys = append(keys, t.Key()); len(keys) == expiredBatch {
			if err := flush(); err != nil {
				return removed, err
			}
		}
	}
	return removed, flush()
}

// removeKeys removes those of the keys that are still expired.
func (s *Store) removeKeys(ctx context.Context, keys []rel.Key) (n int, err error) {
	if len(keys) == 0 {
		return 0, nil
	}
	_, err = s.submit(ctx, &submission{build: func(g *group) ([]storage.Change, error) {
		out := make([]storage.Change, 0, len(keys))
		for _, k := range keys {
			if t, ok := g.batch.Get(k); ok && t.Expired(g.now) {
				out = append(out, storage.Change{Kind: storage.TupleRemove,
					Tuple: rel.Tuple{Object: k.Object, Relation: k.Relation, Subject: k.Subject}})
			}
		}
		n = len(out)
		return out, nil
	}}, len(keys))
	return n, err
}

// trim drops what the windows no longer hold.
func (s *Store) trim(ctx context.Context) (log, rows storage.Revision, err error) {
	driver, now := s.engine.driver, s.engine.now()
	if log, rows, err = driver.Oldest(ctx, s.id); err != nil {
		return log, rows, err
	}
	wantLog, wantRows := log, rows
	if w := s.engine.opts.Window; w > 0 {
		if wantRows, err = s.windowEnd(ctx, now-rel.Time(w)); err != nil {
			return log, rows, err
		}
	}
	if w := s.engine.opts.LogWindow; w > 0 {
		if wantLog, err = s.windowEnd(ctx, now-rel.Time(w)); err != nil {
			return log, rows, err
		}
		// A past view is built from the log, so that must reach as far as the rows.
		wantLog = min(wantLog, max(wantRows, rows))
	}
	if wantLog <= log && wantRows <= rows {
		return log, rows, nil
	}
	if err := driver.Trim(ctx, s.id, max(log, wantLog), max(rows, wantRows)); err != nil {
		return log, rows, err
	}
	return driver.Oldest(ctx, s.id)
}

// windowEnd is the revision that was the newest at a time: the oldest one to
// keep.
func (s *Store) windowEnd(ctx context.Context, t rel.Time) (storage.Revision, error) {
	r, err := s.revisionAt(ctx, t)
	if errors.Is(err, ErrTooOld) { // what is that old is gone already
		return 0, nil
	}
	return r, err
}

// Trim drops, whatever the windows say, the past below revision `rows`, and
// the log's entries below `log`, which is cut to `rows`: the past is built from
// the log.
func (s *Store) Trim(ctx context.Context, log, rows storage.Revision) error {
	v, err := s.view(ctx)
	if err == nil && rows > v.head.Revision {
		err = fmt.Errorf("%w: revision %d", ErrFuture, rows)
	}
	if err == nil {
		err = s.engine.driver.Trim(ctx, s.id, min(log, rows), rows)
	}
	return failed("trim", s.id, err)
}
