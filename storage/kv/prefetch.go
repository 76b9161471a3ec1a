package kv

import (
	"context"
	"iter"

	"github.com/ostiary/ostiary/storage"
)

const (
	// prefetchMin is the number of rows in the first chunk. It is small, so that the
	// first rows arrive early. Each later chunk is twice as large, up to prefetchMax.
	prefetchMin = 64
	prefetchMax = 1024
)

// prefetch is like [stream], but reads the rows in another goroutine while the
// caller works on earlier ones. Loading a store is half reading and half
// building, so a second core makes it faster. The goroutine has ended
// when the sequence returns.
func prefetch[R any](ctx context.Context, each func(visit) error, parse parse[R]) iter.Seq2[R, error] {
	return func(yield func(R, error) bool) {
		r := reader[R]{filled: make(chan chunk[R], 1), free: make(chan []R, 3), stop: make(chan struct{})}
		go r.read(each, parse)
		defer func() {
			close(r.stop)
			for range r.filled { // wait until the goroutine closes it
			}
		}()
		var zero R
		for c := range r.filled {
			for i := range c.rows {
				if !yield(c.rows[i], nil) {
					return
				}
			}
			if c.err == nil {
				c.err = ctx.Err()
			}
			if c.err != nil {
				yield(zero, c.err)
				return
			}
			select {
			case r.free <- c.rows[:0]:
			default:
			}
		}
	}
}

// chunk is a number of rows.
type chunk[R any] struct {
	rows []R
	err  error // the error after the rows, which ends the sequence
}

// reader is the goroutine of [prefetch].
type reader[R any] struct {
	filled chan chunk[R] // chunks for the caller; closed at the end
	free   chan []R      // memory of chunks that the caller has finished
	stop   chan struct{} // closed when the caller needs no more rows
}

// read reads all rows and sends them in chunks.
func (r *reader[R]) read(each func(visit) error, parse parse[R]) {
	defer close(r.filled)
	size := prefetchMin
	rows := make([]R, 0, size)
	err := each(func(key, value []byte, removed storage.Revision) (bool, error) {
		n := len(rows)
		if err := parse(&rows[:n+1][n], key, value, removed); err != nil {
			return false, err
		}
		if rows = rows[:n+1]; n+1 < size {
			return true, nil
		}
		if !r.send(chunk[R]{rows: rows}) {
			rows = nil
			return false, nil
		}
		size = min(2*size, prefetchMax)
		select {
		case rows = <-r.free:
		default:
			rows = nil
		}
		if cap(rows) < size {
			rows = make([]R, 0, size)
		}
		return true, nil
	})
	if len(rows) > 0 || err != nil {
		r.send(chunk[R]{rows, err})
	}
}

// send sends a chunk to the caller. It returns false if the caller has stopped.
func (r *reader[R]) send(c chunk[R]) bool {
	select {
	case <-r.stop:
		return false
	case r.filled <- c:
		return true
	}
}
