package sqllog

import (
	"context"
	"errors"
	"time"

	"github.com/ostiary/ostiary/internal/cluster/sharedlog"
)

// Pipeliner is an optional interface of a [Dialect] whose server runs the transactions of a
// connection in their order, without a wait for the answers.
type Pipeliner interface {
	// Pipeline opens a connection for that. It returns nil if what is between has no such
	// connections.
	Pipeline(ctx context.Context) (Pipeline, error)
}

// Pipeline is a connection on which transactions are on their way at the same time.
type Pipeline interface {
	// Begin sends statements, which run as those of [Dialect.Atomic], and does not wait for
	// the server. answered is called once with what Atomic returns. Begin returns false, and
	// does nothing, if the connection is broken or has no room.
	Begin(statements []Statement, answered func(changed int64, err error)) bool
	// Done is closed when the connection is broken.
	Done() <-chan struct{}
	// Close closes the connection. What is on its way fails; its outcome is open.
	Close()
}

// errOrder is the outcome of an append that was not made in its first attempt. The next one
// shows why.
var errOrder = errors.New("the segment before was not in the log, or another one has its place")

// BeginAppend implements [sharedlog.Pipeline].
func (l *Log) BeginAppend(ctx context.Context, after sharedlog.Position, record sharedlog.Record, secrets []sharedlog.SecretChange) (outcome func() error, ordered bool) {
	whole := func() error { return l.Append(ctx, after, record, secrets) }
	p := l.pipeline.Load()
	if p == nil || after.Sequence == 0 || record.Sequence != after.Sequence+1 || len(record.Bytes) > sharedlog.PartBytesMax || l.err(ctx) != nil {
		select {
		case l.wanted <- struct{}{}:
		default:
		}
		return whole, false
	}
	type answer struct {
		changed int64
		err     error
	}
	answers := make(chan answer, 1)
	statements := l.appendStatements(after, record.Position, 0, record.Bytes, secrets)
	traced, end := l.begin(ctx, statements[0].Query)
	if !(*p).Begin(statements, func(changed int64, err error) { answers <- answer{changed, err} }) {
		end(nil)
		return whole, false
	}
	return func() (err error) {
		defer func() { end(err) }()
		err = l.bounded(traced, func(ctx context.Context, _ func()) error {
			select {
			case a := <-answers:
				if a.err == nil && a.changed == 0 {
					return errOrder
				}
				return a.err
			case <-ctx.Done():
				return ctx.Err()
			}
		})
		switch {
		case err == nil:
			l.wake(record.Sequence)
		case errors.Is(err, errSilent), ctx.Err() != nil, l.dialect.Unusable(err):
			(*p).Close() // the server may hang
		}
		return err
	}, true
}

// keepPipeline opens the connection for appends that overlap when the first one is wanted, and
// another one when it is broken.
func (l *Log) keepPipeline(of Pipeliner) {
	select {
	case <-l.wanted:
	case <-l.ctx.Done():
		return
	}
	for wait := listenRetryMin; l.ctx.Err() == nil; {
		bound, cancel := context.WithTimeout(l.ctx, OpenTime)
		p, err := of.Pipeline(bound)
		cancel()
		if err != nil {
			pause(l.ctx, wait)
			wait = min(2*wait, listenRetryMax)
			continue
		}
		if p == nil {
			return
		}
		began := time.Now()
		l.pipeline.Store(&p)
		select {
		case <-p.Done():
		case <-l.ctx.Done():
		}
		l.pipeline.Store(nil)
		p.Close()
		if wait = listenRetryMin; time.Since(began) < listenRetryMin {
			pause(l.ctx, wait)
		}
	}
}
