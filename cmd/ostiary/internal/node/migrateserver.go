package node

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/ostiary/ostiary/cmd/internal/cli"
	"github.com/ostiary/ostiary/internal/cluster/sharedlog"
	"github.com/ostiary/ostiary/storage"
)

// This file moves a log that only a server can reach, because it is in the data folder that
// the server has open: the server makes the move, and the command asks it how far it is.

// MoveCommand is the command of the socket of a data folder that begins a move to the log of
// --next-log, or asks how far it is.
const MoveCommand = "migrate-live"

// MoveOptions are the body of MoveCommand.
type MoveOptions struct {
	// To is the URL of the next log, which the server must know.
	To string
	// Begin begins a move, if none is being made. Without it, nothing is changed.
	Begin bool
}

// MoveState is the answer to MoveCommand.
type MoveState struct {
	// Running is true while the move is being made. Title, Done and Total are its progress.
	Running     bool
	Title       string
	Done, Total int
	// Failure is why the last move has failed; "" if it has not.
	Failure string
	// Moved is what the last move has done, Nodes the number of nodes that have gone on with
	// the next log, and Last the last segment of the old one; 0 if an earlier move made it.
	Moved Migrated
	Nodes int
	Last  uint64
}

// Mover makes the move of a server. The zero Mover has made none. All methods are safe for
// concurrent use.
type Mover struct {
	mu    sync.Mutex
	state MoveState
}

// State returns how far the move is.
func (r *Mover) State() MoveState {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.state
}

// Begin begins a move from one log to another in a goroutine of run, unless one is being
// made. open returns both logs, which are closed at the end. snapshot stores a snapshot in
// the first one. A copy on the way is in a temporary folder.
func (r *Mover) Begin(ctx context.Context, a *cli.App, run func(func()), open func(context.Context) (from, to sharedlog.Log, err error), snapshot func(context.Context) error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.state.Running {
		return
	}
	r.state = MoveState{Running: true, Title: "beginning"}
	run(func() {
		m := &move{app: &app{a}, migrateOptions: migrateOptions{live: true}, snapshot: snapshot, report: func(title string, done, total int) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.state.Title, r.state.Done, r.state.Total = title, done, total
		}}
		err := m.between(ctx, open)
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.state = (MoveState{Moved: m.done, Nodes: m.nodes, Last: m.last}); err != nil {
			r.state.Failure = err.Error()
		}
	})
}

// between moves one open log to another.
func (m *move) between(ctx context.Context, open func(context.Context) (from, to sharedlog.Log, err error)) error {
	m.from, m.to = end{name: "FROM", text: "FROM"}, end{name: "TO", text: "TO"}
	first, next, err := open(ctx)
	if err != nil {
		return err
	}
	from, to := &movedLog{first, "FROM", storage.NodeID{}, m}, &movedLog{next, "TO", storage.NodeID{}, m}
	err = m.prepareLog(ctx, from, to)
	if err == nil {
		err = m.withTemporary(func(folder string) error { return m.through(ctx, from, to, folder) })
	}
	return errors.Join(err, first.Close(), next.Close())
}

// askInterval is the time between two questions to a server that makes a move.
const askInterval = 100 * time.Millisecond

// throughServer lets the server that has a folder open make the move, and waits for it.
func (m *move) throughServer(ctx context.Context, folder string) error {
	o := MoveOptions{To: m.to.text, Begin: true}
	for {
		var s MoveState
		if err := cli.Control(ctx, folder, MoveCommand, o, &s); err != nil {
			if errors.Is(err, cli.ErrNoControl) {
				err = fmt.Errorf("%w: start it with --next-log %s first, or move without --live", err, m.to.shown())
			}
			return err
		}
		if !s.Running {
			if s.Failure != "" {
				return errors.New(s.Failure)
			}
			from, to := m.done.From, m.done.To
			m.done, m.nodes, m.last = s.Moved, s.Nodes, s.Last
			m.done.From, m.done.To = from, to
			return nil
		}
		o.Begin = false
		m.line.Show(s.Title, s.Done, s.Total)
		select {
		case <-time.After(askInterval):
		case <-ctx.Done():
			return fmt.Errorf("%w: the server goes on with the move: repeat the command to see how it ends", ctx.Err())
		}
	}
}
