package sim

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ostiary/ostiary/internal/cluster/sharedlog"
	"github.com/ostiary/ostiary/storage"
)

// Errors of a link.
var (
	errLink   = errors.New("the connection was lost")
	errKilled = errors.New("the process was killed")
)

// gate holds back everything that a paused process does, or the requests to a log that
// stalls.
type gate struct {
	mu     sync.Mutex
	opened chan struct{} // closed when the pause ends; nil while there is none
}

func (g *gate) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.opened == nil {
		g.opened = make(chan struct{})
	}
}

func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.opened != nil {
		close(g.opened)
		g.opened = nil
	}
}

// closed returns a channel that is closed when the gate is opened; nil if it is open.
func (g *gate) closed() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.opened
}

// pass returns when the process is not paused. It does not end with a context, because
// a paused process does not notice that either.
func (g *gate) pass() {
	for {
		opened := g.closed()
		if opened == nil {
			return
		}
		<-opened
	}
}

// link is the connection of one process to the log. Every request and every answer
// passes the gate of the process, takes a random time, and may be lost. Of a lossy link
// they are also late: the log gets a request after its caller has seen an error, or gets
// it twice.
type link struct {
	log sharedlog.Log
	of  *process
	*state
}

// state is how the links of a process are.
type state struct{ down, lossy, slow, dead, closed atomic.Bool }

var _ sharedlog.Log = (*link)(nil)

// The times of a request or of an answer, and how many times as long they take on a
// slow link.
const (
	travelMax = 3 * time.Millisecond
	slower    = 50
	lateMax   = 3 * time.Second
	soonMax   = 50 * time.Millisecond
)

// travel waits as a network does, and returns an error if the message is lost.
func (l *link) travel(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	l.of.gate.pass()
	limit := int(travelMax / time.Microsecond)
	if l.slow.Load() {
		limit *= slower
	}
	timer := time.NewTimer(time.Duration(l.of.random(limit)) * time.Microsecond)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	l.of.gate.pass()
	switch {
	case l.dead.Load():
		return errKilled
	case l.closed.Load():
		return storage.ErrClosed
	case ctx.Err() != nil:
		return ctx.Err()
	case l.down.Load():
		return errLink
	}
	return nil
}

// do sends a request that op answers. again is the same request for the case that the
// log gets it later; nil if it only reads.
func (l *link) do(ctx context.Context, op func(ctx context.Context) error, again func(ctx context.Context) error) error {
	if err := l.travel(ctx); err != nil {
		return err
	}
	what := noFate
	if l.lossy.Load() {
		what = fate(l.of.random(int(fates)))
	}
	switch {
	case what == lostRequest:
		return errLink
	case what == lateRequest:
		if again != nil {
			l.later(again)
		}
		return errLink
	case what == twice && again != nil:
		l.later(again)
	}
	if err := l.awaitLog(ctx, again); err != nil {
		return err
	}
	err := op(context.WithoutCancel(ctx))
	if what == lostAnswer {
		return errLink
	}
	if lost := l.travel(ctx); lost != nil {
		return lost
	}
	return err
}

// awaitLog waits while the log stalls. It carries a request out later, as a database does that
// has got it, if the caller leaves meanwhile.
func (l *link) awaitLog(ctx context.Context, again func(ctx context.Context) error) error {
	stalls := l.of.world.stalls.closed()
	if stalls == nil {
		return nil
	}
	select {
	case <-stalls:
		return nil
	case <-ctx.Done():
	}
	if again != nil {
		l.of.world.late.Go(func() {
			<-stalls
			_ = again(context.Background()) // nobody gets the answer
		})
	}
	return ctx.Err()
}

// fate is what happens to a request on a lossy link.
type fate int

const (
	noFate fate = iota
	lostRequest
	lostAnswer
	lateRequest
	twice
	fates
)

// later sends a request some time from now, half of the time soon, unless the log was restored meanwhile.
func (l *link) later(again func(ctx context.Context) error) {
	w, limit := l.of.world, lateMax
	if l.of.random(2) == 0 { // while its caller decides what follows
		limit = soonMax
	}
	wait, restored := time.Duration(l.of.random(int(limit))), w.restored.Load()
	w.late.Go(func() {
		time.Sleep(wait)
		if w.restored.Load() == restored {
			_ = again(context.Background()) // nobody gets the answer
		}
	})
}

// change sends a request that changes something.
func (l *link) change(ctx context.Context, op func(ctx context.Context) error) error {
	return l.do(ctx, op, op)
}

func (l *link) Cluster(ctx context.Context) (c sharedlog.Cluster, err error) {
	err = l.do(ctx, func(ctx context.Context) (err error) { c, err = l.log.Cluster(ctx); return err }, nil)
	return c, err
}

func (l *link) SwapCluster(ctx context.Context, old, new sharedlog.Cluster) error {
	return l.change(ctx, func(ctx context.Context) error { return l.log.SwapCluster(ctx, old, new) })
}

func (l *link) Head(ctx context.Context) (p sharedlog.Position, err error) {
	err = l.do(ctx, func(ctx context.Context) (err error) { p, err = l.log.Head(ctx); return err }, nil)
	return p, err
}

func (l *link) Append(ctx context.Context, after sharedlog.Position, record sharedlog.Record, secrets []sharedlog.SecretChange) error {
	// The caller may use its memory again when Append has returned.
	record.Bytes, secrets = bytes.Clone(record.Bytes), slices.Clone(secrets)
	for i := range secrets {
		secrets[i].Body = bytes.Clone(secrets[i].Body)
	}
	return l.change(ctx, func(ctx context.Context) error { return l.log.Append(ctx, after, record, secrets) })
}

// pipeline is a link whose appends arrive in the order in which they were begun, unless it is
// lossy.
type pipeline struct {
	*link
	mu   sync.Mutex
	last chan struct{} // closed when the last append that was begun has arrived, or never will
}

var _ sharedlog.Pipeline = (*pipeline)(nil)

// BeginAppend implements [sharedlog.Pipeline].
func (p *pipeline) BeginAppend(ctx context.Context, after sharedlog.Position, record sharedlog.Record, secrets []sharedlog.SecretChange) (outcome func() error, ordered bool) {
	record.Bytes, secrets = bytes.Clone(record.Bytes), slices.Clone(secrets)
	for i := range secrets {
		secrets[i].Body = bytes.Clone(secrets[i].Body)
	}
	arrived, answer := make(chan struct{}), make(chan error, 1)
	p.mu.Lock()
	before := p.last
	p.last = arrived
	p.mu.Unlock()
	again := func(ctx context.Context) error { return p.log.Append(ctx, after, record, secrets) }
	far := time.Duration(p.of.random(int(p.of.world.far) + 1))
	go func() {
		time.Sleep(far)
		arrive := sync.OnceFunc(func() { close(arrived) })
		defer arrive()
		answer <- p.do(ctx, func(ctx context.Context) error {
			defer arrive()
			if before != nil && !p.lossy.Load() {
				<-before
			}
			return again(ctx)
		}, again)
	}()
	return func() error { return <-answer }, true
}

func (l *link) Read(ctx context.Context, from uint64) iter.Seq2[sharedlog.Record, error] {
	return func(yield func(sharedlog.Record, error) bool) {
		var all []sharedlog.Record
		var last error
		err := l.do(ctx, func(ctx context.Context) error {
			for r, err := range l.log.Read(ctx, from) {
				if last = err; err == nil {
					all = append(all, r)
				}
			}
			return nil
		}, nil)
		if err != nil {
			yield(sharedlog.Record{}, err)
			return
		}
		for _, r := range all {
			if l.lossy.Load() && l.of.random(8) == 0 {
				last = errLink // in the middle of the answer
				break
			}
			if !yield(r, nil) {
				return
			}
		}
		if last != nil {
			yield(sharedlog.Record{}, last)
		}
	}
}

// Wait asks again after at most a second, as a client does whose connection may have
// died unnoticed.
func (l *link) Wait(ctx context.Context, after uint64) error {
	waiting, cancel := context.WithTimeout(ctx, time.Duration(l.of.random(1000))*time.Millisecond)
	defer cancel()
	_ = l.log.Wait(waiting, after) // fails only when its context ends
	if err := l.awaitLog(ctx, nil); err != nil {
		return err
	}
	return l.travel(ctx)
}

func (l *link) Trim(ctx context.Context, below uint64) error {
	return l.change(ctx, func(ctx context.Context) error { return l.log.Trim(ctx, below) })
}

func (l *link) Secret(ctx context.Context, key sharedlog.SecretKey, digest storage.Hash) (body []byte, err error) {
	err = l.do(ctx, func(ctx context.Context) (err error) { body, err = l.log.Secret(ctx, key, digest); return err }, nil)
	return body, err
}

func (l *link) Lease(ctx context.Context) (lease sharedlog.Lease, err error) {
	err = l.do(ctx, func(ctx context.Context) (err error) { lease, err = l.log.Lease(ctx); return err }, nil)
	return lease, err
}

func (l *link) SwapLease(ctx context.Context, old, new sharedlog.Lease) error {
	return l.change(ctx, func(ctx context.Context) error { return l.log.SwapLease(ctx, old, new) })
}

// Register also checks that the copy has everything that the node reported as synced
// before its restart.
func (l *link) Register(ctx context.Context, n sharedlog.NodeRecord) error {
	l.of.registered(l.log, n)
	return l.change(ctx, func(ctx context.Context) error { return l.log.Register(ctx, n) })
}

func (l *link) Report(ctx context.Context, n sharedlog.NodeRecord) error {
	return l.change(ctx, func(ctx context.Context) error { return l.log.Report(ctx, n) })
}

func (l *link) Forget(ctx context.Context, id storage.NodeID) error {
	return l.change(ctx, func(ctx context.Context) error { return l.log.Forget(ctx, id) })
}

func (l *link) Nodes(ctx context.Context) (nodes []sharedlog.NodeRecord, now time.Time, err error) {
	err = l.do(ctx, func(ctx context.Context) (err error) { nodes, now, err = l.log.Nodes(ctx); return err }, nil)
	return nodes, now, err
}

func (l *link) PutSnapshot(ctx context.Context, at sharedlog.Position, parts iter.Seq2[[]byte, error]) error {
	var all [][]byte
	for part, err := range parts {
		if err != nil {
			return err
		}
		all = append(all, bytes.Clone(part))
	}
	return l.change(ctx, func(ctx context.Context) error {
		return l.log.PutSnapshot(ctx, at, func(yield func([]byte, error) bool) {
			for _, part := range all {
				if !yield(part, nil) {
					return
				}
			}
		})
	})
}

func (l *link) Snapshot(ctx context.Context) (sharedlog.Position, iter.Seq2[[]byte, error], error) {
	var at sharedlog.Position
	var parts iter.Seq2[[]byte, error]
	err := l.do(ctx, func(ctx context.Context) (err error) { at, parts, err = l.log.Snapshot(ctx); return err }, nil)
	if err != nil {
		return at, nil, err
	}
	return at, func(yield func([]byte, error) bool) {
		for part, err := range parts {
			if err == nil && l.lossy.Load() && l.of.random(4) == 0 {
				err = errLink
			}
			if !yield(part, err) || err != nil {
				return
			}
		}
	}, nil
}

func (l *link) Close() error {
	l.closed.Store(true)
	return nil
}
