package move

import (
	"context"
	"sync"
)

// Background makes moves in a process that does other things, and can be asked how far the
// last one is. The zero Background has made none. All methods are safe for concurrent use.
type Background struct {
	mu    sync.Mutex
	state State
}

// State is how far a move is.
type State struct {
	// Running is true while the move is being made. Title, Done and Total are its progress.
	Running     bool
	Title       string
	Done, Total int
	// Failure is why the last move has failed; "" if it has not.
	Failure string
	// Moved is what the last move has done, Nodes the number of nodes that have gone on with
	// the next log, and Last the last segment of the old one; 0 if an earlier move made it.
	Moved Done
	Nodes int
	Last  uint64
}

// State returns how far the last move is.
func (b *Background) State() State {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.state
}

// Begin begins a move in a goroutine of run, unless one is being made. It sets Progress of
// the move.
func (b *Background) Begin(ctx context.Context, run func(func()), m *Move) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.state.Running {
		return
	}
	b.state = State{Running: true, Title: "beginning"}
	m.Progress = func(title string, done, total int) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.state.Title, b.state.Done, b.state.Total = title, done, total
	}
	run(func() {
		err := m.Run(ctx)
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.state = (State{Moved: m.Done, Nodes: m.Done.Nodes, Last: m.Done.Last}); err != nil {
			b.state.Failure = err.Error()
		}
	})
}
