package commit

import (
	"context"
	"fmt"

	"github.com/ostiary/ostiary/internal/errs"
	"github.com/ostiary/ostiary/internal/snapshot"
	"github.com/ostiary/ostiary/storage"
)

// Update is a write that is decided when the writes before it are known, but may
// not be durable yet. So many updates that depend on one another share one append.
type Update struct {
	// Build returns the change of the state whose token is head. It is called again,
	// with another head, if writes before this one fail. Calls of one store do not
	// overlap, unless an append failed. Build must be quick, and must not use the
	// store: no other write proceeds meanwhile, and readers do not see head before it
	// is durable. An error of Build rejects the update.
	Build func(head snapshot.Token) (WriteRequest, error)
	// Accepted, if not nil, is called after each successful Build with the token of
	// the state after the change, under the same rules. The change is not durable yet.
	Accepted func(head snapshot.Token)
}

// updateWeight is the approximate number of changes of an update.
const updateWeight = 8

// Update makes a change durable and returns the token of its revision, as Write
// does. No update is acknowledged before everything that it was built on is
// durable. An error of Build is returned as it is. A panic of Build or Accepted is
// one of Update; one of Build rejects the update.
func (q *Queue) Update(ctx context.Context, u *Update) (snapshot.Token, error) {
	x := &update{Update: u, ctx: ctx, queue: q}
	x.writer.build, x.writer.accepted = x.changes, x.report
	head, err := q.submit(ctx, &x.writer, updateWeight)
	switch {
	case x.panicked != nil:
		panic(x.panicked)
	case x.rejected != nil && err != nil:
		return "", x.rejected
	case err != nil:
		return "", errs.Wrap("write", q.timeline.ID, err)
	}
	return q.timeline.Token(head), nil
}

// update is an Update in progress.
type update struct {
	*Update
	ctx      context.Context
	writer   writer
	queue    *Queue
	rejected error // the error of the last Build
	panicked any
}

// changes validates the update on the draft and returns its changes.
func (x *update) changes(g *group) (_ []storage.Change, err error) {
	defer x.recovered(&err)
	var r WriteRequest
	if r, x.rejected = x.Build(x.queue.timeline.Token(g.head())); x.rejected != nil {
		return nil, x.rejected
	}
	if err := Validate(x.ctx, x.queue.shared.runtime, &r); err != nil {
		return nil, err
	}
	if err := x.writer.setOrigin(x.ctx, &r.Origin, storage.CallerLibrary); err != nil {
		return nil, err
	}
	secrets, err := x.queue.shared.sealer.Seal(x.queue.timeline.Incarnation, r.Secrets)
	if err != nil {
		return nil, err
	}
	return g.changes(x.ctx, &r, secrets)
}

// report calls Accepted. The update stays accepted if that panics.
func (x *update) report(g *group) {
	var ignored error
	defer x.recovered(&ignored)
	if x.Accepted != nil {
		x.Accepted(x.queue.timeline.Token(g.head()))
	}
}

// recovered keeps a panic of the caller's functions for Update, because it must not
// end the leader of a group, which holds the write lock.
func (x *update) recovered(err *error) {
	if p := recover(); p != nil {
		x.panicked = p
		*err = fmt.Errorf("%w: a function of an update panics", errs.ErrInvalidRequest)
	}
}
