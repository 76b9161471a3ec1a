package kv

import (
	"context"
	"iter"

	"github.com/ostiary/ostiary/storage"
)

const (
	// aheadFirst is the number of rows after which the reader first hands over,
	// so that a small store's rows come at once; the number doubles up to aheadMax.
	aheadFirst = 64
	aheadMax   = 1024
)

// ahead is stream on a goroutine of its own, while the caller works on what was
// read before: loading a store is half reading and half building, and there is
// mostly a second core. The goroutine has ended when the sequence returns.
func ahead[R any](ctx context.Context, each func(visit) error, parse parse[R]) iter.Seq2[R, error] {
	return func(yield func(R, error) bool) {
		r := reader[R]{full: make(chan load[R], 1), free: make(chan []R, 3), stop: make(chan struct{})}
		go r.read(each, parse)
		defer func() {
			close(r.stop)
			for range r.full { // the reader closes it when it is done
			}
		}()
		var zero R
		for l := range r.full {
			for i := range l.rows {
				if !yield(l.rows[i], nil) {
					return
				}
			}
			if l.err == nil {
				l.err = ctx.Err()
			}
			if l.err != nil {
				yield(zero, l.err)
				return
			}
			select {
			case r.free <- l.rows[:0]:
			default:
			}
		}
	}
}

// load is some rows, and the error that ended the sequence after them.
type load[R any] struct {
	rows []R
	err  error
}

type reader[R any] struct {
	full chan load[R]
	free chan []R // rows' memory, used again
	stop chan struct{}
}

func (r *reader[R]) read(each func(visit) error, parse parse[R]) {
	defer close(r.full)
	size := aheadFirst
	rows := make([]R, 0, size)
	err := each(func(key, value []byte, removed storage.Revision) (bool, error) {
		n := len(rows)
		if err := parse(&rows[:n+1][n], key, value, removed); err != nil {
			return false, err
		}
		if rows = rows[:n+1]; n+1 < size {
			return true, nil
		}
		if !r.hand(load[R]{rows: rows}) {
			rows = nil
			return false, nil
		}
		size = min(2*size, aheadMax)
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
		r.hand(load[R]{rows, err})
	}
}

// hand gives rows to the caller; false is his stop.
func (r *reader[R]) hand(l load[R]) bool {
	select {
	case <-r.stop:
		return false
	case r.full <- l:
		return true
	}
}
