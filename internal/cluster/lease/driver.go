package lease

import (
	"context"
	"fmt"

	"github.com/ostiary/ostiary/internal/cluster/sharedlog"
	"github.com/ostiary/ostiary/storage"
)

// This file has the methods of storage.Driver that change something: the copy makes a
// change durable and applies it, and then the change is acknowledged (C5).

// Append implements [storage.Driver].
func (n *Keeper) Append(ctx context.Context, id storage.StoreID, after storage.Head, entries []storage.Entry, sealed []storage.Sealed) (storage.Head, error) {
	head, at, err := n.Driver.Append(ctx, id, after, entries, sealed)
	if err == nil {
		err = n.acknowledgedAppend(ctx, id, at)
	}
	if err != nil {
		return storage.Head{}, err
	}
	return head, nil
}

func (n *Keeper) acknowledgedAppend(ctx context.Context, id storage.StoreID, at sharedlog.Position) error {
	if err := n.acknowledged(ctx, at, nil); err != nil {
		return fmt.Errorf("append to store %s: %w", id, err)
	}
	return nil
}

// AppendAhead implements [storage.Copy].
func (n *Keeper) AppendAhead(ctx context.Context, id storage.StoreID, after storage.Head, entries []storage.Entry, sealed []storage.Sealed) (made func(context.Context) (storage.Head, error), acknowledge func(context.Context) error, err error) {
	wait, err := n.Driver.AppendAhead(ctx, id, after, entries, sealed)
	if err != nil {
		return nil, nil, err
	}
	var at sharedlog.Position
	return func(ctx context.Context) (head storage.Head, err error) {
		head, at, err = wait(ctx)
		return head, err
	}, func(ctx context.Context) error { return n.acknowledgedAppend(ctx, id, at) }, nil
}

// CreateStore implements [storage.Driver].
func (n *Keeper) CreateStore(ctx context.Context, info storage.StoreInfo) error {
	at, err := n.Driver.CreateStore(ctx, info)
	return n.acknowledged(ctx, at, err)
}

// UpdateStore implements [storage.Driver].
func (n *Keeper) UpdateStore(ctx context.Context, old, info storage.StoreInfo) error {
	at, err := n.Driver.UpdateStore(ctx, old, info)
	return n.acknowledged(ctx, at, err)
}

// DeleteStore implements [storage.Driver].
func (n *Keeper) DeleteStore(ctx context.Context, id storage.StoreID) error {
	at, err := n.Driver.DeleteStore(ctx, id)
	return n.acknowledged(ctx, at, err)
}

// Trim implements [storage.Driver].
func (n *Keeper) Trim(ctx context.Context, id storage.StoreID, log, rows storage.Revision) error {
	at, err := n.Driver.Trim(ctx, id, log, rows)
	if err != nil {
		return err
	}
	if err := n.acknowledged(ctx, at, nil); err != nil {
		return fmt.Errorf("trim store %s: %w", id, err)
	}
	return nil
}

// Acknowledge implements [storage.Copy]: it returns when everything that reads of this node
// may have seen is acknowledged.
func (n *Keeper) Acknowledge(ctx context.Context) error {
	at, err := n.Seen(ctx)
	if err != nil || at.Sequence == 0 {
		return err
	}
	return n.acknowledge(ctx, at.Sequence)
}

// acknowledged returns err, with which the copy has made a change, or nil when the segment
// of the change is acknowledged. Otherwise its outcome is uncertain for the caller.
func (n *Keeper) acknowledged(ctx context.Context, at sharedlog.Position, err error) error {
	if err != nil || at.Sequence == 0 {
		return err
	}
	if err := n.acknowledge(ctx, at.Sequence); err != nil {
		return fmt.Errorf("%w: segment %s is in the log, but not acknowledged: %w", storage.ErrUncertain, at, err)
	}
	return nil
}
