package eval

import (
	"context"
	"math"
	"sync"
	"time"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/internal/tool/turns"
)

// MemoryBudget is the memory that many questions may use together. Each
// question reserves memory from it as it grows, and returns all of it at its
// end. A question that the budget cannot serve waits for others to end, and
// then stops at [authz.BoundMemoryTotal]. It is safe for concurrent use.
type MemoryBudget struct {
	mu sync.Mutex
	// free is the number of bytes that are not reserved.
	free int
	// returned is closed when memory is returned; nil if no question waits.
	returned chan struct{}
}

// NewMemoryBudget returns a budget of that many bytes.
func NewMemoryBudget(bytes int) *MemoryBudget { return &MemoryBudget{free: bytes} }

const (
	// memoryFree is the memory in bytes that a question uses without a
	// reservation. Nearly all questions need less.
	memoryFree = 256 << 10
	// memoryGrowth is the factor by which a question's reservation grows.
	memoryGrowth = 4
	// memoryWait is how long a question waits for its first reservation, unless
	// its deadline is earlier.
	memoryWait = 10 * time.Second
	// memoryGrowthWait is the same for a question that has a reservation.
	// Questions that wait for each other must not wait long.
	memoryGrowthWait = 500 * time.Millisecond
	// deadlineReserve is how long before its deadline a question stops waiting,
	// so that the client learns the reason.
	deadlineReserve = 50 * time.Millisecond
)

// reserve takes bytes from the budget. It waits until they are free, at most
// for wait, and returns false if they are not.
func (m *MemoryBudget) reserve(ctx context.Context, bytes int, wait time.Duration) bool {
	if deadline, ok := ctx.Deadline(); ok {
		wait = min(wait, time.Until(deadline)-deadlineReserve)
	}
	var timeout <-chan time.Time
	for {
		m.mu.Lock()
		if m.free >= bytes {
			m.free -= bytes
			m.mu.Unlock()
			return true
		}
		if m.returned == nil {
			m.returned = make(chan struct{})
		}
		returned := m.returned
		m.mu.Unlock()
		if wait <= 0 {
			return false
		}
		turns.Pause(ctx) // the questions that have the memory may wait for this turn
		if timeout == nil {
			timer := time.NewTimer(wait)
			defer timer.Stop()
			timeout = timer.C
		}
		select {
		case <-returned:
		case <-timeout:
			return false
		case <-ctx.Done():
			return false
		}
	}
}

// release returns bytes to the budget.
func (m *MemoryBudget) release(bytes int) {
	m.mu.Lock()
	m.free += bytes
	if m.returned != nil {
		close(m.returned)
		m.returned = nil
	}
	m.mu.Unlock()
}

// Take reserves bytes for work that is no question, such as the compilation of a
// schema. It waits for them as a question does. The caller calls release at its
// end. ok is false if the budget is exhausted or ctx has ended.
func (m *MemoryBudget) Take(ctx context.Context, bytes int) (release func(), ok bool) {
	if !m.reserve(ctx, bytes, memoryWait) {
		return nil, false
	}
	return func() { m.release(bytes) }, true
}

// memoryUse counts the memory of a question.
type memoryUse struct {
	// used is about the number of bytes that the question uses.
	used int
	// granted is the number of bytes up to which used may grow before grow is
	// called.
	granted int
	// max is the question's bound, Bounds.Memory.
	max int
	// reserved is what the question has taken from the budget.
	reserved int
	// bound names the bound that was exceeded; "" if none was.
	bound string
}

// Estimates of the memory in bytes that grows with a question. They include the
// free space in tables and slices.
const (
	bytesPerState     = 64  // a visited state of a search
	bytesPerRelation  = 192 // a state of a system, with its gate and its entries in maps
	bytesPerGate      = 112 // a gate with its values in the solver
	bytesPerArc       = 64  // an arc with its entries in the solver
	bytesPerStep      = 64  // a step of a list's walk
	bytesPerCandidate = 12  // a node of a candidate
	bytesPerEntry     = 48  // the id and the position of a list's entry
	bytesPerScopeID   = 64  // an id of a list's scope, in a set
)

// large reports whether the question has reserved memory more than once. It then
// uses about a mebibyte or more.
func (m *memoryUse) large() bool { return m.reserved > memoryGrowth*memoryFree }

// hold counts n things of that many bytes each.
func (q *query) hold(n, bytes int) {
	q.memory.used += n * bytes
	if q.memory.used > q.memory.granted {
		q.grow()
	}
}

// grow reserves more memory. If it cannot, the question is exhausted.
func (q *query) grow() {
	m := &q.memory
	switch {
	case m.bound != "":
	case m.used > m.max:
		m.bound = authz.BoundMemory
	default:
		next := min(max(memoryGrowth*m.granted, m.used), m.max)
		if q.env.Memory != nil {
			wait := memoryWait
			if m.reserved > 0 {
				wait = memoryGrowthWait
			}
			if !q.env.Memory.reserve(q.ctx, next-m.reserved, 0) {
				q.turn.Pause()
				if !q.env.Memory.reserve(q.ctx, next-m.reserved, wait) {
					m.bound = authz.BoundMemoryTotal
					break
				}
			}
			m.reserved = next
		}
		m.granted = next
		return
	}
	m.granted = math.MaxInt // the bound has its name; do not come here again
}

// release returns the memory that the question has reserved, and its turn.
func (q *query) release() {
	q.turn.End()
	if q.memory.reserved > 0 {
		q.env.Memory.release(q.memory.reserved)
		q.memory.reserved = 0
	}
}

// takeOver takes over what a copy of the query has done: its counts, its error,
// its reservation and its turn. The memory that the copy has used is free again.
func (q *query) takeOver(own *query) {
	used := q.memory.used
	q.stats, q.err, q.prepared, q.memory, q.turn, q.turning = own.stats, own.err, own.prepared, own.memory, own.turn, own.turning
	q.memory.used = used
}
