package bench

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/ostiary/ostiary/rel"
)

// loaders is the number of requests in flight while data is loaded.
const loaders = 4

// writeChunks calls write with chunks of writeMax tuples, from several goroutines
// at once, and returns the first error. progress, if not nil, gets the number of
// tuples written so far.
func writeChunks(ctx context.Context, tuples Tuples, progress func(int), write func(context.Context, []rel.Tuple) error) error {
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
