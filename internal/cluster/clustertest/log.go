package clustertest

import (
	"context"
	"iter"
	"time"

	"github.com/ostiary/ostiary/internal/cluster/sharedlog"
	"github.com/ostiary/ostiary/storage"
)

// CutLog ends or restores the connection of the host to the log.
func (h *Host) CutLog(cut bool) { h.down.Store(cut) }

// Log returns the connection of the host to a log.
func (h *Host) Log(l sharedlog.Log) sharedlog.Log { return &log{l, h} }

// log is the connection of a host to a log.
type log struct {
	sharedlog.Log
	host *Host
}

// pass waits as long as a message takes. It fails if the message is lost.
func (l *log) pass(ctx context.Context) error {
	l.host.wait()
	select {
	case <-time.After(l.host.network.Delay()):
	case <-ctx.Done():
		return ctx.Err()
	}
	l.host.wait()
	if l.host.down.Load() {
		select {
		case <-time.After(keepAlive):
			return errCut
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// call makes a call whose request and answer pass.
func call[T any](ctx context.Context, l *log, f func() (T, error)) (T, error) {
	var zero T
	if err := l.pass(ctx); err != nil {
		return zero, err
	}
	out, err := f()
	if lost := l.pass(ctx); lost != nil {
		return zero, lost
	}
	return out, err
}

func (l *log) Head(ctx context.Context) (sharedlog.Position, error) {
	return call(ctx, l, func() (sharedlog.Position, error) { return l.Log.Head(ctx) })
}

func (l *log) Append(ctx context.Context, after sharedlog.Position, record sharedlog.Record, secrets []sharedlog.SecretChange) error {
	_, err := call(ctx, l, func() (struct{}, error) {
		return struct{}{}, l.Log.Append(ctx, after, record, secrets)
	})
	return err
}

func (l *log) Lease(ctx context.Context) (sharedlog.Lease, error) {
	return call(ctx, l, func() (sharedlog.Lease, error) { return l.Log.Lease(ctx) })
}

func (l *log) SwapLease(ctx context.Context, old, new sharedlog.Lease) error {
	_, err := call(ctx, l, func() (struct{}, error) { return struct{}{}, l.Log.SwapLease(ctx, old, new) })
	return err
}

func (l *log) Nodes(ctx context.Context) ([]sharedlog.NodeRecord, time.Time, error) {
	type answer struct {
		nodes []sharedlog.NodeRecord
		at    time.Time
	}
	a, err := call(ctx, l, func() (answer, error) {
		nodes, at, err := l.Log.Nodes(ctx)
		return answer{nodes, at}, err
	})
	return a.nodes, a.at, err
}

func (l *log) Report(ctx context.Context, n sharedlog.NodeRecord) error {
	_, err := call(ctx, l, func() (struct{}, error) { return struct{}{}, l.Log.Report(ctx, n) })
	return err
}

func (l *log) Read(ctx context.Context, from uint64) iter.Seq2[sharedlog.Record, error] {
	if err := l.pass(ctx); err != nil {
		return func(yield func(sharedlog.Record, error) bool) { yield(sharedlog.Record{}, err) }
	}
	return l.Log.Read(ctx, from)
}

func (l *log) Wait(ctx context.Context, after uint64) error {
	l.host.wait()
	err := l.Log.Wait(ctx, after)
	if lost := l.pass(ctx); lost != nil {
		return lost
	}
	return err
}

func (l *log) Secret(ctx context.Context, key sharedlog.SecretKey, digest storage.Hash) ([]byte, error) {
	return call(ctx, l, func() ([]byte, error) { return l.Log.Secret(ctx, key, digest) })
}
