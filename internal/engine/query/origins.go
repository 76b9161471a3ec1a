package query

import (
	"context"
	"errors"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/internal/engine/snapshot"
	"github.com/ostiary/ostiary/internal/tool/turns"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/storage"
)

// originFinder finds the entries that wrote the tuples of an explanation.
type originFinder struct {
	*Answerer
	ctx  context.Context
	part turns.Part
	// view is what the explanation was made from.
	view *snapshot.View
	// steps are the steps of stored tuples, by the key of the tuple.
	steps map[rel.Key][]*authz.Step
	// entries are the heads of the entries that were read.
	entries map[storage.Revision]storage.Entry
}

// addOrigins sets Written in the steps of stored tuples, from because downwards.
// Contextual tuples have no entry. A tuple of a past revision whose row was trimmed
// meanwhile stays without Written.
func (a *Answerer) addOrigins(ctx context.Context, v *snapshot.View, contextual []rel.Tuple, because *authz.Step) error {
	f := &originFinder{Answerer: a, ctx: ctx, view: v, steps: map[rel.Key][]*authz.Step{}, entries: map[storage.Revision]storage.Entry{}}
	defer f.part.End()
	f.collect(because)
	for i := range contextual {
		delete(f.steps, contextual[i].Key())
	}
	if len(f.steps) == 0 {
		return nil
	}
	err := f.live()
	if err == nil && len(f.steps) > 0 {
		err = f.removed()
	}
	return a.timeline.ConfirmRead(ctx, err)
}

// collect notes the steps of tuples from s downwards.
func (f *originFinder) collect(s *authz.Step) {
	if s == nil {
		return
	}
	if s.Tuple != nil {
		k := s.Tuple.Key()
		f.steps[k] = append(f.steps[k], s)
	}
	for _, child := range s.Steps {
		f.collect(child)
	}
}

// live finds the tuples that have not been removed or replaced since the view.
func (f *originFinder) live() error {
	keys := make([]rel.Key, 0, len(f.steps))
	for k := range f.steps {
		keys = append(keys, k)
	}
	rows, err := f.shared.runtime.Driver.Rows(f.ctx, f.timeline.ID, keys)
	if err != nil {
		return err
	}
	for i := range rows {
		if r := &rows[i]; r.Created != 0 && r.Created <= f.view.Head.Revision {
			if err := f.found(r); err != nil {
				return err
			}
		}
	}
	return nil
}

// stepsPerRow is the number of steps of turns.Part that reading a row takes.
const stepsPerRow = 40

// removed finds the other tuples: those that were live in the view and were removed
// or replaced later.
func (f *originFinder) removed() error {
	st, err := f.shared.runtime.Driver.Load(f.ctx, f.timeline.ID, storage.LoadOptions{RemovedAfter: &f.view.Head.Revision, RemovedOnly: true})
	if err != nil {
		return err
	}
	defer st.Close()
	for row, err := range st.Tuples {
		if err == nil {
			err = f.part.Step(f.ctx, f.shared.runtime.Turns, stepsPerRow)
		}
		if err == nil && row.Created <= f.view.Head.Revision {
			err = f.found(&row)
		}
		if err != nil || len(f.steps) == 0 {
			return err
		}
	}
	return nil
}

// stepsPerEntry is the number of steps of turns.Part that reading the head of an
// entry takes.
const stepsPerEntry = 1000

// found sets Written in the steps of a row that was live in the view, if it has any.
func (f *originFinder) found(row *storage.TupleRow) error {
	k := row.Tuple.Key()
	steps := f.steps[k]
	if len(steps) == 0 {
		return nil
	}
	e, read := f.entries[row.Created]
	if !read {
		if err := f.part.Step(f.ctx, f.shared.runtime.Turns, stepsPerEntry); err != nil {
			return err
		}
		var err error
		e, err = f.shared.runtime.Driver.EntryHead(f.ctx, f.timeline.ID, row.Created)
		if err != nil && !errors.Is(err, storage.ErrTrimmed) {
			return err
		}
		f.entries[row.Created] = e
	}
	w := &authz.Written{Revision: uint64(row.Created), Time: row.CreatedAt, Caller: e.Origin.Caller, Reason: e.Origin.Reason}
	for _, s := range steps {
		s.Written = w
	}
	delete(f.steps, k)
	return nil
}
