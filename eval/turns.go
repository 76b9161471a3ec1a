package eval

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"time"
)

// Turns makes questions that take long wait for each other, so that a short
// question finds a free processor. A question needs a turn from the first time
// on that it looks for the end of its context, which is after 4096 nodes or
// steps. It gives the turn up when others have waited for long enough. Turns is
// safe for concurrent use.
type Turns struct {
	mu sync.Mutex
	// free is the number of turns that no question has.
	free int
	// first has the questions that wait for their first turn, and later the
	// others, in the order in which they came. Questions wait only if free is 0.
	first, later []chan struct{}
	// inRow counts the turns that went to first while others waited in later.
	inRow int
}

// NewTurns returns as many turns as there are processors less one, and at least
// one.
func NewTurns() *Turns { return &Turns{free: max(1, runtime.GOMAXPROCS(0)-1)} }

const (
	// turnShort is how long a question keeps its turn while another one waits
	// for its first turn.
	turnShort = 2 * time.Millisecond
	// turnTime is how long a question keeps its turn while others wait.
	turnTime = 20 * time.Millisecond
	// turnTimeLarge is how long a question that has reserved much memory keeps its
	// turn. It is long, so that most of them end in one turn, and few such
	// questions have memory at the same time.
	turnTimeLarge = 500 * time.Millisecond
	// turnsInRow is the greatest number of first turns in a row while a question
	// waits for a later one.
	turnsInRow = 3
	// stepsPerCost is the number of steps, as counted by query.tick, that take
	// about as long as one unit of cost of a condition.
	stepsPerCost = 2
)

// take waits for a turn, the question's first or a later one. It returns the
// error of ctx if that ends before.
func (t *Turns) take(ctx context.Context, first bool) error {
	t.mu.Lock()
	if t.free > 0 {
		t.free--
		t.mu.Unlock()
		return nil
	}
	queue := &t.later
	if first {
		queue = &t.first
	}
	turn := make(chan struct{}, 1)
	*queue = append(*queue, turn)
	t.mu.Unlock()
	select {
	case <-turn:
		return nil
	case <-ctx.Done():
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if i := slices.Index(*queue, turn); i >= 0 {
		*queue = slices.Delete(*queue, i, i+1)
	} else {
		t.pass() // the turn came at the same moment
	}
	return ctx.Err()
}

// give returns a turn.
func (t *Turns) give() {
	t.mu.Lock()
	t.pass()
	t.mu.Unlock()
}

// pass gives a turn to the next question. The caller holds t.mu.
func (t *Turns) pass() {
	queue := &t.first
	switch {
	case len(t.first) == 0 && len(t.later) == 0:
		t.free++
		return
	case len(t.later) == 0:
	case len(t.first) == 0 || t.inRow == turnsInRow:
		queue, t.inRow = &t.later, 0
	default:
		t.inRow++
	}
	(*queue)[0] <- struct{}{}
	*queue = slices.Delete(*queue, 0, 1)
}

// due reports whether a question that has had its turn for a while must give it
// up.
func (t *Turns) due(had time.Duration, large bool) bool {
	if had < turnShort || large && had < turnTimeLarge {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.first) > 0 || len(t.later) > 0 && had >= turnTime
}

// turn is a question's use of the processors.
type turn struct {
	// since is when the question took its last turn; zero if it had none yet.
	since time.Time
	// taken is true while the question has a turn.
	taken bool
}

// takeTurn waits for a turn if the question has none, or has had it for long
// enough. It returns the error of the context if that ends before.
func (q *query) takeTurn() error {
	t := q.env.Turns
	if q.turn.taken {
		if !t.due(time.Since(q.turn.since), q.memory.large()) {
			return nil
		}
		q.endTurn()
	}
	if err := t.take(q.ctx, q.turn.since.IsZero()); err != nil {
		return err
	}
	q.turn = turn{time.Now(), true}
	return nil
}

// endTurn gives the turn of the question to the next one that waits.
func (q *query) endTurn() {
	if q.turn.taken {
		q.turn.taken = false
		q.env.Turns.give()
	}
}

// lendTurn makes the turn of a question that of another query, which works for
// it.
func (q *query) lendTurn(to *query) { to.turn, q.turn = q.turn, turn{} }
