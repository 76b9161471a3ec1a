package node

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ostiary/ostiary/cmd/internal/cli"
	"github.com/ostiary/ostiary/internal/cluster/move"
)

// This file moves a log that only a server can reach, because it is in the data folder that
// the server has open: the server makes the move, and the command asks it how far it is.

// MoveCommand is the command of the socket of a data folder that begins a move to the log of
// --next-log, or asks how far it is.
const MoveCommand = "migrate-live"

// MoveOptions are the body of MoveCommand, whose answer is a [move.State].
type MoveOptions struct {
	// To is the URL of the next log, which the server must know.
	To string
	// Begin begins a move, if none is being made. Without it, nothing is changed.
	Begin bool
}

// askInterval is the time between two questions to a server that makes a move.
const askInterval = 100 * time.Millisecond

// throughServer lets the server that has a folder open make the move, and waits for it.
func (m *migration) throughServer(ctx context.Context, folder string) error {
	o := MoveOptions{To: m.to.text, Begin: true}
	for {
		var s move.State
		if err := cli.Control(ctx, folder, MoveCommand, o, &s); err != nil {
			if errors.Is(err, cli.ErrNoControl) {
				err = fmt.Errorf("%w: start it with --next-log %s first, or move without --live", err, m.move.To.Text)
			}
			return err
		}
		if !s.Running {
			if s.Failure != "" {
				return errors.New(s.Failure)
			}
			m.move.Done = s.Moved
			m.move.Done.Nodes, m.move.Done.Last = s.Nodes, s.Last
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
