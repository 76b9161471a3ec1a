// Package turns makes work that takes long wait for each other, so that short
// work finds a free processor (docs/decisions/0016-turns.md). Its main types are
// [Turns], which all requests share, [Work], which one request has, and [Part], a
// part of a request that may take long. The package does not know what a request does.
package turns

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"time"
)

// Turns are the turns that requests share. It is safe for concurrent use.
type Turns struct {
	mu sync.Mutex
	// free is the number of turns that no request has.
	free int
	// first has the requests that wait for their first turn, and later the
	// others, in the order in which they came. Requests wait only if free is 0.
	first, later []chan struct{}
	// inRow counts the turns that went to first while others waited in later.
	inRow int
	// taken counts the turns that requests took.
	taken int
}

// New returns n turns.
func New(n int) *Turns { return &Turns{free: n} }

// OfProcessors returns as many turns as there are processors less one, and at
// least one.
func OfProcessors() *Turns { return New(max(1, runtime.GOMAXPROCS(0)-1)) }

const (
	// short is how long a request keeps its turn while another one waits for its
	// first turn.
	short = 2 * time.Millisecond
	// full is how long a request keeps its turn while others wait.
	full = 20 * time.Millisecond
	// fullLarge is how long a request that has reserved much memory keeps its turn.
	// It is long, so that most of them end in one turn, and few such requests have
	// memory at the same time.
	fullLarge = 500 * time.Millisecond
	// firstInRow is the greatest number of first turns in a row while a request
	// waits for a later one.
	firstInRow = 3
)

// Add adds n turns.
func (t *Turns) Add(n int) {
	for range n {
		t.give()
	}
}

// Free returns the number of turns that no request has.
func (t *Turns) Free() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.free
}

// Taken returns how often a request took a turn.
func (t *Turns) Taken() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.taken
}

// Waiting returns how many requests wait for a turn.
func (t *Turns) Waiting() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.first) + len(t.later)
}

// take waits for a turn, the request's first or a later one. It returns the error
// of ctx if that ends before.
func (t *Turns) take(ctx context.Context, first bool) error {
	t.mu.Lock()
	if t.free > 0 {
		t.free--
		t.taken++
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

// pass gives a turn to the next request. The caller holds t.mu.
func (t *Turns) pass() {
	queue := &t.first
	switch {
	case len(t.first) == 0 && len(t.later) == 0:
		t.free++
		return
	case len(t.later) == 0:
	case len(t.first) == 0 || t.inRow == firstInRow:
		queue, t.inRow = &t.later, 0
	default:
		t.inRow++
	}
	t.taken++
	(*queue)[0] <- struct{}{}
	*queue = slices.Delete(*queue, 0, 1)
}

// due reports whether a request that has had its turn for a while must give it up.
func (t *Turns) due(had time.Duration, large bool) bool {
	if had < short || large && had < fullLarge {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.first) > 0 || len(t.later) > 0 && had >= full
}
