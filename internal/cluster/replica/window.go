package replica

import (
	"errors"
	"runtime"
	"slices"
	"time"

	"github.com/ostiary/ostiary/internal/cluster/sharedlog"
	"github.com/ostiary/ostiary/storage"
)

// This file has what orders the appends of a node. A segment is sent to the log before the
// one that it follows is known to be there, if the log keeps their order. It names its
// predecessor, so it is not made without it. Outcomes are settled in order.

const (
	// windowSegments and windowBytes bound what is on its way to the log.
	windowSegments = 16
	windowBytes    = 32 << 20
)

// sent is a segment of requests on its way to the log.
type sent struct {
	requests   []*request
	base, next *state // of the copy before and after it
	record     sharedlog.Record
	secrets    []sharedlog.SecretChange
	round      uint64 // see ownWrites

	ordered bool       // another one may be sent after it
	answer  chan error // gets the outcome of the first attempt
	at      time.Time
}

// window has the segments that are on their way to the log, in order. The goroutine that
// appends owns it. A nil window has none.
type window struct {
	all    []*sent
	bytes  int
	newest map[storage.StoreID]*request // of each store
	// open is true if another segment may be sent.
	open bool
}

// end returns the state after the last segment. The caller has the turn.
func (w *window) end(r *Driver) *state {
	if w == nil || len(w.all) == 0 {
		return r.applied.Load()
	}
	return w.all[len(w.all)-1].next
}

// follows reports whether the copy has everything before the segments: one that is in the log
// may not be applied, because the log cannot be read.
func (w *window) follows(copied uint64) bool {
	return w == nil || len(w.all) == 0 || copied >= w.all[0].base.applied.Sequence
}

// head returns the head of a store after the segments, if one of them has entries of it.
func (w *window) head(id storage.StoreID) (head storage.Head, has bool) {
	if w == nil || w.newest[id] == nil {
		return head, false
	}
	return w.newest[id].last, true
}

// add adds a segment.
func (w *window) add(s *sent) {
	w.all, w.open = append(w.all, s), false
	w.bytes += len(s.record.Bytes)
	for _, q := range s.requests {
		w.newest[q.id] = q
	}
}

// next removes the first segment.
func (w *window) next() *sent {
	s := w.all[0]
	w.all = w.all[1:]
	w.bytes -= len(s.record.Bytes)
	for _, q := range s.requests {
		if w.newest[q.id] == q {
			delete(w.newest, q.id)
		}
	}
	w.open = w.open || len(w.all) == 0
	return s
}

// due returns how long it takes until another segment may be sent, if it is known. So many
// writers share a segment, and what is on its way is spread over the time that a commit takes.
func (w *window) due(pace, commit time.Duration) (wait time.Duration, known bool) {
	last := w.all[len(w.all)-1]
	if w.open || !last.ordered || len(w.all) >= windowSegments || w.bytes >= windowBytes {
		return 0, false
	}
	return max(time.Until(last.at.Add(max(pace, commit*time.Duration(len(w.all))/(windowSegments*windowSegments/4)))), 0), true
}

// follow lets another segment be sent: the callers of the last one go on.
func (w *window) follow() {
	w.open = true
	for _, q := range w.all[len(w.all)-1].requests {
		close(q.next)
	}
}

// severalFor is for how many segments the appender takes it that there are several writers,
// after a segment with more than one entry.
const severalFor = 64

// append appends the requests until the driver is closed.
func (r *Driver) append() {
	w := &window{newest: map[storage.StoreID]*request{}, open: true}
	several := 0
	for r.ctx.Err() == nil {
		group := w.gather(&r.queue)
		if len(group) == 0 {
			r.step(w)
			continue
		}
		if len(group) > 1 || len(group[0].entries) > 1 {
			several = severalFor
		}
		r.send(w, group)
		if several > 0 && len(w.all) == 0 {
			// The writers run first, so that what they write next shares one segment.
			several--
			runtime.Gosched()
		}
	}
	r.drain(w)
}

// gather returns the requests of the next segment, if it may be sent.
func (w *window) gather(q *queue) []*request {
	if !w.open {
		return nil
	}
	return q.gather()
}

// step waits until there is something to do, and does it unless it is to send a segment.
func (r *Driver) step(w *window) {
	var due <-chan time.Time
	var answer <-chan error
	if len(w.all) > 0 {
		answer = w.all[0].answer
		if wait, known := w.due(r.opts.Pace, r.commits); known {
			timer := time.NewTimer(wait)
			defer timer.Stop()
			due = timer.C
		}
	}
	select {
	case <-r.queue.wake:
	case <-due:
		w.follow()
	case first := <-answer:
		r.settle(w, first)
	case <-r.ctx.Done():
	}
}

// send sends a segment of requests, or appends it when all before it are settled: if the
// log does not keep the order or is so near that nothing would overlap, if a caller waits for
// the segment, or if a request does not follow what is known.
func (r *Driver) send(w *window, group []*request) {
	if r.commits < r.opts.Pace || slices.ContainsFunc(group, func(q *request) bool { return q.next == nil }) {
		r.drain(w)
		r.write(group, false)
		return
	}
	s, again, err := r.prepare(group, w, false)
	if s == nil {
		if len(again) > 0 || err != nil {
			r.drain(w)
			r.write(again, false)
		}
		return
	}
	outcome, ordered := sharedlog.BeginAppend(r.traced(s.requests), r.log, s.base.applied, s.record, s.secrets)
	s.at = time.Now()
	if !ordered {
		r.drain(w)
		w.add(s)
		r.appending.Store(s.record.Sequence)
		r.settle(w, outcome())
		return
	}
	s.ordered, s.answer = true, make(chan error, 1)
	go func() { s.answer <- outcome() }()
	w.add(s)
	r.appending.Store(s.record.Sequence)
}

// drain settles all segments.
func (r *Driver) drain(w *window) {
	for len(w.all) > 0 {
		r.settle(w, <-w.all[0].answer)
	}
}

// settle settles the first segment, whose first attempt has an outcome, and finishes its
// requests. If it is not made, none of those above it is: their requests are validated and
// appended again, in their order.
func (r *Driver) settle(w *window, first error) {
	s := w.next()
	ctx, after := r.traced(s.requests), s.base.applied
	var conflict *sharedlog.ConflictError
	switch {
	case first == nil:
		r.commits = time.Since(s.at)
	case errors.As(first, &conflict) && conflict.Head.Sequence < after.Sequence: // decided before the one that it follows
		first = r.log.Append(ctx, after, s.record, s.secrets)
	}
	confirmed := false
	err := sharedlog.Settle(ctx, r.log, after, s.record, s.secrets, first)
	all := []*sent{s}
	if isConflict(err) {
		for len(w.all) > 0 {
			all = append(all, w.next())
		}
	}
	again, err := r.conclude(s, err, &confirmed)
	if len(w.all) == 0 {
		r.appending.Store(0)
	}
	for i, s := range all {
		switch {
		case err != nil:
			r.fail(s.requests, err)
		case i > 0 || len(again) > 0:
			r.write(s.requests, confirmed)
		}
	}
}
