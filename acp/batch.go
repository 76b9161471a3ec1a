package acp

import (
	"context"
	"fmt"

	"github.com/ostiary/ostiary"
)

// Batch is several changes that are made together or not at all, as one entry
// of the log: Commit makes them, Prepare makes them part of the database's own
// transaction. Each is checked on what those before it lead to. It is used by
// one goroutine, once.
type Batch struct {
	e   *Engine
	ops []operation
	err error // of an operation that was malformed
	// takes says that an operation may take an authority away.
	takes bool
}

// Batch returns an empty batch.
func (e *Engine) Batch() *Batch { return &Batch{e: e} }

func (b *Batch) add(actor string, takes bool, op operation) {
	if err := b.e.authenticated(actor); err != nil && b.err == nil {
		b.err = fmt.Errorf("operation %d: %w", len(b.ops), err)
	}
	b.ops = append(b.ops, op)
	b.takes = b.takes || takes
}

// Register is Engine.Register.
func (b *Batch) Register(actor string, o Object) { b.add(actor, false, register(actor, o)) }

// Relate is Engine.SetRelationship; one that is there already stays.
func (b *Batch) Relate(requester string, x Relationship) {
	if err := x.complete(b.e, requester); err != nil && b.err == nil {
		b.err = fmt.Errorf("operation %d: %w", len(b.ops), err)
	}
	b.add(requester, false, relate(requester, x, new(bool)))
}

// Unrelate is Engine.DeleteRelationship; one that is not there is none.
func (b *Batch) Unrelate(requester string, x Relationship) {
	if err := x.complete(b.e, requester); err != nil && b.err == nil {
		b.err = fmt.Errorf("operation %d: %w", len(b.ops), err)
	}
	b.add(requester, true, unrelate(requester, x, new(bool)))
}

// Transfer is Engine.Transfer.
func (b *Batch) Transfer(actor string, o Object, to string) {
	b.add(actor, true, transfer(actor, o, to))
}

// Archive is Engine.Archive.
func (b *Batch) Archive(actor string, o Object) { b.add(actor, true, archive(actor, o, new(int))) }

// Unarchive is Engine.Unarchive.
func (b *Batch) Unarchive(actor string, o Object) {
	b.add(actor, false, unarchive(actor, o, new(bool)))
}

// Len returns the number of operations.
func (b *Batch) Len() int { return len(b.ops) }

func (b *Batch) ready() error {
	if b.err != nil {
		return b.err
	}
	if n, most := len(b.ops), b.e.opts.BatchMax; n > most {
		return fmt.Errorf("%w: BatchMax is %d, here are %d", ErrBound, most, n)
	}
	return nil
}

// Commit makes the changes. The first that is refused refuses all.
func (b *Batch) Commit(ctx context.Context) error {
	err := b.ready()
	if err == nil {
		err = b.e.change(ctx, b.takes, b.ops...)
	}
	return failed("batch", err)
}

// Pending is a batch that was found good and waits for the database's
// transaction. Until Publish or Abort no other change of the collection gets
// on, so be quick: see ostiary.Pending for how long it may take and how a crash
// is healed.
type Pending struct {
	e      *Engine
	p      *ostiary.Pending
	events []Event
}

// Prepare checks the batch and takes the turn for it. The driver must be able
// to join transactions, as storage/kv and storage/pebble are.
func (b *Batch) Prepare(ctx context.Context) (*Pending, error) {
	const op = "prepare"
	if err := b.ready(); err != nil {
		return nil, failed(op, err)
	}
	r := b.e.run.Load()
	if r == nil {
		return nil, failed(op, ErrClosed)
	}
	takes := b.e.hold(b.takes)
	for try := 0; ; try++ {
		p, err := b.e.plan(ctx, r, b.ops, try == 0)
		if err != nil {
			b.e.release(takes)
			return nil, failed(op, err)
		}
		pending, err := r.store.Prepare(ctx, p.w)
		if err == nil {
			// The turn is held now: nobody writes before this is published. What is
			// checked meanwhile counts as having come before it.
			b.e.release(takes)
			return &Pending{e: b.e, p: pending, events: p.events}, nil
		}
		if !outdated(err) || try == triesMax {
			b.e.release(takes)
			return nil, failed(op, err)
		}
	}
}

// AppendTo puts the changes into the database's transaction: what its driver
// joins, a *pebble.Batch or the kv.Batch of its own store.
func (p *Pending) AppendTo(ctx context.Context, tx any) error {
	return failed("append to transaction", p.p.AppendTo(ctx, tx))
}

// Publish makes the changes visible here after the database has committed. If
// it has not, nothing is published, and it is an error.
func (p *Pending) Publish(ctx context.Context) error {
	token, err := p.p.Publish(ctx)
	if err != nil {
		return failed("publish", err)
	}
	p.e.tell(token, p.events)
	return nil
}

// Abort gives the changes up; the database must not commit them.
func (p *Pending) Abort() { p.p.Abort() }
