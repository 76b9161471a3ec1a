package ostiary

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/ostiary/ostiary/storage"
)

// Pending is a write that is validated and holds its store's turn, to be
// committed with the embedder's own transaction: AppendTo puts it in, the
// embedder commits, Publish makes it visible here. Abort gives it up. Until
// then no other writer of the store gets on, so be quick.
//
// A Pending that is not appended within Bounds.HoldTime is given up by itself.
// One that is appended keeps the turn until Publish or Abort, since only the
// embedder knows whether it will be committed; writers that have waited
// HoldTime then are ErrBusy, unless the log shows that it was committed, which
// heals it. After a crash, the log tells by itself.
type Pending struct {
	s *Store

	mu       sync.Mutex
	g        *group
	state    pendingState
	deadline *time.Timer
}

type pendingState uint8

const (
	pendingHeld pendingState = iota
	pendingAppended
	pendingOver
)

// Prepare validates a write and takes the store's turn for it. The driver must
// be a storage.Joiner, else it is ErrTransaction.
func (s *Store) Prepare(ctx context.Context, w WriteRequest) (*Pending, error) {
	const op = "prepare"
	if _, ok := s.engine.driver.(storage.Joiner); !ok {
		return nil, failed(op, s.id, fmt.Errorf("%w: it joins none", ErrTransaction))
	}
	if err := s.engine.validWrite(&w); err != nil {
		return nil, failed(op, s.id, err)
	}
	secrets, err := s.sealSecrets(w.Secrets)
	if err != nil {
		return nil, failed(op, s.id, err)
	}
	if err := s.takeTurnToWrite(ctx); err != nil {
		return nil, failed(op, s.id, err)
	}
	if err := s.land(ctx); err != nil {
		return nil, failed(op, s.id, err)
	}
	p, err := s.prepare(ctx, &w, secrets)
	if err != nil {
		s.freeTurn()
		return nil, failed(op, s.id, err)
	}
	return p, nil
}

// prepare makes the pending write; the turn is held.
func (s *Store) prepare(ctx context.Context, w *WriteRequest, secrets []storage.Document) (*Pending, error) {
	s.stale = true // an earlier transaction may have been committed unseen
	base, err := s.base(ctx)
	if err != nil {
		return nil, err
	}
	g := s.newGroup(base)
	sub := &submission{build: func(g *group) ([]storage.Change, error) { return g.changes(ctx, w, secrets) }}
	if err := g.enter(sub); err != nil {
		return nil, err
	}
	g.makeView()
	p := &Pending{s: s, g: g}
	s.mu.Lock()
	s.pending = p
	s.mu.Unlock()
	p.mu.Lock() // the time may be up at once
	defer p.mu.Unlock()
	p.deadline = time.AfterFunc(s.engine.opts.Bounds.HoldTime, p.expire)
	return p, nil
}

// AppendTo adds the write to the embedder's transaction, of a type that the
// driver's documentation names. It may be called once. A write that changes
// nothing adds nothing.
func (p *Pending) AppendTo(ctx context.Context, tx any) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state != pendingHeld {
		return failed("append to transaction", p.s.id, ErrPending)
	}
	if len(p.g.entries) > 0 {
		_, err := p.s.engine.driver.(storage.Joiner).AppendTo(ctx, tx, p.s.id, p.g.base.head, p.g.entries)
		if err != nil {
			return failed("append to transaction", p.s.id, err)
		}
	}
	p.state = pendingAppended
	p.deadline.Stop()
	return nil
}

// Publish makes the write visible after the embedder has committed, and
// returns its token. It asks the driver: if the entry is not in the log,
// nothing is published, and it is ErrPending.
func (p *Pending) Publish(ctx context.Context) (Token, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state != pendingAppended {
		return "", failed("publish", p.s.id, ErrPending)
	}
	committed, err := p.committed(ctx)
	if err != nil {
		return "", failed("publish", p.s.id, err)
	}
	defer p.end()
	if !committed {
		return "", failed("publish", p.s.id, fmt.Errorf("%w: its transaction was not committed", ErrPending))
	}
	if len(p.g.entries) > 0 {
		if err := p.g.publish(); err != nil {
			return "", failed("publish", p.s.id, err)
		}
	}
	return p.s.tokenAt(p.g.head()), nil
}

// Abort gives the write up. The embedder must not commit a transaction that
// holds it; if he did nevertheless, the log counts.
func (p *Pending) Abort() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state != pendingOver {
		p.end()
	}
}

// expire gives up a write that nobody appended in time.
func (p *Pending) expire() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state == pendingHeld {
		p.end()
	}
}

// committed says whether the write's entry is in the log.
func (p *Pending) committed(ctx context.Context) (bool, error) {
	if len(p.g.entries) == 0 {
		return true, nil
	}
	h, err := p.s.engine.driver.Head(ctx, p.s.id)
	if err != nil {
		return false, err
	}
	return h.Revision == p.g.head().Revision && h.Hash == p.g.head().Hash, nil
}

// end frees the turn; p.mu is held.
func (p *Pending) end() {
	p.state = pendingOver
	p.deadline.Stop()
	p.s.stale = true // whatever the log says now is looked at by the next writer
	p.s.mu.Lock()
	p.s.pending = nil
	p.s.mu.Unlock()
	p.s.freeTurn()
}

// holds says whether the write keeps the turn though a writer has waited
// HoldTime for it. One whose transaction was committed, but not published, is
// healed here; one that was never appended ends by itself.
func (p *Pending) holds(ctx context.Context) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state != pendingAppended {
		return false
	}
	if committed, err := p.committed(ctx); err != nil || !committed {
		return true
	}
	p.end()
	return false
}

// takeTurnToWrite is takeTurn for a writer, who does not wait for ever behind
// a pending write.
func (s *Store) takeTurnToWrite(ctx context.Context) error {
	if s.tryTurn() {
		return nil
	}
	for {
		s.mu.Lock()
		held := s.pending
		s.mu.Unlock()
		if err := s.turnWithin(ctx); !errors.Is(err, errTurnHeld) {
			return err
		}
		s.mu.Lock()
		same := s.pending != nil && s.pending == held
		s.mu.Unlock()
		if same && held.holds(ctx) {
			return ErrBusy
		}
	}
}

var errTurnHeld = errors.New("the turn is held")

// turnWithin waits for the turn for HoldTime at most.
func (s *Store) turnWithin(ctx context.Context) error {
	limit := time.NewTimer(s.engine.opts.Bounds.HoldTime)
	defer limit.Stop()
	select {
	case s.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-limit.C:
		return errTurnHeld
	}
}
