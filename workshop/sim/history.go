package sim

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/storage"
	"github.com/ostiary/ostiary/storage/replica"
	"github.com/ostiary/ostiary/storage/sharedlog"
)

// kind is what a call does.
type kind uint8

const (
	add        kind = iota // adds the tuple of a document
	remove                 // removes it
	full                   // reads it, fully consistent
	least                  // reads it, at least as new as a token
	newest                 // reads it, with the default consistency
	local                  // reads it from the view in memory
	claim                  // creates a store with an alias
	release                // deletes such a store
	putSecret              // stores a secret
	readSecret             // reads it
)

var kindNames = [...]string{"add", "remove", "fully consistent read", "read with a token", "read", "local read", "create with alias", "delete with alias", "put of secret", "read of secret"}

func (k kind) isRead() bool { return k == full || k == least || k == newest || k == local }

func (k kind) isWrite() bool { return k == add || k == remove || k == putSecret }

// outcome is what a caller knows of a call.
type outcome uint8

const (
	made    outcome = iota // it was made, or answered
	refused                // the state does not allow it
	failed                 // it has no effect
	open                   // the caller does not know
)

// call is one call of a client, and what came of it.
type call struct {
	kind    kind
	thing   int // number of the document, the alias or the secret
	process *process
	// maker is the process that made a write: another one, if it was passed on.
	maker *process

	mark  string           // the reason of a write, by which the log has it
	again bool             // the write was sent before, with the same mark
	token ostiary.Token    // that a write must follow
	after storage.Revision // of the token; of a secret, that of the copy before
	// The write requires the tuple of another document, or its absence.
	needs, needThere bool
	need             int

	began, ended  int64  // places in the order of all calls
	before, until uint64 // the last sequence of the log then

	outcome  outcome
	err      error
	revision storage.Revision // of the write, or of what was read
	there    bool             // whether the tuple was read
	body     string           // of a secret
}

func (c *call) String() string {
	return fmt.Sprintf("%s %d on process %d (%s), revision %d, segments %d to %d, error %v", kindNames[c.kind], c.thing, c.process.number, c.mark, c.revision, c.before, c.until, c.err)
}

// history is what the clients did and saw.
type history struct {
	time  atomic.Int64
	marks atomic.Int64

	mu    sync.Mutex
	calls []*call
	// cutAt is the time at which the log was restored from a backup; 0 if it was not.
	// kept are the segments at that time.
	cutAt int64
	kept  [][]byte
}

func (h *history) newMark() string { return fmt.Sprint("w", h.marks.Add(1)) }

// cut notes that the log, which has the segments, is restored from a backup.
func (h *history) cut(segments [][]byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.cutAt, h.kept = h.time.Add(1), slices.Clone(segments)
}

// begin notes the begin of a call. The function that it returns notes the end, and
// runs answered if the call was answered without an error.
func (w *world) begin(c call, p *process) (done func(err error, answered func(c *call)) outcome) {
	c.process = p
	c.before = w.log.head()
	c.began = w.history.time.Add(1)
	p.gate.pass()
	return func(err error, answered func(c *call)) outcome {
		p.gate.pass()
		c.err = err
		if c.outcome = outcomeOf(err); p.killed.Load() {
			c.outcome = open
		}
		if c.outcome == made && answered != nil {
			answered(&c)
		}
		w.history.mu.Lock()
		defer w.history.mu.Unlock()
		c.ended = w.history.time.Add(1)
		c.until = w.log.head()
		w.history.calls = append(w.history.calls, &c)
		if !w.restored.Load() && (isBroken(err) || c.kind == release && errors.Is(err, ostiary.ErrNoStore)) {
			w.fail("a node answered with an error that it must not have: %s", &c)
		}
		return c.outcome
	}
}

func outcomeOf(err error) outcome {
	switch {
	case err == nil:
		return made
	case errors.Is(err, ostiary.ErrUncertain):
		return open
	case errors.Is(err, ostiary.ErrTupleExists), errors.Is(err, ostiary.ErrTupleMissing), errors.Is(err, ostiary.ErrPrecondition), errors.Is(err, ostiary.ErrStoreExists):
		return refused
	}
	return failed
}

// isBroken reports whether an error must never be the answer of a node while the log
// is not restored from a backup.
func isBroken(err error) bool {
	for _, never := range []error{ostiary.ErrHistory, ostiary.ErrToken, storage.ErrDamaged, replica.ErrBehind, sharedlog.ErrNodeTaken, ostiary.ErrConflict} {
		if errors.Is(err, never) {
			return true
		}
	}
	return false
}

// state is what follows from the log of the store up to a revision.
type state struct {
	docs    [docsTotal]bool
	secrets [secretsTotal]string
}

// past is what the segments of the log say.
type past struct {
	states []state                       // by revision
	marks  map[string][]storage.Revision // the entries with a mark
	at     []storage.Revision            // the revision after each segment; 0 is before the first one
}

// readPast reads the segments of a log.
func (w *world) readPast(segments [][]byte) (*past, error) {
	p := &past{states: make([]state, 1), marks: map[string][]storage.Revision{}, at: make([]storage.Revision, 1)}
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
					err = p.add(&e)
				}
				if err != nil {
					return nil, err
				}
			}
		}
		p.at = append(p.at, storage.Revision(len(p.states)-1))
	}
	return p, nil
}

func (p *past) add(e *storage.Entry) error {
	s := p.states[len(p.states)-1]
	if want := storage.Revision(len(p.states)); e.Revision != want {
		return fmt.Errorf("the log has entry %d, expected entry %d", e.Revision, want)
	}
	for i := range e.Changes {
		var n int
		c := &e.Changes[i]
		switch {
		case c.Kind == storage.SecretPut:
			if _, err := fmt.Sscan(c.Document.Key, &n); err != nil {
				return err
			}
			s.secrets[n] = e.Origin.Reason
		case (c.Kind == storage.TupleAdd || c.Kind == storage.TupleRemove) && c.Tuple.Subject.ID == "anne":
			if _, err := fmt.Sscan(c.Tuple.Object.ID, &n); err != nil {
				return err
			}
			adds := c.Kind == storage.TupleAdd
			if s.docs[n] == adds {
				return fmt.Errorf("entry %d adds a tuple that exists, or removes one that is missing: %+v", e.Revision, c.Tuple)
			}
			s.docs[n] = adds
		}
	}
	p.states = append(p.states, s)
	p.marks[e.Origin.Reason] = append(p.marks[e.Origin.Reason], e.Revision)
	return nil
}

// last returns the last revision.
func (p *past) last() storage.Revision { return storage.Revision(len(p.states) - 1) }

// judge checks the promises in the history.
func (w *world) judge() {
	h := &w.history
	segments := w.log.segments
	if h.cutAt > 0 {
		segments = h.kept
	}
	p, err := w.readPast(segments)
	if err != nil {
		w.fail("the log is wrong: %w", err)
		return
	}
	var calls []*call
	for _, c := range h.calls {
		switch {
		case h.cutAt == 0 || c.ended < h.cutAt:
			calls = append(calls, c)
		case c.began > h.cutAt:
			w.judgeRestored(c)
		case c.kind.isWrite() || c.kind == claim || c.kind == release:
			c.outcome = open
			calls = append(calls, c)
		}
	}
	for _, c := range calls {
		switch {
		case c.kind.isWrite():
			w.judgeWrite(p, c, calls)
		case c.outcome != made:
		case c.kind == readSecret:
			w.judgeSecret(p, c)
		case c.kind.isRead():
			w.judgeRead(p, c)
		}
	}
	w.judgeOrder(p, calls)
	w.judgeLinear(p, calls)
}

// judgeRestored checks a call that began after the log was restored: a node that knew
// more than the log has neither confirms a read nor makes a write. It may pass on a write
// to one that does not.
func (w *world) judgeRestored(c *call) {
	if w.isAhead(cmp.Or(c.maker, c.process)) && c.outcome == made && (!c.kind.isRead() || c.kind == full) && c.kind != readSecret {
		w.fail("after the log was restored, a node that knew more answered: %s", c)
	}
}

// isAhead reports whether a process knew segments that the restored log has not. A node
// whose last append was under way puts it into the restored log again; then nobody has
// another history.
func (w *world) isAhead(p *process) bool {
	knew := int(p.knew.Load())
	return knew > 0 && (knew > len(w.log.segments) || !bytes.Equal(w.log.segments[knew-1], w.history.kept[knew-1]))
}

// judgeWrite checks a write: the log has it once if it was made, and never if it was
// not; it follows what was in the log when it began; and the state before it allows it.
func (w *world) judgeWrite(p *past, c *call, calls []*call) {
	sent, possible, first := 0, 0, c
	for _, other := range calls {
		if other.mark == c.mark {
			sent++
			if other.outcome == made || other.outcome == open {
				possible++
			}
			if other.began < first.began {
				first = other
			}
		}
	}
	found := p.marks[c.mark]
	if len(found) > possible {
		w.fail("the log has a write more often than attempts can have made it: at the revisions %d, by %d of %d attempts: %s", found, possible, sent, c)
	}
	switch c.outcome {
	case made:
		if !slices.Contains(found, c.revision) {
			w.fail("an acknowledged write is not at its revision of the log: found at %d: %s", found, c)
			return
		}
		if c.revision <= p.at[first.before] || c.revision > p.at[c.until] {
			w.fail("a write has a revision from before or after the call: %s", c)
		}
		if c.token != "" && c.revision != c.after+1 {
			w.fail("a write does not follow its token of revision %d: %s", c.after, c)
		}
		if before := p.states[c.revision-1]; c.needs && before.docs[c.need] != c.needThere {
			w.fail("a write was made without its precondition: %s", c)
		}
	case refused:
		for r := p.at[c.before]; r <= p.at[c.until]; r++ {
			if s := &p.states[r]; c.mayRefuse(s, r) {
				return
			}
		}
		w.fail("a write was refused that no state during the call refuses: %s", c)
	}
}

// mayRefuse reports whether a state refuses the write with its error.
func (c *call) mayRefuse(s *state, r storage.Revision) bool {
	switch {
	case errors.Is(c.err, ostiary.ErrTupleExists):
		return s.docs[c.thing]
	case errors.Is(c.err, ostiary.ErrTupleMissing):
		return !s.docs[c.thing]
	}
	return c.needs && s.docs[c.need] != c.needThere || c.token != "" && r != c.after
}

// judgeRead checks a read of a tuple: it has the state of its revision, and the
// revision is as new as the consistency requires.
func (w *world) judgeRead(p *past, c *call) {
	switch {
	case c.revision > p.at[c.until]:
		w.fail("a read has a revision that the log has not: %s", c)
	case p.states[c.revision].docs[c.thing] != c.there:
		w.fail("a read has not the answer of its revision: %t: %s", c.there, c)
	case c.kind == full && c.revision < p.at[c.before]:
		w.fail("a fully consistent read does not have what was durable before: revision %d: %s", p.at[c.before], c)
	case c.kind == least && c.revision < c.after:
		w.fail("a read does not have the revision of its token: %d: %s", c.after, c)
	case c.revision < p.at[c.process.began]:
		w.fail("a read does not have what was durable before the node started: revision %d: %s", p.at[c.process.began], c)
	}
}

// judgeSecret checks that a secret is that of a revision that the copy had meanwhile.
func (w *world) judgeSecret(p *past, c *call) {
	for r := c.after; r <= c.revision; r++ {
		if p.states[r].secrets[c.thing] == c.body {
			return
		}
	}
	w.fail("a secret is that of no revision of the copy: %q, from revision %d on: %s", c.body, c.after, c)
}

// judgeOrder checks that the reads of one process never go back, and that they have
// what the process has acknowledged; or what any process has, if the nodes are
// coordinated.
func (w *world) judgeOrder(p *past, calls []*call) {
	type event struct {
		at     int64
		call   *call
		begins bool
	}
	var events []event
	for _, c := range calls {
		if c.outcome == made && (c.kind.isWrite() || c.kind.isRead()) {
			events = append(events, event{c.began, c, true}, event{c.ended, c, false})
		}
	}
	slices.SortFunc(events, func(a, b event) int { return int(a.at - b.at) })
	shown := map[*process]storage.Revision{}
	acknowledged := storage.Revision(0) // by any node
	by := map[*process]*call{}          // what has shown it
	must := map[*call]storage.Revision{}
	for _, e := range events {
		switch {
		case e.begins:
			must[e.call] = shown[e.call.process]
			if w.network != nil && e.call.kind == newest {
				must[e.call] = max(must[e.call], acknowledged)
			}
		case e.call.kind.isRead():
			if e.call.revision < must[e.call] {
				w.fail("a read does not have what was shown or acknowledged before: revision %d: %s; shown by %s (coordinated %t)", must[e.call], e.call, by[e.call.process], w.network != nil)
			}
			fallthrough
		default:
			if e.call.kind.isWrite() {
				acknowledged = max(acknowledged, e.call.revision)
			}
			if e.call.revision > shown[e.call.process] {
				shown[e.call.process], by[e.call.process] = e.call.revision, e.call
			}
		}
	}
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
		}
		if err := w.agrees(at, p); err != nil {
			return fmt.Errorf("in the end a node does not show the state of the log: node %d: %w", m.number, err)
		}
	}
	return nil
}

// agrees compares what a node shows with the state that follows from the log.
func (w *world) agrees(at *process, p *past) error {
	ctx, cancel := context.WithTimeout(w.ctx, 3*time.Second)
	defer cancel()
	for doc := range docsTotal {
		t := docTuple(doc)
		_, r, err := w.check(ctx, at, t.Object, t.Relation, t.Subject.ID, ostiary.Consistency{})
		if err != nil {
			return err
		}
		if r.Revision != p.last() {
			return fmt.Errorf("it has revision %d, and the log revision %d", r.Revision, p.last())
		}
		if want := p.states[p.last()].docs[doc]; want != (r.Decision.String() == "true") {
			return fmt.Errorf("its check of document %d is %s, expected %t", doc, r.Decision, want)
		}
	}
	s, err := at.engine.Store(ctx, w.id)
	if err != nil {
		return err
	}
	for key, want := range p.states[p.last()].secrets {
		d, err := s.Secret(ctx, ostiary.DocumentKey{Kind: secretKind, Key: fmt.Sprint(key)})
		if want == "" && errors.Is(err, ostiary.ErrNoDocument) || w.restored.Load() && errors.Is(err, ostiary.ErrLoading) {
			continue // a restored log may have an older secret than the node has looked for
		}
		if err != nil || string(d.Body) != want {
			return fmt.Errorf("its secret %d is %q, error %w; expected %q", key, d.Body, err, want)
		}
	}
	return nil
}
