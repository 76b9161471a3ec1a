package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/ostiary/ostiary/cmd/internal/cli"
	"github.com/ostiary/ostiary/internal/cluster/quorum"
	"github.com/ostiary/ostiary/internal/cluster/sharedlog"
	"github.com/ostiary/ostiary/storage"
	"github.com/ostiary/ostiary/storage/kv"
)

// This file opens the log in the data folder of a node of a cluster without a database. The
// node must be the only one that votes: it then has everything that the cluster has decided,
// and once it notes that the log was moved, no other node can go on.

// openNode opens the log in the folder of a node, and returns the id of the node.
func (m *move) openNode(ctx context.Context, e *end) (sharedlog.Log, storage.NodeID, error) {
	none := storage.NodeID{}
	if h := cli.ServerOf(e.node); h != nil {
		return nil, none, fmt.Errorf("%w: a server (process %d) has the folder %s open: stop it first", cli.ErrUsage, h.PID, e.node)
	}
	id, err := m.nodeOf(ctx, e)
	if err != nil {
		return nil, none, err
	}
	log, err := quorum.OpenAlone(filepath.Join(e.node, quorum.FolderName), id)
	if errors.Is(err, quorum.ErrVoters) {
		err = fmt.Errorf("%w. Name the folder of the node that is to be the last voter, after the other nodes were started again with --vote=false, one after the other, and all nodes were stopped. "+
			"If those are lost, see \"ostiary node recover\"", err)
	}
	if err != nil {
		return nil, none, fmt.Errorf("%s %s: %w", e.name, e.text, err)
	}
	return log, log.ID(), nil
}

// nodeOf returns the id that a new node in a folder must have: that of the copy that the
// folder has already, because the folder was on the log of FROM. It is zero if any will do.
// A missing folder becomes that of an empty copy.
func (m *move) nodeOf(ctx context.Context, e *end) (id storage.NodeID, err error) {
	if _, err := os.Stat(filepath.Join(e.node, quorum.FolderName)); err == nil {
		return id, nil // the node has its id
	}
	if entries, err := os.ReadDir(e.node); !m.from.isLog && (err != nil || len(entries) == 0) {
		_, err := m.OpenFolder(ctx) // FROM is missing
		return id, err
	}
	at, err := m.App.Of(e.node)
	if err != nil {
		return id, err
	}
	local, err := at.OpenCopy(ctx)
	switch {
	case errors.Is(err, kv.ErrNoCopy) && !m.from.isLog:
		return id, nil // it is FROM
	case errors.Is(err, kv.ErrNoCopy):
		return id, fmt.Errorf("TO %s has stores already, expected a new folder", e.node)
	case err != nil:
		return id, err
	}
	place, err := placeOf(local)
	return place.Node, errors.Join(err, local.Close())
}
