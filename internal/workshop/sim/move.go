package sim

import (
	"context"
	"errors"
	"time"

	"github.com/ostiary/ostiary/internal/cluster/clustertest"
	"github.com/ostiary/ostiary/internal/cluster/move"
	"github.com/ostiary/ostiary/internal/cluster/replica"
	"github.com/ostiary/ostiary/internal/cluster/sharedlog"
	"github.com/ostiary/ostiary/storage"
	"github.com/ostiary/ostiary/storage/kv"
	"github.com/ostiary/ostiary/storage/memory"
)

// This file moves the log to another one while the clients call.

// logs returns the logs of the run.
func (w *world) logs() []*server {
	if w.next == nil {
		return []*server{w.log}
	}
	return []*server{w.log, w.next}
}

// isLeftBehind reports whether an error is that of a node that lacks segments which the log
// did not have any more when it was moved. The node takes a snapshot when it starts again.
func (w *world) isLeftBehind(err error) bool {
	return w.next != nil && errors.Is(err, replica.ErrBehind)
}

// move moves the log, with the steps of "ostiary migrate --live", and repeats that if a node
// takes its role back meanwhile.
func (w *world) move() {
	for !w.machines[0].wait(1500 * time.Millisecond) {
		err := w.moveOnce(w.ctx)
		if err == nil || errors.Is(err, sharedlog.ErrTrimmed) { // the operator begins again with another one
			return
		}
		if !errors.Is(err, sharedlog.ErrSwap) {
			w.fail("the log cannot be moved: %w", err)
			return
		}
	}
}

// hang makes the mover hang sometimes, between two steps.
func (w *world) hang() {
	if w.random(4) == 0 {
		time.Sleep(time.Duration(w.random(int(3 * time.Second))))
	}
}

func (w *world) moveOnce(ctx context.Context) error {
	if err := w.pour(ctx); err != nil {
		return err
	}
	if err := move.SetMoved(ctx, w.next, false); err != nil {
		return err
	}
	if _, err := w.mirror(ctx); err != nil {
		return err
	}
	w.hang()
	fence, err := move.TakeFence(ctx, w.log)
	if err != nil {
		return err
	}
	w.hang()
	_, err = fence.Finish(ctx, w.next, func(uint64) {}, func() error {
		w.hang()
		return nil
	})
	if err == nil {
		w.hang()
		if err = fence.End(ctx); err == nil && w.random(2) == 0 { // otherwise the mover has died
			w.hang()
			err = move.SetMoved(ctx, w.log, true)
		}
		return err
	}
	_ = fence.Release(ctx) // otherwise it runs out
	return err
}

func (w *world) mirror(ctx context.Context) (sharedlog.Position, error) {
	return replica.Mirror(ctx, w.log, w.next, func(uint64) {})
}

// pour gives the next log what a new copy has, unless it has more.
func (w *world) pour(ctx context.Context) error {
	described, err := w.log.Cluster(ctx)
	if err != nil {
		return err
	}
	if have, err := w.next.Cluster(ctx); err != nil || have != described {
		if err = errors.Join(err, w.next.SwapCluster(ctx, have, described)); err != nil {
			return err
		}
	}
	head, err := w.next.Head(ctx)
	if err == nil && head.Sequence > 0 { // an earlier attempt; see the command
		_, err = w.mirror(ctx)
	}
	if err != nil {
		return err
	}
	disk := memory.NewStore()
	local, err := kv.New(disk, kv.Options{Copy: true})
	if err != nil {
		return err
	}
	driver, err := clustertest.OpenReplica(ctx, w.log.tables.Open(), local, replica.Options{SnapshotBytes: -1})
	if err != nil {
		return err
	}
	if err := driver.Close(); err != nil {
		return err
	}
	defer func() { _ = w.log.Forget(ctx, driver.Node()) }()
	if local, err = kv.New(disk, kv.Options{Copy: true}); err != nil {
		return err
	}
	head, err = w.next.Head(ctx)
	if err == nil && head.Sequence < driver.AppliedSequence() {
		_, err = replica.Heal(ctx, w.next, local, storage.Hash{}, true)
	}
	return errors.Join(err, local.Close())
}
