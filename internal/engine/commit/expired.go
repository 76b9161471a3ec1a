package commit

import (
	"context"

	"github.com/ostiary/ostiary/internal/engine/graph"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/storage"
)

// RemoveExpired removes all expired tuples from the store and returns their
// number.
func (q *Queue) RemoveExpired(ctx context.Context) (int, error) {
	v, err := q.timeline.Current(ctx)
	if err != nil || !q.timeline.HasExpiring() {
		return 0, err
	}
	const batch = 1000 // tuples that one entry removes
	removed := 0
	var keys []rel.Key
	flush := func() error {
		n, err := q.removeExpiredKeys(ctx, keys)
		removed += n
		keys = keys[:0]
		return err
	}
	now, n := q.shared.runtime.Now(), 0
	for _, t := range v.Graph.Tuples(rel.Filter{}, graph.Position{}) {
		if n++; n%4096 == 0 && ctx.Err() != nil {
			return removed, ctx.Err()
		}
		if !t.Expired(now) {
			continue
		}
		if keys = append(keys, t.Key()); len(keys) == batch {
			if err := flush(); err != nil {
				return removed, err
			}
		}
	}
	return removed, flush()
}

// removeExpiredKeys removes those of the keys that are still expired.
func (q *Queue) removeExpiredKeys(ctx context.Context, keys []rel.Key) (n int, err error) {
	if len(keys) == 0 {
		return 0, nil
	}
	_, err = q.submit(ctx, &writer{origin: storage.Origin{Caller: storage.CallerCollector}, build: func(g *group) ([]storage.Change, error) {
		out := make([]storage.Change, 0, len(keys))
		for _, k := range keys {
			if t, ok := g.draft.Batch.Get(k); ok && t.Expired(g.now) {
				out = append(out, removal(k))
			}
		}
		n = len(out)
		return out, nil
	}}, len(keys))
	if err != nil {
		return 0, err
	}
	return n, nil
}
