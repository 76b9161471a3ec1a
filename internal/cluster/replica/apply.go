package replica

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ostiary/ostiary/internal/cluster/sharedlog"
	"github.com/ostiary/ostiary/storage"
	"github.com/ostiary/ostiary/storage/kv"
)

// replayBytes is the size of the segments whose entries one transaction applies. The
// rows take several times as much, and Pebble handles larger transactions separately.
const replayBytes = 1 << 20

// take waits for the turn to change the copy. The caller must call give.
func (r *Driver) take(ctx context.Context) error {
	select {
	case r.turn <- struct{}{}:
		return nil
	default:
	}
	select {
	case r.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-r.ctx.Done():
		return storage.ErrClosed
	}
}

func (r *Driver) give() { <-r.turn }

// Confirm implements [storage.Copy]: it returns when everything that was in the
// log at the time of the call is applied. It fails with [storage.ErrNoLease] if the log
// cannot be reached, or was moved to a place that this node does not know.
func (r *Driver) Confirm(ctx context.Context) error { return r.unsure(ctx, r.confirm(ctx)) }

// unsure returns the error of a look at the log: [storage.ErrNoLease] with the cause,
// unless ctx has ended or the node has stopped.
func (r *Driver) unsure(ctx context.Context, err error) error {
	switch {
	case err == nil, r.ctx.Err() != nil, r.check() != nil, errors.Is(err, ctx.Err()):
		return err
	case ctx.Err() != nil: // a connection that times out has an error of its own
		return fmt.Errorf("%w: the log: %w", ctx.Err(), err)
	}
	return fmt.Errorf("%w: the log: %w", storage.ErrNoLease, err)
}

func (r *Driver) confirm(ctx context.Context) error {
	if err := r.check(); err != nil {
		return err
	}
	before := r.applied.Load().applied
	head, err := sharedlog.Newest(ctx, r.log)
	if err != nil {
		return err
	}
	switch {
	case head == before:
		return nil
	case head.Sequence < before.Sequence: // the log has lost segments
		return r.catchUp(ctx)
	case head.Sequence == before.Sequence || !r.arrives(head.Sequence):
		if err := r.catchUpKept(ctx); err != nil { // which has the head by now
			return err
		}
	}
	return r.checkPassed(head)
}

// checkPassed fails if the copy has another segment in a place that it has passed: what was
// read of the log before it lost segments may have been applied since.
func (r *Driver) checkPassed(at sharedlog.Position) error {
	mark, err := r.copy.Mark(at.Sequence)
	if err != nil || mark == nil || string(mark) == string(at.Hash[:]) {
		return err
	}
	return r.stop(fmt.Errorf("%w: segment %s is another one in the copy", storage.ErrHistory, at))
}

// follow applies what other nodes append, until the driver is closed.
func (r *Driver) follow() {
	const retryMin, retryMax = 5 * time.Millisecond, time.Second
	wait := retryMin
	for r.ctx.Err() == nil && r.check() == nil {
		at := r.applied.Load().applied.Sequence
		err := r.log.Wait(r.ctx, at)
		if err == nil && !r.arrives(at+1) {
			err = r.catchUpKept(r.ctx)
		}
		if err == nil {
			wait = retryMin
			continue
		}
		r.pause(wait)
		wait = min(2*wait, retryMax)
	}
}

// The follower waits for a segment that this node appends, or that another node is expected to
// send, as long as it took to read the log last, or half as long as before if that was less: so
// it takes about twice the time of the better way at most. A large segment from a node that is
// far away takes several round trips, and while it is read from the log with its secrets, it
// cannot be applied.
const (
	arrivalMin = 50 * time.Millisecond
	arrivalMax = time.Second
)

// arrives reports whether the copy gets a segment that need not be read from the log:
// this node appends it, or another node sends it, as it has sent the one before.
func (r *Driver) arrives(sequence uint64) bool {
	if r.appending.Load() >= sequence || r.offered.Load() {
		ctx, cancel := context.WithTimeout(r.ctx, min(max(time.Duration(r.reading.Load()), arrivalMin), arrivalMax))
		defer cancel()
		if r.WaitApplied(ctx, sequence) != nil {
			r.offered.Store(false)
		}
	}
	return r.AppliedSequence() >= sequence
}

// pause waits for a time, or until the driver is closed.
func (r *Driver) pause(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-r.ctx.Done():
	}
}

// catchUp applies the segments that follow the copy, up to the head of the log at the
// time of the call or later. If they are wrong, the node stops serving.
func (r *Driver) catchUp(ctx context.Context) error {
	if err := r.take(ctx); err != nil {
		return err
	}
	defer r.give()
	return r.replayChecked(ctx, r.log)
}

// catchUpKept is catchUp from what this node has of the log. The copy may have more: other
// nodes send segments before this node's part of the log has them.
func (r *Driver) catchUpKept(ctx context.Context) error {
	if err := r.take(ctx); err != nil {
		return err
	}
	defer r.give()
	begun, before := time.Now(), r.AppliedSequence()
	if _, keeps := r.log.(sharedlog.Kept); keeps {
		if head, err := r.kept.Head(ctx); err != nil || head.Sequence < before {
			return err
		}
	}
	err := r.replayChecked(ctx, r.kept)
	if err == nil && r.AppliedSequence() > before {
		r.reading.Store(max(int64(time.Since(begun)), r.reading.Load()/2))
	}
	return err
}

// replayChecked is catchUp for a caller that has the turn.
func (r *Driver) replayChecked(ctx context.Context, from sharedlog.Log) error {
	if err := r.check(); err != nil {
		return err
	}
	err := r.replay(ctx, from)
	switch {
	case errors.Is(err, sharedlog.ErrTrimmed):
		return r.stop(fmt.Errorf("%w: %w", ErrBehind, err))
	case errors.Is(err, storage.ErrHistory), errors.Is(err, storage.ErrDamaged), errors.Is(err, storage.ErrFormat):
		return r.stop(err)
	}
	return err
}

// replay applies the segments of a log that follow the copy. The caller has the turn.
func (r *Driver) replay(ctx context.Context, from sharedlog.Log) error {
	s := r.applied.Load()
	p := player{r: r, next: *s}
	for d, err := range readAhead(ctx, from, s) {
		if err == nil {
			err = p.add(ctx, d)
		}
		if err != nil {
			if flushed := p.flush(ctx); flushed != nil {
				return flushed
			}
			return err
		}
	}
	return p.flush(ctx)
}

// player applies segments. It collects the entries of several segments, and applies
// those of one store together.
type player struct {
	r      *Driver
	next   state // after the segments so far
	bytes  int   // of the collected segments
	order  []storage.StoreID
	stores map[storage.StoreID]*storeEntries
}

// add collects the entries of a segment, or applies another segment.
func (p *player) add(ctx context.Context, d *decoded) error {
	s := &d.Segment
	if s.Catalog != nil || len(s.Trims) > 0 {
		if err := p.flush(ctx); err != nil {
			return err
		}
	}
	next := p.next // p takes it with the whole segment: what an error leaves is flushed
	if next.applied == p.r.applied.Load().applied {
		next.passed = nil
	}
	next.follow(d.Position, s.Epoch, d.Bytes)
	var err error
	switch {
	case s.Catalog != nil:
		err = p.r.applyCatalog(s.Catalog, &next)
	case len(s.Trims) > 0:
		err = p.r.applyTrims(s.Trims, &next)
	}
	if err != nil {
		return err
	}
	p.next = next
	p.bytes += d.Bytes
	if p.collect(s.Stores, d.stores); p.bytes >= replayBytes {
		return p.flush(ctx)
	}
	return nil
}

// collect adds the entries of a segment to those that were collected.
func (p *player) collect(of []sharedlog.StoreEntries, all []storeEntries) {
	if p.stores == nil {
		p.stores = map[storage.StoreID]*storeEntries{}
	}
	for i := range all {
		id := of[i].Store
		have := p.stores[id]
		if have == nil {
			have = &storeEntries{}
			p.stores[id] = have
			p.order = append(p.order, id)
		}
		have.entries = append(have.entries, all[i].entries...)
		have.sealed = append(have.sealed, all[i].sealed...)
	}
}

// flush applies the collected entries and the position.
func (p *player) flush(ctx context.Context) error {
	if p.next.applied == p.r.applied.Load().applied {
		return nil
	}
	tx := p.r.copy.Begin()
	for _, id := range p.order {
		of := p.stores[id]
		_, left := p.r.left.Load(id)
		if err := tx.Append(context.WithoutCancel(ctx), id, of.entries, of.sealed, !left); err != nil {
			tx.Close()
			return p.r.unapplied(p.next.applied, err)
		}
	}
	changed := p.order
	p.r.recent.next = p.stores
	p.bytes, p.order, p.stores = 0, nil, nil
	next := p.next
	return p.r.applyCommit(tx, &next, changed...)
}

// unapplied returns the error of a segment that the copy does not accept. A segment
// that a node appended always follows the state; otherwise it is damaged.
func (r *Driver) unapplied(at sharedlog.Position, err error) error {
	for _, named := range []error{storage.ErrNoStore, storage.ErrExists, storage.ErrEntry, storage.ErrChanged} {
		if errors.Is(err, named) {
			return fmt.Errorf("%w: segments up to %s do not follow the state: %w", storage.ErrDamaged, at, err)
		}
	}
	return r.stop(err) // the local disk fails
}

// applyCommit commits a transaction that leads to a state. If that fails, the node
// stops serving, because the log has what the copy lacks.
func (r *Driver) applyCommit(tx *kv.Transaction, next *state, changed ...storage.StoreID) error {
	if err := r.commit(tx, next, changed...); err != nil {
		return r.stop(fmt.Errorf("segment %s is in the log, but not in the copy: %w", next.applied, err))
	}
	return nil
}

// applyCatalog applies a change of the catalog that leads to a state.
func (r *Driver) applyCatalog(c *sharedlog.CatalogChange, next *state) error {
	if c.Expected != next.catalog {
		return fmt.Errorf("%w: segment %s expects %d catalog changes before it, but there are %d", storage.ErrDamaged, next.applied, c.Expected, next.catalog)
	}
	if c.Op == sharedlog.DeleteStore {
		if info, err := r.local.Store(r.ctx, c.Store.ID); err == nil {
			r.deletions.add(info)
		}
	}
	tx := r.copy.Begin()
	if err := stageCatalog(tx, nil, c); err != nil {
		tx.Close()
		return r.unapplied(next.applied, err)
	}
	next.catalog++
	committed := *next
	return r.applyCommit(tx, &committed, c.Store.ID)
}

// stageCatalog adds a change of the catalog to a transaction. If old is not nil, the
// store must be as old.
func stageCatalog(tx *kv.Transaction, old *storage.StoreInfo, c *sharedlog.CatalogChange) error {
	switch c.Op {
	case sharedlog.CreateStore:
		return tx.CreateStore(c.Store)
	case sharedlog.UpdateStore:
		return tx.UpdateStore(old, c.Store)
	}
	return tx.DeleteStore(c.Store.ID, c.Store.Incarnation)
}

// applyTrims applies trims that lead to a state.
func (r *Driver) applyTrims(trims []sharedlog.StoreTrim, next *state) error {
	tx := r.copy.Begin()
	for i := range trims {
		t := &trims[i]
		if _, err := tx.Trim(t.Store, t.Incarnation, t.Log, t.Rows); err != nil {
			tx.Close()
			return r.unapplied(next.applied, err)
		}
	}
	committed := *next
	if err := r.applyCommit(tx, &committed); err != nil {
		return err
	}
	for i := range trims {
		select {
		case r.scrubs <- trims[i].Store:
		default: // the next trim scrubs again
		}
	}
	return nil
}
