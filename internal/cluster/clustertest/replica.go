package clustertest

import (
	"context"
	"fmt"

	"github.com/ostiary/ostiary/internal/cluster/replica"
	"github.com/ostiary/ostiary/internal/cluster/sharedlog"
	"github.com/ostiary/ostiary/storage"
)

// Replica is a copy of a log as the driver of a node without the rules of package lease:
// it may write at any time, unless its gate forbids it, and waits for no other node.
type Replica struct {
	*replica.Driver
	// Acknowledged is called with the segment of each change, once it is applied. nil
	// acknowledges all.
	Acknowledged func(ctx context.Context, at sharedlog.Position) error
}

var (
	_ storage.Driver = (*Replica)(nil)
	_ storage.Copy   = (*Replica)(nil)
)

// OpenReplica opens a copy as [replica.Open] does.
func OpenReplica(ctx context.Context, log sharedlog.Log, local replica.Local, o replica.Options) (*Replica, error) {
	d, err := replica.Open(ctx, log, local, o)
	if err != nil {
		return nil, err
	}
	return &Replica{Driver: d}, nil
}

// Append implements [storage.Driver].
func (r *Replica) Append(ctx context.Context, id storage.StoreID, after storage.Head, entries []storage.Entry, sealed []storage.Sealed) (storage.Head, error) {
	head, at, err := r.Driver.Append(ctx, id, after, entries, sealed)
	if err = r.acknowledged(ctx, at, err); err != nil {
		head = storage.Head{}
	}
	return head, err
}

// AppendAhead implements [storage.Copy].
func (r *Replica) AppendAhead(ctx context.Context, id storage.StoreID, after storage.Head, entries []storage.Entry, sealed []storage.Sealed) (made func(context.Context) (storage.Head, error), acknowledge func(context.Context) error, err error) {
	wait, err := r.Driver.AppendAhead(ctx, id, after, entries, sealed)
	if err != nil {
		return nil, nil, err
	}
	var at sharedlog.Position
	return func(ctx context.Context) (head storage.Head, err error) {
		head, at, err = wait(ctx)
		return head, err
	}, func(ctx context.Context) error { return r.acknowledged(ctx, at, nil) }, nil
}

// CreateStore implements [storage.Driver].
func (r *Replica) CreateStore(ctx context.Context, info storage.StoreInfo) error {
	at, err := r.Driver.CreateStore(ctx, info)
	return r.acknowledged(ctx, at, err)
}

// UpdateStore implements [storage.Driver].
func (r *Replica) UpdateStore(ctx context.Context, old, info storage.StoreInfo) error {
	at, err := r.Driver.UpdateStore(ctx, old, info)
	return r.acknowledged(ctx, at, err)
}

// DeleteStore implements [storage.Driver].
func (r *Replica) DeleteStore(ctx context.Context, id storage.StoreID) error {
	at, err := r.Driver.DeleteStore(ctx, id)
	return r.acknowledged(ctx, at, err)
}

// Trim implements [storage.Driver].
func (r *Replica) Trim(ctx context.Context, id storage.StoreID, log, rows storage.Revision) error {
	at, err := r.Driver.Trim(ctx, id, log, rows)
	return r.acknowledged(ctx, at, err)
}

// acknowledged returns err, the outcome of a change, or acknowledges it.
func (r *Replica) acknowledged(ctx context.Context, at sharedlog.Position, err error) error {
	if err != nil || at.Sequence == 0 || r.Acknowledged == nil {
		return err
	}
	if err := r.Acknowledged(ctx, at); err != nil {
		return fmt.Errorf("%w: segment %s is in the log, but not acknowledged: %w", storage.ErrUncertain, at, err)
	}
	return nil
}

// Acknowledge implements [storage.Copy].
func (r *Replica) Acknowledge(ctx context.Context) error {
	at, err := r.Seen(ctx)
	if err != nil || r.Acknowledged == nil {
		return err
	}
	return r.Acknowledged(ctx, at)
}

// BeforeRead implements [storage.Copy]: it waits for nothing.
func (r *Replica) BeforeRead(context.Context) error { return nil }

// BeforeWrite implements [storage.Copy]: it waits for nothing.
func (r *Replica) BeforeWrite(context.Context) error { return nil }
