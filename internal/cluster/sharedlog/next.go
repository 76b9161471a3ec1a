package sharedlog

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"sync"
	"time"

	"github.com/ostiary/ostiary/storage"
)

// Mover is the holder of the lease of a log that is being moved to another one. While it
// holds it, no node writes. If it stops renewing the lease, a node takes it over, unless the
// log was moved, see [Lease.Moved].
func Mover() (id storage.NodeID) {
	for i := range id {
		id[i] = 0xff
	}
	return id
}

// MovedFrom returns the last lease of a log that is moved, after the mover's lease l. The
// swap from l to it is the moment of the move: either it succeeds, or a node has taken l over
// before.
func (l Lease) MovedFrom() Lease {
	l.Renewals = math.MaxInt64
	return l
}

// Moved reports whether the lease is the last one of a log that was moved. No node takes it
// over.
func (l Lease) Moved() bool { return l.Holder == Mover() && l.Renewals == math.MaxInt64 }

// WithNext returns a log that goes on with another one, next, once it was moved there: from
// then on every method asks next. The copies and the positions of nodes stay valid. moved is
// called once, when that happens. The caller has registered its node in next before. A log
// that was moved already is found at the first call. Close closes both.
//
// The mover makes next complete, and then replaces the lease of log by the last one, see
// [Lease.MovedFrom]. The description alone is not enough: the mover may take it back.
func WithNext(log, next Log, moved func()) Log {
	ctx, cancel := context.WithCancel(context.Background())
	return &withNext{log: log, next: next, moved: moved, done: ctx, switched: cancel}
}

// withNext is the result of WithNext.
type withNext struct {
	log, next Log
	moved     func()
	done      context.Context // ends when next is used
	switched  context.CancelFunc
	once      sync.Once
}

// Used returns the log that one with a next one uses now, see [WithNext], and each other log
// itself. What was read there does not hold for the next one: the two have different snapshots.
func Used(log Log) Log {
	if l, is := log.(*withNext); is {
		return l.current()
	}
	return log
}

// current returns the log that is used.
func (l *withNext) current() Log {
	if l.done.Err() != nil {
		return l.next
	}
	return l.log
}

// follow uses next from now on.
func (l *withNext) follow() {
	l.once.Do(func() {
		l.switched()
		l.moved()
	})
}

// Cluster implements [Log]. The lease alone decides which description it is: the mover notes
// the move there first, and may have died since.
func (l *withNext) Cluster(ctx context.Context) (Cluster, error) {
	c, err := l.current().Cluster(ctx)
	if err != nil || l.done.Err() != nil {
		return c, err
	}
	if _, err := l.Lease(ctx); err != nil || l.done.Err() == nil {
		return c, err // the mover may take the description back
	}
	return l.next.Cluster(ctx)
}

// Lease implements [Log].
func (l *withNext) Lease(ctx context.Context) (Lease, error) {
	lease, err := l.current().Lease(ctx)
	if err != nil || !lease.Moved() || l.done.Err() != nil {
		return lease, err
	}
	l.follow()
	return l.next.Lease(ctx)
}

// Wait implements [Log]. It returns when the log is moved.
func (l *withNext) Wait(ctx context.Context, after uint64) error {
	if l.done.Err() != nil {
		return l.next.Wait(ctx, after)
	}
	ending, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(l.done, cancel)()
	err := l.log.Wait(ending, after)
	if ctx.Err() == nil && l.done.Err() != nil {
		return nil
	}
	return err
}

// SwapCluster implements [Log].
func (l *withNext) SwapCluster(ctx context.Context, old, new Cluster) error {
	return l.current().SwapCluster(ctx, old, new)
}

// Head implements [Log].
func (l *withNext) Head(ctx context.Context) (Position, error) {
	return l.current().Head(ctx)
}

// Newest implements [Newester].
func (l *withNext) Newest(ctx context.Context) (Position, error) {
	if l.done.Err() == nil {
		head, err := Newest(ctx, l.log)
		if !errors.Is(err, ErrMoved) {
			return head, err
		}
		l.follow()
	}
	return Newest(ctx, l.next)
}

// Append implements [Log].
func (l *withNext) Append(ctx context.Context, after Position, record Record, secrets []SecretChange) error {
	return l.current().Append(ctx, after, record, secrets)
}

// BeginAppend implements [Pipeline], as far as the log that is used does.
func (l *withNext) BeginAppend(ctx context.Context, after Position, record Record, secrets []SecretChange) (outcome func() error, ordered bool) {
	return BeginAppend(ctx, l.current(), after, record, secrets)
}

// Read implements [Log].
func (l *withNext) Read(ctx context.Context, from uint64) iter.Seq2[Record, error] {
	return l.current().Read(ctx, from)
}

// Trim implements [Log].
func (l *withNext) Trim(ctx context.Context, below uint64) error {
	return l.current().Trim(ctx, below)
}

// Secret implements [Log].
func (l *withNext) Secret(ctx context.Context, key SecretKey, digest storage.Hash) ([]byte, error) {
	return l.current().Secret(ctx, key, digest)
}

// SwapLease implements [Log].
func (l *withNext) SwapLease(ctx context.Context, old, new Lease) error {
	return l.current().SwapLease(ctx, old, new)
}

// Register implements [Log]. A node is registered in both.
func (l *withNext) Register(ctx context.Context, n NodeRecord) error {
	if l.done.Err() == nil {
		waiting := n
		waiting.Stopped = true // it does nothing there yet
		waiting.Applied, waiting.Synced = 0, 0
		if err := l.next.Register(ctx, waiting); err != nil {
			return fmt.Errorf("register in the next log: %w", err)
		}
		return l.log.Register(ctx, n)
	}
	return l.next.Register(ctx, n)
}

// Report implements [Log].
func (l *withNext) Report(ctx context.Context, n NodeRecord) error { return l.current().Report(ctx, n) }

// Forget implements [Log]. A node that waits in next is forgotten there too: its record would
// hold back trimming after the move.
func (l *withNext) Forget(ctx context.Context, id storage.NodeID) error {
	if l.done.Err() != nil {
		return l.next.Forget(ctx, id)
	}
	return errors.Join(l.log.Forget(ctx, id), l.next.Forget(ctx, id))
}

// Nodes implements [Log].
func (l *withNext) Nodes(ctx context.Context) (nodes []NodeRecord, now time.Time, err error) {
	return l.current().Nodes(ctx)
}

// PutSnapshot implements [Log].
func (l *withNext) PutSnapshot(ctx context.Context, at Position, parts iter.Seq2[[]byte, error]) error {
	return l.current().PutSnapshot(ctx, at, parts)
}

// Snapshot implements [Log].
func (l *withNext) Snapshot(ctx context.Context) (Position, iter.Seq2[[]byte, error], error) {
	return l.current().Snapshot(ctx)
}

// Replica implements [Replicated], for the log that is used.
func (l *withNext) Replica() (status ReplicaStatus, has bool) {
	if r, is := l.current().(Replicated); is {
		return r.Replica()
	}
	return status, false
}

// Close implements [Log].
func (l *withNext) Close() error { return errors.Join(l.log.Close(), l.next.Close()) }
