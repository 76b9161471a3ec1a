package serve

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/ostiary/ostiary/cmd/internal/cli"
	"github.com/ostiary/ostiary/cmd/ostiary/internal/node"
	"github.com/ostiary/ostiary/internal/cluster/move"
	"github.com/ostiary/ostiary/internal/cluster/quorum"
	"github.com/ostiary/ostiary/internal/cluster/replica"
	"github.com/ostiary/ostiary/internal/cluster/sharedlog"
	"github.com/ostiary/ostiary/storage"
	"github.com/ostiary/ostiary/storage/kv"
	"github.com/ostiary/ostiary/storage/pebble"
)

// This file lets a server move to a database while it serves. The stores of a folder without
// a log get one in the folder itself, of which the server is the only node; from then on the
// folder is moved as the log of nodes is.

// ownLog opens the log in the data folder of a server that has no other one. At the first
// call, the folder becomes a copy of it in place.
func (a *app) ownLog(ctx context.Context, key *[32]byte) (log *quorum.Alone, err error) {
	if a.Data == cli.InMemory {
		return nil, fmt.Errorf("%w: --next-log needs a data folder, expected --data FOLDER", cli.ErrUsage)
	}
	folder := filepath.Join(a.Data, quorum.FolderName)
	local, err := a.OpenFolder(ctx)
	founds := err == nil
	if errors.Is(err, kv.ErrCopy) {
		if _, statErr := os.Stat(folder); statErr != nil {
			return nil, fmt.Errorf("%w: --next-log needs the log that the folder is a copy of: expected --log (or OSTIARY_LOG)", err)
		}
		local, err = a.OpenCopy(ctx)
	}
	if err != nil {
		return nil, err
	}
	if founds {
		err = move.CheckKey(ctx, local, key)
	}
	if err == nil {
		log, err = quorum.OpenAlone(folder, storage.NodeID{})
	}
	if err == nil {
		err = found(ctx, log, local, replica.Fingerprint(key), founds)
	}
	err = errors.Join(err, local.Close())
	if err != nil && log != nil {
		err = errors.Join(err, log.Close())
	}
	return log, err
}

// found makes the folder of a server the copy of a new log, unless that was done before.
func found(ctx context.Context, log *quorum.Alone, local *pebble.Driver, key storage.Hash, adopt bool) error {
	if adopt {
		if err := replica.Adopt(ctx, log, local.Driver, key, log.ID()); err != nil {
			return fmt.Errorf("the log in the data folder: %w", err)
		}
	}
	head, err := log.Head(ctx)
	if err != nil || head.Sequence > 0 {
		return err
	}
	return replica.Found(ctx, log, local, key)
}

// addMoveCommand adds the command of the socket with which the server moves its log.
func (s *prepared) addMoveCommand(c *commands) {
	describe := func(o node.MoveOptions) string {
		if !o.Begin {
			return ""
		}
		return "to --next-log"
	}
	addCommand(c, node.MoveCommand, s.move, describe)
}

// move begins a move to --next-log, and returns how far it is.
func (s *prepared) move(_ context.Context, o node.MoveOptions) (state move.State, err error) {
	m := s.member
	switch {
	case m == nil || m.flags.next != o.To:
		return state, fmt.Errorf("%w: the server does not know TO: start it again with --next-log first, with the same URL", cli.ErrUsage)
	case m.flags.log != "":
		return state, fmt.Errorf("%w: the server has its log in a database, expected the URL of that as FROM", cli.ErrUsage)
	}
	if o.Begin {
		m.moves.Begin(m.ends, m.background.Go, &move.Move{From: move.End{Text: "FROM", Open: m.openOwn}, To: move.End{Text: "TO", Open: s.openNext}, Live: true,
			Snapshot: m.Rules.Snapshot, Temporary: node.Temporary(s.App)})
	}
	return m.moves.State(), nil
}

// openOwn connects to the log that the server keeps in its data folder.
func (m *member) openOwn(context.Context) (log sharedlog.Log, none storage.NodeID, err error) {
	if m.own != nil {
		return m.own.Connect(), none, nil
	}
	return m.Quorum.Log(), none, nil
}

// openNext opens the log of --next-log.
func (s *prepared) openNext(ctx context.Context) (log sharedlog.Log, none storage.NodeID, err error) {
	log, err = s.OpenLogOf(ctx, "--next-log", s.member.flags.next)
	return log, none, err
}
