package sim

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/internal/cluster/replica"
	"github.com/ostiary/ostiary/internal/cluster/sharedlog"
	"github.com/ostiary/ostiary/internal/workshop/history"
	"github.com/ostiary/ostiary/storage"
)

// call is one call of a client, with what is known of it here.
type call struct {
	history.Call
	process *process
	// maker is the process that made a write: another one, if it was passed on.
	maker *process

	before, until uint64 // the last sequence of the log at its beginning and at its end
}

// record is what the clients did and saw.
type record struct {
	time  atomic.Int64
	marks atomic.Int64

	mu    sync.Mutex
	calls []*call
	// cutAt is the time at which the log was restored from a backup; 0 if it was not.
	// kept are the segments at that time.
	cutAt int64
	kept  [][]byte
}

func (h *record) newMark() string { return fmt.Sprint("w", h.marks.Add(1)) }

// cut notes that the log, which has the segments, is restored from a backup.
func (h *record) cut(segments [][]byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.cutAt, h.kept = h.time.Add(1), slices.Clone(segments)
}

// begin notes the begin of a call. The function that it returns notes the end, and
// runs answered if the call was answered without an error.
func (w *world) begin(made history.Call, p *process) (done func(err error, answered func(c *call)) history.Outcome) {
	c := call{Call: made, process: p}
	c.Process = &p.known
	c.before = w.log.head()
	c.Began = w.record.time.Add(1)
	p.gate.pass()
	return func(err error, answered func(c *call)) history.Outcome {
		p.gate.pass()
		c.Err = err
		if c.Outcome = history.OutcomeOf(err); p.killed.Load() {
			c.Outcome = history.Open
		}
		if c.Outcome == history.Made && answered != nil {
			answered(&c)
		}
		w.record.mu.Lock()
		defer w.record.mu.Unlock()
		c.Ended = w.record.time.Add(1)
		c.until = w.log.head()
		w.record.calls = append(w.record.calls, &c)
		if !w.restored.Load() && (isBroken(err) && !w.isLeftBehind(err) || c.Kind == history.Release && errors.Is(err, authz.ErrNoStore)) {
			w.fail("a node answered with an error that it must not have: %s", &c.Call)
		}
		return c.Outcome
	}
}

// isBroken reports whether an error must never be the answer of a node while the log
// is not restored from a backup.
func isBroken(err error) bool {
	for _, never := range []error{authz.ErrHistory, authz.ErrToken, storage.ErrDamaged, replica.ErrBehind, sharedlog.ErrNodeTaken, authz.ErrConflict} {
		if errors.Is(err, never) {
			return true
		}
	}
	return false
}

// past is what the segments of the log say.
type past struct {
	history.Past
	at []storage.Revision // the revision after each segment; 0 is before the first one
}

// readPast reads the segments of a log.
func (w *world) readPast(segments [][]byte) (*past, error) {
	p := &past{at: make([]storage.Revision, 1)}
	for _, b := range segments {
		s, err := sharedlog.Decode(b)
		if err != nil {
			return nil, err
		}
		for i := range s.Stores {
			if s.Stores[i].Store != w.id {
				continue
			}
			for _, b := range s.Stores[i].Entries {
				e, err := storage.DecodeEntry(b)
				if err == nil {
					err = p.Add(&e)
				}
				if err != nil {
					return nil, err
				}
			}
		}
		p.at = append(p.at, p.Last())
	}
	return p, nil
}

// judge checks the promises in the record.
func (w *world) judge() {
	h := &w.record
	segments := w.log.segments
	if h.cutAt > 0 {
		segments = h.kept
	}
	p, err := w.readPast(segments)
	if err != nil {
		w.fail("the log is wrong: %w", err)
		return
	}
	var calls []*history.Call
	for _, c := range h.calls {
		switch {
		case h.cutAt == 0 || c.Ended < h.cutAt:
		case c.Began > h.cutAt:
			w.judgeRestored(c)
			continue
		case c.Kind.IsWrite() || c.Kind == history.Claim || c.Kind == history.Release:
			c.Outcome = history.Open
		default:
			continue
		}
		c.Process.Began = p.at[c.process.began]
		c.Before, c.Until = p.at[c.before], p.at[min(c.until, uint64(len(p.at)-1))]
		calls = append(calls, &c.Call)
	}
	for _, broken := range history.Judge(&p.Past, calls, w.network != nil) {
		w.fail("%w", broken)
	}
}

// judgeRestored checks a call that began after the log was restored: a node that knew
// more than the log has neither confirms a read nor makes a write. It may pass on a write
// to one that does not.
func (w *world) judgeRestored(c *call) {
	if w.isAhead(cmp.Or(c.maker, c.process)) && c.Outcome == history.Made && (!c.Kind.IsRead() || c.Kind == history.Full) && c.Kind != history.ReadSecret {
		w.fail("after the log was restored, a node that knew more answered: %s", &c.Call)
	}
}

// isAhead reports whether a process knew segments that the restored log has not. A node
// whose last append was under way puts it into the restored log again; then nobody has
// another history.
func (w *world) isAhead(p *process) bool {
	knew := int(p.knew.Load())
	return knew > 0 && (knew > len(w.log.segments) || !bytes.Equal(w.log.segments[knew-1], w.record.kept[knew-1]))
}

// agree checks, after a time without faults, that all nodes serve, and that they have
// the same state, which follows from the log.
func (w *world) agree() error {
	p, err := w.readPast(w.log.segments)
	if err != nil {
		return fmt.Errorf("the log is wrong: %w", err)
	}
	for _, m := range w.machines {
		at := m.process.Load()
		failed := at.driver.Failed()
		switch {
		case w.restored.Load() && (m.lost || isOtherHistory(failed)):
			continue
		case failed != nil:
			return fmt.Errorf("a node has stopped: node %d: %w", m.number, failed)
		case w.isAhead(at):
			return fmt.Errorf("a node serves, although it knows more than the restored log: node %d", m.number)
		case at.node != nil && !w.restored.Load() && at.node.Status().ReadRemaining == 0:
			return fmt.Errorf("in the end a node has no read lease: node %d:%s", m.number, w.statuses())
		}
		if err := w.agrees(at, p); err != nil {
			return fmt.Errorf("in the end a node does not show the state of the log: node %d: %w", m.number, err)
		}
	}
	return nil
}

// statuses describes what the coordinated nodes know, one line each.
func (w *world) statuses() string {
	var out strings.Builder
	for _, m := range w.machines {
		fmt.Fprintf(&out, "\nnode %d: %+v", m.number, m.process.Load().node.Status())
	}
	return out.String()
}

// agrees compares what a node shows with the state that follows from the log.
func (w *world) agrees(at *process, p *past) error {
	ctx, cancel := context.WithTimeout(w.ctx, 3*time.Second)
	defer cancel()
	for doc := range docsTotal {
		t := history.DocumentTuple(doc)
		_, r, err := w.check(ctx, at, t.Object, t.Relation, t.Subject.ID, authz.Consistency{})
		if err != nil {
			return err
		}
		if r.Revision != p.Last() {
			return fmt.Errorf("it has revision %d, and the log revision %d", r.Revision, p.Last())
		}
		if want := p.Document(doc, p.Last()); want != (r.Decision.String() == "true") {
			return fmt.Errorf("its check of document %d is %s, expected %t", doc, r.Decision, want)
		}
	}
	s, err := at.engine.Store(ctx, w.id)
	if err != nil {
		return err
	}
	for key := range secretsTotal {
		want := p.Secret(key, p.Last())
		d, err := s.Secret(ctx, authz.DocumentKey{Kind: secretKind, Key: fmt.Sprint(key)})
		if want == "" && errors.Is(err, authz.ErrNoDocument) || w.restored.Load() && errors.Is(err, authz.ErrLoading) {
			continue // a restored log may have an older secret than the node has looked for
		}
		if err != nil || string(d.Body) != want {
			return fmt.Errorf("its secret %d is %q, error %w; expected %q", key, d.Body, err, want)
		}
	}
	return nil
}
