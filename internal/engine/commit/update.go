package commit

import (
	"context"
	"fmt"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/internal/engine/errs"
	"github.com/ostiary/ostiary/storage"
)

// updateWeight is the approximate number of changes of an update.
const updateWeight = 8

// Update makes a change durable and returns the token of its revision, as Write
// does. No update is acknowledged before everything that it was built on is
// durable. An error of Build is returned as it is. A panic of Build or Accepted is
// one of Update; one of Build rejects the update.
func (q *Queue) Update(ctx context.Context, u *authz.Update) (authz.Token, error) {
	x := &update{Update: u, ctx: ctx, queue: q}
	x.writer.build, x.writer.accepted = x.changes, x.report
	head, err := storage.Head{}, x.madeBefore()
	if err == nil {
		head, err = q.submit(ctx, &x.writer, updateWeight)
	}
	switch {
	case x.panicked != nil:
		panic(x.panicked)
	case x.rejected != nil && x.writer.decided:
		return "", x.rejected
	case err != nil:
		return "", errs.Wrap("write", q.timeline.ID, err)
	}
	return q.timeline.Token(head), nil
}

// update is an Update in progress.
type update struct {
	*authz.Update
	ctx      context.Context
	writer   writer
	queue    *Queue
	rejected error // the error of the last Build
	panicked any
}

// madeBefore fails with ErrUncertain if a forwarded request has made the update already:
// what its functions made of it then is lost.
func (x *update) madeBefore() error {
	if err := x.writer.setOrigin(x.ctx, &storage.Origin{}, storage.CallerLibrary); err != nil {
		return err
	}
	head, made, err := x.queue.madeByRequest(x.ctx, &x.writer)
	if made && err == nil {
		err = fmt.Errorf("%w: it was made as revision %d, and the response was lost", authz.ErrUncertain, head.Revision)
	}
	return err
}

// changes validates the update on the draft and returns its changes.
func (x *update) changes(g *group) (_ []storage.Change, err error) {
	defer x.recovered(&err)
	var r authz.WriteRequest
	if r, x.rejected = x.Build(x.queue.timeline.Token(g.head())); x.rejected != nil {
		return nil, x.rejected
	}
	in, err := x.queue.inputs(x.ctx, &r)
	if err != nil {
		return nil, err
	}
	if err := x.writer.setOrigin(x.ctx, &r.Origin, storage.CallerLibrary); err != nil {
		return nil, err
	}
	return g.changes(x.ctx, &r, in)
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
		*err = fmt.Errorf("%w: a function of an update panics", authz.ErrInvalidRequest)
	}
}
