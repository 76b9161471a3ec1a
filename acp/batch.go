package acp

import (
	"context"
	"fmt"

	"github.com/ostiary/ostiary"
)

// Batch is a list of changes that are made together or not at all, as one entry
// of the log. [Batch.Commit] makes them; [Batch.Prepare] makes them part of the
// database's own transaction. Each operation is checked against the result of
// those before it. A Batch is used once, by one goroutine.
type Batch struct {
	e   *Engine
	ops []operation
	err error // the first malformed operation's error
	// revokes is true if an operation may revoke someone's authority.
	revokes bool
}

// Batch returns an empty batch.
func (e *Engine) Batch() *Batch { return &Batch{e: e} }

func (b *Batch) add(actor string, revokes bool, op operation) {
	if err := b.e.authenticate(actor); err != nil && b.err == nil {
		b.err = fmt.Errorf("operation %d: %w", len(b.ops), err)
	}
	b.ops = append(b.ops, op)
	b.revokes = b.revokes || revokes
}

// Register adds an [Engine.Register].
func (b *Batch) Register(actor string, o Object) { b.add(actor, false, register(actor, o)) }

// Relate adds an [Engine.SetRelationship]. A relationship that already exists is
// not an error.
func (b *Batch) Relate(requester string, x Relationship) {
	if err := x.validate(b.e, requester); err != nil && b.err == nil {
		b.err = fmt.Errorf("operation %d: %w", len(b.ops), err)
	}
	b.add(requester, false, relate(requester, x, new(bool)))
}

// Unrelate adds an [Engine.DeleteRelationship]. A relationship that does not
// exist is not an error.
func (b *Batch) Unrelate(requester string, x Relationship) {
	if err := x.validate(b.e, requester); err != nil && b.err == nil {
		b.err = fmt.Errorf("operation %d: %w", len(b.ops), err)
	}
	b.add(requester, true, unrelate(requester, x, new(bool)))
}

// Transfer adds an [Engine.Transfer].
func (b *Batch) Transfer(actor string, o Object, to string) {
	b.add(actor, true, transfer(actor, o, to))
}

// Archive adds an [Engine.Archive].
func (b *Batch) Archive(actor string, o Object) { b.add(actor, true, archive(actor, o, new(int))) }

// Unarchive adds an [Engine.Unarchive].
func (b *Batch) Unarchive(actor string, o Object) {
	b.add(actor, false, unarchive(actor, o, new(bool)))
}

// Len returns the number of operations.
func (b *Batch) Len() int { return len(b.ops) }

func (b *Batch) ready() error {
	if b.err != nil {
		return b.err
	}
	if n, max := len(b.ops), b.e.opts.BatchMax; n > max {
		return fmt.Errorf("%w: %d operations, BatchMax is %d", ErrBound, n, max)
	}
	return nil
}

// Commit makes the changes. If one of them is refused, none is made, and the
// error names the operation by its index.
func (b *Batch) Commit(ctx context.Context) error {
	err := b.ready()
	if err == nil {
		err = b.e.change(ctx, b.revokes, b.ops...)
	}
	return failed("batch", err)
}

// Pending is a validated batch that waits for the database's transaction. Until
// [Pending.Publish] or [Pending.Abort], no other change of the collection can be
// made, so keep it short. See [ostiary.Pending] for its time limit and for what
// happens after a crash.
type Pending struct {
	e      *Engine
	p      *ostiary.Pending
	events []Event
}

// Prepare validates the batch and blocks other changes until it is published.
// The driver must be able to join transactions, as storage/kv and storage/pebble
// can.
func (b *Batch) Prepare(ctx context.Context) (*Pending, error) {
	const op = "prepare"
	if err := b.ready(); err != nil {
		return nil, failed(op, err)
	}
	r, err := b.e.current(ctx)
	if err != nil {
		return nil, failed(op, err)
	}
	b.e.lockAuthority(b.revokes)
	defer b.e.unlockAuthority(b.revokes)
	for try := 0; ; try++ {
		p, err := b.e.plan(ctx, r, b.ops, try == 0)
		if err != nil {
			return nil, failed(op, err)
		}
		pending, err := r.store.Prepare(ctx, p.w)
		if err == nil {
			// The store accepts no other write before this one is published, so the
			// authority lock can be released: a check that runs now counts as earlier.
			return &Pending{e: b.e, p: pending, events: p.events}, nil
		}
		if !outdated(err) || try == triesMax {
			return nil, failed(op, err)
		}
	}
}

// AppendTo writes the changes into the database's transaction tx: a
// *pebble.Batch, or the kv.Batch of the database's own store. The driver
// documents the type.
func (p *Pending) AppendTo(ctx context.Context, tx any) error {
	return failed("append to transaction", p.p.AppendTo(ctx, tx))
}

// Publish makes the changes visible after the database has committed them. It
// fails and publishes nothing if the database has not.
func (p *Pending) Publish(ctx context.Context) error {
	token, err := p.p.Publish(ctx)
	if err != nil {
		return failed("publish", err)
	}
	p.e.notify(token, p.events)
	return nil
}

// Abort discards the changes. The database must not commit them.
func (p *Pending) Abort() { p.p.Abort() }
