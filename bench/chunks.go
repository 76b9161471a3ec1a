package bench

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/ostiary/ostiary/rel"
)

// loaders is how many requests load data at a time.
const loaders = 4

// inChunks hands the tuples to write, writeMax at a time, from several
// goroutines, and returns the first error.
func inChunks(ctx context.Context, tuples Tuples, progress func(int), write func(context.Context, []rel.Tuple) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	work := make(chan []rel.Tuple)
	var wait sync.WaitGroup
	var done atomic.Int64
	for range loaders {
		wait.Go(func() {
			for chunk := range work {
				if ctx.Err() != nil {
					continue
				}
				if err := write(ctx, chunk); err != nil {
					cancel(err)
					continue
				}
				if n := done.Add(int64(len(chunk))); progress != nil {
					progress(int(n))
				}
			}
		})
	}
	chunk := make([]rel.Tuple, 0, writeMax)
	tuples(func(t rel.Tuple) bool {
		if chunk = append(chunk, t); len(chunk) == writeMax {
			work <- chunk
			chunk = make([]rel.Tuple, 0, writeMax)
		}
		return ctx.Err() == nil
	})
	if len(chunk) > 0 {
		work <- chunk
	}
	close(work)
	wait.Wait()
	return context.Cause(ctx)
}
